//! Rollups against sums over all flows.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, UInt64Type};
use proptest::prelude::*;
use weir_archive::{ArchiveOptions, Rollup, Snapshot, Writer};
use weir_flow::{Column, Delivery, FlowBatch, FlowBatchBuilder, Table};

/// Flows, packets, bytes, first start, last end.
type Sums = (u64, u64, u64, i64, i64);

/// A flow: which columns of keys have a value, and what.
type Row = ([Option<u8>; 4], (u8, u8, u8), Option<u8>, u32);

fn address(seed: u8) -> Vec<u8> {
    if seed.is_multiple_of(3) { [[0xff; 15].to_vec(), vec![seed]].concat() } else { vec![10, 0, 0, seed] }
}

fn batch(rows: &[Row], with: u8) -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(rows.len());
    for &([src, dst, port, system], (packets, bytes, time), flows, long) in rows {
        let time = i64::from(time) * 37_000 - 1_000_000;
        builder.begin_rows(1);
        builder.time(Column::Received).push(Some(i64::from(long % 3) * 86_400_000));
        builder.time(Column::Start).push(Some(time));
        builder.time(Column::End).push(Some(time + i64::from(long)));
        builder.u64(Column::Packets).push(Some(packets.into()));
        // a column that is null in some row makes rollups impossible
        builder.u64(Column::Bytes).push((with != 0 || bytes > 0).then(|| u64::from(bytes) << 40));
        if with & 1 == 1 {
            builder.u64(Column::Flows).push(flows.map(Into::into));
        }
        builder.address(Column::SrcAddr).push(src.map(address).as_deref());
        if with & 2 == 2 {
            builder.address(Column::DstAddr).push(dst.map(address).as_deref());
            builder.address(Column::Exporter).push(system.map(address).as_deref());
        }
        builder.u16(Column::SrcPort).push(port.map(|port| u16::from(port) * 257));
        builder.u8(Column::Protocol).push(port);
        builder.u32(Column::SrcAs).push(system.map(|system| u32::from(system) << 24));
        builder.u32(Column::InIf).push(system.map(Into::into));
    }
    builder.finish()
}

fn number(column: &ArrayRef, row: usize) -> u64 {
    column.as_primitive::<UInt64Type>().value(row)
}

fn ms(column: &ArrayRef, row: usize) -> i64 {
    cast(column, &DataType::Int64).expect("times are numbers").as_primitive::<Int64Type>().value(row)
}

/// A key as octets; empty for none.
fn key(column: &ArrayRef, row: usize) -> Vec<u8> {
    if column.is_null(row) {
        return Vec::new();
    }
    match column.data_type() {
        DataType::Binary => column.as_binary::<i32>().value(row).to_vec(),
        DataType::Timestamp(..) => ms(column, row).to_be_bytes().to_vec(),
        _ => number(&cast(column, &DataType::UInt64).expect("a number"), row).to_be_bytes().to_vec(),
    }
}

fn add(sums: &mut BTreeMap<Vec<u8>, Sums>, key: Vec<u8>, of: Sums) {
    let sum = sums.entry(key).or_insert((0, 0, 0, i64::MAX, i64::MIN));
    *sum = (sum.0 + of.0, sum.1 + of.1, sum.2 + of.2, sum.3.min(of.3), sum.4.max(of.4));
}

/// Sums over flows, one by one.
fn scan(rollup: Rollup, batches: &[RecordBatch]) -> BTreeMap<Vec<u8>, Sums> {
    let mut sums = BTreeMap::new();
    for batch in batches {
        let column = |column: Column| batch.column(column as usize);
        for row in 0..batch.num_rows() {
            let flows = column(Column::Flows);
            let flows = if flows.is_null(row) { 1 } else { number(flows, row) };
            let start = ms(column(Column::Start), row);
            let key = match rollup.column() {
                Some(of) => key(column(of), row),
                None => (start.div_euclid(60_000) * 60_000).to_be_bytes().to_vec(),
            };
            let (packets, bytes) = (number(column(Column::Packets), row), number(column(Column::Bytes), row));
            add(&mut sums, key, (flows, packets, bytes, start, ms(column(Column::End), row)));
        }
    }
    sums
}

