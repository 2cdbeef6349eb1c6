//! `weir watch` as processes: killed at any moment, next to a collector, and with wrong files.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use weir_archive::{ArchiveOptions, Writer};
use weir_flow::{Column, Delivery, FlowBatchBuilder};

use crate::process::{Collector, Exporter, run, wait_for};
use crate::service::Service;

const WATCH: &str = r#"
key = ["src_addr"]
repeat_after = "0s"
idle = "3s"
query = "SELECT src_addr, count(*) AS flows, sum(bytes) AS bytes FROM HOP(flows, received, INTERVAL '500 milliseconds', INTERVAL '1' SECOND) GROUP BY src_addr"
"#;

fn append(writer: &mut Writer, number: u64) {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
    append_at(writer, number, now_ms);
}

fn append_at(writer: &mut Writer, number: u64, received_ms: i64) {
    let mut builder = FlowBatchBuilder::new(4);
    builder.begin_rows(4);
    for host in 0..4 {
        builder.time(Column::Received).push(Some(received_ms));
        builder.address(Column::SrcAddr).push(Some(&[10, 0, 0, host]));
        builder.u64(Column::Bytes).push(Some(number));
    }
    writer.append(Delivery::from(builder.finish())).expect("appended");
}

/// The journal: end of the window and host, with flows and octets.
fn journal(archive: &Path) -> BTreeMap<(String, String), (u64, u64)> {
    let text = std::fs::read_to_string(archive.join("watch/reports.ndjson")).unwrap_or_default();
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let report: Value = serde_json::from_str(line).expect("whole lines of JSON");
        let row = &report["evidence"][0];
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let key = (text(&report["window_end"]), text(&row["src_addr"]));
        let counts = (row["flows"].as_u64().expect("a number"), row["bytes"].as_u64().expect("a number"));
        assert!(found.insert(key.clone(), counts).is_none(), "{key:?} is reported twice");
    }
    found
}

/// The same in plain SQL.
fn oracle(archive: &Path) -> BTreeMap<(String, String), (u64, u64)> {
    let half = "INTERVAL '500 milliseconds'";
    let statement = format!(
        "SELECT date_bin({half}, received) + {half} * 1 + late AS until, src_addr, count(*) AS flows, sum(bytes) AS bytes \
         FROM flows CROSS JOIN (VALUES (INTERVAL '0 milliseconds'), ({half})) AS t(late) GROUP BY 1, 2"
    )
    .replace(" * 1", "");
    let output = run(&["sql", "-R", archive.to_str().expect("UTF-8"), "-o", "ndjson", &statement]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).expect("UTF-8");
    let rows = lines.lines().map(|line| {
        let row: Value = serde_json::from_str(line).expect("JSON");
        let until: jiff::Timestamp = row["until"].as_str().expect("a time").parse().expect("a time");
        let key = (format!("{until:.3}"), row["src_addr"].as_str().expect("an address").to_owned());
        (key, (row["flows"].as_u64().expect("a number"), row["bytes"].as_u64().expect("a number")))
    });
    rows.collect()
}

fn watch(archive: &Path, file: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["watch", "run", "-R"])
        .args([archive, file])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a process")
}

