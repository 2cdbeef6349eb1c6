//! sFlow: every flow sample is one flow of one packet.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, SocketAddr};

use weir_flow::{Column, Counter, EXPORT_VERSION_SFLOW5};
use weir_wire::sflow::record::{Gateway, SampledHeader, Side};
use weir_wire::sflow::{self, CountersSample, DataSource, FlowRecord, FlowSample, Header, Record, Sample, Samples};
use weir_wire::{WireError, packet};

use super::tables::Tables;
use crate::counters::SampleOrigin;
use crate::domain::{Domain, DomainKey};
use crate::observed::{self, ObservedPacket};
use crate::sequence::{Arrival, Outcome, Sequence, SequenceUnit};
use crate::session::Session;
use crate::shares::Shares;

/// Structures of sFlow that no column holds are kept among the elements as they came, under this bit and the
/// enterprise of the structure, with its format as the element's number. IANA assigns no enterprise up there.
const STRUCTURES: u32 = 1 << 31;

/// The address that a datagram came from, among the elements: exporterIPv4Address and exporterIPv6Address.
const EXPORTER_IPV4_ADDRESS: u16 = 130;
const EXPORTER_IPV6_ADDRESS: u16 = 131;

/// Whose samples have numbers of their own. A source numbers what it discards apart from what it samples, and has a count of
/// drops for each (`discarded_packet` in "sFlow Dropped Packet Notification Structures").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SampleSource {
    source: DataSource,
    is_of_discards: bool,
}

impl SampleSource {
    fn of_flow_sample(sample: &FlowSample<'_>) -> Self {
        Self { source: sample.source, is_of_discards: sample.drop_reason.is_some() }
    }

    fn of_counters_sample(sample: &CountersSample<'_>) -> Self {
        Self { source: sample.source, is_of_discards: false }
    }
}

/// What is followed of one source of samples: of the kinds that it sends.
#[derive(Debug, Clone, Default)]
pub(crate) struct Source {
    flow_samples: Option<Box<Sequence>>,
    counter_samples: Option<Box<Sequence>>,
    /// The source's own count of samples dropped, at its last sample.
    drops: Option<u32>,
}

/// Takes the next sample of a kind.
fn observe(sequence: &mut Option<Box<Sequence>>, arrival: &Arrival) -> Outcome {
    sequence.get_or_insert_with(|| Box::new(Sequence::new(SequenceUnit::Datagrams))).observe(arrival)
}

/// Samples that a datagram has in most networks, at most.
const SAMPLES_EXPECTED: usize = 16;
/// An agent's start, received time less uptime, may seem to move by this much, in milliseconds.
const START_MOVES_MS: i64 = 5_000;

/// What is followed of an agent, or of one of its sub-agents.
#[derive(Debug, Default)]
pub(crate) struct AgentState {
    sources: HashMap<SampleSource, Source, foldhash::fast::RandomState>,
    /// When the agent started, milliseconds since the epoch by our clock.
    start_ms: Option<i64>,
    /// Who sends for it: the sources of samples are part of that sender's share, whatever agents it names.
    sender: Option<IpAddr>,
}

impl AgentState {
    /// Sources that are followed.
    pub(super) fn sources(&self) -> usize {
        self.sources.len()
    }

    /// When a datagram was sent. sFlow has no clock but the uptime, so the agent's start is taken from when it was
    /// first heard; it moves when the agent starts again.
    fn export_ms(&mut self, received_ms: i64, uptime_ms: u32) -> i64 {
        let start_ms = received_ms - i64::from(uptime_ms);
        let known = self.start_ms.filter(|known| (known - start_ms).abs() <= START_MOVES_MS);
        *self.start_ms.insert(known.unwrap_or(start_ms)) + i64::from(uptime_ms)
    }
}

/// The sources of samples that are followed, of all agents. They are kept in the domains.
#[derive(Debug)]
pub(super) struct SampleSources {
    max: usize,
    known: usize,
    shares: Shares,
}

impl SampleSources {
    /// None yet; this many at most.
    pub(super) fn new(max: usize) -> Self {
        Self { max, known: 0, shares: Shares::of(max) }
    }

    /// Sources that are followed.
    pub(super) fn known(&self) -> usize {
        self.known
    }

