//! Summaries: the rollups of segments whose flows have expired.
//!
//! Rollups take a hundredth of what flows take, so they can stay for much longer. Before a segment of flows expires,
//! its rollups are written as they are to a file of their own, in `summaries/` under the segment's day and name. What
//! speaks against files of their own is that an archive has as many of them as it ever had merged segments; rewriting
//! them as larger ones would save little and need the care that merging takes.
//!
//! A summary counts from the commit on by which its segment does not: so it is written before, and a crash in between
//! leaves a file that does not count.

mod format;
pub(crate) mod keep;

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::PathBuf;

use weir_flow::Table;

use crate::layout::Layout;
use crate::manifest::SegmentKey;
use crate::position::LOCAL;
use crate::rollup::read_rollup;
use crate::segment::SegmentName;
use crate::tail_set::TailSet;
use crate::{Action, ArchiveError, Rollup, RollupTable, Segment};

/// What the name of a summary ends in, where that of its segment ends in `.parquet`.
pub(crate) const SUFFIX: &str = ".rollups";

/// The rollups of a segment of flows that has expired, as a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentSummary {
    /// The segment as it was.
    segment: Segment,
    octets: u64,
}

impl SegmentSummary {
    /// The summary of a segment, in a file of so many octets.
    pub(crate) fn of(segment: Segment, octets: u64) -> Self {
        Self { segment, octets }
    }

    /// The file.
    pub fn path(&self) -> PathBuf {
        self.partition().join(format!("{}{SUFFIX}", self.segment.name().stem()))
    }

    pub(crate) fn partition(&self) -> PathBuf {
        Layout::new(&self.segment.root).summary_partition(self.segment.day)
    }

    /// Size of the file in octets.
    pub fn octets(&self) -> u64 {
        self.octets
    }

    /// Rows that the segment had.
    pub fn rows(&self) -> u64 {
        self.segment.rows
    }

    /// The UTC day of the flows, as `YYYY-MM-DD`.
    pub fn day_text(&self) -> String {
        self.segment.day_text()
    }

    /// Smallest and largest of all values of `start` and `end`, milliseconds since the epoch; `None` when no flow had
    /// either.
    pub fn time_range_ms(&self) -> Option<(i64, i64)> {
        self.segment.time_range_ms
    }

    /// The time of the newest flow, see [`Segment::newest_ms`].
    pub fn newest_ms(&self) -> i64 {
        self.segment.newest_ms()
    }

    /// The segment as it was.
    pub(crate) fn segment(&self) -> &Segment {
        &self.segment
    }

    pub(crate) fn tails(&self) -> &TailSet {
        &self.segment.tails
    }

    pub(crate) fn key(&self) -> SegmentKey {
        self.segment.key()
    }

    /// The sums by one kind of key; `None` when the segment had none, nor could they be made of its flows.
    pub fn rollup(&self, rollup: Rollup) -> Result<Option<RollupTable>, ArchiveError> {
        let (file, path) = (self.open()?, self.path());
        let sections = format::sections(&file, &path)?;
        read_rollup(&sections, &file, &path, rollup).map_err(of_summary)
    }

    /// Reads the whole file, verifies every checksum and decodes every table; the checksums cover every octet.
    pub fn check(&self) -> Result<(), ArchiveError> {
        let (file, path) = (self.open()?, self.path());
        let sections = format::sections(&file, &path)?;
        format::tails(&sections, &file, &path)?;
        for &rollup in Rollup::ALL {
            read_rollup(&sections, &file, &path, rollup).map_err(of_summary)?;
        }
        Ok(())
    }

    /// Whether the file is there, and is this summary.
    pub(crate) fn is_in_place(&self) -> bool {
        self.open().is_ok()
    }

    /// Opens the file, once it is certain that it is this summary: that it has the size that was written, and names
    /// the tails of its segment.
    fn open(&self) -> Result<File, ArchiveError> {
        let path = self.path();
        let failed = Action::ReadSummary.failed(&path);
        let file = File::open(&path).map_err(failed)?;
        let octets = file.metadata().map_err(failed)?.len();
        let sections = format::sections(&file, &path)?;
        let is_other = format::tails(&sections, &file, &path)?.is_some_and(|tails| &tails != self.tails());
        if octets != self.octets || is_other {
            return Err(ArchiveError::DamagedSummary { path, part: "it is another file".to_owned() });
        }
        Ok(file)
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

/// The summary in a file, by its name and, where it is to be read, by what it says of its tails. `None` when the name
/// is none of a summary, or the file has just vanished.
pub(crate) fn found_summary(
    layout: &Layout,
    day: i64,
    name: &str,
    read: bool,
) -> Result<Option<SegmentSummary>, ArchiveError> {
    let Some(parsed) = name.strip_suffix(SUFFIX).and_then(SegmentName::parse_stem) else { return Ok(None) };
    let path = layout.summary_partition(day).join(name);
    let octets = match fs::metadata(&path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Action::ReadSummary.failed(&path)(source)),
    };
    let mut tails = TailSet::range(parsed.tails.0, parsed.tails.1);
    if read && let Ok(file) = File::open(&path) {
        // One that is damaged goes by its name; reading it is an error then.
        let named = format::sections(&file, &path).and_then(|sections| format::tails(&sections, &file, &path));
        tails = named.ok().flatten().unwrap_or(tails);
    }
    let segment = Segment {
        table: Table::Flows,
        day,
        rows: parsed.rows,
        octets: 0,
        first: parsed.first,
        last: parsed.last,
        time_range_ms: parsed.time_range_ms,
        writer: LOCAL,
        tails,
        generation: parsed.generation,
        header_crc: None,
        root: layout.shared_root(),
    };
    Ok(Some(SegmentSummary { segment, octets }))
}

/// Whether a file that is called so is a summary.
pub(crate) fn is_name(name: &str) -> bool {
    name.strip_suffix(SUFFIX).and_then(SegmentName::parse_stem).is_some()
}
