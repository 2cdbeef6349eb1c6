//! Rows of history that are kept by host and hour: answers are those of plain SQL, whatever is kept.

use std::sync::Arc;
use std::time::Duration;

use weir_archive::Snapshot;
use weir_flow::{Delivery, Table};
use weir_sql::standing::{QuerySetup, StandingEngine, StandingOptions, StandingQuery, Window, WindowRows};

use crate::scene::{Flow, NEW_YEAR_MS, Random, batch, lines, plain, time, traffic, writer};

const DAY_MS: i64 = 86_400_000;
const HOUR_MS: i64 = 3_600_000;

/// A statement, the same in plain SQL, and how long its windows are.
const STATEMENTS: [(&str, &str, i64); 4] = [
    (
        "WITH live AS (SELECT src_addr, count(*) AS n FROM TUMBLE(flows, received, INTERVAL '10' SECOND) GROUP BY 1), \
         past AS (SELECT src_addr, dst_port, count(*) AS flows, sum(bytes) AS bytes FROM HISTORY(flows, INTERVAL '2' DAY) \
         WHERE packets > 3 GROUP BY 1, 2) \
         SELECT live.src_addr, live.n, past.dst_port, past.flows, past.bytes FROM live LEFT JOIN past ON past.src_addr = live.src_addr",
        "WITH live AS (SELECT src_addr, count(*) AS n FROM flows WHERE {rows} GROUP BY 1), \
         past AS (SELECT src_addr, dst_port, count(*) AS flows, sum(bytes) AS bytes FROM flows \
         WHERE packets > 3 AND received >= {s} - INTERVAL '2' DAY AND received < {s} GROUP BY 1, 2) \
         SELECT live.src_addr, live.n, past.dst_port, past.flows, past.bytes FROM live LEFT JOIN past ON past.src_addr = live.src_addr",
        10_000,
    ),
    (
        "WITH live AS (SELECT DISTINCT src_addr FROM TUMBLE(flows, received, INTERVAL '10' SECOND)), \
         past AS (SELECT src_addr, count(*) AS flows, max(start) AS latest FROM SAME_TIME(flows, days => 2, width => INTERVAL '1' HOUR) GROUP BY 1) \
         SELECT live.src_addr, past.flows, past.latest FROM live JOIN past ON past.src_addr = live.src_addr",
        "WITH live AS (SELECT DISTINCT src_addr FROM flows WHERE {rows}), \
         past AS (SELECT src_addr, count(*) AS flows, max(start) AS latest FROM flows WHERE \
         received >= {s} + INTERVAL '5' SECOND - INTERVAL '1470' MINUTE AND received < {s} + INTERVAL '5' SECOND - INTERVAL '1410' MINUTE OR \
         received >= {s} + INTERVAL '5' SECOND - INTERVAL '2910' MINUTE AND received < {s} + INTERVAL '5' SECOND - INTERVAL '2850' MINUTE GROUP BY 1) \
         SELECT live.src_addr, past.flows, past.latest FROM live JOIN past ON past.src_addr = live.src_addr",
        10_000,
    ),
    (
        "SELECT DISTINCT dst_addr FROM TUMBLE(flows, received, INTERVAL '10' SECOND) w WHERE NOT EXISTS \
         (SELECT 1 FROM HISTORY(flows, INTERVAL '90' MINUTE) h WHERE h.dst_addr = w.dst_addr)",
        "SELECT DISTINCT dst_addr FROM flows w WHERE {rows} AND NOT EXISTS \
         (SELECT 1 FROM flows h WHERE h.dst_addr = w.dst_addr AND h.received >= {s} - INTERVAL '90' MINUTE AND h.received < {s})",
        10_000,
    ),
    // more than eight addresses of the other side, most of them the same each time
    (
        "WITH live AS (SELECT DISTINCT src_addr, dst_addr FROM TUMBLE(flows, received, INTERVAL '10' MINUTE)), \
         past AS (SELECT src_addr, dst_addr, count(*) AS flows FROM HISTORY(flows, INTERVAL '2' DAY) GROUP BY 1, 2) \
         SELECT live.src_addr, live.dst_addr, past.flows FROM live LEFT JOIN past \
         ON past.src_addr = live.src_addr AND past.dst_addr = live.dst_addr",
        "WITH live AS (SELECT DISTINCT src_addr, dst_addr FROM flows WHERE {rows}), \
         past AS (SELECT src_addr, dst_addr, count(*) AS flows FROM flows \
         WHERE received >= {s} - INTERVAL '2' DAY AND received < {s} GROUP BY 1, 2) \
         SELECT live.src_addr, live.dst_addr, past.flows FROM live LEFT JOIN past \
         ON past.src_addr = live.src_addr AND past.dst_addr = live.dst_addr",
        600_000,
    ),
];

