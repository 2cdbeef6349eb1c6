//! Data Sets that wait: in memory, on their way to disk, on disk, and back.
//!
//! Sets of one template are decoded in the order in which they came. Those on disk are older than those in memory,
//! because the oldest go there first; so what is in memory, and what comes meanwhile, waits until the disk has
//! returned what it has, but no longer than [`RECALL_MS_MAX`]: a disk that hangs costs the order, not the flows.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;

use weir_flow::Counter;
use weir_wire::TemplateId;

use super::Decoder;
use crate::spool::{Answer, Request, SetKey, Told};
use crate::waiting::HeldSet;

/// Longest time that sets in memory wait in memory when there is a spool: what a killed process may lose.
const MEMORY_MS_MAX: i64 = 10_000;
/// Longest time that fresh sets wait for those on disk.
const RECALL_MS_MAX: i64 = 5_000;

impl Decoder {
    /// Lets sets wait on disk: [`spool_request`](Self::spool_request) is to be called until it has nothing, and
    /// whatever the spool answers to be given to [`spool_answer`](Self::spool_answer).
    #[must_use]
    pub fn with_spool(mut self) -> Self {
        self.spools = true;
        self
    }

    /// What the spool is to do next.
    pub fn spool_request(&mut self) -> Option<Request> {
        self.outbox.pop().map(Request)
    }

    /// Takes what the spool has done.
    pub fn spool_answer(&mut self, answer: Answer) {
        match answer.0 {
            Told::Found(key, sets) => self.found(key, sets),
            Told::Returned(key, set) => {
                self.left_disk(key, 1);
                match self.index.get(&key.domain) {
                    Some(&index) => {
                        self.release(index, key.template, [set]);
                        // so that whoever hands on answers sees when this decoder is full
                        self.decode_released();
                    }
                    None => self.give_up(key, 1),
                }
            }
            Told::Done(key) => {
                if let Some(&index) = self.index.get(&key.domain) {
                    let waits = self.recalling.remove(&(index, key.template)).is_some();
                    let known = self.domains[index as usize].templates.contains_key(&key.template);
                    // more may have gone to disk meanwhile
                    if known && (waits || self.spooled.contains_key(&key)) {
                        self.template_came(index, key.template);
                        self.decode_released();
                    }
                }
            }
            Told::GivenUp(key, sets) => {
                self.left_disk(key, sets);
                self.give_up(key, sets);
            }
            Told::Gone(key, sets) => self.left_disk(key, sets),
            Told::Damaged(places) => self.ledger.count_unassigned(Counter::SpoolDamaged, places),
        }
    }

    /// Whether sets are coming back from disk, or should soon.
    pub fn is_recalling(&self) -> bool {
        !self.recalling.is_empty()
    }

    /// Sends all sets in memory to disk, because this decoder ends.
    pub fn spool_all(&mut self) {
        self.move_waiting(i64::MAX);
    }

    /// Puts a set aside.
    pub(super) fn hold(&mut self, index: u32, id: TemplateId, set: HeldSet) {
        self.waiting.hold(index, id, set);
        self.count(index, Counter::SetsWaitingIn, 1);
        self.expire_waiting(self.now_ms);
    }

    /// Lets the sets of a template be decoded, those on disk first.
    pub(super) fn template_came(&mut self, index: u32, id: TemplateId) {
        let key = SetKey { domain: self.domains[index as usize].key, template: id };
        if self.spools && self.spooled.contains_key(&key) {
            if self.recalling.insert((index, id), self.now_ms).is_none() {
                self.outbox.recall(key);
            }
        } else {
            self.release_waiting(index, id);
        }
    }

    /// Gives up or sends to disk what is too old or too much, and ends waiting for a disk that hangs.
    pub(super) fn expire_waiting(&mut self, now_ms: i64) {
        self.move_waiting(now_ms);
        if !self.recalling.is_empty() {
            let late = |asked_ms: i64| now_ms.saturating_sub(asked_ms) > RECALL_MS_MAX;
            let hanging: Vec<_> =
                self.recalling.iter().filter(|&(_, &asked_ms)| late(asked_ms)).map(|(key, _)| *key).collect();
            for (index, id) in hanging {
                self.recalling.remove(&(index, id));
                if self.domains[index as usize].templates.contains_key(&id) {
                    self.release_waiting(index, id);
                }
            }
        }
    }

