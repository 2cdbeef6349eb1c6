//! What goes wrong beside a watch that runs: an exporter that is behind, history that is slow, segments that are merged.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_archive::{ArchiveOptions, CompactionOptions, Follower, Snapshot, Writer};
use weir_chain::StopSignal;
use weir_flow::{Delivery, Table};
use weir_watch::{LoadedFiles, Message, Report, Runner, RunnerOptions, WatchError};

use crate::scene::{Flow, archive, batch, plain, watch, writer};

const HOUR_MS: i64 = 3_600_000;

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64
}

fn append(writer: &mut Writer, flows: &[Flow]) {
    writer.append(Delivery::from(batch(flows))).expect("appended");
}

/// The reports that have come; notices go to `noticed`.
fn reports(runner: &Runner, mut noticed: impl FnMut(String)) -> Vec<Report> {
    let mut found = Vec::new();
    while let Some(message) = runner.next_timeout(Duration::from_millis(1)) {
        match message {
            Message::Report(report) => found.push(*report),
            Message::Notice(text) => noticed(text),
        }
    }
    found
}

/// What one exporter reports began an hour ago; the other is in time. By when flows began, those of the first are late, all of
/// them and no other, and hold up no window; by when they were received, they count.
#[test]
fn an_exporter_that_is_an_hour_behind_holds_up_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = writer(folder.path());
    append(&mut writer, &[Flow::new(now_ms() - 10_000, "10.0.0.9", "192.0.2.1")]);
    let mut runner = Runner::start(&RunnerOptions::new(folder.path()), &StopSignal::new()).expect("a runner");
    for time in ["start", "received"] {
        let query = format!(
            "SELECT src_addr, count(*) AS flows FROM TUMBLE(flows, {time}, INTERVAL '500 milliseconds') GROUP BY src_addr"
        );
        let options = format!("time = '{time}'\nkey = ['src_addr']\nrepeat_after = '0s'\nidle = '30s'");
        runner.add(watch(time, &query, &options)).expect("a watch");
    }
    runner.wait_joined();
    let (mut found, mut sent) = (Vec::<Report>::new(), Vec::new());
    let deadline = Instant::now() + Duration::from_mins(2);
    let reported = |found: &[Report], watch: &str, host: &str| {
        found.iter().filter(|report| report.watch == watch && report.key == format!("src_addr={host}")).count()
    };
    let is_enough =
        |found: &[Report]| reported(found, "start", "10.0.0.1") >= 4 && reported(found, "received", "10.0.0.2") >= 4;
    while !is_enough(&found) && Instant::now() < deadline {
        let at_ms = now_ms();
        let flow = |start_ms: i64, host: &str| Flow { start_ms, ..Flow::new(at_ms, host, "192.0.2.1") };
        append(&mut writer, &[flow(at_ms - HOUR_MS, "10.0.0.2"), flow(at_ms, "10.0.0.1")]);
        sent.push(at_ms);
        std::thread::sleep(Duration::from_millis(10));
        found.extend(reports(&runner, |text| panic!("{text}")));
    }
    let of_start = || runner.counts()[0].1.panes;
    while of_start().rows_late_dropped < sent.len() as u64 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    let counts = of_start();
    assert_eq!((counts.rows_late, counts.rows_late_dropped), (sent.len() as u64, sent.len() as u64), "{counts:?}");
    assert_eq!(runner.counts()[1].1.panes.rows_late, 0);
    runner.end(|_| ()).expect("no error");
    assert!(is_enough(&found), "{found:?}");
    for report in &found {
        assert!(report.watch == "received" || report.key == "src_addr=10.0.0.1", "{report:?}");
        let in_window = |at_ms: &&i64| (report.window.start_ms..report.window.end_ms).contains(*at_ms);
        assert_eq!(report.evidence[0]["flows"], sent.iter().filter(in_window).count(), "{report:?}");
    }
}

