//! From the link layer to the network layer: Ethernet, logical link control, tags.

use super::captured;
use super::mpls::mpls;
use super::network::{ipv4, ipv6};
use super::ppp;
use super::wireless;
use super::{End, Headers, Inside, Layer, LinkType, Macs, Step, Tunnel, TunnelKind, skip, split};

/// Smaller numbers in the place of an `EtherType` are lengths (IEEE 802.3 clause 3.2.6).
pub(super) const ETHERTYPE_MIN: u16 = 0x0600;
pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86dd;
pub(super) const ARP: u16 = 0x0806;
pub(super) const MPLS_UNICAST: u16 = 0x8847;
pub(super) const MPLS_MULTICAST: u16 = 0x8848;
const PPPOE_DISCOVERY: u16 = 0x8863;
const PPPOE_SESSION: u16 = 0x8864;
/// Ethernet frames longer than a length field can express (draft-ietf-isis-ext-eth).
const LLC_JUMBO: u16 = 0x8870;
/// IEEE 802.1ah I-TAG.
const PBB: u16 = 0x88e7;
/// IEEE 802.1AE.
const MACSEC: u16 = 0x88e5;
/// IEC 62439-3, High-availability Seamless Redundancy.
const HSR: u16 = 0x892f;
/// IEEE 802.1BR E-TAG.
const E_TAG: u16 = 0x893f;
/// Cisco's VN-Tag.
const VN_TAG: u16 = 0x8926;
/// Cisco's `FabricPath`.
const FABRIC_PATH: u16 = 0x8903;
/// Cisco's security group tags.
pub(super) const CISCO_METADATA: u16 = 0x8909;
/// Arista's time stamps.
const ARISTA_TIME: u16 = 0xd28b;
/// Network Service Header (RFC 8300 section 9.2.2).
pub(super) const NSH: u16 = 0x894f;
/// PPP with an `EtherType` (RFC 2637 section 4.1, RFC 2784).
pub(super) const PPP: u16 = 0x880b;
/// Transparent Ethernet Bridging (RFC 7637 section 3.2).
pub(super) const BRIDGED_ETHERNET: u16 = 0x6558;

/// C-TAG, S-TAG, and the numbers that were in use before S-TAG had one.
#[inline]
pub(super) fn is_vlan(ethertype: u16) -> bool {
    matches!(ethertype, 0x8100 | 0x88a8 | 0x9100 | 0x9200 | 0x9300)
}

/// Whether this `EtherType` is one of those that distinguish Ethernet from other things and are followed by something
/// known.
pub(super) fn is_dissected(ethertype: u16) -> bool {
    is_vlan(ethertype)
        || matches!(
            ethertype,
            IPV4 | IPV6
                | MPLS_UNICAST
                | MPLS_MULTICAST
                | PPPOE_DISCOVERY
                | PPPOE_SESSION
                | LLC_JUMBO
                | PBB
                | MACSEC
                | HSR
                | E_TAG
                | VN_TAG
                | FABRIC_PATH
                | CISCO_METADATA
                | NSH
                | BRIDGED_ETHERNET
        )
}

pub(super) fn link<'a>(link: LinkType, octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    match link {
        LinkType::Ethernet => ethernet(octets, headers),
        LinkType::Ieee80211 => wireless::ieee80211(octets, headers),
        LinkType::Ppp => ppp::ppp_or_hdlc(octets, headers),
        LinkType::Mpls => ethertype(MPLS_UNICAST, octets, headers),
        LinkType::Ip => match octets.first().ok_or(End::Truncated)? >> 4 {
            4 => ethertype(IPV4, octets, headers),
            6 => ethertype(IPV6, octets, headers),
            _ => Err(End::Malformed),
        },
        LinkType::Loopback => captured::loopback(octets, headers),
        LinkType::LinuxSll => captured::sll(octets, headers),
        LinkType::LinuxSll2 => captured::sll2(octets, headers),
        other => rare(other, octets, headers),
    }
}

