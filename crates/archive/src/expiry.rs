//! Expiry: the oldest segments go, by age and by size, down to a low-water mark.
//!
//! The rules are those of nfexpire: when a limit is hit, data goes down to a percentage of the limit, so that not every
//! look removes a little. A segment expires as a whole, when its newest row is too old; nothing goes early. What came
//! beside the flows (books, options, counters) is small and tells for years what was collected, so it has an age of its
//! own, and by size it goes only when no flows are left that could.
//!
//! Segments of the newest tail never go: positions and numbers of tails go on from their names.
//!
//! What flows amounted to stays when they go: see [`summaries`](crate::summaries), which expire by limits of their own.

use std::path::Path;
use std::time::Duration;

use weir_flow::Table;

use crate::layout::Layout;
use crate::stock::{PlacedSegment, Stock, now_ms};
use crate::summaries::keep::SummaryWriter;
use crate::summaries::{SegmentSummary, Summaries};
use crate::upkeep::Upkeep;
use crate::{ArchiveError, ArchiveOptions, ExpiryOptions, folder};

/// Unless set otherwise, summaries are at most this part of an archive that has a limit.
const SUMMARIES_PART: u64 = 10;

impl ExpiryOptions {
    /// Whether any segment can expire.
    pub fn is_set(&self) -> bool {
        self.age_max.is_some() || self.side_tables_age_max.is_some() || self.octets_max.is_some()
    }

    /// Octets of summaries at most.
    fn summaries_octets_max(&self) -> Option<u64> {
        self.summaries.octets_max.or_else(|| self.octets_max.map(|octets| octets / SUMMARIES_PART))
    }

    fn low_water(&self, limit: u64) -> u64 {
        (u128::from(limit) * u128::from(self.low_water_percent.min(100)) / 100) as u64
    }
}

/// What expired.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExpiryReport {
    /// The segments, in the order in which they expired.
    pub segments: Vec<PlacedSegment>,
    /// Summaries that expired, by their own limits or because wider ones have taken their place.
    pub summaries: Vec<SegmentSummary>,
    /// Summaries written of the segments of flows.
    pub summaries_written: u64,
    /// Octets of these.
    pub summaries_octets: u64,
    /// Segments whose flows could not be summed up, because a flow lacks packets, bytes or times, or because the
    /// segment is damaged. Their summaries have nothing but their number of rows.
    pub segments_without_sums: u64,
    /// Segments that went without a summary because the disk was full.
    pub summaries_lost: u64,
    /// Octets of the archive before.
    pub octets_before: u64,
    /// Octets that are left without these segments.
    pub octets_after: u64,
    /// True when readers hold files that are pending deletion. New readers do not see them; the next expiry, or the
    /// writer's own, removes them.
    pub waiting_for_readers: bool,
}

/// Expires segments of the archive in `dir`, with a writer at work or without one; with `dry_run` it only returns
/// which.
pub fn expire(dir: &Path, options: &ExpiryOptions, dry_run: bool) -> Result<ExpiryReport, ArchiveError> {
    let layout = Layout::new(dir);
    layout.check()?;
    if dry_run {
        return plan(&layout, &Stock::read(&layout)?, options, now_ms());
    }
    run(&Upkeep::begin(&layout)?, options, ArchiveOptions::default().heavy_keys_min)
}

