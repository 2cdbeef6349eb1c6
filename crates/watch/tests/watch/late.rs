//! Flows that come too late for a window which was reported.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_archive::Writer;
use weir_chain::StopSignal;
use weir_flow::Delivery;
use weir_watch::{Message, Report, Runner, RunnerOptions, WatchFile, plan};

use crate::scene::{Flow, batch, watch, writer};

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64
}

fn append(writer: &mut Writer, hosts: &[(&str, usize)], start_ms: i64) {
    let flow = |host: &str| Flow { start_ms, ..Flow::new(now_ms(), host, "192.0.2.1") };
    let flows: Vec<_> =
        hosts.iter().flat_map(|(host, count)| std::iter::repeat_with(|| flow(host)).take(*count)).collect();
    writer.append(Delivery::from(batch(&flows))).expect("appended");
}

fn counting(name: &str, having: &str, rest: &str) -> WatchFile {
    let query = format!(
        "SELECT src_addr, count(*) AS flows FROM TUMBLE(flows, start, INTERVAL '1' SECOND) GROUP BY src_addr HAVING {having}"
    );
    watch(name, &query, &format!("time = 'start'\nkey = ['src_addr']\nidle = '3s'\n{rest}"))
}

/// Reports, until there are as many.
fn reports(runner: &Runner, count: usize) -> Vec<Report> {
    let (mut found, deadline) = (Vec::new(), Instant::now() + Duration::from_mins(2));
    while found.len() < count && Instant::now() < deadline {
        match runner.next_timeout(Duration::from_millis(100)) {
            Some(Message::Report(report)) => found.push(*report),
            Some(Message::Notice(text)) => panic!("{text}"),
            None => {}
        }
    }
    found.sort_by(|a, b| (&a.watch, &a.key).cmp(&(&b.watch, &b.key)));
    found
}

fn summary(report: &Report) -> (String, String, u64, Option<u64>, bool) {
    let flows = report.evidence.first().and_then(|row| row["flows"].as_u64());
    (report.watch.clone(), report.key.clone(), report.rows, flows, report.is_correction)
}

#[test]
fn a_window_is_reported_again_with_what_late_flows_have_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = writer(folder.path());
    append(&mut writer, &[("10.0.0.9", 1)], now_ms());
    let stop = StopSignal::new();
    let mut runner = Runner::start(&RunnerOptions::new(folder.path()), &stop).expect("a runner");
    let again = "late = 'correct'\nrepeat_after = '0s'";
    runner.add(counting("few", "count(*) = 2", again)).expect("a watch");
    runner.add(counting("many", "count(*) > 1", again)).expect("a watch");
    runner.add(counting("once", "count(*) > 1", "repeat_after = '0s'")).expect("a watch");
    // every watch has joined when windows close without flows that count
    let deadline = Instant::now() + Duration::from_mins(2);
    while runner.counts().iter().any(|(_, counts)| counts.windows_closed == 0) && Instant::now() < deadline {
        append(&mut writer, &[("10.0.0.9", 1)], now_ms());
        std::thread::sleep(Duration::from_millis(50));
    }
    reports(&runner, 0);
    std::thread::sleep(Duration::from_secs(6));
    while runner.next_timeout(Duration::from_secs(1)).is_some() {}
    let start_ms = now_ms();
    append(&mut writer, &[("10.0.0.1", 2), ("10.0.0.2", 2), ("10.0.0.3", 1)], start_ms);
    let first = reports(&runner, 6);
    let key = |host: u8| format!("src_addr=10.0.0.{host}");
    let all = |watch: &str| [1, 2].map(|host| (watch.to_owned(), key(host), 1, Some(2), false));
    assert_eq!(first.iter().map(summary).collect::<Vec<_>>(), [all("few"), all("many"), all("once")].concat());
    // host 1 has more flows than it had, host 2 stays, host 3 is new
    append(&mut writer, &[("10.0.0.1", 1), ("10.0.0.3", 1)], start_ms);
    let then = reports(&runner, 4);
    let found: Vec<_> = then.iter().map(summary).collect();
    let expected = [
        ("few".to_owned(), key(1), 0, None, true),
        ("few".to_owned(), key(3), 1, Some(2), true),
        ("many".to_owned(), key(1), 1, Some(3), true),
        ("many".to_owned(), key(3), 1, Some(2), true),
    ];
    assert_eq!(found, expected);
    for report in &then {
        assert_eq!(report.window, first[0].window);
        assert!(report.id.ends_with("/corrected-1"), "{}", report.id);
        assert!(report.text().contains("[corrected"), "{}", report.text());
        assert_eq!(report.json()["correction"], true);
    }
    let counts = runner.end(|message| panic!("{message:?}")).expect("no error");
    let late: Vec<_> =
        counts.iter().map(|(_, counts)| (counts.panes.rows_late, counts.panes.rows_late_dropped)).collect();
    assert_eq!(late, [(2, 0), (2, 0), (2, 2)]);
    assert!(counts.iter().all(|(name, counts)| (counts.windows_corrected > 0) == (name != "once")), "{counts:?}");
}

/// A kill after a correction was kept, and before it was kept how far the watch is: the window is asked again, and what it finds
/// is known.
#[test]
fn a_correction_is_not_reported_again_after_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = writer(folder.path());
    append(&mut writer, &[("10.0.0.9", 1)], now_ms());
    let options = RunnerOptions::new(folder.path());
    let file = || counting("many", "count(*) > 1", "late = 'correct'\nrepeat_after = '0s'");
    let mut runner = Runner::start(&options, &StopSignal::new()).expect("a runner");
    runner.add(file()).expect("a watch");
    runner.wait_joined();
    append(&mut writer, &[("10.0.0.1", 2)], now_ms());
    assert_eq!(reports(&runner, 1).len(), 1);
    let state = folder.path().join("watch").join("many.state");
    let before = std::fs::read(&state).expect("how far the watch is");
    let answered = |runner: &Runner| runner.counts()[0].1.windows_answered;
    let (start_ms, already) = (now_ms(), answered(&runner));
    append(&mut writer, &[("10.0.0.3", 1)], start_ms);
    let deadline = Instant::now() + Duration::from_mins(2);
    while answered(&runner) == already && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    append(&mut writer, &[("10.0.0.3", 1)], start_ms);
    let corrected = reports(&runner, 1);
    assert!(corrected[0].id.ends_with("src_addr=10.0.0.3/corrected-1"), "{corrected:?}");
    runner.end(|message| panic!("{message:?}")).expect("no error");
    std::fs::write(&state, before).expect("the state of a kill");
    let mut runner = Runner::start(&options, &StopSignal::new()).expect("a runner");
    runner.add(file()).expect("a watch");
    runner.wait_joined();
    append(&mut writer, &[("10.0.0.4", 2)], now_ms());
    let then = reports(&runner, 1);
    assert_eq!(then.iter().map(|report| report.key.as_str()).collect::<Vec<_>>(), ["src_addr=10.0.0.4"]);
    runner.end(|message| panic!("{message:?}")).expect("no error");
}

#[test]
fn sessions_are_not_corrected() {
    let query =
        "SELECT src_addr, count(*) FROM SESSION(flows, received, INTERVAL '1' SECOND, key => src_addr) GROUP BY 1";
    let error = plan(watch("w", query, "late = 'correct'")).expect_err("refused");
    let reason = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(reason.contains("late = \"correct\" is for TUMBLE and HOP"), "{reason}");
}
