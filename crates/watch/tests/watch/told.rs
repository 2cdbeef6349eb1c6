//! What watches say of what they do not know, and of mistakes in their files.

use std::error::Error;
use std::path::Path;

use weir_flow::Column;
use weir_sql::standing::{WindowKind, WindowSpec};
use weir_watch::panes::{PaneOptions, Panes};
use weir_watch::{Backtest, RunnerOptions, WatchFile, plan};

use crate::scene::{Flow, NEW_YEAR_MS, archive, batch, watch};

/// Flows of one host, so many in each second.
fn counted(seconds: &[usize]) -> Vec<Flow> {
    let of = |(second, count): (i64, &usize)| {
        (0..*count as i64).map(move |number| Flow::new(NEW_YEAR_MS + second * 1_000 + number, "10.0.0.1", "192.0.2.1"))
    };
    (0..).zip(seconds).flat_map(of).collect()
}

#[test]
fn windows_say_how_many_of_their_flows_were_left_out() {
    // the windows of ten seconds, one every five, are of these seconds
    let seconds = [3, 0, 1, 9, 2, 0, 7, 0, 0, 1, 4, 0, 0, 0, 0, 2];
    let kind = WindowKind { size_ms: 10_000, slide_ms: 5_000, offset_ms: 0 };
    let options = PaneOptions {
        windows: vec![Some(WindowSpec { kind, time: Column::Received })],
        columns: vec![Column::Received],
        lateness_ms: 0,
        late_ms: 0,
        skew_ms: 60_000,
        rows_max: 12,
        empty_windows: true,
    };
    let mut panes = Panes::new(options).expect("windows");
    let (mut closed, mut came) = (Vec::new(), 0);
    for flow in counted(&seconds) {
        panes.take(batch(&[flow]).record_batch(), &mut closed);
        came += 1;
    }
    panes.advance(NEW_YEAR_MS + 60_000, &mut closed);
    assert_eq!(came, seconds.iter().sum::<usize>());
    assert!(panes.counts().rows_shed > 5, "{:?}", panes.counts());
    for window in &closed {
        let first = (window.end_ms - 10_000 - NEW_YEAR_MS) / 1_000;
        let there: usize = window.rows[0].batches().iter().map(arrow::array::RecordBatch::num_rows).sum();
        let wanted: usize = (0..)
            .zip(&seconds)
            .filter(|(second, _)| (first..first + 10).contains(second))
            .map(|(_, count)| count)
            .sum();
        assert_eq!(there as u64 + window.rows_left_out, wanted as u64, "the window from second {first}");
    }
    assert!(
        closed.iter().any(|window| window.rows_left_out == 0) && closed.iter().any(|window| window.rows_left_out > 0)
    );
}

#[test]
fn reports_say_that_flows_were_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path(), &counted(&[5, 60, 0, 2]));
    let query = "SELECT count(*) AS flows FROM TUMBLE(flows, received, INTERVAL '1' SECOND) HAVING count(*) > 0";
    let file = watch("w", query, "rows_max = 10\nrepeat_after = '0s'");
    let outcome = Backtest::new(file, &RunnerOptions::new(folder.path())).expect("a watch").run(None, None, |_, _| ());
    let reports: Vec<_> = outcome.expect("windows").firings.into_iter().flat_map(|firing| firing.reports).collect();
    let left_out: Vec<_> = reports.iter().map(|report| report.rows_left_out).collect();
    assert_eq!(left_out, [0, 50, 0]);
    assert!(
        reports[1].text().contains("[incomplete: 50 flows of the window left out, see rows_max and rows_over_memory]"),
        "{}",
        reports[1].text()
    );
    assert_eq!(reports[1].json()["rows_left_out"], 50);
}

#[test]
fn nulls_and_empty_texts_are_keys_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path(), &counted(&[1]));
    let query = "SELECT a, b FROM (SELECT count(*) AS n FROM TUMBLE(flows, received, INTERVAL '1' SECOND)) \
                 CROSS JOIN (VALUES ('', NULL), (NULL, NULL), (NULL, ''), ('x', 'y,b='), ('x,b=y', '')) AS t(a, b)";
    let file = watch("w", query, "key = ['a', 'b']\nrepeat_after = '0s'");
    let outcome = Backtest::new(file, &RunnerOptions::new(folder.path())).expect("a watch").run(None, None, |_, _| ());
    let mut reports: Vec<_> = outcome.expect("windows").firings.into_iter().flat_map(|firing| firing.reports).collect();
    reports.sort_by(|a, b| a.key.cmp(&b.key));
    let found: Vec<_> = reports.iter().map(|report| (report.key.as_str(), report.rows)).collect();
    let expected = ["a=\"\",b=", "a=\"x,b=y\",b=\"\"", "a=,b=", "a=,b=\"\"", "a=x,b=y,b="];
    assert_eq!(found, expected.map(|key| (key, 1)));
}

/// As in a watch that runs, a window that fails says nothing about the others.
#[test]
fn a_window_that_fails_does_not_end_a_backtest() {
    let query = "SELECT 10 / (count(*) - 2) AS x FROM TUMBLE(flows, received, INTERVAL '1' SECOND)";
    let run = |seconds: &[usize]| {
        let folder = tempfile::tempdir().expect("a folder");
        archive(folder.path(), &counted(seconds));
        let file = watch("w", query, "repeat_after = '0s'");
        Backtest::new(file, &RunnerOptions::new(folder.path())).expect("a watch").run(None, None, |_, _| ())
    };
    let outcome = run(&[1, 2, 3, 2, 1]).expect("windows");
    assert_eq!((outcome.windows, outcome.windows_failed, outcome.reports()), (5, 2, 3));
    let why = outcome.failure.expect("why");
    assert!(why.contains("divided by zero"), "{why}");
    let all = run(&[2, 2]).expect_err("none has an answer");
    assert!(all.source().is_some_and(|source| source.to_string().contains("divided by zero")), "{all:?}");
}

