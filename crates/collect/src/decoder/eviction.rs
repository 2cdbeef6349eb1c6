//! The search for the domain whose templates are to be evicted next.
//!
//! The least are searched for a batch at a time, because looking at all domains for each new template would let a sender
//! of garbage use up the processor. A search that finds none is not repeated for a while for the same reason. What the
//! order is, and why, is in `domain::activity`.

use crate::domain::{Domain, EvictionPriority};
use crate::limits;

/// A search finds this part of the domains, and at least one.
const BATCH_PART: usize = 64;
/// After a search that found none, the next comes this much later, or after this many requests.
const RETRY_MS: i64 = 1_000;
const RETRY_REQUESTS: u32 = 4_096;

/// The domains whose templates are evicted next.
#[derive(Debug, Default)]
pub(super) struct EvictionSearch {
    /// The one with the smallest priority at the end.
    candidates: Vec<(EvictionPriority, u32)>,
    /// When a search found none.
    fruitless_ms: Option<i64>,
    requests: u32,
}

impl EvictionSearch {
    /// The domain with the smallest priority, if that is smaller than `below`. `priority` is `None` for domains that
    /// must stay.
    pub(super) fn next(
        &mut self,
        domains: &[Domain],
        now_ms: i64,
        below: Option<EvictionPriority>,
        priority: impl Fn(&Domain) -> Option<EvictionPriority>,
    ) -> Option<u32> {
        for searched in [false, true] {
            while let Some(&(then, index)) = self.candidates.last() {
                // one that was heard since is no candidate any more
                if domains.get(index as usize).and_then(&priority).is_none_or(|now| now > then) {
                    self.candidates.pop();
                } else if below.is_some_and(|below| then >= below) {
                    return None;
                } else {
                    self.candidates.pop();
                    return Some(index);
                }
            }
            if searched || !self.may_search(now_ms) {
                return None;
            }
            let priorities = domains.iter().zip(0..);
            self.candidates = priorities.filter_map(|(domain, index)| Some((priority(domain)?, index))).collect();
            let batch = (domains.len() / BATCH_PART).max(1);
            if self.candidates.len() > batch {
                self.candidates.select_nth_unstable(batch);
                self.candidates.truncate(batch);
                self.candidates.shrink_to_fit();
            }
            self.candidates.sort_unstable_by(|a, b| b.cmp(a));
            self.fruitless_ms = self.candidates.is_empty().then_some(now_ms);
            self.requests = 0;
        }
        None
    }

    fn may_search(&mut self, now_ms: i64) -> bool {
        self.requests += 1;
        self.fruitless_ms.is_none_or(|at| now_ms.saturating_sub(at).saturating_abs() >= RETRY_MS)
            || self.requests >= RETRY_REQUESTS
    }
}

const _: () = assert!(size_of::<(EvictionPriority, u32)>() <= limits::CANDIDATE_OCTETS);

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::SocketAddr;

    use super::*;
    use crate::Limits;
    use crate::domain::{DomainKey, Usefulness};
    use crate::session::Session;

    fn domains(heard_ms: &[i64]) -> Vec<Domain> {
        let domain = |(&heard_ms, domain): (&i64, u32)| {
            let session = Session::udp(SocketAddr::from(([192, 0, 2, 1], 2055)));
            let mut new = Domain::new(DomainKey { session, version: 10, domain }, &Limits::default());
            new.activity.heard_ms = heard_ms;
            new
        };
        heard_ms.iter().zip(0..).map(domain).collect()
    }

    fn by_time(domain: &Domain) -> EvictionPriority {
        let heard_ms = domain.activity.heard_ms;
        EvictionPriority { usefulness: Usefulness::Nothing, datagrams_log: 0, heard_ms }
    }

    #[test]
    fn the_one_silent_for_longest_is_found_and_one_heard_since_is_not() {
        let mut domains = domains(&(0..128).rev().collect::<Vec<_>>());
        let mut search = EvictionSearch::default();
        let mut next = |domains: &[Domain], below: Option<u32>| {
            let below = below.map(|index| by_time(&domains[index as usize]));
            search.next(domains, 0, below, |domain| Some(by_time(domain)))
        };
        assert_eq!(next(&domains, None), Some(127));
        domains[126].activity.heard_ms = 500;
        assert_eq!(next(&domains, Some(125)), Some(127), "127 has not been replaced");
        domains[127].activity.heard_ms = 501;
        assert_eq!(next(&domains, Some(125)), None, "none is below the limit");
        assert_eq!(next(&domains, None), Some(125));
    }

    #[test]
    fn a_search_that_finds_none_is_not_repeated_at_once() {
        let domains = domains(&[0; 4]);
        let mut search = EvictionSearch::default();
        let looks = Cell::new(0);
        let none = |_: &Domain| {
            looks.set(looks.get() + 1);
            None
        };
        (0..100).for_each(|_| assert_eq!(search.next(&domains, 10, None, none), None));
        assert_eq!(looks.get(), 4);
        assert_eq!(search.next(&domains, 10 + RETRY_MS, None, none), None);
        assert_eq!(looks.get(), 8);
        (0..RETRY_REQUESTS).for_each(|_| assert_eq!(search.next(&domains, 1_010, None, none), None));
        assert_eq!(looks.get(), 12);
    }
}
