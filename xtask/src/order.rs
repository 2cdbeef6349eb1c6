//! The order of the crates: a crate depends only on crates above it in the data path.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::verdict::Verdict;

/// The rooms in data-path order; each has the folder `crates/<word>`, or that of [`ADAPTERS`]. The last is the binary, which
/// nothing may use.
pub(crate) const ROOMS: &[&str] = &[
    "wire",
    "flow",
    "filter",
    "secure",
    "capture",
    "routes",
    "export",
    "generate",
    "print",
    "chain",
    "rows",
    "meter",
    "collect",
    "disk",
    "archive",
    "series",
    "reports",
    "notify",
    "forward",
    "formats",
    "query",
    "nfdump",
    "blocks",
    "cassandra",
    "prometheus",
    "rrdtool",
    "snmp",
    "sql",
    "watch",
    "postgres",
    "flight",
    "serve",
    "weir",
];
/// Rooms that speak with the systems of others; each has the folder `adapters/<word>`.
const ADAPTERS: &[&str] = &["cassandra", "prometheus", "rrdtool", "snmp"];
/// Packages for development only, and their folders.
const DEV_ONLY: &[&str] = &["testkit", "xtask"];
/// The first room that may pull the query engine.
const ENGINE_ROOM: &str = "sql";
/// Every package of the query engine has this prefix.
const ENGINE_PREFIX: &str = "datafusion";

/// A package and its direct dependencies.
#[derive(Debug, Default)]
struct Package {
    name: String,
    /// Folder relative to the workspace, for members only.
    folder: Option<String>,
    dependencies: Vec<Edge>,
}

#[derive(Debug)]
struct Edge {
    to: usize,
    is_dev_only: bool,
}

/// Checks folders, edges between members, and who pulls the query engine.
pub(crate) fn look(root: &Path) -> anyhow::Result<Verdict> {
    let packages = read_graph(&cargo_metadata(root)?, root)?;
    let members = packages.iter().filter(|package| package.folder.is_some());
    let edges: usize = members.clone().map(|member| between_members(&packages, member).count()).sum();
    Ok(Verdict {
        seen: format!("{} members, {edges} edges between them", members.count()),
        violations: violations(&packages),
        warnings: Vec::new(),
        hint: "the order is in README.md and in xtask/src/order.rs; move the code to the crate it belongs to",
    })
}

/// Checks that development dependencies of the upper rooms do not change how the query engine is compiled. Compiling
/// it takes most of a cold build; with other features in its dependencies, tests would compile it a second time.
pub(crate) fn look_once(root: &Path) -> anyhow::Result<Verdict> {
    let (plain, tests) = (features(root, "normal,build")?, features(root, "normal,build,dev")?);
    let violations = plain
        .iter()
        .filter_map(|(package, features)| {
            tests.get(package).filter(|other| *other != features).map(|other| (package, features, other))
        })
        .map(|(package, features, other)| format!("{package} has features [{features}], and in tests [{other}]"))
        .collect();
    Ok(Verdict {
        seen: format!("{} packages of sql, watch and weir", plain.len()),
        violations,
        warnings: Vec::new(),
        hint: "drop the development dependency of sql or weir that turns them on, or move its test to a crate above",
    })
}

/// Packages that query and weir are built from, each with its features.
fn features(root: &Path, edges: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let arguments =
        ["tree", "--prefix", "none", "-p", "weir-sql", "-p", "weir-watch", "-p", "weir", "-f", "{p}\t{f}", "-e", edges];
    let output = cargo(root, &arguments)?;
    let listing = String::from_utf8_lossy(&output).into_owned();
    let lines = listing.lines().filter_map(|line| line.trim_end_matches(" (*)").split_once('\t'));
    Ok(lines.map(|(package, features)| (package.to_owned(), features.to_owned())).collect())
}

/// What `cargo metadata` says of the workspace.
pub(crate) fn cargo_metadata(root: &Path) -> anyhow::Result<Value> {
    let output = cargo(root, &["metadata", "--format-version", "1"])?;
    serde_json::from_slice(&output).context("cargo metadata printed no JSON")
}

fn cargo(root: &Path, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(arguments).current_dir(root).output().context("cannot run cargo")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo {} failed: {}", arguments[0], errors.trim());
    Ok(output.stdout)
}

