//! Lists of exported files, in an export and in the archive that has imported it.
//!
//! One line a file: checksum, octets, path within the archive that it comes from; then a line with the checksum of all
//! lines before. A list that was cut or changed is an error.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::layout::Layout;
use crate::position::TailNumber;
use crate::{Action, ArchiveError, disk, folder};

const LIST: &str = "weir-export";
const FIRST_LINE: &str = "weir export, version 1";
const LAST_WORD: &str = "end";

/// A file of an export.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) crc: u32,
    pub(super) octets: u64,
    /// Relative to the export.
    pub(super) path: PathBuf,
}

impl Entry {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(3, ' ');
        let crc = u32::from_str_radix(words.next()?, 16).ok()?;
        Some(Self { crc, octets: words.next()?.parse().ok()?, path: PathBuf::from(words.next()?) })
    }
}

fn text_of<'a>(entries: impl Iterator<Item = &'a Entry>) -> String {
    let mut text = format!("{FIRST_LINE}\n");
    for Entry { crc, octets, path } in entries {
        // writing to a text does not fail
        let _ = writeln!(text, "{crc:08x} {octets} {}", path.display());
    }
    let crc = crc32c::crc32c(text.as_bytes());
    let _ = writeln!(text, "{LAST_WORD} {crc:08x}");
    text
}

/// The entries of a list, or what is wrong with it.
fn parse(text: &str) -> Result<Vec<Entry>, &'static str> {
    let rest = text.strip_suffix('\n').unwrap_or(text);
    let (lines, last) = rest.rsplit_once('\n').ok_or("the list is cut")?;
    let lines_octets = lines.len() + 1;
    let crc = last.strip_prefix(LAST_WORD).and_then(|crc| u32::from_str_radix(crc.trim_start(), 16).ok());
    if crc.ok_or("the list is cut")? != crc32c::crc32c(text.get(..lines_octets).unwrap_or_default().as_bytes()) {
        return Err("the list was changed: its checksum is wrong");
    }
    let mut lines = lines.lines();
    if lines.next() != Some(FIRST_LINE) {
        return Err("the list is of a version that this program does not know");
    }
    lines.map(|line| Entry::parse(line).ok_or("a line of the list makes no sense")).collect()
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    disk::write_synced(path, text.as_bytes())
}

/// Writes the list of an export, and syncs it.
pub(super) fn write_list(export: &Path, entries: &[Entry]) -> Result<(), ArchiveError> {
    let path = export.join(LIST);
    write(&path, &text_of(entries.iter())).map_err(Action::AccessExportList.failed(&path))?;
    folder::sync(export)
}

/// Reads the list of an export.
pub(super) fn read_list(export: &Path) -> Result<Vec<Entry>, ArchiveError> {
    let path = export.join(LIST);
    match fs::read_to_string(&path) {
        Ok(text) => parse(&text).map_err(|what| ArchiveError::BadExport { path, what: what.to_owned() }),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(ArchiveError::NotAnExport { path: export.to_owned() })
        }
        Err(source) => Err(Action::AccessExportList.failed(&path)(source)),
    }
}

fn record(layout: &Layout, number: TailNumber) -> PathBuf {
    layout.imported().join(format!("{number:016}"))
}

/// Remembers what is imported; it counts from the commit on by which the tail of this number does not.
pub(super) fn remember<'a>(
    layout: &Layout,
    number: TailNumber,
    entries: impl Iterator<Item = &'a Entry>,
) -> Result<(), ArchiveError> {
    let path = record(layout, number);
    write(&path, &text_of(entries)).map_err(Action::AccessExportList.failed(&path))?;
    folder::sync(&layout.imported())
}

/// Everything that was imported before.
pub(super) fn imported_before(layout: &Layout) -> Result<HashSet<Entry>, ArchiveError> {
    let mut before = HashSet::new();
    for name in folder::names(&layout.imported())? {
        let path = layout.imported().join(name);
        let text = fs::read_to_string(&path);
        let text = text.map_err(Action::AccessExportList.failed(&path))?;
        before.extend(parse(&text).map_err(|what| ArchiveError::BadExport { path, what: what.to_owned() })?);
    }
    Ok(before)
}

/// Forgets imports that were not committed: those of the first tail that is not sealed, or of a later one.
pub(crate) fn forget_uncommitted(layout: &Layout, first: TailNumber) -> Result<(), ArchiveError> {
    for name in folder::names(&layout.imported())? {
        if name.to_str().and_then(|name| name.parse().ok()).is_some_and(|number: TailNumber| number >= first) {
            let path = layout.imported().join(name);
            disk::remove(&path).map_err(Action::RemoveLeftover.failed(&path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_comes_back_and_a_changed_one_does_not() {
        let entry = |crc, path: &str| Entry { crc, octets: 7, path: PathBuf::from(path) };
        let entries = vec![entry(1, "flows/date=2025-11-21/a b.parquet"), entry(u32::MAX, "x")];
        let text = text_of(entries.iter());
        assert_eq!(parse(&text), Ok(entries));
        for at in 0..text.len() * 8 {
            let mut octets = text.clone().into_bytes();
            octets[at / 8] ^= 1 << (at % 8);
            let Ok(flipped) = String::from_utf8(octets) else { continue };
            // the end of the last line, and the case of its digits, say nothing
            assert!(parse(&flipped).is_err() || parse(&flipped) == parse(&text), "bit {at}: {flipped}");
        }
        for length in 0..text.len() - 1 {
            assert!(parse(&text[..length]).is_err(), "{length} octets");
        }
    }
}
