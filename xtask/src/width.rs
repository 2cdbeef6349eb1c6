//! Types stay small enough to be read: the fields of a struct, and all that is implemented for a type, over all files of
//! its crate. The limits on functions and files alone would let one class be cut into many legal slices.

use std::collections::BTreeMap;
use std::path::Path;

use crate::crates::{self, SourceFile};
use crate::source::Source;
use crate::verdict::Verdict;

/// Fields of a struct.
const FIELDS_MAX: usize = 15;
/// Lines of all `impl` blocks of a type.
const IMPL_LINES_MAX: usize = 400;

/// A type that is larger, and why it may be for now. One that is small enough is taken off, or the check fails.
struct Exception {
    type_name: &'static str,
    reason: &'static str,
}

/// Structs that have more fields. None is added.
const WIDE: &[Exception] = &[
    Exception { type_name: "archive/statistics.rs::Statistics", reason: "one counter each; they are to be grouped" },
    Exception { type_name: "generate/routers.rs::RouterPair", reason: "what both routers share is to be a struct" },
];
/// Types that have more lines of `impl`. None is added.
const LONG: &[Exception] =
    &[Exception { type_name: "filter/parse.rs::Parser", reason: "one method for each kind of word in one grammar" }];

/// A type that is too large, as `crate/file::Type`, and what is wrong with it.
#[derive(Debug, PartialEq, Eq)]
struct Excess {
    type_name: String,
    what: String,
}

/// Counts the fields of every struct that is not of tests.
pub(crate) fn look_fields(root: &Path) -> anyhow::Result<Verdict> {
    let hint = "fields that change together are a struct of their own";
    let (mut structs, mut excess) = (0, Vec::new());
    for (name, sources) in crates::sources(root)? {
        let (seen, found) = wide_structs(&name, &sources);
        structs += seen;
        excess.extend(found);
    }
    Ok(Verdict {
        seen: format!("{structs} structs"),
        violations: violations(&excess, WIDE),
        hint,
        ..Verdict::default()
    })
}

/// Adds up the `impl` blocks of every type that is not of tests.
pub(crate) fn look_impls(root: &Path) -> anyhow::Result<Verdict> {
    let hint = "find the parts with a state of their own, and make them types";
    let (mut types, mut excess) = (0, Vec::new());
    for (name, sources) in crates::sources(root)? {
        let lines = implemented_lines(&sources);
        types += lines.len();
        for ((type_name, file), (lines, files)) in lines.into_iter().filter(|(_, (lines, _))| *lines > IMPL_LINES_MAX) {
            let what = format!("{lines} lines of impl in {files} files, {IMPL_LINES_MAX} at most");
            excess.push(Excess { type_name: format!("{name}/{file}::{type_name}"), what });
        }
    }
    Ok(Verdict { seen: format!("{types} types"), violations: violations(&excess, LONG), hint, ..Verdict::default() })
}

/// How many structs there are, and which have too many fields.
fn wide_structs(name: &str, sources: &[SourceFile]) -> (usize, Vec<Excess>) {
    let (mut seen, mut found) = (0, Vec::new());
    for (file, text) in crates::outside_tests(sources) {
        let structs = Source::new(text).structs();
        seen += structs.len();
        found.extend(structs.into_iter().filter(|found| found.fields > FIELDS_MAX).map(|found| Excess {
            what: format!("{} fields, {FIELDS_MAX} at most (line {})", found.fields, found.line),
            type_name: format!("{name}/{file}::{}", found.name),
        }));
    }
    (seen, found)
}

/// Lines and files of the `impl` blocks of each type, by its name and the file that declares it. Where several types of a
/// crate have one name, a block belongs to the one that is declared nearest: in the same file, or in a module above it.
fn implemented_lines(sources: &[SourceFile]) -> BTreeMap<(String, String), (usize, usize)> {
    let scanned: Vec<(&str, Source)> =
        crates::outside_tests(sources).map(|(file, text)| (file, Source::new(text))).collect();
    let mut declared: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (file, source) in &scanned {
        for name in source.types() {
            declared.entry(name).or_default().push(file);
        }
    }
    let mut lines: BTreeMap<(String, String), (usize, usize)> = BTreeMap::new();
    for (file, source) in &scanned {
        let mut here: BTreeMap<(String, String), usize> = BTreeMap::new();
        for block in source.impls() {
            let Some(owner) = declared.get(&block.type_name).and_then(|files| nearest(files, file)) else { continue };
            *here.entry((block.type_name, owner.to_owned())).or_default() += block.lines;
        }
        for (key, found) in here {
            let (lines, files) = lines.entry(key).or_default();
            (*lines, *files) = (*lines + found, *files + 1);
        }
    }
    lines
}

