//! Sessions against a model that looks at one row at a time, and against plain SQL.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arrow::array::AsArray;
use arrow::datatypes::{TimestampMillisecondType, UInt64Type};
use weir_archive::Writer;
use weir_chain::StopSignal;
use weir_flow::{Column, Delivery};
use weir_sql::standing::{QuerySetup, StandingEngine, StandingOptions, StandingQuery};
use weir_watch::journal::REPORTS;
use weir_watch::panes::{ClosedWindow, PaneCounts};
use weir_watch::sessions::{SessionOptions, Sessions};
use weir_watch::{Backtest, Message, Runner, RunnerOptions, plan};

use crate::scene::{Flow, NEW_YEAR_MS, Random, archive, batch, lines, plain, time, watch, writer};

const GAP_MS: i64 = 2_000;
const CAP_MS: i64 = 10_000;
const EVERY_MS: i64 = 500;

fn statement(time: &str) -> String {
    format!(
        "SELECT src_addr, bytes, window_start, window_end FROM SESSION(flows, {time}, INTERVAL '2' SECOND, \
         key => src_addr, cap => INTERVAL '10' SECOND, every => INTERVAL '500' MILLISECOND)"
    )
}

fn query(text: &str, time: Column) -> StandingQuery {
    let engine = StandingEngine::new(&StandingOptions::default()).expect("an engine");
    engine.prepare(text, &QuerySetup { time, ..QuerySetup::default() }).expect("a statement")
}

fn sessions(query: &StandingQuery, lateness_ms: i64, rows_max: u64, sessions_max: usize) -> Sessions {
    let options = SessionOptions {
        windows: query.windows()[0].expect("sessions"),
        relation: (0, 1),
        lateness_ms,
        skew_ms: 60_000,
        rows_max,
        sessions_max,
        empty_windows: false,
    };
    Sessions::new(query.session_input().expect("a plan").expect("sessions"), options)
}

/// Sessions by the step in which they were given, their key and when they began and ended; `bytes` of their rows.
type Found = BTreeMap<(i64, String, i64, i64), Vec<u64>>;

fn found(closed: &[ClosedWindow]) -> Found {
    let mut found = Found::new();
    for window in closed {
        for batch in &window.rows[0].batches() {
            let column = |name: &str| batch.column_by_name(name).expect(name).clone();
            let (keys, bytes) = (column("src_addr"), column("bytes"));
            let times = |name| column(name).as_primitive::<TimestampMillisecondType>().clone();
            let (starts, ends) = (times("window_start"), times("window_end"));
            for row in 0..batch.num_rows() {
                let octets = keys.as_binary::<i32>().value(row);
                let key = format!("10.0.0.{}", octets.last().expect("an address"));
                let session = (window.end_ms, key, starts.value(row), ends.value(row));
                found.entry(session).or_default().push(bytes.as_primitive::<UInt64Type>().value(row));
            }
        }
    }
    for bytes in found.values_mut() {
        bytes.sort_unstable();
    }
    found
}

/// Sessions of rows, each a time and its `bytes`: as the reference page defines them, as plainly as possible.
fn model_of(rows: &[(i64, u64)]) -> Vec<(i64, i64, Vec<u64>)> {
    let mut rows = rows.to_vec();
    rows.sort_unstable();
    let runs = rows.chunk_by(|a, b| b.0 - a.0 < GAP_MS);
    let mut sessions = Vec::new();
    for run in runs {
        let is_cut = |ms: i64| ms % (CAP_MS / 2) == 0 && ms >= run[0].0 + CAP_MS / 2;
        for part in run.chunk_by(|a, b| !(a.0 + 1..=b.0).any(is_cut)) {
            let last = part[part.len() - 1].0;
            let end = (last + 1..=last + GAP_MS).find(|ms| is_cut(*ms)).unwrap_or(last + GAP_MS);
            sessions.push((part[0].0, end, part.iter().map(|row| row.1).collect()));
        }
    }
    sessions
}

