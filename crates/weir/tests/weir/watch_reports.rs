//! Reports of `weir watch` as processes: in a chain, as a table, as a plot, cut and sent while it is killed, on a full disk.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use weir_archive::{ArchiveOptions, Writer};
use weir_flow::{Column, Delivery, FlowBatchBuilder};

use crate::process::{run, weir};

const TALKERS: &str = "key = ['src_addr']\nrepeat_after = '0s'\nseverity = 'warning'\nquery = \"SELECT src_addr, count(*) AS flows, \
     sum(bytes) AS bytes FROM TUMBLE(flows, received, INTERVAL '1' SECOND) GROUP BY src_addr HAVING sum(bytes) > 500000\"\n";

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn lines(octets: &[u8]) -> Vec<String> {
    String::from_utf8(octets.to_vec()).expect("UTF-8").lines().map(str::to_owned).collect()
}

fn answer(archive: &Path, statement: &str) -> Vec<String> {
    let output = run(&["sql", "-q", "-R", path(archive), "-o", "csv", "--utc", statement]);
    assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
    lines(&output.stdout).split_off(1)
}

/// An archive of generated flows, and a watch.
fn generated(folder: &Path) -> (PathBuf, PathBuf) {
    let (archive, file) = (folder.join("flows"), folder.join("talkers.toml"));
    let export = folder.join("export.pcap");
    for arguments in [
        &["generate", "--write", path(&export), "--records", "40000", "--density", "2000", "--seed", "7"][..],
        &["import", path(&export), "--archive", path(&archive)],
    ] {
        let output = run(arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    std::fs::write(&file, TALKERS).expect("a file");
    (archive, file)
}

/// Ids of the reports of a journal.
fn ids(journal: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(journal.join("reports.ndjson")).unwrap_or_default();
    let reports = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("whole lines of JSON"));
    reports.filter_map(|report| report["id"].as_str().map(str::to_owned)).collect()
}

/// A chain gives what a backtest of the archive gives that it writes, and hands every flow on.
#[test]
fn a_chain_asks_standing_questions_about_what_passes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (archive, file) = generated(folder.path());
    let (copy, journal, chain) =
        (folder.path().join("copy"), folder.path().join("journal"), folder.path().join("c.toml"));
    let text = format!(
        "[components.reader]\ntype = 'archive-reader'\narchive = '{}'\n[components.watch]\ntype = 'watch'\ninputs = 'reader'\n\
         watches = ['{}']\njournal = '{}'\nwhen_full = 'wait'\n[components.out]\ntype = 'archive'\ninputs = 'watch'\narchive = '{}'\n",
        archive.display(),
        file.display(),
        journal.display(),
        copy.display()
    );
    std::fs::write(&chain, text).expect("a chain");
    let output = run(&["chain", "run", path(&chain)]);
    let printed = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}");
    let count = "SELECT count(*), sum(bytes) FROM flows";
    assert_eq!(answer(&copy, count), answer(&archive, count));
    let tested = run(&["watch", "test", "-R", path(&archive), "--json", path(&file)]);
    let mut expected: Vec<String> = lines(&tested.stdout)
        .iter()
        .filter_map(|line| serde_json::from_str::<Value>(line).expect("JSON")["id"].as_str().map(str::to_owned))
        .collect();
    let mut found = ids(&journal);
    expected.sort();
    found.sort();
    assert!(expected.len() > 20, "{}", expected.len());
    assert_eq!(found, expected);
    assert!(printed.contains("warning talkers: src_addr="), "{printed}");
    // history has no archive here
    let first = folder.path().join("first.toml");
    let query = TALKERS
        .replace("GROUP BY", "WHERE src_addr NOT IN (SELECT src_addr FROM HISTORY(flows, INTERVAL '1' DAY)) GROUP BY");
    std::fs::write(&first, query).expect("a file");
    let output = run(&["chain", "run", path(&chain), "--set", &format!("watch.watches=['{}']", first.display())]);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && printed.contains("asks history, and no archive is named"), "{printed}");
}

