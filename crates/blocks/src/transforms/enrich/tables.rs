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

use super::delimited::{Record, read, wrong};
use super::mmdb;
use super::ranges::{NONE, Prefix, Ranges};

/// The files, those that were named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Files {
    pub(super) asn_mmdb: Option<PathBuf>,
    pub(super) geo_mmdb: Option<PathBuf>,
    pub(super) labels: Option<PathBuf>,
    pub(super) interfaces: Option<PathBuf>,
}

/// Texts of prefixes: ranges of indexes, and the texts of these.
#[derive(Debug)]
pub(super) struct Texts {
    pub(super) ranges: Ranges,
    pub(super) texts: StringArray,
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
    asn: Option<Loaded<Ranges>>,
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
            asn: Loaded::new(files.asn_mmdb.as_deref(), mmdb::autonomous_systems)?,
            geo: Loaded::new(files.geo_mmdb.as_deref(), countries)?,
            labels: Loaded::new(files.labels.as_deref(), labels)?,
            interfaces: Loaded::new(files.interfaces.as_deref(), interfaces)?,
        })
    }

    /// Loads again what has changed.
    pub(super) fn refresh(&mut self) -> Refreshed {
        let mut refreshed = Refreshed::default();
        refresh(&mut self.asn, mmdb::autonomous_systems, &mut refreshed);
        refresh(&mut self.geo, countries, &mut refreshed);
        refresh(&mut self.labels, labels, &mut refreshed);
        refresh(&mut self.interfaces, interfaces, &mut refreshed);
        refreshed
    }

    pub(super) fn asn(&self) -> Option<&Ranges> {
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
        let texts = |texts: &Texts| texts.ranges.octets() + texts.texts.value_data().len();
        self.asn().map_or(0, Ranges::octets)
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

fn countries(path: &Path) -> Result<Texts, ComponentError> {
    let (ranges, texts) = mmdb::countries(path)?;
    Ok(Texts { ranges, texts })
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
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    let mut lines: HashMap<(bool, u128, u8), usize> = HashMap::new();
    let mut texts = Numbered::default();
    for record in read(path, &["prefix", "label"])? {
        let (is_v4, mut prefix) = parse_prefix(&record.fields[0]).map_err(|what| wrong(path, &record, &what))?;
        prefix.value = texts.number(&record.fields[1]);
        if let Some(line) = lines.insert((is_v4, prefix.first, prefix.bits), record.line) {
            let what = format!("prefix '{}' is in line {line} already", record.fields[0]);
            return Err(wrong(path, &record, &what));
        }
        if is_v4 { &mut v4 } else { &mut v6 }.push(prefix);
    }
    Ok(Texts { ranges: Ranges::new(v4, v6), texts: StringArray::from(texts.texts) })
}

/// A prefix, or an address alone, and whether it is one of IPv4.
fn parse_prefix(text: &str) -> Result<(bool, Prefix), String> {
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
    Ok((address.is_ipv4(), Prefix { first, bits, value: NONE }))
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
            return Err(wrong(path, &record, "this interface is in a line before already"));
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
