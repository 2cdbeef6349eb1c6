//! A table for each version of a file, looked up by time.
//!
//! The newest table is made when the file is loaded. Older ones are made of the kept versions when a value asks about
//! their time, because most questions are about now. Of these, those that were used last stay in memory, and the ones of
//! a batch until it is done: rows may go to and fro between versions, and a table is not made for each of them. So a
//! question whose batches meet many versions holds all of these while it runs, each once, whatever the number of its
//! threads; `VersionLimits` bounds that. What speaks against keeping few afterwards is that such a question makes tables
//! again for each of its batches; in return memory does not grow with what was asked before. Where a
//! version cannot be used, the next older one that can be is used in its place, or else the next newer one, and the log
//! has it. One that is damaged stays out of use; one that could not be read is tried again later.

use std::collections::VecDeque;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use arrow::array::{Array, TimestampMillisecondArray};
use jiff::Timestamp;
use weir_flow::with_causes;
use weir_routes::{FileContent, FileVersion, FileVersions, VersionLimits};

use crate::EngineError;

/// Old tables of a file that stay in memory, at least.
const OLD_TABLES_MIN: usize = 4;
/// How long a version that could not be read is not tried again.
const RETRY_AFTER: Duration = Duration::from_secs(10);

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
            Err(error) => tracing::warn!("{name}: the new version is used and not kept: {}", with_causes(&error)),
        }
    }
}

/// The table of one version.
#[derive(Debug)]
struct VersionTable<T> {
    from_ms: i64,
    /// The version, unless the table was made of the file itself.
    kept: Option<FileVersion>,
    table: Mutex<Made<T>>,
}

/// Whether a table is there.
#[derive(Debug)]
enum Made<T> {
    NotYet,
    /// It has turned out that the version cannot be used.
    Unusable,
    /// The version could not be read at this time.
    Unread(Instant),
    /// Of a kept version, as long as somebody holds it.
    Old(Weak<T>),
    /// Of the file itself.
    Newest(Arc<T>),
}

/// Tables of the versions of a file, at least one.
#[derive(Debug)]
pub(crate) struct VersionedTable<T> {
    name: &'static str,
    load: LoadTable<T>,
    kept: FileVersions,
    /// The oldest first.
    versions: Vec<VersionTable<T>>,
    /// Old tables that stay in memory, the last one that was used at the end.
    recent: Mutex<VecDeque<Arc<T>>>,
    /// How many these are at most.
    recent_max: usize,
    /// After which time a version that could not be read is tried again.
    retry_after: Duration,
    unkept: Option<UnkeptVersion>,
}

/// The table of a span of time, both ends of which belong to it.
#[derive(Debug)]
struct TableSpan<T> {
    first_ms: i64,
    last_ms: i64,
    table: Option<Arc<T>>,
}

impl<T> TableSpan<T> {
    fn has(&self, at_ms: i64) -> bool {
        (self.first_ms..=self.last_ms).contains(&at_ms)
    }
}

impl<T> VersionedTable<T> {
    /// Reads a file, and which versions of it there are. Without a file there are the kept versions alone, and `None`
    /// without any. A file that is not the one whose versions are kept is used for all times.
    pub(crate) fn load(file: &VersionedFile, load: LoadTable<T>) -> Result<Option<Self>, EngineError> {
        let found_ms = Timestamp::now().as_millisecond();
        let kept = file.folder.as_deref().map(|folder| read_index(file.name, folder, found_ms));
        let mut kept = kept.unwrap_or_default();
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
            table: Mutex::new(Made::NotYet),
        };
        let mut versions: Vec<_> = kept.versions().iter().map(unmade).collect();
        if let Some(table) = newest {
            let from_ms = versions.pop().map_or(i64::MIN, |version| version.from_ms);
            versions.push(VersionTable { from_ms, kept: None, table: Mutex::new(Made::Newest(Arc::new(table))) });
        }
        // the threads of a question are at different times
        let recent_max = available_parallelism().map_or(OLD_TABLES_MIN, |threads| threads.get().max(OLD_TABLES_MIN));
        let recent = Mutex::default();
        (!versions.is_empty()).then_some(Self {
            name,
            load,
            kept,
            versions,
            recent,
            recent_max,
            retry_after: RETRY_AFTER,
            unkept: None,
        })
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
    pub(crate) fn at(&self, at_ms: Option<i64>) -> Option<Arc<T>> {
        self.span(at_ms.unwrap_or(i64::MAX)).table
    }

