//! What the tests of several rooms share: where the corpus lies.

use std::path::{Path, PathBuf};

/// The folder of captures and golden outputs: `WEIR_CORPUS`, or `../shared/corpus` beside the checkout.
///
/// `None` when there is none; the test then prints "skipped" and passes, unless `WEIR_REQUIRE_CORPUS` is set.
///
/// # Panics
/// When `WEIR_REQUIRE_CORPUS` is set and there is no corpus.
pub fn corpus() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus");
    let folder = std::env::var_os("WEIR_CORPUS").map_or(beside, PathBuf::from);
    if folder.join("INDEX.tsv").is_file() {
        return Some(folder);
    }
    assert!(std::env::var_os("WEIR_REQUIRE_CORPUS").is_none(), "no corpus at {}", folder.display());
    println!("skipped: no corpus at {}", folder.display());
    None
}