    /// Forgets those of a domain that is about to be forgotten.
    pub(super) fn forget(&mut self, domain: &Domain) {
        self.known -= domain.agent.sources();
        if let Some(sender) = domain.agent.sender {
            self.shares.give_back(sender, domain.agent.sources());
        }
    }

    /// What is followed of a source. `None` when there are too many, of all or of this sender.
    fn follow<'a>(
        &mut self,
        (agent, sender, is_own): (&'a mut AgentState, IpAddr, bool),
        source: SampleSource,
    ) -> Option<&'a mut Source> {
        let AgentState { sources, sender: charged, .. } = agent;
        let known = sources.len();
        match sources.entry(source) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(vacant) => {
                // an agent that speaks for itself takes over what others have sent in its name
                if let Some(other) = charged.filter(|other| is_own && *other != sender) {
                    self.shares.give_back(other, known);
                    self.shares.take(sender, known);
                    *charged = Some(sender);
                }
                let payer = charged.unwrap_or(sender);
                if self.known >= self.max || self.shares.left(payer) == 0 {
                    return None;
                }
                *charged = Some(payer);
                self.known += 1;
                self.shares.take(payer, 1);
                Some(vacant.insert(Source::default()))
            }
        }
    }
}

/// What the sequence numbers of samples of one kind show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct MissingSamples {
    lost: u64,
    late: u64,
}

impl MissingSamples {
    fn add(&mut self, outcome: Outcome) {
        self.lost += u64::from(outcome.lost);
        self.late += u64::from(outcome.late) + outcome.taken_back;
    }
}

/// What was decoded of the samples of a datagram.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DecodedSamples {
    /// Flow samples, each a flow.
    pub flows: u64,
    pub errors: Vec<WireError>,
    counters_stored: u64,
    structures_skipped: u64,
    missing_flows: MissingSamples,
    missing_counters: MissingSamples,
    dropped: u64,
    sources_refused: u64,
}

impl DecodedSamples {
    /// What of it the books count, in addition to flows and errors.
    pub(super) fn counts(&self) -> [(Counter, u64); 8] {
        [
            (Counter::CountersStored, self.counters_stored),
            (Counter::StructuresSkipped, self.structures_skipped),
            (Counter::SamplesLost, self.missing_flows.lost),
            (Counter::SamplesLate, self.missing_flows.late),
            (Counter::CounterSamplesLost, self.missing_counters.lost),
            (Counter::CounterSamplesLate, self.missing_counters.late),
            (Counter::SamplesDropped, self.dropped),
            (Counter::SourcesRefused, self.sources_refused),
        ]
    }
}

/// Whether a datagram begins like one of sFlow version 5.
pub(crate) fn is_sflow(payload: &[u8]) -> bool {
    payload.first_chunk().is_some_and(|version| u32::from_be_bytes(*version) == sflow::VERSION)
}

/// The domain of a datagram. Relays hide the source address of datagrams, which is why agents put theirs into the
/// header.
pub(super) fn domain_key(session: Session, header: &Header<'_>) -> DomainKey {
    let session = match weir_flow::address::to_ip(header.agent).as_ref().map(IpAddr::to_canonical) {
        Some(agent) if !agent.is_unspecified() => Session::udp(SocketAddr::new(agent, 0)),
        _ => session,
    };
    DomainKey { session, version: EXPORT_VERSION_SFLOW5, domain: header.sub_agent }
}

/// What a datagram is for the account of sequence numbers.
pub(super) fn arrival(agent: &mut AgentState, received_ms: i64, header: &Header<'_>) -> Arrival {
    let export_ms = agent.export_ms(received_ms, header.uptime_ms);
    let (sequence, uptime_ms) = (header.sequence, Some(header.uptime_ms));
    Arrival { sequence, records: 1, all_records: 1, complete: true, received_ms, export_ms, uptime_ms }
}

/// Decodes the samples of a datagram of a domain.
pub(super) struct SampleDecoder<'d> {
    pub domain: &'d mut Domain,
    pub sources: &'d mut SampleSources,
    pub tables: &'d mut Tables,
    pub received_ms: i64,
    /// That of the datagram.
    pub arrival: Arrival,
    /// Where the datagram came from, when that is not the agent that it names: whoever may send can speak for any.
    pub sender: Option<IpAddr>,
}

