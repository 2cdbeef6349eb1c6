//! Compaction: small segments of one table and day become one.
//!
//! Collectors seal every few minutes, so a day begins as hundreds of small segments: each is opened, and its pages and
//! indexes are shorter than they could be. They are merged in tiers, as in a log-structured merge tree: several of
//! about one size at a time, so that a row is rewritten as often as the logarithm of its day's rows. Once a day is
//! over, whatever fits together is merged. What speaks against tiers is that a day has segments of several sizes;
//! merging all of it every time would rewrite every row hundreds of times.
//!
//! A merged segment is written to a folder of its own, synced, and moved into its place by one rename, which is the
//! commit point: its name has a wider range of tails, which supersedes those that it was made of. A crash before leaves
//! nothing but a file to be cleared, and after it only files that do not count. These are removed when no reader has
//! them any more (see `readers`).

mod merge;
mod plan;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{collections::HashSet, fs};

use crate::layout::Layout;
use crate::stock::{PlacedSegment, now_ms};
use crate::upkeep::Upkeep;
use crate::{Action, ArchiveError, ArchiveOptions, CompactionOptions, Segment, folder, space};

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
    // One merge at a time: a writer may have to make room in between.
    while compaction.step(&Upkeep::begin(&layout)?, &mut report)? {}
    let upkeep = Upkeep::begin(&layout)?;
    let removed = upkeep.remove(&upkeep.stock()?, &[], options.compaction.readers_wait_max, || Ok(()))?;
    compaction.done.files_removed += removed.files;
    compaction.done.waiting_for_readers = removed.waiting;
    Ok(compaction.done)
}

/// One merge.
#[derive(Debug)]
#[non_exhaustive]
pub struct Merge<'a> {
    /// Segments merged, of one table and day.
    pub inputs: &'a [PlacedSegment],
    /// What they became, or why they did not.
    pub result: Result<Segment, ArchiveError>,
}

/// Compaction going on.
#[derive(Debug)]
pub(crate) struct Compaction {
    options: ArchiveOptions,
    /// True when only days that are over are merged as a whole.
    settled_only: bool,
    /// Segments that could not be merged; nothing is gained by trying again and again.
    failed: HashSet<PathBuf>,
    pub(crate) done: CompactionReport,
    /// Time that the last merge took.
    pub(crate) last_time: Duration,
}

impl Compaction {
    pub(crate) fn new(options: &ArchiveOptions) -> Self {
        let (failed, done) = (HashSet::new(), CompactionReport::default());
        Self { options: *options, settled_only: true, failed, done, last_time: Duration::ZERO }
    }

    /// Merges once, if there is anything to merge. Days are looked through from the oldest, so that the ones that are
    /// over are finished first.
    pub(crate) fn step(&mut self, upkeep: &Upkeep, report: &mut impl FnMut(Merge<'_>)) -> Result<bool, ArchiveError> {
        let stock = upkeep.stock()?;
        let now_ms = now_ms();
        for day in stock.days() {
            let settled = !self.settled_only || plan::is_over(day, now_ms, self.options.compaction.settle_time);
            for part in day.split(|kept| self.failed.contains(&kept.segment.path)) {
                let next = plan::next(part, &self.options.compaction, settled);
                let of_books = || plan::next_books(part, self.options.compaction.books_minutes_age_max, now_ms);
                let Some(range) = next.or_else(of_books) else { continue };
                let inputs = &part[range];
                let octets = inputs.iter().map(|kept| kept.segment.octets).sum();
                if !space::has_room(upkeep.layout.root(), octets, self.options.free_octets_min)? {
                    self.done.postponed += 1;
                    return Ok(false);
                }
                let began = Instant::now();
                let merged = merge(upkeep, inputs, &self.options);
                self.last_time = began.elapsed();
                self.done.time += self.last_time;
                match merged {
                    Ok(None) => return Ok(false),
                    Ok(Some(segment)) => {
                        self.count(inputs, &segment);
                        report(Merge { inputs, result: Ok(segment) });
                    }
                    Err(error) => {
                        self.done.failures += 1;
                        self.failed.extend(inputs.iter().map(|kept| kept.segment.path.clone()));
                        report(Merge { inputs, result: Err(error) });
                    }
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn count(&mut self, inputs: &[PlacedSegment], merged: &Segment) {
        self.done.segments_written += 1;
        self.done.segments_merged += inputs.len() as u64;
        self.done.rows += merged.rows;
        self.done.octets_before += inputs.iter().map(|kept| kept.segment.octets).sum::<u64>();
        self.done.octets_after += merged.octets;
    }
}

/// Merges segments of one table and day, the oldest first, into one, and moves it into its place.
fn merge(upkeep: &Upkeep, inputs: &[PlacedSegment], options: &ArchiveOptions) -> Result<Option<Segment>, ArchiveError> {
    let Some(PlacedSegment { table, day, .. }) = inputs.first() else { return Ok(None) };
    let segments: Vec<Segment> = inputs.iter().map(|kept| kept.segment.clone()).collect();
    let path = upkeep.layout.merging().join(format!("{}-{day}.parquet", table.name()));
    let name = merge::merged(*table, &segments, &path, options).inspect_err(|_| discard(&path))?;
    let partition = upkeep.layout.partition(*table, *day);
    let place = partition.join(name.to_string());
    let placed = fs::rename(&path, &place);
    placed.map_err(Action::PlaceSegment.failed(&place))?;
    folder::sync(&partition)?;
    Segment::stat(place, name)
}

/// Removes what a merge that failed has written; the next maintenance would do it otherwise.
fn discard(path: &Path) {
    let _ = fs::remove_file(path);
}
