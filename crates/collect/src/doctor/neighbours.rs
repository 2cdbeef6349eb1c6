//! Findings about several Observation Domains of one exporter.

use std::collections::BTreeMap;

use weir_flow::Counter;

use super::exporters::missing;
use super::{Ailment, Finding};
use crate::inspection::Diagnosis;

/// Datagrams of each domain from which on a pattern is no accident.
const DATAGRAMS_MIN: u64 = 8;

/// Judges the domains of each transport session together.
pub(super) fn judge(diagnoses: &[Diagnosis]) -> Vec<Finding> {
    let mut sessions: BTreeMap<_, Vec<&Diagnosis>> = BTreeMap::new();
    for diagnosis in diagnoses.iter().filter(|d| d.total(Counter::DatagramsDecoded) >= DATAGRAMS_MIN) {
        sessions
            .entry((diagnosis.session.transport, diagnosis.source(), diagnosis.version))
            .or_default()
            .push(diagnosis);
    }
    sessions.values().filter_map(|domains| shared(domains)).collect()
}

/// One sequence for all domains: what each seems to miss is what the others have.
fn shared(domains: &[&Diagnosis]) -> Option<Finding> {
    let all: u64 = domains.iter().map(|domain| missing(domain).1).sum();
    let explained = domains.iter().all(|domain| {
        let (missing, came, _) = missing(domain);
        let others = all - came;
        // what the others sent before this domain's first datagram and after its last is not missed
        missing > 0 && missing <= others && missing * 4 >= others * 3
    });
    let first = domains.first()?;
    (domains.len() > 1 && explained).then(|| {
        let evidence = format!("{} Observation Domains, and each misses about what the others send", domains.len());
        Finding::new(Ailment::SequenceShared, Some(first.source().ip().to_canonical()), None, evidence)
    })
}
