//! Hundreds of filters, by nfdump and by us, over flows that a real nfcapd took from datagrams of our own; and random
//! ones, by a row-by-row reading too. The page `docs/reference/filter-interop.md` tells the outcome.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use jiff::Timestamp;
use weir_filter::{Predicate, parse};
use weir_flow::FlowBatch;

use crate::nfcapd::{APART_MS, Dice, START_MS, collect, rows};
use crate::properties::takes;
use crate::rows::{Row, batch};

const EXPRESSIONS: &str = include_str!("../data/nfdump-1.7.txt");

/// The release that the outcome is about.
const VERSION: &str = "1.7.1";

const ROWS: usize = 1500;

/// What is expected of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Same,
    Differs(&'static str),
    Unread(&'static str),
}

struct Expression {
    section: &'static str,
    filter: &'static str,
    expected: Expected,
}

fn expressions() -> Vec<Expression> {
    let (mut section, mut expected, mut all) = ("", Expected::Same, Vec::new());
    for line in EXPRESSIONS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(title) = line.strip_prefix("== ") {
            section = title;
        } else if let Some(reason) = line.strip_prefix("! ").filter(|_| !is_filter(line)) {
            expected = Expected::Differs(reason);
        } else if let Some(reason) = line.strip_prefix("? ") {
            expected = Expected::Unread(reason);
        } else {
            all.push(Expression { section, filter: line, expected });
            expected = Expected::Same;
        }
    }
    all
}

/// A line that begins with `!` may be a filter.
fn is_filter(line: &str) -> bool {
    parse(line).is_ok()
}

/// Flows in files of nfcapd, and as we see them.
struct Flows {
    folder: PathBuf,
    files: PathBuf,
    rows: Vec<Row>,
    batch: FlowBatch,
}

impl Flows {
    /// `None` when nfdump of the release is not installed.
    fn collect(name: &str) -> Option<Self> {
        let version = Command::new("nfdump").arg("-V").output().ok()?;
        if !String::from_utf8_lossy(&version.stdout).contains(VERSION) {
            return None;
        }
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let rows = rows(ROWS);
        let files = collect(&folder, &rows)?;
        let batch = batch(&rows);
        let flows = Self { folder, files, rows, batch };
        let all = flows.theirs("any").expect("nfdump reads 'any'");
        assert_eq!(all.len(), ROWS, "nfcapd did not keep every flow");
        Some(flows)
    }

    /// Numbers of the flows that nfdump takes; `None` when it does not read the filter.
    fn theirs(&self, filter: &str) -> Option<Vec<usize>> {
        let output = Command::new("nfdump")
            .args(["-q", "-R", path(&self.files), "-o", "fmt:%ts", filter])
            .env("TZ", "UTC")
            .output()
            .expect("nfdump runs");
        if !output.status.success() {
            return None;
        }
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let times = text.lines().filter_map(|line| format!("{}Z", line.trim()).parse::<Timestamp>().ok());
        let mut taken: Vec<usize> =
            times.map(|time| ((time.as_millisecond() - START_MS) / APART_MS) as usize).collect();
        taken.sort_unstable();
        Some(taken)
    }

