//! Columns of addresses whose octets are replaced in place.
//!
//! The length of a value stays, so a column keeps its offsets and only octets are written.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryArray};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};

/// The column with each value rewritten, and how many values were no addresses. `rewrite` is false for what it cannot
/// rewrite: such a value becomes null, and its octets zero.
pub fn rewritten(column: &BinaryArray, mut rewrite: impl FnMut(&mut [u8]) -> bool) -> (ArrayRef, usize) {
    let (offsets, mut octets) = own_octets(column);
    let mut unreadable = Vec::new();
    for (row, ends) in offsets.windows(2).enumerate() {
        let value = &mut octets[ends[0] as usize..ends[1] as usize];
        if !rewrite(value) {
            value.fill(0);
            if column.is_valid(row) {
                unreadable.push(row);
            }
        }
    }
    let count = unreadable.len();
    (Arc::new(BinaryArray::new(offsets, octets.into(), with_nulls(column, &unreadable))), count)
}

/// The offsets and octets of a column, without the octets of rows that it is only a part of.
fn own_octets(column: &BinaryArray) -> (OffsetBuffer<i32>, Vec<u8>) {
    let offsets = column.offsets();
    let (first, last) = (offsets[0], offsets[column.len()]);
    let octets = column.value_data()[first as usize..last as usize].to_vec();
    if first == 0 {
        return (offsets.clone(), octets);
    }
    let moved: ScalarBuffer<i32> = offsets.iter().map(|offset| offset - first).collect();
    (OffsetBuffer::new(moved), octets)
}

/// The nulls of a column, and some rows more.
fn with_nulls(column: &BinaryArray, rows: &[usize]) -> Option<NullBuffer> {
    if rows.is_empty() {
        return column.nulls().cloned();
    }
    let mut valid: Vec<bool> = (0..column.len()).map(|row| column.is_valid(row)).collect();
    for &row in rows {
        valid[row] = false;
    }
    Some(valid.into())
}