/// What is given when each row is looked at alone, and how many are late.
fn model(flows: &[Flow], time: Column, lateness_ms: i64) -> (Found, u64) {
    let step = |ms: i64| ms.div_euclid(EVERY_MS) * EVERY_MS;
    let (mut kept, mut late, mut latest_ms) = (BTreeMap::<String, Vec<(i64, u64)>>::new(), 0, i64::MIN);
    for flow in flows {
        let time_ms = if time == Column::Start { flow.start_ms } else { flow.received_ms };
        latest_ms = latest_ms.max(time_ms);
        let given_ms = step(latest_ms - lateness_ms);
        let rows = kept.entry(flow.src.clone()).or_default();
        let open = model_of(rows).into_iter().filter(|session| session.1 > given_ms).map(|session| session.0).min();
        if time_ms < given_ms && open.is_none_or(|open| time_ms < open) {
            late += 1;
        } else {
            rows.push((time_ms, flow.bytes));
        }
    }
    let mut found = Found::new();
    for (key, rows) in kept {
        for (start, end, mut bytes) in model_of(&rows) {
            bytes.sort_unstable();
            found.insert((step(end - 1) + EVERY_MS, key.clone(), start, end), bytes);
        }
    }
    (found, late)
}

/// Flows of some hosts, of which one is never silent for long.
fn talk(seed: u64, count: u64) -> Vec<Flow> {
    let mut random = Random::new(seed);
    let mut now_ms = NEW_YEAR_MS + random.below(20_000) as i64;
    (0..count)
        .map(|number| {
            now_ms += if random.below(200) == 0 { 5_000 } else { random.below(200) as i64 };
            let host = if random.below(3) == 0 { 0 } else { random.below(12) };
            let start_ms = now_ms - random.below(3_000) as i64;
            Flow { start_ms, bytes: number, ..Flow::new(now_ms, &format!("10.0.0.{host}"), "192.0.2.1") }
        })
        .collect()
}

#[test]
fn sessions_are_those_of_a_model_however_flows_are_delivered() {
    for seed in 0..20 {
        let mut random = Random::new(seed + 500);
        let flows = talk(seed, 1_500);
        let lateness_ms = [0, 0, 700, 4_000][random.below(4) as usize];
        let time = [Column::Start, Column::Received][random.below(2) as usize];
        let (expected, late) = model(&flows, time, lateness_ms);
        assert!(expected.keys().any(|key| key.3 % (CAP_MS / 2) == 0), "one is cut");
        let query = query(&statement(time.name()), time);
        for _ in 0..3 {
            let mut sessions = sessions(&query, lateness_ms, u64::MAX, usize::MAX);
            let (mut rest, mut closed) = (flows.as_slice(), Vec::new());
            while !rest.is_empty() {
                let (part, left) = rest.split_at(rest.len().min(1 + random.below(200) as usize));
                sessions.take(batch(part).record_batch(), &mut closed);
                rest = left;
            }
            sessions.advance(flows.last().expect("flows").received_ms + 100_000, &mut closed);
            assert_eq!(found(&closed), expected, "seed {seed}: {lateness_ms} {time:?}");
            let PaneCounts { rows, rows_late, .. } = sessions.counts();
            assert_eq!((rows, rows_late), (flows.len() as u64, late), "seed {seed}");
            assert_eq!((sessions.rows_kept(), sessions.sessions_open()), (0, 0), "all sessions have ended");
        }
    }
}

