//! What tables there are, and what their columns mean.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::{DataFusionError, Result, plan_datafusion_err};
use datafusion::prelude::SessionContext;
use futures::FutureExt;
use weir_flow::books::KEY_DOCS;
use weir_flow::counters::{counter_columns, key_columns};
use weir_flow::options::COLUMN_DOCS;
use weir_flow::schema::CONTENT_KEY;
use weir_flow::sequences::SEQUENCE_DOCS;
use weir_flow::{Column, Counter, Table};

/// What a table of the archive holds, in words.
pub(crate) fn table_doc(table: Table) -> &'static str {
    match table {
        Table::Flows => "flows, one row each",
        Table::ExporterBooks => "what became of everything received, per exporter, Observation Domain and minute",
        Table::ExporterOptions => {
            "what exporters report, and SNMP agents of names, new or changed: interfaces, samplers, applications"
        }
        Table::ExporterSequences => "where the sequence numbers of exporters stood",
        Table::InterfaceCounters => {
            "counters of interfaces, one row per counters sample of sFlow, or interface and poll of SNMP"
        }
        Table::HostCounters => "counters of hosts, one row per counters sample of sFlow",
    }
}

/// A table, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDescription {
    /// Its name.
    pub name: String,
    /// What a row is.
    pub doc: &'static str,
    /// Its columns.
    pub columns: Vec<ColumnDescription>,
}

/// A column, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDescription {
    /// Its name and type.
    pub field: FieldRef,
    /// What it holds; empty where that is not known.
    pub doc: &'static str,
}

/// What the tables of the caller are in words.
const OWN_FILE: &str = "a file of yours";

/// All tables, sorted by name.
pub(crate) fn described(context: &SessionContext) -> Vec<TableDescription> {
    let Some(schema) = context.catalog("datafusion").and_then(|catalog| catalog.schema("public")) else {
        return Vec::new();
    };
    let described = table_names(context).into_iter().filter_map(|name| {
        // tables are in memory: finding one never waits
        let table = schema.table(&name).now_or_never()?.ok()??;
        let ours = Table::ALL.iter().find(|table| table.name() == name).copied();
        let column = |field: &FieldRef| ColumnDescription {
            field: Arc::clone(field),
            doc: ours.map_or("", |ours| meaning(ours, field.name()).1),
        };
        let columns = table.schema().fields().iter().map(column).collect();
        Some(TableDescription { name, doc: ours.map_or(OWN_FILE, table_doc), columns })
    });
    described.collect()
}

fn texts(columns: Vec<(&str, Vec<String>)>) -> Result<RecordBatch> {
    let arrays = columns.into_iter().map(|(name, texts)| (name, Arc::new(StringArray::from(texts)) as ArrayRef));
    Ok(RecordBatch::try_from_iter(arrays)?)
}

/// Names of the tables, sorted.
pub(crate) fn table_names(context: &SessionContext) -> Vec<String> {
    let schema = context.catalog("datafusion").and_then(|catalog| catalog.schema("public"));
    let mut names = schema.map(|schema| schema.table_names()).unwrap_or_default();
    names.sort();
    names
}

/// The answer to `SHOW TABLES`.
pub(crate) fn tables(context: &SessionContext) -> Result<RecordBatch> {
    let names = table_names(context);
    let docs = names.iter().map(|name| {
        let of_archive = Table::ALL.iter().find(|table| table.name() == name);
        let of_watches = || if name == weir_reports::table::NAME { weir_reports::table::ROWS } else { OWN_FILE };
        of_archive.map_or_else(of_watches, |table| table_doc(*table)).to_owned()
    });
    let docs = docs.collect();
    texts(vec![("table_name", names), ("rows", docs)])
}

/// The answer to `DESCRIBE`.
pub(crate) async fn columns(context: &SessionContext, table: &str) -> Result<RecordBatch> {
    let provider = context.table_provider(table).await;
    let provider = provider.map_err(|_| -> DataFusionError { plan_datafusion_err!("table '{table}' not found") })?;
    let schema = provider.schema();
    let fields = schema.fields();
    let mut described = vec![
        ("column_name", fields.iter().map(|field| field.name().clone()).collect()),
        ("data_type", fields.iter().map(|field| type_text(field)).collect()),
    ];
    if let Some(&ours) = Table::ALL.iter().find(|ours| ours.name() == table) {
        let (units, sentences): (Vec<_>, Vec<_>) = fields.iter().map(|field| meaning(ours, field.name())).unzip();
        described.push(("unit", units.into_iter().map(str::to_owned).collect()));
        described.push(("meaning", sentences.into_iter().map(str::to_owned).collect()));
    } else if schema == weir_reports::table::schema() {
        let meanings = fields.iter().map(|field| weir_reports::table::meaning(field.name()).unwrap_or_default());
        described.push(("meaning", meanings.map(str::to_owned).collect()));
    }
    texts(described)
}

/// Unit and sentence of a column of a table of the archive.
fn meaning(table: Table, name: &str) -> (&'static str, &'static str) {
    let known = match table {
        Table::Flows => Column::by_name(name).map(|column| (column.spec().unit, column.spec().doc)),
        Table::ExporterBooks => {
            let counter = Counter::ALL.iter().find(|counter| counter.name() == name);
            let key = || KEY_DOCS.iter().find(|(of, _)| *of == name).map(|(_, doc)| *doc);
            counter.map(|counter| counter.doc()).or_else(key).map(|doc| ("", doc))
        }
        Table::ExporterOptions => COLUMN_DOCS.iter().find(|(of, _)| *of == name).map(|(_, doc)| ("", *doc)),
        Table::ExporterSequences => SEQUENCE_DOCS.iter().find(|(of, _)| *of == name).map(|(_, doc)| ("", *doc)),
        Table::InterfaceCounters | Table::HostCounters => {
            let counter = counter_columns(table).iter().find(|column| column.name == name);
            let key = || key_columns(table).find(|key| key.name == name).map(|key| ("", key.doc));
            counter.map(|column| (column.unit, column.doc)).or_else(key)
        }
    };
    known.unwrap_or(match name {
        "bytes_scaled" => ("octets", "Octets of the flow times the sampling interval that was in force."),
        "packets_scaled" => ("packets", "Packets of the flow times the sampling interval that was in force."),
        _ => ("", ""),
    })
}

/// The type of a column as SQL has it; what octets hold is named instead of octets.
fn type_text(field: &Field) -> String {
    match (field.data_type(), field.metadata().get(CONTENT_KEY).map(String::as_str)) {
        (DataType::Binary, Some("mac")) => "MAC address".to_owned(),
        (DataType::Binary, Some("octets")) => "octets".to_owned(),
        (DataType::Binary, _) => "address".to_owned(),
        (DataType::Timestamp(TimeUnit::Millisecond, Some(_)), _) => "timestamp (ms, UTC)".to_owned(),
        (DataType::UInt8, _) => "unsigned 8 bit".to_owned(),
        (DataType::UInt16, _) => "unsigned 16 bit".to_owned(),
        (DataType::UInt32, _) => "unsigned 32 bit".to_owned(),
        (DataType::UInt64, _) => "unsigned 64 bit".to_owned(),
        (DataType::Int64, _) => "bigint".to_owned(),
        (DataType::Float64, _) => "double".to_owned(),
        (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, _) => "text".to_owned(),
        (DataType::List(_), _) if field.name() == Column::Elements.name() => "Information Elements".to_owned(),
        (other, _) => other.to_string().to_lowercase(),
    }
}
