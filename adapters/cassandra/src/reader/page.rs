//! A page of rows into a batch of flows.

use scylla::deserialize::row::ColumnIterator;
use scylla::response::query_result::QueryRowsResult;
use weir_flow::{Column, ColumnType, FlowBatch, FlowBatchBuilder};

use crate::CassandraError;
use crate::element_blob;

/// Decodes the rows of a page, which has these columns in this order.
pub(super) fn decode(rows: &QueryRowsResult, columns: &[Column]) -> Result<FlowBatch, CassandraError> {
    let mut builder = FlowBatchBuilder::new(rows.rows_num());
    let broken = |error: &dyn std::error::Error| value_error("row", &crate::connect::message(error));
    for row in rows.rows::<ColumnIterator<'_, '_>>().map_err(|error| broken(&error))? {
        // a column that gets no value has null there
        builder.begin_rows(1);
        for (value, column) in row.map_err(|error| broken(&error))?.zip(columns) {
            if let Some(octets) = value.map_err(|error| broken(&error))?.slice {
                push(&mut builder, *column, octets.as_slice())
                    .map_err(|message| value_error(column.name(), &message))?;
            }
        }
    }
    Ok(builder.finish())
}

fn value_error(column: &str, message: &str) -> CassandraError {
    CassandraError::Value { column: column.to_owned(), message: message.to_owned() }
}

fn push(builder: &mut FlowBatchBuilder, column: Column, octets: &[u8]) -> Result<(), String> {
    match column.column_type() {
        ColumnType::U8 => builder.u8(column).push(Some(narrow(i16::from_be_bytes(fixed(octets)?).into())?)),
        ColumnType::U16 => builder.u16(column).push(Some(narrow(i32::from_be_bytes(fixed(octets)?).into())?)),
        ColumnType::U32 => builder.u32(column).push(Some(narrow(i64::from_be_bytes(fixed(octets)?))?)),
        ColumnType::U64 => builder.u64(column).push(Some(u64::from_be_bytes(fixed(octets)?))),
        ColumnType::Time => builder.time(column).push(Some(i64::from_be_bytes(fixed(octets)?))),
        ColumnType::Address | ColumnType::Mac | ColumnType::Octets => builder.address(column).push(Some(octets)),
        ColumnType::Text => builder.text(column).push(Some(octets)),
        ColumnType::Elements => {
            let elements = element_blob::decode(octets).ok_or("it is no list of elements")?;
            let entries = builder.elements();
            for element in elements {
                match element.place {
                    None => entries.push(element.enterprise, element.id, element.octets),
                    Some(place) => entries.push_nested(element.enterprise, element.id, element.octets, place),
                }
            }
            entries.end_row();
        }
    }
    Ok(())
}

fn fixed<const N: usize>(octets: &[u8]) -> Result<[u8; N], String> {
    octets.try_into().map_err(|_| format!("{} octets in place of {N}", octets.len()))
}

fn narrow<T: TryFrom<i64>>(number: i64) -> Result<T, String> {
    T::try_from(number).map_err(|_| format!("{number} is out of range"))
}
