//! Arrow fields and types of columns.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, TimeUnit};

use crate::{Column, ColumnType};

/// The metadata key that says what the octets of a binary field are: `address`, `mac` or `octets`.
pub const CONTENT_KEY: &str = "weir.content";

pub(crate) fn octets_field(name: &str) -> Field {
    Field::new(name, DataType::Binary, true).with_metadata([(CONTENT_KEY.to_owned(), "octets".to_owned())].into())
}

pub(crate) fn address_field(name: &str) -> Field {
    let content = [(CONTENT_KEY.to_owned(), "address".to_owned())].into();
    Field::new(name, DataType::Binary, true).with_metadata(content)
}

/// The Arrow field of a column. Every column may be null, so that any batch can be padded to the full schema.
pub fn field(column: Column) -> Field {
    let name = column.name();
    let content = match column.column_type() {
        ColumnType::Address => return address_field(name),
        ColumnType::Mac => "mac",
        ColumnType::Octets => "octets",
        _ => return Field::new(name, arrow_type(column.column_type()), true),
    };
    Field::new(name, DataType::Binary, true).with_metadata([(CONTENT_KEY.to_owned(), content.to_owned())].into())
}

/// The fields of one entry of [`Column::Elements`]: enterprise, element number, octets as they came; of what is in a
/// list also the list's position among the entries of the row, from 0, and the number of the list's record.
pub(crate) fn element_fields() -> Fields {
    Fields::from(vec![
        Field::new("enterprise", DataType::UInt32, false),
        Field::new("element", DataType::UInt16, false),
        Field::new("octets", DataType::Binary, false),
        Field::new("parent", DataType::UInt16, true),
        Field::new("record", DataType::UInt16, true),
    ])
}

pub(crate) fn element_item_field() -> Arc<Field> {
    Arc::new(Field::new("item", DataType::Struct(element_fields()), false))
}

/// The Arrow type of a column type.
pub fn arrow_type(column_type: ColumnType) -> DataType {
    match column_type {
        ColumnType::U8 => DataType::UInt8,
        ColumnType::U16 => DataType::UInt16,
        ColumnType::U32 => DataType::UInt32,
        ColumnType::U64 => DataType::UInt64,
        ColumnType::Time => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        ColumnType::Address | ColumnType::Mac | ColumnType::Octets => DataType::Binary,
        ColumnType::Text => DataType::Utf8,
        ColumnType::Elements => DataType::List(element_item_field()),
    }
}
