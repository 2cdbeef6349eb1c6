//! Findings about one Observation Domain, and about this machine.

use std::fmt::Write as _;

use weir_flow::Counter;

use super::{Finding, FindingKind, Machine};
use crate::inspection::{Diagnosis, Range, SamplingDiagnosis, SequenceDiagnosis};
use crate::sequence::SequenceUnit;

/// Loss of one unit in this many is an error; less is a warning.
const LOSS_ONE_IN: u64 = 100;
/// Reordering of one datagram in this many is worth a hint.
const REORDERED_ONE_IN: u64 = 100;
/// Restarts from which on they are many.
const RESTARTS_MANY: u64 = 3;
/// A clock is off by no less, milliseconds: less is not distinguished from export times of whole seconds and delays.
pub(super) const CLOCK_OFF_MS: i64 = 10_000;
/// A clock jumps by no less, milliseconds.
const CLOCK_JUMP_MS: i64 = 60_000;
/// Templates are to come this often, milliseconds: twice the usual default of routers, which is 10 to 30 minutes.
const TEMPLATE_INTERVAL_MS: i64 = 3_600_000;
/// Data Sets that may wait at the start.
const TEMPLATES_CHANGED_MIN: u64 = 3;
/// Moves of the exporter's start that no restart explains.
const STARTS_MOVED_MIN: u64 = 3;

/// Judges what belongs to no exporter.
pub(super) fn judge_machine(machine: &Machine) -> Vec<Finding> {
    let of = |counter: Counter| machine.totals[counter as usize];
    let received = of(Counter::Datagrams);
    let mut findings = Vec::new();
    // of a capture without exports nothing is to be said
    let cut = if machine.datagrams > 0 { machine.datagrams_truncated } else { machine.exports_truncated };
    let counts = [
        (
            FindingKind::KernelDrops,
            of(Counter::KernelDrops),
            "dropped by the kernel because the socket buffer was full",
        ),
        (FindingKind::QueueDrops, of(Counter::QueueDrops), "dropped because the queue to the decoder was full"),
        (FindingKind::ExportersRefused, of(Counter::DatagramsRefused), "of new exporters refused"),
        (FindingKind::OverRate, of(Counter::DatagramsOverRate), "over the limit on each source dropped"),
        (FindingKind::CutShort, cut, "of the capture, exports or others, cut short or without all fragments"),
        (FindingKind::InTunnels, machine.exports_tunneled, "of exports in tunnels, which are not read"),
    ];
    for (kind, count, what) in counts.into_iter().filter(|(_, count, _)| *count > 0) {
        let evidence = format!("{count} datagrams {what}, {received} received");
        findings.push(Finding::new(kind, None, None, evidence));
    }
    if machine.messages_longer > 0 {
        let evidence = format!("{} messages have octets behind their end", machine.messages_longer);
        findings.push(Finding::new(FindingKind::Longer, None, None, evidence));
    }
    findings
}

/// Judges one Observation Domain.
pub(super) fn judge(diagnosis: &Diagnosis) -> Vec<Finding> {
    let found = [
        loss(diagnosis),
        reordered(diagnosis),
        duplicates(diagnosis),
        unit(diagnosis),
        restarts(diagnosis),
        collision(diagnosis),
        uptime(diagnosis),
        clock_off(diagnosis),
        clock_jumps(diagnosis),
        templates_missing(diagnosis),
        templates_slow(diagnosis),
        templates_change(diagnosis),
        templates_refused(diagnosis),
        sampling_changed(diagnosis),
        sampling_unmatched(diagnosis),
        undecodable(diagnosis),
        foreign(diagnosis),
    ];
    let (exporter, domain) = (diagnosis.source().ip().to_canonical(), diagnosis.domain);
    let findings = found.into_iter().flatten();
    findings.map(|(kind, evidence)| Finding::new(kind, Some(exporter), Some(domain), evidence)).collect()
}

type Found = Option<(FindingKind, String)>;

/// What is missing of an Observation Domain by its sequence numbers, how much of it came, and in which unit.
pub(super) fn missing(diagnosis: &Diagnosis) -> (u64, u64, &'static str) {
    let of = |counter| diagnosis.total(counter);
    let records = of(Counter::RecordsLost).saturating_sub(of(Counter::RecordsLate));
    let datagrams = of(Counter::DatagramsLost).saturating_sub(of(Counter::DatagramsLate));
    match diagnosis.sequence.unit_found {
        SequenceUnit::Datagrams => (datagrams, of(Counter::DatagramsDecoded), "datagrams"),
        _ => (records, of(Counter::RecordsStored) + of(Counter::RecordsOptions), "records"),
    }
}

/// What is missing of flow samples of sFlow, by the numbers of their sources, and how many came.
fn missing_samples(diagnosis: &Diagnosis) -> (u64, u64, &'static str) {
    let of = |counter| diagnosis.total(counter);
    let samples = of(Counter::SamplesLost).saturating_sub(of(Counter::SamplesLate));
    (samples, of(Counter::RecordsStored), "flow samples")
}

