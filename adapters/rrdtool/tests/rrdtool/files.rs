//! A store of series that is written, and files of rrdtool that are read.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use weir_forward::{StatisticsForwardCounts, StatisticsForwardOptions, StatisticsForwarder};
use weir_rrdtool::{RrdOptions, RrdStore, file_name};
use weir_series::{
    Coverage, Family, FamilyRows, Metric, Resolution, SeriesStore, StatisticsWriter, StepRows, StoreOptions,
};

/// A time at which steps of all lengths begin, and rows of largest values of steps of a second.
pub(crate) const FIRST: i64 = 1_700_000_000 / 600 * 600;

fn families() -> [Family; 2] {
    let mut hosts = Family { coverage: Coverage::Largest, ..Family::counters("src_addr", &["bytes"]) };
    hosts.metrics.push(Metric::gauge("peers"));
    [Family::counters("protocol", &["bytes"]), hosts]
}

/// Writes steps of a second. From second 50 on there is another protocol, host 9 is there from second 25 to 32 only, and which of
/// the others have a value follows from the time.
pub(crate) fn write(dir: &Path, seconds: impl IntoIterator<Item = i64>) {
    let resolutions = [(1, 7_200), (60, 86_400)].map(|(step_secs, keep_secs)| Resolution { step_secs, keep_secs });
    let options = StoreOptions { resolutions: resolutions.to_vec(), ..StoreOptions::default() };
    let mut writer = StatisticsWriter::open(dir, &options, &families()).expect("a writer");
    let [protocol, host] = ["protocol", "src_addr"].map(|name| writer.family(name).expect("a family"));
    for second in seconds {
        let (mut protocols, mut hosts) = (FamilyRows::new(1), FamilyRows::new(2));
        let late = (second >= 50 && second % 4 == 0).then_some("ESP");
        for key in ["TCP", "UDP", "a b/c"].into_iter().filter(|key| *key != "UDP" || second % 5 > 0).chain(late) {
            protocols.push(writer.series(protocol, key), &[second as u64 * 1_000 + key.len() as u64]);
        }
        for number in
            (0..10).filter(|number| if *number == 9 { (25..33).contains(&second) } else { (second + number) % 3 == 0 })
        {
            let id = writer.series(host, &format!("192.0.2.{number}"));
            hosts.push(id, &[second as u64 + 7, number as u64]);
        }
        let rows = StepRows { families: vec![(protocol, protocols.sorted()), (host, hosts.sorted())] };
        writer.write_step(FIRST + second, rows).expect("written");
    }
    writer.close().expect("closed");
}

/// Forwards steps of a second to the end, or until `is_stopping`.
pub(crate) fn forward(
    dir: &Path,
    options: RrdOptions,
    is_stopping: impl FnMut(&StatisticsForwardCounts) -> bool,
) -> StatisticsForwardCounts {
    forward_steps(dir, options, 1, is_stopping)
}

/// The same of steps of a length, each under a name of its own.
pub(crate) fn forward_steps(
    dir: &Path,
    options: RrdOptions,
    step_secs: u32,
    is_stopping: impl FnMut(&StatisticsForwardCounts) -> bool,
) -> StatisticsForwardCounts {
    let store = RrdStore::new(options).expect("a store");
    let pause = Duration::from_millis(5);
    let name = if step_secs == 1 { "statistics".to_owned() } else { format!("steps-{step_secs}") };
    let options = StatisticsForwardOptions {
        name,
        step_secs,
        retry_after: pause,
        retry_after_max: pause,
        ..StatisticsForwardOptions::default()
    };
    let forwarder = StatisticsForwarder::open(dir, options, store).expect("a forwarder");
    forwarder.run(is_stopping, true).expect("forwarded")
}

