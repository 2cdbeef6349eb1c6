//! Datagrams in, flows and books out. No I/O.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use weir_flow::{BooksBatch, Column, Counter, Delivery, FlowBatchBuilder};
use weir_wire::{Set, Sets, Spans, Template, TemplateId, TemplateRecord, TemplateRecords, WireError};
use weir_wire::{ipfix, netflow5, netflow9};

use crate::Limits;
use crate::clock::{self, MessageClock};
use crate::columns::{self, Records};
use crate::ledger::Ledger;
use crate::plan::{Plan, netflow5_template};
use crate::sequence::Verdict;
use crate::session::{Domain, DomainKey, Known};
use crate::waiting::{HeldSet, WaitingRoom};

/// Most records that fit into a UDP datagram; a header that counts more is wrong about it.
const NETFLOW5_RECORDS_MAX: u16 = ((65_507 - netflow5::HEADER_LEN) / netflow5::RECORD_LEN) as u16;
/// Rows that a batch is expected to have.
const BATCH_ROWS: usize = 16_384;
/// Rows from which on a delivery should be taken before more is decoded.
const DELIVERY_ROWS: usize = 65_536;
/// Octets of Data Sets from which on the same holds: records may be wide, or have many elements without a column.
const DELIVERY_OCTETS: usize = 4 << 20;

/// Decodes the datagrams of any number of exporters.
///
/// Flows gather until [`Decoder::take_delivery`] hands them out together with the lines of the books that account
/// for them.
#[derive(Debug)]
pub struct Decoder {
    limits: Limits,
    domains: Vec<Domain>,
    index: HashMap<DomainKey, u32, foldhash::fast::RandomState>,
    /// The domain of the last datagram: exporters send in runs.
    last: Option<(DomainKey, u32)>,
    netflow5: Option<Known>,
    waiting: WaitingRoom,
    /// Sets whose template has come, still to be decoded: so many may have waited that they fill several deliveries.
    released: VecDeque<(u32, TemplateId, HeldSet)>,
    /// Fields of all templates known.
    template_fields: usize,
    ledger: Ledger,
    builder: FlowBatchBuilder,
    /// Octets of the Data Sets in the builder.
    octets: usize,
    spans: Spans,
    problems: [u64; WireError::LABELS.len()],
}

/// What a decoder has seen since it began.
#[derive(Debug, Clone)]
pub struct DecoderStatistics {
    /// Every counter of the books, over all exporters.
    pub totals: [u64; Counter::COUNT],
    /// Errors by [`WireError::label`], those that occurred.
    pub problems: Vec<(&'static str, u64)>,
    /// Pairs of transport session and Observation Domain seen.
    pub domains: usize,
    /// Data Sets that wait for their template now.
    pub sets_waiting: usize,
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
        let netflow5 = netflow5_template().map(|template| Known { plan: Plan::compile(&template, true), template });
        Self {
            limits,
            domains: Vec::new(),
            index: HashMap::default(),
            last: None,
            netflow5,
            waiting: WaitingRoom::default(),
            released: VecDeque::new(),
            template_fields: 0,
            ledger: Ledger::default(),
            builder: FlowBatchBuilder::new(BATCH_ROWS),
            octets: 0,
            spans: Spans::default(),
            problems: [0; WireError::LABELS.len()],
        }
    }

    /// Flows gathered since the last delivery.
    pub fn rows(&self) -> usize {
        self.builder.rows()
    }

    /// Whether a delivery should be taken before more datagrams are decoded.
    pub fn is_full(&self) -> bool {
        self.builder.rows() >= DELIVERY_ROWS || self.octets >= DELIVERY_OCTETS
    }

    /// Decodes one datagram.
    pub fn datagram(&mut self, source: SocketAddr, received_ms: i64, payload: &[u8]) {
        self.ledger.at(received_ms, &mut self.domains);
        let decoded = match payload.first_chunk::<2>().map(|version| u16::from_be_bytes(*version)) {
            Some(netflow5::VERSION) => self.netflow5(source, received_ms, payload),
            Some(netflow9::VERSION) => self.netflow9(source, received_ms, payload),
            Some(ipfix::VERSION) => self.ipfix(source, received_ms, payload),
            Some(found) => Err(WireError::WrongVersion { found }),
            None => Err(WireError::TruncatedHeader { need: 2, have: payload.len() as u32 }),
        };
        if let Err(error) = decoded {
            self.note(error);
            self.undecodable(source, payload);
        }
        self.decode_released();
    }

