//! Versions of a file, each with the time from which it is valid.
//!
//! Labels, countries and autonomous systems change, and a question about last month needs those of last month. The
//! content of each version is kept in a folder, in a file named after the SHA-1 of its octets; the file `index` there
//! has a line for each version. What speaks against keeping whole files is their size, which is limited; in return a
//! version is read like any other file, and a damaged one costs itself alone.
//!
//! A version is valid from when its file was changed. Where that cannot be right, because it is in the future or not
//! later than the version before, it is valid from when it was found. The index has versions in the order in which they
//! were found, with these times. A clock that is ahead or behind gives some that cannot be right together, and whoever
//! keeps a version cannot know which clock was wrong. So times in the index are never changed: it is decided anew by each
//! reader which of them are believed, and what is wrong today may be right once the clock is. What speaks against it is
//! that a version may move, for a reader with a wrong clock or when the time comes that a clock was ahead to.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha1::{Digest, Sha1};

const INDEX: &str = "index";
const LOCK: &str = "lock";
/// The first line of an index.
const HEADER: &str = "weir versions 1";
/// The time of a version that was found by a clock which nobody had set.
const UNKNOWN_MS: i64 = 0;
/// 2025-01-01T00:00:00Z: weir is younger, so a clock of before is not set.
const CLOCK_MIN_MS: i64 = 1_735_689_600_000;
/// Octets that are read at a time.
const CHUNK_OCTETS: usize = 64 << 10;

/// Why versions cannot be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum VersionsError {
    /// A file cannot be read.
    #[error("{} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("{} cannot be written", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The index is of another version of weir, or none.
    #[error("{} is no index of versions that this version of weir knows", path.display())]
    ForeignIndex {
        /// The index.
        path: PathBuf,
    },
    /// A version is not what was kept.
    #[error("version {} is damaged", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// A file has another content than the one that is to be kept.
    #[error("file {} was changed while its version was kept", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
}

/// How much is kept of old versions; the newest one is kept in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionLimits {
    /// Versions of one file.
    pub versions_max: usize,
    /// Octets of the versions of one file.
    pub octets_max: u64,
}

impl Default for VersionLimits {
    fn default() -> Self {
        Self { versions_max: 32, octets_max: 256 << 20 }
    }
}

/// What a file holds, by its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileContent {
    sha1: [u8; 20],
    octets: u64,
}

impl FileContent {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn of(path: &Path) -> io::Result<Self> {
        copy(&mut File::open(path)?, &mut io::sink())
    }

    /// The SHA-1 in hexadecimal digits.
    fn name(&self) -> String {
        self.sha1.iter().fold(String::with_capacity(40), |mut name, octet| {
            // writing to a text cannot fail
            let _ = write!(name, "{octet:02x}");
            name
        })
    }

    fn parse(name: &str, octets: u64) -> Option<Self> {
        let mut sha1 = [0; 20];
        if name.len() != 2 * sha1.len() || !name.is_ascii() {
            return None;
        }
        for (place, octet) in sha1.iter_mut().enumerate() {
            *octet = u8::from_str_radix(&name[2 * place..2 * place + 2], 16).ok()?;
        }
        Some(Self { sha1, octets })
    }
}

/// Copies octets, and finds out what they are.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<FileContent> {
    let (mut hash, mut octets) = (Sha1::new(), 0);
    let mut chunk = vec![0; CHUNK_OCTETS];
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return Ok(FileContent { sha1: hash.finalize().into(), octets }),
            Ok(read) => {
                hash.update(&chunk[..read]);
                to.write_all(&chunk[..read])?;
                octets += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// A version of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileVersion {
    /// From when it is valid, in milliseconds since the epoch.
    pub valid_from_ms: i64,
    /// What it holds.
    pub content: FileContent,
    /// The same by the clock of when it was found, as the index has it.
    claimed_ms: i64,
    /// The file that it was, on one line.
    origin: String,
}

impl FileVersion {
    /// Whether it was a version of the file with this path.
    pub fn is_of(&self, path: &Path) -> bool {
        self.origin == origin_of(path)
    }

    fn line(&self) -> String {
        let Self { claimed_ms, content, origin, .. } = self;
        format!("{claimed_ms} {} {} {origin}\n", content.octets, content.name())
    }

    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(4, ' ');
        let (claimed_ms, octets) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let content = FileContent::parse(fields.next()?, octets)?;
        Some(Self { valid_from_ms: claimed_ms, content, claimed_ms, origin: fields.next()?.to_owned() })
    }
}

/// The path of a file as an index has it.
fn origin_of(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    path.to_string_lossy().escape_debug().to_string()
}