impl SampleDecoder<'_> {
    /// Decodes samples; of those that cannot be decoded, the errors are returned.
    pub(super) fn decode(&mut self, header: &Header<'_>, samples: Samples<'_>) -> DecodedSamples {
        let mut decoded = DecodedSamples::default();
        let expected = (header.samples as usize).min(SAMPLES_EXPECTED);
        let (mut rows, mut records) = (Vec::with_capacity(expected), Vec::with_capacity(expected));
        for sample in samples {
            match sample {
                Ok(Sample::Flow(sample) | Sample::Discarded(sample)) => {
                    self.follow_flow_samples(&sample, &mut decoded);
                    rows.push(ObservedPacket::default());
                    if let Some(row) = rows.last_mut() {
                        read_flow_sample(&sample, row, &mut decoded);
                    }
                    records.push(sample.records);
                }
                Ok(Sample::Counters(sample)) => {
                    self.follow_counter_samples(&sample, &mut decoded);
                    self.counters_sample(&sample, header.uptime_ms, &mut decoded);
                }
                Ok(Sample::Unknown { .. }) => decoded.structures_skipped += 1,
                Err(error) => decoded.errors.push(error),
            }
        }
        decoded.flows = rows.len() as u64;
        self.append_flows(&rows, records);
        decoded
    }

    fn append_flows(&mut self, rows: &[ObservedPacket<'_>], records: Vec<sflow::Records<'_>>) {
        let count = rows.len();
        if count == 0 {
            return;
        }
        let (domain, builder) = (&self.domain, &mut self.tables.flows);
        builder.begin_rows(count);
        for column in [Column::Received, Column::Start, Column::End] {
            builder.time(column).repeat(self.received_ms, count);
        }
        builder.address(Column::Exporter).repeat(&domain.exporter, count);
        builder.u32(Column::ObservationDomain).repeat(domain.key.domain, count);
        builder.u8(Column::ExportVersion).repeat(domain.key.version, count);
        builder.u64(Column::Packets).repeat(1, count);
        observed::write(rows, builder, &|_| false);
        let target = builder.elements();
        for (row, records) in rows.iter().zip(records) {
            observed::push_elements(row, target);
            if let Some(sender) = self.sender {
                let id = if sender.is_ipv4() { EXPORTER_IPV4_ADDRESS } else { EXPORTER_IPV6_ADDRESS };
                weir_flow::address::with_octets(sender, |octets| target.push(0, id, octets));
            }
            for record in records.flatten() {
                push_record(&record, target);
            }
            target.end_row();
        }
    }

    /// A sample may have counters of an interface and of a host; each table gets a row of its own.
    fn counters_sample(&mut self, sample: &CountersSample<'_>, uptime_ms: u32, decoded: &mut DecodedSamples) {
        let mut records = Vec::new();
        for record in sample.records.clone() {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    decoded.errors.push(error);
                    continue;
                }
            };
            decoded.errors.extend(record.check_counters().err());
            if self.tables.has_counters(&record) {
                records.push(record);
            } else {
                decoded.structures_skipped += 1;
            }
        }
        let origin = SampleOrigin {
            received_ms: self.received_ms,
            exporter: &self.domain.exporter,
            sub_agent: self.domain.key.domain,
            source: sample.source,
            uptime_ms,
            sender: self.sender,
        };
        self.tables.counters(&origin, &records);
        // one without a row is what its records are: skipped, or damaged
        decoded.counters_stored += u64::from(!records.is_empty());
    }

    /// Who sends, and whether that is the agent itself.
    fn sender(&self) -> (IpAddr, bool) {
        (self.sender.unwrap_or(self.domain.key.session.source.ip()), self.sender.is_none())
    }

    /// Follows the sequence number of a source's flow samples, or of its discarded packets, and its own count of those that it
    /// could not make.
    fn follow_flow_samples(&mut self, sample: &FlowSample<'_>, decoded: &mut DecodedSamples) {
        let (sender, is_own) = self.sender();
        let followed = SampleSource::of_flow_sample(sample);
        let Some(source) = self.sources.follow((&mut self.domain.agent, sender, is_own), followed) else {
            decoded.sources_refused += 1;
            return;
        };
        let arrival = Arrival { sequence: sample.sequence, ..self.arrival };
        let outcome = observe(&mut source.flow_samples, &arrival);
        decoded.missing_flows.add(outcome);
        if outcome.reordered {
            // its count is an older one, and would make the next count again
            return;
        }
        let before = source.drops.replace(sample.drops);
        // A count that went back is that of an agent that has started again.
        let grown = before.map_or(0, |before| sample.drops.wrapping_sub(before));
        if grown < 1 << 31 {
            decoded.dropped += u64::from(grown);
        }
    }

    /// Follows the sequence number of a source's counters samples: a flow is not missing with any of them.
    fn follow_counter_samples(&mut self, sample: &CountersSample<'_>, decoded: &mut DecodedSamples) {
        let (sender, is_own) = self.sender();
        let followed = SampleSource::of_counters_sample(sample);
        match self.sources.follow((&mut self.domain.agent, sender, is_own), followed) {
            Some(source) => {
                let arrival = Arrival { sequence: sample.sequence, ..self.arrival };
                decoded.missing_counters.add(observe(&mut source.counter_samples, &arrival));
            }
            None => decoded.sources_refused += 1,
        }
    }
}

