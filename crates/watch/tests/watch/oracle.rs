//! Each window's answer is that of plain SQL over the rows of the window.

use std::collections::BTreeMap;

use weir_watch::{Backtest, RunnerOptions};

use crate::scene::{NEW_YEAR_MS, archive, lines, plain, time, traffic, watch};

/// A standing question; the lengths of its windows and their slide; the same in plain SQL, where `{s}` and `{e}` are the
/// times of the window, `{rows}` says which rows are in it, and `{before}` which are of the hour before it.
pub(crate) struct Case {
    pub(crate) standing: &'static str,
    pub(crate) size_ms: i64,
    pub(crate) slide_ms: i64,
    pub(crate) time: &'static str,
    pub(crate) plain: &'static str,
}

pub(crate) const CASES: &[Case] = &[
    Case {
        standing: "SELECT window_start, window_end, src_addr, sum(bytes) AS bytes, count(*) AS flows \
                   FROM TUMBLE(flows, received, INTERVAL '10' SECOND) GROUP BY window_start, window_end, src_addr",
        size_ms: 10_000,
        slide_ms: 10_000,
        time: "received",
        plain: "SELECT {s}, {e}, src_addr, sum(bytes), count(*) FROM flows WHERE {rows} GROUP BY src_addr",
    },
    Case {
        standing: "SELECT src_addr, dst_addr, sum(bytes) AS bytes FROM HOP(flows, received, INTERVAL '5' SECOND, INTERVAL '20' SECOND) \
                   GROUP BY 1, 2 QUALIFY row_number() OVER (ORDER BY sum(bytes) DESC, src_addr, dst_addr) <= 3",
        size_ms: 20_000,
        slide_ms: 5_000,
        time: "received",
        plain: "SELECT src_addr, dst_addr, sum(bytes) AS bytes FROM flows WHERE {rows} GROUP BY 1, 2 \
                ORDER BY bytes DESC, src_addr, dst_addr LIMIT 3",
    },
    Case {
        standing: "SELECT count(*) AS flows, count(DISTINCT src_addr) AS hosts FROM HOP(flows, start, INTERVAL '1' SECOND, INTERVAL '7' SECOND)",
        size_ms: 7_000,
        slide_ms: 1_000,
        time: "start",
        plain: "SELECT count(*), count(DISTINCT src_addr) FROM flows WHERE {rows}",
    },
    Case {
        standing: "WITH now AS (SELECT src_addr, sum(bytes) AS bytes FROM TUMBLE(flows, received, INTERVAL '10' SECOND) GROUP BY src_addr), \
                   before AS (SELECT src_addr, sum(bytes) AS bytes, count(*) AS flows FROM HISTORY(flows, INTERVAL '1' HOUR) GROUP BY src_addr) \
                   SELECT now.src_addr, now.bytes, before.bytes AS bytes_before, before.flows \
                   FROM now LEFT JOIN before ON before.src_addr = now.src_addr",
        size_ms: 10_000,
        slide_ms: 10_000,
        time: "received",
        plain: "WITH now AS (SELECT src_addr, sum(bytes) AS bytes FROM flows WHERE {rows} GROUP BY src_addr), \
                before AS (SELECT src_addr, sum(bytes) AS bytes, count(*) AS flows FROM flows WHERE {before} GROUP BY src_addr) \
                SELECT now.src_addr, now.bytes, before.bytes, before.flows FROM now LEFT JOIN before ON before.src_addr = now.src_addr",
    },
    Case {
        standing: "SELECT src_addr, dst_port, count(*) AS flows FROM TUMBLE(flows, received, INTERVAL '20' SECOND) AS live \
                   WHERE src_addr NOT IN (SELECT src_addr FROM HISTORY(flows, INTERVAL '1' HOUR) GROUP BY src_addr ORDER BY sum(bytes) DESC, src_addr LIMIT 4) \
                   GROUP BY src_addr, dst_port",
        size_ms: 20_000,
        slide_ms: 20_000,
        time: "received",
        plain: "SELECT src_addr, dst_port, count(*) FROM flows WHERE {rows} AND src_addr NOT IN (\
                SELECT src_addr FROM flows WHERE {before} GROUP BY src_addr ORDER BY sum(bytes) DESC, src_addr LIMIT 4) GROUP BY src_addr, dst_port",
    },
    Case {
        standing: "SELECT DISTINCT dst_addr FROM TUMBLE(flows, received, INTERVAL '10' SECOND) EXCEPT \
                   SELECT dst_addr FROM HISTORY(flows, INTERVAL '1' HOUR)",
        size_ms: 10_000,
        slide_ms: 10_000,
        time: "received",
        plain: "SELECT DISTINCT dst_addr FROM flows WHERE {rows} EXCEPT SELECT dst_addr FROM flows WHERE {before}",
    },
    Case {
        standing: "SELECT short.src_addr, short.bytes, long.bytes AS bytes_long FROM \
                   (SELECT src_addr, sum(bytes) AS bytes FROM TUMBLE(flows, received, INTERVAL '5' SECOND) GROUP BY 1) short JOIN \
                   (SELECT src_addr, sum(bytes) AS bytes FROM HOP(flows, received, INTERVAL '5' SECOND, INTERVAL '30' SECOND) GROUP BY 1) long \
                   ON short.src_addr = long.src_addr",
        size_ms: 5_000,
        slide_ms: 5_000,
        time: "received",
        plain: "SELECT short.src_addr, short.bytes, long.bytes FROM \
                (SELECT src_addr, sum(bytes) AS bytes FROM flows WHERE {rows} GROUP BY 1) short JOIN \
                (SELECT src_addr, sum(bytes) AS bytes FROM flows WHERE received >= {e} - INTERVAL '30' SECOND AND received < {e} GROUP BY 1) long \
                ON short.src_addr = long.src_addr",
    },
    Case {
        standing: "SELECT f.src_addr, sum(f.bytes_scaled) AS bytes, max(f.window_end) AS until FROM \
                   TUMBLE((SELECT * FROM flows WHERE protocol = 17), received, INTERVAL '10' SECOND, INTERVAL '3' SECOND) f GROUP BY f.src_addr",
        size_ms: 10_000,
        slide_ms: 10_000,
        time: "received",
        plain: "SELECT src_addr, sum(bytes_scaled), {e} FROM flows WHERE protocol = 17 AND {rows} GROUP BY src_addr",
    },
];

