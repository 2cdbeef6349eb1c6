//! Every change to a file system that an archive makes.
//!
//! All of them go through here, so that a test can record them and rebuild what a loss of power may leave: what was
//! not synced may be there in part, in another order, or not at all. The functions add nothing to the system's calls.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use nix::fcntl::posix_fallocate;

#[cfg(test)]
pub(crate) mod failing;
#[cfg(test)]
mod power_loss;
#[cfg(test)]
pub(crate) mod record;

/// What was changed, for the recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    CreateFolder(&'a Path),
    Create(&'a Path),
    Write(&'a Path),
    SetLength(&'a Path),
    Sync(&'a Path),
    SyncFolder(&'a Path),
    Rename(&'a Path, &'a Path),
    Link(&'a Path, &'a Path),
    Remove(&'a Path),
}

#[cfg(test)]
fn note(change: Change<'_>) {
    record::note(change);
}

#[cfg(not(test))]
fn note(_: Change<'_>) {}

/// Notes a change when it has been made.
fn noted<T>(result: io::Result<T>, change: Change<'_>) -> io::Result<T> {
    result.inspect(|_| note(change))
}

pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    noted(fs::create_dir(path), Change::CreateFolder(path))
}

/// Creates a file or empties it.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    noted(File::create(path), Change::Create(path))
}

/// Creates a file that is not there, to append to.
pub(crate) fn create_to_append(path: &Path) -> io::Result<File> {
    noted(OpenOptions::new().append(true).create_new(true).open(path), Change::Create(path))
}

/// Notes that a file was written to: writing itself is done on the file.
pub(crate) fn written(path: &Path) {
    note(Change::Write(path));
}

/// Writes a file of these octets and syncs it. Its name is durable only when its folder is synced.
pub(crate) fn write_synced(path: &Path, octets: &[u8]) -> io::Result<()> {
    let mut file = create(path)?;
    file.write_all(octets)?;
    written(path);
    sync(&file, path)
}

/// Creates a file that takes room on the disk and has nothing in it.
pub(crate) fn reserve(path: &Path, octets: u64) -> io::Result<()> {
    let file = create(path)?;
    let length = i64::try_from(octets).unwrap_or(i64::MAX);
    let reserved = posix_fallocate(&file, 0, length).map_err(io::Error::from);
    noted(reserved, Change::SetLength(path)).or_else(|error| remove(path).and(Err(error)))
}

pub(crate) fn set_length(file: &File, path: &Path, octets: u64) -> io::Result<()> {
    noted(file.set_len(octets), Change::SetLength(path))
}

/// Makes the content of a file durable, and its length.
pub(crate) fn sync(file: &File, path: &Path) -> io::Result<()> {
    written(path);
    noted(file.sync_all(), Change::Sync(path))
}

/// The same without its times.
pub(crate) fn sync_data(file: &File, path: &Path) -> io::Result<()> {
    written(path);
    #[cfg(test)]
    failing::refuse(path)?;
    noted(file.sync_data(), Change::Sync(path))
}

/// Makes creations, renames and removals in a folder durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    noted(File::open(path).and_then(|folder| folder.sync_all()), Change::SyncFolder(path))
}

/// The same for a folder that is open: then no file need be opened for it.
pub(crate) fn sync_open_folder(folder: &File, path: &Path) -> io::Result<()> {
    noted(folder.sync_all(), Change::SyncFolder(path))
}

pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    noted(fs::rename(from, to), Change::Rename(from, to))
}

/// Gives a file a second name, which must be free.
pub(crate) fn link(from: &Path, to: &Path) -> io::Result<()> {
    noted(fs::hard_link(from, to), Change::Link(from, to))
}

pub(crate) fn remove(path: &Path) -> io::Result<()> {
    noted(fs::remove_file(path), Change::Remove(path))
}
