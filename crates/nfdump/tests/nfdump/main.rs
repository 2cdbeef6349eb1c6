//! Command lines, by nfdump and by `weir nfdump` over the same files, octet by octet: 1.7.1 is installed and asked, of
//! 1.7.8 there are captured outputs. The page `docs/reference/nfdump.md` reports the outcome.
//!
//! The lines are in `tests/data/nfdump-1.7.txt`, why 1.7.8 differs in `tests/data/nfdump-1.7.8.txt`. What is evened out before the comparison: how long it took and how
//! many octets were read (nfdump counts what it decompressed); and, where a line says so, the order of rows that tie.

mod captured;
mod files;
mod page;
mod places;
mod releases;

// the flows that both programs read
#[allow(dead_code)]
#[path = "../../../filter/tests/filter/nfcapd.rs"]
mod nfcapd;
#[allow(dead_code)]
#[path = "../../../filter/tests/filter/rows.rs"]
mod rows;

use std::path::Path;
use std::process::{Command, Output};

use files::Files;
use page::Comparison;

/// The release that is asked.
const VERSION: &str = "1.7.1";

/// What is expected of a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    Same,
    /// Why the outputs differ.
    Differs(&'static str),
}

/// A command line, as it stands in the list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub(crate) section: &'static str,
    pub(crate) text: &'static str,
    pub(crate) expected: Expected,
    order: Order,
}

/// What is compared of the order of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Rows,
    /// Rows may stand in any order, but values of this field, counted from the end, stand in one.
    Field(usize),
    None,
}

/// Sections begin with `== `, a reason with `! `; `~ ` before a line takes its rows in any order, `~N ` those that tie
/// in the Nth field from the end.
fn lines() -> Vec<Line> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/nfdump-1.7.txt");
    let text: &'static str = std::fs::read_to_string(path).expect("the list").leak();
    let (mut section, mut expected, mut all) = ("", Expected::Same, Vec::new());
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(title) = line.strip_prefix("== ") {
            (section, expected) = (title, Expected::Same);
        } else if let Some(reason) = line.strip_prefix("! ") {
            expected = if reason.is_empty() { Expected::Same } else { Expected::Differs(reason) };
        } else {
            let (order, text) = match line.strip_prefix('~').and_then(|line| line.split_once(' ')) {
                Some((field, line)) => (field.parse().map_or(Order::None, Order::Field), line),
                None => (Order::Rows, line),
            };
            all.push(Line { section, text, expected, order });
        }
    }
    all
}

/// Words of a command line; single quotes keep blanks.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (number, part) in line.split('\'').enumerate() {
        if number % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// What a program said and how it ended.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    is_success: bool,
    lines: Vec<String>,
    /// The field by which rows are sorted.
    sorted_by: Vec<String>,
    is_told: bool,
}

impl Outcome {
    fn of(output: &Output, order: Order) -> Self {
        let text = String::from_utf8_lossy(&output.stdout);
        let mut lines: Vec<String> = text.lines().map(evened).collect();
        let sorted_by = Self::sorted_by(&lines, order);
        if order != Order::Rows {
            lines.sort();
        }
        Self { is_success: output.status.success(), lines, sorted_by, is_told: !output.stderr.is_empty() }
    }

    /// The values by which rows are sorted.
    fn sorted_by(lines: &[String], order: Order) -> Vec<String> {
        let Order::Field(field) = order else { return Vec::new() };
        let rows = lines.iter().filter(|line| line.starts_with("20") && !line.contains(" - 20"));
        let value = |line: &String| {
            let line = line.replace("( ", "(");
            line.split_whitespace().rev().nth(field - 1).unwrap_or_default().to_owned()
        };
        rows.map(value).map(|value| value.split('(').next().unwrap_or_default().to_owned()).collect()
    }

    /// Whether both answered alike, or both refused and said so.
    fn is_as(&self, other: &Self) -> bool {
        match (self.is_success, other.is_success) {
            (true, true) => (&self.lines, &self.sorted_by) == (&other.lines, &other.sorted_by),
            (false, false) => self.is_told && other.is_told,
            _ => false,
        }
    }
}

/// A line without what depends on the machine.
fn evened(line: &str) -> String {
    if line.starts_with("Sys: ") {
        return "Sys: …".to_owned();
    }
    match line.split_once("Bytes read: ") {
        Some((before, _)) => format!("{before}Bytes read: …"),
        None => line.to_owned(),
    }
}

/// The program of this crate.
fn weir_nfdump() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir-nfdump"))
}

fn run(mut program: Command, folder: &Path, line: &Line) -> Outcome {
    let program = program.args(words(line.text)).env("TZ", "UTC").env_remove("NFCONF").env_remove("WEIR_NFDUMP_AS");
    let output = program.current_dir(folder).output();
    Outcome::of(&output.expect("the program runs"), line.order)
}

