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
use weir_flow::text;
use weir_routes::{
    Database, DatabaseError, InterfaceNames, PrefixMap, PrefixTable, RouteTable, TextTableError, read_exporters,
    read_labels,
};

use super::options::EnrichOptions;
use super::routes::{self, routes_of};

/// The index of no text.
pub(super) const NONE: u32 = u32::MAX;

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
        Self { prefixes, texts: clean(&texts) }
    }
}

/// Texts as columns keep them: without control characters, and null when nothing is left.
fn clean(texts: &[String]) -> StringArray {
    let mut kept = String::new();
    let cleaned = texts.iter().map(|text| {
        kept.clear();
        text::push_clean(text.as_bytes(), &mut kept);
        (!kept.is_empty()).then(|| kept.clone())
    });
    cleaned.collect()
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
    /// Which file this is and of when, as the column `enrichment` has it.
    version: Arc<str>,
    path: PathBuf,
    stamp: Option<Stamp>,
}

/// What changes when a file does: its time, its length, and its inode when another was moved to its name.
type Stamp = (i64, i64, u64, u64);

/// All tables. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Tables {
    asn: Option<Loaded<PrefixMap<u32>>>,
    routes: Vec<Loaded<RouteTable>>,
    geo: Option<Loaded<Texts>>,
    labels: Option<Loaded<Texts>>,
    interfaces: Option<Loaded<Interfaces>>,
    exporters: Option<Loaded<Texts>>,
    /// The versions of all of them.
    versions: String,
}

/// What a look at the files came to.
#[derive(Debug, Default)]
pub(super) struct Refreshed {
    pub(super) loaded: u64,
    pub(super) errors: Vec<ComponentError>,
}

impl Tables {
    pub(super) fn load(options: &EnrichOptions) -> Result<Self, ComponentError> {
        let (addresses, of_exporters) = (&options.addresses, &options.exporters);
        let tables = Self {
            asn: Loaded::new(addresses.asn_mmdb.as_deref(), autonomous_systems)?,
            routes: options.routes.routes.iter().map(|path| Loaded::of(path, routes_of)).collect::<Result<_, _>>()?,
            geo: Loaded::new(addresses.geo_mmdb.as_deref(), countries)?,
            labels: Loaded::new(addresses.labels.as_deref(), labels)?,
            interfaces: Loaded::new(of_exporters.interfaces.as_deref(), interfaces)?,
            exporters: Loaded::new(of_exporters.exporters.as_deref(), exporters)?,
            versions: String::new(),
        };
        Ok(tables.with_versions())
    }

    /// Loads again what has changed.
    pub(super) fn refresh(&mut self) -> Refreshed {
        let mut refreshed = Refreshed::default();
        refresh(self.asn.as_mut(), autonomous_systems, &mut refreshed);
        for routes in &mut self.routes {
            refresh(Some(routes), routes_of, &mut refreshed);
        }
        refresh(self.geo.as_mut(), countries, &mut refreshed);
        refresh(self.labels.as_mut(), labels, &mut refreshed);
        refresh(self.interfaces.as_mut(), interfaces, &mut refreshed);
        refresh(self.exporters.as_mut(), exporters, &mut refreshed);
        *self = std::mem::take(self).with_versions();
        refreshed
    }

    fn with_versions(self) -> Self {
        let all = [
            self.asn.as_ref().map(|loaded| &loaded.version),
            self.geo.as_ref().map(|loaded| &loaded.version),
            self.labels.as_ref().map(|loaded| &loaded.version),
            self.interfaces.as_ref().map(|loaded| &loaded.version),
            self.exporters.as_ref().map(|loaded| &loaded.version),
        ];
        let routes = self.routes.iter().map(|loaded| &loaded.version);
        let all: Vec<&str> = all.into_iter().flatten().chain(routes).map(|version| &**version).collect();
        let versions = clean(&[all.join(", ")]).iter().flatten().collect();
        Self { versions, ..self }
    }

    /// The files and their versions, empty when there are none.
    pub(super) fn versions(&self) -> &str {
        &self.versions
    }

    pub(super) fn exporters(&self) -> Option<&Texts> {
        self.exporters.as_ref().map(|loaded| &*loaded.table)
    }

    fn asn(&self) -> Option<&PrefixMap<u32>> {
        self.asn.as_ref().map(|loaded| &*loaded.table)
    }

