//! Templates of all domains: defined, redefined, withdrawn, expired, lent, evicted.

use weir_wire::{Template, TemplateId};

use super::domains::Domains;
use super::eviction::EvictionSearch;
use super::state::Changes;
use crate::Limits;
use crate::change_limit::ChangeLimiter;
use crate::domain::{CompiledTemplate, Domain, EvictionPriority, TemplateCount, Usefulness};
use crate::limits::WITHDRAWN_OF_ALL_MAX;
use crate::rate::source_of;
use crate::waiting::WaitingSets;
use crate::waiting::set::SetKey;

/// Domains looked at for templates that have expired, in one call.
const SWEEP_DOMAINS: usize = 1_024;

/// A source has so many times as many templates defined at once as there may be: those that it had, and those of a restart.
const BURST_OF_ALL: usize = 2;

/// Domains whose templates were evicted, and how many.
pub(super) type Evicted = Vec<(u32, u64)>;

/// What a template that arrives finds: the domains, and the sets that may have waited for it.
pub(super) struct TemplateContext<'p> {
    pub domains: &'p mut Domains,
    pub waiting: &'p mut WaitingSets,
    pub now_ms: i64,
    /// The time by which it is limited how many templates a source has defined; see [`ChangeLimiter`].
    pub limited_ms: Option<i64>,
}

impl TemplateContext<'_> {
    /// Releases the sets that waited for a template of a domain.
    fn release_sets(&mut self, index: u32, id: TemplateId) {
        let key = SetKey { domain: self.domains[index].key, template: id };
        self.waiting.template_arrived(index, key, self.now_ms);
    }
}

/// What a Template Record changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Definition {
    /// The ID had other fields before.
    pub changed: bool,
    /// There was no capacity for the template, or its source has had too many defined.
    pub refused: bool,
    pub evicted: Evicted,
}

/// The templates of all domains, which are kept in the domains themselves.
#[derive(Debug)]
pub(super) struct Templates {
    limits: Limits,
    known: TemplateCount,
    eviction: EvictionSearch,
    /// IDs that all domains remember to be withdrawn.
    withdrawn: usize,
    /// How many templates each source may have defined: one that has come as it was is none of them.
    definitions: ChangeLimiter,
    /// The domain last looked at for templates that have expired.
    swept: usize,
    changes: Changes,
}

