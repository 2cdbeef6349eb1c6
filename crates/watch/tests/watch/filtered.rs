//! Rows that a statement does not read are not kept, and its answers are the same.

use std::time::Duration;

use weir_sql::standing::{QuerySetup, StandingEngine, StandingOptions, StandingQuery};
use weir_watch::panes::{PaneOptions, Panes};
use weir_watch::{Backtest, RunnerOptions};

use crate::scene::{Flow, NEW_YEAR_MS, archive, batch, lines, watch};

fn of_protocol(received_ms: i64, protocol: u8) -> Flow {
    Flow { protocol, ..Flow::new(NEW_YEAR_MS + received_ms, "10.0.0.1", "192.0.2.1") }
}

/// Two windows with a hundred flows of TCP each, and three of UDP in the first: there is room for five rows.
#[test]
fn rows_that_a_condition_leaves_out_need_no_room() {
    let folder = tempfile::tempdir().expect("a folder");
    let tcp = |from_ms: i64| (0..100).map(move |number| of_protocol(from_ms + number, 6));
    let udp = (100..103).map(|number| of_protocol(number, 17));
    let flows: Vec<Flow> = tcp(0).chain(udp).chain(tcp(1_000)).collect();
    archive(folder.path(), &flows);
    let query = "SELECT count(*) AS n FROM TUMBLE(flows, received, INTERVAL '1' SECOND) WHERE protocol = 17";
    let file = watch("w", query, "rows_max = 5\nrepeat_after = '0s'");
    let mut backtest = Backtest::new(file, &RunnerOptions::new(folder.path())).expect("a watch");
    let mut answers = Vec::new();
    let outcome = backtest.run(None, None, |_, answer| answers.push(lines(answer))).expect("windows");
    assert_eq!(outcome.rows_shed, 0);
    // a window whose flows all are left out has flows
    assert_eq!(answers, [["3"], ["0"]]);
}

fn panes(query: &StandingQuery) -> Panes {
    let options = PaneOptions {
        windows: query.windows().to_vec(),
        columns: query.columns().to_vec(),
        lateness_ms: 0,
        late_ms: 0,
        skew_ms: 60_000,
        rows_max: u64::MAX,
        empty_windows: false,
    };
    Panes::new(options).expect("windows")
}

/// Statements, and how many rows of three flows of TCP, two of UDP and one of ICMP they read.
const STATEMENTS: [(&str, u64); 8] = [
    ("SELECT count(*) AS n FROM {w} WHERE protocol = 17", 2),
    ("SELECT src_port, sum(bytes) AS n FROM (SELECT * FROM {w} WHERE protocol <> 6) WHERE bytes > 10 GROUP BY 1", 3),
    // two places, of which one reads what the other does not
    (
        "WITH w AS (SELECT * FROM {w}), udp AS (SELECT count(*) AS n FROM w WHERE protocol = 17), \
         icmp AS (SELECT count(*) AS n FROM w WHERE protocol = 1) SELECT udp.n AS u, icmp.n AS i FROM udp CROSS JOIN icmp",
        3,
    ),
    // everything counts
    ("SELECT count(*) AS n, count(*) FILTER (WHERE protocol = 17) AS udp FROM {w}", 6),
    ("SELECT protocol, count(*) AS n FROM {w} GROUP BY protocol HAVING count(*) > 1", 6),
    // rows of the left side are there without a partner
    ("SELECT a.protocol, b.bytes FROM {w} a LEFT JOIN {w} b ON b.src_port = a.src_port AND b.protocol = 17", 6),
    (
        "SELECT a.protocol, b.bytes FROM {w} a LEFT JOIN {w} b ON b.src_port = a.src_port AND b.protocol = 17 \
         WHERE a.protocol = 6",
        5,
    ),
    // a time of the window is another one for each
    ("SELECT count(*) AS n FROM {w} WHERE protocol = 17 AND received > window_start", 2),
];

#[test]
fn rows_are_kept_when_any_place_of_the_statement_reads_them() {
    let engine = StandingEngine::new(&StandingOptions::default()).expect("an engine");
    let flows: Vec<Flow> = (0..).zip([6, 17, 6, 1, 17, 6]).map(|(at, protocol)| of_protocol(at, protocol)).collect();
    for (text, expected) in STATEMENTS {
        let text = text.replace("{w}", "TUMBLE(flows, received, INTERVAL '1' SECOND)");
        let mut query = engine.prepare(&text, &QuerySetup::default()).expect("a statement");
        let all = panes(&query);
        let read = panes(&query).filtered(query.row_filter().cloned());
        let answers = [all, read].map(|mut panes| {
            let mut closed = Vec::new();
            panes.take(batch(&flows).record_batch(), &mut closed);
            let kept = panes.rows_kept();
            panes.advance(NEW_YEAR_MS + 1_000, &mut closed);
            let window = closed.pop().expect("a window");
            (kept, lines(&query.answer(&window.rows, None, Duration::from_mins(1)).expect("an answer")))
        });
        let [(all, all_answer), (read, answer)] = answers;
        assert_eq!((all, read), (6, expected), "{text}\n{}", query.explain());
        assert_eq!(answer, all_answer, "{text}");
    }
}

/// Three flows from 10.0.0.1: nothing is in a list of nothing, and an address may come of a call.
#[test]
fn lists_may_be_empty_and_addresses_made() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path(), &(0..3).map(|number| of_protocol(number, 6)).collect::<Vec<_>>());
    for (condition, list, expected) in [
        ("cidr(coalesce(src_addr, dst_addr), :list)", "['10.0.0.0/8', 'fc00::/7']", "3"),
        ("NOT cidr(coalesce(src_addr, dst_addr), :list)", "['10.0.0.0/8', 'fc00::/7']", "0"),
        ("cidr(src_addr, :list)", "[]", "0"),
        ("NOT cidr(src_addr, :list)", "[]", "3"),
        ("src_port IN (:list)", "[]", "0"),
        ("src_port NOT IN (:list)", "[]", "3"),
    ] {
        let query = format!("SELECT count(*) AS n FROM TUMBLE(flows, received, INTERVAL '1' SECOND) WHERE {condition}");
        let file = watch("w", &query, &format!("repeat_after = '0s'\n[parameters]\nlist = {list}"));
        let mut backtest = Backtest::new(file, &RunnerOptions::new(folder.path())).expect("a watch");
        let mut answers = Vec::new();
        backtest.run(None, None, |_, answer| answers.push(lines(answer))).expect("windows");
        assert_eq!(answers, [[expected]], "{condition} {list}");
    }
}
