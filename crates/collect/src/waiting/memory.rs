//! Data Sets that wait in memory.

use std::collections::BTreeMap;

use weir_wire::TemplateId;

use super::set::WaitingSet;

/// Place of a domain in the decoder's table, and template.
pub(super) type Key = (u32, TemplateId);

/// All Data Sets that wait in memory, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct MemorySets {
    /// By domain, template, and running number, so that those of a template are in order.
    sets: BTreeMap<(Key, u64), WaitingSet>,
    /// By running number, so that the first is the oldest.
    arrivals: BTreeMap<u64, Key>,
    octets: usize,
    next_number: u64,
}

impl MemorySets {
    /// Keeps a set until the template of a domain comes.
    pub(super) fn insert(&mut self, domain: u32, template: TemplateId, mut set: WaitingSet) {
        let (key, number) = ((domain, template), self.take_number());
        set.number = number;
        self.octets += set.octets();
        self.arrivals.insert(number, key);
        self.sets.insert((key, number), set);
    }

    /// The number that the next set gets.
    pub(super) fn next_number(&self) -> u64 {
        self.next_number
    }

    /// A number for a set that is kept elsewhere.
    pub(super) fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// Whether sets wait for this template.
    pub(super) fn has(&self, domain: u32, template: TemplateId) -> bool {
        self.sets.range(((domain, template), 0)..=((domain, template), u64::MAX)).next().is_some()
    }

    /// The sets that waited for this template, oldest first.
    pub(super) fn remove(&mut self, domain: u32, template: TemplateId) -> Vec<WaitingSet> {
        let removed = self.take((domain, template), (domain, template));
        removed.into_iter().map(|(_, set)| set).collect()
    }

    /// All sets of a domain, template by template.
    pub(super) fn remove_domain(&mut self, domain: u32) -> Vec<(TemplateId, WaitingSet)> {
        let (Ok(first), Ok(last)) = (TemplateId::new(256), TemplateId::new(u16::MAX)) else {
            return Vec::new();
        };
        self.take((domain, first), (domain, last))
    }

    fn take(&mut self, first: Key, last: Key) -> Vec<(TemplateId, WaitingSet)> {
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

    /// The oldest set, if it came before this time, or if there are more octets than this.
    pub(super) fn pop_oldest(&mut self, before_ms: i64, octets_max: usize) -> Option<(Key, WaitingSet)> {
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
    pub(super) fn len(&self) -> usize {
        self.sets.len()
    }

    /// Octets that they cost.
    pub(super) fn octets(&self) -> usize {
        self.octets
    }
}

#[cfg(test)]
mod tests {
    use super::super::set::OVERHEAD_OCTETS;
    use super::*;
    use crate::clock::MessageClock;

    fn add(sets: &mut MemorySets, domain: u32, template: u16, received_ms: i64, octets: usize) {
        let clock = MessageClock { received_ms, export_ms: 0, uptime_ms: None };
        sets.insert(domain, id(template), WaitingSet { clock, body: vec![0; octets].into(), number: 0 });
    }

    fn id(id: u16) -> TemplateId {
        TemplateId::new(id).expect("id")
    }

    #[test]
    fn sets_leave_in_the_order_they_came() {
        let mut sets = MemorySets::default();
        add(&mut sets, 0, 256, 1, 10);
        add(&mut sets, 0, 257, 2, 10);
        add(&mut sets, 0, 256, 3, 10);
        add(&mut sets, 1, 65_535, 4, 10);
        let times: Vec<_> = sets.remove(0, id(256)).iter().map(|set| set.clock.received_ms).collect();
        assert_eq!(times, [1, 3]);
        assert_eq!((sets.len(), sets.octets), (2, 2 * (10 + OVERHEAD_OCTETS)));
        assert!(sets.remove(1, id(257)).is_empty());
        assert_eq!(sets.remove_domain(1).len(), 1);
        assert_eq!(sets.arrivals.len(), 1);
    }

    #[test]
    fn old_sets_and_too_many_octets_go_first() {
        let octets_max = 2 * (100 + OVERHEAD_OCTETS);
        let mut sets = MemorySets::default();
        for at in 0..3 {
            add(&mut sets, at as u32, 256, at, 100);
        }
        let pop = |sets: &mut MemorySets, before_ms| sets.pop_oldest(before_ms, octets_max).map(|((at, _), _)| at);
        assert_eq!([pop(&mut sets, 0), pop(&mut sets, 0)], [Some(0), None]);
        sets.remove(1, id(256));
        assert_eq!([pop(&mut sets, 3), pop(&mut sets, 3)], [Some(2), None]);
        assert_eq!((sets.len(), sets.octets, sets.arrivals.len()), (0, 0, 0));
    }
}
