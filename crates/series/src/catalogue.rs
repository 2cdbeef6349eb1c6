//! Which number each series has.
//!
//! A text file that grows at its end, one line for each series: checksum, family, number and key, with tabs between them.
//! A series is in it before the first step that has the series. Series whose steps have all expired are left out when it
//! is written anew, and no number is ever given twice.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use crate::folder::{self, Folder};
use crate::shared_file::SharedFile;
use crate::{FamilyId, SeriesError, SeriesId};

/// The series of a store.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    families: Vec<Keys>,
}

/// The keys of a family.
#[derive(Debug, Clone, Default)]
struct Keys {
    /// By number. Most numbers are of series that are not there any more.
    keys: BTreeMap<u32, Box<str>>,
    ids: HashMap<Box<str>, u32, foldhash::fast::RandomState>,
}

impl Keys {
    /// The number after the largest one.
    fn next(&self) -> u32 {
        self.keys.last_key_value().map_or(0, |(last, _)| last.saturating_add(1))
    }
}

/// The name of its file.
const FILE: &str = "catalogue";

impl Catalogue {
    /// Reads the catalogue of a store. Keys whose lines are damaged are not in it.
    pub(crate) fn read(folder: &Folder) -> Result<Self, SeriesError> {
        Ok(Self::read_counted(&folder.0.join(FILE))?.0)
    }

    /// The same with the octets of whole lines, and whether one that was durable is damaged.
    fn read_counted(path: &Path) -> Result<(Self, u64, bool), SeriesError> {
        let octets = match fs::read(path) {
            Ok(octets) => octets,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(SeriesError::io("read", path)(error)),
        };
        let (mut catalogue, mut understood, mut has_damage) = (Self::default(), 0, false);
        for line in octets.split_inclusive(|&octet| octet == b'\n') {
            // a process that died has not finished the last line; another line that is damaged costs its own key only
            let Some(whole) = line.strip_suffix(b"\n") else { break };
            if let Some((family, id, key)) = parsed(whole) {
                catalogue.insert(family, id, &key);
            } else {
                // zeros are what a loss of power leaves of a line that was not durable
                has_damage |= !whole.contains(&0);
            }
            understood += line.len() as u64;
        }
        Ok((catalogue, understood, has_damage))
    }

    fn insert(&mut self, family: FamilyId, id: u32, key: &str) {
        let place = usize::from(family.0);
        if self.families.len() <= place {
            self.families.resize_with(place + 1, Keys::default);
        }
        let keys = &mut self.families[place];
        keys.keys.insert(id, key.into());
        keys.ids.insert(key.into(), id);
    }

    /// The number of a key.
    pub fn id(&self, family: FamilyId, key: &str) -> Option<SeriesId> {
        self.families.get(usize::from(family.0))?.ids.get(key).copied().map(SeriesId)
    }

    /// The key of a series.
    pub fn key(&self, family: FamilyId, id: SeriesId) -> Option<&str> {
        self.families.get(usize::from(family.0))?.keys.get(&id.0).map(|key| &**key)
    }

    /// The series of a family in the order of their numbers.
    pub fn series(&self, family: FamilyId) -> impl Iterator<Item = (SeriesId, &str)> {
        let keys = self.families.get(usize::from(family.0)).map(|family| &family.keys);
        keys.into_iter().flatten().map(|(id, key)| (SeriesId(*id), &**key))
    }

    /// How many series there are.
    pub fn len(&self) -> usize {
        self.families.iter().map(|family| family.ids.len()).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A line without its end: family, number and key.
fn parsed(line: &[u8]) -> Option<(FamilyId, u32, String)> {
    let line = str::from_utf8(line).ok()?;
    let (checksum, rest) = line.split_once('\t')?;
    if u32::from_str_radix(checksum, 16).ok()? != crc32c::crc32c(rest.as_bytes()) {
        return None;
    }
    let mut parts = rest.splitn(3, '\t');
    let (family, id, key) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?);
    Some((FamilyId(family), id, unescaped(key)))
}

fn line(family: FamilyId, id: u32, key: &str) -> String {
    let mut rest = format!("{}\t{id}\t", family.0);
    for character in key.chars() {
        match character {
            '\\' => rest.push_str("\\\\"),
            '\n' => rest.push_str("\\n"),
            '\t' => rest.push_str("\\t"),
            other => rest.push(other),
        }
    }
    let mut line = String::new();
    let _ = writeln!(line, "{:08x}\t{rest}", crc32c::crc32c(rest.as_bytes()));
    line
}

fn unescaped(text: &str) -> String {
    let mut key = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, character == '\\') {
            (_, true) => key.push(match characters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some(other) => other,
                None => '\\',
            }),
            (other, false) => key.push(other),
        }
    }
    key
}

/// The catalogue of a writer.
#[derive(Debug)]
pub(crate) struct CatalogueWriter {
    catalogue: Catalogue,
    folder: Folder,
    file: Arc<File>,
    shared: SharedFile,
    /// Lines that are not written yet.
    waiting: String,
    octets: u64,
    /// Whether a line that was durable is damaged.
    has_damage: bool,
    /// For each family the next number.
    next: Vec<u32>,
}