    /// Hands out what was gathered; to be called until the delivery is empty, because sets that waited for their
    /// template may fill more than one.
    pub fn take_delivery(&mut self) -> Delivery {
        self.decode_released();
        self.octets = 0;
        let lines = self.ledger.take_lines(&mut self.domains);
        let flows = (self.builder.rows() > 0).then(|| self.builder.finish());
        let books = (!lines.is_empty()).then(|| BooksBatch::from_rows(&lines));
        Delivery { flows, books }
    }

    /// Gives up Data Sets that have waited too long.
    pub fn expire(&mut self, now_ms: i64) {
        let (ledger, domains) = (&mut self.ledger, &mut self.domains);
        self.waiting.expire(now_ms, &self.limits, |index| {
            if let Some(domain) = domains.get_mut(index as usize) {
                ledger.count(index, domain, Counter::SetsExpired, 1);
            }
        });
    }

    /// Counts what is not known per exporter: drops of kernel and queue.
    pub fn count_unassigned(&mut self, received_ms: i64, counter: Counter, by: u64) {
        if by > 0 {
            self.ledger.at(received_ms, &mut self.domains);
            self.ledger.count_unassigned(counter, by);
        }
    }

    /// What was seen so far.
    pub fn statistics(&self) -> DecoderStatistics {
        let seen = WireError::LABELS.iter().copied().zip(self.problems);
        DecoderStatistics {
            totals: *self.ledger.totals(),
            problems: seen.filter(|(_, count)| *count > 0).collect(),
            domains: self.domains.len(),
            sets_waiting: self.waiting.len() + self.released.len(),
        }
    }

    fn netflow5(&mut self, source: SocketAddr, received_ms: i64, payload: &[u8]) -> Result<(), WireError> {
        let packet = netflow5::decode(payload)?;
        let header = packet.header;
        let domain = u32::from(header.engine_type) << 8 | u32::from(header.engine_id);
        let Some(index) = self.enter(DomainKey { source, version: 5, domain }, payload) else { return Ok(()) };
        let records = (packet.records.len() / netflow5::RECORD_LEN) as u32;
        // A datagram cut short still tells how many flows the exporter has sent, unless no datagram could hold them.
        let units = (header.count <= NETFLOW5_RECORDS_MAX).then_some(u32::from(header.count));
        self.follow(index, header.flow_sequence, units, records);
        self.note_in_set(index, packet.problem);
        let clock = MessageClock {
            received_ms,
            export_ms: i64::from(header.unix_secs) * 1000 + i64::from(header.unix_nsecs / 1_000_000),
            uptime_ms: Some(header.sys_uptime_ms),
        };
        let Some(known) = &self.netflow5 else { return Ok(()) };
        let located = known.template.layout().locate(packet.records, &mut self.spans);
        let rows = Records { body: packet.records, located: &located };
        append(&mut self.builder, &self.domains[index as usize], known, rows, &clock);
        if rows.len() > 0 {
            self.builder.u8(Column::EngineType).repeat(header.engine_type, rows.len());
            self.builder.u8(Column::EngineId).repeat(header.engine_id, rows.len());
            if header.sampling_interval() > 0 {
                self.builder.u32(Column::SamplingInterval).repeat(u32::from(header.sampling_interval()), rows.len());
            }
        }
        self.count(index, Counter::RecordsStored, u64::from(records));
        Ok(())
    }

    fn netflow9(&mut self, source: SocketAddr, received_ms: i64, payload: &[u8]) -> Result<(), WireError> {
        let message = netflow9::decode(payload)?;
        let header = message.header;
        let key = DomainKey { source, version: 9, domain: header.source_id.0 };
        let Some(index) = self.enter(key, payload) else { return Ok(()) };
        self.follow(index, header.sequence, Some(1), 1);
        let clock = MessageClock {
            received_ms,
            export_ms: i64::from(header.unix_secs) * 1000,
            uptime_ms: Some(header.sys_uptime_ms),
        };
        self.sets(index, message.sets, &clock);
        Ok(())
    }

    fn ipfix(&mut self, source: SocketAddr, received_ms: i64, payload: &[u8]) -> Result<(), WireError> {
        let message = ipfix::decode(payload)?;
        let header = message.header;
        let key = DomainKey { source, version: 10, domain: header.domain.0 };
        let Some(index) = self.enter(key, payload) else { return Ok(()) };
        self.note_in_set(index, message.problem);
        let export_ms = i64::from(header.export_time_secs) * 1000;
        let units = self.sets(index, message.sets, &MessageClock { received_ms, export_ms, uptime_ms: None });
        self.follow(index, header.sequence, units, units.unwrap_or(0));
        Ok(())
    }

