//! Export messages in, flows and books out. No I/O.

mod data;
mod domains;
mod ends;
mod evict;
mod held;
mod lend;
mod protocols;
mod remembered;
mod samplers;
pub(crate) mod sflow;
mod templates;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use weir_flow::{BooksBatch, Counter, Delivery, FlowBatchBuilder, SideTables, Table};
use weir_wire::{Spans, TemplateId, WireError};
use weir_wire::{fixed, ipfix, netflow9};

use crate::Limits;
use crate::counters::CounterRows;
use crate::inspection::Diagnosis;
use crate::ledger::Ledger;
use crate::lists;
use crate::options::Options;
use crate::plan::fixed_template;
use crate::sequence::DatagramHasher;
use crate::session::{Domain, DomainKey, Known, Session};
use crate::spool::SetKey;
use crate::waiting::{HeldSet, Outbox, WaitingRoom};
use evict::Eviction;
use lend::Ports;
use remembered::Changes;
use samplers::ExporterSamplers;

/// Rows that a batch is expected to have: those of a delivery of the live collector, and a datagram's more.
const BATCH_ROWS: usize = 34_000;
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
    /// What records of NetFlow v1, v5 and v7 look like.
    fixed: [Option<Known>; fixed::FORMATS.len()],
    samplers: ExporterSamplers,
    options: Options,
    waiting: WaitingRoom,
    /// Sets whose template has come, still to be decoded: so many may have waited that they fill several deliveries.
    released: VecDeque<(u32, TemplateId, HeldSet)>,
    released_octets: usize,
    /// Whether there is a spool.
    spools: bool,
    outbox: Outbox,
    /// Sets on disk or on their way there.
    spooled: HashMap<SetKey, u64, foldhash::fast::RandomState>,
    spooled_sets: u64,
    /// Templates whose sets are coming back from disk, and since when, milliseconds since the epoch.
    recalling: HashMap<(u32, TemplateId), i64>,
    /// Templates known, and all their fields.
    templates: usize,
    template_fields: usize,
    /// Samplers known, and elements known to be lists because exporters said so.
    samplers_known: usize,
    lists_learned: usize,
    eviction: Eviction,
    template_eviction: Eviction,
    /// The domain last looked at for templates that have expired.
    swept: usize,
    /// Domains that may lend each other templates; `None` when that was not asked for.
    ports: Option<Ports>,
    state: Changes,
    /// The time of the last message or call, milliseconds since the epoch.
    now_ms: i64,
    ledger: Ledger,
    builder: FlowBatchBuilder,
    /// Rows of the tables beside the flows.
    counters: [CounterRows; 2],
    /// Sources of samples that are followed, of all sFlow agents.
    sources: usize,
    /// What the accounts of sequence numbers have not settled, of all domains.
    unsettled: usize,
    /// Octets of the Data Sets in the builder.
    octets: usize,
    spans: Spans,
    problems: [u64; WireError::LABELS.len()],
    ends: ends::Ends,
    hasher: DatagramHasher,
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

/// Whether a datagram begins like one of sFlow version 5.
pub(crate) fn is_sflow(payload: &[u8]) -> bool {
    payload.first_chunk().is_some_and(|version| u32::from_be_bytes(*version) == weir_wire::sflow::VERSION)
}

impl Decoder {
    /// A decoder that knows no exporter yet.
    pub fn new(limits: Limits) -> Self {
        let fixed = fixed::FORMATS.map(|format| {
            let template = fixed_template(format)?;
            Some(Known::new(template, format.version as u8, 0, lists::registered))
        });
        Self {
            limits,
            domains: Vec::new(),
            index: HashMap::default(),
            last: None,
            fixed,
            samplers: ExporterSamplers::default(),
            options: Options::default(),
            waiting: WaitingRoom::default(),
            released: VecDeque::new(),
            released_octets: 0,
            spools: false,
            outbox: Outbox::default(),
            spooled: HashMap::default(),
            spooled_sets: 0,
            recalling: HashMap::new(),
            templates: 0,
            template_fields: 0,
            samplers_known: 0,
            lists_learned: 0,
            eviction: Eviction::default(),
            template_eviction: Eviction::default(),
            swept: 0,
            ports: None,
            state: Changes::default(),
            now_ms: 0,
            ledger: Ledger::default(),
            builder: FlowBatchBuilder::new(BATCH_ROWS),
            counters: [Table::InterfaceCounters, Table::HostCounters].map(CounterRows::new),
            sources: 0,
            unsettled: 0,
            octets: 0,
            spans: Spans::default(),
            problems: [0; WireError::LABELS.len()],
            ends: ends::Ends::default(),
            hasher: DatagramHasher::default(),
        }
    }