impl CatalogueWriter {
    pub(crate) fn open(folder: &Folder) -> Result<Self, SeriesError> {
        let path = folder.0.join(FILE);
        let (catalogue, octets, has_damage) = Catalogue::read_counted(&path)?;
        let opened = weir_disk::open_or_create(OpenOptions::new().append(true), &path);
        let file = opened.map_err(SeriesError::io("open", &path))?;
        // a line that was not finished
        weir_disk::set_length(&file, &path, octets).map_err(SeriesError::io("shorten", &path))?;
        let next = catalogue.families.iter().map(Keys::next).collect();
        let (file, shared) = (Arc::new(file), SharedFile::default());
        shared.set(Arc::clone(&file), &path);
        let (folder, waiting) = (folder.clone(), String::new());
        Ok(Self { catalogue, folder, file, shared, waiting, octets, has_damage, next })
    }

    /// Whether a line that was durable was damaged when the catalogue was opened: then it is not known which keys there were.
    pub(crate) fn has_damaged_lines(&self) -> bool {
        self.has_damage
    }

    pub(crate) fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The number of a key, a new one when it has none.
    pub(crate) fn number(&mut self, family: FamilyId, key: &str) -> SeriesId {
        if let Some(id) = self.catalogue.id(family, key) {
            return id;
        }
        let place = usize::from(family.0);
        if self.next.len() <= place {
            self.next.resize(place + 1, 0);
        }
        let id = self.next[place];
        self.next[place] += 1;
        self.catalogue.insert(family, id, key);
        self.waiting.push_str(&line(family, id, key));
        SeriesId(id)
    }

    /// Writes the lines of new series. To be called before the step that has them is written.
    pub(crate) fn flush(&mut self) -> Result<(), SeriesError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let path = self.folder.0.join(FILE);
        if let Err(error) = (&*self.file).write_all(self.waiting.as_bytes()) {
            // half a line would hide all that come after it
            let _ = self.file.set_len(self.octets);
            return Err(SeriesError::io("write", &path)(error));
        }
        weir_disk::written(&path);
        self.octets += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    /// The file, to be synced before steps that have its keys.
    pub(crate) fn shared(&self) -> SharedFile {
        self.shared.clone()
    }

    /// Gives this number and those below it to no other series.
    pub(crate) fn reserve(&mut self, family: FamilyId, last: u32) {
        let place = usize::from(family.0);
        if self.next.len() <= place {
            self.next.resize(place + 1, 0);
        }
        self.next[place] = self.next[place].max(last.saturating_add(1));
    }

    /// Writes the catalogue anew without the series that are not `used`. The largest number of each family stays, so
    /// that none is given twice.
    pub(crate) fn retain(&mut self, used: impl Fn(FamilyId, SeriesId) -> bool) -> Result<(), SeriesError> {
        self.flush()?;
        let mut text = String::new();
        let mut kept = Catalogue::default();
        for family in (0..self.catalogue.families.len() as u16).map(FamilyId) {
            let last = SeriesId(self.next[usize::from(family.0)].saturating_sub(1));
            for (id, key) in self.catalogue.series(family).filter(|(id, _)| *id == last || used(family, *id)) {
                kept.insert(family, id.0, key);
                text.push_str(&line(family, id.0, key));
            }
        }
        let path = self.folder.0.join(FILE);
        folder::replace(&path, text.as_bytes())?;
        let file = OpenOptions::new().append(true).open(&path).map_err(SeriesError::io("open", &path))?;
        self.file = Arc::new(file);
        self.shared.set(Arc::clone(&self.file), &path);
        (self.catalogue, self.octets) = (kept, text.len() as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_last_whatever_the_key_and_whatever_is_left_out() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = Folder(dir.path().to_owned());
        let family = FamilyId(1);
        let mut writer = CatalogueWriter::open(&folder).expect("a catalogue");
        let ids = ["a", "tab\tline\nback\\slash\\n", "ä"].map(|key| writer.number(family, key));
        assert_eq!(ids, [0, 1, 2].map(SeriesId));
        writer.flush().expect("written");
        // a line that a dying process has not finished
        fs::OpenOptions::new()
            .append(true)
            .open(dir.path().join(FILE))
            .and_then(|mut file| file.write_all(b"0123"))
            .expect("written");
        let mut writer = CatalogueWriter::open(&folder).expect("a catalogue");
        assert_eq!(writer.catalogue().key(family, SeriesId(1)), Some("tab\tline\nback\\slash\\n"));
        assert_eq!(writer.number(family, "ä"), SeriesId(2));
        writer.retain(|_, id| id == SeriesId(0)).expect("written");
        let mut writer = CatalogueWriter::open(&folder).expect("a catalogue");
        assert_eq!(writer.catalogue().len(), 2);
        assert_eq!(writer.number(family, "new"), SeriesId(3));
        writer.flush().expect("written");
        let read = Catalogue::read(&folder).expect("a catalogue");
        let found: Vec<_> = read.series(family).collect();
        assert_eq!(found, [(SeriesId(0), "a"), (SeriesId(2), "ä"), (SeriesId(3), "new")]);
    }
}
