//! How active a domain has been, and whether another may take its place.
//!
//! Any sender can make up sources of datagrams. If it could fill the table of domains for good, or push real exporters
//! out of it by being newer, it would end collecting. So domains are evicted in this order:
//!
//! 1. those that never sent anything that could be decoded;
//! 2. those that sent only templates, or have been silent for [`Limits::domain_idle_secs`];
//! 3. those that sent records, the ones with fewer datagrams first.
//!
//! Among equals the one that was silent for longest goes first. A domain whose records span a minute is protected while
//! it goes on.

use std::cmp::Ordering;

use crate::Limits;

/// How long the datagrams of a domain must have held records until the domain is protected.
const PROTECTED_AFTER_MS: i64 = 60_000;
/// A domain that was silent for this long is no longer judged by how much it has sent.
const ACTIVE_MS: i64 = 60_000;

/// What keeps a domain from being evicted; the smallest goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EvictionPriority {
    pub usefulness: Usefulness,
    /// Binary logarithm of the datagrams received; 0 when it has been silent for a while.
    pub datagrams_log: u32,
    pub heard_ms: i64,
}

impl EvictionPriority {
    /// All of it in one number: a heap compares many for each domain that goes.
    fn ordinal(self) -> u128 {
        let heard = self.heard_ms as u64 ^ 1 << 63;
        (self.usefulness as u128) << 96 | u128::from(self.datagrams_log) << 64 | u128::from(heard)
    }
}

impl Ord for EvictionPriority {
    fn cmp(&self, other: &Self) -> Ordering {
        self.ordinal().cmp(&other.ordinal())
    }
}

impl PartialOrd for EvictionPriority {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What an exporter has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Usefulness {
    /// Nothing that could be decoded.
    Nothing,
    /// Templates but no records, or nothing for a long time.
    Templates,
    /// Records.
    Records,
}

/// Whether a domain may be evicted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum DomainStatus {
    /// It has not sent records for long enough.
    #[default]
    New,
    /// It has sent records for a while, and is not evicted while it goes on.
    Protected,
    /// Its session has ended: its place becomes vacant soon, and is not taken before.
    Ended,
}

/// When a domain was heard, and what of it could be decoded.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Activity {
    /// When the last datagram came, milliseconds since the epoch.
    pub heard_ms: i64,
    pub datagrams: u32,
    /// When the first records were decoded.
    pub records_since_ms: Option<i64>,
    pub status: DomainStatus,
}

impl Activity {
    /// Notes a datagram.
    #[inline]
    pub(crate) fn note_datagram(&mut self, now_ms: i64) {
        self.heard_ms = now_ms;
        self.datagrams = self.datagrams.saturating_add(1);
    }

    /// Notes records that were decoded.
    #[inline]
    pub(crate) fn note_records(&mut self, now_ms: i64) {
        if self.status == DomainStatus::New {
            let since_ms = *self.records_since_ms.get_or_insert(now_ms);
            if now_ms.saturating_sub(since_ms) >= PROTECTED_AFTER_MS {
                self.status = DomainStatus::Protected;
            }
        }
    }

    /// How much the domain is worth to keep; `None` when it must not be evicted.
    pub(crate) fn eviction_priority(
        &self,
        now_ms: i64,
        limits: &Limits,
        has_templates: bool,
    ) -> Option<EvictionPriority> {
        let silent_ms = now_ms.saturating_sub(self.heard_ms);
        let idle = silent_ms > i64::from(limits.domain_idle_secs) * 1000;
        if self.status == DomainStatus::Ended || self.status == DomainStatus::Protected && !idle {
            return None;
        }
        let usefulness = match self.records_since_ms {
            None if !has_templates => Usefulness::Nothing,
            Some(_) if !idle => Usefulness::Records,
            _ => Usefulness::Templates,
        };
        let datagrams_log = if silent_ms > ACTIVE_MS { 0 } else { self.datagrams.max(1).ilog2() };
        Some(EvictionPriority { usefulness, datagrams_log, heard_ms: self.heard_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_evicted_in_the_order_of_what_they_sent() {
        let limits = Limits { domain_idle_secs: 100, ..Limits::default() };
        let heard = |datagrams: u32| {
            let mut activity = Activity::default();
            (0..datagrams).for_each(|_| activity.note_datagram(1_000));
            activity
        };
        let garbage = heard(1_000).eviction_priority(1_000, &limits, false);
        let templates = heard(1).eviction_priority(1_000, &limits, true);
        let mut with_records = heard(4);
        with_records.note_records(1_000);
        let few = with_records.eviction_priority(1_000, &limits, true);
        with_records.note_datagram(2_000);
        (0..4).for_each(|_| with_records.note_datagram(2_000));
        let more = with_records.eviction_priority(2_000, &limits, true);
        assert!(garbage.is_some() && garbage < templates && templates < few && few < more);
        let idle = with_records.eviction_priority(102_001, &limits, true).expect("not protected");
        assert_eq!((idle.usefulness, idle.datagrams_log), (Usefulness::Templates, 0));
    }

    #[test]
    fn what_is_of_most_use_counts_first_and_then_how_much_and_when() {
        let of = |usefulness, datagrams_log, heard_ms| EvictionPriority { usefulness, datagrams_log, heard_ms };
        let ascending = [
            of(Usefulness::Nothing, 0, i64::MIN),
            of(Usefulness::Nothing, 0, -1),
            of(Usefulness::Nothing, 0, 0),
            of(Usefulness::Nothing, 0, i64::MAX),
            of(Usefulness::Nothing, 1, i64::MIN),
            of(Usefulness::Nothing, u32::MAX, 5),
            of(Usefulness::Templates, 0, 0),
            of(Usefulness::Records, 0, -5),
        ];
        assert!(ascending.is_sorted_by(|one, other| one < other));
    }

    #[test]
    fn records_over_a_minute_protect_until_the_domain_is_idle() {
        let limits = Limits { domain_idle_secs: 100, ..Limits::default() };
        let mut activity = Activity::default();
        for at_ms in [0, 59_999, 60_000] {
            assert_eq!(activity.status, DomainStatus::New);
            activity.note_datagram(at_ms);
            activity.note_records(at_ms);
        }
        assert_eq!(activity.eviction_priority(160_000, &limits, true), None);
        assert!(activity.eviction_priority(160_001, &limits, true).is_some());
        activity.status = DomainStatus::Ended;
        assert_eq!(activity.eviction_priority(160_001, &limits, true), None);
    }
}
