//! Data Sets that wait in memory.
//!
//! When there are too many octets, the source that has most of them gives up its oldest set: whoever sends what is never
//! decoded does not push out what others wait for.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weir_wire::TemplateId;

use super::chain::{Chain, Linked, Links};
use super::set::{OVERHEAD_OCTETS, SetRun};
use super::sources::Sources;

/// Domain and template.
pub(super) type Key = (u32, TemplateId);

/// The chains that sets are in, oldest first: all of them, those of their source, and those of their template.
const ARRIVALS: usize = 0;
const OF_SOURCE: usize = 1;
const OF_TEMPLATE: usize = 2;

/// A table with no more places than this is not made smaller.
const SMALL: usize = 64;

/// All Data Sets that wait in memory, in the order in which they came.
///
/// A flood adds a set and drops another one with each message, so neither searches: sets are in a table, and in chains by what
/// they are looked for.
#[derive(Debug, Default)]
pub(super) struct MemorySets {
    table: Vec<Place>,
    /// Places of the table that are free.
    free: Vec<u32>,
    arrivals: Chain,
    templates: BTreeMap<Key, Chain>,
    sources: Sources,
    octets: usize,
    sets: usize,
    next_number: u64,
}

/// A place for sets of a message, with what they wait for.
#[derive(Debug)]
struct Place {
    /// `None` when the place is free.
    run: Option<SetRun>,
    key: Key,
    /// The source that they count for.
    source: u32,
    /// When they came, by the clock of ages.
    age_ms: i64,
    links: [Links; 3],
}

/// A place, when the table is at least half full, is within what a run is taken to cost.
const _: () = assert!(2 * size_of::<Place>() + 2 * size_of::<u32>() <= OVERHEAD_OCTETS);

impl Linked for Place {
    fn links(&mut self, kind: usize) -> &mut Links {
        &mut self.links[kind]
    }
}

impl MemorySets {
    /// Keeps sets of a source, that came at a time by the clock of ages, until the template of a domain comes.
    pub(super) fn insert(&mut self, (source, age_ms): (IpAddr, i64), key: Key, mut run: SetRun) {
        let number = self.next_number;
        self.next_number += run.sets() as u64;
        run.number_from(number);
        self.keep((source, age_ms), key, run);
    }

    /// Puts sets that have their numbers into a place, and behind all that are there.
    pub(super) fn keep(&mut self, (address, age_ms): (IpAddr, i64), key: Key, run: SetRun) {
        self.octets += run.octets();
        self.sets += run.sets();
        let source = self.sources.add(address, run.octets(), run.numbers().start);
        let place = Place { run: Some(run), key, source, age_ms, links: Default::default() };
        let at = if let Some(at) = self.free.pop() {
            self.table[at as usize] = place;
            at
        } else {
            self.table.push(place);
            self.table.len() as u32 - 1
        };
        self.arrivals.push(&mut self.table, ARRIVALS, at);
        self.sources.get(source).sets.push(&mut self.table, OF_SOURCE, at);
        self.templates.entry(key).or_default().push(&mut self.table, OF_TEMPLATE, at);
    }

    /// Takes the sets at this place away.
    fn take(&mut self, at: u32) -> Option<(Key, SetRun)> {
        let place = self.table.get_mut(at as usize)?;
        let run = place.run.take()?;
        let (key, source) = (place.key, place.source);
        self.octets -= run.octets();
        self.sets -= run.sets();
        self.free.push(at);
        self.arrivals.remove(&mut self.table, ARRIVALS, at);
        if let Some(of_template) = self.templates.get_mut(&key) {
            of_template.remove(&mut self.table, OF_TEMPLATE, at);
            if of_template.is_empty() {
                self.templates.remove(&key);
            }
        }
        let of_source = &mut self.sources.get(source).sets;
        of_source.remove(&mut self.table, OF_SOURCE, at);
        let oldest = of_source.first;
        self.sources.subtract(source, run.octets(), self.number_at(oldest));
        if self.table.len() > SMALL && self.free.len() > self.table.len() / 2 {
            self.compact();
        }
        Some((key, run))
    }

