//! How far a forwarder is, on disk.
//!
//! A forwarder of an archive has a name and a small file of that name in the folder `forward` of the archive; the number
//! that stands for the archive in keys of rows is next to it. Files are replaced as a whole, so a crash leaves the old one
//! or the new one, and their checksum tells a damaged one from a good one.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use weir_archive::{ArchiveError, FollowPosition, Position, Snapshot};

use crate::ForwardCounts;

/// Folder of what is kept of forwarders, in the folder of the archive.
pub const FOLDER: &str = "forward";
/// File of the number of the archive.
const ORIGIN: &str = "origin";
/// First line of each file, with the version of the format.
const HEADING: &str = "weir forward 1";

/// Why the state of a forwarder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A file cannot be read or written.
    #[error("cannot use {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another process forwards the archive under this name.
    #[error("another process has {path}: the archive is being forwarded under this name")]
    Locked {
        /// The lock.
        path: PathBuf,
    },
    /// A file is not what was written.
    #[error(
        "{path} is damaged; delete it to forward the archive from its begin (rows that are stored are not stored twice)"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// A name that is no name of a file.
    #[error(
        "'{name}' cannot be the name of a forwarder: letters, digits, '.', '-' and '_' can, and '.' does not come first"
    )]
    BadName {
        /// The name.
        name: String,
    },
}

/// How far a forwarder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForwardState {
    /// All deliveries up to this one were acknowledged, or are lost.
    pub position: FollowPosition,
    /// What was counted up to there, and what is known to be lost behind it.
    pub counts: ForwardCounts,
    /// How many of the lost deliveries are behind the position: the store is away, and they went meanwhile.
    pub deliveries_lost_ahead: u64,
}

impl ForwardState {
    /// Deliveries of an archive that are neither acknowledged yet nor known to be lost, by the last one that it has.
    pub fn deliveries_waiting(&self, last: Position) -> u64 {
        last.get().saturating_sub(self.position.position.get()).saturating_sub(self.deliveries_lost_ahead)
    }

    /// By how much the newest flow of the archive was received after the newest of those that are acknowledged, in
    /// milliseconds; 0 when no delivery waits. `None` when that is not known: nothing was acknowledged yet, or no flow of it is
    /// there any more.
    ///
    /// # Errors
    /// Those of reading a file of the archive that is damaged or missing.
    pub fn lag_ms(&self, snapshot: &Snapshot) -> Result<Option<u64>, ArchiveError> {
        if self.deliveries_waiting(snapshot.position()) == 0 {
            return Ok(Some(0));
        }
        let forwarded = snapshot.received_until_ms(self.position.position)?;
        let newest = snapshot.received_until_ms(snapshot.position())?;
        Ok(newest.zip(forwarded).map(|(newest, forwarded)| newest.saturating_sub(forwarded).max(0).unsigned_abs()))
    }
}

impl Default for ForwardState {
    fn default() -> Self {
        Self { position: FollowPosition::START, counts: ForwardCounts::default(), deliveries_lost_ahead: 0 }
    }
}

/// The files of a forwarder; no other process has them as long as this lives.
#[derive(Debug)]
pub(crate) struct StateFiles {
    folder: PathBuf,
    name: String,
    /// Whether what is in its file survives a crash of the machine.
    is_durable: AtomicBool,
    _lock: File,
}

impl StateFiles {
    /// Opens the files in the folder of an archive; made when missing.
    pub(crate) fn open(archive: &Path, name: &str) -> Result<Self, StateError> {
        if !is_name(name) {
            return Err(StateError::BadName { name: name.to_owned() });
        }
        let folder = archive.join(FOLDER);
        std::fs::create_dir_all(&folder).map_err(failed(&folder))?;
        let path = folder.join(format!("{name}.lock"));
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(failed(&path))?;
        lock.try_lock().map_err(|_| StateError::Locked { path })?;
        // what was there when the machine came up has survived
        Ok(Self { folder, name: name.to_owned(), is_durable: AtomicBool::new(true), _lock: lock })
    }

