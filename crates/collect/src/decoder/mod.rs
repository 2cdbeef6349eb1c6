//! Export messages in, flows and books out. No I/O.
//!
//! ```text
//! message ─▶ header ─▶ Exporters: whose is it, is it new? ─▶ sets ─▶ Tables: rows of a delivery
//!                        Domains, Templates, WaitingSets,              flows, options, counters
//!                        Sequences, LearnedOptions, Books
//! ```
//!
//! Each part has its own state and limits, and returns what it did; [`exporters`] enters that in the [`books`]. The
//! parts know nothing of one another but for what they are given in a call.

mod books;
pub(crate) mod diagnoses;
mod domains;
mod eviction;
mod eviction_order;
mod exporters;
mod fixed_format;
mod learned;
mod messages;
mod ports;
mod samplers;
mod sequences;
mod sessions;
pub(crate) mod sflow;
pub(crate) mod state;
mod tables;
mod templates;

use std::net::SocketAddr;

use weir_flow::sequences::sequence_rows;
use weir_flow::{Counter, Delivery, SequenceRow, SideTables};
use weir_wire::{Set, Sets, TemplateId, WireError, fixed, ipfix, netflow9};

use crate::Limits;
use crate::clock::MessageClock;
use crate::inspection::Diagnosis;
use crate::rate::RefusedDatagrams;
use crate::relay::network::AgentRule;
use crate::sequence::Arrival;
use crate::session::Session;
use crate::shares::BeyondShare;
use crate::spool::{Answer, Request};
use crate::state::StateError;
use crate::waiting::set::{GatheredRuns, GatheredSets};
use exporters::Exporters;
use fixed_format::{FixedFormats, FixedPacket};
use messages::{DecodedSets, SetsMessage};
use sflow::SampleDecoder;
pub(crate) use sflow::is_sflow;
use state::Changes;
use tables::Tables;

/// Decodes the datagrams of any number of exporters.
///
/// Flows gather until [`Decoder::take_delivery`] hands them out together with the lines of the books that account
/// for them.
#[derive(Debug)]
pub struct Decoder {
    exporters: Exporters,
    fixed_formats: FixedFormats,
    tables: Tables,
    /// Who may speak for which agent of sFlow; `None`: everybody for all.
    agent_rules: Option<Vec<AgentRule>>,
    /// Datagrams that the rules have refused; they are in the books.
    agents_not_allowed: RefusedDatagrams,
}

