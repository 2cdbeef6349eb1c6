//! Time lines that threads draw, against lines that get all flows one after the other.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, TimestampMillisecondArray};
use jiff::Timestamp;
use jiff::tz::{TimeZone, offset};
use weir_filter::parse;
use weir_flow::scaling::{Corrections, HEADER};
use weir_flow::schema::field;
use weir_flow::{Column, FlowBatch, FlowBatchBuilder};
use weir_print::ColumnText;
use weir_print::plot::{Measure, RateChart};
use weir_query::{Archive, QueryOptions};
use weir_sql::{
    AggregateKey, EngineError, EngineOptions, FlowAnswer, FlowAnswers, FlowQuery, FlowView, Order, Pseudonyms,
    QueryControl, Select, Sorting, Tally, TimeLine, TimeWindow,
};

use crate::rows::{NEW_YEAR_MS, write_archive};

const DAY_MS: i64 = 86_400_000;
const HOUR_MS: i64 = 3_600_000;

/// Counts flows.
#[derive(Debug, Default)]
struct Rows(usize);

impl Tally for Rows {
    fn add(&mut self, batch: &RecordBatch) {
        self.0 += batch.num_rows();
    }

    fn join(&mut self, other: Self) {
        self.0 += other.0;
    }
}

/// A flow: start, end, when it was received, and its port. Times are milliseconds after [`NEW_YEAR_MS`].
type Flow = (Option<i64>, Option<i64>, Option<i64>, u16);

fn batch(flows: &[Flow]) -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(flows.len());
    builder.begin_rows(flows.len());
    let after = |ms: Option<i64>| ms.map(|ms| NEW_YEAR_MS + ms);
    for (start, end, received, port) in flows {
        builder.time(Column::Received).push(after(*received));
        builder.time(Column::Start).push(after(*start));
        builder.time(Column::End).push(after(*end));
        builder.u16(Column::DstPort).push(Some(*port));
        builder.u64(Column::Bytes).push(Some(1000 + u64::from(*port)));
    }
    builder.finish()
}

fn answers(folder: &Path, control: &QueryControl) -> FlowAnswers {
    let options = QueryOptions { threads: 3, progress: Arc::clone(&control.progress), ..QueryOptions::default() };
    let archive = Archive::open(folder, options).expect("an archive");
    FlowAnswers::new(archive, EngineOptions { threads: 2, ..EngineOptions::default() }, control.clone(), false)
}

fn list(columns: Vec<Column>, filter: &str, window: TimeWindow) -> FlowQuery {
    let select = Select::List { columns, sorting: None, limit: None };
    FlowQuery { filter: parse(filter).expect("a filter"), window, select, scaled: false }
}

fn flow_line() -> TimeLine {
    TimeLine::new(Measure::Flows, TimeWindow::default(), TimeZone::UTC)
}

/// When flows were received is read when one of them has no other time, and every flow is drawn once then.
#[test]
fn flows_without_a_start_are_drawn_when_they_were_received() {
    let drawn = |starts: [Option<i64>; 3], received: [Option<i64>; 3], scaled: bool| {
        let folder = tempfile::tempdir().expect("a folder");
        let batches: Vec<FlowBatch> =
            starts.iter().zip(received).map(|(start, received)| batch(&[(*start, None, received, 1)])).collect();
        let _writer = write_archive(folder.path(), &batches[..1], &batches[1..]);
        let asked = RefCell::new(Vec::new());
        let question = |columns: Vec<Column>| {
            asked.borrow_mut().push(columns.contains(&Column::Received));
            Ok::<_, EngineError>(FlowQuery { scaled, ..list(columns, "any", TimeWindow::default()) })
        };
        let answers = answers(folder.path(), &QueryControl::default());
        let (line, Rows(rows)) = flow_line().draw(&answers, question).expect("a line");
        (asked.into_inner(), rows, line.chart(String::new(), 3).series[0].rates.clone())
    };
    let (first, second, third) = (Some(0), Some(1000), Some(2000));
    let received = [third, second, third];
    for scaled in [false, true] {
        assert_eq!(drawn([first, second, third], received, scaled), (vec![false], 3, vec![1.0; 3]));
        // the batch of the second one has none of the columns
        assert_eq!(drawn([first, None, third], received, scaled), (vec![false, true], 3, vec![1.0; 3]));
    }
}

/// What a line is told apart by is read, whatever the other columns are needed for.
#[test]
fn flows_are_told_apart_by_when_they_were_received() {
    let folder = tempfile::tempdir().expect("a folder");
    let _writer = write_archive(folder.path(), &[batch(&[(Some(0), None, Some(0), 1); 2])], &[]);
    let received: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![NEW_YEAR_MS]).with_timezone("UTC"));
    let mut label = Vec::new();
    ColumnText::new(&field(Column::Received), &received).push(0, &mut label);
    let line = flow_line().by(Column::Received, vec![String::from_utf8(label).expect("a text")]);
    let question = |columns| Ok::<_, EngineError>(list(columns, "any", TimeWindow::default()));
    let (line, ()) = line.draw(&answers(folder.path(), &QueryControl::default()), question).expect("a line");
    let chart = line.chart(String::new(), 1);
    // and none is among the others
    assert_eq!((chart.series.len(), chart.series[0].rates[0] * chart.step_ms as f64 / 1000.0), (1, 2.0));
}

