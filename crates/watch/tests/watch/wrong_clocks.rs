//! Backtests of flows whose exporters have wrong clocks: some are dated long ago, and some in the far future.

use std::cell::Cell;

use weir_flow::{Column, Delivery, FlowBatchBuilder};
use weir_watch::{Backtest, Outcome, RunnerOptions};

use crate::scene::{Flow, NEW_YEAR_MS, archive, batch, watch, writer};

/// 9999-01-01T00:00:00Z.
const FAR_MS: i64 = 253_370_764_800_000;
const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 86_400_000;

/// A flow that begins in each of so many minutes.
fn minutes(count: i64) -> Vec<Flow> {
    (0..count).map(|minute| Flow::new(NEW_YEAR_MS + minute * MINUTE_MS + 30_000, "10.0.0.1", "192.0.2.1")).collect()
}

/// The same flow, dated otherwise.
fn dated(start_ms: i64) -> Flow {
    Flow { start_ms, ..Flow::new(NEW_YEAR_MS + 30_000, "10.0.0.1", "192.0.2.1") }
}

/// What a backtest finds that stops when it has looked so often whether it should: it does for each window and each piece of
/// time.
fn tested(flows: &[Flow], from: &str, bounds: (Option<i64>, Option<i64>), looks_max: u32) -> Outcome {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path(), flows);
    let query = format!("SELECT count(*) AS flows FROM {from}");
    let file = watch("w", &query, "time = 'start'\nrepeat_after = '0s'\nskew = '1m'");
    let mut backtest = Backtest::new(file, &RunnerOptions::new(folder.path())).expect("a watch");
    let looks = Cell::new(0);
    let is_stopped = || {
        looks.set(looks.get() + 1);
        looks.get() > looks_max
    };
    let outcome = backtest.run_until(bounds.0, bounds.1, |_, _| (), is_stopped).expect("windows");
    assert!(looks.get() <= looks_max, "it has looked at more than {looks_max} windows and pieces of time");
    outcome
}

#[test]
fn flows_of_a_wrong_clock_make_a_backtest_no_longer() {
    let mut flows = minutes(200);
    flows.extend([dated(0), dated(FAR_MS), dated(NEW_YEAR_MS + 400 * DAY_MS)]);
    let minute = "TUMBLE(flows, start, INTERVAL '1' MINUTE)";
    let outcome = tested(&flows, minute, (None, None), 10_000);
    assert_eq!((outcome.windows, outcome.reports(), outcome.rows, outcome.rows_future), (201, 201, 203, 2));
    let ends = outcome.firings.iter().map(|firing| firing.window_end_ms);
    let expected = (1..=200).map(|minute| NEW_YEAR_MS + minute * MINUTE_MS);
    assert!(ends.eq([MINUTE_MS].into_iter().chain(expected)), "{:?}", outcome.range_ms);
    // the flows of the future that are between the bounds count
    let hour_ms = NEW_YEAR_MS + 60 * MINUTE_MS;
    let until_ms = NEW_YEAR_MS + 1_000 * DAY_MS;
    let outcome = tested(&flows, minute, (Some(hour_ms), Some(until_ms)), 10_000);
    assert_eq!((outcome.windows, outcome.rows_future), (140, 1));
    let outcome = tested(&flows, minute, (Some(hour_ms), Some(hour_ms + 10 * MINUTE_MS)), 10_000);
    assert_eq!((outcome.windows, outcome.rows_future), (10, 0));
}

#[test]
fn sessions_of_a_wrong_clock_make_a_backtest_no_longer() {
    let mut flows = minutes(5);
    flows.extend([dated(0), dated(FAR_MS)]);
    let sessions =
        "SESSION(flows, start, INTERVAL '10' MINUTE, key => src_addr) GROUP BY src_addr, window_start, window_end";
    let outcome = tested(&flows, sessions, (None, None), 1_000);
    let found: Vec<_> = outcome.firings.iter().flat_map(|firing| &firing.reports).map(|report| report.rows).collect();
    assert_eq!((found, outcome.rows, outcome.rows_future), (vec![1, 1], 7, 1));
    let counts: Vec<_> = outcome.firings.iter().map(|firing| firing.reports[0].evidence[0]["flows"].as_u64()).collect();
    assert_eq!(counts, [Some(1), Some(5)]);
}

/// The window ends hundreds of years after the flows.
#[test]
fn a_long_window_is_not_read_day_by_day() {
    let outcome = tested(&minutes(10), "TUMBLE(flows, start, INTERVAL '100000' DAY)", (None, None), 100);
    assert_eq!((outcome.windows, outcome.reports(), outcome.rows), (1, 1, 10));
}

/// Nothing is left for a window, and it is known why.
#[test]
fn flows_of_no_window_are_counted() {
    let outcome =
        tested(&[dated(FAR_MS), dated(FAR_MS + 1)], "TUMBLE(flows, start, INTERVAL '1' MINUTE)", (None, None), 100);
    assert_eq!((outcome.windows, outcome.rows_future, outcome.rows_without_time), (0, 2, 0));
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = writer(folder.path());
    writer.append(Delivery::from(batch(&minutes(3)))).expect("appended");
    let mut builder = FlowBatchBuilder::new(2);
    builder.begin_rows(2);
    for minute in [0, 60] {
        builder.time(Column::Received).push(Some(NEW_YEAR_MS + minute * MINUTE_MS));
    }
    writer.append(Delivery::from(builder.finish())).expect("appended");
    writer.close().expect("sealed");
    let query = "SELECT count(*) AS flows FROM TUMBLE(flows, start, INTERVAL '1' MINUTE)";
    let lacking = |until_ms: Option<i64>| {
        let file = watch("w", query, "time = 'start'\nrepeat_after = '0s'");
        let mut backtest = Backtest::new(file, &RunnerOptions::new(folder.path())).expect("a watch");
        let outcome = backtest.run(None, until_ms, |_, _| ()).expect("windows");
        (outcome.windows, outcome.rows, outcome.rows_without_time)
    };
    assert_eq!(lacking(None), (3, 3, 2));
    assert_eq!(lacking(Some(NEW_YEAR_MS + 30 * MINUTE_MS)), (3, 3, 1));
}
