//! Segments: sealed rows of one table and one UTC day, as files that any tool can read.
//!
//! This module is the only one that knows that a segment is Parquet. `write_segment` takes columns and the order of
//! their rows; [`Segment`] is a file by name; [`Segment::read`] gives its rows back. A format that turns out better
//! replaces these three.

mod check;
mod chunk;
mod columns;
mod encoder;
mod encoding;
mod gather;
mod reader;
mod rewrite;
mod summed;
mod times;
mod writer;

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use crate::books::days;
use crate::index::SegmentIndex;
use crate::position::TailNumber;
use crate::{Action, ArchiveError, Position};

pub(crate) use columns::Columns;
pub(crate) use encoding::{Effort, PAGE_ROWS};
pub use rewrite::REWRITE_ROWS_MAX;
pub(crate) use rewrite::rewrite;
pub(crate) use writer::{SegmentRange, write_segment};

/// A segment file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The file.
    pub path: PathBuf,
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
    /// Tails that it was made of, first and last.
    pub(crate) tails: (TailNumber, TailNumber),
}

impl Segment {
    /// The file of this name, or `None` when it has just vanished.
    pub(crate) fn stat(path: PathBuf, name: SegmentName) -> Result<Option<Self>, ArchiveError> {
        let octets = match fs::metadata(&path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Action::OpenSegment.failed(&path)(source)),
        };
        let SegmentName { tails, first, last, rows, time_range_ms } = name;
        Ok(Some(Self { path, rows, octets, first, last, time_range_ms, tails }))
    }

    /// What the segment knows about its pages; `None` for segments that were written before there was an index.
    pub fn index(&self) -> Result<Option<SegmentIndex>, ArchiveError> {
        SegmentIndex::open(self.path.clone())
    }
}

/// What the name of a segment says, so that planning a query opens no file.
///
/// `0000000000000007-0000000000000007_p41-64_r2000000_t1763683200000to1763683500000.parquet`: the tails that it was
/// made of (a range, so that several segments can be rewritten as one later), the positions of their frames, rows, and
/// the range of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentName {
    pub(crate) tails: (TailNumber, TailNumber),
    pub(crate) first: Position,
    pub(crate) last: Position,
    pub(crate) rows: u64,
    pub(crate) time_range_ms: Option<(i64, i64)>,
}

impl SegmentName {
    pub(crate) const SUFFIX: &str = ".parquet";

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::parse_stem(name.strip_suffix(Self::SUFFIX)?)
    }

    /// Reads a name without what it ends in.
    pub(crate) fn parse_stem(stem: &str) -> Option<Self> {
        let mut parts = stem.split('_');
        let tails = parts.next()?.split_once('-')?;
        let positions = parts.next()?.strip_prefix('p')?.split_once('-')?;
        let rows = parts.next()?.strip_prefix('r')?.parse().ok()?;
        let time_range_ms = match parts.next() {
            Some(part) => {
                let (min, max) = part.strip_prefix('t')?.split_once("to")?;
                Some((min.parse().ok()?, max.parse().ok()?))
            }
            None => None,
        };
        Some(Self {
            tails: (tails.0.parse().ok()?, tails.1.parse().ok()?),
            first: Position::new(positions.0.parse().ok()?),
            last: Position::new(positions.1.parse().ok()?),
            rows,
            time_range_ms,
        })
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tails, first, last, rows, time_range_ms } = self;
        write!(f, "{:016}-{:016}_p{first}-{last}_r{rows}", tails.0, tails.1)?;
        if let Some((min, max)) = time_range_ms {
            write!(f, "_t{min}to{max}")?;
        }
        f.write_str(Self::SUFFIX)
    }
}

/// Of segments of one table, those that no other one covers: a segment made of a range of tails supersedes those of
/// the same day that were made of fewer of these tails. Of the books, one by day supersedes that of the same tails by
/// minute.
pub(crate) fn without_covered(mut segments: Vec<Segment>) -> Vec<Segment> {
    let is_by_day = |segment: &Segment| days::is_by_day(segment.time_range_ms);
    let covers = |wide: &Segment, narrow: &Segment| {
        wide.path.parent() == narrow.path.parent()
            && (wide.tails != narrow.tails || is_by_day(wide) && !is_by_day(narrow))
            && wide.tails.0 <= narrow.tails.0
            && narrow.tails.1 <= wide.tails.1
    };
    let wide: Vec<_> = segments.iter().filter(|s| s.tails.0 < s.tails.1 || is_by_day(s)).cloned().collect();
    segments.retain(|segment| !wide.iter().any(|wide| covers(wide, segment)));
    segments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(tails: (u64, u64), time_range_ms: Option<(i64, i64)>) -> SegmentName {
        SegmentName { tails, first: Position::new(41), last: Position::new(64), rows: 2_000_000, time_range_ms }
    }

    #[test]
    fn names_are_read_back() {
        for time_range_ms in [None, Some((-5, 17)), Some((i64::MIN, i64::MAX))] {
            let name = name((7, 12), time_range_ms);
            assert_eq!(SegmentName::parse(&name.to_string()), Some(name));
        }
        for other in ["x.parquet", "7-7_p1-2.parquet", "7-7_p1-2_r5_t9.parquet", "7-7_p1-2_r5"] {
            assert_eq!(SegmentName::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_wide_segment_makes_narrow_ones_void() {
        let segment = |folder: &str, tails| Segment {
            path: PathBuf::from(folder).join(name(tails, None).to_string()),
            rows: 1,
            octets: 1,
            first: Position::ZERO,
            last: Position::ZERO,
            time_range_ms: None,
            tails,
        };
        let all = vec![segment("a", (1, 1)), segment("a", (1, 4)), segment("a", (5, 5)), segment("b", (2, 2))];
        let left: Vec<_> = without_covered(all).iter().map(|segment| segment.tails).collect();
        assert_eq!(left, [(1, 4), (5, 5), (2, 2)]);
    }
}