/// A watch that is too slow for what passes costs what it did not see, counted, and no flow.
#[test]
fn a_slow_watch_in_a_chain_costs_no_flow() {
    let folder = tempfile::tempdir().expect("a folder");
    let (archive, file) = generated(folder.path());
    let slow = TALKERS.replace(
        "count(*) AS flows",
        "count(*) AS flows, count(DISTINCT repeat(cast(bytes AS VARCHAR), 20000)) AS slow",
    );
    std::fs::write(&file, slow).expect("a file");
    let (copy, chain) = (folder.path().join("copy"), folder.path().join("c.toml"));
    let text = format!(
        "[components.reader]\ntype = 'archive-reader'\narchive = '{}'\n[components.watch]\ntype = 'watch'\ninputs = 'reader'\n\
         watches = ['{}']\njournal = '{}'\nrows_waiting_max = 1\n[components.out]\ntype = 'archive'\ninputs = 'watch'\narchive = '{}'\n",
        archive.display(),
        file.display(),
        folder.path().join("journal").display(),
        copy.display()
    );
    std::fs::write(&chain, text).expect("a chain");
    let output = run(&["chain", "run", path(&chain)]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(answer(&copy, "SELECT count(*) FROM flows"), ["40000"]);
}

#[test]
fn backtests_are_drawn_and_summed_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let (archive, file) = generated(folder.path());
    let (svg, png) = (folder.path().join("a.svg"), folder.path().join("a.png"));
    let test = |more: &[&str]| {
        let output = run(&[&["watch", "test", "-R", path(&archive), "--utc", path(&file)], more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        lines(&output.stdout)
    };
    let printed = test(&["--plot", path(&svg)]);
    let drawn = std::fs::read_to_string(&svg).expect("a picture");
    assert!(drawn.starts_with("<svg") && drawn.contains("end of the window"), "{drawn}");
    assert!(printed.iter().any(|line| line.starts_with("reports │")), "{printed:?}");
    assert!(printed.iter().any(|line| line.trim_start().starts_with("00:00")), "{printed:?}");
    let json = test(&["--json", "--plot", path(&png)]);
    assert!(std::fs::read(&png).expect("a picture").starts_with(b"\x89PNG"));
    let (last, reports) = json.split_last().expect("lines");
    let summary: Value = serde_json::from_str(last).expect("JSON");
    let summary = &summary["summary"];
    assert_eq!(summary["reports"], reports.len());
    assert_eq!(summary["reports_by_day"]["2026-01-01"], reports.len());
    assert_eq!(summary["flows"], 40_000);
    let louder = folder.path().join("louder.toml");
    std::fs::write(&louder, TALKERS.replace("500000", "5000000")).expect("a file");
    let compared = test(&["--compare", path(&louder), "--plot", path(&svg)]);
    assert!(compared.iter().any(|line| line.starts_with(" first │")), "{compared:?}");
    assert!(compared.iter().any(|line| line.starts_with("second │")), "{compared:?}");
}

fn append(writer: &mut Writer, hosts: std::ops::Range<u8>) {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
    let mut builder = FlowBatchBuilder::new(hosts.len());
    builder.begin_rows(hosts.len());
    for host in hosts {
        builder.time(Column::Received).push(Some(now_ms));
        builder.address(Column::SrcAddr).push(Some(&[10, 0, 0, host]));
        builder.u64(Column::Bytes).push(Some(1_000_000));
    }
    writer.append(Delivery::from(builder.finish())).expect("appended");
}

fn started(arguments: &[&str]) -> Child {
    let mut command: Command = weir();
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a process")
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_mins(1);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Killed all the time, with a journal that is cut all the time: every report is sent in order, and the table has what is left.
#[test]
fn reports_are_sent_in_order_however_often_it_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (archive, file, sent) =
        (folder.path().join("archive"), folder.path().join("talkers.toml"), folder.path().join("sent.ndjson"));
    std::fs::write(&file, format!("{TALKERS}idle = '300ms'\n[[actions]]\nfile = '{}'\n", sent.display()))
        .expect("a file");
    let mut writer = Writer::open(&archive, ArchiveOptions::default()).expect("an archive").0;
    append(&mut writer, 0..1);
    let journal = archive.join("watch");
    // the same for all watches, of a file of its own
    let (actions, all) = (folder.path().join("actions"), folder.path().join("all.ndjson"));
    std::fs::write(&actions, format!("[[actions]]\nfile = '{}'\n", all.display())).expect("a file");
    let more = ["--reports-max-size", "6KiB", "--watch-actions", path(&actions)];
    let arguments = [&["watch", "run", "-R", path(&archive)], &more[..], &[path(&file)]].concat();
    let mut child = started(&arguments);
    eventually("a report", || {
        append(&mut writer, 0..3);
        !ids(&journal).is_empty()
    });
    for round in 0..10_u64 {
        let until = Instant::now() + Duration::from_millis(400 + round * 7_919 % 900);
        while Instant::now() < until {
            append(&mut writer, 0..3);
            std::thread::sleep(Duration::from_millis(20));
        }
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        child = started(&arguments);
    }
    eventually("all reports are sent", || {
        let has = |file: &Path, id: &str| std::fs::read_to_string(file).unwrap_or_default().contains(id);
        ids(&journal).last().is_some_and(|last| has(&sent, last) && has(&all, last))
    });
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let text = std::fs::read_to_string(&sent).expect("reports");
    let sent: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    // in the order of their windows; one that was sent just before a kill comes twice, at most one for each
    let ends: Vec<&str> = sent.iter().map(|report| report["window_end"].as_str().expect("a time")).collect();
    let different: BTreeSet<&str> = sent.iter().map(|report| report["id"].as_str().expect("an id")).collect();
    assert!(sent.len() - different.len() <= 10, "{} of {}", different.len(), sent.len());
    let all = std::fs::read_to_string(&all).expect("reports");
    let all: BTreeSet<String> =
        all.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["id"].to_string()).collect();
    assert_eq!(all.len(), different.len());
    let mut in_order = ends.clone();
    in_order.dedup();
    let repeated = in_order.windows(2).filter(|two| two[1] < two[0]).count();
    assert!(repeated <= 10, "{in_order:?}");
    assert!(std::fs::metadata(journal.join("reports.ndjson")).expect("a journal").len() < 9_000);
    let kept = ids(&journal);
    assert!(kept.len() < different.len() && kept.iter().all(|id| different.contains(id.as_str())));
    // every host of every window that was asked: none was lost between the cuts
    let windows: BTreeSet<&str> = ends.iter().copied().collect();
    for end in windows.iter().skip(1) {
        let hosts: BTreeSet<&str> = sent
            .iter()
            .filter(|report| report["window_end"] == *end)
            .map(|report| report["key"].as_str().expect("a key"))
            .collect();
        assert_eq!(hosts.len(), 3, "{end}: {hosts:?}");
    }
    let table = answer(
        &archive,
        "SELECT count(*), count(DISTINCT id), min(severity), min(state) FROM reports WHERE watch = 'talkers'",
    );
    assert_eq!(table, [format!("{0},{0},warning,open", kept.len())]);
    let acknowledged =
        run(&["watch", "ack", "-R", path(&archive), "talkers", "--key", "src_addr=10.0.0.1", "--for", "1d"]);
    assert!(acknowledged.status.success());
    let open = answer(&archive, "SELECT DISTINCT key FROM reports WHERE NOT acknowledged ORDER BY key");
    assert_eq!(open, ["src_addr=10.0.0.0", "src_addr=10.0.0.2"]);
}

/// A small file system of its own, or `None` when this process may not mount one.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(folder.path()).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(folder));
        }
        weir_testkit::skip("root", "mounting a small disk needs root");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

