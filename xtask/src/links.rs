//! Links between documents lead somewhere.

use std::path::Path;

use crate::files;
use crate::verdict::Verdict;

/// Checks that each relative link of a Markdown file names a file or folder; addresses of the web are not looked at.
pub(crate) fn look(root: &Path) -> anyhow::Result<Verdict> {
    let hint = "mend the link, or write the page";
    let mut verdict = Verdict { hint, ..Verdict::default() };
    let mut links = 0;
    for path in files::listed(root)?.iter().filter(|path| files::has_extension(path, "md")) {
        let Some(text) = files::text(root, path) else { continue };
        let folder = root.join(path).parent().map_or_else(|| root.to_path_buf(), Path::to_path_buf);
        for target in targets(&text) {
            links += 1;
            if !folder.join(target).exists() {
                verdict.violations.push(format!("{path}: no file at '{target}'"));
            }
        }
    }
    verdict.seen = format!("{links} links between documents");
    Ok(verdict)
}

/// Targets of `[text](target)`, without fragments, addresses of the web, and what stands in code.
fn targets(text: &str) -> Vec<&str> {
    let mut in_code = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        let pieces = line.split("](").skip(1).filter(|_| !in_code);
        let paths = pieces.filter_map(|piece| piece.split_once(')')).map(|(target, _)| target);
        let paths = paths.map(|target| target.split('#').next().unwrap_or_default());
        found.extend(paths.filter(|target| !target.is_empty() && !target.contains(':')));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_targets_are_found() {
        let text = "[a](b.md), [c](../d.md#e) and [f](https://example.com)\n```\n[g](h)\n```\n[i](#j) [k](l/)";
        assert_eq!(targets(text), ["b.md", "../d.md", "l/"]);
    }
}