    /// The autonomous system of an address of 4 or 16 octets: that of its route, else that of the database.
    #[inline]
    pub(super) fn system(&self, octets: &[u8]) -> Option<u32> {
        let by_route = if self.routes.is_empty() {
            None
        } else {
            routes::system(self.routes.iter().map(|loaded| &*loaded.table), octets)
        };
        by_route.or_else(|| self.asn()?.find_octets(octets).copied())
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
            + self.routes.iter().map(|loaded| loaded.table.octets()).sum::<usize>()
            + self.geo().map_or(0, texts)
            + self.labels().map_or(0, texts)
            + self.exporters().map_or(0, texts)
            + self.interfaces().map_or(0, |interfaces| interfaces.table.octets())
    }
}

impl<T> Clone for Loaded<T> {
    fn clone(&self) -> Self {
        let (table, version) = (Arc::clone(&self.table), Arc::clone(&self.version));
        Self { table, version, path: self.path.clone(), stamp: self.stamp }
    }
}

/// Makes a table of a file, and says which version of the file it is when that is known from what is in it.
type Load<T> = fn(&Path) -> Result<(Arc<T>, Option<String>), ComponentError>;

impl<T> Loaded<T> {
    fn new(path: Option<&Path>, load: Load<T>) -> Result<Option<Self>, ComponentError> {
        path.map(|path| Self::of(path, load)).transpose()
    }

    fn of(path: &Path, load: Load<T>) -> Result<Self, ComponentError> {
        // taken before reading, so that a change meanwhile is seen as one
        let stamp = stamp(path);
        let (table, version) = load(path)?;
        let version = version.unwrap_or_else(|| version_of_file(path, stamp)).into();
        Ok(Self { table, version, path: path.to_owned(), stamp })
    }
}

/// The name of a file, and when it was changed.
fn version_of_file(path: &Path, stamp: Option<Stamp>) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match stamp {
        Some((changed_secs, ..)) => format!("{name} {}", time_text(changed_secs)),
        None => name.into_owned(),
    }
}

fn time_text(secs: i64) -> String {
    jiff::Timestamp::from_second(secs).map_or_else(|_| secs.to_string(), |time| time.to_string())
}

fn refresh<T>(slot: Option<&mut Loaded<T>>, load: Load<T>, refreshed: &mut Refreshed) {
    let Some(loaded) = slot else { return };
    let stamp = stamp(&loaded.path);
    if stamp == loaded.stamp {
        return;
    }
    // also when it fails: the next look should not try the same file again
    loaded.stamp = stamp;
    match load(&loaded.path) {
        Ok((table, version)) => {
            loaded.table = table;
            loaded.version = version.unwrap_or_else(|| version_of_file(&loaded.path, stamp)).into();
            refreshed.loaded += 1;
        }
        Err(error) => refreshed.errors.push(error),
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = path.metadata().ok()?;
    Some((metadata.mtime(), metadata.mtime_nsec(), metadata.len(), metadata.ino()))
}

fn autonomous_systems(path: &Path) -> Result<(Arc<PrefixMap<u32>>, Option<String>), ComponentError> {
    let database = Database::open(path).map_err(unusable)?;
    let systems = database.autonomous_systems().map_err(unusable)?;
    Ok((Arc::new(systems), Some(version_of_database(&database))))
}

fn countries(path: &Path) -> Result<(Arc<Texts>, Option<String>), ComponentError> {
    let database = Database::open(path).map_err(unusable)?;
    let countries = database.countries().map_err(unusable)?;
    Ok((Arc::new(countries.into()), Some(version_of_database(&database))))
}

/// The type of a database, and when it was built.
fn version_of_database(database: &Database) -> String {
    let built_secs = i64::try_from(database.built_secs()).unwrap_or(i64::MAX);
    format!("{} {}", database.kind(), time_text(built_secs))
}

/// The error says which file it is about.
fn unusable(error: DatabaseError) -> ComponentError {
    let message = error.to_string();
    match error {
        DatabaseError::Unreadable { source, .. } => ComponentError::caused(message, source),
        DatabaseError::Unopened { source, .. } => ComponentError::caused(message, source),
        DatabaseError::TooMany { source, .. } => ComponentError::caused(message, source),
        _ => ComponentError::new(message),
    }
}

fn labels(path: &Path) -> Result<(Arc<Texts>, Option<String>), ComponentError> {
    read_labels(path).map(|map| (Arc::new(map.into()), None)).map_err(no_table)
}

fn exporters(path: &Path) -> Result<(Arc<Texts>, Option<String>), ComponentError> {
    read_exporters(path).map(|map| (Arc::new(map.into()), None)).map_err(no_table)
}

fn interfaces(path: &Path) -> Result<(Arc<Interfaces>, Option<String>), ComponentError> {
    let table = InterfaceNames::read(path).map_err(no_table)?;
    let names = clean(table.names());
    Ok((Arc::new(Interfaces { table, names }), None))
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