    /// The number of the archive, drawn when it has none.
    pub(crate) fn origin(&self) -> Result<i64, StateError> {
        let path = self.folder.join(ORIGIN);
        // several forwarders may begin at once
        let lock_path = self.folder.join("origin.lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(failed(&lock_path))?;
        lock.lock().map_err(failed(&lock_path))?;
        if let Some(lines) = read(&path)? {
            return value(&lines, "origin").ok_or(StateError::Damaged { path });
        }
        let mut octets = [0; 8];
        let source = Path::new("/dev/urandom");
        File::open(source).and_then(|mut file| file.read_exact(&mut octets)).map_err(failed(source))?;
        let origin = i64::from_le_bytes(octets);
        write(&path, &format!("origin {origin}\n"), true)?;
        Ok(origin)
    }

    /// How far it is; at the begin when it never ran.
    pub(crate) fn load(&self) -> Result<ForwardState, StateError> {
        let Some(lines) = self.lines()? else { return Ok(ForwardState::default()) };
        parsed(&lines).ok_or_else(|| self.damaged())
    }

    /// The lines of its file; `None` when it never ran. After a crash of the machine they may be those that were durable last.
    pub(crate) fn lines(&self) -> Result<Option<String>, StateError> {
        lines_of(&self.folder, &self.name)
    }

    /// The error about a file that is not what was written.
    pub(crate) fn damaged(&self) -> StateError {
        StateError::Damaged { path: self.path() }
    }

    /// Replaces the lines of its file. What is not `durable` survives the end of this process, and perhaps not that of the
    /// machine: then there are the lines that were durable last.
    pub(crate) fn keep_lines(&self, lines: &str, durable: bool) -> Result<(), StateError> {
        if !durable && self.is_durable.load(Ordering::Relaxed) {
            self.set_aside().map_err(failed(&self.durable_path()))?;
        }
        write(&self.path(), lines, durable)?;
        self.is_durable.store(durable, Ordering::Relaxed);
        Ok(())
    }

    /// Keeps the lines that are durable beside those that follow, if there are any.
    fn set_aside(&self) -> io::Result<()> {
        let new = self.folder.join(format!("{}.link", self.name));
        let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        match File::open(self.path()) {
            Err(error) if is_missing(&error) => return Ok(()),
            Err(error) => return Err(error),
            // what a loss of power has emptied must not take the place of what it left
            Ok(file) if file.metadata()?.len() == 0 => return Ok(()),
            // a process that was killed may not have synced it
            Ok(file) => file.sync_all()?,
        }
        // what a crash has left in between
        std::fs::remove_file(&new).or_else(|error| if is_missing(&error) { Ok(()) } else { Err(error) })?;
        std::fs::hard_link(self.path(), &new)?;
        std::fs::rename(&new, self.durable_path())
    }

    /// Replaces how far it is.
    pub(crate) fn keep(&self, state: &ForwardState) -> Result<(), StateError> {
        let mut text = format!("position {}\n", state.position);
        for (name, count) in state.counts.named() {
            let _ = writeln!(text, "{name} {count}");
        }
        let _ = writeln!(text, "deliveries_lost_ahead {}", state.deliveries_lost_ahead);
        self.keep_lines(&text, true)
    }

    fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    fn durable_path(&self) -> PathBuf {
        durable_path(&self.folder, &self.name)
    }
}

fn durable_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.durable"))
}

fn lines_of(folder: &Path, name: &str) -> Result<Option<String>, StateError> {
    match read(&folder.join(name)) {
        // what a loss of power makes of a file that was replaced and not synced
        Err(StateError::Damaged { path }) if std::fs::metadata(&path).is_ok_and(|found| found.len() == 0) => {
            read(&durable_path(folder, name))?.map(Some).ok_or(StateError::Damaged { path })
        }
        read => read,
    }
}

