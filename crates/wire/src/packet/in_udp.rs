//! Tunnels in UDP. The port names the protocol, so what a header can contradict is checked: any application may use a
//! port.

use super::link::{IPV6, NSH};
use super::tunnel::{be24, enter, gre, inside, l2tp3};
use super::{End, Inside, LinkType, Step, TunnelKind, skip, split};

const L2TP: u16 = 1701;
const GTP_U: u16 = 2152;
/// GTP version 0, and its charging protocol.
const GTP_0: u16 = 3386;
const TEREDO: u16 = 3544;
const LISP: u16 = 4341;
const GRE_IN_UDP: u16 = 4754;
const VXLAN: u16 = 4789;
const VXLAN_GPE: u16 = 4790;
const AYIYA: u16 = 5072;
const CAPWAP_DATA: u16 = 5247;
const GENEVE: u16 = 6081;
const MPLS_IN_UDP: u16 = 6635;
/// What Linux used before the port was assigned, and still does by default.
const VXLAN_LINUX: u16 = 8472;

/// What UDP carries, by its ports.
#[inline]
pub(super) fn in_udp(source: u16, destination: u16, octets: &[u8]) -> Step<'_> {
    match destination {
        VXLAN | VXLAN_LINUX | VXLAN_GPE => vxlan(destination == VXLAN_GPE, octets),
        GENEVE => geneve(octets),
        LISP => lisp(octets),
        GRE_IN_UDP => gre(octets),
        MPLS_IN_UDP => Ok(enter(TunnelKind::Mpls, None, Inside::Link(LinkType::Mpls), octets)),
        L2TP | GTP_U | GTP_0 | TEREDO | AYIYA | CAPWAP_DATA => either_side(destination, octets),
        // A well-known port may be on either side of these: user plane packets of GTP go from any port to it, but many
        // gateways use it on both sides, and the others answer from it.
        _ => match source {
            L2TP | GTP_U | GTP_0 | TEREDO | AYIYA | CAPWAP_DATA => either_side(source, octets),
            _ => Err(End::Payload),
        },
    }
}

/// Whether these are ports of a tunnel: [`in_udp`] finds payload behind all others.
#[inline]
pub(super) fn may_be_tunnel(source: u16, destination: u16) -> bool {
    let either = |port| matches!(port, L2TP | GTP_U | GTP_0 | TEREDO | AYIYA | CAPWAP_DATA);
    let served = matches!(destination, VXLAN | VXLAN_LINUX | VXLAN_GPE | GENEVE | LISP | GRE_IN_UDP | MPLS_IN_UDP);
    served || either(source) || either(destination)
}

/// Tunnels whose port may be the source's.
#[inline(never)]
fn either_side(port: u16, octets: &[u8]) -> Step<'_> {
    match port {
        L2TP => l2tp(octets),
        GTP_U => gtp(octets),
        GTP_0 => gtp0(octets),
        TEREDO => teredo(octets),
        AYIYA => ayiya(octets),
        _ => capwap(octets),
    }
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
        (true, 4) => Inside::Type(NSH),
        (true, 5) => Inside::Link(LinkType::Mpls),
        (true, _) => return Err(End::Unknown),
    };
    Ok(enter(TunnelKind::Vxlan, id, inside, rest))
}

/// RFC 8926 section 3.4: version and length of options, flags, protocol, VNI. Reserved bits are to be zero, which
/// distinguishes it from answers to a client that happens to have this port.
fn geneve(octets: &[u8]) -> Step<'_> {
    let ([first, flags, high, low, vni @ .., reserved], rest) = split::<8>(octets)?;
    if first >> 6 != 0 || flags & 0x3f != 0 || *reserved != 0 {
        return Err(End::Payload);
    }
    let rest = skip(rest, usize::from(first & 0x3f) * 4)?;
    Ok(enter(TunnelKind::Geneve, Some(be24(*vni)), inside(u16::from_be_bytes([*high, *low])), rest))
}

/// RFC 9300 section 5.1: flags and nonce, then an instance or status bits. The flags do not show whether it is LISP,
/// but what follows is an IP packet.
fn lisp(octets: &[u8]) -> Step<'_> {
    const INSTANCE: u8 = 0x08;
    let ([flags, _, _, _, instance @ .., _], rest) = split::<8>(octets)?;
    if !matches!(rest, [0x45..=0x4f | 0x60..=0x6f, ..]) {
        return Err(End::Payload);
    }
    let id = (flags & INSTANCE != 0).then(|| be24(*instance));
    Ok(enter(TunnelKind::Lisp, id, Inside::Link(LinkType::Ip), rest))
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
        // Each extension header states its length in units of four octets, and what follows in its last octet.
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

