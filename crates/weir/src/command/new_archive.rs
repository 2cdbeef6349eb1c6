//! Removes the archive that a command created for files, if nothing could be read from them.
//!
//! An archive is created before the first file is read, so that flows have a place. When no file has flows, because a name is
//! misspelt for instance, an empty archive would remain, which the next command would take for a real one; so it is removed.
//! What speaks against looking at the files first is that only reading them shows whether they have flows.

use std::path::Path;

use weir_archive::{ArchiveOptions, NewFolders, Position, Snapshot, Writer};

/// An archive, and the folders that did not exist before the command.
pub(super) struct NewArchive(NewFolders);

impl NewArchive {
    /// The folders that do not exist yet, taken before the archive is created.
    pub(super) fn of(archive: &Path) -> Self {
        Self(NewFolders::of(archive))
    }

    /// Removes the archive if the command has created it and it is empty. One that another process writes to by now stays.
    pub(super) fn remove_if_empty(&self) {
        let Some(archive) = self.0.archive() else { return };
        let is_empty = Snapshot::open(archive).is_ok_and(|snapshot| snapshot.position() == Position::ZERO);
        if !is_empty {
            return;
        }
        let removed = Writer::open(archive, ArchiveOptions::default()).and_then(|(writer, _)| self.0.remove(writer));
        if let Err(error) = removed {
            tracing::warn!("{:#}", anyhow::Error::new(error).context("the archive has nothing in it, and stays"));
        }
    }
}
