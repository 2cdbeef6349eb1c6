//! From a frame to the UDP datagram, TCP segment or SCTP packet in it. No length is trusted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use weir_wire::packet::{End, Ip, Packet};

use super::associations::is_message;
use super::likeness::begins_like_export;
use super::reassembly::Fragment;
use super::sctp::{self, Chunk};
use super::segment::{Segment, segment};

pub(super) const PROTOCOL_TCP: u8 = 6;
pub(super) const PROTOCOL_UDP: u8 = 17;
pub(super) const PROTOCOL_SCTP: u8 = 132;

/// What a captured frame has in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content<'a> {
    /// A whole UDP datagram.
    Datagram(Datagram<'a>),
    /// A TCP segment, as far as it was captured.
    Segment(Segment<'a>),
    /// An SCTP packet, as far as it was captured.
    Packet(sctp::Packet<'a>),
    /// A piece of a fragmented UDP datagram, TCP segment or SCTP packet.
    Fragment(Fragment<'a>),
    /// A UDP datagram that the capture cut short or whose lengths contradict each other, or a frame that was cut before
    /// its IP header.
    Truncated,
    /// A UDP datagram that is not whole, and begins as exports do.
    ExportTruncated,
    /// Something else.
    Other,
}

/// A UDP datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Datagram<'a> {
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    pub(super) payload: &'a [u8],
}

/// What is in the packet of a frame, which the capture may have cut. Of tunnels it is the outermost packet that counts: a
/// datagram in a tunnel was not sent to the collector by the address inside.
pub(super) fn content<'a>(packet: &Packet<'a>, was_cut: bool) -> Content<'a> {
    let Some(ip) = &packet.outermost().ip else {
        return if packet.end == End::Truncated && was_cut { Content::Truncated } else { Content::Other };
    };
    if !matches!(ip.protocol, PROTOCOL_UDP | PROTOCOL_TCP | PROTOCOL_SCTP) {
        return Content::Other;
    }
    let (Some(source), Some(destination)) = (address(ip.source), address(ip.destination)) else {
        return Content::Other;
    };
    let is_whole = ip.octets.len() >= ip.header_octets.max(ip.total_length) as usize;
    match (fragment(ip, source, destination), ip.protocol) {
        (None, PROTOCOL_TCP) => {
            let octets_sent = ip.total_length.saturating_sub(ip.header_octets) as usize;
            segment(source, destination, ip.carried(), octets_sent).map_or(Content::Other, Content::Segment)
        }
        (None, PROTOCOL_SCTP) => {
            sctp::packet(source, destination, ip.carried()).map_or(Content::Other, Content::Packet)
        }
        (Some(_), PROTOCOL_TCP | PROTOCOL_SCTP) if !is_whole => Content::Other,
        _ if !is_whole => truncated(ip),
        (Some(fragment), _) => Content::Fragment(fragment),
        (None, _) => datagram(source, destination, ip.carried()).map_or_else(|| truncated(ip), Content::Datagram),
    }
}

/// Whether a tunnel in IP carries what looks like a datagram of an export, or like a message of IPFIX over SCTP.
pub(super) fn is_tunneled_export(packet: &Packet<'_>) -> bool {
    // of what a link carries in frames, the packet inside is the outermost one
    let is_inside = packet.outer.ip.is_some();
    let inside = packet.inner().and_then(|headers| headers.ip.as_ref()).filter(|_| is_inside);
    inside.is_some_and(|ip| has_begin_of_export(ip) || has_message_in_chunk(ip))
}

fn truncated<'a>(ip: &Ip<'_>) -> Content<'a> {
    if has_begin_of_export(ip) { Content::ExportTruncated } else { Content::Truncated }
}

