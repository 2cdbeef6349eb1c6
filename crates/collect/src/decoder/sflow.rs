//! sFlow: every flow sample is one flow of one packet.

use std::collections::hash_map::Entry;
use std::net::{IpAddr, SocketAddr};

use weir_flow::{Column, Counter, EXPORT_VERSION_SFLOW5};
use weir_wire::sflow::record::{Gateway, SampledHeader, Side};
use weir_wire::sflow::{self, CountersSample, DataSource, FlowRecord, FlowSample, Record, Sample};
use weir_wire::{WireError, packet};

use super::Decoder;
use crate::counters::Sampled;
use crate::observed::{self, Observed};
use crate::sequence::{Arrival, Outcome, Sequence, SequenceUnit};
use crate::session::{DomainKey, Session};

/// Structures of sFlow that no column holds are kept among the elements as they came, under this bit and the
/// enterprise of the structure, with its format as the element's number. IANA assigns no enterprise up there.
const STRUCTURES: u32 = 1 << 31;

/// What is followed of one source of samples.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    flow_samples: Sequence,
    counter_samples: Sequence,
    /// The source's own count of samples dropped, at its last sample.
    drops: Option<u32>,
}

impl Default for Source {
    fn default() -> Self {
        let sequence = Sequence::new(SequenceUnit::Datagrams);
        Self { flow_samples: sequence.clone(), counter_samples: sequence, drops: None }
    }
}

/// Samples that a datagram has room for in most networks.
const SAMPLES_EXPECTED: usize = 16;
/// An agent's start, as received time less uptime tell it, may seem to move so far, in milliseconds.
const START_MOVES_MS: i64 = 5_000;

impl Decoder {
    pub(super) fn sflow(&mut self, session: Session, received_ms: i64, payload: &[u8]) -> Result<(), WireError> {
        let datagram = sflow::decode(payload)?;
        let header = datagram.header;
        // Relays hide the source address of datagrams, which is why the agent tells its own.
        let session = match weir_flow::address::to_ip(header.agent).as_ref().map(IpAddr::to_canonical) {
            Some(agent) if !agent.is_unspecified() => Session::udp(SocketAddr::new(agent, 0)),
            _ => session,
        };
        let key = DomainKey { session, version: EXPORT_VERSION_SFLOW5, domain: header.sub_agent };
        let Some(index) = self.enter(key, payload) else { return Ok(()) };
        let Some(hash) = self.is_new(index, header.sequence, payload) else { return Ok(()) };
        let export_ms = self.export_ms(index, received_ms, header.uptime_ms);
        let arrival = move |sequence| Arrival {
            sequence,
            records: 1,
            all_records: 1,
            complete: true,
            export_ms,
            uptime_ms: Some(header.uptime_ms),
        };
        self.follow(index, &arrival(header.sequence), hash);
        self.octets += payload.len();
        let expected = (header.samples as usize).min(SAMPLES_EXPECTED);
        let (mut rows, mut records) = (Vec::with_capacity(expected), Vec::with_capacity(expected));
        for sample in datagram.samples {
            match sample {
                Ok(Sample::Flow(sample) | Sample::Discarded(sample)) => {
                    self.follow_flow_samples(index, &sample, &arrival(sample.sequence));
                    rows.push(Observed::default());
                    if let Some(row) = rows.last_mut() {
                        self.flow_sample(index, &sample, row);
                    }
                    records.push(sample.records);
                }
                Ok(Sample::Counters(sample)) => {
                    self.follow_counter_samples(index, sample.source, &arrival(sample.sequence));
                    self.counters_sample(index, received_ms, header.uptime_ms, &sample);
                }
                Ok(Sample::Unknown { .. }) => self.count(index, Counter::StructuresSkipped, 1),
                Err(error) => self.note_in_set(index, Some(error)),
            }
        }
        self.append_samples(index, received_ms, &rows, records);
        Ok(())
    }