/// GSM 09.60 section 6: version 0, a header of 20 octets, of which the last 8 identify the tunnel: more than an id
/// holds.
fn gtp0(octets: &[u8]) -> Step<'_> {
    let ([flags, message, ..], rest) = split::<20>(octets)?;
    if flags >> 4 != 1 || *message != 255 {
        return Err(End::Payload);
    }
    Ok(enter(TunnelKind::Gtp, None, Inside::Link(LinkType::Ip), rest))
}

/// RFC 4380 section 5.1.1: indications of authentication and origin, in this order, may precede the IPv6 packet.
/// One of its addresses is of Teredo (section 2.6) or, when routers are sought, link-local; nothing else is accepted.
fn teredo(octets: &[u8]) -> Step<'_> {
    let mut rest = octets;
    if let [0, 1, id, value, after @ ..] = rest {
        // nonce and confirmation
        rest = skip(after, usize::from(*id) + usize::from(*value) + 9)?;
    }
    if let [0, 0, ..] = rest {
        rest = skip(rest, 8)?;
    }
    let Ok((header, _)) = split::<40>(rest) else { return Err(End::Payload) };
    let is_teredo = |address: &[u8]| address.starts_with(&[0x20, 1, 0, 0]) || address.starts_with(&[0xfe, 0x80]);
    if header[0] >> 4 != 6 || !(is_teredo(&header[8..24]) || is_teredo(&header[24..40])) {
        return Err(End::Payload);
    }
    Ok(enter(TunnelKind::Teredo, None, Inside::Type(IPV6), rest))
}

/// RFC 2661 section 3.1, RFC 3931 section 4.1.2: only data messages carry packets.
fn l2tp(octets: &[u8]) -> Step<'_> {
    const CONTROL: u8 = 0x80;
    let ([flags, version], rest) = split::<2>(octets)?;
    let has = |bit: u8| flags & bit != 0;
    match version & 0xf {
        _ if has(CONTROL) => Err(End::Payload),
        2 => {
            let rest = skip(rest, if has(0x40) { 2 } else { 0 })?;
            // Tunnel and session: together they identify it.
            let (id, rest) = split::<4>(rest)?;
            let rest = skip(rest, if has(0x08) { 4 } else { 0 })?;
            let rest = if has(0x02) {
                let (offset, rest) = split::<2>(rest)?;
                skip(rest, usize::from(u16::from_be_bytes(*offset)))?
            } else {
                rest
            };
            Ok(enter(TunnelKind::L2tp, Some(u32::from_be_bytes(*id)), Inside::Link(LinkType::Ppp), rest))
        }
        3 => l2tp3(skip(rest, 2)?),
        _ => Err(End::Payload),
    }
}

/// draft-massar-v6ops-ayiya-02 section 4: lengths of identity and signature, operation, next header, time.
fn ayiya(octets: &[u8]) -> Step<'_> {
    const FORWARD: u8 = 1;
    let ([identity, signature, operation, next, ..], rest) = split::<8>(octets)?;
    if operation & 0xf != FORWARD || !matches!(next, 4 | 41) {
        return Err(End::Payload);
    }
    let rest = skip(rest, (1 << (identity >> 4)) + usize::from(signature >> 4) * 4)?;
    Ok(enter(TunnelKind::Ayiya, None, Inside::Link(LinkType::Ip), rest))
}

/// RFC 5415 section 4.3: the header states its length and whether what follows is Ethernet or of the radio, which is
/// 802.11 (section 4.3, RFC 5416). What is encrypted or in later fragments is not read.
fn capwap(octets: &[u8]) -> Step<'_> {
    const NATIVE: u8 = 0x01;
    const FRAGMENT: u8 = 0x80;
    const KEEP_ALIVE: u8 = 0x08;
    const IEEE_802_11: u8 = 1;
    let ([preamble, lengths, binding, flags, _, _, high, low], _) = split::<8>(octets)?;
    let later = flags & FRAGMENT != 0 && u16::from_be_bytes([*high, *low]) >> 3 != 0;
    if *preamble != 0 || flags & KEEP_ALIVE != 0 || later {
        return Err(End::Payload);
    }
    let length = usize::from(lengths >> 3) * 4;
    if length < 8 {
        return Err(End::Payload);
    }
    let inside = if binding & NATIVE == 0 {
        Inside::Link(LinkType::Ethernet)
    } else if (binding >> 1) & 0x1f == IEEE_802_11 {
        Inside::AccessPoint
    } else {
        return Err(End::Unknown);
    };
    Ok(enter(TunnelKind::Capwap, None, inside, skip(octets, length)?))
}
