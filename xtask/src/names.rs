//! Names say what a thing is for: no crate, module or file is named after nothing.

use std::path::Path;

use crate::files;
use crate::source::Source;
use crate::verdict::Verdict;

/// Names that would fit any content, so they tell nothing of theirs.
const REFUSED: &[&str] = &["util", "utils", "common", "helper", "helpers", "core", "types", "misc"];

/// Looks at folders, files, inline modules and package names.
pub(crate) fn look(root: &Path) -> anyhow::Result<Verdict> {
    let hint = "name it after what it does; what has no name yet stays private beside its caller";
    let mut verdict = Verdict { hint, ..Verdict::default() };
    let mut names = 0;
    for path in files::listed(root)? {
        let is_manifest = path.ends_with("Cargo.toml");
        if !is_manifest && !files::has_extension(&path, "rs") {
            continue;
        }
        let text = files::text(root, &path).unwrap_or_default();
        let found = if is_manifest { package_names(&text) } else { module_names(&path, &text) };
        names += found.len();
        for (name, line) in found.into_iter().filter(|(name, _)| is_refused(name)) {
            verdict.violations.push(format!("{path}:{line}: the name '{name}' says nothing"));
        }
    }
    verdict.seen = format!("{names} names of crates and modules");
    Ok(verdict)
}

/// A name is refused when it, or its last word (`weir-util`, `wire_types`), is on the list.
fn is_refused(name: &str) -> bool {
    let last = name.rsplit(['-', '_']).next().unwrap_or(name);
    REFUSED.contains(&last)
}

fn package_names(manifest: &str) -> Vec<(String, usize)> {
    let lines = manifest.lines().enumerate();
    lines
        .filter_map(|(at, line)| Some((line.strip_prefix("name = \"")?.trim_end_matches('"').to_owned(), at + 1)))
        .collect()
}

/// The parts of the file's path and the modules inside; `mod x;` and the file `x.rs` are one name twice, which only
/// matters for the count.
fn module_names(path: &str, text: &str) -> Vec<(String, usize)> {
    let stems = path.trim_end_matches(".rs").split('/').map(|part| (part.to_owned(), 1));
    stems.chain(Source::new(text).modules()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_say_nothing_are_refused() {
        for name in ["util", "weir-util", "common", "wire_types", "misc"] {
            assert!(is_refused(name), "{name}");
        }
        for name in ["score", "commons_register", "weir-wire", "typesetting", "wire"] {
            assert!(!is_refused(name), "{name}");
        }
    }

    #[test]
    fn names_are_found_in_paths_sources_and_manifests() {
        let names = |found: Vec<(String, usize)>| found.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(
            names(module_names("a/tests/common/mod.rs", "mod misc {}")),
            ["a", "tests", "common", "mod", "misc"]
        );
        assert_eq!(names(package_names("[package]\nname = \"weir-util\"\n")), ["weir-util"]);
    }
}
