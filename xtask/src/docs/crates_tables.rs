//! The tables of crates in README.md and ARCHITECTURE.md, made of the crates' manifests.
//!
//! What a crate does is the `description` of its `Cargo.toml`; where to begin reading (`look`) and what is never in it
//! (`never`) are in its `[package.metadata.weir]`. The order is that of the dependencies ([`ROOMS`]).

use std::fmt::Write;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use crate::order::{ROOMS, cargo_metadata, folder_of};

/// Lines that a generated table is between.
const BEGIN: &str = "<!-- crates: begin, written by `cargo xtask docs` -->\n";
const END: &str = "<!-- crates: end -->\n";

/// What the tables have of a crate.
#[derive(Debug, PartialEq, Eq)]
struct Crate {
    /// Relative to the workspace.
    folder: String,
    description: String,
    look: String,
    never: String,
}

/// README.md with its table of crates.
pub(super) fn readme(root: &Path, page: &str) -> anyhow::Result<String> {
    let mut table = "| crate | what it does |\n| --- | --- |\n".to_owned();
    for Crate { folder, description, .. } in crates(&cargo_metadata(root)?)? {
        let _ = writeln!(table, "| [`{folder}`]({folder}) | {} |", lowered(&description));
    }
    replaced(page, &table).context("README.md")
}

/// ARCHITECTURE.md with its code map.
pub(super) fn code_map(root: &Path, page: &str) -> anyhow::Result<String> {
    let mut table = "| crate | look first at | never |\n| --- | --- | --- |\n".to_owned();
    for Crate { folder, look, never, .. } in crates(&cargo_metadata(root)?)? {
        // those of this project are known by their names, and adapters by where they are
        let name = folder.strip_prefix("crates/").unwrap_or(&folder);
        let _ = writeln!(table, "| `{name}` | {look} | {never} |");
    }
    replaced(page, &table).context("ARCHITECTURE.md")
}

/// Every crate, in the order of the dependencies.
fn crates(metadata: &Value) -> anyhow::Result<Vec<Crate>> {
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let found = ROOMS.iter().map(|room| {
        let name = if *room == "weir" { (*room).to_owned() } else { format!("weir-{room}") };
        let package = packages.iter().find(|package| package["name"] == name && package["source"].is_null());
        let package = package.with_context(|| format!("there is no package {name}"))?;
        let text = |value: &Value, key: &str| {
            let text = value[key].as_str().map(str::to_owned);
            text.with_context(|| {
                let folder = folder_of(room);
                format!("{folder}/Cargo.toml has no '{key}' (see [package.metadata.weir] of others)")
            })
        };
        Ok(Crate {
            folder: folder_of(room),
            description: text(package, "description")?,
            look: text(&package["metadata"]["weir"], "look")?,
            never: text(&package["metadata"]["weir"], "never")?,
        })
    });
    found.collect()
}

/// Places in `look` where nothing is any more.
pub(super) fn stale_places(root: &Path) -> anyhow::Result<Vec<String>> {
    let crates = crates(&cargo_metadata(root)?)?;
    let stale = crates.iter().flat_map(|Crate { folder, look, .. }| {
        let missing = places(look).filter(move |place| !root.join(folder).join("src").join(place).exists());
        missing.map(move |place| format!("{folder}/Cargo.toml: 'look' names '{place}', which is not in its src"))
    });
    Ok(stale.collect())
}

/// Files and folders in a text, which has them between backticks.
fn places(look: &str) -> impl Iterator<Item = &str> {
    let quoted = look.split('`').skip(1).step_by(2);
    quoted.filter(|place| place.ends_with('/') || place.rsplit_once('.').is_some_and(|(_, ending)| ending == "rs"))
}

/// The page with another table between its markers.
fn replaced(page: &str, table: &str) -> anyhow::Result<String> {
    let (before, rest) = page.split_once(BEGIN).with_context(|| format!("has no line '{}'", BEGIN.trim_end()))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("has no line '{}'", END.trim_end()))?;
    Ok(format!("{before}{BEGIN}{table}{END}{after}"))
}

/// A sentence as a cell of a table: names keep their capitals.
fn lowered(text: &str) -> String {
    let word = text.split([' ', ':', ',']).next().unwrap_or_default();
    let is_name = word.chars().skip(1).any(char::is_uppercase);
    match text.chars().next().filter(|_| !is_name) {
        Some(first) => first.to_lowercase().chain(text.chars().skip(1)).collect(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(weir: &Value) -> Value {
        let packages: Vec<Value> = ROOMS
            .iter()
            .map(|room| {
                let name = if *room == "weir" { (*room).to_owned() } else { format!("weir-{room}") };
                serde_json::json!({"name": name, "source": null, "description": "Does it", "metadata": {"weir": weir}})
            })
            .collect();
        serde_json::json!({ "packages": packages })
    }

    #[test]
    fn crates_come_in_the_order_of_their_dependencies() {
        let found = crates(&metadata(&serde_json::json!({"look": "a.rs", "never": "b"}))).expect("crates");
        assert_eq!(found.len(), ROOMS.len());
        assert_eq!((found[0].folder.as_str(), found[0].look.as_str()), ("crates/wire", "a.rs"));
    }

    #[test]
    fn a_manifest_that_lacks_something_is_named() {
        let error = crates(&metadata(&serde_json::json!({"look": "a.rs"}))).expect_err("no 'never'").to_string();
        assert!(error.starts_with("crates/wire/Cargo.toml has no 'never'"), "{error}");
    }

    #[test]
    fn the_table_is_replaced_and_the_rest_stays() {
        let page = format!("a\n{BEGIN}old\n{END}b\n");
        assert_eq!(replaced(&page, "new\n").expect("a page"), format!("a\n{BEGIN}new\n{END}b\n"));
        assert!(replaced("a\n", "new\n").is_err());
    }

    #[test]
    fn places_are_files_and_folders() {
        let found: Vec<&str> = places("`lib.rs`: one trait; `cache/`, and what `FlowBatch` is").collect();
        assert_eq!(found, ["lib.rs", "cache/"]);
    }

    #[test]
    fn sentences_become_cells() {
        assert_eq!(lowered("The archive: a tail"), "the archive: a tail");
        assert_eq!(lowered("SQL, answered by DataFusion"), "SQL, answered by DataFusion");
        assert_eq!(lowered("nfdump's filter language"), "nfdump's filter language");
        assert_eq!(lowered("A seed into flows"), "a seed into flows");
    }
}
