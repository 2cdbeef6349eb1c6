//! Recording of changes, by the folder below which they are made.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::Change;

/// A change, with what is needed to make it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Recorded {
    CreateFolder(PathBuf),
    Create(PathBuf),
    /// The file as it was then.
    Content(PathBuf, Arc<[u8]>),
    Sync(PathBuf),
    SyncFolder(PathBuf),
    Rename(PathBuf, PathBuf),
    Link(PathBuf, PathBuf),
    Remove(PathBuf),
}

static RECORDERS: Mutex<Option<HashMap<PathBuf, Vec<Recorded>>>> = Mutex::new(None);

/// Records changes below a folder until it is dropped.
pub(crate) struct Recorder(PathBuf);

impl Recorder {
    pub(crate) fn start(root: &Path) -> Self {
        let mut recorders = RECORDERS.lock().unwrap_or_else(PoisonError::into_inner);
        recorders.get_or_insert_default().insert(root.to_owned(), Vec::new());
        Self(root.to_owned())
    }

    /// What was recorded so far; paths are relative to the folder.
    pub(crate) fn recorded(&self) -> Vec<Recorded> {
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

pub(super) fn note(change: Change<'_>) {
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