/// Reads the records of a sample.
fn read_flow_sample<'a>(sample: &FlowSample<'a>, row: &mut ObservedPacket<'a>, decoded: &mut DecodedSamples) {
    row.in_if = sample.input.index();
    row.out_if = sample.output.index();
    row.sampling_interval = sample.sampling_rate.filter(|rate| *rate > 0);
    row.observation_point = Some(u64::from(sample.source.class) << 32 | u64::from(sample.source.index));
    row.direction = direction(sample);
    row.forwarding_status = sample.drop_reason.or(sample.output.discarded()).map(forwarding_status);
    for record in sample.records.clone() {
        match record.and_then(|record| record.flow()) {
            Ok(FlowRecord::Unknown) => decoded.structures_skipped += 1,
            Ok(record) => take(row, &record),
            Err(error) => decoded.errors.push(error),
        }
    }
}

/// Takes from a record what has a column.
fn take<'a>(row: &mut ObservedPacket<'a>, record: &FlowRecord<'a>) {
    match *record {
        FlowRecord::Header(header) => take_header(row, &header),
        FlowRecord::Ethernet(ethernet) => {
            row.frame_octets.get_or_insert(ethernet.length);
            let headers = &mut headers_of(row).outer;
            headers.macs.get_or_insert(packet::Macs { source: ethernet.source, destination: ethernet.destination });
            headers.ethertype = headers.ethertype.or(u16::try_from(ethernet.ethertype).ok());
        }
        FlowRecord::Ip(ip) => {
            row.bytes.get_or_insert(ip.length.into());
            let headers = &mut headers_of(row).outer;
            if headers.ip.is_none() {
                headers.ip = Some(ip.header());
                headers.ports = ip.ports();
                headers.tcp_flags = ip.tcp_flags();
            }
        }
        FlowRecord::Switch { source_vlan, destination_vlan, .. } => {
            row.src_vlan = vlan(source_vlan);
            row.dst_vlan = vlan(destination_vlan);
        }
        FlowRecord::Router { next_hop, source_mask, destination_mask } => {
            row.route.next_hop = next_hop;
            row.route.src_mask = u8::try_from(source_mask).ok();
            row.route.dst_mask = u8::try_from(destination_mask).ok();
        }
        FlowRecord::Gateway(gateway) => take_gateway(row, &gateway),
        FlowRecord::Nat { source, destination } => {
            (row.translation.src_addr, row.translation.dst_addr) = (source, destination);
        }
        FlowRecord::NatPorts { source, destination } => {
            row.translation.src_port = u16::try_from(source).ok();
            row.translation.dst_port = u16::try_from(destination).ok();
        }
        _ => {}
    }
}

/// The header itself, and how long the packet was.
fn take_header<'a>(row: &mut ObservedPacket<'a>, header: &SampledHeader<'a>) {
    row.frame_octets.get_or_insert(header.frame_length);
    let Some(link) = header.link_type() else { return };
    let packet = headers_of(row);
    packet::dissect_into(link, header.header, packet);
    let before = packet.link_octets(header.header) as u32;
    let carried = header.frame_length.saturating_sub(header.stripped).saturating_sub(before);
    let ip_octets = ObservedPacket::ip_octets(packet);
    row.bytes = ip_octets.or(Some(carried.into()));
}

