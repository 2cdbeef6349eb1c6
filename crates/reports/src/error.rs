//! Why the journal cannot be used.

use std::io;
use std::path::{Path, PathBuf};

/// A file of the journal that cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {}", path.display())]
pub struct JournalError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

impl JournalError {
    /// Names the file of an error.
    pub fn at(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        |source| Self { path, source }
    }
}
