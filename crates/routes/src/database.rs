//! `MaxMind` DB files, read into tables of prefixes.
//!
//! A file is a binary tree over the bits of addresses with records at its leaves. It is walked once, when it is loaded:
//! what is wrong with it shows at the start and not when an address happens to lead there, and afterwards nothing is
//! decoded any more. What speaks against it is the time of the walk, about a second for some million networks.
//!
//! Trees lead some IPv6 prefixes (mapped and 6to4 addresses) into the tree of IPv4. Mapped addresses are found as IPv4
//! addresses; the others are left out by the reader, so that each network is taken once.

use std::collections::HashMap;
use std::fs::File;
use std::hash::Hash;
use std::io::{self, Read, Seek, SeekFrom};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use maxminddb::{LookupResult, MaxMindDbError, Reader, WithinOptions, path};

use super::prefix_map::{PrefixMap, PrefixMapBuilder, TooManyPrefixes};

/// More networks than any database of addresses has; a damaged tree can lead into itself and never end.
const NETWORKS_MAX: usize = 1 << 26;

/// What is before the metadata, within the last octets of the file (`MaxMind` DB 2.0, "Database Metadata").
const MARK: &[u8] = b"\xab\xcd\xefMaxMind.com";
const METADATA_OCTETS_MAX: u64 = 128 << 10;

type Found<'a> = LookupResult<'a, Vec<u8>>;

/// Why a database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// Its tree or a record is not valid.
    #[error("database {} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: MaxMindDbError,
    },
    /// The system cannot read it.
    #[error("database {} cannot be read", path.display())]
    Unopened {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Its tree does not end.
    #[error("database {} has more than {NETWORKS_MAX} networks", path.display())]
    TooManyNetworks {
        /// The file.
        path: PathBuf,
    },
    /// It has nothing of what was asked for.
    #[error("database {} of type '{kind}' has no {what}", path.display())]
    NoValues {
        /// The file.
        path: PathBuf,
        /// What it states as its type.
        kind: String,
        /// What was asked for.
        what: &'static str,
    },
    /// It has more different values than a table can have.
    #[error("database {} does not fit into a table", path.display())]
    TooMany {
        /// The file.
        path: PathBuf,
        /// What is too much.
        #[source]
        source: TooManyPrefixes,
    },
}

impl DatabaseError {
    /// An error of the reader. That of the system is taken out of it: its text has that error, and so would its causes.
    fn of_reader(path: &Path, error: MaxMindDbError) -> Self {
        let path = path.to_owned();
        match error {
            MaxMindDbError::Io(source) => Self::Unopened { path, source },
            source => Self::Unreadable { path, source },
        }
    }
}

/// An open database.
pub struct Database {
    reader: Reader<Vec<u8>>,
    path: PathBuf,
}

/// A network of a database.
#[derive(Debug, Clone, Copy)]
pub(super) struct Network<V> {
    pub(super) address: IpAddr,
    pub(super) prefix_bits: u8,
    /// Where its record is, among the records.
    pub(super) offset: usize,
    /// `None` when the database has no record for it, or a record without the value.
    pub(super) value: Option<V>,
}

impl<V> Network<V> {
    /// The prefix of all IPv4 addresses, when their place in the tree is within this network.
    pub(super) fn as_all_ipv4(&self) -> Option<(IpAddr, u8)> {
        (self.address == Ipv6Addr::UNSPECIFIED && self.prefix_bits <= 96).then_some((Ipv4Addr::UNSPECIFIED.into(), 0))
    }
}

