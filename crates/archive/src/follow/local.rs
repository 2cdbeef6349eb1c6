//! The writers of this process, by the folder of their archive.
//!
//! A follower need not know that the writer of the archive is in the same process: deliveries then come from memory. An
//! archive has one writer, so a folder has one entry; it ends with the writer.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::shared::Shared;

static WRITERS: Mutex<Vec<(PathBuf, Weak<Shared>)>> = Mutex::new(Vec::new());

/// A writer begins.
pub(crate) fn enter(dir: &Path, shared: &Arc<Shared>) {
    // without a name it cannot be found here, and followers read files
    let Ok(dir) = dir.canonicalize() else { return };
    let mut writers = WRITERS.lock().unwrap_or_else(PoisonError::into_inner);
    writers.retain(|(other, writer)| *other != dir && writer.strong_count() > 0);
    writers.push((dir, Arc::downgrade(shared)));
}

/// The writer of an archive, if it is in this process.
pub(crate) fn writer(dir: &Path) -> Option<Arc<Shared>> {
    let dir = dir.canonicalize().ok()?;
    let writers = WRITERS.lock().unwrap_or_else(PoisonError::into_inner);
    let found = writers.iter().find(|(other, _)| *other == dir)?;
    found.1.upgrade()
}