    /// Decodes sets. Returns the number of data records, or `None` when some could not be told apart.
    fn sets(&mut self, index: u32, sets: Sets<'_>, clock: &MessageClock) -> Option<u32> {
        let mut units = Some(0);
        for set in sets {
            match set {
                Ok(Set::Templates(records)) => self.templates(index, records, false),
                Ok(Set::OptionsTemplates(records)) => self.templates(index, records, true),
                Ok(Set::Data { template, body }) => {
                    let records = self.data(index, template, body, clock);
                    units = units.zip(records).map(|(units, records): (u32, u32)| units + records);
                }
                Ok(Set::Reserved { .. }) => self.count(index, Counter::SetsReserved, 1),
                Err(error) => {
                    self.note_in_set(index, Some(error));
                    units = None;
                }
            }
        }
        units
    }

    fn templates(&mut self, index: u32, records: TemplateRecords<'_>, options: bool) {
        for record in records {
            match record {
                Ok(TemplateRecord::Define(template)) => self.define(index, template),
                Ok(TemplateRecord::Withdraw(id)) => self.withdraw(index, |known| known.template.id() == id),
                // RFC 7011 section 8.1: all templates of the set's kind
                Ok(TemplateRecord::WithdrawAll) => {
                    self.withdraw(index, |known| known.template.is_options() == options);
                }
                Err(error) => self.note_in_set(index, Some(error)),
            }
        }
    }

    fn withdraw(&mut self, index: u32, is_meant: impl Fn(&Known) -> bool) {
        let mut fields = 0;
        self.domains[index as usize].templates.retain(|_, known| {
            let stays = !is_meant(known);
            fields += if stays { 0 } else { known.template.fields().len() };
            stays
        });
        self.template_fields -= fields;
        self.count(index, Counter::TemplatesWithdrawn, 1);
    }

    fn define(&mut self, index: u32, template: Template) {
        self.count(index, Counter::Templates, 1);
        let id = template.id();
        let domain = &mut self.domains[index as usize];
        let (templates, header_uptime) = (&mut domain.templates, domain.key.version != 10);
        if templates.get(&id).is_some_and(|known| known.template == template) {
            return;
        }
        let replaced = templates.get(&id).map_or(0, |known| known.template.fields().len());
        let fields = self.template_fields - replaced + template.fields().len();
        let too_many = templates.len() >= self.limits.templates_per_domain_max && replaced == 0;
        if too_many || fields > self.limits.template_fields_max {
            return self.count(index, Counter::TemplatesRefused, 1);
        }
        templates.insert(id, Known { plan: Plan::compile(&template, header_uptime), template });
        self.template_fields = fields;
        let released = self.waiting.release(index, id);
        self.released.extend(released.into_iter().map(|set| (index, id, set)));
    }

    /// Decodes sets that no longer wait, as many as a delivery holds.
    fn decode_released(&mut self) {
        while !self.is_full()
            && let Some((index, id, set)) = self.released.pop_front()
        {
            self.count(index, Counter::SetsWaitingOut, 1);
            self.data(index, id, &set.body, &set.clock);
        }
    }

    /// Decodes a Data Set, or puts it aside. Returns the number of records when it is known.
    fn data(&mut self, index: u32, id: TemplateId, body: &[u8], clock: &MessageClock) -> Option<u32> {
        let domain = &mut self.domains[index as usize];
        let Some(known) = domain.templates.get(&id) else {
            self.waiting.hold(index, id, *clock, body);
            self.count(index, Counter::SetsWaitingIn, 1);
            self.expire(clock.received_ms);
            return None;
        };
        self.octets += body.len();
        let located = known.template.layout().locate(body, &mut self.spans);
        let (rows, problem) = (located.records, located.problem);
        let records = Records { body, located: &located };
        let counter = if known.template.is_options() {
            domain.samplers.learn(&known.template, records);
            domain.system_init_ms = clock::system_init_ms(&known.template, records).or(domain.system_init_ms);
            Counter::RecordsOptions
        } else {
            let clock = clock.with_system_init(domain.system_init_ms);
            append(&mut self.builder, domain, known, records, &clock);
            Counter::RecordsStored
        };
        self.count(index, counter, rows as u64);
        self.note_in_set(index, problem);
        if problem.is_some() { None } else { u32::try_from(rows).ok() }
    }

    /// Garbage may fill half of the room for domains, so that it cannot keep real exporters out.
    fn undecodable(&mut self, source: SocketAddr, payload: &[u8]) {
        let version = payload.get(1).copied().unwrap_or(0);
        let key = DomainKey { source, version, domain: 0 };
        if self.domains.len() >= self.limits.domains_max / 2 && !self.index.contains_key(&key) {
            self.ledger.count_unassigned(Counter::DatagramsRefused, 1);
        } else if let Some(index) = self.enter(key, payload) {
            self.count(index, Counter::DatagramsUndecodable, 1);
        }
    }

