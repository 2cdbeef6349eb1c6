//! Data Sets on disk, or on their way there.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use super::set::{SetKey, SetRun};

/// Octets that may be on their way to disk. When the disk is slower than the exporters, further sets stay in memory as long as
/// there is room.
pub(crate) const OUTBOX_OCTETS_MAX: usize = 8 << 20;
/// Octets that a set, or the short ones of a run, have at most, with what they cost.
const SET_OCTETS_MAX: usize = 88 << 10;

/// What a decoder asks of the spool.
#[derive(Debug)]
pub(crate) enum SpoolRequest {
    /// Keep these sets.
    Put(SetKey, SetRun),
    /// Return the sets of this key and forget them: their template has come.
    Recall(SetKey),
    /// Say when everything that was asked before is done.
    Confirm,
}

/// Requests on their way to the spool, in order.
#[derive(Debug, Default)]
struct Outbox {
    requests: VecDeque<SpoolRequest>,
    octets: usize,
}

impl Outbox {
    /// Whether a set of any length may be sent.
    fn has_room(&self) -> bool {
        self.octets + SET_OCTETS_MAX <= OUTBOX_OCTETS_MAX
    }

    /// Sends sets to disk. False when too much is on its way.
    fn put(&mut self, key: SetKey, sets: SetRun) -> bool {
        if self.octets + sets.octets() > OUTBOX_OCTETS_MAX {
            return false;
        }
        self.octets += sets.octets();
        self.requests.push_back(SpoolRequest::Put(key, sets));
        true
    }

    fn pop(&mut self) -> Option<SpoolRequest> {
        let request = self.requests.pop_front()?;
        if let SpoolRequest::Put(_, sets) = &request {
            self.octets -= sets.octets();
        }
        Some(request)
    }
}

/// How many sets wait on disk, by what they wait for.
#[derive(Debug)]
pub(super) struct SpooledSets {
    /// Whether there is a spool.
    enabled: bool,
    keys_max: usize,
    outbox: Outbox,
    by_key: HashMap<SetKey, u64, foldhash::fast::RandomState>,
    total: u64,
}

impl SpooledSets {
    /// None, and no spool; of `keys_max` keys at most.
    pub(super) fn new(keys_max: usize) -> Self {
        Self { enabled: false, keys_max, outbox: Outbox::default(), by_key: HashMap::default(), total: 0 }
    }

    pub(super) fn enable(&mut self) {
        self.enabled = true;
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Whether a set can be on its way to disk.
    pub(super) fn has_room(&self) -> bool {
        self.outbox.has_room()
    }

    /// Whether sets of this key wait on disk.
    pub(super) fn has(&self, key: &SetKey) -> bool {
        self.by_key.contains_key(key)
    }

    /// Sends sets to disk, all or none: the spool takes the run apart, so that short sets cost no more here than a long one.
    /// False when that is not possible: they are dropped.
    pub(super) fn put(&mut self, key: SetKey, sets: impl Into<SetRun>) -> bool {
        let fits = self.enabled && (self.has(&key) || self.by_key.len() < self.keys_max);
        let sets = sets.into();
        let count = sets.sets() as u64;
        if !fits || !self.outbox.put(key, sets) {
            return false;
        }
        *self.by_key.entry(key).or_default() += count;
        self.total += count;
        true
    }

    /// Asks for the sets of a key, after those on their way to disk.
    pub(super) fn recall(&mut self, key: SetKey) {
        self.outbox.requests.push_back(SpoolRequest::Recall(key));
    }

    /// Adds sets that a process before this one left. False when there are too many keys.
    pub(super) fn found(&mut self, key: SetKey, sets: u64) -> bool {
        if self.by_key.len() >= self.keys_max {
            return false;
        }
        *self.by_key.entry(key).or_default() += sets;
        self.total += sets;
        true
    }

    /// Sets have left the disk. Every set that went there does so once, so this ends at 0.
    pub(super) fn remove(&mut self, key: SetKey, sets: u64) {
        if let Entry::Occupied(mut entry) = self.by_key.entry(key) {
            let left = sets.min(*entry.get());
            *entry.get_mut() -= left;
            self.total -= left;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }

    pub(super) fn pop_request(&mut self) -> Option<SpoolRequest> {
        self.outbox.pop()
    }

    /// Sets on disk or on their way there.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Keys of which there are any.
    pub(super) fn keys(&self) -> usize {
        self.by_key.len()
    }

    /// Octets on their way to disk.
    pub(super) fn outbox_octets(&self) -> usize {
        self.outbox.octets
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use weir_wire::TemplateId;

    use super::*;
    use crate::clock::MessageClock;
    use crate::domain::DomainKey;
    use crate::session::Session;
    use crate::waiting::set::{GatheredSets, UNNUMBERED, WaitingSet};

    fn key(template: u16) -> SetKey {
        let session = Session::udp(SocketAddr::from(([192, 0, 2, 1], 4739)));
        let domain = DomainKey { session, version: 10, domain: 0 };
        SetKey { domain, template: TemplateId::new(template).expect("id") }
    }

    fn set(octets: usize) -> WaitingSet {
        let clock = MessageClock { received_ms: 0, export_ms: 0, uptime_ms: None };
        WaitingSet { clock, body: vec![0; octets].into(), number: UNNUMBERED }
    }

    #[test]
    fn sets_are_counted_until_they_leave_the_disk() {
        let mut spooled = SpooledSets::new(2);
        assert!(!spooled.put(key(256), set(1)), "there is no spool");
        spooled.enable();
        assert!(spooled.put(key(256), set(1)) && spooled.put(key(256), set(1)) && spooled.found(key(257), 3));
        assert!(!spooled.put(key(258), set(1)) && !spooled.found(key(258), 1), "too many keys");
        assert_eq!((spooled.total(), spooled.keys()), (5, 2));
        spooled.remove(key(256), 1);
        assert!(spooled.has(&key(256)));
        spooled.remove(key(256), 7);
        spooled.remove(key(256), 7);
        assert_eq!((spooled.total(), spooled.has(&key(256)), spooled.keys()), (3, false, 1));
    }

    #[test]
    fn the_outbox_is_bounded_and_in_order() {
        let mut spooled = SpooledSets::new(2);
        spooled.enable();
        assert!(spooled.put(key(256), set(OUTBOX_OCTETS_MAX - 364)));
        assert!(!spooled.put(key(256), set(45)) && spooled.total() == 1);
        spooled.recall(key(256));
        assert!(matches!(spooled.pop_request(), Some(SpoolRequest::Put(..))));
        assert_eq!(spooled.outbox_octets(), 0);
        assert!(matches!(spooled.pop_request(), Some(SpoolRequest::Recall(of)) if of == key(256)));
        assert!(spooled.pop_request().is_none());
    }

    #[test]
    fn short_sets_of_a_message_go_to_disk_in_one_request() {
        let mut spooled = SpooledSets::new(2);
        spooled.enable();
        let mut gathered = GatheredSets::of_message(false);
        (0..40).for_each(|_| gathered.push(key(256).template, &[7]));
        let run = gathered.take_runs(&set(0).clock).runs.remove(0).1;
        assert!(spooled.put(key(256), run));
        assert_eq!((spooled.total(), spooled.keys()), (40, 1));
        assert!(matches!(spooled.pop_request(), Some(SpoolRequest::Put(_, sets)) if sets.sets() == 40));
        assert!(spooled.pop_request().is_none() && spooled.outbox_octets() == 0);
        spooled.remove(key(256), 39);
        assert!(spooled.has(&key(256)));
    }
}
