//! What became of reports that are sent elsewhere, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};

/// What became of reports that are sent elsewhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NotifyCounts {
    /// Reports that a target has accepted; one counts for each action.
    pub reports_sent: u64,
    /// Reports that a target refuses for what is in them. They are not sent again.
    pub reports_refused: u64,
    /// Reports of quiet hours that were dropped, as configured.
    pub reports_quieted: u64,
    /// Reports that were removed from the journal before they could be sent.
    pub reports_unsent: u64,
    /// Times that a target could not be reached or did not accept; they are tried again.
    pub sends_failed: u64,
}

impl NotifyCounts {
    /// All counters, with their names.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        [("reports_sent", self.reports_sent)].into_iter().chain(self.losses())
    }

    /// The counters of what was not sent, with their names.
    pub fn losses(&self) -> [(&'static str, u64); 4] {
        [
            ("reports_refused", self.reports_refused),
            ("reports_quieted", self.reports_quieted),
            ("reports_unsent", self.reports_unsent),
            ("sends_failed", self.sends_failed),
        ]
    }
}

/// Counters that the notifiers of a watch share.
#[derive(Debug, Default)]
pub struct NotifyCounters {
    pub(crate) reports_sent: AtomicU64,
    pub(crate) reports_refused: AtomicU64,
    pub(crate) reports_quieted: AtomicU64,
    pub(crate) reports_unsent: AtomicU64,
    pub(crate) sends_failed: AtomicU64,
}

impl NotifyCounters {
    /// Their values.
    pub fn counts(&self) -> NotifyCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        NotifyCounts {
            reports_sent: of(&self.reports_sent),
            reports_refused: of(&self.reports_refused),
            reports_quieted: of(&self.reports_quieted),
            reports_unsent: of(&self.reports_unsent),
            sends_failed: of(&self.sends_failed),
        }
    }
}

pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}
