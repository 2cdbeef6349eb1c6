//! What happened to a watch, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_notify::NotifyCounts;
use weir_sql::standing::QuestionMemory;

use crate::panes::PaneCounts;
use crate::waiting::{WaitingCounters, WaitingCounts};

/// What happened to a watch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WatchCounts {
    /// What happened to rows.
    pub panes: PaneCounts,
    /// What became of reports that actions send.
    pub notify: NotifyCounts,
    /// Windows that have closed and wait for their answer now.
    pub waiting: WaitingCounts,
    /// Windows that closed.
    pub windows_closed: u64,
    /// Windows that were asked and answered.
    pub windows_answered: u64,
    /// Windows that were not asked, because too many waited.
    pub windows_shed: u64,
    /// Windows that ended while the watch was paused, and are not asked.
    pub windows_skipped: u64,
    /// Windows that were not asked, because the archive has less of the past than `history_min`.
    pub windows_without_past: u64,
    /// Windows that were asked again for late flows.
    pub windows_corrected: u64,
    /// Windows whose statement failed.
    pub windows_failed: u64,
    /// Reports that were made and are new.
    pub reports: u64,
    /// Reports that were left out, because their key was reported lately.
    pub reports_suppressed: u64,
    /// Reports that were left out, because their key is acknowledged.
    pub reports_acknowledged: u64,
    /// Reports that were not printed, because too many waited for it; they are in the journal.
    pub reports_unprinted: u64,
    /// The longest time that an answer took, in milliseconds.
    pub answer_ms_max: u64,
}

impl WatchCounts {
    /// All counters but those of flows, with their names: what was done, and what was left out. What waits now is in
    /// `waiting`.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let done = [
            ("windows_closed", self.windows_closed),
            ("windows_answered", self.windows_answered),
            ("windows_corrected", self.windows_corrected),
            ("windows_skipped", self.windows_skipped),
            ("windows_without_past", self.windows_without_past),
            ("reports", self.reports),
            ("reports_suppressed", self.reports_suppressed),
            ("reports_acknowledged", self.reports_acknowledged),
        ];
        done.into_iter().chain(self.losses()).chain(self.notify.all())
    }

    /// The counters that a chain adds up over its watches, with their names.
    pub(crate) fn summed(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let done = [("reports", self.reports), ("windows_answered", self.windows_answered)];
        done.into_iter().chain(self.losses()).chain(self.notify.losses())
    }

    /// The counters of what was left out, with their names.
    pub fn losses(&self) -> [(&'static str, u64); 11] {
        let PaneCounts {
            rows: _,
            rows_late,
            rows_late_dropped,
            rows_without_time,
            rows_future,
            rows_shed,
            rows_over_memory,
            rows_without_session,
            rows_failed,
        } = self.panes;
        [
            ("rows_late", rows_late),
            ("rows_late_dropped", rows_late_dropped),
            ("rows_without_time", rows_without_time),
            ("rows_future", rows_future),
            ("rows_shed", rows_shed),
            ("rows_over_memory", rows_over_memory),
            ("rows_without_session", rows_without_session),
            ("rows_failed", rows_failed),
            ("windows_shed", self.windows_shed),
            ("windows_failed", self.windows_failed),
            ("reports_unprinted", self.reports_unprinted),
        ]
    }
}

/// Counters of a watch, which its threads share.
#[derive(Debug, Default)]
pub(crate) struct WatchCounters {
    /// What its windows take of the memory of all watches.
    pub(crate) memory: Option<QuestionMemory>,
    /// Why it does not run yet: it could not join those that follow the archive, and tries again.
    pub(crate) join_error: Mutex<Option<String>>,
    pub(crate) panes: Mutex<PaneCounts>,
    pub(crate) waiting: WaitingCounters,
    pub(crate) windows_closed: AtomicU64,
    pub(crate) windows_answered: AtomicU64,
    pub(crate) windows_shed: AtomicU64,
    pub(crate) windows_skipped: AtomicU64,
    pub(crate) windows_without_past: AtomicU64,
    pub(crate) windows_corrected: AtomicU64,
    pub(crate) windows_failed: AtomicU64,
    pub(crate) reports: ReportCounters,
    pub(crate) answer_ms_max: AtomicU64,
}

/// What became of what a watch had to report.
#[derive(Debug, Default)]
pub(crate) struct ReportCounters {
    pub(crate) made: AtomicU64,
    pub(crate) suppressed: AtomicU64,
    pub(crate) acknowledged: AtomicU64,
    pub(crate) unprinted: AtomicU64,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // every step under these locks leaves whole values behind
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WatchCounters {
    /// Of a watch whose windows share this memory with those of others.
    pub(crate) fn within(memory: QuestionMemory) -> Self {
        Self { memory: Some(memory), ..Self::default() }
    }

    /// Octets that its windows keep.
    pub(crate) fn octets_kept(&self) -> u64 {
        self.memory.as_ref().map_or(0, QuestionMemory::octets)
    }

    pub(crate) fn counts(&self, notify: NotifyCounts) -> WatchCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WatchCounts {
            panes: *locked(&self.panes),
            notify,
            waiting: WaitingCounts { octets_kept: self.octets_kept(), ..self.waiting.counts() },
            windows_closed: of(&self.windows_closed),
            windows_answered: of(&self.windows_answered),
            windows_shed: of(&self.windows_shed),
            windows_skipped: of(&self.windows_skipped),
            windows_without_past: of(&self.windows_without_past),
            windows_corrected: of(&self.windows_corrected),
            windows_failed: of(&self.windows_failed),
            reports: of(&self.reports.made),
            reports_suppressed: of(&self.reports.suppressed),
            reports_acknowledged: of(&self.reports.acknowledged),
            reports_unprinted: of(&self.reports.unprinted),
            answer_ms_max: of(&self.answer_ms_max),
        }
    }
}
