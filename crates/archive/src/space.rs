//! The free space of an archive's file system, and what happens when there is none.

use std::path::Path;
use std::time::Duration;

use nix::sys::statvfs::statvfs;

use crate::readers::remove;
use crate::stock::{PlacedSegment, now_ms};
use crate::summaries::SegmentSummary;
use crate::summaries::keep::{SummaryCounts, SummaryWriter};
use crate::upkeep::Upkeep;
use crate::{Action, ArchiveError, ArchiveOptions, WhenFull};

/// The reserve is at most this part of its file system.
const RESERVE_PART_MAX: u64 = 20;

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

/// What was removed to make room.
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
}

/// Removes files until the reserve is there again, at least one: first those that do not count any more, then the
/// oldest segments, whose rollups are kept where there is room for them, and in the end the oldest summaries.
pub(crate) fn make_room(upkeep: &Upkeep, options: &ArchiveOptions) -> Result<FreedSpace, ArchiveError> {
    let stock = upkeep.stock()?;
    let removed = upkeep.remove_retired(&stock, Duration::ZERO)?;
    let mut freed = FreedSpace { files: removed.files, octets: removed.octets, ..FreedSpace::default() };
    let enough = |freed: &FreedSpace| Ok(freed.files > 0 && !Space::at(upkeep.layout.root())?.is_short(0, options));
    for PlacedSegment { segment, .. } in &stock.covered {
        if let Some(octets) = remove(&segment.path)? {
            freed.octets += octets;
            freed.files += 1;
        }
    }
    for kept in stock.candidates() {
        if enough(&freed)? {
            return Ok(freed);
        }
        let mut keeper = SummaryWriter::new(&upkeep.layout, options.expiry.summaries, options.heavy_keys_min, now_ms());
        keeper.keep(kept)?;
        let octets = remove(&kept.segment.path)?;
        freed.written.add(&keeper.finish()?);
        if let Some(octets) = octets {
            freed.octets += octets;
            freed.files += 1;
            freed.rows += if kept.table == weir_flow::Table::Flows { kept.segment.rows } else { 0 };
        }
    }
    remove_summaries(upkeep, enough, &mut freed)?;
    Ok(freed)
}

/// Removes the oldest summaries until it is enough.
fn remove_summaries(
    upkeep: &Upkeep,
    enough: impl Fn(&FreedSpace) -> Result<bool, ArchiveError>,
    freed: &mut FreedSpace,
) -> Result<(), ArchiveError> {
    let mut summaries = upkeep.stock()?.summaries(&upkeep.layout)?.live;
    summaries.sort_by_key(SegmentSummary::newest_ms);
    for summary in summaries {
        if enough(freed)? {
            break;
        }
        if let Some(octets) = remove(summary.path())? {
            freed.octets += octets;
            freed.files += 1;
            freed.summaries += 1;
        }
    }
    Ok(())
}