/// The first lines in which both differ.
fn difference(theirs: &Outcome, ours: &Outcome) -> String {
    let end = |outcome: &Outcome| if outcome.is_success { "succeeds" } else { "fails" };
    let pairs = theirs.lines.iter().zip(&ours.lines).find(|(theirs, ours)| theirs != ours);
    let (a, b) = pairs.map_or(("", ""), |(a, b)| (a.as_str(), b.as_str()));
    let (m, n) = (theirs.lines.len(), ours.lines.len());
    format!("  nfdump {}, {m} lines: {a}\n  weir   {}, {n} lines: {b}", end(theirs), end(ours))
}

/// The program of this crate, as a release.
fn weir_as(release: &str) -> Command {
    let mut command = weir_nfdump();
    command.args(["--as", release]);
    command
}

/// Asks nfdump 1.7.1; `None` when it is not there. Adds the lines that are not as expected to `wrong`.
fn compare_with_1_7_1(all: &[Line], wrong: &mut Vec<String>) -> Option<Comparison> {
    let files = Files::make(VERSION)?;
    let mut comparison = Comparison::of(VERSION);
    for line in all {
        let theirs = run(Command::new("nfdump"), files.folder(), line);
        let ours = run(weir_as(VERSION), files.folder(), line);
        if theirs.is_as(&ours) != (line.expected == Expected::Same) {
            let what = difference(&theirs, &ours);
            wrong.push(format!("{VERSION} {} ({:?})\n{what}", line.text, line.expected));
        }
        comparison.add(line);
    }
    Some(comparison)
}

/// Compares with what nfdump 1.7.8 answered; `None` without the captured outputs.
fn compare_with_1_7_8(all: &[Line], wrong: &mut Vec<String>) -> Option<Comparison> {
    const CAPTURED: &str = "1.7.8";
    let (captured, folder) = captured::captured()?;
    let differences = captured::differences();
    let mut comparison = Comparison::of(CAPTURED);
    for theirs in &captured {
        let line = theirs.line(all, &differences);
        let ours = run(weir_as(CAPTURED), &folder, &line);
        if theirs.is_as(&ours, line.order) != (line.expected == Expected::Same) {
            wrong.push(format!("{CAPTURED} {} ({:?})\n{}", line.text, line.expected, theirs.difference(&ours)));
        }
        comparison.add(&line);
    }
    let strays = differences.iter().filter(|(text, _)| captured.iter().all(|theirs| theirs.text != *text));
    wrong.extend(strays.map(|(text, _)| format!("{text} is listed, and was not captured")));
    Some(comparison)
}

#[test]
fn nfdump_answers_as_nfdump() {
    let all = lines();
    assert!(all.len() >= 100, "only {} lines", all.len());
    let mut wrong = Vec::new();
    let (live, captured) = (compare_with_1_7_1(&all, &mut wrong), compare_with_1_7_8(&all, &mut wrong));
    assert!(wrong.is_empty(), "{} lines\n{}", wrong.len(), wrong.join("\n"));
    if let (Some(live), Some(captured)) = (live, captured) {
        page::check(&[captured, live]);
    }
}

/// What is not nfdump's business to say: errors name the thing, and the exit status is nfdump's.
#[test]
fn nfdump_errors_name_the_thing() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("text"), "no flows").expect("written");
    let check = |arguments: &str, told: &str| {
        let output =
            weir_nfdump().args(words(arguments)).current_dir(folder.path()).output().expect("the program runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let status = if arguments.contains("'proto") { 254 } else { 255 };
        assert_eq!(output.status.code(), Some(status), "{arguments}: {error}");
        assert!(error.contains(told) && output.stdout.is_empty(), "{arguments}: {error}");
    };
    check("-r nothing", "nothing");
    check("-r text", "text is not an nfcapd file");
    weir_testkit::write_capture(&folder.path().join("packets.pcap"), []);
    check("-r packets.pcap", "packets.pcap is not an nfcapd file\nhint: weir meter makes flows of packets, ");
    check("-f nothing -r text", "cannot read the filter of nothing");
    check("-k", "unexpected argument '-k'");
    check("-r text 'proto nonsense'", "nonsense");
    check("-r text -s nonsense", "'nonsense' is no key of a statistic");
    check("-r text -A nonsense", "'nonsense' is no key of an aggregation");
    check("-r text -O nonsense", "'nonsense' is not an order");
    check("-r text -o nonsense", "unknown output mode 'nonsense'");
    check("-r text -t nonsense", "'nonsense' is not a time");
    check("-r text -t +60", "'+60' is not a time");
    check("-r text -t 2026/11/22.10:00-2026/11/22.10:00", "no flow is inside");
}