fn parsed(lines: &str) -> Option<ForwardState> {
    Some(ForwardState {
        position: value(lines, "position")?,
        counts: ForwardCounts {
            rows_forwarded: value(lines, "rows_forwarded")?,
            rows_refused: value(lines, "rows_refused")?,
            rows_lost: value(lines, "rows_lost")?,
            deliveries_forwarded: value(lines, "deliveries_forwarded")?,
            deliveries_lost: value(lines, "deliveries_lost")?,
            rewinds: value(lines, "rewinds")?,
            ..ForwardCounts::default()
        },
        // a file from before this was known has none
        deliveries_lost_ahead: value(lines, "deliveries_lost_ahead").unwrap_or(0),
    })
}

/// A forwarder of an archive, whether it runs or not.
#[derive(Debug)]
pub struct KeptForwarder {
    /// The name under which the archive keeps how far it is.
    pub name: String,
    /// How far it was when it last kept that, about a second ago while it runs; or why that cannot be read.
    pub state: Result<ForwardState, StateError>,
}

/// The forwarders that an archive knows, by their names: whoever has forwarded it. Nothing is locked or changed.
///
/// # Errors
/// [`StateError::File`] when the folder of their files cannot be listed; none when there is no such folder.
pub fn forwarders(archive: &Path) -> Result<Vec<KeptForwarder>, StateError> {
    let kept = kept(archive, parsed)?;
    Ok(kept.into_iter().map(|(name, state)| KeptForwarder { name, state }).collect())
}

/// The name of a forwarder, and what is kept of it.
type Kept<T> = (String, Result<T, StateError>);

/// What is kept of each forwarder of an archive or of statistics, by their names.
pub(crate) fn kept<T>(of: &Path, parsed: impl Fn(&str) -> Option<T>) -> Result<Vec<Kept<T>>, StateError> {
    let folder = of.join(FOLDER);
    let entries = match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed(&folder))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed(&folder))?.file_name();
        let Some(name) = name.to_str().filter(|name| is_name(name)) else { continue };
        let damaged = || StateError::Damaged { path: folder.join(name) };
        let state = match lines_of(&folder, name) {
            // removed meanwhile
            Ok(None) => continue,
            Ok(Some(lines)) => parsed(&lines).ok_or_else(damaged),
            Err(error) => Err(error),
        };
        found.push((name.to_owned(), state));
    }
    found.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

/// Whether a text can be the name of a forwarder, and of its file.
fn is_name(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || ".-_".contains(letter);
    let is_ours = [".lock", ".durable", ".link", ".new"].iter().any(|ending| name.ends_with(ending));
    !name.is_empty() && !name.starts_with('.') && name != ORIGIN && !is_ours && name.chars().all(is_letter)
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> StateError + use<> {
    let path = path.to_owned();
    |source| StateError::File { path, source }
}

/// The lines of a file; `None` when there is none.
fn read(path: &Path) -> Result<Option<String>, StateError> {
    let text = match std::fs::read(path) {
        Ok(octets) => String::from_utf8_lossy(&octets).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(path)(error)),
    };
    let damaged = || StateError::Damaged { path: path.to_owned() };
    let (body, sum) = text.trim_end().rsplit_once('\n').ok_or_else(damaged)?;
    let body = format!("{body}\n");
    let is_whole = sum == checksum(&body) && body.lines().next() == Some(HEADING);
    is_whole.then_some(Some(body)).ok_or_else(damaged)
}

/// Replaces a file. When it is to be durable, a crash of the machine cannot bring the old one back after this.
fn write(path: &Path, lines: &str, durable: bool) -> Result<(), StateError> {
    let body = format!("{HEADING}\n{lines}");
    let new = path.with_file_name(format!("{}.new", path.file_name().unwrap_or_default().display()));
    let replace = || {
        let mut file = File::create(&new)?;
        writeln!(file, "{body}{}", checksum(&body))?;
        if !durable {
            return std::fs::rename(&new, path);
        }
        file.sync_data()?;
        std::fs::rename(&new, path)?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    };
    replace().map_err(failed(path))
}

fn checksum(body: &str) -> String {
    format!("crc32c {:08x}", crc32c::crc32c(body.as_bytes()))
}

pub(crate) fn value<T: std::str::FromStr>(lines: &str, name: &str) -> Option<T> {
    let found = lines.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found?.parse().ok()
}

#[cfg(test)]
mod tests;
