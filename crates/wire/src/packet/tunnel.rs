//! Headers of tunnels.

use super::link::BRIDGED_ETHERNET;
use super::{End, Inside, Layer, LinkType, Step, Tunnel, TunnelKind, skip, split};

const VXLAN: u16 = 4789;
/// What Linux used before the port was assigned, and still does by default.
const VXLAN_LINUX: u16 = 8472;
const VXLAN_GPE: u16 = 4790;
const GENEVE: u16 = 6081;
const GTP_U: u16 = 2152;
const GRE_IN_UDP: u16 = 4754;
const MPLS_IN_UDP: u16 = 6635;

const ERSPAN_II: u16 = 0x88be;
const ERSPAN_III: u16 = 0x22eb;
/// Enhanced GRE of PPTP (RFC 2637 section 4.1) carries PPP, and some carry it in plain GRE.
const PPP_IN_GRE: u16 = 0x880b;
/// `EoIP` of `MikroTik`: the key's octets are a length and a tunnel in little-endian order.
const ETHERNET_OVER_IP: u16 = 0x6400;

fn enter(kind: TunnelKind, id: Option<u32>, inside: Inside, rest: &[u8]) -> (Layer, &[u8]) {
    (Layer::Tunnel(Tunnel { kind, id }, inside), rest)
}

fn inside(ethertype: u16) -> Inside {
    match ethertype {
        BRIDGED_ETHERNET => Inside::Link(LinkType::Ethernet),
        PPP_IN_GRE => Inside::Link(LinkType::Ppp),
        other => Inside::Type(other),
    }
}

/// What UDP carries, by its ports.
#[inline]
pub(super) fn in_udp(source: u16, destination: u16, octets: &[u8]) -> Step<'_> {
    match destination {
        VXLAN | VXLAN_LINUX | VXLAN_GPE => vxlan(destination == VXLAN_GPE, octets),
        GENEVE => geneve(octets),
        GRE_IN_UDP => gre(octets),
        MPLS_IN_UDP => Ok(enter(TunnelKind::Mpls, None, Inside::Link(LinkType::Mpls), octets)),
        GTP_U => gtp(octets),
        // User plane packets go from any port to this one, but many gateways use it on both sides.
        _ if source == GTP_U => gtp(octets),
        _ => Err(End::Payload),
    }
}

/// RFC 2784 section 2, RFC 2890 section 2; version 1 is that of RFC 2637.
pub(super) fn gre(octets: &[u8]) -> Step<'_> {
    let ([flags, version, high, low], rest) = split::<4>(octets)?;
    let (protocol, version) = (u16::from_be_bytes([*high, *low]), version);
    let has = |bit: u8| flags & bit != 0;
    if version & 7 == 1 && protocol == PPP_IN_GRE {
        let ([_, _, call @ ..], _) = split::<4>(rest)?;
        let numbers = usize::from(has(0x10)) * 4 + usize::from(version & 0x80 != 0) * 4;
        // A packet that only acknowledges carries nothing.
        let rest = skip(rest, 4 + numbers)?;
        let id = u16::from_be_bytes(*call).into();
        return Ok(enter(TunnelKind::Gre, Some(id), Inside::Link(LinkType::Ppp), rest));
    }
    if version & 7 == 1 && protocol == ETHERNET_OVER_IP {
        let ([_, _, session @ ..], rest) = split::<4>(rest)?;
        let id = u16::from_le_bytes(*session).into();
        return Ok(enter(TunnelKind::Gre, Some(id), Inside::Link(LinkType::Ethernet), rest));
    }
    // Routing was in RFC 1701 and is gone; its length is not in the header.
    if version & 7 != 0 || has(0x40) {
        return Err(End::Unknown);
    }
    let mut rest = skip(rest, usize::from(has(0x80)) * 4)?;
    let mut key = None;
    if has(0x20) {
        let (octets, after) = split::<4>(rest)?;
        (key, rest) = (Some(u32::from_be_bytes(*octets)), after);
    }
    rest = skip(rest, usize::from(has(0x10)) * 4)?;
    match protocol {
        // Type I has neither sequence number nor header.
        ERSPAN_II if !has(0x10) => Ok(enter(TunnelKind::Erspan, None, Inside::Link(LinkType::Ethernet), rest)),
        ERSPAN_II => erspan(rest, 8),
        ERSPAN_III => {
            let optional = split::<12>(rest)?.0[11] & 1 == 1;
            erspan(rest, if optional { 20 } else { 12 })
        }
        protocol => Ok(enter(TunnelKind::Gre, key, inside(protocol), rest)),
    }
}

/// draft-foschiano-erspan-03 section 4: the session is in the lower ten bits of the second 16.
fn erspan(octets: &[u8], length: usize) -> Step<'_> {
    let ([_, _, session @ ..], _) = split::<4>(octets)?;
    let id = u16::from_be_bytes(*session) & 0x3ff;
    Ok(enter(TunnelKind::Erspan, Some(id.into()), Inside::Link(LinkType::Ethernet), skip(octets, length)?))
}

/// RFC 7348 section 5; the next protocol of VXLAN-GPE is in the last octet of the first word.
fn vxlan(generic: bool, octets: &[u8]) -> Step<'_> {
    let ([flags, _, _, next, vni @ .., _], rest) = split::<8>(octets)?;
    if flags & 0x08 == 0 {
        return Err(End::Payload);
    }
    let id = Some(be24(*vni));
    let inside = match (generic && flags & 0x04 != 0, next) {
        (false, _) | (true, 3) => Inside::Link(LinkType::Ethernet),
        (true, 1 | 2) => Inside::Link(LinkType::Ip),
        (true, 5) => Inside::Link(LinkType::Mpls),
        (true, _) => return Err(End::Unknown),
    };
    Ok(enter(TunnelKind::Vxlan, id, inside, rest))
}

/// RFC 8926 section 3.4: version and length of options, flags, protocol, VNI.
fn geneve(octets: &[u8]) -> Step<'_> {
    let ([first, _, high, low, vni @ .., _], rest) = split::<8>(octets)?;
    if first >> 6 != 0 {
        return Err(End::Payload);
    }
    let rest = skip(rest, usize::from(first & 0x3f) * 4)?;
    Ok(enter(TunnelKind::Geneve, Some(be24(*vni)), inside(u16::from_be_bytes([*high, *low])), rest))
}

/// 3GPP TS 29.281 section 5: only messages of type 255 carry packets.
fn gtp(octets: &[u8]) -> Step<'_> {
    const EXTENSION: u8 = 4;
    let ([flags, message, _, _, teid @ ..], mut rest) = split::<8>(octets)?;
    // version 1, protocol type GTP
    if flags & 0xf0 != 0x30 || *message != 255 {
        return Err(End::Payload);
    }
    if flags & 7 != 0 {
        let ([.., next], after) = split::<4>(rest)?;
        rest = after;
        let mut next = if flags & EXTENSION == 0 { 0 } else { *next };
        // Each extension header says its length in units of four octets, and what follows in its last octet.
        while next != 0 {
            let length = usize::from(*rest.first().ok_or(End::Truncated)?) * 4;
            if length == 0 {
                return Err(End::Malformed);
            }
            let header = rest.get(..length).ok_or(End::Truncated)?;
            next = header[length - 1];
            rest = skip(rest, length)?;
        }
    }
    Ok(enter(TunnelKind::Gtp, Some(u32::from_be_bytes(*teid)), Inside::Link(LinkType::Ip), rest))
}

fn be24(octets: [u8; 3]) -> u32 {
    u32::from_be_bytes([0, octets[0], octets[1], octets[2]])
}
