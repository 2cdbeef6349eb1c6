//! The same answers, counted row by row.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray, BinaryArray, RecordBatch};
use arrow::datatypes::{TimestampMillisecondType, UInt64Type};
use arrow::util::display::array_value_to_string;
use weir_filter::Predicate;
use weir_flow::{Column, FlowBatch};
use weir_query::{AggregateKey, TimeWindow, WindowRule};

/// A row of an answer as text, column by column.
pub(crate) type Text = Vec<String>;

/// A value as text: a time as its milliseconds, which sort like text while they have as many digits.
fn text(values: &dyn Array, row: usize) -> String {
    match values.as_primitive_opt::<TimestampMillisecondType>() {
        Some(times) if times.is_valid(row) => times.value(row).to_string(),
        Some(_) => String::new(),
        None => array_value_to_string(values, row).expect("printable"),
    }
}

/// Rows as text.
pub(crate) fn texts(batch: &RecordBatch) -> Vec<Text> {
    let value = |column: usize, row| text(batch.column(column), row);
    (0..batch.num_rows()).map(|row| (0..batch.num_columns()).map(|column| value(column, row)).collect()).collect()
}

fn time(batch: &FlowBatch, column: Column, row: usize) -> Option<i64> {
    let times = batch.primitive::<TimestampMillisecondType>(column)?;
    times.is_valid(row).then(|| times.value(row))
}

fn number(batch: &FlowBatch, column: Column, row: usize) -> Option<u64> {
    let numbers = batch.primitive::<UInt64Type>(column)?;
    numbers.is_valid(row).then(|| numbers.value(row))
}

/// Whether a row belongs to a window.
fn is_in(window: &TimeWindow, batch: &FlowBatch, row: usize) -> bool {
    let of = |column| time(batch, column, row).or_else(|| time(batch, Column::Received, row));
    let (start, end) = (of(Column::Start), of(Column::End));
    let holds = |bound: Option<i64>, time: Option<i64>, test: fn(i64, i64) -> bool| {
        bound.is_none_or(|bound| time.is_some_and(|time| test(time, bound)))
    };
    match window.rule {
        WindowRule::Overlaps => {
            holds(window.from_ms, end, |time, from| time >= from)
                && holds(window.until_ms, start, |time, until| time <= until)
        }
        WindowRule::Inside => {
            holds(window.from_ms, start, |time, from| time > from)
                && holds(window.until_ms, end, |time, until| time < until)
        }
    }
}

/// Rows that pass, as pairs of batch and row.
pub(crate) fn passing<'a>(
    batches: &'a [FlowBatch],
    filter: &Predicate,
    window: &TimeWindow,
) -> Vec<(&'a FlowBatch, usize)> {
    let mut rows = Vec::new();
    for batch in batches {
        let mask = filter.mask(batch);
        let passing = (0..batch.rows()).filter(|row| mask.value(*row) && is_in(window, batch, *row));
        rows.extend(passing.map(|row| (batch, row)));
    }
    rows
}

/// A value of a row as text; empty when null.
pub(crate) fn value(batch: &FlowBatch, column: Column, row: usize) -> String {
    batch.column(column).map_or_else(String::new, |values| text(values, row))
}

fn key(batch: &FlowBatch, key: AggregateKey, row: usize) -> String {
    let AggregateKey::Prefix { column, v6, length } = key else { return value(batch, key.column(), row) };
    let addresses = batch.binary(column);
    let Some(address) = addresses.filter(|addresses| addresses.is_valid(row)).map(|addresses| addresses.value(row))
    else {
        return String::new();
    };
    let mut address = address.to_vec();
    if (address.len() == 16) == v6 {
        for bit in usize::from(length)..address.len() * 8 {
            address[bit / 8] &= !(0x80 >> (bit % 8));
        }
    }
    text(&BinaryArray::from_vec(vec![&address]), 0)
}

/// What is counted for a group.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) flows: u64,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    start: Option<i64>,
    end: Option<i64>,
}

/// Groups by the text of their keys; with several sides a row counts once for each that is not null.
pub(crate) fn groups(
    rows: &[(&FlowBatch, usize)],
    sides: &[Vec<AggregateKey>],
    skip_null: bool,
) -> BTreeMap<Text, Counted> {
    let mut groups: BTreeMap<Text, Counted> = BTreeMap::new();
    for (batch, row) in rows {
        for side in sides {
            let keys: Text = side.iter().map(|part| key(batch, *part, *row)).collect();
            if skip_null && keys.first().is_some_and(String::is_empty) {
                continue;
            }
            let group = groups.entry(keys).or_default();
            group.flows += number(batch, Column::Flows, *row).unwrap_or(1);
            group.packets += number(batch, Column::Packets, *row).unwrap_or(0);
            group.bytes += number(batch, Column::Bytes, *row).unwrap_or(0);
            let (start, end) = (time(batch, Column::Start, *row), time(batch, Column::End, *row));
            group.start = [group.start, start].into_iter().flatten().min();
            group.end = group.end.max(end);
        }
    }
    groups
}

/// Groups of an answer whose first `keys` columns are keys. A sum that is null counts as 0.
pub(crate) fn groups_of(batches: &[RecordBatch], keys: usize) -> BTreeMap<Text, Counted> {
    let mut groups = BTreeMap::new();
    for batch in batches {
        let column = |name: &str| batch.column_by_name(name).expect("a column").clone();
        for (row, text) in texts(batch).into_iter().enumerate() {
            let number = |name: &str| {
                let numbers = column(name);
                let numbers = numbers.as_primitive::<UInt64Type>();
                if numbers.is_valid(row) { numbers.value(row) } else { 0 }
            };
            let time = |name: &str| {
                let times = column(name);
                let times = times.as_primitive::<TimestampMillisecondType>();
                times.is_valid(row).then(|| times.value(row))
            };
            let (flows, packets, bytes) = (number("flows"), number("packets"), number("bytes"));
            let counted = Counted { flows, packets, bytes, start: time("start"), end: time("end") };
            assert_eq!(groups.insert(text[..keys].to_vec(), counted), None, "a group twice");
        }
    }
    groups
}
