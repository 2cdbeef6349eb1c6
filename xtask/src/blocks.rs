//! Components of `crates/blocks` do not know each other.

use std::path::Path;

use crate::crates;
use crate::modules::Modules;
use crate::verdict::Verdict;

/// The crate that is looked at.
const CRATE: &str = "blocks";
/// Its folders of components: each file or folder in one of them is a component.
const FOLDERS: &[&str] = &["sources", "transforms", "sinks"];
/// Files in those folders that are not a component, and may be used by the components of the folder.
const SHARED: &[&str] = &["sources/traffic"];

/// Checks that no component uses another one.
pub(crate) fn look(root: &Path) -> anyhow::Result<Verdict> {
    let hint = "what two components need is a module of its own in crates/blocks/src, or in crates/rows";
    let all = crates::sources(root)?;
    let sources = all.get(CRATE).map(Vec::as_slice).unwrap_or_default();
    let modules = Modules::new(crates::outside_tests(sources));
    let edges = modules.edges();
    let pairs = edges.iter().flat_map(|(from, to)| to.iter().map(move |to| (*from, *to)));
    let violations: Vec<String> = pairs.filter_map(|(from, to)| breach(from, to)).collect();
    let mut components: Vec<&str> = edges.keys().filter_map(|file| component(file)).collect();
    components.dedup();
    Ok(Verdict { seen: format!("{} components", components.len()), violations, hint, ..Verdict::default() })
}

/// What is wrong with an edge between two files.
fn breach(from: &str, to: &str) -> Option<String> {
    let (user, used) = (component(from), component(to)?);
    if SHARED.contains(&used) || user == Some(used) {
        return None;
    }
    user.map(|user| format!("crates/{CRATE}/src/{from}: '{user}' uses '{used}' ({to})"))
}

/// The component that a file belongs to, as `sources/meter`; none for the list of a folder and for shared files of the
/// crate.
fn component(file: &str) -> Option<&str> {
    let (folder, rest) = file.split_once('/')?;
    let name = rest.split('/').next()?.trim_end_matches(".rs");
    (FOLDERS.contains(&folder) && name != "mod").then(|| &file[..=folder.len() + name.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_belong_to_components() {
        assert_eq!(component("sources/meter/routes.rs"), Some("sources/meter"));
        assert_eq!(component("sinks/archive.rs"), Some("sinks/archive"));
        assert_eq!(component("sources/mod.rs"), None);
        assert_eq!(component("plot/axis.rs"), None);
        assert_eq!(component("lib.rs"), None);
    }

    #[test]
    fn components_use_themselves_and_what_is_shared() {
        assert_eq!(breach("sources/meter/routes.rs", "sources/meter.rs"), None);
        assert_eq!(breach("sources/meter.rs", "row_file.rs"), None);
        assert_eq!(breach("sources/mod.rs", "sources/meter.rs"), None);
        assert_eq!(breach("sources/generator.rs", "sources/traffic.rs"), None);
        let found = breach("sources/meter/routes.rs", "transforms/enrich/ranges.rs").expect("a breach");
        assert!(found.contains("'sources/meter' uses 'transforms/enrich'"), "{found}");
    }
}
