//! A table for each version of a file, looked up by time.
//!
//! The newest table is made when the file is loaded. Older ones are made of the kept versions when the first value asks
//! about their time, because most questions are about now. Where a version cannot be used, the next older one that can
//! be is used in its place, or else the next newer one, and the log has it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use arrow::array::{Array, TimestampMillisecondArray};
use jiff::Timestamp;
use weir_routes::{FileContent, FileVersion, FileVersions, VersionLimits};

use crate::EngineError;
use crate::error::chain;

/// Makes a table of a file.
pub(crate) type LoadTable<T> = fn(&Path) -> Result<T, EngineError>;

/// A file of which a table is made, and where its versions are.
#[derive(Debug, Clone)]
pub(crate) struct VersionedFile {
    /// What the log calls it.
    pub(crate) name: &'static str,
    /// The file as it is now.
    pub(crate) path: Option<PathBuf>,
    /// The folder of its versions.
    pub(crate) folder: Option<PathBuf>,
    /// How many are kept; `None` when versions are read and none is added.
    pub(crate) limits: Option<VersionLimits>,
}

/// A version that is not kept yet.
#[derive(Debug)]
pub(crate) struct UnkeptVersion {
    name: &'static str,
    path: PathBuf,
    folder: PathBuf,
    content: FileContent,
    limits: VersionLimits,
    found_ms: i64,
}

impl UnkeptVersion {
    /// Keeps it. The table is in use in any case: what cannot be kept is in the log.
    pub(crate) fn keep(&self) {
        let Self { name, path, folder, content, limits, found_ms } = self;
        match FileVersions::keep(folder, path, *content, *limits, *found_ms) {
            Ok(kept) => {
                if let Some(added) = kept.added {
                    tracing::info!("{name}: the version from {} is kept", time_text(added.valid_from_ms));
                }
                for dropped in kept.dropped {
                    let from = time_text(dropped.valid_from_ms);
                    tracing::info!(
                        "{name}: the version from {from} is dropped, as versions_max and versions_size_max say"
                    );
                }
            }
            Err(error) => tracing::warn!("{name}: the new version is used and not kept: {}", chain(&error)),
        }
    }
}

/// The table of one version.
#[derive(Debug)]
struct VersionTable<T> {
    from_ms: i64,
    /// The version, unless the table was made of the file itself.
    kept: Option<FileVersion>,
    /// `None` once it has turned out that the version cannot be used.
    table: OnceLock<Option<T>>,
}

/// Tables of the versions of a file, at least one.
#[derive(Debug)]
pub(crate) struct VersionedTable<T> {
    name: &'static str,
    load: LoadTable<T>,
    kept: FileVersions,
    /// The oldest first.
    versions: Vec<VersionTable<T>>,
    unkept: Option<UnkeptVersion>,
}

/// The table of a span of time, both ends of which belong to it.
#[derive(Debug)]
struct TableSpan<'a, T> {
    first_ms: i64,
    last_ms: i64,
    table: Option<&'a T>,
}

impl<T> VersionedTable<T> {
    /// Reads a file, and which versions of it there are. Without a file there are the kept versions alone, and `None`
    /// without any. A file that is not the one whose versions are kept is used for all times.
    pub(crate) fn load(file: &VersionedFile, load: LoadTable<T>) -> Result<Option<Self>, EngineError> {
        let mut kept = file.folder.as_deref().map(|folder| read_index(file.name, folder)).unwrap_or_default();
        let Some(path) = &file.path else { return Ok(Self::of(file.name, load, kept, None)) };
        // taken before the table is made, so that what changes meanwhile is another content
        let content = file.folder.as_ref().and_then(|_| FileContent::of(path).ok());
        let table = load(path)?;
        let (Some(folder), Some(content)) = (&file.folder, content) else {
            return Ok(Self::of(file.name, load, FileVersions::default(), Some(table)));
        };
        let is_newest = kept.newest().is_some_and(|newest| newest.content == content);
        let is_same_file = kept.newest().is_some_and(|newest| newest.is_of(path));
        if file.limits.is_none() && !is_newest && !is_same_file {
            if kept.newest().is_some() {
                let path = path.display();
                tracing::warn!(
                    "{}: {path} is not the file whose versions are kept, and is used for all times",
                    file.name
                );
            }
            return Ok(Self::of(file.name, load, FileVersions::default(), Some(table)));
        }
        let found_ms = Timestamp::now().as_millisecond();
        if !is_newest {
            kept.add(content, path, file.limits.unwrap_or_default(), found_ms);
        }
        let unkept = file.limits.filter(|_| !is_newest).map(|limits| UnkeptVersion {
            name: file.name,
            path: path.clone(),
            folder: folder.clone(),
            content,
            limits,
            found_ms,
        });
        Ok(Self::of(file.name, load, kept, Some(table)).map(|tables| Self { unkept, ..tables }))
    }

