//! What a loss of power may leave of files that a program writes through `weir-disk`.
//!
//! Changes below a folder are recorded, and made again on a file system that knows what is durable of it. Of what was not
//! synced each part may be on the disk or not: entries of folders one by one, and octets of files in blocks.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use weir_disk::Change;

const BLOCK_OCTETS: usize = 512;

/// A change, with what is needed to make it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// A folder was created.
    CreateFolder(PathBuf),
    /// A file was created, or emptied.
    Create(PathBuf),
    /// The file as it was then.
    Content(PathBuf, Arc<[u8]>),
    /// The content of a file was made durable.
    Sync(PathBuf),
    /// The entries of a folder were made durable.
    SyncFolder(PathBuf),
    /// A file has another name.
    Rename(PathBuf, PathBuf),
    /// A file has a second name.
    Link(PathBuf, PathBuf),
    /// A file was removed.
    Remove(PathBuf),
}

static RECORDERS: Mutex<Option<HashMap<PathBuf, Vec<Recorded>>>> = Mutex::new(None);

/// Records changes below a folder until it is dropped.
#[derive(Debug)]
pub struct Recorder(PathBuf);

impl Recorder {
    /// Begins to record.
    pub fn start(root: &Path) -> Self {
        weir_disk::observe(note);
        let mut recorders = RECORDERS.lock().unwrap_or_else(PoisonError::into_inner);
        recorders.get_or_insert_default().insert(root.to_owned(), Vec::new());
        Self(root.to_owned())
    }

    /// What was recorded so far; paths are relative to the folder.
    pub fn recorded(&self) -> Vec<Recorded> {
        let recorders = RECORDERS.lock().unwrap_or_else(PoisonError::into_inner);
        recorders.as_ref().and_then(|all| all.get(&self.0)).cloned().unwrap_or_default()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let mut recorders = RECORDERS.lock().unwrap_or_else(PoisonError::into_inner);
        recorders.as_mut().map(|all| all.remove(&self.0));
    }
}

fn note(change: Change<'_>) {
    let mut recorders = RECORDERS.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(all) = recorders.as_mut().filter(|all| !all.is_empty()) else { return };
    let path = match change {
        Change::CreateFolder(path)
        | Change::Create(path)
        | Change::Write(path)
        | Change::SetLength(path)
        | Change::Sync(path)
        | Change::SyncFolder(path)
        | Change::Rename(path, _)
        | Change::Link(path, _)
        | Change::Remove(path) => path,
    };
    let Some((root, recorded)) = all.iter_mut().find(|(root, _)| path.starts_with(root)) else { return };
    let local = |path: &Path| path.strip_prefix(root).unwrap_or(path).to_owned();
    recorded.push(match change {
        Change::CreateFolder(path) => Recorded::CreateFolder(local(path)),
        Change::Create(path) => Recorded::Create(local(path)),
        // a file that has just been renamed or removed has another name, or none
        Change::Write(path) | Change::SetLength(path) => match fs::read(path) {
            Ok(octets) => Recorded::Content(local(path), octets.into()),
            Err(_) => return,
        },
        Change::Sync(path) => Recorded::Sync(local(path)),
        Change::SyncFolder(path) => Recorded::SyncFolder(local(path)),
        Change::Rename(from, to) => Recorded::Rename(local(from), local(to)),
        Change::Link(from, to) => Recorded::Link(local(from), local(to)),
        Change::Remove(path) => Recorded::Remove(local(path)),
    });
}

/// A file system with what is durable of it, and what may be.
#[derive(Debug, Default, Clone)]
pub struct Disk {
    files: Vec<Content>,
    /// What is seen now.
    seen: BTreeMap<PathBuf, Entry>,
    durable: BTreeMap<PathBuf, Entry>,
    /// Changes of entries that are not synced, by folder.
    pending: BTreeMap<PathBuf, Vec<(PathBuf, Option<Entry>)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    Folder,
    File(usize),
}

#[derive(Debug, Clone)]
struct Content {
    now: Arc<[u8]>,
    synced: Arc<[u8]>,
}

