//! Any deliveries come back as they went in.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use proptest::prelude::*;
use weir_archive::{ArchiveOptions, Snapshot, Writer};
use weir_flow::{Column, ColumnType, Delivery, FlowBatch, FlowBatchBuilder, Table};

use crate::numbered::batches;

/// What one group of rows has: for each column, nothing, or a seed of its values.
type Group = (usize, Vec<Option<u64>>);

fn groups() -> impl Strategy<Value = Vec<Vec<Group>>> {
    let column = prop_oneof![2 => Just(None), 1 => any::<u64>().prop_map(Some), 1 => (0u64..3).prop_map(Some)];
    let group = (1usize..6, proptest::collection::vec(column, Column::COUNT));
    proptest::collection::vec(proptest::collection::vec(group, 0..3), 1..6)
}

fn batch(groups: &[Group]) -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(8);
    for (rows, columns) in groups {
        builder.begin_rows(*rows);
        for (&column, seed) in Column::ALL.iter().zip(columns) {
            match seed {
                Some(seed) => (0..*rows).for_each(|row| push(&mut builder, column, seed.wrapping_add(row as u64))),
                None if column == Column::Received => builder.time(column).repeat(-1, *rows),
                None => {}
            }
        }
    }
    builder.finish()
}

fn push(builder: &mut FlowBatchBuilder, column: Column, seed: u64) {
    // Every fifth value is null, but never the time of collection.
    let some = seed % 5 != 4 || column == Column::Received;
    match column.column_type() {
        ColumnType::U8 => builder.u8(column).push(some.then_some(seed as u8)),
        ColumnType::U16 => builder.u16(column).push(some.then_some(seed as u16)),
        ColumnType::U32 => builder.u32(column).push(some.then_some(seed as u32)),
        ColumnType::U64 => builder.u64(column).push(some.then_some(seed)),
        // Days enough for several partitions, few enough for a test.
        ColumnType::Time if column == Column::Received => {
            builder.time(column).push(Some((seed % 4) as i64 * 86_399_999));
        }
        ColumnType::Time => builder.time(column).push(some.then_some(seed as i64)),
        ColumnType::Address | ColumnType::Mac | ColumnType::Octets => {
            let octets = [seed.to_be_bytes(), (!seed).to_le_bytes()].concat();
            let length = if seed.is_multiple_of(2) { 4 } else { seed as usize % 17 };
            builder.address(column).push(some.then_some(&octets[..length]));
        }
        ColumnType::Text => {
            let text = format!("Host{}.example", seed % 50);
            builder.text(column).push(some.then_some(text.as_bytes()));
        }
        ColumnType::Elements => {
            (0..seed % 3).for_each(|id| builder.elements().push(seed as u32, id as u16, &seed.to_be_bytes()));
            builder.elements().end_row();
        }
    }
}

/// Times as numbers: printing them in UTC by name would need a table of time zones.
fn printable(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Timestamp(..) => cast(column, &DataType::Int64).expect("times are numbers"),
        _ => column.clone(),
    }
}

/// Rows as text, sorted: a multiset that can be compared.
fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("null");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<_> = batch.columns().iter().map(printable).collect();
        let columns = columns.iter().map(|column| ArrayFormatter::try_new(column, &options));
        let columns = columns.collect::<Result<Vec<_>, _>>().expect("columns that can be printed");
        let row = |row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join(" ");
        rows.extend((0..batch.num_rows()).map(row));
    }
    rows.sort();
    rows
}

fn full(batches: Vec<RecordBatch>) -> Vec<RecordBatch> {
    batches.into_iter().map(|batch| FlowBatch::try_new(batch).expect("flows").to_full()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rows_come_back_as_a_multiset(deliveries in groups(), close_after in 0usize..6, segment_rows_max in 1usize..20) {
        let dir = tempfile::tempdir().expect("a folder");
        let options = ArchiveOptions { segment_rows_max, row_group_rows_max: 7, ..ArchiveOptions::default() };
        let mut expected = Vec::new();
        let (mut writer, _) = Writer::open(dir.path(), options).expect("an archive");
        for (number, groups) in deliveries.iter().enumerate() {
            let flows = batch(groups);
            expected.push(flows.to_full());
            writer.append(Delivery::from(flows)).expect("appended");
            if number == close_after {
                writer.close().expect("sealed");
                writer = Writer::open(dir.path(), options).expect("the archive opens").0;
            }
        }
        let expected = rows(&expected);
        let snapshot = Snapshot::open(dir.path()).expect("a snapshot");
        prop_assert_eq!(snapshot.flows(), expected.len() as u64);
        prop_assert_eq!(&rows(&full(batches(&snapshot, Table::Flows))), &expected);
        writer.close().expect("sealed");
        let snapshot = Snapshot::open(dir.path()).expect("a snapshot");
        prop_assert!(snapshot.tail_frames().is_empty());
        let (sealed, schema) = (batches(&snapshot, Table::Flows), Table::Flows.schema());
        for batch in &sealed {
            prop_assert_eq!(batch.schema_ref().fields(), schema.fields());
        }
        prop_assert_eq!(&rows(&sealed), &expected);
        for segment in snapshot.segments(Table::Flows) {
            let read = segment.read().expect("readable");
            let times = |column: Column| -> Vec<Option<i64>> {
                let times = read.iter().flat_map(|batch| {
                    let batch = FlowBatch::try_new(batch.clone()).expect("flows");
                    let times = batch.primitive::<arrow::datatypes::TimestampMillisecondType>(column).cloned();
                    times.expect("a segment has every column").iter().collect::<Vec<_>>()
                });
                times.collect()
            };
            let mut told = [times(Column::Start), times(Column::End)].concat();
            let is_lacking = told.iter().any(Option::is_none);
            // a flow without a time counts as having happened when it was received
            if is_lacking && told.iter().any(Option::is_some) {
                told.extend(times(Column::Received));
            }
            let range = told.iter().flatten().min().copied().zip(told.iter().flatten().max().copied());
            prop_assert_eq!(segment.time_range_ms, range);
        }
    }
}
