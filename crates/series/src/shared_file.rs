//! A file that one thread writes and another one syncs.

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The file that is being written; another one from time to time.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedFile(Arc<Mutex<Option<Arc<File>>>>);

impl SharedFile {
    pub(crate) fn set(&self, file: Arc<File>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
    }

    /// Makes what was written durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let file = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        file.map_or(Ok(()), |file| file.sync_data())
    }
}