/// The disk of the journal is full for a while: reports wait, and all of them come once there is room.
#[test]
fn a_full_disk_of_the_journal_loses_no_report() {
    let Some(disk) = SmallDisk::mount() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (archive, file, sent) =
        (folder.path().join("archive"), folder.path().join("talkers.toml"), folder.path().join("sent.ndjson"));
    std::fs::write(&file, format!("{TALKERS}idle = '300ms'\n[[actions]]\nfile = '{}'\n", sent.display()))
        .expect("a file");
    let mut writer = Writer::open(&archive, ArchiveOptions::default()).expect("an archive").0;
    append(&mut writer, 0..1);
    let journal = disk.0.path().join("journal");
    let mut child = started(&["watch", "run", "-R", path(&archive), "--journal", path(&journal), path(&file)]);
    eventually("a report", || {
        append(&mut writer, 0..3);
        !ids(&journal).is_empty()
    });
    let ballast = disk.0.path().join("ballast");
    let mut filled = std::fs::File::create(&ballast).expect("a file");
    while std::io::Write::write_all(&mut filled, &[1; 512]).is_ok() {}
    drop(filled);
    let full_from = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
    for _ in 0..60 {
        append(&mut writer, 0..3);
        std::thread::sleep(Duration::from_millis(50));
    }
    std::fs::remove_file(&ballast).expect("removed");
    let last = "SELECT to_char(date_bin(INTERVAL '1' SECOND, max(received)) + INTERVAL '1' SECOND, '%Y-%m-%dT%H:%M:%S') FROM flows".to_string();
    let last = answer(&archive, &last).remove(0);
    eventually("the last window is reported and sent", || {
        std::fs::read_to_string(&sent)
            .unwrap_or_default()
            .lines()
            .any(|line| line.contains(&format!("\"window_end\":\"{last}")))
    });
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let found = ids(&journal);
    let different: BTreeSet<&String> = found.iter().collect();
    assert_eq!(found.len(), different.len(), "{found:?}");
    let expected =
        "SELECT count(*) FROM (SELECT DISTINCT date_bin(INTERVAL '1' SECOND, received), src_addr FROM flows)";
    let expected: usize = answer(&archive, expected)[0].parse().expect("a number");
    // the first window may have begun before the watch
    assert!((expected - 3..=expected).contains(&found.len()), "{} of {expected}, full from {full_from}", found.len());
}
