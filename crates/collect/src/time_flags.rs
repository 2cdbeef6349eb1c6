//! What is wrong with the times of flows: the column `time_flags`.
//!
//! Times are stored as they were reported. Whether an exporter's clock, its uptime or its arithmetic is wrong cannot be
//! repaired from here without guessing; but it can be seen, and who asks for a time window should know of the flows that
//! are outside of it for such a reason. Nearly all sets have nothing wrong, so the check for the whole set comes first.

use weir_flow::builder::GroupTimes;
use weir_flow::{Column, FlowBatchBuilder};

use crate::clock::{CLOCKS_BEGIN_MS, MessageClock, is_absolute};
use crate::plan::Plan;
use crate::records::Records;
use crate::session::Transport;

/// The exporter's clock is before 2000.
pub(crate) const CLOCK_NOT_SET: u16 = 1;
/// The exporter's clock is ahead of ours by more than [`AHEAD_MS_MAX`].
pub(crate) const CLOCK_AHEAD: u16 = 2;
/// The exporter's clock is behind ours by more than [`BEHIND_MS_MAX`].
pub(crate) const CLOCK_BEHIND: u16 = 4;
/// The flow ends before it starts.
pub(crate) const END_BEFORE_START: u16 = 8;
/// The flow starts or ends after it was received, by more than [`AHEAD_MS_MAX`].
pub(crate) const IN_THE_FUTURE: u16 = 16;
/// The flow ended before it was received, by more than [`BEHIND_MS_MAX`].
pub(crate) const LONG_AGO: u16 = 32;
/// A time counts from a start of the exporter that is not known.
pub(crate) const UPTIME_MISSING: u16 = 64;
/// A time in a field for uptimes is one since 1970.
pub(crate) const ABSOLUTE_UPTIME: u16 = 128;

/// Clocks that differ by this much are not just a little off.
const AHEAD_MS_MAX: i64 = 300_000;
/// Flows are exported soon after they end; this much later is no delay.
const BEHIND_MS_MAX: i64 = 86_400_000;

/// Writes the flags of the group of rows that was just written, if any row has some.
pub(crate) fn write(
    plan: &Plan,
    records: Records<'_>,
    clock: &MessageClock,
    transport: Transport,
    builder: &mut FlowBatchBuilder,
) {
    let starts = builder.times_of_group(Column::Start);
    let ends = builder.times_of_group(Column::End);
    let window = Window::new(clock, transport);
    let of_all =
        of_message(clock, transport) | if plan.needs_uptime && clock.uptime_ms.is_none() { UPTIME_MISSING } else { 0 };
    let usual = of_all == 0 && plan.wide_uptimes.is_empty();
    if usual && window.holds_all(starts.as_ref().map(GroupTimes::values), ends.as_ref().map(GroupTimes::values)) {
        return;
    }
    let absolute = |row| {
        let mut uptimes = plan.wide_uptimes.iter().filter_map(|&field| records.number(field, row));
        if uptimes.any(is_absolute) { ABSOLUTE_UPTIME } else { 0 }
    };
    let at = |times: Option<GroupTimes<'_>>, row| times.and_then(|times| times.get(row));
    let mut flags = vec![of_all; records.len()];
    for (row, flags) in flags.iter_mut().enumerate() {
        *flags |= absolute(row) | window.flags(at(starts, row), at(ends, row));
    }
    if flags.iter().any(|flags| *flags != 0) {
        let target = builder.u16(Column::TimeFlags);
        for flags in flags {
            target.push((flags != 0).then_some(flags));
        }
    }
}

/// What is wrong with the exporter's clock. A file may have been written any time before it is read.
fn of_message(clock: &MessageClock, transport: Transport) -> u16 {
    let ahead_ms = clock.export_ms.saturating_sub(clock.received_ms);
    match ahead_ms {
        _ if clock.export_ms < CLOCKS_BEGIN_MS => CLOCK_NOT_SET,
        AHEAD_MS_MAX.. if ahead_ms > AHEAD_MS_MAX => CLOCK_AHEAD,
        _ if -ahead_ms > BEHIND_MS_MAX && transport != Transport::File => CLOCK_BEHIND,
        _ => 0,
    }
}

/// Earlier than any time, and not so early that differences wrap.
const ANY_TIME_MS: i64 = i64::MIN / 4;

/// When flows of a message may have started and ended.
#[derive(Debug, Clone, Copy)]
struct Window {
    last_ms: i64,
    first_end_ms: i64,
}

