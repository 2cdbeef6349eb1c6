//! Domains in the order in which they are evicted: a heap, so that a new domain costs no look at all the others.
//!
//! What a domain is worth grows when something comes from it. So an entry has what its domain was worth when it was last
//! looked at, and one whose domain is worth more by now goes back with that. It sinks with silence only; therefore all
//! domains are looked at again now and then, at most once a second. What the order is, and why, is in
//! `domain::activity`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// All domains are looked at again after this time at the earliest, in milliseconds, and after requests for this part of
/// them.
const RENEWED_MS: i64 = 1_000;
const RENEWED_PART: usize = 64;
/// When no domain may be evicted, all are looked at again after that time, or after this many requests.
const RETRY_REQUESTS: usize = 4_096;
/// Entries for each domain of an order, at most, and the domains that this is counted for at least.
const ENTRIES_EACH: usize = 2;
const DOMAINS_MIN: usize = 64;

/// What a domain was worth, when it was added among those that are worth as much, and its place in the table of domains. The
/// largest is the one that is worth least.
pub(super) type Entry<P> = Reverse<(P, u32, u32)>;

/// The domains that may be evicted, by what they are worth (`P`). Nothing is kept before the first is asked for.
#[derive(Debug)]
pub(super) struct EvictionOrder<P> {
    heap: BinaryHeap<Entry<P>>,
    /// When all domains were looked at.
    renewed_ms: Option<i64>,
    /// Requests since then.
    requests: usize,
    /// Domains added since then.
    added: u32,
}

impl<P: Ord> Default for EvictionOrder<P> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), renewed_ms: None, requests: 0, added: 0 }
    }
}

impl<P: Ord> EvictionOrder<P> {
    /// Adds a new domain, which is worth no less than this, to an order of so many. When the order has twice as many entries it
    /// is forgotten, and the next request looks at all domains. In the order of all domains that costs each new domain a look or
    /// less, however requests and new domains alternate; in that of a source, which has T of the N domains that are looked at, N / T
    /// looks. An order that is asked for only now and then must not grow with what is added in between.
    pub(super) fn add(&mut self, priority: P, index: u32, domains: usize) {
        if self.renewed_ms.is_none() {
            return;
        }
        if self.heap.len() >= ENTRIES_EACH * domains.max(DOMAINS_MIN) {
            *self = Self::default();
            return;
        }
        self.push(priority, index);
    }

    /// Entries, and how many there is memory for.
    #[cfg(test)]
    pub(super) fn entries(&self) -> (usize, usize) {
        (self.heap.len(), self.heap.capacity())
    }

    fn push(&mut self, priority: P, index: u32) {
        self.added = self.added.saturating_add(1);
        self.heap.push(Reverse((priority, self.added, index)));
    }

    /// Takes out the domain with the smallest priority. `priority` is `None` for domains that must stay.
    pub(super) fn next<D>(&mut self, domains: &[D], now_ms: i64, priority: impl Fn(&D) -> Option<P>) -> Option<u32> {
        self.requests += 1;
        if self.is_due(domains.len(), now_ms) {
            self.renew(domains, now_ms, &priority);
        }
        while let Some(Reverse((then, _, index))) = self.heap.pop() {
            match domains.get(index as usize).and_then(&priority) {
                // it may be evicted again when it has been silent, which the next look at all shows
                None => {}
                Some(now) if now > then => self.push(now, index),
                Some(_) => return Some(index),
            }
        }
        None
    }

    fn is_due(&self, domains: usize, now_ms: i64) -> bool {
        let Some(renewed_ms) = self.renewed_ms else { return true };
        let is_old = now_ms.saturating_sub(renewed_ms).saturating_abs() >= RENEWED_MS;
        if self.heap.is_empty() {
            return is_old || self.requests >= RETRY_REQUESTS;
        }
        // places whose domains left otherwise, and have another by now, are there twice
        is_old && self.requests > domains / RENEWED_PART || self.heap.len() > ENTRIES_EACH * domains
    }

