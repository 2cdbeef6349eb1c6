//! The free space of an archive's file system, and what happens when there is none.

use std::path::Path;
use std::time::Duration;

use nix::sys::statvfs::statvfs;

use crate::expiry::{tail_octets, write_late};
use crate::layout::Layout;
use crate::manifest::{Edit, Manifest, SegmentKey};
use crate::summaries::SegmentSummary;
use crate::summaries::keep::{SummaryCounts, SummaryWriter, WaitingSummary};
use crate::upkeep::{PendingLimits, Removal, Upkeep, now_ms};
use crate::{Action, ArchiveError, ArchiveOptions, Segment, WhenFull, disk};

/// The reserve is at most this part of its file system.
const RESERVE_PART_MAX: u64 = 20;

/// Room kept for the books, some thousand of their lines.
const BOOKS_OCTETS: u64 = 1 << 20;

/// Room kept for commits, so that what goes from a full disk can be said.
const COMMITS_OCTETS: u64 = 256 << 10;

/// Each of the two is at most this part of its file system.
const KEPT_PART_MAX: u64 = 64;

/// Free space of a file system, for those who are not root, in octets.
#[derive(Debug, Clone, Copy)]
struct Space {
    free: u64,
    total: u64,
}

impl Space {
    // the types of the fields differ from one system to another
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
    fn at(path: &Path) -> Result<Self, ArchiveError> {
        let found = statvfs(path).map_err(|error| Action::MeasureFreeSpace.failed(path)(error.into()))?;
        let unit = u64::from(found.fragment_size());
        Ok(Self { free: unit * u64::from(found.blocks_available()), total: unit * u64::from(found.blocks()) })
    }

    fn is_short(self, octets: u64, options: &ArchiveOptions) -> bool {
        self.free < self.reserve(options.free_octets_min).saturating_add(octets)
    }

    fn reserve(self, octets: u64) -> u64 {
        octets.min(self.total / RESERVE_PART_MAX)
    }

    fn kept(self, octets: u64) -> u64 {
        octets.min(self.total / KEPT_PART_MAX)
    }
}

/// Keeps room for what the books have to say of flows that a full disk did not take. Where there is none, or the file system
/// cannot do that, there is no such room, and that is no error.
pub(crate) fn keep_reserve(layout: &Layout) {
    let path = layout.reserve();
    let Ok(space) = Space::at(layout.root()) else { return };
    let octets = space.kept(BOOKS_OCTETS);
    if std::fs::metadata(&path).map_or(0, |found| found.len()) < octets {
        let _ = disk::reserve(&path, octets);
    }
}

/// Gives this space back to the disk.
pub(crate) fn release_reserve(layout: &Layout) {
    let _ = disk::remove(&layout.reserve());
}

/// Keeps room for commits on a full disk, in the same way.
pub(crate) fn keep_commits_reserve(manifest: &Manifest, root: &Path) {
    if let Ok(space) = Space::at(root) {
        manifest.keep_reserve(space.kept(COMMITS_OCTETS));
    }
}

/// Free space of the file system of a folder, in octets.
pub(crate) fn free_octets(path: &Path) -> Result<u64, ArchiveError> {
    Space::at(path).map(|space| space.free)
}

/// Whether `octets` more would touch the reserve, and the oldest segments may be removed to restore it.
pub(crate) fn is_short(path: &Path, octets: u64, options: &ArchiveOptions) -> Result<bool, ArchiveError> {
    Ok(options.when_full == WhenFull::OldestFirst && Space::at(path)?.is_short(octets, options))
}

/// Whether there is space for `octets` more, and for a reserve.
pub(crate) fn has_room(path: &Path, octets: u64, reserve_octets: u64) -> Result<bool, ArchiveError> {
    let space = Space::at(path)?;
    Ok(space.free >= octets.saturating_add(space.reserve(reserve_octets)))
}

