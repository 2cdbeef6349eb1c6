//! A limit on what each source has learned anew: Observation Domains of connections, changes of samplers, rows of options.
//!
//! To learn something costs far more than the few octets that report it. What is remembered of a source has limits, but a
//! source may have the same thing learned again and again. So each has a token bucket. It holds several times what is remembered
//! of a source, so that whatever a restart brings passes at once, and a change comes back each millisecond. What is beyond is
//! passed over for the price of a look at the bucket, and counted.
//!
//! What is missing in a bucket is kept with the time at which it was, and not as the time at which it is full again as that of
//! [`crate::rate`] is: clocks are set, and files and captures come in any order. A time that goes back counts as one that has passed.
//!
//! The table of sources is two generations of bounded size, as there, and the same speaks against it: any sender of forged
//! addresses has a bucket for each, and exporters behind one address share one.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

/// How long it takes until a bucket has one change more, in milliseconds.
const CHANGE_MS: i64 = 1;
/// Sources in each of the two generations.
const SOURCES_MAX: usize = 14_000;

/// Most octets of the table of one limiter: a generation has capacity for 2^14 sources, and one half as large beside it while it
/// grows.
pub(crate) const TABLE_OCTETS: usize = 3 * (1 << 14) * (size_of::<(IpAddr, Bucket)>() + 1);

/// What is missing in the bucket of a source.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// In how much time it was full when it was last taken from, in milliseconds.
    missing_ms: i64,
    /// When that was, in milliseconds since the epoch.
    at_ms: i64,
}

type Buckets<Source> = HashMap<Source, Bucket, foldhash::fast::RandomState>;

/// Decides which changes are learned.
#[derive(Debug)]
pub(crate) struct ChangeLimiter<Source = IpAddr> {
    /// In how much time an empty bucket is full.
    depth_ms: i64,
    recent: Buckets<Source>,
    older: Buckets<Source>,
}

impl<Source: Copy + Eq + Hash> ChangeLimiter<Source> {
    /// Lets each source make so many changes at once.
    pub(crate) fn of_burst(changes: usize) -> Self {
        let depth_ms = i64::try_from(changes).unwrap_or(i64::MAX).saturating_mul(CHANGE_MS);
        Self { depth_ms, recent: Buckets::default(), older: Buckets::default() }
    }

    /// How many changes a source may make now.
    pub(crate) fn left_to(&self, source: Source, now_ms: i64) -> usize {
        let left_ms = self.depth_ms.saturating_sub(self.missing_ms(source, now_ms));
        usize::try_from(left_ms / CHANGE_MS).unwrap_or(0)
    }

    /// Takes that a source has made so many.
    pub(crate) fn take_for(&mut self, source: Source, changes: usize, now_ms: i64) {
        if changes == 0 {
            return;
        }
        let taken_ms = i64::try_from(changes).unwrap_or(i64::MAX).saturating_mul(CHANGE_MS);
        let missing_ms = self.missing_ms(source, now_ms).saturating_add(taken_ms).min(self.depth_ms);
        if self.recent.len() >= SOURCES_MAX && !self.recent.contains_key(&source) {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(source, Bucket { missing_ms, at_ms: now_ms });
    }

    /// Whether a source may make a change, which it has made then.
    pub(crate) fn admits(&mut self, source: Source, now_ms: i64) -> bool {
        let admitted = self.left_to(source, now_ms) > 0;
        if admitted {
            self.take_for(source, 1, now_ms);
        }
        admitted
    }

    /// In how much time the bucket of a source is full.
    fn missing_ms(&self, source: Source, now_ms: i64) -> i64 {
        let bucket = self.recent.get(&source).or_else(|| self.older.get(&source));
        bucket.map_or(0, |bucket| {
            let passed_ms = i64::try_from(now_ms.abs_diff(bucket.at_ms)).unwrap_or(i64::MAX);
            bucket.missing_ms.saturating_sub(passed_ms).max(0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_makes_its_burst_at_once_and_then_a_thousand_a_second() {
        let mut limiter = ChangeLimiter::<u32>::of_burst(5_000);
        let mut made = |source, now_ms| (0..20_000).filter(|_| limiter.admits(source, now_ms)).count();
        assert_eq!((made(1, 0), made(1, 0)), (5_000, 0));
        assert_eq!(made(2, 0), 5_000, "others have theirs");
        assert_eq!([1_000, 2_000, 2_001].map(|now_ms| made(1, now_ms)), [1_000, 1_000, 1]);
        assert_eq!(made(1, 1_000_000), 5_000, "the bucket is full again, and not fuller");
    }

    #[test]
    fn several_are_taken_at_once_and_a_clock_that_is_set_back_takes_nothing_away() {
        let mut limiter = ChangeLimiter::<u32>::of_burst(100);
        limiter.take_for(1, 60, 1_000_000);
        assert_eq!((limiter.left_to(1, 1_000_000), limiter.left_to(1, 1_000_020)), (40, 60));
        limiter.take_for(2, 0, 1_000_000);
        assert_eq!((limiter.left_to(2, 0), limiter.recent.len()), (100, 1));
        assert_eq!([999_990, 0].map(|now_ms| limiter.left_to(1, now_ms)), [50, 100]);
        limiter.take_for(1, 1_000, 0);
        assert_eq!([0, 1].map(|now_ms| limiter.left_to(1, now_ms)), [0, 1], "more than there was is what there was");
    }

    #[test]
    fn the_table_is_bounded_and_keeps_who_changes_most() {
        let mut limiter = ChangeLimiter::<u32>::of_burst(1);
        for source in 1..10 * SOURCES_MAX as u32 {
            assert!(limiter.admits(source, 0));
            // one that comes now and then, while others fill the table
            assert_eq!(source % 1_000 == 1 && limiter.admits(0, 0), source == 1, "{source}");
            limiter.take_for(0, usize::from(source % 1_000 == 1), 0);
            assert!(limiter.recent.len() <= SOURCES_MAX && limiter.older.len() <= SOURCES_MAX);
        }
        assert!(limiter.recent.capacity() <= 1 << 14);
    }
}
