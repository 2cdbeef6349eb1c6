//! Why a watch cannot be read or run.

use std::io;
use std::path::{Path, PathBuf};

use weir_archive::ArchiveError;
use weir_chain::OptionError;
pub(crate) use weir_flow::with_causes;
use weir_reports::JournalError;
use weir_sql::EngineError;

/// Why a watch cannot be read or run.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// A watch file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A watch file is no TOML, or one of its options is wrong.
    #[error("{}: {}{}", path.display(), error.message, error.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: OptionError,
    },
    /// The statement of a watch is wrong.
    #[error("watch '{name}': the statement cannot be planned")]
    Statement {
        /// The watch.
        name: String,
        /// Why.
        source: Box<EngineError>,
    },
    /// The statement failed for a window.
    #[error("watch '{name}': the statement failed for the window that ends at {window_end}")]
    Answer {
        /// The watch.
        name: String,
        /// When the window ends.
        window_end: String,
        /// Why.
        source: Box<EngineError>,
    },
    /// A watch asks history, and there is no archive.
    #[error("watch '{name}' asks history, and no archive is named\nhint: name one in the option 'archive'")]
    NoHistory {
        /// The watch.
        name: String,
    },
    /// Two watches have one name.
    #[error("two watches are named '{name}'{}", other.as_ref().map(|path| format!(", the other is {}", path.display())).unwrap_or_default())]
    TwoOfName {
        /// The name.
        name: String,
        /// The file of the other one, where it is known.
        other: Option<PathBuf>,
    },
    /// Folders of watch files have none.
    #[error("there is no watch file, whose name ends in .toml")]
    NoFiles,
    /// The archive cannot be read.
    #[error("cannot read the archive")]
    Archive(#[from] ArchiveError),
    /// The journal cannot be written or read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A thread could not be started.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
    /// The thread that reads flows has ended before their end.
    #[error("the thread that reads flows of the archive has ended by a panic")]
    ReaderEnded,
}

impl WatchError {
    /// What can be done about it, when that is known: one line without a prefix. Names of folders in examples are of those that
    /// come with weir, which are not where somebody has installed it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => Some(
                "the watches that come with weir are in /usr/share/weir/watches of its package, and in the folder watches of \
                 its sources",
            ),
            _ => None,
        }
    }

    /// The error with its causes, and the watch file that it is of.
    pub fn of_file(&self, path: &Path) -> String {
        let text = with_causes(self);
        let names_it = matches!(self, Self::Read { .. } | Self::File { .. });
        if names_it { text } else { format!("{}: {text}", path.display()) }
    }
}
