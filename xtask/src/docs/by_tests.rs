//! Pages that tests write.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

/// Asks tests to write their pages (`weir_testkit::pages`).
const WRITE: &str = "WEIR_WRITE_DOCS";
/// Names the file that tests append to what they skipped (`weir_testkit::skip`).
const SKIPPED: &str = "WEIR_SKIPPED_LIST";

/// Tests of one binary that write pages.
struct ByTests {
    /// Arguments of `cargo test` that choose the binary.
    binary: &'static [&'static str],
    /// Names of the tests, as filters.
    tests: &'static [&'static str],
    pages: &'static [&'static str],
    /// Whether the binary takes the query engine, which compiles for about 20 minutes.
    needs_engine: bool,
}

/// Every test that writes pages; cheap ones first.
const BY_TESTS: &[ByTests] = &[
    ByTests {
        binary: &["-p", "weir-filter", "--test", "filter"],
        tests: &["reference::the_reference_page_is_fresh", "interop::nfdump_takes_what_we_take"],
        pages: &["docs/reference/filter.md", "docs/reference/filter-interop.md"],
        needs_engine: false,
    },
    ByTests {
        binary: &["-p", "weir-blocks", "--test", "blocks"],
        tests: &["reference::the_page_is_fresh"],
        pages: &["docs/reference/components.md"],
        needs_engine: false,
    },
    ByTests {
        binary: &["-p", "weir-collect", "--test", "interop"],
        tests: &["the_report_is_fresh"],
        pages: &["docs/reference/interop.md"],
        needs_engine: false,
    },
    ByTests {
        binary: &["-p", "weir-meter", "--test", "interop"],
        tests: &["the_page_is_fresh"],
        pages: &["docs/reference/metering-interop.md"],
        needs_engine: false,
    },
    ByTests {
        binary: &["-p", "weir-meter", "--test", "applications"],
        tests: &["ndpi_agrees_and_the_page_is_fresh"],
        pages: &["docs/reference/applications.md"],
        needs_engine: false,
    },
    ByTests {
        binary: &["-p", "weir-nfdump", "--test", "nfdump"],
        tests: &["nfdump_answers_as_nfdump"],
        pages: &["docs/reference/nfdump.md"],
        needs_engine: false,
    },
    ByTests {
        binary: &["--release", "-p", "weir-watch", "--test", "watch"],
        tests: &["page::the_page_is_fresh"],
        pages: &["docs/reference/watch.md"],
        needs_engine: true,
    },
    ByTests {
        binary: &["--release", "-p", "weir", "--test", "weir"],
        tests: &["the_reference_of_the_command_line_is_fresh", "guides::", "detection::", "planted::"],
        pages: &["docs/reference/cli.md", "docs/reference/detection.md", "docs/reference/planted.md"],
        needs_engine: true,
    },
];

/// Paths of all pages that tests write.
pub(super) fn pages() -> impl Iterator<Item = &'static str> {
    BY_TESTS.iter().flat_map(|tests| tests.pages).copied()
}

/// Runs the tests that write pages, and reports what they could not write.
pub(super) fn write(root: &Path, is_fast: bool) -> anyhow::Result<()> {
    let list = std::env::temp_dir().join(format!("weir-docs-skipped-{}", std::process::id()));
    let mut failed = Vec::new();
    for tests in BY_TESTS {
        if is_fast && tests.needs_engine {
            println!("{:<14} left    {} (--fast)", "docs", tests.pages.join(" "));
        } else if run(root, tests, &list)? {
            println!("{:<14} wrote   {}", "docs", tests.pages.join(" "));
        } else {
            failed.push(format!("cargo test {}", tests.binary.join(" ")));
        }
    }
    let skipped = std::fs::read_to_string(&list).unwrap_or_default();
    if !skipped.is_empty() {
        std::fs::remove_file(&list).with_context(|| format!("cannot remove {}", list.display()))?;
        println!("note: some pages stay as they were, because their tests were skipped:\n{}", skipped.trim_end());
    }
    ensure!(failed.is_empty(), "tests that write pages failed: {}", failed.join("; "));
    Ok(())
}

fn run(root: &Path, tests: &ByTests, list: &Path) -> anyhow::Result<bool> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["test", "--quiet"]).args(tests.binary).arg("--").args(tests.tests);
    command.env(WRITE, "1").env(SKIPPED, list).current_dir(root);
    Ok(command.status().context("cannot run cargo test")?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_is_written_by_one_test() {
        let mut all: Vec<&str> = pages().collect();
        all.sort_unstable();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