    /// Reads the records of a sample.
    fn flow_sample<'a>(&mut self, index: u32, sample: &FlowSample<'a>, row: &mut Observed<'a>) {
        row.in_if = sample.input.index();
        row.out_if = sample.output.index();
        row.sampling_interval = sample.sampling_rate.filter(|rate| *rate > 0);
        row.observation_point = Some(u64::from(sample.source.class) << 32 | u64::from(sample.source.index));
        row.direction = direction(sample);
        row.forwarding_status = sample.drop_reason.or(sample.output.discarded()).map(forwarding_status);
        for record in sample.records.clone() {
            let read = record.and_then(|record| record.flow());
            match read {
                Ok(FlowRecord::Unknown) => self.count(index, Counter::StructuresSkipped, 1),
                Ok(record) => take(row, &record),
                Err(error) => self.note_in_set(index, Some(error)),
            }
        }
    }

    fn append_samples(
        &mut self,
        index: u32,
        received_ms: i64,
        rows: &[Observed<'_>],
        records: Vec<sflow::Records<'_>>,
    ) {
        let count = rows.len();
        if count == 0 {
            return;
        }
        let domain = &self.domains[index as usize];
        let builder = &mut self.builder;
        builder.begin_rows(count);
        for column in [Column::Received, Column::Start, Column::End] {
            builder.time(column).repeat(received_ms, count);
        }
        builder.address(Column::Exporter).repeat(&domain.exporter, count);
        builder.u32(Column::ObservationDomain).repeat(domain.key.domain, count);
        builder.u8(Column::ExportVersion).repeat(domain.key.version, count);
        builder.u64(Column::Packets).repeat(1, count);
        observed::write(rows, builder, &|_| false);
        let target = builder.elements();
        for (row, records) in rows.iter().zip(records) {
            observed::push_elements(row, target);
            for record in records.flatten() {
                push_record(&record, target);
            }
            target.end_row();
        }
        self.count(index, Counter::RecordsStored, count as u64);
    }

    /// A sample may have counters of an interface and of a host; each table gets a row of its own.
    fn counters_sample(&mut self, index: u32, received_ms: i64, uptime_ms: u32, sample: &CountersSample<'_>) {
        let mut records = Vec::new();
        for record in sample.records.clone() {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    self.note_in_set(index, Some(error));
                    continue;
                }
            };
            if let Err(error) = record.check_counters() {
                self.note_in_set(index, Some(error));
            }
            if self.counters.iter().any(|rows| rows.knows(&record)) {
                records.push(record);
            } else {
                self.count(index, Counter::StructuresSkipped, 1);
            }
        }
        let domain = &self.domains[index as usize];
        let sampled = Sampled {
            received_ms,
            exporter: &domain.exporter,
            sub_agent: domain.key.domain,
            source: sample.source,
            uptime_ms,
        };
        for rows in &mut self.counters {
            if records.iter().any(|record| rows.knows(record)) {
                rows.push(&sampled, &records);
            }
        }
        self.count(index, Counter::CountersStored, 1);
    }

    /// When a datagram was sent. sFlow has no clock but the uptime, so the agent's start is taken from when it was
    /// first heard; it moves when the agent starts again.
    fn export_ms(&mut self, index: u32, received_ms: i64, uptime_ms: u32) -> i64 {
        let domain = &mut self.domains[index as usize];
        let start_ms = received_ms - i64::from(uptime_ms);
        let known = domain.agent_start_ms.filter(|known| (known - start_ms).abs() <= START_MOVES_MS);
        *domain.agent_start_ms.insert(known.unwrap_or(start_ms)) + i64::from(uptime_ms)
    }

    /// Follows the sequence number of a source's flow samples, and its own count of those that it could not make.
    fn follow_flow_samples(&mut self, index: u32, sample: &FlowSample<'_>, arrival: &Arrival) {
        let Some(known) = self.source(index, sample.source) else { return };
        let outcome = known.flow_samples.observe(arrival);
        let before = known.drops.replace(sample.drops);
        self.count_samples(index, outcome);
        // A count that went back is that of an agent that has started again.
        let grown = before.map_or(0, |before| sample.drops.wrapping_sub(before));
        if grown > 0 && grown < 1 << 31 {
            self.count(index, Counter::SamplesDropped, grown.into());
        }
    }

    fn follow_counter_samples(&mut self, index: u32, source: DataSource, arrival: &Arrival) {
        let Some(known) = self.source(index, source) else { return };
        let outcome = known.counter_samples.observe(arrival);
        self.count_samples(index, outcome);
    }

    fn count_samples(&mut self, index: u32, outcome: Outcome) {
        if outcome.lost > 0 {
            self.count(index, Counter::SamplesLost, outcome.lost.into());
        }
        let late = u64::from(outcome.late) + outcome.taken_back;
        if late > 0 {
            self.count(index, Counter::SamplesLate, late);
        }
    }

    /// What is followed of a source. `None`, and counted, when there are too many.
    fn source(&mut self, index: u32, source: DataSource) -> Option<&mut Source> {
        if self.sources >= self.limits.sources_max && !self.domains[index as usize].sources.contains_key(&source) {
            self.count(index, Counter::SourcesRefused, 1);
            return None;
        }
        let entry = self.domains[index as usize].sources.entry(source);
        if let Entry::Vacant(_) = entry {
            self.sources += 1;
        }
        Some(entry.or_default())
    }
}

