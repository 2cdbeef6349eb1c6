//! What an archive has, by its names: for people who look after one.

use std::path::{Path, PathBuf};

use crate::layout::{Layout, TailName};
use crate::stock::{PlacedSegment, Stock};
use crate::summaries::SegmentSummary;
use crate::tail::TailFile;
use crate::{ArchiveError, Position, space};

/// What an archive has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inventory {
    /// The last delivery.
    pub position: Position,
    /// Segments that count, by table, day and tails.
    pub segments: Vec<PlacedSegment>,
    /// What is kept of segments of flows that have expired, by day and tails.
    pub summaries: Vec<SegmentSummary>,
    /// Files that no longer count and wait for readers or for the next removal.
    pub covered: Vec<PlacedSegment>,
    /// Tails, in their order.
    pub tails: Vec<TailInfo>,
    /// Damaged tails that were set aside.
    pub damaged_tails: Vec<PathBuf>,
    /// Free space of the file system, in octets.
    pub free_octets: u64,
}

/// A tail that is not sealed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TailInfo {
    /// The file.
    pub path: PathBuf,
    /// Its size in octets.
    pub octets: u64,
    /// Flows in its whole frames.
    pub rows: u64,
    /// Positions of its first and last whole frame, if it has any.
    pub positions: Option<(Position, Position)>,
}

/// Lists the archive in `dir`. Tails are read for that, segments are not.
pub fn inventory(dir: &Path) -> Result<Inventory, ArchiveError> {
    let layout = Layout::new(dir);
    layout.check()?;
    let (mut tails, mut damaged_tails) = (Vec::new(), Vec::new());
    for name in layout.tail_names()? {
        match name {
            TailName::Damaged(number, last) => damaged_tails.push(layout.damaged(number, last)),
            // One that was sealed meanwhile is among the segments.
            TailName::Tail(number) => tails.extend(look_at(layout.tail(number)).transpose()?),
        }
    }
    tails.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    damaged_tails.sort_unstable();
    let stock = Stock::read(&layout)?;
    let summaries = stock.summaries(&layout)?.live;
    let Stock { live: segments, covered } = stock;
    let sealed = segments.iter().map(|kept| kept.segment.last);
    let unsealed = tails.iter().filter_map(|tail| tail.positions).map(|(_, last)| last);
    let position = sealed.chain(unsealed).max().unwrap_or_default();
    let free_octets = space::free_octets(dir)?;
    Ok(Inventory { position, segments, summaries, covered, tails, damaged_tails, free_octets })
}

fn look_at(path: PathBuf) -> Option<Result<TailInfo, ArchiveError>> {
    let file = match TailFile::open(&path) {
        Err(ArchiveError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return None,
        other => other,
    };
    let found = file.and_then(|file| {
        let scan = file.scan()?;
        let first = scan.frames.first().map(|frame| frame.header.position);
        Ok(TailInfo { path, octets: file.octets(), rows: scan.rows(), positions: first.zip(scan.last()) })
    });
    Some(found)
}
