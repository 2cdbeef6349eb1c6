//! Which tails count, and opening them.

use std::fs::File;
use std::io::ErrorKind;

use nix::sys::resource::{Resource, getrlimit};

use crate::layout::Layout;
use crate::manifest::ArchiveState;
use crate::position::TailNumber;
use crate::tail::TailFrames;
use crate::{Action, ArchiveError};

/// Tails of one snapshot that are kept open when the process may have only a few files open.
const TAILS_OPEN_MIN: u64 = 32;
/// The part of the files that a process may have open that tails of one snapshot may take.
const OPEN_PART: u64 = 4;

/// Numbers of the tails that count, ascending. The outer error is final; the inner one, a tail that is gone, may be
/// because it was sealed meanwhile.
pub(crate) fn counting_tails(
    layout: &Layout,
    state: &ArchiveState,
) -> Result<Result<Vec<TailNumber>, ArchiveError>, ArchiveError> {
    let local = state.local();
    let mut numbers = layout.tail_numbers()?;
    numbers.retain(|number| local.has_tail(*number));
    let is_skipped = |number: TailNumber| local.skipped.contains(number);
    let gap = (local.first_tail..).zip(numbers.iter().filter(|number| !is_skipped(**number)));
    let missing = gap.filter(|(wanted, found)| wanted != *found).map(|(wanted, _)| wanted).next();
    let missing = missing.or_else(|| local.skipped.iter().find(|number| !numbers.contains(number)));
    Ok(match missing {
        Some(number) => Err(ArchiveError::MissingTail { path: layout.tail(number) }),
        None => Ok(numbers),
    })
}

/// Opens tails. The files of most stay open, so that they can be read although they are sealed meanwhile. Of very many,
/// as they pile up when sealing fails, those in between are read into memory; that of the last, which is written, is
/// always open.
pub(crate) struct TailOpener {
    open_max: u64,
}

impl TailOpener {
    pub(crate) fn new() -> Self {
        let allowed = getrlimit(Resource::RLIMIT_NOFILE).map_or(TAILS_OPEN_MIN * OPEN_PART, |(soft, _)| soft);
        Self { open_max: (allowed / OPEN_PART).max(TAILS_OPEN_MIN) }
    }

    /// Opens a tail; `None` when it is gone. `opened` are open already.
    pub(crate) fn open(
        &self,
        layout: &Layout,
        number: TailNumber,
        opened: usize,
        is_last: bool,
    ) -> Result<Option<TailFrames>, ArchiveError> {
        let path = layout.tail(number);
        match File::open(&path) {
            Ok(file) if is_last || (opened as u64) < self.open_max => Ok(Some(TailFrames::of_file(path, file))),
            Ok(file) => TailFrames::of_memory(path, &file).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Action::ReadTail.failed(&path)(source)),
        }
    }
}
