//! How a query is watched, cancelled and limited in time.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_query::{Progress, ProgressCounts};

use crate::EngineError;

/// How a query is watched and limited.
///
/// [`Progress::stop`] cancels the question: its answer ends with [`EngineError::Cancelled`].
#[derive(Debug, Clone, Default)]
pub struct QueryControl {
    /// Counted up while the question runs.
    pub progress: Arc<Progress>,
    /// How long it may run, from when it is asked to its last batch; as long as it takes by default. Beyond it the
    /// answer ends with [`EngineError::TimeLimit`].
    pub time_max: Option<Duration>,
}

/// The control of a query that runs.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    control: QueryControl,
    asked: Instant,
    /// Whether who asks sees all flows, and may know how many there are.
    is_whole: bool,
}

impl Watch {
    pub(crate) fn new(control: &QueryControl, is_whole: bool) -> Self {
        Self { control: control.clone(), asked: Instant::now(), is_whole }
    }

    /// Why the question must end now, if it must.
    pub(crate) fn verdict(&self) -> Option<EngineError> {
        let reached = || Box::new(Reached(self.is_whole.then(|| self.control.progress.counts())));
        if self.control.progress.is_stopped() {
            return Some(EngineError::Cancelled { reached: reached() });
        }
        let time_max = self.control.time_max.filter(|time_max| self.asked.elapsed() >= *time_max)?;
        Some(EngineError::TimeLimit { time_max, reached: reached() })
    }
}

/// How far a question came, in words. `None` where who asks sees a part of the flows: the numbers are of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached(pub Option<ProgressCounts>);

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(counts) = self.0 else { return f.write_str("how far it came is not shown with a part of the flows") };
        let ProgressCounts { segments_all, segments_done, segments_pruned, rows_all, rows_done, rows_pruned, .. } =
            counts;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_archive_are_for_who_sees_the_whole_of_it() {
        let control = QueryControl::default();
        control.progress.stop();
        let message = |is_whole| Watch::new(&control, is_whole).verdict().expect("it is stopped").to_string();
        assert_eq!(message(true), "the question was cancelled: no segment was to be read");
        assert_eq!(message(false), "the question was cancelled: how far it came is not shown with a part of the flows");
        let counts = ProgressCounts { segments_all: 7, rows_all: 1000, ..ProgressCounts::default() };
        assert!(Reached(Some(counts)).to_string().contains("of 7 segments"));
    }
}
