//! Opening an archive that a crash may have left in the middle of anything.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{File, OpenOptions};
use std::path::Path;

use weir_flow::Table;

use crate::civil::day_of_partition;
use crate::frame::TailEnd;
use crate::layout::{Layout, TailName};
use crate::manifest::rebuild::{Care, rebuild};
use crate::manifest::{ArchiveState, Edit, Manifest, clear_new};
use crate::portable::list;
use crate::position::{LOCAL, TailNumber};
use crate::segment::{SegmentName, found_segment};
use crate::tail::{FinishedTail, TailContents, TailDamage, first_position, replace, set_aside};
use crate::{Action, ArchiveError, Position, disk, folder, readers};

/// What opening an archive found, cut and finished.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// True when the archive was not there before.
    pub created: bool,
    /// True when the archive had no manifest, or none that could be read, and got one.
    pub manifest_made: bool,
    /// Position at which the archive goes on.
    pub position: Position,
    /// The epoch of positions from there on. Each writer begins one: a crash of the machine may have taken away
    /// positions of the one before that were seen already.
    pub epoch: u32,
    /// Tails found; they are sealed first.
    pub tails: u64,
    /// Flows in these tails.
    pub rows: u64,
    /// Octets cut from the end of the last tail: a frame that was never whole.
    pub torn_octets: u64,
    /// Segments removed that were never committed; they are made again of their tail.
    pub segments_uncommitted: u64,
    /// Temporary files removed, and tails whose segments were committed.
    pub leftovers: u64,
    /// Tails that should be there and are not.
    pub tails_missing: u64,
    /// True when tails are left whose sync had failed and for which there was no room to be written again: they are durable
    /// once they are sealed.
    pub is_unconfirmed: bool,
    /// Damaged tails set aside.
    pub damages: Vec<TailDamage>,
}

/// What the writer goes on from.
#[derive(Debug)]
pub(crate) struct RecoveredTails {
    pub(crate) recovery: Recovery,
    pub(crate) manifest: Manifest,
    /// In the order of their numbers; those that were skipped before come first.
    pub(crate) tails: VecDeque<FinishedTail>,
    pub(crate) next_number: TailNumber,
}

/// Makes the archive when it is new: its manifest, then the marker, without which it is none. Creates what folders are
/// missing in any case.
pub(crate) fn create(layout: &Layout, is_new: bool) -> Result<(), ArchiveError> {
    layout.create_folders()?;
    readers::create(layout)?;
    if is_new {
        Manifest::create(layout, ArchiveState::new())?;
        layout.mark()?;
    }
    Ok(())
}

/// Gives an archive of format 1 its manifest. The caller holds the lock of the writer.
pub(crate) fn upgrade(layout: &Layout) -> Result<Manifest, ArchiveError> {
    let rebuilt = rebuild(layout, Care::Headers)?;
    let manifest = Manifest::create(layout, rebuilt.state)?;
    layout.mark()?;
    Ok(manifest)
}

