//! What a reader of the code found.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_chain::StopSignal;
use weir_watch::{Backtest, Message, Runner, RunnerOptions, WatchError, WatchFile};

use crate::scene::{Flow, NEW_YEAR_MS, archive, batch, lines, plain, time, traffic, watch, writer};

fn reason(error: &WatchError) -> String {
    std::error::Error::source(error).map(ToString::to_string).unwrap_or_default()
}

/// One null in history makes `NOT IN` true for nobody, as in plain SQL.
#[test]
fn not_in_knows_null() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = writer(folder.path());
    let old = Flow::new(NEW_YEAR_MS, "10.0.0.1", "192.0.2.1");
    let new = Flow::new(NEW_YEAR_MS + 60_000, "10.0.0.2", "192.0.2.1");
    let mut builder = weir_flow::FlowBatchBuilder::new(1);
    builder.begin_rows(1);
    builder.time(weir_flow::Column::Received).push(Some(NEW_YEAR_MS));
    writer.append(weir_flow::Delivery::from(batch(&[old]))).expect("appended");
    writer.append(weir_flow::Delivery::from(builder.finish())).expect("appended");
    writer.append(weir_flow::Delivery::from(batch(&[new]))).expect("appended");
    let query = "SELECT src_addr FROM TUMBLE(flows, received, INTERVAL '1' SECOND) \
                 WHERE src_addr NOT IN (SELECT src_addr FROM HISTORY(flows, INTERVAL '1' HOUR))";
    let mut backtest = Backtest::new(watch("w", query, ""), &RunnerOptions::new(folder.path())).expect("a watch");
    let mut answers = Vec::new();
    backtest.run(Some(NEW_YEAR_MS + 30_000), None, |_, answer| answers.push(lines(answer))).expect("windows");
    assert_eq!(answers, [Vec::<String>::new()]);
}

/// Rows of history that are kept take the place of a plan whose columns are never null.
#[test]
fn kept_history_fits_where_it_is_put() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path(), &traffic(3, 2_000, NEW_YEAR_MS, 100_000));
    let query = "SELECT w.src_addr, sum(w.bytes) / max(h.n) AS share FROM TUMBLE(flows, received, INTERVAL '10' SECOND) w CROSS JOIN \
                 (SELECT count(*) AS n FROM HISTORY(flows, INTERVAL '1' HOUR, every => INTERVAL '10' SECOND)) h GROUP BY 1";
    let mut backtest = Backtest::new(watch("w", query, ""), &RunnerOptions::new(folder.path())).expect("a watch");
    let mut windows = 0;
    let outcome = backtest.run(Some(NEW_YEAR_MS + 20_000), None, |window, answer| {
        windows += 1;
        let (start, end) = (time(window.end_ms - 10_000), time(window.end_ms));
        let same = format!(
            "SELECT w.src_addr, sum(w.bytes) / max(h.n) FROM flows w CROSS JOIN (SELECT count(*) AS n FROM flows \
             WHERE received >= {start} - INTERVAL '1' HOUR AND received < {start}) h WHERE received >= {start} AND received < {end} GROUP BY 1"
        );
        assert_eq!(lines(answer), plain(folder.path(), &same));
    });
    outcome.expect("windows");
    assert!(windows > 3, "{windows}");
}

/// The time of the windows is that of history, and not the time at which the statement is asked.
#[test]
fn times_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path(), &traffic(3, 100, NEW_YEAR_MS, 10_000));
    let refused = |query: &str| {
        let error = Backtest::new(watch("w", query, ""), &RunnerOptions::new(folder.path())).expect_err(query);
        reason(&error)
    };
    let error = refused("SELECT * FROM TUMBLE(flows, start, INTERVAL '1' SECOND)");
    assert!(error.contains("windows go by 'start', and the watch by 'received'"), "{error}");
    let error = refused("SELECT * FROM TUMBLE(flows, received, INTERVAL '1' SECOND) WHERE start > now()");
    assert!(error.contains("now() is not the time of a window"), "{error}");
    for (condition, text) in [
        ("start > '-1h'", "-1h"),
        ("start BETWEEN 'yesterday' AND '2026-01-01'", "yesterday"),
        ("start = TIMESTAMP 'now'", "now"),
        ("start >= '14:00'", "14:00"),
    ] {
        for rows in ["TUMBLE(flows, received, INTERVAL '1' SECOND)", "SESSION(flows, received, INTERVAL '1' SECOND)"] {
            let error = refused(&format!("SELECT count(*) FROM {rows} WHERE {condition}"));
            assert!(error.contains(&format!("'{text}' is counted from now")), "{condition}: {error}");
            assert!(error.contains("hint: write HISTORY("), "{condition}: {error}");
        }
    }
    let error = refused(
        "SELECT w.src_addr FROM TUMBLE(flows, received, INTERVAL '1' SECOND) w JOIN HISTORY(flows, INTERVAL '7' DAY) h \
         ON h.src_addr = w.src_addr WHERE h.start > '-2d'",
    );
    assert!(error.contains("'-2d' is counted from now"), "{error}");
    let whole =
        "SELECT count(*) FROM TUMBLE(flows, received, INTERVAL '1' SECOND) WHERE start > '2026-01-01T00:00:00Z'";
    assert!(Backtest::new(watch("w", whole, ""), &RunnerOptions::new(folder.path())).is_ok());
}

