//! Parts of flows as they are seen, against the exact answers about all of them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{UInt16Type, UInt64Type};
use weir_archive::{CompactionOptions, Snapshot, compact};
use weir_filter::parse;
use weir_flow::scaling::Corrections;
use weir_flow::{Column, FlowBatch, FlowBatchBuilder, Table};
use weir_query::{Archive, QueryError, QueryOptions, SampleSize, SampleSpread};
use weir_sql::{
    AggregateKey, EngineError, EngineOptions, FlowAnswers, FlowQuery, FlowView, Order, Pseudonyms, QueryControl,
    Select, Sorting, TimeWindow,
};

use crate::rows::{NEW_YEAR_MS, write_archive};

const DAY_MS: i64 = 86_400_000;
/// A merged segment has sixteen pages.
const PART: u64 = 32_768;
const PARTS: u64 = 4;
const DAYS: u64 = 3;

/// Flows of four tenants, by interfaces; of eight exporters; a third of them sampled, one packet in 1000.
fn flows(first: u64, day: u64) -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(PART as usize);
    builder.begin_rows(PART as usize);
    for row in first..first + PART {
        let ms = NEW_YEAR_MS + day as i64 * DAY_MS + row as i64;
        // spread over the order of pages, so that each has of everything
        let host = (row.wrapping_mul(2_654_435_761) as u32).to_be_bytes();
        builder.time(Column::Received).push(Some(ms));
        builder.time(Column::Start).push(Some(ms));
        builder.time(Column::End).push(Some(ms));
        builder.address(Column::Exporter).push(Some(&[198, 51, 100, (row / 16 % 8) as u8]));
        builder.address(Column::SrcAddr).push(Some(&[10, host[0], host[1], host[2]]));
        builder.address(Column::DstAddr).push(Some(&[192, 0, 2, 1]));
        builder.u16(Column::SrcPort).push(Some(50_000));
        builder.u16(Column::DstPort).push(Some(443));
        builder.u8(Column::Protocol).push(Some(6));
        builder.u64(Column::Packets).push(Some(10));
        builder.u64(Column::Bytes).push(Some(1000 + row / 4 % 4));
        builder.u32(Column::InIf).push(Some((row / 4 % 4) as u32));
        builder.u32(Column::SamplingInterval).push([Some(1), Some(1000), None][(row % 3) as usize]);
    }
    builder.finish()
}

/// Three merged segments.
fn archive(folder: &Path) {
    let parts = (0..DAYS).flat_map(|day| (0..PARTS).map(move |part| flows(part * PART, day)));
    drop(write_archive(folder, &parts.collect::<Vec<_>>(), &[]));
    compact(folder, &CompactionOptions::default(), |merge| assert!(merge.result.is_ok(), "{merge:?}")).expect("merged");
    let snapshot = Snapshot::open(folder).expect("a snapshot");
    let segments: Vec<u64> = snapshot.segments(Table::Flows).iter().map(|segment| segment.rows).collect();
    assert_eq!(segments, [PARTS * PART; DAYS as usize]);
}

fn answers(folder: &Path, corrections: &str, view: FlowView) -> FlowAnswers {
    let corrections = Arc::new(match corrections {
        "" => Corrections::default(),
        lines => Corrections::parse(&format!("{}\n{lines}", weir_flow::scaling::HEADER)).expect("a table"),
    });
    let archive = Archive::open(folder, QueryOptions { threads: 2, ..QueryOptions::default() }).expect("an archive");
    let options = EngineOptions { threads: 2, corrections, view, ..EngineOptions::default() };
    FlowAnswers::new(archive, options, QueryControl::default(), false)
}

fn narrowed(rule: &str) -> FlowView {
    FlowView { rows: parse(rule).expect("a filter"), pseudonyms: None }
}

fn masked(folder: &Path) -> FlowView {
    let path = folder.join("key");
    std::fs::write(&path, [7_u8; 32]).expect("written");
    FlowView { pseudonyms: Some(Arc::new(Pseudonyms::read(&path).expect("a key"))), ..FlowView::default() }
}

fn list(filter: &str, columns: &[Column], scaled: bool) -> FlowQuery {
    let select = Select::List { columns: columns.to_vec(), sorting: None, limit: None };
    FlowQuery { filter: parse(filter).expect("a filter"), window: TimeWindow::default(), select, scaled }
}

/// Flows of batches, and their octets together.
fn sums(batches: impl Iterator<Item = Result<RecordBatch, EngineError>>) -> (f64, f64, SampleSpread) {
    let (mut rows, mut octets, mut spread) = (0, 0, SampleSpread::default());
    for batch in batches {
        let batch = batch.expect("flows");
        let bytes = batch.column_by_name("bytes").expect("octets").as_primitive::<UInt64Type>();
        octets += bytes.values().iter().sum::<u64>();
        rows += batch.num_rows();
        spread.add(batch.num_rows());
    }
    (rows as f64, octets as f64, spread)
}

/// A sample has as many flows and octets as the exact answer, within the error that it states.
#[track_caller]
fn check_near(answers: &FlowAnswers, question: &FlowQuery, size: SampleSize) {
    let sample = answers.sample(question, size).expect("a sample");
    let one_of = sample.one_of() as f64;
    let (rows, octets, spread) = sums(sample);
    let (rows_all, octets_all, _) = sums(answers.ask(question).expect("an answer"));
    assert!(one_of > 1.0 && rows > 0.0 && rows < rows_all, "{rows} of {rows_all}, one of {one_of}");
    let error = spread.error();
    assert!(error < 0.35, "{spread:?}");
    for (part, all) in [(rows, rows_all), (octets, octets_all)] {
        assert!((part * one_of - all).abs() <= error * all, "{part} times {one_of} of {all}, within {error}");
    }
}