/// The file among `files` that shares most of its path with `file`.
fn nearest<'a>(files: &[&'a str], file: &str) -> Option<&'a str> {
    let parts = |file: &str| -> Vec<String> {
        file.trim_end_matches(".rs").trim_end_matches("/mod").split('/').map(str::to_owned).collect()
    };
    let own = parts(file);
    let shared = |other: &str| parts(other).iter().zip(&own).take_while(|(one, two)| one == two).count();
    files.iter().copied().max_by_key(|other| (*other == file, shared(other), std::cmp::Reverse(other.len())))
}

/// What is too large and not excepted, and exceptions that are small enough.
fn violations(excess: &[Excess], exceptions: &[Exception]) -> Vec<String> {
    let unlisted = excess.iter().filter(|found| !exceptions.iter().any(|known| known.type_name == found.type_name));
    let unlisted = unlisted.map(|found| format!("{}: {}", found.type_name, found.what));
    let stale = exceptions.iter().filter(|known| !excess.iter().any(|found| known.type_name == found.type_name));
    let stale = stale.map(|known| {
        format!(
            "{} is small enough: take it off xtask/src/width.rs (it was there because: {})",
            known.type_name, known.reason
        )
    });
    unlisted.chain(stale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, String)]) -> Vec<SourceFile> {
        files.iter().map(|(file, text)| ((*file).to_owned(), text.clone())).collect()
    }

    fn struct_of(fields: usize) -> String {
        let fields = (0..fields).map(|at| format!("    a{at}: u8,")).collect::<Vec<_>>().join("\n");
        format!("struct A {{\n{fields}\n}}\n")
    }

    fn impl_of(name: &str, lines: usize) -> String {
        format!("impl {name} {{\n{}}}\n", "    const A: u8 = 0;\n".repeat(lines - 2))
    }

    #[test]
    fn fifteen_fields_pass_and_sixteen_do_not() {
        assert_eq!(wide_structs("x", &sources(&[("a.rs", struct_of(15))])), (1, Vec::new()));
        let (_, found) = wide_structs("x", &sources(&[("a.rs", struct_of(16))]));
        let what = "16 fields, 15 at most (line 1)".to_owned();
        assert_eq!(found, [Excess { type_name: "x/a.rs::A".into(), what }]);
        let (_, found) = wide_structs("x", &sources(&[("tests.rs", struct_of(16))]));
        assert!(found.is_empty());
    }

    #[test]
    fn blocks_of_all_files_are_added_up() {
        let files = [
            ("a.rs", format!("struct A;\n{}", impl_of("A", 300))),
            ("a/b.rs", impl_of("A", 100)),
            ("a/c.rs", impl_of("Display for super::A", 1 + 1)),
        ];
        let lines = implemented_lines(&sources(&files));
        assert_eq!(lines[&("A".to_owned(), "a.rs".to_owned())], (402, 3));
    }

    #[test]
    fn types_of_one_name_are_kept_apart() {
        let files = [
            ("a.rs", "struct A;".to_owned()),
            ("a/part.rs", impl_of("A", 10)),
            ("b/mod.rs", format!("enum A {{}}\n{}", impl_of("A", 20))),
            ("b/part.rs", impl_of("A", 30)),
        ];
        let lines = implemented_lines(&sources(&files));
        assert_eq!(lines[&("A".to_owned(), "a.rs".to_owned())], (10, 1));
        assert_eq!(lines[&("A".to_owned(), "b/mod.rs".to_owned())], (50, 2));
    }

    #[test]
    fn types_of_others_are_not_counted() {
        assert!(implemented_lines(&sources(&[("a.rs", impl_of("From<u8> for Vec<u8>", 10))])).is_empty());
    }

    #[test]
    fn exceptions_must_still_be_needed() {
        let excess = [Excess { type_name: "x::A".into(), what: "too large".into() }];
        let exception = || Exception { type_name: "x::A", reason: "it waits" };
        assert_eq!(violations(&excess, &[]), ["x::A: too large"]);
        assert!(violations(&excess, &[exception()]).is_empty());
        assert_eq!(violations(&[], &[exception()]).len(), 1);
    }
}
