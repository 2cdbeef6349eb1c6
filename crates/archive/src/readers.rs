//! Leases: a file that is being read stays in its place, and no writer waits for that.
//!
//! The folder of readers has numbered files, mostly one. A reader takes a shared lock on the newest and keeps it for as
//! long as it reads. To remove files, maintenance first makes the next number, whose text lists them: readers that come
//! from now on take the new number and pass over what it lists. When no reader holds an older number any more, none can
//! have the files in a listing, and they are removed, and the older numbers with them.
//!
//! The locks are the system's and go with the process that holds them, however it ends. A reader that may not lock, or
//! finds no folder of readers (an archive of an older program), reads without a lease: a file may then vanish before it
//! is opened, which is an error and never a smaller answer.

use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::layout::Layout;
use crate::{Action, ArchiveError, folder};

/// Attempts to take a lease while files are being removed.
const ATTEMPTS_MAX: u32 = 1000;
/// What a file is called while it is written.
const NEW: &str = "new";
/// Octets of the checksum, as digits, before a list.
const CRC_OCTETS: usize = 8;

/// The right of a reader to find every file of its listing.
#[derive(Debug, Default)]
pub struct Lease {
    /// Locked, and `None` without a lease.
    file: Option<File>,
    /// Files pending deletion, relative to the archive.
    expired: HashSet<PathBuf>,
}

/// Why a file is pending deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A wider segment covers it: readers pass over it by themselves.
    Covered,
    /// It has expired: readers pass over it because it is listed.
    Expired,
}

impl Reason {
    fn word(self) -> &'static str {
        match self {
            Self::Covered => "covered",
            Self::Expired => "expired",
        }
    }

    fn parse(line: &str) -> Option<(Self, PathBuf)> {
        let (word, path) = line.split_once(' ')?;
        let reason = [Self::Covered, Self::Expired].into_iter().find(|reason| reason.word() == word)?;
        Some((reason, PathBuf::from(path)))
    }
}

fn failed(path: &Path, source: io::Error) -> ArchiveError {
    Action::UseLease.failed(path)(source)
}

impl Lease {
    /// Takes a lease, if there is any to take.
    pub(crate) fn take(layout: &Layout) -> Result<Self, ArchiveError> {
        for _ in 0..ATTEMPTS_MAX {
            let Some(&number) = numbers(layout)?.last() else { return Ok(Self::default()) };
            let path = path(layout, number);
            let mut file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(_) => return Ok(Self::default()),
            };
            let locked = file.lock_shared().is_ok();
            // Whoever removed the number held it alone until then.
            if !path.exists() {
                continue;
            }
            let mut octets = Vec::new();
            file.read_to_end(&mut octets).map_err(|source| failed(&path, source))?;
            let expired = listed(&octets).into_iter().filter(|(reason, _)| *reason == Reason::Expired);
            return Ok(Self { expired: expired.map(|(_, path)| path).collect(), file: locked.then_some(file) });
        }
        Err(ArchiveError::Unsettled { path: layout.readers(), attempts: ATTEMPTS_MAX })
    }

    /// Whether files stay in place for this reader.
    pub(crate) fn is_held(&self) -> bool {
        self.file.is_some()
    }

    /// Whether a file is pending deletion because it has expired.
    pub(crate) fn has_expired(&self, layout: &Layout, file: &Path) -> bool {
        !self.expired.is_empty() && file.strip_prefix(layout.root()).is_ok_and(|file| self.expired.contains(file))
    }
}

/// The files that a list names; none when its checksum is wrong: then they are only removed later.
fn listed(octets: &[u8]) -> Vec<(Reason, PathBuf)> {
    let text = octets.split_at_checked(CRC_OCTETS).filter(|(crc, text)| *crc == crc_text(text).as_bytes());
    let text = text.and_then(|(_, text)| std::str::from_utf8(text).ok()).unwrap_or_default();
    text.lines().filter_map(Reason::parse).collect()
}

fn crc_text(text: &[u8]) -> String {
    format!("{:08x}", crc32c::crc32c(text))
}

fn path(layout: &Layout, number: u64) -> PathBuf {
    layout.readers().join(format!("{number:016}"))
}