#[test]
fn a_part_of_scaled_flows_is_as_the_exact_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path());
    // the interval that was reported, and corrections of one exporter
    for corrections in ["", "198.51.100.3,,,,,,5000\n198.51.100.4,,,1,,,7"] {
        let answers = answers(folder.path(), corrections, FlowView::default());
        for filter in ["any", "bytes > 100000", "in if 1 and bytes > 100000", "in if 1 or packets > 9000"] {
            let question = list(filter, &[Column::Bytes, Column::Start], true);
            check_near(&answers, &question, SampleSize::OneOf(4));
            check_near(&answers, &question, SampleSize::Rows(DAYS * PARTS * PART / 4));
        }
        // a flow that passes as scaled is there as scaled
        let sample = answers.sample(&list("bytes > 100000", &[Column::Bytes], true), SampleSize::OneOf(4));
        for batch in sample.expect("a sample") {
            let batch = batch.expect("flows");
            assert_eq!(batch.schema_ref().fields().len(), 1, "what decides about factors was not asked for");
            let bytes = batch.column(0).as_primitive::<UInt64Type>();
            assert!(bytes.values().iter().all(|bytes| *bytes > 100_000), "{bytes:?}");
        }
    }
}

/// Labels of exporters: those with most octets first.
fn exporters(scaled: bool) -> FlowQuery {
    let keys = vec![AggregateKey::Column(Column::Exporter)];
    let select = Select::Aggregate { keys, more: Vec::new(), sorting: Some(Sorting::usual(Order::Bytes)), limit: None };
    FlowQuery { select, ..list("any", &[], scaled) }
}

#[test]
fn a_part_of_flows_has_the_images_of_the_exact_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let flows = folder.path().join("archive");
    archive(&flows);
    let labels =
        |labels: Result<Vec<String>, EngineError>| labels.expect("labels").into_iter().collect::<BTreeSet<_>>();
    let kept = labels(answers(&flows, "", FlowView::default()).labels(&exporters(false)));
    assert_eq!(kept.len(), 8);
    let answers = answers(&flows, "198.51.100.3,,,,,,5000", masked(folder.path()));
    for scaled in [false, true] {
        let question = list("any", &[Column::Exporter, Column::Bytes, Column::ServerName], scaled);
        check_near(&answers, &question, SampleSize::OneOf(4));
        let images = labels(answers.labels(&exporters(scaled)));
        let sample = answers.sample(&question, SampleSize::OneOf(4)).expect("a sample");
        assert_eq!(labels(answers.labels_among(&exporters(scaled), sample)), images, "scaled: {scaled}");
        assert!(kept.is_disjoint(&images), "{kept:?} {images:?}");
        // and they lead back, with the correction of an exporter as it is kept
        for image in &images {
            check_near(
                &answers,
                &list(&format!("exporter ip {image}"), &[Column::Bytes], scaled),
                SampleSize::OneOf(4),
            );
        }
    }
}

#[test]
fn a_part_of_what_is_narrowed_has_nothing_of_others() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path());
    let corrections = "198.51.100.3,,,,,,5000";
    for view in [narrowed("in if 1"), FlowView { rows: narrowed("in if 1").rows, ..masked(folder.path()) }] {
        let answers = answers(folder.path(), corrections, view);
        for scaled in [false, true] {
            for filter in ["any", "any or not any", "in if 1 or in if 2", "not in if 1 or bytes > 0"] {
                let question = list(filter, &[Column::Bytes, Column::InIf], scaled);
                check_near(&answers, &question, SampleSize::OneOf(4));
                let sample = answers.sample(&question, SampleSize::OneOf(4)).expect("a sample");
                assert_eq!(sample.one_of(), 4, "whatever there is of others");
                for batch in sample {
                    let batch = batch.expect("flows");
                    let tenants = batch.column(1).as_primitive::<arrow::datatypes::UInt32Type>();
                    assert!(
                        tenants.null_count() == 0 && tenants.values().iter().all(|tenant| *tenant == 1),
                        "{filter}"
                    );
                }
            }
            for filter in ["in if 2", "not in if 1", "in if 3 and bytes > 100000"] {
                let sample = answers.sample(&list(filter, &[Column::Bytes], scaled), SampleSize::OneOf(1));
                assert!(sums(sample.expect("a sample")).0 <= 0.0, "{filter}");
            }
        }
    }
}

#[test]
fn what_no_part_is_drawn_of_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(write_archive(folder.path(), &[flows(0, 0)], &[]));
    let answers = answers(folder.path(), "", FlowView::default());
    let refused = answers.sample(&exporters(true), SampleSize::OneOf(1)).err();
    assert!(matches!(refused, Some(EngineError::Query(QueryError::NeedsEngine(_)))), "{refused:?}");
    // one of one is all, as it is asked for
    let question = list("any", &[Column::DstPort, Column::Bytes], true);
    let sample = answers.sample(&question, SampleSize::OneOf(1)).expect("a sample");
    let ports =
        |batch: &RecordBatch| batch.column(0).as_primitive::<UInt16Type>().values().iter().all(|port| *port == 443);
    let batches: Vec<RecordBatch> = sample.collect::<Result<_, _>>().expect("flows");
    assert!(batches.iter().all(ports));
    let all = sums(answers.ask(&question).expect("an answer"));
    let part = sums(batches.into_iter().map(Ok));
    assert_eq!((part.0, part.1), (all.0, all.1));
}
