//! How far time is for the windows of a watch.

use weir_sql::standing::WindowKind;

/// Empty windows that are asked in a row; beyond that time jumps.
pub(crate) const EMPTY_WINDOWS_MAX: i64 = 100_000;

/// How far time is for the windows of a watch: it moves by the rows, and by the clock when none come. A window closes when
/// the time, less the lateness, is at its end or after.
#[derive(Debug)]
pub(crate) struct WindowClock {
    /// The windows: all of a statement end together.
    pub(crate) kind: WindowKind,
    lateness_ms: i64,
    latest_ms: i64,
    /// The end of the next window to close.
    next_end_ms: Option<i64>,
    /// Windows that end here or before are not given.
    not_before_ms: i64,
}

impl WindowClock {
    pub(crate) fn new(kind: WindowKind, lateness_ms: i64) -> Self {
        Self { kind, lateness_ms, latest_ms: i64::MIN, next_end_ms: None, not_before_ms: i64::MIN }
    }

    /// Gives no window that ends at this time or before.
    pub(crate) fn skip_through(&mut self, end_ms: i64) {
        self.not_before_ms = end_ms;
    }

    /// Whether a window that ends then is given.
    pub(crate) fn is_given(&self, end_ms: i64) -> bool {
        end_ms > self.not_before_ms
    }

    /// The time up to which rows have come.
    pub(crate) fn latest_ms(&self) -> Option<i64> {
        (self.latest_ms > i64::MIN).then_some(self.latest_ms)
    }

    /// It is this time, or later. Whether it was earlier before.
    pub(crate) fn advance(&mut self, time_ms: i64) -> bool {
        let is_new = time_ms > self.latest_ms;
        self.latest_ms = self.latest_ms.max(time_ms);
        is_new
    }

    /// The time, less the lateness.
    pub(crate) fn edge_ms(&self) -> i64 {
        self.latest_ms.saturating_sub(self.lateness_ms)
    }

    /// The time at which a window closes that ends then.
    pub(crate) fn closes_at(&self, end_ms: i64) -> i64 {
        end_ms.saturating_add(self.lateness_ms)
    }

    /// Whether the next window closes now.
    pub(crate) fn closes(&mut self) -> bool {
        let edge_ms = self.edge_ms();
        let next_end_ms = *self.next_end_ms.get_or_insert_with(|| self.kind.first_end_after(edge_ms));
        edge_ms >= next_end_ms
    }

    /// The end of the next window to close; it is the first one of a row at this time, when there was no other.
    pub(crate) fn next_end_for(&mut self, time_ms: i64) -> i64 {
        *self.next_end_ms.get_or_insert(self.kind.first_end_after(time_ms))
    }

    /// The end of the next window to close.
    pub(crate) fn next_end_ms(&self) -> Option<i64> {
        self.next_end_ms
    }

    pub(crate) fn set_next_end(&mut self, end_ms: i64) {
        self.next_end_ms = Some(end_ms);
    }

    /// Passes over the windows without a row, of which `next_end_ms` is the first that has one, as far as they end at a time or
    /// before. Where they are asked too, only more of them than are asked in a row are passed over.
    pub(crate) fn pass_empty(&mut self, next_end_ms: Option<i64>, through_ms: i64, are_asked: bool) {
        let Some(end_ms) = self.next_end_ms else { return };
        let open_ms = self.kind.first_end_after(through_ms);
        let to_ms = next_end_ms.map_or(open_ms, |next_ms| next_ms.min(open_ms)).max(end_ms);
        let passed = to_ms.saturating_sub(end_ms) / self.kind.slide_ms;
        if !are_asked || passed > EMPTY_WINDOWS_MAX {
            self.next_end_ms = Some(to_ms);
        }
    }

    /// The end of the last window that has closed, with rows or without.
    pub(crate) fn closed_through(&self) -> Option<i64> {
        self.next_end_ms.map(|end_ms| end_ms.saturating_sub(self.kind.slide_ms))
    }

    /// Goes on from now when times are ahead of the clock by more than `skew_ms`; gives the end of the first window from now on.
    pub(crate) fn rewind(&mut self, now_ms: i64, skew_ms: i64) -> Option<i64> {
        let skewed_ms = now_ms.saturating_add(skew_ms);
        let is_ahead = self.next_end_ms.is_some_and(|end_ms| end_ms > self.kind.first_end_after(skewed_ms));
        if self.latest_ms <= skewed_ms && !is_ahead {
            return None;
        }
        let open_end_ms = self.kind.first_end_after(now_ms);
        self.latest_ms = now_ms;
        self.next_end_ms = Some(open_end_ms);
        self.not_before_ms = self.not_before_ms.min(open_end_ms - 1);
        Some(open_end_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_without_a_row_are_passed_over() {
        let mut clock = WindowClock::new(WindowKind { size_ms: 10, slide_ms: 10, offset_ms: 0 }, 0);
        assert_eq!(clock.next_end_for(0), 10);
        let mut passed = |next_end_ms, through_ms, are_asked| {
            clock.pass_empty(next_end_ms, through_ms, are_asked);
            clock.next_end_ms()
        };
        assert_eq!(passed(Some(50), 1_000, true), Some(10), "these are asked");
        assert_eq!(passed(Some(50), 1_000, false), Some(50));
        assert_eq!(passed(Some(50), 1_000, false), Some(50), "it has a row");
        assert_eq!(passed(Some(500), 95, false), Some(100), "it is open at this time");
        assert_eq!(passed(None, 105, false), Some(110));
        let far_ms = 110 + 10 * EMPTY_WINDOWS_MAX;
        assert_eq!(passed(Some(far_ms), i64::MAX, true), Some(110), "as many as are asked in a row");
        assert_eq!(passed(Some(far_ms + 10), i64::MAX, true), Some(far_ms + 10));
    }
}
