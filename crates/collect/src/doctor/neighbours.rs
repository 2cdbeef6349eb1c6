//! Findings about several Observation Domains of one exporter, or one domain from several ports.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use weir_flow::Counter;
use weir_flow::books::sets_waiting;

use super::exporters::missing;
use super::{Finding, FindingKind};
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
    sessions.values().filter_map(|domains| shared(domains)).chain(templates_elsewhere(diagnoses)).collect()
}

/// Data that lacks its template, of exporters that send templates of the same domain from another port.
fn templates_elsewhere(diagnoses: &[Diagnosis]) -> impl Iterator<Item = Finding> {
    let key = |diagnosis: &Diagnosis| -> (IpAddr, u32, u8) {
        (diagnosis.source().ip().to_canonical(), diagnosis.domain, diagnosis.version)
    };
    let has_templates = |diagnosis: &&Diagnosis| diagnosis.total(Counter::Templates) > 0;
    let is_datagrams = |diagnosis: &&Diagnosis| diagnosis.session.transport.is_datagrams();
    let told: BTreeSet<_> = diagnoses.iter().filter(is_datagrams).filter(has_templates).map(key).collect();
    let lacking = diagnoses.iter().filter(is_datagrams).filter(move |diagnosis| !has_templates(diagnosis));
    lacking.filter_map(move |diagnosis| {
        let (address, domain, _) = key(diagnosis);
        let sets = sets_waiting(&diagnosis.totals) + diagnosis.total(Counter::SetsExpired);
        (sets > 0 && told.contains(&key(diagnosis))).then(|| {
            let evidence = format!(
                "{sets} Data Sets from port {} lack their template, and another port of the exporter sends templates of \
                 the same Observation Domain",
                diagnosis.source().port()
            );
            Finding::new(FindingKind::TemplatesElsewhere, Some(address), Some(domain), evidence)
        })
    })
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
        Finding::new(FindingKind::SequenceShared, Some(first.source().ip().to_canonical()), None, evidence)
    })
}