/// At midnight of UTC it is half past five in Kolkata.
#[test]
fn a_statement_goes_by_the_clock_of_its_zone() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path(), &[Flow::new(NEW_YEAR_MS + 100, "10.0.0.1", "192.0.2.1")]);
    let query = "SELECT date_part('hour', received) AS hour, count(*) AS n FROM TUMBLE(flows, received, INTERVAL '1' SECOND) \
                 WHERE start > '2026-01-01T05:00' GROUP BY 1";
    for (zone, expected) in [("Asia/Kolkata", vec!["5,1".to_owned()]), ("UTC", Vec::new())] {
        let text = format!("query = \"{query}\"\nzone = '{zone}'");
        let file = WatchFile::parse(&text, "w", Path::new("")).expect("a watch");
        let explained = weir_watch::plan(file.clone()).expect("a plan");
        assert!(explained.contains(&format!("\nzone: {zone}\n")), "{explained}");
        let mut backtest = Backtest::new(file, &RunnerOptions::new(folder.path())).expect("a watch");
        let mut answers = Vec::new();
        backtest.run(None, None, |_, answer| answers.push(lines(answer))).expect("windows");
        assert_eq!(answers, [expected], "{zone}");
    }
    let error = WatchFile::parse("query = 'SELECT 1'\nzone = 'Mars'", "w", Path::new("")).expect_err("no zone");
    assert_eq!((error.key.as_str(), error.message.as_str()), ("zone", "'zone': 'Mars' is no time zone"));
}

/// A hundred keys that are acknowledged or were reported leave room for the next.
#[test]
fn reports_that_are_left_out_take_no_room() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = writer(folder.path());
    let now_ms = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
    let mut append = |hosts: std::ops::Range<u64>| {
        let flows: Vec<_> = hosts.map(|host| Flow::new(now_ms(), &format!("10.0.0.{host}"), "192.0.2.1")).collect();
        writer.append(weir_flow::Delivery::from(batch(&flows))).expect("appended");
    };
    append(1..2);
    let query = "SELECT src_addr, count(*) AS flows FROM TUMBLE(flows, received, INTERVAL '1' SECOND) GROUP BY 1 ORDER BY src_addr";
    let stop = StopSignal::new();
    let mut runner = Runner::start(&RunnerOptions::new(folder.path()), &stop).expect("a runner");
    runner
        .add(watch("w", query, "key = ['src_addr']\nrepeat_after = '1h'\nreports_max = 3\nidle = '300ms'"))
        .expect("a watch");
    let deadline = Instant::now() + Duration::from_mins(2);
    let mut keys = std::collections::BTreeSet::new();
    while keys.len() < 4 && Instant::now() < deadline {
        append(1..4);
        if let Some(Message::Report(report)) = runner.next_timeout(Duration::from_millis(50)) {
            keys.insert(report.key);
        }
        if keys.len() == 3 {
            append(1..5);
        }
    }
    let counts = runner.end(|_| ()).expect("no error");
    assert!(keys.contains("src_addr=10.0.0.4"), "{keys:?} {counts:?}");
}