/// In `weir sql`, and of several keys or none, as SQL without SESSION computes it.
#[test]
fn over_an_archive_sessions_are_those_of_plain_sql() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path(), &talk(3, 3_000));
    for (given, keys) in
        [(", key => src_addr", "src_addr"), (", key => (src_addr, dst_port)", "src_addr, dst_port"), ("", "1 + 1")]
    {
        let sessions = format!(
            "SELECT window_start, window_end, count(*), sum(bytes), min(src_addr) FROM SESSION(flows, received, INTERVAL '2' SECOND{given}, \
             cap => INTERVAL '1' DAY) GROUP BY window_start, window_end, {keys}"
        );
        let by_hand = format!(
            "WITH marked AS (SELECT *, CASE WHEN received - lag(received) OVER (PARTITION BY {keys} ORDER BY received) \
             < INTERVAL '2' SECOND THEN 0 ELSE 1 END AS is_first FROM flows), \
             numbered AS (SELECT *, sum(is_first) OVER (PARTITION BY {keys} ORDER BY received) AS session FROM marked) \
             SELECT min(received), max(received) + INTERVAL '2' SECOND, count(*), sum(bytes), min(src_addr) \
             FROM numbered GROUP BY {keys}, session"
        );
        let (sessions, by_hand) = (plain(folder.path(), &sessions), plain(folder.path(), &by_hand));
        assert!(by_hand.len() > 5, "{by_hand:?}");
        assert_eq!(sessions, by_hand, "{keys}");
    }
}

/// A watch over a subquery, from anywhere on, gives the sessions that plain SQL gives.
#[test]
fn a_backtest_from_anywhere_gives_the_same_sessions() {
    let folder = tempfile::tempdir().expect("a folder");
    let flows = talk(9, 4_000);
    archive(folder.path(), &flows);
    let relation = "(SELECT src_addr AS host, start, received, bytes_scaled AS n FROM flows WHERE bytes % 4 <> 1)";
    for (column, number) in [("received", 0), ("start", 1)] {
        let of = |from: &str| {
            format!(
                "SELECT host, window_start, window_end, count(*) AS flows, sum(n) AS n FROM SESSION({from}, {column}, INTERVAL '2' SECOND, \
                 key => host, cap => INTERVAL '10' SECOND) GROUP BY host, window_start, window_end"
            )
        };
        let file = watch("talks", &of(relation), &format!("time = '{column}'\nrepeat_after = '0s'"));
        let explained = plan(file.clone()).expect("a plan");
        assert!(
            explained.starts_with(&format!("sessions: of host by {column}, gap 2s, shorter than 10s, given every 1s")),
            "{explained}"
        );
        let mut random = Random::new(77 + number);
        for round in 0..8 {
            let first_ms = flows[0].received_ms - 5_000;
            let span_ms = (flows.last().expect("flows").received_ms - first_ms) as u64;
            let from_ms = (round > 0).then(|| first_ms + random.below(span_ms) as i64);
            let mut backtest = Backtest::new(file.clone(), &RunnerOptions::new(folder.path())).expect("a watch");
            let mut answers = Vec::new();
            let outcome = backtest.run(from_ms, None, |window, answer| {
                answers.extend(lines(answer).into_iter().map(|line| (window.end_ms, line)));
            });
            outcome.expect("sessions");
            answers.sort();
            let condition = from_ms.map_or(String::new(), |from_ms| {
                let through_ms = from_ms.div_euclid(1_000) * 1_000;
                format!(" HAVING window_end > {}", time(through_ms))
            });
            let mut expected = plain(folder.path(), &format!("{}{condition}", of(relation)));
            expected.sort();
            let mut found: Vec<String> = answers.iter().map(|(_, line)| line.clone()).collect();
            found.sort();
            assert_eq!(found, expected, "{column} from {from_ms:?}");
        }
    }
}

