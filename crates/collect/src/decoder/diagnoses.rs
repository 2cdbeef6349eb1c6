//! What was seen of Observation Domains, where sessions end before they are judged.
//!
//! The place of a domain whose session has ended is given to another, and holds what was there before until then. So a domain
//! is judged by what was seen of it when its session ended, and not by what is in the table at the end.

use super::Decoder;
use crate::domain::DomainStatus;
use crate::inspection::Diagnosis;
use crate::session::Session;

/// Ends a session, as [`Decoder::end_session`] does. Returns what was seen of its Observation Domains, of so many at most, and
/// how many more there were. Costs as much as the session has domains.
pub(crate) fn end_session(
    decoder: &mut Decoder,
    session: Session,
    now_ms: i64,
    diagnoses_max: usize,
) -> (Vec<Diagnosis>, usize) {
    let ended = decoder.exporters.end_session(session, now_ms);
    let diagnoses: Vec<Diagnosis> = ended.iter().take(diagnoses_max).map(|&index| diagnosis(decoder, index)).collect();
    let left_out = ended.len() - diagnoses.len();
    (diagnoses, left_out)
}

/// What was seen of each Observation Domain whose session has not ended. Costs as much as there are domains.
pub(crate) fn of_open_sessions(decoder: &Decoder) -> Vec<Diagnosis> {
    let domains = decoder.exporters.domains.table().iter().zip(0..);
    let open = domains.filter(|(domain, _)| domain.activity.status != DomainStatus::Ended);
    open.map(|(_, index)| diagnosis(decoder, index)).collect()
}

fn diagnosis(decoder: &Decoder, index: u32) -> Diagnosis {
    let exporters = &decoder.exporters;
    Diagnosis::of(&exporters.domains[index], &exporters.books.ledger.totals_of(index))
}
