//! Why a question has no answer.

use std::path::PathBuf;

use weir_archive::ArchiveError;

use crate::MemoryError;
use crate::decode::Damage;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The archive cannot be read.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A segment cannot be read.
    #[error("cannot read segment {}", path.display())]
    Read {
        /// The segment.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A segment is damaged.
    #[error("segment {} is damaged: column '{column}'", path.display())]
    Damaged {
        /// The segment.
        path: PathBuf,
        /// Where in it.
        column: String,
        /// What is wrong.
        source: Damage,
    },
    /// A segment that the Parquet library cannot read.
    #[error("cannot read segment {}", path.display())]
    Parquet {
        /// The segment.
        path: PathBuf,
        /// Why.
        source: parquet::errors::ParquetError,
    },
    /// A step over columns failed.
    #[error("cannot compute the answer")]
    Arrow(#[from] arrow::error::ArrowError),
    /// More groups or rows than memory was allowed for.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A question to which summaries of expired flows have no answer.
    #[error("{0} cannot be answered approximately")]
    NotApproximate(&'static str),
    /// Something that only the SQL engine can do.
    #[error("{0} needs the SQL engine")]
    NeedsEngine(&'static str),
    /// The caller does not want the answer any more.
    #[error("the question was cancelled")]
    Cancelled,
    /// A thread that worked on the answer panicked.
    #[error("a thread that worked on the answer panicked: {0}")]
    Panicked(String),
    /// The source of the flows failed.
    #[error("cannot read flows")]
    Source(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl QueryError {
    /// What can be done about it, when that is known: one line without a prefix. The message does not repeat it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Archive(error) => error.hint(),
            Self::Damaged { .. } => Some("`weir archive check` lists all damaged files"),
            Self::Memory(_) => Some("ask for fewer rows with -n, or allow more with --memory-limit"),
            Self::NotApproximate(_) => Some(
                "of expired flows only sums by one field are kept (srcip, dstip, srcport, dstport, proto, srcas, dstas, \
                 inif, outif, router, and ip, port, as, if), without a filter; leave out --approximate to ask the flows \
                 that are kept",
            ),
            _ => None,
        }
    }
}
