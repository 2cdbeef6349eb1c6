//! What a source names of its own crate: `use` declarations and paths in the code.

use super::{Source, is_word};

/// A name that a `use` declaration brings into a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Import {
    /// The path, such as `["super", "options", "Limits"]`; `*` is its last name when all is taken.
    pub(crate) path: Vec<String>,
    /// What it is called here.
    pub(crate) name: String,
    /// Whether it is handed on: `pub use`, with or without a restriction.
    pub(crate) is_public: bool,
}

impl Source {
    /// Names that are brought in outside of test regions.
    pub(crate) fn imports(&self) -> Vec<Import> {
        let mut found = Vec::new();
        for at in self.words_outside_tests("use").into_iter().filter(|&at| self.is_use(at)) {
            let end = self.end_of_use(at);
            let tree = String::from_utf8_lossy(&self.code[at + "use".len()..end]).into_owned();
            let is_public = self.is_public(at);
            leaves(&tree, &[], &mut |path, alias| {
                let name = alias.or_else(|| path.last().cloned()).unwrap_or_default();
                found.push(Import { path, name, is_public });
            });
        }
        found
    }

    /// Paths of two names at least, outside of test regions and of `use` declarations: `crate::a::B`, `a::b`.
    pub(crate) fn paths(&self) -> Vec<Vec<String>> {
        let mut apart = self.test_regions();
        apart.extend(self.words("use").filter(|&at| self.is_use(at)).map(|at| at..self.end_of_use(at)));
        let mut found = Vec::new();
        let mut at = 0;
        while at < self.code.len() {
            let path = self.path_at(at);
            let is_apart = apart.iter().any(|region| region.contains(&at));
            at += path.iter().map(String::len).sum::<usize>() + 2 * path.len().saturating_sub(1);
            if path.len() > 1 && !is_apart {
                found.push(path);
            } else if path.is_empty() {
                at += 1;
            }
        }
        found
    }

    /// Names of what is declared here: types, functions, constants, traits, macros.
    pub(crate) fn declared(&self) -> Vec<String> {
        const WORDS: [&str; 8] = ["struct", "enum", "trait", "fn", "const", "static", "type", "union"];
        let mut names: Vec<String> = Vec::new();
        for word in WORDS {
            names.extend(self.words_outside_tests(word).into_iter().filter_map(|at| self.name_after(at + word.len())));
        }
        let rules = self.words_outside_tests("macro_rules").into_iter();
        names.extend(rules.filter_map(|at| self.name_after(at + "macro_rules!".len())));
        names
    }

    /// Modules in files of their own that only tests compile: `#[cfg(test)] mod NAME;`.
    pub(crate) fn test_modules(&self) -> Vec<String> {
        let declared = self.words("mod").filter(|&at| {
            let before = String::from_utf8_lossy(&self.code[at.saturating_sub(80)..at]).into_owned();
            let attribute = before.rsplit(['}', ';', '{']).next().unwrap_or_default();
            attribute.contains("#[cfg(test)]") || attribute.contains("#[cfg(all(test")
        });
        declared.filter_map(|at| self.name_after(at + "mod".len())).collect()
    }

    /// How often a name is in the code.
    pub(crate) fn occurrences(&self, name: &str) -> usize {
        self.words_outside_tests(name).len()
    }

    /// Lines on which a macro is called, outside of test regions.
    pub(crate) fn calls_of_macro(&self, name: &str) -> Vec<usize> {
        let words = self.words_outside_tests(name).into_iter();
        words.filter(|at| self.code.get(at + name.len()) == Some(&b'!')).map(|at| self.line_of(at)).collect()
    }

    /// True for the word of a declaration; `use<'a>` in a type captures lifetimes.
    fn is_use(&self, at: usize) -> bool {
        !self.code[at + "use".len()..].trim_ascii_start().starts_with(b"<")
    }

    fn end_of_use(&self, at: usize) -> usize {
        self.code[at..].iter().position(|&octet| octet == b';').map_or(self.code.len(), |length| at + length)
    }

    fn is_public(&self, at: usize) -> bool {
        let line = self.code[..at].rsplit(|&octet| matches!(octet, b';' | b'}' | b'{' | b']')).next();
        line.is_some_and(|line| line.trim_ascii().starts_with(b"pub"))
    }