#[test]
fn every_window_is_reported_once_however_often_it_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (archive, file) = (folder.path().join("archive"), folder.path().join("count.toml"));
    std::fs::write(&file, WATCH).expect("a file");
    let mut writer = Writer::open(&archive, ArchiveOptions::default()).expect("an archive").0;
    append(&mut writer, 0);
    // once killed before it has asked a window: where a watch begins is its own affair, and then it stays
    let mut child = watch(&archive, &file);
    let deadline = Instant::now() + Duration::from_mins(1);
    let begun = loop {
        if let Some(state) = weir_watch::journal::state(&archive.join("watch"), "count").expect("it can be read") {
            break state.window_end_ms;
        }
        assert!(Instant::now() < deadline, "it does not begin");
        append(&mut writer, 1);
        std::thread::sleep(Duration::from_millis(1));
    };
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let begun = jiff::Timestamp::from_millisecond(begun).expect("a time");
    for _ in 0..120 {
        append(&mut writer, 2);
        std::thread::sleep(Duration::from_millis(10));
    }
    child = watch(&archive, &file);
    let begun = format!("{begun:.3}");
    for round in 0..8_u64 {
        let until = Instant::now() + Duration::from_millis(300 + round * 7919 % 900);
        while Instant::now() < until {
            append(&mut writer, round);
            std::thread::sleep(Duration::from_millis(10));
        }
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        append(&mut writer, 100 + round);
        std::thread::sleep(Duration::from_millis(round * 104_729 % 700));
        child = watch(&archive, &file);
    }
    writer.close().expect("sealed");
    let expected = || oracle(&archive).into_iter().filter(|(key, _)| key.0 > begun).collect::<BTreeMap<_, _>>();
    let deadline = Instant::now() + Duration::from_mins(1);
    while journal(&archive) != expected() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(200));
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    assert_eq!(journal(&archive), expected());
}

/// Four flows on a day and four on the next go through a chain; those of the first day are history of the second.
#[test]
fn a_chain_runs_watches_and_hands_the_flows_on() {
    /// 2026-01-01T12:00:00Z.
    const NOON_MS: i64 = 1_767_268_800_000;
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let mut writer = Writer::open(&path("flows"), ArchiveOptions::default()).expect("an archive").0;
    append_at(&mut writer, 1, NOON_MS);
    append_at(&mut writer, 2, NOON_MS + 86_400_000);
    writer.close().expect("sealed");
    let query = "SELECT w.flows, w.bytes, h.before FROM \
                 (SELECT count(*) AS flows, sum(bytes) AS bytes FROM TUMBLE(flows, received, INTERVAL '1' DAY)) w \
                 CROSS JOIN (SELECT count(*) AS before FROM HISTORY(flows, INTERVAL '7' DAY)) h";
    std::fs::write(path("days.toml"), format!("repeat_after = '0s'\nquery = \"{query}\"")).expect("a file");
    let chain = "[components.reader]\ntype = \"archive-reader\"\narchive = \"flows\"\n\
                 [components.watch]\ntype = \"watch\"\ninputs = \"reader\"\nwatches = [\"days.toml\"]\njournal = \"journal\"\n\
                 archive = \"flows\"\nwhen_full = \"wait\"\n\
                 [components.count]\ntype = \"counter\"\ninputs = \"watch\"\n";
    std::fs::write(path("chain.toml"), chain).expect("a file");
    let report = path("report.json");
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let output = run(&["chain", "run", &text(&path("chain.toml")), "--report", &text(&report)]);
    let printed = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(output.status.success(), "{printed}");
    for line in [
        "2026-01-02T00:00:00.000Z notice days: flows=4 bytes=4 before=0",
        "2026-01-03T00:00:00.000Z notice days: flows=4 bytes=8 before=4",
    ] {
        assert!(printed.lines().any(|printed| printed == line), "{line}: {printed}");
    }
    let report: Value = serde_json::from_str(&std::fs::read_to_string(report).expect("a report")).expect("JSON");
    let counted = report["components"].as_array().expect("components").iter().find(|one| one["name"] == "count");
    assert_eq!(counted.expect("the component")["rows_in"], 8);
    let journal = std::fs::read_to_string(path("journal").join("reports.ndjson")).expect("a journal");
    assert_eq!(journal.lines().count(), 2);
}

