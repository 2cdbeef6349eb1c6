//! A part of the flows, against all of them.

use std::collections::HashMap;
use std::path::Path;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::UInt16Type;
use weir_archive::{ArchiveOptions, Writer};
use weir_flow::{Column, Delivery, FlowBatch};
use weir_generate::TrafficModel;
use weir_query::{
    Archive, EstimateLimits, FlowQuery, QueryError, QueryOptions, SampleSize, SampleSpread, Select, TimeWindow,
};

const SEALED: u64 = 120_000;
const TAIL: u64 = 4_000;

/// Segments of sixteen pages, whose flows lie by service, and a tail of many deliveries.
pub(crate) fn archive(folder: &Path) -> (Writer, Archive) {
    let options = ArchiveOptions { segment_rows_max: 32_768, row_group_rows_max: 2048, ..ArchiveOptions::default() };
    let mut model = TrafficModel::new(3);
    (model.hosts, model.received) = (1 << 10, true);
    let (mut writer, _) = Writer::open(folder, options).expect("an archive");
    for batch in model.flows(SEALED).expect("a model") {
        writer.append(Delivery::from(batch)).expect("appended");
    }
    writer.close().expect("sealed");
    let (mut writer, _) = Writer::open(folder, options).expect("the archive");
    for batch in model.flows(TAIL).expect("a model") {
        for first in (0..batch.rows()).step_by(100) {
            let part = batch.record_batch().slice(first, 100.min(batch.rows() - first));
            writer.append(Delivery::from(FlowBatch::try_new(part).expect("flows"))).expect("appended");
        }
    }
    (writer, Archive::open(folder, QueryOptions { threads: 2, ..QueryOptions::default() }).expect("an archive"))
}

pub(crate) fn question(filter: &str) -> FlowQuery {
    let columns = vec![Column::DstPort, Column::Bytes, Column::Start];
    let select = Select::List { columns, sorting: None, limit: None };
    let filter = weir_filter::parse(filter).expect("a filter");
    FlowQuery { filter, window: TimeWindow::default(), select, scaled: false }
}

/// Of so many pages one, and its flows.
fn sampled(archive: &Archive, question: &FlowQuery, size: SampleSize) -> (u64, Vec<RecordBatch>) {
    let sample = archive.sample(question, size, |batch| batch).expect("a sample");
    (sample.one_of, sample.answer.map(|batch| batch.expect("a batch")).collect())
}

/// Flows by port of destination.
fn by_port(batches: &[RecordBatch]) -> HashMap<Option<u16>, u64> {
    let mut ports = HashMap::new();
    for batch in batches {
        let values = batch.column(0).as_primitive::<UInt16Type>();
        for row in 0..batch.num_rows() {
            *ports.entry(values.is_valid(row).then(|| values.value(row))).or_insert(0) += 1;
        }
    }
    ports
}

#[test]
fn a_sample_has_of_everything_in_proportion() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_writer, archive) = archive(folder.path());
    let all: Vec<RecordBatch> = archive.ask(&question("any")).and_then(Iterator::collect).expect("all");
    let (one_of, part) = sampled(&archive, &question("any"), SampleSize::Rows(31_000));
    assert_eq!(one_of, 4);
    let count = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum::<usize>() as f64;
    let near = |found: f64, expected: f64, share: f64| (found - expected).abs() <= expected * share;
    assert!(near(count(&part) * 4.0, count(&all), 0.1), "{} of {}", count(&part), count(&all));
    // services that fill pages
    let (found, expected) = (by_port(&part), by_port(&all));
    let mut large: Vec<_> = expected.iter().filter(|(_, flows)| **flows > 20_000).collect();
    large.sort();
    assert!(!large.is_empty(), "{expected:?}");
    for (port, flows) in large {
        let found = found.get(port).copied().unwrap_or(0) * one_of;
        assert!(near(found as f64, *flows as f64, 0.4), "{found} of {flows} of port {port:?}");
    }
    assert!(found.iter().all(|(port, flows)| expected.get(port).is_some_and(|all| flows <= all)), "flows of nowhere");
}

#[test]
fn few_flows_are_all_in_a_sample() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_writer, archive) = archive(folder.path());
    let all =
        |filter: &str| -> Vec<RecordBatch> { archive.ask(&question(filter)).and_then(Iterator::collect).expect("all") };
    let (one_of, part) = sampled(&archive, &question("any"), SampleSize::Rows(SEALED + TAIL));
    assert_eq!((one_of, by_port(&part)), (1, by_port(&all("any"))));
    // by the index, a filter leaves few of the pages
    let filtered = question("dst port 22");
    let estimate = archive.estimate_filtered(&filtered.window, &filtered.filter, EstimateLimits::default());
    let rows_max = estimate.expect("an estimate").rows_max;
    let (one_of, part) = sampled(&archive, &filtered, SampleSize::Rows(rows_max));
    assert_eq!((one_of, by_port(&part)), (1, by_port(&all("dst port 22"))));
    assert!(sampled(&archive, &question("any"), SampleSize::Rows(rows_max)).0 > 1, "{rows_max} may pass");
}

/// Who sees a part of the flows must not learn from a sample how many there are.
#[test]
fn a_size_may_be_the_same_however_many_flows_there_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_writer, archive) = archive(folder.path());
    let sizes = ["any", "dst port 22", "dst port 443", "dst port 1"].map(|filter| {
        let (one_of, part) = sampled(&archive, &question(filter), SampleSize::OneOf(4));
        let mut spread = SampleSpread::default();
        for batch in &part {
            spread.add(batch.num_rows());
        }
        (one_of, spread)
    });
    assert!(sizes.iter().all(|(one_of, _)| *one_of == 4), "{sizes:?}");
    // some of 124,000 flows in pages of 2,048 and deliveries of 100
    let pages = sizes[0].1.pages();
    assert!((10.0..30.0).contains(&pages) && sizes[0].1.error() < 0.35, "{sizes:?}");
    assert!(sizes[1].1.pages() < pages, "a service is in fewer pages: {sizes:?}");
}

#[test]
fn what_no_sample_is_drawn_of_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_writer, archive) = archive(folder.path());
    let refused = |question: &FlowQuery| archive.sample(question, SampleSize::Rows(1000), |batch| batch).err();
    let scaled = FlowQuery { scaled: true, ..question("any") };
    assert!(matches!(refused(&scaled), Some(QueryError::NeedsEngine(_))));
    let select = Select::List { columns: Vec::new(), sorting: None, limit: Some(1) };
    let limited = FlowQuery { select, ..question("any") };
    assert!(matches!(refused(&limited), Some(QueryError::NeedsEngine(_))));
}
