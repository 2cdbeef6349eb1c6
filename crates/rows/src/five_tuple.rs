//! The key of a flow as a few machine words: addresses, ports and protocol.
//!
//! Components that know flows by their five-tuple keep it as five words, which are compared and hashed without a branch.
//! What speaks against it is that an IPv4 key needs two of them only.

use arrow::array::{BinaryArray, RecordBatch, UInt8Array, UInt16Array};
use arrow::datatypes::{UInt8Type, UInt16Type};
use weir_chain::ComponentError;
use weir_flow::{Column, FlowBatchBuilder};

use crate::flow_columns::{number, numbers, octets, value};

/// Source, destination, ports and protocol of a flow, in words that are equal when the flows have the same key. Which
/// values are there, and how long addresses are, is part of the last word.
pub type Key = [u64; 5];

const SRC_KIND_SHIFT: u32 = 40;
const DST_KIND_SHIFT: u32 = 45;
const SRC_PORT_NULL: u64 = 1 << 50;
const DST_PORT_NULL: u64 = 1 << 51;
const PROTOCOL_NULL: u64 = 1 << 52;
/// The kind of an address that is null; other kinds are lengths in octets.
const NO_ADDRESS: u64 = 31;
/// The bits of both kinds, and what they are when both addresses are of IPv4.
const KINDS: u64 = 0x3ff << SRC_KIND_SHIFT;
const IPV4_KINDS: u64 = 4 << SRC_KIND_SHIFT | 4 << DST_KIND_SHIFT;

/// The columns of the key.
pub struct Keys<'a> {
    src_addr: Option<&'a BinaryArray>,
    dst_addr: Option<&'a BinaryArray>,
    src_port: Option<&'a UInt16Array>,
    dst_port: Option<&'a UInt16Array>,
    protocol: Option<&'a UInt8Array>,
}

impl<'a> Keys<'a> {
    /// Finds the columns; one that is absent counts as null in every row.
    pub fn new(rows: &'a RecordBatch) -> Result<Self, ComponentError> {
        Ok(Self {
            src_addr: octets(rows, Column::SrcAddr)?,
            dst_addr: octets(rows, Column::DstAddr)?,
            src_port: numbers::<UInt16Type>(rows, Column::SrcPort)?,
            dst_port: numbers::<UInt16Type>(rows, Column::DstPort)?,
            protocol: numbers::<UInt8Type>(rows, Column::Protocol)?,
        })
    }

    /// The key of a row.
    #[inline]
    pub fn key(&self, row: usize) -> Key {
        let (src, src_kind) = address(self.src_addr, row);
        let (dst, dst_kind) = address(self.dst_addr, row);
        let mut last = src_kind << SRC_KIND_SHIFT | dst_kind << DST_KIND_SHIFT;
        last |= number(self.src_port, row).map_or(SRC_PORT_NULL, |port| u64::from(port) << 24);
        last |= number(self.dst_port, row).map_or(DST_PORT_NULL, |port| u64::from(port) << 8);
        last |= number(self.protocol, row).map_or(PROTOCOL_NULL, u64::from);
        [src[0], src[1], dst[0], dst[1], last]
    }
}

/// An address as two words, and its kind. Of what is longer than an address only 16 octets count.
#[inline]
fn address(column: Option<&BinaryArray>, row: usize) -> ([u64; 2], u64) {
    let Some(octets) = value(column, row) else { return ([0; 2], NO_ADDRESS) };
    if let Ok(octets) = <[u8; 4]>::try_from(octets) {
        return ([u64::from(u32::from_be_bytes(octets)), 0], 4);
    }
    let mut padded = [0; 16];
    let len = octets.len().min(16);
    padded[..len].copy_from_slice(&octets[..len]);
    let number = u128::from_be_bytes(padded);
    ([(number >> 64) as u64, number as u64], len as u64)
}

/// The parts of a key, as they were in the columns.
pub struct Parts {
    /// Source address, padded with zeros, and its length in octets.
    pub src_addr: Option<([u8; 16], usize)>,
    /// Destination address, padded with zeros, and its length in octets.
    pub dst_addr: Option<([u8; 16], usize)>,
    /// Source port.
    pub src_port: Option<u16>,
    /// Destination port.
    pub dst_port: Option<u16>,
    /// IP protocol.
    pub protocol: Option<u8>,
}

