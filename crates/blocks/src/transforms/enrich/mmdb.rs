//! `MaxMind` DB files, read into ranges.
//!
//! A file is a binary tree over the bits of addresses with records at its leaves. It is walked once, when it is loaded:
//! what is wrong with it shows at the start and not when an address happens to lead there, and afterwards nothing is
//! decoded any more. What speaks against it is the time of the walk, about a second for some million networks, which a
//! thread of its own spends when a file changes.
//!
//! Trees lead some IPv6 prefixes (mapped and 6to4 addresses) into the tree of IPv4. Mapped addresses are found as IPv4
//! addresses; the others are left out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;

use arrow::array::StringArray;
use maxminddb::{LookupResult, MaxMindDbError, Reader, WithinOptions, path};
use weir_chain::ComponentError;

use super::ranges::{NONE, Prefix, Ranges};

/// More networks than any database of addresses has; a damaged tree can lead into itself and never end.
const NETWORKS_MAX: usize = 1 << 26;

type Found<'a> = LookupResult<'a, Vec<u8>>;

/// Autonomous systems of addresses, by their numbers.
pub(super) fn autonomous_systems(file: &Path) -> Result<Ranges, ComponentError> {
    load(file, "autonomous system numbers", autonomous_system)
}

/// Countries of addresses: ranges of indexes, and the ISO codes that these stand for.
pub(super) fn countries(file: &Path) -> Result<(Ranges, StringArray), ComponentError> {
    let mut codes: Vec<String> = Vec::new();
    let mut known: HashMap<String, u32> = HashMap::new();
    let ranges = load(file, "country codes", |found| {
        Ok(country(found)?.map(|code| {
            *known.entry(code).or_insert_with_key(|code| {
                codes.push(code.clone());
                codes.len() as u32 - 1
            })
        }))
    })?;
    Ok((ranges, StringArray::from(codes)))
}

fn load(
    file: &Path,
    what: &str,
    mut value: impl FnMut(&Found) -> Result<Option<u32>, MaxMindDbError>,
) -> Result<Ranges, ComponentError> {
    let unreadable = |error| ComponentError::caused(format!("database {} cannot be read", file.display()), error);
    let reader = Reader::open_readfile(file).map_err(unreadable)?;
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    let mut values: HashMap<usize, u32> = HashMap::new();
    for (count, found) in reader.networks(WithinOptions::default()).map_err(unreadable)?.enumerate() {
        if count == NETWORKS_MAX {
            return Err(ComponentError::new(format!("database {} has more than {count} networks", file.display())));
        }
        let found = found.map_err(unreadable)?;
        let Some(offset) = found.offset() else { continue };
        let value = match values.get(&offset) {
            Some(known) => *known,
            None => *values.entry(offset).or_insert(value(&found).map_err(unreadable)?.unwrap_or(NONE)),
        };
        let network = found.network().map_err(unreadable)?;
        let bits = network.prefix();
        match network.ip() {
            IpAddr::V4(address) => v4.push(Prefix { first: u128::from(u32::from(address)) << 96, bits, value }),
            IpAddr::V6(address) => {
                let prefix = Prefix { first: address.into(), bits, value };
                if prefix.first == 0 && bits <= 96 {
                    // the place of IPv4 in the tree lies inside
                    v4.push(Prefix { bits: 0, ..prefix });
                }
                v6.push(prefix);
            }
        }
    }
    if values.values().all(|value| *value == NONE) {
        let (name, kind) = (file.display(), &reader.metadata().database_type);
        return Err(ComponentError::new(format!("database {name} of type '{kind}' has no {what}")));
    }
    Ok(Ranges::new(v4, v6))
}

/// `MaxMind` and DB-IP write a number, `IPinfo` the text `AS64500`.
fn autonomous_system(found: &Found) -> Result<Option<u32>, MaxMindDbError> {
    if let Some(number) = found.decode_path(&path!["autonomous_system_number"])? {
        return Ok(Some(number));
    }
    let text: Option<String> = found.decode_path(&path!["asn"])?;
    Ok(text.and_then(|text| text.strip_prefix("AS")?.parse().ok()))
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
