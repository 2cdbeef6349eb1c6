//! What one Observation Domain shows in addition to its flows: its clock, its templates, its sampling.
//!
//! This is what [`crate::doctor`] judges. It is kept while decoding, at the cost of a few comparisons for each
//! datagram and none for each record.

use std::net::SocketAddr;

use weir_flow::Counter;

use crate::domain::Domain;
use crate::sampling::part::Parts;
use crate::sequence::{Arrival, SequenceUnit};
use crate::session::Session;
use crate::sparse_counts::Counts;

/// First octets of what could not be decoded that are kept.
pub const FOREIGN_OCTETS: usize = 16;
/// The exporter's start must stay within this many milliseconds.
const START_MOVES_MS: i64 = 5_000;
/// The uptime of 32 bits wraps after this many milliseconds.
const UPTIME_WRAP_MS: i64 = 1 << 32;

/// The smallest, the largest, the first and the last of a kind of values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Range {
    /// The first one.
    pub first: i64,
    /// The last one.
    pub last: i64,
    /// The smallest one.
    pub min: i64,
    /// The largest one.
    pub max: i64,
}

impl Range {
    fn of(value: i64) -> Self {
        Self { first: value, last: value, min: value, max: value }
    }

    fn add(&mut self, value: i64) {
        *self = Self { first: self.first, last: value, min: self.min.min(value), max: self.max.max(value) };
    }
}

/// What was seen of a domain.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inspection {
    received: Option<Range>,
    clock_offset: Option<Range>,
    start_ms: Option<i64>,
    starts_moved: u64,
    template_ms: Option<i64>,
    template_interval_max_ms: i64,
    templates_changed: u64,
    sampling_interval: Option<u32>,
    sampling_changed: u64,
    sampling_incomparable: u64,
    foreign: Vec<u8>,
}

impl Inspection {
    /// Notes the times of a datagram.
    #[inline]
    pub(crate) fn clock(&mut self, received_ms: i64, arrival: &Arrival) {
        self.received(received_ms);
        let offset_ms = arrival.export_ms.saturating_sub(received_ms);
        self.clock_offset.get_or_insert_with(|| Range::of(offset_ms)).add(offset_ms);
        let Some(uptime_ms) = arrival.uptime_ms else { return };
        let start_ms = arrival.export_ms - i64::from(uptime_ms);
        let moved_ms = start_ms - self.start_ms.replace(start_ms).unwrap_or(start_ms);
        let wraps = (moved_ms.abs() - UPTIME_WRAP_MS).abs() <= START_MOVES_MS;
        self.starts_moved += u64::from(moved_ms.abs() > START_MOVES_MS && !wraps);
    }

    #[inline]
    fn received(&mut self, received_ms: i64) {
        self.received.get_or_insert_with(|| Range::of(received_ms)).add(received_ms);
    }

    /// Notes a Template Record.
    pub(crate) fn template(&mut self, received_ms: i64, changed: bool) {
        let before_ms = self.template_ms.replace(received_ms).unwrap_or(received_ms);
        self.template_interval_max_ms = self.template_interval_max_ms.max(received_ms - before_ms);
        self.templates_changed += u64::from(changed);
    }

    /// Notes what options data reported about sampling, and how many rates of what no flow can be compared with: an
    /// exporter reports the same ones again and again. `now` is the one interval that the domain has, if it has just one.
    pub(crate) fn sampling(&mut self, now: Option<u32>, incomparable: u64) {
        let before = std::mem::replace(&mut self.sampling_interval, now);
        self.sampling_incomparable += incomparable;
        self.sampling_changed += u64::from(before.is_some() && now.is_some() && before != now);
    }

    /// Notes a datagram that could not be decoded.
    pub(crate) fn undecodable(&mut self, received_ms: i64, payload: &[u8]) {
        self.received(received_ms);
        if self.foreign.is_empty() {
            self.foreign = payload[..payload.len().min(FOREIGN_OCTETS)].to_vec();
        }
    }
}

