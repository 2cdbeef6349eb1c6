//! What a Metering Process reports next to its flows: counters, interfaces, sampling.

use std::net::IpAddr;

use arrow::compute::max;
use arrow::datatypes::TimestampMillisecondType;
use weir_capture::SourceCounts;
use weir_chain::{ComponentContext, Counter};
use weir_flow::{Column, FlowBatch, OptionsKind, OptionsRow, OptionsRows, SideTables};
use weir_meter::{MeterCounts, Metering, NotFlow, Selection};

use super::configuration::Configuration;

// Information Elements of the options that are reported (IANA registry of IPFIX).
const SELECTOR_ALGORITHM: u16 = 304;
const INGRESS_INTERFACE: u16 = 10;
const INTERFACE_NAME: u16 = 82;
const SAMPLING_PACKET_INTERVAL: u16 = 305;
const SAMPLING_PACKET_SPACE: u16 = 306;
/// Flows that were never in an export datagram are reported under the version that has all of their fields.
const IPFIX: u8 = 10;

/// Reports counters, interfaces and sampling of the Metering Process.
pub(super) struct MeterReporter {
    metering: Metering,
    exporter: Vec<u8>,
    domain: u32,
    sampling: Option<Sampling>,
    counters: Vec<Counted>,
    not_flows: [Counted; NotFlow::COUNT],
    interfaces_reported: usize,
    /// Time of the last flows, milliseconds since the epoch.
    clock_ms: i64,
}

/// How packets are selected: the algorithm, and N of one packet in N.
type Sampling = (Selection, u32);

/// Reads one of the counts.
type Count = fn(&MeterCounts, &SourceCounts) -> u64;

/// The name of the counter that is a maximum and no sum.
const PEAK: &str = "flows_peak";

/// A counter, and its value when the Metering Process that is counted began.
struct Counted {
    counter: Counter,
    before: u64,
    is_peak: bool,
}

impl Counted {
    fn new(counter: Counter, name: &str) -> Self {
        Self { counter, before: 0, is_peak: name == PEAK }
    }

    /// Raises the counter to `before + count`, if it is lower.
    fn raise(&self, count: u64) {
        self.counter.add((self.before + count).saturating_sub(self.counter.get()));
    }

    fn begin_again(&mut self) {
        self.before = if self.is_peak { 0 } else { self.counter.get() };
    }
}

const COUNTERS: &[(&str, Count)] = &[
    ("packets", |meter, _| meter.packets),
    ("octets", |meter, _| meter.octets),
    ("packets_in_flows", |meter, _| meter.packets_in_flows),
    ("packets_not_sampled", |meter, _| meter.packets_not_sampled),
    ("fragments_of_tunnels", |meter, _| meter.fragments_of_tunnels),
    ("fragments_without_first", |meter, _| meter.fragments_without_first),
    ("flows_begun", |meter, _| meter.flows_begun),
    ("flows_ended", |meter, _| meter.flows_ended),
    ("flows_evicted", |meter, _| meter.flows_evicted),
    ("flows_peak", |meter, _| meter.flows_peak),
    ("tunnel_pairs_forgotten", |meter, _| meter.tunnel_pairs_forgotten),
    ("handshakes_cut", |meter, _| meter.handshakes_cut),
    ("payloads_malformed", |meter, _| meter.payloads_malformed),
    ("kernel_drops", |_, source| source.kernel_drops),
    ("buffer_overruns", |_, source| source.buffer_overruns),
    ("frames_filtered", |_, source| source.frames_filtered),
    ("frames_unknown_link", |_, source| source.frames_unknown_link),
    ("frames_unfilterable", |_, source| source.frames_unfilterable),
    ("octets_read", |_, source| source.octets_read),
    ("files_failed", |_, source| source.files_failed),
];

impl MeterReporter {
    pub(super) fn new(context: &ComponentContext, configuration: &Configuration, metering: Metering) -> Self {
        let options = &configuration.options;
        let exporter = match options.exporter {
            Some(IpAddr::V4(address)) => address.octets().to_vec(),
            Some(IpAddr::V6(address)) => address.octets().to_vec(),
            None => Vec::new(),
        };
        let counter = |name| context.counters.counter(name);
        Self {
            metering,
            exporter,
            domain: options.observation_domain,
            sampling: options.sampling,
            counters: COUNTERS.iter().map(|&(name, _)| Counted::new(counter(name), name)).collect(),
            not_flows: std::array::from_fn(|reason| {
                let name = NotFlow::ALL[reason].name();
                Counted::new(counter(name), name)
            }),
            interfaces_reported: 0,
            clock_ms: 0,
        }
    }

