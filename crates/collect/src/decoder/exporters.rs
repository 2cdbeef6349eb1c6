//! All that is known of exporters from one message to the next, and the books on them.
//!
//! The parts are kept apart: each has its own state and limits, and returns what it did. Here it is entered in the
//! books, and here the parts are brought together where something concerns several of them.

use std::net::IpAddr;

use weir_flow::{BooksBatch, Counter, EXPORT_VERSION_SFLOW5, SequenceRow};
use weir_wire::{Template, TemplateId, TemplateRecord, TemplateRecords, WireError};

use super::books::{Books, class_counter};
use super::domains::{Domains, Place};
use super::learned::LearnedOptions;
use super::messages::DecodedSets;
use super::sequences::Sequences;
use super::sflow::{DecodedSamples, SampleSources, is_sflow};
use super::state::Changes;
use super::templates::{Evicted, TemplateContext, Templates};
use crate::age::DecoderTime;
use crate::clock::MessageClock;
use crate::domain::DomainKey;
use crate::domain::{Domain, DomainStatus};
use crate::inspection::Diagnosis;
use crate::limits::{self, Limits};
use crate::rate::source_of;
use crate::sequence::{Arrival, Outcome};
use crate::session::{Session, Transport};
use crate::state::format::StoredDomain;
use crate::waiting::set::{SetRun, WaitingSet};
use crate::waiting::spooled::OUTBOX_OCTETS_MAX;
use crate::waiting::{KnownDomains, SpoolAnswer, WaitingSets};

/// The parts, and the time.
#[derive(Debug)]
pub(super) struct Exporters {
    limits: Limits,
    /// The time of the last message or call.
    pub time: DecoderTime,
    pub domains: Domains,
    pub templates: Templates,
    pub waiting: WaitingSets,
    pub sequences: Sequences,
    pub learned: LearnedOptions,
    pub sources: SampleSources,
    pub books: Books,
    /// Whether a domain was forgotten since the state was last exported.
    forgotten: bool,
}

impl KnownDomains for Domains {
    fn place(&self, key: &DomainKey) -> Option<u32> {
        self.find(key)
    }

    fn key(&self, index: u32) -> DomainKey {
        self[index].key
    }

    fn has_template(&self, index: u32, id: TemplateId) -> bool {
        self[index].templates.has(id)
    }
}

// Time, and what goes into the books.
impl Exporters {
    /// None yet.
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            time: DecoderTime::default(),
            domains: Domains::new(limits.domains_max),
            templates: Templates::new(&limits),
            waiting: WaitingSets::new(&limits),
            sequences: Sequences::new(&limits),
            learned: LearnedOptions::new(&limits),
            sources: SampleSources::new(limits.sources_max),
            books: Books::default(),
            forgotten: false,
            limits,
        }
    }

    /// Moves to the time of a message or call.
    pub(super) fn move_to(&mut self, now_ms: i64) {
        self.time.move_to(now_ms);
        self.books.ledger.move_to(now_ms);
    }

    /// Counts Data Records that were decoded.
    #[inline]
    pub(super) fn count_records(&mut self, index: u32, counter: Counter, records: u64) {
        if records > 0 {
            self.domains[index].activity.note_records(self.time.now_ms);
        }
        self.books.count(index, counter, records);
    }

    /// Counts what was decoded of the samples of a datagram.
    pub(super) fn count_samples(&mut self, index: u32, decoded: &DecodedSamples) {
        self.books.count_sample_errors(index, &decoded.errors);
        self.books.count_all(index, decoded.counts());
        if decoded.flows > 0 {
            self.count_records(index, Counter::RecordsStored, decoded.flows);
        }
    }

    /// The lines of the books since the last call, if there are any.
    pub(super) fn take_lines(&mut self) -> Option<BooksBatch> {
        let lines = self.books.ledger.take_lines();
        self.vacate();
        lines
    }

    /// Where sequence numbers stand of the domains that something came from since the last call, if that is asked for.
    pub(super) fn take_sequences(&mut self) -> Vec<SequenceRow> {
        self.sequences.take_rows(&mut self.domains)
    }

    /// What was seen of each domain so far.
    pub(super) fn diagnoses(&self) -> Vec<Diagnosis> {
        let domains = self.domains.table().iter().zip(0..);
        domains.map(|(domain, index)| Diagnosis::of(domain, &self.books.ledger.totals_of(index))).collect()
    }

    /// Most octets that what is known takes.
    pub(super) fn octets_kept(&self) -> usize {
        let templates = self.templates.known();
        let kept = Limits {
            domains_max: self.domains.table().len(),
            templates_max: templates.templates,
            template_fields_max: templates.fields,
            samplers_max: self.learned.samplers(),
            sources_max: self.sources.known(),
            waiting_octets_max: self.waiting.octets(),
            spool_sets_max: self.waiting.spooled_keys(),
            ..self.limits.clone()
        };
        let at_most = OUTBOX_OCTETS_MAX
            + limits::UNSETTLED_MAX * limits::UNSETTLED_OCTETS
            + kept.domains_max * limits::RESUMABLE_OCTETS;
        kept.octets_max() - at_most
            + self.waiting.outbox_octets()
            + self.sequences.unsettled() * limits::UNSETTLED_OCTETS
            + self.sequences.resumable() * limits::RESUMABLE_OCTETS
    }
}

