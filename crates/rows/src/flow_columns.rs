//! Columns of flows in rows of any columns, by name and with the type that the table of columns says.
//!
//! An absent column is `None`: all its values are null. A column of that name and another type is an error and never
//! ignored.

use arrow::array::{Array, AsArray, BinaryArray, PrimitiveArray, RecordBatch};
use arrow::datatypes::{ArrowPrimitiveType, Field};
use weir_chain::{ComponentError, choices};
use weir_flow::Column;
use weir_flow::schema::arrow_type;

choices! {
    /// A column of times, as an option.
    pub enum TimeColumn {
        /// The start of the flow.
        Start = "start",
        /// The end of the flow.
        End = "end",
        /// When the record was received.
        Received = "received",
    }
}

impl TimeColumn {
    /// The column of flows.
    pub fn column(self) -> Column {
        match self {
            Self::Start => Column::Start,
            Self::End => Column::End,
            Self::Received => Column::Received,
        }
    }
}

/// A column of addresses or other octets.
pub fn octets(rows: &RecordBatch, column: Column) -> Result<Option<&BinaryArray>, ComponentError> {
    let Some(found) = rows.column_by_name(column.name()) else { return Ok(None) };
    found.as_binary_opt().map(Some).ok_or_else(|| wrong_type(column, found))
}

/// A column of numbers or times.
pub fn numbers<T: ArrowPrimitiveType>(
    rows: &RecordBatch,
    column: Column,
) -> Result<Option<&PrimitiveArray<T>>, ComponentError> {
    let Some(found) = rows.column_by_name(column.name()) else { return Ok(None) };
    found.as_primitive_opt::<T>().map(Some).ok_or_else(|| wrong_type(column, found))
}

/// The value of a row in a column of numbers; `None` when it is null or the column absent.
#[inline]
pub fn number<T: ArrowPrimitiveType>(column: Option<&PrimitiveArray<T>>, row: usize) -> Option<T::Native> {
    column.filter(|values| values.is_valid(row)).map(|values| values.value(row))
}

/// The value of a row in a column of octets; `None` when it is null or the column absent.
#[inline]
pub fn value(column: Option<&BinaryArray>, row: usize) -> Option<&[u8]> {
    column.filter(|values| values.is_valid(row)).map(|values| values.value(row))
}

/// Where a column of flows stands among these fields, or, as an error, where it is to be inserted so that columns of
/// flows stay in the order of their table.
pub fn place_of<'a>(fields: impl Iterator<Item = &'a Field>, column: Column) -> Result<usize, usize> {
    let mut after = 0;
    for (place, field) in fields.enumerate() {
        match Column::by_name(field.name()) {
            Some(found) if found == column => return Ok(place),
            Some(found) if found < column => after = place + 1,
            _ => {}
        }
    }
    Err(after)
}

fn wrong_type(column: Column, found: &dyn Array) -> ComponentError {
    let (found, needed) = (found.data_type(), arrow_type(column.column_type()));
    ComponentError::new(format!("column '{column}' has type {found}, but {needed} is needed"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, UInt32Array};
    use arrow::datatypes::{DataType, TimestampMillisecondType, UInt16Type};
    use weir_flow::FlowBatchBuilder;

    use super::*;

    #[test]
    fn columns_of_flows_have_an_order() {
        let places = |names: &[&str], column| {
            let fields: Vec<Field> = names.iter().map(|name| Field::new(*name, DataType::UInt8, true)).collect();
            place_of(fields.iter(), column)
        };
        assert_eq!(places(&["start", "bytes", "label"], Column::Bytes), Ok(1));
        assert_eq!(places(&["start", "bytes", "label"], Column::End), Err(1));
        assert_eq!(places(&["start", "bytes", "label"], Column::Flows), Err(2));
        assert_eq!(places(&["bytes", "label"], Column::Start), Err(0));
        assert_eq!(places(&["label", "bytes"], Column::Flows), Err(2));
    }

    #[test]
    fn columns_are_there_absent_or_an_error() {
        let mut builder = FlowBatchBuilder::new(2);
        builder.begin_rows(2);
        builder.u16(Column::SrcPort).push(Some(7));
        builder.u16(Column::SrcPort).push(None);
        builder.address(Column::SrcAddr).repeat(&[1, 2, 3, 4], 2);
        let rows = builder.finish().record_batch().clone();
        let ports = numbers::<UInt16Type>(&rows, Column::SrcPort).expect("ports");
        assert_eq!([number(ports, 0), number(ports, 1)], [Some(7), None]);
        let starts = numbers::<TimestampMillisecondType>(&rows, Column::Start).expect("no starts");
        assert_eq!(number(starts, 0), None);
        let addresses = octets(&rows, Column::SrcAddr).expect("addresses");
        assert_eq!(value(addresses, 1), Some(&[1, 2, 3, 4][..]));
        assert_eq!(value(octets(&rows, Column::DstAddr).expect("none"), 1), None);
        let ports: ArrayRef = Arc::new(UInt32Array::from(vec![7]));
        let rows = RecordBatch::try_from_iter([("src_port", ports)]).expect("rows");
        let error = numbers::<UInt16Type>(&rows, Column::SrcPort).expect_err("another type");
        assert_eq!(error.to_string(), "column 'src_port' has type UInt32, but UInt16 is needed");
    }
}
