//! Compaction: small segments of one table and day become one.
//!
//! Collectors seal every few minutes, so a day begins as hundreds of small segments: each is opened, and its pages and
//! indexes are shorter than they could be. They are merged in tiers, as in a log-structured merge tree: several of
//! about one size at a time, so that a row is rewritten as often as the logarithm of its day's rows. Once a day is
//! over, whatever fits together is merged. What speaks against tiers is that a day has segments of several sizes;
//! merging all of it every time would rewrite every row hundreds of times.
//!
//! A merged segment is written to a folder of its own, synced and moved into its place. It counts from the commit on by
//! which those that it was made of do not; a crash before leaves a file that does not count. The files of the others
//! are removed when no reader needs them any more (see `readers`).

mod merge;
mod plan;

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::layout::Layout;
use crate::manifest::{ArchiveState, Edit, SegmentKey};
use crate::seal::place;
use crate::upkeep::{PendingLimits, Upkeep, now_ms};
use crate::{ArchiveError, ArchiveOptions, CompactionOptions, Segment, space};

/// After a merge that failed, its segments are left alone for this time, and twice as long after each further failure.
const PAUSE_MIN: Duration = Duration::from_mins(1);
/// At most so long; and at once so long when a file is damaged, which does not pass by itself.
const PAUSE_MAX: Duration = Duration::from_hours(24);

/// What compaction has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactionReport {
    /// Segments written.
    pub segments_written: u64,
    /// Segments merged into these.
    pub segments_merged: u64,
    /// Rows rewritten.
    pub rows: u64,
    /// Octets of the segments that were merged.
    pub octets_before: u64,
    /// Octets of the segments written.
    pub octets_after: u64,
    /// Times that merging failed, for instance because a segment is damaged; these segments stay as they are.
    pub failures: u64,
    /// Times that merging was put off because there was no space for the merged segment next to the others.
    pub postponed: u64,
    /// Times that segments had too much in one column for one merge; half as many are merged then.
    pub too_large: u64,
    /// Time spent on merging.
    pub time: Duration,
    /// Files removed that no longer count.
    pub files_removed: u64,
    /// True when files that no longer count are still held by readers.
    pub waiting_for_readers: bool,
}

/// Merges whatever fits together in the archive in `dir`, with a writer at work or without one. `report` is called with
/// each merge.
///
/// A merge that fails is counted and reported, and its segments are left alone.
pub fn compact(
    dir: &Path,
    options: &CompactionOptions,
    mut report: impl FnMut(Merge<'_>),
) -> Result<CompactionReport, ArchiveError> {
    let layout = Layout::new(dir);
    let options = ArchiveOptions { compaction: *options, free_octets_min: 0, ..ArchiveOptions::default() };
    let mut compaction = Compaction { settled_only: false, ..Compaction::new(&options) };
    // One merge at a time: a writer may have to free space in between.
    Upkeep::begin(&layout)?.remove_uncommitted()?;
    loop {
        let written = compaction.done.segments_written;
        let mut upkeep = Upkeep::begin(&layout)?;
        let goes_on = compaction.step(&mut upkeep, &mut report)?;
        // Now and then, so that a year of segments is not on the disk twice.
        let is_due = compaction.done.segments_written != written && (written + 1).is_multiple_of(MERGES_PER_REMOVAL);
        if is_due || !goes_on {
            let limits = PendingLimits::of_time(options.compaction.readers_wait_max);
            let removed = upkeep.remove_pending(&limits)?;
            compaction.done.files_removed += removed.files;
            compaction.done.waiting_for_readers = removed.waiting;
        }
        if !goes_on {
            upkeep.check_removals()?;
            return Ok(compaction.done);
        }
    }
}

/// Merges after which segments that were merged are removed.
const MERGES_PER_REMOVAL: u64 = 16;

/// One merge.
#[derive(Debug)]
#[non_exhaustive]
pub struct Merge<'a> {
    /// Segments merged, of one table and day.
    pub inputs: &'a [Segment],
    /// What they became, or why they did not.
    pub result: Result<Segment, ArchiveError>,
}

/// Compaction going on.
#[derive(Debug)]
pub(crate) struct Compaction {
    options: ArchiveOptions,
    /// True when only days that are over are merged as a whole.
    settled_only: bool,
    /// Segments that could not be merged, since when, and for how long they are left alone.
    failed: HashMap<SegmentKey, (Instant, Duration)>,
    /// How many segments may be merged from this one on, where more were too large together.
    inputs_max: HashMap<SegmentKey, usize>,
    pub(crate) done: CompactionReport,
    /// Time that the last merge took.
    pub(crate) last_time: Duration,
    /// Set when the merge that is under way is no longer wanted.
    is_ending: Arc<AtomicBool>,
}

impl Compaction {
    /// Where the archive has a limit, a merge is of no more than may wait for readers: what it merges stays for them.
    pub(crate) fn new(options: &ArchiveOptions) -> Self {
        let (failed, done) = (HashMap::new(), CompactionReport::default());
        let mut options = *options;
        let pending_octets_max = options.expiry.pending_octets_max().unwrap_or(u64::MAX);
        options.compaction.segment_octets_max = options.compaction.segment_octets_max.min(pending_octets_max);
        let (last_time, is_ending) = (Duration::ZERO, Arc::default());
        Self { options, settled_only: true, failed, inputs_max: HashMap::new(), done, last_time, is_ending }
    }

