//! Nothing in the project points into the machine of whoever wrote it.

use std::path::Path;

use crate::files;
use crate::verdict::Verdict;

/// Top folders of somebody's home or working place. A path below one of them works on one machine only.
const PRIVATE_FOLDERS: &[&str] = &["home", "root", "Users", "work"];

/// Looks for absolute paths below [`PRIVATE_FOLDERS`], and for the place of this very checkout.
pub(crate) fn look(root: &Path) -> anyhow::Result<Verdict> {
    let hint = "use a path relative to the checkout, a temporary folder, or an environment variable";
    let mut verdict = Verdict { hint, ..Verdict::default() };
    let checkout = root.display().to_string();
    let mut texts = 0;
    for path in files::listed(root)? {
        let Some(text) = files::text(root, &path) else { continue };
        texts += 1;
        for (at, line) in text.lines().enumerate() {
            if line.contains(&checkout) || has_private_path(line) {
                verdict.violations.push(format!("{path}:{}: path of a machine: {}", at + 1, line.trim()));
            }
        }
    }
    verdict.seen = format!("{texts} text files");
    Ok(verdict)
}

fn has_private_path(line: &str) -> bool {
    line.match_indices('/').any(|(at, _)| {
        let before = line[..at].chars().next_back().unwrap_or(' ');
        // `$HOME/work`, `../work` and `example.com/home` are relative to something, or no path at all.
        let is_start = !before.is_alphanumeric() && !"._-~}*/".contains(before);
        let mut parts = line[at + 1..].splitn(2, '/');
        let is_private = parts.next().is_some_and(|folder| PRIVATE_FOLDERS.contains(&folder));
        let goes_on =
            parts.next().is_some_and(|rest| rest.starts_with(|c: char| c.is_alphanumeric() || "._".contains(c)));
        is_start && is_private && goes_on
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_paths_are_found() {
        // Put together here, so that this file does not break its own rule.
        for folder in PRIVATE_FOLDERS {
            assert!(has_private_path(&format!("let p = \"/{folder}/jane/data\";")), "{folder}");
            assert!(has_private_path(&format!("/{folder}/.cache")), "{folder}");
        }
    }

    #[test]
    fn other_paths_are_not() {
        for folder in PRIVATE_FOLDERS {
            for before in ["$DIR", "..", "a", "https://example.com"] {
                assert!(!has_private_path(&format!("{before}/{folder}/a")), "{before} {folder}");
            }
            assert!(!has_private_path(&format!("a / {folder} / b")), "{folder}");
        }
        assert!(!has_private_path("/usr/share/a"));
    }
}
