//! What options data change in how later records are read: samplers, and elements that are lists.

use weir_wire::{ElementId, ListKind, WireError};

use super::domains::Domains;
use super::samplers::{ExporterSamplers, SharedSamplers};
use crate::Limits;
use crate::change_limit::ChangeLimiter;
use crate::domain::{Domain, DomainKey};
use crate::options::LeftOut;
use crate::rate::source_of;
use crate::sampling::{AllowedSamplers, SamplerChange, SamplersLearned, StoredSamplers};
use crate::shares::Shares;

/// Most elements that are remembered to be lists, of all exporters; what comes later is ignored.
const LEARNED_LISTS_MAX: usize = 1 << 16;

/// What was read from a set of Options Data Records.
#[derive(Debug, Default)]
pub(super) struct OptionsSet {
    /// Records.
    pub rows: usize,
    pub problem: Option<WireError>,
    /// What was not taken because too much is remembered already.
    pub left_out: LeftOut,
    /// What it changes in how later records are read: mostly nothing.
    pub learned: Option<Box<LearnedFromSet>>,
}

/// What a set of Options Data Records changes in how later records are read.
#[derive(Debug, Default)]
pub(super) struct LearnedFromSet {
    pub samplers: SamplersLearned,
    /// Elements that are lists.
    pub lists: Vec<(ElementId, ListKind)>,
    /// Whether the start of the exporter is another than before.
    pub system_init_changed: bool,
}

impl LearnedFromSet {
    /// Whether it changes anything, or something was refused.
    pub(super) fn is_any(&self) -> bool {
        let SamplersLearned { changes, sequences_changed, new, changed, refused, .. } = &self.samplers;
        let has_samplers = *sequences_changed || *new > 0 || *changed > 0 || *refused > 0 || !changes.is_empty();
        has_samplers || self.system_init_changed || !self.lists.is_empty()
    }
}

/// What is learned from options data, of all domains. The samplers and lists themselves are kept in the domains.
#[derive(Debug)]
pub(super) struct LearnedOptions {
    samplers_max: usize,
    samplers: usize,
    /// Samplers of each source.
    shares: Shares,
    /// How many intervals of known ones each source may change: at once twice as many as it may have. The flows of those that change
    /// beyond it have no interval until it is reported again.
    changes: ChangeLimiter,
    lists: usize,
    exporters: ExporterSamplers,
    changed: bool,
}

impl LearnedOptions {
    /// Nothing yet.
    pub(super) fn new(limits: &Limits) -> Self {
        let exporters = ExporterSamplers::default();
        let (samplers_max, shares) = (limits.samplers_max, Shares::of(limits.samplers_max));
        let changes = ChangeLimiter::of_burst(limits.samplers_max);
        Self { samplers_max, samplers: 0, shares, changes, lists: 0, exporters, changed: false }
    }

    /// Takes what one port of an exporter reports about samplers for all its ports.
    pub(super) fn share_across_ports(&mut self) {
        self.exporters.share_across_ports();
    }

    /// Samplers known, of all domains.
    pub(super) fn samplers(&self) -> usize {
        self.samplers
    }

    /// How many samplers more of a domain may be remembered.
    pub(super) fn samplers_free(&self, key: DomainKey) -> usize {
        let left = self.shares.left(key.session.source.ip());
        self.samplers_max.saturating_sub(self.samplers).min(left)
    }

    /// What a domain may report about samplers now.
    pub(super) fn samplers_allowed(&self, key: DomainKey, limited_ms: Option<i64>) -> AllowedSamplers {
        let source = source_of(key.session.source.ip());
        AllowedSamplers { new: self.samplers_free(key), changes: self.changes.left_to(source, limited_ms) }
    }

    /// What other domains of the exporter report about samplers, where a domain itself knows none.
    #[inline]
    pub(super) fn shared_samplers(&self, domain: &Domain) -> Option<&SharedSamplers> {
        if domain.samplers.is_empty() { self.exporters.of(domain.key) } else { None }
    }

