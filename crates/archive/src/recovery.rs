//! Opening an archive that a crash may have left in the middle of anything.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::path::Path;

use weir_flow::Table;

use crate::frame::TailEnd;
use crate::layout::{Layout, TailName};
use crate::portable::list;
use crate::position::TailNumber;
use crate::tail::{FinishedTail, TailContents, TailDamage, set_aside};
use crate::{Action, ArchiveError, Position, folder};

/// What opening an archive found, cut and finished.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// True when the archive was not there before.
    pub created: bool,
    /// Position at which the archive goes on.
    pub position: Position,
    /// Tails found; they are sealed first.
    pub tails: u64,
    /// Flows in these tails.
    pub rows: u64,
    /// Octets cut from the end of the last tail: a frame that was never whole.
    pub torn_octets: u64,
    /// Segments removed because their tail was still there; they are made again.
    pub segments_uncommitted: u64,
    /// Temporary files removed.
    pub leftovers: u64,
    /// Damaged tails set aside.
    pub damages: Vec<TailDamage>,
}

/// What the writer goes on from.
#[derive(Debug)]
pub(crate) struct RecoveredTails {
    pub(crate) recovery: Recovery,
    pub(crate) tails: VecDeque<FinishedTail>,
    pub(crate) next_number: TailNumber,
}

/// Brings the folder of an archive in order. The caller holds the lock.
pub(crate) fn recover(layout: &Layout) -> Result<RecoveredTails, ArchiveError> {
    let mut recovery = Recovery { leftovers: folder::clear(&layout.tmp())?, ..Recovery::default() };
    let numbers = layout.tail_numbers()?;
    list::forget_uncommitted(layout, numbers.first().copied())?;
    let sealed = remove_uncommitted(layout, &numbers, &mut recovery)?;
    let mut position = sealed.position;
    let mut tails = VecDeque::new();
    for (index, &number) in numbers.iter().enumerate() {
        let is_last = index + 1 == numbers.len();
        let (tail, last_seen) = recover_tail(layout, number, is_last, &mut recovery)?;
        position = position.max(last_seen);
        tails.push_back(tail);
    }
    // A position is never given out twice, not even one that only a damaged file remembers.
    let mut last_number = sealed.tail.max(numbers.last().copied().unwrap_or_default());
    for name in layout.tail_names()? {
        if let TailName::Damaged(number, last) = name {
            position = position.max(last);
            last_number = last_number.max(number);
        }
    }
    recovery.position = position;
    recovery.tails = tails.len() as u64;
    recovery.rows = tails.iter().map(|tail| tail.rows).sum();
    folder::sync(&layout.tails())?;
    Ok(RecoveredTails { recovery, tails, next_number: last_number + 1 })
}

/// The last tail and position that segments were made of.
struct LastSealed {
    tail: TailNumber,
    position: Position,
}

fn remove_uncommitted(
    layout: &Layout,
    tails: &[TailNumber],
    recovery: &mut Recovery,
) -> Result<LastSealed, ArchiveError> {
    let mut so_far = LastSealed { tail: 0, position: Position::ZERO };
    for &table in Table::ALL {
        for damaged in layout.damaged_segments(table)? {
            so_far.tail = so_far.tail.max(damaged.tails.1);
            so_far.position = so_far.position.max(damaged.last);
        }
        for segment in layout.segments(table)? {
            if tails.first().is_some_and(|&first| segment.tails.1 >= first) {
                folder::remove_leftover(&segment.path)?;
                recovery.segments_uncommitted += 1;
            } else {
                so_far.tail = so_far.tail.max(segment.tails.1);
                so_far.position = so_far.position.max(segment.last);
            }
        }
    }
    Ok(so_far)
}

/// Brings one tail in order and makes it durable; returns the last position found in it, damage or not.
///
/// Only the last tail can have a torn end from a crash. Anywhere else octets that are no frame are damage.
fn recover_tail(
    layout: &Layout,
    number: TailNumber,
    is_last: bool,
    recovery: &mut Recovery,
) -> Result<(FinishedTail, Position), ArchiveError> {
    let path = layout.tail(number);
    let contents = TailContents::open(&path)?;
    let last = contents.scan.last();
    let mut last_seen = last.unwrap_or_default();
    match contents.scan.end {
        TailEnd::Clean => {}
        TailEnd::Torn if is_last => {
            recovery.torn_octets += contents.octets() - contents.scan.whole_octets as u64;
            cut(&path, contents.scan.whole_octets as u64)?;
        }
        TailEnd::Torn | TailEnd::Damaged { .. } => {
            let (damage, found) = set_aside(layout, number, &contents)?;
            last_seen = last_seen.max(found);
            recovery.damages.push(damage);
        }
    }
    sync(&path)?;
    let (rows, octets) = (contents.scan.rows(), contents.scan.whole_octets as u64);
    Ok((FinishedTail { number, path, last, rows, octets }, last_seen))
}

fn cut(path: &Path, octets: u64) -> Result<(), ArchiveError> {
    let cut = OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(octets));
    cut.map_err(Action::CutTail.failed(path))
}

/// After a crash of the process alone, whole frames may not be on the disk yet.
fn sync(path: &Path) -> Result<(), ArchiveError> {
    let synced = File::open(path).and_then(|file| file.sync_all());
    synced.map_err(|source| ArchiveError::SyncTail { path: path.to_owned(), source: source.into() })
}
