//! The packets of a capture, dissected one by one: what rules look into, and a count of flows that no cache made.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use weir_capture::{FillOutcome, PacketBlock};
use weir_wire::packet::{Headers, Ip, Packet, dissect};

use crate::checksum::is_bad;
use crate::conversation::{Conversation, Sides};
use crate::expected::Answer;
use crate::source::capture;

/// A packet of a conversation.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "what rules ask for, each by itself")]
pub(crate) struct Seen {
    /// Number of the frame in the capture, from 0.
    pub(crate) number: usize,
    pub(crate) time_us: i64,
    /// The latest time of the packets up to this one, of the whole capture.
    pub(crate) never_back_us: i64,
    /// Whether the lower end of the conversation sent it.
    pub(crate) by_low: bool,
    /// Octets of the frame on the wire.
    pub(crate) frame_octets: u64,
    /// Octets of the frame that were captured.
    pub(crate) frame_captured: u64,
    /// Octets of the IP packet as its header states them.
    pub(crate) ip_octets: u64,
    /// Octets of the IP packet that were captured.
    pub(crate) ip_captured: u64,
    /// Octets of the frame before the IP packet.
    pub(crate) link_octets: u64,
    /// Whether the IP header states a length of 0, which leaves it to the frame.
    pub(crate) has_no_length: bool,
    /// Whether it travels in a packet that is a fragment, the others of which are not all in the capture.
    pub(crate) carrier_is_incomplete: bool,
    /// Octets of this packet's IP header.
    pub(crate) ip_header_octets: u64,
    /// Identification and offset of a fragment.
    pub(crate) fragment: Option<(u32, u32)>,
    /// Whether the IP header leaves no room for the header of TCP or UDP.
    pub(crate) is_short: bool,
    /// Whether a link carries its frame in another one, and no IP packet does.
    pub(crate) in_frames: bool,
    /// Whether it is the last fragment of its packet.
    pub(crate) is_last_fragment: bool,
    /// Whether a checksum that can be computed is wrong, of this packet or of one that carries it.
    pub(crate) bad_checksum: bool,
    pub(crate) tcp_flags: u16,
    /// Ports of source and destination, 0 for none.
    pub(crate) ports: (u16, u16),
    /// Tunnels that it is in.
    pub(crate) tunnels: u8,
}

/// What the packets of a capture are.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    /// Frames read.
    pub(crate) frames: usize,
    /// Conversations by the outermost IP header.
    pub(crate) outer: BTreeMap<Conversation, Vec<Seen>>,
    /// Conversations by the innermost IP header, of packets in tunnels or not.
    pub(crate) inner: BTreeMap<Conversation, Vec<Seen>>,
}

/// The numbers of fragments whose packet did not come as a whole.
pub(crate) fn incomplete(fragments: &[Seen]) -> BTreeSet<usize> {
    let mut parts = BTreeMap::<(bool, u32), Vec<&Seen>>::new();
    for seen in fragments {
        let Some((identification, _)) = seen.fragment else { continue };
        parts.entry((seen.by_low, identification)).or_default().push(seen);
    }
    parts.into_values().filter(|parts| whole_octets(parts).is_none()).flatten().map(|seen| seen.number).collect()
}

/// What all fragments of a packet carry together, `None` when some are missing.
pub(crate) fn whole_octets(parts: &[&Seen]) -> Option<u64> {
    let offset = |seen: &Seen| seen.fragment.map_or(0, |(_, offset)| u64::from(offset));
    let mut parts = parts.to_vec();
    parts.sort_by_key(|seen| offset(seen));
    let reached = parts.iter().try_fold(0, |reached: u64, seen| {
        let end = offset(seen) + seen.ip_octets.saturating_sub(seen.ip_header_octets);
        (offset(seen) <= reached).then(|| reached.max(end))
    });
    reached.filter(|_| parts.iter().any(|seen| seen.is_last_fragment))
}