/// Whether a packet, of which the end may be missing, begins as a datagram of an export does.
fn has_begin_of_export(ip: &Ip<'_>) -> bool {
    let Some((header, payload)) = ip.carried().split_first_chunk::<8>() else { return false };
    let sent_octets = usize::from(u16::from_be_bytes([header[4], header[5]])).saturating_sub(header.len());
    ip.protocol == PROTOCOL_UDP && !ip.is_later_fragment() && begins_like_export(payload, sent_octets)
}

/// Whether a packet is one of SCTP with a chunk that has a whole message.
fn has_message_in_chunk(ip: &Ip<'_>) -> bool {
    if ip.protocol != PROTOCOL_SCTP || ip.fragment.is_some() {
        return false;
    }
    let (Some(source), Some(destination)) = (address(ip.source), address(ip.destination)) else { return false };
    let has_message = |chunk| matches!(chunk, Ok(Chunk::Data(data)) if data.header.begins && is_message(data.payload));
    sctp::packet(source, destination, ip.carried()).is_some_and(|packet| packet.chunks().any(has_message))
}

fn fragment<'a>(ip: &Ip<'a>, source: IpAddr, destination: IpAddr) -> Option<Fragment<'a>> {
    let fragment = ip.fragment?;
    Some(Fragment {
        source,
        destination,
        protocol: ip.protocol,
        id: fragment.identification,
        offset: fragment.offset.into(),
        last: !fragment.more,
        octets: ip.carried(),
    })
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).ok().map(|octets| IpAddr::V4(Ipv4Addr::from(octets)));
    v4.or_else(|| <[u8; 16]>::try_from(octets).ok().map(|octets| IpAddr::V6(Ipv6Addr::from(octets))))
}

/// Reads a UDP header and the payload after it; `None` when it is not all there.
pub(super) fn datagram(source: IpAddr, destination: IpAddr, segment: &[u8]) -> Option<Datagram<'_>> {
    let header = segment.first_chunk::<8>()?;
    let number = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let payload = segment.get(8..usize::from(number(4)))?;
    let (source, destination) = (SocketAddr::new(source, number(0)), SocketAddr::new(destination, number(2)));
    Some(Datagram { source, destination, payload })
}

#[cfg(test)]
mod tests {
    use weir_wire::packet::{LinkType, dissect};

    use super::*;

