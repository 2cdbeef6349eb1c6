//! What an archive has: for people who look after one.

use std::path::{Path, PathBuf};

use crate::layout::{Layout, TailName};
use crate::manifest::Manifest;
use crate::summaries::SegmentSummary;
use crate::tail::TailFile;
use crate::{ArchiveError, Position, Segment, space};

/// What an archive has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inventory {
    /// Number of the last commit of the manifest.
    pub commits: u64,
    /// Commits of these after the checkpoint of the manifest, see [`commits_since_checkpoint`].
    pub commits_since_checkpoint: u64,
    /// The last delivery.
    pub position: Position,
    /// The epoch of positions: each writer begins one.
    pub epoch: u32,
    /// Segments that count, by table, day and tails.
    pub segments: Vec<Segment>,
    /// What is kept of segments of flows that have expired, by day and tails.
    pub summaries: Vec<SegmentSummary>,
    /// Files that no longer count and wait for readers or for the next removal.
    pub pending: Vec<PathBuf>,
    /// Octets of these.
    pub pending_octets: u64,
    /// Flows that have expired.
    pub rows_expired: u64,
    /// Flows in segments that were set aside because they were damaged or gone.
    pub rows_set_aside: u64,
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
    /// Whether it could not be sealed and was left behind.
    pub is_skipped: bool,
}

/// Lists the archive in `dir`. Tails are read for that, segments are not.
pub fn inventory(dir: &Path) -> Result<Inventory, ArchiveError> {
    let layout = Layout::new(dir);
    layout.check()?;
    let (mut numbers, mut damaged_tails) = (Vec::new(), Vec::new());
    for name in layout.tail_names()? {
        match name {
            TailName::Damaged(number, last) => damaged_tails.push(layout.damaged(number, last)),
            TailName::Tail(number) => numbers.push(number),
        }
    }
    numbers.sort_unstable();
    damaged_tails.sort_unstable();
    // After the tails were listed: one that is sealed meanwhile is among the segments.
    let state = Manifest::load_or_rebuild(&layout)?;
    let local = state.local();
    let mut tails = Vec::new();
    for number in numbers.into_iter().filter(|number| local.has_tail(*number)) {
        let found = look_at(layout.tail(number), local.skipped.contains(number)).transpose()?;
        tails.extend(found);
    }
    let unsealed = tails.iter().filter_map(|tail| tail.positions).map(|(_, last)| last);
    let position = unsealed.chain([local.position]).max().unwrap_or_default();
    let files = state.pending.iter().map(|pending| (pending.file.path(), pending.file.octets()));
    let (pending, octets): (Vec<_>, Vec<_>) = files.unzip();
    Ok(Inventory {
        commits: state.sequence,
        commits_since_checkpoint: Manifest::commits_since_checkpoint(&layout)?,
        position,
        epoch: local.epoch(),
        segments: state.segments.values().cloned().collect(),
        summaries: state.summaries.values().cloned().collect(),
        pending,
        pending_octets: octets.iter().sum(),
        rows_expired: state.rows_expired,
        rows_set_aside: state.rows_set_aside,
        tails,
        damaged_tails,
        free_octets: space::free_octets(dir)?,
    })
}

/// Commits to the archive in `dir` after the checkpoint of its manifest. A checkpoint is written after each 32. It is put off
/// while a process that was stopped in the middle of a commit holds the lock on the manifest: then there are more and more.
pub fn commits_since_checkpoint(dir: &Path) -> Result<u64, ArchiveError> {
    Manifest::commits_since_checkpoint(&Layout::new(dir))
}

fn look_at(path: PathBuf, is_skipped: bool) -> Option<Result<TailInfo, ArchiveError>> {
    let file = match TailFile::open(&path) {
        Err(ArchiveError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return None,
        other => other,
    };
    let found = file.and_then(|file| {
        let scan = file.scan()?;
        let first = scan.frames.first().map(|frame| frame.header.position);
        let positions = first.zip(scan.last());
        Ok(TailInfo { path, octets: file.octets(), rows: scan.rows(), positions, is_skipped })
    });
    Some(found)
}