/// Flows of 300 days in segments and tail, some of which lack their end.
fn year(folder: &Path) {
    let flow = |number: i64| {
        let start = number * 7_919_000_003 % (300 * DAY_MS);
        let end = start + number % 5 * 3_000_000;
        let end = (number % 1000 < 900).then_some(end);
        (Some(start), end, Some(start + 1), [22, 53, 443][(number % 3) as usize])
    };
    let flows: Vec<Flow> = (0..60_000).map(flow).collect();
    let batches: Vec<FlowBatch> = flows.chunks(10_000).map(batch).collect();
    drop(write_archive(folder, &batches[..4], &batches[4..]));
}

#[track_caller]
fn check_same(found: &RateChart, expected: &RateChart) {
    assert_eq!((found.from_ms, found.step_ms, found.steps()), (expected.from_ms, expected.step_ms, expected.steps()));
    assert_eq!(found.series.len(), expected.series.len());
    for (found, expected) in found.series.iter().zip(&expected.series) {
        assert_eq!(found.label, expected.label);
        for (rate, expected) in found.rates.iter().zip(&expected.rates) {
            assert!((rate - expected).abs() <= 1e-9 * expected.max(1.0), "{rate} {expected}");
        }
    }
}

#[test]
fn threads_draw_what_one_would() {
    let folder = tempfile::tempdir().expect("a folder");
    year(folder.path());
    let answers = answers(folder.path(), &QueryControl::default());
    let (from_ms, until_ms) = (Some(NEW_YEAR_MS + 50 * DAY_MS + 7), Some(NEW_YEAR_MS + 150 * DAY_MS));
    let windows = [TimeWindow::default(), TimeWindow { from_ms, until_ms, ..TimeWindow::default() }];
    let cases = windows.into_iter().flat_map(|window| ["any", "dst port 53"].map(|filter| (window, filter)));
    for (window, filter) in cases {
        // it is summer in a part of the year, and steps are days: as the zone is at the end of the window, or else now
        let berlin = TimeZone::get("Europe/Berlin").expect("a zone");
        let ahead = if window.until_ms.is_some() { offset(2) } else { berlin.to_offset(Timestamp::now()) };
        let of_zone = |zone| {
            let line = TimeLine::new(Measure::Bits, window, zone);
            [line.clone(), line.by(Column::DstPort, vec!["53".to_owned(), "22".to_owned()])]
        };
        let fixed = of_zone(TimeZone::fixed(ahead));
        for (line, mut one) in of_zone(berlin).into_iter().zip(fixed) {
            let mut rows = 0;
            for batch in answers.ask(&list(line.columns(), filter, window)).expect("asked") {
                let batch = batch.expect("a batch");
                rows += batch.num_rows();
                assert!(one.add(&batch));
            }
            let question = |scaled: bool| {
                move |columns| Ok::<_, EngineError>(FlowQuery { scaled, ..list(columns, filter, window) })
            };
            let expected = one.chart(String::new(), 300);
            // and so do those that scale, by nothing here
            for scaled in [false, true] {
                let (drawn, Rows(found)) = line.clone().draw(&answers, question(scaled)).expect("a line");
                assert_eq!(found, rows, "{filter}, {window:?}, scaled: {scaled}");
                check_same(&drawn.chart(String::new(), 300), &expected);
            }
        }
    }
}

/// Flows of four hours that last a power of two of milliseconds, or none. So nothing is rounded, and rates are the same to the last
/// digit whatever the order in which they are added. Some lack their end, their octets, or what their factor depends on.
fn sampled(first: i64) -> FlowBatch {
    const ROWS: i64 = 10_000;
    let mut builder = FlowBatchBuilder::new(ROWS as usize);
    builder.begin_rows(ROWS as usize);
    for number in first * ROWS..(first + 1) * ROWS {
        let start = NEW_YEAR_MS + number * 7919 % (4 * HOUR_MS);
        let end = start + [0, 1024, 4096][(number % 3) as usize];
        let exporter = [198, 51, 100, (number / 16 % 8) as u8];
        let source = [(number % 5 * 50) as u8, 0, 2, 1];
        builder.time(Column::Received).push(Some(end + 5000));
        builder.time(Column::Start).push(Some(start));
        builder.time(Column::End).push((number % 10 > 0).then_some(end));
        builder.address(Column::Exporter).push((number % 11 > 0).then_some(&exporter[..]));
        builder.address(Column::SrcAddr).push(Some(&source[..]));
        builder.u16(Column::DstPort).push(Some([22, 53, 443][(number / 3 % 3) as usize]));
        builder.u64(Column::Bytes).push((number % 7 > 0).then_some(1000 + number as u64 % 500));
        builder.u32(Column::SamplingInterval).push([Some(1), Some(1000), None, Some(0)][(number / 2 % 4) as usize]);
    }
    builder.finish()
}

