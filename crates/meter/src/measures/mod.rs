//! What flows have next to their counters, on request.
//!
//! All of it needs more of a packet than its digest has, so packets are dissected once more by the worker that owns their
//! flow; without such a request this costs nothing. What is measured is kept next to the table, in a list by the number of
//! the entry.

mod tcp;

use std::sync::Arc;

use weir_flow::elements::ElementsColumn;
use weir_flow::{Column, FlowBatchBuilder};
use weir_wire::packet::{Headers, Packet, dissect_into};

use crate::application::{Application, Counts, Direction, Inspection, Inspector, TEXT_COLUMNS, Verdict};
use crate::cache::Flow;
use crate::digest::Digest;
use crate::key::KeyHeaders;
use crate::options::MeterOptions;
use tcp::Tcp;
use weir_capture::PacketBlock;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Enterprises, and the Information Elements that measures are exported as.
mod element {
    pub(super) const IANA: u32 = 0;
    /// `flowStartMicroseconds` and `flowEndMicroseconds`, as NTP timestamps (RFC 7011 section 6.1.9).
    pub(super) const START_MICROSECONDS: u16 = 154;
    pub(super) const END_MICROSECONDS: u16 = 155;
    /// `mplsTopLabelStackSection` and the nine below it.
    pub(super) const MPLS_TOP: u16 = 70;
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by itself")]
pub struct Measures {
    /// Name of the application, and what its first packets show.
    pub application: bool,
    /// Round trip time of the handshake, initial windows, retransmissions, segments out of order.
    pub tcp: bool,
    /// Link addresses of the first packet.
    pub macs: bool,
    /// MPLS labels of the first packet.
    pub mpls: bool,
    /// Start and end in microseconds.
    pub microseconds: bool,
}

impl Measures {
    /// Whether anything of packets is needed.
    const fn needs_packets(self) -> bool {
        self.application || self.tcp || self.macs || self.mpls
    }

    /// Whether anything is exported as elements.
    pub(crate) const fn tells_elements(self) -> bool {
        self.application || self.tcp || self.mpls || self.microseconds
    }
}

/// What was measured of a flow.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    inspection: Option<Inspection>,
    /// Whether more packets are to be looked at.
    is_inspecting: bool,
    tcp: Option<Box<Tcp>>,
    /// Source and destination.
    macs: Option<[[u8; 6]; 2]>,
    labels: Vec<u8>,
}

impl Measured {
    /// Whether further packets would show nothing.
    fn is_done(&self) -> bool {
        !self.is_inspecting && self.tcp.is_none()
    }

    /// Source and destination link address of the first packet.
    pub(crate) fn macs(&self) -> Option<&[[u8; 6]; 2]> {
        self.macs.as_ref()
    }
}

/// Measures the flows of a shard.
#[derive(Debug)]
pub(crate) struct Measurer {
    measures: Measures,
    headers: KeyHeaders,
    inspector: Inspector,
    /// By the number of the entry.
    measured: Vec<Option<Box<Measured>>>,
    block: Option<Arc<PacketBlock>>,
}

impl Measurer {
    pub(crate) fn new(options: &MeterOptions) -> Self {
        Self {
            measures: options.measures,
            headers: options.fields.headers,
            inspector: Inspector::default(),
            measured: Vec::new(),
            block: None,
        }
    }

    /// What inspections counted.
    pub(crate) fn inspections(&self) -> Counts {
        self.inspector.counts()
    }

    /// Whether packets are looked into.
    pub(crate) fn needs_packets(&self) -> bool {
        self.measures.needs_packets()
    }

    /// The packets that the next digests are of.
    pub(crate) fn look_into(&mut self, block: Option<Arc<PacketBlock>>) {
        self.block = block;
    }

    /// Measures a packet. It is `forward` when it goes in the direction of the first packet of its flow.
    pub(crate) fn packet(&mut self, slot: u32, digest: &Digest, is_forward: bool) {
        if digest.marks & Digest::HELD != 0 {
            // its octets were in a block that others have filled again
            return;
        }
        if self.measured.get(slot as usize).and_then(Option::as_ref).is_some_and(|measured| measured.is_done()) {
            return;
        }
        let Some(block) = self.block.take() else { return };
        if let Some(meta) = block.packets().get(digest.packet as usize) {
            let mut packet = Packet::default();
            dissect_into(meta.link, block.frame(meta), &mut packet);
            self.measure(slot, digest, is_forward, &packet);
        }
        self.block = Some(block);
    }

    fn measure(&mut self, slot: u32, digest: &Digest, is_forward: bool, packet: &Packet<'_>) {
        let slot = slot as usize;
        if self.measured.len() <= slot {
            self.measured.resize_with(slot + 1, || None);
        }
        let headers = match self.headers {
            KeyHeaders::Inner => packet.innermost(),
            KeyHeaders::Outer => packet.outermost(),
        };
        let entry = &mut self.measured[slot];
        if entry.is_none() {
            *entry = Some(Box::new(begin(self.measures, headers, packet)));
        }
        let Some(measured) = entry else { return };
        if let Some(tcp) = &mut measured.tcp {
            tcp.segment(is_forward, digest.time_us, headers);
        }
        if measured.is_inspecting
            && let Some(inspection) = &mut measured.inspection
        {
            let direction = if is_forward { Direction::Forward } else { Direction::Reverse };
            let verdict = self.inspector.inspect(inspection, direction, headers.tcp_sequence(), headers.payload());
            measured.is_inspecting = verdict == Verdict::More;
        }
    }

