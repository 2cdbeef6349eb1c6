//! From the link layer to the network layer: Ethernet, 802.11, PPP, tags, labels.

use super::network::{ipv4, ipv6};
use super::{End, Headers, Inside, Layer, LinkType, Macs, Step, Tunnel, TunnelKind, skip, split};

/// Smaller numbers in the place of an `EtherType` are lengths (IEEE 802.3 clause 3.2.6).
const ETHERTYPE_MIN: u16 = 0x0600;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;
const MPLS_UNICAST: u16 = 0x8847;
const MPLS_MULTICAST: u16 = 0x8848;
const PPPOE_SESSION: u16 = 0x8864;
/// IEEE 802.1ah I-TAG.
const PBB: u16 = 0x88e7;
/// IEEE 802.1BR E-TAG.
const E_TAG: u16 = 0x893f;
/// Cisco's VN-Tag.
const VN_TAG: u16 = 0x8926;
/// Transparent Ethernet Bridging (RFC 7637 section 3.2).
pub(super) const BRIDGED_ETHERNET: u16 = 0x6558;

/// C-TAG, S-TAG, and the numbers that were in use before S-TAG had one.
fn is_vlan(ethertype: u16) -> bool {
    matches!(ethertype, 0x8100 | 0x88a8 | 0x9100 | 0x9200 | 0x9300)
}

pub(super) fn link<'a>(link: LinkType, octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    match link {
        LinkType::Ethernet => ethernet(octets, headers),
        LinkType::Ieee80211 => ieee80211(octets, headers),
        LinkType::Ppp => ppp(octets),
        LinkType::Mpls => ethertype(MPLS_UNICAST, octets, headers),
        LinkType::Ip => match octets.first().ok_or(End::Truncated)? >> 4 {
            4 => ethertype(IPV4, octets, headers),
            6 => ethertype(IPV6, octets, headers),
            _ => Err(End::Malformed),
        },
    }
}

#[inline]
fn ethernet<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let (destination, rest) = split::<6>(octets)?;
    let (source, rest) = split::<6>(rest)?;
    headers.macs = Some(Macs { source, destination });
    tagged(rest, headers)
}

/// VLAN tags and the `EtherType` or length after them.
#[inline]
fn tagged<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let mut rest = octets;
    // Tags may come in two runs, with other tags between them: the first run is kept.
    let first_run = headers.vlan_tags.is_empty();
    loop {
        let (number, after) = split::<2>(rest)?;
        let number = u16::from_be_bytes(*number);
        if !is_vlan(number) {
            return match number {
                0..ETHERTYPE_MIN => llc(after),
                // What nearly all frames carry is read at once; anything else goes round the loop, so that no input
                // makes calls nest.
                IPV4 | IPV6 => ethertype(number, after, headers),
                _ => Ok((Layer::Type(number), after)),
            };
        }
        rest = skip(rest, 4)?;
        if first_run {
            headers.vlan_tags = &octets[..octets.len() - rest.len()];
        }
    }
}

/// Logical link control (IEEE 802.2) with SNAP and an `EtherType`; nothing else over it is dissected.
fn llc(octets: &[u8]) -> Step<'_> {
    let (header, rest) = split::<8>(octets)?;
    match *header {
        [0xaa, 0xaa, 3, 0, 0, 0, high, low] => Ok((Layer::Type(u16::from_be_bytes([high, low])), rest)),
        _ => Err(End::Unknown),
    }
}

#[inline]
pub(super) fn ethertype<'a>(number: u16, octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    if is_vlan(number) {
        // Only here when tags follow a header that is no Ethernet; the TPID is outside of what is at hand.
        return tagged(skip(octets, 2)?, headers);
    }
    match number {
        VN_TAG => return tagged(skip(octets, 4)?, headers),
        E_TAG => return tagged(skip(octets, 6)?, headers),
        BRIDGED_ETHERNET => return Ok((Layer::Link(LinkType::Ethernet), octets)),
        _ => headers.ethertype = Some(number),
    }
    match number {
        IPV4 => ipv4(octets, headers),
        IPV6 => ipv6(octets, headers),
        MPLS_UNICAST | MPLS_MULTICAST => mpls(octets, headers),
        PPPOE_SESSION => pppoe(octets, headers),
        PBB => {
            let (tag, rest) = split::<4>(octets)?;
            let id = Some(u32::from_be_bytes(*tag) & 0xff_ffff);
            Ok((Layer::Tunnel(Tunnel { kind: TunnelKind::Pbb, id }, Inside::Link(LinkType::Ethernet)), rest))
        }
        _ => Err(End::Unknown),
    }
}

