//! Watches that follow an archive while it is written, stop, and go on.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_archive::Writer;
use weir_chain::StopSignal;
use weir_flow::Delivery;
use weir_watch::journal::REPORTS;
use weir_watch::{Message, Report, Runner, RunnerOptions, WatchFile, acknowledge};

use crate::scene::{Flow, batch, plain, watch, writer};

const QUERY: &str = "SELECT src_addr, count(*) AS flows, sum(bytes) AS bytes FROM TUMBLE(flows, received, INTERVAL '1' SECOND) GROUP BY src_addr";

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64
}

fn counting(name: &str) -> WatchFile {
    watch(name, QUERY, "key = ['src_addr']\nrepeat_after = '0s'\nidle = '3s'")
}

/// Appends flows that are received now, of some hosts.
fn append(writer: &mut Writer, number: u64) {
    let flows: Vec<_> = (0..5)
        .map(|host| Flow { bytes: number * 10 + host, ..Flow::new(now_ms(), &format!("10.0.0.{host}"), "192.0.2.1") })
        .collect();
    writer.append(Delivery::from(batch(&flows))).expect("appended");
}

/// Takes reports until none has come for a while.
fn reports(runner: &Runner, quiet: Duration) -> Vec<Report> {
    let mut found = Vec::new();
    while let Some(message) = runner.next_timeout(quiet) {
        match message {
            Message::Report(report) => found.push(*report),
            Message::Notice(text) => panic!("{text}"),
        }
    }
    found
}

/// What the journal has: each report as the end of its window, its host, flows and octets.
fn journal(folder: &Path) -> BTreeMap<(i64, String), String> {
    let text = std::fs::read_to_string(folder.join("watch").join(REPORTS)).expect("a journal");
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let end: jiff::Timestamp = value["window_end"].as_str().expect("a time").parse().expect("a time");
        let row = &value["evidence"][0];
        let host = row["src_addr"].as_str().expect("an address").to_owned();
        let counts = format!("{},{}", row["flows"], row["bytes"]);
        let before = found.insert((end.as_millisecond(), host.clone()), counts);
        assert!(before.is_none(), "{host} is reported twice for the window until {end}");
    }
    found
}

/// The same in plain SQL.
fn oracle(folder: &Path) -> BTreeMap<(i64, String), String> {
    let text =
        "SELECT date_bin(INTERVAL '1' SECOND, received) AS w, src_addr, count(*), sum(bytes) FROM flows GROUP BY 1, 2";
    let rows = plain(folder, text).into_iter().map(|line| {
        let parts: Vec<&str> = line.split(',').collect();
        let start: jiff::Timestamp = parts[0].parse().expect("a time");
        ((start.as_millisecond() + 1_000, parts[1].to_owned()), format!("{},{}", parts[2], parts[3]))
    });
    rows.collect()
}

#[test]
fn every_window_is_reported_once_over_restarts() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = writer(folder.path());
    append(&mut writer, 1);
    let options = RunnerOptions::new(folder.path());
    let mut joined_ms = None;
    for round in 0..3 {
        let stop = StopSignal::new();
        let mut runner = Runner::start(&options, &stop).expect("a runner");
        runner.add(counting("count")).expect("a watch");
        runner.wait_joined();
        joined_ms.get_or_insert_with(now_ms);
        let until = Instant::now() + Duration::from_millis(2_300);
        while Instant::now() < until {
            append(&mut writer, 10 + round);
            std::thread::sleep(Duration::from_millis(40));
        }
        // in the middle of a window
        runner.end(|_| ()).expect("no error");
        append(&mut writer, 20 + round);
        std::thread::sleep(Duration::from_millis(700));
        append(&mut writer, 30 + round);
    }
    let stop = StopSignal::new();
    let mut runner = Runner::start(&options, &stop).expect("a runner");
    runner.add(counting("count")).expect("a watch");
    let deadline = Instant::now() + Duration::from_mins(2);
    // which window it begins with is its own affair
    let since = |mut all: BTreeMap<(i64, String), String>| {
        all.retain(|(end_ms, _), _| Some(*end_ms) > joined_ms);
        all
    };
    // no flow comes any more: the clock closes the last window
    while since(journal(folder.path())) != since(oracle(folder.path())) && Instant::now() < deadline {
        reports(&runner, Duration::from_millis(200));
    }
    runner.end(|_| ()).expect("no error");
    let expected = since(oracle(folder.path()));
    assert!(expected.len() > 30, "{expected:?}");
    assert_eq!(since(journal(folder.path())), expected);
}