/// Expires segments and summaries, and removes what is pending deletion. Before a segment of flows is listed, its
/// rollups are in a summary; those that must be made for that keep `heavy_keys_min` keys.
pub(crate) fn run(upkeep: &Upkeep, options: &ExpiryOptions, heavy_keys_min: u32) -> Result<ExpiryReport, ArchiveError> {
    let stock = upkeep.stock()?;
    let now_ms = now_ms();
    let mut expired = plan(&upkeep.layout, &stock, options, now_ms)?;
    let segments = expired.segments.iter().map(|kept| kept.segment.path.clone());
    let files: Vec<_> = segments.chain(expired.summaries.iter().map(|summary| summary.path().to_owned())).collect();
    let mut keeper = SummaryWriter::new(&upkeep.layout, options.summaries, heavy_keys_min, now_ms);
    let prepare = || expired.segments.iter().try_for_each(|kept| keeper.keep(kept));
    let removed = upkeep.remove(&stock, &files, options.readers_wait_max, prepare)?;
    let written = keeper.finish()?;
    if !removed.listed {
        // What went before is still held by readers, so nothing more is on its way yet.
        expired = ExpiryReport {
            octets_before: expired.octets_before,
            octets_after: expired.octets_before,
            ..ExpiryReport::default()
        };
    }
    expired.octets_after += written.octets;
    expired.summaries_written = written.summaries;
    expired.summaries_octets = written.octets;
    expired.segments_without_sums = written.without_sums;
    expired.summaries_lost = written.lost;
    expired.waiting_for_readers = removed.waiting;
    Ok(expired)
}

fn plan(layout: &Layout, stock: &Stock, options: &ExpiryOptions, now_ms: i64) -> Result<ExpiryReport, ArchiveError> {
    let summaries = stock.summaries(layout)?;
    let octets_before = stock.octets() + tail_octets(layout)? + summaries.octets();
    let segments = which(stock, options, octets_before, now_ms);
    let summaries = which_summaries(summaries, &segments, options, now_ms);
    let gone = segments.iter().map(|kept| kept.segment.octets).sum::<u64>()
        + summaries.iter().map(SegmentSummary::octets).sum::<u64>();
    let octets_after = octets_before.saturating_sub(gone);
    Ok(ExpiryReport { segments, summaries, octets_before, octets_after, ..ExpiryReport::default() })
}

/// The summaries that expire: by age, by size the oldest first, and those that do not count. One that does not because
/// its segment is there still comes to count when that segment goes, so it stays for it.
fn which_summaries(
    summaries: Summaries,
    segments: &[PlacedSegment],
    options: &ExpiryOptions,
    now_ms: i64,
) -> Vec<SegmentSummary> {
    let oldest_ms = options.summaries.oldest_ms(now_ms);
    let mut left = summaries.octets();
    let limit = options.summaries_octets_max().filter(|limit| left > *limit).map(|limit| options.low_water(limit));
    let mut live = summaries.live;
    live.sort_by_key(SegmentSummary::newest_ms);
    live.retain(|summary| {
        let goes = summary.newest_ms() < oldest_ms || limit.is_some_and(|limit| left > limit);
        left -= if goes { summary.octets() } else { 0 };
        goes
    });
    let void = summaries.void.into_iter();
    live.extend(void.filter(|summary| !segments.iter().any(|kept| summary.is_of(kept))));
    live
}

fn tail_octets(layout: &Layout) -> Result<u64, ArchiveError> {
    let names = folder::names(&layout.tails())?;
    let lengths = names.iter().filter_map(|name| layout.tails().join(name).metadata().ok());
    Ok(lengths.map(|metadata| metadata.len()).sum())
}