/// Brings the folder of an archive in order. The caller holds the lock.
pub(crate) fn recover(layout: &Layout) -> Result<RecoveredTails, ArchiveError> {
    let mut recovery = Recovery { leftovers: folder::clear(&layout.tmp())?, ..Recovery::default() };
    let mut manifest = if Manifest::exists(layout) {
        Manifest::load(layout)?
    } else {
        // What has a marker of this format has had a manifest, which must not be made out to be lost without a word.
        if layout.version()? > 1 {
            return Err(Action::ReadManifest.failed(&layout.manifest())(std::io::ErrorKind::NotFound.into()));
        }
        recovery.manifest_made = true;
        upgrade(layout)?
    };
    recovery.leftovers += clear_new(layout)?;
    let state = ArchiveState::clone(manifest.state());
    let numbers = tails_left(layout, &state, &mut recovery)?;
    list::forget_uncommitted(layout, state.local().first_tail)?;
    recovery.segments_uncommitted = remove_uncommitted(layout, &state)?;
    let mut position = state.local().position;
    let mut tails = VecDeque::new();
    for (index, &number) in numbers.iter().enumerate() {
        let next = numbers.get(index + 1).copied();
        let (tail, last_seen) = recover_tail(layout, number, (position, next), &mut recovery)?;
        position = position.max(last_seen);
        tails.push_back(tail);
    }
    // A position is never given out twice, not even one that only a damaged file remembers.
    for name in layout.tail_names()? {
        if let TailName::Damaged(_, last) = name {
            position = position.max(last);
        }
    }
    if !recovery.is_unconfirmed {
        let _ = disk::remove(&layout.unconfirmed());
    }
    let next_number = numbers.last().map_or(0, |last| last + 1).max(state.local().first_tail);
    let reserve_octets = manifest.reserve_octets();
    skip_missing(layout, &mut manifest, &numbers, next_number, &mut recovery)?;
    recovery.position = position;
    recovery.tails = tails.len() as u64;
    recovery.rows = tails.iter().map(|tail| tail.rows).sum();
    folder::sync(&layout.tails())?;
    recovery.epoch = open_epoch(&mut manifest, position)?;
    // Opening takes of it on a full disk, where whoever writes next would take the rest, and nothing could be removed any more.
    manifest.restore_reserve(reserve_octets);
    Ok(RecoveredTails { recovery, manifest, tails, next_number })
}

/// Numbers of the tails that count, ascending. Those that were sealed are removed.
fn tails_left(layout: &Layout, state: &ArchiveState, recovery: &mut Recovery) -> Result<Vec<TailNumber>, ArchiveError> {
    let (left, sealed): (Vec<_>, Vec<_>) =
        layout.tail_numbers()?.into_iter().partition(|number| state.local().has_tail(*number));
    if !sealed.is_empty() {
        // who has committed that may have been killed before it was durable
        folder::sync(&layout.manifest())?;
    }
    for number in sealed {
        folder::remove_leftover(&layout.tail(number))?;
        recovery.leftovers += 1;
    }
    Ok(left)
}

/// Commits that tails which are gone have become nothing, so that those behind them can be sealed.
fn skip_missing(
    layout: &Layout,
    manifest: &mut Manifest,
    numbers: &[TailNumber],
    next_number: TailNumber,
    recovery: &mut Recovery,
) -> Result<(), ArchiveError> {
    let there: BTreeSet<TailNumber> = numbers.iter().copied().collect();
    let local = manifest.state().local().clone();
    let wanted = local.skipped.iter().chain(local.first_tail..next_number);
    let missing: Vec<TailNumber> = wanted.filter(|number| !there.contains(number)).collect();
    recovery.tails_missing = missing.len() as u64;
    // In front of the first that is there they can be passed over at once; the others when their turn comes.
    for number in missing {
        debug_assert!(!layout.tail(number).exists());
        manifest.commit(|state| {
            let local = state.local();
            let is_next = number == local.first_tail || local.skipped.contains(number);
            let gone =
                || Edit::Sealed { writer: LOCAL, tails: (number, number), last: local.position, segments: Vec::new() };
            Ok(is_next.then(gone))
        })?;
    }
    Ok(())
}

/// Commits that this writer goes on; returns the epoch of its positions, which is a new one each time. Whether the
/// machine lost frames that somebody has seen cannot be told: the name of the tail may have gone with them.
fn open_epoch(manifest: &mut Manifest, position: Position) -> Result<u32, ArchiveError> {
    let mut opened = 0;
    manifest.commit(|state| {
        let local = state.local();
        opened = if local.epochs.is_empty() { 1 } else { local.epoch() + 1 };
        Ok(Some(Edit::Opened { writer: LOCAL, epoch: opened, position: position.max(local.position) }))
    })?;
    Ok(opened)
}

