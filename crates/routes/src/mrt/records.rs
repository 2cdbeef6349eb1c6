//! Records of a dump (RFC 6396 sections 4.2 and 4.3).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_wire::Cursor;

use super::super::builder::AsChoice;
use super::super::route_table::Attributes;
use super::attributes::{self, PathAttributes};

/// A neighbour that routes came from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer {
    pub(super) autonomous_system: u32,
}

/// The route of a prefix.
pub(super) struct Rib {
    pub(super) address: IpAddr,
    pub(super) prefix_bits: u8,
    pub(super) attributes: Attributes,
}

const SHORT: &str = "record is shorter than it says";

/// The neighbours that routes refer to (section 4.3.1).
pub(super) fn peer_index_table(record: &[u8]) -> Result<Vec<Peer>, &'static str> {
    let mut cursor = Cursor::new(record);
    let mut read = || {
        cursor.u32()?;
        cursor.list16()?;
        let count = cursor.u16()?;
        let mut peers = Vec::with_capacity(count.into());
        for _ in 0..count {
            let kind = cursor.u8()?;
            cursor.u32()?;
            cursor.take(if kind & 1 == 0 { 4 } else { 16 })?;
            let autonomous_system = if kind & 2 == 0 { cursor.u16()?.into() } else { cursor.u32()? };
            peers.push(Peer { autonomous_system });
        }
        Some(peers)
    };
    read().ok_or("table of neighbours is shorter than it says")
}

/// The best route of a prefix (section 4.3.2); with additional paths each has a number (RFC 8050 section 4.1). `None`
/// when there is none.
pub(super) fn rib(
    record: &[u8],
    v6: bool,
    paths: bool,
    peers: &[Peer],
    choice: AsChoice,
) -> Result<Option<Rib>, &'static str> {
    let mut cursor = Cursor::new(record);
    cursor.u32().ok_or(SHORT)?;
    let prefix_bits = cursor.u8().ok_or(SHORT)?;
    let prefix = cursor.take(usize::from(prefix_bits).div_ceil(8)).ok_or(SHORT)?;
    let address = address(prefix, v6).ok_or("prefix is longer than its address")?;
    let count = cursor.u16().ok_or(SHORT)?;
    let mut best: Option<PathAttributes> = None;
    for _ in 0..count {
        let peer = cursor.u16().ok_or(SHORT)?;
        cursor.u32().ok_or(SHORT)?;
        if paths {
            cursor.u32().ok_or(SHORT)?;
        }
        let octets = cursor.list16().ok_or(SHORT)?;
        let peer = peers.get(usize::from(peer)).ok_or("neighbour is not in the table")?;
        let found = attributes::read(octets, true, choice, peer.autonomous_system)?;
        if best.as_ref().is_none_or(|best| found.path_length < best.path_length) {
            best = Some(found);
        }
    }
    Ok(best.map(|best| Rib { address, prefix_bits, attributes: best.attributes }))
}

/// The route of a record of the first kind (section 4.2), whose numbers have two octets.
pub(super) fn table_dump(record: &[u8], v6: bool, choice: AsChoice) -> Result<Option<Rib>, &'static str> {
    let mut cursor = Cursor::new(record);
    let octets = if v6 { 16 } else { 4 };
    cursor.u32().ok_or(SHORT)?;
    let address = address(cursor.take(octets).ok_or(SHORT)?, v6).ok_or(SHORT)?;
    let prefix_bits = cursor.u8().ok_or(SHORT)?;
    cursor.take(1 + 4 + octets).ok_or(SHORT)?;
    let peer = cursor.u16().ok_or(SHORT)?;
    let found = attributes::read(cursor.list16().ok_or(SHORT)?, false, choice, peer.into())?;
    Ok(Some(Rib { address, prefix_bits, attributes: found.attributes }))
}

/// An address of which the last octets are left out.
fn address(octets: &[u8], v6: bool) -> Option<IpAddr> {
    let mut whole = [0; 16];
    whole.get_mut(..octets.len())?.copy_from_slice(octets);
    if v6 {
        return Some(Ipv6Addr::from(whole).into());
    }
    let [a, b, c, d, rest @ ..] = whole;
    (rest == [0; 12] && octets.len() <= 4).then(|| Ipv4Addr::new(a, b, c, d).into())
}