/// Reads packages and resolved dependencies from the output of `cargo metadata`.
fn read_graph(metadata: &Value, root: &Path) -> anyhow::Result<Vec<Package>> {
    let texts = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let nodes = metadata["resolve"]["nodes"].as_array().context("cargo metadata has no resolved graph")?;
    let listed = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let members = metadata["workspace_members"].as_array().context("cargo metadata lists no members")?;
    let by_id: HashMap<String, usize> = listed.iter().enumerate().map(|(at, p)| (texts(&p["id"]), at)).collect();
    let mut packages: Vec<Package> = Vec::with_capacity(listed.len());
    for package in listed {
        let folder = members.contains(&package["id"]).then(|| folder(&texts(&package["manifest_path"]), root));
        packages.push(Package { name: texts(&package["name"]), folder, dependencies: Vec::new() });
    }
    for node in nodes {
        let Some(&from) = by_id.get(&texts(&node["id"])) else { continue };
        for dependency in node["deps"].as_array().into_iter().flatten() {
            let kinds = dependency["dep_kinds"].as_array().map_or(&[][..], Vec::as_slice);
            let is_dev_only = !kinds.is_empty() && kinds.iter().all(|kind| kind["kind"] == "dev");
            if let Some(&to) = by_id.get(&texts(&dependency["pkg"])) {
                packages[from].dependencies.push(Edge { to, is_dev_only });
            }
        }
    }
    Ok(packages)
}

fn folder(manifest: &str, root: &Path) -> String {
    let folder = Path::new(manifest).parent().unwrap_or(Path::new(""));
    folder.strip_prefix(root).unwrap_or(folder).display().to_string()
}

fn between_members<'a>(packages: &'a [Package], from: &'a Package) -> impl Iterator<Item = (&'a Package, bool)> {
    let edges = from.dependencies.iter().map(|edge| (&packages[edge.to], edge.is_dev_only));
    edges.filter(|(to, _)| to.folder.is_some())
}

fn violations(packages: &[Package]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, member) in packages.iter().enumerate().filter(|(_, package)| package.folder.is_some()) {
        found.extend(wrong_place(member));
        for (to, is_dev_only) in between_members(packages, member) {
            let rule = broken_rule(word(&member.name), word(&to.name), is_dev_only);
            found.extend(rule.map(|rule| format!("{} -> {}: {rule}", member.name, to.name)));
        }
        if may_not_pull_engine(word(&member.name)) {
            found.extend(
                engine_path(packages, at)
                    .map(|path| format!("{path}: nothing below {ENGINE_ROOM} pulls {ENGINE_PREFIX}")),
            );
        }
    }
    found
}

/// The room of a package: `weir-wire` is `wire`.
fn word(package: &str) -> &str {
    package.strip_prefix("weir-").unwrap_or(package)
}

/// The folder of a room.
pub(crate) fn folder_of(room: &str) -> String {
    let parent = if ADAPTERS.contains(&room) { "adapters" } else { "crates" };
    format!("{parent}/{room}")
}

fn rank(room: &str) -> Option<usize> {
    ROOMS.iter().position(|known| *known == room)
}

fn may_not_pull_engine(room: &str) -> bool {
    rank(room).is_none_or(|at| rank(ENGINE_ROOM).is_some_and(|engine| at < engine))
}

fn wrong_place(member: &Package) -> Option<String> {
    let (name, room) = (&member.name, word(&member.name));
    let expected = match (rank(room), DEV_ONLY.contains(&room)) {
        (Some(_), _) => folder_of(room),
        (None, true) => room.to_owned(),
        (None, false) => return Some(format!("{name}: has no place in the order of the crates")),
    };
    let found = member.folder.as_deref().unwrap_or_default();
    (found != expected).then(|| format!("{name}: is in {found}, its folder is {expected}"))
}

/// The rule that an edge between two members breaks.
fn broken_rule(from: &str, to: &str, is_dev_only: bool) -> Option<String> {
    match (rank(from), rank(to)) {
        (_, None) if to == "testkit" && (is_dev_only || rank(from).is_none()) => None,
        (_, None) => Some(format!("{to} is for development only")),
        (_, Some(at)) if at + 1 == ROOMS.len() => Some(format!("nothing may depend on {to}")),
        (Some(below), Some(above)) if above >= below => {
            Some(format!("{to} comes after {from} in the data path ({})", ROOMS.join(", ")))
        }
        _ => None,
    }
}

/// The shortest way from a member to a package of the query engine. The member's own development dependencies count,
/// because its tests would compile the engine.
fn engine_path(packages: &[Package], member: usize) -> Option<String> {
    let mut came_from: HashMap<usize, usize> = HashMap::from([(member, member)]);
    let mut queue = VecDeque::from([member]);
    while let Some(at) = queue.pop_front() {
        if packages[at].name.starts_with(ENGINE_PREFIX) {
            return Some(path_to(packages, &came_from, at));
        }
        for edge in packages[at].dependencies.iter().filter(|edge| at == member || !edge.is_dev_only) {
            came_from.entry(edge.to).or_insert_with(|| {
                queue.push_back(edge.to);
                at
            });
        }
    }
    None
}