#[test]
fn names_that_nothing_has_are_mistakes() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path(), &counted(&[1]));
    let query = "SELECT dst_port, count(*) AS n FROM TUMBLE(flows, received, :window) GROUP BY 1";
    let parameters = "[parameters]\nwindow = '1s'";
    let of = |rest: &str| {
        let made = Backtest::new(watch("w", query, rest), &RunnerOptions::new(folder.path()));
        made.err().map(|error| error.source().map(ToString::to_string).unwrap_or_default())
    };
    assert_eq!(
        of(&format!("next = 'weir query -R {{archive}} --from {{since}} --until {{to}} {{dst_port}}'\n{parameters}")),
        None
    );
    let column = of(&format!("next = 'weir query port {{dst_prt}}'\n{parameters}")).expect("a mistake");
    assert!(column.contains("`next` names {dst_prt}, which is no column of the answer"), "{column}");
    assert!(column.contains("there are dst_port, n, and archive, from, to and since"), "{column}");
    let parameter = of(&format!("{parameters}\nwindows = '5s'")).expect("a mistake");
    assert!(parameter.contains("the parameter 'windows' is not in the statement"), "{parameter}");
}

/// Statements that are no watch, with what is said of them.
#[test]
fn statements_that_are_no_watch_are_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path(), &counted(&[1]));
    let window = "TUMBLE(flows, received, INTERVAL '1' SECOND)";
    let doubled = (1..=12).fold(format!("WITH t0 AS (SELECT bytes FROM {window})"), |text, level| {
        let before = level - 1;
        format!("{text}, t{level} AS (SELECT * FROM t{before} UNION ALL SELECT * FROM t{before})")
    });
    let cases = [
        (format!("EXPLAIN SELECT count(*) FROM {window}"), "EXPLAIN has no answer that could be reported"),
        (format!("CREATE TABLE t AS SELECT count(*) AS n FROM {window}"), "only questions are answered"),
        ("DROP TABLE flows".to_owned(), "only questions are answered"),
        (
            format!("SELECT {} AS n FROM {window}", vec!["1"; 2000].join(" + ")),
            "the statement has more than 1000 operators",
        ),
        (format!("{doubled} SELECT count(*) AS n FROM t12"), "more than 4000 operators, functions and queries"),
        (format!("SELECT 1; SELECT count(*) FROM {window}"), "hint: a watch has one statement"),
        (
            "SELECT count(*) FROM TUMBEL(flows, received, INTERVAL '1' SECOND)".to_owned(),
            "hint: did you mean 'TUMBLE'?",
        ),
        (
            "SELECT count(*) FROM flows GROUP BY TUMBLE(received, INTERVAL '1' SECOND)".to_owned(),
            "hint: a window is in FROM, and its times are columns",
        ),
    ];
    for (query, expected) in cases {
        let made = Backtest::new(watch("w", &query, ""), &RunnerOptions::new(folder.path()));
        let error = made.err().and_then(|error| error.source().map(ToString::to_string)).unwrap_or_default();
        assert!(error.contains(expected), "{query}: {error}");
    }
}

/// What the state of a watch is limited to is in what `weir watch explain` prints.
#[test]
fn limits_of_the_state_are_explained() {
    let explained = |query: &str| plan(watch("w", query, "rows_max = 5_000\nwindows_waiting_max = 7")).expect("a plan");
    let tumbling = explained("SELECT count(*) FROM TUMBLE(flows, received, INTERVAL '1' SECOND)");
    let state = "\nstate: at most 5000 flows in open windows (rows_max), 7 closed windows that wait (windows_waiting_max), 1m for an answer \
                 (answer_time_max), by default 1GiB for windows of all watches (--watch-memory)\n";
    assert!(tumbling.contains(state), "{tumbling}");
    let sessions = explained(
        "SELECT src_addr, count(*) FROM SESSION(flows, received, INTERVAL '1' MINUTE, key => src_addr) \
         GROUP BY src_addr, window_start, window_end",
    );
    assert!(sessions.contains("of at most 1000000 sessions (sessions_max)"), "{sessions}");
    assert!(sessions.contains("of all watches, with the keys of open sessions (--watch-memory)\n"), "{sessions}");
}

/// What is computed before a window closes is in what `weir watch explain` prints of the watches whose statements sum up.
#[test]
fn what_is_computed_before_a_window_closes_is_explained() {
    const LINE: &str = "computed before a window closes, when it has many flows: ";
    let early = |file: WatchFile| -> Vec<String> {
        plan(file).expect("a plan").lines().filter_map(|line| line.strip_prefix(LINE)).map(str::to_owned).collect()
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../watches");
    for (name, part) in [
        ("elephants", "sum("),
        ("mice", "count("),
        ("anomalies", "sum("),
        ("new-service", "by "),
        ("exporter-silent", ""),
        ("portscan", "min("),
    ] {
        let file = WatchFile::read(&folder.join(format!("{name}.toml"))).expect(name);
        let found = early(file);
        assert!(!found.is_empty() && found.iter().any(|line| line.contains(part)), "{name}: {found:?}");
    }
    // a median needs the rows, and windows that overlap have their panes computed anyway
    for query in [
        "SELECT median(bytes) FROM TUMBLE(flows, received, INTERVAL '5' MINUTE)",
        "SELECT sum(bytes) FROM HOP(flows, received, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE)",
    ] {
        assert_eq!(early(watch("w", query, "")), Vec::<String>::new(), "{query}");
    }
}
