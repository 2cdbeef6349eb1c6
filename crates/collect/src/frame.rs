//! From a captured frame to the UDP payload in it. No length is trusted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What a captured frame holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// A whole UDP datagram.
    Udp { source: SocketAddr, destination: SocketAddr, payload: &'a [u8] },
    /// A piece of a fragmented UDP datagram (RFC 791 section 3.2).
    Fragment(Fragment<'a>),
    /// A UDP datagram that the capture cut short, or whose lengths lie.
    Truncated,
    /// Something else.
    Other,
}

/// A piece of a fragmented UDP datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fragment<'a> {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub id: u32,
    /// Octets before this piece.
    pub offset: usize,
    pub last: bool,
    pub octets: &'a [u8],
}

const PROTOCOL_UDP: u8 = 17;
/// Encapsulations within a frame that are followed, VLAN tags for example.
const NESTING_MAX: usize = 8;

/// Reads a frame of a link type (as in pcap files).
pub(crate) fn read(link_type: i32, frame: &[u8]) -> Frame<'_> {
    match link_type {
        // NULL and LOOP: a family number in either byte order, which the IP version tells as well
        0 | 108 => frame.get(4..).map_or(Frame::Truncated, ip),
        1 => frame.get(12..).map_or(Frame::Truncated, ether_type),
        // Linux cooked captures, version 1 and 2
        113 => frame.get(14..).map_or(Frame::Truncated, ether_type),
        276 => match (frame.first_chunk::<2>(), frame.get(20..)) {
            (Some(protocol), Some(rest)) => after_ether_type(u16::from_be_bytes(*protocol), rest),
            _ => Frame::Truncated,
        },
        // PPP with and without address and control, Cisco HDLC
        9 => match frame {
            [0xff, 0x03, rest @ ..] | rest => ppp(rest),
        },
        104 => frame.get(2..).map_or(Frame::Truncated, ether_type),
        12 | 14 | 101 | 228 | 229 => ip(frame),
        _ => Frame::Other,
    }
}

fn ppp(octets: &[u8]) -> Frame<'_> {
    match octets {
        [0x00, 0x21 | 0x57, rest @ ..] | [0x21 | 0x57, rest @ ..] => ip(rest),
        [0x02, 0x81 | 0x83, rest @ ..] => after_ether_type(0x8847, rest),
        _ => Frame::Other,
    }
}

/// Follows an `EtherType` through VLAN tags and MPLS labels to IP.
fn ether_type(octets: &[u8]) -> Frame<'_> {
    match octets.split_first_chunk::<2>() {
        Some((ether_type, rest)) => after_ether_type(u16::from_be_bytes(*ether_type), rest),
        None => Frame::Truncated,
    }
}

fn after_ether_type(mut ether_type: u16, mut rest: &[u8]) -> Frame<'_> {
    for _ in 0..NESTING_MAX {
        match ether_type {
            0x0800 | 0x86dd => return ip(rest),
            0x8100 | 0x88a8 | 0x9100 => {
                let Some(([_, _, high, low], inner)) = rest.split_first_chunk::<4>() else { return Frame::Truncated };
                ether_type = u16::from_be_bytes([*high, *low]);
                rest = inner;
            }
            0x8847 | 0x8848 => {
                let Some(([_, _, bottom, _], inner)) = rest.split_first_chunk::<4>() else { return Frame::Truncated };
                rest = inner;
                ether_type = if bottom & 1 == 1 { 0x0800 } else { ether_type };
            }
            // PPPoE sessions (RFC 2516): six octets before the protocol of PPP
            0x8864 => return rest.get(6..).map_or(Frame::Truncated, ppp),
            _ => return Frame::Other,
        }
    }
    Frame::Other
}

fn ip(packet: &[u8]) -> Frame<'_> {
    match packet.first().map(|first| first >> 4) {
        Some(4) => ipv4(packet),
        Some(6) => ipv6(packet),
        Some(_) => Frame::Other,
        None => Frame::Truncated,
    }
}

fn ipv4(packet: &[u8]) -> Frame<'_> {
    let Some(header) = packet.first_chunk::<20>() else { return Frame::Truncated };
    if header[9] != PROTOCOL_UDP {
        return Frame::Other;
    }
    let header_len = usize::from(header[0] & 0x0f) * 4;
    let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    // a total length of 0 is what segmentation offload leaves behind
    let end = if total_len == 0 { packet.len() } else { total_len };
    let Some(body) = packet.get(header_len.max(20)..end) else { return Frame::Truncated };
    let address = |at: usize| IpAddr::from(Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]));
    let (source, destination) = (address(12), address(16));
    let flags = u16::from_be_bytes([header[6], header[7]]);
    let (more, offset) = (flags & 0x2000 != 0, usize::from(flags & 0x1fff) * 8);
    if more || offset > 0 {
        let id = u32::from(u16::from_be_bytes([header[4], header[5]]));
        return Frame::Fragment(Fragment { source, destination, id, offset, last: !more, octets: body });
    }
    udp(source, destination, body)
}

