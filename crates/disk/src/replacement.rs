//! A file whose content is replaced as a whole, by one at a time.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use crate::{Change, note, remove, rename, sync, sync_folder, written};

/// Names of new files that are tried: those of processes that were killed may be in the way.
const TRIES_MAX: u32 = 1000;
/// A replacement takes a fraction of a second; who has the lock for longer was stopped, or is no replacement.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// How often it is looked whether the lock is free.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Who must be able to read a file once it is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readers {
    /// Whoever could read the one before.
    AsBefore,
    /// Those who are as this process.
    Own,
}

/// A file that is about to be replaced. Until this is dropped, all others who begin a replacement in the same folder wait,
/// in this process and in others: what is read of the file in between is what the new content follows.
///
/// A file system without locks of folders has none. There the last one who writes counts, and files are whole all the same.
#[derive(Debug)]
pub struct Replacement {
    place: PathBuf,
    folder: PathBuf,
    _lock: File,
}

impl Replacement {
    /// Waits until nobody else replaces a file of the folder, 10 s at most. A path that is a link leads to the file that is
    /// replaced, and the link stays. The file need not be there; its folder must be.
    ///
    /// # Errors
    ///
    /// Those of the system: there is no such folder, or it cannot be read. [`io::ErrorKind::TimedOut`] where the lock of the
    /// folder is held for longer.
    pub fn begin(path: &Path) -> io::Result<Self> {
        Self::begin_within(path, WAIT_MAX)
    }

    fn begin_within(path: &Path, wait_max: Duration) -> io::Result<Self> {
        let place = place_of(path)?;
        let folder = match place.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let opened = File::open(&folder)?;
        lock(&opened, wait_max)?;
        Ok(Self { place, folder, _lock: opened })
    }

    /// Writes the whole content: whoever reads the file gets all of the old or all of the new one, also after a loss of
    /// power. Owner and mode are those of the file before; a new file has this mode, less what the process leaves out of it.
    /// Of a file that its group or all may read, the owner is this process where the system does not let it give files away.
    ///
    /// # Errors
    ///
    /// Those of the system; the file is as it was then, unless only its folder could not be made durable.
    pub fn write(&self, octets: &[u8], mode: u32) -> io::Result<()> {
        self.write_for(Readers::AsBefore, octets, mode)
    }

