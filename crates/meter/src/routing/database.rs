//! Autonomous systems of a `MaxMind` database.
//!
//! The tree of the file is walked once. Networks in which IPv4 is led to from IPv6 are left out by the reader, so that
//! each is taken once.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use maxminddb::{LookupResult, MaxMindDbError, Reader, WithinOptions, path};

use super::Attributes;
use super::builder::{LoadReport, RouteTableBuilder, RoutingError};

/// More networks than any database of addresses has; a damaged tree can lead into itself and never end.
const NETWORKS_MAX: usize = 1 << 26;

/// What stands before the metadata, within the last octets of the file (`MaxMind` DB 2.0, "Database Metadata").
const MARK: &[u8] = b"\xab\xcd\xefMaxMind.com";
const METADATA_OCTETS_MAX: u64 = 128 << 10;

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

/// Adds the networks of a database.
pub(super) fn load(file: &Path, table: &mut RouteTableBuilder, report: &mut LoadReport) -> Result<(), RoutingError> {
    let unusable = |source| RoutingError::Database { path: file.to_owned(), source };
    let reader = Reader::open_readfile(file).map_err(unusable)?;
    // Many networks share a record.
    let mut numbers: HashMap<usize, Option<u32>> = HashMap::new();
    for found in reader.networks(WithinOptions::default()).map_err(unusable)?.take(NETWORKS_MAX) {
        let found = found.map_err(unusable)?;
        report.records += 1;
        let Some(offset) = found.offset() else {
            report.skipped += 1;
            continue;
        };
        let number = match numbers.get(&offset) {
            Some(known) => *known,
            None => *numbers.entry(offset).or_insert(autonomous_system(&found).map_err(unusable)?),
        };
        let network = found.network().map_err(unusable)?;
        let Some(autonomous_system) = number else {
            report.skipped += 1;
            continue;
        };
        let attributes = Attributes { autonomous_system, ..Attributes::default() };
        if network.ip() == Ipv6Addr::UNSPECIFIED && network.prefix() <= 96 {
            // The place of IPv4 in the tree lies inside.
            table.insert(Ipv4Addr::UNSPECIFIED.into(), 0, attributes);
        }
        if table.insert(network.ip(), network.prefix(), attributes) {
            report.routes += 1;
        } else {
            report.defect(offset as u64, "prefix is longer than its address");
        }
    }
    if report.routes == 0 {
        let kind = reader.metadata().database_type.clone();
        return Err(RoutingError::NoNumbers { path: file.to_owned(), kind });
    }
    Ok(())
}

/// `MaxMind` and DB-IP write a number, `IPinfo` the text `AS64500`.
fn autonomous_system(found: &LookupResult<'_, Vec<u8>>) -> Result<Option<u32>, MaxMindDbError> {
    if let Some(number) = found.decode_path(&path!["autonomous_system_number"])? {
        return Ok(Some(number));
    }
    let text: Option<String> = found.decode_path(&path!["asn"])?;
    Ok(text.and_then(|text| text.strip_prefix("AS")?.parse().ok()))
}
