//! Libraries log; only the binary prints. What a library writes to a terminal no option can silence, and no program
//! that uses the library can take back.

use std::path::Path;

use crate::crates;
use crate::order::folder_of;
use crate::source::Source;
use crate::verdict::Verdict;

/// Crates whose output is what they are for.
const PRINTERS: &[&str] = &["weir", "nfdump"];
/// Macros that write to standard output or standard error.
const MACROS: &[&str] = &["print", "println", "eprint", "eprintln", "dbg"];
/// Files that still print. None is added; one that no longer prints is taken off, or the check fails.
const EXCEPTIONS: &[&str] = &[];

/// Looks for macros that print in the libraries.
pub(crate) fn look(root: &Path) -> anyhow::Result<Verdict> {
    let hint = "use `tracing`, or hand the line to the caller; only `weir` and `nfdump` print";
    let mut found = Vec::new();
    let mut files = 0;
    for (name, sources) in crates::sources(root)?.iter().filter(|(name, _)| !PRINTERS.contains(&name.as_str())) {
        for (file, text) in crates::outside_tests(sources) {
            files += 1;
            let lines = printing_lines(text);
            found.extend(lines.into_iter().map(|line| (format!("{}/src/{file}", folder_of(name)), line)));
        }
    }
    Ok(Verdict {
        seen: format!("{files} sources"),
        violations: violations(&found, EXCEPTIONS),
        hint,
        ..Verdict::default()
    })
}

fn printing_lines(text: &str) -> Vec<(&'static str, usize)> {
    let source = Source::new(text);
    MACROS.iter().flat_map(|name| source.calls_of_macro(name).into_iter().map(move |line| (*name, line))).collect()
}

/// What prints and is not excepted, and exceptions that no longer print.
fn violations(found: &[(String, (&str, usize))], exceptions: &[&str]) -> Vec<String> {
    let unlisted = found.iter().filter(|(path, _)| !exceptions.contains(&path.as_str()));
    let unlisted = unlisted.map(|(path, (name, line))| format!("{path}:{line}: {name}!"));
    let stale = exceptions.iter().filter(|path| !found.iter().any(|(other, _)| other == *path));
    unlisted.chain(stale.map(|path| format!("{path} prints no more: take it off xtask/src/prints.rs"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_and_tests_are_left_alone() {
        let text = "fn a() {\n    eprintln!(\"x\");\n    // println!(\"y\")\n}\n#[cfg(test)]\nmod tests { fn b() { print!() } }";
        assert_eq!(printing_lines(text), [("eprintln", 2)]);
    }

    #[test]
    fn exceptions_must_still_print() {
        let found = [("a.rs".to_owned(), ("println", 3))];
        assert_eq!(violations(&found, &[]), ["a.rs:3: println!"]);
        assert!(violations(&found, &["a.rs"]).is_empty());
        assert_eq!(violations(&[], &["a.rs"]), ["a.rs prints no more: take it off xtask/src/prints.rs"]);
    }
}
