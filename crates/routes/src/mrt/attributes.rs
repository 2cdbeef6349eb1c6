//! Attributes of a path (RFC 4271 section 4.3).

use std::net::IpAddr;

use weir_wire::Cursor;

use super::super::builder::AsChoice;
use super::super::route_table::Attributes;

/// Types of attributes (RFC 4271 section 5.1, RFC 4760 section 3, RFC 6793 section 3).
const AS_PATH: u8 = 2;
const NEXT_HOP: u8 = 3;
const MP_REACH_NLRI: u8 = 14;
const AS4_PATH: u8 = 17;
/// Flag of an attribute whose length has two octets.
const EXTENDED_LENGTH: u8 = 0x10;

/// Types of segments (RFC 4271 section 4.3, RFC 5065 section 3); those of a confederation are left out.
const AS_SET: u8 = 1;
const AS_SEQUENCE: u8 = 2;

/// Stands for numbers that do not fit into two octets (RFC 6793 section 9).
const AS_TRANS: u32 = 23_456;

/// What is taken of the attributes of a path.
#[derive(Debug, Clone, Copy)]
pub(super) struct PathAttributes {
    pub(super) attributes: Attributes,
    /// Its length as the decision process counts it (RFC 4271 section 9.1.2.2 a).
    pub(super) path_length: usize,
}

/// What is asked of a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Path {
    first: Option<u32>,
    /// The last number, if the path ends with a sequence or with a set of one (RFC 6811 section 2).
    origin: Option<u32>,
    length: usize,
}

/// Reads attributes; `wide` says that numbers have four octets. A path without numbers begins and ends in the
/// neighbour's own system.
pub(super) fn read(octets: &[u8], wide: bool, choice: AsChoice, peer: u32) -> Result<PathAttributes, &'static str> {
    let mut cursor = Cursor::new(octets);
    let (mut path, mut wide_path, mut bgp_next_hop) = (Path::default(), None, None);
    while !cursor.rest.is_empty() {
        let (kind, value) = attribute(&mut cursor).ok_or("attribute is longer than its record")?;
        match kind {
            AS_PATH => path = read_path(value, wide).ok_or("path contradicts itself")?,
            AS4_PATH if !wide => wide_path = Some(read_path(value, true).ok_or("path contradicts itself")?),
            NEXT_HOP => bgp_next_hop = address(value),
            MP_REACH_NLRI => bgp_next_hop = next_hop(value).or(bgp_next_hop),
            _ => {}
        }
    }
    // RFC 6793 section 4.2.3: the wide path is the end of the other one, unless it is longer.
    if let Some(wide_path) = wide_path.filter(|wide_path| wide_path.length <= path.length) {
        path.origin = wide_path.origin;
        if wide_path.length == path.length || path.first == Some(AS_TRANS) {
            path.first = wide_path.first;
        }
    }
    let number = if path.length == 0 { Some(peer) } else { path.chosen(choice) };
    let attributes = Attributes { autonomous_system: number.unwrap_or_default(), next_hop: None, bgp_next_hop };
    Ok(PathAttributes { attributes, path_length: path.length })
}

impl Path {
    fn chosen(&self, choice: AsChoice) -> Option<u32> {
        match choice {
            AsChoice::Origin => self.origin,
            AsChoice::Peer => self.first,
        }
    }
}

fn attribute<'a>(cursor: &mut Cursor<'a>) -> Option<(u8, &'a [u8])> {
    let (flags, kind) = (cursor.u8()?, cursor.u8()?);
    let value = if flags & EXTENDED_LENGTH == 0 { cursor.list8()? } else { cursor.list16()? };
    Some((kind, value))
}

/// Reads the segments of a path.
fn read_path(octets: &[u8], wide: bool) -> Option<Path> {
    let mut cursor = Cursor::new(octets);
    let mut path = Path::default();
    while !cursor.rest.is_empty() {
        let (kind, count) = (cursor.u8()?, usize::from(cursor.u8()?));
        let octets = cursor.take(count * if wide { 4 } else { 2 })?;
        let mut numbers = Cursor::new(octets);
        let mut next = || if wide { numbers.u32() } else { numbers.u16().map(u32::from) };
        let first = next();
        match kind {
            AS_SEQUENCE => {
                path.first = path.first.or(first);
                path.length += count;
                path.origin = std::iter::from_fn(next).last().or(first);
            }
            // A set counts as one, and gives an origin only when it has one member.
            AS_SET => {
                path.first = path.first.or(first.filter(|_| count == 1));
                path.length += 1;
                path.origin = first.filter(|_| count == 1);
            }
            _ => {}
        }
    }
    Some(path)
}

/// The next hop in the short form of dumps (RFC 6396 section 4.3.4), or in the whole attribute that some programs write.
fn next_hop(value: &[u8]) -> Option<IpAddr> {
    let mut cursor = Cursor::new(value);
    // The whole attribute begins with an address family, whose first octet is 0.
    if value.first() == Some(&0) {
        cursor.take(3)?;
    }
    address(cursor.list8()?)
}

/// An address; of a global and a link-local one the first.
fn address(octets: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(octets) {
        return Some(octets.into());
    }
    octets.first_chunk::<16>().map(|octets| IpAddr::from(*octets))
}