/// Statements over windows that overlap, whose panes are aggregated once, and the same over plain rows. The last ones cannot
/// be combined.
pub(crate) const SLIDING: &[(&str, &str, bool)] = &[
    (
        "SELECT src_addr, count(*) AS n, count(in_if) AS k, sum(bytes) AS s, min(packets) AS l, max(start) AS u, avg(bytes) AS a FROM {w} GROUP BY 1",
        "SELECT src_addr, count(*), count(in_if), sum(bytes), min(packets), max(start), avg(bytes) FROM flows WHERE {rows} GROUP BY 1",
        true,
    ),
    (
        "SELECT window_start, window_end, protocol, sum(bytes_scaled) AS s FROM {w} WHERE dst_port = 443 GROUP BY 1, 2, 3 HAVING count(*) > 1",
        "SELECT {s}, {e}, protocol, sum(bytes_scaled) FROM flows WHERE dst_port = 443 AND {rows} GROUP BY 3 HAVING count(*) > 1",
        true,
    ),
    (
        "SELECT window_end, count(*) AS n FROM {w} WHERE dst_port = 53 AND bytes > 90000 GROUP BY window_end",
        "SELECT {e}, count(*) FROM flows WHERE dst_port = 53 AND bytes > 90000 AND {rows} HAVING count(*) > 0",
        true,
    ),
    (
        "SELECT count(*) AS n, sum(packets) AS s, max(bytes) AS m FROM {w} WHERE dst_port = 53 AND bytes > 90000",
        "SELECT count(*), sum(packets), max(bytes) FROM flows WHERE dst_port = 53 AND bytes > 90000 AND {rows}",
        true,
    ),
    (
        "SELECT dst_port, count(DISTINCT src_addr) AS hosts FROM {w} GROUP BY dst_port",
        "SELECT dst_port, count(DISTINCT src_addr) FROM flows WHERE {rows} GROUP BY dst_port",
        true,
    ),
    ("SELECT DISTINCT src_addr, protocol FROM {w}", "SELECT DISTINCT src_addr, protocol FROM flows WHERE {rows}", true),
    (
        "SELECT dst_port, count(*) FILTER (WHERE protocol = 6) AS tcp, avg(packets) FILTER (WHERE bytes > 50000) AS a FROM {w} GROUP BY dst_port",
        "SELECT dst_port, count(*) FILTER (WHERE protocol = 6), avg(packets) FILTER (WHERE bytes > 50000) FROM flows WHERE {rows} GROUP BY dst_port",
        true,
    ),
    (
        "SELECT network(src_addr, 24) AS net, extract(minute FROM window_end) AS m, sum(bytes) AS s FROM {w} GROUP BY 1, 2",
        "SELECT network(src_addr, 24), extract(minute FROM {e}), sum(bytes) FROM flows WHERE {rows} GROUP BY 1",
        true,
    ),
    (
        "WITH hosts AS (SELECT src_addr, sum(bytes) AS bytes FROM {w} GROUP BY 1) \
         SELECT src_addr, bytes FROM hosts WHERE bytes > (SELECT avg(bytes) FROM hosts)",
        "WITH hosts AS (SELECT src_addr, sum(bytes) AS bytes FROM flows WHERE {rows} GROUP BY 1) \
         SELECT src_addr, bytes FROM hosts WHERE bytes > (SELECT avg(bytes) FROM hosts)",
        true,
    ),
    (
        "SELECT dst_port, count(DISTINCT src_addr) AS hosts, count(DISTINCT bytes) FILTER (WHERE protocol = 6) AS b, sum(packets) AS s FROM {w} GROUP BY 1",
        "SELECT dst_port, count(DISTINCT src_addr), count(DISTINCT bytes) FILTER (WHERE protocol = 6), sum(packets) FROM flows WHERE {rows} GROUP BY 1",
        true,
    ),
    (
        "SELECT count(DISTINCT src_addr) AS a, count(DISTINCT dst_addr) AS b, count(DISTINCT in_if) AS i FROM {w}",
        "SELECT count(DISTINCT src_addr), count(DISTINCT dst_addr), count(DISTINCT in_if) FROM flows WHERE {rows}",
        true,
    ),
    (
        "SELECT approx_distinct(bytes) AS a, approx_distinct(dst_port) AS p, max(bytes) AS m FROM {w}",
        "SELECT approx_distinct(bytes), approx_distinct(dst_port), max(bytes) FROM flows WHERE {rows}",
        true,
    ),
    (
        "SELECT src_addr, approx_distinct(bytes) AS a FROM {w} GROUP BY 1",
        "SELECT src_addr, approx_distinct(bytes) FROM flows WHERE {rows} GROUP BY 1",
        true,
    ),
    (
        "SELECT dst_port, approx_distinct(src_addr) AS h, approx_distinct(src_port) FILTER (WHERE bytes > 90000) AS p, \
         approx_distinct(in_if) AS i, count(*) AS n FROM {w} GROUP BY dst_port HAVING approx_distinct(src_addr) > 1",
        "SELECT dst_port, approx_distinct(src_addr), approx_distinct(src_port) FILTER (WHERE bytes > 90000), \
         approx_distinct(in_if), count(*) FROM flows WHERE {rows} GROUP BY dst_port HAVING approx_distinct(src_addr) > 1",
        true,
    ),
    // as many sketches of percentiles as groups would be larger than the rows
    (
        "SELECT src_addr, approx_median(bytes) AS m FROM {w} GROUP BY 1",
        "SELECT src_addr, approx_median(bytes) FROM flows WHERE {rows} GROUP BY 1",
        false,
    ),
    (
        "SELECT src_addr, median(bytes) AS m FROM {w} GROUP BY 1",
        "SELECT src_addr, median(bytes) FROM flows WHERE {rows} GROUP BY 1",
        false,
    ),
    (
        "SELECT protocol, count(*) AS n FROM {w} WHERE start > window_end - INTERVAL '15' SECOND GROUP BY 1",
        "SELECT protocol, count(*) FROM flows WHERE start > {e} - INTERVAL '15' SECOND AND {rows} GROUP BY 1",
        false,
    ),
    (
        "SELECT src_addr, bytes FROM {w} WHERE bytes > 99000",
        "SELECT src_addr, bytes FROM flows WHERE bytes > 99000 AND {rows}",
        false,
    ),
];

