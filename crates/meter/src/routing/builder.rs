//! Collects routes from files and builds the table.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::trie::{Key, Prefix};
use super::{ATTRIBUTES_MAX, Attributes, Leaf, RouteTable, database, input, mrt, prefixes};

/// Which autonomous system of a path is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AsChoice {
    /// The one that the prefix belongs to: the last one of the path (RFC 6811 section 2).
    #[default]
    Origin,
    /// The neighbour that the route came from: the first one of the path.
    Peer,
}

/// Something in a file that could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defect {
    /// The line, from 1, or the octet of the file (uncompressed), from 0.
    pub place: u64,
    /// What is wrong.
    pub what: &'static str,
}

/// Most defects of a file that are told one by one.
const DEFECTS_MAX: usize = 16;

/// What a file held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Records of a dump, lines of a file, networks of a database.
    pub records: u64,
    /// Prefixes taken.
    pub routes: u64,
    /// Records that tell no route: other kinds of records, lines without a prefix, networks without a number.
    pub skipped: u64,
    /// Records or lines that could not be used.
    pub defective: u64,
    /// The first of these.
    pub defects: Vec<Defect>,
    /// What follows the last defect could not be read: the file ends too early, or is damaged where its records part.
    pub is_cut: bool,
}

impl LoadReport {
    pub(super) fn defect(&mut self, place: u64, what: &'static str) {
        self.defective += 1;
        if self.defects.len() < DEFECTS_MAX {
            self.defects.push(Defect { place, what });
        }
    }

    /// A defect behind which nothing can be read.
    pub(super) fn cut(&mut self, place: u64, what: &'static str) {
        self.defect(place, what);
        self.is_cut = true;
    }
}

/// Why a file could not be loaded. What was read before is in the table.
#[derive(Debug, thiserror::Error)]
pub enum RoutingError {
    /// The file could not be opened or not be read to its end.
    #[error("cannot read routes from {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A database that cannot be used.
    #[error("cannot read routes from database {}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: maxminddb::MaxMindDbError,
    },
    /// A database of something else.
    #[error("database {} of type '{kind}' has no autonomous system numbers", path.display())]
    NoNumbers {
        /// The file.
        path: PathBuf,
        /// What it says that it is.
        kind: String,
    },
    /// More than a table can hold.
    #[error("more than {PREFIXES_MAX} prefixes or {ATTRIBUTES_MAX} different routes")]
    TooMany,
}

/// Most prefixes of all files together; the internet has about a million and a half.
const PREFIXES_MAX: usize = 1 << 24;

/// Routes that become a [`RouteTable`].
///
/// Of several routes with the same prefix the one that came last counts, so that a file of corrections is loaded behind
/// a dump.
#[derive(Debug)]
pub struct RouteTableBuilder {
    choice: AsChoice,
    pub(super) prefixes_max: usize,
    v4: Vec<Prefix<u32>>,
    v6: Vec<Prefix<u128>>,
    attributes: Vec<Attributes>,
    known: HashMap<Attributes, usize>,
    full: bool,
}

impl Default for RouteTableBuilder {
    fn default() -> Self {
        Self::new(AsChoice::default())
    }
}

impl RouteTableBuilder {
    /// An empty one.
    pub fn new(choice: AsChoice) -> Self {
        Self {
            choice,
            prefixes_max: PREFIXES_MAX,
            v4: Vec::new(),
            v6: Vec::new(),
            attributes: Vec::new(),
            known: HashMap::new(),
            full: false,
        }
    }

    /// Which autonomous system of a path is told.
    pub(super) fn choice(&self) -> AsChoice {
        self.choice
    }

    /// Adds a route; `false` when the prefix is longer than its address.
    pub fn insert(&mut self, address: IpAddr, prefix_bits: u8, attributes: Attributes) -> bool {
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        if prefix_bits > bits_max {
            return false;
        }
        if self.v4.len() + self.v6.len() >= self.prefixes_max {
            self.full = true;
            return true;
        }
        let index = *self.known.entry(attributes).or_insert_with(|| {
            self.attributes.push(attributes);
            self.attributes.len() - 1
        });
        let Some(leaf) = Leaf::new(index, prefix_bits) else {
            self.full = true;
            return true;
        };
        match address {
            IpAddr::V4(address) => {
                let key = address.to_bits().masked(prefix_bits);
                self.v4.push(Prefix { key, bits: prefix_bits, leaf });
            }
            IpAddr::V6(address) => {
                let key = address.to_bits().masked(prefix_bits);
                self.v6.push(Prefix { key, bits: prefix_bits, leaf });
            }
        }
        true
    }

    /// Adds the routes of a file, whatever it is: an MRT dump of a routing table (RFC 6396, RFC 8050), a `MaxMind`
    /// database of autonomous systems, or else lines of prefixes. A dump is told by its first octets and so is
    /// compression with gzip, bzip2 or Zstandard; a database by its suffix `.mmdb`, or by the mark near its end.
    pub fn load(&mut self, path: &Path) -> Result<LoadReport, RoutingError> {
        let mut report = LoadReport::default();
        let read = |source| RoutingError::Read { path: path.to_owned(), source };
        let has_suffix = path.extension().is_some_and(|suffix| suffix.eq_ignore_ascii_case("mmdb"));
        if has_suffix || database::is_one(path).map_err(read)? {
            database::load(path, self, &mut report)?;
            return Ok(report);
        }
        let (magic, input) = input::open(path).map_err(read)?;
        let loaded = if mrt::begins(&magic) {
            mrt::load(input, self, &mut report)
        } else {
            prefixes::load(input, self, &mut report)
        };
        match loaded {
            // a download that was broken off has routes for all that
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && report.routes > 0 => {
                report.cut(report.records, "compressed file ends early");
            }
            loaded => loaded.map_err(read)?,
        }
        Ok(report)
    }

    /// The table.
    pub fn build(self) -> Result<RouteTable, RoutingError> {
        if self.full {
            return Err(RoutingError::TooMany);
        }
        let (v4, v6) = (settled(self.v4), settled(self.v6));
        Ok(RouteTable::new(&v4, &v6, &self.attributes))
    }
}

/// Prefixes in the order that the trie asks for, the last of each.
fn settled<K: Key>(mut prefixes: Vec<Prefix<K>>) -> Vec<Prefix<K>> {
    // The sort is stable, so the last one that came is the first one from behind.
    prefixes.reverse();
    prefixes.sort_by_key(|prefix| (prefix.key, prefix.bits));
    prefixes.dedup_by_key(|prefix| (prefix.key, prefix.bits));
    prefixes
}
