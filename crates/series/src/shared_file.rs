//! Files that one thread writes and another one syncs.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The file that is being written, another one from time to time, and those before it that were not synced since.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedFile(Arc<Mutex<Vec<WrittenFile>>>);

#[derive(Debug, Clone)]
struct WrittenFile {
    file: Arc<File>,
    path: PathBuf,
    /// Whether its name is durable.
    is_named: bool,
}

impl SharedFile {
    /// Names the file that is written from now on.
    pub(crate) fn set(&self, file: Arc<File>, path: &Path) {
        let written = WrittenFile { file, path: path.to_owned(), is_named: false };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(written);
    }

    /// Makes what was written durable. One thread calls it.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let written = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for WrittenFile { file, path, is_named } in &written {
            weir_disk::sync_data(file, path)?;
            if let Some(folder) = path.parent().filter(|_| !is_named) {
                weir_disk::sync_folder(folder)?;
            }
        }
        // only the last of them is written any more, and others may have come meanwhile
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.drain(..written.len().saturating_sub(1));
        if let Some(first) = files.first_mut().filter(|_| !written.is_empty()) {
            first.is_named = true;
        }
        Ok(())
    }
}
