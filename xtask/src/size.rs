//! Functions and files stay small enough to be read.

use std::path::Path;

use crate::files;
use crate::source::Source;
use crate::verdict::Verdict;

/// Lines from the word `fn` to the closing brace.
const FUNCTION_LINES_MAX: usize = 70;
/// Lines of a file, without its `#[cfg(test)]` modules.
const FILE_LINES_MAX: usize = 600;
/// Files that may break the limits. It is empty and stays so: split the file instead.
const EXCEPTIONS: &[&str] = &[];

/// Measures every Rust source that is neither test nor generated.
pub(crate) fn look(root: &Path) -> anyhow::Result<Verdict> {
    let hint = "split the function or the file; branch in the parent, compute in the leaf";
    let mut verdict = Verdict { hint, ..Verdict::default() };
    let (mut sources, mut longest) = (0, 0);
    for path in files::listed(root)? {
        let is_measured =
            files::has_extension(&path, "rs") && !files::is_test_source(&path) && !EXCEPTIONS.contains(&path.as_str());
        let Some(text) = files::text(root, &path).filter(|text| is_measured && !is_generated(text)) else { continue };
        sources += 1;
        longest = longest.max(measure(&path, &text, &mut verdict.violations));
    }
    verdict.seen = format!("{sources} sources, longest function {longest} lines");
    Ok(verdict)
}

/// A generated source says so in its first line.
fn is_generated(text: &str) -> bool {
    text.lines().next().is_some_and(|line| line.contains("@generated"))
}

/// Adds what is too long to `violations`; returns the lines of the longest function.
fn measure(path: &str, text: &str, violations: &mut Vec<String>) -> usize {
    let source = Source::new(text);
    let lines = source.lines_outside_tests();
    if lines > FILE_LINES_MAX {
        violations.push(format!("{path}: file of {lines} lines, {FILE_LINES_MAX} at most"));
    }
    let functions = source.functions();
    for function in functions.iter().filter(|function| function.lines > FUNCTION_LINES_MAX) {
        let (name, line, lines) = (&function.name, function.line, function.lines);
        violations.push(format!("{path}:{line}: function '{name}' of {lines} lines, {FUNCTION_LINES_MAX} at most"));
    }
    functions.iter().map(|function| function.lines).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(text: &str) -> Vec<String> {
        let mut violations = Vec::new();
        measure("a.rs", text, &mut violations);
        violations
    }

    fn function_of(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    #[test]
    fn seventy_lines_pass_and_seventy_one_do_not() {
        assert!(violations(&function_of(70)).is_empty());
        assert_eq!(violations(&function_of(71)), ["a.rs:1: function 'long' of 71 lines, 70 at most"]);
    }

    #[test]
    fn six_hundred_lines_pass_and_one_more_does_not() {
        let text = "const A: u8 = 0;\n".repeat(600);
        assert!(violations(&text).is_empty());
        let test_module = format!("{text}#[cfg(test)]\nmod tests {{\n{}}}\n", function_of(90));
        assert!(violations(&test_module).is_empty());
        assert_eq!(violations(&format!("{text}const B: u8 = 0;\n")), ["a.rs: file of 601 lines, 600 at most"]);
    }

    #[test]
    fn the_exception_list_is_empty() {
        assert_eq!(EXCEPTIONS.len(), 0);
    }
}