/// What was removed to free space.
#[derive(Debug, Default)]
pub(crate) struct FreedSpace {
    pub(crate) files: u64,
    /// Flows that are gone.
    pub(crate) rows: u64,
    pub(crate) octets: u64,
    /// The summaries written of them.
    pub(crate) written: SummaryCounts,
    /// Summaries that are gone.
    pub(crate) summaries: u64,
    /// True when there is still too little space, and nothing more may be removed for it.
    pub(crate) is_at_floor: bool,
}

impl FreedSpace {
    fn count(&mut self, removed: Removal) {
        self.files += removed.files;
        self.octets += removed.octets;
    }
}

/// Removes files until the reserve is there again, at least one: first those that do not count any more, then the
/// oldest segments, whose rollups are kept where there is room for them, and in the end the oldest summaries. The
/// newest stay, so many octets as the options say: another program that fills the disk must not empty the archive. Tails
/// are the newest of all. Where they are as much, all older segments go for the one that the next of them becomes: the
/// disk would be full of tails for ever. Of the summaries, which are all that is left of their flows, as many octets stay.
///
/// What was freed before an error is counted too.
pub(crate) fn make_room(
    upkeep: &mut Upkeep,
    options: &ArchiveOptions,
    waiting: &mut Vec<WaitingSummary>,
    freed: &mut FreedSpace,
) -> Result<(), ArchiveError> {
    freed.count(upkeep.remove_pending(&PendingLimits::of_time(Duration::ZERO))?);
    let root = upkeep.layout.root().to_owned();
    let enough = |freed: &FreedSpace| Ok(freed.files > 0 && !Space::at(&root)?.is_short(0, options));
    let floor = Space::at(&root)?.reserve(options.oldest_first_octets_min);
    let mut octets_left = upkeep.state().octets() + tail_octets(&upkeep.layout)?;
    let oldest: Vec<Segment> = upkeep.state().oldest_first().into_iter().cloned().collect();
    for segment in oldest {
        if enough(freed)? {
            return Ok(());
        }
        octets_left -= segment.octets;
        if octets_left < floor {
            break;
        }
        remove_segment(upkeep, options, &segment, waiting, freed)?;
    }
    remove_summaries(upkeep, floor, enough, freed)?;
    freed.is_at_floor = !enough(freed)?;
    Ok(())
}

/// Removes one segment, at once: readers are not waited for.
fn remove_segment(
    upkeep: &mut Upkeep,
    options: &ArchiveOptions,
    segment: &Segment,
    waiting: &mut Vec<WaitingSummary>,
    freed: &mut FreedSpace,
) -> Result<(), ArchiveError> {
    let layout = upkeep.layout.clone();
    let mut keeper = SummaryWriter::new(&layout, options.expiry.summaries, options.heavy_keys_min, now_ms());
    keeper.keep(segment)?;
    let (key, written) = (segment.key(), keeper.written);
    upkeep
        .manifest
        .commit(|_| Ok(Some(Edit::Expired { segments: vec![key], written: written.clone(), summaries: Vec::new() })))?;
    freed.written.add(&keeper.counts);
    freed.rows += if segment.table == weir_flow::Table::Flows { segment.rows } else { 0 };
    waiting.extend(keeper.waiting);
    freed.count(upkeep.remove_pending(&PendingLimits::of_time(Duration::ZERO))?);
    write_late(upkeep, waiting, &mut freed.written)
}