/// As the flows are seen: by whom, and by which corrections they are scaled.
fn answers_seen(folder: &Path, threads: usize, (view, corrections): (&FlowView, &str)) -> FlowAnswers {
    let archive = Archive::open(folder, QueryOptions { threads, ..QueryOptions::default() }).expect("an archive");
    let corrections = Corrections::parse(&format!("{HEADER}\n{corrections}")).expect("a table");
    let (view, corrections) = (view.clone(), Arc::new(corrections));
    let options = EngineOptions { threads: 2, view, corrections, ..EngineOptions::default() };
    FlowAnswers::new(archive, options, QueryControl::default(), false)
}

/// Draws flows as they are seen in one thread and in several, and compares with the list of the engine.
#[track_caller]
fn check_threads(folder: &Path, seen: (&FlowView, &str), question: &FlowQuery) {
    let answers = answers_seen(folder, 3, seen);
    let ranking = Select::Aggregate {
        keys: vec![AggregateKey::Column(Column::SrcAddr)],
        more: Vec::new(),
        sorting: Some(Sorting::usual(Order::Bytes)),
        limit: Some(2),
    };
    let labels = answers.labels(&FlowQuery { select: ranking, ..question.clone() }).expect("labels");
    let line = TimeLine::new(Measure::Bits, question.window, TimeZone::UTC).by(Column::SrcAddr, labels);
    let of_columns = |columns: Vec<Column>| {
        let select = Select::List { columns, sorting: None, limit: None };
        FlowQuery { select, ..question.clone() }
    };
    let (mut one, mut rows) = (line.clone(), 0);
    let answer = answers.ask(&of_columns(line.columns())).expect("asked");
    assert!(matches!(answer, FlowAnswer::Engine(_)), "{answer:?}");
    for batch in answer {
        let batch = batch.expect("a batch");
        rows += batch.num_rows();
        one.add(&batch);
    }
    let rates = |line: TimeLine| {
        let chart = line.chart(String::new(), 300);
        let series = chart.series.into_iter().map(|series| (series.label, series.rates));
        (chart.from_ms, chart.step_ms, series.collect::<Vec<_>>())
    };
    let expected = rates(one);
    assert!(rows > 1000 && expected.2.len() == 3, "{rows} flows, {} series", expected.2.len());
    for threads in [1, 3] {
        let answers = answers_seen(folder, threads, seen);
        let count = |count: &mut usize, batch: &RecordBatch| {
            *count += batch.num_rows();
            ControlFlow::Continue(())
        };
        let counts = answers.fold(&of_columns(vec![Column::SrcAddr, Column::ServerName]), 0, || 0, count);
        let counts = counts.expect("read").expect("nothing broke off");
        assert_eq!((counts.len(), counts.iter().sum::<usize>()), (threads, rows), "{question:?}");
        let drawn = line.clone().draw(&answers, |columns| Ok::<_, EngineError>(of_columns(columns)));
        let (drawn, Rows(found)) = drawn.expect("a line");
        assert_eq!(found, rows, "{question:?}");
        assert!(rates(drawn) == expected, "{threads} threads, {question:?}");
    }
}

#[test]
fn threads_draw_what_is_scaled_and_what_has_pseudonyms() {
    let folder = tempfile::tempdir().expect("a folder");
    let flows = folder.path().join("flows");
    let batches: Vec<FlowBatch> = (0..6).map(sampled).collect();
    drop(write_archive(&flows, &batches[..4], &batches[4..]));
    let key = folder.path().join("key");
    std::fs::write(&key, [7_u8; 32]).expect("written");
    let pseudonyms = Some(Arc::new(Pseudonyms::read(&key).expect("a key")));
    let masked = FlowView { rows: parse("not dst port 22").expect("a filter"), pseudonyms };
    let corrections = "198.51.100.3,,,,,,5000\n198.51.100.4,,,,2026-01-01T02:00:00Z,,1.5";
    let (from_ms, until_ms) = (Some(NEW_YEAR_MS + HOUR_MS + 77), Some(NEW_YEAR_MS + 3 * HOUR_MS));
    for window in [TimeWindow::default(), TimeWindow { from_ms, until_ms, ..TimeWindow::default() }] {
        // of images and of scaled counts
        for filter in ["any", "bytes > 100000", "src net 0.0.0.0/1 or src net 128.0.0.0/1 and bytes > 1100"] {
            for (view, scaled) in [(&FlowView::default(), true), (&masked, false), (&masked, true)] {
                let question = FlowQuery { scaled, ..list(Vec::new(), filter, window) };
                // as measured, no flow has as many octets
                if scaled || filter != "bytes > 100000" {
                    check_threads(&flows, (view, corrections), &question);
                    check_threads(&flows, (view, ""), &question);
                }
            }
        }
    }
}

#[test]
fn a_line_that_is_stopped_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    year(folder.path());
    let control = QueryControl::default();
    let answers = answers(folder.path(), &control);
    control.progress.stop();
    let question = |columns| Ok::<_, EngineError>(list(columns, "any", TimeWindow::default()));
    let drawn: Result<(TimeLine, Rows), _> = flow_line().draw(&answers, question);
    assert!(drawn.is_err(), "{drawn:?}");
}