    /// Applies what a set of a domain has brought to how later records are read.
    pub(super) fn apply(
        &mut self,
        domains: &mut Domains,
        (index, limited_ms): (u32, Option<i64>),
        set: Option<Box<LearnedFromSet>>,
    ) {
        let Some(set) = set else { return self.share(domains, index, &[]) };
        self.samplers += set.samplers.new;
        let source = source_of(domains[index].key.session.source.ip());
        self.shares.take_for(source, set.samplers.new);
        self.changes.take_for(source, set.samplers.changed, limited_ms);
        let samplers_changed = !set.samplers.changes.is_empty() || set.samplers.sequences_changed;
        self.changed |= samplers_changed || set.system_init_changed;
        if !set.lists.is_empty() {
            let lists_free = LEARNED_LISTS_MAX.saturating_sub(self.lists);
            let new = domains[index].templates.learn_lists(set.lists.into_iter().take(lists_free));
            self.lists += new;
            self.changed |= new > 0;
        }
        self.share(domains, index, &set.samplers.changes);
    }

    /// Lets other domains of the exporter know the samplers of a domain: what has changed of them, or all where that could not be done
    /// before.
    #[inline]
    fn share(&mut self, domains: &mut Domains, index: u32, changes: &[SamplerChange]) {
        let domain = &mut domains[index];
        let is_shared = domain.samplers_shared && changes.is_empty();
        if !is_shared && !domain.samplers.is_empty() {
            domain.samplers_shared = self.exporters.report(index, domain, changes);
        }
    }

    /// Notes that flows came in a domain.
    #[inline]
    pub(super) fn note_flows(&mut self, domains: &mut Domains, index: u32) {
        if !domains[index].carries_flows {
            self.exporters.flows_began(index, &domains[index]);
            domains[index].carries_flows = true;
        }
    }

    /// Learns what a process before this one knew of a new domain.
    pub(super) fn restore(
        &mut self,
        domains: &mut Domains,
        index: u32,
        samplers: StoredSamplers,
        lists: Vec<(ElementId, ListKind)>,
    ) {
        let domain = &mut domains[index];
        let samplers_free = self.samplers_free(domain.key);
        for (sampler, interval) in samplers.intervals.into_iter().take(samplers_free) {
            let _ = domain.samplers.set(sampler, interval);
        }
        let free = samplers_free.saturating_sub(domain.samplers.len());
        domain.samplers.restore_sequences(samplers.sequences.into_iter().take(free));
        let free = samplers_free.saturating_sub(domain.samplers.len());
        domain.samplers.restore_filters(samplers.filters.into_iter().take(free));
        domain.inspection.sampling(domain.samplers.only(), 0);
        self.samplers += domain.samplers.len();
        self.shares.take(domain.key.session.source.ip(), domain.samplers.len());
        domain.templates.learn_lists(lists);
        self.lists += domain.templates.learned_lists().len();
        if !domain.samplers.is_empty() {
            domain.samplers_shared = self.exporters.report(index, domain, &[]);
        }
    }

    /// Forgets a domain that is about to be forgotten.
    pub(super) fn forget(&mut self, index: u32, domain: &Domain) {
        self.lists -= domain.templates.learned_lists().len();
        if domain.samplers.is_empty() {
            // it has reported nothing
            return;
        }
        self.samplers -= domain.samplers.len();
        self.shares.give_back(domain.key.session.source.ip(), domain.samplers.len());
        self.exporters.forget(index, domain);
    }

    /// Whether anything was learned since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::sampling::Sampler;
    use crate::session::Session;

    fn domains(count: u32) -> Domains {
        let mut domains = Domains::new(1_024);
        for domain in 0..count {
            let session = Session::udp(SocketAddr::from(([192, 0, 2, 1], 2055)));
            domains.insert(domain, Domain::new(DomainKey { session, version: 9, domain }, &Limits::default()));
        }
        domains
    }

    fn stored(intervals: Vec<(Sampler, u32)>) -> StoredSamplers {
        StoredSamplers { intervals, ..StoredSamplers::default() }
    }

