//! Scans of many segments, and what does not depend on threads.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use arrow::array::RecordBatch;
use weir_archive::{ArchiveOptions, Snapshot, Writer};
use weir_filter::Predicate;
use weir_flow::{Column, Delivery, Table};
use weir_generate::TrafficModel;

use super::{FlowScan, PageDecoder, ScanSpec};
use crate::archive::answer;
use crate::flows::FlowSources;
use crate::run::share_out_from;
use crate::{
    AggregateKey, FlowQuery, Order, Progress, QueryError, QueryOptions, Select, Sorting, StatisticKey, TimeWindow,
};

const SEGMENTS: usize = 5000;
const SEGMENT_ROWS: u64 = 40;
/// Files that the child may have open, far fewer than there are segments.
const FILES_MAX: &str = "256";
const FOLDER: &str = "WEIR_SCAN_FOLDER";

/// An archive of so many flows of the generator, in segments.
fn archive(folder: &Path, flows: u64, segment_rows_max: usize) -> Arc<Snapshot> {
    let options = ArchiveOptions { segment_rows_max, row_group_rows_max: 8192 * 4, ..ArchiveOptions::default() };
    let (mut writer, _) = Writer::open(folder, options).expect("an archive");
    let mut model = TrafficModel::new(7);
    (model.hosts, model.received) = (1 << 10, true);
    for batch in model.flows(flows).expect("a model") {
        writer.append(Delivery::from(batch)).expect("appended");
    }
    writer.close().expect("sealed");
    Arc::new(Snapshot::open(folder).expect("a snapshot"))
}

fn question(filter: &str, select: Select) -> FlowQuery {
    let filter = weir_filter::parse(filter).expect("a filter");
    FlowQuery { filter, window: TimeWindow::default(), select, scaled: false }
}

fn rows(sources: &FlowSources, question: &FlowQuery) -> Vec<RecordBatch> {
    let answered = answer(sources, question, &QueryOptions { threads: 3, ..QueryOptions::default() }, |batch| batch);
    answered.and_then(Iterator::collect).unwrap_or_else(|error| panic!("{question:?}: {error:?}"))
}

fn count(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// Not a test by itself: a process that may have few files open asks about many segments.
#[test]
fn child_asks_about_more_segments_than_it_may_have_files() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let snapshot = Arc::new(Snapshot::open(Path::new(&folder)).expect("a snapshot"));
    let one = FlowSources::of(&snapshot, &TimeWindow::default(), &Progress::default());
    let many = one.with_segments(vec![one.segments[0].clone(); SEGMENTS]);
    let columns = vec![Column::SrcAddr, Column::Bytes];
    let list = |sorting, limit| Select::List { columns: columns.clone(), sorting, limit };
    let bytes = Some(Sorting::usual(Order::Bytes));
    let all = SEGMENTS * SEGMENT_ROWS as usize;
    assert_eq!(count(&rows(&many, &question("any", list(None, None)))), all);
    assert_eq!(count(&rows(&many, &question("any", list(None, Some(1))))), 1);
    assert_eq!(count(&rows(&many, &question("any", list(bytes, Some(5))))), 5);
    let needle = question("src port 443 or dst port 443", list(None, None));
    let found = count(&rows(&one, &needle));
    assert!(found > 0 && found < SEGMENT_ROWS as usize, "{found} flows");
    assert_eq!(count(&rows(&many, &needle)), found * SEGMENTS);
    let keys = vec![AggregateKey::Column(Column::SrcAddr)];
    let groups = Select::Aggregate { keys, more: Vec::new(), sorting: None, limit: None };
    let groups = question("packets > 0", groups);
    assert_eq!(count(&rows(&many, &groups)), count(&rows(&one, &groups)));
    let key = StatisticKey::parse("srcip").expect("a statistic");
    let sorting = Sorting::usual(Order::Flows);
    let ranking = question("any", Select::Statistic { key, per_protocol: false, sorting, limit: Some(3) });
    assert_eq!(count(&rows(&many, &ranking)), 3);
    println!("\nasked about all");
}

