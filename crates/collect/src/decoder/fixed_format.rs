//! NetFlow v1, v5 and v7, whose records have one fixed form.

use weir_wire::WireError;
use weir_wire::fixed::{FORMATS, FixedFormat, HeaderField, Packet};

use crate::clock::MessageClock;
use crate::domain::{CompiledTemplate, DomainKey};
use crate::plan::fixed_template;
use crate::sequence::Arrival;
use crate::session::Session;

/// Longest datagram of UDP over IPv4.
const DATAGRAM_OCTETS_MAX: usize = 65_507;

/// A packet of one of these versions, once its header is read.
#[derive(Debug)]
pub(super) struct FixedPacket<'a> {
    pub key: DomainKey,
    pub clock: MessageClock,
    packet: Packet<'a>,
}

impl<'a> FixedPacket<'a> {
    /// Reads a packet of this format.
    pub(super) fn read(
        format: &'static FixedFormat,
        session: Session,
        received_ms: i64,
        payload: &'a [u8],
    ) -> Result<Self, WireError> {
        let packet = format.decode(payload)?;
        let header = packet.header;
        let domain = u32::from(header.engine_type) << 8 | u32::from(header.engine_id);
        let export_ms = i64::from(header.unix_secs) * 1000 + i64::from(header.unix_nsecs / 1_000_000);
        Ok(Self {
            key: DomainKey { session, version: format.version as u8, domain },
            clock: MessageClock { received_ms, export_ms, uptime_ms: Some(header.sys_uptime_ms) },
            packet,
        })
    }

    pub(super) fn format(&self) -> &'static FixedFormat {
        self.packet.format
    }

    /// The records that came.
    pub(super) fn records(&self) -> &'a [u8] {
        self.packet.records
    }

    /// How many records came.
    pub(super) fn records_received(&self) -> u32 {
        self.packet.len() as u32
    }

    pub(super) fn problem(&self) -> Option<WireError> {
        self.packet.problem
    }

    /// Type of the engine, where the header has it.
    pub(super) fn engine_type(&self) -> Option<u8> {
        self.format().has(HeaderField::EngineType).then_some(self.packet.header.engine_type)
    }

    /// ID of the engine, where the header has it.
    pub(super) fn engine_id(&self) -> Option<u8> {
        self.format().has(HeaderField::EngineId).then_some(self.packet.header.engine_id)
    }

    /// One packet in this many; `None` when the exporter does not sample, or does not report it.
    pub(super) fn sampling_interval(&self) -> Option<u32> {
        Some(u32::from(self.packet.header.sampling_interval())).filter(|interval| *interval > 0)
    }

    /// What the packet is for the account of sequence numbers.
    pub(super) fn arrival(&self) -> Arrival {
        let (format, header) = (self.format(), self.packet.header);
        // A datagram cut short still shows how many flows the exporter has sent, unless no datagram could hold them.
        let records_max = (DATAGRAM_OCTETS_MAX - format.header_len()) / format.record_len;
        let complete = usize::from(header.count) <= records_max;
        let units = if complete { u32::from(header.count) } else { self.records_received() };
        Arrival::of_message(header.flow_sequence, &self.clock, [units; 2], complete)
    }
}

/// What records of these versions look like, in the order of [`FORMATS`].
#[derive(Debug)]
pub(super) struct FixedFormats([Option<CompiledTemplate>; FORMATS.len()]);

impl FixedFormats {
    pub(super) fn new() -> Self {
        Self(FORMATS.map(|format| {
            let template = fixed_template(format)?;
            Some(CompiledTemplate::fixed(template, format.version as u8))
        }))
    }

    /// The form of a format's records.
    pub(super) fn of(&self, format: &FixedFormat) -> Option<&CompiledTemplate> {
        let place = FORMATS.iter().position(|known| known.version == format.version)?;
        self.0[place].as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use weir_flow::Counter;
    use weir_wire::{fixed, netflow5};

    use super::*;
    use crate::{Decoder, Limits};

    /// A NetFlow v5 datagram of one record whose header counts `count`.
    fn netflow5_datagram(flow_sequence: u32, count: u16) -> Vec<u8> {
        let mut datagram = Vec::new();
        let header = fixed::Header { flow_sequence, ..fixed::Header::default() };
        let mut packet = fixed::PacketBuilder::new(&netflow5::FORMAT, &mut datagram, &header);
        packet.record(&[0; netflow5::RECORD_LEN]).expect("fits");
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

    #[test]
    fn every_format_has_its_form() {
        let formats = FixedFormats::new();
        for format in FORMATS {
            let form = formats.of(format).expect("a form");
            let length: u16 = form.template.fields().iter().map(|field| field.length).sum();
            assert_eq!(usize::from(length), format.record_len, "version {}", format.version);
        }
    }

    #[test]
    fn the_engine_is_that_of_the_header_or_none() {
        let source = SocketAddr::from(([192, 0, 2, 1], 2055));
        for format in FORMATS {
            let mut datagram = Vec::new();
            let header = fixed::Header { engine_type: 1, engine_id: 2, ..fixed::Header::default() };
            fixed::PacketBuilder::new(format, &mut datagram, &header).finish();
            let packet = FixedPacket::read(format, Session::udp(source), 0, &datagram).expect("a packet");
            let (engine, domain) = if format.version == 5 { ((Some(1), Some(2)), 258) } else { ((None, None), 0) };
            assert_eq!((packet.engine_type(), packet.engine_id()), engine);
            assert_eq!((packet.key.domain, packet.sampling_interval()), (domain, None));
        }
    }
}
