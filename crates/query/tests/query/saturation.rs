//! Sums that are larger than 64 bits hold are the largest number, whichever way they are computed, and the answer says
//! so.

use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use weir_archive::{ArchiveOptions, CompactionOptions, Writer};
use weir_filter::Predicate;
use weir_flow::{Column, Delivery, FlowBatch, FlowBatchBuilder};
use weir_query::{
    AggregateKey, Archive, Conversation, Conversations, FlowQuery, Measure, Order, Progress, QueryOptions, Select,
    Sorting, StatisticKey, TimeWindow,
};

use crate::summaries::NOW_MS;

const HALF: u64 = 1 << 63;

/// Three flows of each of 100 hosts: those of the first have too many bytes together, though not any two of them; those
/// of the second have exactly the largest number.
fn batch(third: u64) -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(100);
    for host in 0..100_u8 {
        builder.begin_rows(1);
        builder.time(Column::Received).push(Some(NOW_MS));
        builder.time(Column::Start).push(Some(NOW_MS));
        builder.time(Column::End).push(Some(NOW_MS + 1));
        builder.u64(Column::Packets).push(Some(2));
        builder.u64(Column::Bytes).push(Some(match (host, third) {
            (0, 0) => HALF,
            (0, _) => HALF / 2 + 1,
            (1, 0) => u64::MAX - 5,
            (1, 1) => 5,
            (1, _) => 0,
            (host, third) => u64::from(host) + third,
        }));
        builder.u64(Column::BytesReverse).push(Some(1));
        builder.address(Column::SrcAddr).push(Some(&[10, 0, 0, host]));
        builder.address(Column::DstAddr).push(Some(&[10, 0, 0, host]));
    }
    builder.finish()
}

fn numbers(batches: &[RecordBatch], column: &str) -> Vec<u64> {
    let of_batch =
        |batch: &RecordBatch| batch.column_by_name(column).expect("a column").as_primitive::<UInt64Type>().clone();
    batches.iter().map(of_batch).flat_map(|values| values.iter().flatten().collect::<Vec<_>>()).collect()
}

#[test]
fn sums_are_the_largest_number_everywhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let compaction = CompactionOptions { enabled: false, ..CompactionOptions::default() };
    // few heavy keys, so that bounds are added up as well
    for (third, heavy_keys_min) in [(0, 2), (1, 2), (2, 2048)] {
        let options =
            ArchiveOptions { summaries_when_sealing: true, heavy_keys_min, compaction, ..ArchiveOptions::default() };
        let (mut writer, _) = Writer::open(folder.path(), options).expect("an archive");
        writer.append(Delivery::from(batch(third))).expect("appended");
        writer.close().expect("closed");
    }
    let sorting = Sorting::usual(Order::Bytes);
    let keys = vec![AggregateKey::Column(Column::SrcAddr)];
    let aggregate = |more, sorting, limit| Select::Aggregate { keys: keys.clone(), more, sorting, limit };
    let statistic = |name, limit| {
        let key = StatisticKey::parse(name).expect("a key");
        Select::Statistic { key, per_protocol: false, sorting, limit }
    };
    let selects = [
        aggregate(Vec::new(), Some(sorting), None),
        aggregate(Vec::new(), Some(sorting), Some(2)),
        statistic("srcip", Some(2)),
        statistic("srcip", None),
    ];
    for (select, summaries) in selects.iter().flat_map(|select| [(select, true), (select, false)]) {
        let progress = Arc::new(Progress::default());
        let options = QueryOptions { summaries, progress: Arc::clone(&progress), ..QueryOptions::default() };
        let archive = Archive::open(folder.path(), options).expect("the archive");
        let window = TimeWindow::default();
        let question = FlowQuery { filter: Predicate::True, window, select: select.clone(), scaled: false };
        let batches: Vec<_> = archive.ask(&question).expect("asked").collect::<Result<_, _>>().expect("an answer");
        assert_eq!(numbers(&batches, "bytes")[..2], [u64::MAX; 2], "{select:?}, {summaries}");
        assert_eq!(numbers(&batches, "packets")[..2], [6; 2], "{select:?}, {summaries}");
        assert_eq!(progress.counts().rows_saturated, 1, "{select:?}, {summaries}");
        let totals = archive.totals(&Predicate::True, &window).expect("totals");
        assert_eq!((totals.bytes, totals.packets, totals.is_saturated), (Some(u64::MAX), Some(600), true));
    }
}

#[test]
fn further_measures_and_conversations_are_no_exception() {
    let progress = Arc::new(Progress::default());
    let options = QueryOptions { progress: Arc::clone(&progress), ..QueryOptions::default() };
    let more = vec![Measure::Sum(Column::Bytes), Measure::Sum(Column::BytesReverse)];
    let keys = vec![AggregateKey::Column(Column::SrcAddr)];
    let select = Select::Aggregate { keys, more, sorting: Some(Sorting::usual(Order::Bytes)), limit: Some(2) };
    let question = FlowQuery { filter: Predicate::True, window: TimeWindow::default(), select, scaled: false };
    let flows = (0..3).map(|third| Ok::<_, std::io::Error>(batch(third)));
    let batches = weir_query::ask_batches(&question, flows, &options).expect("asked");
    let batches: Vec<_> = batches.collect::<Result<_, _>>().expect("an answer");
    let measured = batches[0].column(batches[0].num_columns() - 2).as_primitive::<UInt64Type>();
    assert_eq!((measured.values()[..].to_vec(), progress.counts().rows_saturated), (vec![u64::MAX; 2], 1));
    let mut conversations = Conversations::new(Conversation::OneWay);
    (0..3).for_each(|third| conversations.add(&batch(third)));
    assert_eq!(conversations.saturated(), 1);
    let flows = conversations.finish();
    let bytes = flows[0].primitive::<UInt64Type>(Column::Bytes).expect("bytes");
    assert_eq!((bytes.value(0), bytes.value(1), bytes.null_count()), (u64::MAX, u64::MAX, 0));
}