    /// Decodes sets that no longer wait, as many as a delivery holds.
    pub(super) fn decode_released(&mut self) {
        while !self.is_full()
            && let Some((index, id, set)) = self.released.pop_front()
        {
            self.released_octets -= set.octets();
            self.count(index, Counter::SetsWaitingOut, 1);
            if self.domains[index as usize].templates.contains_key(&id) {
                let records = self.decode(index, id, &set.body, &set.clock);
                self.settle(index, set.number, records);
            } else {
                // withdrawn meanwhile
                self.hold(index, id, set);
            }
        }
    }

    /// Parts with all sets of a domain that is about to be forgotten.
    pub(super) fn forget_waiting(&mut self, index: u32) {
        let domain = self.domains[index as usize].key;
        let (mut released, kept): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.released).into_iter().partition(|(of, ..)| *of == index);
        self.released = kept;
        self.released_octets -= released.iter().map(|(.., set)| set.octets()).sum::<usize>();
        let waiting = self.waiting.release_domain(index);
        let forgotten = released.drain(..).map(|(_, id, set)| (id, set)).chain(waiting);
        for (template, set) in forgotten {
            self.part_with(SetKey { domain, template }, set);
        }
        self.recalling.retain(|&(of, _), _| of != index);
    }

    fn move_waiting(&mut self, now_ms: i64) {
        let age_ms_max = i64::from(self.limits.waiting_secs_max) * 1000;
        let age_ms_max = if self.spools { age_ms_max.min(MEMORY_MS_MAX) } else { age_ms_max };
        let before_ms = now_ms.saturating_sub(age_ms_max);
        let octets_max = self.limits.waiting_octets_max.saturating_sub(self.released_octets);
        while let Some(((index, template), set)) = self.waiting.pop_oldest(before_ms, octets_max) {
            let domain = self.domains[index as usize].key;
            self.part_with(SetKey { domain, template }, set);
        }
    }

    /// To disk if possible.
    fn part_with(&mut self, key: SetKey, set: HeldSet) {
        let place = self.spools && (self.spooled.contains_key(&key) || self.spooled.len() < self.limits.spool_sets_max);
        if !place || self.outbox.put(key, set).is_err() {
            return self.give_up(key, 1);
        }
        *self.spooled.entry(key).or_default() += 1;
        self.spooled_sets += 1;
    }

    /// Every set that went to disk is accounted for once, so this ends at 0.
    fn left_disk(&mut self, key: SetKey, sets: u64) {
        if let Entry::Occupied(mut entry) = self.spooled.entry(key) {
            let left = sets.min(*entry.get());
            *entry.get_mut() -= left;
            self.spooled_sets -= left;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }

    fn give_up(&mut self, key: SetKey, sets: u64) {
        match self.index.get(&key.domain) {
            Some(&index) => self.count(index, Counter::SetsExpired, sets),
            None => self.ledger.count_forgotten(key.domain, Counter::SetsExpired, sets),
        }
    }

    /// A process before this one left sets of this key; their template may have come already.
    fn found(&mut self, key: SetKey, sets: u64) {
        if self.spooled.len() >= self.limits.spool_sets_max {
            return;
        }
        *self.spooled.entry(key).or_default() += sets;
        self.spooled_sets += sets;
        if let Some(&index) = self.index.get(&key.domain)
            && self.domains[index as usize].templates.contains_key(&key.template)
        {
            self.template_came(index, key.template);
        }
    }

    fn release_waiting(&mut self, index: u32, id: TemplateId) {
        let sets = self.waiting.release(index, id);
        self.release(index, id, sets);
    }

    pub(super) fn release(&mut self, index: u32, id: TemplateId, sets: impl IntoIterator<Item = HeldSet>) {
        for set in sets {
            self.released_octets += set.octets();
            self.released.push_back((index, id, set));
        }
    }
}
