//! Summaries of flows that have expired, and how much of their sums belongs to a window.
//!
//! A summary that lies in the window as a whole is exact. Of one that lies in it in part, what counts is between
//! bounds: sums by the minute say what certainly belongs to the window and what may, so of any key's sum at most the
//! rest lies outside, and at most what may belong lies inside. That works because files end where days end, and few
//! flows cross midnight. Flows that end before they start are taken to have happened when they started.

use weir_archive::{Rollup, SegmentSummary};
use weir_flow::FlowBatch;

use super::table::{Table, is_inside, table_of};
use crate::archive::Archive;
use crate::group::{Sums, rows_of};
use crate::scan::may_have;
use crate::{QueryError, TimeWindow, WindowRule};

const MINUTE_MS: i64 = 60_000;

/// Milliseconds from the first of a minute to its last.
const LAST_OF_MINUTE_MS: i64 = 59_999;

/// Flows, packets, bytes.
pub(super) type Amounts = [u64; 3];

/// The three amounts of some flows.
pub(super) fn amounts(sums: &Sums) -> Amounts {
    [sums.flows, sums.packets, sums.bytes]
}

/// The first millisecond of the minute of a time.
pub(super) fn minute_of(time_ms: i64) -> i64 {
    time_ms.div_euclid(MINUTE_MS).saturating_mul(MINUTE_MS)
}

/// A summary that may have flows of the window.
pub(super) struct ExpiredSegment {
    pub(super) summary: SegmentSummary,
    /// Sums by the minute, as flows.
    minutes: FlowBatch,
    /// Whether each of these minutes belongs to the window.
    belonging: Vec<WindowShare>,
    /// What flows outside of the window amount to at most.
    pub(super) outside: Amounts,
    /// What flows of the window amount to at most.
    pub(super) inside: Amounts,
}

/// Whether the flows of a minute belong to a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowShare {
    All,
    Some,
    None,
}

impl Archive {
    /// The summaries that may have flows of the window. Those that have no sums are counted.
    pub(super) fn past(&self, window: &TimeWindow) -> Result<Vec<ExpiredSegment>, QueryError> {
        let mut past = Vec::new();
        for summary in self.snapshot().summaries()? {
            if !may_have(window, summary.time_range_ms()) {
                continue;
            }
            let progress = &self.options.progress;
            let Some(table) = summary.rollup(Rollup::Minute)? else {
                progress.add_rows_unsummed(summary.rows());
                continue;
            };
            let minutes = table_of(&table, Rollup::Minute)?.rows;
            let found = ExpiredSegment::new(summary, minutes, window);
            if found.inside != [0; 3] {
                progress.add_summaries_read(1);
                past.push(found);
            }
        }
        Ok(past)
    }

    /// Rows of flows that have expired and may have been of the window, by the names of their summaries: what answers
    /// that are not approximate lack.
    pub fn rows_expired(&self, window: &TimeWindow) -> Result<u64, QueryError> {
        let summaries = self.snapshot().summaries()?;
        let of_window = summaries.iter().filter(|summary| may_have(window, summary.time_range_ms()));
        Ok(of_window.map(SegmentSummary::rows).sum())
    }
}

impl ExpiredSegment {
    fn new(summary: SegmentSummary, minutes: FlowBatch, window: &TimeWindow) -> Self {
        let is_whole = is_inside(window, summary.time_range_ms());
        let (mut belonging, mut outside, mut inside) = (Vec::with_capacity(minutes.rows()), [0; 3], [0; 3]);
        for sums in rows_of(&minutes) {
            let minute = if is_whole { WindowShare::All } else { WindowShare::of(window, &sums) };
            let to: &mut [&mut Amounts] = match minute {
                WindowShare::All => &mut [&mut inside],
                WindowShare::Some => &mut [&mut inside, &mut outside],
                WindowShare::None => &mut [&mut outside],
            };
            for all in to {
                // sums of a segment fit, or it would have none
                all.iter_mut().zip(amounts(&sums)).for_each(|(all, amount)| *all = all.saturating_add(amount));
            }
            belonging.push(minute);
        }
        Self { summary, minutes, belonging, outside, inside }
    }

    /// Whether all of its flows belong to the window.
    pub(super) fn is_whole(&self) -> bool {
        self.outside == [0; 3]
    }

    /// The sums of its minutes, and whether their flows belong to the window.
    pub(super) fn minutes(&self) -> impl Iterator<Item = (Sums, WindowShare)> {
        rows_of(&self.minutes).zip(self.belonging.iter().copied())
    }

    /// The sums by a kind of key; `None` when there are none.
    pub(super) fn table(&self, rollup: Rollup) -> Result<Option<Table>, QueryError> {
        self.summary.rollup(rollup)?.map(|table| table_of(&table, rollup)).transpose()
    }
}

impl WindowShare {
    /// Of the flows of one minute, with their first start and their last end.
    fn of(window: &TimeWindow, sums: &Sums) -> Self {
        let (first_start, last_end) = (sums.start, sums.end);
        let last_start = minute_of(first_start).saturating_add(LAST_OF_MINUTE_MS);
        let from = |test: &dyn Fn(i64) -> bool| window.from_ms.is_some_and(test);
        let until = |test: &dyn Fn(i64) -> bool| window.until_ms.is_some_and(test);
        let (is_out, may_be_out) = match window.rule {
            WindowRule::Overlaps => (
                from(&|from| last_end < from) || until(&|until| first_start > until),
                from(&|from| first_start < from) || until(&|until| last_start > until),
            ),
            WindowRule::Inside => (
                from(&|from| last_start <= from) || until(&|until| first_start >= until),
                from(&|from| first_start <= from) || until(&|until| last_end >= until),
            ),
        };
        match (is_out, may_be_out) {
            (true, _) => Self::None,
            (false, true) => Self::Some,
            (false, false) => Self::All,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM_MS: i64 = 600_000;
    const UNTIL_MS: i64 = 1_200_000;

    #[track_caller]
    fn check(rule: WindowRule, (first_start, last_end): (i64, i64), expected: WindowShare) {
        let window = TimeWindow { from_ms: Some(FROM_MS), until_ms: Some(UNTIL_MS), rule };
        let mut sums = Sums::NONE;
        (sums.start, sums.end) = (first_start, last_end);
        assert_eq!(WindowShare::of(&window, &sums), expected);
    }

    #[test]
    fn minutes_belong_as_a_whole_or_in_part() {
        use WindowShare::{All, None, Some};
        let overlaps = WindowRule::Overlaps;
        check(overlaps, (FROM_MS, FROM_MS + 5), All);
        check(overlaps, (FROM_MS - 1, FROM_MS), Some);
        check(overlaps, (FROM_MS - 1, FROM_MS - 1), None);
        check(overlaps, (UNTIL_MS - 60_000, UNTIL_MS + 9_000_000), All);
        check(overlaps, (UNTIL_MS, UNTIL_MS), Some);
        check(overlaps, (UNTIL_MS + 1, UNTIL_MS + 9), None);
        let inside = WindowRule::Inside;
        check(inside, (FROM_MS + 1, UNTIL_MS - 1), All);
        check(inside, (FROM_MS, UNTIL_MS - 1), Some);
        check(inside, (FROM_MS + 1, UNTIL_MS), Some);
        check(inside, (FROM_MS - 60_000, UNTIL_MS - 1), None);
        check(inside, (UNTIL_MS, UNTIL_MS), None);
    }
}