    #[test]
    fn what_was_learned_is_counted_until_its_domain_is_forgotten() {
        let mut learned = LearnedOptions::new(&Limits { samplers_max: 3, ..Limits::default() });
        let mut domains = domains(2);
        let list = (ElementId { enterprise: 35_566, id: 7 }, ListKind::Basic);
        let samplers = stored((0..5).map(|id| (Sampler::Numbered(id), 10)).collect());
        learned.restore(&mut domains, 0, samplers, vec![list]);
        assert_eq!((learned.samplers(), learned.samplers_free(domains[1].key), learned.lists), (3, 0, 1));
        let set = LearnedFromSet { lists: vec![list], ..LearnedFromSet::default() };
        learned.apply(&mut domains, (1, None), Some(Box::new(set)));
        assert!(learned.take_changed() && !learned.take_changed());
        assert_eq!(learned.lists, 2);
        (0..2).for_each(|index| learned.forget(index, &domains[index]));
        assert_eq!((learned.samplers(), learned.lists), (0, 0));
    }

    #[test]
    fn one_source_does_not_keep_the_others_out() {
        let limits = Limits { samplers_max: 1_000, ..Limits::default() };
        let mut learned = LearnedOptions::new(&limits);
        let mut domains = domains(2);
        let other = Session::udp(SocketAddr::from(([192, 0, 2, 2], 2055)));
        domains.insert(2, Domain::new(DomainKey { session: other, version: 9, domain: 0 }, &limits));
        let samplers = |count| stored((0..count).map(|id| (Sampler::Numbered(id), 10)).collect());
        learned.restore(&mut domains, 0, samplers(400), Vec::new());
        learned.restore(&mut domains, 1, samplers(400), Vec::new());
        assert_eq!((learned.samplers(), domains[1].samplers.len()), (500, 100), "half for all its domains");
        assert_eq!(learned.samplers_free(domains[2].key), 250);
        learned.forget(0, &domains[0]);
        assert_eq!(learned.samplers_free(domains[1].key), 400);
    }

    #[test]
    fn a_source_changes_many_samplers_at_once_and_no_more_until_later() {
        let mut learned = LearnedOptions::new(&Limits { samplers_max: 5_000, ..Limits::default() });
        let mut domains = domains(2);
        let other = Session::udp(SocketAddr::from(([192, 0, 2, 2], 2055)));
        domains.insert(2, Domain::new(DomainKey { session: other, version: 9, domain: 0 }, &Limits::default()));
        let changed = |changed| {
            let samplers = SamplersLearned { changed, ..SamplersLearned::default() };
            Some(Box::new(LearnedFromSet { samplers, ..LearnedFromSet::default() }))
        };
        let changes = |learned: &LearnedOptions, domains: &Domains, now_ms| {
            [0, 1, 2].map(|index| learned.samplers_allowed(domains[index].key, Some(now_ms)).changes)
        };
        learned.apply(&mut domains, (0, Some(1_000)), changed(4_990));
        assert_eq!(changes(&learned, &domains, 1_000), [10, 10, 5_000], "all of a source have one limit");
        learned.apply(&mut domains, (1, Some(1_000)), changed(10));
        assert_eq!(changes(&learned, &domains, 1_000), [0, 0, 5_000]);
        assert_eq!(changes(&learned, &domains, 2_000), [1_000, 1_000, 5_000]);
        assert_eq!(learned.samplers_allowed(domains[0].key, None).changes, usize::MAX, "of what was recorded before");
    }

    #[test]
    fn a_domain_without_flows_reports_for_the_others_until_it_has_flows() {
        let mut learned = LearnedOptions::new(&Limits::default());
        let mut domains = domains(2);
        learned.restore(&mut domains, 0, stored(vec![(Sampler::Numbered(1), 100)]), Vec::new());
        let unnamed = |learned: &LearnedOptions, domains: &Domains| {
            learned.shared_samplers(&domains[1]).and_then(|shared| shared.known_to(1).unnamed.only())
        };
        assert_eq!(unnamed(&learned, &domains), Some(100));
        assert!(learned.shared_samplers(&domains[0]).is_none(), "it has its own");
        learned.note_flows(&mut domains, 0);
        assert_eq!(unnamed(&learned, &domains), None);
        learned.forget(0, &domains[0]);
        assert!(learned.shared_samplers(&domains[1]).is_none());
    }
}