// Domains.
impl Exporters {
    /// Finds or makes the domain that a message of a sender belongs to, and counts the message. `None` when there are too many,
    /// of all or of this source.
    pub(super) fn enter(&mut self, key: DomainKey, sender: IpAddr, octets: usize) -> Option<u32> {
        let index = match self.domains.find_last(&key) {
            Some(index) => index,
            None => self.find_or_add(key, sender)?,
        };
        self.domains.set_last(key, index);
        self.domains[index].activity.note_datagram(self.time.now_ms);
        self.books.count(index, Counter::Datagrams, 1);
        self.books.count(index, Counter::Octets, octets as u64);
        if key.session.transport != Transport::Udp {
            self.books.count(index, Counter::StreamMessages, 1);
        }
        Some(index)
    }

    /// Counts a message that cannot be decoded. Garbage may fill half of the table of domains, so that it cannot keep
    /// real exporters out.
    pub(super) fn enter_undecodable(&mut self, session: Session, payload: &[u8], error: WireError) {
        self.books.note_error(error);
        let version = match payload.get(1).copied() {
            _ if is_sflow(payload) => EXPORT_VERSION_SFLOW5,
            version => version.unwrap_or(0),
        };
        let key = DomainKey { session, version, domain: 0 };
        if self.domains.known() >= self.limits.domains_max / 2 && self.domains.find(&key).is_none() {
            self.books.ledger.count_unassigned(Counter::DatagramsRefused, 1);
        } else if let Some(index) = self.enter(key, session.source.ip(), payload.len()) {
            self.books.count(index, Counter::DatagramsUndecodable, 1);
            self.books.count(index, class_counter(error), 1);
            self.domains[index].inspection.undecodable(self.time.now_ms, payload);
        }
    }

    fn find_or_add(&mut self, key: DomainKey, sender: IpAddr) -> Option<u32> {
        if let Some(index) = self.domains.find(&key) {
            return Some(index);
        }
        let source = source_of(sender);
        let (transport, limited_ms) = (key.session.transport, self.time.limited_ms());
        let may_make = self.domains.may_make(transport, source, limited_ms);
        let place = may_make.then(|| self.domains.next_place(source, self.time.now_ms, &self.limits));
        let Some(Place { index, is_taken }) = place.flatten() else {
            self.books.ledger.count_unassigned(Counter::DatagramsRefused, 1);
            return None;
        };
        self.domains.note_made(transport, source, limited_ms);
        if is_taken {
            self.books.count(index, Counter::DomainsEvicted, 1);
            self.forget(index);
        }
        let mut domain = Domain::new(key, &self.limits);
        domain.sender = source;
        domain.activity.heard_ms = self.time.now_ms;
        self.sequences.begin(&mut domain, self.time.now_ms);
        self.domains.insert(index, domain);
        self.books.ledger.open(index, key);
        Some(index)
    }