/// Windows close an hour after their end, and so none is answered, until the last start.
#[test]
fn what_ends_before_the_first_answer_is_asked_over_restarts() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = writer(folder.path());
    append(&mut writer, 1);
    let options = RunnerOptions::new(folder.path());
    let of_length = |length: &str, rest: &str| {
        let query = QUERY.replace("INTERVAL '1' SECOND", &format!("INTERVAL '{length}'"));
        watch("count", &query, &format!("key = ['src_addr']\nrepeat_after = '0s'\nidle = '3s'\n{rest}"))
    };
    let mut run = |file: WatchFile, number: u64| {
        let mut runner = Runner::start(&options, &StopSignal::new()).expect("a runner");
        runner.add(file).expect("a watch");
        runner.wait_joined();
        let joined_ms = now_ms();
        let state = weir_watch::journal::state(&options.journal_folder(), "count").expect("it can be read");
        assert!(state.is_some_and(|state| state.window_end_ms <= joined_ms), "a kill is now no loss: {state:?}");
        for _ in 0..13 {
            append(&mut writer, number);
            std::thread::sleep(Duration::from_millis(100));
        }
        let mut notices = Vec::new();
        let counts = runner.end(|message| match message {
            Message::Notice(text) => notices.push(text),
            Message::Report(report) => panic!("{report:?}"),
        });
        assert_eq!(counts.expect("no error")[0].1.windows_closed, 0);
        append(&mut writer, number + 1);
        std::thread::sleep(Duration::from_millis(1_100));
        (joined_ms, notices)
    };
    let (_, notices) = run(of_length("1 day", "lateness = '1h'"), 10);
    assert_eq!(notices, Vec::<String>::new());
    // what came before is not asked with another length
    let changed_ms = now_ms();
    let (joined_ms, notices) = run(of_length("1 second", "lateness = '1h'"), 20);
    assert_eq!(notices, ["watch 'count' has windows of another length than before: it begins anew"]);
    for number in [30, 40] {
        assert_eq!(run(of_length("1 second", "lateness = '1h'"), number).1, Vec::<String>::new());
    }
    let mut runner = Runner::start(&options, &StopSignal::new()).expect("a runner");
    runner.add(of_length("1 second", "")).expect("a watch");
    let since = |mut all: BTreeMap<(i64, String), String>| {
        all.retain(|(end_ms, _), _| *end_ms > joined_ms);
        all
    };
    let deadline = Instant::now() + Duration::from_mins(2);
    while since(journal(folder.path())) != since(oracle(folder.path())) && Instant::now() < deadline {
        reports(&runner, Duration::from_millis(200));
    }
    runner.end(|_| ()).expect("no error");
    let expected = since(oracle(folder.path()));
    assert!(expected.len() >= 30, "{expected:?}");
    assert_eq!(since(journal(folder.path())), expected);
    assert!(journal(folder.path()).keys().all(|(end_ms, _)| *end_ms > changed_ms));
}

