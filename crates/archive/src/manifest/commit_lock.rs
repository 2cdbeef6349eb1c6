//! The lock that keeps a commit and a new checkpoint apart.
//!
//! A commit checks whether its number is free and then takes it. If the checkpoint were replaced in between, the edits before it
//! could be removed, the number would be free again, and no reader would read the commit. So commits hold this lock shared for
//! that moment, and the process that replaces the checkpoint holds it exclusively.
//!
//! A process may be stopped at any moment, also while it holds the lock. If it was committing, it blocks no other process: others
//! commit too, and the checkpoint is put off. If it was replacing the checkpoint, it was between two system calls, and processes
//! that commit wait for it for some seconds.
//!
//! What is locked is the folder: there is no file to be made for it on a disk that is full, none that belongs to another user,
//! and none that somebody removes. What speaks against it is that a network file system locks folders on each host apart;
//! one host alone writes to an archive.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::{Action, ArchiveError};

/// A checkpoint is replaced in microseconds; a process that holds the lock for longer was stopped.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Interval between two attempts to take the lock.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The lock on the folder of a manifest, held while this lives. The system gives it back when the process dies.
#[derive(Debug)]
pub(super) struct CommitLock(File);

impl Drop for CommitLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that this one is just starting holds a copy of it for a moment.
        let _ = self.0.unlock();
    }
}

impl CommitLock {
    /// Takes the lock that commits share. Waits for a process that replaces the checkpoint, but not for ever:
    /// [`ArchiveError::LockedManifest`] then.
    pub(super) fn share(folder: &Path) -> Result<Self, ArchiveError> {
        Self::share_within(folder, WAIT_MAX)
    }

    fn share_within(folder: &Path, wait_max: Duration) -> Result<Self, ArchiveError> {
        let failed = Action::Lock.failed(folder);
        let file = File::open(folder).map_err(failed)?;
        let until = Instant::now() + wait_max;
        loop {
            match file.try_lock_shared() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(LOOK_EVERY),
                Err(TryLockError::WouldBlock) => {
                    return Err(ArchiveError::LockedManifest { path: folder.to_owned(), waited: wait_max });
                }
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
    }

    /// Takes the lock exclusively; `None` while another process holds it.
    pub(super) fn try_alone(folder: &Path) -> Result<Option<Self>, ArchiveError> {
        let failed = Action::Lock.failed(folder);
        let file = File::open(folder).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_share_the_lock_and_a_checkpoint_has_it_alone() {
        let dir = tempfile::tempdir().expect("a folder");
        let (one, other) =
            (CommitLock::share(dir.path()).expect("free"), CommitLock::share(dir.path()).expect("shared"));
        drop(one);
        assert!(CommitLock::try_alone(dir.path()).expect("asked").is_none(), "a commit is under way");
        drop(other);
        let alone = CommitLock::try_alone(dir.path()).expect("asked").expect("free");
        assert!(CommitLock::try_alone(dir.path()).expect("asked").is_none());
        let held = CommitLock::share_within(dir.path(), Duration::from_millis(10)).expect_err("it is held");
        assert!(matches!(&held, ArchiveError::LockedManifest { path, .. } if path == dir.path()), "{held:?}");
        assert!(held.hint().is_some());
        drop(alone);
        CommitLock::share(dir.path()).expect("free again");
    }
}