/// Links that few captures have, out of the way of the others.
#[inline(never)]
fn rare<'a>(link: LinkType, octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    match link {
        LinkType::Llc => llc(octets, headers),
        LinkType::TokenRing => captured::token_ring(octets, headers),
        LinkType::Fddi => captured::fddi(octets, headers),
        LinkType::Slip => ppp::slip(octets),
        LinkType::Pppoe => ppp::pppoe(octets, headers),
        LinkType::PppWithDirection => ppp::ppp(skip(octets, 1)?),
        LinkType::CiscoHdlc => ppp::cisco_hdlc(octets, headers),
        LinkType::FrameRelay => ppp::frame_relay(octets, headers),
        LinkType::Radiotap => wireless::radiotap(octets, headers),
        LinkType::Prism => wireless::prism(octets, headers),
        LinkType::Avs => wireless::avs(octets, headers),
        LinkType::Ppi => captured::ppi(octets),
        LinkType::Pktap => captured::pktap(octets),
        LinkType::Nflog => captured::nflog(octets),
        LinkType::Erf => captured::erf(octets),
        LinkType::Enc => captured::enc(octets),
        LinkType::Pflog => captured::pflog(octets),
        LinkType::Firewire => tagged(skip(octets, 16)?, headers),
        LinkType::SunAtm => captured::sun_atm(octets, headers),
        LinkType::AtmLane => ethernet(skip(octets, 2)?, headers),
        LinkType::ClassicalIp => match octets {
            [0xaa, 0xaa, 3, ..] => llc(octets, headers),
            _ => Ok((Layer::Link(LinkType::Ip), octets)),
        },
        LinkType::Ipnet => captured::ipnet(octets),
        LinkType::IpOverInfiniBand => captured::ip_over_infiniband(octets),
        LinkType::NetAnalyzer | LinkType::BroadcomTagPrepended => ethernet(skip(octets, 4)?, headers),
        LinkType::Mpacket => ethernet(skip(octets, 8)?, headers),
        LinkType::Dsa | LinkType::BroadcomTag => captured::switch_tag(octets, 4, headers),
        LinkType::EthertypeDsa => captured::switch_tag(octets, 8, headers),
        LinkType::JuniperEthernet => captured::juniper(octets, LinkType::Ethernet),
        LinkType::JuniperPpp => captured::juniper(octets, LinkType::Ppp),
        LinkType::JuniperFrameRelay => captured::juniper(octets, LinkType::FrameRelay),
        LinkType::JuniperCiscoHdlc => captured::juniper(octets, LinkType::CiscoHdlc),
        // The others have been dealt with.
        _ => Err(End::Unknown),
    }
}

#[inline]
pub(super) fn ethernet<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let (destination, rest) = split::<6>(octets)?;
    let (source, rest) = split::<6>(rest)?;
    headers.macs = Some(Macs { source, destination });
    tagged(rest, headers)
}

/// VLAN tags and the `EtherType` or length after them.
#[inline]
pub(super) fn tagged<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let mut rest = octets;
    // Tags may come in two runs, with other tags between them: the first run is kept.
    let first_run = headers.vlan_tags.is_empty();
    loop {
        let (number, after) = split::<2>(rest)?;
        let number = u16::from_be_bytes(*number);
        if !is_vlan(number) {
            return match number {
                0..ETHERTYPE_MIN => Ok((Layer::Llc, after)),
                // What nearly all frames carry is read at once; anything else goes round the loop, so that no input
                // makes calls nest.
                IPV4 | IPV6 => ip(number, after, headers),
                _ => Ok((Layer::Type(number), after)),
            };
        }
        rest = skip(rest, 4)?;
        if first_run {
            headers.vlan_tags = &octets[..octets.len() - rest.len()];
        }
    }
}

/// Logical link control (IEEE 802.2): IP by its own access point or with SNAP and an `EtherType`, of Ethernet or of a
/// bridge tunnel (IEEE 802.1H); bridged Ethernet. Nothing else over it is dissected.
pub(super) fn llc<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let ([destination, source, control], after) = split::<3>(octets)?;
    match [*destination, *source, *control] {
        [0xaa, 0xaa, 3] => match *split::<5>(after)?.0 {
            // The type follows as it does in Ethernet, so a tag is whole.
            [0, 0, 0 | 0xf8, _, _] => tagged(skip(after, 3)?, headers),
            // RFC 2684 section 5.2: bridged Ethernet with its checksum or without, behind a pad
            [0, 0x80, 0xc2, 0, 1 | 7] => Ok((Layer::Link(LinkType::Ethernet), skip(after, 7)?)),
            _ => Err(End::Unknown),
        },
        [6, 6, 3] => Ok((Layer::Type(IPV4), after)),
        _ => Err(End::Unknown),
    }
}

#[inline]
pub(super) fn ethertype<'a>(number: u16, octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    match number {
        IPV4 => {
            headers.ethertype = Some(number);
            ipv4(octets, headers)
        }
        IPV6 => {
            headers.ethertype = Some(number);
            ipv6(octets, headers)
        }
        _ => other_ethertype(number, octets, headers),
    }
}