/// Whether what is missing is a larger share than another, of what is missing and what came.
pub(super) fn is_larger_share((missing, came): (u64, u64), (other_missing, other_came): (u64, u64)) -> bool {
    // nothing is missing where there is nothing
    let all = |missing: u64, came: u64| (u128::from(missing) + u128::from(came)).max(1);
    let product = |missing: u64, all: u128| u128::from(missing).saturating_mul(all);
    product(missing, all(other_missing, other_came)) > product(other_missing, all(missing, came))
}

fn loss(diagnosis: &Diagnosis) -> Found {
    // samples of datagrams that did not come are missing by both numbers
    let (of_sequence, of_samples) = (missing(diagnosis), missing_samples(diagnosis));
    let has_more_samples = is_larger_share((of_samples.0, of_samples.1), (of_sequence.0, of_sequence.1));
    let (missing, came, unit) = if has_more_samples { of_samples } else { of_sequence };
    let kind = if missing * LOSS_ONE_IN >= missing + came { FindingKind::Loss } else { FindingKind::LossLittle };
    let share = 100.0 * missing as f64 / (missing + came).max(1) as f64;
    (missing > 0).then(|| (kind, format!("{missing} of {} {unit} missing ({share:.2} %)", missing + came)))
}

fn reordered(diagnosis: &Diagnosis) -> Found {
    let (some, all) = (diagnosis.total(Counter::DatagramsReordered), diagnosis.total(Counter::DatagramsDecoded));
    let many = some > 0 && some * REORDERED_ONE_IN >= all;
    many.then(|| (FindingKind::Reordered, format!("{some} of {all} datagrams came after later ones")))
}

fn duplicates(diagnosis: &Diagnosis) -> Found {
    let (some, all) = (diagnosis.total(Counter::DatagramsDuplicate), diagnosis.total(Counter::Datagrams));
    (some > 0).then(|| (FindingKind::Duplicates, format!("{some} of {all} datagrams came again, octet for octet")))
}

fn unit(diagnosis: &Diagnosis) -> Found {
    let SequenceDiagnosis { unit_expected, unit_found, strays, .. } = diagnosis.sequence;
    let datagrams = diagnosis.total(Counter::DatagramsDecoded);
    if unit_expected == unit_found {
        return None;
    }
    Some(match unit_found {
        SequenceUnit::Nothing => {
            (FindingKind::SequenceStuck, format!("the sequence number stays the same over {datagrams} datagrams"))
        }
        SequenceUnit::Unknown => {
            (FindingKind::SequenceErratic, format!("{strays} of {datagrams} numbers fit no sequence"))
        }
        found => (
            FindingKind::SequenceUnit,
            format!("the numbers count {}, the standard {}", found.name(), unit_expected.name()),
        ),
    })
}

fn restarts(diagnosis: &Diagnosis) -> Found {
    let resets = diagnosis.total(Counter::SequenceResets);
    let kind = if resets >= RESTARTS_MANY { FindingKind::RestartsOften } else { FindingKind::Restarted };
    (resets > 0).then(|| (kind, format!("the sequence restarted {resets} times")))
}

fn collision(diagnosis: &Diagnosis) -> Found {
    let SequenceDiagnosis { unit_found, strays, interleaved, .. } = diagnosis.sequence;
    let all = diagnosis.total(Counter::DatagramsDecoded);
    (interleaved >= 4 && interleaved * 5 >= all && unit_found.shows_loss()).then(|| {
        let evidence = format!("two sequences of numbers alternate: {strays} of {all} datagrams are of the second");
        (FindingKind::DomainCollision, evidence)
    })
}

fn uptime(diagnosis: &Diagnosis) -> Found {
    let unexplained = diagnosis.starts_moved.saturating_sub(diagnosis.total(Counter::SequenceResets));
    (unexplained >= STARTS_MOVED_MIN).then(|| {
        let all = diagnosis.total(Counter::DatagramsDecoded);
        (
            FindingKind::UptimeInconsistent,
            format!("export time less uptime moved {unexplained} times in {all} datagrams"),
        )
    })
}

fn clock_off(diagnosis: &Diagnosis) -> Found {
    let Range { min, max, .. } = known_offset(diagnosis)?;
    // Delays make a clock look behind: the datagram that came fastest is the best measure.
    let off_ms = if max < -CLOCK_OFF_MS { max } else { min };
    let is_off = max < -CLOCK_OFF_MS || min > CLOCK_OFF_MS;
    is_off.then(|| {
        let side = if off_ms < 0 { "behind" } else { "ahead of" };
        (FindingKind::ClockOff, format!("the exporter's clock is {} {side} ours", duration(off_ms.abs())))
    })
}

fn clock_jumps(diagnosis: &Diagnosis) -> Found {
    let Range { min, max, .. } = known_offset(diagnosis)?;
    let width_ms = max.saturating_sub(min);
    (width_ms > CLOCK_JUMP_MS).then(|| {
        let evidence = format!("export time less time of reception varies by {}", duration(width_ms));
        (FindingKind::ClockJumps, evidence)
    })
}

