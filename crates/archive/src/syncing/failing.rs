//! A disk that does not confirm what it is given, for tests.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static FAILING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Makes each sync of file data below a folder fail until it is dropped.
pub(crate) struct FailingSyncs(PathBuf);

impl FailingSyncs {
    pub(crate) fn below(root: &Path) -> Self {
        FAILING.lock().unwrap_or_else(PoisonError::into_inner).push(root.to_owned());
        Self(root.to_owned())
    }
}

impl Drop for FailingSyncs {
    fn drop(&mut self) {
        FAILING.lock().unwrap_or_else(PoisonError::into_inner).retain(|root| *root != self.0);
    }
}

pub(super) fn refuse(path: &Path) -> io::Result<()> {
    let failing = FAILING.lock().unwrap_or_else(PoisonError::into_inner);
    if failing.iter().any(|root| path.starts_with(root)) { Err(io::Error::other("medium error")) } else { Ok(()) }
}