/// What is known of a frame.
struct Frame {
    time_us: i64,
    /// The latest time so far.
    never_back_us: i64,
    /// Where it lies.
    begins: usize,
    octets: u64,
    captured: u64,
}

/// Source, destination, protocol of the header and identification of a packet in fragments (RFC 791 section 3.2); of
/// IPv6 the protocol is 0, since it is no part of it (RFC 8200 section 4.5).
type FragmentId = (IpAddr, IpAddr, u8, u32);
/// First fragments by what they are of, in order.
type Firsts = HashMap<FragmentId, Vec<First>>;

/// What the first fragment of a packet shows.
#[derive(Clone, Copy)]
struct First {
    /// Number of the frame.
    number: usize,
    /// Behind all headers.
    protocol: u8,
    ports: (u16, u16),
    /// A packet in a tunnel counts in its place, and further fragments are none.
    is_carrier: bool,
}

impl Capture {
    /// The packets of the capture that an answer is of, by conversations as the program tells them.
    pub(crate) fn read(answer: &Answer) -> Self {
        let path = &answer.capture;
        let mut firsts = [Firsts::new(), Firsts::new()];
        each(path, |number, packet, _| {
            for (headers, firsts) in [packet.outermost(), packet.innermost()].into_iter().zip(&mut firsts) {
                let Some(ip) = headers.ip.as_ref().filter(|ip| !ip.is_later_fragment()) else { continue };
                let Some(id) = fragment_id(ip) else { continue };
                let ports = headers.ports.unwrap_or_default();
                firsts.entry(id).or_default().push(First { number, protocol: ip.protocol, ports, is_carrier: false });
            }
            for (id, ip) in carriers(packet) {
                let first = First { number, protocol: ip.protocol, ports: (0, 0), is_carrier: true };
                firsts[1].entry(id).or_default().push(first);
            }
        });
        let mut capture = Self::default();
        each(path, |number, packet, meta| {
            capture.frames = number + 1;
            for (headers, (firsts, conversations)) in [packet.outermost(), packet.innermost()]
                .into_iter()
                .zip(firsts.iter().zip([&mut capture.outer, &mut capture.inner]))
            {
                let Some((conversation, seen)) = seen(number, packet, headers, meta, firsts) else {
                    continue;
                };
                conversations.entry(answer.conversation(conversation)).or_default().push(seen);
            }
        });
        capture.find_incomplete_carriers();
        capture
    }

    /// Marks packets in tunnels whose carriers did not come as a whole.
    fn find_incomplete_carriers(&mut self) {
        let fragments = self.outer.values().flatten().filter(|seen| seen.fragment.is_some()).copied();
        let fragments: Vec<_> = fragments.collect();
        let incomplete = incomplete(&fragments);
        for seen in self.inner.values_mut().flatten().filter(|seen| seen.tunnels > 0) {
            seen.carrier_is_incomplete = incomplete.contains(&seen.number);
        }
    }
}

/// Packets and octets of both directions.
pub(crate) fn sides<'a>(packets: impl IntoIterator<Item = &'a Seen>, octets: impl Fn(&Seen) -> u64) -> Sides {
    packets.into_iter().fold(Sides::default(), |mut sides, seen| {
        let side = if seen.by_low { &mut sides.low } else { &mut sides.high };
        side.packets += 1;
        side.octets += octets(seen);
        sides
    })
}

fn each(path: &Path, mut take: impl FnMut(usize, &Packet<'_>, &Frame)) {
    let (mut source, mut block, mut number) = (capture(path), PacketBlock::default(), 0);
    let mut never_back_us = i64::MIN;
    while source.fill(&mut block).expect("a block") == FillOutcome::Packets {
        for meta in block.packets() {
            let octets = block.frame(meta);
            let packet = dissect(meta.link, octets);
            let begins = octets.as_ptr().addr();
            never_back_us = never_back_us.max(meta.time_us);
            let frame = Frame {
                time_us: meta.time_us,
                never_back_us,
                begins,
                octets: meta.length.into(),
                captured: meta.captured.into(),
            };
            take(number, &packet, &frame);
            number += 1;
        }
    }
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(octets).map(IpAddr::from).or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from)).ok()
}