    /// The path that begins at `at`; empty where no name begins.
    fn path_at(&self, at: usize) -> Vec<String> {
        let (mut names, mut rest) = (Vec::new(), &self.code[at..]);
        if at > 0 && (is_word(self.code[at - 1]) || self.code[at - 1] == b'$') {
            return names;
        }
        loop {
            let length = rest.iter().take_while(|&&octet| is_word(octet)).count();
            if length == 0 {
                return names;
            }
            names.push(String::from_utf8_lossy(&rest[..length]).into_owned());
            match rest[length..].strip_prefix(b"::") {
                Some(after) if after.first().is_some_and(|&octet| is_word(octet)) => rest = after,
                _ => return names,
            }
        }
    }
}

/// Calls `found` with the path of each leaf of a use tree, and with its alias.
fn leaves(tree: &str, before: &[String], found: &mut dyn FnMut(Vec<String>, Option<String>)) {
    let tree = tree.trim().trim_start_matches("::");
    if let Some((path, group)) = tree.split_once('{') {
        let path: Vec<String> = before.iter().cloned().chain(names(path)).collect();
        for branch in branches(group.strip_suffix('}').unwrap_or(group)) {
            leaves(branch, &path, found);
        }
        return;
    }
    let (path, alias) = tree.split_once(" as ").map_or((tree, None), |(path, alias)| (path, Some(alias.trim().into())));
    let mut path: Vec<String> = before.iter().cloned().chain(names(path)).collect();
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    if !path.is_empty() {
        found(path, alias);
    }
}

fn names(path: &str) -> impl Iterator<Item = String> + '_ {
    path.split("::").map(str::trim).filter(|name| !name.is_empty()).map(|name| name.trim_start_matches("r#").to_owned())
}

/// The parts of a group at the commas that are in no inner group.
fn branches(group: &str) -> Vec<&str> {
    let (mut parts, mut nested, mut start) = (Vec::new(), 0_usize, 0);
    for (at, octet) in group.bytes().enumerate() {
        match octet {
            b'{' => nested += 1,
            b'}' => nested = nested.saturating_sub(1),
            b',' if nested == 0 => {
                parts.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&group[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_imports(text: &str, expected: &[&str]) {
        let found = Source::new(text).imports();
        let found: Vec<String> = found
            .iter()
            .map(|found| {
                let public = if found.is_public { "pub " } else { "" };
                format!("{public}{} = {}", found.name, found.path.join("::"))
            })
            .collect();
        assert_eq!(found, expected, "in {text}");
    }

    #[test]
    fn trees_are_taken_apart() {
        check_imports("use a::b;", &["b = a::b"]);
        check_imports("use a::{b, c::{self, D as E}, f::*};", &["b = a::b", "c = a::c", "E = a::c::D", "* = a::f::*"]);
        check_imports("pub(crate) use a::B;\npub use c::D;", &["pub B = a::B", "pub D = c::D"]);
        check_imports("#[allow(x)]\nuse super::{\n    a::B,\n    C,\n};", &["B = super::a::B", "C = super::C"]);
    }

    #[test]
    fn tests_and_captures_import_nothing() {
        check_imports("#[cfg(test)]\nmod tests { use super::*; }", &[]);
        check_imports("fn a<'a>() -> impl Iterator<Item = u8> + use<'a> { }", &[]);
    }

    #[test]
    fn paths_in_code_are_found() {
        let paths =
            Source::new("use x::y;\nfn a() { crate::b::c(); Self::d(); super::super::E::new(\"f::g\"); h }").paths();
        let paths: Vec<String> = paths.iter().map(|path| path.join("::")).collect();
        assert_eq!(paths, ["crate::b::c", "Self::d", "super::super::E::new"]);
    }

    #[test]
    fn modules_of_tests_are_found() {
        let source = Source::new("mod a;\n#[cfg(test)]\nmod b;\n#[cfg(test)]\npub(crate) mod c;\nmod d;");
        assert_eq!(source.test_modules(), ["b", "c"]);
    }

    #[test]
    fn declared_names_are_found() {
        let source = Source::new("struct A; enum B {} fn c() {} macro_rules! d { () => {} }");
        assert_eq!(source.declared(), ["A", "B", "c", "d"]);
    }

    #[test]
    fn calls_of_macros_are_found() {
        let source =
            Source::new("fn a() {\n    println!(\"x\");\n}\n#[cfg(test)]\nmod tests { fn b() { println!() } }");
        assert_eq!(source.calls_of_macro("println"), [2]);
    }
}