/// What watches report is the table `reports` of the archive: a watch that had room for all flows, and one that had not.
#[test]
fn reports_are_a_table_of_the_archive() {
    /// 2026-01-01T12:00:00Z.
    const NOON_MS: i64 = 1_767_268_800_000;
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let mut writer = Writer::open(&path("flows"), ArchiveOptions::default()).expect("an archive").0;
    append_at(&mut writer, 7, NOON_MS);
    append_at(&mut writer, 9, NOON_MS + 86_400_000);
    writer.close().expect("sealed");
    let query = "SELECT src_addr, sum(bytes) AS bytes FROM TUMBLE(flows, received, INTERVAL '1' DAY) \
                 GROUP BY src_addr";
    let whole = format!("severity = 'critical'\nkey = ['src_addr']\nrepeat_after = '0s'\nquery = \"{query}\"");
    std::fs::write(path("whole.toml"), whole).expect("a file");
    let counted = "SELECT count(*) AS flows FROM TUMBLE(flows, received, INTERVAL '1' DAY)";
    let part = format!("severity = 'info'\nrepeat_after = '0s'\nrows_max = 3\nquery = \"{counted}\"");
    std::fs::write(path("part.toml"), part).expect("a file");
    let chain = "[components.reader]\ntype = \"archive-reader\"\narchive = \"flows\"\n\
                 [components.watch]\ntype = \"watch\"\ninputs = \"reader\"\nwatches = [\"whole.toml\", \"part.toml\"]\n\
                 journal = \"flows/watch\"\narchive = \"flows\"\nwhen_full = \"wait\"\n\
                 [components.count]\ntype = \"counter\"\ninputs = \"watch\"\n";
    std::fs::write(path("chain.toml"), chain).expect("a file");
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let output = run(&["chain", "run", &text(&path("chain.toml"))]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows = |statement: &str| -> Vec<Value> {
        let output = run(&["sql", "--utc", "-R", &text(&path("flows")), "-o", "ndjson", statement]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines = String::from_utf8(output.stdout).expect("UTF-8");
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let days = "date_part('day', window_start) AS first, date_part('day', window_end) AS last";
    let statement = format!(
        "select severity, key, {days}, \"rows\", complete, state from reports where watch = 'whole' order by window_end, key"
    );
    let expected = [1, 2].map(|day| {
        [0, 1, 2, 3].map(|host| {
            json!({ "severity": "critical", "key": format!("src_addr=10.0.0.{host}"), "first": day, "last": day + 1,
                "rows": 1, "complete": true, "state": "open" })
        })
    });
    assert_eq!(rows(&statement), expected.as_flattened());
    // of four flows of a day there was no room for one
    let statement = "select severity, key, complete, rows_left_out > 0 as lacks from reports where watch = 'part' \
                     and window_end = '2026-01-02T00:00:00Z'";
    assert_eq!(rows(statement), [json!({ "severity": "info", "key": "", "complete": false, "lacks": true })]);
    // as any other table
    let statement =
        "select severity, count(distinct window_end) as windows from reports where complete group by severity";
    assert_eq!(rows(statement), [json!({ "severity": "critical", "windows": 2 })]);
}

/// What a process has printed so far.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<String>>>);

impl Printed {
    fn count(&self, text: &str) -> usize {
        self.0.lock().expect("no panic").iter().filter(|line| line.contains(text)).count()
    }
}

/// As the process of `weir watch run` does, while flows pass.
#[test]
fn a_chain_follows_the_files_and_pauses_of_its_watches() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let query = "SELECT count(*) AS flows FROM TUMBLE(flows, received, INTERVAL '500 milliseconds')";
    let watch = format!("repeat_after = '0s'\nlateness = '0s'\nquery = \"{query}\"");
    std::fs::create_dir(path("watches")).expect("a folder");
    std::fs::write(path("watches/count.toml"), &watch).expect("a file");
    let chain = "[components.collector]\ntype = \"collector\"\nlisten = [\"127.0.0.1:0\"]\n\
                 [components.watch]\ntype = \"watch\"\ninputs = \"collector\"\nwatches = [\"watches\"]\njournal = \"journal\"\n\
                 [components.count]\ntype = \"counter\"\ninputs = \"watch\"\n";
    std::fs::write(path("chain.toml"), chain).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let mut child =
        command.args(["chain", "run"]).arg(path("chain.toml")).stderr(Stdio::piped()).spawn().expect("weir starts");
    let mut lines = BufReader::new(child.stderr.take().expect("its errors")).lines().map_while(Result::ok);
    let address = lines.by_ref().find_map(|line| {
        let place = line.split_once("listening on ")?.1.split(' ').next()?;
        place.rsplit_once("//").map_or(place, |(_, address)| address).parse().ok()
    });
    let running = Collector { child, address: address.expect("the collector listens") };
    let printed = Printed::default();
    let taken = printed.clone();
    std::thread::spawn(move || lines.for_each(|line| taken.0.lock().expect("no panic").push(line)));
    let exporter = Mutex::new(Exporter::new(0));
    // flows of the present go on, for windows close by them
    let wait_for_reports = |watch: &str, more: usize| {
        let text = format!(" notice {watch}: ");
        let wanted = printed.count(&text) + more;
        wait_for("reports", || {
            exporter.lock().expect("no panic").send(running.address);
            printed.count(&text) >= wanted
        });
    };
    let [archive, journal] = ["archive", "journal"].map(|name| path(name).to_str().expect("UTF-8").to_owned());
    let command = |words: &[&str]| {
        let output = run(&[&["watch"][..], words, &["-R", &archive, "--journal", &journal]].concat());
        let text = |octets| String::from_utf8(octets).expect("UTF-8");
        assert!(output.status.success(), "{words:?}");
        (text(output.stdout), text(output.stderr))
    };
    let state = || {
        let listed: Value = serde_json::from_str(&command(&["list", "-o", "json"]).0).expect("JSON");
        listed[0]["state"].as_str().expect("a state").to_owned()
    };

    wait_for_reports("count", 1);
    assert_eq!(state(), "running");
    assert_eq!(command(&["pause", "count"]).1, "watch 'count' is paused\n");
    wait_for("it is paused", || printed.count("watch 'count' is paused") == 1);
    assert_eq!(state(), "paused");
    std::fs::write(path("watches/other.toml"), &watch).expect("a file");
    wait_for("the other is added", || printed.count("watch 'other' is added") == 1);
    // what the first had reported before its pause is printed by now
    wait_for_reports("other", 1);
    let before = printed.count(" notice count: ");
    wait_for_reports("other", 2);
    assert_eq!(printed.count(" notice count: "), before);
    assert_eq!(command(&["resume", "count"]).1, "watch 'count' goes on\n");
    wait_for("it goes on", || printed.count("watch 'count' goes on") == 1);
    wait_for_reports("count", 1);
    running.stop();
    assert_eq!(state(), "stopped");
}

/// A chain says so by an option of its transform.
#[test]
fn sampling_is_corrected_for_watches_of_a_chain() {
    /// 2026-01-01T12:00:00Z.
    const NOON_MS: i64 = 1_767_268_800_000;
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let mut writer = Writer::open(&path("flows"), ArchiveOptions::default()).expect("an archive").0;
    append_at(&mut writer, 1, NOON_MS);
    writer.close().expect("sealed");
    let query = "SELECT sum(bytes_scaled) AS bytes, sum(bytes) AS kept FROM TUMBLE(flows, received, INTERVAL '1' DAY)";
    std::fs::write(path("days.toml"), format!("query = \"{query}\"")).expect("a file");
    let chain = "[components.reader]\ntype = \"archive-reader\"\narchive = \"flows\"\n\
                 [components.watch]\ntype = \"watch\"\ninputs = \"reader\"\nwatches = [\"days.toml\"]\njournal = \"journal\"\n\
                 when_full = \"wait\"\nsampling_corrections = \"sampling.csv\"\n\
                 [components.count]\ntype = \"counter\"\ninputs = \"watch\"\n";
    std::fs::write(path("chain.toml"), chain).expect("a file");
    let printed = |interval: &str| {
        std::fs::write(path("sampling.csv"), format!("{}\n,,,,,,{interval}\n", weir_flow::scaling::HEADER))
            .expect("a file");
        let output = run(&["chain", "run", path("chain.toml").to_str().expect("UTF-8")]);
        (output.status.success(), String::from_utf8(output.stderr).expect("UTF-8"))
    };
    let (is_right, wrong) = printed("often");
    assert!(!is_right && wrong.contains("'often' is no interval"), "{wrong}");
    let (is_right, reports) = printed("50");
    assert!(is_right && reports.contains("bytes=200 kept=4"), "{reports}");
}

/// As `weir sql --sampling-corrections` does.
#[test]
fn sampling_is_corrected_for_watches() {
    let folder = tempfile::tempdir().expect("a folder");
    let (archive, file, table) =
        (folder.path().join("flows"), folder.path().join("w.toml"), folder.path().join("sampling.csv"));
    let mut writer = Writer::open(&archive, ArchiveOptions::default()).expect("an archive").0;
    append(&mut writer, 100);
    writer.close().expect("sealed");
    let query = "SELECT sum(bytes_scaled) AS bytes, sum(bytes) AS kept FROM TUMBLE(flows, received, INTERVAL '1' HOUR)";
    std::fs::write(&file, format!("query = \"{query}\"")).expect("a file");
    std::fs::write(&table, format!("{}\n,,,,,,50\n", weir_flow::scaling::HEADER)).expect("a file");
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let [archive, file, table] = [text(&archive), text(&file), text(&table)];
    let tested = |rest: &[&str]| {
        let mut arguments = vec!["watch", "test", "-R", archive.as_str(), file.as_str()];
        arguments.extend_from_slice(rest);
        let output = run(&arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let plain = tested(&[]);
    assert!(plain.contains("bytes=400 kept=400"), "{plain}");
    let corrected = tested(&["--sampling-corrections", &table]);
    assert!(corrected.contains("bytes=20000 kept=400"), "{corrected}");
}

/// What a command of an archive prints, which must succeed.
fn printed(archive: &str, command: &[&str]) -> String {
    let output = run(&[&["watch"][..], command, &["-R", archive]].concat());
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A pause is the same for the API and for commands, lasts over restarts, and leaves the file of the watch as it is.
#[test]
fn watches_are_listed_paused_and_resumed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (archive, watches) = (folder.path().join("archive"), folder.path().join("watches"));
    std::fs::create_dir(&watches).expect("a folder");
    let file = watches.join("count.toml");
    std::fs::write(&file, WATCH).expect("a file");
    std::fs::write(watches.join("wrong.toml"), "query = ''\nlatenes = '1s'").expect("a file");
    let (archive, watches) = (archive.display().to_string(), watches.display().to_string());
    let arguments = ["--archive", &archive, "--demo", "--demo-rate", "500", "--watch", &watches];
    let listed = || serde_json::from_str::<Value>(&printed(&archive, &["list", "-o", "json"])).expect("JSON");
    let state = || listed()[0]["state"].as_str().expect("a state").to_owned();
    let service = Service::start(&arguments);
    service.wait_for("/reports?watch=count", |reports| !reports.as_array().expect("reports").is_empty());
    let found = listed();
    let text = |member: &str| found[0][member].as_str().unwrap_or_default().to_owned();
    assert_eq!(["name", "severity", "state"].map(text), ["count", "notice", "running"], "{found}");
    assert_eq!(text("window"), "1s of received, one every 500ms");
    assert!(!text("last_report").is_empty(), "{found}");
    assert_eq!((&found[1]["name"], &found[1]["state"]), (&json!("wrong"), &json!("error")), "{found}");
    assert!(found[1]["error"].as_str().is_some_and(|error| error.contains("did you mean 'lateness'?")), "{found}");

    assert_eq!(service.ask("POST", "/api/v1/watches/count/pause", &[], "").json()["paused"], true);
    assert_eq!(state(), "paused");
    service.wait_for("/watches/count", |watch| watch["counts"]["windows_skipped"].as_u64() > Some(0));
    printed(&archive, &["resume", "count"]);
    assert_eq!(service.get("/watches/count")["paused"], false);
    service.wait_for("/watches/count", |watch| watch["counts"]["windows_answered"].as_u64() > Some(0));
    // what was begun is paused and goes on also when its file is wrong by now
    std::fs::write(&file, "query = ''\nlatenes = '1s'").expect("a file");
    printed(&archive, &["pause", "count"]);
    // a watch that is paused has answered none
    service.wait_for("/watches/count", |watch| {
        let count = |name: &str| watch["counts"][name].as_u64();
        count("windows_answered") == Some(0) && count("windows_skipped") > Some(0)
    });
    printed(&archive, &["resume", "count"]);
    service.wait_for("/watches/count", |watch| watch["counts"]["windows_answered"].as_u64() > Some(0));
    assert_eq!(state(), "error");
    // a pause that the journal does not take leaves it running: begun again, with counts of its own
    let answered = |watch: &Value| watch["counts"]["windows_answered"].as_u64().unwrap_or(0);
    service.wait_for("/watches/count", |watch| answered(watch) >= 10);
    let blocked = folder.path().join("archive/watch/count.paused.new");
    std::fs::create_dir(&blocked).expect("a folder in place of a file");
    printed(&archive, &["pause", "count"]);
    service.wait_for("/watches/count", |watch| (1..10).contains(&answered(watch)));
    std::fs::remove_dir(&blocked).expect("an empty folder");
    printed(&archive, &["resume", "count"]);
    std::fs::write(&file, WATCH).expect("a file");
    printed(&archive, &["pause", "count"]);
    assert_eq!(service.get("/watches/count")["paused"], true);
    assert_eq!(service.ask("POST", "/api/v1/watches/idle/pause", &[], "").status, 404);
    service.stop();

    let service = Service::start(&arguments);
    service.wait_for("/watches/count", |watch| watch["counts"]["windows_skipped"].as_u64() > Some(0));
    assert_eq!(service.ask("POST", "/api/v1/watches/count/resume", &[], "").json()["paused"], false);
    assert_eq!(state(), "running");
    service.stop();
    assert_eq!(state(), "stopped");
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), WATCH);

    let unknown = run(&["watch", "pause", "-R", &archive, "cuont"]);
    let error = String::from_utf8(unknown.stderr).expect("UTF-8");
    assert!(!unknown.status.success() && error.contains("hint: did you mean 'count'?"), "{error}");
}

/// What a file says cannot be overruled by a command, which says so.
#[test]
fn a_file_that_pauses_its_watch_is_not_overruled() {
    let folder = tempfile::tempdir().expect("a folder");
    let watch = weir_watch::watches::ListedWatch {
        name: "scan".to_owned(),
        severity: None,
        window: String::new(),
        is_paused_by_file: true,
        key: None,
        error: None,
    };
    let journal = folder.path().join("watch");
    std::fs::create_dir(&journal).expect("a folder");
    weir_watch::watches::keep(&journal, &[watch]).expect("a list");
    let archive = folder.path().to_str().expect("UTF-8");
    assert!(printed(archive, &["list"]).contains("paused"));
    let resumed = run(&["watch", "resume", "-R", archive, "scan"]);
    let error = String::from_utf8(resumed.stderr).expect("UTF-8");
    assert!(!resumed.status.success() && error.contains("remove the line 'paused = true'"), "{error}");
}

/// A key that no report has would be kept and change nothing.
#[test]
fn what_is_acknowledged_is_a_key_of_the_watch_and_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let scan = weir_watch::watches::ListedWatch {
        name: "scan".to_owned(),
        severity: None,
        window: String::new(),
        is_paused_by_file: false,
        key: Some(vec![weir_watch::watches::KeyColumn { name: "src_addr".to_owned(), is_address: true }]),
        error: None,
    };
    let journal = folder.path().join("watch");
    std::fs::create_dir(&journal).expect("a folder");
    weir_watch::watches::keep(&journal, &[scan]).expect("a list");
    std::fs::write(journal.join("scan.state"), "{}").expect("a state");
    let archive = folder.path().to_str().expect("UTF-8");
    let ack = |arguments: &[&str]| {
        let output = run(&[&["watch", "ack", "-R", archive, "scan"][..], arguments].concat());
        (output.status.success(), String::from_utf8(output.stderr).expect("UTF-8"))
    };
    for (key, why) in [
        ("src_adr=10.0.0.0", "'src_adr=10.0.0.0' is no key of 'scan'\nhint: write src_addr=VALUE"),
        ("foo", "'foo' is no key of 'scan'"),
        ("src_addr=10.0.0.999", "'10.0.0.999' is no address, as src_addr is"),
    ] {
        let (is_done, said) = ack(&["--key", key, "--for", "7d"]);
        assert!(!is_done && said.contains(why), "{said}");
    }
    assert!(!journal.join("acknowledged.ndjson").exists(), "nothing was kept");
    let (is_done, said) = ack(&["--key", "src_addr=10.0.0.9"]);
    assert!(
        is_done && said.starts_with("acknowledged until ") && said.contains(": src_addr=10.0.0.9 of 'scan'"),
        "{said}"
    );
    let (is_done, said) = ack(&[]);
    assert!(is_done && said.contains(": all reports of 'scan'"), "{said}");
}

/// A watch that is in no list is run by no process, which would look for its pause.
#[test]
fn a_pause_that_nobody_looks_for_yet_is_not_said_to_be_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let journal = folder.path().join("watch");
    std::fs::create_dir(&journal).expect("a folder");
    std::fs::write(journal.join("scan.state"), "{}").expect("a state");
    let archive = folder.path().to_str().expect("UTF-8");
    let said = |command: &str| {
        let output = run(&["watch", command, "-R", archive, "scan"]);
        assert!(output.status.success(), "{command}");
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    assert_eq!(said("pause"), "watch 'scan' is paused when the process that runs it starts again\n");
    assert_eq!(said("pause"), "watch 'scan' was paused, and stays so\n");
    assert_eq!(said("resume"), "watch 'scan' goes on when the process that runs it starts again\n");
    assert_eq!(said("resume"), "watch 'scan' was not paused\n");
}

/// A watch is named by its file, so files of two folders may have one name.
#[test]
fn two_files_of_a_name_are_refused_before_anything_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let [first, second] = ["la", "lb"].map(|name| {
        let folder = folder.path().join(name);
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(folder.join("one.toml"), WATCH).expect("a file");
        text(&folder)
    });
    let refused = format!("{second}/one.toml: two watches are named 'one', the other is {first}/one.toml");
    let output = run(&["watch", "check", &first, &second]);
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!((output.status.code(), error), (Some(1), format!("error: {refused}\n")));
    let checked = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(checked.starts_with(&format!("{first}/one.toml: ")) && checked.lines().count() == 1, "{checked}");
    assert_eq!(run(&["watch", "check", &first]).status.code(), Some(0));
    // collecting would end here, too, but for another reason
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = taken.local_addr().expect("an address").to_string();
    let archive = text(&folder.path().join("archive"));
    let [first, second] = [first, second].map(|folder| format!("{folder}/one.toml"));
    let collect = ["collect", "--archive", &archive, "--listen", &address, "--watch", &first, "--watch", &second];
    let output = run(&collect);
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(output.status.code() == Some(1) && error.contains(&refused), "{error}");
}

