//! Arrow schemas of the tables, derived from the registry.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

use crate::books::Counter;
use crate::{Column, ColumnType};

/// The tables that an archive keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// One row per flow, columns of [`Column`].
    Flows,
    /// One row per exporter, domain and time bin, see [`crate::books`].
    ExporterBooks,
    /// One row per Options Data Record that said something new, see [`crate::options`].
    ExporterOptions,
    /// Counters of network interfaces, see [`crate::counters`].
    InterfaceCounters,
    /// Counters of hosts and devices, see [`crate::counters`].
    HostCounters,
}

impl Table {
    /// Every table.
    pub const ALL: &'static [Table] =
        &[Table::Flows, Table::ExporterBooks, Table::ExporterOptions, Table::InterfaceCounters, Table::HostCounters];

    /// Name in SQL, and of the table's folder in an archive.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flows => "flows",
            Self::ExporterBooks => "exporter_books",
            Self::ExporterOptions => "exporter_options",
            Self::InterfaceCounters => "interface_counters",
            Self::HostCounters => "host_counters",
        }
    }

    /// Full schema of the table.
    pub fn schema(self) -> SchemaRef {
        match self {
            Self::Flows => FLOWS.clone(),
            Self::ExporterBooks => BOOKS.clone(),
            Self::ExporterOptions => OPTIONS.clone(),
            Self::InterfaceCounters => INTERFACE_COUNTERS.clone(),
            Self::HostCounters => HOST_COUNTERS.clone(),
        }
    }
}

/// The metadata key that says what the octets of a binary field are: `address`, `mac` or `octets`.
pub const CONTENT_KEY: &str = "weir.content";

static FLOWS: LazyLock<SchemaRef> = LazyLock::new(|| {
    let fields: Vec<Field> = Column::ALL.iter().map(|&column| field(column)).collect();
    Arc::new(Schema::new(fields))
});

static INTERFACE_COUNTERS: LazyLock<SchemaRef> = LazyLock::new(|| crate::counters::schema(Table::InterfaceCounters));
static HOST_COUNTERS: LazyLock<SchemaRef> = LazyLock::new(|| crate::counters::schema(Table::HostCounters));

static BOOKS: LazyLock<SchemaRef> = LazyLock::new(|| {
    let mut fields = vec![
        Field::new("minute", arrow_type(ColumnType::Time), false),
        address_field("exporter"),
        Field::new("observation_domain", DataType::UInt32, true),
        Field::new("export_version", DataType::UInt8, true),
    ];
    fields.extend(Counter::ALL.iter().map(|counter| Field::new(counter.name(), DataType::UInt64, false)));
    Arc::new(Schema::new(fields))
});

static OPTIONS: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("received", arrow_type(ColumnType::Time), false),
        address_field("exporter"),
        Field::new("observation_domain", DataType::UInt32, false),
        Field::new("export_version", DataType::UInt8, false),
        Field::new("kind", DataType::Utf8, false),
        Field::new("scope", DataType::Utf8, false),
        Field::new("enterprise", DataType::UInt32, true),
        Field::new("key", DataType::UInt64, true),
        octets_field("key_octets"),
        Field::new("name", DataType::Utf8, true),
        Field::new("description", DataType::Utf8, true),
        Field::new("sampling_interval", DataType::UInt32, true),
        Field::new("packets_selected", DataType::UInt64, true),
        Field::new("packets_observed", DataType::UInt64, true),
        Field::new("elements", DataType::List(element_item_field()), true),
    ]))
});

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
        ColumnType::Elements => DataType::List(element_item_field()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flow_schema_follows_the_column_table() {
        let schema = Table::Flows.schema();
        assert_eq!(schema.fields().len(), Column::COUNT);
        for (&column, field) in Column::ALL.iter().zip(schema.fields()) {
            assert_eq!(field.name(), column.name());
        }
        assert_eq!(schema.field(Column::SrcAddr as usize).metadata()[CONTENT_KEY], "address");
    }
}
