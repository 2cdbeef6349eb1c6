//! Dumps of routing tables: MRT (RFC 6396), with additional paths (RFC 8050).
//!
//! A dump has a record for each prefix with a route from each neighbour. Of these the one with the shortest path is
//! taken (RFC 4271 section 9.1.2.2 a), and of equal ones the first; other rules of the decision process need what a
//! dump does not have. Records of other kinds, such as updates, are skipped.

mod attributes;
mod records;

use std::io::{self, Read};

use super::builder::{LoadReport, RouteTableBuilder};
use super::input::Input;
use records::Peer;

/// Octets of the header of a record (RFC 6396 section 2).
const HEADER_OCTETS: usize = 12;
/// Most octets of a record: a table of some ten thousand neighbours, or a prefix with a route from each.
const RECORD_OCTETS_MAX: u32 = 16 << 20;

/// Types of records (RFC 6396 section 4).
const TABLE_DUMP: u16 = 12;
const TABLE_DUMP_V2: u16 = 13;

/// Types that a dump may begin with: also messages of OSPF and BGP, which are skipped.
const TYPES: [u16; 9] = [11, TABLE_DUMP, TABLE_DUMP_V2, 16, 17, 32, 33, 48, 49];

/// Whether a file begins with a record.
pub(super) fn begins(octets: &[u8]) -> bool {
    let [_, _, _, _, high, low, 0, subtype, a, b, c, d, ..] = *octets else { return false };
    let length = u32::from_be_bytes([a, b, c, d]);
    TYPES.contains(&u16::from_be_bytes([high, low])) && subtype <= 12 && length <= RECORD_OCTETS_MAX
}

/// Adds the routes of a dump.
pub(super) fn load(mut input: Input, table: &mut RouteTableBuilder, report: &mut LoadReport) -> io::Result<()> {
    let mut peers: Vec<Peer> = Vec::new();
    let (mut record, mut place) = (Vec::new(), 0_u64);
    loop {
        let mut header = Vec::with_capacity(HEADER_OCTETS);
        input.by_ref().take(HEADER_OCTETS as u64).read_to_end(&mut header)?;
        let Some(&[_, _, _, _, kind_high, kind_low, sub_high, sub_low, a, b, c, d]) = header.first_chunk() else {
            if !header.is_empty() {
                report.cut(place, "file ends within the header of a record");
            }
            return Ok(());
        };
        let length = u32::from_be_bytes([a, b, c, d]);
        report.records += 1;
        if length > RECORD_OCTETS_MAX {
            // What follows cannot be found.
            report.cut(place, "record is too long");
            return Ok(());
        }
        record.clear();
        input.by_ref().take(length.into()).read_to_end(&mut record)?;
        if record.len() < length as usize {
            report.cut(place, "file ends within a record");
            return Ok(());
        }
        let (kind, subtype) = (u16::from_be_bytes([kind_high, kind_low]), u16::from_be_bytes([sub_high, sub_low]));
        match take(kind, subtype, &record, &mut peers, table) {
            Ok(Some(())) => report.routes += 1,
            Ok(None) => report.skipped += 1,
            Err(what) => report.defect(place, what),
        }
        place += HEADER_OCTETS as u64 + u64::from(length);
    }
}

/// Takes in a record; `None` for one without a route.
fn take(
    kind: u16,
    subtype: u16,
    record: &[u8],
    peers: &mut Vec<Peer>,
    table: &mut RouteTableBuilder,
) -> Result<Option<()>, &'static str> {
    let choice = table.choice();
    let rib = match (kind, subtype) {
        (TABLE_DUMP, 1 | 2) => records::table_dump(record, subtype == 2, choice)?,
        (TABLE_DUMP_V2, 1) => {
            *peers = records::peer_index_table(record)?;
            return Ok(None);
        }
        // Unicast of IPv4 and IPv6, without and with additional paths (RFC 8050 section 4).
        (TABLE_DUMP_V2, 2 | 8) => records::rib(record, false, subtype == 8, peers, choice)?,
        (TABLE_DUMP_V2, 4 | 10) => records::rib(record, true, subtype == 10, peers, choice)?,
        _ => return Ok(None),
    };
    let Some(rib) = rib else { return Ok(None) };
    if table.insert(rib.address, rib.prefix_bits, rib.attributes) {
        Ok(Some(()))
    } else {
        Err("prefix is longer than its address")
    }
}

#[cfg(test)]
mod tests;
