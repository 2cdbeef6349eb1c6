//! `weir archive`: what it prints, and what it says when something is wrong.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::process::{Collector, Exporter, run};

/// An archive of several segments with 30 flows for each datagram.
fn archive(folder: &Path, datagrams: u32) -> PathBuf {
    let archive = folder.join("archive");
    let mut exporter = Exporter::new(0);
    for _ in 0..datagrams {
        let collector = Collector::start(&archive, &["--no-merge"]);
        exporter.send(collector.address);
        collector.stop();
    }
    archive
}

fn work(archive: &Path, work: &str, arguments: &[&str]) -> Output {
    let archive = archive.to_str().expect("UTF-8");
    run(&[&["archive", work, "--archive", archive], arguments].concat())
}

fn text(octets: &[u8]) -> String {
    String::from_utf8(octets.to_vec()).expect("UTF-8")
}

#[track_caller]
fn good(output: &Output) -> (String, String) {
    assert!(output.status.success(), "{}", text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

#[track_caller]
fn bad(output: &Output, parts: &[&str]) {
    assert!(!output.status.success(), "{}", text(&output.stdout));
    let said = text(&output.stdout) + &text(&output.stderr);
    for part in parts {
        assert!(said.contains(part), "'{part}' is not in: {said}");
    }
}

/// Lines of `ls` that are segments of flows.
fn flows(archive: &Path) -> Vec<serde_json::Value> {
    let (listed, _) = good(&work(archive, "ls", &["-l", "-o", "json"]));
    let lines: Vec<serde_json::Value> = serde_json::from_str(&listed).expect("JSON");
    lines.into_iter().filter(|line| line["table"] == "flows").collect()
}

#[test]
fn an_archive_is_listed_merged_and_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = archive(folder.path(), 3);
    let before = flows(&archive);
    assert_eq!(before.iter().map(|line| line["rows"].as_u64().expect("rows")).sum::<u64>(), 90);
    assert!(before.len() >= 3, "{before:?}");
    let (_, said) = good(&work(&archive, "compact", &[]));
    assert!(said.contains("segments merged into"), "{said}");
    let after = flows(&archive);
    assert!(
        after.len() < before.len() && after.iter().map(|line| line["rows"].as_u64()).sum::<Option<u64>>() == Some(90)
    );
    let (listed, said) = good(&work(&archive, "ls", &[]));
    assert!(listed.contains("flows") && said.contains("segments with"), "{listed}{said}");
    let (_, said) = good(&work(&archive, "check", &[]));
    assert!(said.contains("; 0 wrong"), "{said}");
    // one bit
    let day = fs::read_dir(archive.join("flows")).expect("days").next().expect("a day").expect("a day").path();
    let segment = fs::read_dir(day).expect("files").next().expect("a file").expect("a file").path();
    let mut octets = fs::read(&segment).expect("a segment");
    let at = octets.len() / 2;
    octets[at] ^= 8;
    fs::write(&segment, octets).expect("written");
    bad(&work(&archive, "check", &[]), &["flows/date=", "is damaged", "1 wrong", "hint: --repair"]);
    bad(&work(&archive, "check", &["--repair"]), &["set aside as flows/date=", ".parquet.damaged"]);
    good(&work(&archive, "check", &[]));
}

#[test]
fn what_expires_is_told_first_and_the_newest_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = archive(folder.path(), 3);
    let before = flows(&archive).len();
    bad(&work(&archive, "expire", &[]), &["no limit is given", "hint: --max-age"]);
    bad(&work(&archive, "expire", &["--max-age", "soon"]), &["'soon' is not a duration"]);
    // a unit that was forgotten: 90 bytes would leave nothing of the archive but its newest segment
    let without_unit = work(&archive, "expire", &["--max-size", "90"]);
    bad(&without_unit, &["error: --max-size: '90' is not a size\nhint: write a number with a unit: 4096B, 64MiB"]);
    assert_eq!(flows(&archive).len(), before);
    let limits = ["--max-size", "1KiB", "--low-water-percent", "90"];
    let (dry, said) = good(&work(&archive, "expire", &[&limits[..], &["--dry-run"]].concat()));
    assert!(dry.contains("flows/date=") && said.contains("segments would go"), "{dry}{said}");
    assert_eq!(flows(&archive).len(), before);
    let (wet, _) = good(&work(&archive, "expire", &limits));
    assert_eq!(wet, dry);
    assert!((1..before).contains(&flows(&archive).len()));
}

