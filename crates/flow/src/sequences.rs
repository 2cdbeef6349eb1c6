//! Where the sequence numbers of exporters stood: the table `exporter_sequences`.
//!
//! A row says that an archive has what an exporter sent between two of its sequence numbers, as far as it came. It is
//! written in the same delivery as the flows, so that after a crash at any moment it tells what the archive really has:
//! the collector that comes next goes on from there, and counts what it does not get as lost. Rows of one exporter of
//! which one goes on where the other ends are one row once they are sealed. A row that begins where none ends shows that
//! rows have gone, and the flows with them.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringArray, TimestampMillisecondArray, UInt8Array,
    UInt16Array, UInt32Array, UInt64Array,
};
use arrow::datatypes::{TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};

use crate::{Table, TableBatch};

/// Who sends with one sequence of numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceKey {
    /// Address of the exporter, 4 or 16 octets.
    pub exporter: Vec<u8>,
    /// UDP port that it sends from.
    pub exporter_port: u16,
    /// Observation Domain.
    pub observation_domain: u32,
    /// Version of the export protocol.
    pub export_version: u8,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceRow {
    /// Who sent.
    pub key: SequenceKey,
    /// Reception of the last datagram, milliseconds since the epoch.
    pub received_ms: i64,
    /// Reception of the last datagram of the row before, or of the first one of this row where there is none before.
    pub since_ms: i64,
    /// What the numbers count.
    pub unit: String,
    /// Number that the first datagram was to have; `None` when nothing is known of what was before it.
    pub first: Option<u32>,
    /// Number that the next datagram is to have.
    pub next: u32,
    /// How far the numbers went in this row: their difference without the wraps at 2^32.
    pub units: u64,
    /// Whether it may be a larger one, because not all records of the last datagram could be counted.
    pub is_least: bool,
    /// Time of export of the last datagram by the exporter's clock, milliseconds since the epoch.
    pub exported_ms: i64,
    /// Uptime of the exporter in the last datagram, milliseconds.
    pub uptime_ms: Option<u32>,
}

impl SequenceRow {
    /// Takes the row that follows this one of the same exporter; returns it when it does not begin where this one ends.
    pub fn follow(&mut self, next: Self) -> Option<Self> {
        if next.first != Some(self.next) || next.unit != self.unit {
            return Some(next);
        }
        let units = self.units.saturating_add(next.units);
        *self = Self { first: self.first, since_ms: self.since_ms, units, ..next };
        None
    }
}

/// Rows as a batch of the table; `None` when there are none.
pub fn sequence_rows(rows: &[SequenceRow]) -> Option<TableBatch> {
    if rows.is_empty() {
        return None;
    }
    let times = |of: fn(&SequenceRow) -> i64| -> ArrayRef {
        Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(of)).with_timezone("UTC"))
    };
    let columns: Vec<ArrayRef> = vec![
        times(|row| row.received_ms),
        times(|row| row.since_ms),
        Arc::new(rows.iter().map(|row| Some(row.key.exporter.as_slice())).collect::<arrow::array::BinaryArray>()),
        Arc::new(UInt16Array::from_iter_values(rows.iter().map(|row| row.key.exporter_port))),
        Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.key.observation_domain))),
        Arc::new(UInt8Array::from_iter_values(rows.iter().map(|row| row.key.export_version))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| &row.unit))),
        Arc::new(rows.iter().map(|row| row.first).collect::<UInt32Array>()),
        Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.next))),
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.units))),
        Arc::new(rows.iter().map(|row| Some(row.is_least)).collect::<BooleanArray>()),
        times(|row| row.exported_ms),
        Arc::new(rows.iter().map(|row| row.uptime_ms).collect::<UInt32Array>()),
    ];
    match RecordBatch::try_new(Table::ExporterSequences.schema(), columns) {
        Ok(batch) => TableBatch::try_new(Table::ExporterSequences, batch),
        Err(error) => unreachable!("columns are built in the order of the schema: {error}"),
    }
}

/// The rows of a batch; none of one that lacks a column.
pub fn read_sequence_rows(batch: &RecordBatch) -> Vec<SequenceRow> {
    read(batch).unwrap_or_default()
}