/// What keeping a version came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeptVersion {
    /// The version; `None` when its content is that of the newest one.
    pub added: Option<FileVersion>,
    /// Old versions that were dropped for it, the oldest first.
    pub dropped: Vec<FileVersion>,
}

/// The versions of a file, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileVersions {
    folder: PathBuf,
    versions: Vec<FileVersion>,
    lines_damaged: usize,
    /// The time of who reads them, in milliseconds since the epoch.
    now_ms: i64,
}

impl FileVersions {
    /// Reads the index in a folder. There are no versions where there is no index. Times after now, in milliseconds since
    /// the epoch, are not believed; where nothing later says when such a version was found, it keeps its time all the same.
    ///
    /// # Errors
    ///
    /// The index cannot be read, or is none.
    pub fn read(folder: &Path, now_ms: i64) -> Result<Self, VersionsError> {
        let path = folder.join(INDEX);
        let none = Self { folder: folder.to_owned(), ..Self::default() };
        let text = match fs::read(&path) {
            Ok(octets) => String::from_utf8_lossy(&octets).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(none),
            Err(source) => return Err(VersionsError::Unreadable { path, source }),
        };
        let mut lines = text.lines();
        if lines.next() != Some(HEADER) {
            return Err(VersionsError::ForeignIndex { path });
        }
        let parsed: Vec<_> = lines.map(FileVersion::parse).collect();
        let lines_damaged = parsed.iter().filter(|version| version.is_none()).count();
        let mut found = Self { versions: parsed.into_iter().flatten().collect(), lines_damaged, ..none };
        found.set_times(now_ms);
        Ok(found)
    }

    /// All of them, the oldest first.
    pub fn versions(&self) -> &[FileVersion] {
        &self.versions
    }

    /// The newest one.
    pub fn newest(&self) -> Option<&FileVersion> {
        self.versions.last()
    }

    /// Lines of the index that are no versions.
    pub fn lines_damaged(&self) -> usize {
        self.lines_damaged
    }

