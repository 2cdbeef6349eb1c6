//! Data Sets whose template has not come yet.
//!
//! RFC 7011 section 8 lets an exporter's template arrive after its data on UDP. What waits is bounded in octets and
//! in time; the oldest sets go first. With a spool they go to disk by way of the outbox, else they are given up, and
//! every one of these is counted.

use std::collections::{BTreeMap, VecDeque};

use weir_wire::TemplateId;

use crate::clock::MessageClock;
use crate::spool::{Asked, SetKey};

/// A Data Set put aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldSet {
    pub clock: MessageClock,
    pub body: Box<[u8]>,
    /// Running number, by which the account of sequence numbers knows it; [`UNNUMBERED`] when it was on disk.
    pub number: u64,
}

/// The number of sets that nobody asks for by number.
pub(crate) const UNNUMBERED: u64 = u64::MAX;

impl HeldSet {
    /// What it costs while it is kept.
    pub(crate) fn octets(&self) -> usize {
        self.body.len() + OVERHEAD_OCTETS
    }
}

/// Octets that a held set costs beside its body: its entries in two trees that are at least half full.
const OVERHEAD_OCTETS: usize = 256;
/// Octets that may be on their way to disk. When the disk is slower than the exporters, what more should go there is
/// given up.
pub(crate) const OUTBOX_OCTETS_MAX: usize = 8 << 20;

/// Place of a domain in the decoder's table, and template.
type Key = (u32, TemplateId);

/// All Data Sets that wait in memory.
#[derive(Debug, Default)]
pub(crate) struct WaitingRoom {
    /// By domain, template, and running number, so that those of a template are in order.
    sets: BTreeMap<(Key, u64), HeldSet>,
    /// By running number, so that the first is the oldest.
    arrivals: BTreeMap<u64, Key>,
    octets: usize,
    next_number: u64,
}

impl WaitingRoom {
    /// Puts a set aside for the template of a domain.
    pub(crate) fn hold(&mut self, domain: u32, template: TemplateId, mut set: HeldSet) {
        let (key, number) = ((domain, template), self.take_number());
        set.number = number;
        self.octets += set.octets();
        self.arrivals.insert(number, key);
        self.sets.insert((key, number), set);
    }

    /// The number that the next set gets.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_number
    }

    /// A number for a set that is put aside elsewhere.
    pub(crate) fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// Whether sets wait for this template.
    pub(crate) fn has(&self, domain: u32, template: TemplateId) -> bool {
        self.sets.range(((domain, template), 0)..=((domain, template), u64::MAX)).next().is_some()
    }

    /// The sets that waited for this template, oldest first.
    pub(crate) fn release(&mut self, domain: u32, template: TemplateId) -> Vec<HeldSet> {
        let released = self.take((domain, template), (domain, template));
        released.into_iter().map(|(_, set)| set).collect()
    }

    /// All sets of a domain, template by template.
    pub(crate) fn release_domain(&mut self, domain: u32) -> Vec<(TemplateId, HeldSet)> {
        let (Ok(first), Ok(last)) = (TemplateId::new(256), TemplateId::new(u16::MAX)) else {
            return Vec::new();
        };
        self.take((domain, first), (domain, last))
    }

    fn take(&mut self, first: Key, last: Key) -> Vec<(TemplateId, HeldSet)> {
        let keys: Vec<_> = self.sets.range((first, 0)..=(last, u64::MAX)).map(|(key, _)| *key).collect();
        keys.into_iter()
            .filter_map(|key| {
                let set = self.sets.remove(&key)?;
                self.arrivals.remove(&key.1);
                self.octets -= set.octets();
                Some((key.0.1, set))
            })
            .collect()
    }

    /// The oldest set, if it came before this time or there are more octets than this.
    pub(crate) fn pop_oldest(&mut self, before_ms: i64, octets_max: usize) -> Option<(Key, HeldSet)> {
        let (&number, &key) = self.arrivals.first_key_value()?;
        let set = self.sets.get(&(key, number))?;
        if set.clock.received_ms >= before_ms && self.octets <= octets_max {
            return None;
        }
        self.arrivals.pop_first();
        let set = self.sets.remove(&(key, number))?;
        self.octets -= set.octets();
        Some((key, set))
    }

    /// Sets that wait.
    pub(crate) fn len(&self) -> usize {
        self.sets.len()
    }

    /// Octets that they cost.
    pub(crate) fn octets(&self) -> usize {
        self.octets
    }
}

/// What is on its way to the spool, in order.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    requests: VecDeque<Asked>,
    octets: usize,
}

impl Outbox {
    /// Sends a set to disk. Gives it back when too much is on its way.
    pub(crate) fn put(&mut self, key: SetKey, set: HeldSet) -> Result<(), HeldSet> {
        if self.octets + set.octets() > OUTBOX_OCTETS_MAX {
            return Err(set);
        }
        self.octets += set.octets();
        self.requests.push_back(Asked::Put(key, set));
        Ok(())
    }

    /// Asks for the sets of a key, after those on their way.
    pub(crate) fn recall(&mut self, key: SetKey) {
        self.requests.push_back(Asked::Recall(key));
    }

    pub(crate) fn pop(&mut self) -> Option<Asked> {
        let request = self.requests.pop_front()?;
        if let Asked::Put(_, set) = &request {
            self.octets -= set.octets();
        }
        Some(request)
    }

    /// Octets that they cost.
    pub(crate) fn octets(&self) -> usize {
        self.octets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(room: &mut WaitingRoom, domain: u32, template: u16, received_ms: i64, octets: usize) {
        let clock = MessageClock { received_ms, export_ms: 0, uptime_ms: None };
        room.hold(domain, id(template), HeldSet { clock, body: vec![0; octets].into(), number: 0 });
    }

    fn id(id: u16) -> TemplateId {
        TemplateId::new(id).expect("id")
    }

    #[test]
    fn sets_leave_in_the_order_they_came() {
        let mut room = WaitingRoom::default();
        hold(&mut room, 0, 256, 1, 10);
        hold(&mut room, 0, 257, 2, 10);
        hold(&mut room, 0, 256, 3, 10);
        hold(&mut room, 1, 65_535, 4, 10);
        let times: Vec<_> = room.release(0, id(256)).iter().map(|set| set.clock.received_ms).collect();
        assert_eq!(times, [1, 3]);
        assert_eq!((room.len(), room.octets), (2, 2 * (10 + OVERHEAD_OCTETS)));
        assert!(room.release(1, id(257)).is_empty());
        assert_eq!(room.release_domain(1).len(), 1);
        assert_eq!(room.arrivals.len(), 1);
    }

    #[test]
    fn old_sets_and_too_many_octets_go_first() {
        let octets_max = 2 * (100 + OVERHEAD_OCTETS);
        let mut room = WaitingRoom::default();
        for at in 0..3 {
            hold(&mut room, at as u32, 256, at, 100);
        }
        let pop = |room: &mut WaitingRoom, before_ms| room.pop_oldest(before_ms, octets_max).map(|((at, _), _)| at);
        assert_eq!([pop(&mut room, 0), pop(&mut room, 0)], [Some(0), None]);
        room.release(1, id(256));
        assert_eq!([pop(&mut room, 3), pop(&mut room, 3)], [Some(2), None]);
        assert_eq!((room.len(), room.octets, room.arrivals.len()), (0, 0, 0));
    }
}
