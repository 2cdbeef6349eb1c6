//! Why forwarding ended.

use std::path::PathBuf;

use weir_archive::{ArchiveError, FollowPosition};

use crate::{StateError, StoreError};

/// Why forwarding ended.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// The state cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The archive cannot be followed.
    #[error("cannot follow the archive {folder}")]
    Follow {
        /// Its folder.
        folder: PathBuf,
        /// Why.
        #[source]
        source: ArchiveError,
    },
    /// The archive does not know the position that was kept.
    #[error(
        "the archive {folder} does not know the position {position} that was forwarded last: it was made anew, or replaced by \
         an older copy; delete {state} to forward it from its begin (rows that are stored are not stored twice)"
    )]
    UnknownPosition {
        /// Its folder.
        folder: PathBuf,
        /// The position.
        position: FollowPosition,
        /// The file to delete.
        state: PathBuf,
    },
    /// There can be no thread for it.
    #[error("forwarding cannot begin")]
    Thread {
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The store will not take anything.
    #[error("{0}")]
    Store(StoreError),
}
