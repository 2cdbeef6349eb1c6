//! What is known about addresses and interfaces, from files.
//!
//! A table is immutable once it is loaded. When its file has changed a new table is made next to it, in a thread of its
//! own, and takes its place between two bursts; when that fails the old one stays, because a file that is just being
//! written should not end a chain that runs.

use std::collections::HashMap;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::StringArray;
use weir_chain::ComponentError;
use weir_routes::{Database, DatabaseError, PrefixMap, PrefixMapBuilder, PrefixTable};

use super::delimited::{Record, read, wrong};

/// The index of no text.
pub(super) const NONE: u32 = u32::MAX;
/// Most lines of a file of labels.
const LABELS_MAX: usize = 1 << 26;

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

/// Names of interfaces: indexes of texts by exporter and SNMP index.
#[derive(Debug)]
pub(super) struct Interfaces {
    indexes: HashMap<(u128, u32), u32, foldhash::fast::FixedState>,
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
            + self.interfaces().map_or(0, |interfaces| interfaces.indexes.capacity() * size_of::<(u128, u32, u32)>())
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

/// Texts numbered in the order in which they first come.
#[derive(Default)]
struct Numbered {
    texts: Vec<String>,
    known: HashMap<String, u32>,
}

impl Numbered {
    fn number(&mut self, text: &str) -> u32 {
        if let Some(known) = self.known.get(text) {
            return *known;
        }
        let number = self.texts.len() as u32;
        self.texts.push(text.to_owned());
        self.known.insert(text.to_owned(), number);
        number
    }
}

fn labels(path: &Path) -> Result<Texts, ComponentError> {
    let mut labels = PrefixMapBuilder::new(LABELS_MAX);
    let mut lines: HashMap<(IpAddr, u8), usize> = HashMap::new();
    for record in read(path, &["prefix", "label"])? {
        let (address, bits) = parse_prefix(&record.fields[0]).map_err(|what| wrong(path, &record, &what))?;
        if let Some(line) = lines.insert((address, bits), record.line) {
            let what = format!("prefix '{}' is in line {line} already", record.fields[0]);
            return Err(wrong(path, &record, &what));
        }
        labels.insert(address, bits, record.fields[1].clone());
    }
    let map = labels
        .build()
        .map_err(|error| ComponentError::caused(format!("file {} does not fit into a table", path.display()), error))?;
    Ok(Texts::from(map))
}

/// A prefix, or an address alone.
fn parse_prefix(text: &str) -> Result<(IpAddr, u8), String> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().map_err(|_| format!("'{text}' is no prefix"))?;
    let (first, width) = match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, 32),
        IpAddr::V6(address) => (address.into(), 128),
    };
    let bits = match bits.map_or(Ok(width), str::parse) {
        Ok(bits) if bits <= width => bits,
        _ => return Err(format!("'{text}' is no prefix: its length is no number from 0 to {width}")),
    };
    let behind = u128::MAX.checked_shr(u32::from(bits)).unwrap_or(0);
    if first & behind != 0 {
        return Err(format!("'{text}' is no prefix: bits behind the first {bits} are not zero"));
    }
    Ok((address, bits))
}

impl Interfaces {
    /// The index of the name of an interface, [`NONE`] when it has none.
    #[inline]
    pub(super) fn find(&self, exporter: &[u8], if_index: u32) -> u32 {
        let Some(exporter) = exporter_number(exporter) else { return NONE };
        self.indexes.get(&(exporter, if_index)).copied().unwrap_or(NONE)
    }
}

/// An address as a number, that of IPv4 as the one mapped into IPv6.
fn exporter_number(octets: &[u8]) -> Option<u128> {
    if let Ok(v4) = <[u8; 4]>::try_from(octets) {
        return Some(0xffff << 32 | u128::from(u32::from_be_bytes(v4)));
    }
    <[u8; 16]>::try_from(octets).ok().map(u128::from_be_bytes)
}

fn interfaces(path: &Path) -> Result<Interfaces, ComponentError> {
    let mut indexes = HashMap::default();
    let mut names = Numbered::default();
    for record in read(path, &["exporter", "if_index", "name"])? {
        let (key, name) = interface(&record, &mut names).map_err(|what| wrong(path, &record, &what))?;
        if indexes.insert(key, name).is_some() {
            return Err(wrong(path, &record, "this interface is in an earlier line already"));
        }
    }
    Ok(Interfaces { indexes, names: StringArray::from(names.texts) })
}

fn interface(record: &Record, names: &mut Numbered) -> Result<((u128, u32), u32), String> {
    let [exporter, if_index, name] = &record.fields[..] else { return Err("has no three fields".to_owned()) };
    let octets = weir_flow::parse_address(exporter).ok_or_else(|| format!("'{exporter}' is no address"))?;
    let exporter = exporter_number(&octets).ok_or_else(|| format!("'{exporter}' is no address"))?;
    let if_index = if_index.parse().map_err(|_| format!("'{if_index}' is no index of an interface"))?;
    Ok(((exporter, if_index), names.number(name)))
}

#[cfg(test)]
mod tests;