/// Removes the oldest summaries until it is enough, or so many octets of them are left.
fn remove_summaries(
    upkeep: &mut Upkeep,
    floor: u64,
    enough: impl Fn(&FreedSpace) -> Result<bool, ArchiveError>,
    freed: &mut FreedSpace,
) -> Result<(), ArchiveError> {
    let summaries = &upkeep.state().summaries;
    let mut octets_left: u64 = summaries.values().map(SegmentSummary::octets).sum();
    let mut oldest: Vec<(i64, SegmentKey, u64)> =
        summaries.iter().map(|(key, summary)| (summary.newest_ms(), *key, summary.octets())).collect();
    oldest.sort_unstable();
    for (_, key, octets) in oldest {
        octets_left -= octets;
        if octets_left < floor || enough(freed)? {
            break;
        }
        upkeep
            .manifest
            .commit(|_| Ok(Some(Edit::Expired { segments: Vec::new(), written: Vec::new(), summaries: vec![key] })))?;
        freed.summaries += 1;
        freed.count(upkeep.remove_pending(&PendingLimits::of_time(Duration::ZERO))?);
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;

    use weir_flow::{Column, Delivery, FlowBatchBuilder};

    use super::*;
    use crate::{SummaryOptions, Writer};

    /// An archive of so many segments of one flow each.
    pub(crate) fn archive(dir: &Path, segments: usize) -> Layout {
        let (mut writer, _) = Writer::open(dir, ArchiveOptions::default()).expect("an archive");
        for _ in 0..segments {
            let mut builder = FlowBatchBuilder::new(1);
            builder.begin_rows(1);
            builder.time(Column::Received).push(Some(1));
            writer.append(Delivery::from(builder.finish())).expect("appended");
            writer.rotate();
        }
        writer.close().expect("sealed");
        Layout::new(dir)
    }

    /// Puts a folder in the place of the first lease, which cannot be dropped then: removing files is an error.
    pub(crate) fn keep_files(layout: &Layout) {
        let lease = layout.readers().join(format!("{:016}", 0));
        fs::remove_file(&lease).expect("the first lease");
        fs::create_dir(&lease).expect("in its place");
    }

    /// On a full disk, but for summaries of whatever age.
    fn everything_may_go() -> ArchiveOptions {
        let mut options = ArchiveOptions {
            when_full: WhenFull::OldestFirst,
            oldest_first_octets_min: 0,
            ..ArchiveOptions::default()
        };
        options.expiry.summaries = SummaryOptions { age_max: Duration::MAX, octets_max: None };
        options
    }

    #[test]
    fn what_went_before_an_error_is_counted() {
        let dir = tempfile::tempdir().expect("a folder");
        let layout = archive(dir.path(), 2);
        keep_files(&layout);
        let mut upkeep = Upkeep::begin(&layout).expect("the lock");
        let options = everything_may_go();
        let (mut waiting, mut freed) = (Vec::new(), FreedSpace::default());
        make_room(&mut upkeep, &options, &mut waiting, &mut freed).expect_err("no file can be removed");
        let counted = (freed.rows, freed.written.summaries, freed.written.without_sums);
        assert_eq!(counted, (1, 1, 1), "{freed:?}");
        assert!(upkeep.state().oldest_first().is_empty(), "it counts no more");
    }

    #[test]
    fn summaries_go_down_to_what_stays() {
        let dir = tempfile::tempdir().expect("a folder");
        let layout = archive(dir.path(), 5);
        let mut upkeep = Upkeep::begin(&layout).expect("the lock");
        let options = everything_may_go();
        let (mut waiting, mut freed) = (Vec::new(), FreedSpace::default());
        for segment in upkeep.state().oldest_first().into_iter().cloned().collect::<Vec<_>>() {
            remove_segment(&mut upkeep, &options, &segment, &mut waiting, &mut freed).expect("removed");
        }
        let octets =
            |upkeep: &Upkeep| upkeep.state().summaries.values().map(SegmentSummary::octets).collect::<Vec<_>>();
        let before = octets(&upkeep);
        assert_eq!(before.len(), 4);
        let floor: u64 = before.iter().skip(2).sum();
        remove_summaries(&mut upkeep, floor, |_| Ok(false), &mut freed).expect("removed");
        assert_eq!((octets(&upkeep), freed.summaries), (before[2..].to_vec(), 2));
    }
}
