//! Rows and groups of equal rank: their order is that of the archive or of their keys, whatever threads do.

use arrow::array::{AsArray, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::UInt64Type;
use weir_archive::{ArchiveOptions, CompactionOptions, Writer};
use weir_filter::Predicate;
use weir_flow::{Column, Delivery, Table};
use weir_generate::TrafficModel;
use weir_query::{
    AggregateKey, Archive, Direction, FlowQuery, Order, QueryOptions, Select, Sorting, StatisticKey, TimeWindow,
};

const RUNS: usize = 2;

fn ask(archive: &Archive, select: &Select) -> RecordBatch {
    let window = TimeWindow::default();
    let question = FlowQuery { filter: Predicate::True, window, select: select.clone(), scaled: false };
    let batches: Vec<RecordBatch> = archive.ask(&question).expect("asked").map(|batch| batch.expect("read")).collect();
    let schema = batches.first().expect("an answer").schema();
    arrow::compute::concat_batches(&schema, &batches).expect("one batch")
}

#[test]
fn answers_do_not_depend_on_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    // the archive stays as it is
    let compaction = CompactionOptions { enabled: false, ..CompactionOptions::default() };
    let options = ArchiveOptions { segment_rows_max: 11_000, compaction, ..ArchiveOptions::default() };
    let tail = ArchiveOptions { compaction, ..ArchiveOptions::default() };
    let mut model = TrafficModel::new(11);
    (model.hosts, model.received) = (1 << 12, true);
    let (mut writer, _) = Writer::open(folder.path(), options).expect("an archive");
    for batch in model.flows(140_000).expect("a model") {
        writer.append(Delivery::from(batch)).expect("appended");
    }
    writer.close().expect("sealed");
    // and a tail
    let (mut writer, _) = Writer::open(folder.path(), tail).expect("an archive");
    for batch in model.flows(10_000).expect("a model") {
        writer.append(Delivery::from(batch)).expect("appended");
    }
    let open = |threads, summaries| {
        Archive::open(folder.path(), QueryOptions { threads, summaries, ..QueryOptions::default() }).expect("opened")
    };
    let one = open(1, false);
    assert!(one.snapshot().segments(Table::Flows).len() > 3 && !one.snapshot().tail(Table::Flows).is_empty());
    let columns = vec![Column::Packets, Column::SrcAddr, Column::SrcPort, Column::Start];
    let list = |sorting, limit| Select::List { columns: columns.clone(), sorting, limit };
    // the order of the archive, sorted without changing the order of equals
    let all = ask(&one, &list(None, None));
    let packets = all.column(0).as_primitive::<UInt64Type>();
    let mut order: Vec<u32> = (0..all.num_rows() as u32).collect();
    order.sort_by_key(|row| std::cmp::Reverse(packets.value(*row as usize)));
    let expected = take_record_batch(&all, &UInt32Array::from(order)).expect("sorted");
    let most = Sorting { order: Order::Packets, direction: Direction::Descending };
    let bytes = Sorting { order: Order::Flows, direction: Direction::Ascending };
    let keys = vec![AggregateKey::Column(Column::SrcAddr), AggregateKey::Column(Column::Protocol)];
    let aggregate = |limit| Select::Aggregate { keys: keys.clone(), more: Vec::new(), sorting: Some(bytes), limit };
    let key = StatisticKey::parse("ip").expect("a statistic");
    let statistic = Select::Statistic { key, per_protocol: false, sorting: bytes, limit: Some(50) };
    let groups = [aggregate(None), aggregate(Some(50)), statistic];
    let groups = groups.map(|select| (ask(&one, &select), select));
    for threads in [1, 2, 4, 7] {
        for _ in 0..RUNS {
            let archive = open(threads, false);
            for limit in [300, 70_000] {
                let found = ask(&archive, &list(Some(most), Some(limit)));
                assert!(found == expected.slice(0, limit), "the first {limit} with {threads} threads");
            }
            assert!(ask(&archive, &list(Some(most), None)) == expected, "all with {threads} threads");
            for (expected, select) in &groups {
                assert!(ask(&archive, select) == *expected, "{select:?} with {threads} threads");
            }
        }
    }
}