    /// Forgets a domain. What it has counted goes into the books.
    fn forget(&mut self, index: u32) {
        let key = self.domains[index].key;
        let dropped = self.waiting.forget_domain(index, key);
        if dropped > 0 {
            self.books.count(index, Counter::SetsExpired, dropped);
        }
        let domain = &mut self.domains[index];
        self.templates.forget_domain(domain);
        self.learned.forget(index, domain);
        self.sources.forget(domain);
        self.sequences.forget(domain);
        self.books.ledger.close(index);
        self.domains.remove(index);
        self.forgotten = true;
    }

    /// Forgets the domains of a session that has ended. Data Sets that still wait for their template are counted. Returns the
    /// places of the domains, which are not vacant yet.
    pub(super) fn end_session(&mut self, session: Session, now_ms: i64) -> Vec<u32> {
        let ended = self.domains.end_session(session);
        if !ended.is_empty() {
            self.move_to(now_ms);
        }
        for &index in &ended {
            let dropped = self.waiting.end_domain(index);
            if dropped > 0 {
                self.books.count(index, Counter::SetsExpired, dropped);
            }
        }
        ended
    }

    /// Frees the places of ended sessions, once all their counts are written to the books.
    fn vacate(&mut self) {
        if !self.domains.has_ended() || self.waiting.has_released() {
            return;
        }
        for index in self.domains.vacate() {
            self.forget(index);
        }
    }

    /// Learns what a process before this one knew of a domain.
    pub(super) fn restore(&mut self, stored: StoredDomain) {
        let sender = stored.key.session.source.ip();
        if self.domains.find(&stored.key).is_some()
            || self.domains.table().len() >= self.limits.domains_max
            || self.domains.has_share(source_of(sender))
        {
            return;
        }
        let Some(index) = self.find_or_add(stored.key, sender) else { return };
        let domain = &mut self.domains[index];
        domain.activity.status = if stored.protected { DomainStatus::Protected } else { DomainStatus::New };
        domain.activity.heard_ms = stored.heard_ms;
        domain.activity.datagrams = stored.datagrams;
        domain.activity.records_since_ms = stored.records_since_ms;
        domain.system_init_ms = stored.system_init_ms;
        // before the templates, which are read by them
        self.learned.restore(&mut self.domains, index, stored.samplers, stored.lists);
        for (template, refreshed_ms) in stored.templates {
            let mut evicted = Evicted::new();
            let (templates, mut context) = self.templates_and_context();
            // a clock that was wrong must not make templates that never expire
            let template = (template, refreshed_ms.min(stored.heard_ms));
            templates.restore(&mut context, index, template, &mut evicted);
            self.books.count_evicted(evicted);
        }
    }

    /// Whether the state should be exported again, by what has happened since the last call.
    pub(super) fn take_changes(&mut self) -> Changes {
        let Changes { changed, refreshed } = self.templates.take_changes();
        let learned = self.learned.take_changed();
        Changes { changed: changed | learned | std::mem::take(&mut self.forgotten), refreshed }
    }
}

// Sequence numbers.
impl Exporters {
    /// The hash of a message, for [`Exporters::follow`]; `None`, and counted, when it came before.
    pub(super) fn hash_unless_duplicate(&mut self, index: u32, sequence: u32, payload: &[u8]) -> Option<u64> {
        let hash = self.sequences.hash_unless_duplicate(&self.domains[index], sequence, payload);
        if hash.is_none() {
            self.books.count(index, Counter::DatagramsDuplicate, 1);
        }
        hash
    }

