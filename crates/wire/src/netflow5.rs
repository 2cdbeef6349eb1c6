//! NetFlow version 5: a header and up to 30 records of one fixed form.
//!
//! The format has no RFC; it is Cisco's, published as "NetFlow Export Datagram Format".

use crate::cursor::Cursor;
use crate::error::{WireError, octets_of};
use crate::fixed::{record, whole_records};

/// The version field of every packet.
pub const VERSION: u16 = 5;

/// Length of the packet header in octets.
pub const HEADER_LEN: usize = 24;

/// Length of each record in octets.
pub const RECORD_LEN: usize = 48;

/// Most records that an exporter puts into a packet. A decoder takes as many as there are.
pub const PACKET_RECORDS_MAX: u16 = 30;

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
    /// Number of flows that this engine had sent before, modulo 2^32.
    pub flow_sequence: u32,
    /// Type of the engine that switched the flows.
    pub engine_type: u8,
    /// Slot of that engine.
    pub engine_id: u8,
    /// Sampling mode in the two highest bits, interval in the other 14.
    pub sampling: u16,
}

/// A packet: header and records, borrowed from the datagram.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// The header.
    pub header: Header,
    /// The whole records present, never more than the header counts. See [`Packet::iter`], or [`field`] for going
    /// through them column by column.
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
        Some(Self {
            count: cursor.u16()?,
            sys_uptime_ms: cursor.u32()?,
            unix_secs: cursor.u32()?,
            unix_nsecs: cursor.u32()?,
            flow_sequence: cursor.u32()?,
            engine_type: cursor.u8()?,
            engine_id: cursor.u8()?,
            sampling: cursor.u16()?,
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(VERSION.to_be_bytes());
        out.extend(self.count.to_be_bytes());
        out.extend(self.sys_uptime_ms.to_be_bytes());
        out.extend(self.unix_secs.to_be_bytes());
        out.extend(self.unix_nsecs.to_be_bytes());
        out.extend(self.flow_sequence.to_be_bytes());
        out.extend([self.engine_type, self.engine_id]);
        out.extend(self.sampling.to_be_bytes());
    }

    /// How packets were selected: 0 not at all, 1 one in every interval, 2 at random; 3 is not defined.
    pub fn sampling_mode(&self) -> u8 {
        (self.sampling >> 14) as u8
    }

    /// One packet in how many was selected; 0 when the exporter does not say.
    pub fn sampling_interval(&self) -> u16 {
        self.sampling & 0x3fff
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
    /// All TCP flags seen, or-ed.
    TCP_FLAGS, tcp_flags: u8 = 37;
    /// IP protocol.
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
}

/// A flow record, borrowed from the datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordView<'a>(pub &'a [u8; RECORD_LEN]);

/// Writes a packet into a vector that the caller reuses. The header's `count` is patched at the end;
/// `flow_sequence` is the caller's, who adds the records of each finished packet.
#[derive(Debug)]
#[must_use = "an unfinished packet has no valid count"]
pub struct PacketBuilder<'v> {
    out: &'v mut Vec<u8>,
    /// Where the packet begins in `out`.
    start: usize,
    count: u16,
}

/// Where the header holds the count.
const COUNT_OFFSET: usize = 2;

impl<'v> PacketBuilder<'v> {
    /// Begins a packet at the end of `out`.
    pub fn new(out: &'v mut Vec<u8>, header: &Header) -> Self {
        let start = out.len();
        header.write(out);
        Self { out, start, count: 0 }
    }

    /// Length of the packet so far.
    pub fn octets(&self) -> usize {
        self.out.len() - self.start
    }

    /// Records that can still be added to a packet of at most `datagram_octets_max`.
    pub fn remaining(&self, datagram_octets_max: usize) -> usize {
        let fit = datagram_octets_max.saturating_sub(self.octets()) / RECORD_LEN;
        fit.min(usize::from(PACKET_RECORDS_MAX - self.count))
    }

    /// Adds a record.
    ///
    /// # Errors
    ///
    /// [`WireError::CountFull`] when there are [`PACKET_RECORDS_MAX`] already.
    pub fn record(&mut self, record: &Record) -> Result<(), WireError> {
        if self.count == PACKET_RECORDS_MAX {
            return Err(WireError::CountFull { limit: PACKET_RECORDS_MAX.into() });
        }
        self.out.extend_from_slice(&record.encode());
        self.count += 1;
        Ok(())
    }

    /// Completes the packet and yields its number of records.
    pub fn finish(self) -> u16 {
        let offset = self.start + COUNT_OFFSET;
        self.out[offset..offset + 2].copy_from_slice(&self.count.to_be_bytes());
        self.count
    }
}
