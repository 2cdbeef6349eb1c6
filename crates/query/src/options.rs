//! How much a question may use.

use std::sync::Arc;
use std::thread;

use crate::{MemoryPool, Progress, QueryError};

/// How much a question may use.
#[derive(Debug, Clone)]
pub struct QueryOptions {
    /// Threads that work on it. Default: one for each core.
    pub threads: usize,
    /// Memory for what grows with the data, as groups and sorted rows do. Questions may share it: then the limit is that
    /// of all of them together. Default: 2 GiB of its own.
    pub memory: MemoryPool,
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
            memory: MemoryPool::new(2 << 30),
            progress: Arc::new(Progress::default()),
            summaries: true,
            approximate: false,
        }
    }
}

/// Fails when the question was stopped.
pub(crate) fn go_on(options: &QueryOptions) -> Result<(), QueryError> {
    if options.progress.is_stopped() { Err(QueryError::Cancelled) } else { Ok(()) }
}
