//! Which files the flows of an archive were read from, so that a file that is read a second time is recognized.
//!
//! A file is known by its content, its checksum and its length: the same capture under another name counts twice as
//! well. The list is written when the flows of a file are all in the archive, while others may still be read. A file that
//! ends in damage is in the list too, as damaged: all that can be read of it is in the archive. What speaks against checksums of 32 bits is that
//! one file in four billion of the same length is taken for another: whoever is told so can read it all the same.
//!
//! A second list has a line for each file before its first flows come to the archive, and loses it when the file is in the
//! first one, or when nothing came of it. So a file that was read half before a kill is recognized, too. How many of its flows
//! there are is not known.
//!
//! One line a file: checksum, octets (of a damaged file with `damaged:` before them), name. The list may be lost or cut: then files are not recognized.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::{Action, ArchiveError, disk, folder};

/// The folder of the list.
const FOLDER: &str = "sources";
const LIST: &str = "files";
const NEW: &str = "files.new";
const BEGUN: &str = "begun";
const BEGUN_NEW: &str = "begun.new";
const FIRST_LINE: &str = "weir source files, version 1";
const BEGUN_FIRST_LINE: &str = "weir source files begun, version 1";
/// Comes before the octets of a file that could not be read to its end.
const DAMAGED: &str = "damaged:";
/// From one sync of the list of begun files to the next, at least: many small files are not to wait for the disk each.
const SYNC_EVERY: Duration = Duration::from_secs(1);
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
    pub fn read(content: impl Read) -> io::Result<Self> {
        Self { crc: 0, octets: 0 }.followed_by(content)
    }

    /// The same with more content behind it.
    fn followed_by(mut self, mut content: impl Read) -> io::Result<Self> {
        let mut buffer = vec![0; READ_OCTETS];
        loop {
            match content.read(&mut buffer) {
                Ok(0) => return Ok(self),
                Ok(length) => {
                    self.crc = crc32c::crc32c_append(self.crc, &buffer[..length]);
                    self.octets += length as u64;
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
    begun: HashMap<SourceFile, KnownFile>,
    begun_list: Arc<Mutex<BegunList>>,
}

/// Takes down files whose first flows are about to come to an archive, also while others are [noted](SourceFiles::add).
#[derive(Debug, Clone)]
pub struct BegunFiles {
    folder: PathBuf,
    list: Arc<Mutex<BegunList>>,
}

/// Locked to change the list of begun files: a line that is added while the list is replaced would be lost.
#[derive(Debug, Default)]
struct BegunList {
    synced: Option<Instant>,
}

impl BegunFiles {
    /// Adds a file with the name under which it is read. The list is synced when it was not within the last second: after
    /// a power failure, files that were begun within a second of the one before may not be recognized, though flows of them
    /// are in the archive.
    pub fn add(&self, file: SourceFile, path: &Path) -> Result<(), ArchiveError> {
        let mut begun = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.folder.is_dir() {
            folder::create(&self.folder)?;
        }
        let place = self.folder.join(BEGUN);
        let failed = Action::AccessSourceFiles.failed(&place);
        let line = format!("{:08x} {} {}\n", file.crc, file.octets, name(path));
        let list = append(&place, &line).map_err(failed)?;
        if begun.synced.is_some_and(|synced| synced.elapsed() < SYNC_EVERY) {
            return Ok(());
        }
        disk::sync_data(&list, &place).map_err(failed)?;
        // the list may have been made just now
        folder::sync(&self.folder)?;
        begun.synced = Some(Instant::now());
        Ok(())
    }
}

/// Appends a line to the list of begun files.
fn append(place: &Path, line: &str) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let mut list = disk::open_or_create(options.read(true).append(true).create(true), place)?;
    let lead = match list.metadata()?.len() {
        0 => format!("{BEGUN_FIRST_LINE}\n"),
        octets => {
            let mut last = [0];
            list.read_exact_at(&mut last, octets - 1)?;
            // the line before may have been cut short by a full disk
            if last == *b"\n" { String::new() } else { "\n".to_owned() }
        }
    };
    list.write_all(format!("{lead}{line}").as_bytes())?;
    disk::written(place);
    Ok(list)
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
        let (known, begun) = (read(&folder.join(LIST))?, read(&folder.join(BEGUN))?);
        Ok(Self { folder, known, begun, begun_list: Arc::default() })
    }

    /// Takes down files before their flows come, also from another thread.
    pub fn begun_files(&self) -> BegunFiles {
        BegunFiles { folder: self.folder.clone(), list: Arc::clone(&self.begun_list) }
    }

    /// The name under which a file of the same content was begun, and not read to its end.
    pub fn begun_as(&self, file: &SourceFile) -> Option<&str> {
        self.begun.get(file).filter(|_| !self.known.contains_key(file)).map(|begun| begun.name.as_str())
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
        folder::create(&self.folder)?;
        self.write(LIST, NEW, FIRST_LINE, &self.known)?;
        self.shorten_begun(|files, file| files.known.contains_key(file))
    }

    /// Takes files off the list of those that were begun: it has turned out that the archive has nothing of them.
    pub fn forget_begun(&mut self, files: impl IntoIterator<Item = SourceFile>) -> Result<(), ArchiveError> {
        let forgotten: HashSet<_> = files.into_iter().collect();
        self.shorten_begun(|_, file| forgotten.contains(file))
    }

    /// Takes files off the list of those that were begun.
    fn shorten_begun(&mut self, goes: impl Fn(&Self, &SourceFile) -> bool) -> Result<(), ArchiveError> {
        let list = Arc::clone(&self.begun_list);
        let _changing = list.lock().unwrap_or_else(PoisonError::into_inner);
        // others were added to it since it was read
        let path = self.folder.join(BEGUN);
        let mut begun = read(&path)?;
        if begun.is_empty() {
            return Ok(());
        }
        begun.retain(|file, _| !goes(&*self, file));
        self.begun = begun;
        if self.begun.is_empty() {
            return disk::remove(&path).map_err(Action::AccessSourceFiles.failed(&path));
        }
        self.write(BEGUN, BEGUN_NEW, BEGUN_FIRST_LINE, &self.begun)
    }

    /// Replaces a list.
    fn write(
        &self,
        list: &str,
        new: &str,
        first_line: &str,
        files: &HashMap<SourceFile, KnownFile>,
    ) -> Result<(), ArchiveError> {
        let mut lines: Vec<_> = files.iter().collect();
        lines.sort_by_key(|&(file, known)| (&known.name, file.octets, file.crc));
        let mut text = format!("{first_line}\n");
        for (SourceFile { crc, octets }, KnownFile { name, is_damaged }) in lines {
            let damaged = if *is_damaged { DAMAGED } else { "" };
            // writing to a text does not fail
            let _ = writeln!(text, "{crc:08x} {damaged}{octets} {name}");
        }
        let (new, path) = (self.folder.join(new), self.folder.join(list));
        let failed = Action::AccessSourceFiles.failed(&path);
        disk::write_synced(&new, text.as_bytes()).map_err(failed)?;
        disk::rename(&new, &path).map_err(failed)?;
        folder::sync(&self.folder)
    }
}

/// What a file had when it was read before, under the same name and with other content than now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EarlierContent {
    /// What the file begins with: it has grown, or was cut short then. The name may have been in another folder.
    Beginning(String),
    /// Something else.
    Other,
}

