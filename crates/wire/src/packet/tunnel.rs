//! Tunnels in IP: GRE and what it carries, L2TP version 3.

use super::link::{BRIDGED_ETHERNET, CISCO_METADATA, PPP, bridged};
use super::mpls::looks_like_ethernet;
use super::{End, Inside, Layer, LinkType, Step, Tunnel, TunnelKind, skip, split};

const ERSPAN_II: u16 = 0x88be;
const ERSPAN_III: u16 = 0x22eb;
/// `EoIP` of `MikroTik`: the key's octets are a length and a tunnel in little-endian order.
const ETHERNET_OVER_IP: u16 = 0x6400;
/// Packets that a router redirects to a cache (draft-mclaggan-wccp-v2rev1 section 4.12).
const WCCP: u16 = 0x883e;

/// IEEE 802.11 of Aruba's access points.
const ARUBA_MIN: u16 = 0x8200;
const ARUBA_MAX: u16 = 0x82ff;

pub(super) fn enter(kind: TunnelKind, id: Option<u32>, inside: Inside, rest: &[u8]) -> (Layer, &[u8]) {
    (Layer::Tunnel(Tunnel { kind, id }, inside), rest)
}

pub(super) fn inside(ethertype: u16) -> Inside {
    match ethertype {
        BRIDGED_ETHERNET => Inside::Link(LinkType::Ethernet),
        // The enhanced GRE of PPTP (RFC 2637 section 4.1) carries PPP, and some carry it in plain GRE.
        PPP => Inside::Link(LinkType::Ppp),
        other => Inside::Type(other),
    }
}

/// RFC 2784 section 2, RFC 2890 section 2, with the routing of RFC 1701; version 1 is that of RFC 2637.
pub(super) fn gre(octets: &[u8]) -> Step<'_> {
    let ([flags, version, high, low], rest) = split::<4>(octets)?;
    let (protocol, version) = (u16::from_be_bytes([*high, *low]), version);
    let has = |bits: u8| flags & bits != 0;
    if version & 7 == 1 && protocol == PPP {
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
    if version & 7 != 0 {
        return Err(End::Unknown);
    }
    // The offset of routing is next to the checksum, and either is there for the other.
    let mut rest = skip(rest, usize::from(has(0xc0)) * 4)?;
    let mut key = None;
    if has(0x20) {
        let (octets, after) = split::<4>(rest)?;
        (key, rest) = (Some(u32::from_be_bytes(*octets)), after);
    }
    rest = skip(rest, usize::from(has(0x10)) * 4)?;
    if has(0x40) {
        rest = routed(rest)?;
    }
    match protocol {
        // Type I has neither sequence number nor header.
        ERSPAN_II if !has(0x10) => Ok((bridged(TunnelKind::Erspan, None), rest)),
        ERSPAN_II => erspan(rest, 8),
        ERSPAN_III => {
            let optional = split::<12>(rest)?.0[11] & 1 == 1;
            erspan(rest, if optional { 20 } else { 12 })
        }
        ARUBA_MIN..=ARUBA_MAX => Ok(enter(TunnelKind::Gre, key, Inside::AccessPoint, rest)),
        // Here the type precedes it and does not follow it.
        CISCO_METADATA => {
            let ([high, low, _, length], rest) = split::<4>(rest)?;
            let rest = skip(rest, usize::from(*length) * 4)?;
            Ok(enter(TunnelKind::Gre, key, inside(u16::from_be_bytes([*high, *low])), rest))
        }
        WCCP => Ok(enter(TunnelKind::Gre, key, Inside::Link(LinkType::Ip), redirected(rest)?)),
        protocol => Ok(enter(TunnelKind::Gre, key, inside(protocol), rest)),
    }
}

/// RFC 1701: source route entries of family, offset, length and that many octets, up to the one with a length of 0. RFC
/// 2784 has no routing any more, but who sends it has to be read.
fn routed(octets: &[u8]) -> Result<&[u8], End> {
    let mut rest = octets;
    loop {
        let ([_, _, _, length], after) = split::<4>(rest)?;
        if *length == 0 {
            return Ok(after);
        }
        rest = skip(after, usize::from(*length))?;
    }
}

/// Version 2 of WCCP has a header of four octets before the packet, version 1 has none; an IPv4 packet begins with a 4.
fn redirected(octets: &[u8]) -> Result<&[u8], End> {
    match octets.first().ok_or(End::Truncated)? >> 4 {
        4 => Ok(octets),
        _ => skip(octets, 4),
    }
}

/// draft-foschiano-erspan-03 section 4: the session is in the lower ten bits of the second 16.
fn erspan(octets: &[u8], length: usize) -> Step<'_> {
    let ([_, _, session @ ..], _) = split::<4>(octets)?;
    let id = u16::from_be_bytes(*session) & 0x3ff;
    Ok((bridged(TunnelKind::Erspan, Some(id.into())), skip(octets, length)?))
}

/// RFC 7761 section 4.9.3: a register message carries the packet that a source sent, or with the N bit none.
pub(super) fn pim(octets: &[u8]) -> Step<'_> {
    const REGISTER: u8 = 0x21;
    const NULL_REGISTER: u8 = 0x40;
    match octets {
        [REGISTER, _, _, _, flags, _, _, _, rest @ ..] if flags & NULL_REGISTER == 0 => {
            Ok(enter(TunnelKind::PimRegister, None, Inside::Link(LinkType::Ip), rest))
        }
        _ => Err(End::Payload),
    }
}

/// L2TP version 3 in IP (RFC 3931 section 4.1.1): session 0 is of control messages.
pub(super) fn l2tp_in_ip(octets: &[u8]) -> Step<'_> {
    if split::<4>(octets)?.0 == &[0; 4] { Err(End::Payload) } else { l2tp3(octets) }
}

/// RFC 3931 section 4.1: session, then a cookie of 0, 4 or 8 octets and a sublayer of 0 or 4, of which only the ends
/// know. Ethernet (RFC 4719) is found by its look, other pseudowires are not followed.
pub(super) fn l2tp3(octets: &[u8]) -> Step<'_> {
    let (session, rest) = split::<4>(octets)?;
    let frame = [0, 4, 8, 12].into_iter().filter_map(|at| rest.get(at..)).find(|frame| looks_like_ethernet(frame));
    let frame = frame.ok_or(End::Unknown)?;
    Ok((bridged(TunnelKind::L2tp, Some(u32::from_be_bytes(*session))), frame))
}

pub(super) fn be24(octets: [u8; 3]) -> u32 {
    u32::from_be_bytes([0, octets[0], octets[1], octets[2]])
}
