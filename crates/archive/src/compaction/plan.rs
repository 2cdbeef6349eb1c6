//! Which segments are merged next.

use std::ops::Range;
use std::time::Duration;

use weir_flow::Table;

use crate::CompactionOptions;
use crate::Segment;
use crate::books::days;
use crate::civil::MS_PER_DAY;
use crate::segment::REWRITE_ROWS_MAX;

/// Whether the day of these segments has been over for `settle_time`. Late rows may still come, and are merged then.
pub(super) fn is_over(day: &[&Segment], now_ms: i64, settle_time: Duration) -> bool {
    let settle_ms = i64::try_from(settle_time.as_millis()).unwrap_or(i64::MAX);
    day.first().is_some_and(|segment| now_ms.saturating_sub((segment.day + 1) * MS_PER_DAY) >= settle_ms)
}

/// The segments of a day that are merged next: neighbours in the order of tails, so that rows that came one after
/// the other lie in one segment.
pub(super) fn next(day: &[&Segment], options: &CompactionOptions, settled: bool) -> Option<Range<usize>> {
    let fan_in = options.fan_in.max(2);
    let options = &CompactionOptions { segment_rows_max: options.segment_rows_max.min(REWRITE_ROWS_MAX), ..*options };
    // Nothing more comes to such a run, so that tiers would only write its rows more often. One that is cut off by the
    // number of inputs goes on: its first segment must not be written again with each piece.
    let is_final = |range: &Range<usize>| range.len() >= 2 && range.len() < options.inputs_max;
    if settled && let Some(range) = runs(day, |_| true, options).find(is_final) {
        return Some(range);
    }
    let largest_tier = tier(options.segment_rows_max, fan_in);
    for wanted in 0..=largest_tier {
        // Smaller ones among those of a tier are taken along: they would part them for ever.
        let passes = |segment: &Segment| tier(segment.rows, fan_in) <= wanted;
        let enough = |range: &Range<usize>| {
            let of_tier = day.get(range.clone()).unwrap_or_default().iter();
            of_tier.filter(|segment| tier(segment.rows, fan_in) == wanted).count() as u64 >= fan_in
        };
        if let Some(range) = runs(day, passes, options).find(enough) {
            return Some(range);
        }
    }
    settled.then(|| runs(day, |_| true, options).find(|range| range.len() >= 2))?
}

/// A segment of books that are old enough to be kept by day.
pub(super) fn next_books(day: &[&Segment], age_max: Duration, now_ms: i64) -> Option<Range<usize>> {
    let is_due = |segment: &&Segment| {
        segment.table == Table::ExporterBooks && days::is_due(segment.time_range_ms, age_max, now_ms)
    };
    day.iter().position(is_due).map(|at| at..at + 1)
}

/// How often `fan_in` goes into rows as a factor.
fn tier(rows: u64, fan_in: u64) -> u32 {
    rows.max(1).ilog(fan_in)
}

/// Neighbours of which each passes and that fit into one segment together, as many as possible from the left.
fn runs<'a>(
    day: &'a [&'a Segment],
    passes: impl Fn(&Segment) -> bool + 'a,
    options: &'a CompactionOptions,
) -> impl Iterator<Item = Range<usize>> + 'a {
    let mut start = 0;
    std::iter::from_fn(move || {
        let first = start + day.get(start..)?.iter().position(|segment| passes(segment))?;
        let (mut rows, mut octets, mut end) = (0, 0, first);
        for segment in day.get(first..)?.iter().take(options.inputs_max) {
            rows += segment.rows;
            octets += segment.octets;
            if !passes(segment) || rows > options.segment_rows_max || octets > options.segment_octets_max {
                break;
            }
            end += 1;
        }
        start = end.max(first + 1);
        Some(first..end)
    })
}

#[cfg(test)]
mod tests {
    use weir_flow::Table;

    use super::{CompactionOptions, Duration, MS_PER_DAY, Range, Segment};
    use crate::manifest::tests::segment_of;

    fn day(rows: &[u64]) -> Vec<Segment> {
        let segments = rows.iter().enumerate().map(|(number, &rows)| Segment {
            rows,
            octets: rows * 20,
            ..segment_of(Table::Flows, 20_000, number as u64 + 1)
        });
        segments.collect()
    }

    fn next(day: &[Segment], options: &CompactionOptions, settled: bool) -> Option<Range<usize>> {
        super::next(&day.iter().collect::<Vec<_>>(), options, settled)
    }

    fn is_over(day: &[Segment], now_ms: i64, settle_time: Duration) -> bool {
        super::is_over(&day.iter().collect::<Vec<_>>(), now_ms, settle_time)
    }

    const OPTIONS: fn() -> CompactionOptions =
        || CompactionOptions { segment_rows_max: 1000, ..CompactionOptions::default() };

    #[track_caller]
    fn check(rows: &[u64], settled: bool, expected: Option<&Range<usize>>) {
        assert_eq!(next(&day(rows), &OPTIONS(), settled).as_ref(), expected, "{rows:?}");
    }

    #[test]
    fn as_many_of_one_size_as_the_fan_in_are_merged() {
        check(&[], true, None);
        check(&[10, 10, 10], false, None);
        check(&[10, 10, 10, 10], false, Some(&(0..4)));
        check(&[900, 10, 12, 13, 10], false, Some(&(1..5)));
        check(&[100, 10, 100, 100, 100, 100], false, Some(&(0..6)));
        check(&[300, 300, 300, 300, 2, 2, 2, 2], false, Some(&(4..8)));
        check(&[300, 300, 300, 300], false, None);
    }

    #[test]
    fn what_fits_together_is_merged_when_the_day_is_over() {
        check(&[10, 300, 20], true, Some(&(0..3)));
        check(&[10, 10, 10, 10, 300, 20], true, Some(&(0..6)));
        // more than one merge takes: the rest of the small ones first, so that the large one is written once
        check(&[[300].as_slice(), &[2; 100]].concat(), true, Some(&(64..101)));
        check(&[900, 200, 300], true, Some(&(1..3)));
        check(&[900, 200, 900], true, None);
        check(&[1500, 1, 1500], true, None);
        assert!(is_over(&day(&[1]), 20_001 * MS_PER_DAY + 5000, Duration::from_secs(5)));
        assert!(!is_over(&day(&[1]), 20_001 * MS_PER_DAY + 4999, Duration::from_secs(5)));
    }

    /// However the segments of a day come, few are left, and a row is not rewritten often.
    #[test]
    fn a_day_is_rewritten_as_often_as_its_logarithm() {
        let options = CompactionOptions { segment_rows_max: 100_000, ..CompactionOptions::default() };
        let (mut all, mut rewritten) = (Vec::new(), 0);
        for sealed in std::iter::repeat_n(100, 1000) {
            all.push(sealed);
            while let Some(range) = next(&day(&all), &options, false) {
                let rows: u64 = all[range.clone()].iter().sum();
                rewritten += rows;
                all.splice(range, [rows]);
            }
        }
        assert_eq!(all.iter().sum::<u64>(), 100_000);
        assert!(all.len() <= 16, "{all:?}");
        assert!(rewritten <= 100_000 * 6, "{rewritten} rows");
    }
}
