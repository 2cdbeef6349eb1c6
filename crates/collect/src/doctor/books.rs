//! Findings about an exporter by its books, when nobody listens to it any more.
//!
//! The books count what happened and not how: clocks, units of sequence numbers and what templates look like are known only
//! to whoever decodes. So these findings are fewer than those of a [`Doctor`](super::Doctor), and have the same remedies.

use std::net::IpAddr;

use weir_flow::Counter;
use weir_flow::books::{ExporterSums, sets_waiting};

use super::{Ailment, Finding};

/// Loss of one datagram or record in this many is an error; less is a warning.
const LOSS_ONE_IN: u64 = 100;
/// Restarts from which on they are many.
const RESTARTS_MANY: u64 = 3;

/// Judges the books of an exporter.
pub fn examine_books(sums: &ExporterSums) -> Vec<Finding> {
    let of = |counter: Counter| sums.counts[counter as usize];
    let address = sums.address.as_deref().and_then(|octets| match octets.len() {
        4 => <[u8; 4]>::try_from(octets).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(octets).ok().map(IpAddr::from),
    });
    let mut findings = Vec::new();
    let mut find = |ailment: Ailment, count: u64, what: &str| {
        if count > 0 {
            let evidence = format!("{count} {what}, {} datagrams received", of(Counter::Datagrams));
            findings.push(Finding::new(ailment, address, sums.domain, evidence));
        }
    };
    find(Ailment::KernelDrops, of(Counter::KernelDrops), "datagrams dropped by the kernel");
    find(Ailment::QueueDrops, of(Counter::QueueDrops), "datagrams dropped because the queue to the decoder was full");
    find(Ailment::ExportersRefused, of(Counter::DatagramsRefused), "datagrams of new exporters refused");
    find(Ailment::OverRate, of(Counter::DatagramsOverRate), "datagrams over the limit on each source");
    let pairs = [
        (Counter::RecordsLost, Counter::RecordsLate, Counter::RecordsStored, "records did not come"),
        (Counter::DatagramsLost, Counter::DatagramsLate, Counter::DatagramsDecoded, "datagrams did not come"),
    ];
    for (lost, late, came, what) in pairs {
        let lost = of(lost).saturating_sub(of(late));
        let is_much = lost.saturating_mul(LOSS_ONE_IN) >= of(came).saturating_add(lost);
        find(if is_much { Ailment::Loss } else { Ailment::LossLittle }, lost, what);
    }
    find(Ailment::SequenceErratic, of(Counter::DatagramsUnsequenced), "datagrams without a useful sequence number");
    find(Ailment::Duplicates, of(Counter::DatagramsDuplicate), "datagrams came twice");
    let resets = of(Counter::SequenceResets);
    find(if resets >= RESTARTS_MANY { Ailment::RestartsOften } else { Ailment::Restarted }, resets, "restarts");
    let without = of(Counter::SetsExpired).saturating_add(sets_waiting(&sums.counts));
    find(Ailment::TemplatesMissing, without, "Data Sets without their template");
    find(Ailment::TemplatesChange, of(Counter::TemplatesChanged), "changes of templates");
    find(Ailment::TemplatesRefused, of(Counter::TemplatesRefused), "templates refused");
    let broken = of(Counter::DatagramsUndecodable).saturating_add(of(Counter::SetsUndecodable));
    find(Ailment::Undecodable, broken, "datagrams and sets that contradict themselves");
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ailments(values: &[(Counter, u64)]) -> Vec<Ailment> {
        let mut counts = [0; Counter::COUNT];
        for (counter, value) in values {
            counts[*counter as usize] = *value;
        }
        let sums =
            ExporterSums { address: Some(vec![192, 0, 2, 1]), domain: Some(7), version: None, counts, last_ms: None };
        examine_books(&sums).iter().map(|finding| finding.ailment).collect()
    }

    #[test]
    fn books_show_what_is_wrong() {
        use Counter::{DatagramsLate, DatagramsLost, RecordsLost, RecordsStored, SequenceResets, SetsWaitingIn};
        assert_eq!(ailments(&[(RecordsStored, 1000)]), []);
        assert_eq!(ailments(&[(RecordsStored, 1000), (RecordsLost, 11)]), [Ailment::Loss]);
        assert_eq!(ailments(&[(RecordsStored, 1000), (RecordsLost, 5)]), [Ailment::LossLittle]);
        assert_eq!(ailments(&[(DatagramsLost, 5), (DatagramsLate, 5)]), [], "late is not lost");
        assert_eq!(ailments(&[(SequenceResets, 1)]), [Ailment::Restarted]);
        assert_eq!(
            ailments(&[(SequenceResets, 3), (SetsWaitingIn, 2)]),
            [Ailment::RestartsOften, Ailment::TemplatesMissing]
        );
    }
}