#[test]
fn what_is_over_a_limit_is_counted() {
    let flow = |ms: i64, host: u8| Flow::new(NEW_YEAR_MS + ms, &format!("10.0.0.{host}"), "192.0.2.1");
    let query = query(&statement("received"), Column::Received);
    let (mut few, mut closed) = (sessions(&query, 0, u64::MAX, 2), Vec::new());
    few.take(batch(&[flow(0, 1), flow(10, 2), flow(20, 3), flow(30, 1), flow(40, 4)]).record_batch(), &mut closed);
    assert_eq!((few.counts().rows_without_session, few.sessions_open(), few.rows_kept()), (2, 2, 3));
    // others may open when sessions have ended
    few.take(batch(&[flow(9_000, 3)]).record_batch(), &mut closed);
    assert_eq!((few.counts().rows_without_session, few.sessions_open(), few.rows_kept()), (2, 1, 1));
    assert_eq!(found(&closed).len(), 2);
    let mut small = sessions(&query, 0, 3, usize::MAX);
    small.take(batch(&[flow(0, 1), flow(10, 1), flow(20, 2), flow(30, 1), flow(40, 4)]).record_batch(), &mut closed);
    assert_eq!((small.counts().rows_shed, small.rows_kept()), (2, 3));
}

/// Of the first session there is nothing to report; the report of the second says what was left out since the last report.
#[test]
fn the_next_report_says_what_was_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let flow = |ms: i64, host: u8| Flow::new(NEW_YEAR_MS + ms, &format!("10.0.0.{host}"), "192.0.2.1");
    let first = (0..8).map(|number| flow(number * 100, 1));
    let later = [10_000, 20_000].into_iter().flat_map(|ms| [flow(ms, 2), flow(ms + 100, 2)]);
    archive(folder.path(), &first.chain(later).collect::<Vec<_>>());
    let query = "SELECT src_addr, window_start, window_end, count(*) AS flows FROM SESSION(flows, received, \
                 INTERVAL '2' SECOND, key => src_addr, every => INTERVAL '500' MILLISECOND) \
                 GROUP BY 1, 2, 3 HAVING count(*) = 2";
    let file = watch("w", query, "rows_max = 5\nrepeat_after = '0s'");
    let mut backtest = Backtest::new(file, &RunnerOptions::new(folder.path())).expect("a watch");
    let outcome = backtest.run(None, None, |_, _| ()).expect("windows");
    let reports = outcome.firings.iter().flat_map(|firing| &firing.reports);
    let left_out: Vec<u64> = reports.map(|report| report.rows_left_out).collect();
    assert_eq!((left_out, outcome.rows_shed), (vec![3, 0], 3));
}

#[test]
fn steps_in_which_no_session_ends_are_given_when_they_are_wanted() {
    let flow = |ms: i64| Flow::new(NEW_YEAR_MS + ms, "10.0.0.1", "192.0.2.1");
    let mut query = query(&statement("received"), Column::Received);
    let options = SessionOptions {
        windows: query.windows()[0].expect("sessions"),
        relation: (0, 1),
        lateness_ms: 0,
        skew_ms: 60_000,
        rows_max: u64::MAX,
        sessions_max: usize::MAX,
        empty_windows: true,
    };
    let mut sessions = Sessions::new(query.session_input().expect("a plan").expect("sessions"), options);
    let mut closed = Vec::new();
    sessions.take(batch(&[flow(100), flow(3_000)]).record_batch(), &mut closed);
    let rows: Vec<usize> = closed
        .into_iter()
        .map(|window| lines(&query.answer(&window.rows, None, Duration::from_mins(1)).expect("an answer")).len())
        .collect();
    assert_eq!(rows, [0, 0, 0, 0, 1, 0]);
}

