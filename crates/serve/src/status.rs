//! What the process around the service knows, and reports to it while it runs.

use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_chain::Progress;
use weir_sql::standing::HistoryCounts;
use weir_watch::{NotifyCounts, WatchCounts};

/// What the process around the service knows of collecting, which changes while it runs.
#[derive(Debug, Default)]
pub struct Status {
    collecting: Mutex<Option<Progress>>,
    is_collecting: bool,
    watches: Mutex<Vec<(String, WatchCounts)>>,
    /// Of chains that run beside the service.
    chains: Mutex<Vec<Progress>>,
    /// Of the actions of all watches, when there are some.
    sent: Mutex<Option<NotifyCounts>>,
    /// For watches, when there are some.
    history: Mutex<Option<HistoryCounts>>,
}

impl Status {
    /// Of a process that collects, or of one that does not.
    pub fn new(is_collecting: bool) -> Self {
        Self { is_collecting, ..Self::default() }
    }

    /// How far the chain that collects is.
    pub fn set_progress(&self, progress: Progress) {
        *locked(&self.collecting) = Some(progress);
    }

    /// What watches did.
    pub fn set_watches(&self, counts: Vec<(String, WatchCounts)>) {
        *locked(&self.watches) = counts;
    }

    /// How far the chains that run beside the service are.
    pub fn set_chains(&self, chains: Vec<Progress>) {
        *locked(&self.chains) = chains;
    }

    /// What became of reports for the actions of all watches.
    pub fn set_sent(&self, counts: NotifyCounts) {
        *locked(&self.sent) = Some(counts);
    }

    /// What is kept of history for watches.
    pub fn set_history(&self, counts: HistoryCounts) {
        *locked(&self.history) = Some(counts);
    }

    /// Whether this process collects.
    pub(crate) fn is_collecting(&self) -> bool {
        self.is_collecting
    }

    pub(crate) fn progress(&self) -> Option<Progress> {
        locked(&self.collecting).clone()
    }

    pub(crate) fn watches(&self) -> Vec<(String, WatchCounts)> {
        locked(&self.watches).clone()
    }

    pub(crate) fn chains(&self) -> Vec<Progress> {
        locked(&self.chains).clone()
    }

    pub(crate) fn sent(&self) -> Option<NotifyCounts> {
        *locked(&self.sent)
    }

    pub(crate) fn history(&self) -> Option<HistoryCounts> {
        *locked(&self.history)
    }

    /// The counters of a component of the chain.
    pub(crate) fn counters(&self, component: &str) -> Option<Vec<(&'static str, u64)>> {
        let collecting = locked(&self.collecting);
        collecting.as_ref()?.component(component).map(|component| component.counters.clone())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // every step under these locks leaves whole values behind
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