impl Parts {
    /// Takes a key apart.
    pub fn of(key: &Key) -> Self {
        let last = key[4];
        Self {
            src_addr: octets_of([key[0], key[1]], last >> SRC_KIND_SHIFT & 31),
            dst_addr: octets_of([key[2], key[3]], last >> DST_KIND_SHIFT & 31),
            src_port: (last & SRC_PORT_NULL == 0).then_some((last >> 24) as u16),
            dst_port: (last & DST_PORT_NULL == 0).then_some((last >> 8) as u16),
            protocol: (last & PROTOCOL_NULL == 0).then_some(last as u8),
        }
    }
}

fn octets_of(words: [u64; 2], kind: u64) -> Option<([u8; 16], usize)> {
    let mut octets = [0; 16];
    match kind {
        NO_ADDRESS => return None,
        4 => octets[..4].copy_from_slice(&(words[0] as u32).to_be_bytes()),
        _ => octets = (u128::from(words[0]) << 64 | u128::from(words[1])).to_be_bytes(),
    }
    Some((octets, kind as usize))
}

/// Whether the last word of a key is that of two IPv4 addresses.
#[inline]
pub fn is_ipv4(last: u64) -> bool {
    last & KINDS == IPV4_KINDS
}

/// Appends the keys as columns to the group of rows that was begun.
pub fn append(builder: &mut FlowBatchBuilder, keys: impl ExactSizeIterator<Item = Key> + Clone) {
    if keys.clone().all(|key| is_ipv4(key[4])) {
        builder.address(Column::SrcAddr).extend_fixed(keys.clone().map(|key| (key[0] as u32).to_be_bytes()));
        builder.address(Column::DstAddr).extend_fixed(keys.clone().map(|key| (key[2] as u32).to_be_bytes()));
    } else {
        for key in keys.clone() {
            let Parts { src_addr, dst_addr, .. } = Parts::of(&key);
            builder.address(Column::SrcAddr).push(src_addr.as_ref().map(|(octets, len)| &octets[..*len]));
            builder.address(Column::DstAddr).push(dst_addr.as_ref().map(|(octets, len)| &octets[..*len]));
        }
    }
    if keys.clone().all(|key| key[4] & (SRC_PORT_NULL | DST_PORT_NULL | PROTOCOL_NULL) == 0) {
        builder.u16(Column::SrcPort).extend(keys.clone().map(|key| (key[4] >> 24) as u16));
        builder.u16(Column::DstPort).extend(keys.clone().map(|key| (key[4] >> 8) as u16));
        builder.u8(Column::Protocol).extend(keys.map(|key| key[4] as u8));
    } else {
        for key in keys {
            let parts = Parts::of(&key);
            builder.u16(Column::SrcPort).push(parts.src_port);
            builder.u16(Column::DstPort).push(parts.dst_port);
            builder.u8(Column::Protocol).push(parts.protocol);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_as_they_were() {
        let mut builder = FlowBatchBuilder::new(3);
        builder.begin_rows(3);
        builder.address(Column::SrcAddr).push(Some(&[10, 0, 0, 1]));
        builder.address(Column::SrcAddr).push(Some(&[0xfd, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]));
        builder.address(Column::SrcAddr).push(None);
        builder.address(Column::DstAddr).repeat(&[192, 0, 2, 200], 3);
        builder.u16(Column::SrcPort).push(Some(65_535));
        builder.u16(Column::SrcPort).push(None);
        builder.u16(Column::SrcPort).push(Some(0));
        builder.u16(Column::DstPort).repeat(443, 3);
        builder.u8(Column::Protocol).push(Some(255));
        builder.u8(Column::Protocol).push(Some(0));
        builder.u8(Column::Protocol).push(None);
        let rows = builder.finish().record_batch().clone();
        let keys = Keys::new(&rows).expect("a key");
        let keys: Vec<_> = (0..3).map(|row| keys.key(row)).collect();
        for range in [0..1, 0..3] {
            let mut builder = FlowBatchBuilder::new(3);
            builder.begin_rows(range.len());
            append(&mut builder, keys[range.clone()].iter().copied());
            assert_eq!(builder.finish().record_batch(), &rows.slice(0, range.len()));
        }
    }
}