    /// The same for a file that only those read who are as this process: its owner may be another one than before, whatever its
    /// mode.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    pub fn write_as_own(&self, octets: &[u8], mode: u32) -> io::Result<()> {
        self.write_for(Readers::Own, octets, mode)
    }

    fn write_for(&self, readers: Readers, octets: &[u8], mode: u32) -> io::Result<()> {
        let old = match fs::metadata(&self.place) {
            Ok(old) => Some(old),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let (new, file) = self.create(old.as_ref().map_or(mode, |old| old.mode() & 0o777))?;
        let taken_over = old.as_ref().map_or(Ok(()), |old| take_over(&file, old, readers));
        let replaced = taken_over.and_then(|()| fill(&file, &new, octets)).and_then(|()| rename(&new, &self.place));
        if replaced.is_err() {
            // the first error is the one to report
            let _ = remove(&new);
        }
        replaced?;
        sync_folder(&self.folder)
    }

    /// Creates a file next to the one that it will replace, of a name that no other process has.
    fn create(&self, mode: u32) -> io::Result<(PathBuf, File)> {
        let name = self.place.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut tries = 0;
        loop {
            let mut new = name.to_owned();
            new.push(format!(".{}-{tries}.new", process::id()));
            let new = self.folder.join(new);
            match OpenOptions::new().write(true).create_new(true).mode(mode).open(&new) {
                Ok(file) => {
                    note(Change::Create(&new));
                    return Ok((new, file));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < TRIES_MAX => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Takes the lock of a folder, unless its file system has none.
fn lock(folder: &File, wait_max: Duration) -> io::Result<()> {
    let until = Instant::now() + wait_max;
    loop {
        match folder.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(LOOK_EVERY),
            Err(TryLockError::WouldBlock) => {
                let what = "another process holds the lock of the folder";
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(()) | Err(TryLockError::Error(_)) => return Ok(()),
        }
    }
}

fn fill(mut file: &File, path: &Path, octets: &[u8]) -> io::Result<()> {
    file.write_all(octets)?;
    written(path);
    sync(file, path)
}

/// Gives a file the owner and the mode of another one: whoever could read that one, such as a service with an account of
/// its own, can read this one.
fn take_over(file: &File, old: &Metadata, readers: Readers) -> io::Result<()> {
    hand_on((old.uid(), old.mode()), readers, |owner| fchown(file, owner, Some(old.gid())))?;
    file.set_permissions(old.permissions())
}

/// Gives a file an owner and a group by `chown`, which leaves the owner as it is where there is none.
fn hand_on(
    (owner, mode): (u32, u32),
    readers: Readers,
    chown: impl Fn(Option<u32>) -> io::Result<()>,
) -> io::Result<()> {
    let is_refused =
        |given: &io::Result<()>| given.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
    let mut given = chown(Some(owner));
    // only root gives files away; whose they are may have them belong to any of their groups
    if is_refused(&given) && mode & 0o040 != 0 {
        given = chown(None);
    }
    // what all may read has readers whoever owns it
    if is_refused(&given) && (mode & 0o004 != 0 || readers == Readers::Own) { Ok(()) } else { given }
}

/// The file that a path leads to; of a link to a file that is not there, what it names.
fn place_of(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        found => return found,
    }
    let mut place = path.to_owned();
    // links in a circle are another error of the system
    while let Ok(link) = fs::read_link(&place) {
        place = place.parent().unwrap_or(Path::new("")).join(link);
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn replace(path: &Path, text: &str) {
        Replacement::begin(path).and_then(|replacement| replacement.write(text.as_bytes(), 0o600)).expect("written");
    }

    fn names(folder: &Path) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name().display().to_string();
        let mut names: Vec<String> = fs::read_dir(folder).expect("a folder").map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn a_link_stays_and_leads_to_the_new_content() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("real")).expect("a folder");
        let (link, file) = (folder.path().join("link"), folder.path().join("real/file"));
        symlink("real/file", &link).expect("a link");
        for text in ["made where the link leads", "replaced there"] {
            replace(&link, text);
            assert!(fs::symlink_metadata(&link).expect("the link").is_symlink(), "{text}");
            assert_eq!(fs::read_to_string(&file).expect("the file"), text);
        }
        assert_eq!((names(folder.path()).len(), names(&folder.path().join("real"))), (2, vec!["file".to_owned()]));
    }

    #[test]
    fn the_mode_of_the_file_before_stays_and_a_new_one_has_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        let mode = || fs::metadata(&file).expect("a file").mode() & 0o777;
        replace(&file, "new");
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o664)).expect("changed");
        replace(&file, "newer");
        assert_eq!(mode(), 0o664);
    }

    /// As if this process were not root, nor the owner of the file before.
    #[test]
    fn a_file_of_another_account_is_written_where_its_readers_can_read_it_then() {
        let refused = || -> io::Result<()> { Err(io::ErrorKind::PermissionDenied.into()) };
        let is_written = |mode: u32, readers: Readers, is_in_group: bool| {
            let chown = |owner: Option<u32>| if owner.is_none() && is_in_group { Ok(()) } else { refused() };
            hand_on((0, 0o100_000 | mode), readers, chown).is_ok()
        };
        for (mode, of_group, of_others) in [
            (0o640, true, false),
            (0o660, true, false),
            (0o600, false, false),
            (0o604, true, true),
            (0o644, true, true),
        ] {
            assert_eq!(is_written(mode, Readers::AsBefore, true), of_group, "{mode:o}");
            assert_eq!(is_written(mode, Readers::AsBefore, false), of_others, "{mode:o}");
            assert!(is_written(mode, Readers::Own, true) && is_written(mode, Readers::Own, false), "{mode:o}");
        }
        let broken = hand_on((0, 0o100_644), Readers::Own, |_| Err(io::ErrorKind::ReadOnlyFilesystem.into()));
        assert_eq!(broken.expect_err("no permission").kind(), io::ErrorKind::ReadOnlyFilesystem);
        let given = std::cell::RefCell::new(Vec::new());
        let kept = hand_on((7, 0o100_640), Readers::AsBefore, |owner| {
            given.borrow_mut().push(owner);
            Ok(())
        });
        assert!(kept.is_ok() && *given.borrow() == [Some(7)], "root gives it to whom it belonged to");
    }

    #[test]
    fn a_file_of_a_process_that_was_killed_is_in_nobody_s_way() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        fs::write(folder.path().join(format!("file.{}-0.new", process::id())), "half").expect("written");
        replace(&file, "whole");
        assert_eq!(fs::read_to_string(&file).expect("the file"), "whole");
    }

    /// Each adds one to the number in the file: without the lock some are lost, with one name for all new files some fail.
    #[test]
    fn what_is_read_in_between_is_what_the_new_content_follows() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        replace(&file, "0");
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let replacement = Replacement::begin(&file).expect("begun");
                        let number: u32 = fs::read_to_string(&file).expect("whole").parse().expect("a number");
                        replacement.write((number + 1).to_string().as_bytes(), 0o600).expect("written");
                    }
                });
            }
        });
        assert_eq!(fs::read_to_string(&file).expect("the file"), "40");
        assert_eq!(names(folder.path()), ["file"]);
    }

    #[test]
    fn who_holds_the_lock_is_not_waited_for_without_an_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        let held = File::open(folder.path()).expect("a folder");
        held.lock().expect("locked");
        let late = Replacement::begin_within(&file, Duration::from_millis(20)).expect_err("it is locked");
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        assert_eq!(late.to_string(), "another process holds the lock of the folder");
        thread::scope(|scope| {
            let waiting = scope.spawn(|| Replacement::begin(&file).map(drop));
            thread::sleep(Duration::from_millis(20));
            drop(held);
            waiting.join().expect("it ends").expect("begun once the lock was free");
        });
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a-folder");
        fs::create_dir(&path).expect("a folder");
        let replacement = Replacement::begin(&path).expect("begun");
        replacement.write(b"text", 0o600).expect_err("a folder is in the way");
        assert_eq!(names(folder.path()), ["a-folder"]);
        let missing = Replacement::begin(&folder.path().join("none/file")).expect_err("no folder");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