/// The history of a watch takes longer than windows take to close: windows are left out and counted, those that are asked are
/// answered as ever, and no flow is missing from the archive.
#[test]
fn history_that_is_slower_than_the_stream_sheds_windows_and_no_flow() {
    const PAST: u64 = 4_000;
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = writer(folder.path());
    let before_ms = now_ms() - HOUR_MS;
    let past = |number| Flow { bytes: number, ports: (0, 9), ..Flow::new(before_ms, "10.0.0.9", "192.0.2.1") };
    append(&mut writer, &(0..PAST).map(past).collect::<Vec<_>>());
    // every pair of different flows of the past, for each window of ten milliseconds
    let query = "SELECT live.flows, past.pairs FROM \
                 (SELECT count(*) AS flows FROM TUMBLE(flows, received, INTERVAL '10 milliseconds')) live CROSS JOIN \
                 (SELECT count(*) AS pairs FROM HISTORY(flows, INTERVAL '1' DAY) a \
                  JOIN HISTORY(flows, INTERVAL '1' DAY) b ON a.bytes <> b.bytes WHERE a.dst_port = 9 AND b.dst_port = 9) past";
    let mut runner = Runner::start(&RunnerOptions::new(folder.path()), &StopSignal::new()).expect("a runner");
    runner.add(watch("slow", query, "repeat_after = '0s'\nidle = '30s'\nwindows_waiting_max = 1")).expect("a watch");
    runner.wait_joined();
    let deadline = Instant::now() + Duration::from_mins(2);
    let (mut found, mut notices, mut sent) = (Vec::new(), Vec::new(), Vec::new());
    let is_enough = || {
        let counts = runner.counts()[0].1;
        counts.windows_shed >= 3 && counts.windows_answered >= 3
    };
    while !is_enough() && Instant::now() < deadline {
        let at_ms = now_ms();
        append(&mut writer, &[Flow::new(at_ms, "10.0.0.1", "192.0.2.1")]);
        sent.push(at_ms);
        std::thread::sleep(Duration::from_millis(2));
        found.extend(reports(&runner, |text| notices.push(text)));
    }
    let counts = runner.end(|message| match message {
        Message::Report(report) => found.push(*report),
        Message::Notice(text) => notices.push(text),
    });
    let counts = counts.expect("no error")[0].1;
    assert!(counts.windows_shed >= 3 && counts.windows_answered >= 3 && counts.windows_failed == 0, "{counts:?}");
    assert!(counts.windows_answered + counts.windows_shed <= counts.windows_closed, "{counts:?}");
    assert!(notices.iter().any(|text| text.contains("'slow' is too slow")), "{notices:?}");
    assert_eq!(found.len() as u64, counts.reports, "{found:?}");
    for report in &found {
        let in_window = |at_ms: &&i64| (report.window.start_ms..report.window.end_ms).contains(*at_ms);
        assert_eq!(report.evidence[0]["flows"], sent.iter().filter(in_window).count(), "{report:?}");
        assert_eq!(report.evidence[0]["pairs"], PAST * (PAST - 1), "{report:?}");
    }
    assert_eq!(plain(folder.path(), "SELECT count(*) FROM flows"), [(PAST + sent.len() as u64).to_string()]);
}

/// Tails are sealed and segments merged all the time, of the hours that history reads too: each flow is in the window or
/// before it, once.
#[test]
fn merging_changes_no_answer() {
    const ROWS: i64 = 5;
    let folder = tempfile::tempdir().expect("a folder");
    let compaction =
        CompactionOptions { fan_in: 2, busy_percent: 100, settle_time: Duration::ZERO, ..CompactionOptions::default() };
    let options = ArchiveOptions {
        seal_interval: Duration::from_millis(20),
        segment_rows_max: 40,
        upkeep_interval: Duration::from_millis(1),
        compaction,
        ..ArchiveOptions::default()
    };
    let mut writer = Writer::open(folder.path(), options).expect("an archive").0;
    let mut received = Vec::new();
    let mut append = |at_ms: i64| {
        received.push(at_ms);
        let flow = Flow::new(at_ms, "10.0.0.1", "192.0.2.1");
        writer.append(Delivery::from(batch(&vec![flow; ROWS as usize]))).expect("appended");
    };
    (0..40).for_each(|number| append(now_ms() - HOUR_MS + number));
    let query = "WITH live AS (SELECT src_addr, count(*) AS flows FROM TUMBLE(flows, received, INTERVAL '500 milliseconds') GROUP BY 1), \
                 past AS (SELECT src_addr, count(*) AS before FROM HISTORY(flows, INTERVAL '2' HOUR) GROUP BY 1) \
                 SELECT live.src_addr, live.flows, past.before FROM live JOIN past ON past.src_addr = live.src_addr";
    let mut runner = Runner::start(&RunnerOptions::new(folder.path()), &StopSignal::new()).expect("a runner");
    runner.add(watch("past", query, "repeat_after = '0s'\nidle = '30s'")).expect("a watch");
    runner.wait_joined();
    let mut found = Vec::new();
    let deadline = Instant::now() + Duration::from_mins(2);
    // a tail is sealed with 40 to 44 flows at most: what has more was merged
    let is_merged = || {
        let snapshot = Snapshot::open(folder.path()).expect("a snapshot");
        snapshot.segments(Table::Flows).iter().any(|segment| segment.rows >= 200)
    };
    while (found.len() < 6 || !is_merged()) && Instant::now() < deadline {
        append(now_ms());
        std::thread::sleep(Duration::from_millis(5));
        found.extend(reports(&runner, |text| panic!("{text}")));
    }
    runner.end(|_| ()).expect("no error");
    assert!(found.len() >= 6 && is_merged(), "{found:?}");
    for report in &found {
        let (start_ms, end_ms) = (report.window.start_ms, report.window.end_ms);
        let flows = received.iter().filter(|at_ms| (start_ms..end_ms).contains(*at_ms)).count() as i64 * ROWS;
        let before = received.iter().filter(|at_ms| **at_ms < start_ms).count() as i64 * ROWS;
        assert_eq!(report.evidence[0]["flows"], flows, "{report:?}");
        assert_eq!(report.evidence[0]["before"], before, "{report:?}");
    }
}