    /// Follows the sequence number and the clock of a message that was decoded.
    pub(super) fn follow(&mut self, index: u32, arrival: &Arrival, hash: u64) {
        let domain = &mut self.domains[index];
        domain.inspection.clock(self.time.now_ms, arrival);
        let outcome = self.sequences.observe(index, domain, arrival, hash);
        self.books.count_decoded(index, self.time.offset_of(arrival.export_ms));
        self.count_outcome(index, outcome);
    }

    /// Follows a message of sets, of which those with these numbers wait for their template.
    pub(super) fn follow_sets(&mut self, index: u32, arrival: &Arrival, hash: u64, waiting: std::ops::Range<u64>) {
        self.follow(index, arrival, hash);
        self.sequences.sets_wait(&mut self.domains[index], arrival, waiting);
    }

    /// Settles what a set that had waited leaves open in the account of sequence numbers.
    pub(super) fn settle(&mut self, index: u32, number: u64, records: Option<u32>) {
        let outcome = self.sequences.settle(&mut self.domains[index], number, records);
        self.count_outcome(index, outcome);
    }

    #[inline]
    fn count_outcome(&mut self, index: u32, outcome: Outcome) {
        if outcome != Outcome::default() {
            self.books.count_all(index, self.domains[index].sequence.counts(outcome));
        }
    }
}

// Templates, and sets that wait for them.
impl Exporters {
    fn templates_and_context(&mut self) -> (&mut Templates, TemplateContext<'_>) {
        let Self { templates, domains, waiting, time, .. } = self;
        (templates, TemplateContext { domains, waiting, now_ms: time.age_ms, limited_ms: time.limited_ms() })
    }

    /// Takes the records of a Template Set.
    pub(super) fn template_set(&mut self, index: u32, records: TemplateRecords<'_>, options: bool) -> DecodedSets {
        let mut decoded = DecodedSets::default();
        let is_datagrams = self.domains[index].key.session.transport.is_datagrams();
        for record in records {
            match record {
                Ok(TemplateRecord::Define(template)) => {
                    decoded.templates += 1;
                    self.define(index, template);
                }
                // RFC 7011 section 8.4: anybody can send a datagram, and a late one withdraws what was sent after it
                Ok(TemplateRecord::Withdraw(_) | TemplateRecord::WithdrawAll) if is_datagrams => {
                    self.books.count(index, Counter::WithdrawalsIgnored, 1);
                }
                Ok(TemplateRecord::Withdraw(id)) => {
                    self.templates.withdraw(&mut self.domains[index], id);
                    self.books.count(index, Counter::TemplatesWithdrawn, 1);
                }
                // RFC 7011 section 8.1: all templates of the set's kind
                Ok(TemplateRecord::WithdrawAll) => {
                    self.templates.withdraw_kind(&mut self.domains[index], options);
                    self.books.count(index, Counter::TemplatesWithdrawn, 1);
                }
                Err(error) => decoded.errors += self.books.count_error(index, Some(error)),
            }
        }
        decoded
    }

    fn define(&mut self, index: u32, template: Template) {
        let (templates, mut context) = self.templates_and_context();
        let definition = templates.define(&mut context, index, template);
        self.books.count(index, Counter::Templates, 1);
        if definition.changed {
            self.books.count(index, Counter::TemplatesChanged, 1);
        }
        if definition.refused {
            self.books.count(index, Counter::TemplatesRefused, 1);
        }
        self.books.count_evicted(definition.evicted);
    }

    /// Whether records can be decoded now. A template that was not sent again in time is forgotten here, and one that
    /// another port of the exporter has sent is taken, if that was asked for.
    #[inline]
    pub(super) fn can_decode(&mut self, index: u32, id: TemplateId) -> bool {
        if self.domains[index].templates.current(id, self.time.age_ms).is_some() {
            // those that waited on disk come first
            return !self.waiting.is_recalling(index, id);
        }
        self.borrow(index, id)
    }

