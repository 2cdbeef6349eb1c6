//! Names of segments.

use std::fmt;

use crate::Position;
use crate::position::TailNumber;

/// What the name of a segment says, for people and for an archive whose manifest is lost.
///
/// `0000000000000007-0000000000000007_p41-64_r2000000_t1763683200000to1763683500000.parquet`: first and last of the
/// tails that it was made of, the positions of their frames, rows, and the range of times. A number behind `_g` tells
/// files apart that would have the same name otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentName {
    pub(crate) tails: (TailNumber, TailNumber),
    pub(crate) first: Position,
    pub(crate) last: Position,
    pub(crate) rows: u64,
    pub(crate) time_range_ms: Option<(i64, i64)>,
    pub(crate) generation: u32,
}

impl SegmentName {
    pub(crate) const SUFFIX: &str = ".parquet";

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::parse_stem(name.strip_suffix(Self::SUFFIX)?)
    }

    /// Reads a name without what it ends in.
    pub(crate) fn parse_stem(stem: &str) -> Option<Self> {
        let (stem, generation) = match stem.rsplit_once("_g") {
            Some((stem, generation)) => (stem, generation.parse().ok()?),
            None => (stem, 0),
        };
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
            generation,
        })
    }

    /// The name without what it ends in.
    pub(crate) fn stem(&self) -> String {
        let Self { tails, first, last, rows, time_range_ms, generation } = self;
        let times = time_range_ms.map_or_else(String::new, |(min, max)| format!("_t{min}to{max}"));
        let generation = if *generation == 0 { String::new() } else { format!("_g{generation}") };
        format!("{:016}-{:016}_p{first}-{last}_r{rows}{times}{generation}", tails.0, tails.1)
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.stem(), Self::SUFFIX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        let (first, last) = (Position::new(41), Position::new(64));
        for time_range_ms in [None, Some((-5, 17)), Some((i64::MIN, i64::MAX))] {
            for generation in [0, 3] {
                let name = SegmentName { tails: (7, 12), first, last, rows: 2_000_000, time_range_ms, generation };
                assert_eq!(SegmentName::parse(&name.to_string()), Some(name));
            }
        }
        for other in
            ["x.parquet", "7-7_p1-2.parquet", "7-7_p1-2_r5_t9.parquet", "7-7_p1-2_r5", "7-7_p1-2_r5_gx.parquet"]
        {
            assert_eq!(SegmentName::parse(other), None, "{other}");
        }
    }
}
