//! What users can set of files of rrdtool.

use std::io;
use std::path::{Path, PathBuf};

/// Where files are, and what makes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RrdOptions {
    /// The folder of the files; it is made when it is not there.
    pub folder: PathBuf,
    /// The folder of the statistics, from which files get what they lack.
    pub statistics: PathBuf,
    /// The program, as it is found on the path. Default: `rrdtool`.
    pub program: PathBuf,
}

/// Why there can be no store of these options.
#[derive(Debug, thiserror::Error)]
pub enum RrdError {
    /// The folder cannot be made.
    #[error("cannot make the folder {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another process keeps files in the folder up to date: the same steps would come twice.
    #[error("another process keeps the files in {} up to date", path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// The program cannot be run.
    #[error("cannot run {}, which makes and updates the files", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl RrdOptions {
    /// Files in a folder, of the statistics in another one.
    pub fn new(folder: &Path, statistics: &Path) -> Self {
        Self { folder: folder.to_owned(), statistics: statistics.to_owned(), program: PathBuf::from("rrdtool") }
    }
}
