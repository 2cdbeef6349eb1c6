//! A limit on what each source has learned anew: Observation Domains of connections, changes of samplers, rows of options.
//!
//! To learn something costs far more than the few octets that report it. What is remembered of a source has limits, but a
//! source may have the same thing learned again and again. So each has a token bucket. It holds several times what is remembered
//! of a source, so that whatever a restart brings passes at once, and a change comes back each millisecond. What is beyond is
//! compared with what is remembered at most, and counted.
//!
//! It limits what is received while it is decoded: times are those by which ages are told, which go on whoever sets the system's
//! clock. What comes a little late, from another queue, gives nothing back and takes nothing. Files and captures have no such time
//! (`None`) and no limit: they are read faster than they were recorded, begin in mid-connection, and somebody has asked for them.
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
    /// When that was, by the clock of ages, in milliseconds.
    at_ms: i64,
}

impl Bucket {
    /// As it is at this time, or as it was last when that is later.
    fn at(self, now_ms: i64) -> Self {
        let passed_ms = now_ms.saturating_sub(self.at_ms).max(0);
        Self { missing_ms: self.missing_ms.saturating_sub(passed_ms).max(0), at_ms: self.at_ms.max(now_ms) }
    }

    /// With so much taken from it; it holds this much.
    fn less(self, taken_ms: i64, depth_ms: i64) -> Self {
        Self { missing_ms: self.missing_ms.saturating_add(taken_ms).min(depth_ms), ..self }
    }
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
    pub(crate) fn left_to(&self, source: Source, limited_ms: Option<i64>) -> usize {
        let Some(now_ms) = limited_ms else { return usize::MAX };
        let left_ms = self.depth_ms.saturating_sub(self.bucket_of(source, now_ms).missing_ms);
        usize::try_from(left_ms / CHANGE_MS).unwrap_or(0)
    }

    /// Takes that a source has made so many.
    pub(crate) fn take_for(&mut self, source: Source, changes: usize, limited_ms: Option<i64>) {
        let Some(now_ms) = limited_ms.filter(|_| changes > 0) else { return };
        let taken_ms = i64::try_from(changes).unwrap_or(i64::MAX).saturating_mul(CHANGE_MS);
        if let Some(bucket) = self.recent.get_mut(&source) {
            *bucket = bucket.at(now_ms).less(taken_ms, self.depth_ms);
            return;
        }
        let bucket = self.bucket_of(source, now_ms).less(taken_ms, self.depth_ms);
        if self.recent.len() >= SOURCES_MAX {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(source, bucket);
    }

    fn bucket_of(&self, source: Source, now_ms: i64) -> Bucket {
        let last = self.recent.get(&source).or_else(|| self.older.get(&source));
        last.map_or(Bucket { missing_ms: 0, at_ms: now_ms }, |last| last.at(now_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a source may make a change, which it has made then.
    fn makes(limiter: &mut ChangeLimiter<u32>, source: u32, now_ms: i64) -> bool {
        let may = limiter.left_to(source, Some(now_ms)) > 0;
        limiter.take_for(source, usize::from(may), Some(now_ms));
        may
    }

    #[test]
    fn a_source_makes_its_burst_at_once_and_then_a_thousand_a_second() {
        let mut limiter = ChangeLimiter::<u32>::of_burst(5_000);
        let mut made = |source, now_ms| (0..20_000).filter(|_| makes(&mut limiter, source, now_ms)).count();
        assert_eq!((made(1, 0), made(1, 0)), (5_000, 0));
        assert_eq!(made(2, 0), 5_000, "others have theirs");
        assert_eq!([1_000, 2_000, 2_001].map(|now_ms| made(1, now_ms)), [1_000, 1_000, 1]);
        assert_eq!(made(1, 1_000_000), 5_000, "the bucket is full again, and not fuller");
    }

    #[test]
    fn several_are_taken_at_once_and_a_time_that_goes_back_gives_nothing() {
        let mut limiter = ChangeLimiter::<u32>::of_burst(100);
        let left = |limiter: &ChangeLimiter<u32>, source, now_ms| limiter.left_to(source, Some(now_ms));
        limiter.take_for(1, 60, Some(1_000));
        assert_eq!([1_000, 1_020, 990, 0].map(|now_ms| left(&limiter, 1, now_ms)), [40, 60, 40, 40]);
        limiter.take_for(2, 0, Some(1_000));
        assert_eq!((left(&limiter, 2, 0), limiter.recent.len()), (100, 1));
        // one that comes late, and the next in time
        limiter.take_for(1, 10, Some(0));
        assert_eq!([0, 1_000, 1_005].map(|now_ms| left(&limiter, 1, now_ms)), [30, 30, 35]);
        limiter.take_for(1, 1_000, Some(1_000));
        let left = [1_000, 1_001].map(|now_ms| left(&limiter, 1, now_ms));
        assert_eq!(left, [0, 1], "more than there was is what there was");
    }

    #[test]
    fn without_a_time_there_is_no_limit() {
        let mut limiter = ChangeLimiter::<u32>::of_burst(1);
        limiter.take_for(1, 1_000, None);
        assert_eq!((limiter.left_to(1, None), limiter.recent.len()), (usize::MAX, 0));
    }

    #[test]
    fn the_table_is_bounded_and_keeps_who_changes_most() {
        let mut limiter = ChangeLimiter::<u32>::of_burst(1);
        for source in 1..10 * SOURCES_MAX as u32 {
            assert!(makes(&mut limiter, source, 0));
            // one that comes now and then, while others fill the table
            assert_eq!(source % 1_000 == 1 && makes(&mut limiter, 0, 0), source == 1, "{source}");
            limiter.take_for(0, usize::from(source % 1_000 == 1), Some(0));
            assert!(limiter.recent.len() <= SOURCES_MAX && limiter.older.len() <= SOURCES_MAX);
        }
        assert!(limiter.recent.capacity() <= 1 << 14);
    }
}
