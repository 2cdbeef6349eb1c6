//! What the decoder hands on, row by row.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use weir_collect::{Decoder, DecoderStatistics, Limits};
use weir_flow::elements::elements_of_row;
use weir_flow::{BooksBatch, Column, ColumnType, Counter, Delivery, FlowBatch, Table, TableBatch};

use crate::inputs::Datagram;

/// A value of a column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cell {
    Number(u64),
    Time(i64),
    Octets(Vec<u8>),
}

/// A flow: the columns that are not null, and the elements without a column as (enterprise, id, octets).
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub cells: BTreeMap<Column, Cell>,
    pub elements: Vec<(u32, u16, Vec<u8>)>,
    /// What is in lists, the same way.
    pub nested: Vec<(u32, u16, Vec<u8>)>,
}

/// What became of the datagrams: for each of them the flows that came out when it went in.
pub(crate) struct Decoded {
    pub rows: Vec<Vec<Row>>,
    pub statistics: DecoderStatistics,
    /// Sums of the lines of the books that came with the flows, by counter.
    pub books: [u64; Counter::COUNT],
    /// Rows of `exporter_options`.
    pub options: Vec<OptionsRow>,
}

/// A row of `exporter_options`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OptionsRow {
    pub kind: String,
    pub name: Option<String>,
    pub sampling_interval: Option<u32>,
    pub elements: Vec<(u32, u16, Vec<u8>)>,
}

/// Decodes datagrams in order.
pub(crate) fn decode<'a>(datagrams: impl IntoIterator<Item = &'a Datagram>) -> Decoded {
    // what is compared is each datagram, also where the test of another project sends one twice
    let mut decoder = Decoder::new(Limits { duplicate_datagrams_max: 0, ..Limits::default() });
    let mut rows = Vec::new();
    let mut books = [0; Counter::COUNT];
    let mut options = Vec::new();
    for datagram in datagrams {
        decoder.datagram(datagram.source, datagram.received_ms, &datagram.payload);
        let delivery = decoder.take_delivery();
        add_books(&delivery, &mut books);
        delivery.side_tables.others.iter().for_each(|batch| options.extend(options_of(batch)));
        rows.push(delivery.flows.map(|flows| rows_of(&flows)).unwrap_or_default());
    }
    Decoded { rows, statistics: decoder.statistics(), books, options }
}

fn options_of(batch: &TableBatch) -> Vec<OptionsRow> {
    if batch.table() != Table::ExporterOptions {
        return Vec::new();
    }
    let column = |name| batch.record_batch().column_by_name(name).expect("a column of the table");
    let (kinds, names) = (column("kind").as_string::<i32>(), column("name").as_string::<i32>());
    let intervals = column("sampling_interval").as_primitive::<UInt32Type>();
    let row = |row: usize| OptionsRow {
        kind: kinds.value(row).to_owned(),
        name: names.is_valid(row).then(|| names.value(row).to_owned()),
        sampling_interval: intervals.is_valid(row).then(|| intervals.value(row)),
        elements: elements_of_row(column("elements"), row)
            .into_iter()
            .map(|value| (value.enterprise, value.id, value.octets.to_vec()))
            .collect(),
    };
    (0..batch.record_batch().num_rows()).map(row).collect()
}

/// Adds up the lines of the books of a delivery.
pub(crate) fn add_books(delivery: &Delivery, books: &mut [u64; Counter::COUNT]) {
    let Some(lines) = delivery.books().map(BooksBatch::record_batch) else { return };
    for (&counter, sum) in Counter::ALL.iter().zip(books) {
        let column = lines.column_by_name(counter.name()).expect("a column for every counter");
        *sum += column.as_primitive::<UInt64Type>().iter().flatten().sum::<u64>();
    }
}

/// The rows of a batch.
pub(crate) fn rows_of(batch: &FlowBatch) -> Vec<Row> {
    let mut rows = vec![Row::default(); batch.rows()];
    for &column in Column::ALL {
        let Some(values) = batch.column(column) else { continue };
        for (number, row) in rows.iter_mut().enumerate() {
            if values.is_null(number) {
                continue;
            }
            let cell = match column.column_type() {
                ColumnType::U8 => Cell::Number(values.as_primitive::<UInt8Type>().value(number).into()),
                ColumnType::U16 => Cell::Number(values.as_primitive::<UInt16Type>().value(number).into()),
                ColumnType::U32 => Cell::Number(values.as_primitive::<UInt32Type>().value(number).into()),
                ColumnType::U64 => Cell::Number(values.as_primitive::<UInt64Type>().value(number)),
                ColumnType::Time => Cell::Time(values.as_primitive::<TimestampMillisecondType>().value(number)),
                ColumnType::Address | ColumnType::Mac | ColumnType::Octets => {
                    Cell::Octets(values.as_binary::<i32>().value(number).to_vec())
                }
                ColumnType::Text => Cell::Octets(values.as_string::<i32>().value(number).into()),
                ColumnType::Elements => {
                    for value in elements_of_row(values, number) {
                        let target = if value.place.is_none() { &mut row.elements } else { &mut row.nested };
                        target.push((value.enterprise, value.id, value.octets.to_vec()));
                    }
                    continue;
                }
            };
            row.cells.insert(column, cell);
        }
    }
    rows
}
