//! The segments that an archive has, as upkeep sees them: by table and day, those that count and those that do not.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use weir_flow::Table;

use crate::civil::{MS_PER_DAY, day_of_text, day_text};
use crate::layout::Layout;
use crate::position::TailNumber;
use crate::readers::Lease;
use crate::segment::without_covered;
use crate::{ArchiveError, Segment, folder};

/// Attempts to list segments while tails are sealed.
const ATTEMPTS_MAX: u32 = 1000;

/// A segment with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedSegment {
    /// Its table.
    pub table: Table,
    /// The UTC day of its rows, counted from 1970-01-01.
    pub day: i64,
    /// The file.
    pub segment: Segment,
}

impl PlacedSegment {
    /// The day as `YYYY-MM-DD`.
    pub fn day_text(&self) -> String {
        day_text(self.day)
    }

    /// The time of its newest row, in milliseconds since the epoch: the end of its last flow, as long as that lies
    /// within the day on which the flow was received; otherwise the end of that day. Clocks of exporters may be wrong.
    pub fn newest_ms(&self) -> i64 {
        let day = (self.day * MS_PER_DAY)..((self.day + 1) * MS_PER_DAY);
        self.segment.time_range_ms.map(|(_, last)| last).filter(|last| day.contains(last)).unwrap_or(day.end)
    }
}

/// The committed segments of an archive.
#[derive(Debug, Default)]
pub(crate) struct Stock {
    /// Those that count, by table, day and tails.
    pub(crate) live: Vec<PlacedSegment>,
    /// Those that a wider one covers, the narrowest first.
    pub(crate) covered: Vec<PlacedSegment>,
}

impl Stock {
    /// Lists the segments whose commitment survives a crash of the machine. The caller holds the lock of upkeep, so
    /// that none goes meanwhile.
    pub(crate) fn read(layout: &Layout) -> Result<Self, ArchiveError> {
        let lease = Lease::take(layout)?;
        for _ in 0..ATTEMPTS_MAX {
            // Tails are removed in the order of their numbers, so what has a smaller number than all is committed.
            let first = layout.tail_numbers()?.first().copied();
            let stock = Self::before(layout, first, &lease)?;
            // Without a tail, one may have been begun meanwhile, and its segments listed too early.
            if first.is_some() || layout.tail_numbers()?.is_empty() {
                // A removal that a crash takes back would make the sealed tail count again, and not its segments.
                folder::sync(&layout.tails())?;
                return Ok(stock);
            }
        }
        Err(ArchiveError::Unsettled { path: layout.tails(), attempts: ATTEMPTS_MAX })
    }

    fn before(layout: &Layout, first: Option<TailNumber>, lease: &Lease) -> Result<Self, ArchiveError> {
        let mut stock = Self::default();
        for &table in Table::ALL {
            let mut all = layout.segments(table)?;
            all.retain(|segment| first.is_none_or(|first| segment.tails.1 < first));
            let live = without_covered(all.clone());
            let counting: HashSet<&Path> = live.iter().map(|segment| segment.path.as_path()).collect();
            for segment in &all {
                let kept = PlacedSegment { table, day: day_of(&segment.path), segment: segment.clone() };
                if !counting.contains(segment.path.as_path()) {
                    stock.covered.push(kept);
                } else if !lease.has_expired(layout, &segment.path) {
                    stock.live.push(kept);
                }
            }
        }
        stock.covered.sort_by_key(|kept| kept.segment.tails.1 - kept.segment.tails.0);
        Ok(stock)
    }

    /// Octets of the segments that count.
    pub(crate) fn octets(&self) -> u64 {
        self.live.iter().map(|kept| kept.segment.octets).sum()
    }

    /// Paths of the covered segments.
    pub(crate) fn covered_paths(&self) -> HashSet<PathBuf> {
        self.covered.iter().map(|kept| kept.segment.path.clone()).collect()
    }

    /// The last tail that any segment was made of. Its segments must stay: positions and tails go on from them.
    pub(crate) fn last_tail(&self) -> TailNumber {
        self.live.iter().map(|kept| kept.segment.tails.1).max().unwrap_or_default()
    }

    /// Segments that may go, those that go first in front.
    pub(crate) fn candidates(&self) -> Vec<&PlacedSegment> {
        let newest: TailNumber = self.last_tail();
        let mut candidates: Vec<_> = self.live.iter().filter(|kept| kept.segment.tails.1 < newest).collect();
        candidates.sort_by_key(|kept| (kept.table != Table::Flows, kept.newest_ms(), kept.segment.tails));
        candidates
    }

    /// Live segments of each table and day.
    pub(crate) fn days(&self) -> impl Iterator<Item = &[PlacedSegment]> {
        self.live.chunk_by(|a, b| (a.table, a.day) == (b.table, b.day))
    }
}

/// Now, in milliseconds since the epoch.
pub(crate) fn now_ms() -> i64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as i64)
}

/// The day of a segment's folder. A folder that is named otherwise has no day, and counts as older than any.
pub(crate) fn day_of(path: &Path) -> i64 {
    let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    folder.and_then(|name| day_of_text(name.strip_prefix("date=")?)).unwrap_or(i64::from(i32::MIN))
}
