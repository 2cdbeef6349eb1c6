//! Whether an archive has enough of the past for a watch that compares with it.
//!
//! The measure is the time from the first flow to the window; what is more than twice as old as it must be does not count, since
//! a capture of last year that somebody imports is no past of this network. What speaks against it is that it takes an archive
//! with gaps for one without; the books say what is missing. Flows that have expired count as if they were there, by the times that
//! their summaries have; an archive that keeps no summaries does not know when its flows were. They are nothing to a backtest: that
//! compares with what is there now.

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
    /// Whether flows that are gone count.
    counts_expired: bool,
    /// The time of a flow that made the past of a window enough: it does so for later ones until it is too old.
    proof_ms: Option<i64>,
    /// The first time of flows where none was old enough, and the begin of the window for which it was looked up.
    first: Option<(i64, i64)>,
}

impl NeededPast {
    pub(crate) fn of(file: &WatchFile) -> Self {
        let needed_ms = file.options.reports.history_min.millis();
        let time = file.options.windows.time.column();
        Self { needed_ms, time, counts_expired: true, proof_ms: None, first: None }
    }

    /// Counts only the flows that are in the archive.
    pub(crate) fn must_be_there(&mut self) {
        self.counts_expired = false;
    }

    /// The time that the archive has before a window that begins then, in milliseconds; `None` when it is enough.
    pub(crate) fn lacking(&mut self, window_start_ms: i64, archive: &Arc<Snapshot>) -> Result<Option<i64>, WatchError> {
        if self.needed_ms <= 0 {
            return Ok(None);
        }
        let from_ms = window_start_ms.saturating_sub(self.needed_ms.saturating_mul(2));
        let enough_ms = window_start_ms.saturating_sub(self.needed_ms);
        let is_enough = |time_ms: i64| (from_ms..=enough_ms).contains(&time_ms);
        if self.proof_ms.is_some_and(is_enough) {
            return Ok(None);
        }
        let first_ms = match self.first {
            Some((first_ms, looked_ms)) if window_start_ms.saturating_sub(looked_ms) < LOOK_EVERY_MS => first_ms,
            _ => {
                // the newest one that is old enough, as it is a proof for longest
                let until_ms = enough_ms.saturating_add(1);
                self.proof_ms = self.extent(archive, (from_ms, until_ms))?.map(|(_, last_ms)| last_ms);
                if self.proof_ms.is_some() {
                    self.first = None;
                    return Ok(None);
                }
                let first_ms = self.extent(archive, (until_ms, window_start_ms))?.map(|(first_ms, _)| first_ms);
                let first_ms = first_ms.unwrap_or(window_start_ms);
                self.first = Some((first_ms, window_start_ms));
                first_ms
            }
        };
        Ok((!is_enough(first_ms)).then(|| window_start_ms.saturating_sub(first_ms).max(0)))
    }

    /// The first and the last time of flows from one time up to and without another one. Of expired flows a summary counts as a
    /// range, so that two flows at its ends prove the whole span.
    fn extent(&self, archive: &Arc<Snapshot>, (from_ms, to_ms): (i64, i64)) -> Result<Option<(i64, i64)>, WatchError> {
        let there = Flows::at(archive)?.extent_within(self.time, (from_ms, to_ms))?;
        if !self.counts_expired {
            return Ok(there);
        }
        let expired = archive.summaries()?;
        let within = expired.iter().filter_map(|summary| {
            let (first_ms, last_ms) = summary.time_range_ms()?;
            let (first_ms, last_ms) = (first_ms.max(from_ms), last_ms.min(to_ms.saturating_sub(1)));
            (first_ms <= last_ms).then_some((first_ms, last_ms))
        });
        Ok(within.chain(there).reduce(|one, other| (one.0.min(other.0), one.1.max(other.1))))
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

#[cfg(test)]
mod tests;
