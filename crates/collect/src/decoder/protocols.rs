//! The headers of the protocols: whose message it is, what its sequence number and its clock say.

use weir_flow::{Column, Counter};
use weir_wire::fixed::{FORMATS, FixedFormat, HeaderField, Packet};
use weir_wire::{Set, Sets, WireError, ipfix, netflow9};

use super::Decoder;
use super::data::append;
use crate::clock::MessageClock;
use crate::columns::Records;
use crate::sequence::Arrival;
use crate::session::{DomainKey, Session};

/// Longest datagram of UDP over IPv4.
const DATAGRAM_OCTETS_MAX: usize = 65_507;

impl Decoder {
    /// Decodes a packet of a version whose records all have one form.
    pub(super) fn fixed_format(
        &mut self,
        session: Session,
        received_ms: i64,
        payload: &[u8],
        format: &'static FixedFormat,
    ) -> Result<(), WireError> {
        let packet = format.decode(payload)?;
        let header = packet.header;
        let clock = MessageClock {
            received_ms,
            export_ms: i64::from(header.unix_secs) * 1000 + i64::from(header.unix_nsecs / 1_000_000),
            uptime_ms: Some(header.sys_uptime_ms),
        };
        let rows = self.fixed_records(session, payload, &packet, &clock);
        if rows > 0 {
            if format.has(HeaderField::EngineType) {
                self.builder.u8(Column::EngineType).repeat(header.engine_type, rows);
            }
            if format.has(HeaderField::EngineId) {
                self.builder.u8(Column::EngineId).repeat(header.engine_id, rows);
            }
            if header.sampling_interval() > 0 {
                self.builder.u32(Column::SamplingInterval).repeat(u32::from(header.sampling_interval()), rows);
            }
        }
        Ok(())
    }

    /// Decodes the records of a packet. Yields how many became flows in the group of rows that is open.
    fn fixed_records(&mut self, session: Session, payload: &[u8], packet: &Packet<'_>, clock: &MessageClock) -> usize {
        let (format, header) = (packet.format, packet.header);
        let domain = u32::from(header.engine_type) << 8 | u32::from(header.engine_id);
        let key = DomainKey { session, version: format.version as u8, domain };
        let Some(index) = self.enter(key, payload) else { return 0 };
        let sequence = header.flow_sequence;
        let Some(hash) = self.is_new(index, sequence, payload) else { return 0 };
        let records = packet.len() as u32;
        // A datagram cut short still tells how many flows the exporter has sent, unless no datagram could hold them.
        let records_max = (DATAGRAM_OCTETS_MAX - format.header_len()) / format.record_len;
        let complete = usize::from(header.count) <= records_max;
        let units = if complete { u32::from(header.count) } else { records };
        self.note_in_set(index, packet.problem);
        self.follow(index, &arrival(sequence, clock, [units; 2], complete), hash);
        let place = FORMATS.iter().position(|known| known.version == format.version);
        let Some(known) = place.and_then(|place| self.fixed[place].as_ref()) else { return 0 };
        let located = known.template.layout().locate(packet.records, &mut self.spans);
        let rows = Records { body: packet.records, located: &located };
        append(&mut self.builder, &self.domains[index as usize], known, rows, clock, None);
        let rows = rows.len();
        self.count(index, Counter::RecordsStored, u64::from(records));
        rows
    }

    pub(super) fn netflow9(&mut self, session: Session, received_ms: i64, payload: &[u8]) -> Result<(), WireError> {
        let message = netflow9::decode(payload)?;
        let header = message.header;
        let key = DomainKey { session, version: 9, domain: header.source_id.0 };
        let Some(index) = self.enter(key, payload) else { return Ok(()) };
        let Some(hash) = self.is_new(index, header.sequence, payload) else { return Ok(()) };
        let clock = MessageClock {
            received_ms,
            export_ms: i64::from(header.unix_secs) * 1000,
            uptime_ms: Some(header.sys_uptime_ms),
        };
        let numbered = Numbered { sequence: header.sequence, hash, whole: true };
        self.sets_in_sequence(index, message.sets, &clock, numbered);
        Ok(())
    }

