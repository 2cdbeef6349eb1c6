//! How often somebody may do something.
//!
//! A bucket for each who does it: it holds some tokens, each time takes one, and they come back evenly. Buckets are bounded,
//! so that whoever has many names or addresses fills no memory; a full bucket says what no bucket says, and goes first.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Buckets that are kept.
const BUCKETS_MAX: usize = 8192;
/// The part of a minute's tokens that a bucket holds.
const BURST_PART: f64 = 6.0;

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    filled: Instant,
}

/// How often each of many may do something.
#[derive(Debug)]
pub(crate) struct RateLimit<K> {
    per_second: f64,
    burst: f64,
    buckets: Mutex<HashMap<K, Bucket>>,
}

impl<K: Hash + Eq + Clone> RateLimit<K> {
    /// So many times a minute, and a part of them at once; 0 for as often as wished.
    pub(crate) fn new(per_minute: u32) -> Self {
        let burst = (f64::from(per_minute) / BURST_PART).max(1.0);
        Self::with_burst(per_minute, burst)
    }

    /// So many times a minute, all of them at once.
    pub(crate) fn at_once(per_minute: u32) -> Self {
        Self::with_burst(per_minute, f64::from(per_minute))
    }

    fn with_burst(per_minute: u32, burst: f64) -> Self {
        Self { per_second: f64::from(per_minute) / 60.0, burst, buckets: Mutex::default() }
    }

    /// Takes a token, or says how long it takes until there is one.
    pub(crate) fn take(&self, key: &K) -> Result<(), Duration> {
        self.take_at(key, Instant::now())
    }

    fn take_at(&self, key: &K, now: Instant) -> Result<(), Duration> {
        if self.per_second <= 0.0 {
            return Ok(());
        }
        let mut buckets = self.buckets();
        if buckets.len() >= BUCKETS_MAX && !buckets.contains_key(key) {
            self.make_room(&mut buckets, now);
        }
        let bucket = buckets.entry(key.clone()).or_insert(Bucket { tokens: self.burst, filled: now });
        let tokens = self.tokens(bucket, now);
        *bucket = Bucket { tokens, filled: now };
        if tokens < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - tokens) / self.per_second));
        }
        bucket.tokens -= 1.0;
        Ok(())
    }

    /// Gives a token back that was taken for nothing.
    pub(crate) fn give_back(&self, key: &K) {
        if let Some(bucket) = self.buckets().get_mut(key) {
            bucket.tokens = (bucket.tokens + 1.0).min(self.burst);
        }
    }

    fn tokens(&self, bucket: &Bucket, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(bucket.filled).as_secs_f64();
        (bucket.tokens + passed * self.per_second).min(self.burst)
    }

    /// Removes full buckets; where there is none, the fullest.
    fn make_room(&self, buckets: &mut HashMap<K, Bucket>, now: Instant) {
        buckets.retain(|_, bucket| self.tokens(bucket, now) < self.burst);
        if buckets.len() >= BUCKETS_MAX {
            let fullest = buckets.iter().max_by(|a, b| self.tokens(a.1, now).total_cmp(&self.tokens(b.1, now)));
            let fullest = fullest.map(|(key, _)| key.clone());
            fullest.map(|key| buckets.remove(&key));
        }
    }

    fn buckets(&self) -> MutexGuard<'_, HashMap<K, Bucket>> {
        // every step under the lock leaves whole values behind
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of an address that stands for whoever has it: of IPv6 the network, in which one host may have any address. A
/// link-local address stands for itself, because all hosts of a link are in one network there (RFC 4291 section 2.5.6);
/// what speaks against it is that one of them may take many of these, as it may take many of IPv4.
pub(crate) fn site(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => v4.into(),
            None if v6.is_unicast_link_local() => address,
            None => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
        },
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_evenly() {
        let (limit, now) = (RateLimit::at_once(60), Instant::now());
        for _ in 0..60 {
            limit.take_at(&"ann", now).expect("a token");
        }
        let wait = limit.take_at(&"ann", now).expect_err("none is left");
        assert_eq!(wait.as_millis(), 1000);
        limit.take_at(&"bob", now).expect("each has tokens of their own");
        limit.take_at(&"ann", now + wait).expect("it came back");
        limit.take_at(&"ann", now + wait).expect_err("only one came back");
        limit.give_back(&"ann");
        limit.take_at(&"ann", now + wait).expect("it was given back");
        assert!((0..1000).all(|_| RateLimit::new(0).take_at(&"ann", now).is_ok()), "no limit");
    }

    #[test]
    fn many_names_take_no_more_than_their_places_and_free_nobody() {
        let (limit, now) = (RateLimit::at_once(1), Instant::now());
        limit.take_at(&0, now).expect("a token");
        for number in 1..3 * BUCKETS_MAX {
            limit.take_at(&number, now + Duration::from_millis(number as u64 / 100)).expect("a token");
        }
        assert!(limit.buckets().len() <= BUCKETS_MAX);
        let late = now + Duration::from_mins(2);
        limit.take_at(&7, late).expect("a minute has passed");
        assert!(limit.buckets().len() <= BUCKETS_MAX);
    }

    #[test]
    fn a_host_has_one_bucket_whatever_address_of_its_network_it_takes() {
        let of = |text: &str| site(text.parse().expect("an address")).to_string();
        assert_eq!((of("2001:db8::1"), of("2001:db8::ffff:1")), ("2001:db8::".to_owned(), "2001:db8::".to_owned()));
        assert_eq!((of("192.0.2.1"), of("::ffff:192.0.2.1")), ("192.0.2.1".to_owned(), "192.0.2.1".to_owned()));
    }

    #[test]
    fn hosts_of_a_link_are_not_one() {
        let of = |text: &str| site(text.parse().expect("an address")).to_string();
        assert_eq!((of("fe80::1"), of("fe80::2")), ("fe80::1".to_owned(), "fe80::2".to_owned()));
        assert_eq!(of("febf:ffff::1"), "febf:ffff::1", "the last of fe80::/10");
        assert_eq!(of("fec0::1"), "fec0::", "not of a link");
    }
}
