//! Collects routes from files and builds the table.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::trie::{Key, Prefix, Trie};
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
}

impl LoadReport {
    pub(super) fn defect(&mut self, place: u64, what: &'static str) {
        self.defective += 1;
        if self.defects.len() < DEFECTS_MAX {
            self.defects.push(Defect { place, what });
        }
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
    /// More different attributes than a table can hold.
    #[error("more than {ATTRIBUTES_MAX} different routes")]
    TooMany,
}

/// Routes that become a [`RouteTable`].
///
/// Of several routes with the same prefix the one that came last counts, so that a file of corrections is loaded behind
/// a dump.
#[derive(Debug, Default)]
pub struct RouteTableBuilder {
    choice: AsChoice,
    v4: Vec<Prefix<u32>>,
    v6: Vec<Prefix<u128>>,
    attributes: Vec<Attributes>,
    known: HashMap<Attributes, usize>,
    full: bool,
}

impl RouteTableBuilder {
    /// An empty one.
    pub fn new(choice: AsChoice) -> Self {
        Self { choice, ..Self::default() }
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
    /// database of autonomous systems by its suffix `.mmdb`, or else lines of prefixes. Compression with gzip, bzip2 or
    /// Zstandard is told by the first octets.
    pub fn load(&mut self, path: &Path) -> Result<LoadReport, RoutingError> {
        let mut report = LoadReport::default();
        if path.extension().is_some_and(|suffix| suffix.eq_ignore_ascii_case("mmdb")) {
            database::load(path, self, &mut report)?;
            return Ok(report);
        }
        let read = |source| RoutingError::Read { path: path.to_owned(), source };
        let (magic, input) = input::open(path).map_err(read)?;
        let loaded = if mrt::begins(&magic) {
            mrt::load(input, self, &mut report)
        } else {
            prefixes::load(input, self, &mut report)
        };
        loaded.map_err(read)?;
        Ok(report)
    }

    /// The table.
    pub fn build(self) -> Result<RouteTable, RoutingError> {
        if self.full {
            return Err(RoutingError::TooMany);
        }
        let (v4, v6) = (settled(self.v4), settled(self.v6));
        let prefixes = [v4.len(), v6.len()];
        Ok(RouteTable { v4: Trie::build(&v4), v6: Trie::build(&v6), attributes: self.attributes, prefixes })
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