/// What a decoder has seen since it began.
#[derive(Debug, Clone)]
pub struct DecoderStatistics {
    /// Every counter of the books, over all exporters.
    pub totals: [u64; Counter::COUNT],
    /// Errors by [`WireError::label`], those that occurred.
    pub problems: Vec<(&'static str, u64)>,
    /// Pairs of transport session and Observation Domain known now.
    pub domains: usize,
    /// Data Sets that wait for their template in memory now.
    pub sets_waiting: usize,
    /// Data Sets that wait on disk, or are on their way there.
    pub sets_spooled: u64,
    /// Templates known now.
    pub templates: usize,
    /// Octets of memory that it takes at most to keep all this; below [`Limits::octets_max`].
    pub octets_kept: usize,
}

impl DecoderStatistics {
    /// One counter.
    pub fn total(&self, counter: Counter) -> u64 {
        self.totals[counter as usize]
    }
}

impl Decoder {
    /// A decoder that knows no exporter yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            exporters: Exporters::new(limits),
            fixed_formats: FixedFormats::new(),
            tables: Tables::new(),
            agent_rules: None,
            agents_not_allowed: RefusedDatagrams::default(),
        }
    }

    /// Lets domains of UDP take templates that the same domain has sent from another port, and samplers that the exporter has.
    #[must_use]
    pub fn with_templates_across_ports(mut self) -> Self {
        self.exporters.domains.group_by_port();
        self.exporters.learned.share_across_ports();
        self
    }

    /// Takes sFlow only from those who may speak for the agent that they name: itself, and whom a rule lets. Datagrams of others
    /// count under `datagrams_not_allowed`.
    #[must_use]
    pub fn with_agent_rules(mut self, rules: Vec<AgentRule>) -> Self {
        self.agent_rules = Some(rules);
        self
    }

    /// For messages that are received while they are decoded: jumps of the system's clock make nothing old that is known of
    /// exporters, and what a source has learned anew is limited. Without it the times of the messages count, as those of a capture do.
    #[must_use]
    pub fn with_own_clock(mut self) -> Self {
        self.exporters.time.keep_ages();
        self
    }

    /// Lets sets wait on disk: [`spool_request`](Self::spool_request) is to be called until it has nothing, and
    /// whatever the spool answers to be given to [`spool_answer`](Self::spool_answer).
    #[must_use]
    pub fn with_spool(mut self) -> Self {
        self.exporters.waiting.enable_spool();
        self
    }

    /// Goes on with the sequence numbers of exporters where a process before this one ended, as far as an archive has what
    /// came, and has deliveries tell where they stand: rows of [`weir_flow::sequences`]. What is missing in between counts
    /// as lost.
    #[must_use]
    pub fn with_sequences(mut self, rows: impl IntoIterator<Item = SequenceRow>) -> Self {
        self.exporters.sequences.resume(rows);
        self
    }

    /// Flows gathered since the last delivery.
    pub fn rows(&self) -> usize {
        self.tables.rows()
    }

    /// Whether a delivery should be taken before more datagrams are decoded.
    pub fn is_full(&self) -> bool {
        self.tables.is_full() || self.exporters.books.ledger.is_full()
    }

    /// Sets whether the times of reception that follow are made up. Clocks of exporters are not compared with these.
    pub fn set_time_replaced(&mut self, is_replaced: bool) {
        self.exporters.time.is_replaced = is_replaced;
    }

    /// Decodes one UDP datagram.
    pub fn datagram(&mut self, source: SocketAddr, received_ms: i64, payload: &[u8]) {
        self.message(Session::udp(source), received_ms, payload);
    }

    /// Decodes one message of a transport session.
    pub fn message(&mut self, session: Session, received_ms: i64, payload: &[u8]) {
        self.exporters.move_to(received_ms);
        self.decode_released();
        if let Err(error) = self.decode_message(session, received_ms, payload) {
            self.exporters.enter_undecodable(session, payload, error);
        }
        self.decode_released();
    }

    /// Hands out what was gathered; to be called until the delivery is empty, because sets that waited for their
    /// template may fill more than one.
    pub fn take_delivery(&mut self) -> Delivery {
        self.decode_released();
        // before domains are forgotten whose lines are taken
        let mut sequences = self.exporters.take_sequences();
        let books = self.exporters.take_lines();
        sequences.extend(self.exporters.take_sequences());
        let (flows, mut others) = self.tables.take();
        others.extend(sequence_rows(&sequences));
        Delivery { flows, side_tables: SideTables { books, others, ..SideTables::default() } }
    }

    /// Drops Data Sets that have waited too long, and templates that were not sent again.
    pub fn expire(&mut self, now_ms: i64) {
        self.exporters.move_to(now_ms);
        self.exporters.expire_waiting();
        self.exporters.sweep_templates();
    }

    /// Forgets what is known of a session: its connection was closed, or its file was read to the end. Data Sets that
    /// still wait for their Template are counted under `sets_expired`.
    pub fn end_session(&mut self, session: Session, now_ms: i64) {
        self.exporters.end_session(session, now_ms);
    }

    /// Counts what is not known per exporter: drops of kernel and queue.
    pub fn count_unassigned(&mut self, received_ms: i64, counter: Counter, by: u64) {
        if by > 0 {
            self.exporters.books.ledger.move_to(received_ms);
            self.exporters.books.ledger.count_unassigned(counter, by);
        }
    }

    /// What came since the last call from sources that have their share of all domains, and what was refused to sources that have had
    /// too many made on connections; both are in the books.
    pub(crate) fn take_refused_domains(&mut self) -> (BeyondShare, RefusedDatagrams) {
        (self.exporters.domains.take_beyond_share(), self.exporters.domains.take_over_rate())
    }

    /// What came of sFlow since the last call from sources that may not speak for its agents; it is in the books.
    pub(crate) fn take_agents_not_allowed(&mut self) -> RefusedDatagrams {
        std::mem::take(&mut self.agents_not_allowed)
    }

    /// What was seen of each Observation Domain so far. Costs as much as there are domains.
    pub fn diagnoses(&self) -> Vec<Diagnosis> {
        self.exporters.diagnoses()
    }

    /// What was seen so far.
    pub fn statistics(&self) -> DecoderStatistics {
        let exporters = &self.exporters;
        DecoderStatistics {
            totals: *exporters.books.ledger.totals(),
            problems: exporters.books.errors_seen(),
            domains: exporters.domains.known(),
            sets_waiting: exporters.waiting.len(),
            sets_spooled: exporters.waiting.spooled_sets(),
            templates: exporters.templates.known().templates,
            octets_kept: exporters.octets_kept(),
        }
    }
}

