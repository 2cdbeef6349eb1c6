//! Where everything lies in the folder of an archive, and what the names mean.
//!
//! ```text
//! weir-archive                          marker and version
//! lock                                  held by the one writer
//! upkeep.lock                           held by what merges or expires segments, for as long as that takes
//! manifest/                             which of the files below count: see `manifest`
//! readers/0000000000000412              locked by readers that know this commit of the manifest, or a later one
//! tail/0000000000000007.tail            frames not yet sealed
//! tail/0000000000000005-812.damaged     a damaged tail set aside, and the last position found in it
//! flows/date=2025-11-21/*.parquet       segments, by the UTC day of `received`
//! flows/date=2025-11-21/*.damaged       segments that a check has set aside
//! exporter_books/date=2025-11-21/*.parquet   by the UTC day of `minute`
//! summaries/date=2025-11-21/*.rollups   rollups of segments of flows that have expired
//! tmp/                                  segments being written
//! merging/                              segments being merged
//! imported/                             which files have been imported already
//! sources/                              which files flows were read from: see `source_files`
//! collector/                            not ours: what `weir collect` remembers of its exporters
//! statistics/                           not ours: statistics over time
//! forward/                              not ours: how far flows were forwarded to other stores
//! ```

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_flow::Table;

use crate::position::{Position, TailNumber};
use crate::segment::SegmentName;
use crate::{Action, ArchiveError, disk, folder};

const MARKER: &str = "weir-archive";
const MARKER_NEW: &str = "weir-archive.new";
const MARKER_TEXT: &str = "weir archive, version 2";
/// Archives of this version have no manifest. They are read as they are, and get one from the first who writes.
const MARKER_TEXT_1: &str = "weir archive, version 1";
const LOCK: &str = "lock";
/// Folders that are not the archive's own: what `weir collect` remembers, statistics, how far flows were forwarded, which files
/// they were read from, which files a followed folder had, and versions of files about addresses.
const GUESTS: [&str; 6] = ["collector", "statistics", "forward", "sources", "import", "enrichment"];
/// What else is in the folder of an archive and is its own.
const OTHERS: [&str; 6] = [MARKER, "upkeep.lock", "unconfirmed", "reserve", "imported", "summaries"];
/// Folders that are made before the marker.
const FOLDERS: [&str; 5] = ["tail", "tmp", "merging", "readers", "manifest"];

/// The folder of an archive.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    root: Arc<Path>,
}

/// What a name in the folder of tails means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TailName {
    /// A tail.
    Tail(TailNumber),
    /// A damaged tail set aside, and the last position found in it.
    Damaged(TailNumber, Position),
}

impl TailName {
    fn parse(name: &str) -> Option<Self> {
        if let Some(number) = name.strip_suffix(".tail") {
            return number.parse().ok().map(Self::Tail);
        }
        let (number, last) = name.strip_suffix(".damaged")?.split_once('-')?;
        Some(Self::Damaged(number.parse().ok()?, Position::new(last.parse().ok()?)))
    }
}