#[test]
fn windows_that_overlap_share_panes_and_are_answered_as_plain_sql_answers() {
    for (seed, slide, size) in [(11, 1, 7), (12, 5, 20), (13, 2, 60)] {
        let folder = tempfile::tempdir().expect("a folder");
        archive(folder.path(), &traffic(seed, 1_500, NEW_YEAR_MS - 40_000, 90_000));
        for (standing, plainly, is_shared) in SLIDING {
            let window = format!("HOP(flows, received, INTERVAL '{slide}' SECOND, INTERVAL '{size}' SECOND)");
            let file = watch("case", &standing.replace("{w}", &window), "repeat_after = '0s'");
            let explained = weir_watch::plan(file.clone()).expect(standing);
            assert_eq!(explained.contains("computed for each pane"), *is_shared, "{standing}\n{explained}");
            let case =
                Case { standing, size_ms: size * 1_000, slide_ms: slide * 1_000, time: "received", plain: plainly };
            let mut backtest = Backtest::new(file, &RunnerOptions::new(folder.path())).expect(standing);
            let mut windows = 0;
            let outcome = backtest.run(None, None, |window, answer| {
                let plain = plain(folder.path(), &filled(&case, window.end_ms));
                assert_eq!(lines(answer), plain, "{standing}: window until {}", window.end_ms);
                windows += 1;
            });
            outcome.expect("windows");
            assert!(windows > 10, "{windows}");
        }
    }
}

