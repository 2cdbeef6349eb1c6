//! Findings about an exporter by its books, when nobody listens to it any more.
//!
//! The books count what happened and not how: units of sequence numbers and what templates look like are known only to whoever
//! decodes, and of clocks there is a mean. So these findings are fewer than those of a [`Doctor`](super::Doctor), and have the same remedies.

use std::net::IpAddr;

use weir_flow::Counter;
use weir_flow::books::{ExporterSums, sets_waiting};

use super::exporters::{CLOCK_OFF_MS, duration, is_larger_share};
use super::{Finding, FindingKind};

/// Loss of one datagram or record in this many is an error; less is a warning.
const LOSS_ONE_IN: u64 = 100;
/// Restarts from which on they are many.
const RESTARTS_MANY: u64 = 3;
/// What the books have of one datagram's clock at most, milliseconds.
const OFFSET_MS_MAX: i64 = 86_400_000;

/// Judges the books of an exporter.
pub fn examine_books(sums: &ExporterSums) -> Vec<Finding> {
    let of = |counter: Counter| sums.counts[counter as usize];
    let address = sums.address.as_deref().and_then(|octets| match octets.len() {
        4 => <[u8; 4]>::try_from(octets).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(octets).ok().map(IpAddr::from),
    });
    let mut findings = Vec::new();
    let mut find = |kind: FindingKind, count: u64, what: &str| {
        if count > 0 {
            let evidence = format!("{count} {what}, {} datagrams received", of(Counter::Datagrams));
            findings.push(Finding::new(kind, address, sums.domain, evidence));
        }
    };
    find(FindingKind::KernelDrops, of(Counter::KernelDrops), "datagrams dropped by the kernel");
    find(
        FindingKind::QueueDrops,
        of(Counter::QueueDrops),
        "datagrams dropped because the queue to the decoder was full",
    );
    find(FindingKind::ExportersRefused, of(Counter::DatagramsRefused), "datagrams of new exporters refused");
    find(FindingKind::OverRate, of(Counter::DatagramsOverRate), "datagrams over the limit on each source");
    let missing = |lost: Counter, late: Counter, came: Counter| (of(lost).saturating_sub(of(late)), of(came));
    let records = missing(Counter::RecordsLost, Counter::RecordsLate, Counter::RecordsStored);
    let datagrams = missing(Counter::DatagramsLost, Counter::DatagramsLate, Counter::DatagramsDecoded);
    let samples = missing(Counter::SamplesLost, Counter::SamplesLate, Counter::RecordsStored);
    // samples of datagrams that did not come are missing by both numbers
    let of_datagrams = if is_larger_share(samples, datagrams) {
        (samples, "flow samples did not come")
    } else {
        (datagrams, "datagrams did not come")
    };
    for ((lost, came), what) in [(records, "records did not come"), of_datagrams] {
        let is_much = lost.saturating_mul(LOSS_ONE_IN) >= came.saturating_add(lost);
        find(if is_much { FindingKind::Loss } else { FindingKind::LossLittle }, lost, what);
    }
    find(FindingKind::SequenceErratic, of(Counter::DatagramsUnsequenced), "datagrams without a useful sequence number");
    find(FindingKind::Duplicates, of(Counter::DatagramsDuplicate), "datagrams came twice");
    let resets = of(Counter::SequenceResets);
    find(if resets >= RESTARTS_MANY { FindingKind::RestartsOften } else { FindingKind::Restarted }, resets, "restarts");
    let without = of(Counter::SetsExpired).saturating_add(sets_waiting(&sums.counts));
    find(FindingKind::TemplatesMissing, without, "Data Sets without their template");
    find(FindingKind::TemplatesChange, of(Counter::TemplatesChanged), "changes of templates");
    find(FindingKind::TemplatesRefused, of(Counter::TemplatesRefused), "templates refused");
    let broken = of(Counter::DatagramsUndecodable).saturating_add(of(Counter::SetsUndecodable));
    find(FindingKind::Undecodable, broken, "datagrams and sets that contradict themselves");
    let off = clock_off(sums).map(|evidence| Finding::new(FindingKind::ClockOff, address, sums.domain, evidence));
    findings.extend(off);
    findings
}

