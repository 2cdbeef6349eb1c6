//! What a follower knows of the files of an archive.

use std::path::Path;
use std::sync::Arc;

use super::tail_cursor::TailCursor;
use crate::layout::Layout;
use crate::manifest::{ArchiveState, EPOCHS_MAX, Manifest};
use crate::position::TailNumber;
use crate::tail_set::TailSet;
use crate::{ArchiveError, FollowPosition, Position};

/// Attempts to list tails that are sealed faster than that.
const ATTEMPTS_MAX: u32 = 1000;

/// The manifest and the tails, as they were at one moment.
#[derive(Debug)]
pub(super) struct ArchiveView {
    pub(super) layout: Layout,
    /// `None` of an archive of format 1, which has none.
    manifest: Option<Manifest>,
    state: Arc<ArchiveState>,
    /// What counted when the next delivery was last looked for. Others read the manifest in between.
    looked: Arc<ArchiveState>,
    /// In the order of their numbers.
    tails: Vec<ViewedTail>,
    /// The end of the last tail, to which headers have been read, and the last position there.
    end: Option<(TailCursor, Position)>,
}

/// A tail that counts.
#[derive(Debug, Clone, Copy)]
struct ViewedTail {
    number: TailNumber,
    /// `None` while it has no frame.
    first: Option<Position>,
}

/// Where a position is among the tails.
#[derive(Debug)]
pub(super) enum InTails {
    /// Its frame is here.
    At(TailCursor),
    /// It comes next, at the end of the last tail.
    AtEnd(TailCursor),
    /// It is behind all that there is, of which this tail is the last.
    Beyond(TailNumber),
    /// In no tail. The one before it has so many octets at its end that are no frame.
    Nowhere(Option<(TailCursor, u64)>),
}

impl ArchiveView {
    pub(super) fn open(dir: &Path) -> Result<Self, ArchiveError> {
        let layout = Layout::new(dir);
        layout.check()?;
        let manifest = if Manifest::is_expected(&layout)? { Some(Manifest::load(&layout)?) } else { None };
        let (state, looked) = (Arc::default(), Arc::default());
        let mut view = Self { layout, manifest, state, looked, tails: Vec::new(), end: None };
        view.refresh()?;
        Ok(view)
    }

    pub(super) fn state(&self) -> &ArchiveState {
        &self.state
    }

    /// Whether anything was committed since the last look, or a tail begun after this one. Costs three calls of the
    /// system when nothing was.
    pub(super) fn has_news(&mut self, tail: TailNumber) -> Result<bool, ArchiveError> {
        self.read_state()?;
        Ok(!Arc::ptr_eq(&self.state, &self.looked) || self.layout.tail(tail + 1).exists())
    }

    /// What counts now has been looked through for the next delivery.
    pub(super) fn set_looked(&mut self) {
        self.looked = Arc::clone(&self.state);
    }

    fn read_state(&mut self) -> Result<bool, ArchiveError> {
        match &mut self.manifest {
            Some(manifest) => {
                manifest.refresh()?;
                let is_new = !Arc::ptr_eq(&self.state, manifest.state());
                self.state = Arc::clone(manifest.state());
                Ok(is_new)
            }
            None if Manifest::exists(&self.layout) => {
                self.manifest = Some(Manifest::load(&self.layout)?);
                self.read_state().map(|_| true)
            }
            None => {
                let state = Manifest::load_or_rebuild(&self.layout)?;
                let is_new = state != self.state;
                if is_new {
                    self.state = state;
                }
                Ok(is_new)
            }
        }
    }

    /// Reads the manifest and lists the tails, of one moment. Returns whether anything was committed since.
    pub(super) fn refresh(&mut self) -> Result<bool, ArchiveError> {
        let before = self.state.sequence;
        self.read_state()?;
        for _ in 0..ATTEMPTS_MAX {
            let tails = self.list_tails()?;
            if !self.read_state()? {
                self.tails = tails?;
                return Ok(self.state.sequence != before);
            }
        }
        Err(ArchiveError::Unsettled { path: self.layout.root().to_owned(), attempts: ATTEMPTS_MAX })
    }

    /// The tails that count. The outer error is final; the inner one, a tail that is gone, may be because it was sealed
    /// meanwhile.
    fn list_tails(&self) -> Result<Result<Vec<ViewedTail>, ArchiveError>, ArchiveError> {
        let local = self.state.local();
        let mut numbers = self.layout.tail_numbers()?;
        numbers.retain(|number| local.has_tail(*number));
        let live = numbers.iter().filter(|number| **number >= local.first_tail);
        let gap = (local.first_tail..).zip(live).find(|(wanted, found)| wanted != *found).map(|(wanted, _)| wanted);
        let gap = gap.or_else(|| local.skipped.iter().find(|number| !numbers.contains(number)));
        let missing = |number| Ok(Err(ArchiveError::MissingTail { path: self.layout.tail(number) }));
        if let Some(number) = gap {
            return missing(number);
        }
        let mut tails = Vec::with_capacity(numbers.len());
        for number in numbers {
            let Some(cursor) = TailCursor::open(self.layout.tail(number), number)? else { return missing(number) };
            tails.push(ViewedTail { number, first: cursor.header()?.map(|header| header.position) });
        }
        Ok(Ok(tails))
    }

