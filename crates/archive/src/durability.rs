//! How far the archive has come to the disk, for those who must not acknowledge before.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::shared::{Ending, Shared};
use crate::{ArchiveError, FollowOptions, FollowPosition, Follower, Position, Statistics};

/// A handle that reports the durable position of a writer. Clones report the same, and outlive the writer.
#[derive(Debug, Clone)]
pub struct Durability(pub(crate) Arc<Shared>);

impl Durability {
    /// Deliveries up to this position survive a crash of the machine.
    pub fn position(&self) -> Position {
        self.0.progress().durable
    }

    /// Flows that this writer was given and that survive a crash of the machine.
    pub fn rows_durable(&self) -> u64 {
        self.0.progress().rows_durable
    }

    /// What the writer has done so far. After its end this is final, also where [`Writer::close`](crate::Writer::close) failed.
    pub fn statistics(&self) -> Statistics {
        self.0.progress().statistics()
    }

    /// Follows the archive from the process of its writer, see [`Writer::follow`](crate::Writer::follow).
    pub fn follow(&self, after: FollowPosition, options: FollowOptions) -> Result<Follower, ArchiveError> {
        Follower::in_process(Arc::clone(&self.0), after, options)
    }

    /// Waits until deliveries up to `position` are durable, or the time is over, or the writer has ended; returns the
    /// durable position then. Fails when the writer ended without having made them durable.
    pub fn wait_for(&self, position: Position, timeout: Duration) -> Result<Position, ArchiveError> {
        let waiting = |progress: &mut crate::shared::Progress| {
            let ended = progress.ending != Ending::Open && progress.durable >= progress.appended;
            progress.durable < position && !progress.syncing.is_given_up() && !ended
        };
        let progress = self.0.progress();
        let waited = self.0.durable_moved.wait_timeout_while(progress, timeout, waiting);
        let (progress, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match &progress.syncing.failure {
            Some(failure) if failure.is_given_up && progress.durable < position => Err(failure.to_error()),
            _ => Ok(progress.durable),
        }
    }
}
