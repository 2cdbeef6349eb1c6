//! NetFlow version 7: what Catalyst switches send; a header and up to 27 records of one fixed form.
//!
//! The format has no RFC; it is Cisco's, published as "NetFlow Export Datagram Format".

use crate::cursor::Cursor;
use crate::error::{WireError, octets_of};
use crate::fixed::{record, whole_records};

/// The version field of every packet.
pub const VERSION: u16 = 7;

/// Length of the packet header in octets.
pub const HEADER_LEN: usize = 24;

/// Length of each record in octets.
pub const RECORD_LEN: usize = 52;

/// Header of a packet, without the version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Records in the packet.
    pub count: u16,
    /// Milliseconds since the exporter started; wraps after 49.7 days. Records count their times on it.
    pub sys_uptime_ms: u32,
    /// Time of export in seconds since 1970.
    pub unix_secs: u32,
    /// Nanoseconds of that second.
    pub unix_nsecs: u32,
    /// Number of flows that the switch had sent before, modulo 2^32.
    pub flow_sequence: u32,
}

/// A packet: header and records, borrowed from the datagram.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// The header.
    pub header: Header,
    /// The whole records present, never more than the header counts.
    pub records: &'a [u8],
    /// [`WireError::CountMismatch`] when the header counts more records than there are,
    /// [`WireError::TrailingOctets`] when octets follow the last record counted.
    pub problem: Option<WireError>,
}

/// Finds the records. Takes the same time for any number of them.
///
/// # Errors
///
/// [`WireError::WrongVersion`] and [`WireError::TruncatedHeader`].
pub fn decode(datagram: &[u8]) -> Result<Packet<'_>, WireError> {
    let mut cursor = Cursor::new(datagram);
    match cursor.u16() {
        Some(VERSION) | None => {}
        Some(found) => return Err(WireError::WrongVersion { found }),
    }
    let header = Header::read(&mut cursor)
        .ok_or(WireError::TruncatedHeader { need: HEADER_LEN as u32, have: octets_of(datagram.len()) })?;
    let (records, problem) = whole_records(cursor.rest, header.count, RECORD_LEN);
    Ok(Packet { header, records, problem })
}

impl<'a> Packet<'a> {
    /// Number of records present.
    pub fn len(&self) -> usize {
        self.records.len() / RECORD_LEN
    }

    /// Whether no record is present.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The records in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = RecordView<'a>> + use<'a> {
        self.records.as_chunks().0.iter().map(RecordView)
    }
}

impl Header {
    fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        let header = Self {
            count: cursor.u16()?,
            sys_uptime_ms: cursor.u32()?,
            unix_secs: cursor.u32()?,
            unix_nsecs: cursor.u32()?,
            flow_sequence: cursor.u32()?,
        };
        // four octets that mean nothing
        cursor.u32().map(|_| header)
    }

    /// Appends the header as it goes onto the wire.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend(VERSION.to_be_bytes());
        out.extend(self.count.to_be_bytes());
        out.extend(self.sys_uptime_ms.to_be_bytes());
        out.extend(self.unix_secs.to_be_bytes());
        out.extend(self.unix_nsecs.to_be_bytes());
        out.extend(self.flow_sequence.to_be_bytes());
        out.extend([0; 4]);
    }
}

record! {
    /// IPv4 source address, in network order.
    SRC_ADDR, src_addr: [u8; 4] = 0;
    /// IPv4 destination address, in network order.
    DST_ADDR, dst_addr: [u8; 4] = 4;
    /// IPv4 address of the next hop, in network order.
    NEXT_HOP, next_hop: [u8; 4] = 8;
    /// SNMP index of the input interface.
    INPUT, input: u16 = 12;
    /// SNMP index of the output interface.
    OUTPUT, output: u16 = 14;
    /// Packets of the flow.
    PACKETS, packets: u32 = 16;
    /// Layer 3 octets in the packets of the flow.
    OCTETS, octets: u32 = 20;
    /// The exporter's uptime in milliseconds at the first packet.
    FIRST, first_uptime_ms: u32 = 24;
    /// The exporter's uptime in milliseconds at the last packet.
    LAST, last_uptime_ms: u32 = 28;
    /// Source port of TCP, UDP or the like.
    SRC_PORT, src_port: u16 = 32;
    /// Destination port of TCP, UDP or the like; type and code for ICMP.
    DST_PORT, dst_port: u16 = 34;
    /// Which fields of the record are not valid.
    FLAGS, flags: u8 = 36;
    /// All TCP flags seen, or-ed; always 0 from a switch that cannot see them.
    TCP_FLAGS, tcp_flags: u8 = 37;
    /// IP protocol; 0 when the flow mask has only addresses.
    PROTOCOL, protocol: u8 = 38;
    /// IP type of service.
    TOS, tos: u8 = 39;
    /// Autonomous system of the source, origin or peer.
    SRC_AS, src_as: u16 = 40;
    /// Autonomous system of the destination, origin or peer.
    DST_AS, dst_as: u16 = 42;
    /// Prefix length of the source's route.
    SRC_MASK, src_mask: u8 = 44;
    /// Prefix length of the destination's route.
    DST_MASK, dst_mask: u8 = 45;
    /// More flags of fields that are not valid.
    MORE_FLAGS, more_flags: u16 = 46;
    /// IPv4 address of the router whose path the switch cut short.
    ROUTER_SC, router_sc: [u8; 4] = 48;
}

/// A flow record, borrowed from the datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordView<'a>(pub &'a [u8; RECORD_LEN]);
