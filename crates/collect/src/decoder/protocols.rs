//! The headers of the protocols: whose message it is, what its sequence number and its clock say.

use weir_flow::{Column, Counter};
use weir_wire::{Set, Sets, WireError, ipfix, netflow1, netflow5, netflow7, netflow9};

use super::Decoder;
use super::data::append;
use crate::clock::MessageClock;
use crate::columns::Records;
use crate::sequence::Arrival;
use crate::session::{DomainKey, Session};

/// Longest datagram of UDP over IPv4.
const DATAGRAM_OCTETS_MAX: usize = 65_507;

/// What the versions with records of one fixed form have in common, once their headers are read.
struct FixedPacket<'a> {
    version: u8,
    domain: u32,
    header_len: usize,
    record_len: usize,
    /// Records by the header.
    count: u16,
    sequence: Option<u32>,
    clock: MessageClock,
    records: &'a [u8],
    problem: Option<WireError>,
}

/// A clock of seconds, nanoseconds and uptime.
fn fixed_clock(received_ms: i64, secs: u32, nanos: u32, uptime_ms: u32) -> MessageClock {
    let export_ms = i64::from(secs) * 1000 + i64::from(nanos / 1_000_000);
    MessageClock { received_ms, export_ms, uptime_ms: Some(uptime_ms) }
}

impl Decoder {
    pub(super) fn netflow1(&mut self, session: Session, received_ms: i64, payload: &[u8]) -> Result<(), WireError> {
        let packet = netflow1::decode(payload)?;
        let header = packet.header;
        self.fixed(
            session,
            payload,
            &FixedPacket {
                version: 1,
                domain: 0,
                header_len: netflow1::HEADER_LEN,
                record_len: netflow1::RECORD_LEN,
                count: header.count,
                sequence: None,
                clock: fixed_clock(received_ms, header.unix_secs, header.unix_nsecs, header.sys_uptime_ms),
                records: packet.records,
                problem: packet.problem,
            },
        );
        Ok(())
    }

    pub(super) fn netflow5(&mut self, session: Session, received_ms: i64, payload: &[u8]) -> Result<(), WireError> {
        let packet = netflow5::decode(payload)?;
        let header = packet.header;
        let rows = self.fixed(
            session,
            payload,
            &FixedPacket {
                version: 5,
                domain: u32::from(header.engine_type) << 8 | u32::from(header.engine_id),
                header_len: netflow5::HEADER_LEN,
                record_len: netflow5::RECORD_LEN,
                count: header.count,
                sequence: Some(header.flow_sequence),
                clock: fixed_clock(received_ms, header.unix_secs, header.unix_nsecs, header.sys_uptime_ms),
                records: packet.records,
                problem: packet.problem,
            },
        );
        if rows > 0 {
            self.builder.u8(Column::EngineType).repeat(header.engine_type, rows);
            self.builder.u8(Column::EngineId).repeat(header.engine_id, rows);
            if header.sampling_interval() > 0 {
                self.builder.u32(Column::SamplingInterval).repeat(u32::from(header.sampling_interval()), rows);
            }
        }
        Ok(())
    }

    pub(super) fn netflow7(&mut self, session: Session, received_ms: i64, payload: &[u8]) -> Result<(), WireError> {
        let packet = netflow7::decode(payload)?;
        let header = packet.header;
        self.fixed(
            session,
            payload,
            &FixedPacket {
                version: 7,
                domain: 0,
                header_len: netflow7::HEADER_LEN,
                record_len: netflow7::RECORD_LEN,
                count: header.count,
                sequence: Some(header.flow_sequence),
                clock: fixed_clock(received_ms, header.unix_secs, header.unix_nsecs, header.sys_uptime_ms),
                records: packet.records,
                problem: packet.problem,
            },
        );
        Ok(())
    }

    /// Decodes the records of a packet. Yields how many became flows in the group of rows that is open.
    fn fixed(&mut self, session: Session, payload: &[u8], packet: &FixedPacket<'_>) -> usize {
        let key = DomainKey { session, version: packet.version, domain: packet.domain };
        let Some(index) = self.enter(key, payload) else { return 0 };
        let sequence = packet.sequence.unwrap_or(0);
        let Some(hash) = self.is_new(index, sequence, payload) else { return 0 };
        let records = (packet.records.len() / packet.record_len) as u32;
        // A datagram cut short still tells how many flows the exporter has sent, unless no datagram could hold them.
        let records_max = (DATAGRAM_OCTETS_MAX - packet.header_len) / packet.record_len;
        let complete = usize::from(packet.count) <= records_max;
        let units = if complete { u32::from(packet.count) } else { records };
        self.note_in_set(index, packet.problem);
        self.follow(index, &arrival(sequence, &packet.clock, [units; 2], complete), hash);
        let [one, five, seven] = &self.fixed;
        let known = match packet.version {
            1 => one,
            5 => five,
            _ => seven,
        };
        let Some(known) = known else { return 0 };
        let located = known.template.layout().locate(packet.records, &mut self.spans);
        let rows = Records { body: packet.records, located: &located };
        append(&mut self.builder, &self.domains[index as usize], known, rows, &packet.clock, None);
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

    use super::*;
    use crate::Limits;

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
}
