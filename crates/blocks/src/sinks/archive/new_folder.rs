//! The folder of an archive that a chain has created and never used.
//!
//! A chain opens its sinks first, so that what a source hands on has a place. When the source cannot be opened then, because its
//! port is in use for instance, there is an archive in which nothing ever was, perhaps in a folder whose name was mistyped. It is removed.

use std::fs;
use std::path::{Path, PathBuf};

use super::Archive;

/// Folders that were not there before anything of the chain was opened: that of the archive, then those above it.
#[derive(Debug, Default)]
pub(super) struct NewFolders(Vec<PathBuf>);

impl NewFolders {
    pub(super) fn of(archive: &Path) -> Self {
        let is_new = |folder: &&Path| folder.try_exists().is_ok_and(|is_there| !is_there);
        let named = archive.ancestors().filter(|folder| !folder.as_os_str().is_empty());
        Self(named.take_while(is_new).map(Path::to_owned).collect())
    }

    /// They stay, because the archive is used.
    pub(super) fn keep(&mut self) {
        self.0.clear();
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        // what is in it then may explain the panic
        if std::thread::panicking() {
            return;
        }
        // an archive that was closed is kept, also when no flow came
        let (Some(writer), [_, above @ ..]) = (self.writer.take(), &self.new_folders.0[..]) else { return };
        match writer.remove() {
            // one that somebody else uses by now is not empty and stays
            Ok(()) => drop(above.iter().try_for_each(fs::remove_dir)),
            Err(error) => tracing::warn!("{}", self.failed(error).chain()),
        }
    }
}