/// The files of an archive by their names, to find those that have another content now. Only files of one name are
/// compared: among many, some would begin with the checksum of another one by chance.
#[derive(Debug)]
pub struct EarlierFiles {
    /// By the last part of the name; the shortest first.
    by_name: HashMap<String, Vec<(SourceFile, String)>>,
}

impl EarlierFiles {
    /// Those that were read, and those that were begun.
    pub fn of(files: &SourceFiles) -> Self {
        let mut by_name: HashMap<_, Vec<_>> = HashMap::new();
        for (file, known) in files.known.iter().chain(&files.begun).filter(|(file, _)| file.octets > 0) {
            by_name.entry(last_part(&known.name).to_owned()).or_default().push((*file, known.name.clone()));
        }
        for files in by_name.values_mut() {
            files.sort_by_key(|(file, _)| file.octets);
        }
        Self { by_name }
    }

    /// What a file had before that no file was read with the content of. Reads as much of it as the longest file of its
    /// name had; `None` when there was none.
    pub fn content_before(&self, path: &Path, mut content: impl Read) -> io::Result<Option<EarlierContent>> {
        let name = name(path);
        let Some(files) = self.by_name.get(last_part(&name)) else { return Ok(None) };
        let mut beginning = SourceFile { crc: 0, octets: 0 };
        for (file, name) in files {
            beginning = beginning.followed_by(content.by_ref().take(file.octets - beginning.octets))?;
            if beginning == *file {
                return Ok(Some(EarlierContent::Beginning(name.clone())));
            }
            if beginning.octets < file.octets {
                break;
            }
        }
        Ok(files.iter().any(|(_, other)| *other == name).then_some(EarlierContent::Other))
    }
}