fn ipv6(packet: &[u8]) -> Frame<'_> {
    let Some((header, rest)) = packet.split_first_chunk::<40>() else { return Frame::Truncated };
    let payload_len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let Some(mut body) = rest.get(..payload_len) else { return Frame::Truncated };
    let address = |at: usize| {
        let octets = header[at..].first_chunk::<16>().copied().unwrap_or_default();
        IpAddr::from(Ipv6Addr::from(octets))
    };
    let (source, destination) = (address(8), address(24));
    let mut next = header[6];
    for _ in 0..NESTING_MAX {
        match next {
            PROTOCOL_UDP => return udp(source, destination, body),
            44 => {
                let Some((fragment, octets)) = body.split_first_chunk::<8>() else { return Frame::Truncated };
                if fragment[0] != PROTOCOL_UDP {
                    return Frame::Other;
                }
                let flags = u16::from_be_bytes([fragment[2], fragment[3]]);
                let id = u32::from_be_bytes([fragment[4], fragment[5], fragment[6], fragment[7]]);
                let (offset, last) = (usize::from(flags & 0xfff8), flags & 1 == 0);
                return Frame::Fragment(Fragment { source, destination, id, offset, last, octets });
            }
            // hop-by-hop options, routing, destination options
            0 | 43 | 60 => {
                let Some(&[following, length]) = body.first_chunk::<2>() else { return Frame::Truncated };
                next = following;
                body = match body.get(8 + usize::from(length) * 8..) {
                    Some(rest) => rest,
                    None => return Frame::Truncated,
                };
            }
            _ => return Frame::Other,
        }
    }
    Frame::Other
}

/// Reads a UDP header and the payload after it.
pub(crate) fn udp(source: IpAddr, destination: IpAddr, segment: &[u8]) -> Frame<'_> {
    let Some(header) = segment.first_chunk::<8>() else { return Frame::Truncated };
    let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let Some(payload) = segment.get(8..usize::from(port(4))) else { return Frame::Truncated };
    let (source, destination) = (SocketAddr::new(source, port(0)), SocketAddr::new(destination, port(2)));
    Frame::Udp { source, destination, payload }
}

/// Most fragmented datagrams that are pieced together at a time.
const REASSEMBLIES_MAX: usize = 64;
const DATAGRAM_OCTETS_MAX: usize = 65_535;
/// Most pieces of one datagram; honest paths make some fifty of the longest.
const PIECES_MAX: usize = 1_024;

/// Pieces fragmented datagrams together. Pieces may come in any order; when too many datagrams are under way, the
/// oldest is given up.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    datagrams: Vec<Pieces>,
    /// Datagrams given up.
    pub abandoned: u64,
}

#[derive(Debug)]
struct Pieces {
    key: (IpAddr, IpAddr, u32),
    octets: Vec<u8>,
    /// Half-open ranges of octets that have come.
    have: Vec<(usize, usize)>,
    end: Option<usize>,
}

impl Reassembly {
    /// Adds a piece. Returns source, destination and UDP segment when the datagram is whole.
    pub(crate) fn add(&mut self, fragment: &Fragment<'_>) -> Option<(IpAddr, IpAddr, Vec<u8>)> {
        let end = fragment.offset + fragment.octets.len();
        if end > DATAGRAM_OCTETS_MAX {
            self.abandoned += 1;
            return None;
        }
        let key = (fragment.source, fragment.destination, fragment.id);
        let position = self.datagrams.iter().position(|pieces| pieces.key == key).unwrap_or_else(|| {
            if self.datagrams.len() == REASSEMBLIES_MAX {
                self.datagrams.remove(0);
                self.abandoned += 1;
            }
            self.datagrams.push(Pieces { key, octets: Vec::new(), have: Vec::new(), end: None });
            self.datagrams.len() - 1
        });
        if self.datagrams[position].have.len() >= PIECES_MAX {
            self.datagrams.remove(position);
            self.abandoned += 1;
            return None;
        }
        let pieces = &mut self.datagrams[position];
        if pieces.octets.len() < end {
            pieces.octets.resize(end, 0);
        }
        pieces.octets[fragment.offset..end].copy_from_slice(fragment.octets);
        pieces.have.push((fragment.offset, end));
        if fragment.last {
            pieces.end = Some(end);
        }
        if !pieces.is_whole() {
            return None;
        }
        let whole = self.datagrams.remove(position);
        Some((key.0, key.1, whole.octets))
    }

    /// Datagrams of which pieces are still missing.
    pub(crate) fn unfinished(&self) -> u64 {
        self.datagrams.len() as u64
    }
}

impl Pieces {
    fn is_whole(&mut self) -> bool {
        let Some(end) = self.end else { return false };
        self.have.sort_unstable();
        let reached =
            self.have.iter().fold(0, |reached, &(from, to)| if from <= reached { reached.max(to) } else { reached });
        reached >= end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 192.0.2.1:1000 to 192.0.2.2:2055, payload "abcd", as RFC 791 and RFC 768 lay it out.
    const PACKET: [u8; 32] = [
        0x45, 0, 0, 32, 0, 7, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, 3, 232, 8, 7, 0, 12, 0, 0, b'a', b'b',
        b'c', b'd',
    ];

    fn check(frame: &Frame<'_>) {
        let expected = Frame::Udp {
            source: "192.0.2.1:1000".parse().expect("address"),
            destination: "192.0.2.2:2055".parse().expect("address"),
            payload: b"abcd",
        };
        assert_eq!(*frame, expected);
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
            assert_eq!(read(101, &PACKET[..length]), Frame::Truncated, "{length} octets");
        }
    }

    #[test]
    fn fragments_in_any_order() {
        let segment: Vec<u8> = (0..40).collect();
        let piece = |from: usize, to: usize| Fragment {
            source: Ipv4Addr::LOCALHOST.into(),
            destination: Ipv4Addr::LOCALHOST.into(),
            id: 1,
            offset: from,
            last: to == 40,
            octets: &segment[from..to],
        };
        let mut reassembly = Reassembly::default();
        assert_eq!(reassembly.add(&piece(24, 40)), None);
        assert_eq!(reassembly.add(&piece(0, 16)), None);
        assert_eq!(reassembly.add(&piece(16, 24)).map(|whole| whole.2), Some(segment.clone()));
        assert_eq!(reassembly.unfinished(), 0);
    }
}
