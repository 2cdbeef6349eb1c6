//! On what terms a question is answered: who watches it, and for how long it may run.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_query::{Progress, ProgressCounts};

use crate::EngineError;

/// On what terms a question is answered.
///
/// [`Progress::stop`] cancels the question: its answer ends with [`EngineError::Cancelled`].
#[derive(Debug, Clone, Default)]
pub struct Terms {
    /// Counted up while the question runs.
    pub progress: Arc<Progress>,
    /// How long it may run, from when it is asked to its last batch; as long as it takes unless told. Beyond it the
    /// answer ends with [`EngineError::TimeLimit`].
    pub time_max: Option<Duration>,
}

/// The terms of a question that was asked.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    terms: Terms,
    asked: Instant,
}

impl Watch {
    pub(crate) fn new(terms: &Terms) -> Self {
        Self { terms: terms.clone(), asked: Instant::now() }
    }

    /// Why the question must end now, if it must.
    pub(crate) fn verdict(&self) -> Option<EngineError> {
        let reached = || Box::new(Reached(self.terms.progress.counts()));
        if self.terms.progress.is_stopped() {
            return Some(EngineError::Cancelled { reached: reached() });
        }
        let time_max = self.terms.time_max.filter(|time_max| self.asked.elapsed() >= *time_max)?;
        Some(EngineError::TimeLimit { time_max, reached: reached() })
    }
}

/// How far a question came, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached(pub ProgressCounts);

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProgressCounts { segments_all, segments_done, segments_pruned, rows_all, rows_done, rows_pruned, .. } =
            self.0;
        if segments_all == 0 {
            return f.write_str("no segment was to be read");
        }
        write!(
            f,
            "{segments_done} of {segments_all} segments were read and {segments_pruned} were not needed, \
             {} of {rows_all} rows are settled",
            rows_done.saturating_add(rows_pruned)
        )
    }
}
