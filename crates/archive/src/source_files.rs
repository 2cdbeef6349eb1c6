//! Which files the flows of an archive were read from, so that a file that is read a second time is recognized.
//!
//! A file is known by its content, its checksum and its length: the same capture under another name counts twice as
//! well. The list is written when the flows of a file are all in the archive; of a file that was read half before a kill
//! nothing is known, and reading it again adds its first half again. A file that ends in damage is in the list too, as
//! damaged: all that can be read of it is in the archive. What speaks against checksums of 32 bits is that
//! one file in four billion of the same length is taken for another: whoever is told so can read it all the same.
//!
//! One line a file: checksum, octets (of a damaged file with `damaged:` before them), name. The list may be lost or cut: then files are not recognized.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::{Action, ArchiveError, disk, folder};

/// The folder of the list.
const FOLDER: &str = "sources";
const LIST: &str = "files";
const NEW: &str = "files.new";
const FIRST_LINE: &str = "weir source files, version 1";
/// Comes before the octets of a file that could not be read to its end.
const DAMAGED: &str = "damaged:";
/// Octets read at a time.
const READ_OCTETS: usize = 256 << 10;

/// What a file is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SourceFile {
    crc: u32,
    octets: u64,
}

impl SourceFile {
    /// Reads a file.
    pub fn of(path: &Path) -> io::Result<Self> {
        Self::read(File::open(path)?)
    }

    /// Reads the content of a file to its end.
    pub fn read(mut content: impl Read) -> io::Result<Self> {
        let mut buffer = vec![0; READ_OCTETS];
        let mut found = Self { crc: 0, octets: 0 };
        loop {
            match content.read(&mut buffer) {
                Ok(0) => return Ok(found),
                Ok(length) => {
                    found.crc = crc32c::crc32c_append(found.crc, &buffer[..length]);
                    found.octets += length as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A file whose flows are in an archive.
#[derive(Debug, Clone, Copy)]
pub struct ReadFile<'f> {
    /// What it is known by.
    pub file: SourceFile,
    /// Where it was read.
    pub path: &'f Path,
    /// Whether it could not be read to its end.
    pub is_damaged: bool,
}

/// The files that the flows of an archive were read from.
#[derive(Debug)]
pub struct SourceFiles {
    folder: PathBuf,
    known: HashMap<SourceFile, KnownFile>,
}

#[derive(Debug)]
struct KnownFile {
    name: String,
    is_damaged: bool,
}

impl SourceFiles {
    /// Those of the archive in this folder, which need not be there yet.
    pub fn of(archive: &Path) -> Result<Self, ArchiveError> {
        let folder = archive.join(FOLDER);
        let path = folder.join(LIST);
        let text = match fs::read(&path) {
            Ok(octets) => String::from_utf8_lossy(&octets).into_owned(),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => String::new(),
            Err(source) => return Err(Action::AccessSourceFiles.failed(&path)(source)),
        };
        let known = text.lines().skip(1).filter_map(parse).collect();
        Ok(Self { folder, known })
    }

    /// The name under which a file of the same content was read.
    pub fn read_as(&self, file: &SourceFile) -> Option<&str> {
        self.known.get(file).map(|known| known.name.as_str())
    }

    /// Whether a file of the same content was read and could not be read to its end.
    pub fn was_damaged(&self, file: &SourceFile) -> bool {
        self.known.get(file).is_some_and(|known| known.is_damaged)
    }

    /// Notes files whose flows are in the archive now.
    pub fn add<'f>(&mut self, files: impl IntoIterator<Item = ReadFile<'f>>) -> Result<(), ArchiveError> {
        for ReadFile { file, path, is_damaged } in files {
            self.known.entry(file).or_insert_with(|| KnownFile { name: name(path), is_damaged });
        }
        let mut lines: Vec<_> = self.known.iter().collect();
        lines.sort_by_key(|&(file, known)| (&known.name, file.octets, file.crc));
        let mut text = format!("{FIRST_LINE}\n");
        for (SourceFile { crc, octets }, KnownFile { name, is_damaged }) in lines {
            let damaged = if *is_damaged { DAMAGED } else { "" };
            // writing to a text does not fail
            let _ = writeln!(text, "{crc:08x} {damaged}{octets} {name}");
        }
        folder::create(&self.folder)?;
        let (new, path) = (self.folder.join(NEW), self.folder.join(LIST));
        let failed = Action::AccessSourceFiles.failed(&path);
        disk::write_synced(&new, text.as_bytes()).map_err(failed)?;
        disk::rename(&new, &path).map_err(failed)?;
        folder::sync(&self.folder)
    }
}

/// The name as one line.
fn name(path: &Path) -> String {
    path.to_string_lossy().chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

fn parse(line: &str) -> Option<(SourceFile, KnownFile)> {
    let mut words = line.splitn(3, ' ');
    let crc = u32::from_str_radix(words.next()?, 16).ok()?;
    let octets = words.next()?;
    let (octets, is_damaged) = octets.strip_prefix(DAMAGED).map_or((octets, false), |octets| (octets, true));
    let file = SourceFile { crc, octets: octets.parse().ok()? };
    Some((file, KnownFile { name: words.next()?.to_owned(), is_damaged }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_content() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).expect("written");
            (SourceFile::of(&path).expect("readable"), path)
        };
        let (one, path) = file("one\n.pcap", "packets");
        let (other, _) = file("other.pcap", "other packets");
        let archive = dir.path().join("archive");
        fs::create_dir(&archive).expect("a folder");
        let mut known = SourceFiles::of(&archive).expect("nothing yet");
        assert_eq!(known.read_as(&one), None);
        let cut = file("cut.pcap", "pack").0;
        let read = |file, is_damaged| ReadFile { file, path: &path, is_damaged };
        known.add([read(one, false), read(cut, true)]).expect("noted");
        let known = SourceFiles::of(&archive).expect("readable");
        let again = file("a copy", "packets").0;
        assert_eq!(known.read_as(&again), Some(name(&path).as_str()));
        assert_eq!(known.read_as(&other), None);
        assert_eq!([one, cut, other].map(|file| known.was_damaged(&file)), [false, true, false]);
    }

    #[test]
    fn a_list_that_is_cut_knows_less() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir(dir.path().join(FOLDER)).expect("a folder");
        let text = format!("{FIRST_LINE}\n0000000a 7 a b.pcap\nnonsense\n0000000b 9");
        fs::write(dir.path().join(FOLDER).join(LIST), text).expect("written");
        let known = SourceFiles::of(dir.path()).expect("readable");
        assert_eq!(known.read_as(&SourceFile { crc: 10, octets: 7 }), Some("a b.pcap"));
        assert_eq!(known.known.len(), 1);
    }
}