impl Templates {
    /// None yet.
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            limits: limits.clone(),
            known: TemplateCount::default(),
            eviction: EvictionSearch::default(),
            withdrawn: 0,
            definitions: ChangeLimiter::of_burst(limits.templates_max.saturating_mul(BURST_OF_ALL)),
            swept: 0,
            changes: Changes::default(),
        }
    }

    /// Templates known, and all their fields.
    pub(super) fn known(&self) -> TemplateCount {
        self.known
    }

    /// What has changed since the last call.
    pub(super) fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Takes a template that a domain has sent.
    pub(super) fn define(&mut self, context: &mut TemplateContext<'_>, index: u32, template: Template) -> Definition {
        let (id, now_ms) = (template.id(), context.now_ms);
        let domain = &mut context.domains[index];
        let before = domain.templates.get(id);
        let (is_known, changed) = (before.is_some(), before.is_some_and(|before| before.template != template));
        let mut definition = Definition { changed, ..Definition::default() };
        domain.inspection.template(now_ms, changed);
        domain.templates.note_arrival(now_ms);
        if is_known && !changed {
            domain.templates.refresh(id, now_ms);
            self.changes.refreshed = true;
            self.lend(context, index, id, &mut definition.evicted);
            return definition;
        }
        if changed {
            // It takes effect at once (RFC 7011 section 8.4), and even if there is no capacity for the new one: its
            // records must not be read by the old.
            self.forget_one(domain, id);
        }
        let source = source_of(domain.key.session.source.ip());
        let may_define = self.definitions.left_to(source, context.limited_ms) > 0;
        if may_define && self.add(context.domains, index, (template, now_ms), now_ms, &mut definition.evicted) {
            self.definitions.take_for(source, 1, context.limited_ms);
            context.release_sets(index, id);
            self.lend(context, index, id, &mut definition.evicted);
        } else {
            definition.refused = true;
            self.refuse(context, index, (id, changed));
        }
        definition
    }

    /// Notes that a template was refused: its sets wait for the next one, and where it has changed, no other port has the old one any
    /// more, by which they would be read.
    fn refuse(&mut self, context: &mut TemplateContext<'_>, index: u32, (id, changed): (TemplateId, bool)) {
        self.expect(&mut context.domains[index], id);
        if changed {
            for other in context.domains.other_ports(index) {
                self.forget_one(&mut context.domains[other], id);
            }
        }
    }

    /// Learns a template that a process before this one knew. True if it was added.
    pub(super) fn restore(
        &mut self,
        context: &mut TemplateContext<'_>,
        index: u32,
        template: (Template, i64),
        evicted: &mut Evicted,
    ) -> bool {
        let id = template.0.id();
        let added = self.add(context.domains, index, template, context.now_ms, evicted);
        if added {
            context.release_sets(index, id);
        }
        added
    }

    /// Forgets a template of a domain.
    fn forget_one(&mut self, domain: &mut Domain, id: TemplateId) {
        let removed = domain.templates.remove_one(id);
        self.count_removed(removed);
    }

    /// Forgets a template that its exporter has withdrawn.
    pub(super) fn withdraw(&mut self, domain: &mut Domain, id: TemplateId) {
        self.forget_one(domain, id);
        if domain.key.session.transport.withdraws_in_order() && self.withdrawn < WITHDRAWN_OF_ALL_MAX {
            self.withdrawn += usize::from(domain.templates.note_withdrawn(id));
        }
    }

    /// Takes that a template is to come for sets that wait for it.
    fn expect(&mut self, domain: &mut Domain, id: TemplateId) {
        self.withdrawn -= usize::from(domain.templates.note_expected(id));
    }

    /// Forgets what is known of a domain that is about to be forgotten.
    pub(super) fn forget_domain(&mut self, domain: &mut Domain) {
        self.forget(domain, |_| true);
        self.withdrawn -= domain.templates.withdrawn();
    }

    /// Forgets all templates of a kind, which their exporter has withdrawn.
    pub(super) fn withdraw_kind(&mut self, domain: &mut Domain, options: bool) {
        for id in domain.templates.ids_of_kind(options) {
            self.withdraw(domain, id);
        }
    }

    /// Forgets some templates of a domain. Returns how many.
    pub(super) fn forget(&mut self, domain: &mut Domain, is_meant: impl Fn(&CompiledTemplate) -> bool) -> u64 {
        let removed = domain.templates.remove(is_meant);
        self.count_removed(removed)
    }

    /// Forgets the templates of a domain that were not sent again in time. Returns how many.
    pub(super) fn expire(&mut self, domain: &mut Domain, now_ms: i64) -> u64 {
        let removed = domain.templates.remove_expired(now_ms);
        self.count_removed(removed)
    }

    /// Forgets templates that were not sent again in time, in some of the domains and one call after the other in all
    /// of them. Returns the domains, and how many each lost.
    pub(super) fn sweep(&mut self, domains: &mut Domains, now_ms: i64) -> Vec<(u32, u64)> {
        let mut expired = Vec::new();
        for _ in 0..SWEEP_DOMAINS.min(domains.table().len()) {
            self.swept = (self.swept + 1) % domains.table().len();
            let index = self.swept as u32;
            if domains[index].templates.any_expired(now_ms) {
                expired.push((index, self.expire(&mut domains[index], now_ms)));
            }
        }
        expired
    }

    /// Takes a template from another port. False when none has it, when two disagree, or when sets on disk come first.
    #[cold]
    pub(super) fn borrow(
        &mut self,
        context: &mut TemplateContext<'_>,
        index: u32,
        id: TemplateId,
        evicted: &mut Evicted,
    ) -> bool {
        let others = context.domains.other_ports(index);
        let mut own = others.iter().filter_map(|&other| {
            let known = context.domains[other].templates.current(id, context.now_ms)?;
            (!known.borrowed).then_some(known)
        });
        let Some(first) = own.next() else { return false };
        let (template, mut refreshed_ms) = (first.template.clone(), first.refreshed_ms);
        for known in own {
            if known.template != template {
                return false;
            }
            refreshed_ms = refreshed_ms.max(known.refreshed_ms);
        }
        if !self.add(context.domains, index, (template, refreshed_ms), context.now_ms, evicted) {
            return false;
        }
        context.domains[index].templates.set_borrowed(id);
        context.release_sets(index, id);
        !context.waiting.is_recalling(index, id)
    }

    /// Hands a template that has just come to the other ports that wait for it or have borrowed it.
    fn lend(&mut self, context: &mut TemplateContext<'_>, index: u32, id: TemplateId, evicted: &mut Evicted) {
        for other in context.domains.other_ports(index) {
            let domain = &mut context.domains[other];
            let key = SetKey { domain: domain.key, template: id };
            let borrowed = domain.templates.get(id).map(|known| known.borrowed);
            if borrowed == Some(true) {
                self.forget(domain, |known| known.template.id() == id);
            }
            if borrowed == Some(true) || (borrowed.is_none() && context.waiting.has(other, &key)) {
                self.borrow(context, other, id, evicted);
            }
        }
    }

    /// Adds a template that the domain does not have, and when it was sent. False when there is no capacity for it.
    fn add(
        &mut self,
        domains: &mut Domains,
        index: u32,
        (template, refreshed_ms): (Template, i64),
        now_ms: i64,
        evicted: &mut Evicted,
    ) -> bool {
        let fields = template.fields().len();
        if domains[index].templates.len() >= self.limits.templates_per_domain_max
            || !self.make_capacity(domains, index, fields, now_ms, evicted)
        {
            return false;
        }
        self.expect(&mut domains[index], template.id());
        domains[index].templates.insert(template, refreshed_ms);
        self.known.templates += 1;
        self.known.fields += fields;
        self.changes.changed = true;
        true
    }

    /// Evicts the templates of domains that are worth less than this one, and among equals of the one that has most,
    /// until one more fits. False when there are none.
    fn make_capacity(
        &mut self,
        domains: &mut Domains,
        index: u32,
        fields: usize,
        now_ms: i64,
        evicted: &mut Evicted,
    ) -> bool {
        while self.known.templates >= self.limits.templates_max
            || self.known.fields + fields > self.limits.template_fields_max
        {
            let Some(victim) = self.next_evicted(domains, index, now_ms) else { return false };
            evicted.push((victim, self.forget(&mut domains[victim], |_| true)));
        }
        true
    }

    fn next_evicted(&mut self, domains: &Domains, index: u32, now_ms: i64) -> Option<u32> {
        let limits = &self.limits;
        let domain = &domains[index];
        let priority = |domain: &Domain| {
            let priority = domain.eviction_priority(now_ms, limits)?;
            let datagrams_log = u32::MAX - domain.templates.fields() as u32;
            Some(EvictionPriority { datagrams_log, heard_ms: 0, ..priority })
        };
        // a domain that has sent nothing yet goes before those that only ever send templates
        let newcomer = EvictionPriority { usefulness: Usefulness::Templates, datagrams_log: u32::MAX, heard_ms: 0 };
        let own = priority(domain).map(|own| own.max(newcomer));
        let of_others =
            |other: &Domain| priority(other).filter(|_| other.templates.fields() > 0 && other.key != domain.key);
        self.eviction.next(domains.table(), now_ms, own, of_others)
    }

    fn count_removed(&mut self, removed: TemplateCount) -> u64 {
        self.known.templates -= removed.templates;
        self.known.fields -= removed.fields;
        self.changes.changed |= removed.templates > 0;
        removed.templates as u64
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use weir_wire::FieldSpecifier;

    use super::*;
    use crate::domain::DomainKey;
    use crate::session::Session;

    fn template(fields: u16) -> Template {
        let fields = (0..fields).map(|element| FieldSpecifier::iana(element + 1, 4)).collect();
        Template::new(id(), fields, 0).expect("a template")
    }

    fn id() -> TemplateId {
        TemplateId::new(256).expect("id")
    }

    /// Domains of one exporter, each on a port of its own.
    fn domains(count: u16, limits: &Limits) -> Domains {
        let mut domains = Domains::new(1_024);
        for port in 0..count {
            let index = domains.vacancy(limits.domains_max).expect("a place");
            let session = Session::udp(SocketAddr::from(([192, 0, 2, 1], port)));
            domains.insert(index, Domain::new(DomainKey { session, version: 10, domain: 0 }, limits));
        }
        domains
    }

    /// Templates with these limits, and what they need.
    struct Fixture {
        templates: Templates,
        domains: Domains,
        waiting: WaitingSets,
    }

    impl Fixture {
        fn new(count: u16, limits: &Limits) -> Self {
            let (templates, waiting) = (Templates::new(limits), WaitingSets::new(limits));
            Self { templates, domains: domains(count, limits), waiting }
        }

        fn define(&mut self, index: u32, fields: u16) -> Definition {
            let (templates, mut context) = self.templates_and_context();
            templates.define(&mut context, index, template(fields))
        }

        fn borrow(&mut self, index: u32) -> bool {
            let (templates, mut context) = self.templates_and_context();
            templates.borrow(&mut context, index, id(), &mut Vec::new())
        }

        fn templates_and_context(&mut self) -> (&mut Templates, TemplateContext<'_>) {
            let Self { templates, domains, waiting } = self;
            (templates, TemplateContext { domains, waiting, now_ms: 0, limited_ms: None })
        }

        fn fields_of(&self, index: u32) -> usize {
            self.domains[index].templates.fields()
        }
    }

    #[test]
    fn a_template_is_new_refreshed_or_changed() {
        let mut fixture = Fixture::new(1, &Limits::default());
        assert_eq!(fixture.define(0, 2), Definition::default());
        let changes = fixture.templates.take_changes();
        assert_eq!((changes.changed, changes.refreshed), (true, false));
        assert_eq!(fixture.define(0, 2), Definition::default());
        let changes = fixture.templates.take_changes();
        assert_eq!((changes.changed, changes.refreshed), (false, true));
        assert!(fixture.define(0, 3).changed);
        assert_eq!(fixture.templates.known(), TemplateCount { templates: 1, fields: 3 });
        assert_eq!(fixture.templates.forget(&mut fixture.domains[0], |_| true), 1);
        assert_eq!(fixture.templates.known(), TemplateCount::default());
    }

    #[test]
    fn a_domain_that_sends_more_evicts_those_that_have_most_and_not_the_other_way_round() {
        let limits = Limits { template_fields_max: 10, ..Limits::default() };
        let mut fixture = Fixture::new(3, &limits);
        for (index, fields) in [(0, 3), (1, 5)] {
            assert_eq!(fixture.define(index, fields), Definition::default());
        }
        fixture.domains[2].activity.note_records(0);
        let definition = fixture.define(2, 4);
        assert_eq!((definition.refused, definition.evicted), (false, vec![(1, 1)]));
        assert_eq!([0, 1, 2].map(|index| fixture.fields_of(index)), [3, 0, 4]);
        let definition = fixture.define(1, 8);
        assert_eq!((definition.refused, fixture.fields_of(2)), (true, 4));
    }

    #[test]
    fn a_changed_template_is_forgotten_even_if_the_new_one_does_not_fit() {
        let mut fixture = Fixture::new(1, &Limits { template_fields_max: 4, ..Limits::default() });
        fixture.define(0, 4);
        let definition = fixture.define(0, 5);
        assert!(definition.changed && definition.refused && !fixture.domains[0].templates.has(id()));
    }

    #[test]
    fn ports_borrow_what_they_do_not_have_and_give_back_what_changes() {
        let mut fixture = Fixture::new(3, &Limits::default());
        fixture.domains.group_by_port();
        fixture.define(0, 2);
        assert!(fixture.borrow(1));
        fixture.define(0, 3);
        assert_eq!((fixture.fields_of(1), fixture.fields_of(2)), (3, 0), "what was borrowed changes with its origin");
        fixture.define(2, 4);
        assert_eq!(fixture.fields_of(1), 0, "two ports disagree");
        assert!(!fixture.borrow(1));
    }

    #[test]
    fn what_was_before_a_refused_change_is_read_by_no_port() {
        let mut fixture = Fixture::new(3, &Limits { template_fields_max: 6, ..Limits::default() });
        fixture.domains.group_by_port();
        fixture.define(0, 2);
        fixture.define(2, 2);
        assert!(fixture.borrow(1));
        let definition = fixture.define(0, 7);
        assert!(definition.changed && definition.refused);
        assert_eq!([0, 1, 2].map(|index| fixture.fields_of(index)), [0; 3]);
        assert!(!fixture.borrow(0) && !fixture.borrow(1));
    }

    /// Whoever opens a connection can withdraw what nobody has defined.
    #[test]
    fn what_is_withdrawn_is_remembered_up_to_a_limit_and_until_its_domain_is_forgotten() {
        let limits = Limits::default();
        let mut fixture = Fixture::new(0, &limits);
        let domains = WITHDRAWN_OF_ALL_MAX as u32 / 1_024 + 2;
        for domain in 0..domains {
            let source = SocketAddr::from(([192, 0, 2, 1], 4_739));
            let session = Session { transport: crate::session::Transport::Tcp, source };
            fixture.domains.insert(domain, Domain::new(DomainKey { session, version: 10, domain }, &limits));
            for id in 0..1_100_u16 {
                let id = TemplateId::new(256 + id).expect("id");
                (0..2).for_each(|_| fixture.templates.withdraw(&mut fixture.domains[domain], id));
            }
        }
        let known = |fixture: &Fixture| -> usize {
            (0..domains).map(|domain| fixture.domains[domain].templates.withdrawn()).sum()
        };
        assert_eq!((fixture.templates.withdrawn, known(&fixture)), (WITHDRAWN_OF_ALL_MAX, WITHDRAWN_OF_ALL_MAX));
        fixture.define(0, 1);
        assert_eq!(
            (fixture.templates.withdrawn, known(&fixture)),
            (WITHDRAWN_OF_ALL_MAX - 1, WITHDRAWN_OF_ALL_MAX - 1)
        );
        (0..domains).for_each(|domain| fixture.templates.forget_domain(&mut fixture.domains[domain]));
        assert_eq!(fixture.templates.withdrawn, 0);
    }

    #[test]
    fn sweeping_forgets_what_was_not_sent_again() {
        let limits = Limits { template_lifetime_secs: 1, ..Limits::default() };
        let mut fixture = Fixture::new(2, &limits);
        fixture.define(0, 2);
        fixture.define(1, 2);
        fixture.domains[1].templates.refresh(id(), 1_000);
        assert_eq!(fixture.templates.sweep(&mut fixture.domains, 1_001), [(0, 1)]);
        assert_eq!(fixture.templates.known(), TemplateCount { templates: 1, fields: 2 });
    }
}
