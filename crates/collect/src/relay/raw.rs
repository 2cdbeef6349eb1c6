//! Datagrams under the address of somebody else.

use std::io;
use std::net::{IpAddr, SocketAddr};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// `IPPROTO_RAW`: packets with headers of our own making.
const PROTOCOL_RAW: i32 = 255;
const PROTOCOL_UDP: u8 = 17;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const UDP_HEADER: usize = 8;
const HOPS: u8 = 64;

/// A socket for whole packets to one collector.
pub(super) struct RawSocket {
    socket: Socket,
    target: SocketAddr,
    packet: Vec<u8>,
}

impl RawSocket {
    pub(super) fn open(target: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(target), Type::RAW, Some(Protocol::from(PROTOCOL_RAW)))?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, target, packet: Vec::new() })
    }

    /// Sends a datagram as if it came from `source`, which is of the target's family. The kernel does not cut such
    /// packets into fragments: one that is too long for the link is an error.
    pub(super) fn send(&mut self, source: SocketAddr, payload: &[u8]) -> io::Result<()> {
        if !write_packet(&mut self.packet, source, self.target, payload) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // the kernel wants no port here
        let target = SockAddr::from(SocketAddr::new(self.target.ip(), 0));
        self.socket.send_to(&self.packet, &target).map(drop)
    }
}

/// Writes headers of IP and UDP, and the payload. False when the families differ or the payload is too long.
fn write_packet(packet: &mut Vec<u8>, source: SocketAddr, target: SocketAddr, payload: &[u8]) -> bool {
    let Ok(udp_len) = u16::try_from(UDP_HEADER + payload.len()) else { return false };
    packet.clear();
    let header_len = match (source.ip(), target.ip()) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            let Some(length) = udp_len.checked_add(IPV4_HEADER as u16) else { return false };
            packet.extend([0x45, 0]);
            packet.extend(length.to_be_bytes());
            // identification and header checksum are the kernel's
            packet.extend([0, 0, 0, 0, HOPS, PROTOCOL_UDP, 0, 0]);
            packet.extend(source.octets());
            packet.extend(target.octets());
            IPV4_HEADER
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => {
            packet.extend([0x60, 0, 0, 0]);
            packet.extend(udp_len.to_be_bytes());
            packet.extend([PROTOCOL_UDP, HOPS]);
            packet.extend(source.octets());
            packet.extend(target.octets());
            IPV6_HEADER
        }
        _ => return false,
    };
    packet.extend(source.port().to_be_bytes());
    packet.extend(target.port().to_be_bytes());
    packet.extend(udp_len.to_be_bytes());
    packet.extend([0, 0]);
    packet.extend_from_slice(payload);
    let (ip, udp) = packet.split_at_mut(header_len);
    // both families: the addresses are the end of the header
    let addresses = if header_len == IPV4_HEADER { &ip[12..] } else { &ip[8..] };
    let sum = checksum(&[addresses, &[0, PROTOCOL_UDP], &udp_len.to_be_bytes(), udp]);
    udp[6..8].copy_from_slice(&sum.to_be_bytes());
    true
}

/// The checksum of UDP (RFC 768) over pieces of even length, but for the last.
fn checksum(pieces: &[&[u8]]) -> u16 {
    let words = pieces.iter().flat_map(|piece| piece.chunks(2));
    let mut sum: u32 = words.map(|word| u32::from(word[0]) << 8 | u32::from(word.get(1).copied().unwrap_or(0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // a checksum of zero would mean that there is none
    match !(sum as u16) {
        0 => 0xffff,
        sum => sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_of_each_family() {
        // the checksum is worked out by hand; that the kernel takes it is tested with the relay
        let mut packet = Vec::new();
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
        assert!(write_packet(&mut packet, address("192.0.2.1:4739"), address("198.51.100.2:2055"), b"abc"));
        assert_eq!(packet.len(), 31);
        assert_eq!(packet[20..], [0x12, 0x83, 0x08, 0x07, 0, 11, 0x34, 0xb4, b'a', b'b', b'c']);
        assert!(!write_packet(&mut packet, address("192.0.2.1:1"), address("[::1]:1"), b""));
        assert!(!write_packet(&mut packet, address("192.0.2.1:1"), address("192.0.2.2:1"), &vec![0; 65_508]));
        assert!(write_packet(&mut packet, address("[::1]:1"), address("[::1]:1"), &vec![0; 65_527]));
    }
}
