//! The reference page is made of the tables of the kinds.

use std::fs;
use std::path::Path;

use weir_chain::reference;

const HEAD: &str = "# Blocks

What chains are made of: every kind of block with its parameters. `weir chain kinds NAME` prints the same. Besides its
own parameters every block has these keys:

| key | meaning | default |
| --- | --- | --- |
| `type` | kind of block | must be given |
| `inputs` | the blocks that feed it: a list, or a table by the names of its inputs | must be given, but for sources |
| `thread` | `own`, `upstream`, or the name of a thread that blocks share | own for sources and blocks with several inputs, else upstream |
| `burst_records` | rows of a burst in the queue before it, 0 for as they come | that of the chain, 2048 |
| `queue_bursts` | bursts that the queue before it holds | that of the chain, 100 |

The chain has the keys `name`, `burst_records` and `queue_bursts`.

<!-- generated from the kinds: WEIR_WRITE_REFERENCE=1 cargo test -p weir-blocks --test blocks -->

";

#[test]
fn the_page_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/components.md");
    let pages = reference::pages(&weir_blocks::registry());
    let expected = format!("{HEAD}{}\n", pages.trim_end());
    if std::env::var_os("WEIR_WRITE_REFERENCE").is_some() {
        fs::write(&path, &expected).expect("written");
    }
    let found = fs::read_to_string(&path).expect("docs/reference/components.md");
    assert!(found == expected, "docs/reference/components.md is old: run this test with WEIR_WRITE_REFERENCE=1");
}

#[test]
fn the_list_has_a_line_for_each_kind() {
    let list = reference::list(&weir_blocks::registry());
    assert_eq!(list.lines().count(), weir_blocks::kinds().count());
    assert!(list.lines().all(|line| line.ends_with('.')), "{list}");
}