    /// Goes on with a Metering Process that counts from 0 again, and reports its interfaces.
    pub(super) fn begin_again(&mut self, metering: Metering) {
        for counted in self.counters.iter_mut().chain(&mut self.not_flows) {
            counted.begin_again();
        }
        self.metering = metering;
        self.interfaces_reported = 0;
    }

    /// Updates the counters, and returns the rows that were not reported yet. There are none before the first flows, whose
    /// time they have.
    pub(super) fn report(&mut self, flows: Option<&FlowBatch>) -> SideTables {
        let (meter, source) = (self.metering.counts(), self.metering.source_counts());
        for (counted, (_, count)) in self.counters.iter().zip(COUNTERS) {
            counted.raise(count(&meter, &source));
        }
        for (counted, count) in self.not_flows.iter().zip(meter.not_flows) {
            counted.raise(count);
        }
        let Some(flows) = flows else { return SideTables::default() };
        let received = flows.primitive::<TimestampMillisecondType>(Column::Received);
        self.clock_ms = received.and_then(max).unwrap_or(self.clock_ms);
        let mut rows = OptionsRows::default();
        self.interfaces(&mut rows);
        self.sampler(&mut rows);
        SideTables { others: rows.take().into_iter().collect(), ..SideTables::default() }
    }

    fn row<'a>(&'a self, kind: OptionsKind, scope: &'a str) -> OptionsRow<'a> {
        OptionsRow { kind, scope, ..OptionsRow::blank(self.clock_ms, &self.exporter, self.domain, IPFIX) }
    }

    fn interfaces(&mut self, rows: &mut OptionsRows) {
        let interfaces = self.metering.interfaces();
        for interface in interfaces.iter().skip(self.interfaces_reported).filter(|interface| !interface.name.is_empty())
        {
            let scope = format!("ingressInterface={}", interface.index);
            let row = OptionsRow {
                key: Some(interface.index.into()),
                name: Some(&interface.name),
                ..self.row(OptionsKind::Interface, &scope)
            };
            let index = interface.index.to_be_bytes();
            let elements = [(0, INGRESS_INTERFACE, &index[..]), (0, INTERFACE_NAME, interface.name.as_bytes())];
            rows.push(&row, elements.into_iter());
        }
        self.interfaces_reported = interfaces.len();
    }

    /// Reports once how packets are selected.
    fn sampler(&mut self, rows: &mut OptionsRows) {
        let Some((selection, interval)) = self.sampling.take() else { return };
        let row = OptionsRow {
            key: Some(0),
            sampling_interval: Some(interval),
            packets_selected: Some(1),
            packets_observed: Some(interval.into()),
            ..self.row(OptionsKind::Sampler, "selectorId=0")
        };
        let (algorithm, space) = (selection.algorithm().to_be_bytes(), (interval - 1).to_be_bytes());
        let elements = [
            (SELECTOR_ALGORITHM, &algorithm[..]),
            (SAMPLING_PACKET_INTERVAL, &[0, 0, 0, 1]),
            (SAMPLING_PACKET_SPACE, &space),
        ];
        rows.push(&row, elements.into_iter().map(|(id, octets)| (0, id, octets)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_go_on_when_the_count_begins_at_0_again() {
        let counters = weir_chain::Counters::new();
        let mut packets = Counted::new(counters.counter("packets"), "packets");
        let mut peak = Counted::new(counters.counter(PEAK), PEAK);
        for (count, [packets_then, peak_then]) in [(5, [5, 5]), (7, [7, 7])] {
            packets.raise(count);
            peak.raise(count);
            assert_eq!([packets.counter.get(), peak.counter.get()], [packets_then, peak_then]);
        }
        packets.begin_again();
        peak.begin_again();
        for (count, [packets_then, peak_then]) in [(0, [7, 7]), (3, [10, 7]), (9, [16, 9])] {
            packets.raise(count);
            peak.raise(count);
            assert_eq!([packets.counter.get(), peak.counter.get()], [packets_then, peak_then]);
        }
    }
}
