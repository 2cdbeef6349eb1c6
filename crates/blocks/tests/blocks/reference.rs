//! The reference page is made of the tables of the kinds.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use weir_chain::reference;

const HEAD: &str = "# Components

What chains are made of: every kind of source, transform and sink with its parameters. `weir chain kinds NAME` prints the
same. Besides its own parameters every component has these keys:

| key | meaning | default |
| --- | --- | --- |
| `type` | kind of component | must be given |
| `inputs` | the components that feed it: a list, or a table by the names of its inputs | must be given, but for sources |
| `thread` | `own`, `upstream`, or the name of a thread that components share | own for sources and transforms with several inputs, else upstream |
| `burst_records` | rows of a burst in the queue before it, 0 for as they come | that of the chain, 2048 |
| `queue_bursts` | bursts that the queue before it holds | that of the chain, 100 |

The chain has the keys `name`, `burst_records` and `queue_bursts`.

<!-- generated from the kinds by `cargo xtask docs` -->

";

#[test]
fn the_page_is_fresh() {
    let pages = reference::pages(&weir_blocks::registry());
    let expected = format!("{HEAD}{}\n", pages.trim_end());
    weir_testkit::pages::check("docs/reference/components.md", &expected);
}

#[test]
fn the_list_has_a_line_for_each_kind() {
    let list = reference::list(&weir_blocks::registry());
    assert_eq!(list.lines().count(), weir_blocks::kinds().count());
    assert!(list.lines().all(|line| line.ends_with('.')), "{list}");
}

/// A component whose file is not declared compiles nowhere, and no other test misses it.
#[test]
fn every_file_of_a_kind_is_in_the_registry() {
    let folders =
        ["sources", "transforms", "sinks"].map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(name));
    let files = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).expect("a folder"))
        .map(|entry| entry.expect("a file").path());
    let of_kinds = files.filter(|path| fs::read_to_string(path).is_ok_and(|text| text.contains("\npub const KIND:")));
    let written: BTreeSet<String> =
        of_kinds.map(|path| path.file_stem().expect("a name").to_string_lossy().replace('_', "-")).collect();
    let registered: BTreeSet<String> = weir_blocks::kinds().map(|kind| kind.name().to_owned()).collect();
    assert_eq!(registered, written);
    assert_eq!(registered.len(), 27, "a kind that comes or goes is counted here");
}
