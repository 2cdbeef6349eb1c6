//! The reference pages that are generated from tables in the code.
//!
//! To add a page, write its function and add a line to [`PAGES`].

mod columns;

use std::path::Path;

use anyhow::Context;

use crate::verdict::Verdict;

/// A generated page: its path, and the function that writes its text.
struct Page {
    path: &'static str,
    render: fn() -> String,
}

/// Every generated page. The reference of the command line joins it once the binary can print it.
const PAGES: &[Page] = &[Page { path: "docs/reference/columns.md", render: columns::render }];

/// Checks that each page on disk is what its function writes now.
pub(crate) fn look(root: &Path) -> anyhow::Result<Verdict> {
    let hint = "run `cargo xtask docs` and commit what it writes";
    let mut verdict = Verdict { seen: format!("{} generated pages", PAGES.len()), hint, ..Verdict::default() };
    for Page { path, render } in PAGES {
        if !root.join(path).exists() {
            verdict.violations.push(format!("{path} is missing"));
        } else if std::fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))? != render() {
            verdict.violations.push(format!("{path} is stale"));
        }
    }
    Ok(verdict)
}

/// Writes every page.
pub(crate) fn write(root: &Path) -> anyhow::Result<()> {
    for page in PAGES {
        let path = root.join(page.path);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        std::fs::write(&path, (page.render)()).with_context(|| format!("cannot write {}", path.display()))?;
        println!("{:<14} wrote   {}", "docs", page.path);
    }
    Ok(())
}