#[test]
fn open_files_do_not_grow_with_segments() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(archive(folder.path(), SEGMENT_ROWS, 1 << 20).segments(Table::Flows).len(), 1);
    let output = Command::new("sh")
        .args(["-c", "ulimit -n \"$0\"; exec \"$@\"", FILES_MAX])
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", "scan::tests::child_asks_about_more_segments_than_it_may_have_files", "--nocapture"])
        .env(FOLDER, folder.path())
        .output()
        .expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("asked about all"), "{text}{output:?}");
}

/// The rows of every unit as text, by its number.
fn units(snapshot: &Arc<Snapshot>, threads: usize) -> BTreeMap<u64, Vec<String>> {
    let filter = weir_filter::parse("dst port 443 or dst port 53").expect("a filter");
    let progress = Arc::default();
    let columns = [Column::Start, Column::SrcAddr, Column::DstPort];
    let scan = FlowScan::new(snapshot, &TimeWindow::default(), filter, columns, &progress);
    let found = Mutex::new(BTreeMap::new());
    let make = || PageDecoder::new().map_err(|error| QueryError::Source(error.into()));
    share_out_from(
        threads,
        || scan.next_unit(),
        make,
        |decoder, unit| {
            let mut rows = Vec::new();
            unit.read(decoder, |batch| {
                assert!(batch.rows() > 0);
                rows.push(format!("{:?}", batch.record_batch()));
                Ok(())
            })?;
            let before = found.lock().expect("no panic").insert(unit.number(), rows);
            assert!(before.is_none(), "number {} twice", unit.number());
            Ok(())
        },
    )
    .expect("read");
    found.into_inner().expect("no panic")
}

#[test]
fn units_do_not_depend_on_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let snapshot = archive(folder.path(), 60_000, 9000);
    assert!(snapshot.segments(Table::Flows).len() > 3);
    let expected = units(&snapshot, 1);
    assert!(expected.keys().copied().eq(0..expected.len() as u64), "numbers have gaps");
    assert!(expected.len() > 6);
    for threads in [2, 4, 7] {
        assert!(units(&snapshot, threads) == expected, "{threads} threads");
    }
}

/// The rows of a scan, unit by unit.
fn read_units(scan: &FlowScan) -> Vec<Vec<String>> {
    let mut decoder = PageDecoder::new().expect("a decoder");
    let mut units = Vec::new();
    while let Some(unit) = scan.next_unit().expect("goes on") {
        assert_eq!(unit.number(), units.len() as u64);
        let mut rows = Vec::new();
        let add = |batch: weir_flow::FlowBatch| {
            rows.push(format!("{:?}", batch.record_batch()));
            Ok(())
        };
        unit.read(&mut decoder, add).expect("read");
        units.push(rows);
    }
    units
}

#[test]
fn pages_come_in_random_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let snapshot = archive(folder.path(), 200_000, 1 << 20);
    let (window, columns) = (TimeWindow::default(), [Column::SrcAddr, Column::Bytes]);
    let scan = || FlowScan::new(&snapshot, &window, Predicate::True, columns, &Arc::default());
    let sorted = |mut units: Vec<Vec<String>>| {
        units.sort_unstable();
        units
    };
    let [ordered, first, second] = [scan().with_unit_pages_max(1), scan().in_random_order(), scan().in_random_order()]
        .map(|scan| read_units(&scan));
    assert!(ordered.len() > 20, "{} pages", ordered.len());
    assert!(ordered != first && ordered != second && first != second, "of as many orders two are the same");
    let expected = sorted(ordered);
    assert!(sorted(first) == expected && sorted(second) == expected);
}