/// The headers of a packet of which the agent sends no octets.
fn headers_of<'r, 'a>(row: &'r mut ObservedPacket<'a>) -> &'r mut packet::Packet<'a> {
    row.packet.get_or_insert_default()
}

/// The path names both neighbours: the one that the source was learnt from, and the one that leads to the destination.
fn take_gateway<'a>(row: &mut ObservedPacket<'a>, gateway: &Gateway<'a>) {
    row.route.bgp_next_hop = gateway.next_hop;
    row.route.src_as = Some(gateway.source_as);
    row.route.prev_as = Some(gateway.source_peer_as);
    // Without a path the destination is in the router's own autonomous system.
    row.route.dst_as = Some(gateway.last_as.unwrap_or(gateway.router_as));
    row.route.next_as = gateway.first_as;
}

fn vlan(number: u32) -> Option<u16> {
    // all ones: unknown
    u16::try_from(number).ok()
}

/// Samples are taken on the way in or on the way out of the interface that is their source.
fn direction(sample: &FlowSample<'_>) -> Option<u8> {
    let DataSource { class: 0, index } = sample.source else { return None };
    let input = sample.input.index() == Some(index);
    let output = sample.output.index() == Some(index);
    // what the device itself sends comes in by none
    let is_input_known = sample.input.is_device() || sample.input.index().is_some();
    // of several output interfaces the source is one, where it is not the input interface
    let outputs = is_input_known && sample.output.format == 2;
    match (input, output) {
        (true, false) => Some(0),
        (false, true) => Some(1),
        (false, false) if outputs => Some(1),
        _ => None,
    }
}

/// Reasons of sFlow as forwarding status of IPFIX (RFC 7270 section 4.12): 128 and up are packets dropped.
fn forwarding_status(reason: u32) -> u8 {
    match reason {
        // numbers up to 15 are codes of ICMP's "destination unreachable"
        0 | 1 | 6 | 7 | 11 | 12 => 131,
        4 => 133,
        9 | 10 | 13 | 258 => 129,
        257 => 137,
        260 => 139,
        261 => 138,
        _ => 128,
    }
}

/// Adds to the elements what no column holds: under the number that IANA has for it, or else the record as it came.
fn push_record(record: &Record<'_>, target: &mut weir_flow::elements::ElementsColumn) {
    const USER_NAME: u16 = 371;
    const REQUEST_HOST: u16 = 460;
    const REQUEST_TARGET: u16 = 461;
    const PRIORITY: u16 = 244;
    const LAYER2_SEGMENT: u16 = 351;
    const COMMUNITIES: u16 = 485;
    let whole = match record.flow() {
        Err(_)
        | Ok(
            FlowRecord::Header(_)
            | FlowRecord::Ethernet(_)
            | FlowRecord::Ip(_)
            | FlowRecord::Nat { .. }
            | FlowRecord::NatPorts { .. },
        ) => false,
        Ok(FlowRecord::Router { source_mask, destination_mask, .. }) => source_mask.max(destination_mask) > 0xff,
        Ok(FlowRecord::Switch { source_priority, destination_priority, .. }) => {
            if let Ok(priority @ 1..) = u8::try_from(source_priority) {
                target.push(0, PRIORITY, &[priority]);
            }
            destination_priority != 0
        }
        Ok(FlowRecord::User { source, destination }) => {
            target.push(0, USER_NAME, source);
            !destination.is_empty()
        }
        Ok(FlowRecord::Url { url, host, .. }) => {
            target.push(0, REQUEST_HOST, host);
            target.push(0, REQUEST_TARGET, url);
            false
        }
        Ok(FlowRecord::Mpls { input, output, .. }) => {
            observed::push_labels(input, target);
            !output.is_empty()
        }
        Ok(FlowRecord::Gateway(gateway)) => {
            if !gateway.communities.is_empty() {
                // RFC 6313 section 4.5.1: all of, bgpCommunity of four octets
                target.push_joined(0, COMMUNITIES, &[3, 1, 227, 0, 4], gateway.communities);
            }
            true
        }
        Ok(FlowRecord::Vni(Side::Ingress, vni)) => {
            target.push(0, LAYER2_SEGMENT, &u64::from(vni).to_be_bytes());
            false
        }
        Ok(_) => true,
    };
    if whole {
        target.push(STRUCTURES | record.format.enterprise(), record.format.number(), record.body);
    }
}

#[cfg(test)]
mod tests;
