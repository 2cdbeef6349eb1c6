//! Tests of windows.

use weir_chain::Counters;
use weir_flow::FlowBatchBuilder;

use super::*;
use crate::naive;

fn open(options: &str) -> (Windows, Counters) {
    let settings = weir_chain::options::parse(options).and_then(WindowSettings::new);
    let counters = Counters::new();
    (settings.expect("windows").open(&counters), counters)
}

fn rows(starts: &[Option<i64>]) -> RecordBatch {
    let mut builder = FlowBatchBuilder::new(starts.len());
    for start in starts {
        builder.begin_rows(1);
        builder.time(Column::Start).push(*start);
        builder.u64(Column::Bytes).push(Some(1));
    }
    builder.finish().record_batch().clone()
}

/// What to do with rows, in words: `close T` and `rows START...`.
fn steps(windows: &mut Windows, starts: &[Option<i64>]) -> Vec<String> {
    let split = windows.split(&rows(starts)).expect("times");
    let of_rows = naive::numbers(&split.rows, WINDOW_START);
    let words = split.steps().map(|step| match step {
        Step::Close(edge_ms) => format!("close {edge_ms}"),
        Step::Rows(range) => {
            let starts: Vec<_> = of_rows[range].iter().map(|start| start.expect("a window").to_string()).collect();
            format!("rows {}", starts.join(" "))
        }
    });
    words.collect()
}

#[test]
fn a_window_closes_when_its_end_has_passed_by_the_lateness() {
    let (mut windows, counters) = open("window = '1s'\nlateness = '500ms'");
    assert_eq!(windows.edge_ms(), None);
    let times = [100, 1_499, 900, 1_500, 999, 1_000, 2_499, 2_500].map(Some);
    assert_eq!(
        steps(&mut windows, &times),
        [
            "close -1000",
            "rows 0",
            "close 0",
            "rows 1000 0",
            "close 1000",
            "rows 1000 1000 2000",
            "close 2000",
            "rows 2000"
        ]
    );
    assert_eq!(
        (windows.edge_ms(), counters.read()),
        (Some(2_000), vec![("rows_late_dropped", 1), ("rows_without_time_dropped", 0)])
    );
    assert_eq!(
        steps(&mut windows, &[None, Some(1_999), Some(2_000), None, Some(50_000)]),
        ["rows 2000", "close 49000", "rows 50000"]
    );
    assert_eq!(counters.read(), [("rows_late_dropped", 2), ("rows_without_time_dropped", 2)]);
}

#[test]
fn windows_begin_at_multiples_before_the_epoch_too() {
    let (mut windows, _) = open("window = '0.3s'");
    let times = [-301, -300, -1, 0, 299, 300].map(Some);
    assert_eq!(
        steps(&mut windows, &times),
        ["close -600", "rows -600", "close -300", "rows -300 -300", "close 0", "rows 0 0", "close 300", "rows 300"]
    );
    assert_eq!(windows.closed_below(300), 1, "the window that starts at 0 is closed, the one at 300 is not");
}

#[test]
fn the_first_and_the_last_time_of_all_have_windows() {
    let (mut windows, counters) = open("window = '60s'\nlateness = '1000000000s'");
    let found = steps(&mut windows, &[Some(i64::MIN), Some(i64::MIN + 1), Some(0), Some(i64::MAX), Some(i64::MAX - 1)]);
    let starts: Vec<&str> =
        found.iter().filter_map(|step| step.strip_prefix("rows ")).flat_map(|all| all.split(' ')).collect();
    let (first, last) = (i64::MIN.to_string(), (i64::MAX / 60_000 * 60_000).to_string());
    assert_eq!(starts, [first.as_str(), &first, "0", &last, &last]);
    assert_eq!(counters.read()[0], ("rows_late_dropped", 0));
    assert_eq!(steps(&mut windows, &[Some(0)]), [""; 0]);
    assert_eq!(counters.read()[0], ("rows_late_dropped", 1));
}

#[test]
fn one_window_needs_no_times() {
    let (mut windows, counters) = open("window = 0\ntime = 'nothing'");
    let split = windows.split(&rows(&[None, Some(3)])).expect("rows");
    assert_eq!(split.steps().collect::<Vec<_>>(), [Step::Rows(0..2)]);
    assert_eq!((split.rows.num_columns(), windows.edge_ms()), (2, None));
    assert_eq!(counters.read(), [("rows_late_dropped", 0), ("rows_without_time_dropped", 0)]);
}

#[test]
fn a_column_of_flows_that_is_not_there_has_no_times() {
    let (mut windows, counters) = open("window = '1s'\ntime = 'received'");
    assert_eq!(steps_without_column(&mut windows), 0);
    assert_eq!(counters.read()[1], ("rows_without_time_dropped", 2));
    let (mut windows, _) = open("window = '1s'\ntime = 'when'");
    let error = windows.split(&rows(&[Some(0)])).expect_err("no such column");
    assert_eq!(error.to_string(), "input has no column 'when'; it has start, bytes");
}

fn steps_without_column(windows: &mut Windows) -> usize {
    windows.split(&rows(&[Some(0), Some(1)])).expect("rows").steps().count()
}
