//! The order of flows in a segment: by protocol, service port and the side that has it; within a service by boxes of
//! addresses, one box a page; within a page by source network and destination.
//!
//! The service port is the smaller of the two ports. Rows of one service lie together, so that a question about a port
//! reads few pages. The rows of a service are halved again and again, by the address of the service's side and by the
//! other address in turn, until what is left fits into a page (a k-d tree, Bentley 1975). So a page holds few addresses
//! of either side, and a question about a host, whichever side it is on, reads about the root of the pages of a
//! service instead of all of them. Halves end where pages end, so that all pages are full. What speaks against it is
//! that no column is sorted through the segment any more.
//!
//! Addresses are numbers here, see [`hosts`]. The alternatives measured are in
//! `docs/decisions/0010-layout-for-reading.md`.

mod flow_order;
pub(crate) mod hosts;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{UInt8Type, UInt16Type};
use weir_flow::{Column, Table};

use crate::ArchiveError;
use crate::segment::{Columns, PAGE_ROWS};
use hosts::{HostCollector, Hosts, NO_HOST};

pub(crate) use flow_order::FlowOrder;

/// What the order of one row depends on.
#[derive(Debug, Clone, Copy, Default)]
struct Key {
    /// From the top: protocol (8 bits), service port (16), side (1).
    class: u32,
    /// The address on the side of the service port, and the other one.
    addresses: [u32; 2],
    row: u32,
}

/// The order of all rows of some flows.
pub(crate) fn flow_order(columns: &Columns<'_>) -> Result<FlowOrder, ArchiveError> {
    let classes = classes(columns)?;
    let (hosts, host_numbers) = number_hosts(columns, classes.len())?;
    let rows = sort(classes, &host_numbers, &hosts.networks(), PAGE_ROWS);
    Ok(FlowOrder { rows, hosts, host_numbers })
}

/// The class of each row, see [`Key`].
fn classes(columns: &Columns<'_>) -> Result<Vec<u32>, ArchiveError> {
    let rows = columns.rows();
    let mut ports = [vec![u16::MAX; rows], vec![u16::MAX; rows]];
    for (column, ports) in [Column::SrcPort, Column::DstPort].into_iter().zip(&mut ports) {
        each(columns, column, |at, piece| fill_ports(&mut ports[at..], piece))?;
    }
    // Rows without a port come after all that have one.
    let class = |(src, dst): (&u16, &u16)| u32::from(*src.min(dst)) << 1 | u32::from(dst < src);
    let mut classes: Vec<u32> = ports[0].iter().zip(&ports[1]).map(class).collect();
    each(columns, Column::Protocol, |at, piece| {
        let Some(values) = piece.as_primitive_opt::<UInt8Type>() else { return };
        for (class, value) in classes[at..].iter_mut().zip(values.iter()) {
            *class |= u32::from(value.unwrap_or_default()) << 17;
        }
    })?;
    Ok(classes)
}

/// Calls `take` with each piece of a column and the number of its first row. A column that is not there has no pieces.
fn each(columns: &Columns<'_>, column: Column, mut take: impl FnMut(usize, &ArrayRef)) -> Result<(), ArchiveError> {
    let schema = Table::Flows.schema();
    let mut at = 0;
    columns.each(schema.field(column as usize), |piece| {
        take(at, &piece);
        at += piece.len();
    })?;
    Ok(())
}

fn fill_ports(ports: &mut [u16], piece: &ArrayRef) {
    let Some(values) = piece.as_primitive_opt::<UInt16Type>() else { return };
    if values.null_count() == 0 {
        return ports[..values.len()].copy_from_slice(values.values());
    }
    for (port, value) in ports.iter_mut().zip(values.iter()) {
        *port = value.unwrap_or(u16::MAX);
    }
}

/// The addresses of both columns, and their numbers row by row.
fn number_hosts(columns: &Columns<'_>, rows: usize) -> Result<(Hosts, [Vec<u32>; 2]), ArchiveError> {
    let mut collector = HostCollector::new();
    let mut numbers = [Vec::with_capacity(rows), Vec::with_capacity(rows)];
    for (column, numbers) in [Column::SrcAddr, Column::DstAddr].into_iter().zip(&mut numbers) {
        each(columns, column, |_, piece| collector.add(piece, |number| numbers.push(number)))?;
        numbers.resize(rows, NO_HOST);
    }
    let (hosts, ranks) = collector.finish();
    for number in numbers.iter_mut().flatten() {
        *number = ranks[*number as usize];
    }
    Ok((hosts, numbers))
}

