//! Who gives way when the room for domains or templates is full.
//!
//! Whoever made up sources of datagrams could keep real exporters out of a table that is full for good, or push them
//! out of one that forgets the oldest. So domains are worth something: those that never sent anything to decode go
//! first, then those that sent only templates or have been silent for long, then those that sent less; among equals
//! the one not heard for the longest time goes or, where it is about templates, the one that holds most. Who sent flows over a minute has proven itself, and gives way to nobody
//! while it goes on.
//!
//! The least are searched for a batch at a time, because looking at all domains for each new one would let a sender
//! of garbage use up the processor. A search that finds nobody is not repeated for a while for the same reason.

use weir_flow::Counter;

use super::Decoder;
use crate::limits::{self, Limits};
use crate::session::{Domain, Rank, Worth};
use crate::waiting;

/// A search finds this part of the domains, and at least one.
const BATCH_PART: usize = 64;
/// After a search that found nobody, the next comes this much later or after so many who wanted a place.
const RETRY_MS: i64 = 1_000;
const RETRY_WANTED: u32 = 4_096;

/// Those who give way next.
#[derive(Debug, Default)]
pub(super) struct Eviction {
    /// The one worth least at the end.
    candidates: Vec<(Worth, u32)>,
    /// When a search found nobody.
    fruitless_ms: Option<i64>,
    wanted: u32,
}

impl Eviction {
    /// The domain worth least, if it is worth less than this. `worth` is `None` for those who give way to nobody.
    fn next(
        &mut self,
        domains: &[Domain],
        now_ms: i64,
        below: Option<Worth>,
        worth: impl Fn(&Domain) -> Option<Worth>,
    ) -> Option<u32> {
        for searched in [false, true] {
            while let Some(&(then, index)) = self.candidates.last() {
                // who was heard since is no candidate any more
                if domains.get(index as usize).and_then(&worth).is_none_or(|now| now > then) {
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
            let worths = domains.iter().enumerate();
            self.candidates = worths.filter_map(|(at, domain)| Some((worth(domain)?, at as u32))).collect();
            let batch = (domains.len() / BATCH_PART).max(1);
            if self.candidates.len() > batch {
                self.candidates.select_nth_unstable(batch);
                self.candidates.truncate(batch);
                self.candidates.shrink_to_fit();
            }
            self.candidates.sort_unstable_by(|a, b| b.cmp(a));
            self.fruitless_ms = self.candidates.is_empty().then_some(now_ms);
            self.wanted = 0;
        }
        None
    }

    fn may_search(&mut self, now_ms: i64) -> bool {
        self.wanted += 1;
        self.fruitless_ms.is_none_or(|at| now_ms.saturating_sub(at).saturating_abs() >= RETRY_MS)
            || self.wanted >= RETRY_WANTED
    }
}

impl Decoder {
    /// Forgets the domain that is worth least, with all that it counted in the books. Yields its place in the table.
    pub(super) fn evict(&mut self) -> Option<u32> {
        let (now_ms, limits) = (self.now_ms, &self.limits);
        let index = self.eviction.next(&self.domains, now_ms, None, |domain| domain.worth(now_ms, limits))?;
        self.count(index, Counter::DomainsEvicted, 1);
        self.forget(index);
        Some(index)
    }

    /// Forgets a domain, with all that it counted in the books.
    pub(super) fn forget(&mut self, index: u32) {
        self.last = None;
        self.forget_waiting(index);
        self.forget_templates(index, |_| true);
        let domain = &mut self.domains[index as usize];
        self.samplers_known -= domain.samplers.len();
        self.lists_learned -= domain.learned_lists.len();
        self.sources -= domain.sources.len();
        self.unsettled -= domain.sequence.unsettled();
        self.ledger.close(domain);
        // the key may be that of a later session's domain already
        if self.index.get(&domain.key) == Some(&index) {
            self.index.remove(&domain.key);
        }
        self.ends.forgotten(domain.key.session, index);
        if let Some(ports) = &mut self.ports {
            ports.remove(domain.key, index);
        }
        let key = domain.key;
        self.samplers.forget(index, key, &self.domains);
        self.state.changed = true;
    }

    /// Makes room for a template of a domain by giving up those of domains that are worth less, and among equals of
    /// the one that holds most. False when there are none.
    pub(super) fn make_room_for_template(&mut self, index: u32, fields: usize) -> bool {
        while self.templates >= self.limits.templates_max
            || self.template_fields + fields > self.limits.template_fields_max
        {
            let Some(victim) = self.template_victim(index) else { return false };
            let evicted = self.forget_templates(victim, |_| true);
            self.count(victim, Counter::TemplatesEvicted, evicted as u64);
        }
        true
    }

    fn template_victim(&mut self, index: u32) -> Option<u32> {
        let (now_ms, limits) = (self.now_ms, &self.limits);
        let domain = &self.domains[index as usize];
        let worth = |domain: &Domain| {
            let worth = domain.worth(now_ms, limits)?;
            Some(Worth { datagrams_log: u32::MAX - domain.template_fields as u32, heard_ms: 0, ..worth })
        };
        // whoever has sent nothing yet goes before those who only ever send templates
        let newcomer = Worth { rank: Rank::Templates, datagrams_log: u32::MAX, heard_ms: 0 };
        let own = worth(domain).map(|own| own.max(newcomer));
        let of_others = |other: &Domain| worth(other).filter(|_| other.template_fields > 0 && other.key != domain.key);
        self.template_eviction.next(&self.domains, now_ms, own, of_others)
    }

    /// Most octets that what is known takes.
    pub(super) fn octets_kept(&self) -> usize {
        let kept = Limits {
            domains_max: self.domains.len(),
            templates_max: self.templates,
            template_fields_max: self.template_fields,
            samplers_max: self.samplers_known,
            sources_max: self.sources,
            waiting_octets_max: self.waiting.octets() + self.released_octets,
            spool_sets_max: self.spooled.len(),
            ..self.limits.clone()
        };
        let at_most = waiting::OUTBOX_OCTETS_MAX + limits::UNSETTLED_MAX * limits::UNSETTLED_OCTETS;
        kept.octets_max() - at_most + self.outbox.octets() + self.unsettled * limits::UNSETTLED_OCTETS
    }
}

const _: () = assert!(size_of::<(Worth, u32)>() <= limits::CANDIDATE_OCTETS);