// Messages and sets.
impl Decoder {
    fn decode_message(&mut self, session: Session, received_ms: i64, payload: &[u8]) -> Result<(), WireError> {
        match payload.first_chunk::<2>().map(|version| u16::from_be_bytes(*version)) {
            Some(netflow9::VERSION) => self.sets(payload, SetsMessage::netflow9(session, received_ms, payload)?),
            Some(ipfix::VERSION) => self.sets(payload, SetsMessage::ipfix(session, received_ms, payload)?),
            // sFlow has 32 bits for its version
            Some(0) if is_sflow(payload) => self.sflow(session, received_ms, payload)?,
            Some(found) => match fixed::format_of(found) {
                Some(format) => self.fixed(payload, &FixedPacket::read(format, session, received_ms, payload)?),
                None => return Err(WireError::WrongVersion { found }),
            },
            None => return Err(WireError::TruncatedHeader { need: 2, have: payload.len() as u32 }),
        }
        Ok(())
    }

    fn fixed(&mut self, payload: &[u8], packet: &FixedPacket<'_>) {
        let exporters = &mut self.exporters;
        let Some(index) = exporters.enter(packet.key, packet.key.session.source.ip(), payload.len()) else { return };
        let arrival = packet.arrival();
        let Some(hash) = exporters.hash_unless_duplicate(index, arrival.sequence, payload) else { return };
        exporters.books.count_error(index, packet.problem());
        exporters.follow(index, &arrival, hash);
        if let Some(form) = self.fixed_formats.of(packet.format()) {
            self.tables.fixed_packet(&exporters.domains[index], form, packet);
            exporters.count_records(index, Counter::RecordsStored, packet.records_received().into());
        }
    }

    fn sflow(&mut self, session: Session, received_ms: i64, payload: &[u8]) -> Result<(), WireError> {
        let datagram = weir_wire::sflow::decode(payload)?;
        let (header, exporters) = (datagram.header, &mut self.exporters);
        let key = sflow::domain_key(session, &header);
        let (agent, source) = (key.session.source.ip(), session.source.ip().to_canonical());
        let lets = |rules: &Vec<AgentRule>| rules.iter().any(|rule| rule.allows(agent, source));
        if agent != source && !self.agent_rules.as_ref().is_none_or(lets) {
            exporters.books.ledger.count_unassigned(Counter::DatagramsNotAllowed, 1);
            self.agents_not_allowed.add(source);
            return Ok(());
        }
        let Some(index) = exporters.enter(key, session.source.ip(), payload.len()) else { return Ok(()) };
        if agent == source {
            exporters.domains.charge_exporter(index);
        }
        let Some(hash) = exporters.hash_unless_duplicate(index, header.sequence, payload) else { return Ok(()) };
        let arrival = sflow::arrival(&mut exporters.domains[index].agent, received_ms, &header);
        exporters.follow(index, &arrival, hash);
        self.tables.add_octets(payload.len());
        let (domain, sources) = (&mut exporters.domains[index], &mut exporters.sources);
        let sender = (agent != source).then_some(source);
        let mut samples = SampleDecoder { domain, sources, tables: &mut self.tables, received_ms, arrival, sender };
        let decoded = samples.decode(&header, datagram.samples);
        exporters.count_samples(index, &decoded);
        Ok(())
    }

