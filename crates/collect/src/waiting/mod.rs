//! Data Sets that wait: in memory, on their way to disk, on disk, and back.
//!
//! RFC 7011 section 8 lets an exporter's template arrive after its data on UDP. What waits is bounded in octets and in
//! time; the oldest sets go first. With a spool they go to disk, else they are dropped, and every one of these is
//! reported to the caller, who counts it.
//!
//! Sets of one template are decoded in the order in which they came. Those on disk are older than those in memory,
//! because the oldest go there first; so what is in memory, and what comes meanwhile, waits until the disk has
//! returned what it has, but no longer than [`RECALL_MS_MAX`]: a disk that hangs costs the order, not the flows.

mod chain;
mod memory;
pub(crate) mod set;
mod sources;
pub(crate) mod spooled;

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::ops::Range;

use weir_wire::TemplateId;

use crate::Limits;
use crate::domain::DomainKey;
use crate::rate::source_of;
use memory::{Key, MemorySets};
use set::{SetKey, SetRun, WaitingSet};
use spooled::{SpoolRequest, SpooledSets};

/// Longest time that sets in memory wait in memory when there is a spool: what a killed process may lose.
const MEMORY_MS_MAX: i64 = 10_000;
/// How long the disk is left alone after it refused a set.
const REFUSED_MS: i64 = 60_000;
/// Longest time that fresh sets wait for those on disk.
const RECALL_MS_MAX: i64 = 5_000;

/// What the spool answers to a decoder.
#[derive(Debug)]
pub(crate) enum SpoolAnswer {
    /// A process before this one left this many sets of this key.
    Found(SetKey, u64),
    /// A set that was recalled; oldest first.
    Returned(SetKey, WaitingSet),
    /// All sets of this key that were recalled have been returned.
    RecallDone(SetKey),
    /// The sets of this key with these numbers were dropped. Every set that was put is returned or dropped, once.
    Dropped(SetKey, Vec<u64>),
    /// A set that was put and could not be written.
    GivenBack(SetKey, WaitingSet),
    /// No set is written any more.
    TakesNone,
    /// Everything that was asked before is done.
    Confirmed,
    /// Another decoder has taken, or dropped, this many of the sets announced by [`SpoolAnswer::Found`].
    TakenElsewhere(SetKey, u64),
    /// This many places in files were damaged.
    Damaged(u64),
}

/// What the caller has to count and do after an answer of the spool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AnswerEffect {
    /// The numbers of sets that are gone without having been decoded.
    pub expired: Option<(SetKey, Vec<u64>)>,
    /// Places in files that were damaged.
    pub damaged: u64,
    /// Whether sets may have been released, so that the caller should decode them.
    pub released: bool,
    /// Whether sets are in memory again, so that the caller should look whether there is room for them.
    pub is_given_back: bool,
}

/// What is known of domains when a set comes back from disk.
pub(crate) trait KnownDomains {
    /// Place of the domain with this key.
    fn place(&self, key: &DomainKey) -> Option<u32>;
    /// The key of the domain at this place.
    fn key(&self, index: u32) -> DomainKey;
    /// Whether the domain at this place has this template.
    fn has_template(&self, index: u32, id: TemplateId) -> bool;
}

/// All Data Sets of a decoder that are not decoded yet.
#[derive(Debug)]
pub(crate) struct WaitingSets {
    age_ms_max: i64,
    octets_max: usize,
    memory: MemorySets,
    /// Sets whose template has come, still to be decoded: they may fill several deliveries.
    released: VecDeque<(Key, SetRun)>,
    released_octets: usize,
    released_sets: usize,
    spooled: SpooledSets,
    /// Templates whose sets are coming back from disk, and since when, milliseconds since the epoch.
    recalls: BTreeMap<Key, i64>,
    /// Until when nothing is sent to disk, because it has refused a set.
    refused_until_ms: Option<i64>,
}

