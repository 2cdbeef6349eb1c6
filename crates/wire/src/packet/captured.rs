//! Headers that no link has: what capturing systems write before a frame, or instead of its link header.

use super::link::{ETHERTYPE_MIN, IPV4, IPV6, is_vlan, llc, tagged};
use super::{End, Headers, Layer, LinkType, Macs, Step, skip, split};

/// IPv6 among the address families of 4.4BSD's descendants and Linux: NetBSD and OpenBSD, `FreeBSD`, Darwin; Linux;
/// Solaris.
const AF_INET6: [u32; 5] = [24, 28, 30, 10, 26];
const AF_INET: u32 = 2;

/// What an address family means for what follows, in the order of the machine that captured or in the other one.
fn family(octets: [u8; 4]) -> Result<Layer, End> {
    let number = u32::from_le_bytes(octets);
    // Families are small, so in the right order the upper half is empty.
    let number = if number > 0xffff { number.swap_bytes() } else { number };
    match number {
        AF_INET => Ok(Layer::Type(IPV4)),
        _ if AF_INET6.contains(&number) => Ok(Layer::Type(IPV6)),
        _ => Err(End::Unknown),
    }
}

/// `LINKTYPE_NULL` and `LINKTYPE_LOOP`. Some drivers write an `EtherType` into the last two octets.
pub(super) fn loopback<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let (number, rest) = split::<4>(octets)?;
    match family(*number) {
        Err(_) if u16::from_be_bytes([number[2], number[3]]) >= ETHERTYPE_MIN => tagged(skip(octets, 2)?, headers),
        found => Ok((found?, rest)),
    }
}

/// `LINKTYPE_LINUX_SLL`: packet type, `ARPHRD_` type, length of the address, the sender's address, protocol.
pub(super) fn sll<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let ([_, _, high, low, ..], rest) = split::<16>(octets)?;
    // The protocol precedes what follows it as an EtherType does, so a tag is whole.
    cooked(u16::from_be_bytes([*high, *low]), skip(octets, 14)?, rest, headers)
}

/// `LINKTYPE_LINUX_SLL2`: protocol, reserved, interface, `ARPHRD_` type, packet type, length of the address, address.
pub(super) fn sll2<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let (header, rest) = split::<20>(octets)?;
    let protocol = u16::from_be_bytes([header[0], header[1]]);
    let hardware = u16::from_be_bytes([header[8], header[9]]);
    if protocol >= ETHERTYPE_MIN && hardware_has_types(hardware) {
        return if is_vlan(protocol) { tags_of_sll2(octets, headers) } else { Ok((Layer::Type(protocol), rest)) };
    }
    cooked(hardware, header, rest, headers)
}

/// Tags behind a header whose protocol is the TPID of the first: the last two octets of the address are in its place.
fn tags_of_sll2<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let before = skip(octets, 18)?;
    let mut end = 4;
    while let Some([high, low, _, _]) = before.get(end..end + 4) {
        if !is_vlan(u16::from_be_bytes([*high, *low])) {
            break;
        }
        end += 4;
    }
    headers.vlan_tags = before.get(..end).ok_or(End::Truncated)?;
    tagged(skip(before, end)?, headers)
}

/// Whether the protocol field of a cooked header is one: netlink (824) has its own numbers there.
fn hardware_has_types(hardware: u16) -> bool {
    hardware != 824
}

/// What both cooked headers have in common; `typed` begins with the protocol.
fn cooked<'a>(hardware: u16, typed: &'a [u8], rest: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let (number, _) = split::<2>(typed)?;
    match (hardware, u16::from_be_bytes(*number)) {
        // 802.11 in clear, and with radiotap
        (801, _) => Ok((Layer::Link(LinkType::Ieee80211), rest)),
        (803, _) => Ok((Layer::Link(LinkType::Radiotap), rest)),
        (hardware, ETHERTYPE_MIN..) if hardware_has_types(hardware) => tagged(typed, headers),
        // `LINUX_SLL_P_802_2`
        (_, 4) => llc(rest, headers),
        _ => Err(End::Unknown),
    }
}

