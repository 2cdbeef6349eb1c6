//! What commands print about a chain that has ended.

use std::fmt::Display;

use weir_chain::Progress;
use weir_chain::run::ComponentProgress;
use weir_flow::Counter;
use weir_wire::WireError;

use crate::running::was_stopped;

/// Sums over datagrams, which mean something only when they are divided by their number.
pub(super) const CLOCKS: [Counter; 2] = [Counter::ClockAheadMs, Counter::ClockBehindMs];

const CLOCK_MEAN_DOC: &str = "Milliseconds by which clocks of exporters were ahead of ours, delay included, as a mean over \
                              `datagrams_decoded`; negative when they were behind.";

/// Prints the counters of the books that are not zero, and errors of decoding by kind.
pub(crate) fn print_books(progress: &Progress, block: &str) {
    let Some(block) = progress.component(block) else { return };
    for &counter in Counter::ALL.iter().filter(|counter| !CLOCKS.contains(counter)) {
        let total = block.counter(counter.name());
        if total > 0 {
            eprintln!("  {:<22} {total:>14}  {}", counter.name(), counter.doc());
        }
    }
    let [ahead, behind] = CLOCKS.map(|counter| i128::from(block.counter(counter.name())));
    let datagrams = i128::from(block.counter(Counter::DatagramsDecoded.name()));
    if let Some(mean) = (ahead - behind).checked_div(datagrams).filter(|_| ahead + behind > 0) {
        eprintln!("  {:<22} {mean:>14}  {CLOCK_MEAN_DOC}", "clock ahead, mean ms");
    }
    let in_and_out = [Counter::SetsWaitingIn, Counter::SetsWaitingOut, Counter::SetsExpired];
    let [came, left, expired] = in_and_out.map(|counter| block.counter(counter.name()));
    let waiting = came.saturating_sub(left + expired);
    if waiting > 0 {
        eprintln!("  {:<22} {waiting:>14}  Data Sets whose Template never came.", "sets still waiting");
    }
    for label in WireError::LABELS {
        let count = block.counter(label);
        if count > 0 {
            let is_longer = *label == (WireError::TrailingOctets { octets: 0 }).label();
            let meaning = if is_longer { "octets behind the end of a message" } else { "decoding error" };
            eprintln!("  {label:<22} {count:>14}  {meaning}");
        }
    }
}

/// Prints how much the archive of a chain stored.
pub(crate) fn print_archived(progress: &Progress) {
    let Some(archive) = progress.component("archive") else { return };
    eprintln!(
        "archive: {} stored, {} sealed with {}",
        counted(archive.counter("rows_stored"), "flow"),
        counted(archive.counter("segments_sealed"), "segment"),
        counted(archive.counter("octets_sealed"), "octet")
    );
    let lost = flows_not_stored(progress);
    if lost > 0 {
        eprintln!("warning: {} could not be written", counted(lost, "flow"));
    }
}

/// Flows that reached the archive of a chain and are not stored in it.
pub(crate) fn flows_not_stored(progress: &Progress) -> u64 {
    let lost = |archive: &ComponentProgress| {
        archive.counter("rows_refused") + archive.counter("rows_lost") + archive.rows_discarded
    };
    progress.component("archive").map_or(0, lost)
}

/// Whether a chain was stopped while its archive could not take all flows, on a full disk for instance. Then not all flows
/// that were read are stored.
pub(crate) fn was_stopped_short(progress: &Progress) -> bool {
    was_stopped() && flows_not_stored(progress) > 0
}

/// Whether the archive of a chain that has ended has all flows that a source handed on, so that the files of the source may be
/// noted as read. When a component failed, only the counts show it; they do for a source that notes a file after it has handed
/// on its flows.
pub(crate) fn has_all_of(progress: &Progress, source: &str, has_failed: bool) -> bool {
    if !has_failed {
        return !was_stopped_short(progress);
    }
    let (Some(archive), Some(source)) = (progress.component("archive"), progress.component(source)) else {
        return false;
    };
    flows_not_stored(progress) == 0 && archive.counter("rows_durable") == source.rows_out
}

/// Prints how much the statistics of a chain counted.
pub(crate) fn print_counted(progress: &Progress) {
    let Some(statistics) = progress.component("statistics") else { return };
    let of = |name: &str| statistics.counter(name);
    eprintln!("statistics: {} flows counted in {} steps", of("rows_counted"), of("steps_written"));
    if of("rows_late") > 0 {
        eprintln!("warning: {} flows came after their step was written, and count in a later one", of("rows_late"));
    }
}

/// A number with its noun: `1 row`, `2 rows`.
pub(super) fn counted<N: Display + PartialEq + From<u8> + Copy>(number: N, noun: &str) -> String {
    format!("{number} {}", noun_of(number, noun))
}

/// The form of a noun after a number; nouns that end in y have `ies`.
pub(super) fn noun_of<N: PartialEq + From<u8> + Copy>(number: N, noun: &str) -> String {
    match noun.strip_suffix('y') {
        _ if number == N::from(1) => noun.to_owned(),
        Some(stem) => format!("{stem}ies"),
        None => format!("{noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!([0, 1, 2].map(|rows: u64| counted(rows, "row")), ["0 rows", "1 row", "2 rows"]);
        assert_eq!(
            [0, 1, 11].map(|count: usize| counted(count, "summary")),
            ["0 summaries", "1 summary", "11 summaries"]
        );
    }
}