    /// Looks for a position among the tails.
    pub(super) fn find(&self, position: Position) -> Result<InTails, ArchiveError> {
        let has_begun = |tail: &&ViewedTail| tail.first.is_some_and(|first| first <= position);
        let Some(tail) = self.tails.iter().rev().find(has_begun) else { return Ok(InTails::Nowhere(None)) };
        let is_last = self.tails.iter().all(|other| other.number <= tail.number || other.first.is_none());
        let Some(mut cursor) = TailCursor::open(self.layout.tail(tail.number), tail.number)? else {
            return Err(ArchiveError::MissingTail { path: self.layout.tail(tail.number) });
        };
        let mut last = Position::ZERO;
        while let Some(header) = cursor.header()? {
            if header.position >= position {
                return Ok(InTails::At(cursor));
            }
            if !cursor.skip(&header)? {
                break;
            }
            last = header.position;
        }
        if !is_last {
            let octets = cursor.rest()?;
            return Ok(InTails::Nowhere(Some((cursor, octets))));
        }
        Ok(if last.next() == position { InTails::AtEnd(cursor) } else { InTails::Beyond(tail.number) })
    }

    /// The first tail that begins at this position or after it, and where.
    pub(super) fn tail_from(&self, position: Position) -> Option<(TailNumber, Position)> {
        let begins = |tail: &ViewedTail| Some((tail.number, tail.first.filter(|first| *first >= position)?));
        self.tails.iter().filter_map(begins).min_by_key(|(_, first)| *first)
    }

    /// The last tail that begins before this position; 0 when there is none.
    pub(super) fn tail_before(&self, position: Position) -> TailNumber {
        let begins = |tail: &&ViewedTail| tail.first.is_some_and(|first| first < position);
        self.tails.iter().filter(begins).map(|tail| tail.number).max().unwrap_or(0)
    }

    /// Octets of the tails after this one.
    pub(super) fn octets_after(&self, tail: TailNumber) -> u64 {
        let after = self.tails.iter().filter(|other| other.number > tail);
        let length = |tail: &ViewedTail| std::fs::metadata(self.layout.tail(tail.number)).map_or(0, |file| file.len());
        after.map(length).sum()
    }

    /// The last position that there is.
    pub(super) fn newest(&mut self) -> Result<Position, ArchiveError> {
        for _ in 0..ATTEMPTS_MAX {
            if self.refresh()? {
                self.end = None;
            }
            let sealed = self.state.local().position;
            let begun = self.tails.iter().rev().find_map(|tail| Some((tail.number, tail.first?)));
            let Some((tail, first)) = begun else { return Ok(sealed) };
            // its first frame may not be whole yet
            let before = Position::new(first.get().saturating_sub(1));
            let known = self.end.take().filter(|(cursor, _)| cursor.number == tail);
            let start = || TailCursor::open(self.layout.tail(tail), tail).map(|cursor| Some((cursor?, before)));
            // sealed since it was listed
            let Some((mut cursor, mut last)) = known.map_or_else(start, |known| Ok(Some(known)))? else { continue };
            while let Some(header) = cursor.header()? {
                if !cursor.skip(&header)? {
                    break;
                }
                last = header.position;
            }
            self.end = Some((cursor, last));
            return Ok(last.max(sealed));
        }
        Err(ArchiveError::Unsettled { path: self.layout.root().to_owned(), attempts: ATTEMPTS_MAX })
    }

    /// A position with the epoch in which it was appended. One of an epoch that is no longer remembered gets the oldest
    /// that is, which says the same: it was there when that began.
    pub(super) fn with_epoch(&self, position: Position) -> FollowPosition {
        let epochs = &self.state.local().epochs;
        let at = epochs.partition_point(|epoch| epoch.after < position);
        let epoch = epochs.get(at.saturating_sub(1)).map_or(1, |epoch| epoch.number);
        FollowPosition { epoch, position }
    }

    /// Where somebody goes on who is at `from`: there, or where the positions end that are left of its epoch.
    pub(super) fn resolve(&self, from: FollowPosition) -> Result<FollowPosition, ArchiveError> {
        if from.position == Position::ZERO {
            return Ok(from);
        }
        let epochs = &self.state.local().epochs;
        let newest = epochs.last().map_or(1, |epoch| epoch.number);
        let oldest = epochs.first().filter(|_| epochs.len() >= EPOCHS_MAX).map_or(0, |epoch| epoch.number);
        if from.epoch == 0 || from.epoch > newest || from.epoch.saturating_add(1) < oldest {
            return Err(self.unknown(from));
        }
        let after = epochs.iter().find(|epoch| epoch.number > from.epoch);
        Ok(match after {
            Some(epoch) if epoch.after < from.position => FollowPosition { epoch: epoch.number, position: epoch.after },
            _ => from,
        })
    }

    /// An error that names the position, and what this archive has.
    pub(super) fn unknown(&self, position: FollowPosition) -> ArchiveError {
        let path = self.layout.root().to_owned();
        ArchiveError::UnknownPosition { path, position, epoch: self.state.local().epoch() }
    }

    /// Whether flows of tails between these two are gone, or deliveries between them are lost: otherwise what is
    /// between had no flows.
    pub(super) fn is_gone(&self, after: TailNumber, before: TailNumber) -> bool {
        let between = TailSet::range(after + 1, before.saturating_sub(1));
        between.is_empty() || between.intersects(&self.state.local().gone)
    }
}
