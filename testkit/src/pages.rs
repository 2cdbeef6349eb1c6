//! Pages of `docs/` that a test knows better than any hand: it compares them, and writes them when it is asked to.

use std::path::{Path, PathBuf};

/// Makes tests write their pages. `cargo xtask docs` sets it.
const WRITE: &str = "WEIR_WRITE_DOCS";

/// Whether pages are to be written, and not only compared.
pub fn are_written() -> bool {
    std::env::var_os(WRITE).is_some()
}

/// The place of a page, such as `docs/reference/filter.md`.
pub fn path(page: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page)
}

/// The page as it is committed; empty when there is none.
pub fn committed(page: &str) -> String {
    std::fs::read_to_string(path(page)).unwrap_or_default()
}

/// Compares a page with what it should be, after it has written it where that is asked for.
///
/// # Panics
/// When the page is stale, and when it cannot be written.
pub fn check(page: &str, text: &str) {
    if are_written() {
        std::fs::write(path(page), text).unwrap_or_else(|error| panic!("cannot write {page}: {error}"));
    }
    if let Some((line, found, expected)) = first_difference(&committed(page), text) {
        panic!("{page} is stale in line {line}: '{found}' is '{expected}' now\nhint: `cargo xtask docs` writes it");
    }
}

/// The first line that differs, its number from 1, and what it is in each text.
fn first_difference<'a>(committed: &'a str, text: &'a str) -> Option<(usize, &'a str, &'a str)> {
    if committed == text {
        return None;
    }
    let (mut old, mut new) = (committed.lines(), text.lines());
    let mut line = 1;
    loop {
        match (old.next(), new.next()) {
            (Some(one), Some(other)) if one == other => line += 1,
            (one, other) => return Some((line, one.unwrap_or("(the end)"), other.unwrap_or("(the end)"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_found() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some((2, "b", "c")));
        assert_eq!(first_difference("a\n", "a\nc\n"), Some((2, "(the end)", "c")));
        assert_eq!(first_difference("a", "a\n"), Some((2, "(the end)", "(the end)")));
    }

    #[test]
    fn pages_are_found_from_here() {
        assert!(committed("README.md").starts_with("# weir"));
        assert_eq!(committed("docs/no-such-page.md"), "");
    }
}