/// The segments that expire at a time when the archive has `octets` octets.
fn which(stock: &Stock, options: &ExpiryOptions, octets: u64, now_ms: i64) -> Vec<PlacedSegment> {
    let candidates = stock.candidates();
    let too_old = |flows: bool, age_max: Option<Duration>| {
        let age_max_ms = age_max.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
        let before = |age_ms: u64| now_ms.saturating_sub_unsigned(age_ms);
        let hit = age_max_ms.is_some_and(|age_ms| {
            let mut of_table = candidates.iter().filter(|kept| (kept.table == Table::Flows) == flows);
            of_table.any(|kept| kept.newest_ms() < before(age_ms))
        });
        age_max_ms.filter(|_| hit).map(|age_ms| before(options.low_water(age_ms)))
    };
    let [flows, beside] = [too_old(true, options.age_max), too_old(false, options.side_tables_age_max)];
    let mut expired = Vec::new();
    let mut left = octets;
    let mut rest = Vec::new();
    for kept in candidates {
        let limit = if kept.table == Table::Flows { flows } else { beside };
        if limit.is_some_and(|limit| kept.newest_ms() < limit) {
            left = left.saturating_sub(kept.segment.octets);
            expired.push(kept.clone());
        } else {
            rest.push(kept);
        }
    }
    if let Some(octets_max) = options.octets_max.filter(|octets_max| left > *octets_max) {
        for kept in rest {
            if left <= options.low_water(octets_max) {
                break;
            }
            left = left.saturating_sub(kept.segment.octets);
            expired.push(kept.clone());
        }
    }
    expired
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::civil::MS_PER_DAY;
    use crate::{Position, Segment};

    const NOW_MS: i64 = 100 * MS_PER_DAY;

    /// Segments of 10 octets, one a day, the last of them on day 99.
    fn stock(table: Table, count: i64) -> Vec<PlacedSegment> {
        let segment = |day: i64| Segment {
            path: PathBuf::new(),
            rows: 1,
            octets: 10,
            first: Position::ZERO,
            last: Position::ZERO,
            time_range_ms: Some((0, day * MS_PER_DAY + 1000)),
            tails: (day as u64, day as u64),
        };
        (100 - count..100).map(|day| PlacedSegment { table, day, segment: segment(day) }).collect()
    }

    #[track_caller]
    fn check(stock: &[Vec<PlacedSegment>], options: &ExpiryOptions, expected: &[(Table, i64)]) {
        let stock = Stock { live: stock.concat(), covered: Vec::new() };
        let expired = which(&stock, options, stock.octets(), NOW_MS);
        assert_eq!(expired.iter().map(|kept| (kept.table, kept.day)).collect::<Vec<_>>(), expected);
    }

    const DAY: Duration = Duration::from_hours(24);
    const NONE: fn() -> ExpiryOptions = ExpiryOptions::default;

    #[test]
    fn age_is_that_of_the_newest_row_down_to_the_low_water_mark() {
        let flows = [stock(Table::Flows, 10)];
        check(&flows, &NONE(), &[]);
        check(&flows, &ExpiryOptions { age_max: Some(10 * DAY), ..NONE() }, &[]);
        let options = ExpiryOptions { age_max: Some(9 * DAY), low_water_percent: 100, ..NONE() };
        check(&flows, &options, &[(Table::Flows, 90)]);
        let options = ExpiryOptions { low_water_percent: 70, ..options };
        check(&flows, &options, &[90, 91, 92, 93].map(|day| (Table::Flows, day)));
        // the last segment stays, however old
        let options = ExpiryOptions { age_max: Some(Duration::ZERO), ..NONE() };
        check(&flows, &options, &(90..99).map(|day| (Table::Flows, day)).collect::<Vec<_>>());
        // a day that the clock of an exporter is off by does not count
        let mut wrong = stock(Table::Flows, 3);
        wrong[0].segment.time_range_ms = Some((0, 5));
        check(&[wrong], &ExpiryOptions { age_max: Some(DAY * 5 / 2), ..NONE() }, &[]);
    }

    #[test]
    fn size_goes_down_to_the_low_water_mark_and_flows_go_first() {
        let both = [stock(Table::Flows, 4), stock(Table::ExporterBooks, 4)];
        check(&both, &ExpiryOptions { octets_max: Some(80), ..NONE() }, &[]);
        let options = ExpiryOptions { octets_max: Some(79), low_water_percent: 100, ..NONE() };
        check(&both, &options, &[(Table::Flows, 96)]);
        let options = ExpiryOptions { octets_max: Some(79), low_water_percent: 70, ..NONE() };
        check(&both, &options, &[96, 97, 98].map(|day| (Table::Flows, day)));
        let all = [(Table::Flows, 96), (Table::Flows, 97), (Table::Flows, 98), (Table::ExporterBooks, 96)];
        check(&both, &ExpiryOptions { octets_max: Some(45), low_water_percent: 90, ..NONE() }, &all);
        let books = ExpiryOptions { side_tables_age_max: Some(DAY * 2), low_water_percent: 100, ..NONE() };
        check(&both, &books, &[96, 97].map(|day| (Table::ExporterBooks, day)));
    }
}