fn fragment_id(ip: &Ip<'_>) -> Option<FragmentId> {
    let protocol = if ip.source.len() == 4 { *ip.octets.get(9)? } else { 0 };
    Some((address(ip.source)?, address(ip.destination)?, protocol, ip.fragment?.identification))
}

/// The outermost packet and one in a tunnel, where these are their first fragments and carry another packet.
fn carriers<'p>(packet: &'p Packet<'_>) -> impl Iterator<Item = (FragmentId, &'p Ip<'p>)> {
    let carried = packet.inner().and_then(|inner| inner.ip.as_ref()).map(|ip| ip.octets.as_ptr());
    let candidates = [packet.outer.ip.as_ref(), packet.fragmented.as_ref().map(|(ip, _)| ip)];
    let is_carrier = move |ip: &&Ip<'_>| carried.is_some_and(|carried| carried != ip.octets.as_ptr());
    candidates.into_iter().flatten().filter(is_carrier).filter_map(|ip| Some((fragment_id(ip)?, ip)))
}

/// The first fragment before this one, or else the next after it.
fn first(firsts: &[First], number: usize) -> Option<First> {
    let before = firsts.iter().rfind(|first| first.number <= number);
    before.or(firsts.first()).copied()
}

fn seen(
    number: usize,
    packet: &Packet<'_>,
    headers: &Headers<'_>,
    frame: &Frame,
    firsts: &Firsts,
) -> Option<(Conversation, Seen)> {
    let ip = headers.ip.as_ref()?;
    let of_first = fragment_id(ip).and_then(|id| first(firsts.get(&id)?, number));
    if ip.is_later_fragment() && of_first.is_some_and(|first| first.is_carrier) {
        return None;
    }
    let (from, to) = headers.ports.or(of_first.map(|first| first.ports)).unwrap_or_default();
    let protocol = of_first.map_or(ip.protocol, |first| first.protocol);
    let source = SocketAddr::new(address(ip.source)?, from);
    let destination = SocketAddr::new(address(ip.destination)?, to);
    let (conversation, by_low) = Conversation::of(protocol, source, destination, headers.icmp.map(|icmp| icmp.0));
    let before = (ip.octets.as_ptr().addr() - frame.begins) as u64;
    let ip_octets = match (frame.octets - before, ip.total_length) {
        // IPv6 with nothing behind its header but the padding of Ethernet
        (40..48, 0) if ip.source.len() == 16 => 40,
        // it is left to the frame: segmentation by the network card
        (behind, 0) => behind,
        (_, stated) => stated.into(),
    };
    let outer_is_bad =
        packet.outer.ip.is_some_and(|outer| outer.octets.as_ptr() != ip.octets.as_ptr()) && is_bad(&packet.outer);
    let seen = Seen {
        number,
        time_us: frame.time_us,
        never_back_us: frame.never_back_us,
        by_low,
        frame_octets: frame.octets,
        frame_captured: frame.captured,
        ip_octets,
        ip_captured: ip.octets.len() as u64,
        link_octets: before,
        has_no_length: ip.total_length == 0,
        carrier_is_incomplete: false,
        ip_header_octets: ip.header_octets.into(),
        fragment: ip.fragment.map(|fragment| (fragment.identification, fragment.offset.into())),
        is_short: match ip.protocol {
            _ if ip.is_later_fragment() => false,
            6 => ip_octets < u64::from(ip.header_octets) + 20,
            17 => ip_octets < u64::from(ip.header_octets) + 8,
            _ => false,
        },
        in_frames: packet.tunnels > 0 && packet.outer.ip.is_none(),
        is_last_fragment: ip.fragment.is_some_and(|fragment| !fragment.more),
        bad_checksum: outer_is_bad || is_bad(headers),
        tcp_flags: headers.tcp_flags.unwrap_or_default(),
        ports: (from, to),
        tunnels: packet.tunnels,
    };
    Some((conversation, seen))
}