/// `LINKTYPE_PPI`: version, flags, length, and the link type of what follows, all in little-endian order.
pub(super) fn ppi(octets: &[u8]) -> Step<'_> {
    let ([_, _, length @ .., a, b, c, d], _) = split::<8>(octets)?;
    let length = usize::from(u16::from_le_bytes(*length));
    if length < 8 {
        return Err(End::Malformed);
    }
    Ok((numbered([*a, *b, *c, *d])?, skip(octets, length)?))
}

/// `LINKTYPE_PKTAP`: length, kind of record, and the link type of what follows, all in little-endian order.
pub(super) fn pktap(octets: &[u8]) -> Step<'_> {
    const PACKET: [u8; 4] = [1, 0, 0, 0];
    let (length, rest) = split::<4>(octets)?;
    let (kind, rest) = split::<4>(rest)?;
    let (number, _) = split::<4>(rest)?;
    let length = u32::from_le_bytes(*length) as usize;
    if length < 12 {
        return Err(End::Malformed);
    }
    if *kind != PACKET {
        return Err(End::Unknown);
    }
    Ok((numbered(*number)?, skip(octets, length)?))
}

/// The link of a number in little-endian order.
fn numbered(number: [u8; 4]) -> Result<Layer, End> {
    let number = u16::try_from(u32::from_le_bytes(number)).map_err(|_| End::Unknown)?;
    Ok(Layer::Link(LinkType::from_dlt(number).ok_or(End::Unknown)?))
}

/// `LINKTYPE_NFLOG`: family, version, resource; then attributes in the order of the machine that captured, of which one
/// is the packet.
pub(super) fn nflog(octets: &[u8]) -> Step<'_> {
    const PAYLOAD: u16 = 9;
    let ([_, version, ..], mut rest) = split::<4>(octets)?;
    if *version != 0 {
        return Err(End::Unknown);
    }
    loop {
        let ([a, b, c, d], _) = split::<4>(rest)?;
        let (mut length, mut kind) = (u16::from_le_bytes([*a, *b]), u16::from_le_bytes([*c, *d]));
        // Types are small, so in the right order the upper half holds flags at most.
        if kind & 0x3f00 != 0 {
            (length, kind) = (length.swap_bytes(), kind.swap_bytes());
        }
        let length = usize::from(length);
        if length < 4 {
            return Err(End::Malformed);
        }
        if kind & 0x3fff == PAYLOAD {
            let packet = rest.get(4..length).or(rest.get(4..)).unwrap_or_default();
            return Ok((Layer::Link(LinkType::Ip), packet));
        }
        rest = skip(rest, length.next_multiple_of(4))?;
    }
}

/// `LINKTYPE_ERF`: time, type, flags, length of the record, counters, length on the wire; then extension headers for as
/// long as the first bit of each is set.
pub(super) fn erf(octets: &[u8]) -> Step<'_> {
    let (header, mut rest) = split::<16>(octets)?;
    let mut more = header[8] & 0x80 != 0;
    while more {
        let (extension, after) = split::<8>(rest)?;
        (more, rest) = (extension[0] & 0x80 != 0, after);
    }
    match header[8] & 0x7f {
        // HDLC, in its forms with colour, traffic classifier and hash
        1 | 10 | 15 | 19 => Ok((Layer::Link(LinkType::Ppp), rest)),
        // the same of one of many channels, behind a header with the number of the connection
        5 | 17 => Ok((Layer::Link(LinkType::Ppp), skip(rest, 4)?)),
        // Ethernet in the same forms, behind an offset and a pad
        2 | 11 | 16 | 20 => Ok((Layer::Link(LinkType::Ethernet), skip(rest, 2)?)),
        22 | 23 => Ok((Layer::Link(LinkType::Ip), rest)),
        _ => Err(End::Unknown),
    }
}