/// A mistake that did no harm while everything ran must not stop collecting at the next start.
#[test]
fn a_wrong_file_of_a_folder_stops_neither_collecting_nor_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let [archive, watches, wrong] = ["archive", "watches", "watches/wrong.toml"].map(path);
    std::fs::create_dir(&watches).expect("a folder");
    std::fs::write(watches.join("count.toml"), WATCH).expect("a file");
    std::fs::write(&wrong, "query = ''\nlatenes = '1s'").expect("a file");
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let running = [("count".to_owned(), "running".to_owned()), ("wrong".to_owned(), "error".to_owned())];
    // before the process has its list there is none
    let states = || -> Vec<(String, String)> {
        let output = run(&["watch", "list", "-R", &text(&archive), "-o", "json"]);
        let listed: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let of = |watch: &Value| ["name", "state"].map(|member| watch[member].as_str().unwrap_or_default().to_owned());
        listed.as_array().into_iter().flatten().map(of).map(|[name, state]| (name, state)).collect()
    };
    let collector = Collector::start(&archive, &["--watch", &text(&watches)]);
    wait_for("the other watch runs", || states() == running);
    let exporter = Mutex::new(Exporter::new(0));
    wait_for("a report", || {
        exporter.lock().expect("no panic").send(collector.address);
        std::fs::metadata(archive.join("watch/reports.ndjson")).is_ok_and(|about| about.len() > 0)
    });
    collector.stop();
    let mut child = watch(&archive, &watches);
    wait_for("the other watch runs", || states() == running);
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    // one that is named is meant, and a folder is
    for (named, expected) in [(&wrong, "did you mean 'lateness'?"), (&path("nosuch"), "cannot read")] {
        let output = run(&["watch", "run", "-R", &text(&archive), &text(named)]);
        let error = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(output.status.code() == Some(1) && error.contains(expected), "{error}");
        let output =
            run(&["collect", "--archive", &text(&archive), "--listen", "127.0.0.1:0", "--watch", &text(named)]);
        let error = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(output.status.code() == Some(1) && error.contains(expected), "{error}");
    }
}

