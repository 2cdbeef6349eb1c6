//! Values of flows by row, for what writes rows.

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray};
use arrow::datatypes::{ArrowPrimitiveType, TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use weir_flow::elements::{ElementValue, elements_of_row};
use weir_flow::{Column, ColumnType, FlowBatch};

enum Numbers<'a> {
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
    Time(&'a [i64]),
}

enum OfColumn<'a> {
    Absent,
    Numbers(Numbers<'a>, &'a ArrayRef),
    Octets(&'a BinaryArray),
}

/// A batch whose columns are found once.
pub(super) struct Values<'a> {
    columns: Vec<OfColumn<'a>>,
    elements: Option<&'a ArrayRef>,
}

impl<'a> Values<'a> {
    pub(super) fn new(flows: &'a FlowBatch) -> Self {
        let columns = Column::ALL.iter().map(|column| of_column(flows, *column)).collect();
        Self { columns, elements: flows.column(Column::Elements) }
    }

    /// A number or time; times before 1970 are 0.
    #[inline]
    pub(super) fn number(&self, column: Column, row: usize) -> Option<u64> {
        let OfColumn::Numbers(numbers, array) = &self.columns[column as usize] else { return None };
        if array.is_null(row) {
            return None;
        }
        match numbers {
            Numbers::U8(values) => values.get(row).copied().map(u64::from),
            Numbers::U16(values) => values.get(row).copied().map(u64::from),
            Numbers::U32(values) => values.get(row).copied().map(u64::from),
            Numbers::U64(values) => values.get(row).copied(),
            Numbers::Time(values) => values.get(row).map(|time| u64::try_from(*time).unwrap_or(0)),
        }
    }

    /// An address or other octets.
    #[inline]
    pub(super) fn octets(&self, column: Column, row: usize) -> Option<&'a [u8]> {
        match self.columns[column as usize] {
            OfColumn::Octets(array) if array.is_valid(row) => Some(array.value(row)),
            _ => None,
        }
    }

    /// Elements without a column.
    pub(super) fn elements(&self, row: usize) -> Vec<ElementValue<'a>> {
        self.elements.map(|column| elements_of_row(column, row)).unwrap_or_default()
    }
}

fn of_column(flows: &FlowBatch, column: Column) -> OfColumn<'_> {
    fn values<T: ArrowPrimitiveType>(array: &ArrayRef) -> &[T::Native] {
        array.as_primitive_opt::<T>().map_or(&[], |array| array.values())
    }
    let Some(array) = flows.column(column) else { return OfColumn::Absent };
    let numbers = match column.column_type() {
        ColumnType::U8 => Numbers::U8(values::<UInt8Type>(array)),
        ColumnType::U16 => Numbers::U16(values::<UInt16Type>(array)),
        ColumnType::U32 => Numbers::U32(values::<UInt32Type>(array)),
        ColumnType::U64 => Numbers::U64(values::<UInt64Type>(array)),
        ColumnType::Time => Numbers::Time(values::<TimestampMillisecondType>(array)),
        ColumnType::Text | ColumnType::Elements => return OfColumn::Absent,
        ColumnType::Address | ColumnType::Mac | ColumnType::Octets => {
            return flows.binary(column).map_or(OfColumn::Absent, OfColumn::Octets);
        }
    };
    OfColumn::Numbers(numbers, array)
}