fn expected(folder: &std::path::Path, text: &str, window: Window) -> Vec<String> {
    let (start, end) = (time(window.start_ms), time(window.end_ms));
    let rows = format!("received >= {start} AND received < {end}");
    plain(folder, &text.replace("{rows}", &rows).replace("{s}", &start).replace("{e}", &end))
}

fn answer(query: &mut StandingQuery, flows: &[Flow], window: Window, folder: &std::path::Path) -> Vec<String> {
    let within = |flow: &&Flow| (window.start_ms..window.end_ms).contains(&flow.received_ms);
    let rows: Vec<Flow> = flows.iter().filter(within).cloned().collect();
    let rows = WindowRows::of(window, vec![batch(&rows).record_batch().clone()]);
    let snapshot = Arc::new(Snapshot::open(folder).expect("a snapshot"));
    lines(&query.answer(&[rows], Some(&snapshot), Duration::from_mins(1)).expect("an answer"))
}

#[test]
fn kept_rows_of_hosts_are_those_of_history() {
    for octets in [64 << 20, 200_000] {
        // with little room everything is driven out again and again
        let options = StandingOptions { memory_octets_max: octets * 4, ..StandingOptions::default() };
        let folder = tempfile::tempdir().expect("a folder");
        let mut flows = Vec::new();
        let append = |flows: &mut Vec<Flow>, more: Vec<Flow>, is_sealed: bool| {
            let mut writer = writer(folder.path());
            for part in more.chunks(700) {
                writer.append(Delivery::from(batch(part))).expect("appended");
            }
            if is_sealed {
                writer.close().expect("sealed");
            }
            flows.extend(more);
        };
        for day in 0..3 {
            let from = NEW_YEAR_MS + day * DAY_MS + 9 * HOUR_MS;
            append(&mut flows, traffic(day as u64 + 1, 1_500, from, 2 * HOUR_MS), true);
            append(&mut flows, traffic(day as u64 + 11, 1_500, from + 2 * HOUR_MS, 2 * HOUR_MS), day < 2);
        }
        let engine = StandingEngine::new(&options).expect("an engine");
        for (number, (standing, same, size_ms)) in STATEMENTS.iter().enumerate() {
            let mut query = engine.prepare(standing, &QuerySetup::default()).expect("a statement");
            let mut random = Random::new(number as u64 + 5);
            for round in 0..14 {
                if round == 7 {
                    // an exporter was behind: a segment of a day that is over
                    let late = traffic(99 + number as u64, 300, NEW_YEAR_MS + DAY_MS + 10 * HOUR_MS, HOUR_MS);
                    append(&mut flows, late, true);
                }
                let start_ms =
                    NEW_YEAR_MS + 2 * DAY_MS + 9 * HOUR_MS + random.below(14_000_000) as i64 / size_ms * size_ms;
                let window = Window { start_ms, end_ms: start_ms + size_ms };
                let found = answer(&mut query, &flows, window, folder.path());
                assert_eq!(found, expected(folder.path(), same, window), "{standing}, round {round}");
            }
        }
        let counts = engine.history_counters().counts();
        assert!(counts.scans_kept > 0 && counts.rows_octets > 0 && counts.rows_octets <= octets as u64, "{counts:?}");
        assert_eq!(counts.scans_too_large > 0, octets < 1 << 20, "{counts:?}");
    }
}

