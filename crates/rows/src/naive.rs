//! What the components with windows and groups are compared with: rows as structures, and a loop that looks at one after
//! the other and searches lists from their start.

use arrow::array::{Array, AsArray, RecordBatch};
use proptest::prelude::*;
use weir_flow::{Column, FlowBatchBuilder};

use crate::numbers::{Numbers, number};

/// A flow with few columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    pub start_ms: Option<i64>,
    pub end_ms: Option<i64>,
    pub src: Option<Vec<u8>>,
    pub port: Option<u16>,
    pub packets: Option<u64>,
    pub bytes: Option<u64>,
    pub flows: Option<u64>,
}

/// Source address and port, or what is left of them.
pub type Key = (Option<Vec<u8>>, Option<u16>);

/// Rows with the same key in the same window.
#[derive(Debug, Clone)]
pub struct Group<'a> {
    pub window_ms: i64,
    pub key: Key,
    pub rows: Vec<&'a Row>,
}

/// How rows are grouped.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub width_ms: i64,
    pub lateness_ms: i64,
    pub groups_max: usize,
    pub hand_on: bool,
}

/// What came out.
#[derive(Debug, Default)]
pub struct Grouped<'a> {
    pub groups: Vec<Group<'a>>,
    pub late: u64,
    pub without_time: u64,
    pub shed: u64,
    pub early: u64,
}

/// Groups rows, one after the other. A width of 0 makes one window.
pub fn group(rows: &[Row], settings: Settings, key: impl Fn(&Row) -> Key) -> Grouped<'_> {
    let mut out = Grouped::default();
    let mut open: Vec<Group<'_>> = Vec::new();
    let mut latest: Option<i64> = None;
    for row in rows {
        let mut window_ms = 0;
        if settings.width_ms > 0 {
            let Some(time) = row.start_ms else {
                out.without_time += 1;
                continue;
            };
            latest = latest.max(Some(time));
            let is_closed =
                |start: i64| latest.is_some_and(|now| now >= start + settings.width_ms + settings.lateness_ms);
            close(&mut open, &mut out.groups, is_closed);
            while window_ms > time {
                window_ms -= settings.width_ms;
            }
            while window_ms + settings.width_ms <= time {
                window_ms += settings.width_ms;
            }
            if is_closed(window_ms) {
                out.late += 1;
                continue;
            }
        }
        let key = key(row);
        let is_same = |group: &&mut Group<'_>| group.window_ms == window_ms && group.key == key;
        if let Some(found) = open.iter_mut().find(is_same) {
            found.rows.push(row);
            continue;
        }
        if open.len() == settings.groups_max {
            if !settings.hand_on {
                out.shed += 1;
                continue;
            }
            out.early += open.len() as u64;
            close(&mut open, &mut out.groups, |_| true);
        }
        open.push(Group { window_ms, key, rows: vec![row] });
    }
    close(&mut open, &mut out.groups, |_| true);
    out
}

fn close<'a>(open: &mut Vec<Group<'a>>, closed: &mut Vec<Group<'a>>, is_closed: impl Fn(i64) -> bool) {
    let mut out: Vec<_> = open.iter().filter(|group| is_closed(group.window_ms)).cloned().collect();
    out.sort_by_key(|group| group.window_ms);
    closed.append(&mut out);
    open.retain(|group| !is_closed(group.window_ms));
}

/// Rows as a batch of flows.
pub fn batch(rows: &[Row]) -> RecordBatch {
    let mut builder = FlowBatchBuilder::new(rows.len());
    for row in rows {
        builder.begin_rows(1);
        builder.time(Column::Start).push(row.start_ms);
        builder.time(Column::End).push(row.end_ms);
        builder.address(Column::SrcAddr).push(row.src.as_deref());
        builder.u16(Column::SrcPort).push(row.port);
        builder.u64(Column::Packets).push(row.packets);
        builder.u64(Column::Bytes).push(row.bytes);
        builder.u64(Column::Flows).push(row.flows);
    }
    builder.finish().record_batch().clone()
}

/// Some rows, with times from -2 s to 4 s that mostly grow, few keys, small and large numbers, and nulls everywhere.
pub fn rows() -> impl Strategy<Value = Vec<Row>> {
    let addresses = [vec![10, 0, 0, 1], vec![10, 0, 0, 200], vec![10, 0, 1, 1], vec![0x20; 16], {
        let mut other = vec![0x20; 16];
        other[9] = 7;
        other
    }];
    let number = prop_oneof![8 => 0_u64..2000, 1 => any::<u64>(), 1 => Just(u64::MAX)];
    let numbers = (proptest::option::weighted(0.9, number.clone()), proptest::option::weighted(0.9, number));
    let keys = (
        proptest::option::weighted(0.95, proptest::sample::select(addresses.to_vec())),
        proptest::option::weighted(0.9, proptest::sample::select(vec![53_u16, 443])),
    );
    let times = (proptest::option::weighted(0.97, -400_i64..400), proptest::option::weighted(0.9, 0_i64..500));
    let row = (times, keys, numbers, proptest::option::weighted(0.2, 0_u64..5));
    prop::collection::vec(row, 0..120).prop_map(|rows| {
        let rows = rows.into_iter().enumerate();
        rows.map(|(number, ((start, length), (src, port), (packets, bytes), flows))| {
            let start_ms = start.map(|start| start - 1600 + number as i64 * 40);
            let end_ms = start_ms.zip(length).map(|(start, length)| start + length);
            Row { start_ms, end_ms, src, port, packets, bytes, flows }
        })
        .collect()
    })
}

/// A column of numbers or times.
pub fn numbers(batch: &RecordBatch, name: &str) -> Vec<Option<i128>> {
    let column = batch.column_by_name(name).unwrap_or_else(|| panic!("no column {name}"));
    let numbers = Numbers::read(name, column).expect("numbers");
    let values = numbers.words.iter().map(|word| number(*word, numbers.has_sign)).enumerate();
    values.map(|(row, value)| column.is_valid(row).then_some(value)).collect()
}

/// A column of octets.
pub fn octets(batch: &RecordBatch, name: &str) -> Vec<Option<Vec<u8>>> {
    let column = batch.column_by_name(name).unwrap_or_else(|| panic!("no column {name}"));
    column.as_binary::<i32>().iter().map(|octets| octets.map(<[u8]>::to_vec)).collect()
}

/// Names of the columns.
pub fn names(batch: &RecordBatch) -> Vec<String> {
    batch.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
}

/// The sum as it is handed on: of what is there, and not over the largest 64-bit number.
pub fn sum(values: impl Iterator<Item = Option<u64>>) -> Option<i128> {
    let values: Vec<i128> = values.flatten().map(i128::from).collect();
    (!values.is_empty()).then(|| values.iter().sum::<i128>().min(u64::MAX.into()))
}
