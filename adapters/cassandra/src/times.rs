//! When the flows of a partition began and ended: what a question about `start` or `end` leaves out partitions by.
//!
//! Partitions are by when flows were received, and flows may be received long after. A writer therefore notes, beside the
//! partition, between which minutes its flows begin and end, before it writes them. A note is a line of its own whose key
//! has all of it; several lines of a partition count together. So nothing is read or replaced, several writers are in nobody's way,
//! and writing a line again changes nothing. A partition without a line was written by a version before, and is always read; the first writer of
//! this version notes that those which there are then may have anything.

use weir_flow::Column;

/// Times are noted in whole minutes: a partition then has few lines.
const GRAIN_MS: i64 = 60_000;

/// The times of some flows, in milliseconds since the epoch: the first one, and the last one. None when the first is larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeRange {
    pub(crate) first_ms: i64,
    pub(crate) last_ms: i64,
}

/// When the flows of a partition began, and when they ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FlowTimes {
    pub(crate) start: TimeRange,
    pub(crate) end: TimeRange,
}

impl Default for TimeRange {
    fn default() -> Self {
        Self { first_ms: i64::MAX, last_ms: i64::MIN }
    }
}

impl TimeRange {
    pub(crate) fn add(&mut self, time_ms: i64) {
        self.first_ms = self.first_ms.min(time_ms);
        self.last_ms = self.last_ms.max(time_ms);
    }

    fn join(self, other: Self) -> Self {
        Self { first_ms: self.first_ms.min(other.first_ms), last_ms: self.last_ms.max(other.last_ms) }
    }

    /// The whole minutes that it is in.
    fn rounded(self) -> Self {
        if self.first_ms > self.last_ms {
            return self;
        }
        let begin = |time_ms: i64| time_ms.saturating_sub(time_ms.rem_euclid(GRAIN_MS));
        Self { first_ms: begin(self.first_ms), last_ms: begin(self.last_ms).saturating_add(GRAIN_MS - 1) }
    }
}

impl FlowTimes {
    pub(crate) fn join(self, other: Self) -> Self {
        Self { start: self.start.join(other.start), end: self.end.join(other.end) }
    }

    pub(crate) fn rounded(self) -> Self {
        Self { start: self.start.rounded(), end: self.end.rounded() }
    }
}

/// The statement that notes when the flows of a partition began and ended.
pub(crate) fn insert_times(keyspace: &str, using_ttl: &str) -> String {
    format!(
        "INSERT INTO {keyspace}.bucket_times (day, bucket, shard, start_first, start_last, end_first, end_last) \
         VALUES (?, ?, ?, ?, ?, ?, ?){using_ttl}"
    )
}

/// A bound on when flows began or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeBound {
    /// Whether it is about `end`; otherwise about `start`.
    pub is_end: bool,
    /// Whether times before it are wanted; otherwise times after it.
    pub is_upper: bool,
    /// The last time that is wanted, or the first, in milliseconds since the epoch.
    pub time_ms: i64,
    /// Whether flows without that time are wanted when they were received within the bound.
    pub or_received: bool,
}

impl TimeBound {
    /// The column that it is about.
    pub fn column(&self) -> Column {
        if self.is_end { Column::End } else { Column::Start }
    }

    /// Whether a partition of flows received from `bucket_ms` on for `width_ms` may have some that are wanted.
    pub(crate) fn may_have(&self, times: &FlowTimes, bucket_ms: i64, width_ms: i64) -> bool {
        let range = if self.is_end { times.end } else { times.start };
        let received = TimeRange { first_ms: bucket_ms, last_ms: bucket_ms.saturating_add(width_ms - 1) };
        let is_within = |range: TimeRange| {
            if self.is_upper { range.first_ms <= self.time_ms } else { range.last_ms >= self.time_ms }
        };
        is_within(range) || self.or_received && is_within(received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_leaves_out_what_cannot_be_within_it() {
        let mut times = FlowTimes::default();
        for time in [130_000, 70_000, -1] {
            times.start.add(time);
        }
        let rounded = times.rounded();
        assert_eq!(rounded.start, TimeRange { first_ms: -60_000, last_ms: 179_999 });
        assert_eq!(rounded.end, TimeRange::default());
        let bound = |is_end, is_upper, time_ms, or_received| {
            TimeBound { is_end, is_upper, time_ms, or_received }.may_have(&rounded, 600_000, 60_000)
        };
        assert!(bound(false, true, -60_000, false) && !bound(false, true, -60_001, false));
        assert!(bound(false, false, 179_999, false) && !bound(false, false, 180_000, false));
        // no flow has an end; one without it counts by when it was received
        assert!(!bound(true, true, i64::MAX - 1, false) && !bound(true, false, 0, false));
        assert!(bound(true, false, 659_999, true) && !bound(true, false, 660_000, true));
        assert!(bound(true, true, 600_000, true) && !bound(true, true, 599_999, true));
    }
}
