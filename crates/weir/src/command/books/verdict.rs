//! The books for people: a sentence first, and of each exporter what one looks at.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use jiff::tz::TimeZone;
use weir_flow::books::{BooksSums, Completeness, ExporterSums};
use weir_flow::{AddressText, Counter, EXPORT_VERSION_SFLOW5};

use crate::time_args::range_text;

/// Clocks that differ by less are in step, delay of the network included.
const IN_STEP_MS: i128 = 2_000;

/// Whether anything is missing, of which time, and of how many exporters. Whatever the books say, an archive whose files are
/// gone is not complete.
pub(super) fn sentence(sums: &BooksSums, flows_gone: u64, zone: &TimeZone) -> String {
    let by_the_books = sentence_of_books(sums, zone);
    if flows_gone == 0 {
        return by_the_books;
    }
    let rest = by_the_books.strip_prefix("complete: ").unwrap_or(&by_the_books);
    format!("incomplete: {flows_gone} flows are gone with their files; else {rest}")
}

fn sentence_of_books(sums: &BooksSums, zone: &TimeZone) -> String {
    let exporters: BTreeSet<_> = sums.exporters().into_iter().filter_map(|sums| sums.address).collect();
    let Some((from_ms, until_ms)) = sums.extent_ms() else {
        return "no books: nothing was received in this time".to_owned();
    };
    let completeness = sums.completeness();
    if exporters.is_empty() && is_nothing(&completeness) {
        return format!("no exporter was heard, {}{}", range_text(from_ms, until_ms, zone), refused(sums));
    }
    let text = completeness.to_string();
    let mut lines = text.lines();
    let verdict = lines.next().filter(|line| *line != "complete").unwrap_or("complete: no loss known");
    let (count, time) = (exporters.len(), range_text(from_ms, until_ms, zone));
    let whose = if count == 1 { "1 exporter".to_owned() } else { format!("{count} exporters") };
    let rest = lines.fold(String::new(), |rest, line| rest + "\n" + line);
    format!("{verdict}, {time}, {whose}, {} flows{rest}", completeness.stored)
}

/// Whether no flow came and none is missing.
fn is_nothing(known: &Completeness) -> bool {
    known.is_complete() && known.stored == 0 && known.received == 0
}

/// What came and was not looked at: a list after a colon, or nothing.
fn refused(sums: &BooksSums) -> String {
    let totals = sums.totals();
    let counted = [
        (Counter::DatagramsNotAllowed, "datagrams of senders that are not allowed"),
        (Counter::ConnectionsRefused, "connections refused"),
        (Counter::HandshakesFailed, "handshakes failed"),
    ];
    let counted = counted.map(|(counter, what)| (totals[counter as usize], what));
    let refused: Vec<_> =
        counted.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if refused.is_empty() { String::new() } else { format!(": {}", refused.join(", ")) }
}

/// What one looks at of each exporter. What was refused before its exporter was known is none of them.
pub(super) fn table(sums: &BooksSums) -> RecordBatch {
    let rows: Vec<(ExporterSums, Completeness)> = sums
        .exporters()
        .into_iter()
        .map(|exporter| (exporter.clone(), exporter.completeness()))
        .filter(|(exporter, known)| exporter.address.is_some() || !is_nothing(known))
        .collect();
    let texts = |of: &dyn Fn(&ExporterSums, &Completeness) -> String| -> ArrayRef {
        Arc::new(rows.iter().map(|(exporter, known)| Some(of(exporter, known))).collect::<StringArray>())
    };
    let numbers = |of: &dyn Fn(&Completeness) -> u64| -> ArrayRef {
        Arc::new(rows.iter().map(|(_, known)| Some(of(known))).collect::<UInt64Array>())
    };
    let domains: UInt32Array = rows.iter().map(|(exporter, _)| exporter.domain).collect();
    let columns = [
        (
            "exporter",
            texts(&|of, _| of.address.as_ref().map_or_else(|| "unknown".to_owned(), |of| AddressText(of).to_string())),
        ),
        ("protocol", texts(&|of, _| protocol(of.version))),
        ("domain", Arc::new(domains) as ArrayRef),
        ("flows", numbers(&|known| known.stored)),
        ("lost", numbers(&|known| known.missing)),
        ("dropped", numbers(&|known| known.dropped_datagrams)),
        ("undecodable", numbers(&|known| known.undecodable_datagrams.saturating_add(known.undecodable_sets))),
        ("complete", texts(&|_, known| share(known))),
        ("clock", texts(&|of, _| clock(of))),
    ];
    match RecordBatch::try_from_iter(columns) {
        Ok(table) => table,
        Err(error) => unreachable!("every column has a value in each row: {error}"),
    }
}

fn protocol(version: Option<u8>) -> String {
    match version {
        None => "-".to_owned(),
        Some(10) => "IPFIX".to_owned(),
        Some(EXPORT_VERSION_SFLOW5) => "sFlow 5".to_owned(),
        Some(version) => format!("NetFlow v{version}"),
    }
}

fn share(known: &Completeness) -> String {
    let share = known.share();
    match (known.is_complete(), known.is_estimate()) {
        (true, _) if known.unsequenced_datagrams > 0 => "not known".to_owned(),
        (true, _) => "100 %".to_owned(),
        (false, true) => format!("about {}.{:02} %", share / 100, share % 100),
        (false, false) => format!("{}.{:02} %", share / 100, share % 100),
    }
}

/// How far the clock of an exporter is from ours on the average.
fn clock(of: &ExporterSums) -> String {
    let count = |counter: Counter| i128::from(of.counts[counter as usize]);
    let datagrams = count(Counter::DatagramsDecoded);
    if datagrams == 0 {
        return "-".to_owned();
    }
    let ahead_ms = (count(Counter::ClockAheadMs) - count(Counter::ClockBehindMs)) / datagrams;
    if ahead_ms.abs() < IN_STEP_MS {
        return "in step".to_owned();
    }
    format!("{} {}", span(ahead_ms.unsigned_abs()), if ahead_ms > 0 { "ahead" } else { "behind" })
}

/// Milliseconds in the unit that people take, rounded to the nearest whole one.
fn span(ms: u128) -> String {
    let in_units_of = |unit_ms: u128| (ms + unit_ms / 2) / unit_ms;
    match in_units_of(1_000) {
        secs @ 0..120 => format!("{secs} s"),
        120..7_200 => format!("{} min", in_units_of(60_000)),
        7_200..86_000 => format!("{} h", in_units_of(3_600_000)),
        // the sums have a day each at most
        _ => "a day or more".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_of_a_clock_is_rounded() {
        for (ms, text) in [
            (2_499, "2 s"),
            (119_400, "119 s"),
            (119_600, "2 min"),
            (209_000, "3 min"),
            (210_000, "4 min"),
            (7_199_400, "120 min"),
            (7_200_000, "2 h"),
            (28_799_740, "8 h"),
            (86_400_000, "a day or more"),
        ] {
            assert_eq!(span(ms), text, "{ms} ms");
        }
    }
}
