//! IP and what it carries: extension headers, transports, and the way into tunnels.

use super::{EXTENSION_HEADERS_MAX, End, Fragment, Headers, Ip, Layer, LinkType, Step, skip, split};
use super::{Inside, Tunnel, TunnelKind};
use super::{in_udp, link, tunnel};

const HOP_BY_HOP: u8 = 0;
const ICMP: u8 = 1;
const IGMP: u8 = 2;
const IPV4: u8 = 4;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
const DCCP: u8 = 33;
const IPV6: u8 = 41;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const RSVP: u8 = 46;
const GRE: u8 = 47;
const AUTHENTICATION: u8 = 51;
const ICMPV6: u8 = 58;
const DESTINATION_OPTIONS: u8 = 60;
const EIGRP: u8 = 88;
const OSPF: u8 = 89;
const ETHERIP: u8 = 97;
const PIM: u8 = 103;
const VRRP: u8 = 112;
const L2TP: u8 = 115;
const SCTP: u8 = 132;
const MOBILITY: u8 = 135;
const UDP_LITE: u8 = 136;
const MPLS: u8 = 137;
const HIP: u8 = 139;
const SHIM6: u8 = 140;
const ETHERNET: u8 = 143;

/// RFC 791 section 3.1. What is beyond the total length is padding of the link and is not read.
#[inline]
pub(super) fn ipv4<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let (header, _) = split::<20>(octets)?;
    let length = usize::from(header[0] & 0xf) * 4;
    let total_length = u16::from_be_bytes([header[2], header[3]]);
    let stated = usize::from(total_length);
    if header[0] >> 4 != 4 || length < 20 || (1..length).contains(&stated) {
        return Err(End::Malformed);
    }
    let flags = u16::from_be_bytes([header[6], header[7]]);
    let (offset, more) = ((flags & 0x1fff) << 3, flags & 0x2000 != 0);
    let identification = u16::from_be_bytes([header[4], header[5]]).into();
    let packet = if stated == 0 { octets } else { octets.get(..stated).unwrap_or(octets) };
    headers.ip = Some(Ip {
        octets: packet,
        header_octets: length as u32,
        source: &header[12..16],
        destination: &header[16..20],
        protocol: header[9],
        tos: header[1],
        ttl: header[8],
        total_length: total_length.into(),
        flow_label: 0,
        fragment: (offset > 0 || more).then_some(Fragment { identification, offset, more }),
    });
    let rest = skip(packet, length)?;
    match header[9] {
        _ if offset > 0 => Err(End::Payload),
        number @ (TCP | UDP | ICMP) => protocol(number, rest, headers),
        number => Ok((Layer::Protocol(number), rest)),
    }
}

/// RFC 8200 section 3, and the extension headers of section 4.
#[inline]
pub(super) fn ipv6<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let (header, _) = split::<40>(octets)?;
    let first = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
    if first >> 28 != 6 {
        return Err(End::Malformed);
    }
    let payload_length = u16::from_be_bytes([header[4], header[5]]);
    let packet = match usize::from(payload_length) {
        0 => octets,
        stated => octets.get(..40 + stated).unwrap_or(octets),
    };
    headers.ip = Some(Ip {
        octets: packet,
        header_octets: 40,
        source: &header[8..24],
        destination: &header[24..40],
        protocol: header[6],
        tos: (first >> 20) as u8,
        ttl: header[7],
        total_length: if payload_length == 0 { 0 } else { u32::from(payload_length) + 40 },
        flow_label: first & 0xf_ffff,
        fragment: None,
    });
    let rest = skip(packet, 40)?;
    match header[6] {
        number @ (TCP | UDP | ICMPV6) => protocol(number, rest, headers),
        // RFC 2675 section 3: without a length there may be an option that has it.
        HOP_BY_HOP if payload_length == 0 => {
            let packet = jumbogram(packet, headers);
            extensions(HOP_BY_HOP, skip(packet, 40)?, headers)
        }
        next => extensions(next, rest, headers),
    }
}

/// RFC 2675 section 2: the jumbo payload option among the hop-by-hop options (RFC 8200 section 4.2). Returns the packet
/// as long as it states.
fn jumbogram<'a>(packet: &'a [u8], headers: &mut Headers<'a>) -> &'a [u8] {
    const PAD1: u8 = 0;
    const JUMBO_PAYLOAD: u8 = 0xc2;
    let end = 40 + packet.get(41).map_or(0, |length| usize::from(*length) * 8 + 8);
    let mut options = packet.get(42..end).or(packet.get(42..)).unwrap_or_default();
    loop {
        match options {
            [JUMBO_PAYLOAD, 4, a, b, c, d, ..] => {
                let stated = u32::from_be_bytes([*a, *b, *c, *d]).saturating_add(40);
                // Less would have fitted into the header (section 3).
                let Some(ip) = headers.ip.as_mut().filter(|_| stated > 0xffff + 40) else { return packet };
                ip.total_length = stated;
                ip.octets = packet.get(..stated as usize).unwrap_or(packet);
                return ip.octets;
            }
            [PAD1, rest @ ..] => options = rest,
            [_, length, rest @ ..] => options = rest.get(usize::from(*length)..).unwrap_or_default(),
            _ => return packet,
        }
    }
}

