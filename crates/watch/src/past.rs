//! Whether an archive has enough of the past for a watch that compares with it.
//!
//! The measure is the time from the first flow to the window; what is more than twice as old as it must be does not count, since
//! a capture of last year that somebody imports is no past of this network. What speaks against it is that it takes an archive
//! with gaps for one without; the books say what is missing. An archive that has removed flows because of their age had them,
//! which tells nothing to a backtest: that compares with what is there now.

use std::sync::Arc;

use weir_archive::Snapshot;
use weir_chain::TimeSpan;
use weir_flow::Column;

use crate::WatchError;
use crate::file::WatchFile;
use crate::flows::Flows;

/// How often it is looked whether older flows have come, by the time of windows: somebody may import them.
const LOOK_EVERY_MS: i64 = 3_600_000;

/// The past that a watch needs.
#[derive(Debug)]
pub(crate) struct NeededPast {
    needed_ms: i64,
    time: Column,
    /// Whether a window had enough: later ones have, too.
    is_enough: bool,
    /// Whether flows that are gone count.
    counts_expired: bool,
    /// The first time of flows, and the begin of the window for which it was looked up.
    first: Option<(i64, i64)>,
}

impl NeededPast {
    pub(crate) fn of(file: &WatchFile) -> Self {
        let needed_ms = file.options.reports.history_min.millis();
        let time = file.options.windows.time.column();
        Self { needed_ms, time, is_enough: needed_ms <= 0, counts_expired: true, first: None }
    }

    /// Counts only the flows that are in the archive.
    pub(crate) fn must_be_there(&mut self) {
        self.counts_expired = false;
    }

    /// The time that the archive has before a window that begins then, in milliseconds; `None` when it is enough.
    pub(crate) fn lacking(&mut self, window_start_ms: i64, archive: &Arc<Snapshot>) -> Result<Option<i64>, WatchError> {
        if self.is_enough {
            return Ok(None);
        }
        let first_ms = match self.first {
            Some((first_ms, looked_ms)) if window_start_ms.saturating_sub(looked_ms) < LOOK_EVERY_MS => first_ms,
            _ => {
                let from_ms = window_start_ms.saturating_sub(self.needed_ms.saturating_mul(2));
                let first_ms =
                    Flows::at(archive)?.first(self.time, (from_ms, window_start_ms))?.unwrap_or(window_start_ms);
                self.first = Some((first_ms, window_start_ms));
                first_ms
            }
        };
        let past_ms = window_start_ms.saturating_sub(first_ms).max(0);
        self.is_enough = past_ms >= self.needed_ms || (self.counts_expired && archive.rows_expired() > 0);
        Ok((!self.is_enough).then_some(past_ms))
    }

    /// Why nothing is reported.
    pub(crate) fn notice(&self, watch: &str, past_ms: i64) -> String {
        let span = |ms: i64| TimeSpan::from_millis(ms.unsigned_abs() / 1_000 * 1_000);
        format!(
            "watch '{watch}' compares with the past and reports nothing yet: the archive has {} within the last {} before \
             the window, and history_min is {}",
            span(past_ms),
            span(self.needed_ms.saturating_mul(2)),
            span(self.needed_ms)
        )
    }
}