impl Disk {
    fn change(&mut self, path: &Path, entry: Option<Entry>) {
        match entry {
            Some(entry) => self.seen.insert(path.to_owned(), entry),
            None => self.seen.remove(path),
        };
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        self.pending.entry(folder).or_default().push((path.to_owned(), entry));
    }

    /// Makes a change.
    pub fn apply(&mut self, recorded: &Recorded) {
        let file_at = |seen: &BTreeMap<PathBuf, Entry>, path: &Path| match seen.get(path) {
            Some(Entry::File(number)) => Some(*number),
            _ => None,
        };
        match recorded {
            Recorded::CreateFolder(path) => self.change(path, Some(Entry::Folder)),
            Recorded::Create(path) => {
                self.files.push(Content { now: Arc::default(), synced: Arc::default() });
                self.change(path, Some(Entry::File(self.files.len() - 1)));
            }
            Recorded::Content(path, octets) => {
                if let Some(number) = file_at(&self.seen, path) {
                    self.files[number].now = Arc::clone(octets);
                }
            }
            Recorded::Sync(path) => {
                if let Some(number) = file_at(&self.seen, path) {
                    self.files[number].synced = Arc::clone(&self.files[number].now);
                }
            }
            Recorded::SyncFolder(path) => {
                for (path, entry) in self.pending.remove(path).unwrap_or_default() {
                    match entry {
                        Some(entry) => self.durable.insert(path, entry),
                        None => self.durable.remove(&path),
                    };
                }
            }
            Recorded::Rename(from, to) => {
                let entry = self.seen.get(from).copied();
                self.change(from, None);
                self.change(to, entry);
            }
            Recorded::Link(from, to) => self.change(to, self.seen.get(from).copied()),
            Recorded::Remove(path) => self.change(path, None),
        }
    }

    /// Writes what may be left to a folder; what is left is chosen by random numbers.
    ///
    /// # Panics
    /// When the folder cannot be written.
    pub fn crash(mut self, to: &Path, random: &mut impl FnMut() -> u32) {
        let pending: Vec<_> = std::mem::take(&mut self.pending).into_values().collect();
        for change in pending.into_iter().flatten() {
            if random() & 1 == 0 {
                match change.1 {
                    Some(entry) => self.durable.insert(change.0, entry),
                    None => self.durable.remove(&change.0),
                };
            }
        }
        for (path, entry) in &self.durable {
            let is_in_folder = path
                .ancestors()
                .skip(1)
                .all(|folder| folder.as_os_str().is_empty() || self.durable.get(folder) == Some(&Entry::Folder));
            match entry {
                _ if !is_in_folder => {}
                Entry::Folder => fs::create_dir_all(to.join(path)).expect("a folder"),
                Entry::File(number) => {
                    fs::write(to.join(path), left_of(&self.files[*number], random)).expect("a file");
                }
            }
        }
    }
}

/// What may be left of a file: synced octets for certain, and of those written since any blocks.
fn left_of(content: &Content, random: &mut impl FnMut() -> u32) -> Vec<u8> {
    let (now, synced) = (&content.now, &content.synced);
    if now == synced {
        return now.to_vec();
    }
    let lengths = [now.len(), synced.len(), synced.len() + (now.len().saturating_sub(synced.len())) / 2];
    let length = lengths[random() as usize % lengths.len()];
    let mut left = vec![0; length];
    for at in (0..length).step_by(BLOCK_OCTETS) {
        let end = (at + BLOCK_OCTETS).min(length);
        let source = if random().is_multiple_of(4) { synced } else { now };
        let there = source.get(at..end.min(source.len())).unwrap_or_default();
        left[at..at + there.len()].copy_from_slice(there);
        // what both agree on was written once and for all
        for (octet, (a, b)) in
            left[at..end].iter_mut().zip(now[at.min(now.len())..].iter().zip(&synced[at.min(synced.len())..]))
        {
            if a == b {
                *octet = *a;
            }
        }
    }
    left
}