/// Follows the chain of extension headers (RFC 8200 section 4, RFC 4302 section 2, RFC 6275, RFC 7401, RFC 5533).
fn extensions<'a>(first: u8, octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let (mut next, mut rest) = (first, octets);
    for _ in 0..EXTENSION_HEADERS_MAX {
        let units = rest.get(1).map(|length| usize::from(*length));
        let length = match next {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS | MOBILITY | HIP | SHIM6 => units.map(|units| units * 8 + 8),
            FRAGMENT => Some(8),
            AUTHENTICATION => units.map(|units| units * 4 + 8),
            _ => return Ok((Layer::Protocol(next), rest)),
        };
        let number = *rest.first().ok_or(End::Truncated)?;
        // What follows is known even where the capture ends within this header.
        if let Some(ip) = &mut headers.ip {
            ip.protocol = number;
        }
        let length = length.ok_or(End::Truncated)?;
        let later = next == FRAGMENT && fragment(rest, headers)? > 0;
        rest = skip(rest, length)?;
        next = number;
        if let Some(ip) = &mut headers.ip {
            ip.header_octets = (ip.octets.len() - rest.len()) as u32;
        }
        if later {
            return Err(End::Payload);
        }
    }
    Err(End::TooDeep)
}

/// RFC 8200 section 4.5. Returns the offset. A packet whose only fragment it is (RFC 6946) is none.
fn fragment(octets: &[u8], headers: &mut Headers<'_>) -> Result<u16, End> {
    let (header, _) = split::<8>(octets)?;
    let word = u16::from_be_bytes([header[2], header[3]]);
    let (offset, more) = (word & 0xfff8, word & 1 == 1);
    let identification = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    if let Some(ip) = &mut headers.ip {
        ip.fragment = (offset > 0 || more).then_some(Fragment { identification, offset, more });
    }
    Ok(offset)
}

#[inline]
pub(super) fn protocol<'a>(number: u8, octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    match number {
        TCP => {
            ports(octets, headers)?;
            let (header, rest) = split::<14>(octets)?;
            headers.tcp_flags = Some(u16::from_be_bytes([header[12], header[13]]) & 0xfff);
            let options = (usize::from(header[12] >> 4) * 4).saturating_sub(14);
            Err(if rest.len() < options { End::Truncated } else { End::Payload })
        }
        UDP => {
            let (source, destination) = ports(octets, headers)?;
            in_udp::in_udp(source, destination, skip(octets, 8)?)
        }
        ICMP | ICMPV6 => {
            let ([kind, code], _) = split::<2>(octets)?;
            headers.icmp = Some((*kind, *code));
            Err(End::Payload)
        }
        _ => other_protocol(number, octets, headers),
    }
}

#[inline(never)]
fn other_protocol<'a>(number: u8, octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    match number {
        UDP_LITE => {
            let (source, destination) = ports(octets, headers)?;
            in_udp::in_udp(source, destination, skip(octets, 8)?)
        }
        SCTP | DCCP => ports(octets, headers).and(Err(End::Payload)),
        IPV4 | IPV6 => {
            let inside = if number == IPV4 { link::IPV4 } else { link::IPV6 };
            Ok((Layer::Tunnel(Tunnel { kind: TunnelKind::Ip, id: None }, Inside::Type(inside)), octets))
        }
        GRE => tunnel::gre(octets),
        L2TP => tunnel::l2tp_in_ip(octets),
        PIM => tunnel::pim(octets),
        MPLS => Ok((Layer::Tunnel(Tunnel { kind: TunnelKind::Mpls, id: None }, Inside::Link(LinkType::Mpls)), octets)),
        // RFC 3378 section 3: version 3 and reserved bits
        ETHERIP => Ok((link::bridged(TunnelKind::EthernetInIp, None), skip(octets, 2)?)),
        ETHERNET => Ok((link::bridged(TunnelKind::EthernetInIp, None), octets)),
        // IPv4 has no chain of extension headers, but this one of them.
        AUTHENTICATION => {
            let next = octets.first().ok_or(End::Truncated)?;
            if let Some(ip) = &mut headers.ip {
                ip.protocol = *next;
            }
            let ([_, length], _) = split::<2>(octets)?;
            let rest = skip(octets, usize::from(*length) * 4 + 8)?;
            if let Some(ip) = &mut headers.ip {
                ip.header_octets = (ip.octets.len() - rest.len()) as u32;
            }
            Ok((Layer::Protocol(*next), rest))
        }
        // Nothing of these is needed to identify a flow, and what they carry is no packet: it begins with their header.
        IGMP | RSVP | EIGRP | OSPF | VRRP => Err(End::Payload),
        _ => Err(End::Unknown),
    }
}

#[inline]
fn ports(octets: &[u8], headers: &mut Headers<'_>) -> Result<(u16, u16), End> {
    let ([a, b, c, d], _) = split::<4>(octets)?;
    let ports = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
    headers.ports = Some(ports);
    Ok(ports)
}
