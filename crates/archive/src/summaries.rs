//! Summaries: the rollups of segments whose flows have expired.
//!
//! Rollups take a hundredth of what flows take, so they can stay for much longer. Before a segment of flows expires,
//! its rollups are written as they are to a file of their own, in `summaries/` under the segment's day and name
//! ([`keep`] tells how). What speaks against files of their own is that an archive has as many of them as it ever had
//! merged segments; rewriting them as larger ones would save little and need the care that merging takes.
//!
//! A summary counts only when no segment that counts was made of its tails. So it may be written long before its
//! segment goes, and a crash in between counts nothing twice: until the segment has gone the summary does not count.
//! Readers find it the same way: one that still has the segment in a listing leaves the summary out.

mod format;
pub(crate) mod keep;

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use weir_flow::Table;

use crate::layout::Layout;
use crate::readers::Lease;
use crate::rollup::read_rollup;
use crate::segment::{SegmentName, without_covered};
use crate::stock::{PlacedSegment, Stock, day_of};
use crate::{Action, ArchiveError, Position, Rollup, RollupTable, Segment, folder};

/// What the name of a summary ends in, where that of its segment ends in `.parquet`.
pub(crate) const SUFFIX: &str = ".rollups";

/// The rollups of a segment of flows that has expired, as a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentSummary {
    /// What the name says, which is what the segment's name said; the path is that of the summary.
    kept: PlacedSegment,
}

impl SegmentSummary {
    fn new(segment: Segment) -> Self {
        Self { kept: PlacedSegment { table: Table::Flows, day: day_of(&segment.path), segment } }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.kept.segment.path
    }

    /// Size of the file in octets.
    pub fn octets(&self) -> u64 {
        self.kept.segment.octets
    }

    /// Rows that the segment had.
    pub fn rows(&self) -> u64 {
        self.kept.segment.rows
    }

    /// The UTC day of the flows, as `YYYY-MM-DD`.
    pub fn day_text(&self) -> String {
        self.kept.day_text()
    }

    /// Smallest and largest of all values of `start` and `end`, milliseconds since the epoch; `None` when no flow had
    /// either.
    pub fn time_range_ms(&self) -> Option<(i64, i64)> {
        self.kept.segment.time_range_ms
    }

    /// The time of the newest flow, see [`PlacedSegment::newest_ms`].
    pub fn newest_ms(&self) -> i64 {
        self.kept.newest_ms()
    }

    /// The sums by one kind of key; `None` when the segment had none, nor could they be made of its flows.
    pub fn rollup(&self, rollup: Rollup) -> Result<Option<RollupTable>, ArchiveError> {
        let file = self.open()?;
        let sections = format::sections(&file, self.path())?;
        read_rollup(&sections, &file, self.path(), rollup).map_err(of_summary)
    }

    /// Reads the whole file, verifies every checksum and decodes every table; the checksums cover every octet.
    pub fn check(&self) -> Result<(), ArchiveError> {
        let file = self.open()?;
        let sections = format::sections(&file, self.path())?;
        for &rollup in Rollup::ALL {
            read_rollup(&sections, &file, self.path(), rollup).map_err(of_summary)?;
        }
        Ok(())
    }

    /// Whether it is that of a segment.
    pub(crate) fn is_of(&self, kept: &PlacedSegment) -> bool {
        (self.kept.table, self.kept.day, self.kept.segment.tails) == (kept.table, kept.day, kept.segment.tails)
    }

    fn open(&self) -> Result<File, ArchiveError> {
        File::open(self.path()).map_err(Action::ReadSummary.failed(self.path()))
    }
}

/// Sections are read as those of segments; the error must name what it is about.
fn of_summary(error: ArchiveError) -> ArchiveError {
    match error {
        ArchiveError::DamagedSegment { path, part } => ArchiveError::DamagedSummary { path, part },
        ArchiveError::Io { path, source, .. } => Action::ReadSummary.failed(&path)(source),
        other => other,
    }
}

