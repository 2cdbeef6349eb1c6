//! The files of a crate as modules, and which file uses which.
//!
//! A file uses another one when it names an item of it: in a `use` declaration or by a path, through `crate::`,
//! `super::` or a name that it has. Names are followed through re-exports to the file that declares them. A `mod` line,
//! and a `pub use` that only hands on, use nothing. What speaks against it: names are resolved as text, so what a macro
//! puts together is not seen, and modules within a file belong to that file.

use std::collections::{BTreeMap, BTreeSet};

use crate::files;
use crate::source::{Import, Source};

/// How many re-exports a name is followed through.
const HOPS_MAX: usize = 16;

/// The modules of a crate that are not tests, by their paths below the crate's root.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    by_path: BTreeMap<Vec<String>, Module>,
}

#[derive(Debug)]
struct Module {
    file: String,
    source: Source,
    declared: BTreeSet<String>,
    imports: Vec<Import>,
}

impl Modules {
    /// Reads modules from files, each with its path below `src` and its text.
    pub(crate) fn new<'a>(sources: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut by_path = BTreeMap::new();
        let mut tests: Vec<Vec<String>> = Vec::new();
        for (file, text) in sources.into_iter().filter(|(file, _)| !files::is_test_source(file)) {
            let (path, source) = (module_path(file), Source::new(text));
            tests.extend(source.test_modules().into_iter().map(|name| joined(&path, &[name])));
            let (declared, imports) = (source.declared().into_iter().collect(), source.imports());
            by_path.insert(path, Module { file: file.to_owned(), source, declared, imports });
        }
        by_path.retain(|path: &Vec<String>, _| !tests.iter().any(|test| path.starts_with(test)));
        Self { by_path }
    }

    /// Which files of the crate each file uses; itself is not among them.
    pub(crate) fn edges(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let edges = self.by_path.iter().map(|(path, module)| {
            let mut used: BTreeSet<&str> = module
                .source
                .paths()
                .iter()
                .filter_map(|named| self.file_of(path, named, HOPS_MAX))
                .chain(module.imports.iter().filter_map(|import| self.imported(path, module, import)))
                .collect();
            used.remove(module.file.as_str());
            (module.file.as_str(), used)
        });
        edges.collect()
    }

    /// The file that a declaration uses; none when the name is only handed on.
    fn imported(&self, path: &[String], module: &Module, import: &Import) -> Option<&str> {
        let is_used = !import.is_public || module.source.occurrences(&import.name) > 1;
        let last = import.path.last()?;
        if last == "*" {
            let target = self.module(path, &import.path[..import.path.len() - 1], HOPS_MAX)?;
            return (!import.is_public).then(|| self.by_path[&target].file.as_str());
        }
        if !is_used || self.module(path, &import.path, HOPS_MAX).is_some() {
            return None;
        }
        self.file_of(path, &import.path, HOPS_MAX)
    }

    /// The file that declares what a path names, seen from a module; none for what is of other crates.
    fn file_of(&self, from: &[String], named: &[String], hops: usize) -> Option<&str> {
        let (at, item) = self.walk(from, named, hops)?;
        let module = self.by_path.get(&at)?;
        let Some(item) = item else { return Some(&module.file) };
        if module.declared.contains(&item) || hops == 0 {
            return Some(&module.file);
        }
        let imports = module.imports.iter();
        if let Some(import) = imports.clone().find(|import| import.name == item && import.path.last().is_some()) {
            return self.file_of(&at, &import.path, hops - 1);
        }
        let globs = imports.filter(|import| import.name == "*").filter_map(|import| {
            let target = self.module(&at, &import.path[..import.path.len() - 1], hops - 1)?;
            let has = self.by_path[&target].declared.contains(&item);
            has.then(|| self.by_path[&target].file.as_str())
        });
        globs.into_iter().next().or(Some(&module.file))
    }

    /// The module that a path names; none when it names an item, or what is of another crate.
    fn module(&self, from: &[String], named: &[String], hops: usize) -> Option<Vec<String>> {
        match self.walk(from, named, hops)? {
            (at, None) => Some(at),
            (at, Some(item)) if hops > 0 => {
                let module = self.by_path.get(&at)?;
                let import =
                    module.imports.iter().find(|import| import.name == item && import.path != [item.clone()])?;
                self.module(&at, &import.path, hops - 1)
            }
            _ => None,
        }
    }

    /// The last module on a path, and the name in it that is no module.
    fn walk(&self, from: &[String], named: &[String], hops: usize) -> Option<(Vec<String>, Option<String>)> {
        let (first, mut rest) = named.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Vec::new(),
            "self" => from.to_vec(),
            "super" => from.split_last()?.1.to_vec(),
            name => {
                let child = joined(from, &[name.to_owned()]);
                if self.by_path.contains_key(&child) {
                    child
                } else {
                    let import = self.by_path.get(from)?.imports.iter().find(|import| import.name == name)?;
                    let is_own = hops > 0 && import.path.first().is_some_and(|first| first != name);
                    if !is_own {
                        return None;
                    }
                    match self.module(from, &import.path, hops - 1) {
                        Some(module) => module,
                        None => return self.walk(from, &import.path, hops - 1),
                    }
                }
            }
        };
        while let Some((name, after)) = rest.split_first() {
            if name == "super" {
                at.pop()?;
            } else if self.by_path.contains_key(&joined(&at, std::slice::from_ref(name))) {
                at.push(name.clone());
            } else if let Some(module) = self.handed_on(&at, name, hops).filter(|_| !after.is_empty()) {
                at = module;
            } else {
                return Some((at, Some(name.clone())));
            }
            rest = after;
        }
        Some((at, None))
    }

    /// The module that another one hands on by this name.
    fn handed_on(&self, at: &[String], name: &str, hops: usize) -> Option<Vec<String>> {
        let module = self.by_path.get(at)?;
        let import = module.imports.iter().find(|import| import.name == name && import.path != [name.to_owned()])?;
        if hops == 0 { None } else { self.module(at, &import.path, hops - 1) }
    }
}