/// RFC 2516 section 4: version and type, code, session, length.
fn pppoe<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let ([version, code, session @ .., _, _], rest) = split::<6>(octets)?;
    if (*version, *code) != (0x11, 0) {
        return Err(End::Malformed);
    }
    headers.pppoe_session = Some(u16::from_be_bytes(*session));
    ppp(rest)
}

/// RFC 1661 section 2, with the compressions of sections 6.5 and 6.6.
fn ppp(octets: &[u8]) -> Step<'_> {
    let octets = octets.strip_prefix(&[0xff, 3]).unwrap_or(octets);
    let first = *octets.first().ok_or(End::Truncated)?;
    let (protocol, rest) = if first & 1 == 1 {
        (u16::from(first), skip(octets, 1)?)
    } else {
        let (protocol, rest) = split::<2>(octets)?;
        (u16::from_be_bytes(*protocol), rest)
    };
    let ethertype = match protocol {
        0x21 => IPV4,
        0x57 => IPV6,
        0x281 => MPLS_UNICAST,
        0x283 => MPLS_MULTICAST,
        _ => return Err(End::Unknown),
    };
    Ok((Layer::Type(ethertype), rest))
}

/// RFC 3032 section 2.1: entries up to the one with the bottom of stack bit. What follows has no type; it is taken for
/// what its first four bits say (RFC 4928 section 3), and for Ethernet where it can be that.
fn mpls<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let entries = octets.as_chunks::<4>().0;
    let bottom = entries.iter().position(|entry| entry[2] & 1 == 1);
    let end = bottom.map_or(entries.len(), |bottom| bottom + 1) * 4;
    let (labels, rest) = octets.split_at(end);
    headers.labels = labels;
    if bottom.is_none() {
        return Err(End::Truncated);
    }
    let bridged =
        Layer::Tunnel(Tunnel { kind: TunnelKind::EthernetOverMpls, id: None }, Inside::Link(LinkType::Ethernet));
    match rest.first().ok_or(End::Truncated)? >> 4 {
        4 if !looks_like_ethernet(rest) => ethertype(IPV4, rest, headers),
        6 if !looks_like_ethernet(rest) => ethertype(IPV6, rest, headers),
        // the control word of RFC 4385 section 3
        0 if !looks_like_ethernet(rest) => Ok((bridged, skip(rest, 4)?)),
        // the associated channel of RFC 5586 section 2.1
        1 if !looks_like_ethernet(rest) => Err(End::Unknown),
        _ if looks_like_ethernet(rest) => Ok((bridged, rest)),
        _ => Err(End::Unknown),
    }
}

/// Whether this can be Ethernet and can be nothing else that labels carry: a known `EtherType` in its place, and no IP
/// header that agrees with itself.
fn looks_like_ethernet(octets: &[u8]) -> bool {
    let Some([high, low]) = octets.get(12..14) else { return false };
    let number = u16::from_be_bytes([*high, *low]);
    let ipv4 = octets[0] >> 4 == 4
        && octets[0] & 0xf >= 5
        && octets.get(2..4).is_some_and(|length| u16::from_be_bytes([length[0], length[1]]) >= 20)
        && octets[8] > 0;
    let ipv6 = octets[0] >> 4 == 6 && octets[7] > 0;
    (is_vlan(number) || matches!(number, IPV4 | IPV6 | ARP)) && !ipv4 && !ipv6
}

/// IEEE 802.11-2020 clause 9.2: only data frames carry packets, and only those in clear can be read.
fn ieee80211<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let (start, rest) = split::<4>(octets)?;
    let [first, second, ..] = *start;
    let (addresses, after) = split::<18>(rest)?;
    let [one, two, three] = addresses.as_chunks::<6>().0 else { return Err(End::Malformed) };
    if first & 0x0c != 0x08 {
        return Err(End::Unknown);
    }
    let mut rest = skip(after, 2)?;
    let (to_ds, from_ds) = (second & 1 == 1, second & 2 == 2);
    let (source, destination) = match (to_ds, from_ds) {
        (false, false) => (two, one),
        (false, true) => (three, one),
        (true, false) => (two, three),
        (true, true) => {
            let (four, after) = split::<6>(rest)?;
            rest = after;
            (four, three)
        }
    };
    headers.macs = Some(Macs { source, destination });
    // QoS control, for subtypes from 8 on; the next bit says that there is no body
    if first & 0x80 != 0 {
        rest = skip(rest, 2)?;
    }
    if first & 0x40 != 0 || second & 0x40 != 0 {
        return Err(End::Unknown);
    }
    llc(rest)
}
