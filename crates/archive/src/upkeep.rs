//! The maintenance lock: merging, expiry and repair one at a time, by the writer's own thread or by a command.
//!
//! Appending, sealing and reading need no part of this. The writer's lock is another one, so that a command can keep
//! house while a collector runs.

pub(crate) mod round;

use std::path::PathBuf;
use std::time::Duration;

use crate::layout::Layout;
use crate::lock::Lock;
use crate::readers::{self, Reason, Removal, remove_retired};
use crate::stock::Stock;
use crate::{ArchiveError, folder};

/// The lock on segments that are committed, held while this lives.
#[derive(Debug)]
pub(crate) struct Upkeep {
    pub(crate) layout: Layout,
    _lock: Lock,
}

impl Upkeep {
    /// Takes the lock if it is free.
    pub(crate) fn try_begin(layout: &Layout) -> Result<Option<Self>, ArchiveError> {
        match Lock::acquire(&layout.upkeep_lock()) {
            Ok(lock) => Self::with(layout, lock).map(Some),
            Err(ArchiveError::Locked { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits for the lock and takes it: a collector holds it for one merge at a time.
    pub(crate) fn begin(layout: &Layout) -> Result<Self, ArchiveError> {
        layout.check()?;
        Self::with(layout, Lock::wait(&layout.upkeep_lock())?)
    }

    fn with(layout: &Layout, lock: Lock) -> Result<Self, ArchiveError> {
        folder::create(&layout.merging())?;
        folder::clear(&layout.merging())?;
        readers::create(layout)?;
        Ok(Self { layout: layout.clone(), _lock: lock })
    }

    /// The committed segments.
    pub(crate) fn stock(&self) -> Result<Stock, ArchiveError> {
        Stock::read(&self.layout)
    }

    /// Removes what is pending deletion and no reader has; then lists what is covered, and what has expired.
    ///
    /// `prepare` is called when the expired files can be listed and before they are: what it has written is
    /// there before any of them goes. When it fails nothing goes.
    pub(crate) fn remove(
        &self,
        stock: &Stock,
        expired: &[PathBuf],
        wait_max: Duration,
        prepare: impl FnOnce() -> Result<(), ArchiveError>,
    ) -> Result<Removal, ArchiveError> {
        let mut removed = self.remove_retired(stock, wait_max)?;
        let covered = stock.covered.iter().map(|kept| (Reason::Covered, kept.segment.path.clone()));
        let expired = expired.iter().map(|path| (Reason::Expired, path.clone()));
        // What is covered goes first: it must not count again when the one that covers it has gone.
        let mut files: Vec<_> = covered.chain(expired).collect();
        files.retain(|(_, path)| path.exists());
        if files.is_empty() {
            removed.listed = true;
        } else if readers::may_retire(&self.layout)? {
            prepare()?;
            removed.listed = readers::retire(&self.layout, &files)?;
        }
        if removed.listed && !files.is_empty() {
            let more = self.remove_retired(stock, wait_max)?;
            removed.files += more.files;
            removed.octets += more.octets;
            removed.waiting = more.waiting;
        }
        Ok(removed)
    }

    /// Removes what is pending deletion.
    pub(crate) fn remove_retired(&self, stock: &Stock, wait_max: Duration) -> Result<Removal, ArchiveError> {
        let covered = stock.covered_paths();
        remove_retired(&self.layout, wait_max, |path| covered.contains(path))
    }
}