/// Removes segments of tails that are not sealed: a crash came before their commit. They are made again.
fn remove_uncommitted(layout: &Layout, state: &ArchiveState) -> Result<u64, ArchiveError> {
    let local = state.local();
    let mut removed = 0;
    for &table in Table::ALL {
        for partition in layout.partitions(table)? {
            let Some(day) = day_of_partition(&partition) else { continue };
            for name in folder::names(&partition)? {
                let Some(parsed) = name.to_str().and_then(SegmentName::parse) else { continue };
                if parsed.tails.0 != parsed.tails.1 || !local.has_tail(parsed.tails.0) {
                    continue;
                }
                if let Some(found) = found_segment(layout, (table, day), parsed, false)? {
                    folder::remove_leftover(&found.path())?;
                    removed += 1;
                }
            }
        }
    }
    Ok(removed)
}

/// Brings one tail in order and makes it durable; returns the last position found in it, damage or not. `before` is the
/// last position before it, `next` the tail after it.
///
/// Only the last tail can have a torn end from a crash. Anywhere else octets that are no frame are damage, and so are
/// positions that are missing before those of the next tail.
fn recover_tail(
    layout: &Layout,
    number: TailNumber,
    (before, next): (Position, Option<TailNumber>),
    recovery: &mut Recovery,
) -> Result<(FinishedTail, Position), ArchiveError> {
    let path = layout.tail(number);
    let mut contents = TailContents::open(&path)?;
    let mut last = contents.scan.last();
    let after = next.filter(|next| *next == number + 1).and_then(|next| first_position(&layout.tail(next)));
    let through = after.and_then(|after| after.get().checked_sub(1)).map(Position::new);
    let is_short = through.is_some_and(|through| last.unwrap_or(before).max(before) < through);
    match contents.scan.end {
        TailEnd::Clean if !is_short => {}
        TailEnd::Torn if next.is_none() => {
            recovery.torn_octets += contents.octets() - contents.scan.whole_octets as u64;
            cut(&path, contents.scan.whole_octets as u64)?;
        }
        TailEnd::Clean | TailEnd::Torn | TailEnd::Damaged => {
            // The write that did not finish may have been made again, to the next tail.
            let found = if contents.scan.end == TailEnd::Torn { last } else { None };
            let (damage, found) = set_aside(layout, number, &contents, (Some(before), through.or(found)))?;
            recovery.damages.push(damage);
            contents = TailContents::open(&path)?;
            last = contents.scan.last().max(Some(found));
        }
    }
    recovery.is_unconfirmed |= !make_durable(layout, number, &contents)?;
    let (rows, octets) = (contents.scan.rows(), contents.scan.whole_octets as u64);
    let tail = FinishedTail { number, path, last: contents.scan.last(), rows, octets, failures: 0 };
    Ok((tail, last.unwrap_or_default()))
}

fn cut(path: &Path, octets: u64) -> Result<(), ArchiveError> {
    let cut = OpenOptions::new().write(true).open(path).and_then(|file| disk::set_length(&file, path, octets));
    cut.map_err(Action::CutTail.failed(path))
}

/// Makes a tail durable. Where a sync has failed before, another one would prove nothing, so it is written again; on a full
/// disk it is left for its sealing, and false returned.
fn make_durable(layout: &Layout, number: TailNumber, contents: &TailContents) -> Result<bool, ArchiveError> {
    let path = layout.tail(number);
    let Some(last) = contents.scan.last().filter(|_| layout.unconfirmed().exists()) else {
        return sync(&path).map(|()| true);
    };
    match replace(layout, number, contents, (None, last)) {
        Err(error) if error.is_full_disk() => Ok(false),
        replaced => replaced.map(|_| true),
    }
}

/// After a crash of the process alone, whole frames may not be on the disk yet.
fn sync(path: &Path) -> Result<(), ArchiveError> {
    let synced = File::open(path).and_then(|file| disk::sync(&file, path));
    synced.map_err(|source| ArchiveError::SyncTail { path: path.to_owned(), source: source.into() })
}
