//! Files of a crate do not go round in circles: what uses each other cannot be read one after the other.
//!
//! Circles that were there when the check came are listed in `xtask/circles.txt`, one a line: the crate, then its files.
//! A circle that is not listed is refused, and so is a line of the list whose circle is no more, or is smaller.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;

use crate::crates;
use crate::modules::Modules;
use crate::verdict::Verdict;

/// The circles that are allowed.
const LIST: &str = "xtask/circles.txt";

/// Compares the circles of all crates with the list.
pub(crate) fn look(root: &Path) -> anyhow::Result<Verdict> {
    let hint = "move what both need into a file of its own; never add to xtask/circles.txt, only take from it";
    let listed = std::fs::read_to_string(root.join(LIST)).with_context(|| format!("cannot read {LIST}"))?;
    let listed: BTreeSet<String> =
        listed.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(str::to_owned).collect();
    let (mut found, mut files) = (BTreeSet::new(), 0);
    for (name, sources) in crates::sources(root)? {
        let modules = Modules::new(crates::outside_tests(&sources));
        let edges = modules.edges();
        files += edges.len();
        found.extend(circles(&edges).iter().map(|circle| format!("{name}: {}", circle.join(" "))));
    }
    let seen = format!("{files} files, {} circles, all of them listed", found.len());
    Ok(Verdict { seen, violations: differences(&found, &listed), hint, ..Verdict::default() })
}

/// What is not listed, and what is listed and no more.
fn differences(found: &BTreeSet<String>, listed: &BTreeSet<String>) -> Vec<String> {
    let new = found.difference(listed).map(|circle| format!("new circle   {circle}"));
    let gone = listed.difference(found).map(|circle| format!("no more so   {circle}"));
    new.chain(gone).collect()
}

/// Groups of files that each reach each other, in the order of their names.
fn circles<'a>(edges: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<Vec<&'a str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = edges.keys().map(|&file| (file, reachable(edges, file))).collect();
    let mut placed: BTreeSet<&str> = BTreeSet::new();
    let mut found = Vec::new();
    for (&file, others) in reached.iter().filter(|(file, others)| others.contains(*file)) {
        if placed.contains(file) {
            continue;
        }
        let circle: Vec<&str> = others.iter().copied().filter(|other| reached[other].contains(file)).collect();
        placed.extend(&circle);
        found.push(circle);
    }
    found
}

fn reachable<'a>(edges: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<&str> = edges[from].iter().copied().collect();
    while let Some(file) = waiting.pop() {
        if reached.insert(file) {
            waiting.extend(&edges[file]);
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(edges: &[(&'static str, &[&'static str])], expected: &[&[&str]]) {
        let edges = edges.iter().map(|(from, to)| (*from, to.iter().copied().collect())).collect();
        assert_eq!(circles(&edges), expected);
    }

    #[test]
    fn circles_are_found_whole() {
        check(&[("a", &["b"]), ("b", &["c"]), ("c", &[])], &[]);
        check(&[("a", &["b"]), ("b", &["a"]), ("c", &["a"])], &[&["a", "b"]]);
        check(
            &[("a", &["b"]), ("b", &["c"]), ("c", &["a", "d"]), ("d", &["e"]), ("e", &["d"])],
            &[&["a", "b", "c"], &["d", "e"]],
        );
    }

    #[test]
    fn new_circles_and_stale_lines_are_violations() {
        let set = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect::<BTreeSet<String>>();
        assert!(differences(&set(&["x: a b"]), &set(&["x: a b"])).is_empty());
        assert_eq!(
            differences(&set(&["x: a b"]), &set(&["x: a b c"])),
            ["new circle   x: a b", "no more so   x: a b c"]
        );
    }
}