/// The clock's offset, where a capture has times at all.
fn known_offset(diagnosis: &Diagnosis) -> Option<Range> {
    diagnosis.clock_offset_ms.filter(|_| diagnosis.received_ms.max > 0)
}

fn templates_missing(diagnosis: &Diagnosis) -> Found {
    let waiting = weir_flow::books::sets_waiting(&diagnosis.totals);
    let expired = diagnosis.total(Counter::SetsExpired);
    let listened_ms = diagnosis.received_ms.max - diagnosis.received_ms.min;
    (waiting + expired > 0).then(|| {
        let templates = diagnosis.total(Counter::Templates);
        let evidence = format!(
            "{waiting} Data Sets wait and {expired} were dropped in {}; {templates} templates came",
            duration(listened_ms)
        );
        (FindingKind::TemplatesMissing, evidence)
    })
}

fn templates_slow(diagnosis: &Diagnosis) -> Found {
    let of_templates = diagnosis.total(Counter::Templates) > 0 && diagnosis.session.transport.is_datagrams();
    let interval_ms = diagnosis.template_interval_max_ms;
    (of_templates && interval_ms > TEMPLATE_INTERVAL_MS)
        .then(|| (FindingKind::TemplatesSlow, format!("no template for {}", duration(interval_ms))))
}

fn templates_change(diagnosis: &Diagnosis) -> Found {
    let (changed, all) = (diagnosis.templates_changed, diagnosis.total(Counter::Templates));
    (changed >= TEMPLATES_CHANGED_MIN && changed * 4 >= all).then(|| {
        (FindingKind::TemplatesChange, format!("{changed} of {all} templates gave an ID other fields than before"))
    })
}

fn templates_refused(diagnosis: &Diagnosis) -> Found {
    let refused = diagnosis.total(Counter::TemplatesRefused);
    (refused > 0).then(|| (FindingKind::TemplatesRefused, format!("{refused} templates refused")))
}

fn sampling_changed(diagnosis: &Diagnosis) -> Found {
    let SamplingDiagnosis { changes, interval, .. } = diagnosis.sampling;
    let now = interval.map_or_else(String::new, |interval| format!(", now 1 in {interval}"));
    (changes > 0).then(|| (FindingKind::SamplingChanged, format!("it changed {changes} times{now}")))
}

fn sampling_unmatched(diagnosis: &Diagnosis) -> Found {
    let SamplingDiagnosis { unmatched, incomparable_reports, .. } = diagnosis.sampling;
    let of_parts = || format!("sampling rates of parts that no flow names: {unmatched}");
    let others = || {
        let what = "sampling rates of what no flow can be compared with, reported";
        format!("{what} {incomparable_reports} times")
    };
    let evidence = match (unmatched, incomparable_reports) {
        (0, 0) => return None,
        (_, 0) => of_parts(),
        (0, _) => others(),
        _ => format!("{}; {}", of_parts(), others()),
    };
    Some((FindingKind::SamplingUnmatched, evidence))
}

fn undecodable(diagnosis: &Diagnosis) -> Found {
    let sets = diagnosis.total(Counter::SetsUndecodable);
    let reasons = [
        (Counter::ErrorsLength, "a length does not agree"),
        (Counter::ErrorsTemplate, "a template makes no sense"),
        (Counter::ErrorsRecord, "a record reaches past its set"),
    ];
    let mut evidence = format!("{sets} errors in {} datagrams", diagnosis.total(Counter::DatagramsDecoded));
    for (counter, what) in reasons {
        let count = diagnosis.total(counter);
        if count > 0 {
            // writing to a text does not fail
            let _ = write!(evidence, "; {what}: {count}");
        }
    }
    (sets > 0).then_some((FindingKind::Undecodable, evidence))
}

fn foreign(diagnosis: &Diagnosis) -> Found {
    let count = diagnosis.total(Counter::DatagramsUndecodable);
    let octets: Vec<_> = diagnosis.foreign.iter().map(|octet| format!("{octet:02x}")).collect();
    let guess = match diagnosis.foreign.as_slice() {
        [0, 0, 0, 2 | 4 | 5, ..] => " (looks like sFlow)",
        [0, 8, ..] => " (looks like NetFlow v8)",
        [0, 1 | 5 | 7 | 9 | 10, ..] => " (the header is cut short)",
        [b'<', b'0'..=b'9', ..] => " (looks like syslog)",
        [0x30, ..] => " (looks like SNMP)",
        _ => "",
    };
    (count > 0).then(|| {
        (FindingKind::Foreign, format!("{count} datagrams, the first begins with {}{guess}", octets.join(" ")))
    })
}

/// Milliseconds for people, rounded.
pub(super) fn duration(ms: i64) -> String {
    let in_units_of = |unit_ms: i64| ms.saturating_add(unit_ms / 2) / unit_ms;
    match ms / 1000 {
        0..120 => format!("{}.{} s", in_units_of(100) / 10, in_units_of(100) % 10),
        120..7_200 => format!("{} min", in_units_of(60_000)),
        7_200..172_800 => format!("{} h", in_units_of(3_600_000)),
        _ => format!("{} days", in_units_of(86_400_000)),
    }
}
