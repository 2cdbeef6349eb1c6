//! The reference chain of Kögel and Scholz: what is planted comes out, whatever the threads and bursts.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use weir_chain::{Chain, ChainError, Progress, Setting};
use weir_generate::{RouterPair, Truth};

const REFERENCE: &str = include_str!("../../../../chains/joined-flow-comparison.toml");
const CONVERSATIONS: u64 = 12_000;
const SEED: u64 = 11;
const BLOCKS: [&str; 16] = [
    "reader1",
    "sorter1",
    "joiner1",
    "jfsorter1",
    "reader2",
    "sorter2",
    "joiner2",
    "jfsorter2",
    "comparison",
    "sorter",
    "delay",
    "loss",
    "octets",
    "delay-csv",
    "loss-csv",
    "octets-csv",
];
const OUTPUTS: [&str; 3] = ["delay.csv", "loss.csv", "octets.csv"];

fn run(text: &str, folder: &Path, settings: &[String]) -> (Progress, Result<(), ChainError>) {
    let settings: Vec<_> = settings.iter().map(|text| Setting::parse(text).expect("a setting")).collect();
    let chain = Chain::parse(text, folder, &weir_blocks::registry(), &settings);
    let chain = chain.unwrap_or_else(|errors| panic!("{}", errors[0]));
    chain.start().expect("started").wait()
}

/// Archives of two routers, with more than one segment each.
fn archives(folder: &Path) {
    let mut text = String::new();
    for router in [1, 2] {
        let _ = write!(
            text,
            "[components.router{router}]\ntype = \"router-generator\"\nrouter = {router}\nconversations = {CONVERSATIONS}\n\
             seed = {SEED}\nconversations_per_second = 50\n\
             [components.archive{router}]\ntype = \"archive\"\ninputs = [\"router{router}\"]\n\
             archive = \"two-routers/router{router}\"\nsegment_rows = 5000\n"
        );
    }
    run(&text, folder, &[]).1.expect("archives");
}

fn truth() -> Truth {
    let pair = RouterPair { conversations_per_second: 50, ..RouterPair::new(SEED) };
    pair.truth(CONVERSATIONS).expect("routers")
}

/// Runs the reference chain and returns what it wrote.
fn compare(folder: &Path, settings: &[String]) -> [String; 3] {
    let (progress, ended) = run(REFERENCE, folder, settings);
    ended.expect("no failure");
    for component in &progress.components {
        assert_eq!((component.counter("rows_late_dropped"), component.counter("rows_late")), (0, 0), "{component:?}");
    }
    OUTPUTS.map(|name| fs::read_to_string(folder.join(name)).expect("written"))
}

/// The one row of a CSV file, by the names of its columns.
fn row(csv: &str) -> BTreeMap<&str, &str> {
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!(lines.len(), 2, "{csv}");
    lines[0].split(',').zip(lines[1].split(',')).collect()
}

fn number(row: &BTreeMap<&str, &str>, name: &str) -> i64 {
    row[name].parse().unwrap_or_else(|_| panic!("{name} is {}", row[name]))
}

fn histogram(text: &str) -> BTreeMap<u64, u64> {
    let pairs = text.split(' ').map(|pair| pair.split_once(':').expect("value:count"));
    pairs.map(|(value, count)| (value.parse().expect("a value"), count.parse().expect("a count"))).collect()
}

#[test]
fn what_is_planted_comes_out() {
    let folder = tempfile::tempdir().expect("a folder");
    archives(folder.path());
    let truth = truth();
    let [delay, loss, octets] = compare(folder.path(), &[]);
    let delay = row(&delay);
    assert_eq!(number(&delay, "count"), truth.seen_by_both as i64, "all conversations that both saw are matched");
    assert_eq!(number(&delay, "sum"), truth.start_differences.sum_ms() as i64);
    let found = histogram(delay["histogram"]);
    let planted = &truth.start_differences.counts;
    // a conversation whose first packet was lost begins later than the delay; beyond the last bucket they are one
    let last = 65_535;
    assert_eq!(found.range(..last).collect::<Vec<_>>(), planted.range(..last).collect::<Vec<_>>());
    let beyond: u64 = planted.range(last..).map(|(_, count)| count).sum();
    assert_eq!(found.get(&last).copied().unwrap_or(0), beyond);
    let lost = row(&loss);
    assert_eq!(number(&lost, "sum"), truth.packets_lost_seen_by_both as i64);
    assert_eq!(histogram(lost["histogram"])[&0], truth.seen_by_both - truth.conversations_with_loss);
    assert_eq!(number(&row(&octets), "sum"), truth.byte_difference);
    assert!(truth.conversations_with_loss > 100 && truth.first_packets_lost > 10 && truth.only_first > 10, "{truth}");
}

#[test]
fn any_threads_and_any_bursts_give_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    archives(folder.path());
    let expected = compare(folder.path(), &[]);
    let all = |thread: &str| BLOCKS.map(|block| format!("{block}.thread={thread}")).to_vec();
    let readers = |readers: usize| [1, 2].map(|side| format!("reader{side}.readers={readers}")).to_vec();
    let crossed =
        ["reader1.thread=x", "reader2.thread=x", "joiner1.thread=y", "joiner2.thread=z", "comparison.thread=own"];
    let assignments =
        [[all("one"), readers(0)].concat(), [all("own"), readers(2)].concat(), crossed.map(str::to_owned).to_vec()];
    for assignment in assignments {
        for (burst, queue) in [(0, 2), (1, 1), (37, 3), (10_000, 100)] {
            let sizes = [format!("burst_records={burst}"), format!("queue_bursts={queue}")];
            let settings = [assignment.clone(), sizes.to_vec()].concat();
            assert!(compare(folder.path(), &settings) == expected, "{settings:?}");
        }
    }
}

#[test]
fn windows_that_are_too_small_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    archives(folder.path());
    // records come up to 15 s after their flow's end, so 2 s lose some: each is counted where it is lost
    let settings = ["sorter1.window=2s".to_owned()];
    let (progress, ended) = run(REFERENCE, folder.path(), &settings);
    ended.expect("no failure");
    let [sorter, joiner] = ["sorter1", "joiner1"].map(|name| progress.component(name).expect("a block"));
    let late = sorter.counter("rows_late_dropped");
    assert!(late > 0 && sorter.rows_in == joiner.rows_in + late, "{progress:?}");
}

#[test]
fn a_source_that_fails_midway_is_named_and_what_was_written_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    archives(folder.path());
    // the last segment of the second router is damaged; what comes before it was read
    let mut segments: Vec<_> = walk(&folder.path().join("two-routers/router2/flows"));
    segments.sort();
    let last = segments.last().expect("a segment");
    let octets = fs::metadata(last).expect("a file").len();
    fs::File::options().write(true).open(last).and_then(|file| file.set_len(octets / 2)).expect("cut");
    let (progress, ended) = run(REFERENCE, folder.path(), &[]);
    let error = ended.expect_err("a failure");
    assert!(matches!(&error, ChainError::Failed { component, .. } if component == "reader2"), "{error}");
    let name = last.file_name().expect("a name").to_string_lossy().into_owned();
    let told = std::error::Error::source(&error).map(|source| format!("{source:?}")).unwrap_or_default();
    assert!(told.contains(&name), "{told}");
    assert!(progress.components.iter().all(|component| component.ended));
    for output in OUTPUTS {
        let csv = fs::read_to_string(folder.path().join(output)).expect("written all the same");
        assert_eq!(csv.lines().count(), 2);
    }
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}
