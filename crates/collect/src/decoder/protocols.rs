//! The headers of the protocols: whose message it is, what its sequence number and its clock say.

use weir_flow::{Column, Counter};
use weir_wire::{Set, Sets, WireError, ipfix, netflow5, netflow9};

use super::Decoder;
use super::data::append;
use crate::clock::MessageClock;
use crate::columns::Records;
use crate::session::{DomainKey, Session};

/// Most records that fit into a UDP datagram; a header that counts more is wrong about it.
const NETFLOW5_RECORDS_MAX: u16 = ((65_507 - netflow5::HEADER_LEN) / netflow5::RECORD_LEN) as u16;

impl Decoder {
    pub(super) fn netflow5(&mut self, session: Session, received_ms: i64, payload: &[u8]) -> Result<(), WireError> {
        let packet = netflow5::decode(payload)?;
        let header = packet.header;
        let domain = u32::from(header.engine_type) << 8 | u32::from(header.engine_id);
        let Some(index) = self.enter(DomainKey { session, version: 5, domain }, payload) else { return Ok(()) };
        let records = (packet.records.len() / netflow5::RECORD_LEN) as u32;
        // A datagram cut short still tells how many flows the exporter has sent, unless no datagram could hold them.
        let units = (header.count <= NETFLOW5_RECORDS_MAX).then_some(u32::from(header.count));
        self.follow(index, header.flow_sequence, units, records);
        self.note_in_set(index, packet.problem);
        let clock = MessageClock {
            received_ms,
            export_ms: i64::from(header.unix_secs) * 1000 + i64::from(header.unix_nsecs / 1_000_000),
            uptime_ms: Some(header.sys_uptime_ms),
        };
        let Some(known) = &self.netflow5 else { return Ok(()) };
        let located = known.template.layout().locate(packet.records, &mut self.spans);
        let rows = Records { body: packet.records, located: &located };
        append(&mut self.builder, &self.domains[index as usize], known, rows, &clock);
        if rows.len() > 0 {
            self.builder.u8(Column::EngineType).repeat(header.engine_type, rows.len());
            self.builder.u8(Column::EngineId).repeat(header.engine_id, rows.len());
            if header.sampling_interval() > 0 {
                self.builder.u32(Column::SamplingInterval).repeat(u32::from(header.sampling_interval()), rows.len());
            }
        }
        self.count(index, Counter::RecordsStored, u64::from(records));
        Ok(())
    }

    pub(super) fn netflow9(&mut self, session: Session, received_ms: i64, payload: &[u8]) -> Result<(), WireError> {
        let message = netflow9::decode(payload)?;
        let header = message.header;
        let key = DomainKey { session, version: 9, domain: header.source_id.0 };
        let Some(index) = self.enter(key, payload) else { return Ok(()) };
        self.follow(index, header.sequence, Some(1), 1);
        let clock = MessageClock {
            received_ms,
            export_ms: i64::from(header.unix_secs) * 1000,
            uptime_ms: Some(header.sys_uptime_ms),
        };
        self.sets(index, message.sets, &clock);
        Ok(())
    }

    pub(super) fn ipfix(&mut self, session: Session, received_ms: i64, payload: &[u8]) -> Result<(), WireError> {
        let message = ipfix::decode(payload)?;
        let header = message.header;
        let key = DomainKey { session, version: 10, domain: header.domain.0 };
        let Some(index) = self.enter(key, payload) else { return Ok(()) };
        self.note_in_set(index, message.problem);
        let export_ms = i64::from(header.export_time_secs) * 1000;
        let units = self.sets(index, message.sets, &MessageClock { received_ms, export_ms, uptime_ms: None });
        self.follow(index, header.sequence, units, units.unwrap_or(0));
        Ok(())
    }

    /// Decodes sets. Returns the number of data records, or `None` when some could not be told apart.
    pub(super) fn sets(&mut self, index: u32, sets: Sets<'_>, clock: &MessageClock) -> Option<u32> {
        let mut units = Some(0);
        for set in sets {
            match set {
                Ok(Set::Templates(records)) => self.templates(index, records, false),
                Ok(Set::OptionsTemplates(records)) => self.templates(index, records, true),
                Ok(Set::Data { template, body }) => {
                    let records = self.data(index, template, body, clock);
                    units = units.zip(records).map(|(units, records): (u32, u32)| units + records);
                }
                Ok(Set::Reserved { .. }) => self.count(index, Counter::SetsReserved, 1),
                Err(error) => {
                    self.note_in_set(index, Some(error));
                    units = None;
                }
            }
        }
        units
    }
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