impl Layout {
    /// The folder of an archive that may not be there yet.
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: Arc::from(root) }
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.root.join(LOCK)
    }

    /// A file that is there while a sync of tails has failed and they are neither written again nor sealed yet.
    pub(crate) fn unconfirmed(&self) -> PathBuf {
        self.root.join("unconfirmed")
    }

    /// Room for what the books have to say when the disk is full.
    pub(crate) fn reserve(&self) -> PathBuf {
        self.root.join("reserve")
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The root as every segment has it.
    pub(crate) fn shared_root(&self) -> Arc<Path> {
        Arc::clone(&self.root)
    }

    pub(crate) fn manifest(&self) -> PathBuf {
        self.root.join("manifest")
    }

    pub(crate) fn upkeep_lock(&self) -> PathBuf {
        self.root.join("upkeep.lock")
    }

    /// The folder of leases.
    pub(crate) fn readers(&self) -> PathBuf {
        self.root.join("readers")
    }

    /// The folder for segments that upkeep writes. The other one is cleared by every writer that opens the archive.
    pub(crate) fn merging(&self) -> PathBuf {
        self.root.join("merging")
    }

    pub(crate) fn imported(&self) -> PathBuf {
        self.root.join("imported")
    }

    pub(crate) fn tails(&self) -> PathBuf {
        self.root.join("tail")
    }

    pub(crate) fn tail(&self, number: TailNumber) -> PathBuf {
        self.tails().join(format!("{number:016}.tail"))
    }

    pub(crate) fn damaged(&self, number: TailNumber, last: Position) -> PathBuf {
        self.tails().join(format!("{number:016}-{last}.damaged"))
    }

    pub(crate) fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    pub(crate) fn table(&self, table: Table) -> PathBuf {
        self.root.join(table.name())
    }

    pub(crate) fn partition(&self, table: Table, day: i64) -> PathBuf {
        self.table(table).join(format!("date={}", crate::civil::day_text(day)))
    }

    /// The folder of what is kept of segments that have expired; made when the first one does.
    pub(crate) fn summaries(&self) -> PathBuf {
        self.root.join("summaries")
    }

    pub(crate) fn summary_partition(&self, day: i64) -> PathBuf {
        self.summaries().join(format!("date={}", crate::civil::day_text(day)))
    }

    /// Fails unless the folder is an archive of a version that we know.
    pub(crate) fn check(&self) -> Result<(), ArchiveError> {
        self.version().map(|_| ())
    }

    /// The version of the archive's format: 1 or 2. Fails unless the folder is an archive of a version that we know.
    pub(crate) fn version(&self) -> Result<u32, ArchiveError> {
        let path = self.root.join(MARKER);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                let is_there = self.root.exists();
                return Err(ArchiveError::NotAnArchive { path: self.root.to_path_buf(), is_there });
            }
            Err(source) => return Err(Action::AccessMarker.failed(&path)(source)),
        };
        match text.lines().next().unwrap_or_default() {
            MARKER_TEXT => Ok(2),
            MARKER_TEXT_1 => Ok(1),
            found => {
                let found = found.chars().filter(|letter| !letter.is_control()).take(80).collect();
                Err(ArchiveError::UnknownVersion { path, found, known: MARKER_TEXT })
            }
        }
    }

    /// Creates the folder of an archive, or fails when there is something else in it. True when it is new.
    pub(crate) fn create_root(&self) -> Result<bool, ArchiveError> {
        folder::create_all(&self.root)?;
        match self.check() {
            Err(ArchiveError::NotAnArchive { path, is_there }) => {
                // What a crash during creation can leave is no reason to refuse the folder, nor is what is put into it by
                // others of the same process, which may come first.
                if folder::names(&self.root)?.iter().all(|name| is_made_early(name)) && !self.has_files()? {
                    return Ok(true);
                }
                Err(ArchiveError::NotAnArchive { path, is_there })
            }
            other => other.map(|()| false),
        }
    }

    /// Whether anything was ever appended: the marker of such an archive must not be made anew.
    fn has_files(&self) -> Result<bool, ArchiveError> {
        let mut folders = Table::ALL.iter().map(|table| self.table(*table)).chain([self.tails()]);
        folders.try_fold(false, |any, path| Ok(any || !folder::names(&path)?.is_empty()))
    }

    /// Marks the folder as an archive of this format. The marker comes by rename, so that it is whole wherever it is.
    pub(crate) fn mark(&self) -> Result<(), ArchiveError> {
        let path = self.root.join(MARKER_NEW);
        let written = disk::write_synced(&path, format!("{MARKER_TEXT}\n").as_bytes());
        let placed = written.and_then(|()| disk::rename(&path, &self.root.join(MARKER)));
        placed.map_err(Action::AccessMarker.failed(&path))?;
        folder::sync(&self.root)?;
        self.root.parent().filter(|parent| !parent.as_os_str().is_empty()).map_or(Ok(()), folder::sync)
    }

    /// Removes the folder of an archive that nothing was appended to, with all that is in it, or nothing when something in it
    /// is of others. The caller holds the lock, which goes last: until then no other process begins an archive here.
    pub(crate) fn remove(&self) -> Result<(), ArchiveError> {
        let lock = self.lock();
        let names = folder::names(&self.root)?;
        if let Some(foreign) = names.iter().find(|name| !is_made_early(name) && !OTHERS.iter().any(|own| *name == own))
        {
            let source = std::io::Error::new(ErrorKind::DirectoryNotEmpty, "it is none of the archive");
            return Err(Action::RemoveArchive.failed(&self.root.join(foreign))(source));
        }
        for name in names {
            let path = self.root.join(name);
            let removed = match path.symlink_metadata() {
                Ok(found) if found.is_dir() => fs::remove_dir_all(&path),
                _ if path == lock => Ok(()),
                _ => disk::remove(&path),
            };
            removed.map_err(Action::RemoveArchive.failed(&path))?;
        }
        let removed = disk::remove(&lock).and_then(|()| fs::remove_dir(&self.root));
        removed.map_err(Action::RemoveArchive.failed(&self.root))
    }

    /// Creates the folders of an archive that are missing.
    pub(crate) fn create_folders(&self) -> Result<(), ArchiveError> {
        folder::create(&self.tails())?;
        folder::create(&self.tmp())?;
        folder::create(&self.merging())?;
        folder::create(&self.readers())?;
        Table::ALL.iter().try_for_each(|&table| folder::create(&self.table(table)))
    }

    /// Numbers of the tails, ascending.
    pub(crate) fn tail_numbers(&self) -> Result<Vec<TailNumber>, ArchiveError> {
        let names = self.tail_names()?;
        let mut numbers: Vec<_> = names
            .into_iter()
            .filter_map(|name| match name {
                TailName::Tail(number) => Some(number),
                TailName::Damaged(..) => None,
            })
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// What is in the folder of tails, in no order.
    pub(crate) fn tail_names(&self) -> Result<Vec<TailName>, ArchiveError> {
        let names = folder::names(&self.tails())?;
        Ok(names.iter().filter_map(|name| TailName::parse(name.to_str()?)).collect())
    }

    /// The folders of a table's days, in no order.
    pub(crate) fn partitions(&self, table: Table) -> Result<Vec<PathBuf>, ArchiveError> {
        days(&self.table(table))
    }

    /// The folders of summaries by day, in no order.
    pub(crate) fn summary_partitions(&self) -> Result<Vec<PathBuf>, ArchiveError> {
        days(&self.summaries())
    }

    /// What the names of segments say that were set aside as damaged.
    pub(crate) fn damaged_segments(&self, table: Table) -> Result<Vec<SegmentName>, ArchiveError> {
        let mut found = Vec::new();
        for partition in self.partitions(table)? {
            let names = folder::names(&partition)?;
            found.extend(names.iter().filter_map(|name| SegmentName::parse(name.to_str()?.strip_suffix(".damaged")?)));
        }
        Ok(found)
    }
}

/// The folders of days in a folder.
fn days(root: &Path) -> Result<Vec<PathBuf>, ArchiveError> {
    let names = folder::names(root)?;
    let days = names.iter().filter(|name| name.to_str().is_some_and(|name| name.starts_with("date=")));
    Ok(days.map(|name| root.join(name)).collect())
}

/// Whether the folder of an archive may have this name in it before there is a marker.
fn is_made_early(name: &OsStr) -> bool {
    let tables = Table::ALL.iter().map(|table| table.name());
    tables.chain(FOLDERS).chain(GUESTS).chain([LOCK, MARKER_NEW]).any(|own| name == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tails_are_read_back() {
        let layout = Layout::new(Path::new("a"));
        for name in [TailName::Tail(7), TailName::Damaged(7, Position::new(812))] {
            let path = match name {
                TailName::Tail(number) => layout.tail(number),
                TailName::Damaged(number, last) => layout.damaged(number, last),
            };
            assert_eq!(path.file_name().and_then(|name| name.to_str()).and_then(TailName::parse), Some(name));
        }
        for other in ["x.tail", "7", "7.damaged", "7.tail.swp"] {
            assert_eq!(TailName::parse(other), None, "{other}");
        }
    }
}
