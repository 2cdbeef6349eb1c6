//! Operands that are in elements without a column of their own.
//!
//! The entries of all rows are in one array; one pass over their numbers finds those that are wanted, and only their
//! octets are looked at.

use arrow::array::{Array, AsArray, BinaryArray, UInt64Array};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{UInt16Type, UInt32Type};
use weir_flow::{Column, FlowBatch};

use crate::ElementNumber;

/// First and last element of the MPLS label stack.
const MPLS_FIRST: u16 = 70;
const MPLS_LAST: u16 = 79;

/// Calls `found` with the row and octets of every element that `rank` wants, and with its rank.
fn visit<'b>(
    batch: &'b FlowBatch,
    rank: impl Fn(u32, u16) -> Option<usize>,
    mut found: impl FnMut(usize, usize, &'b [u8]),
) -> Option<()> {
    let lists = batch.column(Column::Elements)?.as_list_opt::<i32>()?;
    let entries = lists.values().as_struct_opt()?;
    let enterprises = entries.column(0).as_primitive_opt::<UInt32Type>()?.values();
    let ids = entries.column(1).as_primitive_opt::<UInt16Type>()?.values();
    let octets: &BinaryArray = entries.column(2).as_binary_opt()?;
    for (row, ends) in lists.value_offsets().windows(2).enumerate() {
        if lists.is_null(row) {
            continue;
        }
        for entry in ends[0] as usize..ends[1] as usize {
            if let Some(rank) = rank(enterprises[entry], ids[entry]) {
                found(row, rank, octets.value(entry));
            }
        }
    }
    Some(())
}

/// The octets as a number; of more than 16 the last count.
fn number_of(octets: &[u8]) -> u128 {
    octets.iter().fold(0, |number, octet| number << 8 | u128::from(*octet))
}

/// The values of a number in an element; `None` when no flow has elements.
pub(super) fn numbers(batch: &FlowBatch, number: ElementNumber) -> Option<UInt64Array> {
    let rank = |enterprise, id| number.elements.iter().position(|known| *known == (enterprise, id));
    let mut values = vec![None; batch.rows()];
    let mut ranks = vec![usize::MAX; batch.rows()];
    visit(batch, rank, |row, rank, octets| {
        if rank < ranks[row] {
            ranks[row] = rank;
            let shifted = number_of(octets).checked_shr(number.shift.into()).unwrap_or(0);
            let mask = u128::MAX.checked_shr(128 - u32::from(number.bits.min(64))).unwrap_or(0);
            values[row] = Some((shifted & mask) as u64);
        }
    })?;
    Some(values.into())
}

/// The label at the bottom of each MPLS stack.
pub(super) fn mpls_bottom(batch: &FlowBatch) -> Option<UInt64Array> {
    let rank = |enterprise, id| {
        (enterprise == 0 && (MPLS_FIRST..=MPLS_LAST).contains(&id)).then(|| usize::from(id - MPLS_FIRST))
    };
    // Of each row: which entries of the stack were seen, as bits, and the place of the one that is in `values`.
    let mut rows = vec![(0_u16, usize::MAX); batch.rows()];
    let mut values = vec![None; batch.rows()];
    visit(batch, rank, |row, rank, octets| {
        let (seen, best) = &mut rows[row];
        let is_first = *seen >> rank & 1 == 0;
        *seen |= 1 << rank;
        let entry = number_of(octets);
        if is_first && entry & 1 == 1 && rank < *best {
            *best = rank;
            values[row] = Some((entry >> 4 & 0xf_ffff) as u64);
        }
    })?;
    Some(values.into())
}

/// Which rows have an element whose text is wanted: of each row the preferred of `elements` that it has.
pub(super) fn text_where(
    batch: &FlowBatch,
    elements: &[(u32, u16)],
    is_wanted: impl Fn(&str) -> bool,
) -> Option<BooleanBuffer> {
    let rank = |enterprise, id| elements.iter().position(|known| *known == (enterprise, id));
    let mut equal = vec![false; batch.rows()];
    let mut ranks = vec![usize::MAX; batch.rows()];
    visit(batch, rank, |row, rank, octets| {
        if rank < ranks[row] {
            ranks[row] = rank;
            let length = octets.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
            equal[row] = std::str::from_utf8(&octets[..length]).is_ok_and(&is_wanted);
        }
    })?;
    Some(equal.into())
}
