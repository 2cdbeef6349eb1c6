//! Folders: creating, listing and syncing them.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

use crate::{Action, ArchiveError};

/// Creates a folder that may exist already, and syncs its parent when it did not: a file in it is durable only when
/// the folder itself is.
pub(crate) fn create(path: &Path) -> Result<(), ArchiveError> {
    match fs::create_dir(path) {
        Ok(()) => path.parent().map_or(Ok(()), sync),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(Action::CreateFolder.failed(path)(source)),
    }
}

/// Makes creations, renames and removals in a folder durable.
pub(crate) fn sync(path: &Path) -> Result<(), ArchiveError> {
    let result = File::open(path).and_then(|folder| folder.sync_all());
    result.map_err(Action::SyncFolder.failed(path))
}

/// The names in a folder, in no order; none when there is no such folder.
pub(crate) fn names(path: &Path) -> Result<Vec<OsString>, ArchiveError> {
    let failed = Action::ListFolder.failed(path);
    match fs::read_dir(path) {
        Ok(entries) => {
            entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<_, _>>().map_err(failed)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(failed(source)),
    }
}

/// Removes the files of a folder for what is being written.
pub(crate) fn clear(path: &Path) -> Result<u64, ArchiveError> {
    let leftovers = names(path)?;
    for name in &leftovers {
        remove_leftover(&path.join(name))?;
    }
    Ok(leftovers.len() as u64)
}

/// Removes a file that a crash left.
pub(crate) fn remove_leftover(path: &Path) -> Result<(), ArchiveError> {
    fs::remove_file(path).map_err(Action::RemoveLeftover.failed(path))
}
