//! The columns of a batch, seen as the plain slices that lie under them.

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, ListArray, StringArray, UInt16Array, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use weir_flow::{Column, FlowBatch};

use crate::carriage::{Carriage, carriage, is_of_another_record, is_transport};
use crate::config::Version;

/// Values of a column.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Values<'a> {
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
    Time(&'a [i64]),
    Octets(&'a BinaryArray),
    Text(&'a StringArray),
}

/// A column that the exporter's version can carry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Carried<'a> {
    pub column: Column,
    pub carriage: Carriage,
    pub values: Values<'a>,
    /// `None` when no value is null.
    pub nulls: Option<&'a NullBuffer>,
}

/// The elements without a column of their own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Elements<'a> {
    lists: &'a ListArray,
    enterprises: &'a UInt32Array,
    ids: &'a UInt16Array,
    octets: &'a BinaryArray,
    parents: &'a UInt16Array,
}

/// What the exporter's version can carry of a batch.
#[derive(Debug)]
pub(crate) struct Columns<'a> {
    pub rows: usize,
    pub carried: Vec<Carried<'a>>,
    pub elements: Option<Elements<'a>>,
    /// Values in columns that the version cannot carry.
    pub values_left_out: u64,
    by_column: [u8; Column::COUNT],
}

const ABSENT: u8 = u8::MAX;

impl<'a> Columns<'a> {
    pub(crate) fn new(version: Version, flows: &'a FlowBatch) -> Self {
        let mut columns = Self {
            rows: flows.rows(),
            carried: Vec::new(),
            elements: None,
            values_left_out: 0,
            by_column: [ABSENT; Column::COUNT],
        };
        for &column in Column::ALL {
            let Some(array) = flows.column(column) else { continue };
            if column == Column::Elements && version == Version::Ipfix {
                columns.elements = Elements::of(array);
            } else if let Some((carriage, values)) = carriage(version, column).zip(values(array)) {
                columns.by_column[column as usize] = columns.carried.len() as u8;
                let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
                columns.carried.push(Carried { column, carriage, values, nulls });
            } else if !is_transport(column) && !is_of_another_record(version, column) {
                columns.values_left_out += left_out(array);
            }
        }
        columns
    }

    pub(crate) fn get(&self, column: Column) -> Option<&Carried<'a>> {
        self.carried.get(usize::from(self.by_column[column as usize]))
    }
}

impl<'a> Elements<'a> {
    fn of(array: &'a ArrayRef) -> Option<Self> {
        let lists = array.as_list_opt::<i32>()?;
        let entries = lists.values().as_struct_opt()?;
        Some(Self {
            lists,
            enterprises: entries.column(0).as_primitive_opt::<UInt32Type>()?,
            ids: entries.column(1).as_primitive_opt::<UInt16Type>()?,
            octets: entries.column(2).as_binary_opt::<i32>()?,
            parents: entries.column(3).as_primitive_opt::<UInt16Type>()?,
        })
    }

    /// Enterprise, number and octets of each element of a row. What is in lists is left out: it is in their octets.
    pub(crate) fn row(self, row: usize) -> impl Iterator<Item = (u32, u16, &'a [u8])> {
        let offsets = self.lists.value_offsets();
        let entries = if self.lists.is_null(row) { 0..0 } else { offsets[row] as usize..offsets[row + 1] as usize };
        let own = entries.filter(move |&entry| self.parents.is_null(entry));
        own.map(move |entry| (self.enterprises.value(entry), self.ids.value(entry), self.octets.value(entry)))
    }
}

fn values(array: &ArrayRef) -> Option<Values<'_>> {
    if let Some(array) = array.as_primitive_opt::<UInt8Type>() {
        return Some(Values::U8(array.values()));
    }
    if let Some(array) = array.as_primitive_opt::<UInt16Type>() {
        return Some(Values::U16(array.values()));
    }
    if let Some(array) = array.as_primitive_opt::<UInt32Type>() {
        return Some(Values::U32(array.values()));
    }
    if let Some(array) = array.as_primitive_opt::<UInt64Type>() {
        return Some(Values::U64(array.values()));
    }
    if let Some(array) = array.as_primitive_opt::<TimestampMillisecondType>() {
        return Some(Values::Time(array.values()));
    }
    let octets = array.as_binary_opt::<i32>().map(Values::Octets);
    octets.or_else(|| array.as_string_opt::<i32>().map(Values::Text))
}

/// Values of a column, or elements in it, that stay behind.
fn left_out(array: &ArrayRef) -> u64 {
    let count = match array.as_list_opt::<i32>() {
        Some(lists) => (lists.value_offsets()[lists.len()] - lists.value_offsets()[0]) as usize,
        None => array.len() - array.null_count(),
    };
    count as u64
}
