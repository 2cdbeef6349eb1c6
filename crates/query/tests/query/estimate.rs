//! What a question is said to read, against what it does read.

use std::path::Path;
use std::time::Duration;

use weir_archive::{ArchiveOptions, Writer};
use weir_flow::{Column, Delivery, Table};
use weir_generate::TrafficModel;
use weir_query::{Archive, EstimateLimits, FilteredEstimate, FlowQuery, QueryOptions, Select, TimeWindow, WindowRule};

const SEALED: u64 = 60_000;
const TAIL: u64 = 3_000;

/// Limits that nothing reaches.
const UNLIMITED: EstimateLimits = EstimateLimits { indexes_max: usize::MAX, time_max: Duration::MAX };

fn model(seed: u64) -> TrafficModel {
    let mut model = TrafficModel::new(seed);
    (model.hosts, model.received, model.flows_per_second) = (1 << 12, true, 20);
    model
}

/// Segments of some row groups each, and a tail; the writer keeps the tail as it is.
fn archive(folder: &Path) -> (Writer, Archive, QueryOptions) {
    let options = ArchiveOptions { segment_rows_max: 16_384, row_group_rows_max: 2048, ..ArchiveOptions::default() };
    let (mut writer, _) = Writer::open(folder, options).expect("an archive");
    for batch in model(3).flows(SEALED).expect("a model") {
        writer.append(Delivery::from(batch)).expect("appended");
    }
    writer.close().expect("sealed");
    let (mut writer, _) = Writer::open(folder, options).expect("the archive");
    for batch in model(4).flows(TAIL).expect("a model") {
        writer.append(Delivery::from(batch)).expect("appended");
    }
    let asking = QueryOptions { threads: 2, ..QueryOptions::default() };
    let archive = Archive::open(folder, asking.clone()).expect("an archive");
    (writer, archive, asking)
}

#[test]
fn an_estimate_with_a_filter_is_what_a_list_looks_at() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_writer, archive, asking) = archive(folder.path());
    let (first, last) = archive.time_range_ms().expect("times");
    let half = TimeWindow { from_ms: Some(first + (last - first) / 2), until_ms: None, rule: WindowRule::Overlaps };
    let mut smallest = u64::MAX;
    for window in [TimeWindow::default(), half] {
        let all = archive.estimate(&window);
        for text in ["any", "dst port 22", "proto icmp", "not port 443", "net 10.0.0.0/12", "port 1 and ipv6"] {
            let filter = weir_filter::parse(text).expect("a filter");
            let estimate = archive.estimate_filtered(&window, &filter, UNLIMITED).expect("an estimate");
            let select = Select::List { columns: vec![Column::Bytes], sorting: None, limit: None };
            let question = FlowQuery { filter, window, select, scaled: false };
            let before = asking.progress.counts().rows_done;
            let passed: u64 =
                archive.ask(&question).expect("asked").map(|batch| batch.expect("a batch").num_rows() as u64).sum();
            let read = asking.progress.counts().rows_done - before;
            assert_eq!(estimate.rows_max, read, "{text}, {window:?}");
            assert!(passed <= read && estimate.segments <= all.segments, "{text}: {passed} of {estimate:?}");
            assert!(estimate.octets <= all.octets && estimate.segments_unchecked == 0, "{text}: {estimate:?}");
            smallest = smallest.min(estimate.rows_max);
        }
    }
    assert!(smallest < SEALED / 2, "no filter leaves out pages");
}

#[test]
fn what_an_estimate_does_not_look_at_counts_as_a_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_writer, archive, _) = archive(folder.path());
    let (window, filter) = (TimeWindow::default(), weir_filter::parse("port 1 and ipv6").expect("a filter"));
    let all = archive.estimate(&window);
    let of = |limits| archive.estimate_filtered(&window, &filter, limits).expect("an estimate");
    let unlooked = FilteredEstimate {
        segments: all.segments,
        octets: all.octets,
        rows_max: all.rows_max,
        segments_unchecked: all.segments,
        rows_unchecked: SEALED,
    };
    assert_eq!(of(EstimateLimits { indexes_max: 0, ..UNLIMITED }), unlooked);
    assert_eq!(of(EstimateLimits { time_max: Duration::ZERO, ..UNLIMITED }), unlooked);
    let (one, looked) = (of(EstimateLimits { indexes_max: 1, ..UNLIMITED }), of(UNLIMITED));
    assert_eq!(one.segments_unchecked, all.segments - 1);
    assert!(looked.rows_max <= one.rows_max && one.rows_max <= unlooked.rows_max, "{looked:?} {one:?}");
    assert!(all.segments > 1 && looked.rows_max < unlooked.rows_max, "{looked:?} {unlooked:?}");
}

#[test]
fn a_segment_with_a_damaged_index_counts_as_a_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_writer, archive, asking) = archive(folder.path());
    let (window, filter) = (TimeWindow::default(), weir_filter::parse("ipv6").expect("a filter"));
    let whole = archive.estimate_filtered(&window, &filter, UNLIMITED).expect("an estimate");
    let segment = archive.snapshot().segments(Table::Flows)[0].clone();
    let mut octets = std::fs::read(segment.path()).expect("the segment");
    // what is behind the header, which is one of the first octets
    octets[512..].fill(0);
    std::fs::write(segment.path(), octets).expect("damaged");
    let archive = Archive::open(folder.path(), asking).expect("the archive");
    let estimate = archive.estimate_filtered(&window, &filter, UNLIMITED).expect("an estimate all the same");
    assert_eq!((whole.segments_unchecked, estimate.segments_unchecked), (0, 1));
    assert!((segment.rows..=whole.rows_max + segment.rows).contains(&estimate.rows_max), "{estimate:?}, {whole:?}");
}

#[test]
fn an_estimate_ends_when_its_question_is_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_writer, archive, asking) = archive(folder.path());
    asking.progress.stop();
    let filter = weir_filter::parse("port 53").expect("a filter");
    assert!(archive.estimate_filtered(&TimeWindow::default(), &filter, UNLIMITED).is_err());
}