#[test]
fn status_says_what_statistics_take_beside_the_archive() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = archive(folder.path(), 1);
    let (said, _) = good(&work(&archive, "status", &[]));
    assert!(!said.contains("statistics") && said.contains("\npending deletion   0 files with 0 bytes\n"), "{said}");
    let commits = said.lines().find_map(|line| line.strip_prefix("commits ")).expect("a line");
    let (_, since) = commits.split_once(", ").expect("two numbers");
    let since = since.strip_suffix(" since the checkpoint").and_then(|count| count.parse::<u64>().ok());
    assert!(since.is_some_and(|count| (1..=32).contains(&count)), "{commits}");
    let statistics = archive.join("statistics");
    for steps in ["1s", "60s"] {
        fs::create_dir_all(statistics.join(steps)).expect("a folder");
    }
    let of = |step: u32, keep: u32| format!("[[resolutions]]\nstep_secs = {step}\nkeep_secs = {keep}\n");
    let description = format!("version = 3\n{}{}", of(1, 3600), of(60, 86_400));
    fs::write(statistics.join("store.toml"), description).expect("written");
    fs::write(statistics.join("1s/7.block"), [0; 2048]).expect("written");
    fs::write(statistics.join("60s/0.steps"), [0; 512]).expect("written");
    let (said, _) = good(&work(&archive, "status", &[]));
    let line = said.lines().find(|line| line.starts_with("statistics ")).expect("a line");
    assert!(line.ends_with(": 2.0 KiB in steps of 1 s, 512 bytes in steps of 60 s"), "{line}");
}

#[test]
fn the_books_balance_when_flows_have_expired() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = archive(folder.path(), 3);
    let books = || good(&run(&["books", "--archive", archive.to_str().expect("UTF-8")])).1;
    let said = books();
    assert!(said.contains("flows in the archive: 90\n") && said.contains("the books balance"), "{said}");
    // so little too large that flows alone go, and not the books
    let (listed, _) = good(&work(&archive, "ls", &["-l", "-o", "json"]));
    let lines: Vec<serde_json::Value> = serde_json::from_str(&listed).expect("JSON");
    let octets: u64 = lines.iter().filter_map(|line| line["bytes"].as_u64()).sum();
    let limit = format!("{}B", octets - 1);
    good(&work(&archive, "expire", &["--max-size", &limit, "--low-water-percent", "100"]));
    let left: u64 = flows(&archive).iter().map(|line| line["rows"].as_u64().expect("rows")).sum();
    let expected = format!("flows in the archive: {left}\nflows that have expired: {}\n", 90 - left);
    for _ in 0..2 {
        let said = books();
        assert!(said.contains(&expected) && said.contains("the books balance"), "{said}");
        good(&work(&archive, "compact", &[]));
    }
}

#[test]
fn a_part_is_carried_to_another_archive_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = archive(folder.path(), 2);
    let carried = folder.path().join("carried");
    let carried = carried.to_str().expect("UTF-8");
    bad(
        &work(&archive, "export", &["--table", "flow", carried]),
        &["there is no table 'flow', but flows, exporter_books"],
    );
    good(&work(&archive, "export", &["--table", "flows", carried]));
    bad(&work(&archive, "export", &[carried]), &["is not empty", "hint: name a folder"]);
    let other = folder.path().join("other");
    good(&work(&other, "import", &[carried]));
    let (_, again) = good(&work(&other, "import", &[carried]));
    assert!(again.starts_with("0 segments"), "{again}");
    assert_eq!(flows(&other).len(), flows(&archive).len());
    bad(&work(&other, "import", &[archive.to_str().expect("UTF-8")]), &["is no export of a weir archive", "hint: "]);
    let collector = Collector::start(&other, &[]);
    bad(&work(&other, "import", &[carried]), &["is being written by process", "hint: end the collector"]);
    good(&work(&other, "compact", &[]));
    good(&work(&other, "check", &[]));
    collector.stop();
}