impl Window {
    fn new(clock: &MessageClock, transport: Transport) -> Self {
        let last_ms = clock.received_ms.saturating_add(AHEAD_MS_MAX);
        let first_end_ms = match transport {
            Transport::File => ANY_TIME_MS,
            _ => clock.received_ms.saturating_sub(BEHIND_MS_MAX),
        };
        Self { last_ms, first_end_ms }
    }

    /// Whether nothing is wrong with any flow. A time that is null looks like one of 1970 here, and is looked at closer.
    #[inline]
    fn holds_all(self, starts: Option<&[i64]>, ends: Option<&[i64]>) -> bool {
        // A difference below 0 has its highest bit set, and so has what is or-ed from all of them: no branch for any flow.
        // Where numbers are so large that a difference could wrap, their highest two bits differ.
        let large = |time: i64| time ^ (time << 1);
        let latest = |time: i64| large(time) | self.last_ms.wrapping_sub(time);
        let window = |end: i64| latest(end) | end.wrapping_sub(self.first_end_ms);
        let bad = match (starts, ends) {
            (Some(starts), Some(ends)) => starts
                .iter()
                .zip(ends)
                .fold(0, |bad, (&start, &end)| bad | window(end) | large(start) | end.wrapping_sub(start)),
            (None, Some(ends)) => ends.iter().fold(0, |bad, &end| bad | window(end)),
            (Some(starts), None) => starts.iter().fold(0, |bad, &start| bad | latest(start)),
            (None, None) => 0,
        };
        bad >= 0
    }

    fn flags(self, start: Option<i64>, end: Option<i64>) -> u16 {
        let late = |time: Option<i64>| time.is_some_and(|time| time > self.last_ms);
        let mut flags = 0;
        if start.zip(end).is_some_and(|(start, end)| end < start) {
            flags |= END_BEFORE_START;
        }
        if late(start) || late(end) {
            flags |= IN_THE_FUTURE;
        }
        if end.is_some_and(|end| end < self.first_end_ms) {
            flags |= LONG_AGO;
        }
        flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_700_000_000_000;

    fn message(export_ms: i64, transport: Transport) -> u16 {
        of_message(&MessageClock { received_ms: NOW_MS, export_ms, uptime_ms: None }, transport)
    }

    #[test]
    fn clocks_of_exporters() {
        assert_eq!(message(NOW_MS, Transport::Udp), 0);
        assert_eq!(message(NOW_MS + 300_000, Transport::Udp), 0);
        assert_eq!(message(NOW_MS + 300_001, Transport::Udp), CLOCK_AHEAD);
        assert_eq!(message(NOW_MS - 86_400_000, Transport::Udp), 0);
        assert_eq!(message(NOW_MS - 86_400_001, Transport::Udp), CLOCK_BEHIND);
        assert_eq!(message(NOW_MS - 86_400_001, Transport::File), 0);
        // an exporter that has just started and asked no server for the time
        assert_eq!(message(60_000, Transport::Udp), CLOCK_NOT_SET);
        assert_eq!(message(60_000, Transport::File), CLOCK_NOT_SET);
    }

    #[test]
    fn times_of_flows() {
        let clock = MessageClock { received_ms: NOW_MS, export_ms: NOW_MS, uptime_ms: None };
        let check = |start: i64, end: i64, expected| {
            let window = Window::new(&clock, Transport::Udp);
            assert_eq!(window.flags(Some(NOW_MS + start), Some(NOW_MS + end)), expected, "{start} {end}");
            assert_eq!(window.holds_all(Some(&[NOW_MS + start]), Some(&[NOW_MS + end])), expected == 0);
        };
        check(-5_000, -1_000, 0);
        check(-1_000, -5_000, END_BEFORE_START);
        // a flow may have lasted for weeks, but not have ended weeks ago
        check(-2_000_000_000, -1_000, 0);
        check(-2_000_000_000, -86_400_001, LONG_AGO);
        check(-1_000, 300_001, IN_THE_FUTURE);
        // an uptime that wrapped unseen: the start is 49.7 days ahead
        check(4_294_967_296 - 5_000, -1_000, END_BEFORE_START | IN_THE_FUTURE);
        let file = Window::new(&clock, Transport::File);
        assert_eq!(file.flags(Some(0), Some(1)), 0);
        assert!(file.holds_all(Some(&[0]), Some(&[1])));
        // differences that wrap are looked at closer
        assert!(!file.holds_all(Some(&[i64::MAX]), Some(&[i64::MIN])));
        assert!(!file.holds_all(None, Some(&[i64::MIN])));
    }
}