#[test]
fn watches_come_and_go_without_touching_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = writer(folder.path());
    append(&mut writer, 1);
    let stop = StopSignal::new();
    let mut runner = Runner::start(&RunnerOptions::new(folder.path()), &stop).expect("a runner");
    runner.add(counting("one")).expect("a watch");
    assert!(runner.add(counting("one")).is_err(), "two of a name");
    runner.add(counting("two")).expect("a watch");
    let mut seen = std::collections::BTreeSet::new();
    let deadline = Instant::now() + Duration::from_mins(2);
    while seen.len() < 2 && Instant::now() < deadline {
        append(&mut writer, 2);
        seen.extend(reports(&runner, Duration::from_millis(50)).into_iter().map(|report| report.watch));
    }
    assert_eq!(seen.len(), 2);
    assert!(runner.remove("two"));
    assert!(!runner.remove("two"));
    reports(&runner, Duration::from_millis(50));
    let mut seen = Vec::new();
    while seen.is_empty() && Instant::now() < deadline {
        append(&mut writer, 3);
        seen.extend(reports(&runner, Duration::from_millis(50)).into_iter().map(|report| report.watch));
    }
    assert!(seen.iter().all(|watch| watch == "one"), "{seen:?}");
    let second = Runner::start(&RunnerOptions::new(folder.path()), &stop).expect_err("the journal has an owner");
    assert!(format!("{:?}", std::error::Error::source(&second)).contains("another process"), "{second:?}");
    runner.end(|_| ()).expect("no error");
}

/// Each window is joined with what the archive had before it, of the flows from before the start and of those since.
#[test]
fn a_watch_that_runs_asks_history() {
    const HOUR_MS: i64 = 3_600_000;
    let folder = tempfile::tempdir().expect("a folder");
    let (mut writer, mut received) = (writer(folder.path()), Vec::new());
    let mut append = |received_ms: i64| {
        received.push(received_ms);
        let flow = Flow::new(received_ms, "10.0.0.1", "192.0.2.1");
        writer.append(Delivery::from(batch(&[flow]))).expect("appended");
    };
    // one of them is from before the time that is asked
    for hours in [3, 1, 1] {
        append(now_ms() - hours * HOUR_MS);
    }
    let query = "WITH live AS (SELECT src_addr, count(*) AS flows FROM TUMBLE(flows, received, INTERVAL '1' SECOND) GROUP BY 1), \
                 past AS (SELECT src_addr, count(*) AS before FROM HISTORY(flows, INTERVAL '2' HOUR) GROUP BY 1) \
                 SELECT live.src_addr, live.flows, past.before FROM live LEFT JOIN past ON past.src_addr = live.src_addr";
    let stop = StopSignal::new();
    let mut runner = Runner::start(&RunnerOptions::new(folder.path()), &stop).expect("a runner");
    runner.add(watch("past", query, "key = ['src_addr']\nrepeat_after = '0s'\nidle = '3s'")).expect("a watch");
    let deadline = Instant::now() + Duration::from_mins(2);
    let mut found = Vec::new();
    while found.len() < 3 && Instant::now() < deadline {
        append(now_ms());
        found.extend(reports(&runner, Duration::from_millis(50)));
    }
    runner.end(|_| ()).expect("no error");
    assert!(found.len() >= 3, "{found:?}");
    for report in found {
        let start_ms = report.window.start_ms;
        let before = received.iter().filter(|at_ms| (start_ms - 2 * HOUR_MS..start_ms).contains(*at_ms)).count();
        assert!(before >= 2, "{before}");
        assert_eq!(report.evidence[0]["before"], before, "{report:?}");
    }
}

#[test]
fn what_is_repeated_or_acknowledged_is_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = writer(folder.path());
    append(&mut writer, 1);
    let options = RunnerOptions::new(folder.path());
    let stop = StopSignal::new();
    let mut runner = Runner::start(&options, &stop).expect("a runner");
    let until_ms = now_ms() + 3_600_000;
    acknowledge(&options.journal_folder(), "count", Some("src_addr=10.0.0.3"), until_ms).expect("kept");
    runner.add(watch("count", QUERY, "key = ['src_addr']\nrepeat_after = '1h'\nidle = '300ms'")).expect("a watch");
    let deadline = Instant::now() + Duration::from_mins(2);
    let mut found = Vec::new();
    while runner.counts()[0].1.reports_suppressed < 4 && Instant::now() < deadline {
        append(&mut writer, 2);
        found.extend(reports(&runner, Duration::from_millis(50)));
    }
    let counts = runner.end(|message| {
        if let Message::Report(report) = message {
            found.push(*report);
        }
    });
    let counts = counts.expect("no error")[0].1;
    let mut keys: Vec<_> = found.iter().map(|report| report.key.as_str()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["src_addr=10.0.0.0", "src_addr=10.0.0.1", "src_addr=10.0.0.2", "src_addr=10.0.0.4"]);
    assert!(counts.reports_acknowledged >= 1 && counts.reports == 4, "{counts:?}");
}