    /// Tables of kept versions; the table of the newest one may be there already.
    fn of(name: &'static str, load: LoadTable<T>, kept: FileVersions, newest: Option<T>) -> Option<Self> {
        let unmade = |version: &FileVersion| VersionTable {
            from_ms: version.valid_from_ms,
            kept: Some(version.clone()),
            table: OnceLock::new(),
        };
        let mut versions: Vec<_> = kept.versions().iter().map(unmade).collect();
        if let Some(table) = newest {
            let from_ms = versions.pop().map_or(i64::MIN, |version| version.from_ms);
            versions.push(VersionTable { from_ms, kept: None, table: OnceLock::from(Some(table)) });
        }
        (!versions.is_empty()).then_some(Self { name, load, kept, versions, unkept: None })
    }

    /// Whether times may have different tables.
    pub(crate) fn has_several(&self) -> bool {
        self.versions.len() > 1
    }

    /// A version that is to be kept.
    pub(crate) fn unkept(&self) -> Option<&UnkeptVersion> {
        self.unkept.as_ref()
    }

    /// The table of a time in milliseconds since the epoch, of the newest version without one.
    pub(crate) fn at(&self, at_ms: Option<i64>) -> Option<&T> {
        self.span(at_ms.unwrap_or(i64::MAX)).table
    }

    /// The same, for a single question.
    pub(crate) fn into_table(mut self, at_ms: i64) -> Option<T> {
        let place = self.usable(self.place(at_ms))?;
        self.versions.swap_remove(place).table.into_inner().flatten()
    }

    /// From when the version of the last moment of a range is valid, when another one was valid before within the
    /// range.
    pub(crate) fn changed_within(&self, from_ms: i64, until_ms: i64) -> Option<i64> {
        let last = self.place(until_ms.saturating_sub(1));
        (self.place(from_ms) < last).then(|| self.versions[last].from_ms)
    }

    /// The version that is valid at a time. The first one counts before it, too.
    fn place(&self, at_ms: i64) -> usize {
        self.versions.partition_point(|version| version.from_ms <= at_ms).saturating_sub(1)
    }

    fn span(&self, at_ms: i64) -> TableSpan<'_, T> {
        let place = self.place(at_ms);
        let table = self.usable(place).and_then(|usable| self.versions[usable].table.get()).and_then(Option::as_ref);
        let first_ms = if place == 0 { i64::MIN } else { self.versions[place].from_ms };
        let last_ms = self.versions.get(place + 1).map_or(i64::MAX, |next| next.from_ms.saturating_sub(1));
        TableSpan { first_ms, last_ms, table }
    }

    /// The version that stands in for the one at a place: this one if it can be used, else the next older one, else the
    /// next newer one.
    fn usable(&self, place: usize) -> Option<usize> {
        let mut places = (0..=place).rev().chain(place + 1..self.versions.len());
        places.find(|place| self.is_usable(&self.versions[*place]))
    }

    fn is_usable(&self, version: &VersionTable<T>) -> bool {
        let table = version.table.get_or_init(|| {
            let kept = version.kept.as_ref()?;
            let made = self.kept.file_of(kept).map_err(EngineError::enrichment).and_then(|path| (self.load)(&path));
            let from = time_text(version.from_ms);
            made.inspect_err(|error| {
                let why = chain(error);
                tracing::warn!(
                    "{}: the version from {from} is not used, but the one before or after it: {why}",
                    self.name
                );
            })
            .ok()
        });
        table.is_some()
    }
}

/// The versions in a folder; what is wrong with them is in the log.
fn read_index(name: &str, folder: &Path) -> FileVersions {
    match FileVersions::read(folder) {
        Ok(versions) => {
            if versions.lines_damaged() > 0 {
                tracing::warn!("{name}: {} versions are missing, their lines are damaged", versions.lines_damaged());
            }
            versions
        }
        Err(error) => {
            tracing::warn!("{name}: old versions are not used: {}", chain(&error));
            FileVersions::default()
        }
    }
}

/// A time as people read it.
pub(crate) fn time_text(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |time| time.to_string())
}

/// Tables for the rows of a batch, each by its time.
pub(crate) struct TablesByRow<'a, T> {
    versions: Option<&'a VersionedTable<T>>,
    times: Option<&'a TimestampMillisecondArray>,
    /// That of the row before: times of neighbours are close to each other.
    span: TableSpan<'a, T>,
}

impl<'a, T> TablesByRow<'a, T> {
    /// Without times, and where a time is null, it is the newest table.
    pub(crate) fn new(versions: Option<&'a VersionedTable<T>>, times: Option<&'a TimestampMillisecondArray>) -> Self {
        // a span that no time is in
        let span = TableSpan { first_ms: i64::MAX, last_ms: i64::MIN, table: None };
        Self { versions, times, span }
    }

    /// The table of a row.
    pub(crate) fn table(&mut self, row: usize) -> Option<&'a T> {
        let at_ms = self.times.filter(|times| times.is_valid(row)).map_or(i64::MAX, |times| times.value(row));
        if at_ms < self.span.first_ms || at_ms > self.span.last_ms {
            self.span = self.versions?.span(at_ms);
        }
        self.span.table
    }
}

#[cfg(test)]
mod tests;
