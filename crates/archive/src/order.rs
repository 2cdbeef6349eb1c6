//! The order of flows in a segment: by protocol, service port, the side that has it, its address, and start.
//!
//! The service port is the smaller of the two ports. Rows of one service lie together, so that a question about a port
//! or a server reads few pages; within a service rows of one address lie together, in the order of time.
//!
//! Every row becomes one 128-bit number that holds its whole key and, below it, the number of the row, so sorting
//! moves no rows, compares no columns and needs no stability. From the top: protocol (8 bits), service port (16), side
//! (1), address family (1), address (32: of IPv4 the address itself, of IPv6 its rank among those that occur), 6 unused
//! bits, start (32 bits of milliseconds around the time of collection), row (32).

use arrow::array::{Array, BinaryArray, PrimitiveArray, TimestampMillisecondArray};
use arrow::datatypes::{ArrowPrimitiveType, TimestampMillisecondType, UInt8Type, UInt16Type};
use weir_flow::{Column, FlowBatch};

/// Start times this far from the first time of collection, either way, are told apart; others tie. About 24 days.
const START_REACH_MS: i64 = 1 << 31;
const ADDRESS_SHIFT: u32 = 64 + 6;
const GROUP_SHIFT: u32 = ADDRESS_SHIFT + 32;

/// What of one batch the order depends on.
struct KeyColumns<'a> {
    protocols: Option<&'a PrimitiveArray<UInt8Type>>,
    ports: [Option<&'a PrimitiveArray<UInt16Type>>; 2],
    addresses: [Option<&'a BinaryArray>; 2],
    starts: Option<&'a TimestampMillisecondArray>,
}

fn value<T: ArrowPrimitiveType>(column: Option<&PrimitiveArray<T>>, row: usize) -> Option<T::Native> {
    column.filter(|column| column.is_valid(row)).map(|column| column.value(row))
}

impl<'a> KeyColumns<'a> {
    fn of(batch: &'a FlowBatch) -> Self {
        Self {
            protocols: batch.primitive(Column::Protocol),
            ports: [batch.primitive(Column::SrcPort), batch.primitive(Column::DstPort)],
            addresses: [batch.binary(Column::SrcAddr), batch.binary(Column::DstAddr)],
            starts: batch.primitive::<TimestampMillisecondType>(Column::Start),
        }
    }

    /// The key of a row without its number, and the address when it is too long to be part of the key.
    #[inline]
    fn key(&self, row: usize, first_start_ms: i64) -> (u128, Option<u128>) {
        // Rows without a port come after all that have one.
        let [src, dst] = self.ports.map(|ports| value(ports, row).unwrap_or(u16::MAX));
        let side = usize::from(dst < src);
        let service = src.min(dst);
        let address = self.addresses[side].filter(|addresses| addresses.is_valid(row));
        let address = address.map(|addresses| addresses.value(row)).unwrap_or_default();
        let long: Option<[u8; 16]> = address.try_into().ok();
        let short: u32 = address.first_chunk().map_or(0, |octets| u32::from_be_bytes(*octets));
        let start = value(self.starts, row)
            .map_or(0, |start| start.saturating_sub(first_start_ms).clamp(0, i64::from(u32::MAX)) as u32);
        let group = u128::from(value(self.protocols, row).unwrap_or_default()) << 18
            | u128::from(service) << 2
            | (side as u128) << 1
            | u128::from(long.is_some());
        let address_bits = if long.is_some() { 0 } else { u128::from(short) << ADDRESS_SHIFT };
        (group << GROUP_SHIFT | address_bits | u128::from(start) << 32, long.map(u128::from_be_bytes))
    }
}

/// Columns that the order depends on, in the order of the table.
pub(crate) const KEY_COLUMNS: [Column; 6] =
    [Column::Start, Column::SrcAddr, Column::DstAddr, Column::SrcPort, Column::DstPort, Column::Protocol];

/// Numbers of the rows of all batches, counted through from the first batch, in the order of a segment. The batches
/// need no other columns than [`KEY_COLUMNS`]; `rows` is how many rows they have, about.
pub(crate) fn by_service<E>(
    rows: usize,
    first_received_ms: i64,
    batches: impl Iterator<Item = Result<FlowBatch, E>>,
) -> Result<Vec<u32>, E> {
    let first_start_ms = first_received_ms.saturating_sub(START_REACH_MS);
    let mut keys: Vec<u128> = Vec::with_capacity(rows);
    let mut long_addresses: Vec<(u128, u32)> = Vec::new();
    for batch in batches {
        let batch = batch?;
        let columns = KeyColumns::of(&batch);
        for row in 0..batch.rows() {
            let (key, long) = columns.key(row, first_start_ms);
            let number = keys.len() as u32;
            keys.push(key | u128::from(number));
            long_addresses.extend(long.map(|address| (address, number)));
        }
    }
    put_ranks(&mut keys, long_addresses);
    keys.sort_unstable();
    Ok(keys.into_iter().map(|key| key as u32).collect())
}

/// Gives rows with addresses of 128 bits the rank of the address instead: there are at most as many as rows.
fn put_ranks(keys: &mut [u128], mut addresses: Vec<(u128, u32)>) {
    addresses.sort_unstable();
    let mut rank: u32 = 0;
    let mut before = None;
    for (address, row) in addresses {
        rank += u32::from(before.is_some_and(|before| before != address));
        before = Some(address);
        keys[row as usize] |= u128::from(rank) << ADDRESS_SHIFT;
    }
}

#[cfg(test)]
mod tests;
