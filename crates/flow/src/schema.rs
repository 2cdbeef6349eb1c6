//! Arrow schemas of the tables, derived from the registry.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::books::{Counter, SPAN_COLUMN};
use crate::field::{address_field, element_item_field, octets_field};
use crate::{Column, ColumnType, Table};

pub use crate::field::{CONTENT_KEY, arrow_type, field};

impl Table {
    /// Full schema of the table.
    pub fn schema(self) -> SchemaRef {
        match self {
            Self::Flows => FLOWS.clone(),
            Self::ExporterBooks => BOOKS.clone(),
            Self::ExporterOptions => OPTIONS.clone(),
            Self::InterfaceCounters => INTERFACE_COUNTERS.clone(),
            Self::HostCounters => HOST_COUNTERS.clone(),
            Self::ExporterSequences => SEQUENCES.clone(),
        }
    }
}

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
        Field::new(SPAN_COLUMN, DataType::UInt16, true),
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

static SEQUENCES: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("received", arrow_type(ColumnType::Time), false),
        Field::new("since", arrow_type(ColumnType::Time), false),
        address_field("exporter"),
        Field::new("exporter_port", DataType::UInt16, false),
        Field::new("observation_domain", DataType::UInt32, false),
        Field::new("export_version", DataType::UInt8, false),
        Field::new("sequence_unit", DataType::Utf8, false),
        Field::new("sequence_first", DataType::UInt32, true),
        Field::new("sequence_next", DataType::UInt32, false),
        Field::new("sequence_units", DataType::UInt64, false),
        Field::new("sequence_next_is_least", DataType::Boolean, false),
        Field::new("exported", arrow_type(ColumnType::Time), false),
        Field::new("uptime_ms", DataType::UInt32, true),
    ]))
});

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
