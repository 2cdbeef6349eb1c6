//! NetFlow version 1: a header without a sequence number and up to 24 records of one fixed form.
//! The last seven octets of a record are reserved.

use crate::fixed::{FixedFormat, fields};

/// The version field of every packet.
pub const VERSION: u16 = 1;

/// Length of the packet header in octets.
pub const HEADER_LEN: usize = FORMAT.header_len();

/// Length of each record in octets.
pub const RECORD_LEN: usize = 48;

/// Header and record of the version.
pub static FORMAT: FixedFormat =
    FixedFormat { version: VERSION, header: &[], packet_records_max: 24, record_len: RECORD_LEN, fields: field::ALL }
        .checked();

fields! {
    SRC_ADDR:  0, 4, Some(8), "IPv4 source address.";
    DST_ADDR:  4, 4, Some(12), "IPv4 destination address.";
    NEXT_HOP:  8, 4, Some(15), "IPv4 address of the next hop.";
    INPUT:     12, 2, Some(10), "SNMP index of the input interface.";
    OUTPUT:    14, 2, Some(14), "SNMP index of the output interface.";
    PACKETS:   16, 4, Some(2), "Packets of the flow.";
    OCTETS:    20, 4, Some(1), "Layer 3 octets in the packets of the flow.";
    FIRST:     24, 4, Some(22), "The exporter's uptime in milliseconds at the first packet.";
    LAST:      28, 4, Some(21), "The exporter's uptime in milliseconds at the last packet.";
    SRC_PORT:  32, 2, Some(7), "Source port of TCP, UDP or the like.";
    DST_PORT:  34, 2, Some(11), "Destination port of TCP, UDP or the like; type and code for ICMP.";
    PROTOCOL:  38, 1, Some(4), "IP protocol.";
    TOS:       39, 1, Some(5), "IP type of service.";
    TCP_FLAGS: 40, 1, Some(6), "All TCP flags seen, or-ed.";
}
