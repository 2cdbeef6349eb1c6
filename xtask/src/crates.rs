//! The sources of each crate, for checks that look at a crate as a whole.

use std::collections::BTreeMap;
use std::path::Path;

use crate::files;

/// A source of a crate: its path below `src`, and its text.
pub(crate) type SourceFile = (String, String);

/// Sources of every crate by its folder below `crates` or `adapters`, those that only tests compile included.
pub(crate) fn sources(root: &Path) -> anyhow::Result<BTreeMap<String, Vec<SourceFile>>> {
    let mut crates: BTreeMap<String, Vec<SourceFile>> = BTreeMap::new();
    for path in files::listed(root)? {
        let below = path.strip_prefix("crates/").or_else(|| path.strip_prefix("adapters/"));
        let Some((name, file)) = below.and_then(|rest| rest.split_once("/src/")) else { continue };
        if !files::has_extension(file, "rs") {
            continue;
        }
        if let Some(text) = files::text(root, &path) {
            crates.entry(name.to_owned()).or_default().push((file.to_owned(), text));
        }
    }
    Ok(crates)
}

/// Those that are not only compiled by tests.
pub(crate) fn outside_tests(sources: &[SourceFile]) -> impl Iterator<Item = (&str, &str)> {
    let sources = sources.iter().map(|(file, text)| (file.as_str(), text.as_str()));
    sources.filter(|(file, _)| !files::is_test_source(file))
}