    /// Versions whose time in the index is not believed: they have another one, or are of the future.
    pub fn times_disbelieved(&self) -> usize {
        let is_disbelieved =
            |version: &&FileVersion| version.valid_from_ms != version.claimed_ms || version.claimed_ms > self.now_ms;
        self.versions.iter().filter(is_disbelieved).count()
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Adds a newer version; gives those that are dropped for it, the oldest first. Nothing is written.
    pub fn add(&mut self, content: FileContent, file: &Path, limits: VersionLimits, now_ms: i64) -> Vec<FileVersion> {
        let last_ms = self.newest().map_or(i64::MIN, |newest| newest.valid_from_ms);
        let changed_ms = changed_ms(file).filter(|changed| *changed > last_ms && *changed <= now_ms);
        let claimed_ms = match changed_ms {
            _ if now_ms < CLOCK_MIN_MS => UNKNOWN_MS,
            Some(changed_ms) => changed_ms,
            // the clock is behind, or that of the version before was ahead
            None if last_ms > now_ms => now_ms,
            None => now_ms.max(last_ms.saturating_add(1)),
        };
        self.versions.push(FileVersion { valid_from_ms: claimed_ms, content, claimed_ms, origin: origin_of(file) });
        self.set_times(now_ms);
        let mut octets: u64 = self.versions.iter().map(|version| version.content.octets).sum();
        let (mut dropped, mut count) = (0, self.versions.len());
        while count > 1 && (count > limits.versions_max || octets > limits.octets_max) {
            octets -= self.versions[dropped].content.octets;
            dropped += 1;
            count -= 1;
        }
        self.versions.drain(..dropped).collect()
    }

    /// Sets from when each version is valid, later than the one before it: from its own time where that is believed, else
    /// from before the next one whose time is known, or from after the one before. One of the future with no later one keeps its
    /// time: nothing says from when it was there.
    fn set_times(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        let is_possible = |claimed_ms: &i64| *claimed_ms != UNKNOWN_MS && *claimed_ms <= now_ms;
        let times: Vec<_> = self.versions.iter().map(|version| Some(version.claimed_ms).filter(is_possible)).collect();
        let mut latest_ms = i64::MAX;
        for (version, is_believed) in self.versions.iter_mut().zip(believed(&times)).rev() {
            version.valid_from_ms = version.claimed_ms;
            if version.claimed_ms != UNKNOWN_MS {
                if !is_believed {
                    version.valid_from_ms = version.claimed_ms.min(latest_ms);
                }
                latest_ms = version.valid_from_ms.saturating_sub(1);
            }
        }
        let mut earliest_ms = i64::MIN;
        for version in &mut self.versions {
            version.valid_from_ms = version.valid_from_ms.max(earliest_ms);
            earliest_ms = version.valid_from_ms.saturating_add(1);
        }
    }

    /// Keeps the content of a file as its newest version in a folder, which is created if need be. What is dropped for
    /// it is removed after the index names it no more.
    ///
    /// # Errors
    ///
    /// The folder cannot be written, the index is none, or the file has another content by now.
    pub fn keep(
        folder: &Path,
        file: &Path,
        content: FileContent,
        limits: VersionLimits,
        now_ms: i64,
    ) -> Result<KeptVersion, VersionsError> {
        let unwritable = |path: &Path, source| VersionsError::Unwritable { path: path.to_owned(), source };
        fs::create_dir_all(folder).map_err(|source| unwritable(folder, source))?;
        let lock = folder.join(LOCK);
        // two services may keep versions of one archive
        let locked = File::create(&lock).and_then(|file| file.lock().map(|()| file));
        let _locked = locked.map_err(|source| unwritable(&lock, source))?;
        let mut versions = Self::read(folder, now_ms)?;
        if versions.newest().is_some_and(|newest| newest.content == content) {
            return Ok(KeptVersion::default());
        }
        let kept = folder.join(content.name());
        let new = kept.with_extension("new");
        let copied = copy_durably(file, &new).map_err(|source| unwritable(&new, source))?;
        if copied != content {
            // what was copied is of no use; a file that stays is written over the next time
            let _ = fs::remove_file(&new);
            return Err(VersionsError::Changed { path: file.to_owned() });
        }
        fs::rename(&new, &kept).map_err(|source| unwritable(&kept, source))?;
        let dropped = versions.add(content, file, limits, now_ms);
        versions.write_index().map_err(|source| unwritable(&folder.join(INDEX), source))?;
        for version in &dropped {
            if versions.versions.iter().all(|other| other.content != version.content) {
                // one that stays takes space and is in no answer
                let _ = fs::remove_file(folder.join(version.content.name()));
            }
        }
        Ok(KeptVersion { added: versions.newest().cloned(), dropped })
    }

    /// The file of a version, which holds what was kept.
    ///
    /// # Errors
    ///
    /// It cannot be read, or holds something else.
    pub fn file_of(&self, version: &FileVersion) -> Result<PathBuf, VersionsError> {
        let path = self.folder.join(version.content.name());
        match FileContent::of(&path) {
            Ok(content) if content == version.content => Ok(path),
            Ok(_) => Err(VersionsError::Damaged { path }),
            Err(source) => Err(VersionsError::Unreadable { path, source }),
        }
    }

    fn write_index(&self) -> io::Result<()> {
        let lines = self.versions.iter().map(FileVersion::line);
        let text: String = std::iter::once(format!("{HEADER}\n")).chain(lines).collect();
        let (index, new) = (self.folder.join(INDEX), self.folder.join("index.new"));
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &index)?;
        File::open(&self.folder)?.sync_all()
    }
}

/// Which times of versions are believed: as many as can be right together, because each is later than those before it.
/// Of as many, those of later versions.
fn believed(times: &[Option<i64>]) -> Vec<bool> {
    // how many can be right together from a version on, with its own
    let mut counts = vec![0_usize; times.len()];
    for place in (0..times.len()).rev().filter(|place| times[*place].is_some()) {
        let after = (place + 1..times.len()).filter(|after| times[*after] > times[place]);
        counts[place] = 1 + after.map(|after| counts[after]).max().unwrap_or(0);
    }
    let mut believed = vec![false; times.len()];
    let (mut first, mut last_ms) = (0, None);
    for count in (1..=counts.iter().copied().max().unwrap_or(0)).rev() {
        let place = (first..times.len()).rev().find(|place| counts[*place] == count && times[*place] > last_ms);
        let Some(place) = place else { break };
        believed[place] = true;
        (first, last_ms) = (place + 1, times[place]);
    }
    believed
}

fn copy_durably(from: &Path, to: &Path) -> io::Result<FileContent> {
    let mut target = File::create(to)?;
    let content = copy(&mut File::open(from)?, &mut target)?;
    target.sync_all()?;
    Ok(content)
}

/// When a file was changed, in milliseconds since the epoch.
fn changed_ms(path: &Path) -> Option<i64> {
    let changed: SystemTime = path.metadata().and_then(|metadata| metadata.modified()).ok()?;
    i64::try_from(changed.duration_since(UNIX_EPOCH).as_ref().map_or(0, Duration::as_millis)).ok()
}

#[cfg(test)]
mod tests;