/// The module of a file below `src`: of `a/b.rs` and `a/b/mod.rs` it is `["a", "b"]`.
fn module_path(file: &str) -> Vec<String> {
    let stem = file.trim_end_matches(".rs");
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    if matches!(stem, "lib" | "main") { Vec::new() } else { stem.split('/').map(str::to_owned).collect() }
}

fn joined(path: &[String], rest: &[String]) -> Vec<String> {
    path.iter().chain(rest).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sources: &[(&str, &str)], expected: &[&str]) {
        let modules = Modules::new(sources.iter().copied());
        let edges = modules.edges();
        let edges: Vec<String> =
            edges.iter().flat_map(|(from, to)| to.iter().map(move |to| format!("{from} -> {to}"))).collect();
        assert_eq!(edges, expected);
    }

    #[test]
    fn items_are_found_where_they_are_declared() {
        check(
            &[("lib.rs", "mod a; mod b;\npub use a::A;"), ("a.rs", "pub struct A;"), ("b.rs", "use crate::A;")],
            &["b.rs -> a.rs"],
        );
        check(
            &[
                ("lib.rs", "pub mod a; mod d;"),
                ("a/mod.rs", "mod b; mod c; pub use b::*; pub(crate) use c::C;"),
                ("a/b.rs", "pub fn f() {}"),
                ("a/c.rs", "pub struct C;"),
                ("d.rs", "use crate::a;\nfn g() { a::f(); let x: super::a::C; }"),
            ],
            &["d.rs -> a/b.rs", "d.rs -> a/c.rs"],
        );
    }

    #[test]
    fn parents_and_children_use_each_other_by_name() {
        check(
            &[
                ("lib.rs", "mod a;\nstruct L;"),
                ("a.rs", "mod b;\nuse b::B;\nstruct A(B);"),
                ("a/b.rs", "use super::A;\nuse super::super::L;\nstruct B;"),
            ],
            &["a.rs -> a/b.rs", "a/b.rs -> a.rs", "a/b.rs -> lib.rs"],
        );
    }

    #[test]
    fn what_is_handed_on_is_used_only_where_it_is_named() {
        let child = ("b.rs", "pub struct B;");
        check(&[("lib.rs", "mod b;\npub use b::B;"), child], &[]);
        check(&[("lib.rs", "mod b;\npub use b::B;\nfn f(b: B) {}"), child], &["lib.rs -> b.rs"]);
    }

    #[test]
    fn tests_and_other_crates_are_no_edges() {
        check(
            &[
                ("lib.rs", "mod a; mod b;\n#[cfg(test)]\nmod naive;"),
                ("a.rs", "use std::fmt; use other::B;\n#[cfg(test)]\nmod tests { use crate::b::B; }"),
                ("b.rs", "struct B;"),
                ("naive.rs", "use crate::b::B;"),
                ("a/tests.rs", "use crate::b::B;"),
            ],
            &[],
        );
    }

    #[test]
    fn names_that_lead_in_a_ring_end() {
        check(
            &[
                ("lib.rs", "mod a; mod b;"),
                ("a.rs", "pub use super::b::X;"),
                ("b.rs", "pub use super::a::X;\nfn f(x: X) {}"),
            ],
            &["b.rs -> a.rs"],
        );
    }
}
