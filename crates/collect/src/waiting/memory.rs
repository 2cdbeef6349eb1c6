//! Data Sets that wait in memory.
//!
//! When there are too many octets, the source that has most of them gives up its oldest set: whoever sends what is never
//! decoded does not push out what others wait for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use weir_wire::TemplateId;

use super::set::SetRun;

/// Place of a domain in the decoder's table, and template.
pub(super) type Key = (u32, TemplateId);

/// All Data Sets that wait in memory, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct MemorySets {
    /// By running number of the first set, so that the first is the oldest. The sets are here and not by what they wait for,
    /// since a flood adds at the one end and takes from the other, and memory in between is not touched.
    arrivals: BTreeMap<u64, ArrivedSets>,
    /// Domain, template, and running number of each, so that those of a template are in order.
    numbers: BTreeSet<(Key, u64)>,
    sources: HashMap<IpAddr, SourceSets, foldhash::fast::RandomState>,
    /// The sources by the octets that they have; among equals the one whose oldest set is the oldest is the last.
    largest: BTreeSet<(usize, Reverse<u64>, IpAddr)>,
    octets: usize,
    sets: usize,
    next_number: u64,
}

/// Sets of a message with what they wait for, and the source that they count for.
#[derive(Debug)]
struct ArrivedSets {
    key: Key,
    source: IpAddr,
    /// When they came, by the clock of ages.
    age_ms: i64,
    run: SetRun,
}

/// The sets of a source.
#[derive(Debug, Default)]
struct SourceSets {
    octets: usize,
    /// Their running numbers.
    numbers: BTreeSet<u64>,
}

impl SourceSets {
    fn rank(&self, source: IpAddr) -> (usize, Reverse<u64>, IpAddr) {
        (self.octets, Reverse(self.numbers.first().copied().unwrap_or_default()), source)
    }
}

impl MemorySets {
    /// Keeps sets of a source, that came at a time by the clock of ages, until the template of a domain comes.
    pub(super) fn insert(&mut self, (source, age_ms): (IpAddr, i64), key: Key, mut run: SetRun) {
        let number = self.next_number;
        self.next_number += run.sets() as u64;
        run.number_from(number);
        let octets = run.octets();
        self.octets += octets;
        self.sets += run.sets();
        self.arrivals.insert(number, ArrivedSets { key, source, age_ms, run });
        self.numbers.insert((key, number));
        let of_source = self.sources.entry(source).or_default();
        self.largest.remove(&of_source.rank(source));
        of_source.octets += octets;
        of_source.numbers.insert(number);
        self.largest.insert(of_source.rank(source));
    }

    /// Takes the sets away of which this is the first.
    fn take_one(&mut self, number: u64) -> Option<(Key, SetRun)> {
        let ArrivedSets { key, source, run, .. } = self.arrivals.remove(&number)?;
        self.numbers.remove(&(key, number));
        let octets = run.octets();
        self.octets -= octets;
        self.sets -= run.sets();
        let of_source = self.sources.get_mut(&source)?;
        self.largest.remove(&of_source.rank(source));
        of_source.octets -= octets;
        of_source.numbers.remove(&number);
        if of_source.numbers.is_empty() {
            self.sources.remove(&source);
        } else {
            self.largest.insert(of_source.rank(source));
        }
        Some((key, run))
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
        self.numbers.range(((domain, template), 0)..=((domain, template), u64::MAX)).next().is_some()
    }

    /// The sets that waited for this template, oldest first.
    pub(super) fn remove(&mut self, domain: u32, template: TemplateId) -> Vec<SetRun> {
        let removed = self.take((domain, template), (domain, template));
        removed.into_iter().map(|(_, run)| run).collect()
    }

    /// All sets of a domain, template by template.
    pub(super) fn remove_domain(&mut self, domain: u32) -> Vec<(TemplateId, SetRun)> {
        let (Ok(first), Ok(last)) = (TemplateId::new(256), TemplateId::new(u16::MAX)) else {
            return Vec::new();
        };
        self.take((domain, first), (domain, last))
    }

    fn take(&mut self, first: Key, last: Key) -> Vec<(TemplateId, SetRun)> {
        let numbers: Vec<u64> = self.numbers.range((first, 0)..=(last, u64::MAX)).map(|(_, number)| *number).collect();
        let taken = numbers.into_iter().filter_map(|number| self.take_one(number));
        taken.map(|((_, template), run)| (template, run)).collect()
    }

    /// The oldest sets of a message, if they came before this time; else, if there are more octets than this, the oldest of the
    /// source that has most of them.
    pub(super) fn pop_oldest(&mut self, before_ms: i64, octets_max: usize) -> Option<(Key, SetRun)> {
        let (&number, oldest) = self.arrivals.first_key_value()?;
        if oldest.age_ms < before_ms {
            return self.take_one(number);
        }
        if self.octets <= octets_max {
            return None;
        }
        let (_, Reverse(number), _) = *self.largest.last()?;
        self.take_one(number)
    }

    /// Sets that wait.
    pub(super) fn len(&self) -> usize {
        self.sets
    }

    /// Octets that they cost.
    pub(super) fn octets(&self) -> usize {
        self.octets
    }
}

#[cfg(test)]
mod tests {
    use super::super::set::{OVERHEAD_OCTETS, WaitingSet};
    use super::*;
    use crate::clock::MessageClock;

    fn add(sets: &mut MemorySets, domain: u32, template: u16, received_ms: i64, octets: usize) {
        let clock = MessageClock { received_ms, export_ms: 0, uptime_ms: None };
        let set = WaitingSet { clock, body: vec![0; octets].into(), number: 0 };
        sets.insert((IpAddr::from([192, 0, 2, domain as u8]), received_ms), (domain, id(template)), set.into());
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
        assert!(sets.sources.is_empty() && sets.largest.is_empty());
    }

    #[test]
    fn who_has_most_gives_way() {
        let octets_max = 10 * (100 + OVERHEAD_OCTETS);
        let mut sets = MemorySets::default();
        add(&mut sets, 1, 256, 0, 100);
        for at in 1..30 {
            add(&mut sets, 0, 256, at, 100);
        }
        let mut gone = Vec::new();
        while let Some(((domain, _), set)) = sets.pop_oldest(0, octets_max) {
            gone.push((domain, set.clock.received_ms));
        }
        assert_eq!(gone, (1..=20).map(|at| (0, at)).collect::<Vec<_>>(), "the oldest set is another's");
        assert!(sets.has(1, id(256)));
    }
}