    /// Running number of the first set at a place.
    fn number_at(&self, at: u32) -> Option<u64> {
        self.table.get(at as usize)?.run.as_ref().map(|run| run.numbers().start)
    }

    /// Moves all sets into tables that are full.
    fn compact(&mut self) {
        let next_number = self.next_number;
        let mut before = std::mem::replace(self, Self { next_number, ..Self::default() });
        let mut at = before.arrivals.first;
        while let Some(place) = before.table.get_mut(at as usize) {
            at = place.links[ARRIVALS].next;
            if let Some(run) = place.run.take() {
                let address = before.sources.get(place.source).address;
                self.keep((address, place.age_ms), place.key, run);
            }
        }
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
        self.templates.contains_key(&(domain, template))
    }

    /// The sets that waited for this template, oldest first.
    pub(super) fn remove(&mut self, domain: u32, template: TemplateId) -> Vec<SetRun> {
        let key = (domain, template);
        let first = |sets: &Self| sets.templates.get(&key).map(|chain| chain.first);
        std::iter::from_fn(|| first(self).and_then(|at| self.take(at))).map(|(_, run)| run).collect()
    }

    /// All sets of a domain, template by template.
    pub(super) fn remove_domain(&mut self, domain: u32) -> Vec<(TemplateId, SetRun)> {
        let of_domain = (domain, TemplateId::MIN)..=(domain, TemplateId::MAX);
        let first = |sets: &Self| sets.templates.range(of_domain.clone()).next().map(|(_, chain)| chain.first);
        let taken = std::iter::from_fn(|| first(self).and_then(|at| self.take(at)));
        taken.map(|((_, template), run)| (template, run)).collect()
    }

    /// The oldest sets of a message, if they came before this time; else, if there are more octets than this, the oldest of the
    /// source that has most of them.
    pub(super) fn pop_oldest(&mut self, before_ms: i64, octets_max: usize) -> Option<(Key, SetRun)> {
        let oldest = self.arrivals.first;
        if self.table.get(oldest as usize)?.age_ms < before_ms {
            return self.take(oldest);
        }
        if self.octets <= octets_max {
            return None;
        }
        let first = self.sources.largest()?.sets.first;
        self.take(first)
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
    use super::super::set::WaitingSet;
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
        assert_eq!(sets.len(), 1);
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
        assert_eq!((sets.len(), sets.octets), (0, 0));
        assert!(sets.sources.is_empty() && sets.templates.is_empty() && sets.arrivals.is_empty());
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
    /// Sets that leave from the middle of the order, from all sources and templates, and the table that is made smaller meanwhile.
    #[test]
    fn the_order_stays_whatever_leaves() {
        let mut sets = MemorySets::default();
        let (domains, templates) = (5, 40_u16);
        for at in 0..4_000_i64 {
            add(&mut sets, (at % domains) as u32, 256 + (at % i64::from(templates)) as u16, at, 10);
        }
        for template in (0..templates).filter(|template| template % 8 != 0) {
            let domain = u32::from(template) % domains as u32;
            let times: Vec<_> =
                sets.remove(domain, id(256 + template)).iter().map(|set| set.clock.received_ms).collect();
            let expected = (0..100).map(|round| round * i64::from(templates) + i64::from(template));
            assert_eq!(times, expected.collect::<Vec<_>>());
        }
        assert_eq!((sets.len(), sets.table.len() < 1_100), (500, true));
        let left = std::iter::from_fn(|| sets.pop_oldest(i64::MAX, 0)).map(|(_, set)| set.clock.received_ms);
        assert_eq!(left.collect::<Vec<_>>(), (0..4_000).filter(|at| at % 8 == 0).collect::<Vec<_>>());
        assert!(sets.sources.is_empty() && sets.templates.is_empty() && sets.table.len() <= SMALL);
    }
}
