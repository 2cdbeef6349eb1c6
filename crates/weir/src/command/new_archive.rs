//! Removes the archive that a command created for files, if nothing could be read from them.
//!
//! An archive is created before the first file is read, so that flows have a place. When no file has flows, because a name is
//! misspelt for instance, an empty archive would remain, which the next command would take for a real one; so it is removed.
//! What speaks against looking at the files first is that only reading them shows whether they have flows.

use std::fs;
use std::path::{Path, PathBuf};

use weir_archive::{ArchiveOptions, Position, Snapshot, Writer};

/// An archive, and the folders that were not there before the command: its own, then those above it.
pub(super) struct NewArchive(Vec<PathBuf>);

impl NewArchive {
    /// That of a folder, before anything of it is made.
    pub(super) fn of(archive: &Path) -> Self {
        let is_new = |folder: &&Path| folder.try_exists().is_ok_and(|is_there| !is_there);
        let named = archive.ancestors().filter(|folder| !folder.as_os_str().is_empty());
        Self(named.take_while(is_new).map(Path::to_owned).collect())
    }

    /// Removes it, where the command has made it and nothing came into it. One that another process writes to by now stays.
    pub(super) fn remove_if_empty(&self) {
        let [archive, above @ ..] = &self.0[..] else { return };
        let is_empty = Snapshot::open(archive).is_ok_and(|snapshot| snapshot.position() == Position::ZERO);
        if !is_empty {
            return;
        }
        let removed = Writer::open(archive, ArchiveOptions::default()).and_then(|(writer, _)| writer.remove());
        match removed {
            Ok(()) => drop(above.iter().try_for_each(fs::remove_dir)),
            Err(error) => {
                tracing::warn!("{:#}", anyhow::Error::new(error).context("the archive has nothing in it, and stays"));
            }
        }
    }
}