/// The statement of one fails when it runs; the other goes on.
#[test]
fn a_statement_that_fails_is_said_and_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = writer(folder.path());
    append(&mut writer, 1);
    let stop = StopSignal::new();
    let mut runner = Runner::start(&RunnerOptions::new(folder.path()), &stop).expect("a runner");
    let broken = "SELECT cast(host(src_addr) AS INT) AS number FROM TUMBLE(flows, received, INTERVAL '1' SECOND)";
    runner.add(watch("broken", broken, "idle = '300ms'")).expect("a watch");
    runner.add(counting("count")).expect("a watch");
    let deadline = Instant::now() + Duration::from_mins(2);
    let (mut notices, mut found) = (0, 0);
    while (notices == 0 || found == 0) && Instant::now() < deadline {
        append(&mut writer, 2);
        match runner.next_timeout(Duration::from_millis(50)) {
            Some(Message::Notice(text)) => {
                assert!(text.contains("'broken'") && text.contains("10.0.0."), "{text}");
                notices += 1;
            }
            Some(Message::Report(_)) => found += 1,
            None => {}
        }
    }
    let counts = runner.end(|_| ()).expect("no error");
    assert!(counts[0].1.windows_failed > 0 && counts[1].1.windows_failed == 0, "{counts:?}");
}

/// A server of syslog that is down when reports are made gets them all, in order, when it is up; so does a file.
#[test]
fn actions_get_every_report_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = writer(folder.path());
    append(&mut writer, 1);
    let address = weir_testkit::ports::free_address();
    let file = folder.path().join("reports.txt");
    let actions = format!("[[actions]]\nsyslog = 'tcp://{address}'\n[[actions]]\nfile = '{}'", file.display());
    let options = RunnerOptions::new(folder.path());
    let counted =
        || watch("count", QUERY, &format!("key = ['src_addr']\nrepeat_after = '0s'\nidle = '300ms'\n{actions}"));
    for _ in 0..2 {
        let stop = StopSignal::new();
        let mut runner = Runner::start(&options, &stop).expect("a runner");
        runner.add(counted()).expect("a watch");
        let deadline = Instant::now() + Duration::from_mins(2);
        let mut found = 0;
        while found < 5 && Instant::now() < deadline {
            append(&mut writer, 2);
            found += usize::from(matches!(runner.next_timeout(Duration::from_millis(50)), Some(Message::Report(_))));
        }
        runner.end(|_| ()).expect("no error");
    }
    let listener = std::net::TcpListener::bind(address).expect("the port again");
    let stop = StopSignal::new();
    let mut runner = Runner::start(&options, &stop).expect("a runner");
    runner.add(counted()).expect("a watch");
    let (mut server, _) = listener.accept().expect("a connection");
    let mut received = String::new();
    server.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    let until = Instant::now() + Duration::from_mins(1);
    let reported = || std::fs::read_to_string(folder.path().join("watch").join(REPORTS)).expect("a journal");
    let mut octets = [0; 4096];
    while received.matches(" id=").count() < reported().lines().count() && Instant::now() < until {
        let read = std::io::Read::read(&mut server, &mut octets).unwrap_or(0);
        received.push_str(std::str::from_utf8(&octets[..read]).expect("ASCII"));
    }
    runner.end(|_| ()).expect("no error");
    server.set_read_timeout(None).expect("no timeout");
    std::io::Read::read_to_string(&mut server, &mut received).expect("text");
    let journal = std::fs::read_to_string(folder.path().join("watch").join(REPORTS)).expect("a journal");
    let ids: Vec<String> = journal
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).expect("JSON")["id"].as_str().expect("an id").to_owned()
        })
        .collect();
    assert!(ids.len() >= 10);
    let sent: Vec<&str> =
        received.split(" id=").skip(1).map(|rest| rest.split('<').next().expect("a message")).collect();
    // what follows an id is the length of the next message
    assert_eq!(sent.len(), ids.len(), "{received}");
    assert!(sent.iter().zip(&ids).all(|(sent, id)| sent.starts_with(id.as_str())), "{sent:?} {ids:?}");
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), journal);
}

