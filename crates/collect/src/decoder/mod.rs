//! Export messages in, flows and books out. No I/O.

mod data;
mod domains;
mod protocols;
mod templates;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use weir_flow::{Beside, BooksBatch, Counter, Delivery, FlowBatchBuilder};
use weir_wire::{Spans, TemplateId, WireError};
use weir_wire::{ipfix, netflow5, netflow9};

use crate::Limits;
use crate::ledger::Ledger;
use crate::plan::{Plan, netflow5_template};
use crate::session::{Domain, DomainKey, Known, Session};
use crate::waiting::{HeldSet, WaitingRoom};

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

    /// Decodes one UDP datagram.
    pub fn datagram(&mut self, source: SocketAddr, received_ms: i64, payload: &[u8]) {
        self.message(Session::udp(source), received_ms, payload);
    }

    /// Decodes one message of a transport session.
    pub fn message(&mut self, session: Session, received_ms: i64, payload: &[u8]) {
        self.ledger.at(received_ms, &mut self.domains);
        let decoded = match payload.first_chunk::<2>().map(|version| u16::from_be_bytes(*version)) {
            Some(netflow5::VERSION) => self.netflow5(session, received_ms, payload),
            Some(netflow9::VERSION) => self.netflow9(session, received_ms, payload),
            Some(ipfix::VERSION) => self.ipfix(session, received_ms, payload),
            Some(found) => Err(WireError::WrongVersion { found }),
            None => Err(WireError::TruncatedHeader { need: 2, have: payload.len() as u32 }),
        };
        if let Err(error) = decoded {
            self.note(error);
            self.undecodable(session, payload);
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
        Delivery { flows, beside: Beside { books, ..Beside::default() } }
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
}