/// How far the clock of an exporter is from ours, where that is far.
fn clock_off(sums: &ExporterSums) -> Option<String> {
    let of = |counter: Counter| i128::from(sums.counts[counter as usize]);
    let datagrams = of(Counter::DatagramsDecoded);
    let ahead_ms = (of(Counter::ClockAheadMs) - of(Counter::ClockBehindMs)).checked_div(datagrams)?;
    let off_ms = i64::try_from(ahead_ms.unsigned_abs()).unwrap_or(i64::MAX);
    (off_ms > CLOCK_OFF_MS).then(|| {
        let side = if ahead_ms < 0 { "behind" } else { "ahead of" };
        let span = if off_ms >= OFFSET_MS_MAX { "a day or more".to_owned() } else { duration(off_ms) };
        format!("the exporter's clock is {span} {side} ours, as a mean over {datagrams} datagrams")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(values: &[(Counter, u64)]) -> Vec<Finding> {
        let mut counts = [0; Counter::COUNT];
        for (counter, value) in values {
            counts[*counter as usize] = *value;
        }
        let sums =
            ExporterSums { address: Some(vec![192, 0, 2, 1]), domain: Some(7), version: None, counts, last_ms: None };
        examine_books(&sums)
    }

    fn kinds(values: &[(Counter, u64)]) -> Vec<FindingKind> {
        findings(values).iter().map(|finding| finding.kind).collect()
    }

    #[test]
    fn a_clock_that_is_off_is_found_by_its_mean() {
        use Counter::{ClockAheadMs, ClockBehindMs, DatagramsDecoded};
        let evidence = |values: &[(Counter, u64)]| match &findings(values)[..] {
            [finding] if finding.kind == FindingKind::ClockOff => finding.evidence.clone(),
            others => panic!("{others:?}"),
        };
        assert_eq!(
            evidence(&[(DatagramsDecoded, 2), (ClockAheadMs, 2 * 86_400_000)]),
            "the exporter's clock is a day or more ahead of ours, as a mean over 2 datagrams"
        );
        assert_eq!(
            evidence(&[(DatagramsDecoded, 10), (ClockBehindMs, 200_000)]),
            "the exporter's clock is 20.0 s behind ours, as a mean over 10 datagrams"
        );
        // 7 h 59 min 59.74 s
        assert_eq!(
            evidence(&[(DatagramsDecoded, 2), (ClockBehindMs, 2 * 28_799_740)]),
            "the exporter's clock is 8 h behind ours, as a mean over 2 datagrams"
        );
        assert_eq!(kinds(&[(DatagramsDecoded, 10), (ClockBehindMs, 100_000)]), []);
        assert_eq!(kinds(&[(ClockAheadMs, 0)]), []);
    }

    #[test]
    fn books_show_what_is_wrong() {
        use Counter::{DatagramsLate, DatagramsLost, RecordsLost, RecordsStored, SequenceResets, SetsWaitingIn};
        assert_eq!(kinds(&[(RecordsStored, 1000)]), []);
        assert_eq!(kinds(&[(RecordsStored, 1000), (RecordsLost, 11)]), [FindingKind::Loss]);
        assert_eq!(kinds(&[(RecordsStored, 1000), (RecordsLost, 5)]), [FindingKind::LossLittle]);
        assert_eq!(kinds(&[(DatagramsLost, 5), (DatagramsLate, 5)]), [], "late is not lost");
        assert_eq!(kinds(&[(RecordsStored, 1000), (Counter::SamplesLost, 11)]), [FindingKind::Loss]);
        assert_eq!(kinds(&[(DatagramsLost, 2), (Counter::SamplesLost, 11)]), [FindingKind::Loss], "the same loss");
        // of samples more is missing than the datagrams explain
        let one_datagram = [(DatagramsLost, 1), (Counter::DatagramsDecoded, 999_999)];
        let samples = [(Counter::SamplesLost, 50), (RecordsStored, 950)];
        let found = findings(&[one_datagram, samples].concat());
        let found: Vec<_> = found.iter().map(|finding| (finding.kind, finding.evidence.as_str())).collect();
        assert_eq!(found, [(FindingKind::Loss, "50 flow samples did not come, 0 datagrams received")]);
        let more_datagrams = [(DatagramsLost, 60), (Counter::DatagramsDecoded, 940)];
        let evidence = &findings(&[more_datagrams, samples].concat())[0].evidence;
        assert_eq!(evidence, "60 datagrams did not come, 0 datagrams received");
        assert_eq!(kinds(&[(RecordsStored, 1000), (Counter::CounterSamplesLost, 11)]), [], "no flow is missing");
        assert_eq!(kinds(&[(SequenceResets, 1)]), [FindingKind::Restarted]);
        assert_eq!(
            kinds(&[(SequenceResets, 3), (SetsWaitingIn, 2)]),
            [FindingKind::RestartsOften, FindingKind::TemplatesMissing]
        );
    }
}