#[test]
fn wrong_files_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("w.toml");
    let check = |text: &str| {
        std::fs::write(&file, text).expect("a file");
        let output = run(&["watch", "check", file.to_str().expect("UTF-8")]);
        assert_eq!(output.status.code(), Some(1), "{text}");
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    for (text, expected) in [
        ("", "'query' must be given"),
        ("query = 'SELECT 1'", "the statement has no window"),
        ("query = 'SELECT * FROM flows'", "has no window"),
        ("query = \"SELECT * FROM TUMBLE(flows, bytes, INTERVAL '1' SECOND)\"", "'bytes' is no time of flows"),
        ("query = \"SELECT * FROM TUMBLE(flows, received)\"", "TUMBLE needs the size of its windows"),
        ("query = \"SELECT * FROM TUMBLE(flows, received, '1s')\"", "no length of time"),
        ("query = \"SELECT * FROM TUMBLE(flowz, received, INTERVAL '1' SECOND)\"", "flowz"),
        ("query = \"SELECT * FROM TUMBLE(flows, received, :w)\"", "no parameter is named 'w'"),
        ("query = \"SELECT * FROM TUMBLE(flows, received, :w)\"", "in the table [parameters], which is not there"),
        (
            "query = \"SELECT * FROM TUMBLE(flows, received, INTERVAL '100000000' DAY)\"",
            "TUMBLE: a window is at most 1000000 days long",
        ),
        (
            "query = \"SELECT * FROM HOP(flows, received, INTERVAL '2' SECOND, INTERVAL '5' SECOND)\"",
            "no whole number of slides",
        ),
        ("query = \"DELETE FROM flows\"", "only questions are answered"),
        (
            "query = \"SELECT count(*) AS n FROM TUMBLE(flows, received, INTERVAL '1' SECOND)\"\nkey = ['m']",
            "the key 'm' is no column",
        ),
        ("query = ''\nlatenes = '1s'", "did you mean 'lateness'?"),
        ("query = 'a'\n[[actions]]\nsyslog = 'x'", "write tcp://HOST:PORT"),
    ] {
        let error = check(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
}