/// Groups of few values and of so many that a pane has a whole sketch of them (256 values): the estimate of a window is that of
/// all its rows, to the last digit, since sketches of parts merge into those of the whole.
#[test]
fn distinct_values_of_groups_are_estimated_from_panes_as_from_rows() {
    let query = "SELECT protocol, approx_distinct(bytes) AS b, approx_distinct(src_addr) AS h FROM {w} GROUP BY 1";
    let plainly =
        "SELECT protocol, approx_distinct(bytes), approx_distinct(src_addr) FROM flows WHERE {rows} GROUP BY 1";
    for (seed, count) in [(31, 40), (32, 400), (33, 4_000), (34, 12_000)] {
        let folder = tempfile::tempdir().expect("a folder");
        archive(folder.path(), &traffic(seed, count, NEW_YEAR_MS, 24_000));
        let window = "HOP(flows, received, INTERVAL '4' SECOND, INTERVAL '12' SECOND)";
        let file = watch("case", &query.replace("{w}", window), "repeat_after = '0s'");
        let explained = weir_watch::plan(file.clone()).expect("a plan");
        assert!(explained.contains("kept: what panes made, not their rows"), "{explained}");
        let case = Case { standing: query, size_ms: 12_000, slide_ms: 4_000, time: "received", plain: plainly };
        let mut backtest = Backtest::new(file, &RunnerOptions::new(folder.path())).expect("a watch");
        let mut windows = 0;
        let outcome = backtest.run(None, None, |window, answer| {
            assert_eq!(lines(answer), plain(folder.path(), &filled(&case, window.end_ms)), "{seed}: {}", window.end_ms);
            windows += 1;
        });
        outcome.expect("windows");
        assert!(windows >= 6, "{windows}");
    }
}

/// Windows with history share panes too.
#[test]
fn history_is_joined_with_what_panes_made() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path(), &traffic(21, 2_000, NEW_YEAR_MS - 40_000, 120_000));
    let query = "WITH now AS (SELECT src_addr, sum(bytes) AS bytes FROM HOP(flows, received, INTERVAL '2' SECOND, INTERVAL '10' SECOND) GROUP BY 1), \
                 before AS (SELECT src_addr, count(*) AS flows FROM HISTORY(flows, INTERVAL '1' HOUR) GROUP BY 1) \
                 SELECT now.src_addr, now.bytes, before.flows FROM now LEFT JOIN before ON before.src_addr = now.src_addr";
    let case = Case {
        standing: query,
        size_ms: 10_000,
        slide_ms: 2_000,
        time: "received",
        plain: "SELECT now.src_addr, now.bytes, before.flows FROM (SELECT src_addr, sum(bytes) AS bytes FROM flows WHERE {rows} GROUP BY 1) now \
                LEFT JOIN (SELECT src_addr, count(*) AS flows FROM flows WHERE {before} GROUP BY 1) before ON before.src_addr = now.src_addr",
    };
    let file = watch("case", query, "repeat_after = '0s'");
    let explained = weir_watch::plan(file.clone()).expect("a plan");
    assert!(explained.contains("computed for each pane"), "{explained}");
    assert!(explained.contains("kept: what panes made, not their rows"), "{explained}");
    let mut backtest = Backtest::new(file, &RunnerOptions::new(folder.path())).expect("a watch");
    let mut windows = 0;
    let outcome = backtest.run(None, None, |window, answer| {
        assert_eq!(lines(answer), plain(folder.path(), &filled(&case, window.end_ms)), "until {}", window.end_ms);
        windows += 1;
    });
    outcome.expect("windows");
    assert!(windows > 10, "{windows}");
}