    /// What was measured of a flow that ends.
    pub(crate) fn end(&mut self, slot: u32) -> Option<Box<Measured>> {
        self.measured.get_mut(slot as usize).and_then(Option::take)
    }

    /// Writes what was measured of a group of flows to their columns, and what has none as elements of their rows.
    pub(crate) fn write<'f>(
        &mut self,
        flows: impl Iterator<Item = &'f Flow>,
        mut measured: Vec<Option<Box<Measured>>>,
        builder: &mut FlowBatchBuilder,
    ) {
        let inspections = measured.iter_mut().map(|measured| measured.as_mut()?.inspection.take());
        let applications: Vec<Option<Application>> =
            inspections.map(|inspection| Some(self.inspector.conclude(inspection?))).collect();
        if self.measures.application {
            write_applications(&applications, builder);
        }
        if self.measures.tcp {
            let connections: Vec<_> = measured.iter().map(|measured| measured.as_ref()?.tcp.as_deref()).collect();
            tcp::write(&connections, builder);
        }
        if self.measures.tells_elements() {
            let elements = builder.elements();
            for ((flow, measured), application) in flows.zip(&measured).zip(&applications) {
                self.write_elements(flow, measured.as_deref(), application.as_ref(), elements);
            }
        }
    }

    fn write_elements(
        &self,
        flow: &Flow,
        measured: Option<&Measured>,
        application: Option<&Application>,
        elements: &mut ElementsColumn,
    ) {
        if self.measures.microseconds {
            for (id, time_us) in
                [(element::START_MICROSECONDS, flow.first_us()), (element::END_MICROSECONDS, flow.last_us())]
            {
                elements.push(element::IANA, id, &ntp(time_us));
            }
        }
        if let Some(measured) = measured {
            for (label, id) in measured.labels.chunks_exact(4).zip(element::MPLS_TOP..) {
                // the section of an entry is without its TTL (RFC 5102 section 5.8.4)
                elements.push(element::IANA, id, &label[..3]);
            }
            if let Some(tcp) = &measured.tcp {
                tcp.write_elements(elements);
            }
        }
        for (enterprise, id, octets) in application.iter().flat_map(|application| application.elements()) {
            elements.push(enterprise, id, &octets);
        }
        elements.end_row();
    }
}

/// Writes the columns that some of the flows have a value for.
fn write_applications(applications: &[Option<Application>], builder: &mut FlowBatchBuilder) {
    for column in TEXT_COLUMNS {
        let texts = || applications.iter().map(|application| application.as_ref()?.text(column));
        if texts().any(|text| text.is_some()) {
            let target = builder.text(column);
            texts().for_each(|text| target.push(text.as_deref().map(str::as_bytes)));
        }
    }
    let ids = || applications.iter().map(|application| application.as_ref()?.id());
    if ids().any(|id| id.is_some()) {
        let target = builder.address(Column::ApplicationId);
        ids().for_each(|id| target.push(id.as_ref().map(<[u8; 3]>::as_slice)));
    }
}

/// Begins to measure a flow with its first packet.
fn begin(measures: Measures, headers: &Headers<'_>, packet: &Packet<'_>) -> Measured {
    let protocol = headers.ip.map_or(0, |ip| ip.protocol);
    let inspection = match headers.ports {
        Some((source, destination)) if measures.application && matches!(protocol, TCP | UDP) => {
            Some(Inspection::new(protocol, source, destination))
        }
        _ => None,
    };
    let macs = packet.outer.macs.filter(|_| measures.macs).map(|macs| [*macs.source, *macs.destination]);
    Measured {
        is_inspecting: inspection.is_some(),
        inspection,
        tcp: (measures.tcp && protocol == TCP).then(Box::default),
        macs,
        labels: if measures.mpls { packet.outer.labels.iter().copied().take(40).collect() } else { Vec::new() },
    }
}

/// Microseconds since the epoch as an NTP timestamp: seconds since 1900 and a binary fraction (RFC 5905 section 6).
fn ntp(time_us: i64) -> [u8; 8] {
    const SECS_1900_TO_1970: i64 = 2_208_988_800;
    let (secs, micros) = (time_us.div_euclid(1_000_000), time_us.rem_euclid(1_000_000));
    let fraction = ((micros as u64) << 32).div_ceil(1_000_000);
    (((secs + SECS_1900_TO_1970) as u64) << 32 | fraction).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ntp_timestamps_are_those_of_the_standard() {
        // RFC 5905 figure 4: 1 January 1970 is 2,208,988,800 seconds of era 0
        assert_eq!(ntp(0), [0x83, 0xaa, 0x7e, 0x80, 0, 0, 0, 0]);
        assert_eq!(ntp(500_000), [0x83, 0xaa, 0x7e, 0x80, 0x80, 0, 0, 0]);
        assert_eq!(ntp(-500_000), [0x83, 0xaa, 0x7e, 0x7f, 0x80, 0, 0, 0]);
        // what a reader gets back by cutting off is the same microsecond
        for micros in [1, 999_999, 123_456] {
            let fraction = u64::from(u32::from_be_bytes(*ntp(micros).last_chunk().expect("eight octets")));
            assert_eq!((fraction * 1_000_000) >> 32, micros as u64);
        }
    }
}
