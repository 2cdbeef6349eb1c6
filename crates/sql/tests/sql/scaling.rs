//! Counts as they were before sampling, told by the exporter or corrected.

use std::sync::Arc;

use weir_filter::{Predicate, parse};
use weir_flow::scaling::Corrections;
use weir_flow::{Column, FlowBatch, FlowBatchBuilder};
use weir_sql::{Engine, EngineOptions, FlowQuery, Select, TimeWindow};

use crate::rows::{NEW_YEAR_MS, engine_with, lines};

/// Four flows of 10 packets and 1000 octets: no interval told, 1 in 100 told by two exporters, and again no interval.
fn flows() -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(4);
    for (exporter, interval) in [(1, None), (1, Some(100)), (2, Some(100)), (3, None)] {
        builder.begin_rows(1);
        builder.time(Column::Received).repeat(NEW_YEAR_MS, 1);
        builder.address(Column::Exporter).repeat(&[192, 0, 2, exporter], 1);
        builder.u64(Column::Packets).repeat(10, 1);
        builder.u64(Column::Bytes).repeat(1000, 1);
        builder.u32(Column::SamplingInterval).push(interval);
    }
    builder.finish()
}

fn engine(corrections: &str) -> Engine {
    let corrections = Arc::new(match corrections {
        "" => Corrections::default(),
        lines => Corrections::parse(&format!("{}\n{lines}", weir_flow::scaling::HEADER)).expect("a table"),
    });
    let folder = tempfile::tempdir().expect("a folder");
    let options = EngineOptions { threads: 1, corrections, ..EngineOptions::default() };
    engine_with(folder.path(), &[], &[flows()], &options).expect("an engine")
}

#[track_caller]
fn check(corrections: &str, expected: [u64; 4]) {
    // an engine that is dropped stops its answers
    let engine = engine(corrections);
    let answer = engine.sql("SELECT bytes, bytes_scaled, packets_scaled FROM flows");
    let expected = expected.map(|factor| format!("1000,{},{}", 1000 * factor, 10 * factor));
    assert_eq!(lines(answer).expect("an answer"), expected);
}

#[test]
fn counts_are_scaled_by_what_the_exporter_told_or_by_a_correction() {
    check("", [1, 100, 100, 1]);
    check("192.0.2.2,,,,,,7", [1, 100, 7, 1]);
    check(",,,,,2026-01-01T00:00:00Z,9\n192.0.2.3,,,,2026-01-01T00:00:00Z,,4", [1, 100, 100, 4]);
}

#[test]
fn a_question_may_be_asked_over_scaled_counts() {
    let engine = engine("");
    let ask = |filter: &str, scaled| {
        let filter = if filter.is_empty() { Predicate::True } else { parse(filter).expect("a filter") };
        let select = Select::List { columns: vec![Column::Packets, Column::Bytes], sorting: None, limit: None };
        lines(engine.ask(&FlowQuery { filter, window: TimeWindow::default(), select, scaled })).expect("an answer")
    };
    assert_eq!(ask("", false), ["10,1000"; 4]);
    assert_eq!(ask("", true), ["10,1000", "1000,100000", "1000,100000", "10,1000"]);
    assert_eq!(ask("bytes > 1000", true), ["1000,100000"; 2]);
    assert_eq!(ask("bytes > 1000", false), [""; 0]);
}
