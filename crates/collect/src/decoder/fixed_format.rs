//! NetFlow v1, v5 and v7, whose records have one fixed form.

use weir_wire::{WireError, netflow1, netflow5, netflow7};

use crate::clock::MessageClock;
use crate::domain::{CompiledTemplate, DomainKey};
use crate::lists;
use crate::plan::fixed_template;
use crate::sequence::Arrival;
use crate::session::Session;

/// Longest datagram of UDP over IPv4.
const DATAGRAM_OCTETS_MAX: usize = 65_507;

/// What these versions have in common, once their headers are read.
#[derive(Debug)]
pub(super) struct FixedPacket<'a> {
    pub key: DomainKey,
    header_len: usize,
    record_len: usize,
    /// Records by the header.
    count: u16,
    sequence: Option<u32>,
    pub clock: MessageClock,
    pub records: &'a [u8],
    pub problem: Option<WireError>,
    /// Type and ID of the engine, which only NetFlow v5 has.
    pub engine: Option<(u8, u8)>,
    /// One packet in this many, which only NetFlow v5 reports; 0 when it does not sample.
    pub sampling_interval: u16,
}

/// A clock of seconds, nanoseconds and uptime.
fn clock(received_ms: i64, secs: u32, nanos: u32, uptime_ms: u32) -> MessageClock {
    let export_ms = i64::from(secs) * 1000 + i64::from(nanos / 1_000_000);
    MessageClock { received_ms, export_ms, uptime_ms: Some(uptime_ms) }
}

impl<'a> FixedPacket<'a> {
    /// Reads a packet of NetFlow v1.
    pub(super) fn netflow1(session: Session, received_ms: i64, payload: &'a [u8]) -> Result<Self, WireError> {
        let packet = netflow1::decode(payload)?;
        let header = packet.header;
        Ok(Self {
            key: DomainKey { session, version: 1, domain: 0 },
            header_len: netflow1::HEADER_LEN,
            record_len: netflow1::RECORD_LEN,
            count: header.count,
            sequence: None,
            clock: clock(received_ms, header.unix_secs, header.unix_nsecs, header.sys_uptime_ms),
            records: packet.records,
            problem: packet.problem,
            engine: None,
            sampling_interval: 0,
        })
    }

    /// Reads a packet of NetFlow v5.
    pub(super) fn netflow5(session: Session, received_ms: i64, payload: &'a [u8]) -> Result<Self, WireError> {
        let packet = netflow5::decode(payload)?;
        let header = packet.header;
        let domain = u32::from(header.engine_type) << 8 | u32::from(header.engine_id);
        Ok(Self {
            key: DomainKey { session, version: 5, domain },
            header_len: netflow5::HEADER_LEN,
            record_len: netflow5::RECORD_LEN,
            count: header.count,
            sequence: Some(header.flow_sequence),
            clock: clock(received_ms, header.unix_secs, header.unix_nsecs, header.sys_uptime_ms),
            records: packet.records,
            problem: packet.problem,
            engine: Some((header.engine_type, header.engine_id)),
            sampling_interval: header.sampling_interval(),
        })
    }

    /// Reads a packet of NetFlow v7.
    pub(super) fn netflow7(session: Session, received_ms: i64, payload: &'a [u8]) -> Result<Self, WireError> {
        let packet = netflow7::decode(payload)?;
        let header = packet.header;
        Ok(Self {
            key: DomainKey { session, version: 7, domain: 0 },
            header_len: netflow7::HEADER_LEN,
            record_len: netflow7::RECORD_LEN,
            count: header.count,
            sequence: Some(header.flow_sequence),
            clock: clock(received_ms, header.unix_secs, header.unix_nsecs, header.sys_uptime_ms),
            records: packet.records,
            problem: packet.problem,
            engine: None,
            sampling_interval: 0,
        })
    }

    /// Records that came.
    pub(super) fn records_received(&self) -> u32 {
        (self.records.len() / self.record_len) as u32
    }

    /// What the packet is for the account of sequence numbers.
    pub(super) fn arrival(&self) -> Arrival {
        // A datagram cut short still shows how many flows the exporter has sent, unless no datagram could hold them.
        let records_max = (DATAGRAM_OCTETS_MAX - self.header_len) / self.record_len;
        let complete = usize::from(self.count) <= records_max;
        let units = if complete { u32::from(self.count) } else { self.records_received() };
        Arrival::of_message(self.sequence.unwrap_or(0), &self.clock, [units; 2], complete)
    }
}

/// What records of these versions look like.
#[derive(Debug)]
pub(super) struct FixedFormats {
    netflow1: Option<CompiledTemplate>,
    netflow5: Option<CompiledTemplate>,
    netflow7: Option<CompiledTemplate>,
}

impl FixedFormats {
    pub(super) fn new() -> Self {
        let compiled = |version: u16| {
            let template = fixed_template(version)?;
            Some(CompiledTemplate::new(template, version as u8, 0, lists::registered))
        };
        Self {
            netflow1: compiled(netflow1::VERSION),
            netflow5: compiled(netflow5::VERSION),
            netflow7: compiled(netflow7::VERSION),
        }
    }

    /// The form of a version's records.
    pub(super) fn of_version(&self, version: u8) -> Option<&CompiledTemplate> {
        match version {
            1 => self.netflow1.as_ref(),
            5 => self.netflow5.as_ref(),
            7 => self.netflow7.as_ref(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use weir_flow::Counter;

    use super::*;
    use crate::{Decoder, Limits};

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

    #[test]
    fn every_version_has_its_form_and_no_other_has_one() {
        let formats = FixedFormats::new();
        for (version, record_len) in [(1, netflow1::RECORD_LEN), (5, netflow5::RECORD_LEN), (7, netflow7::RECORD_LEN)] {
            let form = formats.of_version(version).expect("a form");
            let length: u16 = form.template.fields().iter().map(|field| field.length).sum();
            assert_eq!(usize::from(length), record_len, "version {version}");
        }
        assert!(formats.of_version(9).is_none());
    }
}
