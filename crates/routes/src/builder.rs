//! Collects routes from files and builds the table.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::database::{Database, DatabaseError, Network};
use super::prefix_map::{PrefixMapBuilder, TooManyPrefixes};
use super::route_table::{Attributes, RouteTable};
use super::{input, mrt, prefix_lines};

/// Which autonomous system of a path is taken.
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

/// Most defects of a file that are reported one by one.
const DEFECTS_MAX: usize = 16;

/// What a file contained.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Records of a dump, lines of a file, networks of a database.
    pub records: u64,
    /// Prefixes taken.
    pub routes: u64,
    /// Records without a route: other kinds of records, lines without a prefix, networks without a number.
    pub skipped: u64,
    /// Records or lines that could not be used.
    pub defective: u64,
    /// The first of these.
    pub defects: Vec<Defect>,
    /// What follows the last defect could not be read: the file ends too early, or is damaged between its records.
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
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// More than a table can hold.
    #[error(transparent)]
    TooMany(#[from] TooManyPrefixes),
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
    pub(super) prefixes: PrefixMapBuilder<Attributes>,
}

impl Default for RouteTableBuilder {
    fn default() -> Self {
        Self::new(AsChoice::default())
    }
}

impl RouteTableBuilder {
    /// An empty one.
    pub fn new(choice: AsChoice) -> Self {
        Self { choice, prefixes: PrefixMapBuilder::new(PREFIXES_MAX) }
    }

    /// Which autonomous system of a path is taken.
    pub(super) fn choice(&self) -> AsChoice {
        self.choice
    }

    /// Adds a route; `false` when the prefix is longer than its address.
    pub fn insert(&mut self, address: IpAddr, prefix_bits: u8, attributes: Attributes) -> bool {
        self.prefixes.insert(address, prefix_bits, attributes)
    }

    /// Adds the routes of a file, whatever it is: an MRT dump of a routing table (RFC 6396, RFC 8050), a `MaxMind`
    /// database of autonomous systems, or else lines of prefixes. A dump is recognized by its first octets and so
    /// is compression with gzip, bzip2 or Zstandard; a database by its suffix `.mmdb`, or by the mark near its end.
    pub fn load(&mut self, path: &Path) -> Result<LoadReport, RoutingError> {
        let mut report = LoadReport::default();
        let read = |source| RoutingError::Read { path: path.to_owned(), source };
        let has_suffix = path.extension().is_some_and(|suffix| suffix.eq_ignore_ascii_case("mmdb"));
        if has_suffix || Database::is_one(path).map_err(read)? {
            self.load_database(path, &mut report)?;
            return Ok(report);
        }
        let (magic, input) = input::open(path).map_err(read)?;
        let loaded = if mrt::begins(&magic) {
            mrt::load(input, self, &mut report)
        } else {
            prefix_lines::load(input, self, &mut report)
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

    fn load_database(&mut self, path: &Path, report: &mut LoadReport) -> Result<(), RoutingError> {
        let database = Database::open(path)?;
        database.walk_autonomous_systems(|network| {
            report.records += 1;
            let Network { address, prefix_bits, value: Some(autonomous_system), .. } = network else {
                report.skipped += 1;
                return;
            };
            let attributes = Attributes { autonomous_system, ..Attributes::default() };
            if let Some((address, prefix_bits)) = network.as_all_ipv4() {
                self.insert(address, prefix_bits, attributes);
            }
            if self.insert(address, prefix_bits, attributes) {
                report.routes += 1;
            } else {
                report.defect(network.offset as u64, "prefix is longer than its address");
            }
        })?;
        Ok(())
    }

    /// The table.
    ///
    /// # Errors
    ///
    /// When there were more routes than it can have.
    pub fn build(self) -> Result<RouteTable, RoutingError> {
        Ok(self.prefixes.build()?.into())
    }
}