fn table(rows: &RecordBatch) -> BTreeMap<Vec<u8>, Sums> {
    let mut sums = BTreeMap::new();
    for row in 0..rows.num_rows() {
        let [flows, packets, bytes] = [1, 2, 3].map(|column| number(rows.column(column), row));
        let sum = (flows, packets, bytes, ms(rows.column(4), row), ms(rows.column(5), row));
        assert!(sums.insert(key(rows.column(0), row), sum).is_none(), "a key that stands twice");
    }
    sums
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn rollups_are_sums_over_all_flows(
        deliveries in proptest::collection::vec((proptest::collection::vec(any::<Row>(), 1..40), 0u8..4), 1..5),
        segment_rows_max in 20usize..60,
    ) {
        let dir = tempfile::tempdir().expect("a folder");
        let options = ArchiveOptions { segment_rows_max, row_group_rows_max: 16, summaries_when_sealing: true, ..ArchiveOptions::default() };
        let (mut writer, _) = Writer::open(dir.path(), options).expect("an archive");
        for (rows, with) in &deliveries {
            writer.append(Delivery::from(batch(rows, *with))).expect("appended");
        }
        writer.close().expect("sealed");
        let snapshot = Snapshot::open(dir.path()).expect("a snapshot");
        let all_whole = deliveries.iter().all(|(rows, with)| *with != 0 || rows.iter().all(|row| row.1.1 > 0));
        for &rollup in Rollup::ALL {
            let (mut all, mut merged) = (BTreeMap::new(), BTreeMap::new());
            for segment in snapshot.segments(Table::Flows) {
                let batches = segment.read().expect("readable");
                let is_whole = batches.iter().all(|batch| batch.column(Column::Bytes as usize).null_count() == 0);
                let found = segment.rollup(rollup).expect("readable");
                prop_assert!(found.is_none() || is_whole);
                prop_assert!(found.is_some() || !all_whole);
                let Some(found) = found else { continue };
                prop_assert!(found.rest.is_none());
                prop_assert_eq!(found.rows.schema_ref().field(0).name(), rollup.name());
                for (key, sums) in table(&found.rows) {
                    add(&mut merged, key, sums);
                }
                for (key, sums) in scan(rollup, &batches) {
                    add(&mut all, key, sums);
                }
            }
            prop_assert_eq!(merged, all, "by {}", rollup.name());
        }
    }
}

#[test]
fn what_has_no_row_has_no_more_than_is_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut writer, _) =
        Writer::open(dir.path(), ArchiveOptions { summaries_when_sealing: true, ..ArchiveOptions::default() })
            .expect("an archive");
    let rows = 30_000u32;
    let mix = |row: u32| row.wrapping_mul(0x9e37_79b1) >> 8;
    let mut builder = FlowBatchBuilder::new(rows as usize);
    builder.begin_rows(rows as usize);
    let numbers = || (0..rows).map(mix);
    builder.time(Column::Received).repeat(0, rows as usize);
    builder.time(Column::Start).extend(numbers().map(i64::from).collect::<Vec<_>>().into_iter());
    builder.time(Column::End).extend(numbers().map(|number| i64::from(number) + 5).collect::<Vec<_>>().into_iter());
    let hosts = (0..rows).map(|row| (mix(row) % (1 + row / 2)).to_be_bytes());
    builder.address(Column::SrcAddr).extend_fixed(hosts.collect::<Vec<_>>().into_iter());
    builder
        .u64(Column::Packets)
        .extend(numbers().map(|number| u64::from(number % 999)).collect::<Vec<_>>().into_iter());
    builder
        .u64(Column::Bytes)
        .extend(numbers().map(|number| u64::from(number % 77_777)).collect::<Vec<_>>().into_iter());
    writer.append(Delivery::from(builder.finish())).expect("appended");
    writer.close().expect("sealed");
    let snapshot = Snapshot::open(dir.path()).expect("a snapshot");
    let [segment] = snapshot.segments(Table::Flows) else { panic!("one segment") };
    let found = segment.rollup(Rollup::SrcAddr).expect("readable").expect("a rollup");
    let mut left = scan(Rollup::SrcAddr, &segment.read().expect("readable"));
    for (key, sums) in table(&found.rows) {
        assert_eq!(left.remove(&key), Some(sums), "{key:?}");
    }
    let rest = found.rest.expect("more keys than are kept");
    assert_eq!(rest.keys, left.len() as u64);
    let largest = |of: fn(&Sums) -> u64| left.values().map(of).max();
    assert_eq!(largest(|sums| sums.0), Some(rest.flows_max));
    assert_eq!(largest(|sums| sums.1), Some(rest.packets_max));
    assert_eq!(largest(|sums| sums.2), Some(rest.bytes_max));
}
