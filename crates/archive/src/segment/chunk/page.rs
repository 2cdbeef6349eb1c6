//! One page of a column: its values in the order of the segment, and what is known of all of them.

use super::header::put_varint;
use super::values::{Value, Values};

/// A page of values.
#[derive(Debug)]
pub(in crate::segment) struct Page<T> {
    /// Those that are there.
    values: Vec<T>,
    /// Which rows have one; empty when all have.
    valid: Vec<bool>,
    rows: usize,
    /// Smallest and largest; `None` when no row has a value.
    range: Option<(T, T)>,
}

impl<T: Value> Page<T> {
    pub(in crate::segment) fn new() -> Self {
        Self { values: Vec::new(), valid: Vec::new(), rows: 0, range: None }
    }

    /// Takes the values of these rows.
    pub(in crate::segment) fn fill(&mut self, column: &Values<T>, rows: &[u32]) {
        self.values.clear();
        self.valid.clear();
        self.rows = rows.len();
        match &column.valid {
            None => self.values.extend(rows.iter().map(|&row| column.values[row as usize])),
            Some(valid) => {
                self.valid.extend(rows.iter().map(|&row| valid[row as usize]));
                let there = rows.iter().zip(&self.valid).filter(|(_, valid)| **valid);
                self.values.extend(there.map(|(&row, _)| column.values[row as usize]));
            }
        }
        self.look();
    }

    /// Takes these values.
    pub(in crate::segment) fn take(&mut self, values: impl Iterator<Item = Option<T>> + Clone) {
        self.valid.clear();
        self.valid.extend(values.clone().map(|value| value.is_some()));
        self.values.clear();
        self.values.extend(values.flatten());
        self.rows = self.valid.len();
        self.look();
    }

    fn look(&mut self) {
        if self.values.len() == self.rows {
            self.valid.clear();
        }
        // one after the other: each by itself is what the processor does several at a time
        self.range = self.values.iter().copied().min().zip(self.values.iter().copied().max());
    }

    pub(in crate::segment) fn values(&self) -> &[T] {
        &self.values
    }

    pub(in crate::segment) fn range(&self) -> Option<(T, T)> {
        self.range
    }

    pub(in crate::segment) fn rows(&self) -> usize {
        self.rows
    }

    pub(in crate::segment) fn nulls(&self) -> usize {
        self.rows - self.values.len()
    }

    /// Definition levels: which rows have a value, as one run or one string of bits (parquet-format, Encodings, RLE).
    pub(super) fn put_levels(&self, out: &mut Vec<u8>) {
        if self.valid.is_empty() || self.values.is_empty() {
            return put_run(self.rows, !self.values.is_empty(), out);
        }
        let octet = |rows: &[bool]| rows.iter().rev().fold(0, |octet, valid| octet << 1 | u8::from(*valid));
        let mut bits = Vec::with_capacity(self.rows / 8 + 8);
        put_varint(&mut bits, (self.rows.div_ceil(8) as u64) << 1 | 1);
        bits.extend(self.valid.chunks(8).map(octet));
        out.extend((bits.len() as u32).to_le_bytes());
        out.append(&mut bits);
    }
}

/// Definition levels that are all the same.
pub(super) fn put_run(rows: usize, has_values: bool, out: &mut Vec<u8>) {
    let mut run = Vec::new();
    put_varint(&mut run, (rows as u64) << 1);
    run.push(u8::from(has_values));
    out.extend((run.len() as u32).to_le_bytes());
    out.append(&mut run);
}