/// What a decoder has seen of one Observation Domain of one transport session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// The transport session.
    pub session: Session,
    /// Address of the exporter, 4 or 16 octets, as flows and books have it.
    pub exporter: Vec<u8>,
    /// Version of the export protocol; of an unknown one the second octet of the datagram.
    pub version: u8,
    /// Observation Domain, source ID, or engine type and number.
    pub domain: u32,
    /// Its counters.
    pub totals: [u64; Counter::COUNT],
    /// When datagrams were received, milliseconds since the epoch.
    pub received_ms: Range,
    /// The exporter's clock less ours, milliseconds; `None` when no header could be read.
    pub clock_offset_ms: Option<Range>,
    /// How often the start of the exporter, export time less uptime, moved.
    pub starts_moved: u64,
    /// Longest time between Template Records, or since the last one.
    pub template_interval_max_ms: i64,
    /// Template Records that gave an ID other fields than before.
    pub templates_changed: u64,
    /// What options data reported about sampling.
    pub sampling: SamplingDiagnosis,
    /// What its sequence numbers look like.
    pub sequence: SequenceDiagnosis,
    /// The first octets of the first datagram that could not be decoded.
    pub foreign: Vec<u8>,
}

/// What options data of an Observation Domain reported about sampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SamplingDiagnosis {
    /// How often the one sampling interval of the domain changed.
    pub changes: u64,
    /// The sampling interval, when there is only one.
    pub interval: Option<u32>,
    /// Whether any sampling interval was reported.
    pub is_reported: bool,
    /// Sampling intervals reported for parts of the exporter, such as line cards, that no flow says it is of.
    pub unmatched: u64,
    /// How often sampling intervals were reported with a scope that no flow can be compared with, such as a cache.
    pub incomparable_reports: u64,
}

/// What the sequence numbers of an Observation Domain look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceDiagnosis {
    /// What they should count.
    pub unit_expected: SequenceUnit,
    /// What they count.
    pub unit_found: SequenceUnit,
    /// Datagrams whose number had no place in the sequence.
    pub strays: u64,
    /// Those that were in order among themselves while the others went on.
    pub interleaved: u64,
}

impl Diagnosis {
    /// What was seen of a domain that has counted this.
    pub(crate) fn of(domain: &Domain, totals: &Counts) -> Self {
        let seen = &domain.inspection;
        let received_ms = seen.received.unwrap_or_default();
        let since_ms = seen.template_ms.map_or(0, |at| received_ms.max - at);
        Self {
            session: domain.key.session,
            exporter: domain.exporter.to_vec(),
            version: domain.key.version,
            domain: domain.key.domain,
            totals: *totals,
            received_ms,
            clock_offset_ms: seen.clock_offset,
            starts_moved: seen.starts_moved,
            template_interval_max_ms: seen.template_interval_max_ms.max(since_ms),
            templates_changed: seen.templates_changed,
            sampling: SamplingDiagnosis {
                changes: seen.sampling_changed,
                interval: domain.samplers.only(),
                is_reported: !domain.samplers.is_empty(),
                unmatched: parts_unmatched(domain),
                incomparable_reports: seen.sampling_incomparable,
            },
            sequence: SequenceDiagnosis {
                unit_expected: domain.sequence.standard(),
                unit_found: domain.sequence.unit(),
                strays: domain.sequence.strays,
                interleaved: domain.sequence.interleaved,
            },
            foreign: seen.foreign.clone(),
        }
    }

    /// One counter.
    pub fn total(&self, counter: Counter) -> u64 {
        self.totals[counter as usize]
    }

    /// Address and port that the datagrams come from.
    pub fn source(&self) -> SocketAddr {
        self.session.source
    }
}

/// Samplers of parts that no template of flows has a field for, where there are templates of flows.
fn parts_unmatched(domain: &Domain) -> u64 {
    if domain.samplers.parts().is_empty() {
        return 0;
    }
    let of_flows = domain.templates.iter().filter(|known| !known.template.is_options());
    let named = of_flows.map(|known| known.plan(&domain.templates).selection.named()).reduce(Parts::or);
    named.map_or(0, |named| domain.samplers.narrow_besides(named))
}
