//! Folders: creating, listing and syncing them.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::{Action, ArchiveError, disk};

/// Creates a folder that may exist already. Its parent is synced in any case, because the process that created it may have
/// crashed before: a file in it is durable only when the folder itself is.
pub(crate) fn create(path: &Path) -> Result<(), ArchiveError> {
    match disk::create_folder(path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(source) => return Err(Action::CreateFolder.failed(path)(source)),
    }
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).map_or(Ok(()), sync)
}

/// Creates a folder and whatever is missing above it, each level synced.
pub(crate) fn create_all(path: &Path) -> Result<(), ArchiveError> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_all(parent)?;
    }
    create(path)
}

/// Makes creations, renames and removals in a folder durable.
pub(crate) fn sync(path: &Path) -> Result<(), ArchiveError> {
    disk::sync_folder(path).map_err(Action::SyncFolder.failed(path))
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
    disk::remove(path).map_err(Action::RemoveLeftover.failed(path))
}
