//! The place of a file that is fetched.
//!
//! A process may end at any time, also while it tries a file that turns out to be of no use. So what was there is kept
//! next to it as `FILE.before` until the new one is in use; where nothing was there, `FILE.untried` marks that. A start
//! that finds one of them knows that nothing has shown yet that the file can be used. What speaks against it is that
//! the disk needs the capacity for both.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// What a file that others may read is created with; the umask takes from it.
const MODE: u32 = 0o666;

/// A file, and what is next to it while it is tried.
#[derive(Debug)]
pub(super) struct Place {
    file: PathBuf,
    before: PathBuf,
    untried: PathBuf,
}

impl Place {
    /// The place of a file. A symbolic link stays one: the place is what it leads to.
    pub(super) fn of(file: &Path) -> Self {
        let led_to = fs::canonicalize(file).or_else(|_| fs::read_link(file).map(|to| folder_of(file).join(to)));
        let file = led_to.unwrap_or_else(|_| file.to_owned());
        Self { before: with_suffix(&file, ".before"), untried: with_suffix(&file, ".untried"), file }
    }

    /// Whether a start has to wait for it: it is not there, or nothing has shown that it can be used.
    pub(super) fn is_wanting(&self) -> bool {
        self.untried.exists() || !self.file.exists()
    }

    /// Whether something is there.
    pub(super) fn is_filled(&self) -> bool {
        self.file.exists()
    }

    /// A file next to it for what comes, which goes away unless it is [put](Self::put).
    pub(super) fn create(&self) -> io::Result<NamedTempFile> {
        let mut prefix = self.file.file_name().unwrap_or_default().to_owned();
        prefix.push(".");
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(".new").permissions(Permissions::from_mode(MODE));
        builder.tempfile_in(folder_of(&self.file))
    }

    /// Whether another file has the same octets.
    pub(super) fn is_same(&self, other: &Path) -> io::Result<bool> {
        let own = match File::open(&self.file) {
            Ok(own) => own,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let (mut own, mut other) = (BufReader::new(own), BufReader::new(File::open(other)?));
        loop {
            let (piece, other_piece) = (own.fill_buf()?, other.fill_buf()?);
            let length = piece.len().min(other_piece.len());
            if length == 0 {
                return Ok(piece.is_empty() && other_piece.is_empty());
            }
            if piece[..length] != other_piece[..length] {
                return Ok(false);
            }
            own.consume(length);
            other.consume(length);
        }
    }

    /// Puts a file into the place, with the mode of the one before, which stays until this one is [in use](Self::keep).
    pub(super) fn put(&self, new: NamedTempFile) -> io::Result<()> {
        new.as_file().sync_all()?;
        match fs::metadata(&self.file) {
            Ok(found) => new.as_file().set_permissions(found.permissions())?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let placed = self.replace(new);
        if placed.is_err() {
            // the caller reports the failure; what this leaves the next start puts back
            let _ = self.put_back();
        }
        placed
    }

    fn replace(&self, new: NamedTempFile) -> io::Result<()> {
        if self.is_wanting() {
            File::create(&self.untried)?;
        } else {
            // by a second name the file is never missing; not every file system has those
            fs::hard_link(&self.file, &self.before).or_else(|_| fs::rename(&self.file, &self.before))?;
        }
        self.sync()?;
        new.persist(&self.file).map_err(|error| error.error)?;
        self.sync()
    }

    /// What is there is in use: nothing is put back any more.
    pub(super) fn keep(&self) -> io::Result<()> {
        if removed(&self.before)? | removed(&self.untried)? { self.sync() } else { Ok(()) }
    }

    /// Puts back what was there before [`put`](Self::put), or nothing, unless what is there is in use.
    pub(super) fn put_back(&self) -> io::Result<()> {
        if !self.put_back_before()? && self.untried.exists() {
            removed(&self.file)?;
            removed(&self.untried)?;
            self.sync()?;
        }
        Ok(())
    }

    /// Puts back the file before, when there is one; it says whether there was.
    pub(super) fn put_back_before(&self) -> io::Result<bool> {
        match fs::rename(&self.before, &self.file) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        }
        // two names of one file stay when one of them is given to the other
        removed(&self.before)?;
        self.sync()?;
        Ok(true)
    }

    fn sync(&self) -> io::Result<()> {
        File::open(folder_of(&self.file))?.sync_all()
    }
}

/// Removes a file, and says whether it was there.
fn removed(file: &Path) -> io::Result<bool> {
    match fs::remove_file(file) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(suffix);
    PathBuf::from(name)
}