/// What is kept is not read again: its files may go.
#[test]
fn what_is_kept_is_not_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut flows = traffic(1, 2_000, NEW_YEAR_MS + 9 * HOUR_MS, HOUR_MS);
    let mut first = writer(folder.path());
    first.append(Delivery::from(batch(&flows))).expect("appended");
    first.close().expect("sealed");
    let today = traffic(2, 5_000, NEW_YEAR_MS + DAY_MS + 9 * HOUR_MS, HOUR_MS);
    let mut second = writer(folder.path());
    second.append(Delivery::from(batch(&today))).expect("appended");
    flows.extend(today);
    let (standing, same, _) = STATEMENTS[1];
    let engine = StandingEngine::new(&StandingOptions::default()).expect("an engine");
    let mut query = engine.prepare(standing, &QuerySetup::default()).expect("a statement");
    let start_ms = NEW_YEAR_MS + DAY_MS + 10 * HOUR_MS - 600_000;
    let windows = [0, 10_000].map(|later| Window { start_ms: start_ms + later, end_ms: start_ms + 10_000 + later });
    let wanted = windows.map(|window| expected(folder.path(), same, window));
    assert!(wanted.iter().all(|rows| !rows.is_empty()));
    // the first time a statement is only known then
    for _ in 0..2 {
        assert_eq!(answer(&mut query, &flows, windows[0], folder.path()), wanted[0]);
    }
    // another statement that reads the same columns in another way shares what is kept
    let fewer = "SELECT live.src_addr, past.n FROM (SELECT DISTINCT src_addr FROM TUMBLE(flows, received, INTERVAL '10' SECOND)) live JOIN \
                 (SELECT src_addr, max(start) AS n FROM SAME_TIME(flows, days => 1, width => INTERVAL '1' HOUR) GROUP BY 1) past ON past.src_addr = live.src_addr";
    let mut other = engine.prepare(fewer, &QuerySetup::default()).expect("a statement");
    let snapshot = Snapshot::open(folder.path()).expect("a snapshot");
    let file = snapshot.segments(Table::Flows)[0].path();
    let aside = folder.path().join("aside");
    let with_same_hosts = |window: Window| {
        let of = |flow: &Flow| Flow { received_ms: window.start_ms, ..flow.clone() };
        let hosts = flows.iter().filter(|flow| (windows[0].start_ms..windows[0].end_ms).contains(&flow.received_ms));
        hosts.map(of).collect::<Vec<_>>()
    };
    std::fs::rename(&file, &aside).expect("moved");
    let again = answer(&mut query, &with_same_hosts(windows[1]), windows[1], folder.path());
    let shared = answer(&mut other, &with_same_hosts(windows[1]), windows[1], folder.path());
    std::fs::rename(&aside, &file).expect("moved back");
    assert!(!again.is_empty());
    assert_eq!(again.len(), shared.len());
}

/// Planning and running costs some milliseconds, and there may be a year between two captures.
#[test]
fn windows_without_flows_and_history_are_passed_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = writer(folder.path());
    writer.append(Delivery::from(batch(&traffic(1, 2_000, NEW_YEAR_MS + 9 * HOUR_MS, HOUR_MS)))).expect("appended");
    let unsealed = Arc::new(Snapshot::open(folder.path()).expect("a snapshot"));
    writer.close().expect("sealed");
    let sealed = Arc::new(Snapshot::open(folder.path()).expect("a snapshot"));
    let engine = StandingEngine::new(&StandingOptions::default()).expect("an engine");
    let counted = "SELECT count(*) AS n, max(h.flows) AS flows FROM TUMBLE(flows, received, INTERVAL '10' SECOND) w \
                   CROSS JOIN (SELECT count(*) AS flows FROM HISTORY(flows, INTERVAL '2' DAY)) h";
    let placed = "SELECT 1 AS one FROM (VALUES (1)) v(a) LEFT JOIN TUMBLE(flows, received, INTERVAL '10' SECOND) w ON w.dst_port = v.a";
    let missing = "SELECT p.value FROM generate_series(20, 25) p LEFT JOIN TUMBLE(flows, received, INTERVAL '10' SECOND) w \
                   ON w.dst_port = p.value WHERE w.dst_port IS NULL";
    let books = "SELECT h.exporter FROM HISTORY(exporter_books, INTERVAL '2' DAY) h \
                 LEFT JOIN TUMBLE(flows, received, INTERVAL '10' SECOND) w ON w.exporter = h.exporter WHERE w.exporter IS NULL";
    let silent = STATEMENTS.iter().map(|(text, _, _)| (*text, 0));
    for (text, rows_wanted) in silent.chain([(counted, 1), (placed, 1), (missing, 6), (books, 0)]) {
        let mut query = engine.prepare(text, &QuerySetup::default()).expect("a statement");
        let mut passed = |history: &Arc<Snapshot>, begin_ms: i64| {
            let before = query.windows_passed();
            let window = Window { start_ms: begin_ms, end_ms: begin_ms + 10_000 };
            let rows = WindowRows { window, panes: Vec::new() };
            let answer = query.answer(&[rows], Some(history), Duration::from_mins(1)).expect("an answer");
            assert_eq!(answer.iter().map(arrow::array::RecordBatch::num_rows).sum::<usize>(), rows_wanted, "{text}");
            query.windows_passed() - before
        };
        let is_silent = u64::from(rows_wanted == 0);
        let later_ms = NEW_YEAR_MS + 365 * DAY_MS;
        assert_eq!(passed(&sealed, later_ms), is_silent, "{text}");
        assert_eq!(passed(&sealed, NEW_YEAR_MS - 365 * DAY_MS), is_silent, "{text}");
        // what is not sealed yet has no times that are known without reading it
        assert_eq!(passed(&unsealed, later_ms), 0, "{text}");
        let near_ms = NEW_YEAR_MS + 10 * HOUR_MS + if text.contains("SAME_TIME") { DAY_MS } else { 0 };
        assert_eq!(passed(&sealed, near_ms), 0, "{text}");
    }
    let plain = "SELECT dst_addr, count(*) AS n FROM TUMBLE(flows, received, INTERVAL '10' SECOND) GROUP BY 1";
    let mut query = engine.prepare(plain, &QuerySetup::default()).expect("a statement");
    let window = Window { start_ms: NEW_YEAR_MS + 10 * HOUR_MS, end_ms: NEW_YEAR_MS + 10 * HOUR_MS + 10_000 };
    let answer = query.answer(&[WindowRows { window, panes: Vec::new() }], None, Duration::from_mins(1));
    assert!(answer.expect("an answer").is_empty());
    assert_eq!(query.windows_passed(), 1);
}