/// The memory of rows that were given is freed while a session stays open, whose rows stay what they were.
#[test]
fn an_open_session_does_not_hold_the_rows_of_others() {
    let query = query(&statement("received").replace("'10' SECOND", "'100' SECOND"), Column::Received);
    let mut sessions = sessions(&query, 0, u64::MAX, usize::MAX);
    let (mut all, mut stored_max) = (Vec::new(), 0);
    for number in 0..100_i64 {
        // each delivery has one row of a session that stays open for long, and 3,000 of others
        let at_ms = NEW_YEAR_MS + number * 500;
        let flow = |row: u64| {
            let host = if row == 0 { 0 } else { 1 + number / 10 };
            Flow { bytes: number as u64 * 10_000 + row, ..Flow::new(at_ms, &format!("10.0.0.{host}"), "192.0.2.1") }
        };
        let flows: Vec<_> = (0..3_001).map(flow).collect();
        sessions.take(batch(&flows).record_batch(), &mut all);
        stored_max = stored_max.max(sessions.rows_stored());
    }
    sessions.advance(NEW_YEAR_MS + 200_000, &mut all);
    assert!(stored_max < 150_000, "{stored_max} of 300,100 rows");
    let found = found(&all);
    let long = found.iter().find(|(key, _)| key.1 == "10.0.0.0").expect("a session").1;
    assert_eq!(*long, (0..100).map(|number| number * 10_000).collect::<Vec<_>>());
    assert_eq!(found.values().map(Vec::len).sum::<usize>(), 300_100);
}

#[test]
fn a_clock_that_was_ahead_ends_no_session() {
    let flow = |ms: i64| Flow::new(NEW_YEAR_MS + ms, "10.0.0.1", "192.0.2.1");
    let query = query(&statement("received"), Column::Received);
    let (mut sessions, mut closed) = (sessions(&query, 0, u64::MAX, usize::MAX), Vec::new());
    sessions.take(batch(&[flow(100), flow(900)]).record_batch(), &mut closed);
    assert!(!sessions.rewind(NEW_YEAR_MS + 1_000));
    sessions.take(batch(&[flow(86_400_000)]).record_batch(), &mut closed);
    closed.clear();
    assert!(sessions.rewind(NEW_YEAR_MS + 1_000));
    assert_eq!((sessions.counts().rows_future, sessions.rows_kept()), (1, 0));
    sessions.take(batch(&[flow(1_100), flow(4_000)]).record_batch(), &mut closed);
    assert_eq!(found(&closed).len(), 1);
}

#[test]
fn what_cannot_be_sessions_is_refused() {
    let refused = |from: &str| {
        let file = watch("w", &format!("SELECT * FROM {from}"), "");
        let error = plan(file).expect_err(from);
        std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default()
    };
    let cases = [
        ("SESSION(flows, received, INTERVAL '2' SECOND, cap => INTERVAL '3' SECOND)", "less than two gaps"),
        ("SESSION(flows, received, INTERVAL '2' SECOND, every => INTERVAL '3' SECOND)", "more than a gap"),
        ("SESSION(flows, received, INTERVAL '2' SECOND, key => bytes + 1)", "is no column"),
        ("SESSION(flows, start, INTERVAL '2' SECOND)", "the watch by 'received'"),
        ("SESSION(flows, received)", "needs gap"),
        (
            "SESSION((SELECT received, count(*) FROM flows GROUP BY received), received, INTERVAL '2' SECOND)",
            "one by one",
        ),
        (
            "SESSION(flows, received, INTERVAL '2' SECOND) s, TUMBLE(flows, received, INTERVAL '2' SECOND) t",
            "fall silent",
        ),
        (
            "TUMBLE((SELECT * FROM SESSION(flows, received, INTERVAL '2' SECOND)), received, INTERVAL '2' SECOND) t",
            "not of sessions",
        ),
    ];
    for (from, reason) in cases {
        let error = refused(from);
        assert!(error.contains(reason), "{from}: {error}");
    }
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64
}

const LIVE: &str = "SELECT src_addr, window_start, window_end, count(*) AS flows FROM SESSION(flows, received, \
                    INTERVAL '600' MILLISECOND, key => src_addr, cap => INTERVAL '2' SECOND, every => INTERVAL '200' MILLISECOND) \
                    GROUP BY src_addr, window_start, window_end";

