//! One writer per archive, and one who merges or expires segments.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::{Action, ArchiveError};

/// How many times a lock is taken whose file is not the one of that name, until it counts all the same.
const TURNS: usize = 3;

/// The lock of an archive, held while this lives. The system gives it back when the process dies, however it dies, so
/// a dead process holds nothing.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that this one is just starting holds a copy of it for a moment.
        let _ = self.0.unlock();
    }
}

impl Lock {
    /// Takes the lock and leaves this process's number in the file for the one that comes second.
    pub(crate) fn acquire(path: &Path) -> Result<Self, ArchiveError> {
        Self::acquire_if(path, is_at)
    }

    fn acquire_if(path: &Path, is_at: impl Fn(&File, &Path) -> bool) -> Result<Self, ArchiveError> {
        let mut file = try_open(path)?;
        // The process that held it may have removed the archive, and a file without a name keeps no other process out. On
        // some file systems numbers of files are not stable: the lock that is held in the end is as good as any.
        for _ in 1..TURNS {
            if is_at(&file, path) {
                break;
            }
            // it may be the same file after all, whose lock would be refused
            let _ = file.unlock();
            file = try_open(path)?;
        }
        Ok(Self::held(file))
    }

    /// Whether the lock is free.
    pub(crate) fn is_free(path: &Path) -> bool {
        File::open(path).is_ok_and(|file| file.try_lock_shared().is_ok_and(|()| file.unlock().is_ok()))
    }

    /// Waits for the lock and takes it.
    pub(crate) fn wait(path: &Path) -> Result<Self, ArchiveError> {
        let failed = Action::Lock.failed(path);
        let file = open(path).map_err(failed)?;
        file.lock().map_err(failed)?;
        Ok(Self::held(file))
    }

    fn held(mut file: File) -> Self {
        // On a full disk the number may stay unwritten: the lock holds all the same, so that is no reason to fail.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Self(file)
    }
}

/// Opens the file and locks it.
fn try_open(path: &Path) -> Result<File, ArchiveError> {
    let failed = Action::Lock.failed(path);
    let mut file = open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let holder = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
            Err(ArchiveError::Locked { path: path.to_owned(), holder })
        }
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

/// Whether this is the file that others find under this name.
fn is_at(file: &File, path: &Path) -> bool {
    let number = |found: io::Result<std::fs::Metadata>| found.ok().map(|found| (found.dev(), found.ino()));
    number(file.metadata()).is_some_and(|held| number(path.metadata()) == Some(held))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_whose_number_changes_is_locked_after_some_turns() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        let turns = std::cell::Cell::new(0);
        let never = |_: &File, _: &Path| {
            turns.set(turns.get() + 1);
            assert!(turns.get() < 10, "it ends");
            false
        };
        let lock = Lock::acquire_if(&path, never).expect("locked");
        assert!(!Lock::is_free(&path));
        drop(lock);
        assert!(Lock::is_free(&path));
    }

    #[test]
    fn a_file_that_was_removed_locks_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        let file = open(&path).expect("a file");
        assert!(is_at(&file, &path));
        fs::remove_file(&path).expect("removed");
        assert!(!is_at(&file, &path), "nobody finds it");
        let other = open(&path).expect("a file");
        assert!(!is_at(&file, &path) && is_at(&other, &path));
    }
}
