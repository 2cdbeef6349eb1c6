//! Serial links: PPP with all that it travels in, Cisco HDLC, Frame Relay, SLIP.

use super::link::{IPV4, IPV6, MPLS_MULTICAST, MPLS_UNICAST, tagged};
use super::{End, Headers, Layer, LinkType, Step, skip, split};

/// RFC 2516 section 4: version and type, code, session, length.
pub(super) fn pppoe<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let ([version, code, session @ .., _, _], rest) = split::<6>(octets)?;
    if (*version, *code) != (0x11, 0) {
        // Every other code is of the discovery stage, which carries no packets.
        return Err(if *version == 0x11 { End::Unknown } else { End::Malformed });
    }
    headers.pppoe_session = Some(u16::from_be_bytes(*session));
    ppp(rest)
}

/// RFC 1661 section 2, with the compressions of sections 6.5 and 6.6.
pub(super) fn ppp(octets: &[u8]) -> Step<'_> {
    let octets = octets.strip_prefix(&[0xff, 3]).unwrap_or(octets);
    let (protocol, rest) = protocol(octets)?;
    let (protocol, rest) = if protocol == 0x3d { multilink(rest)? } else { (protocol, rest) };
    let ethertype = match protocol {
        0x31 => return bridged(rest),
        0x21 => IPV4,
        0x57 => IPV6,
        0x281 => MPLS_UNICAST,
        0x283 => MPLS_MULTICAST,
        _ => return Err(End::Unknown),
    };
    Ok((Layer::Type(ethertype), rest))
}

/// RFC 3518 section 4.3: flags, and the kind of frame, of which Ethernet is read. The identifier of a LAN, whose flag is the
/// second one, was in RFC 1638.
fn bridged(octets: &[u8]) -> Step<'_> {
    const ETHERNET: u8 = 1;
    let ([flags, kind], rest) = split::<2>(octets)?;
    if *kind != ETHERNET {
        return Err(End::Unknown);
    }
    Ok((Layer::Link(LinkType::Ethernet), skip(rest, if flags & 0x40 == 0 { 0 } else { 4 })?))
}

/// The protocol field, of two octets or compressed to one.
fn protocol(octets: &[u8]) -> Result<(u16, &[u8]), End> {
    let first = *octets.first().ok_or(End::Truncated)?;
    if first & 1 == 1 {
        return Ok((u16::from(first), skip(octets, 1)?));
    }
    let (protocol, rest) = split::<2>(octets)?;
    Ok((u16::from_be_bytes(*protocol), rest))
}

/// RFC 1990 section 3, with sequence numbers of 24 bits: only a packet that is whole in one fragment can be read.
fn multilink(octets: &[u8]) -> Result<(u16, &[u8]), End> {
    let ([flags, ..], rest) = split::<4>(octets)?;
    if flags & 0xc0 == 0xc0 { protocol(rest) } else { Err(End::Unknown) }
}

/// PPP, or Cisco HDLC by its unicast and multicast addresses.
pub(super) fn ppp_or_hdlc<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    match octets {
        [0x0f | 0x8f, 0, ..] => cisco_hdlc(octets, headers),
        _ => ppp(octets),
    }
}

/// Address, control, `EtherType`.
pub(super) fn cisco_hdlc<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    tagged(skip(octets, 2)?, headers)
}

/// Q.922 addresses of 2 to 4 octets end with the first odd one. Then RFC 2427 section 3: control, perhaps a pad, NLPID;
/// or an `EtherType`, which is what Cisco does.
pub(super) fn frame_relay<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let address = octets.iter().take(4).position(|octet| octet & 1 == 1);
    let rest = match address {
        Some(last @ 1..) => skip(octets, last + 1)?,
        Some(_) => return Err(End::Malformed),
        None => return Err(if octets.len() < 4 { End::Truncated } else { End::Malformed }),
    };
    let ([control, nlpid], after) = split::<2>(rest)?;
    if *control != 3 {
        return tagged(rest, headers);
    }
    let (nlpid, after) = if *nlpid == 0 { split::<1>(after).map(|([n], rest)| (*n, rest))? } else { (*nlpid, after) };
    match nlpid {
        0xcc => Ok((Layer::Type(IPV4), after)),
        0x8e => Ok((Layer::Type(IPV6), after)),
        0xcf => ppp(after),
        0x80 => snap_of_frame_relay(after, headers),
        _ => Err(End::Unknown),
    }
}

/// RFC 2427 section 3: an `EtherType`, or Ethernet with or without a checksum behind it.
fn snap_of_frame_relay<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let (snap, rest) = split::<5>(octets)?;
    match *snap {
        [0, 0, 0, _, _] => tagged(skip(octets, 3)?, headers),
        [0, 0x80, 0xc2, 0, 1 | 7] => Ok((Layer::Link(LinkType::Ethernet), rest)),
        _ => Err(End::Unknown),
    }
}

/// 16 octets of the capturing system: direction, then the compressed header as it was on the line. The packet follows
/// uncompressed but where the second octet marks that it could not be restored.
pub(super) fn slip(octets: &[u8]) -> Step<'_> {
    let ([_, compressed, ..], rest) = split::<16>(octets)?;
    match compressed {
        // RFC 1144 section 3.2.3: the connection number is where the protocol was, and nothing can be learnt from it.
        0x70..=0x7f | 0x80.. => Err(End::Unknown),
        _ => Ok((Layer::Link(LinkType::Ip), rest)),
    }
}