fn numbers(layout: &Layout) -> Result<Vec<u64>, ArchiveError> {
    let names = folder::names(&layout.readers())?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Makes the number that the first reader will lock, if there is none.
pub(crate) fn create(layout: &Layout) -> Result<(), ArchiveError> {
    folder::create(&layout.readers())?;
    if numbers(layout)?.is_empty() { begin(layout, 1, "") } else { Ok(()) }
}

fn begin(layout: &Layout, number: u64, text: &str) -> Result<(), ArchiveError> {
    // Nothing here is synced: after a crash of the machine nobody reads, and what expired before expires again.
    let new = layout.readers().join(NEW);
    let written =
        fs::write(&new, crc_text(text.as_bytes()) + text).and_then(|()| fs::rename(&new, path(layout, number)));
    written.map_err(|source| failed(&new, source))
}

/// Whether files can be listed for deletion: no others are pending.
pub(crate) fn may_retire(layout: &Layout) -> Result<bool, ArchiveError> {
    create(layout)?;
    Ok(numbers(layout)?.len() == 1)
}

/// Lists files for deletion. False when others are still pending; these come first. The caller holds the lock of
/// upkeep.
pub(crate) fn retire(layout: &Layout, files: &[(Reason, PathBuf)]) -> Result<bool, ArchiveError> {
    create(layout)?;
    let numbers = numbers(layout)?;
    let [number] = numbers[..] else { return Ok(false) };
    let mut text = String::new();
    for (reason, file) in files {
        let Some(file) = file.strip_prefix(layout.root()).ok().and_then(Path::to_str) else { continue };
        text.extend([reason.word(), " ", file, "\n"]);
    }
    begin(layout, number + 1, &text).map(|()| true)
}

/// What was removed of the files pending deletion.
#[derive(Debug, Default)]
pub(crate) struct Removal {
    pub(crate) files: u64,
    pub(crate) octets: u64,
    /// True when readers held some.
    pub(crate) waiting: bool,
    /// True when everything that should go is listed.
    pub(crate) listed: bool,
}

/// Removes the files pending deletion as soon as no reader can have them in a listing, or after `wait_max`.
///
/// `is_covered` answers whether a file is covered still: the wide one may have been set aside meanwhile. The caller
/// holds the lock of upkeep.
pub(crate) fn remove_retired(
    layout: &Layout,
    wait_max: Duration,
    is_covered: impl Fn(&Path) -> bool,
) -> Result<Removal, ArchiveError> {
    let numbers = numbers(layout)?;
    let Some((&newest, older)) = numbers.split_last().filter(|(_, older)| !older.is_empty()) else {
        return Ok(Removal::default());
    };
    let newest = path(layout, newest);
    let mut held = Vec::new();
    for &number in older {
        let path = path(layout, number);
        let file = File::open(&path).map_err(|source| failed(&path, source))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) if age(&newest) >= wait_max => {}
            Err(TryLockError::WouldBlock) => return Ok(Removal { waiting: true, ..Removal::default() }),
            Err(TryLockError::Error(source)) => return Err(failed(&path, source)),
        }
        held.push((path, file));
    }
    let octets = fs::read(&newest).map_err(|source| failed(&newest, source))?;
    let mut removed = Removal::default();
    for (reason, file) in listed(&octets) {
        let file = layout.root().join(file);
        if reason == Reason::Covered && !is_covered(&file) {
            continue;
        }
        if let Some(octets) = remove(&file)? {
            removed.files += 1;
            removed.octets += octets;
        }
    }
    for (path, _file) in held {
        fs::remove_file(&path).map_err(|source| failed(&path, source))?;
    }
    Ok(removed)
}

/// Removes a segment; returns its octets, or `None` when it was gone already.
pub(crate) fn remove(file: &Path) -> Result<Option<u64>, ArchiveError> {
    let octets = fs::metadata(file).map_or(0, |metadata| metadata.len());
    match fs::remove_file(file) {
        Ok(()) => Ok(Some(octets)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Action::RemoveSegment.failed(file)(source)),
    }
}

fn age(path: &Path) -> Duration {
    let changed = fs::metadata(path).and_then(|metadata| metadata.modified());
    changed.ok().and_then(|changed| SystemTime::now().duration_since(changed).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_when_the_last_reader_from_before_has_gone() {
        let dir = tempfile::tempdir().expect("a folder");
        let layout = Layout::new(dir.path());
        create(&layout).expect("created");
        let [covered, expired] = ["a", "b"].map(|name| dir.path().join(name));
        for file in [&covered, &expired] {
            fs::write(file, "xyz").expect("written");
        }
        let before = Lease::take(&layout).expect("a lease");
        let listed = [(Reason::Covered, covered.clone()), (Reason::Expired, expired.clone())];
        assert!(retire(&layout, &listed).expect("listed"));
        let after = Lease::take(&layout).expect("a lease");
        assert!(after.is_held() && after.has_expired(&layout, &expired) && !after.has_expired(&layout, &covered));
        assert!(!before.has_expired(&layout, &expired));
        assert!(!retire(&layout, &[]).expect("asked"), "one list at a time");
        let remove = |wait_max, still| remove_retired(&layout, wait_max, |_: &Path| still).expect("asked");
        assert!(remove(Duration::MAX, true).waiting && expired.exists());
        drop(before);
        let removed = remove(Duration::MAX, false);
        assert_eq!((removed.files, removed.octets, removed.waiting), (1, 3, false));
        assert!(covered.exists() && !expired.exists(), "what is covered no more stays");
        assert!(retire(&layout, &[(Reason::Covered, covered.clone())]).expect("listed"));
        assert_eq!(remove(Duration::ZERO, true).files, 1, "no reader is waited for longer");
        assert!(!covered.exists());
    }
}