/// The summaries of an archive.
#[derive(Debug, Default)]
pub(crate) struct Summaries {
    /// Those that count, by day and tails.
    pub(crate) live: Vec<SegmentSummary>,
    /// Those whose flows are there still, or that a wider one covers.
    pub(crate) void: Vec<SegmentSummary>,
}

impl Stock {
    /// The summaries next to these segments. The caller holds the lock of upkeep, or a lease.
    pub(crate) fn summaries(&self, layout: &Layout) -> Result<Summaries, ArchiveError> {
        let flows = self.live.iter().filter(|kept| kept.table == Table::Flows);
        Summaries::of_segments(layout, &Lease::take(layout)?, flows.map(|kept| &kept.segment))
    }
}

impl Summaries {
    /// Lists the summaries next to these segments of flows, which are those that count.
    pub(crate) fn of_segments<'a>(
        layout: &Layout,
        lease: &Lease,
        segments: impl Iterator<Item = &'a Segment>,
    ) -> Result<Self, ArchiveError> {
        let mut all = list(layout)?;
        all.retain(|segment| !lease.has_expired(layout, &segment.path));
        let mut tails_of_day: HashMap<OsString, Vec<(u64, u64)>> = HashMap::new();
        for segment in segments {
            let Some(day) = day_name(&segment.path) else { continue };
            tails_of_day.entry(day).or_default().push(segment.tails);
        }
        let has_flows = |summary: &Segment| {
            let tails = day_name(&summary.path).and_then(|day| tails_of_day.get(&day));
            // one tail in common is enough: nothing may count twice
            tails.is_some_and(|all| all.iter().any(|tails| tails.0 <= summary.tails.1 && summary.tails.0 <= tails.1))
        };
        let live = without_covered(all.iter().filter(|summary| !has_flows(summary)).cloned().collect());
        let counting: HashSet<PathBuf> = live.iter().map(|segment| segment.path.clone()).collect();
        all.retain(|segment| !counting.contains(&segment.path));
        let summaries = |segments: Vec<Segment>| segments.into_iter().map(SegmentSummary::new).collect();
        Ok(Self { live: summaries(live), void: summaries(all) })
    }

    /// Octets of those that count.
    pub(crate) fn octets(&self) -> u64 {
        self.live.iter().map(SegmentSummary::octets).sum()
    }

    /// Of those that count the ones whose flows are in a snapshot made of tails before `first` at this position.
    pub(crate) fn at(self, first: Option<u64>, position: Position) -> Vec<SegmentSummary> {
        let is_before = |summary: &SegmentSummary| {
            let segment = &summary.kept.segment;
            first.is_none_or(|first| segment.tails.1 < first) && segment.last <= position
        };
        self.live.into_iter().filter(is_before).collect()
    }
}

fn day_name(path: &Path) -> Option<OsString> {
    path.parent()?.file_name().map(ToOwned::to_owned)
}

/// Every file of a summary, by day and tails.
fn list(layout: &Layout) -> Result<Vec<Segment>, ArchiveError> {
    let mut found = Vec::new();
    for partition in layout.summary_partitions()? {
        for name in folder::names(&partition)? {
            let Some(parsed) = name.to_str().and_then(parse) else { continue };
            found.extend(Segment::stat(partition.join(&name), parsed)?);
        }
    }
    found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn parse(name: &str) -> Option<SegmentName> {
    SegmentName::parse_stem(name.strip_suffix(SUFFIX)?)
}

/// Whether a file that is called so is a summary.
pub(crate) fn is_name(name: &str) -> bool {
    parse(name).is_some()
}

/// Whether a file is there.
pub(crate) fn exists(path: &Path) -> Result<bool, ArchiveError> {
    match path.metadata() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(source) => Err(Action::ReadSummary.failed(path)(source)),
    }
}
