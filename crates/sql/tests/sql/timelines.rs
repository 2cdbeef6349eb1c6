//! Time lines that threads draw, against lines that get all flows one after the other.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, TimestampMillisecondArray};
use jiff::Timestamp;
use jiff::tz::{TimeZone, offset};
use weir_filter::parse;
use weir_flow::schema::field;
use weir_flow::{Column, FlowBatch, FlowBatchBuilder};
use weir_print::ColumnText;
use weir_print::plot::{Measure, RateChart};
use weir_query::{Archive, QueryOptions};
use weir_sql::{EngineError, EngineOptions, FlowAnswers, FlowQuery, QueryControl, Select, Tally, TimeLine, TimeWindow};

use crate::rows::{NEW_YEAR_MS, write_archive};

const DAY_MS: i64 = 86_400_000;

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
    let drawn = |starts: [Option<i64>; 3], received: [Option<i64>; 3]| {
        let folder = tempfile::tempdir().expect("a folder");
        let batches: Vec<FlowBatch> =
            starts.iter().zip(received).map(|(start, received)| batch(&[(*start, None, received, 1)])).collect();
        let _writer = write_archive(folder.path(), &batches[..1], &batches[1..]);
        let asked = RefCell::new(Vec::new());
        let question = |columns: Vec<Column>| {
            asked.borrow_mut().push(columns.contains(&Column::Received));
            Ok::<_, EngineError>(list(columns, "any", TimeWindow::default()))
        };
        let answers = answers(folder.path(), &QueryControl::default());
        let (line, Rows(rows)) = flow_line().draw(&answers, question).expect("a line");
        (asked.into_inner(), rows, line.chart(String::new(), 3).series[0].rates.clone())
    };
    let (first, second, third) = (Some(0), Some(1000), Some(2000));
    let received = [third, second, third];
    assert_eq!(drawn([first, second, third], received), (vec![false], 3, vec![1.0; 3]));
    assert_eq!(drawn([first, None, third], received), (vec![false, true], 3, vec![1.0; 3]));
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
            // and so does the engine, which scales by nothing here
            for scaled in [false, true] {
                let (drawn, Rows(found)) = line.clone().draw(&answers, question(scaled)).expect("a line");
                assert_eq!(found, rows, "{filter}, {window:?}, scaled: {scaled}");
                check_same(&drawn.chart(String::new(), 300), &expected);
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