    /// The same, for a single question.
    pub(crate) fn into_table(self, at_ms: i64) -> Option<T> {
        let table = self.usable(self.place(at_ms))?;
        // so that nobody else holds it
        drop(self);
        Arc::into_inner(table)
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

    fn span(&self, at_ms: i64) -> TableSpan<T> {
        let place = self.place(at_ms);
        let table = self.usable(place);
        let first_ms = if place == 0 { i64::MIN } else { self.versions[place].from_ms };
        let last_ms = self.versions.get(place + 1).map_or(i64::MAX, |next| next.from_ms.saturating_sub(1));
        TableSpan { first_ms, last_ms, table }
    }

    /// The table of the version at a place if it can be used, else of the next older one, else of the next newer one.
    fn usable(&self, place: usize) -> Option<Arc<T>> {
        let mut places = (0..=place).rev().chain(place + 1..self.versions.len());
        places.find_map(|place| self.table(&self.versions[place]))
    }

    /// The table of a version; `None` when it cannot be used. Who asks while it is made waits.
    fn table(&self, version: &VersionTable<T>) -> Option<Arc<T>> {
        let mut made = version.table.lock().unwrap_or_else(PoisonError::into_inner);
        let held = match &*made {
            Made::Newest(table) => return Some(Arc::clone(table)),
            Made::Unusable => return None,
            Made::Unread(tried) if tried.elapsed() < self.retry_after => return None,
            Made::Old(table) => table.upgrade(),
            Made::NotYet | Made::Unread(_) => None,
        };
        let table = match held.map_or_else(|| self.make(version).map(Arc::new), Ok) {
            Ok(table) => table,
            Err(failed) => {
                *made = failed;
                return None;
            }
        };
        *made = Made::Old(Arc::downgrade(&table));
        drop(made);
        self.hold(&table);
        Some(table)
    }

    /// Makes the table of a version, or says what there is in its place.
    fn make(&self, version: &VersionTable<T>) -> Result<T, Made<T>> {
        let kept = version.kept.as_ref().ok_or(Made::Unusable)?;
        let made = self.kept.file_of(kept).map_err(EngineError::enrichment).and_then(|path| (self.load)(&path));
        let from = time_text(version.from_ms);
        made.map_err(|error| {
            let why = with_causes(&error);
            tracing::warn!("{}: the version from {from} is not used, but the one before or after it: {why}", self.name);
            if is_unread(&error) { Made::Unread(Instant::now()) } else { Made::Unusable }
        })
    }

    /// Keeps an old table in memory, in place of the one that was not used for longest.
    fn hold(&self, table: &Arc<T>) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.retain(|other| !Arc::ptr_eq(other, table));
        recent.push_back(Arc::clone(table));
        if recent.len() > self.recent_max {
            recent.pop_front();
        }
    }
}

/// Whether a file could not be read, which may pass, rather than being damaged.
fn is_unread(error: &EngineError) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return !matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof);
        }
        cause = error.source();
    }
    false
}

/// The versions in a folder; what is wrong with them is in the log.
fn read_index(name: &str, folder: &Path, now_ms: i64) -> FileVersions {
    match FileVersions::read(folder, now_ms) {
        Ok(versions) => {
            if versions.times_disbelieved() > 0 {
                tracing::warn!(
                    "{name}: of {} versions the time cannot be right, as the clock was wrong then or is now: they are used \
                     from before the next one or after the one before, where there is one",
                    versions.times_disbelieved()
                );
            }
            if versions.lines_damaged() > 0 {
                tracing::warn!("{name}: {} versions are missing, their lines are damaged", versions.lines_damaged());
            }
            versions
        }
        Err(error) => {
            tracing::warn!("{name}: old versions are not used: {}", with_causes(&error));
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
    /// Those that rows had: they stay to the end of the batch, however its times go to and fro.
    spans: Vec<TableSpan<T>>,
    /// That of the row before: times of neighbours are close to each other.
    place: usize,
}

impl<'a, T> TablesByRow<'a, T> {
    /// Without times, and where a time is null, it is the newest table.
    pub(crate) fn new(versions: Option<&'a VersionedTable<T>>, times: Option<&'a TimestampMillisecondArray>) -> Self {
        Self { versions, times, spans: Vec::new(), place: 0 }
    }

    /// The table of a row.
    pub(crate) fn table(&mut self, row: usize) -> Option<&T> {
        let at_ms = self.times.filter(|times| times.is_valid(row)).map_or(i64::MAX, |times| times.value(row));
        if !self.spans.get(self.place).is_some_and(|span| span.has(at_ms)) {
            let known = self.spans.iter().position(|span| span.has(at_ms));
            self.place = known.unwrap_or(self.spans.len());
            if known.is_none() {
                self.spans.push(self.versions?.span(at_ms));
            }
        }
        self.spans.get(self.place)?.table.as_deref()
    }
}

#[cfg(test)]
mod tests;