/// A program in a folder that is this script of the shell.
pub(crate) fn script(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("rrdtool-of-the-test");
    // another process writes it: a file that is open for writing here, and in what other tests start, could not be run
    let write = r#"printf '#!/bin/sh\n%s\n' "$2" > "$1" && chmod +x "$1""#;
    let status = Command::new("sh").args(["-c", write, "sh"]).arg(&path).arg(text).status().expect("a shell");
    assert!(status.success());
    path
}

/// The names of the files in a folder, in order.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").file_name());
    let mut names: Vec<String> = files.map(|name| name.into_string().expect("UTF-8")).collect();
    names.sort_unstable();
    names
}

/// Values by the time at which their steps end; `None` for what is not known.
type Values = BTreeMap<i64, Vec<Option<f64>>>;

/// What the store of series has of steps of a second that begin before one, as rates, by file.
fn stored(dir: &Path, until: i64) -> BTreeMap<String, Values> {
    let series = SeriesStore::open(dir).expect("a store");
    let catalogue = series.catalogue().expect("a catalogue");
    let mut found: BTreeMap<String, Values> = BTreeMap::new();
    for (id, family) in (0..).map(weir_series::FamilyId).zip(series.families()) {
        let fetched = series.fetch(id, None, series.resolutions()[0], FIRST, FIRST + until).expect("fetched");
        for one in &fetched.series {
            let metrics = 0..family.metrics.len();
            let columns: Vec<Vec<Option<u64>>> =
                metrics.map(|metric| fetched.totals(family, one, metric).collect()).collect();
            let value = |column: &Vec<Option<u64>>, step: usize| column[step].map(|value| value as f64);
            let row = |step: usize| {
                let values = columns.iter().map(|column| value(column, step)).collect();
                (fetched.time_secs(step) + 1, values)
            };
            let name = file_name(&family.name, catalogue.key(id, one.id).expect("a key"));
            found.insert(name, (0..fetched.known.len()).map(row).collect());
        }
    }
    found
}

/// What a file has of the same time, and of a minute before and after it.
pub(crate) fn fetched(file: &Path, fold: &str, step_secs: i64, until: i64) -> Values {
    let tool = weir_testkit::program("rrdtool").expect("it was there");
    let [from, to] = [FIRST - 60, FIRST + until + 60].map(|time| time.to_string());
    let mut command = Command::new(tool);
    command.arg("fetch").arg(file).args([fold, "-r", &step_secs.to_string(), "-s", &from, "-e", &to]);
    let output = command.env("LC_ALL", "C").output().expect("rrdtool runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
    let line = |line: &str| {
        let (time, values) = line.split_once(": ")?;
        let number = |text: &str| text.parse::<f64>().expect("a number");
        let values = values.split_whitespace().map(|text| Some(number(text)).filter(|value| !value.is_nan()));
        Some((time.trim().parse().ok()?, values.collect()))
    };
    text.lines().filter_map(line).collect()
}

/// Fails unless the files of a folder, and no others, have what the store of series has before a second.
#[track_caller]
pub(crate) fn assert_same(folder: &Path, dir: &Path, until: i64) {
    let wanted = stored(dir, until);
    assert_eq!(names(folder), wanted.keys().cloned().collect::<Vec<_>>());
    for (name, wanted) in wanted {
        let found = fetched(&folder.join(&name), "AVERAGE", 1, until);
        let nothing = vec![None; wanted.values().next().map_or(0, Vec::len)];
        for (time, values) in &found {
            let wanted = wanted.get(time).unwrap_or(&nothing);
            let is_same = |(found, wanted): (&Option<f64>, &Option<f64>)| match (found, wanted) {
                (Some(found), Some(wanted)) => (found - wanted).abs() <= wanted.abs() * 1e-9,
                (found, wanted) => found == wanted,
            };
            let second = time - FIRST;
            assert!(values.iter().zip(wanted).all(is_same), "{name} at {second}: {values:?} is not {wanted:?}");
        }
        assert!(wanted.keys().all(|time| found.contains_key(time)), "{name} lacks steps");
    }
}