/// A watch that was down for long has more windows to ask than may wait.
#[test]
fn catching_up_sheds_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = writer(folder.path());
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
    let query = "SELECT window_end, count(*) AS flows FROM TUMBLE(flows, received, INTERVAL '1' SECOND) GROUP BY 1";
    let options = RunnerOptions::new(folder.path());
    let file = || watch("w", query, "repeat_after = '0s'\nidle = '300ms'\nwindows_waiting_max = 2");
    let first = now_ms - 120_000;
    writer.append(weir_flow::Delivery::from(batch(&[Flow::new(first, "10.0.0.1", "192.0.2.1")]))).expect("appended");
    let journal = options.journal_folder();
    std::fs::create_dir_all(&journal).expect("a folder");
    let state = format!("{{\"window_end_ms\":{},\"size_ms\":1000,\"slide_ms\":1000}}", first / 1_000 * 1_000);
    std::fs::write(journal.join("w.state"), state).expect("a state");
    for second in 1..119 {
        let flow = Flow::new(first + second * 1_000, "10.0.0.1", "192.0.2.1");
        writer.append(weir_flow::Delivery::from(batch(&[flow]))).expect("appended");
    }
    let stop = StopSignal::new();
    let mut runner = Runner::start(&options, &stop).expect("a runner");
    runner.add(file()).expect("a watch");
    let deadline = Instant::now() + Duration::from_mins(2);
    let mut reports = 0;
    while reports < 119 && Instant::now() < deadline {
        match runner.next_timeout(Duration::from_millis(100)) {
            Some(Message::Report(_)) => reports += 1,
            Some(Message::Notice(text)) => panic!("{text}"),
            None => {}
        }
    }
    let counts = runner.end(|_| ()).expect("no error")[0].1;
    assert_eq!((reports, counts.windows_shed), (119, 0), "{counts:?}");
}

/// The state of a clock that was a day ahead does not silence a watch.
#[test]
fn a_state_of_the_future_begins_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = writer(folder.path());
    let now_ms = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
    let options = RunnerOptions::new(folder.path());
    let journal = options.journal_folder();
    std::fs::create_dir_all(&journal).expect("a folder");
    let state = format!("{{\"window_end_ms\":{},\"size_ms\":1000,\"slide_ms\":1000}}", now_ms() + 86_400_000);
    std::fs::write(journal.join("w.state"), state).expect("a state");
    let stop = StopSignal::new();
    let mut runner = Runner::start(&options, &stop).expect("a runner");
    let query = "SELECT window_end, count(*) AS flows FROM TUMBLE(flows, received, INTERVAL '1' SECOND) GROUP BY 1";
    runner.add(watch("w", query, "repeat_after = '0s'\nidle = '300ms'")).expect("a watch");
    let deadline = Instant::now() + Duration::from_mins(2);
    let (mut is_told, mut is_reported) = (false, false);
    while !(is_told && is_reported) && Instant::now() < deadline {
        writer
            .append(weir_flow::Delivery::from(batch(&[Flow::new(now_ms(), "10.0.0.1", "192.0.2.1")])))
            .expect("appended");
        match runner.next_timeout(Duration::from_millis(50)) {
            Some(Message::Notice(text)) => is_told |= text.contains("ahead of the clock"),
            Some(Message::Report(_)) => is_reported = true,
            None => {}
        }
    }
    runner.end(|_| ()).expect("no error");
    assert!(is_told && is_reported);
}

/// Long addresses that begin alike are different questions to the cache.
#[test]
fn history_of_another_address_is_another_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, other) = ("2001:db8::1:1:0:1", "2001:db8::1:1:0:2");
    let flows: Vec<_> = (0..6)
        .map(|n| Flow::new(NEW_YEAR_MS + n, if n < 1 { one } else { other }, "2001:db8::9"))
        .chain([Flow::new(NEW_YEAR_MS + 3_600_000, one, other)])
        .collect();
    archive(folder.path(), &flows);
    let of = |address: &str| {
        format!(
            "(SELECT count(*) FROM HISTORY(flows, INTERVAL '1' DAY, every => INTERVAL '1' HOUR) WHERE src_addr = '{address}')"
        )
    };
    let query = format!(
        "SELECT DISTINCT {} AS a, {} AS b FROM TUMBLE(flows, received, INTERVAL '1' SECOND)",
        of(one),
        of(other)
    );
    let mut backtest = Backtest::new(watch("w", &query, ""), &RunnerOptions::new(folder.path())).expect("a watch");
    let mut answers = Vec::new();
    backtest.run(Some(NEW_YEAR_MS + 1_800_000), None, |_, answer| answers.push(lines(answer))).expect("windows");
    assert_eq!(answers, [vec!["1,5".to_owned()]]);
}