#[test]
fn a_scan_that_is_stopped_plans_no_further_segment() {
    let folder = tempfile::tempdir().expect("a folder");
    let snapshot = archive(folder.path(), 60_000, 9000);
    let progress = Arc::new(Progress::default());
    let window = TimeWindow::default();
    let scan = FlowScan::new(&snapshot, &window, Predicate::True, [Column::Bytes], &progress);
    let unit = scan.next_unit().expect("goes on").expect("a unit");
    progress.stop();
    assert!(matches!(scan.next_unit(), Err(QueryError::Cancelled)));
    let mut decoder = PageDecoder::new().expect("a decoder");
    assert!(matches!(unit.read(&mut decoder, |_| Ok(())), Err(QueryError::Cancelled)));
    assert_eq!(progress.counts().rows_done, 0);
}

#[test]
fn a_damaged_segment_is_an_error_at_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let snapshot = archive(folder.path(), 30_000, 9000);
    let second = &snapshot.segments(Table::Flows)[1];
    std::fs::write(second.path(), b"PAR1 not a segment").expect("written");
    let select = Select::List { columns: vec![Column::Bytes], sorting: None, limit: None };
    let sources = FlowSources::of(&snapshot, &TimeWindow::default(), &Progress::default());
    let answered = answer(&sources, &question("any", select), &QueryOptions::default(), |batch| batch);
    let (mut before, mut failed) = (0, None);
    for batch in answered.expect("an answer") {
        match batch {
            Ok(batch) => before += batch.num_rows() as u64,
            Err(error) => failed = Some(error),
        }
    }
    assert!(failed.is_some());
    assert!(before <= snapshot.segments(Table::Flows)[0].rows);
}

/// What the index says about a page is never contradicted by its rows, for every part of a filter.
#[test]
fn filters_by_page_have_the_rows_of_filters_by_batch() {
    let folder = tempfile::tempdir().expect("a folder");
    let snapshot = archive(folder.path(), 60_000, 30_000);
    let batches: Vec<RecordBatch> =
        snapshot.segments(Table::Flows).iter().flat_map(|segment| segment.read().expect("readable")).collect();
    let times = |at: usize| snapshot.segments(Table::Flows)[0].time_range_ms.map(|range| [range.0, range.1][at]);
    let middle = times(0).zip(times(1)).map(|(first, last)| first.midpoint(last));
    let windows = [
        TimeWindow::default(),
        TimeWindow { from_ms: middle, ..TimeWindow::default() },
        TimeWindow { until_ms: middle, ..TimeWindow::default() },
        TimeWindow { from_ms: times(0), until_ms: times(1), ..TimeWindow::default() },
    ];
    for filter in [
        "any",
        "not any",
        "proto tcp",
        "not proto tcp",
        "dst port 443",
        "not dst port 443",
        "not (dst port 443 or src port 443) and ipv4",
        "ipv6",
        "not ipv4",
        "net 10.0.0.0/8",
        "not src net 10.0.0.0/8",
        "dst port 443 and net 10.0.0.0/12 and bytes > 1000",
        "(dst port 53 and not proto tcp) or (packets > 5 and not (ip 10.0.0.1 or proto udp))",
        "dst port > 1023",
        "not (dst port > 1023 and src port > 1023)",
    ] {
        for window in windows {
            let predicate = weir_filter::parse(filter).expect("a filter");
            let wanted = ScanSpec::of(predicate.clone(), &window, [Column::Start, Column::Bytes]);
            let expected: usize = batches
                .iter()
                .map(|batch| {
                    let batch = weir_flow::FlowBatch::try_new(batch.clone()).expect("flows");
                    wanted.of_batch(&batch).expect("filtered").map_or(0, |batch| batch.rows())
                })
                .sum();
            let scan = FlowScan::new(&snapshot, &window, predicate, [Column::Start, Column::Bytes], &Arc::default());
            let (scan, mut decoder, mut found) = (scan, PageDecoder::new().expect("a decoder"), 0);
            while let Some(unit) = scan.next_unit().expect("goes on") {
                let add = |batch: weir_flow::FlowBatch| {
                    found += batch.rows();
                    Ok(())
                };
                unit.read(&mut decoder, add).expect("read");
            }
            assert_eq!(found, expected, "{filter}, {window:?}");
        }
    }
}
