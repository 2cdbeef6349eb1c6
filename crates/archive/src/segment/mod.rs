//! Segments: sealed rows of one table and one UTC day, as files that any tool can read.
//!
//! This module is the only one that knows that a segment is Parquet. `write_segment` takes columns and the order of
//! their rows; [`Segment`] is a file by name; [`Segment::read`] gives its rows back. A format that turns out better
//! replaces these three.

mod check;
mod chunk;
mod columns;
mod deliveries;
mod encoder;
mod encoding;
mod found;
mod gather;
mod name;
mod reader;
mod rewrite;
mod summed;
mod times;
mod writer;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_flow::Table;

use crate::civil::{MS_PER_DAY, day_text};
use crate::index::{Header, SegmentIndex};
use crate::position::WriterId;
use crate::tail_set::TailSet;
use crate::{Action, ArchiveError, Position};

pub(crate) use columns::Columns;
pub(crate) use deliveries::RowDeliveries;
pub(crate) use encoding::{Effort, PAGE_ROWS};
pub(crate) use found::found_segment;
pub(crate) use name::SegmentName;
pub use rewrite::REWRITE_ROWS_MAX;
pub(crate) use rewrite::rewrite;
pub(crate) use writer::{SegmentOrigin, write_segment};

/// A segment: rows of one table and one UTC day, as a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Its table.
    pub table: Table,
    /// The UTC day of its rows, counted from 1970-01-01.
    pub day: i64,
    /// Rows in it.
    pub rows: u64,
    /// Its size in octets.
    pub octets: u64,
    /// Position of the first frame of the tails that it was made of. Segments of other days hold rows of the same
    /// frames.
    pub first: Position,
    /// Position of the last frame of the tails that it was made of.
    pub last: Position,
    /// Smallest and largest of all values of `start` and `end` (of `minute` in the books, or from the first to the last
    /// millisecond of the day when rows of the books cover a day), milliseconds since the epoch; `None` when no row has
    /// either.
    pub time_range_ms: Option<(i64, i64)>,
    /// Who appended its rows.
    pub(crate) writer: WriterId,
    /// The tails that it was made of.
    pub(crate) tails: TailSet,
    /// Tells files apart that would have the same name otherwise.
    pub(crate) generation: u32,
    /// The checksum in the header of the file, which covers those of all its parts: the file is this segment and no
    /// other. `None` of files that were written before there were headers.
    pub(crate) header_crc: Option<u32>,
    /// The folder of the archive.
    pub(crate) root: Arc<Path>,
}

impl Segment {
    /// The file.
    pub fn path(&self) -> PathBuf {
        self.partition().join(self.name().to_string())
    }

    /// The folder of its table and day.
    pub(crate) fn partition(&self) -> PathBuf {
        self.root.join(self.table.name()).join(format!("date={}", self.day_text()))
    }

    pub(crate) fn name(&self) -> SegmentName {
        SegmentName {
            tails: (self.tails.first(), self.tails.last()),
            first: self.first,
            last: self.last,
            rows: self.rows,
            time_range_ms: self.time_range_ms,
            generation: self.generation,
        }
    }

    /// The day as `YYYY-MM-DD`.
    pub fn day_text(&self) -> String {
        day_text(self.day)
    }

    /// The time of its newest row, in milliseconds since the epoch: the end of its last flow, as long as that lies
    /// within the day on which the flow was received; otherwise the end of that day. Clocks of exporters may be wrong.
    pub fn newest_ms(&self) -> i64 {
        let day = (self.day * MS_PER_DAY)..((self.day + 1) * MS_PER_DAY);
        self.time_range_ms.map(|(_, last)| last).filter(|last| day.contains(last)).unwrap_or(day.end)
    }

    /// Whether both are of one table, day and writer.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        (self.table, self.day, self.writer) == (other.table, other.day, other.writer)
    }

    /// Opens the file, once it is certain that it is this segment: that it has the size and the header that were
    /// written. What is behind the header is verified when it is read. For readers see [`Segment::open_file`].
    pub(crate) fn file(&self) -> Result<File, ArchiveError> {
        let path = self.path();
        let failed = Action::OpenSegment.failed(&path);
        let file = File::open(&path).map_err(failed)?;
        let octets = file.metadata().map_err(failed)?.len();
        if octets != self.octets {
            let part = format!("it has {octets} octets instead of {}", self.octets);
            return Err(ArchiveError::DamagedSegment { path, part });
        }
        if let Some(crc) = self.header_crc
            && Header::read(&file, &path)?.map(|header| header.crc()) != Some(crc)
        {
            return Err(ArchiveError::DamagedSegment { path, part: "it is another file".to_owned() });
        }
        Ok(file)
    }

    /// What the segment knows about its pages; `None` for segments that were written before there was an index.
    pub fn index(&self) -> Result<Option<SegmentIndex>, ArchiveError> {
        SegmentIndex::open(self.path(), self.file()?)
    }
}