impl WaitingSets {
    /// None yet.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            age_ms_max: i64::from(limits.waiting_secs_max) * 1000,
            octets_max: limits.waiting_octets_max,
            memory: MemorySets::default(),
            released: VecDeque::new(),
            released_octets: 0,
            released_sets: 0,
            spooled: SpooledSets::new(limits.spool_sets_max),
            recalls: BTreeMap::new(),
            refused_until_ms: None,
        }
    }

    /// From now on, sets go to disk instead of being dropped.
    pub(crate) fn enable_spool(&mut self) {
        self.spooled.enable();
    }

    /// What the spool is to do next.
    pub(crate) fn next_request(&mut self) -> Option<SpoolRequest> {
        self.spooled.pop_request()
    }

    /// Keeps sets of a message of a source, received at a time by the clock of ages, until the template of a domain comes.
    pub(crate) fn insert(&mut self, (source, age_ms): (IpAddr, i64), place: Key, sets: impl Into<SetRun>) {
        self.memory.insert((source_of(source), age_ms), place, sets.into());
    }

    /// Puts a set, whose template is known, behind those that are released.
    pub(crate) fn insert_released(&mut self, index: u32, id: TemplateId, set: WaitingSet) {
        let number = self.memory.take_number();
        self.release((index, id), [SetRun::from(WaitingSet { number, ..set })]);
    }

    /// The number that the next set gets.
    pub(crate) fn next_number(&self) -> u64 {
        self.memory.next_number()
    }

    /// Whether sets of this template wait, in memory or on disk.
    pub(crate) fn has(&self, index: u32, key: &SetKey) -> bool {
        self.memory.has(index, key.template) || self.spooled.has(key)
    }

    /// Whether sets are released that are not decoded yet.
    #[inline]
    pub(crate) fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// Releases the sets of a template that has come, those on disk first.
    pub(crate) fn template_arrived(&mut self, index: u32, key: SetKey, now_ms: i64) {
        let place = (index, key.template);
        if self.spooled.is_enabled() && self.spooled.has(&key) {
            if self.recalls.insert(place, now_ms).is_none() {
                self.spooled.recall(key);
            }
        } else {
            self.release_memory(place);
        }
    }

    /// The next set to be decoded.
    pub(crate) fn pop_released(&mut self) -> Option<(u32, TemplateId, WaitingSet)> {
        let ((index, id), run) = self.released.front_mut()?;
        let (index, id, octets) = (*index, *id, run.octets());
        let set = run.next();
        let is_last = run.sets() == 0;
        if is_last {
            self.released.pop_front();
            self.released_octets -= octets;
        }
        self.released_sets -= 1;
        set.map(|set| (index, id, set))
    }

    /// Whether sets of this template are coming back from disk, so that later ones must wait.
    #[inline]
    pub(crate) fn is_recalling(&self, index: u32, id: TemplateId) -> bool {
        !self.recalls.is_empty() && self.recalls.contains_key(&(index, id))
    }

    /// Whether any sets are coming back from disk, or should soon.
    pub(crate) fn is_recalling_any(&self) -> bool {
        !self.recalls.is_empty()
    }

    /// Takes what the spool has done.
    pub(crate) fn take_answer(
        &mut self,
        answer: SpoolAnswer,
        now_ms: i64,
        domains: &impl KnownDomains,
    ) -> AnswerEffect {
        let mut effect = AnswerEffect::default();
        match answer {
            SpoolAnswer::Found(key, sets) => {
                if self.spooled.found(key, sets)
                    && let Some(index) = domains.place(&key.domain)
                    && domains.has_template(index, key.template)
                {
                    self.template_arrived(index, key, now_ms);
                }
            }
            SpoolAnswer::Returned(key, set) => {
                self.spooled.remove(key, 1);
                match domains.place(&key.domain) {
                    Some(index) => {
                        self.release((index, key.template), [SetRun::from(set)]);
                        effect.released = true;
                    }
                    None => effect.expired = Some((key, vec![set.number])),
                }
            }
            SpoolAnswer::RecallDone(key) => effect.released = self.end_recall(key, now_ms, domains),
            SpoolAnswer::Dropped(key, numbers) => {
                self.spooled.remove(key, numbers.len() as u64);
                effect.expired = Some((key, numbers));
            }
            SpoolAnswer::GivenBack(key, set) => {
                self.spooled.remove(key, 1);
                self.refused_until_ms = Some(now_ms.saturating_add(REFUSED_MS));
                match domains.place(&key.domain) {
                    Some(index) if domains.has_template(index, key.template) => {
                        self.release((index, key.template), [SetRun::from(set)]);
                        effect.released = true;
                    }
                    Some(index) => {
                        let came = (source_of(key.domain.session.source.ip()), now_ms);
                        self.memory.keep(came, (index, key.template), SetRun::from(set));
                        effect.is_given_back = true;
                    }
                    None => effect.expired = Some((key, vec![set.number])),
                }
            }
            SpoolAnswer::Confirmed => {}
            SpoolAnswer::TakesNone => self.refused_until_ms = Some(i64::MAX),
            SpoolAnswer::TakenElsewhere(key, sets) => self.spooled.remove(key, sets),
            SpoolAnswer::Damaged(places) => effect.damaged = places,
        }
        effect
    }

    /// Ends waiting for the disk. Returns whether sets may have been released.
    fn end_recall(&mut self, key: SetKey, now_ms: i64, domains: &impl KnownDomains) -> bool {
        let Some(index) = domains.place(&key.domain) else { return false };
        let waits = self.recalls.remove(&(index, key.template)).is_some();
        // more may have gone to disk meanwhile
        let releases = domains.has_template(index, key.template) && (waits || self.spooled.has(&key));
        if releases {
            self.template_arrived(index, key, now_ms);
        }
        releases
    }

    /// Ends waiting for a disk that hangs.
    pub(crate) fn end_overdue_recalls(&mut self, now_ms: i64, domains: &impl KnownDomains) {
        if self.recalls.is_empty() {
            return;
        }
        let is_late = |asked_ms: i64| now_ms.saturating_sub(asked_ms) > RECALL_MS_MAX;
        let late = self.recalls.iter().filter(|&(_, &asked_ms)| is_late(asked_ms));
        for place in late.map(|(place, _)| *place).collect::<Vec<_>>() {
            self.recalls.remove(&place);
            if domains.has_template(place.0, place.1) {
                self.release_memory(place);
            }
        }
    }

    /// Moves sets that are too old or too many to disk, one after the other. Returns the domain and the numbers of the next ones for
    /// which there was no place, and which are dropped; `None` when there is nothing more to do.
    pub(crate) fn drop_next(&mut self, now_ms: i64, domains: &impl KnownDomains) -> Option<(u32, Range<u64>)> {
        let octets_max = self.octets_max.saturating_sub(self.released_octets);
        let is_last = now_ms == i64::MAX;
        self.refused_until_ms = self.refused_until_ms.filter(|until_ms| is_last || now_ms < *until_ms);
        let has_disk = self.spooled.is_enabled() && self.refused_until_ms.is_none();
        loop {
            // while the disk is behind, what there is memory for stays there
            let goes_to_disk = has_disk && self.spooled.has_room();
            if is_last && has_disk && !goes_to_disk {
                // everything is to go there, as it takes it
                return None;
            }
            let age_ms_max = if goes_to_disk { self.age_ms_max.min(MEMORY_MS_MAX) } else { self.age_ms_max };
            let before_ms = now_ms.saturating_sub(age_ms_max);
            let ((index, template), run) = self.memory.pop_oldest(before_ms, octets_max)?;
            let numbers = run.numbers();
            if !has_disk || !self.spooled.put(SetKey { domain: domains.key(index), template }, run) {
                return Some((index, numbers));
            }
        }
    }

    /// Drops the sets of a domain whose session has ended. Returns how many.
    pub(crate) fn end_domain(&mut self, index: u32) -> u64 {
        self.memory.remove_domain(index).iter().map(|(_, run)| run.sets() as u64).sum()
    }

    /// Moves all sets of a domain that is about to be forgotten to disk. Returns how many were dropped instead.
    pub(crate) fn forget_domain(&mut self, index: u32, domain: DomainKey) -> u64 {
        if self.len() == 0 && self.recalls.is_empty() {
            return 0;
        }
        let all = std::mem::take(&mut self.released);
        let (released, kept): (VecDeque<_>, _) = all.into_iter().partition(|((of, _), _)| *of == index);
        self.released = kept;
        self.released_octets -= released.iter().map(|(_, run)| run.octets()).sum::<usize>();
        self.released_sets -= released.iter().map(|(_, run)| run.sets()).sum::<usize>();
        let waiting = self.memory.remove_domain(index);
        let mut dropped = 0;
        for (template, run) in released.into_iter().map(|((_, id), run)| (id, run)).chain(waiting) {
            let sets = run.sets() as u64;
            dropped += if self.spooled.put(SetKey { domain, template }, run) { 0 } else { sets };
        }
        let recalled = self.recalls.range((index, TemplateId::MIN)..=(index, TemplateId::MAX));
        for key in recalled.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.recalls.remove(&key);
        }
        dropped
    }

    fn release_memory(&mut self, (index, id): Key) {
        let runs = self.memory.remove(index, id);
        self.release((index, id), runs);
    }

    fn release(&mut self, place: Key, runs: impl IntoIterator<Item = SetRun>) {
        for run in runs {
            self.released_octets += run.octets();
            self.released_sets += run.sets();
            self.released.push_back((place, run));
        }
    }

    /// Sets in memory.
    pub(crate) fn len(&self) -> usize {
        self.memory.len() + self.released_sets
    }

    /// Octets that sets in memory cost.
    pub(crate) fn octets(&self) -> usize {
        self.memory.octets() + self.released_octets
    }

    /// Sets on disk or on their way there.
    pub(crate) fn spooled_sets(&self) -> u64 {
        self.spooled.total()
    }

    /// Templates of which sets are on disk.
    pub(crate) fn spooled_keys(&self) -> usize {
        self.spooled.keys()
    }

    /// Octets on their way to disk.
    pub(crate) fn outbox_octets(&self) -> usize {
        self.spooled.outbox_octets()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::clock::MessageClock;
    use crate::session::Session;

    const DOMAIN: u32 = 3;
    const SOURCE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn id() -> TemplateId {
        TemplateId::new(256).expect("id")
    }

    fn key() -> SetKey {
        let session = Session::udp(SocketAddr::from(([192, 0, 2, 1], 4739)));
        SetKey { domain: DomainKey { session, version: 10, domain: 0 }, template: id() }
    }

    fn set(received_ms: i64) -> WaitingSet {
        let clock = MessageClock { received_ms, export_ms: 0, uptime_ms: None };
        WaitingSet { clock, body: [0; 10].into(), number: 0 }
    }

    /// One domain, which has the template or not.
    struct OneDomain {
        has_template: bool,
    }

    impl KnownDomains for OneDomain {
        fn place(&self, of: &DomainKey) -> Option<u32> {
            (*of == key().domain).then_some(DOMAIN)
        }

        fn key(&self, _: u32) -> DomainKey {
            key().domain
        }

        fn has_template(&self, _: u32, _: TemplateId) -> bool {
            self.has_template
        }
    }

    fn waiting(spool: bool, times: &[i64]) -> WaitingSets {
        let mut sets = WaitingSets::new(&Limits::default());
        if spool {
            sets.enable_spool();
        }
        for &at_ms in times {
            sets.insert((SOURCE, at_ms), (DOMAIN, id()), set(at_ms));
        }
        sets
    }

    fn released(sets: &mut WaitingSets) -> Vec<i64> {
        std::iter::from_fn(|| sets.pop_released()).map(|(.., set)| set.clock.received_ms).collect()
    }

    #[test]
    fn a_template_releases_its_sets_in_order() {
        let mut sets = waiting(false, &[1, 2]);
        assert!(sets.has(DOMAIN, &key()) && !sets.has_released());
        sets.template_arrived(DOMAIN, key(), 3);
        sets.insert_released(DOMAIN, id(), set(3));
        assert_eq!((sets.len(), sets.next_number()), (3, 3));
        assert_eq!(released(&mut sets), [1, 2, 3]);
        assert_eq!((sets.len(), sets.octets()), (0, 0));
    }

    #[test]
    fn sets_that_are_too_old_are_dropped_or_go_to_disk() {
        let domains = OneDomain { has_template: false };
        let mut sets = waiting(false, &[1, 2, 1_900_000]);
        let dropped = [sets.drop_next(1_850_000, &domains), sets.drop_next(1_850_000, &domains)];
        assert_eq!(dropped, [Some((DOMAIN, 0..1)), Some((DOMAIN, 1..2))]);
        assert_eq!((sets.drop_next(1_850_000, &domains), sets.len()), (None, 1));
        let mut sets = waiting(true, &[1, 2, 20_000]);
        assert_eq!(sets.drop_next(20_000, &domains), None);
        assert_eq!((sets.len(), sets.spooled_sets(), sets.spooled_keys()), (1, 2, 1));
    }

    #[test]
    fn what_there_is_memory_for_is_not_dropped_while_the_disk_is_behind() {
        let domains = OneDomain { has_template: false };
        let mut sets = waiting(true, &[]);
        let large = || WaitingSet { body: vec![0; 60_000].into(), ..set(1) };
        // more than may be on its way, and less than what may wait
        (0..400).for_each(|_| sets.insert((SOURCE, 0), (DOMAIN, id()), large()));
        assert_eq!(sets.drop_next(20_000, &domains), None);
        let on_its_way = sets.spooled_sets();
        assert!(on_its_way > 100 && sets.len() as u64 == 400 - on_its_way, "{on_its_way}");
        while sets.next_request().is_some() {}
        assert_eq!(sets.drop_next(20_000, &domains), None);
        assert!(sets.spooled_sets() > on_its_way);
        // what is over the limit in octets goes, whatever the disk does
        (0..1_400).for_each(|_| sets.insert((SOURCE, 0), (DOMAIN, id()), large()));
        assert!(sets.drop_next(20_000, &domains).is_some());
    }

    #[test]
    fn sets_on_disk_come_before_those_in_memory() {
        let domains = OneDomain { has_template: true };
        let mut sets = waiting(true, &[1, 20_000]);
        assert_eq!(sets.drop_next(20_000, &domains), None);
        sets.template_arrived(DOMAIN, key(), 20_000);
        assert!(sets.is_recalling(DOMAIN, id()) && !sets.has_released());
        let effect = sets.take_answer(SpoolAnswer::Returned(key(), set(1)), 20_001, &domains);
        assert_eq!(effect, AnswerEffect { released: true, ..AnswerEffect::default() });
        assert!(sets.take_answer(SpoolAnswer::RecallDone(key()), 20_001, &domains).released);
        assert_eq!(released(&mut sets), [1, 20_000]);
        assert!(!sets.is_recalling_any() && sets.spooled_sets() == 0);
    }

    #[test]
    fn a_disk_that_hangs_costs_the_order_and_not_the_flows() {
        let domains = OneDomain { has_template: true };
        let mut sets = waiting(true, &[1, 20_000]);
        assert_eq!(sets.drop_next(20_000, &domains), None);
        sets.template_arrived(DOMAIN, key(), 20_000);
        sets.end_overdue_recalls(25_000, &domains);
        assert!(!sets.has_released());
        sets.end_overdue_recalls(25_001, &domains);
        assert_eq!(released(&mut sets), [20_000]);
    }

    #[test]
    fn what_the_spool_drops_is_reported_once() {
        let domains = OneDomain { has_template: false };
        let mut sets = waiting(true, &[]);
        let mut take = |answer| sets.take_answer(answer, 0, &domains);
        assert_eq!(take(SpoolAnswer::Found(key(), 5)), AnswerEffect::default());
        assert_eq!(take(SpoolAnswer::TakenElsewhere(key(), 2)), AnswerEffect::default());
        assert_eq!(take(SpoolAnswer::Dropped(key(), vec![4, 5, 6])).expired, Some((key(), vec![4, 5, 6])));
        assert_eq!(take(SpoolAnswer::Damaged(4)).damaged, 4);
        assert_eq!(sets.spooled_sets(), 0);
    }

    #[test]
    fn a_domain_that_is_forgotten_leaves_its_sets_on_disk_or_loses_them() {
        for (spool, dropped) in [(false, 3), (true, 0)] {
            let mut sets = waiting(spool, &[1, 2]);
            sets.template_arrived(DOMAIN, key(), 3);
            sets.insert((SOURCE, 3), (DOMAIN, id()), set(3));
            assert_eq!(sets.forget_domain(DOMAIN, key().domain), dropped);
            assert_eq!((sets.len(), sets.octets(), sets.spooled_sets()), (0, 0, 3 - dropped));
        }
        let mut sets = waiting(false, &[1, 2]);
        assert_eq!((sets.end_domain(DOMAIN), sets.len()), (2, 0));
    }
}