    fn sets(&mut self, payload: &[u8], message: SetsMessage<'_>) {
        let SetsMessage { key, sequence, clock, sets, problem, whole } = message;
        let exporters = &mut self.exporters;
        let Some(index) = exporters.enter(key, key.session.source.ip(), payload.len()) else { return };
        let Some(hash) = exporters.hash_unless_duplicate(index, sequence, payload) else { return };
        exporters.books.count_error(index, problem);
        let first_waiting = exporters.waiting.next_number();
        self.tables.begin_message(payload.len());
        let decoded = self.decode_sets(index, sets, &clock);
        let exporters = &mut self.exporters;
        let arrival = Arrival::of_message(sequence, &clock, decoded.units(), decoded.complete && whole);
        // Of a message that was cut, the last set is not whole: what is decoded of it later settles nothing.
        let end = if whole { exporters.waiting.next_number() } else { first_waiting };
        exporters.follow_sets(index, &arrival, hash, first_waiting..end);
    }

    fn decode_sets(&mut self, index: u32, mut sets: Sets<'_>, clock: &MessageClock) -> DecodedSets {
        let transport = self.exporters.domains[index].key.session.transport;
        let is_in_order = transport.is_ordered() && self.exporters.time.is_live();
        let (mut decoded, mut gathered) = (DecodedSets::default(), GatheredSets::of_message(is_in_order));
        let mut is_counted = false;
        while let Some(set) = sets.next() {
            let of_set = match set {
                Ok(Set::Templates(records)) => {
                    // what came before it waits for it
                    self.keep(index, &mut gathered, clock);
                    self.exporters.template_set(index, records, false)
                }
                Ok(Set::OptionsTemplates(records)) => {
                    self.keep(index, &mut gathered, clock);
                    self.exporters.template_set(index, records, true)
                }
                Ok(Set::Data { template, body }) => self.data_set(index, (template, body), clock, &mut gathered),
                Ok(Set::Reserved { .. }) => {
                    self.exporters.books.count(index, Counter::SetsReserved, 1);
                    DecodedSets::default()
                }
                Err(error) => {
                    let errors = self.exporters.books.count_error(index, Some(error).filter(|_| !is_counted));
                    DecodedSets { errors, complete: false, ..DecodedSets::default() }
                }
            };
            // what is there of a set that is too long may be wrong already, and it is one set
            is_counted = sets.overruns() && of_set.errors > 0;
            decoded.add(of_set);
        }
        self.keep(index, &mut gathered, clock);
        decoded
    }

    /// Keeps the sets of a message that have to wait, but for those that are too short and too many.
    fn keep(&mut self, index: u32, gathered: &mut GatheredSets<'_>, clock: &MessageClock) {
        let GatheredRuns { runs, left_out } = gathered.take_runs(clock);
        let counts = [Counter::SetsWaitingIn, Counter::SetsExpired].map(|counter| (counter, left_out));
        self.exporters.books.count_all(index, counts);
        for (id, sets) in runs {
            self.exporters.wait(index, id, sets);
        }
    }

    /// Decodes a Data Set, or gathers it among those that are kept until they can be decoded.
    fn data_set<'m>(
        &mut self,
        index: u32,
        (id, body): (TemplateId, &'m [u8]),
        clock: &MessageClock,
        gathered: &mut GatheredSets<'m>,
    ) -> DecodedSets {
        if body.is_empty() {
            // there is nothing to keep, and keeping it would cost far more than the four octets of its header
            return DecodedSets::default();
        }
        if !self.exporters.can_decode(index, id) {
            gathered.push(id, body);
            return DecodedSets::WAITS;
        }
        if self.exporters.waiting.has_released() {
            self.exporters.queue(index, id, body, clock);
            return DecodedSets::WAITS;
        }
        self.decode_set(index, id, body, clock)
    }

    /// Decodes a Data Set whose template is known.
    fn decode_set(&mut self, index: u32, id: TemplateId, body: &[u8], clock: &MessageClock) -> DecodedSets {
        let exporters = &mut self.exporters;
        exporters.domains[index].templates.update_plan(id, body.len());
        let domain = &exporters.domains[index];
        let Some(compiled) = domain.templates.get(id) else { return DecodedSets::WAITS };
        if compiled.template.is_options() {
            return self.decode_options(index, id, body, clock);
        }
        let shared = exporters.learned.shared_samplers(domain);
        let set = self.tables.flow_set(domain, compiled, body, clock, shared);
        exporters.count_records(index, Counter::RecordsStored, set.rows as u64);
        exporters.books.count_all(index, [(Counter::ListsUndecodable, set.lists_undecodable.into())]);
        if set.rows > 0 {
            exporters.learned.note_flows(&mut exporters.domains, index);
        }
        let errors = exporters.books.count_error(index, set.problem);
        DecodedSets { records: set.rows as u32, templates: 0, errors, complete: errors == 0 }
    }

