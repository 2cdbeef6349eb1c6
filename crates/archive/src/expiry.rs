//! Expiry: the oldest segments go, by age and by size, down to a low-water mark.
//!
//! The rules are those of nfexpire: when a limit is hit, data goes down to a percentage of the limit, so that not every
//! look removes a little. A segment expires as a whole, when its newest row is too old; nothing goes early. What came
//! beside the flows (books, options, counters) is small and tells for years what was collected, so it has an age of its
//! own, and by size it goes only when no flows are left that could, and it is more than half of the limit by itself:
//! flows that are not sealed yet may be more than the limit for a while, and would take the books of all before.
//!
//! Segments of the newest tail never go.
//!
//! The files of what expires wait for readers, but not without a bound: what waits is beside the limit by size, so it has one
//! of its own, a part of that limit. Beyond it the oldest files are removed and a question that still needs one ends with an
//! error. What speaks against it is that a long question about all of a full archive may have to be asked again.
//!
//! What flows amounted to stays when they go: see [`summaries`](crate::summaries), which expire by limits of their own.

use std::path::Path;
use std::time::Duration;

use weir_flow::Table;

use crate::layout::Layout;
use crate::manifest::{ArchiveState, Edit, Manifest, SegmentKey};
use crate::summaries::SegmentSummary;
use crate::summaries::keep::{SummaryCounts, SummaryWriter, WaitingSummary, write_waiting};
use crate::upkeep::{PendingLimits, Upkeep, now_ms};
use crate::{ArchiveError, ArchiveOptions, ExpiryOptions, Segment, folder};

/// Unless set otherwise, summaries are at most this part of an archive that has a limit.
const SUMMARIES_PART: u64 = 10;

/// Unless set otherwise, what waits for readers is at most this part of the limit of the archive.
const PENDING_PART: u64 = 8;

impl ExpiryOptions {
    /// Whether any segment can expire.
    pub fn is_set(&self) -> bool {
        self.age_max.is_some() || self.side_tables_age_max.is_some() || self.octets_max.is_some()
    }

    /// Octets of summaries at most.
    fn summaries_octets_max(&self) -> Option<u64> {
        self.summaries.octets_max.or_else(|| self.octets_max.map(|octets| octets / SUMMARIES_PART))
    }

    /// Octets of files that wait for readers at most.
    pub(crate) fn pending_octets_max(&self) -> Option<u64> {
        self.pending_octets_max.or_else(|| self.octets_max.map(|octets| octets / PENDING_PART))
    }

