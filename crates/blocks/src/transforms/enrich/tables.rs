//! What is known about addresses and interfaces, from files.
//!
//! A table is immutable once it is loaded. When its file has changed a new table is made next to it, in a thread of its
//! own, and takes its place between two bursts; when that fails the old one stays, because a file that is just being
//! written should not end a chain that runs.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::StringArray;
use weir_chain::ComponentError;
use weir_routes::{Database, DatabaseError, InterfaceNames, PrefixMap, PrefixTable, TextTableError, read_labels};

/// The index of no text.
pub(super) const NONE: u32 = u32::MAX;

/// The files, those that were named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Files {
    pub(super) asn_mmdb: Option<PathBuf>,
    pub(super) geo_mmdb: Option<PathBuf>,
    pub(super) labels: Option<PathBuf>,
    pub(super) interfaces: Option<PathBuf>,
}

/// Texts of prefixes: the indexes of texts, and the texts.
#[derive(Debug)]
pub(super) struct Texts {
    prefixes: PrefixTable,
    pub(super) texts: StringArray,
}

impl Texts {
    /// The index of the text of an address of 4 or 16 octets, [`NONE`] when it has none.
    #[inline]
    pub(super) fn find(&self, octets: &[u8]) -> u32 {
        self.prefixes.find_octets(octets).map_or(NONE, |found| found.value as u32)
    }
}

impl From<PrefixMap<String>> for Texts {
    fn from(map: PrefixMap<String>) -> Self {
        let (prefixes, texts) = map.into_parts();
        Self { prefixes, texts: StringArray::from(texts) }
    }
}

/// Names of interfaces.
#[derive(Debug)]
pub(super) struct Interfaces {
    table: InterfaceNames,
    pub(super) names: StringArray,
}

/// A table, and the file that it was made of as it was then.
#[derive(Debug)]
struct Loaded<T> {
    table: Arc<T>,
    path: PathBuf,
    stamp: Option<Stamp>,
}

/// What changes when a file does: its time, its length, and its inode when another was moved to its name.
type Stamp = (i64, i64, u64, u64);

/// All tables. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Tables {
    asn: Option<Loaded<PrefixMap<u32>>>,
    geo: Option<Loaded<Texts>>,
    labels: Option<Loaded<Texts>>,
    interfaces: Option<Loaded<Interfaces>>,
}

/// What a look at the files came to.
#[derive(Debug, Default)]
pub(super) struct Refreshed {
    pub(super) loaded: u64,
    pub(super) errors: Vec<ComponentError>,
}

impl Tables {
    pub(super) fn load(files: &Files) -> Result<Self, ComponentError> {
        Ok(Self {
            asn: Loaded::new(files.asn_mmdb.as_deref(), autonomous_systems)?,
            geo: Loaded::new(files.geo_mmdb.as_deref(), countries)?,
            labels: Loaded::new(files.labels.as_deref(), labels)?,
            interfaces: Loaded::new(files.interfaces.as_deref(), interfaces)?,
        })
    }

    /// Loads again what has changed.
    pub(super) fn refresh(&mut self) -> Refreshed {
        let mut refreshed = Refreshed::default();
        refresh(&mut self.asn, autonomous_systems, &mut refreshed);
        refresh(&mut self.geo, countries, &mut refreshed);
        refresh(&mut self.labels, labels, &mut refreshed);
        refresh(&mut self.interfaces, interfaces, &mut refreshed);
        refreshed
    }

    pub(super) fn asn(&self) -> Option<&PrefixMap<u32>> {
        self.asn.as_ref().map(|loaded| &*loaded.table)
    }

    pub(super) fn geo(&self) -> Option<&Texts> {
        self.geo.as_ref().map(|loaded| &*loaded.table)
    }

    pub(super) fn labels(&self) -> Option<&Texts> {
        self.labels.as_ref().map(|loaded| &*loaded.table)
    }

    pub(super) fn interfaces(&self) -> Option<&Interfaces> {
        self.interfaces.as_ref().map(|loaded| &*loaded.table)
    }

    /// Octets of memory, about.
    pub(super) fn octets(&self) -> usize {
        let texts = |texts: &Texts| texts.prefixes.octets() + texts.texts.value_data().len();
        self.asn().map_or(0, PrefixMap::octets)
            + self.geo().map_or(0, texts)
            + self.labels().map_or(0, texts)
            + self.interfaces().map_or(0, |interfaces| interfaces.table.octets())
    }
}

impl<T> Clone for Loaded<T> {
    fn clone(&self) -> Self {
        Self { table: Arc::clone(&self.table), path: self.path.clone(), stamp: self.stamp }
    }
}

impl<T> Loaded<T> {
    fn new(path: Option<&Path>, load: fn(&Path) -> Result<T, ComponentError>) -> Result<Option<Self>, ComponentError> {
        let Some(path) = path else { return Ok(None) };
        // taken before reading, so that a change meanwhile is seen as one
        let stamp = stamp(path);
        Ok(Some(Self { table: Arc::new(load(path)?), path: path.to_owned(), stamp }))
    }
}

fn refresh<T>(slot: &mut Option<Loaded<T>>, load: fn(&Path) -> Result<T, ComponentError>, refreshed: &mut Refreshed) {
    let Some(loaded) = slot else { return };
    let stamp = stamp(&loaded.path);
    if stamp == loaded.stamp {
        return;
    }
    // also when it fails: the next look should not try the same file again
    loaded.stamp = stamp;
    match load(&loaded.path) {
        Ok(table) => {
            loaded.table = Arc::new(table);
            refreshed.loaded += 1;
        }
        Err(error) => refreshed.errors.push(error),
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = path.metadata().ok()?;
    Some((metadata.mtime(), metadata.mtime_nsec(), metadata.len(), metadata.ino()))
}

fn autonomous_systems(path: &Path) -> Result<PrefixMap<u32>, ComponentError> {
    let map = Database::open(path).and_then(|database| database.autonomous_systems());
    map.map_err(unusable)
}

fn countries(path: &Path) -> Result<Texts, ComponentError> {
    let map = Database::open(path).and_then(|database| database.countries());
    map.map(Texts::from).map_err(unusable)
}

/// The error says which file it is about.
fn unusable(error: DatabaseError) -> ComponentError {
    let message = error.to_string();
    match error {
        DatabaseError::Unreadable { source, .. } => ComponentError::caused(message, source),
        DatabaseError::TooMany { source, .. } => ComponentError::caused(message, source),
        _ => ComponentError::new(message),
    }
}

fn labels(path: &Path) -> Result<Texts, ComponentError> {
    read_labels(path).map(Texts::from).map_err(no_table)
}

fn interfaces(path: &Path) -> Result<Interfaces, ComponentError> {
    let table = InterfaceNames::read(path).map_err(no_table)?;
    let names = StringArray::from_iter_values(table.names());
    Ok(Interfaces { table, names })
}

fn no_table(error: TextTableError) -> ComponentError {
    let message = error.to_string();
    match error {
        TextTableError::Unreadable { source, .. } => ComponentError::caused(message, source),
        TextTableError::TooMany { source, .. } => ComponentError::caused(message, source),
        TextTableError::Line { .. } => ComponentError::new(message),
    }
}

impl Interfaces {
    /// The index of the name of an interface, [`NONE`] when it has none.
    #[inline]
    pub(super) fn find(&self, exporter: &[u8], if_index: u32) -> u32 {
        self.table.find(exporter, if_index).unwrap_or(NONE)
    }
}

#[cfg(test)]
mod tests;
