//! NetFlow version 7: what Catalyst switches send; a header and up to 27 records of one fixed form.
//!
//! The router whose path a switch cuts short is the one that the flow would else have been exported by, which is what
//! `exporterIPv4Address` means. Flags of fields that are not valid have no Information Element.

use crate::fixed::{FixedFormat, HeaderField, fields};

/// The version field of every packet.
pub const VERSION: u16 = 7;

/// Length of the packet header in octets.
pub const HEADER_LEN: usize = FORMAT.header_len();

/// Length of each record in octets.
pub const RECORD_LEN: usize = 52;

/// Header and record of the version.
pub static FORMAT: FixedFormat = FixedFormat {
    version: VERSION,
    header: &[HeaderField::FlowSequence, HeaderField::Reserved],
    packet_records_max: 27,
    record_len: RECORD_LEN,
    fields: field::ALL,
}
.checked();

fields! {
    SRC_ADDR:   0, 4, Some(8), "IPv4 source address.";
    DST_ADDR:   4, 4, Some(12), "IPv4 destination address.";
    NEXT_HOP:   8, 4, Some(15), "IPv4 address of the next hop.";
    INPUT:      12, 2, Some(10), "SNMP index of the input interface.";
    OUTPUT:     14, 2, Some(14), "SNMP index of the output interface.";
    PACKETS:    16, 4, Some(2), "Packets of the flow.";
    OCTETS:     20, 4, Some(1), "Layer 3 octets in the packets of the flow.";
    FIRST:      24, 4, Some(22), "The exporter's uptime in milliseconds at the first packet.";
    LAST:       28, 4, Some(21), "The exporter's uptime in milliseconds at the last packet.";
    SRC_PORT:   32, 2, Some(7), "Source port of TCP, UDP or the like.";
    DST_PORT:   34, 2, Some(11), "Destination port of TCP, UDP or the like; type and code for ICMP.";
    FLAGS:      36, 1, None, "Which fields of the record are not valid.";
    TCP_FLAGS:  37, 1, Some(6), "All TCP flags seen, or-ed; always 0 from a switch that cannot see them.";
    PROTOCOL:   38, 1, Some(4), "IP protocol; 0 when the flow mask has only addresses.";
    TOS:        39, 1, Some(5), "IP type of service.";
    SRC_AS:     40, 2, Some(16), "Autonomous system of the source, origin or peer.";
    DST_AS:     42, 2, Some(17), "Autonomous system of the destination, origin or peer.";
    SRC_MASK:   44, 1, Some(9), "Prefix length of the source's route.";
    DST_MASK:   45, 1, Some(13), "Prefix length of the destination's route.";
    MORE_FLAGS: 46, 2, None, "More flags of fields that are not valid.";
    ROUTER_SC:  48, 4, Some(130), "IPv4 address of the router whose path the switch cut short.";
}