/// Reads IP in one go with what is before it. A header that is cut off, or is none, is left to a step of its own, so that
/// what is before it counts as read: see [`Packet::link_octets`](super::Packet::link_octets).
#[inline]
pub(super) fn ip<'a>(number: u16, octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    match ethertype(number, octets, headers) {
        Err(_) if headers.ip.is_none() => Ok((Layer::Type(number), octets)),
        step => step,
    }
}

#[inline(never)]
fn other_ethertype<'a>(number: u16, octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    if is_vlan(number) {
        // Only here when tags follow a header that is no Ethernet; the TPID is outside of what is at hand.
        return tagged(skip(octets, 2)?, headers);
    }
    match number {
        VN_TAG | HSR => return tagged(skip(octets, 4)?, headers),
        E_TAG => return tagged(skip(octets, 6)?, headers),
        CISCO_METADATA => return metadata(octets, headers),
        MACSEC => return macsec(octets, headers),
        ARISTA_TIME => return time_stamp(octets, headers),
        BRIDGED_ETHERNET => return Ok((Layer::Link(LinkType::Ethernet), octets)),
        _ => headers.ethertype = Some(number),
    }
    match number {
        MPLS_UNICAST | MPLS_MULTICAST => mpls(octets, headers),
        PPPOE_DISCOVERY | PPPOE_SESSION => ppp::pppoe(octets, headers),
        PPP => ppp::ppp(octets),
        LLC_JUMBO => llc(octets, headers),
        PBB => {
            let (tag, rest) = split::<4>(octets)?;
            let id = Some(u32::from_be_bytes(*tag) & 0xff_ffff);
            Ok((bridged(TunnelKind::Pbb, id), rest))
        }
        // Tree and TTL are left.
        FABRIC_PATH => Ok((bridged(TunnelKind::FabricPath, None), skip(octets, 2)?)),
        NSH => network_service(octets),
        _ => Err(End::Unknown),
    }
}

/// A tunnel with Ethernet in it.
pub(super) fn bridged(kind: TunnelKind, id: Option<u32>) -> Layer {
    Layer::Tunnel(Tunnel { kind, id }, Inside::Link(LinkType::Ethernet))
}

/// Version, length in units of four octets, options; then what follows, as after a tag.
fn metadata<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let ([_, length], rest) = split::<2>(octets)?;
    tagged(skip(rest, usize::from(*length) * 4)?, headers)
}

/// Kind, timescale, format and hardware; then a time of 64 or, in the second format, of 48 bits (Arista's "Ethernet header
/// timestamp").
fn time_stamp<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    let (kind, rest) = split::<4>(octets)?;
    match kind {
        [0, 1, _, 0x10..=0x1f] => tagged(skip(rest, 8)?, headers),
        [0, 1, _, 0x20..=0x2f] => tagged(skip(rest, 6)?, headers),
        _ => {
            headers.ethertype = Some(ARISTA_TIME);
            Err(End::Unknown)
        }
    }
}

/// IEEE 802.1AE clause 9: only frames that are authenticated and no more can be read.
fn macsec<'a>(octets: &'a [u8], headers: &mut Headers<'a>) -> Step<'a> {
    const ENCRYPTED_OR_CHANGED: u8 = 0x0c;
    const CHANNEL: u8 = 0x20;
    let ([control, ..], rest) = split::<6>(octets)?;
    if control & ENCRYPTED_OR_CHANGED != 0 {
        headers.ethertype = Some(MACSEC);
        return Err(End::Unknown);
    }
    tagged(skip(rest, if control & CHANNEL == 0 { 0 } else { 8 })?, headers)
}

/// RFC 8300 section 2: version, flags, length in units of four octets; next protocol; path and index.
fn network_service(octets: &[u8]) -> Step<'_> {
    let ([version, length, _, next, path @ .., _], _) = split::<8>(octets)?;
    let length = usize::from(length & 0x3f) * 4;
    if version >> 6 != 0 || length < 8 {
        return Err(End::Malformed);
    }
    let tunnel = Tunnel { kind: TunnelKind::Nsh, id: Some(u32::from_be_bytes([0, path[0], path[1], path[2]])) };
    let inside = match next {
        1 => Inside::Type(IPV4),
        2 => Inside::Type(IPV6),
        3 => Inside::Link(LinkType::Ethernet),
        4 => Inside::Type(NSH),
        5 => Inside::Link(LinkType::Mpls),
        _ => return Err(End::Unknown),
    };
    Ok((Layer::Tunnel(tunnel, inside), skip(octets, length)?))
}