/// Takes from a record what has a column.
fn take<'a>(observed: &mut Observed<'a>, record: &FlowRecord<'a>) {
    match *record {
        FlowRecord::Header(header) => take_header(observed, &header),
        FlowRecord::Ethernet(ethernet) => {
            observed.frame_octets.get_or_insert(ethernet.length);
            let headers = &mut headers_of(observed).outer;
            headers.macs.get_or_insert(packet::Macs { source: ethernet.source, destination: ethernet.destination });
            headers.ethertype = headers.ethertype.or(u16::try_from(ethernet.ethertype).ok());
        }
        FlowRecord::Ip(ip) => {
            observed.bytes.get_or_insert(ip.length.into());
            let headers = &mut headers_of(observed).outer;
            if headers.ip.is_none() {
                headers.ip = Some(ip.header());
                headers.ports = ip.ports();
                headers.tcp_flags = ip.tcp_flags();
            }
        }
        FlowRecord::Switch { source_vlan, destination_vlan, .. } => {
            observed.src_vlan = vlan(source_vlan);
            observed.dst_vlan = vlan(destination_vlan);
        }
        FlowRecord::Router { next_hop, source_mask, destination_mask } => {
            observed.next_hop = next_hop;
            observed.src_mask = u8::try_from(source_mask).ok();
            observed.dst_mask = u8::try_from(destination_mask).ok();
        }
        FlowRecord::Gateway(gateway) => take_gateway(observed, &gateway),
        FlowRecord::Nat { source, destination } => {
            (observed.nat_src_addr, observed.nat_dst_addr) = (source, destination);
        }
        FlowRecord::NatPorts { source, destination } => {
            observed.nat_src_port = u16::try_from(source).ok();
            observed.nat_dst_port = u16::try_from(destination).ok();
        }
        _ => {}
    }
}

/// The header itself, and how long the packet was.
fn take_header<'a>(observed: &mut Observed<'a>, header: &SampledHeader<'a>) {
    observed.frame_octets.get_or_insert(header.frame_length);
    let Some(link) = header.link_type() else { return };
    let packet = headers_of(observed);
    packet::dissect_into(link, header.header, packet);
    let before = packet.link_octets(header.header) as u32;
    let carried = header.frame_length.saturating_sub(header.stripped).saturating_sub(before);
    let ip_octets = Observed::ip_octets(packet);
    observed.bytes = ip_octets.or(Some(carried.into()));
}

/// The headers of a packet of which the agent sends no octets.
fn headers_of<'r, 'a>(observed: &'r mut Observed<'a>) -> &'r mut packet::Packet<'a> {
    observed.packet.get_or_insert_default()
}

/// The path tells both neighbours: whom the source was learnt from, and whom the destination is reached by.
fn take_gateway<'a>(observed: &mut Observed<'a>, gateway: &Gateway<'a>) {
    observed.bgp_next_hop = gateway.next_hop;
    observed.src_as = Some(gateway.source_as);
    observed.prev_as = Some(gateway.source_peer_as);
    // Without a path the destination is in the router's own autonomous system.
    observed.dst_as = Some(gateway.last_as.unwrap_or(gateway.router_as));
    observed.next_as = gateway.first_as;
}

fn vlan(number: u32) -> Option<u16> {
    // all ones: unknown
    u16::try_from(number).ok()
}

/// Samples are taken on the way in or on the way out of the interface that is their source.
fn direction(sample: &FlowSample<'_>) -> Option<u8> {
    let DataSource { class: 0, index } = sample.source else { return None };
    let input = sample.input.index()? == index;
    let output = sample.output.index() == Some(index);
    // of several output interfaces the source is one
    let outputs = sample.output.format == 2;
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
