//! Which captures of the corpus are metered.

use std::fs;
use std::path::{Path, PathBuf};

/// One capture in so many is metered, unless `WEIR_ALL_CAPTURES` is set.
const SAMPLE: usize = 8;

/// Whether everything in the corpus is looked at, not only a sample.
pub(crate) fn all_are_asked_for() -> bool {
    std::env::var_os("WEIR_ALL_CAPTURES").is_some() || weir_testkit::pages::are_written()
}

/// Every capture of the corpus by its path in it, in the order of their names; or a sample of them.
pub(crate) fn captures(corpus: &Path) -> Vec<PathBuf> {
    let index = fs::read_to_string(corpus.join("INDEX.tsv")).expect("the index of the corpus");
    let all = index.lines().filter_map(|line| {
        let mut cells = line.split('\t');
        let (path, _, format) = (cells.next()?, cells.next()?, cells.next()?);
        format.trim_start_matches("gz:").starts_with("pcap").then(|| PathBuf::from(path))
    });
    let captures: Vec<_> = all.step_by(if all_are_asked_for() { 1 } else { SAMPLE }).collect();
    assert!(captures.len() > 100, "only {} captures", captures.len());
    captures
}
