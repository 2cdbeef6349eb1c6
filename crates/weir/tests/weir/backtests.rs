//! `weir watch test` as people run it: what it prints, what it draws, and two versions of a watch side by side.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use weir_archive::{ArchiveOptions, Writer};
use weir_flow::{Column, Delivery, FlowBatchBuilder};

use crate::process::run;

/// 2026-01-01T12:00:00Z.
const NOON_MS: i64 = 1_767_268_800_000;
/// Octets that a host sends in each window of ten seconds, none where it sends nothing.
const HOSTS: [[u64; 12]; 2] = [
    [100, 0, 900, 100, 100, 100, 700, 100, 100, 100, 100, 800],
    [100, 100, 100, 100, 0, 850, 100, 100, 100, 100, 100, 100],
];
/// The hosts that sent at least 600 octets in a window, and when it ended.
const LOUD: [(u8, &str); 4] = [
    (0, "2026-01-01T12:00:30.000Z"),
    (1, "2026-01-01T12:01:00.000Z"),
    (0, "2026-01-01T12:01:10.000Z"),
    (0, "2026-01-01T12:02:00.000Z"),
];

/// An archive, and versions of a watch: `loud` reports 600 octets, `louder` 800, `loudest` more than that, and `silent`
/// nothing.
fn scene() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = Writer::open(&folder.path().join("flows"), ArchiveOptions::default()).expect("an archive").0;
    for window in 0..12 {
        let mut builder = FlowBatchBuilder::new(2);
        let hosts: Vec<_> = (0..).zip(HOSTS).map(|(host, sent): (u8, _)| (host, sent[window])).collect();
        let sent = hosts.iter().filter(|(_, bytes)| *bytes > 0);
        builder.begin_rows(sent.clone().count());
        for (host, bytes) in sent {
            builder.time(Column::Received).push(Some(NOON_MS + window as i64 * 10_000 + 1_000));
            builder.address(Column::SrcAddr).push(Some(&[10, 0, 0, *host]));
            builder.u64(Column::Bytes).push(Some(*bytes));
        }
        writer.append(Delivery::from(builder.finish())).expect("appended");
    }
    writer.close().expect("sealed");
    let watch = |name: &str, having: &str| {
        let query = format!(
            "SELECT src_addr, sum(bytes) AS bytes FROM TUMBLE(flows, received, INTERVAL '10' SECOND) \
             GROUP BY src_addr HAVING {having}"
        );
        let text = format!("severity = 'warning'\nkey = ['src_addr']\nrepeat_after = '0s'\nquery = \"{query}\"");
        fs::write(folder.path().join(format!("{name}.toml")), text).expect("a file");
    };
    watch("loud", "sum(bytes) >= 600");
    watch("louder", "sum(bytes) >= 800");
    watch("loudest", "sum(bytes) > 800");
    watch("silent", "sum(bytes) > 1000000");
    folder
}

