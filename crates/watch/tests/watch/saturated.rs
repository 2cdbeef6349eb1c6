//! Sums that do not fit into 64 bits: they stay at the largest number, and what they are part of says so, and nothing else does.

use std::sync::Arc;
use std::time::Duration;

use weir_archive::Snapshot;
use weir_sql::standing::{
    PaneRows, QuerySetup, StandingEngine, StandingOptions, StandingQuery, Window, WindowPane, WindowRows,
};
use weir_watch::{Backtest, RunnerOptions};

use crate::scene::{Flow, NEW_YEAR_MS, archive, batch, lines, watch};

const MINUTE: Duration = Duration::from_mins(1);
const HOUR_MS: i64 = 3_600_000;

fn flow(second: i64, port: u16, bytes: u64) -> Flow {
    Flow { bytes, ports: (port, 443), ..Flow::new(NEW_YEAR_MS + second * 1_000 + 100, "10.0.0.1", "192.0.2.1") }
}

/// Each pane is added up once, for three windows.
#[test]
fn reports_say_that_a_sum_does_not_fit() {
    let folder = tempfile::tempdir().expect("a folder");
    let largest = u64::MAX;
    let flows = [(0, 1), (10, largest), (10, 7), (20, largest), (21, 7), (30, 5)];
    archive(folder.path(), &flows.map(|(second, bytes)| flow(second, 1, bytes)));
    let query = "SELECT sum(bytes) AS bytes FROM HOP(flows, received, INTERVAL '1' SECOND, INTERVAL '3' SECOND) \
                 HAVING count(*) > 0";
    let file = watch("w", query, "repeat_after = '0s'");
    let mut answers = Vec::new();
    let outcome =
        Backtest::new(file, &RunnerOptions::new(folder.path())).expect("a watch").run(None, None, |window, answer| {
            answers.extend(lines(answer).into_iter().map(|line| (window.end_ms, line)));
        });
    let firings = outcome.expect("windows").firings;
    let said: Vec<_> = firings
        .iter()
        .flat_map(|firing| &firing.reports)
        .zip(&answers)
        .map(|(report, (end_ms, line))| {
            assert_eq!(report.window.end_ms, *end_ms);
            assert_eq!(report.text().contains("[a sum does not fit into 64 bits]"), report.is_saturated);
            assert_eq!(report.json()["saturated"], report.is_saturated);
            ((end_ms - NEW_YEAR_MS) / 1_000, line.parse::<u64>().expect("a number"), report.is_saturated)
        })
        .filter(|(second, ..)| *second > 5)
        .collect();
    let expected = [
        // of one pane, whose sum is too large
        (11, largest, true),
        (12, largest, true),
        (13, largest, true),
        // of two panes, of which one has just the largest number
        (21, largest, false),
        (22, largest, true),
        (23, largest, true),
        (24, 7, false),
        (31, 5, false),
        (32, 5, false),
        (33, 5, false),
    ];
    assert_eq!(said, expected);
}

/// What was aggregated while a window was open has been added up for that window alone.
#[test]
fn sums_of_open_windows_are_said_of_these() {
    let text = "SELECT src_port, sum(bytes) AS bytes FROM TUMBLE(flows, received, INTERVAL '1' HOUR) GROUP BY src_port";
    let (engine, setup) = (StandingEngine::new(&StandingOptions::default()).expect("an engine"), QuerySetup::default());
    let plain = engine.prepare(text, &setup).expect("a statement");
    let mut early = engine.prepare_early(&plain, text, &setup).expect("a statement").expect(text);
    let window = Window { start_ms: NEW_YEAR_MS, end_ms: NEW_YEAR_MS + HOUR_MS };
    let rows =
        |pane: &Arc<PaneRows>| vec![WindowRows { window, panes: vec![WindowPane::of(pane)] }; plain.windows().len()];
    let pane = |parts: &[Vec<Flow>], early: &StandingQuery| {
        let pane = Arc::new(PaneRows::new(&Arc::default()));
        for part in parts {
            pane.push(batch(part).record_batch().clone());
            early.aggregate(&rows(&pane), MINUTE).expect("aggregated");
            assert_eq!(pane.rows(), 0, "rows are gone");
        }
        pane
    };
    let small = |port| (0..3).map(|second| flow(second, port, 1)).collect::<Vec<_>>();
    // groups of the second part are others: when parts are merged, no sum meets the end
    let too_large = pane(&[vec![flow(0, 1, u64::MAX), flow(1, 1, 7), flow(2, 1, 7)], small(2)], &early);
    let fits = pane(&[small(1), small(2)], &early);
    let largest = format!("1,{}", u64::MAX);
    for (pane, expected, is_saturated) in
        [(&fits, ["1,3", "2,3"], false), (&too_large, [largest.as_str(), "2,3"], true), (&fits, ["1,3", "2,3"], false)]
    {
        assert_eq!(lines(&early.answer(&rows(pane), None, MINUTE).expect("an answer")), expected);
        assert_eq!(early.is_saturated(), is_saturated, "{expected:?}");
    }
}

/// What history answered is kept, for other windows and other watches.
#[test]
fn a_sum_of_history_that_is_kept_is_said_each_time() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path(), &[flow(0, 1, u64::MAX), flow(1, 1, 7)]);
    let snapshot = Arc::new(Snapshot::open(folder.path()).expect("a snapshot"));
    let engine = StandingEngine::new(&StandingOptions::default()).expect("an engine");
    let text = "SELECT w.n, h.bytes FROM (SELECT count(*) AS n FROM TUMBLE(flows, received, INTERVAL '10' SECOND)) w \
                CROSS JOIN (SELECT sum(bytes) AS bytes FROM HISTORY(flows, INTERVAL '1' HOUR, every => INTERVAL '10' SECOND)) h";
    let prepared = || engine.prepare(text, &QuerySetup::default()).expect("a statement");
    let (mut one, mut other) = (prepared(), prepared());
    let ask = |query: &mut StandingQuery, second: i64| {
        let start_ms = NEW_YEAR_MS + second * 1_000;
        let window = Window { start_ms, end_ms: start_ms + 10_000 };
        let rows = WindowRows::of(window, vec![batch(&[flow(second, 1, 3)]).record_batch().clone()]);
        let rows = vec![rows; query.windows().len()];
        let answer = query.answer(&rows, Some(&snapshot), MINUTE).expect("an answer");
        (lines(&answer), query.is_saturated())
    };
    let too_large = (vec![format!("1,{}", u64::MAX)], true);
    let nothing = (vec!["1,".to_owned()], false);
    assert_eq!(ask(&mut one, 20), too_large);
    assert_eq!(ask(&mut other, 20), too_large);
    assert_eq!(ask(&mut one, 2 * 3_600), nothing);
    assert_eq!(ask(&mut one, 20), too_large);
}
