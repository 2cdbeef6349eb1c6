//! The files of the workspace as git sees them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

/// Paths relative to the root, `/` between folders: tracked files and new ones that git does not ignore, so that a
/// breach shows before it is committed.
pub(crate) fn listed(root: &Path) -> anyhow::Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("cannot run git\n  hint: install git; the checks read `git ls-files`")?;
    ensure!(
        output.status.success(),
        "git ls-files failed: {}\n  hint: run the checks in a git checkout",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let listing = String::from_utf8_lossy(&output.stdout);
    let mut files: Vec<String> =
        listing.split('\0').filter(|path| !path.is_empty() && root.join(path).is_file()).map(str::to_owned).collect();
    files.sort();
    files.dedup();
    Ok(files)
}

/// The text of a listed file, or `None` when it is not UTF-8 or went away meanwhile.
pub(crate) fn text(root: &Path, path: &str) -> Option<String> {
    std::fs::read_to_string(root.join(path)).ok()
}

/// True when the file's name ends in a dot and `extension`.
pub(crate) fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == extension)
}

/// True for Rust sources that only tests compile: folders `tests`, `benches` and `fuzz`, and modules in `tests.rs`.
pub(crate) fn is_test_source(path: &str) -> bool {
    let mut parts = path.split('/').rev();
    let file = parts.next().unwrap_or_default();
    file == "tests.rs" || file.ends_with("_tests.rs") || parts.any(|part| matches!(part, "tests" | "benches" | "fuzz"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_sources_are_told_by_their_place() {
        assert!(is_test_source("crates/wire/tests/corpus.rs"));
        assert!(is_test_source("crates/wire/src/ipfix/tests.rs"));
        assert!(is_test_source("fuzz/fuzz_targets/ipfix.rs"));
        assert!(!is_test_source("testkit/src/lib.rs"));
        assert!(!is_test_source("crates/wire/src/contests.rs"));
    }
}
