//! What the correlator needs of a flow, read column by column.

use std::collections::VecDeque;

use arrow::array::{BinaryArray, RecordBatch, UInt8Array, UInt16Array};
use arrow::datatypes::{TimestampMillisecondType, UInt8Type, UInt16Type, UInt64Type};
use weir_chain::BlockError;
use weir_flow::Column;

use crate::flow_columns::{number, numbers, octets, value};

/// Source, destination, ports and protocol of a flow, in words that are equal when the flows have the same key. Which
/// values are there, and how long addresses are, is part of the last word.
pub(super) type Key = [u64; 5];

/// A flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub key: Key,
    /// The time by which inputs are merged; one of the next two.
    pub time: i64,
    pub start: Option<i64>,
    pub end: Option<i64>,
    pub packets: u64,
    pub bytes: u64,
}

/// Which time counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Times {
    Start,
    End,
}

const SRC_KIND_SHIFT: u32 = 40;
const DST_KIND_SHIFT: u32 = 45;
const SRC_PORT_NULL: u64 = 1 << 50;
const DST_PORT_NULL: u64 = 1 << 51;
const PROTOCOL_NULL: u64 = 1 << 52;
/// The kind of an address that is null; other kinds are lengths in octets.
const NO_ADDRESS: u64 = 31;

/// Appends the rows of a batch that have a time; returns how many have none.
pub(super) fn read(rows: &RecordBatch, times: Times, to: &mut VecDeque<Row>) -> Result<u64, BlockError> {
    let start = numbers::<TimestampMillisecondType>(rows, Column::Start)?;
    let end = numbers::<TimestampMillisecondType>(rows, Column::End)?;
    let packets = numbers::<UInt64Type>(rows, Column::Packets)?;
    let bytes = numbers::<UInt64Type>(rows, Column::Bytes)?;
    let keys = Keys::new(rows)?;
    let mut without_time = 0;
    to.reserve(rows.num_rows());
    for row in 0..rows.num_rows() {
        let (start, end) = (number(start, row), number(end, row));
        let Some(time) = (if times == Times::Start { start } else { end }) else {
            without_time += 1;
            continue;
        };
        let (packets, bytes) = (number(packets, row).unwrap_or(0), number(bytes, row).unwrap_or(0));
        to.push_back(Row { key: keys.key(row), time, start, end, packets, bytes });
    }
    Ok(without_time)
}

/// The columns of the key.
struct Keys<'a> {
    src_addr: Option<&'a BinaryArray>,
    dst_addr: Option<&'a BinaryArray>,
    src_port: Option<&'a UInt16Array>,
    dst_port: Option<&'a UInt16Array>,
    protocol: Option<&'a UInt8Array>,
}

impl<'a> Keys<'a> {
    fn new(rows: &'a RecordBatch) -> Result<Self, BlockError> {
        Ok(Self {
            src_addr: octets(rows, Column::SrcAddr)?,
            dst_addr: octets(rows, Column::DstAddr)?,
            src_port: numbers::<UInt16Type>(rows, Column::SrcPort)?,
            dst_port: numbers::<UInt16Type>(rows, Column::DstPort)?,
            protocol: numbers::<UInt8Type>(rows, Column::Protocol)?,
        })
    }

    #[inline]
    fn key(&self, row: usize) -> Key {
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
pub(super) struct Parts {
    pub src_addr: Option<([u8; 16], usize)>,
    pub dst_addr: Option<([u8; 16], usize)>,
    pub src_port: Option<u16>,
    pub dst_port: Option<u16>,
    pub protocol: Option<u8>,
}

impl Parts {
    pub(super) fn of(key: &Key) -> Self {
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