/// The archive cannot be read while a watch joins, and then it can. Until then the watch is listed with the reason.
#[test]
fn a_watch_that_cannot_join_tries_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let [there, away, journal, file] =
        ["archive", "away", "journal", "count.toml"].map(|name| folder.path().join(name));
    archive(&there, &[Flow::new(now_ms() - HOUR_MS, "10.0.0.9", "192.0.2.1")]);
    let options = RunnerOptions { journal: Some(journal.clone()), ..RunnerOptions::new(&there) };
    let mut runner = Runner::start(&options, &StopSignal::new()).expect("a runner");
    std::fs::rename(&there, &away).expect("away");
    let query = "SELECT count(*) AS flows FROM TUMBLE(flows, received, INTERVAL '200 milliseconds')";
    std::fs::write(&file, format!("query = \"{query}\"\nrepeat_after = '0s'")).expect("written");
    let mut loaded = LoadedFiles::new(journal.clone(), true, |_| ());
    let files = [file];
    let mut error_listed = |runner: &mut Runner| {
        loaded.refresh(runner, &files).expect("no error");
        weir_reports::watches::read(&journal).expect("a list")[0].error.clone()
    };
    let deadline = Instant::now() + Duration::from_mins(2);
    let mut error = None;
    while error.is_none() && Instant::now() < deadline {
        error = error_listed(&mut runner);
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(error.as_ref().is_some_and(|text| text.contains("cannot read the archive")), "{error:?}");
    std::fs::rename(&away, &there).expect("back");
    let mut writer = writer(&there);
    let (mut found, mut notices) = (Vec::new(), Vec::new());
    while found.is_empty() && Instant::now() < deadline {
        append(&mut writer, &[Flow::new(now_ms(), "10.0.0.1", "192.0.2.1")]);
        std::thread::sleep(Duration::from_millis(10));
        found.extend(reports(&runner, |text| notices.push(text)));
    }
    assert_eq!(error_listed(&mut runner), None);
    runner.end(|_| ()).expect("no error");
    assert!(!found.is_empty(), "{notices:?}");
    let begin = "watch 'count' does not run yet, trying again: cannot read the archive";
    assert_eq!(notices.iter().filter(|text| text.starts_with(begin)).count(), 1, "{notices:?}");
}

/// A watch that needs further columns joins, and a follower that has them cannot be opened at first, as where a process has no file
/// descriptors left.
#[test]
fn a_follower_that_cannot_be_opened_ends_no_watch() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = writer(folder.path());
    append(&mut writer, &[Flow::new(now_ms(), "10.0.0.9", "192.0.2.1")]);
    let failures_left = Arc::new(AtomicU32::new(0));
    let (path, left) = (folder.path().to_owned(), Arc::clone(&failures_left));
    let follow = move |after, options| {
        if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
            return Err(WatchError::Thread(std::io::Error::other("too many open files")));
        }
        Ok(Follower::attach(&path, after, options)?)
    };
    let options = RunnerOptions::new(folder.path());
    let mut runner = Runner::start_on(&options, &StopSignal::new(), Box::new(follow)).expect("a runner");
    let counting = |name: &str, key: &str| {
        let window = "TUMBLE(flows, received, INTERVAL '200 milliseconds')";
        let query = format!("SELECT {key}, count(*) AS flows FROM {window} GROUP BY {key}");
        watch(name, &query, "repeat_after = '0s'\nidle = '30s'")
    };
    runner.add(counting("one", "src_addr")).expect("a watch");
    runner.wait_joined();
    failures_left.store(3, Ordering::Relaxed);
    runner.add(counting("two", "dst_port")).expect("a watch");
    let deadline = Instant::now() + Duration::from_mins(2);
    let (mut found, mut notices) = (BTreeSet::new(), Vec::new());
    while !found.contains("two") && !runner.is_ended() && Instant::now() < deadline {
        append(&mut writer, &[Flow::new(now_ms(), "10.0.0.1", "192.0.2.1")]);
        std::thread::sleep(Duration::from_millis(10));
        found.extend(reports(&runner, |text| notices.push(text)).into_iter().map(|report| report.watch));
    }
    assert_eq!(failures_left.load(Ordering::Relaxed), 0);
    runner.end(|_| ()).expect("no error");
    assert!(found.contains("one") && found.contains("two"), "{found:?} {notices:?}");
    assert_eq!(notices, ["watch 'two' does not run yet, trying again: cannot start a thread: too many open files"]);
}
