//! Every change to a file system that an archive or a store of statistics makes.
//!
//! All of them go through here, so that a test can record them and rebuild what a loss of power may leave: what was
//! not synced may be there in part, in another order, or not at all. The functions add nothing to the system's calls. Nothing
//! but a test observes them. Files that people change as wholes, such as those of users, are replaced here as well.

mod replacement;
mod writable;

pub use replacement::Replacement;
pub use writable::{check_file, check_folder};

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::OnceLock;

use nix::fcntl::posix_fallocate;

/// What was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// A folder was created.
    CreateFolder(&'a Path),
    /// A file was created, or emptied.
    Create(&'a Path),
    /// Octets were written to a file.
    Write(&'a Path),
    /// A file has another length.
    SetLength(&'a Path),
    /// The content of a file was made durable.
    Sync(&'a Path),
    /// The entries of a folder were made durable.
    SyncFolder(&'a Path),
    /// A file has another name.
    Rename(&'a Path, &'a Path),
    /// A file has a second name.
    Link(&'a Path, &'a Path),
    /// A file was removed.
    Remove(&'a Path),
}

static OBSERVER: OnceLock<fn(Change<'_>)> = OnceLock::new();

/// Calls a function after each change of this process, from now on. The first one stays.
pub fn observe(observer: fn(Change<'_>)) {
    let _ = OBSERVER.set(observer);
}

fn note(change: Change<'_>) {
    if let Some(observer) = OBSERVER.get() {
        observer(change);
    }
}

/// Notes a change when it has been made.
fn noted<T>(result: io::Result<T>, change: Change<'_>) -> io::Result<T> {
    result.inspect(|_| note(change))
}

/// Creates a folder, which must not be there.
pub fn create_folder(path: &Path) -> io::Result<()> {
    noted(fs::create_dir(path), Change::CreateFolder(path))
}

/// Creates a file or empties it.
pub fn create(path: &Path) -> io::Result<File> {
    noted(File::create(path), Change::Create(path))
}

/// Creates a file of which nobody has the content: one that is there under this name is removed and not emptied, for it may have
/// another name too.
pub fn create_anew(path: &Path) -> io::Result<File> {
    match remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => create_new(path),
    }
}

/// Creates a file that is not there.
fn create_new(path: &Path) -> io::Result<File> {
    noted(OpenOptions::new().write(true).create_new(true).open(path), Change::Create(path))
}

/// Creates a file that is not there, to append to.
pub fn create_to_append(path: &Path) -> io::Result<File> {
    noted(OpenOptions::new().append(true).create_new(true).open(path), Change::Create(path))
}

/// Opens a file as the options say, and creates it when there is none.
pub fn open_or_create(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    match options.create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.create_new(false).open(path),
        created => noted(created, Change::Create(path)),
    }
}

/// Notes that a file was written to: writing itself is done on the file.
pub fn written(path: &Path) {
    note(Change::Write(path));
}

/// Writes a file of these octets and syncs it. Its name is durable only when its folder is synced.
pub fn write_synced(path: &Path, octets: &[u8]) -> io::Result<()> {
    write_and_sync(&create(path)?, path, octets)
}

/// The same for a file that must not be there. Where it cannot be written, none is left behind.
pub fn write_new_synced(path: &Path, octets: &[u8]) -> io::Result<()> {
    let file = create_new(path)?;
    write_and_sync(&file, path, octets).inspect_err(|_| drop(remove(path)))
}

fn write_and_sync(mut file: &File, path: &Path, octets: &[u8]) -> io::Result<()> {
    file.write_all(octets)?;
    written(path);
    sync(file, path)
}

/// Creates a file that takes room on the disk and has nothing in it. Where there is no such room, none is left behind.
pub fn reserve(path: &Path, octets: u64) -> io::Result<()> {
    let file = create(path)?;
    let length = i64::try_from(octets).unwrap_or(i64::MAX);
    let reserved = posix_fallocate(&file, 0, length).map_err(io::Error::from);
    noted(reserved, Change::SetLength(path)).or_else(|error| remove(path).and(Err(error)))
}

/// Shortens or lengthens a file.
pub fn set_length(file: &File, path: &Path, octets: u64) -> io::Result<()> {
    noted(file.set_len(octets), Change::SetLength(path))
}

/// Makes the content of a file durable, and its length.
pub fn sync(file: &File, path: &Path) -> io::Result<()> {
    written(path);
    noted(file.sync_all(), Change::Sync(path))
}

/// The same without its times.
pub fn sync_data(file: &File, path: &Path) -> io::Result<()> {
    written(path);
    noted(file.sync_data(), Change::Sync(path))
}

/// Makes creations, renames and removals in a folder durable.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    noted(File::open(path).and_then(|folder| folder.sync_all()), Change::SyncFolder(path))
}

/// The same for a folder that is open: then no file need be opened for it.
pub fn sync_open_folder(folder: &File, path: &Path) -> io::Result<()> {
    noted(folder.sync_all(), Change::SyncFolder(path))
}

/// Gives a file another name; a file of that name is replaced.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    noted(fs::rename(from, to), Change::Rename(from, to))
}

/// Gives a file another name, which must be free. For a moment it has both; a crash may leave it so.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    link(from, to)?;
    remove(from)
}

/// Gives a file a second name, which must be free.
pub fn link(from: &Path, to: &Path) -> io::Result<()> {
    noted(fs::hard_link(from, to), Change::Link(from, to))
}

/// Removes a file.
pub fn remove(path: &Path) -> io::Result<()> {
    noted(fs::remove_file(path), Change::Remove(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_takes_nothing_from_a_file_that_is_there() {
        let folder = std::env::temp_dir().join(format!("weir-disk-new-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let [theirs, ours, second] = ["theirs", "ours", "second"].map(|name| folder.join(name));
        fs::write(&theirs, "theirs").expect("written");
        let taken = |result: io::Result<()>| result.is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists);
        assert!(taken(write_new_synced(&theirs, b"ours")));
        write_new_synced(&ours, b"ours").expect("there was none");
        assert!(taken(rename_new(&ours, &theirs)));
        let read = |path: &Path| fs::read_to_string(path).expect("a file");
        assert_eq!((read(&theirs), read(&ours)), ("theirs".to_owned(), "ours".to_owned()));
        rename_new(&ours, &second).expect("free");
        assert!(!ours.exists() && read(&second) == "ours");
        // a crash in the middle of that
        link(&second, &ours).expect("free");
        create_anew(&ours).expect("created");
        assert_eq!((read(&second), read(&ours)), ("ours".to_owned(), String::new()));
        fs::remove_dir_all(&folder).expect("removed");
    }
}