    fn renew<D>(&mut self, domains: &[D], now_ms: i64, priority: &impl Fn(&D) -> Option<P>) {
        let mut entries = std::mem::take(&mut self.heap).into_vec();
        entries.clear();
        let priorities = domains.iter().zip(0..);
        entries.extend(priorities.filter_map(|(domain, index)| Some(Reverse((priority(domain)?, 0, index)))));
        self.heap = BinaryHeap::from(entries);
        (self.renewed_ms, self.requests, self.added) = (Some(now_ms), 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::SocketAddr;

    use super::*;
    use crate::Limits;
    use crate::domain::{Domain, DomainKey, EvictionPriority, Usefulness};
    use crate::session::Session;

    fn domain(heard_ms: i64) -> Domain {
        let session = Session::udp(SocketAddr::from(([192, 0, 2, 1], 2055)));
        let mut new = Domain::new(DomainKey { session, version: 10, domain: 0 }, &Limits::default());
        new.activity.heard_ms = heard_ms;
        new
    }

    fn by_time(domain: &Domain) -> EvictionPriority {
        let heard_ms = domain.activity.heard_ms;
        EvictionPriority { usefulness: Usefulness::Nothing, datagrams_log: 0, heard_ms }
    }

    #[test]
    fn a_new_domain_costs_no_look_at_all_the_others() {
        let mut domains: Vec<Domain> = (0..1_000).map(domain).collect();
        let (mut order, looks) = (EvictionOrder::default(), Cell::new(0));
        let priority = |domain: &Domain| {
            looks.set(looks.get() + 1);
            Some(by_time(domain))
        };
        let mut evicted = Vec::new();
        for heard_ms in 1_000..3_000 {
            let index = order.next(&domains, 0, priority).expect("one that may go");
            evicted.push(domains[index as usize].activity.heard_ms);
            domains[index as usize] = domain(heard_ms);
            order.add(by_time(&domains[index as usize]), index, domains.len());
        }
        assert_eq!(evicted, (0..2_000).collect::<Vec<_>>(), "the one silent for longest goes first");
        assert_eq!(looks.get(), 1_000 + 2_000, "all once, and each that goes");
    }

    #[test]
    fn one_that_was_heard_since_goes_later_and_one_that_must_stay_does_not_go() {
        let mut domains: Vec<Domain> = (0..4).map(domain).collect();
        let mut order = EvictionOrder::default();
        let stays = Cell::new(None);
        let priority = |domain: &Domain| (stays.get() != Some(domain.activity.heard_ms)).then(|| by_time(domain));
        assert_eq!(order.next(&domains, 0, priority), Some(0));
        domains[1].activity.heard_ms = 10;
        stays.set(Some(2));
        assert_eq!([(); 3].map(|()| order.next(&domains, 0, priority)), [Some(3), Some(1), None]);
        stays.set(None);
        assert_eq!(order.next(&domains, RENEWED_MS - 1, priority), None, "not all are looked at again at once");
        assert_eq!(order.next(&domains, RENEWED_MS, priority), Some(0));
    }

    #[test]
    fn places_that_are_there_twice_do_not_pile_up() {
        let domains: Vec<Domain> = (0..10).map(domain).collect();
        let mut order = EvictionOrder::default();
        for round in 0..1_000_u32 {
            // sessions end, and their places are given to others
            order.add(by_time(&domains[0]), round % 10, domains.len());
            order.add(by_time(&domains[0]), round % 10, domains.len());
            order.next(&domains, 0, |domain| Some(by_time(domain)));
            assert!(order.heap.len() <= 2 * domains.len() + 2, "{}", order.heap.len());
        }
    }

    /// Domains that are added between requests have all looked at no more often than they are added.
    #[test]
    fn an_order_that_is_seldom_asked_for_is_bounded_and_costs_no_more_looks_than_domains_are_added() {
        let domains: Vec<Domain> = (0..100).map(domain).collect();
        let (mut order, looks) = (EvictionOrder::default(), Cell::new(0));
        let priority = |domain: &Domain| {
            looks.set(looks.get() + 1);
            Some(by_time(domain))
        };
        assert_eq!(order.next(&domains, 0, priority), Some(0));
        for added in 0..100_000_u32 {
            order.add(by_time(&domains[0]), added % 100, domains.len());
            assert!(order.entries().0 <= 200 && order.entries().1 < 400, "{:?}", order.entries());
            if added % 1_000 == 999 {
                assert_eq!(order.next(&domains, 0, priority), Some(0), "what was forgotten is known again");
            }
        }
        assert!(looks.get() < 100_000 / 2, "{}", looks.get());
    }
}
