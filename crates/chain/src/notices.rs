//! What a component has for whoever runs the chain: lines such as where it listens and what the system refused it, and
//! which files it has read.
//!
//! Libraries do not print. The binary takes these lines and prints them, so that a script can wait for one of them
//! whatever is logged; without a taker they are logged.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::file_receipts::{FileEnd, FileReceipts, KeptTaker};

/// Takes lines for whoever runs the chain, and the files that sources read. Clones share all of it.
#[derive(Clone, Default)]
pub struct Notices {
    taker: Option<Arc<Taker>>,
    begun: Option<Arc<BegunTaker>>,
    kept: Option<Arc<KeptTaker>>,
    files: Arc<Mutex<Vec<(PathBuf, FileEnd)>>>,
}

/// What takes lines.
type Taker = dyn Fn(&str) + Send + Sync;

/// What takes the files of which something is about to be handed on.
type BegunTaker = dyn Fn(&Path) + Send + Sync;

impl Notices {
    /// Notices that go to a function instead of the log.
    pub fn to(taker: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { taker: Some(Arc::new(taker)), ..Self::default() }
    }

    /// The same, with a function that is called for each file before the first flows of it are handed on.
    #[must_use]
    pub fn with_begun(self, taker: impl Fn(&Path) + Send + Sync + 'static) -> Self {
        Self { begun: Some(Arc::new(taker)), ..self }
    }

    /// The same, with a function that is called for each file whose flows all survive a crash, while the chain may go
    /// on with others. It must not wait: the sink that keeps the flows calls it. Files without flows are left out, and
    /// so are those of sources that ask for no [receipts](Self::file_receipts).
    #[must_use]
    pub fn with_kept(self, taker: impl Fn(&Path, FileEnd) + Send + Sync + 'static) -> Self {
        Self { kept: Some(Arc::new(taker)), ..self }
    }

    /// The receipts for what a source hands on of a file.
    pub fn file_receipts(&self, path: &Path) -> FileReceipts {
        FileReceipts::new(path, self.kept.as_ref())
    }

    /// Reports that a source is about to hand on the first flows of a file.
    pub fn file_begun(&self, path: &Path) {
        if let Some(taker) = &self.begun {
            taker(path);
        }
    }

    /// Hands a line on; it may have a remedy on a `hint:` line of its own.
    pub fn send(&self, line: &str) {
        if let Some(taker) = &self.taker {
            taker(line);
        } else {
            tracing::info!("{line}");
        }
    }

    /// Notes that a source has handed on what is in a file. Files that could not be opened, and those that it was reading
    /// when it was stopped, are not noted.
    pub fn file_ended(&self, path: &Path, end: FileEnd) {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).push((path.to_owned(), end));
    }

    /// The files that sources have read so far. What was read of them is stored once the chain has ended without an error.
    pub fn files_ended(&self) -> Vec<(PathBuf, FileEnd)> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Notices").field(&self.taker.is_some()).finish()
    }
}