    fn ours(&self, predicate: &Predicate) -> Vec<usize> {
        let mask = predicate.mask(&self.batch);
        mask.values().iter().enumerate().filter(|(_, taken)| *taken).map(|(row, _)| row).collect()
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn skipped() {
    weir_testkit::skip("nfdump", &format!("nfcapd, or nfdump {VERSION}, is not installed"));
}

#[test]
fn nfdump_takes_what_we_take() {
    let Some(flows) = Flows::collect("interop") else { return skipped() };
    let (mut wrong, mut decisive) = (Vec::new(), 0);
    let mut page = Page::default();
    for Expression { section, filter, expected } in expressions() {
        let predicate = parse(filter).unwrap_or_else(|error| panic!("{}", error.render(filter)));
        let ours = flows.ours(&predicate);
        let theirs = flows.theirs(filter);
        decisive += usize::from(!ours.is_empty() && ours.len() < ROWS);
        let found = match &theirs {
            None => "does not read it".to_owned(),
            Some(theirs) if *theirs == ours => "takes the same".to_owned(),
            Some(theirs) => format!("takes {}", theirs.len()),
        };
        let fits = match expected {
            Expected::Same => theirs.as_ref() == Some(&ours),
            Expected::Differs(_) => theirs.as_ref().is_some_and(|theirs| *theirs != ours),
            Expected::Unread(_) => theirs.is_none(),
        };
        if !fits {
            wrong.push(format!("{filter}: {expected:?}, but nfdump {found}, we take {}", ours.len()));
        }
        page.add(section, filter, expected, &found, ours.len());
    }
    assert!(wrong.is_empty(), "{} filters\n{}", wrong.len(), wrong.join("\n"));
    assert!(decisive > 400, "only {decisive} filters take some flows and leave some");
    page.check();
}

/// The reference page about the outcome.
#[derive(Default)]
struct Page {
    sections: Vec<(&'static str, usize, Vec<&'static str>)>,
    differences: String,
    unread: String,
    same: usize,
}

impl Page {
    fn add(&mut self, section: &'static str, filter: &'static str, expected: Expected, found: &str, ours: usize) {
        if self.sections.last().is_none_or(|(last, ..)| *last != section) {
            self.sections.push((section, 0, Vec::new()));
        }
        match expected {
            Expected::Same => {
                self.same += 1;
                if let Some((_, count, filters)) = self.sections.last_mut() {
                    *count += 1;
                    filters.push(filter);
                }
            }
            Expected::Differs(reason) => {
                let _ = writeln!(self.differences, "| `{filter}` | {found} | takes {ours} | {reason} |");
            }
            Expected::Unread(reason) => {
                let _ = writeln!(self.unread, "| `{filter}` | {reason} |");
            }
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "# Filters by nfdump {VERSION} and by weir\n\nThe filters of `crates/filter/tests/data/nfdump-1.7.txt` were asked of \
             both programs over the same {ROWS} flows,\nwhich a real nfcapd took from NetFlow v9 datagrams: routers of both \
             families with MPLS, pings, translations, a\nfirewall. Of {} filters, {} take the same flows in both. This page is \
             written by the test that asks.\n\n",
            self.same + self.differences.lines().count() + self.unread.lines().count(),
            self.same,
        );
        text.push_str("## Taken differently\n\n| filter | nfdump | weir | why |\n|---|---|---|---|\n");
        text.push_str(&self.differences);
        let _ = write!(text, "\n## Not read by nfdump {VERSION}\n\n| filter | why |\n|---|---|\n{}", self.unread);
        text.push_str("\n## Taken alike\n");
        for (section, count, filters) in &self.sections {
            let filters: Vec<String> = filters.iter().map(|filter| format!("`{filter}`")).collect();
            let _ = write!(text, "\n### {section}: {count}\n\n{}.\n", filters.join(" · "));
        }
        text
    }

    fn check(&self) {
        weir_testkit::pages::check("docs/reference/filter-interop.md", &self.text());
    }
}

/// A random filter of those that both programs take alike.
fn random(dice: &mut Dice, leaves: &[&str], depth: u32) -> String {
    let inner = |dice: &mut Dice| random(dice, leaves, depth - 1);
    match dice.below(if depth == 0 { 1 } else { 5 }) {
        1 => format!("not ({})", inner(dice)),
        2 => format!("({}) and ({})", inner(dice), inner(dice)),
        3 => format!("({}) or ({})", inner(dice), inner(dice)),
        4 => format!("({} or {}) and not {}", dice.pick(leaves), dice.pick(leaves), dice.pick(leaves)),
        _ => dice.pick(leaves).to_owned(),
    }
}

fn has_several_flags(filter: &str) -> bool {
    let words: Vec<&str> = filter.split(' ').collect();
    words.windows(2).any(|pair| pair[0] == "flags" && (pair[1].len() > 1 || pair[1] == "X"))
}

#[test]
fn random_filters_have_one_answer() {
    let Some(flows) = Flows::collect("random") else { return skipped() };
    let all = expressions();
    // What 1.7.1 makes of "not" before several flags is in the list of differences.
    let fits = |filter: &str| !filter.contains('#') && !has_several_flags(filter);
    let alike = all.iter().filter(|expression| expression.expected == Expected::Same && fits(expression.filter));
    let leaves: Vec<&str> = alike.map(|expression| expression.filter).collect();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut decisive = 0;
    for _ in 0..400 {
        let filter = random(&mut dice, &leaves, 4);
        let predicate = parse(&filter).unwrap_or_else(|error| panic!("{}", error.render(&filter)));
        let ours = flows.ours(&predicate);
        let naive: Vec<usize> = (0..ROWS).filter(|row| takes(&predicate, &flows.rows[*row])).collect();
        let theirs = flows.theirs(&filter).unwrap_or_else(|| panic!("nfdump does not read {filter}"));
        let taken = format!("{filter}\nreads as {predicate}\nwe take {}, nfdump {}", ours.len(), theirs.len());
        assert!(ours == naive, "{taken}, row by row {}", naive.len());
        assert!(ours == theirs, "{taken}");
        decisive += usize::from(!ours.is_empty() && ours.len() < ROWS);
    }
    assert!(decisive > 200, "only {decisive} filters take some flows and leave some");
}
