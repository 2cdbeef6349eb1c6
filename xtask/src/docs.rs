//! The pages of the documentation that are generated.
//!
//! `cargo xtask docs` writes all of them. Those of [`PAGES`] are made here, so that a check of them costs nothing. Those
//! of [`by_tests`] are made by tests, which know the answers of other programs or have the command line at hand; such a
//! test compares its page whenever it runs, and writes it when the environment asks for it.

mod by_tests;
mod columns;
mod crates_tables;

use std::path::Path;

use anyhow::Context;

use crate::verdict::Verdict;

/// A generated page: its path, and the function that makes its text of the one on disk.
struct Page {
    path: &'static str,
    render: fn(&Path, &str) -> anyhow::Result<String>,
}

/// Pages that are made without a test.
const PAGES: &[Page] = &[
    Page { path: "docs/reference/columns.md", render: |_, _| Ok(columns::render()) },
    Page { path: "README.md", render: crates_tables::readme },
    Page { path: "ARCHITECTURE.md", render: crates_tables::code_map },
];

/// Checks that each page on disk is what its function writes now. Tests check the others.
pub(crate) fn look(root: &Path) -> anyhow::Result<Verdict> {
    let hint = "run `cargo xtask docs` and commit what it writes";
    let seen = format!("{} generated pages; tests check {} more", PAGES.len(), by_tests::pages().count());
    let mut verdict = Verdict { seen, hint, ..Verdict::default() };
    for Page { path, render } in PAGES {
        if !root.join(path).exists() {
            verdict.violations.push(format!("{path} is missing"));
            continue;
        }
        let committed = read(root, path)?;
        if committed != render(root, &committed)? {
            verdict.violations.push(format!("{path} is stale"));
        }
    }
    let missing = by_tests::pages().filter(|path| !root.join(path).exists());
    verdict.violations.extend(missing.map(|path| format!("{path} is missing")));
    Ok(verdict)
}

/// Writes every page. With `is_fast` those stay as they are whose tests compile the query engine.
pub(crate) fn write(root: &Path, is_fast: bool) -> anyhow::Result<()> {
    for Page { path, render } in PAGES {
        let committed = if root.join(path).exists() { read(root, path)? } else { String::new() };
        let page = root.join(path);
        if let Some(folder) = page.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        std::fs::write(&page, render(root, &committed)?).with_context(|| format!("cannot write {path}"))?;
        println!("{:<14} wrote   {path}", "docs");
    }
    by_tests::write(root, is_fast)
}

fn read(root: &Path, path: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))
}
