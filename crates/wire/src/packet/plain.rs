//! The short way for what nearly every packet is.

use super::in_udp;
use super::link::{IPV4, IPV6, is_vlan};
use super::network::{TCP, UDP};

/// Octets of an Ethernet header (IEEE 802.3 clause 3.1.1), and of a tag in it.
const ETHERNET_OCTETS: usize = 14;
const TAG_OCTETS: usize = 4;
/// The least that a TCP header has (RFC 9293 section 3.1).
const TCP_OCTETS: usize = 20;
const UDP_OCTETS: usize = 8;

/// What identifies the flow of a plain packet: one in an Ethernet frame with at most one VLAN tag, of IPv4 without
/// options or IPv6 without extension headers, whole, with TCP, or UDP at no port of a tunnel, and with all headers
/// captured.
///
/// [`dissect`](super::dissect) finds the same of it, and a lot more, for several times the work: nothing is found here
/// that only few want to know, and whatever is not quite plain is left to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainPacket {
    /// Source address; one of IPv4 in the first 4 octets, and 0 behind it.
    pub source: [u8; 16],
    /// Destination address, likewise.
    pub destination: [u8; 16],
    /// Whether the addresses have 16 octets.
    pub is_ipv6: bool,
    /// Protocol: TCP or UDP.
    pub protocol: u8,
    /// Type of service or traffic class.
    pub tos: u8,
    /// TTL or hop limit.
    pub ttl: u8,
    /// VLAN identifier of the tag, if there is one.
    pub vlan: Option<u16>,
    /// Octets of the packet from the IP header on, as stated, never 0.
    pub total_length: u32,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// TCP control bits with the reserved ones; 0 for UDP.
    pub tcp_flags: u16,
}

/// Dissects an Ethernet frame if it is plain.
#[inline]
pub fn plain(frame: &[u8]) -> Option<PlainPacket> {
    let (header, mut after) = frame.split_first_chunk::<ETHERNET_OCTETS>()?;
    let mut number = u16::from_be_bytes([header[12], header[13]]);
    let mut vlan = None;
    if is_vlan(number) {
        let (tag, behind) = after.split_first_chunk::<TAG_OCTETS>()?;
        vlan = Some(u16::from_be_bytes([tag[0], tag[1]]) & 0xfff);
        (number, after) = (u16::from_be_bytes([tag[2], tag[3]]), behind);
    }
    match number {
        IPV4 => ipv4(after, vlan),
        IPV6 => ipv6(after, vlan),
        _ => None,
    }
}

/// RFC 791 section 3.1.
#[inline]
fn ipv4(octets: &[u8], vlan: Option<u16>) -> Option<PlainPacket> {
    const VERSION_AND_LENGTH: u8 = 0x45;
    const MORE_AND_OFFSET: u8 = 0x3f;
    let (header, after) = octets.split_first_chunk::<20>()?;
    if header[0] != VERSION_AND_LENGTH || (header[6] & MORE_AND_OFFSET) | header[7] != 0 {
        return None;
    }
    let total_length = u16::from_be_bytes([header[2], header[3]]);
    let transport = transport(header[9], after, usize::from(total_length).checked_sub(20)?)?;
    let (mut source, mut destination) = ([0; 16], [0; 16]);
    source[..4].copy_from_slice(&header[12..16]);
    destination[..4].copy_from_slice(&header[16..20]);
    let (src_port, dst_port, tcp_flags) = transport;
    Some(PlainPacket {
        source,
        destination,
        is_ipv6: false,
        protocol: header[9],
        tos: header[1],
        ttl: header[8],
        vlan,
        total_length: total_length.into(),
        src_port,
        dst_port,
        tcp_flags,
    })
}

/// RFC 8200 section 3.
#[inline]
fn ipv6(octets: &[u8], vlan: Option<u16>) -> Option<PlainPacket> {
    let (header, after) = octets.split_first_chunk::<40>()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let payload_length = u16::from_be_bytes([header[4], header[5]]);
    let transport = transport(header[6], after, payload_length.into())?;
    let (mut source, mut destination) = ([0; 16], [0; 16]);
    source.copy_from_slice(&header[8..24]);
    destination.copy_from_slice(&header[24..40]);
    let (src_port, dst_port, tcp_flags) = transport;
    Some(PlainPacket {
        source,
        destination,
        is_ipv6: true,
        protocol: header[6],
        tos: header[0] << 4 | header[1] >> 4,
        ttl: header[7],
        vlan,
        total_length: u32::from(payload_length) + 40,
        src_port,
        dst_port,
        tcp_flags,
    })
}

/// Ports and control bits, when the whole header is there in what was captured and in the octets that IP states.
#[inline]
fn transport(protocol: u8, octets: &[u8], stated: usize) -> Option<(u16, u16, u16)> {
    match protocol {
        TCP if stated >= TCP_OCTETS => {
            let header = octets.first_chunk::<TCP_OCTETS>()?;
            let flags = u16::from_be_bytes([header[12], header[13]]) & 0xfff;
            Some((u16::from_be_bytes([header[0], header[1]]), u16::from_be_bytes([header[2], header[3]]), flags))
        }
        UDP if stated >= UDP_OCTETS => {
            let header = octets.first_chunk::<UDP_OCTETS>()?;
            let source = u16::from_be_bytes([header[0], header[1]]);
            let destination = u16::from_be_bytes([header[2], header[3]]);
            (!in_udp::may_be_tunnel(source, destination)).then_some((source, destination, 0))
        }
        _ => None,
    }
}