    #[inline(never)]
    fn decode_options(&mut self, index: u32, id: TemplateId, body: &[u8], clock: &MessageClock) -> DecodedSets {
        let exporters = &mut self.exporters;
        let (learned, limited_ms) = (&exporters.learned, exporters.time.limited_ms());
        let (allowed, clocks) = (|key| learned.samplers_allowed(key, limited_ms), (clock, limited_ms));
        let Some(set) = self.tables.options_set(&mut exporters.domains[index], id, body, clocks, allowed) else {
            return DecodedSets::WAITS;
        };
        exporters.count_records(index, Counter::RecordsOptions, set.rows as u64);
        let errors = exporters.books.count_error(index, set.problem);
        exporters.books.count_left_out(index, &set);
        exporters.learned.apply(&mut exporters.domains, (index, limited_ms), set.learned);
        DecodedSets { records: set.rows as u32, templates: 0, errors, complete: errors == 0 }
    }

    /// Decodes sets that no longer wait, as many as a delivery holds.
    fn decode_released(&mut self) {
        while !self.is_full()
            && let Some((index, id, set)) = self.exporters.waiting.pop_released()
        {
            self.exporters.books.count(index, Counter::SetsWaitingOut, 1);
            if self.exporters.domains[index].templates.has(id) {
                self.tables.begin_set_that_waited(set.body.len());
                let decoded = self.decode_set(index, id, &set.body, &set.clock);
                self.exporters.settle(index, set.number, decoded.known_records());
            } else {
                // withdrawn meanwhile; it gets another number
                self.exporters.settle(index, set.number, None);
                self.exporters.wait(index, id, set.into());
            }
        }
    }
}

// What outlives the process: the spool and the state.
impl Decoder {
    /// What the spool is to do next.
    pub fn spool_request(&mut self) -> Option<Request> {
        self.exporters.waiting.next_request().map(Request)
    }

    /// Takes what the spool has done.
    pub fn spool_answer(&mut self, answer: Answer) {
        if self.exporters.take_answer(answer.0) {
            // so that the caller sees when this decoder is full
            self.decode_released();
        }
    }

    /// Whether sets are coming back from disk, or should soon.
    pub fn is_recalling(&self) -> bool {
        self.exporters.waiting.is_recalling_any()
    }

    /// Sends all sets in memory to disk, because this decoder ends.
    pub fn spool_all(&mut self) {
        self.exporters.move_waiting(i64::MAX);
    }

    /// What a decoder needs to decode the next datagram of every exporter: templates, samplers, when exporters
    /// started.
    pub fn export_state(&self) -> Vec<u8> {
        state::export(&self.exporters.domains, self.exporters.time.jumped_ms())
    }

    /// Whether the state should be exported again, by what has happened since this was last asked.
    pub(crate) fn take_changes(&mut self) -> Changes {
        self.exporters.take_changes()
    }

    /// Learns what decoders before this one have exported, any number of them one after the other. Of what two of
    /// them knew about a domain, or this one knows, the latest counts. The limits hold as ever.
    ///
    /// # Errors
    ///
    /// [`StateError`] where the octets are not such state; what comes before is learnt.
    pub fn import_state(&mut self, octets: &[u8]) -> Result<(), StateError> {
        self.import_state_of(octets, |_| true)
    }

    /// Learns what was exported of some sources: the decoders of a process each have their own.
    ///
    /// # Errors
    ///
    /// As [`import_state`](Self::import_state).
    pub fn import_state_of(&mut self, octets: &[u8], is_own: impl Fn(SocketAddr) -> bool) -> Result<(), StateError> {
        // when there are too many, those heard last are learnt
        let (stored, read) = state::read(octets, is_own);
        for domain in stored {
            self.exporters.restore(domain);
        }
        self.exporters.take_changes();
        read
    }
}

#[cfg(test)]
mod tests;
