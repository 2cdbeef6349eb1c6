//! How files that count no more stay until no reader needs them.
//!
//! A reader takes a *lease* before it reads the manifest: it locks the newest file in `readers/`, whose name is the
//! number of a commit that was there already. So a reader that holds lease S knows commit S or a later one, and needs
//! no file that counted no more since S or before. The process that removes files makes a lease with the number of the newest
//! commit; once the locks on all older ones are gone, the files that were pending by then can go, and the older leases
//! with them.
//!
//! The locks are the system's and go with the process that holds them, however it ends. No process waits for a lock: who
//! finds one being removed takes the next. A reader that may not lock, or finds no folder of readers, reads without a
//! lease: a file may then vanish before it is opened, which is an error and never a smaller answer.

use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::layout::Layout;
use crate::{Action, ArchiveError, folder};

/// Attempts to take a lease while leases are being removed.
const ATTEMPTS_MAX: u32 = 1000;

/// The right of a reader to find every file of its snapshot.
#[derive(Debug, Default)]
pub struct Lease {
    /// Locked, and `None` without a lease.
    file: Option<File>,
}

fn failed(path: &Path, source: io::Error) -> ArchiveError {
    Action::UseLease.failed(path)(source)
}

impl Lease {
    /// Takes a lease, if there is any to take. The manifest must be read after that.
    pub(crate) fn take(layout: &Layout) -> Result<Self, ArchiveError> {
        for _ in 0..ATTEMPTS_MAX {
            let Some(&number) = numbers(layout)?.last() else { return Ok(Self::default()) };
            let path = path(layout, number);
            let file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(_) => return Ok(Self::default()),
            };
            match file.try_lock_shared() {
                Ok(()) => {}
                // it is being removed, so there is a newer one
                Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Error(_)) => return Ok(Self::default()),
            }
            // The process that removed the lease held it exclusively until then.
            if path.exists() {
                return Ok(Self { file: Some(file) });
            }
        }
        Err(ArchiveError::Unsettled { path: layout.readers(), attempts: ATTEMPTS_MAX })
    }

    /// Whether files stay in place for this reader.
    pub fn is_held(&self) -> bool {
        self.file.is_some()
    }
}

fn path(layout: &Layout, number: u64) -> PathBuf {
    layout.readers().join(format!("{number:016}"))
}

/// Numbers of the leases, ascending.
fn numbers(layout: &Layout) -> Result<Vec<u64>, ArchiveError> {
    let names = folder::names(&layout.readers())?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The number of the newest lease; 0 when there is none.
pub(crate) fn newest(layout: &Layout) -> Result<u64, ArchiveError> {
    Ok(numbers(layout)?.last().copied().unwrap_or(0))
}

/// Makes the lease that the first reader will lock, if there is none.
pub(crate) fn create(layout: &Layout) -> Result<(), ArchiveError> {
    folder::create(&layout.readers())?;
    if numbers(layout)?.is_empty() { begin(layout, 0) } else { Ok(()) }
}

fn begin(layout: &Layout, number: u64) -> Result<(), ArchiveError> {
    // Nothing here is synced: after a crash of the machine there are no readers.
    let path = path(layout, number);
    File::create(&path).map(drop).map_err(|source| failed(&path, source))
}

/// How far files may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Released {
    /// No reader needs a file that counted no more since this commit or before.
    pub(crate) through: u64,
    /// Whether readers hold files that count no more.
    pub(crate) waiting: bool,
}

/// Makes the lease of a commit, so that new readers take it, and drops older ones that no reader holds. Readers that hold
/// an older one for longer than `wait_max` are not waited for. The caller holds the lock of maintenance.
///
/// A disk may have no room for a new file, and nothing else would ever free any. Then an older lease gets the number; and where
/// readers hold all of them, those that are not to be waited for need no new one.
pub(crate) fn release(layout: &Layout, sequence: u64, wait_max: Duration) -> Result<Released, ArchiveError> {
    if let Err(error) = begin_newest(layout, sequence) {
        if !error.is_full_disk() {
            return Err(error);
        }
        renumber_oldest(layout, sequence)?;
    }
    let numbers = numbers(layout)?;
    let Some((newest, older)) = numbers.split_last() else {
        // no reader has a lease
        return Ok(Released { through: sequence, waiting: false });
    };
    let mut after = older.iter().skip(1).chain([newest]);
    for &number in older {
        let path = path(layout, number);
        let waited = after.next().map_or(Duration::ZERO, |next| age(&self::path(layout, *next)));
        let file = File::open(&path).map_err(|source| failed(&path, source))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) if waited >= wait_max => {}
            Err(TryLockError::WouldBlock) => return Ok(Released { through: number, waiting: true }),
            Err(TryLockError::Error(source)) => return Err(failed(&path, source)),
        }
        // While the lock is held, so that a reader that has just opened the file sees that it has gone.
        fs::remove_file(&path).map_err(|source| failed(&path, source))?;
    }
    let through = if wait_max.is_zero() { sequence.max(*newest) } else { *newest };
    Ok(Released { through, waiting: through < sequence })
}

