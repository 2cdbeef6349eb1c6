//! Information Elements without a column of their own: kept as they came, under their numbers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, ListArray, StructArray, UInt16Array, UInt32Array};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{UInt16Type, UInt32Type};

use crate::schema::{element_fields, element_item_field};

/// Collects the `elements` column row by row.
#[derive(Debug, Default)]
pub struct ElementsColumn {
    row_ends: Vec<i32>,
    enterprises: Vec<u32>,
    ids: Vec<u16>,
    octet_ends: Vec<i32>,
    octets: Vec<u8>,
}

impl ElementsColumn {
    /// Rows closed so far.
    pub(crate) fn rows(&self) -> usize {
        self.row_ends.len()
    }

    /// Adds an element to the row that is open.
    pub fn push(&mut self, enterprise: u32, id: u16, octets: &[u8]) {
        self.enterprises.push(enterprise);
        self.ids.push(id);
        self.octets.extend_from_slice(octets);
        self.octet_ends.push(self.octets.len() as i32);
    }

    /// Closes the row.
    pub fn end_row(&mut self) {
        self.row_ends.push(self.ids.len() as i32);
    }

    pub(crate) fn pad_to(&mut self, rows: usize) {
        self.row_ends.resize(rows, self.ids.len() as i32);
    }

    pub(crate) fn finish(self) -> ArrayRef {
        let octets = BinaryArray::new(offsets(&self.octet_ends), self.octets.into(), None);
        let entries = StructArray::new(
            element_fields(),
            vec![
                Arc::new(UInt32Array::from(self.enterprises)),
                Arc::new(UInt16Array::from(self.ids)),
                Arc::new(octets),
            ],
            None,
        );
        Arc::new(ListArray::new(element_item_field(), offsets(&self.row_ends), Arc::new(entries), None))
    }
}

/// Ends of runs as Arrow offsets, which start with a zero.
pub(crate) fn offsets(ends: &[i32]) -> OffsetBuffer<i32> {
    let mut offsets = Vec::with_capacity(ends.len() + 1);
    offsets.push(0);
    offsets.extend_from_slice(ends);
    OffsetBuffer::new(ScalarBuffer::from(offsets))
}

/// One element of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementValue<'a> {
    /// Private Enterprise Number, 0 for IANA.
    pub enterprise: u32,
    /// Element number.
    pub id: u16,
    /// Value in network order, as it came.
    pub octets: &'a [u8],
}

/// The elements in row `row` of an `elements` column.
pub fn elements_of_row(column: &ArrayRef, row: usize) -> Vec<ElementValue<'_>> {
    let Some(lists) = column.as_list_opt::<i32>() else { return Vec::new() };
    let Some(entries) = lists.values().as_struct_opt() else { return Vec::new() };
    if lists.is_null(row) {
        return Vec::new();
    }
    let enterprises = entries.column(0).as_primitive::<UInt32Type>();
    let ids = entries.column(1).as_primitive::<UInt16Type>();
    let octets = entries.column(2).as_binary::<i32>();
    let (first, end) = (lists.value_offsets()[row] as usize, lists.value_offsets()[row + 1] as usize);
    (first..end)
        .map(|i| ElementValue { enterprise: enterprises.value(i), id: ids.value(i), octets: octets.value(i) })
        .collect()
}