pub(crate) fn filled(case: &Case, end_ms: i64) -> String {
    let start_ms = end_ms - case.size_ms;
    let (start, end, column) = (time(start_ms), time(end_ms), case.time);
    let text = case.plain.replace("{rows}", &format!("\"{column}\" >= {{s}} AND \"{column}\" < {{e}}"));
    let text = text.replace("{before}", &format!("\"{column}\" >= {{s}} - INTERVAL '1' HOUR AND \"{column}\" < {{s}}"));
    text.replace("{s}", &start).replace("{e}", &end)
}

#[test]
fn each_window_is_answered_as_plain_sql_answers() {
    for seed in 0..3 {
        let folder = tempfile::tempdir().expect("a folder");
        let flows = traffic(seed, 3_000, NEW_YEAR_MS - 100_000, 200_000);
        archive(folder.path(), &flows);
        for (number, case) in CASES.iter().enumerate() {
            let file = watch("case", case.standing, &format!("time = '{}'\nrepeat_after = '0s'", case.time));
            let mut backtest = Backtest::new(file, &RunnerOptions::new(folder.path())).expect(case.standing);
            let mut answers = BTreeMap::new();
            let outcome = backtest.run(None, None, |window, answer| {
                assert!(answers.insert(window.end_ms, lines(answer)).is_none(), "a window twice");
            });
            let outcome = outcome.expect("windows");
            assert_eq!(outcome.windows, answers.len() as u64);
            let of_flow =
                |flow: &crate::scene::Flow| if case.time == "start" { flow.start_ms } else { flow.received_ms };
            // every window that has a flow is there, and no other
            let expected: std::collections::BTreeSet<i64> = flows
                .iter()
                .flat_map(|flow| {
                    let phase = if number == 7 { 3_000 } else { 0 };
                    let first =
                        (of_flow(flow) - phase).div_euclid(case.slide_ms) * case.slide_ms + case.slide_ms + phase;
                    let size_ms = if number == 6 { 30_000 } else { case.size_ms };
                    (0..size_ms / case.slide_ms).map(move |slides| first + slides * case.slide_ms)
                })
                .collect();
            assert_eq!(answers.keys().copied().collect::<std::collections::BTreeSet<_>>(), expected, "case {number}");
            for (end_ms, answer) in answers {
                let plain = plain(folder.path(), &filled(case, end_ms));
                assert_eq!(answer, plain, "case {number}, seed {seed}, window until {end_ms}");
            }
        }
    }
}

#[test]
fn over_an_archive_every_row_is_in_each_of_its_windows() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path(), &traffic(7, 500, NEW_YEAR_MS, 60_000));
    let hop = "SELECT window_start, count(*), sum(bytes) FROM HOP(flows, received, INTERVAL '5' SECOND, INTERVAL '15' SECOND) GROUP BY 1";
    let by_hand = "SELECT w, count(*), sum(bytes) FROM (\
                   SELECT date_bin(INTERVAL '5' SECOND, received) - i AS w, bytes FROM flows \
                   CROSS JOIN (VALUES (INTERVAL '0' SECOND), (INTERVAL '5' SECOND), (INTERVAL '10' SECOND)) AS t(i)) GROUP BY 1";
    assert_eq!(plain(folder.path(), hop), plain(folder.path(), by_hand));
    let tumble = "SELECT window_start, window_end, src_addr, count(*) FROM TUMBLE(flows, received, INTERVAL '1' MINUTE) GROUP BY ALL";
    let by_hand = "SELECT date_bin(INTERVAL '1' MINUTE, received), date_bin(INTERVAL '1' MINUTE, received) + INTERVAL '1' MINUTE, \
                   src_addr, count(*) FROM flows GROUP BY ALL";
    assert_eq!(plain(folder.path(), tumble), plain(folder.path(), by_hand));
}