/// Makes the lease of a commit, unless there is one as new.
fn begin_newest(layout: &Layout, sequence: u64) -> Result<(), ArchiveError> {
    create(layout)?;
    if newest(layout)? < sequence { begin(layout, sequence) } else { Ok(()) }
}

/// Gives the oldest lease that no reader holds the number of a commit, if there is one: that takes no new file.
fn renumber_oldest(layout: &Layout, sequence: u64) -> Result<(), ArchiveError> {
    for number in numbers(layout)? {
        let path = path(layout, number);
        let file = File::open(&path).map_err(|source| failed(&path, source))?;
        if file.try_lock().is_ok() {
            // While the lock is held, as for a lease that is removed. Its age is the time that the older ones have waited.
            let renewed = file.set_modified(SystemTime::now());
            let renumbered = renewed.and_then(|()| fs::rename(&path, self::path(layout, sequence)));
            return renumbered.map_err(|source| failed(&path, source));
        }
    }
    Ok(())
}

/// How long a file that ceased to count with this commit has waited for readers: since there is a lease of which the readers
/// do not need it.
pub(crate) fn waited(layout: &Layout, since: u64) -> Result<Duration, ArchiveError> {
    let first = numbers(layout)?.into_iter().find(|number| *number >= since);
    Ok(first.map_or(Duration::ZERO, |number| age(&path(layout, number))))
}

/// Time since a lease was made.
fn age(path: &Path) -> Duration {
    let changed = fs::metadata(path).and_then(|metadata| metadata.modified());
    changed.ok().and_then(|changed| SystemTime::now().duration_since(changed).ok()).unwrap_or_default()
}

/// Files that had expired in an archive of format 1 and waited for readers: the newest lease listed them, after a
/// checksum of eight digits. None when the list is not what was written; they are made out to count again then, and
/// expire again.
pub(crate) fn expired_of_format_1(layout: &Layout) -> Result<HashSet<PathBuf>, ArchiveError> {
    const CRC_OCTETS: usize = 8;
    let Some(&number) = numbers(layout)?.last() else { return Ok(HashSet::new()) };
    let octets = fs::read(path(layout, number)).unwrap_or_default();
    let is_whole = |crc: &[u8], text: &[u8]| crc == format!("{:08x}", crc32c::crc32c(text)).as_bytes();
    let text = octets.split_at_checked(CRC_OCTETS).filter(|(crc, text)| is_whole(crc, text));
    let text = text.and_then(|(_, text)| std::str::from_utf8(text).ok()).unwrap_or_default();
    Ok(text.lines().filter_map(|line| line.strip_prefix("expired ")).map(|path| layout.root().join(path)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_released_when_the_last_reader_from_before_has_gone() {
        let dir = tempfile::tempdir().expect("a folder");
        let layout = Layout::new(dir.path());
        create(&layout).expect("created");
        let release = |sequence, wait_max| release(&layout, sequence, wait_max).expect("asked");
        let before = Lease::take(&layout).expect("a lease");
        assert!(before.is_held());
        assert_eq!(release(5, Duration::MAX), Released { through: 0, waiting: true });
        let later = Lease::take(&layout).expect("a lease");
        assert_eq!(release(9, Duration::MAX), Released { through: 0, waiting: true });
        drop(before);
        assert_eq!(release(9, Duration::MAX), Released { through: 5, waiting: true });
        assert_eq!(
            release(9, Duration::ZERO),
            Released { through: 9, waiting: false },
            "no reader is waited for longer"
        );
        assert_eq!(numbers(&layout).expect("listed"), [9]);
        drop(later);
    }

    #[test]
    fn the_oldest_lease_that_nobody_holds_becomes_the_newest() {
        let dir = tempfile::tempdir().expect("a folder");
        let layout = Layout::new(dir.path());
        create(&layout).expect("created");
        let reader = Lease::take(&layout).expect("a lease");
        begin(&layout, 5).expect("a newer lease");
        let lease = File::open(path(&layout, 5)).expect("the lease");
        lease.set_modified(SystemTime::UNIX_EPOCH).expect("made long ago");
        renumber_oldest(&layout, 9).expect("renamed");
        assert_eq!(numbers(&layout).expect("listed"), [0, 9]);
        assert!(age(&path(&layout, 9)) < Duration::from_hours(1), "readers of older ones have their time");
        let held = Lease::take(&layout).expect("a lease");
        renumber_oldest(&layout, 11).expect("asked");
        assert_eq!(numbers(&layout).expect("listed"), [0, 9], "all are held");
        drop((reader, held));
    }

    #[test]
    fn a_reader_that_finds_a_lease_being_removed_waits_for_nobody() {
        let dir = tempfile::tempdir().expect("a folder");
        let layout = Layout::new(dir.path());
        create(&layout).expect("created");
        let remover = File::open(path(&layout, 0)).expect("the lease");
        remover.try_lock().expect("locked");
        assert!(matches!(Lease::take(&layout), Err(ArchiveError::Unsettled { .. })), "there is no newer one yet");
        begin(&layout, 3).expect("a newer lease");
        assert!(Lease::take(&layout).expect("a lease").is_held());
    }
}
