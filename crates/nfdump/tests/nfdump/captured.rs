//! What nfdump 1.7.8 answered, captured where it was installed: no system has both releases.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use super::{Expected, Line, Order, Outcome, evened};

/// A command line, and what nfdump 1.7.8 printed.
pub(super) struct Captured {
    pub(super) text: String,
    status: i64,
    output: String,
    /// The output is longer than what was kept of it.
    is_cut: bool,
}

/// The captured outputs, and the folder with the files; `None` without the corpus.
pub(super) fn captured() -> Option<(Vec<Captured>, PathBuf)> {
    let folder = weir_testkit::corpus()?.join("_derived/nfdump-1.7.8");
    let Ok(text) = std::fs::read_to_string(folder.join("commands.ndjson")) else {
        weir_testkit::skip("corpus", "it has no outputs of nfdump 1.7.8");
        return None;
    };
    let captured = text.lines().map(|line| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        Captured {
            text: line["args"].as_str().expect("a command line").to_owned(),
            status: line["rc"].as_i64().expect("a status"),
            output: line["stdout"].as_str().expect("an output").to_owned(),
            is_cut: line["stdout_cut"] == true,
        }
    });
    Some((captured.collect(), folder.join("files")))
}

/// Why answers differ from those of 1.7.8, by command line: a list like that of the command lines.
pub(super) fn differences() -> Vec<(&'static str, &'static str)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/nfdump-1.7.8.txt");
    let text: &'static str = std::fs::read_to_string(path).expect("the list").leak();
    let (mut reason, mut all) = ("", Vec::new());
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix("! ") {
            Some(other) => reason = other,
            None => all.push((line, reason)),
        }
    }
    all
}

impl Captured {
    /// The line of the list that this is, or one of its own; with what is expected of it.
    pub(super) fn line(&self, lines: &[Line], differences: &[(&'static str, &'static str)]) -> Line {
        let known = lines.iter().find(|line| line.text == self.text);
        let reason = differences.iter().find(|(text, _)| *text == self.text).map(|(_, reason)| *reason);
        Line {
            section: known.map_or("Others", |line| line.section),
            text: self.text.clone().leak(),
            expected: reason.map_or(Expected::Same, Expected::Differs),
            order: known.map_or(Order::Rows, |line| line.order),
        }
    }

    /// Whether ours is the same; of an output that is cut, as far as it goes.
    pub(super) fn is_as(&self, ours: &Outcome, order: Order) -> bool {
        if self.status != 0 || !ours.is_success {
            return (self.status == 0) == ours.is_success && ours.is_told;
        }
        let mut theirs: Vec<String> = self.output.lines().map(evened).collect();
        if !self.is_cut {
            if order != Order::Rows {
                theirs.sort();
            }
            return theirs == ours.lines && self.sorted_by(order) == ours.sorted_by;
        }
        theirs.pop();
        if order == Order::Rows {
            ours.lines.starts_with(&theirs)
        } else {
            let ours: BTreeSet<&String> = ours.lines.iter().collect();
            theirs.iter().all(|line| ours.contains(line))
        }
    }

    /// The values by which rows are sorted.
    fn sorted_by(&self, order: Order) -> Vec<String> {
        Outcome::sorted_by(&self.output.lines().map(evened).collect::<Vec<_>>(), order)
    }

    /// The first lines in which both differ.
    pub(super) fn difference(&self, ours: &Outcome) -> String {
        let mut theirs: Vec<String> = self.output.lines().map(evened).collect();
        if !ours.sorted_by.is_empty() {
            theirs.sort();
        }
        let pair = theirs.iter().zip(&ours.lines).find(|(theirs, ours)| theirs != ours);
        let (a, b) = pair.map_or(("", ""), |(a, b)| (a.as_str(), b.as_str()));
        let (m, n) = (theirs.len(), ours.lines.len());
        format!(
            "  nfdump ends with {}, {m} lines: {a}\n  weir succeeds: {}, {n} lines: {b}",
            self.status, ours.is_success
        )
    }
}
