//! Keys of rows: the same row of the same delivery of the same archive has the same key, whenever it is read.
//!
//! A delivery has no order of rows that lasts: once sealed, flows of one millisecond come in another one. So a key is made
//! of what is in the row: a hash of its values, and for the second and further rows of a delivery that are equal in every
//! value, of their number. Rows get the same key by accident once in 2^64 pairs, and only count when they were received in the
//! same millisecond of the same archive.
//!
//! The function is part of what is stored and must not change: a test pins it.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{ArrowPrimitiveType, TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use weir_archive::FollowPosition;
use weir_flow::elements::elements_of_row;
use weir_flow::{Column, ColumnType, FlowBatch};

/// Odd numbers with as many ones as zeros, from the digits of pi.
const KEYS: [u64; 3] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7345, 0xa409_3822_299f_31d1];

/// The key of each row of a delivery, in the order of its rows.
pub fn row_keys(position: FollowPosition, flows: &FlowBatch) -> Vec<i64> {
    let mut hashes = hash_rows(flows);
    number_equals(&mut hashes);
    let delivery = fold(position.position.get() ^ KEYS[0], u64::from(position.epoch) ^ KEYS[1]);
    hashes.into_iter().map(|hash| fold(hash ^ delivery, KEYS[2]) as i64).collect()
}

/// Multiplies to 128 bits and folds the halves: every bit of both numbers reaches every bit of the result.
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}

fn hash_octets(octets: &[u8]) -> u64 {
    let mut hash = octets.len() as u64 ^ KEYS[0];
    for chunk in octets.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = fold(hash ^ KEYS[2], u64::from_le_bytes(word) ^ KEYS[1]);
    }
    hash
}

/// Hashes of the values of each row. A value that is null does not count, so that absent columns are as those of nulls.
fn hash_rows(flows: &FlowBatch) -> Vec<u64> {
    let mut hashes = vec![KEYS[0]; flows.rows()];
    for &column in Column::ALL {
        let Some(values) = flows.column(column) else { continue };
        // by name: numbers of columns change with versions
        let seed = hash_octets(column.name().as_bytes());
        match column.column_type() {
            ColumnType::U8 => add_numbers::<UInt8Type>(&mut hashes, values, seed, u64::from),
            ColumnType::U16 => add_numbers::<UInt16Type>(&mut hashes, values, seed, u64::from),
            ColumnType::U32 => add_numbers::<UInt32Type>(&mut hashes, values, seed, u64::from),
            ColumnType::U64 => add_numbers::<UInt64Type>(&mut hashes, values, seed, |value| value),
            ColumnType::Time => {
                add_numbers::<TimestampMillisecondType>(&mut hashes, values, seed, |value| value as u64);
            }
            ColumnType::Address | ColumnType::Mac | ColumnType::Octets => add_octets(&mut hashes, values, seed),
            ColumnType::Text => add_texts(&mut hashes, values, seed),
            ColumnType::Elements => add_elements(&mut hashes, values, seed),
        }
    }
    hashes
}

fn add(hash: &mut u64, seed: u64, value: u64) {
    *hash = fold(*hash ^ seed, value ^ KEYS[1]);
}

fn add_numbers<T: ArrowPrimitiveType>(
    hashes: &mut [u64],
    values: &ArrayRef,
    seed: u64,
    number: impl Fn(T::Native) -> u64,
) {
    let values: &PrimitiveArray<T> = values.as_primitive();
    if values.null_count() == 0 {
        hashes.iter_mut().zip(values.values()).for_each(|(hash, value)| add(hash, seed, number(*value)));
        return;
    }
    for (hash, value) in hashes.iter_mut().zip(values) {
        if let Some(value) = value {
            add(hash, seed, number(value));
        }
    }
}

fn add_octets(hashes: &mut [u64], values: &ArrayRef, seed: u64) {
    for (hash, value) in hashes.iter_mut().zip(values.as_binary::<i32>()) {
        if let Some(octets) = value {
            add(hash, seed, hash_octets(octets));
        }
    }
}

fn add_texts(hashes: &mut [u64], values: &ArrayRef, seed: u64) {
    for (hash, value) in hashes.iter_mut().zip(values.as_string::<i32>()) {
        if let Some(text) = value {
            add(hash, seed, hash_octets(text.as_bytes()));
        }
    }
}

fn add_elements(hashes: &mut [u64], values: &ArrayRef, seed: u64) {
    for (row, hash) in hashes.iter_mut().enumerate().filter(|(row, _)| values.is_valid(*row)) {
        for element in elements_of_row(values, row) {
            let (parent, record) = element.place.map_or((0, 0), |(parent, record)| (u64::from(parent) + 1, record));
            let number = u64::from(element.enterprise) << 16 | u64::from(element.id);
            add(hash, seed, number);
            add(hash, seed, parent << 16 | u64::from(record));
            add(hash, seed, hash_octets(element.octets));
        }
    }
}

/// Makes the hashes of equal rows differ by their number among the equal ones.
fn number_equals(hashes: &mut [u64]) {
    let mut sorted = hashes.to_vec();
    sorted.sort_unstable();
    let repeated = sorted.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    let mut seen: HashMap<u64, u64> = repeated.map(|hash| (hash, 0)).collect();
    if seen.is_empty() {
        return;
    }
    for hash in hashes {
        if let Some(number) = seen.get_mut(hash) {
            *hash = fold(*hash ^ KEYS[0], *number ^ KEYS[2]);
            *number += 1;
        }
    }
}

#[cfg(test)]
mod tests;