/// What ends while a watch is paused is never asked, also when another process goes on; then windows are whole.
#[test]
fn windows_of_a_pause_are_skipped() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = writer(folder.path());
    append(&mut writer, 1);
    let options = RunnerOptions::new(folder.path());
    let mut runner = Runner::start(&options, &StopSignal::new()).expect("a runner");
    runner.add(counting("one")).expect("a watch");
    runner.wait_joined();
    let deadline = Instant::now() + Duration::from_mins(2);
    while reports(&runner, Duration::from_millis(50)).is_empty() && Instant::now() < deadline {
        append(&mut writer, 2);
    }
    assert!(runner.remove("one"));
    let paused_ms = now_ms();
    runner.pause(counting("one")).expect("paused");
    assert!(runner.add(counting("one")).is_err(), "two of a name");
    while runner.counts()[0].1.windows_skipped < 2 && Instant::now() < deadline {
        append(&mut writer, 3);
        std::thread::sleep(Duration::from_millis(40));
    }
    runner.end(|_| ()).expect("no error");
    append(&mut writer, 4);
    let mut runner = Runner::start(&options, &StopSignal::new()).expect("a runner");
    let resumed_ms = now_ms();
    runner.add(counting("one")).expect("a watch");
    runner.wait_joined();
    let joined_ms = now_ms();
    let has_gone_on = || journal(folder.path()).keys().any(|(end_ms, _)| *end_ms > joined_ms + 1_000);
    while !has_gone_on() && Instant::now() < deadline {
        append(&mut writer, 5);
        std::thread::sleep(Duration::from_millis(40));
    }
    assert!(runner.counts()[0].1.windows_skipped >= 2, "{:?}", runner.counts());
    runner.end(|_| ()).expect("no error");
    let found = journal(folder.path());
    assert!(!found.keys().any(|(end_ms, _)| (paused_ms..=resumed_ms).contains(end_ms)), "{found:?}");
    let expected = oracle(folder.path());
    let after: Vec<_> = found.iter().filter(|((end_ms, _), _)| *end_ms > joined_ms).collect();
    assert!(!after.is_empty(), "{found:?}");
    for (key, counts) in after {
        assert_eq!(expected.get(key), Some(counts), "{key:?}");
    }
}

/// A watch that needs more of the past than there is says so once, and goes on without a report.
#[test]
fn too_little_past_is_said_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = writer(folder.path());
    append(&mut writer, 1);
    let mut runner = Runner::start(&RunnerOptions::new(folder.path()), &StopSignal::new()).expect("a runner");
    let query = "SELECT src_addr, count(*) AS flows FROM TUMBLE(flows, received, INTERVAL '100 milliseconds') \
                 WHERE src_addr NOT IN (SELECT src_addr FROM HISTORY(flows, INTERVAL '7' DAY) WHERE bytes > 1000000) GROUP BY src_addr";
    runner.add(watch("new", query, "history_min = '7d'\nidle = '3s'")).expect("a watch");
    assert!(runner.add(watch("plain", QUERY, "history_min = '7d'")).is_err(), "it has no history");
    runner.wait_joined();
    let deadline = Instant::now() + Duration::from_mins(2);
    while runner.counts()[0].1.windows_without_past < 3 && Instant::now() < deadline {
        append(&mut writer, 2);
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut notices = Vec::new();
    let counts = runner.end(|message| match message {
        Message::Notice(text) => notices.push(text),
        Message::Report(report) => panic!("{report:?}"),
    });
    let counts = counts.expect("no error")[0].1;
    assert!(counts.windows_without_past >= 3 && counts.windows_answered == 0, "{counts:?}");
    assert!(matches!(&notices[..], [notice] if notice.contains("history_min is 7d")), "{notices:?}");
}
