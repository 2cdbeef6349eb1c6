//! Watches that are paused: their windows pass and are not asked.

use crate::WatchError;
use crate::counters::WatchCounts;
use crate::watch::Watch;

/// The windows that end while a watch is paused.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SkippedWindows {
    /// The end of the first of them.
    first_end_ms: i64,
    slide_ms: i64,
}

impl SkippedWindows {
    /// Those of a watch that end after this time. `None` when its statement has no window.
    pub(crate) fn after(watch: &Watch, time_ms: i64) -> Result<Option<Self>, WatchError> {
        let slide_ms = watch.lengths().1.max(1);
        let windows = watch.open_windows()?;
        Ok(windows.map(|windows| Self { first_end_ms: windows.first_end_after(time_ms), slide_ms }))
    }

    /// How many have ended by this time.
    pub(crate) fn count(&self, now_ms: i64) -> u64 {
        let since_first_ms = now_ms.saturating_sub(self.first_end_ms);
        if since_first_ms < 0 { 0 } else { since_first_ms.unsigned_abs() / self.slide_ms.unsigned_abs() + 1 }
    }

    /// The end of the last one that has ended by this time: the next window goes on from there.
    pub(crate) fn last_end_ms(&self, now_ms: i64) -> i64 {
        let before_first_ms = self.first_end_ms.saturating_sub(self.slide_ms);
        before_first_ms.saturating_add((self.count(now_ms) as i64).saturating_mul(self.slide_ms))
    }
}

/// A watch that is paused.
#[derive(Debug)]
pub(crate) struct PausedWatch {
    pub(crate) name: String,
    /// Of a chain there are none: its time is that of its flows, which are not looked at.
    pub(crate) skipped: Option<SkippedWindows>,
}

impl PausedWatch {
    /// What happens to it.
    pub(crate) fn counts(&self, now_ms: i64) -> WatchCounts {
        let windows_skipped = self.skipped.map_or(0, |skipped| skipped.count(now_ms));
        WatchCounts { windows_skipped, ..WatchCounts::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_end_meanwhile_are_skipped() {
        // windows of ten seconds, and a pause from 25 s on: the first ends at 30 s
        let skipped = SkippedWindows { first_end_ms: 30_000, slide_ms: 10_000 };
        for (now_ms, count, last_end_ms) in
            [(25_000, 0, 20_000), (29_999, 0, 20_000), (30_000, 1, 30_000), (49_999, 2, 40_000), (50_000, 3, 50_000)]
        {
            assert_eq!((skipped.count(now_ms), skipped.last_end_ms(now_ms)), (count, last_end_ms), "{now_ms}");
        }
    }
}