/// The name of a file without its folders.
fn last_part(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Reads a list, which may not be there.
fn read(path: &Path) -> Result<HashMap<SourceFile, KnownFile>, ArchiveError> {
    let text = match fs::read(path) {
        Ok(octets) => String::from_utf8_lossy(&octets).into_owned(),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => String::new(),
        Err(source) => return Err(Action::AccessSourceFiles.failed(path)(source)),
    };
    Ok(text.lines().skip(1).filter_map(parse).collect())
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
    fn a_file_is_begun_until_it_is_noted() {
        let dir = tempfile::tempdir().expect("a folder");
        let [one, other] = [10, 11].map(|crc| SourceFile { crc, octets: 7 });
        let known = SourceFiles::of(dir.path()).expect("nothing yet");
        known.begun_files().add(one, Path::new("one.pcap")).expect("written");
        known.begun_files().add(other, Path::new("other.pcap")).expect("written");
        let mut known = SourceFiles::of(dir.path()).expect("readable");
        assert_eq!([one, other].map(|file| known.read_as(&file).is_some()), [false, false]);
        assert_eq!([one, other].map(|file| known.begun_as(&file).is_some()), [true, true]);
        let path = Path::new("one.pcap");
        known.add([ReadFile { file: one, path, is_damaged: false }]).expect("noted");
        let mut known = SourceFiles::of(dir.path()).expect("readable");
        assert_eq!([one, other].map(|file| known.begun_as(&file)), [None, Some("other.pcap")]);
        known.add([ReadFile { file: other, path, is_damaged: true }]).expect("noted");
        assert!(!dir.path().join(FOLDER).join(BEGUN).exists());
        assert_eq!(known.begun_as(&other), None);
    }

    #[test]
    fn a_file_of_which_nothing_came_is_not_begun() {
        let dir = tempfile::tempdir().expect("a folder");
        let [one, other] = [10, 11].map(|crc| SourceFile { crc, octets: 7 });
        let mut known = SourceFiles::of(dir.path()).expect("nothing yet");
        // nothing was begun, and there is no list yet
        known.forget_begun([one]).expect("nothing to do");
        known.begun_files().add(one, Path::new("one.pcap")).expect("written");
        known.begun_files().add(other, Path::new("other.pcap")).expect("written");
        known.forget_begun([one]).expect("written");
        for known in [known, SourceFiles::of(dir.path()).expect("readable")] {
            assert_eq!([one, other].map(|file| known.begun_as(&file)), [None, Some("other.pcap")]);
        }
    }

    /// As many are begun as there is time for while others are noted, so that each note has some come meanwhile.
    #[test]
    fn files_are_begun_while_others_are_noted() {
        const NOTED: u32 = 50;
        let dir = tempfile::tempdir().expect("a folder");
        let mut known = SourceFiles::of(dir.path()).expect("nothing yet");
        let begun = known.begun_files();
        let file = |crc| SourceFile { crc, octets: 7 };
        // every second one of the first that are begun
        let is_noted = |crc: u32| crc < 2 * NOTED && crc.is_multiple_of(2);
        let noting = std::thread::spawn(move || {
            for file in (0..2 * NOTED).filter(|&crc| is_noted(crc)).map(file) {
                known.add([ReadFile { file, path: Path::new("read.pcap"), is_damaged: false }]).expect("noted");
            }
        });
        let mut files = 0;
        while files < 2 * NOTED || !noting.is_finished() {
            begun.add(file(files), Path::new("begun.pcap")).expect("written");
            // outside of the lock, so that the other thread has its turn
            let known = SourceFiles::of(dir.path()).expect("readable");
            assert!(is_noted(files) || known.begun_as(&file(files)).is_some(), "{files}");
            files += 1;
        }
        noting.join().expect("no panic");
        let known = SourceFiles::of(dir.path()).expect("readable");
        let lost = (0..files).find(|&crc| known.begun_as(&file(crc)).is_some() == is_noted(crc));
        assert_eq!(lost, None);
    }

    #[test]
    fn a_line_that_is_cut_takes_no_other_with_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let begun = SourceFiles::of(dir.path()).expect("nothing yet").begun_files();
        let [one, two, three] = [10, 11, 12].map(|crc| SourceFile { crc, octets: 7 });
        let list = dir.path().join(FOLDER).join(BEGUN);
        begun.add(one, Path::new("one.pcap")).expect("written");
        let octets = fs::read(&list).expect("readable");
        fs::write(&list, &octets[..octets.len() - "one.pcap\n".len()]).expect("written");
        begun.add(two, Path::new("two.pcap")).expect("written");
        let known = SourceFiles::of(dir.path()).expect("readable");
        assert_eq!(known.begun_as(&two), Some("two.pcap"));
        // of the first line, too
        fs::write(&list, &BEGUN_FIRST_LINE[..9]).expect("written");
        begun.add(three, Path::new("three.pcap")).expect("written");
        let known = SourceFiles::of(dir.path()).expect("readable");
        assert_eq!(known.begun_as(&three), Some("three.pcap"));
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

    #[test]
    fn a_file_that_has_another_content_than_before_is_found() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut known = SourceFiles::of(dir.path()).expect("nothing yet");
        let read = |content: &str| SourceFile::read(content.as_bytes()).expect("readable");
        let files = [("a/trace.pcap", "one"), ("b/trace.pcap", "one two"), ("a/empty.pcap", ""), ("other.pcap", "on")];
        known
            .add(files.map(|(path, content)| ReadFile {
                file: read(content),
                path: Path::new(path),
                is_damaged: false,
            }))
            .expect("noted");
        known.begun_files().add(read("begun"), Path::new("begun.pcap")).expect("written");
        let earlier = EarlierFiles::of(&SourceFiles::of(dir.path()).expect("readable"));
        let beginning = |name: &str| Some(EarlierContent::Beginning(name.to_owned()));
        for (path, content, expected) in [
            ("a/trace.pcap", "one, and more", beginning("a/trace.pcap")),
            ("c/trace.pcap", "one two three", beginning("a/trace.pcap")),
            ("begun.pcap", "begun and ended", beginning("begun.pcap")),
            ("a/trace.pcap", "another", Some(EarlierContent::Other)),
            // shorter than all that were read
            ("b/trace.pcap", "o", Some(EarlierContent::Other)),
            ("c/trace.pcap", "another", None),
            ("a/empty.pcap", "no more", None),
            ("new.pcap", "one, and more", None),
        ] {
            assert_eq!(
                earlier.content_before(Path::new(path), content.as_bytes()).expect("readable"),
                expected,
                "{path}"
            );
        }
    }
}