/// `LINKTYPE_ENC`: address family in either order, SPI, flags.
pub(super) fn enc(octets: &[u8]) -> Step<'_> {
    let ([a, b, c, d, ..], rest) = split::<12>(octets)?;
    Ok((family([*a, *b, *c, *d])?, rest))
}

/// `LINKTYPE_PFLOG`: the length of the header, which is filled up to a multiple of four octets, and the family.
pub(super) fn pflog(octets: &[u8]) -> Step<'_> {
    let ([length, number], _) = split::<2>(octets)?;
    let layer = family([*number, 0, 0, 0])?;
    Ok((layer, skip(octets, usize::from(*length).next_multiple_of(4))?))
}

/// `LINKTYPE_SUNATM`: flags with the kind of traffic, VPI, VCI.
pub(super) fn sun_atm<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let ([flags, ..], rest) = split::<4>(octets)?;
    match flags & 0xf {
        1 => Ok((Layer::Link(LinkType::AtmLane), rest)),
        2 => llc(rest, headers),
        _ => Err(End::Unknown),
    }
}

/// `LINKTYPE_IPNET`: version, family, hook, length, interfaces and zones; 24 octets.
pub(super) fn ipnet(octets: &[u8]) -> Step<'_> {
    let ([_, number, ..], rest) = split::<24>(octets)?;
    Ok((family([*number, 0, 0, 0])?, rest))
}

/// `LINKTYPE_IPOIB`: a global routing header of 40 octets, `EtherType`, reserved (RFC 4391 section 6).
pub(super) fn ip_over_infiniband(octets: &[u8]) -> Step<'_> {
    let ([high, low, _, _], rest) = split::<4>(skip(octets, 40)?)?;
    Ok((Layer::Type(u16::from_be_bytes([*high, *low])), rest))
}

/// Ethernet with a number of octets of a switch's tag between the addresses and the `EtherType`.
pub(super) fn switch_tag<'a>(octets: &'a [u8], tag: usize, headers: &mut Headers<'a>) -> Step<'a> {
    let (destination, rest) = split::<6>(octets)?;
    let (source, rest) = split::<6>(rest)?;
    headers.macs = Some(Macs { source, destination });
    tagged(skip(rest, tag)?, headers)
}

/// Juniper's header: magic, flags, and with the highest one the length of extensions.
pub(super) fn juniper(octets: &[u8], link: LinkType) -> Step<'_> {
    let ([magic @ .., flags], mut rest) = split::<4>(octets)?;
    if *magic != *b"MGC" {
        return Err(End::Malformed);
    }
    if flags & 0x80 != 0 {
        let (length, after) = split::<2>(rest)?;
        rest = skip(after, usize::from(u16::from_be_bytes(*length)))?;
    }
    // Without a link header there is the protocol's number in four octets.
    if flags & 2 != 0 {
        return Ok((Layer::Link(LinkType::Ip), skip(rest, 4)?));
    }
    Ok((Layer::Link(link), rest))
}

/// IEEE 802.5: access and frame control, addresses; the first bit of the source means that a route follows.
pub(super) fn token_ring<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let ([_, control], rest) = split::<2>(octets)?;
    if control & 0xc0 != 0x40 {
        return Err(End::Unknown);
    }
    let (destination, rest) = split::<6>(rest)?;
    let (source, rest) = split::<6>(rest)?;
    headers.macs = Some(Macs { source, destination });
    if source[0] & 0x80 == 0 {
        return llc(rest, headers);
    }
    let route = usize::from(rest.first().ok_or(End::Truncated)? & 0x1f);
    if route < 2 { Err(End::Malformed) } else { llc(skip(rest, route)?, headers) }
}

/// Frame control and addresses; only LLC frames carry packets.
pub(super) fn fddi<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let ([control], rest) = split::<1>(octets)?;
    let (destination, rest) = split::<6>(rest)?;
    let (source, rest) = split::<6>(rest)?;
    headers.macs = Some(Macs { source, destination });
    if control & 0x30 == 0x10 { llc(rest, headers) } else { Err(End::Unknown) }
}