/// Keys that found no room are reported when there is some.
#[test]
fn keys_beyond_the_limit_are_not_forgotten() {
    let folder = tempfile::tempdir().expect("a folder");
    let flows: Vec<_> = (0..3)
        .flat_map(|second| {
            (1..6).map(move |host| Flow::new(NEW_YEAR_MS + second * 1_000, &format!("10.0.0.{host}"), "192.0.2.1"))
        })
        .collect();
    archive(folder.path(), &flows);
    let query = "SELECT src_addr, count(*) AS flows FROM TUMBLE(flows, received, INTERVAL '1' SECOND) GROUP BY 1 ORDER BY src_addr";
    let file = watch("w", query, "key = ['src_addr']\nrepeat_after = '1h'\nreports_max = 2");
    let outcome = Backtest::new(file, &RunnerOptions::new(folder.path())).expect("a watch").run(None, None, |_, _| ());
    let firings = outcome.expect("windows").firings;
    let keys: Vec<Vec<String>> = firings
        .iter()
        .map(|firing| firing.reports.iter().map(|report| report.key.replace("src_addr=10.0.0.", "")).collect())
        .collect();
    let rest = "(further keys)";
    assert_eq!(keys, [vec!["1", "2", rest], vec!["3", "4", rest], vec!["5"]]);
    assert_eq!(firings[0].reports[2].rows, 3);
}

/// While how far a watch is cannot be written, its reports are written once.
#[test]
fn a_state_that_cannot_be_written_repeats_no_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = writer(folder.path());
    let now_ms = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
    let mut append = || {
        let flow = Flow::new(now_ms(), "10.0.0.1", "192.0.2.1");
        writer.append(weir_flow::Delivery::from(batch(&[flow]))).expect("appended");
    };
    append();
    let options = RunnerOptions::new(folder.path());
    let journal = options.journal_folder();
    // a folder where the new state should be
    std::fs::create_dir_all(journal.join("w.state.new")).expect("a folder");
    let stop = StopSignal::new();
    let mut runner = Runner::start(&options, &stop).expect("a runner");
    let query = "SELECT window_end, count(*) AS flows FROM TUMBLE(flows, received, INTERVAL '1' SECOND) GROUP BY 1";
    runner.add(watch("w", query, "repeat_after = '0s'\nidle = '300ms'")).expect("a watch");
    let deadline = Instant::now() + Duration::from_mins(2);
    let (mut is_told, mut reports) = (false, 0);
    while reports < 2 && Instant::now() < deadline {
        append();
        match runner.next_timeout(Duration::from_millis(50)) {
            Some(Message::Notice(text)) => {
                assert!(text.contains("the journal cannot be written"), "{text}");
                // where it began could not be written either
                if !text.contains("trying again") {
                    continue;
                }
                is_told = true;
                // several tries later
                std::thread::sleep(Duration::from_millis(1_200));
                std::fs::remove_dir(journal.join("w.state.new")).expect("removed");
            }
            Some(Message::Report(_)) => reports += 1,
            None => {}
        }
    }
    runner.end(|_| ()).expect("no error");
    let text = std::fs::read_to_string(journal.join(weir_watch::journal::REPORTS)).expect("a journal");
    let ids: Vec<&str> = text.lines().map(|line| line.split("\"id\":").nth(1).expect("an id")).collect();
    let different: std::collections::BTreeSet<&&str> = ids.iter().collect();
    assert!(is_told && ids.len() >= 2 && different.len() == ids.len(), "{text}");
}

/// Decimals keep their digits in reports: expected numbers are those of Python.
#[test]
fn decimals_of_reports_have_all_digits() {
    let folder = tempfile::tempdir().expect("a folder");
    let flow = Flow { bytes: i64::MAX as u64, packets: 3, ..Flow::new(NEW_YEAR_MS, "10.0.0.1", "192.0.2.1") };
    archive(folder.path(), &[flow]);
    let query = "SELECT bytes * packets AS product, bytes + packets AS total, CAST(bytes AS DECIMAL(24, 4)) AS exact \
                 FROM TUMBLE(flows, received, INTERVAL '1' SECOND)";
    let file = watch("w", query, "key = ['exact']");
    let outcome = Backtest::new(file, &RunnerOptions::new(folder.path())).expect("a watch").run(None, None, |_, _| ());
    let outcome = outcome.expect("windows");
    let report = &outcome.firings[0].reports[0];
    assert_eq!(report.key, "exact=9223372036854775807.0000");
    assert_eq!(report.evidence[0]["exact"], "9223372036854775807.0000");
    assert_eq!(report.evidence[0]["product"], "27670116110564327421");
    assert_eq!(report.evidence[0]["total"].as_u64(), Some(9223372036854775810));
}
