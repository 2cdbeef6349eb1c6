//! Tests that cannot run here say so in one way, so that a summary can list them.
//!
//! What a passing test prints is captured and thrown away, so a line on standard output alone would be seen by nobody.
//! Hence each skip is also appended to the file that `WEIR_SKIPPED_LIST` names; `.ci/test` sets it and prints the file at
//! the end.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// Names the file that skips are appended to.
const LIST: &str = "WEIR_SKIPPED_LIST";

/// Reports that the running test, or a part of it, is skipped: what it `needs`, in a word, and `why` it cannot have it.
/// The test then returns.
///
/// # Panics
/// When `WEIR_REQUIRE_<NEEDS>` is set (`WEIR_REQUIRE_ROOT` for `root`), for machines that must test everything; and when
/// the list cannot be written.
pub fn skip(needs: &str, why: &str) {
    let variable = require_variable(needs);
    assert!(std::env::var_os(&variable).is_none(), "{variable} is set, but {why}");
    println!("skipped: {why}");
    if let Some(list) = std::env::var_os(LIST) {
        append(Path::new(&list), &running_test(), why);
    }
}

/// The variable that makes the absence of something a failure.
pub(crate) fn require_variable(needs: &str) -> String {
    format!("WEIR_REQUIRE_{}", needs.to_uppercase().replace('-', "_"))
}

/// Appends a line with one write, so that tests of several processes may append to one file.
fn append(list: &Path, test: &str, why: &str) {
    let file = OpenOptions::new().create(true).append(true).open(list);
    let line = format!("{test}: {}\n", why.replace('\n', " "));
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the list of skipped tests can be written");
}

/// The test binary without its hash, and the name of the test, which is that of its thread.
fn running_test() -> String {
    let binary = std::env::current_exe().unwrap_or_default();
    let binary = binary.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let binary = binary.rsplit_once('-').map_or(binary.as_str(), |(name, _)| name);
    match std::thread::current().name() {
        Some(name) if name != "main" => format!("{binary} {name}"),
        _ => binary.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_named_after_what_is_needed() {
        assert_eq!(require_variable("nfdump"), "WEIR_REQUIRE_NFDUMP");
        assert_eq!(require_variable("argus-client"), "WEIR_REQUIRE_ARGUS_CLIENT");
    }

    #[test]
    fn the_running_test_is_named() {
        let name = running_test();
        assert!(name.starts_with("weir_testkit"), "{name}");
        assert!(!name.contains(' ') || name.ends_with("skipped::tests::the_running_test_is_named"), "{name}");
    }

    #[test]
    fn each_skip_is_a_line() {
        let list = std::env::temp_dir().join(format!("weir-skipped-{}", std::process::id()));
        append(&list, "a one", "no\nroot");
        append(&list, "b two", "no SCTP");
        let text = std::fs::read_to_string(&list).expect("the list");
        std::fs::remove_file(&list).expect("removed");
        assert_eq!(text, "a one: no root\nb two: no SCTP\n");
    }
}
