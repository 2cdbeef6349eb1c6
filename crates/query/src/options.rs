//! How much a question may use.

use std::sync::Arc;
use std::thread;

use crate::{Progress, QueryError};

/// How much a question may use.
#[derive(Debug, Clone)]
pub struct QueryOptions {
    /// Threads that work on it. Default: one for each core.
    pub threads: usize,
    /// Octets that groups and sorted rows may take; what is being decoded comes on top, some megabytes a thread.
    /// Default: 2 GiB.
    pub memory_octets_max: usize,
    /// Where progress is counted, and where it can be stopped.
    pub progress: Arc<Progress>,
    /// Whether what segments have been summed up to may replace their flows. Answers are the same either way.
    /// Default: yes.
    pub summaries: bool,
    /// Whether flows that have expired count as far as their summaries go, which is approximate: rankings then have
    /// the columns [`ERROR_COLUMNS`](crate::ERROR_COLUMNS), totals their errors, and questions that summaries cannot
    /// answer are [`QueryError::NotApproximate`]. Default: no.
    pub approximate: bool,
}

impl Default for QueryOptions {
    fn default() -> Self {
        Self {
            threads: thread::available_parallelism().map_or(1, usize::from),
            memory_octets_max: 2 << 30,
            progress: Arc::new(Progress::default()),
            summaries: true,
            approximate: false,
        }
    }
}

/// Fails when the question was stopped, or takes more memory than it may.
pub(crate) fn go_on(options: &QueryOptions, octets: usize) -> Result<(), QueryError> {
    if options.progress.is_stopped() {
        return Err(QueryError::Cancelled);
    }
    if octets > options.memory_octets_max {
        return Err(QueryError::Memory { octets_max: options.memory_octets_max });
    }
    Ok(())
}
