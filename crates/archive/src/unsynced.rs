//! What was written and is not known to be durable.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::position::TailNumber;
use crate::{ArchiveError, TailDamage};

/// Pause before tails are written again whose sync has failed; it doubles with each failure.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_mins(1);

/// What was written and is not known to be durable.
#[derive(Debug, Default)]
pub(crate) struct Syncing {
    /// Tails with writes that are not synced, in the order in which they were begun.
    pub(crate) files: Vec<(TailNumber, Arc<File>)>,
    /// When the first of these writes was made.
    pub(crate) since: Option<Instant>,
    /// True when a file was created in the folder of tails since its last sync.
    pub(crate) folder: bool,
    /// Set from a failed sync until all that it concerned is durable.
    pub(crate) failure: Option<SyncFailure>,
    /// Tails of the writer before whose sync had failed and which were not written again: each is durable once it is sealed.
    pub(crate) unconfirmed: Vec<TailNumber>,
    /// What was lost, until it is asked for.
    pub(crate) damages: Vec<TailDamage>,
}

impl Syncing {
    /// Whether a sync failed and nothing will be tried any more.
    pub(crate) fn is_given_up(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.is_given_up)
    }
}

/// A failed sync.
#[derive(Debug)]
pub(crate) struct SyncFailure {
    pub(crate) path: PathBuf,
    pub(crate) source: Arc<io::Error>,
    /// The tails that it concerns.
    pub(crate) tails: Vec<TailNumber>,
    /// When they were last tried, and how often without success.
    pub(crate) tried: Instant,
    pub(crate) failures: u32,
    /// How often one of them could not be read.
    pub(crate) reads_failed: u32,
    /// True when the writer has ended and they were tried once more.
    pub(crate) is_given_up: bool,
}

impl SyncFailure {
    /// Time from one try to the next.
    pub(crate) fn pause(&self) -> Duration {
        (PAUSE * (1 << self.failures.min(6))).min(PAUSE_MAX)
    }

    pub(crate) fn to_error(&self) -> ArchiveError {
        ArchiveError::SyncTail { path: self.path.clone(), source: Arc::clone(&self.source) }
    }
}