    pub(super) fn ipfix(&mut self, session: Session, received_ms: i64, payload: &[u8]) -> Result<(), WireError> {
        let message = ipfix::decode(payload)?;
        let header = message.header;
        let key = DomainKey { session, version: 10, domain: header.domain.0 };
        let Some(index) = self.enter(key, payload) else { return Ok(()) };
        let Some(hash) = self.is_new(index, header.sequence, payload) else { return Ok(()) };
        self.note_in_set(index, message.problem);
        let export_ms = i64::from(header.export_time_secs) * 1000;
        let clock = MessageClock { received_ms, export_ms, uptime_ms: None };
        // Of a message that was cut, nothing tells how many records it had.
        let whole = !matches!(message.problem, Some(WireError::MessageLength { .. }));
        let numbered = Numbered { sequence: header.sequence, hash, whole };
        self.sets_in_sequence(index, message.sets, &clock, numbered);
        Ok(())
    }

    /// Decodes sets, and tells the account of sequence numbers how many records were in them.
    fn sets_in_sequence(&mut self, index: u32, sets: Sets<'_>, clock: &MessageClock, numbered: Numbered) {
        let counted = |decoder: &Self| {
            let total = |counter: Counter| decoder.ledger.totals()[counter as usize];
            let records = total(Counter::RecordsStored) + total(Counter::RecordsOptions);
            [records, records + total(Counter::Templates)]
        };
        let (before, waiting) = (counted(self), self.waiting.next_number());
        let complete = self.sets(index, sets, clock).is_some() && numbered.whole;
        let after = counted(self);
        let records = [0, 1].map(|unit| u32::try_from(after[unit] - before[unit]).unwrap_or(u32::MAX));
        let arrival = arrival(numbered.sequence, clock, records, complete);
        self.follow(index, &arrival, numbered.hash);
        let waiting = waiting..self.waiting.next_number();
        // Of a message that was cut, the last set is not whole: what is decoded of it later settles nothing.
        if numbered.whole {
            let sequence = &mut self.domains[index as usize].sequence;
            let before = sequence.unsettled();
            sequence.sets_wait(&arrival, waiting);
            self.bound_unsettled(index, before);
        }
    }

    /// Decodes sets. Returns the number of data records, or `None` when some could not be told apart.
    pub(super) fn sets(&mut self, index: u32, mut sets: Sets<'_>, clock: &MessageClock) -> Option<u32> {
        let mut units = Some(0);
        let mut is_counted = false;
        while let Some(set) = sets.next() {
            let before = self.ledger.total(Counter::SetsUndecodable);
            match set {
                Ok(Set::Templates(records)) => self.templates(index, records, false),
                Ok(Set::OptionsTemplates(records)) => self.templates(index, records, true),
                Ok(Set::Data { template, body }) => {
                    let records = self.data(index, template, body, clock);
                    units = units.zip(records).map(|(units, records): (u32, u32)| units + records);
                }
                Ok(Set::Reserved { .. }) => self.count(index, Counter::SetsReserved, 1),
                Err(error) => {
                    if !is_counted {
                        self.note_in_set(index, Some(error));
                    }
                    units = None;
                }
            }
            // what is there of a set that is too long may be wrong already, and it is one set
            is_counted = sets.overruns() && self.ledger.total(Counter::SetsUndecodable) > before;
        }
        units
    }
}

/// What the header of a message says about its place among others.
#[derive(Clone, Copy)]
struct Numbered {
    sequence: u32,
    /// Hash of the message.
    hash: u64,
    /// Whether the message is as long as it says.
    whole: bool,
}

fn arrival(sequence: u32, clock: &MessageClock, [records, all_records]: [u32; 2], complete: bool) -> Arrival {
    let MessageClock { export_ms, uptime_ms, .. } = *clock;
    Arrival { sequence, records, all_records, complete, export_ms, uptime_ms }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use weir_wire::{fixed, netflow5};

    use super::*;
    use crate::Limits;

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
}