    /// Finds or makes the domain that a datagram belongs to, and counts the datagram. `None` when there are too many.
    fn enter(&mut self, key: DomainKey, payload: &[u8]) -> Option<u32> {
        let index = match self.last {
            Some((last, index)) if last == key => index,
            _ => self.find(key)?,
        };
        self.last = Some((key, index));
        self.count(index, Counter::Datagrams, 1);
        self.count(index, Counter::Octets, payload.len() as u64);
        Some(index)
    }

    fn find(&mut self, key: DomainKey) -> Option<u32> {
        if let Some(&index) = self.index.get(&key) {
            return Some(index);
        }
        if self.domains.len() >= self.limits.domains_max {
            self.ledger.count_unassigned(Counter::DatagramsRefused, 1);
            return None;
        }
        let index = self.domains.len() as u32;
        self.domains.push(Domain::new(key));
        self.index.insert(key, index);
        Some(index)
    }

    /// Follows the sequence number; `units` is what the number counts, `present` how many of them are here.
    fn follow(&mut self, index: u32, sequence: u32, units: Option<u32>, present: u32) {
        let domain = &mut self.domains[index as usize];
        let datagrams = domain.key.version == 9;
        let verdict = domain.sequence.observe(sequence, units);
        let (counter, by) = match verdict {
            Verdict::InOrder => return,
            Verdict::Lost(units) if datagrams => (Counter::DatagramsLost, units),
            Verdict::Lost(units) => (Counter::RecordsLost, units),
            Verdict::Late if datagrams => (Counter::DatagramsLate, 1),
            Verdict::Late => (Counter::RecordsLate, present),
            Verdict::Reset => (Counter::SequenceResets, 1),
        };
        self.count(index, counter, u64::from(by));
    }

    #[inline]
    fn count(&mut self, index: u32, counter: Counter, by: u64) {
        self.ledger.count(index, &mut self.domains[index as usize], counter, by);
    }

    fn note(&mut self, error: WireError) {
        let label = error.label();
        if let Some(position) = WireError::LABELS.iter().position(|known| *known == label) {
            self.problems[position] += 1;
        }
    }

    fn note_in_set(&mut self, index: u32, problem: Option<WireError>) {
        if let Some(error) = problem {
            self.note(error);
            self.count(index, Counter::SetsUndecodable, 1);
        }
    }
}

/// Appends the records of a set as flows.
fn append(builder: &mut FlowBatchBuilder, domain: &Domain, known: &Known, records: Records<'_>, clock: &MessageClock) {
    let rows = records.len();
    if rows == 0 {
        return;
    }
    builder.begin_rows(rows);
    builder.time(Column::Received).repeat(clock.received_ms, rows);
    builder.address(Column::Exporter).repeat(&domain.exporter, rows);
    builder.u32(Column::ObservationDomain).repeat(domain.key.domain, rows);
    builder.u8(Column::ExportVersion).repeat(domain.key.version, rows);
    columns::write(&known.plan, records, clock, builder);
    if known.plan.tells_sampling || domain.samplers.is_empty() {
        return;
    }
    let sampling = builder.u32(Column::SamplingInterval);
    match known.plan.sampler_field {
        Some(field) => (0..rows).for_each(|row| {
            sampling.push(records.number(field, row).and_then(|sampler| domain.samplers.of(sampler)));
        }),
        None => match domain.samplers.only() {
            Some(interval) => sampling.repeat(interval, rows),
            None => (0..rows).for_each(|_| sampling.push(None)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A NetFlow v5 datagram of one record whose header counts `count`.
    fn netflow5_datagram(flow_sequence: u32, count: u16) -> Vec<u8> {
        let mut datagram = Vec::new();
        let header = netflow5::Header { flow_sequence, ..netflow5::Header::default() };
        let mut packet = netflow5::PacketBuilder::new(&mut datagram, &header);
        packet.record(&netflow5::Record::default()).expect("fits");
        packet.finish();
        datagram[2..4].copy_from_slice(&count.to_be_bytes());
        datagram
    }

    #[test]
    fn a_count_that_cannot_be_is_not_believed() {
        let mut decoder = Decoder::new(Limits::default());
        let source = SocketAddr::from(([192, 0, 2, 1], 2055));
        for (sequence, count) in [(100, 1), (101, 55_582), (102, 1), (103, 30), (133, 1)] {
            decoder.datagram(source, 0, &netflow5_datagram(sequence, count));
        }
        let statistics = decoder.statistics();
        assert_eq!(statistics.total(Counter::RecordsStored), 5);
        assert_eq!(statistics.total(Counter::SetsUndecodable), 2);
        assert_eq!((statistics.total(Counter::RecordsLost), statistics.total(Counter::RecordsLate)), (0, 0));
    }
}