/// History is planned anew for each window, which costs more than to group a small one: most windows have nothing to ask it about.
#[test]
fn a_window_decides_alone_that_there_is_nothing_to_say() {
    let folder = tempfile::tempdir().expect("a folder");
    let flows = traffic(1, 2_000, NEW_YEAR_MS + 9 * HOUR_MS, HOUR_MS);
    let mut writer = writer(folder.path());
    writer.append(Delivery::from(batch(&flows))).expect("appended");
    writer.close().expect("sealed");
    let engine = StandingEngine::new(&StandingOptions::default()).expect("an engine");
    let snapshot = Arc::new(Snapshot::open(folder.path()).expect("a snapshot"));
    let window = Window { start_ms: NEW_YEAR_MS + 9 * HOUR_MS, end_ms: NEW_YEAR_MS + 10 * HOUR_MS };
    // statements of hosts of many flows, and whether there is nothing to ask history about when there are none
    let statements = [
        ("SELECT m.src_addr, p.n FROM {many} m LEFT JOIN {past} p ON p.src_addr = m.src_addr", true),
        ("SELECT m.src_addr FROM {many} m WHERE m.src_addr NOT IN (SELECT src_addr FROM {past} p WHERE n > 9)", false),
        ("SELECT count(*) FROM {many} m LEFT JOIN {past} p ON p.src_addr = m.src_addr", false),
        ("SELECT p.src_addr FROM {past} p LEFT JOIN {many} m ON p.src_addr = m.src_addr", false),
        // one row, whatever it is of
        (
            "SELECT p.n FROM (SELECT max(src_addr) AS src_addr FROM {many}) m JOIN {past} p ON p.src_addr = m.src_addr",
            false,
        ),
        // two of them, of which each may have something to say
        (
            "SELECT m.src_addr, p.n FROM {many} m LEFT JOIN {past} p ON p.src_addr = m.src_addr \
             UNION ALL SELECT m.src_addr, p.n FROM {hosts} m JOIN {past} p ON p.src_addr = m.src_addr",
            false,
        ),
        (
            "SELECT m.src_addr FROM {many} m JOIN {past} p ON p.src_addr = m.src_addr JOIN \
             (SELECT h.src_addr FROM {hosts} h JOIN {past} p ON p.src_addr = h.src_addr) o ON o.src_addr = m.src_addr",
            true,
        ),
    ];
    let hosts = "(SELECT src_addr FROM TUMBLE(flows, received, INTERVAL '1' HOUR) GROUP BY src_addr)";
    let past = "(SELECT src_addr, count(*) AS n FROM HISTORY(flows, INTERVAL '2' DAY) GROUP BY src_addr)";
    for (text, decides) in statements {
        let decided = |flows_min: u32| {
            let many = hosts.replace("GROUP BY src_addr", &format!("GROUP BY src_addr HAVING count(*) >= {flows_min}"));
            let text = text.replace("{many}", &many).replace("{hosts}", hosts).replace("{past}", past);
            let mut query = engine.prepare(&text, &QuerySetup::default()).expect("a statement");
            let rows = vec![WindowRows::of(window, vec![batch(&flows).record_batch().clone()]); query.windows().len()];
            query.answer(&rows, Some(&snapshot), Duration::from_mins(1)).expect("an answer");
            query.windows_decided()
        };
        assert_eq!(decided(1_000_000), u64::from(decides), "{text}");
        assert_eq!(decided(1), 0, "{text}");
    }
}
