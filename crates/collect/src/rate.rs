//! A limit on the datagrams a second of each source.
//!
//! Each source has a token bucket, kept as one number: the time at which the bucket is full again, which each datagram
//! moves on by its share of a second. A datagram for which that time would be too far ahead is refused, and moves
//! nothing, so a source that sends too much still gets its rate. The bucket holds what [`DEPTH`] brings in: after a stall
//! of the collector the datagrams that have waited in the kernel come at once, and are no fault of their exporter.
//!
//! The table of sources is two generations of bounded size. When the newer one is full, the older one is dropped: what was
//! in it has not been heard for as long as it took that many other sources to send something, and begins with a full
//! bucket when it comes again. So nothing is ever searched, and a source that sends too much is not forgotten for it.
//! What speaks against all of this: whoever forges addresses has a bucket for each.

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

/// What a source may send at once, as the time in which its rate brings that in.
pub const DEPTH: Duration = Duration::from_secs(10);
/// Sources in each of the two generations.
const SOURCES_MAX: usize = 1 << 16;

/// What counts as one source: an address, or the 64 bits of an IPv6 network in front of it: whoever has one address of
/// those has all.
pub(crate) fn source_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
    }
}

/// When the bucket of each source is full again, in nanoseconds since the limiter was made.
type Buckets = HashMap<IpAddr, u64, foldhash::fast::RandomState>;

/// Decides which datagrams are looked at.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    /// What a datagram takes out of its bucket.
    datagram_ns: u64,
    began: Instant,
    now_ns: u64,
    sources_max: usize,
    recent: Buckets,
    older: Buckets,
    /// Sources that were dropped from the table.
    forgotten: u64,
}

impl RateLimiter {
    /// A limit of so many datagrams a second.
    pub(crate) fn new(datagrams_per_second: NonZeroU32) -> Self {
        Self::with_sources(datagrams_per_second, SOURCES_MAX)
    }

    fn with_sources(datagrams_per_second: NonZeroU32, sources_max: usize) -> Self {
        Self {
            datagram_ns: 1_000_000_000 / u64::from(datagrams_per_second.get()),
            began: Instant::now(),
            now_ns: 0,
            sources_max,
            recent: Buckets::default(),
            older: Buckets::default(),
            forgotten: 0,
        }
    }

    /// What follows has come at this time.
    pub(crate) fn move_to(&mut self, now: Instant) {
        self.now_ns = u64::try_from(now.saturating_duration_since(self.began).as_nanos()).unwrap_or(u64::MAX);
    }

    /// Whether a datagram of this address may pass.
    #[inline]
    pub(crate) fn admits(&mut self, address: IpAddr) -> bool {
        let source = source_of(address);
        match self.recent.get_mut(&source) {
            Some(full_at) => take(full_at, self.now_ns, self.datagram_ns),
            None => self.admits_another(source),
        }
    }

    /// The same for a source that is not in the newer generation.
    fn admits_another(&mut self, source: IpAddr) -> bool {
        let mut full_at = self.older.remove(&source).unwrap_or(0);
        let admitted = take(&mut full_at, self.now_ns, self.datagram_ns);
        if self.recent.len() >= self.sources_max {
            self.forgotten += self.older.len() as u64;
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(source, full_at);
        admitted
    }

    /// Sources dropped from the table since this was last asked.
    pub(crate) fn take_forgotten(&mut self) -> u64 {
        std::mem::take(&mut self.forgotten)
    }
}

/// Datagrams that were refused, and the last of those who sent them.
#[derive(Debug, Default)]
pub(crate) struct RefusedDatagrams {
    pub(crate) datagrams: u64,
    pub(crate) last: Option<IpAddr>,
}

impl RefusedDatagrams {
    /// Takes one of a source.
    pub(crate) fn add(&mut self, source: IpAddr) {
        self.datagrams += 1;
        self.last = Some(source);
    }
}

/// Takes a datagram's share out of a bucket, if there is as much in it.
#[inline]
fn take(full_at: &mut u64, now_ns: u64, datagram_ns: u64) -> bool {
    let after = (*full_at).max(now_ns).saturating_add(datagram_ns);
    let admitted = after - now_ns <= (DEPTH.as_nanos() as u64).max(datagram_ns);
    if admitted {
        *full_at = after;
    }
    admitted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(rate: u32, sources_max: usize) -> RateLimiter {
        RateLimiter::with_sources(NonZeroU32::new(rate).expect("a rate"), sources_max)
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect(text)
    }

    /// How many of so many datagrams pass at once.
    fn pass(limiter: &mut RateLimiter, address: &str, datagrams: usize) -> usize {
        (0..datagrams).filter(|_| limiter.admits(ip(address))).count()
    }

    #[test]
    fn a_source_has_its_rate_whatever_it_sends() {
        let mut limiter = limiter(100, 8);
        let began = limiter.began;
        assert_eq!(pass(&mut limiter, "192.0.2.1", 5_000), 1_000, "ten seconds of the rate at once");
        assert_eq!(pass(&mut limiter, "192.0.2.2", 10), 10, "others have theirs");
        for second in 1..5 {
            limiter.move_to(began + Duration::from_secs(second));
            assert_eq!(pass(&mut limiter, "192.0.2.1", 5_000), 100);
        }
        limiter.move_to(began + Duration::from_secs(100));
        assert_eq!(pass(&mut limiter, "192.0.2.1", 5_000), 1_000, "the bucket is full again, and not fuller");
    }

    #[test]
    fn the_least_rate_lets_ten_pass_and_then_one_a_second() {
        let mut limiter = limiter(1, 8);
        let began = limiter.began;
        assert_eq!(pass(&mut limiter, "192.0.2.1", 50), 10);
        limiter.move_to(began + Duration::from_millis(999));
        assert_eq!(pass(&mut limiter, "192.0.2.1", 50), 0);
        limiter.move_to(began + Duration::from_secs(1));
        assert_eq!(pass(&mut limiter, "192.0.2.1", 50), 1);
    }

    #[test]
    fn an_ipv6_network_is_one_source_and_a_mapped_address_that_of_ipv4() {
        let mut limiter = limiter(1, 8);
        assert_eq!(pass(&mut limiter, "2001:db8::1", 10), 10);
        assert_eq!(pass(&mut limiter, "2001:db8::ffff:1", 10), 0);
        assert_eq!(pass(&mut limiter, "2001:db8:0:1::1", 10), 10);
        assert_eq!(pass(&mut limiter, "192.0.2.1", 10), 10);
        assert_eq!(pass(&mut limiter, "::ffff:192.0.2.1", 10), 0);
    }

    #[test]
    fn the_table_is_bounded_and_keeps_those_who_send_too_much() {
        let mut limiter = limiter(1, 100);
        assert_eq!(pass(&mut limiter, "192.0.2.1", 10), 10);
        for number in 0..10_000_u32 {
            assert!(limiter.admits(IpAddr::from((0x0a00_0000 + number).to_be_bytes())));
            // one that sends once while fifty others do
            assert!(number % 50 != 0 || !limiter.admits(ip("192.0.2.1")), "{number}");
            assert!(limiter.recent.len() + limiter.older.len() <= 200);
        }
        assert!((9_500..10_000).contains(&limiter.take_forgotten()));
        assert_eq!(limiter.take_forgotten(), 0);
    }
}