    #[cold]
    fn borrow(&mut self, index: u32, id: TemplateId) -> bool {
        if self.domains[index].templates.has(id) {
            let expired = self.templates.expire(&mut self.domains[index], self.time.age_ms);
            self.books.count(index, Counter::TemplatesExpired, expired);
        }
        let mut evicted = Evicted::new();
        let (templates, mut context) = self.templates_and_context();
        let borrowed = templates.borrow(&mut context, index, id, &mut evicted);
        self.books.count_evicted(evicted);
        borrowed
    }

    /// Keeps sets of a message until their template comes; after a withdrawal the next one is not theirs (RFC 7011 section 8.1).
    pub(super) fn wait(&mut self, index: u32, id: TemplateId, sets: SetRun) {
        let (domain, count) = (&self.domains[index], sets.sets() as u64);
        let (source, is_withdrawn) = (domain.key.session.source.ip(), domain.templates.is_withdrawn(id));
        self.books.count(index, Counter::SetsWaitingIn, count);
        if is_withdrawn {
            return self.books.count(index, Counter::SetsExpired, count);
        }
        self.waiting.insert((source, self.time.age_ms), (index, id), sets);
        self.move_waiting(self.time.age_ms);
    }

    /// Keeps a set whose template is known behind those whose template has come, and that wait until a delivery is
    /// taken.
    pub(super) fn queue(&mut self, index: u32, id: TemplateId, body: &[u8], clock: &MessageClock) {
        self.books.count(index, Counter::SetsWaitingIn, 1);
        self.waiting.insert_released(index, id, WaitingSet { clock: *clock, body: body.into(), number: 0 });
    }

    /// Drops sets that have waited too long or are too many, or sends them to disk.
    pub(super) fn expire_waiting(&mut self) {
        self.move_waiting(self.time.age_ms);
        self.waiting.end_overdue_recalls(self.time.age_ms, &self.domains);
    }

    /// Sends sets that have waited for too long, or are too many, to disk, or drops them.
    pub(super) fn move_waiting(&mut self, age_ms: i64) {
        while let Some((index, numbers)) = self.waiting.drop_next(age_ms, &self.domains) {
            self.give_up(index, numbers.end - numbers.start, numbers);
        }
    }

    /// Counts sets of a domain that are gone without having been decoded. Where numbers count records, how many were in them shows
    /// then: they are missing.
    fn give_up(&mut self, index: u32, sets: u64, numbers: impl IntoIterator<Item = u64>) {
        self.books.count(index, Counter::SetsExpired, sets);
        for number in numbers {
            self.settle(index, number, Some(0));
        }
    }

    /// Forgets some of the templates that were not sent again.
    pub(super) fn sweep_templates(&mut self) {
        for (index, expired) in self.templates.sweep(&mut self.domains, self.time.age_ms) {
            self.books.count(index, Counter::TemplatesExpired, expired);
        }
    }

    /// Takes an answer of the spool. True when sets may have been released.
    pub(super) fn take_answer(&mut self, answer: SpoolAnswer) -> bool {
        let effect = self.waiting.take_answer(answer, self.time.age_ms, &self.domains);
        if let Some((key, numbers)) = effect.expired {
            let sets = numbers.len() as u64;
            match self.domains.find(&key.domain) {
                Some(index) => self.give_up(index, sets, numbers),
                None => self.books.ledger.count_forgotten(key.domain, Counter::SetsExpired, sets),
            }
        }
        if effect.is_given_back {
            self.move_waiting(self.time.age_ms);
        }
        if effect.damaged > 0 {
            self.books.ledger.count_unassigned(Counter::SpoolDamaged, effect.damaged);
        }
        effect.released
    }
}