fn read(batch: &RecordBatch) -> Option<Vec<SequenceRow>> {
    let column = |name| batch.column_by_name(name);
    let time = |name| column(name)?.as_primitive_opt::<TimestampMillisecondType>();
    let u32s = |name| column(name)?.as_primitive_opt::<UInt32Type>();
    let (received, since, exported) = (time("received")?, time("since")?, time("exported")?);
    let exporters = column("exporter")?.as_binary_opt::<i32>()?;
    let ports = column("exporter_port")?.as_primitive_opt::<UInt16Type>()?;
    let domains = u32s("observation_domain")?;
    let versions = column("export_version")?.as_primitive_opt::<UInt8Type>()?;
    let units = column("sequence_unit")?.as_string_opt::<i32>()?;
    let (firsts, nexts, uptimes) = (u32s("sequence_first")?, u32s("sequence_next")?, u32s("uptime_ms")?);
    // of rows that were written before there was this column, the difference of the numbers
    let advances = column("sequence_units").and_then(|units| units.as_primitive_opt::<UInt64Type>());
    let difference = |row: usize| {
        let first = firsts.is_valid(row).then(|| firsts.value(row));
        first.map_or(0, |first| nexts.value(row).wrapping_sub(first).into())
    };
    let least = column("sequence_next_is_least")?.as_boolean_opt()?;
    let rows = (0..batch.num_rows()).map(|row| SequenceRow {
        key: SequenceKey {
            exporter: exporters.value(row).to_vec(),
            exporter_port: ports.value(row),
            observation_domain: domains.value(row),
            export_version: versions.value(row),
        },
        received_ms: received.value(row),
        since_ms: since.value(row),
        unit: units.value(row).to_owned(),
        first: firsts.is_valid(row).then(|| firsts.value(row)),
        next: nexts.value(row),
        units: advances.filter(|units| units.is_valid(row)).map_or_else(|| difference(row), |units| units.value(row)),
        is_least: least.value(row),
        exported_ms: exported.value(row),
        uptime_ms: uptimes.is_valid(row).then(|| uptimes.value(row)),
    });
    Some(rows.collect())
}

/// One sentence for each column of the table, for the reference page.
pub const SEQUENCE_DOCS: &[(&str, &str)] = &[
    ("received", "When the last datagram that the row is about was received, by the Collecting Process's clock."),
    (
        "since",
        "When the last one of the row before was received, or the first one of this row where there is none before.",
    ),
    ("exporter", "Address that the export datagrams came from."),
    ("exporter_port", "UDP port that they came from."),
    ("observation_domain", "Observation Domain ID (IPFIX), Source ID (NetFlow v9), engine (v5) or sub-agent (sFlow)."),
    ("export_version", "Version of the export protocol."),
    ("sequence_unit", "What the sequence numbers count: data records, datagrams, data records and template records."),
    (
        "sequence_first",
        "Sequence Number that the first datagram was to have; null when nothing is known of what was before it.",
    ),
    ("sequence_next", "Sequence Number that the datagram after the last one is to have."),
    ("sequence_units", "How far the numbers went in the row: their difference without the wraps at 2^32."),
    (
        "sequence_next_is_least",
        "Whether that number may be larger, because not all records of the last datagram could be counted.",
    ),
    ("exported", "Time of export of the last datagram, by the exporter's clock."),
    ("uptime_ms", "Uptime of the exporter in the last datagram, in milliseconds; null for IPFIX, which has none."),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn row(first: Option<u32>, next: u32) -> SequenceRow {
        let key =
            SequenceKey { exporter: vec![192, 0, 2, 1], exporter_port: 2055, observation_domain: 7, export_version: 9 };
        SequenceRow {
            key,
            received_ms: 2_000,
            since_ms: 1_000,
            unit: "datagrams".to_owned(),
            first,
            next,
            units: 5,
            is_least: false,
            exported_ms: 1_900,
            uptime_ms: Some(77),
        }
    }

    #[test]
    fn rows_become_columns_and_rows_again() {
        let rows = [row(None, 10), SequenceRow { uptime_ms: None, is_least: true, ..row(Some(10), u32::MAX) }];
        let batch = sequence_rows(&rows).expect("rows");
        assert_eq!(read_sequence_rows(batch.record_batch()), rows);
        let documented: Vec<_> = SEQUENCE_DOCS.iter().map(|(name, _)| *name).collect();
        let schema = Table::ExporterSequences.schema();
        assert_eq!(documented, schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>());
        assert!(sequence_rows(&[]).is_none());
    }

    /// A table as archives had it before `sequence_units`.
    #[test]
    fn rows_without_units_have_the_difference() {
        let rows = [SequenceRow { units: 0, ..row(None, 10) }, SequenceRow { units: 7, ..row(Some(u32::MAX - 2), 4) }];
        let batch = sequence_rows(&rows).expect("rows");
        let mut old = batch.record_batch().clone();
        old.remove_column(old.schema().index_of("sequence_units").expect("a column"));
        assert_eq!(read_sequence_rows(&old), rows);
    }

    #[test]
    fn a_row_that_begins_where_another_ends_goes_on_with_it() {
        let mut whole = row(None, 10);
        let next = SequenceRow { received_ms: 4_000, since_ms: 2_000, ..row(Some(10), 25) };
        assert_eq!(whole.follow(next), None);
        assert_eq!(whole, SequenceRow { received_ms: 4_000, units: 10, ..row(None, 25) });
        assert!(whole.follow(row(Some(26), 30)).is_some(), "something is missing between them");
        assert!(whole.follow(row(None, 30)).is_some(), "nobody knows");
    }
}
