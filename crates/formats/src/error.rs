//! Why a file of another program cannot be read.

use std::io;
use std::path::{Path, PathBuf};

/// Why a file cannot be read, or not to its end. What came before the error was handed on.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The system did not open the file.
    #[error("cannot open {}", .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// The system did not read from the file.
    #[error("cannot read {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// The system did not write to the file.
    #[error("cannot write {}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// The file is of another format.
    #[error("{} is not {expected}", .path.display())]
    NotThis {
        /// The file.
        path: PathBuf,
        /// What it should be, with its article.
        expected: &'static str,
    },
    /// The format is known, but not this variant of it.
    #[error("{}: {what} cannot be read", .path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// Which variant.
        what: String,
    },
    /// The file ends too early.
    #[error("{} is cut short at octet {octet}", .path.display())]
    CutShort {
        /// The file.
        path: PathBuf,
        /// Where what is missing should begin.
        octet: u64,
    },
    /// The content of the file makes no sense, and the place of what follows is not known.
    #[error("{} is damaged at octet {octet}: {what}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        octet: u64,
        /// What makes no sense.
        what: &'static str,
    },
    /// What the user asked for cannot be.
    #[error("{0}")]
    Selection(String),
}

impl FormatError {
    pub(crate) fn open(path: &Path, error: io::Error) -> Self {
        Self::Open { path: path.to_owned(), error }
    }

    pub(crate) fn read(path: &Path, error: io::Error) -> Self {
        Self::Read { path: path.to_owned(), error }
    }

    pub(crate) fn write(path: &Path, error: io::Error) -> Self {
        Self::Write { path: path.to_owned(), error }
    }
}