    fn find(link: LinkType, frame: &[u8], wire_octets: usize) -> Content<'_> {
        content(&dissect(link, frame), frame.len() < wire_octets)
    }

    fn read(link: u16, frame: &[u8]) -> Content<'_> {
        find(LinkType::from_dlt(link).expect("a link type"), frame, frame.len())
    }

    /// 192.0.2.1:1000 to 192.0.2.2:2055, payload "abcd", as RFC 791 and RFC 768 lay it out.
    const PACKET: [u8; 32] = [
        0x45, 0, 0, 32, 0, 7, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, 3, 232, 8, 7, 0, 12, 0, 0, b'a', b'b',
        b'c', b'd',
    ];

    fn check(content: &Content<'_>) {
        let expected = Content::Datagram(Datagram {
            source: "192.0.2.1:1000".parse().expect("address"),
            destination: "192.0.2.2:2055".parse().expect("address"),
            payload: b"abcd",
        });
        assert_eq!(*content, expected);
    }

    #[test]
    fn link_types() {
        let with = |head: &[u8]| [head, PACKET.as_slice()].concat();
        check(&read(101, &PACKET));
        check(&read(1, &with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0])));
        check(&read(1, &with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x81, 0, 0, 5, 8, 0])));
        check(&read(0, &with(&[2, 0, 0, 0])));
        check(&read(113, &with(&[0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0])));
        check(&read(276, &with(&[8, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0])));
        check(&read(9, &with(&[0xff, 3, 0, 0x21])));
        check(&read(9, &with(&[0xff, 3, 2, 0x81, 0, 0, 0x11, 64])));
        check(&read(1, &with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x88, 0x64, 0x11, 0, 0, 1, 0, 34, 0, 0x21])));
        check(&read(104, &with(&[0x0f, 0, 8, 0])));
    }

    #[test]
    fn nothing_cut_short_is_read() {
        for length in 0..PACKET.len() {
            assert_eq!(find(LinkType::Ip, &PACKET[..length], PACKET.len()), Content::Truncated, "{length} octets");
        }
    }

    /// A message of IPFIX (RFC 7011 section 3.1), of which the length is that of the datagram.
    fn export() -> Vec<u8> {
        let mut packet = [&PACKET[..28], &[0; 40]].concat();
        (packet[3], packet[25]) = (68, 48);
        packet[28..32].copy_from_slice(&[0, 10, 0, 40]);
        packet
    }

    #[test]
    fn exports_that_are_cut_short_are_recognized() {
        let packet = export();
        assert_eq!(find(LinkType::Ip, &packet[..50], packet.len()), Content::ExportTruncated);
        // its length is not there, or is another one
        assert_eq!(find(LinkType::Ip, &packet[..31], packet.len()), Content::Truncated);
        let mut other = packet.clone();
        other[31] = 41;
        assert_eq!(find(LinkType::Ip, &other[..50], packet.len()), Content::Truncated);
        assert!(matches!(read(101, &packet), Content::Datagram(_)));
    }

    /// IP in IP (RFC 2003), GRE (RFC 2784) and VXLAN (RFC 7348).
    #[test]
    fn exports_in_tunnels_are_recognized() {
        let outer = |protocol: u8, inside: &[u8]| {
            let mut packet = [&PACKET[..20], inside].concat();
            (packet[3], packet[9]) = (packet.len() as u8, protocol);
            packet
        };
        let ethernet = [&[0; 12][..], &[8, 0], &export()[..]].concat();
        let mut vxlan = [&[3, 232, 0x12, 0xb5, 0, 0, 0, 0][..], &[8, 0, 0, 0, 0, 0, 1, 0], &ethernet[..]].concat();
        vxlan[5] = vxlan.len() as u8;
        let is_found = |link: LinkType, frame: &[u8]| is_tunneled_export(&dissect(link, frame));
        assert!(is_found(LinkType::Ip, &outer(4, &export())));
        assert!(is_found(LinkType::Ip, &outer(47, &[&[0, 0, 8, 0][..], &export()[..]].concat())));
        assert!(is_found(LinkType::Ip, &outer(PROTOCOL_UDP, &vxlan)));
        assert!(!is_found(LinkType::Ip, &outer(4, &PACKET)) && !is_found(LinkType::Ip, &export()));
        assert!(!is_found(LinkType::Ethernet, &ethernet));
        // DATA (RFC 9260 section 3.3.1) with a message of one set, and with something else
        let message: [u8; 21] = [0, 10, 0, 21, 0x65, 0x53, 0xf1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 5, 7];
        for (payload, is_export) in [(message, true), ([1; 21], false)] {
            let data = [&[0_u8, 3, 0, 37][..], &[0; 12], &payload, &[0; 3]].concat();
            let packet = outer(PROTOCOL_SCTP, &[&PACKET[20..24], &[0; 8], &data].concat());
            assert!(is_found(LinkType::Ip, &outer(4, &packet)) == is_export && !is_found(LinkType::Ip, &packet));
        }
    }

    #[test]
    fn frames_cut_before_ip_are_truncated_and_short_ones_are_not() {
        let ethernet = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0x45, 0];
        assert_eq!(find(LinkType::Ethernet, &ethernet, 60), Content::Truncated);
        assert_eq!(find(LinkType::Ethernet, &ethernet, ethernet.len()), Content::Other);
    }

    /// Links that only the one dissector knows: netfilter's log, `PPPoE` of the link itself, a switch's tag.
    #[test]
    fn rarer_links_are_read_too() {
        let with = |head: &[u8]| [head, PACKET.as_slice()].concat();
        check(&read(239, &with(&[2, 0, 0, 0, 36, 0, 9, 0])));
        check(&read(51, &with(&[0x11, 0, 0, 1, 0, 34, 0, 0x21])));
        check(&read(281, &with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 8, 0])));
    }

    #[test]
    fn fragments_of_both_families() {
        let mut v4 = PACKET;
        v4[6] = 0x20;
        let expected = Fragment {
            source: "192.0.2.1".parse().expect("address"),
            destination: "192.0.2.2".parse().expect("address"),
            protocol: PROTOCOL_UDP,
            id: 7,
            offset: 0,
            last: false,
            octets: &PACKET[20..],
        };
        assert_eq!(read(101, &v4), Content::Fragment(expected));
        let mut v6 = vec![0x60, 0, 0, 0, 0, 20, 44, 64];
        v6.extend([[0; 15].as_slice(), &[1], &[0; 15], &[1]].concat());
        v6.extend([17, 0, 0, 8, 0, 0, 0, 9]);
        v6.extend(&PACKET[20..]);
        let loopback = IpAddr::from(Ipv6Addr::LOCALHOST);
        let later = Fragment { source: loopback, destination: loopback, id: 9, offset: 8, last: true, ..expected };
        assert_eq!(read(101, &v6), Content::Fragment(later));
    }

    /// The same packet as one of TCP, whose header is 20 octets of zeros but for its own length (RFC 9293 section 3.1).
    #[test]
    fn segments_are_read_as_far_as_they_were_captured() {
        let mut packet = [&PACKET[..20], &[0; 20], b"abcd"].concat();
        (packet[3], packet[9], packet[32]) = (44, PROTOCOL_TCP, 0x50);
        let payload = |length: usize| match find(LinkType::Ip, &packet[..length], packet.len()) {
            Content::Segment(segment) => Some((segment.payload.to_vec(), segment.octets_sent)),
            _ => None,
        };
        assert_eq!(payload(44), Some((b"abcd".to_vec(), 4)));
        assert_eq!(payload(42), Some((b"ab".to_vec(), 4)));
        assert_eq!(payload(39), None);
        let mut padded = packet.clone();
        padded.extend([0; 2]);
        assert!(matches!(read(101, &padded), Content::Segment(segment) if segment.payload == b"abcd"));
        // the first fragment, whole and not
        packet[6] = 0x20;
        assert!(
            matches!(read(101, &packet), Content::Fragment(fragment) if fragment.protocol == PROTOCOL_TCP && !fragment.last)
        );
        assert_eq!(read(101, &packet[..43]), Content::Other);
    }

    /// The same packet as one of SCTP, with tag 9 and an ABORT (RFC 9260 section 3.3.7).
    #[test]
    fn sctp_packets_are_read_as_far_as_they_were_captured() {
        let mut packet = [&PACKET[..24], &[0, 0, 0, 9, 0, 0, 0, 0, 6, 0, 0, 4]].concat();
        (packet[3], packet[9]) = (36, PROTOCOL_SCTP);
        let chunks = |length: usize| match find(LinkType::Ip, &packet[..length], packet.len()) {
            Content::Packet(found) => Some((found.destination.port(), found.tag, found.chunks().count())),
            _ => None,
        };
        assert_eq!((chunks(36), chunks(32), chunks(31)), (Some((2055, 9, 1)), Some((2055, 9, 0)), None));
        let mut fragment = packet.clone();
        fragment[6] = 0x20;
        assert!(matches!(read(101, &fragment), Content::Fragment(fragment) if fragment.protocol == PROTOCOL_SCTP));
        assert_eq!(read(101, &fragment[..35]), Content::Other);
    }

    /// Behind a tunnel's header the datagram is not one that was sent to a collector.
    #[test]
    fn the_outermost_packet_counts() {
        let mut outer = [0x45, 0, 0, 52, 0, 7, 0, 0, 64, 4, 0, 0, 198, 51, 100, 1, 198, 51, 100, 2].to_vec();
        outer.extend(PACKET);
        assert_eq!(read(101, &outer), Content::Other);
    }
}