impl Database {
    /// Whether a file is a database. What can be read only once, such as a pipe, is none.
    pub(super) fn is_one(path: &Path) -> io::Result<bool> {
        let metadata = path.metadata()?;
        if !metadata.is_file() {
            return Ok(false);
        }
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(metadata.len().saturating_sub(METADATA_OCTETS_MAX)))?;
        let mut end = Vec::new();
        file.take(METADATA_OCTETS_MAX).read_to_end(&mut end)?;
        Ok(end.windows(MARK.len()).any(|octets| octets == MARK))
    }

    /// Reads a file into memory.
    ///
    /// # Errors
    ///
    /// When it cannot be read or is no database.
    pub fn open(path: &Path) -> Result<Self, DatabaseError> {
        let reader = Reader::open_readfile(path);
        let reader = reader.map_err(|error| DatabaseError::of_reader(path, error))?;
        Ok(Self { reader, path: path.to_owned() })
    }

    /// The numbers of autonomous systems by address.
    ///
    /// # Errors
    ///
    /// When the tree or a record is not valid, or no record has a number.
    pub fn autonomous_systems(&self) -> Result<PrefixMap<u32>, DatabaseError> {
        self.map(AUTONOMOUS_SYSTEMS, autonomous_system)
    }

    /// The ISO codes of countries by address.
    ///
    /// # Errors
    ///
    /// When the tree or a record is not valid, or no record has a code.
    pub fn countries(&self) -> Result<PrefixMap<String>, DatabaseError> {
        self.map("country codes", country)
    }

    /// The names of the organisations that autonomous systems belong to, by number.
    ///
    /// # Errors
    ///
    /// When the tree or a record is not valid, or no record has a number and a name.
    pub fn organisations(&self) -> Result<HashMap<u32, String>, DatabaseError> {
        let mut names = HashMap::new();
        self.walk("names of autonomous systems", organisation, |network| {
            if let Some((number, name)) = network.value {
                names.entry(number).or_insert(name);
            }
        })?;
        Ok(names)
    }

    /// What the file states as its type, such as `GeoLite2-Country`.
    pub fn kind(&self) -> &str {
        &self.reader.metadata().database_type
    }

    /// When the file was built, in seconds since 1970, as it states itself.
    pub fn built_secs(&self) -> u64 {
        self.reader.metadata().build_epoch
    }

    /// Calls `each` with every network and its autonomous system.
    pub(super) fn walk_autonomous_systems(&self, each: impl FnMut(Network<u32>)) -> Result<(), DatabaseError> {
        self.walk(AUTONOMOUS_SYSTEMS, autonomous_system, each)
    }

    fn map<V: Clone + Eq + Hash>(
        &self,
        what: &'static str,
        decode: impl Fn(&Found) -> Result<Option<V>, MaxMindDbError>,
    ) -> Result<PrefixMap<V>, DatabaseError> {
        // one more for the place of IPv4
        let mut builder = PrefixMapBuilder::new(NETWORKS_MAX + 1);
        self.walk(what, decode, |network| {
            let Some(value) = &network.value else { return };
            if let Some((address, bits)) = network.as_all_ipv4() {
                builder.insert(address, bits, value.clone());
            }
            builder.insert(network.address, network.prefix_bits, value.clone());
        })?;
        builder.build().map_err(|source| DatabaseError::TooMany { path: self.path.clone(), source })
    }

    /// Calls `each` with every network and what `decode` finds in its record.
    fn walk<V: Clone>(
        &self,
        what: &'static str,
        decode: impl Fn(&Found) -> Result<Option<V>, MaxMindDbError>,
        mut each: impl FnMut(Network<V>),
    ) -> Result<(), DatabaseError> {
        let unreadable = |error| DatabaseError::of_reader(&self.path, error);
        // many networks share a record
        let mut values: HashMap<usize, Option<V>> = HashMap::new();
        for (count, found) in self.reader.networks(WithinOptions::default()).map_err(unreadable)?.enumerate() {
            if count == NETWORKS_MAX {
                return Err(DatabaseError::TooManyNetworks { path: self.path.clone() });
            }
            let found = found.map_err(unreadable)?;
            let value = match found.offset() {
                None => None,
                Some(offset) => match values.get(&offset) {
                    Some(known) => known.clone(),
                    None => values.entry(offset).or_insert(decode(&found).map_err(unreadable)?).clone(),
                },
            };
            let network = found.network().map_err(unreadable)?;
            let offset = found.offset().unwrap_or_default();
            each(Network { address: network.ip(), prefix_bits: network.prefix(), offset, value });
        }
        if values.values().all(Option::is_none) {
            let kind = self.reader.metadata().database_type.clone();
            return Err(DatabaseError::NoValues { path: self.path.clone(), kind, what });
        }
        Ok(())
    }
}

/// What [`Database::autonomous_systems`] reads, as errors name it.
const AUTONOMOUS_SYSTEMS: &str = "autonomous system numbers";

/// `MaxMind` and DB-IP write a number, `IPinfo` the text `AS64500`.
fn autonomous_system(found: &Found) -> Result<Option<u32>, MaxMindDbError> {
    if let Some(number) = found.decode_path(&path!["autonomous_system_number"])? {
        return Ok(Some(number));
    }
    let text: Option<String> = found.decode_path(&path!["asn"])?;
    Ok(text.and_then(|text| text.strip_prefix("AS")?.parse().ok()))
}

/// `MaxMind` and DB-IP write the name next to the number, `IPinfo` as `as_name`.
fn organisation(found: &Found) -> Result<Option<(u32, String)>, MaxMindDbError> {
    let Some(number) = autonomous_system(found)? else { return Ok(None) };
    let name: Option<String> = match found.decode_path(&path!["autonomous_system_organization"])? {
        Some(name) => Some(name),
        None => found.decode_path(&path!["as_name"])?,
    };
    Ok(name.map(|name| (number, name)))
}

/// `MaxMind` and DB-IP have a map with a code, `IPinfo` a code or two.
fn country(found: &Found) -> Result<Option<String>, MaxMindDbError> {
    let map = found.decode_path(&path!["country", "iso_code"]);
    if let Ok(Some(code)) = map {
        return Ok(Some(code));
    }
    if let Ok(Some(code)) = found.decode_path(&path!["country_code"]) {
        return Ok(Some(code));
    }
    // a text where a map was looked for, or else the error of looking for it
    found.decode_path(&path!["country"]).or(map)
}

#[cfg(test)]
mod tests;
