//! Tools that check for us: rustfmt, clippy, cargo-deny.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::verdict::Verdict;

/// The packages that compile the query engine.
const ENGINE_PACKAGES: [&str; 6] = ["weir-sql", "weir-watch", "weir-postgres", "weir-flight", "weir-serve", "weir"];
/// How long fetching the advisory database may take.
const FETCH_TIMEOUT: Duration = Duration::from_mins(1);

/// `cargo fmt --check`, which lists files only: the differences of a long day would bury the other checks.
pub(crate) fn fmt(root: &Path) -> anyhow::Result<Verdict> {
    let passed = cargo(root, &["fmt", "--all", "--", "--check", "-l"])?;
    Ok(verdict(passed, "every source formatted", "cargo fmt would change the files above", "run `cargo fmt --all`"))
}

/// Clippy on everything before the query engine, with all targets and warnings as errors.
pub(crate) fn clippy_rooms(root: &Path) -> anyhow::Result<Verdict> {
    let excluded = ENGINE_PACKAGES.iter().flat_map(|package| ["--exclude", package]);
    clippy(root, &std::iter::once("--workspace").chain(excluded).collect::<Vec<_>>())
}

/// Clippy on the packages that compile the query engine, in the profile of the others: what both depend on is checked once.
pub(crate) fn clippy_engine(root: &Path) -> anyhow::Result<Verdict> {
    clippy(root, &ENGINE_PACKAGES.iter().flat_map(|package| ["-p", package]).collect::<Vec<_>>())
}

fn clippy(root: &Path, packages: &[&str]) -> anyhow::Result<Verdict> {
    let arguments: Vec<&str> = std::iter::once("clippy")
        .chain(packages.iter().copied())
        .chain(["--quiet", "--all-targets", "--", "-D", "warnings"])
        .collect();
    let passed = cargo(root, &arguments)?;
    Ok(verdict(
        passed,
        "no lint",
        "clippy found lints, see above",
        "mend the code; an `allow` needs its reason beside it",
    ))
}

/// The fuzz targets, which are a workspace of their own and share files with tests: nothing else notices when they break.
pub(crate) fn fuzz(root: &Path) -> anyhow::Result<Verdict> {
    let passed = cargo(root, &["check", "--quiet", "--manifest-path", "fuzz/Cargo.toml"])?;
    let hint = "what tests and targets share has to compile in both";
    Ok(verdict(passed, "all targets compile", "the fuzz targets do not compile, see above", hint))
}

/// cargo-deny, when it is there. What it could not look at is a warning, so that a green run tells what it left out.
pub(crate) fn deny(root: &Path) -> anyhow::Result<Verdict> {
    let is_there = Command::new("cargo-deny").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !is_there.is_ok_and(|status| status.success()) {
        let warning = "cargo-deny is not installed: licences, bans, sources and advisories are NOT checked \
                       (hint: cargo install cargo-deny --locked)";
        return Ok(Verdict { seen: "nothing".into(), warnings: vec![warning.into()], ..Verdict::default() });
    }
    let passed = cargo(root, &["deny", "--log-level", "error", "check", "licenses", "bans", "sources"])?;
    let hint = "see deny.toml; a new licence needs its line there, a doubled crate a common version";
    let mut verdict = verdict(passed, "licences, bans, sources", "cargo-deny refuses a dependency, see above", hint);
    if !fetch_advisories(root)? {
        verdict.warnings.push("the advisory database cannot be fetched: known vulnerabilities are NOT checked".into());
    } else if cargo(root, &["deny", "--offline", "--log-level", "error", "check", "advisories"])? {
        verdict.seen.push_str(", advisories");
    } else {
        verdict.violations.push("a dependency has a known vulnerability, see above".into());
    }
    Ok(verdict)
}

/// True when the advisory database is here and fresh. A firewall may swallow packets, hence the time limit.
fn fetch_advisories(root: &Path) -> anyhow::Result<bool> {
    let mut fetch = Command::new("cargo-deny")
        .args(["--log-level", "off", "fetch", "db"])
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot run cargo-deny")?;
    let started = Instant::now();
    loop {
        if let Some(status) = fetch.try_wait()? {
            return Ok(status.success());
        }
        if started.elapsed() > FETCH_TIMEOUT {
            fetch.kill()?;
            fetch.wait()?;
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Runs cargo with its output on ours; true when it succeeded.
fn cargo(root: &Path, arguments: &[&str]) -> anyhow::Result<bool> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).args(arguments).current_dir(root).status();
    Ok(status.with_context(|| format!("cannot run cargo {}", arguments[0]))?.success())
}

fn verdict(passed: bool, seen: &str, violation: &str, hint: &'static str) -> Verdict {
    let violations = if passed { Vec::new() } else { vec![violation.to_owned()] };
    Verdict { seen: seen.to_owned(), violations, warnings: Vec::new(), hint }
}