/// The rows in order, for pages of `page_rows` rows.
fn sort(classes: Vec<u32>, host_numbers: &[Vec<u32>; 2], networks: &[u32], page_rows: usize) -> Vec<u32> {
    let mut keys = clustered(&classes, host_numbers);
    drop(classes);
    let mut at = 0;
    for service in keys.chunk_by_mut(|a, b| a.class == b.class) {
        let rows = service.len();
        halve(service, at, 0, page_rows);
        at += rows;
    }
    let mut packed = Vec::with_capacity(page_rows.min(keys.len()));
    let mut rows = Vec::with_capacity(keys.len());
    let row_bits = keys.len().max(1).ilog2() + 1;
    let host_bits = networks.len().max(1).ilog2() + 1;
    for page in keys.chunks(page_rows) {
        packed.clear();
        packed.extend(page.iter().map(|key| {
            let [src, dst] = if key.class & 1 == 1 { [key.addresses[1], key.addresses[0]] } else { key.addresses };
            let network = u128::from(networks.get(src as usize).copied().unwrap_or(0));
            (network << host_bits | u128::from(dst)) << row_bits | u128::from(key.row)
        }));
        packed.sort_unstable();
        rows.extend(packed.iter().map(|key| (key & ((1 << row_bits) - 1)) as u32));
    }
    rows
}

/// Bits of a class that are looked at in one go: two goes see all 25.
const DIGIT_BITS: u32 = 13;

/// The keys of all rows, class by class; rows of one class stay as they came.
fn clustered(classes: &[u32], host_numbers: &[Vec<u32>; 2]) -> Vec<Key> {
    let key = |row: u32| {
        let class = classes[row as usize];
        let [src, dst] = [0, 1].map(|side| host_numbers[side][row as usize]);
        Key { class, addresses: if class & 1 == 1 { [dst, src] } else { [src, dst] }, row }
    };
    by_class(classes).into_iter().map(key).collect()
}

/// The rows by class. Counting takes two passes over them, comparing some twenty. Keys are made after that, because a
/// second copy of them would be what takes most memory of all sealing.
fn by_class(classes: &[u32]) -> Vec<u32> {
    let mut rows = vec![0; classes.len()];
    count_into(classes, 0..classes.len() as u32, &mut rows, 0);
    let mut sorted = vec![0; classes.len()];
    count_into(classes, rows.iter().copied(), &mut sorted, DIGIT_BITS);
    sorted
}

fn count_into(classes: &[u32], rows: impl Iterator<Item = u32>, to: &mut [u32], shift: u32) {
    let digit = |class: u32| (class >> shift) as usize & ((1 << DIGIT_BITS) - 1);
    let mut places = vec![0u32; 1 << DIGIT_BITS];
    for class in classes {
        places[digit(*class)] += 1;
    }
    let mut before = 0;
    for place in &mut places {
        before += std::mem::replace(place, before);
    }
    for row in rows {
        let place = &mut places[digit(classes[row as usize])];
        to[*place as usize] = row;
        *place += 1;
    }
}

/// Splits rows that begin at row `at` of the segment into pages.
fn halve(keys: &mut [Key], at: usize, depth: usize, page_rows: usize) {
    let end = at + keys.len();
    let first_boundary = at / page_rows + 1;
    let boundaries = end.div_ceil(page_rows).saturating_sub(first_boundary);
    if boundaries == 0 {
        return;
    }
    let middle = (first_boundary + boundaries / 2) * page_rows;
    let (one, other) = (depth % 2, (depth + 1) % 2);
    let order = |key: &Key| (u64::from(key.addresses[one]) << 32 | u64::from(key.addresses[other]), key.row);
    keys.select_nth_unstable_by_key(middle - at, order);
    let (before, after) = keys.split_at_mut(middle - at);
    halve(before, at, depth + 1, page_rows);
    halve(after, middle, depth + 1, page_rows);
}

#[cfg(test)]
mod tests;