    /// Flows gathered since the last delivery.
    pub fn rows(&self) -> usize {
        self.builder.rows()
    }

    /// Whether a delivery should be taken before more datagrams are decoded.
    pub fn is_full(&self) -> bool {
        self.builder.rows() >= DELIVERY_ROWS
            || self.octets >= DELIVERY_OCTETS
            || self.options.len() >= DELIVERY_ROWS
            || self.ledger.is_full()
    }

    /// Decodes one UDP datagram.
    pub fn datagram(&mut self, source: SocketAddr, received_ms: i64, payload: &[u8]) {
        self.message(Session::udp(source), received_ms, payload);
    }

    /// Decodes one message of a transport session.
    pub fn message(&mut self, session: Session, received_ms: i64, payload: &[u8]) {
        self.now_ms = received_ms;
        self.ledger.at(received_ms, &mut self.domains);
        self.decode_released();
        let decoded = match payload.first_chunk::<2>().map(|version| u16::from_be_bytes(*version)) {
            Some(netflow9::VERSION) => self.netflow9(session, received_ms, payload),
            Some(ipfix::VERSION) => self.ipfix(session, received_ms, payload),
            // sFlow has 32 bits for its version
            Some(0) if is_sflow(payload) => self.sflow(session, received_ms, payload),
            Some(found) => match fixed::format_of(found) {
                Some(format) => self.fixed_format(session, received_ms, payload, format),
                None => Err(WireError::WrongVersion { found }),
            },
            None => Err(WireError::TruncatedHeader { need: 2, have: payload.len() as u32 }),
        };
        if let Err(error) = decoded {
            self.note(error);
            self.undecodable(session, payload, error);
        }
        self.decode_released();
    }

    /// Hands out what was gathered; to be called until the delivery is empty, because sets that waited for their
    /// template may fill more than one.
    pub fn take_delivery(&mut self) -> Delivery {
        self.decode_released();
        self.octets = 0;
        let lines = self.ledger.take_lines(&mut self.domains);
        self.vacate();
        let flows = (self.builder.rows() > 0).then(|| self.builder.finish());
        let books = (!lines.is_empty()).then(|| BooksBatch::from_rows(&lines));
        let others = self.options.take().into_iter();
        let others = others.chain(self.counters.iter_mut().filter_map(CounterRows::finish)).collect();
        Delivery { flows, side_tables: SideTables { books, others } }
    }

    /// Gives up Data Sets that have waited too long, and templates that were not sent again.
    pub fn expire(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        self.ledger.at(now_ms, &mut self.domains);
        self.expire_waiting(now_ms);
        self.sweep_templates(now_ms);
    }

    /// Counts what is not known per exporter: drops of kernel and queue.
    pub fn count_unassigned(&mut self, received_ms: i64, counter: Counter, by: u64) {
        if by > 0 {
            self.ledger.at(received_ms, &mut self.domains);
            self.ledger.count_unassigned(counter, by);
        }
    }

    /// What was seen of each Observation Domain so far. Costs as much as there are domains.
    pub fn diagnoses(&self) -> Vec<Diagnosis> {
        self.domains.iter().map(Diagnosis::of).collect()
    }

    /// What was seen so far.
    pub fn statistics(&self) -> DecoderStatistics {
        let seen = WireError::LABELS.iter().copied().zip(self.problems);
        DecoderStatistics {
            totals: *self.ledger.totals(),
            problems: seen.filter(|(_, count)| *count > 0).collect(),
            domains: self.index.len(),
            sets_waiting: self.waiting.len() + self.released.len(),
            sets_spooled: self.spooled_sets,
            templates: self.templates,
            octets_kept: self.octets_kept(),
        }
    }
}

#[cfg(test)]
mod tests;