/// The sessions of the journal: host, begin, end and flows.
fn journal(folder: &Path, after_ms: i64) -> BTreeSet<String> {
    let text = std::fs::read_to_string(folder.join("watch").join(REPORTS)).unwrap_or_default();
    let mut found = BTreeSet::new();
    for line in text.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let row = &value["evidence"][0];
        let time = |name: &str| row[name].as_str().expect("a time").parse::<jiff::Timestamp>().expect("a time");
        assert_eq!(
            value["window_start"].as_str().map(|text| text.parse().expect("a time")),
            Some(time("window_start"))
        );
        let (start, end) = (time("window_start").as_millisecond(), time("window_end").as_millisecond());
        let session = format!("{} {start} {end} {}", row["src_addr"].as_str().expect("an address"), row["flows"]);
        let is_new = found.insert(session.clone());
        assert!(is_new, "{session} is reported twice");
    }
    found.retain(|session| begins_after(session, after_ms));
    found
}

fn begins_after(session: &str, after_ms: i64) -> bool {
    session.split(' ').nth(1).and_then(|start| start.parse::<i64>().ok()).is_some_and(|start| start > after_ms)
}

fn oracle(folder: &Path, after_ms: i64) -> BTreeSet<String> {
    let rows = plain(folder, LIVE).into_iter().map(|line| {
        let parts: Vec<&str> = line.split(',').collect();
        let time = |text: &str| text.parse::<jiff::Timestamp>().expect("a time").as_millisecond();
        format!("{} {} {} {}", parts[0], time(parts[1]), time(parts[2]), parts[3])
    });
    rows.filter(|session| begins_after(session, after_ms)).collect()
}

/// One host talks all the time and is cut, others now and then; the runner is stopped in the middle of sessions, and
/// the clock ends the last ones.
#[test]
fn every_session_is_reported_once_over_restarts() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = writer(folder.path());
    let append = |writer: &mut Writer, hosts: &[u64]| {
        let flow = |host: &u64| Flow::new(now_ms(), &format!("10.0.0.{host}"), "192.0.2.1");
        writer.append(Delivery::from(batch(&hosts.iter().map(flow).collect::<Vec<_>>()))).expect("appended");
    };
    append(&mut writer, &[1]);
    let file = || watch("talks", LIVE, "key = ['src_addr']\nrepeat_after = '0s'\nidle = '3s'");
    let options = RunnerOptions::new(folder.path());
    let mut after_ms = None;
    let mut random = Random::new(5);
    for _ in 0..3 {
        let stop = StopSignal::new();
        let mut runner = Runner::start(&options, &stop).expect("a runner");
        runner.add(file()).expect("a watch");
        runner.wait_joined();
        after_ms.get_or_insert_with(|| now_ms() + 300);
        let until = Instant::now() + Duration::from_millis(2_500);
        while Instant::now() < until {
            append(&mut writer, &[0, 1 + random.below(40)]);
            std::thread::sleep(Duration::from_millis(30));
        }
        runner.end(|_| ()).expect("no error");
        append(&mut writer, &[0, 50]);
        std::thread::sleep(Duration::from_millis(400));
        append(&mut writer, &[0, 50]);
    }
    let stop = StopSignal::new();
    let mut runner = Runner::start(&options, &stop).expect("a runner");
    runner.add(file()).expect("a watch");
    let deadline = Instant::now() + Duration::from_mins(2);
    let after_ms = after_ms.expect("it has joined");
    // no flow comes any more: the clock ends the last sessions
    while journal(folder.path(), after_ms) != oracle(folder.path(), after_ms) && Instant::now() < deadline {
        while let Some(message) = runner.next_timeout(Duration::from_millis(200)) {
            assert!(matches!(message, Message::Report(_)), "{message:?}");
        }
    }
    runner.end(|_| ()).expect("no error");
    let expected = oracle(folder.path(), after_ms);
    assert!(expected.len() > 20, "{expected:?}");
    assert_eq!(journal(folder.path(), after_ms), expected);
}
