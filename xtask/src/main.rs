//! The house rules as machine checks, and the generator of documentation.
//!
//! `cargo xtask check` runs everything. Each rule is a file of its own here with a function that looks at the
//! workspace and returns a [`Verdict`]; none of them changes anything except `docs`, which writes its pages unless
//! `--check` is given.
//!
//! Sources are scanned as text with comments and literals blanked out ([`source`]), not parsed. That keeps this crate
//! small enough to compile in seconds; what speaks against it is that a macro may hide a function from the scanner.

mod blocks;
mod circles;
mod order;

mod names;
mod paths;
mod prints;
mod size;
mod width;

mod docs;
mod links;

mod tools;

mod crates;
mod files;
mod modules;
mod source;
mod verdict;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use verdict::Verdict;

/// A rule by the name of its subcommand, what it demands, and the function that looks.
struct Check {
    name: &'static str,
    about: &'static str,
    look: fn(&Path) -> anyhow::Result<Verdict>,
}

/// Cheap checks first, so that a mistake shows before the compiler starts.
const CHECKS: &[Check] = &[
    Check { name: "order", about: "crates depend only on crates above them in the data path", look: order::look },
    Check { name: "once", about: "tests and binary share one build of the query engine", look: order::look_once },
    Check { name: "size", about: "functions of 70 lines, files of 600 lines at most", look: size::look },
    Check { name: "fields", about: "structs of 15 fields at most", look: width::look_fields },
    Check { name: "impls", about: "types of 400 lines of impl at most, over all files", look: width::look_impls },
    Check { name: "circles", about: "no circle of files within a crate but those listed", look: circles::look },
    Check { name: "blocks", about: "no component uses another one", look: blocks::look },
    Check { name: "prints", about: "libraries log, only the binary prints", look: prints::look },
    Check { name: "names", about: "no crate or module named util, common, helpers, …", look: names::look },
    Check { name: "paths", about: "no path of somebody's machine in a tracked file", look: paths::look },
    Check { name: "docs", about: "generated pages are fresh (without --check: writes them)", look: docs::look },
    Check { name: "links", about: "links between documents lead somewhere", look: links::look },
    Check { name: "fmt", about: "rustfmt would change nothing", look: tools::fmt },
    Check { name: "clippy", about: "no lint in the crates before the query engine", look: tools::clippy_rooms },
    Check { name: "clippy-engine", about: "no lint in sql and weir (compiles the engine)", look: tools::clippy_engine },
    Check { name: "fuzz", about: "the fuzz targets compile", look: tools::fuzz },
    Check { name: "deny", about: "licences, bans, sources and advisories of dependencies", look: tools::deny },
];

/// What `--fast` leaves out.
const SLOW: [&str; 2] = ["clippy-engine", "fuzz"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = workspace_root();
    match words.as_slice() {
        // the targets compile what they test once more, which takes minutes
        ["check"] => run(&root, CHECKS.iter().filter(|check| check.name != "fuzz")),
        ["check", "--fast"] => {
            println!("note: --fast leaves out {}", SLOW.join(" and "));
            let fast: Vec<&Check> = CHECKS.iter().filter(|check| !SLOW.contains(&check.name)).collect();
            run(&root, fast)
        }
        ["docs"] | ["docs", "--fast"] => match docs::write(&root, words.contains(&"--fast")) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error),
        },
        [name] | [name, "--check"] if CHECKS.iter().any(|check| check.name == *name) => {
            run(&root, CHECKS.iter().filter(|check| check.name == *name))
        }
        _ => usage(),
    }
}

fn run<'a>(root: &Path, checks: impl IntoIterator<Item = &'a Check>) -> ExitCode {
    let mut failed = Vec::new();
    for check in checks {
        match (check.look)(root) {
            Ok(verdict) => {
                verdict.print(check.name);
                if !verdict.violations.is_empty() {
                    failed.push(check.name);
                }
            }
            Err(error) => {
                println!("{:<14} FAILED  {error:#}", check.name);
                failed.push(check.name);
            }
        }
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("error: checks failed: {}", failed.join(", "));
    println!("hint: run one alone with `cargo xtask {}`; the rules are in CONTRIBUTING.md", failed[0]);
    ExitCode::FAILURE
}

fn usage() -> ExitCode {
    println!("usage: cargo xtask check [--fast] | docs [--fast | --check] | NAME\n");
    for check in CHECKS {
        println!("  {:<14} {}", check.name, check.about);
    }
    ExitCode::from(2)
}

fn fail(error: &anyhow::Error) -> ExitCode {
    println!("error: {error:#}");
    ExitCode::FAILURE
}

/// Cargo sets the folder of the package at run time; a binary that outlived a moved checkout would be wrong otherwise.
fn workspace_root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let package = PathBuf::from(package);
    package.parent().map_or_else(|| package.clone(), Path::to_path_buf)
}