fn path_to(packages: &[Package], came_from: &HashMap<usize, usize>, end: usize) -> String {
    let mut names = vec![packages[end].name.as_str()];
    let mut at = end;
    while came_from[&at] != at {
        at = came_from[&at];
        names.push(&packages[at].name);
    }
    names.reverse();
    names.join(" -> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace from lines such as `weir-flow: weir-wire, dev weir-testkit`; packages of others are named only as
    /// dependencies, or with a `*` before their line.
    fn workspace(lines: &[&str]) -> Vec<Package> {
        let mut packages: Vec<Package> = Vec::new();
        for line in lines {
            let (name, dependencies) = line.split_once(": ").unwrap_or((line.trim_end_matches(':'), ""));
            let from = package(&mut packages, name.trim_start_matches('*'));
            if !name.starts_with('*') {
                let room = word(name);
                packages[from].folder = Some(if DEV_ONLY.contains(&room) { room.into() } else { folder_of(room) });
            }
            for dependency in dependencies.split(", ").filter(|name| !name.is_empty()) {
                let to = package(&mut packages, dependency.trim_start_matches("dev "));
                packages[from].dependencies.push(Edge { to, is_dev_only: dependency.starts_with("dev ") });
            }
        }
        packages
    }

    fn package(packages: &mut Vec<Package>, name: &str) -> usize {
        packages.iter().position(|package| package.name == name).unwrap_or_else(|| {
            packages.push(Package { name: name.to_owned(), ..Package::default() });
            packages.len() - 1
        })
    }

    fn check(lines: &[&str], expected: &[&str]) {
        assert_eq!(violations(&workspace(lines)), expected);
    }

    #[test]
    fn the_way_down_the_data_path_is_allowed() {
        check(
            &[
                "weir-wire: thiserror, dev weir-testkit",
                "weir-flow: arrow",
                "weir-collect: weir-wire, weir-flow",
                "weir-testkit:",
            ],
            &[],
        );
        check(&["weir-sql: datafusion", "weir: weir-sql", "xtask: weir-flow", "weir-flow:"], &[]);
    }

    #[test]
    fn the_way_back_is_refused() {
        let rooms = ROOMS.join(", ");
        let edge = format!("weir-flow -> weir-collect: collect comes after flow in the data path ({rooms})");
        check(&["weir-flow: weir-collect", "weir-collect:"], &[&edge]);
        check(&["weir-flow: dev weir-collect", "weir-collect:"], &[&edge]);
    }

    #[test]
    fn the_binary_and_development_crates_are_no_libraries() {
        check(&["weir-sql: weir", "weir:"], &["weir-sql -> weir: nothing may depend on weir"]);
        check(&["xtask: weir", "weir:"], &["xtask -> weir: nothing may depend on weir"]);
        check(
            &["weir-wire: weir-testkit", "weir-testkit:"],
            &["weir-wire -> weir-testkit: testkit is for development only"],
        );
        check(&["weir-wire: dev xtask", "xtask:"], &["weir-wire -> xtask: xtask is for development only"]);
    }

    #[test]
    fn the_engine_is_found_behind_other_packages() {
        let rule = "nothing below sql pulls datafusion";
        check(
            &["weir-archive: foreign", "*foreign: datafusion-expr"],
            &[&format!("weir-archive -> foreign -> datafusion-expr: {rule}")],
        );
        check(&["xtask: dev datafusion"], &[&format!("xtask -> datafusion: {rule}")]);
        // What the tests of a foreign package need is not compiled here.
        check(&["weir-archive: foreign", "*foreign: dev datafusion"], &[]);
    }

    #[test]
    fn every_member_has_its_place() {
        check(&["weir-extra:"], &["weir-extra: has no place in the order of the crates"]);
        let mut packages = workspace(&["weir-wire:"]);
        packages[0].folder = Some("wire".into());
        assert_eq!(violations(&packages), ["weir-wire: is in wire, its folder is crates/wire"]);
        let mut packages = workspace(&["weir-cassandra:"]);
        packages[0].folder = Some("crates/cassandra".into());
        let wrong = "weir-cassandra: is in crates/cassandra, its folder is adapters/cassandra";
        assert_eq!(violations(&packages), [wrong]);
    }

    #[test]
    fn metadata_of_cargo_is_read() {
        let metadata = serde_json::json!({
            "packages": [
                {"id": "a", "name": "weir-flow", "manifest_path": "/r/crates/flow/Cargo.toml"},
                {"id": "b", "name": "arrow", "manifest_path": "/registry/arrow/Cargo.toml"},
            ],
            "workspace_members": ["a"],
            "resolve": {"nodes": [{"id": "a", "deps": [
                {"pkg": "b", "dep_kinds": [{"kind": "dev"}, {"kind": null}]},
            ]}]},
        });
        let packages = read_graph(&metadata, Path::new("/r")).expect("a graph");
        assert_eq!(packages[0].folder.as_deref(), Some("crates/flow"));
        assert_eq!((packages[0].dependencies[0].to, packages[0].dependencies[0].is_dev_only), (1, false));
        assert_eq!(packages[1].folder, None);
    }
}