    /// How long files wait for readers, and how many octets of them.
    pub(crate) fn pending_limits(&self) -> PendingLimits {
        PendingLimits {
            wait_max: self.readers_wait_max,
            wait_min: self.readers_wait_min,
            octets_max: self.pending_octets_max(),
        }
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
    pub segments: Vec<Segment>,
    /// Summaries that expired.
    pub summaries: Vec<SegmentSummary>,
    /// Summaries written of the segments of flows.
    pub summaries_written: u64,
    /// Octets of these.
    pub summaries_octets: u64,
    /// Segments whose flows could not be summed up, because a flow lacks packets, bytes or times, or because the
    /// segment is damaged or cannot be read. Their summaries have nothing but their number of rows.
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
    /// Files removed although readers held them, because more waited than may.
    pub files_removed_early: u64,
}

/// Expires segments of the archive in `dir`, with a writer at work or without one; with `dry_run` it only returns
/// which.
pub fn expire(dir: &Path, options: &ExpiryOptions, dry_run: bool) -> Result<ExpiryReport, ArchiveError> {
    let layout = Layout::new(dir);
    layout.check()?;
    if dry_run {
        let state = Manifest::load_or_rebuild(&layout)?;
        return plan(&layout, &state, options, now_ms());
    }
    let mut upkeep = Upkeep::begin(&layout)?;
    upkeep.remove_uncommitted()?;
    let (mut waiting, mut report) = (Vec::new(), ExpiryReport::default());
    run(&mut upkeep, options, ArchiveOptions::default().heavy_keys_min, &mut waiting, &mut report)?;
    report.summaries_lost += waiting.len() as u64;
    upkeep.check_removals()?;
    Ok(report)
}

/// Expires segments and summaries, and removes what is pending deletion. Before a segment of flows ceases to count, its
/// rollups are in a summary; those that must be made for that keep `heavy_keys_min` keys. Summaries for which there is
/// no room are added to those that wait, and written as soon as files have gone. What has expired before an error is in the
/// report too.
pub(crate) fn run(
    upkeep: &mut Upkeep,
    options: &ExpiryOptions,
    heavy_keys_min: u32,
    waiting: &mut Vec<WaitingSummary>,
    report: &mut ExpiryReport,
) -> Result<(), ArchiveError> {
    let now_ms = now_ms();
    let layout = upkeep.layout.clone();
    let mut expired = plan(&layout, upkeep.state(), options, now_ms)?;
    if !expired.segments.is_empty() || !expired.summaries.is_empty() {
        let mut keeper = SummaryWriter::new(&layout, options.summaries, heavy_keys_min, now_ms);
        expired.segments.iter().try_for_each(|segment| keeper.keep(segment))?;
        let segments: Vec<SegmentKey> = expired.segments.iter().map(Segment::key).collect();
        let summaries: Vec<SegmentKey> = expired.summaries.iter().map(SegmentSummary::key).collect();
        let written = keeper.written;
        upkeep.manifest.commit(|_| {
            let (segments, summaries) = (segments.clone(), summaries.clone());
            Ok(Some(Edit::Expired { segments, written: written.clone(), summaries }))
        })?;
        expired.octets_after += keeper.counts.octets;
        expired.summaries_written = keeper.counts.summaries;
        expired.summaries_octets = keeper.counts.octets;
        expired.segments_without_sums = keeper.counts.without_sums;
        waiting.extend(keeper.waiting);
    }
    *report = expired;
    let removed = upkeep.remove_pending(&options.pending_limits())?;
    (report.waiting_for_readers, report.files_removed_early) = (removed.waiting, removed.files_early);
    let mut late = SummaryCounts::default();
    let wrote = write_late(upkeep, waiting, &mut late);
    report.summaries_written += late.summaries;
    report.summaries_octets += late.octets;
    wrote
}

/// Writes and commits summaries that waited for room; until then they wait on. A crash between the removal of their segments
/// and this is the one that loses a summary; where there is room there is nothing in between.
pub(crate) fn write_late(
    upkeep: &mut Upkeep,
    waiting: &mut Vec<WaitingSummary>,
    counts: &mut SummaryCounts,
) -> Result<(), ArchiveError> {
    let mut written = Vec::new();
    let wrote = write_waiting(&upkeep.layout, waiting, &mut written);
    if !written.is_empty() {
        upkeep.manifest.commit(|_| Ok(Some(Edit::Summarised { written: written.clone() })))?;
        waiting.truncate(waiting.len() - written.len());
        counts.summaries += written.len() as u64;
        counts.octets += written.iter().map(SegmentSummary::octets).sum::<u64>();
    }
    wrote
}

fn plan(
    layout: &Layout,
    state: &ArchiveState,
    options: &ExpiryOptions,
    now_ms: i64,
) -> Result<ExpiryReport, ArchiveError> {
    let summaries: Vec<&SegmentSummary> = state.summaries.values().collect();
    let summaries_octets: u64 = summaries.iter().map(|summary| summary.octets()).sum();
    let octets_before = state.octets() + tail_octets(layout)? + summaries_octets;
    let segments = which(state, options, octets_before, now_ms);
    let summaries = which_summaries(summaries, options, now_ms);
    let gone = segments.iter().map(|segment| segment.octets).sum::<u64>()
        + summaries.iter().map(SegmentSummary::octets).sum::<u64>();
    let octets_after = octets_before.saturating_sub(gone);
    Ok(ExpiryReport { segments, summaries, octets_before, octets_after, ..ExpiryReport::default() })
}

/// The summaries that expire: by age, and by size the oldest first.
fn which_summaries(mut live: Vec<&SegmentSummary>, options: &ExpiryOptions, now_ms: i64) -> Vec<SegmentSummary> {
    let oldest_ms = options.summaries.oldest_ms(now_ms);
    let mut left: u64 = live.iter().map(|summary| summary.octets()).sum();
    let limit = options.summaries_octets_max().filter(|limit| left > *limit).map(|limit| options.low_water(limit));
    live.sort_by_key(|summary| summary.newest_ms());
    live.retain(|summary| {
        let goes = summary.newest_ms() < oldest_ms || limit.is_some_and(|limit| left > limit);
        left -= if goes { summary.octets() } else { 0 };
        goes
    });
    live.into_iter().cloned().collect()
}

/// Octets of all tails.
pub(crate) fn tail_octets(layout: &Layout) -> Result<u64, ArchiveError> {
    let names = folder::names(&layout.tails())?;
    let lengths = names.iter().filter_map(|name| layout.tails().join(name).metadata().ok());
    Ok(lengths.map(|metadata| metadata.len()).sum())
}

/// The segments that expire at a time when the archive has `octets` octets.
fn which(state: &ArchiveState, options: &ExpiryOptions, octets: u64, now_ms: i64) -> Vec<Segment> {
    let candidates = state.oldest_first();
    let too_old = |flows: bool, age_max: Option<Duration>| {
        let age_max_ms = age_max.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
        let before = |age_ms: u64| now_ms.saturating_sub_unsigned(age_ms);
        let hit = age_max_ms.is_some_and(|age_ms| {
            let mut of_table = candidates.iter().filter(|segment| (segment.table == Table::Flows) == flows);
            of_table.any(|segment| segment.newest_ms() < before(age_ms))
        });
        age_max_ms.filter(|_| hit).map(|age_ms| before(options.low_water(age_ms)))
    };
    let [flows, beside] = [too_old(true, options.age_max), too_old(false, options.side_tables_age_max)];
    let mut expired = Vec::new();
    let mut left = octets;
    let mut rest = Vec::new();
    for segment in candidates {
        let limit = if segment.table == Table::Flows { flows } else { beside };
        if limit.is_some_and(|limit| segment.newest_ms() < limit) {
            left = left.saturating_sub(segment.octets);
            expired.push(Segment::clone(segment));
        } else {
            rest.push(segment);
        }
    }
    if let Some(octets_max) = options.octets_max.filter(|octets_max| left > *octets_max) {
        let low_water = options.low_water(octets_max);
        let beside = rest.iter().filter(|segment| segment.table != Table::Flows);
        let mut left_beside: u64 = beside.map(|segment| segment.octets).sum();
        for segment in rest {
            let is_beside = segment.table != Table::Flows;
            if left <= low_water || is_beside && left_beside <= low_water / 2 {
                break;
            }
            left = left.saturating_sub(segment.octets);
            left_beside -= if is_beside { segment.octets } else { 0 };
            expired.push(Segment::clone(segment));
        }
    }
    expired
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::civil::MS_PER_DAY;
    use crate::manifest::tests::segment_of;

    const NOW_MS: i64 = 100 * MS_PER_DAY;

    /// Segments of 10 octets, one a day, the last of them on day 99.
    fn stock(table: Table, count: i64) -> Vec<Segment> {
        let segment = |day: i64| Segment {
            octets: 10,
            time_range_ms: Some((0, day * MS_PER_DAY + 1000)),
            ..segment_of(table, day, day as u64)
        };
        (100 - count..100).map(segment).collect()
    }

    #[track_caller]
    fn check(stock: &[Vec<Segment>], options: &ExpiryOptions, expected: &[(Table, i64)]) {
        let mut state = ArchiveState::new();
        state.segments.extend(stock.concat().into_iter().map(|segment| (segment.key(), segment)));
        let expired = which(&state, options, state.octets(), NOW_MS);
        assert_eq!(expired.iter().map(|segment| (segment.table, segment.day)).collect::<Vec<_>>(), expected);
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
        wrong[0].time_range_ms = Some((0, 5));
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
        // whatever is not sealed yet, books that are small stay
        let mut state = ArchiveState::new();
        state.segments.extend(both.concat().into_iter().map(|segment| (segment.key(), segment)));
        let options = ExpiryOptions { octets_max: Some(100), low_water_percent: 100, ..NONE() };
        let expired = which(&state, &options, 1_000_000, NOW_MS);
        assert!(expired.len() == 3 && expired.iter().all(|segment| segment.table == Table::Flows), "{expired:?}");
        let books = ExpiryOptions { side_tables_age_max: Some(DAY * 2), low_water_percent: 100, ..NONE() };
        check(&both, &books, &[96, 97].map(|day| (Table::ExporterBooks, day)));
    }
}