/// What `weir watch test` prints of a watch of the scene.
fn tested(folder: &Path, name: &str, rest: &[&str]) -> String {
    let path = |name: &str| folder.join(name).to_str().expect("UTF-8").to_owned();
    let (archive, file) = (path("flows"), path(&format!("{name}.toml")));
    let output = run(&[&["watch", "test", "--utc", "-R", &archive, &file], rest].concat());
    assert!(output.status.success(), "{rest:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

#[test]
fn reports_of_a_backtest_are_objects_with_a_summary_behind_them() {
    let folder = scene();
    let mut found = objects(&tested(folder.path(), "loud", &["--json"]));
    let summary = found.pop().expect("a summary")["summary"].take();
    let told: Vec<_> = found
        .iter()
        .map(|report| {
            json!([report["watch"], report["severity"], report["key"], report["window_start"], report["window_end"]])
        })
        .collect();
    let expected = LOUD.map(|(host, end)| {
        let end: jiff::Timestamp = end.parse().expect("a time");
        let start = end - jiff::SignedDuration::from_secs(10);
        json!(["loud", "warning", format!("src_addr=10.0.0.{host}"), format!("{start:.3}"), format!("{end:.3}")])
    });
    assert_eq!(told, expected);
    assert_eq!(found[0]["evidence"], json!([{ "src_addr": "10.0.0.0", "bytes": 900 }]));
    assert_eq!(summary["first_window_end"], "2026-01-01T12:00:10.000Z");
    assert_eq!(summary["last_window_end"], "2026-01-01T12:02:00.000Z");
    assert_eq!(
        ["windows", "flows", "reports", "repeated", "windows_failed", "rows_shed"].map(|name| summary[name].as_u64()),
        [12, 22, 4, 0, 0, 0].map(Some),
        "{summary}"
    );
    assert_eq!(summary["reports_by_day"], json!({ "2026-01-01": 4 }));
    // of a part of the time
    let times = ["--json", "--from", "2026-01-01T12:00:30Z", "--until", "2026-01-01T12:01:10Z"];
    let part = objects(&tested(folder.path(), "loud", &times));
    let ends: Vec<_> = part.iter().filter_map(|report| report["window_end"].as_str()).collect();
    assert_eq!(ends, [LOUD[1].1, LOUD[2].1]);
}

#[test]
fn flows_that_are_in_no_window_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let append = |starts_ms: &[Option<i64>]| {
        let mut writer = Writer::open(&folder.path().join("flows"), ArchiveOptions::default()).expect("an archive").0;
        let mut builder = FlowBatchBuilder::new(starts_ms.len());
        builder.begin_rows(starts_ms.len());
        for start_ms in starts_ms {
            builder.time(Column::Received).push(Some(NOON_MS));
            builder.time(Column::Start).push(*start_ms);
        }
        writer.append(Delivery::from(builder.finish())).expect("appended");
        writer.close().expect("sealed");
    };
    let query = "SELECT count(*) AS flows FROM TUMBLE(flows, start, INTERVAL '10' SECOND)";
    fs::write(folder.path().join("dated.toml"), format!("time = 'start'\nquery = \"{query}\"")).expect("a file");
    let future = "1 flows were left out: they are dated after their reception by more than skew\n";
    let lacking = "2 flows were left out: they lack the time that windows go by\n";
    let next_day_ms = NOON_MS + 86_400_000;
    append(&[Some(next_day_ms), None, None]);
    let text = tested(folder.path(), "dated", &[]);
    assert_eq!(text, format!("no window has flows; flows read: 1\n{future}{lacking}"));
    append(&[Some(NOON_MS)]);
    let text = tested(folder.path(), "dated", &[]);
    assert!(text.contains("windows: 1; flows: 2, ") && text.ends_with(&format!("{future}{lacking}")), "{text}");
    let summary = objects(&tested(folder.path(), "dated", &["--json"])).pop().expect("a summary")["summary"].take();
    assert_eq!(
        ["windows", "flows", "rows_shed", "rows_future", "rows_without_time"].map(|name| summary[name].as_u64()),
        [1, 2, 0, 1, 2].map(Some),
        "{summary}"
    );
}

#[test]
fn a_time_that_ends_before_it_begins_is_an_error() {
    let folder = scene();
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let times = ["--from", "2026-11-28", "--until", "2026-11-27"];
    let output = run(&[&["watch", "test", "--utc", "-R", &path("flows"), &path("loud.toml")], &times[..]].concat());
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(!output.status.success() && said.contains("the time ends before it begins\nhint: "), "{said}");
}

#[test]
fn what_only_one_of_two_versions_reports_is_told() {
    let folder = scene();
    let louder = folder.path().join("louder.toml").to_str().expect("UTF-8").to_owned();
    let loudest = folder.path().join("loudest.toml").to_str().expect("UTF-8").to_owned();
    let told = |text: &str| -> Vec<String> {
        text.lines()
            .filter(|line| ["- 2026", "+ 2026"].iter().any(|sign| line.starts_with(sign)))
            .map(str::to_owned)
            .collect()
    };
    // 700 octets are loud and not louder
    let text = tested(folder.path(), "loud", &["--compare", &louder]);
    assert_eq!(told(&text), ["- 2026-01-01T12:01:10.000Z warning loud: src_addr=10.0.0.0 bytes=700"], "{text}");
    assert!(text.contains("reports: 4 and 3, the same in both: 3\n"), "{text}");
    assert!(text.contains("\nfirst: 4 (") && text.contains("\nsecond: 3 ("), "{text}");
    // the other way round
    let loud = folder.path().join("loud.toml").to_str().expect("UTF-8").to_owned();
    let text = tested(folder.path(), "louder", &["--compare", &loud]);
    assert_eq!(told(&text), ["+ 2026-01-01T12:01:10.000Z warning loud: src_addr=10.0.0.0 bytes=700"], "{text}");
    // one that reports all that the other does, and the same of itself
    let text = tested(folder.path(), "loud", &["--compare", &loud]);
    assert_eq!(told(&text), Vec::<String>::new(), "{text}");
    assert!(text.contains("reports: 4 and 4, the same in both: 4\n"), "{text}");
    // for programs: each difference, and then a summary of each
    let found = objects(&tested(folder.path(), "loud", &["--compare", &loudest, "--json"]));
    let only = |end: &str| json!({ "only_in": "first", "window_end": end, "key": "src_addr=10.0.0.0" });
    assert_eq!(found[..2], [only(LOUD[2].1), only(LOUD[3].1)]);
    let reports: Vec<_> = found[2..].iter().map(|line| line["summary"]["reports"].as_u64()).collect();
    assert_eq!(reports, [4, 2].map(Some));
}

/// Where bars of a colour begin, from the left, that have a height.
fn bars(picture: &str, colour: &str) -> Vec<i64> {
    let value = |tag: &str, name: &str| -> Option<i64> {
        tag.split_once(&format!(" {name}=\""))?.1.split('"').next()?.parse().ok()
    };
    let tags = picture.split("<rect").skip(1).filter_map(|rest| rest.split('>').next());
    let of_colour = tags.filter(|tag| tag.contains(&format!("fill=\"{colour}\"")));
    let high = of_colour.filter(|tag| value(tag, "height").expect("a height") != 0);
    let mut lefts: Vec<_> = high.map(|tag| value(tag, "x").expect("a place")).collect();
    lefts.sort_unstable();
    lefts
}

#[test]
fn a_picture_has_a_bar_for_each_window_with_a_report() {
    let folder = scene();
    let picture = folder.path().join("loud.svg");
    let file = picture.to_str().expect("UTF-8").to_owned();
    let drawn = |name: &str| {
        tested(folder.path(), name, &["--plot", &file]);
        fs::read_to_string(&picture).expect("a picture")
    };
    // the first of the palette
    let text = drawn("loud");
    assert!(text.starts_with("<svg") && text.contains("end of the window"), "{text}");
    let lefts = bars(&text, "#0072B2");
    assert_eq!(lefts.len(), LOUD.len(), "{lefts:?}");
    // the windows end 30, 60, 70 and 120 s after noon
    let apart = |from: usize, to: usize| (lefts[to] - lefts[from]) as f64;
    for (from, to, seconds) in [(0, 1, 30.0), (1, 2, 10.0), (2, 3, 50.0)] {
        let part = apart(from, to) / apart(0, 3);
        assert!((part - seconds / 90.0).abs() < 0.02, "{lefts:?}");
    }
    assert_eq!(bars(&drawn("silent"), "#0072B2"), Vec::<i64>::new());
}