    /// The same, whose merges are abandoned once this is set: what they would have merged stays as it is.
    pub(crate) fn until(self, is_ending: Arc<AtomicBool>) -> Self {
        Self { is_ending, ..self }
    }

    /// Merges once, if there is anything to merge. Days are looked through from the oldest, so that the ones that are
    /// over are finished first.
    pub(crate) fn step(
        &mut self,
        upkeep: &mut Upkeep,
        report: &mut impl FnMut(Merge<'_>),
    ) -> Result<bool, ArchiveError> {
        let Some(inputs) = self.next(upkeep.state()) else { return Ok(false) };
        let octets = inputs.iter().map(|segment| segment.octets).sum();
        if !space::has_room(upkeep.layout.root(), octets, self.options.free_octets_min)? {
            self.done.postponed += 1;
            return Ok(false);
        }
        let began = Instant::now();
        let merged = merge(upkeep, &inputs, &self.options, &self.is_ending);
        self.last_time = began.elapsed();
        self.done.time += self.last_time;
        match merged {
            Ok(None) | Err(ArchiveError::MergeAbandoned) => return Ok(false),
            Err(ArchiveError::MergeTooLarge { .. }) => {
                self.done.too_large += 1;
                self.take_fewer(&inputs, upkeep.state());
            }
            Ok(Some(segment)) => {
                self.count(&inputs, &segment);
                report(Merge { inputs: &inputs, result: Ok(segment) });
            }
            Err(error) => {
                self.done.failures += 1;
                self.leave_alone(&inputs, &error);
                report(Merge { inputs: &inputs, result: Err(error) });
            }
        }
        Ok(true)
    }

    /// The segments that are merged next; `None` when nothing is to be merged.
    fn next(&self, state: &ArchiveState) -> Option<Vec<Segment>> {
        let now_ms = now_ms();
        let all: Vec<&Segment> = state.segments.values().collect();
        let is_left_alone =
            |segment: &&Segment| self.failed.get(&segment.key()).is_some_and(|(since, pause)| since.elapsed() < *pause);
        all.chunk_by(|a, b| a.is_beside(b)).find_map(|day| {
            let settled = !self.settled_only || plan::is_over(day, now_ms, self.options.compaction.settle_time);
            day.split(is_left_alone).find_map(|part| {
                let of_books = || plan::next_books(part, self.options.compaction.books_minutes_age_max, now_ms);
                let range = plan::next(part, &self.options.compaction, settled).or_else(of_books)?;
                let inputs = part.get(range)?;
                let inputs_max = inputs.first().and_then(|first| self.inputs_max.get(&first.key()));
                let inputs = inputs.iter().take(inputs_max.copied().unwrap_or(usize::MAX));
                Some(inputs.copied().cloned().collect())
            })
        })
    }

    /// Has half of these segments merged the next time, because they are too large together; of two the larger one is left alone,
    /// and a segment by itself stays as it is.
    fn take_fewer(&mut self, inputs: &[Segment], state: &ArchiveState) {
        // of segments that are gone nothing need be known
        self.inputs_max.retain(|key, _| state.segments.contains_key(key));
        self.failed.retain(|key, _| state.segments.contains_key(key));
        if inputs.len() > 2
            && let Some(first) = inputs.first()
        {
            self.inputs_max.insert(first.key(), (inputs.len() / 2).max(2));
        } else if let Some(largest) = inputs.iter().max_by_key(|segment| segment.octets) {
            self.failed.insert(largest.key(), (Instant::now(), PAUSE_MAX));
        }
    }

    /// Leaves segments alone whose merge failed. A failure of the system may pass; the larger part of a day must not
    /// wait for that of one segment.
    fn leave_alone(&mut self, inputs: &[Segment], error: &ArchiveError) {
        for key in inputs.iter().map(Segment::key) {
            let before = self.failed.get(&key).map_or(PAUSE_MIN / 2, |(_, pause)| *pause);
            let pause = if error.is_damage() { PAUSE_MAX } else { (before * 2).min(PAUSE_MAX) };
            self.failed.insert(key, (Instant::now(), pause));
        }
    }

    fn count(&mut self, inputs: &[Segment], merged: &Segment) {
        self.done.segments_written += 1;
        self.done.segments_merged += inputs.len() as u64;
        self.done.rows += merged.rows;
        self.done.octets_before += inputs.iter().map(|segment| segment.octets).sum::<u64>();
        self.done.octets_after += merged.octets;
    }
}

/// Merges segments of one table and day, the oldest first, into one that counts instead of them. `None` when one of
/// them has ceased to count meanwhile.
fn merge(
    upkeep: &mut Upkeep,
    inputs: &[Segment],
    options: &ArchiveOptions,
    is_ending: &AtomicBool,
) -> Result<Option<Segment>, ArchiveError> {
    let Some(Segment { table, day, .. }) = inputs.first() else { return Ok(None) };
    let path = upkeep.layout.merging().join(format!("{}-{day}.parquet", table.name()));
    let merged = merge::merged(*table, inputs, &path, options, is_ending).inspect_err(|_| discard(&path))?;
    let Some(output) = place(vec![(path, merged)])?.pop() else { return Ok(None) };
    let keys: Vec<SegmentKey> = inputs.iter().map(Segment::key).collect();
    let count = |state: &ArchiveState| inputs.iter().all(|input| state.segments.get(&input.key()) == Some(input));
    let committed = upkeep.manifest.commit_segments(std::slice::from_ref(&output), |state| {
        let edit = || Edit::Merged { inputs: keys.clone(), output: output.clone() };
        Ok(count(state).then(edit))
    })?;
    Ok(committed.then_some(output))
}

/// Removes what a merge that failed has written; the next maintenance would do it otherwise.
fn discard(path: &Path) {
    let _ = fs::remove_file(path);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use weir_flow::{Column, Delivery, FlowBatchBuilder, Table};

    use super::*;
    use crate::{ExpiryOptions, Writer};

    #[test]
    fn a_merge_that_nobody_waits_for_is_abandoned_and_done_the_next_time() {
        let dir = tempfile::tempdir().expect("a folder");
        let options = CompactionOptions { enabled: false, fan_in: 2, ..CompactionOptions::default() };
        let options = ArchiveOptions { compaction: options, ..ArchiveOptions::default() };
        for _ in 0..4 {
            let (mut writer, _) = Writer::open(dir.path(), options).expect("an archive");
            let mut builder = FlowBatchBuilder::new(10);
            builder.begin_rows(10);
            builder.time(Column::Received).repeat(1_763_683_200_000, 10);
            writer.append(Delivery::from(builder.finish())).expect("appended");
            writer.close().expect("sealed");
        }
        let mut upkeep = Upkeep::begin(&Layout::new(dir.path())).expect("the lock");
        let is_ending = Arc::new(AtomicBool::new(true));
        let mut compaction = Compaction::new(&options).until(Arc::clone(&is_ending));
        let mut merges = 0;
        let before = upkeep.state().clone();
        assert!(!compaction.step(&mut upkeep, &mut |_| merges += 1).expect("no failure"));
        assert_eq!((merges, compaction.done.failures, upkeep.state()), (0, 0, &before));
        assert_eq!(fs::read_dir(upkeep.layout.merging()).expect("a folder").count(), 0, "nothing is left of it");
        is_ending.store(false, Ordering::Relaxed);
        assert!(compaction.step(&mut upkeep, &mut |merge| merges += u64::from(merge.result.is_ok())).expect("merged"));
        assert_eq!((merges, compaction.done.failures), (1, 0));
    }

    #[test]
    fn what_is_too_large_for_one_merge_is_merged_with_fewer() {
        let dir = tempfile::tempdir().expect("a folder");
        let none = CompactionOptions { enabled: false, ..CompactionOptions::default() };
        let options = ArchiveOptions { compaction: none, ..ArchiveOptions::default() };
        for _ in 0..8 {
            let (mut writer, _) = Writer::open(dir.path(), options).expect("an archive");
            let mut builder = FlowBatchBuilder::new(10);
            builder.begin_rows(10);
            builder.time(Column::Received).repeat(1_763_683_200_000, 10);
            let name = "x".repeat(1_000);
            (0..10).for_each(|_| builder.text(Column::ServerName).push(Some(name.as_bytes())));
            writer.append(Delivery::from(builder.finish())).expect("appended");
            writer.close().expect("sealed");
        }
        // two of them are within it, three are not; each compresses to next to nothing
        let options = CompactionOptions { fan_in: 2, column_octets_max: 25_000, ..CompactionOptions::default() };
        let report = compact(dir.path(), &options, |_| {}).expect("no failure");
        assert!(report.too_large > 0, "{report:?}");
        assert_eq!((report.failures, report.segments_merged, report.segments_written, report.rows), (0, 8, 4, 80));
        let snapshot = crate::Snapshot::open(dir.path()).expect("a snapshot");
        let rows: Vec<u64> = snapshot.segments(Table::Flows).iter().map(|segment| segment.rows).collect();
        assert_eq!(rows, [20; 4]);
    }

    #[test]
    fn a_merge_is_of_no_more_than_may_wait_for_readers() {
        let of = |expiry| Compaction::new(&ArchiveOptions { expiry, ..ArchiveOptions::default() }).options.compaction;
        assert_eq!(of(ExpiryOptions::default()).segment_octets_max, 512 << 20);
        let gibibyte = ExpiryOptions { octets_max: Some(1 << 30), ..ExpiryOptions::default() };
        assert_eq!(of(gibibyte).segment_octets_max, 128 << 20);
        let tebibyte = ExpiryOptions { octets_max: Some(1 << 40), ..ExpiryOptions::default() };
        assert_eq!(of(tebibyte).segment_octets_max, 512 << 20);
    }
}
