//! Which number each series has.
//!
//! A text file that grows at its end, one line for each series: checksum, family, number and key, with tabs between them.
//! A series is in it before the first step that has the series. Series whose steps have all expired are left out when it
//! is written anew, and no number is ever given twice. A bit that is another one is corrected; a line with more damage costs its
//! key, see [`lines`] and `writer/lost_keys.rs`.

mod lines;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use self::lines::line;
use crate::folder::{self, Folder};
use crate::shared_file::SharedFile;
use crate::{FamilyId, SeriesError, SeriesId};

/// The series of a store.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    families: Vec<Keys>,
    repaired_lines: u64,
    damaged_lines: u64,
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
/// What the names of copies with damage have behind it, before their number.
const DAMAGED: &str = ".damaged-";
/// Most copies with damage that are kept.
const COPIES_MAX: usize = 8;

impl Catalogue {
    /// Reads the catalogue of a store. Keys whose lines are damaged beyond repair are not in it.
    pub(crate) fn read(folder: &Folder) -> Result<Self, SeriesError> {
        Ok(Self::read_counted(&folder.0.join(FILE))?.0)
    }

    /// The same with the octets of whole lines.
    fn read_counted(path: &Path) -> Result<(Self, u64), SeriesError> {
        let octets = match fs::read(path) {
            Ok(octets) => octets,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(SeriesError::io("read", path)(error)),
        };
        let mut catalogue = Self::default();
        let counts = lines::read(&octets, |(family, id, key)| catalogue.insert(family, id, &key));
        (catalogue.repaired_lines, catalogue.damaged_lines) = (counts.repaired, counts.damaged);
        Ok((catalogue, counts.octets))
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

    /// Places where one bit of the file was another one, and was corrected. The next writer of the store writes it anew.
    pub fn repaired_lines(&self) -> u64 {
        self.repaired_lines
    }

    /// Lines of the file that are damaged beyond repair: their series have no key.
    pub fn damaged_lines(&self) -> u64 {
        self.damaged_lines
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
    /// For each family the next number.
    next: Vec<u32>,
}

impl CatalogueWriter {
    pub(crate) fn open(folder: &Folder) -> Result<Self, SeriesError> {
        let path = folder.0.join(FILE);
        let (catalogue, octets) = Catalogue::read_counted(&path)?;
        let opened = weir_disk::open_or_create(OpenOptions::new().append(true), &path);
        let file = opened.map_err(SeriesError::io("open", &path))?;
        // a line that was not finished
        weir_disk::set_length(&file, &path, octets).map_err(SeriesError::io("shorten", &path))?;
        let next = catalogue.families.iter().map(Keys::next).collect();
        let (file, shared) = (Arc::new(file), SharedFile::default());
        shared.set(Arc::clone(&file), &path);
        let (folder, waiting) = (folder.clone(), String::new());
        Ok(Self { catalogue, folder, file, shared, waiting, octets, next })
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

    /// Writes the catalogue anew without damage. When keys are lost, a copy of it is kept as it was.
    pub(crate) fn mend(&mut self) -> Result<(), SeriesError> {
        if self.catalogue.damaged_lines > 0 {
            self.keep_damaged()?;
        }
        self.retain(|_, _| true)
    }

    /// Keeps a copy of the file beside those of earlier damage, without the oldest ones. A disk that is full fails this at each start: then
    /// no copy is there in part, and none is made of what the newest one has.
    fn keep_damaged(&self) -> Result<(), SeriesError> {
        let (dir, path) = (&self.folder.0, self.folder.0.join(FILE));
        let entries = fs::read_dir(dir).map_err(SeriesError::io("list", dir))?;
        let number = |name: &str| name.strip_prefix(FILE)?.strip_prefix(DAMAGED)?.parse::<u64>().ok();
        let mut numbers: Vec<u64> =
            entries.filter_map(|entry| entry.ok()?.file_name().to_str().and_then(number)).collect();
        numbers.sort_unstable();
        let copy = |number: u64| folder::aside(&path, &format!("{DAMAGED}{number}"));
        let octets = fs::read(&path).map_err(SeriesError::io("read", &path))?;
        let newest = numbers.last().copied();
        if newest.is_some_and(|newest| fs::read(copy(newest)).is_ok_and(|kept| kept == octets)) {
            return Ok(());
        }
        // first, as the new one may need what they take
        for number in numbers.into_iter().rev().skip(COPIES_MAX - 1) {
            let old = copy(number);
            weir_disk::remove(&old).map_err(SeriesError::io("remove", &old))?;
        }
        folder::replace(&copy(newest.map_or(1, |newest| newest.saturating_add(1))), &octets)
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
