//! What the flow cache has to know of a packet.

use weir_wire::packet::{End, Fragment, Headers, Ip, LinkType, Packet, Tunnel, dissect_into, plain};

use crate::endpoints;
use crate::key::{FlowKey, FragmentTransport, KeyFields, KeyHasher, KeyHeaders, KeyParts, icmp_ports};
use weir_capture::PacketMeta;

/// Of a packet, what its flow wants to know. It is small, since it may travel from one worker to another.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Digest {
    /// The Flow Key; of biflows the same for both directions.
    pub key: FlowKey,
    /// Hash of the key.
    pub hash: u64,
    /// When the packet was captured, microseconds since the epoch.
    pub time_us: i64,
    /// Octets of the IP packet, header included, as its header states them.
    pub octets: u32,
    /// Number of the packet in its block; of a fragment that is [`HELD`](Self::HELD) that of the packet whose place it
    /// takes.
    pub packet: u32,
    /// TCP control bits, with the reserved ones.
    pub tcp_flags: u16,
    /// TTL or hop limit.
    pub ttl: u8,
    /// Type of service or traffic class.
    pub tos: u8,
    /// Code of ICMP, which the key of a biflow has no room for.
    pub icmp_code: u8,
    /// Set of [`Digest::REVERSED`], [`Digest::FRAGMENT`], [`Digest::HELD`].
    pub marks: u8,
}

impl Digest {
    /// The packet goes against the direction of the key.
    pub const REVERSED: u8 = 1;
    /// The packet is a fragment.
    pub const FRAGMENT: u8 = 2;
    /// The packet is a fragment that waited for the first one, and its octets are in no block any more.
    pub const HELD: u8 = 4;
}

/// Why a packet belongs to no flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotFlow {
    /// It is no IP packet.
    NotIp,
    /// It was cut off before the end of its IP header.
    Truncated,
    /// A header contradicts itself.
    Malformed,
    /// More tunnels or extension headers than are followed.
    TooDeep,
}

impl NotFlow {
    /// Every reason.
    pub const ALL: &'static [Self] = &[Self::NotIp, Self::Truncated, Self::Malformed, Self::TooDeep];
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Name of its counter.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotIp => "packets_not_ip",
            Self::Truncated => "packets_truncated",
            Self::Malformed => "packets_malformed",
            Self::TooDeep => "packets_too_deep",
        }
    }

    const fn of(end: End) -> Self {
        match end {
            End::Payload | End::Unknown => Self::NotIp,
            End::Truncated => Self::Truncated,
            End::Malformed => Self::Malformed,
            End::TooDeep => Self::TooDeep,
        }
    }
}

/// What distinguishes the fragments of one packet from those of another.
///
/// Addresses and, of IPv4, the protocol of the IP header (RFC 791 section 3.2, RFC 8200 section 4.5) are in it whatever
/// the key of flows is made of. The type of service is not: routers mark single fragments (RFC 3168 section 5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FragmentId {
    /// What fragments have in common.
    pub(crate) key: FlowKey,
    /// Identification in the IP header.
    pub(crate) identification: u32,
}

/// What a packet came to.
#[derive(Debug, Clone, Copy)]
pub enum DigestOutcome {
    /// A digest that is complete.
    Whole(Digest),
    /// The first fragment of a packet, whose protocol and ports are those of the others.
    FirstFragment(Digest, FragmentId, FragmentTransport),
    /// Another fragment, without ports. Its key is that of uniflows, and it has no hash yet.
    LaterFragment(Digest, FragmentId),
    /// Nothing for a flow.
    NotFlow(NotFlow),
}

/// Makes digests of packets.
#[derive(Debug, Clone)]
pub struct Digester {
    headers: KeyHeaders,
    /// The fields of keys.
    mask: FlowKey,
    /// The fields that fragments of one packet have in common.
    fragment_mask: FlowKey,
    /// Whether the ends of tunnels are part of the key, which are put into it apart.
    has_endpoints: bool,
    has_protocol: bool,
    is_biflow: bool,
    hasher: KeyHasher,
}

impl Digester {
    /// Digests for these keys.
    pub fn new(fields: KeyFields, is_biflow: bool, hasher: KeyHasher) -> Self {
        let (headers, mask) = (fields.headers, FlowKey::mask(&fields));
        let of_fragments = KeyFields { src_addr: true, dst_addr: true, protocol: true, ..fields };
        let fragment_mask = FlowKey::mask(&of_fragments);
        let (has_endpoints, has_protocol) = (fields.tunnel_endpoints, fields.protocol);
        Self { headers, mask, fragment_mask, has_endpoints, has_protocol, is_biflow, hasher }
    }

    /// Digests a frame that is [`plain`], as [`digest`](Self::digest) does.
    #[inline]
    pub fn digest_plain(&self, number: u32, meta: &PacketMeta, frame: &[u8]) -> Option<Digest> {
        let plain = (meta.link == LinkType::Ethernet).then(|| plain(frame))??;
        let parts = KeyParts {
            src_port: plain.src_port,
            dst_port: plain.dst_port,
            protocol: plain.protocol,
            tos: plain.tos,
            ip_version: if plain.is_ipv6 { 6 } else { 4 },
            tunnel_kind: 0,
            vlan: plain.vlan.map_or(0, |vlan| vlan + 1),
            interface: meta.interface,
            tunnel_id: 0,
        };
        Some(self.complete(Digest {
            key: FlowKey::of_octets(&plain.source, &plain.destination, parts).masked(&self.mask),
            hash: 0,
            time_us: meta.time_us,
            octets: plain.total_length,
            packet: number,
            tcp_flags: plain.tcp_flags,
            ttl: plain.ttl,
            tos: plain.tos,
            icmp_code: 0,
            marks: 0,
        }))
    }

    /// Dissects a frame into `packet` and digests what was found.
    #[inline(never)]
    pub fn digest<'a>(
        &self,
        number: u32,
        meta: &PacketMeta,
        frame: &'a [u8],
        packet: &mut Packet<'a>,
    ) -> DigestOutcome {
        dissect_into(meta.link, frame, packet);
        let headers = match self.headers {
            KeyHeaders::Inner => packet.innermost(),
            KeyHeaders::Outer => packet.outermost(),
        };
        let Some(ip) = headers.ip else { return DigestOutcome::NotFlow(NotFlow::of(packet.end)) };
        let ports = self.ports(headers, ip.protocol);
        let parts = parts(meta, packet, headers, ports.unwrap_or_default());
        let key = FlowKey::new(ip.source, ip.destination, parts).masked(&self.mask);
        let octets = match ip.total_length {
            0 => octets_behind(meta.length.saturating_sub(headers_before(frame, ip.source)), ip.source),
            stated => stated,
        };
        let digest = Digest {
            key,
            hash: 0,
            time_us: meta.time_us,
            octets,
            packet: number,
            tcp_flags: headers.tcp_flags.unwrap_or_default(),
            ttl: ip.ttl,
            tos: ip.tos,
            icmp_code: headers.icmp.map_or(0, |icmp| icmp.1),
            marks: 0,
        };
        let Some(fragment) = ip.fragment else { return DigestOutcome::Whole(self.complete(digest)) };
        let digest = Digest { marks: Digest::FRAGMENT, ..digest };
        let id = self.fragment_id(&ip, fragment, parts.in_tunnel(tunnel_around(packet, &ip)));
        if fragment.offset == 0 {
            // without ports when its protocol has none, or when it is too short for them: no other fragment has them
            DigestOutcome::FirstFragment(self.complete(digest), id, key.fragment_transport())
        } else {
            DigestOutcome::LaterFragment(digest, id)
        }
    }

    /// The outermost packet, where this is its first fragment and a packet in a tunnel is metered in its place: that is
    /// known whole by the headers that this fragment carries, and the other fragments are no packets of another flow.
    #[inline]
    pub(crate) fn carrier(&self, meta: &PacketMeta, packet: &Packet<'_>) -> Option<FragmentId> {
        let ip = packet.outer.ip.as_ref()?;
        let fragment = ip.fragment.filter(|_| self.is_carried(packet))?;
        let parts = parts(meta, packet, &packet.outer, (0, 0)).in_tunnel(tunnel_around(packet, ip));
        Some(self.fragment_id(ip, fragment, parts))
    }

    /// The same of a packet in a tunnel that carries another tunnel. The label is the number for the ends of the tunnel
    /// that it is in, where these are part of the key.
    #[inline]
    pub(crate) fn carrier_within(
        &self,
        meta: &PacketMeta,
        packet: &Packet<'_>,
        label: Option<u32>,
    ) -> Option<FragmentId> {
        let (ip, tunnel) = packet.fragmented.as_ref().filter(|_| self.is_carried(packet))?;
        let is_other = |headers: &Headers<'_>| headers.ip.as_ref().is_some_and(|other| !is_same(other, ip));
        if !is_other(&packet.outer) || !packet.inner().is_some_and(is_other) {
            return None;
        }
        let parts = parts(meta, packet, &packet.outer, (0, 0)).in_tunnel(Some(*tunnel));
        let mut id = self.fragment_id(ip, ip.fragment?, parts);
        if let Some(label) = label {
            id.key.set_tunnel_id(label);
        }
        Some(id)
    }

    /// Whether the packet that is metered is in a tunnel of another IP packet.
    fn is_carried(&self, packet: &Packet<'_>) -> bool {
        let carried = packet.inner().and_then(|inner| inner.ip.as_ref());
        // where links carry the outermost packet, and its tunnel carries no IP, both are the same header
        let is_other = packet.outer.ip.as_ref().zip(carried).is_some_and(|(outer, inner)| !is_same(outer, inner));
        self.headers == KeyHeaders::Inner && is_other
    }

    /// The ports of a packet for its key, or what takes their place; `None` for a fragment that does not know them.
    #[inline]
    fn ports(&self, headers: &Headers<'_>, protocol: u8) -> Option<(u16, u16)> {
        let of_icmp = |icmp| icmp_ports(protocol, icmp, self.is_biflow, self.has_protocol);
        headers.ports.or_else(|| headers.icmp.map(of_icmp))
    }

    /// What a fragment with these parts of a key has in common with the others of its packet.
    fn fragment_id(&self, ip: &Ip<'_>, fragment: Fragment, parts: KeyParts) -> FragmentId {
        const PROTOCOL: usize = 9;
        // Only the first fragment shows what is behind extension and authentication headers, so that the end of these
        // cannot be compared. What the Fragment headers of IPv6 name may differ, too.
        let protocol = if ip.source.len() == 4 { ip.octets.get(PROTOCOL).copied().unwrap_or_default() } else { 0 };
        let parts = KeyParts { src_port: 0, dst_port: 0, tos: 0, protocol, ip_version: version(ip), ..parts };
        let key = FlowKey::new(ip.source, ip.destination, parts).masked(&self.fragment_mask);
        FragmentId { key, identification: fragment.identification }
    }

    /// Gives a fragment the protocol, the ports and the tunnel of the first one, and makes its digest complete.
    pub(crate) fn with_transport(&self, digest: Digest, transport: FragmentTransport) -> Digest {
        let mut key = digest.key;
        key.set_fragment_transport(transport);
        self.complete(Digest { key, ..digest })
    }

    /// Turns the key of a biflow, and hashes it.
    #[inline]
    pub(crate) fn complete(&self, digest: Digest) -> Digest {
        let (mut key, is_reversed) = if self.is_biflow { digest.key.of_both_directions() } else { (digest.key, false) };
        if is_reversed && self.has_endpoints {
            endpoints::turn(&mut key);
        }
        let marks = digest.marks | if is_reversed { Digest::REVERSED } else { 0 };
        Digest { key, hash: self.hasher.hash(&key), marks, ..digest }
    }

    /// Puts a number for the ends of its tunnel into the key of a packet, in the direction of the packet.
    pub(crate) fn label(&self, digested: &mut DigestOutcome, packet: &Packet<'_>, label: u32) {
        // otherwise the tunnel is in this packet, and only its first fragment shows it
        let is_around = self.is_carried(packet);
        match digested {
            DigestOutcome::Whole(digest) => {
                endpoints::set_label(digest, label);
                digest.hash = self.hasher.hash(&digest.key);
            }
            DigestOutcome::FirstFragment(digest, id, transport) => {
                endpoints::set_label(digest, label);
                digest.hash = self.hasher.hash(&digest.key);
                transport.tunnel_id = label;
                if is_around {
                    id.key.set_tunnel_id(label);
                }
            }
            DigestOutcome::LaterFragment(digest, id) => {
                digest.key.set_tunnel_id(label);
                if is_around {
                    id.key.set_tunnel_id(label);
                }
            }
            DigestOutcome::NotFlow(_) => {}
        }
    }

    /// The hash of a key without the ends of the tunnel, whose number is another one each time.
    pub(crate) fn hash_without_endpoints(&self, digest: &Digest) -> u64 {
        let mut key = digest.key;
        key.set_tunnel_id(0);
        self.hasher.hash(&key)
    }
}

/// All that a key may be made of.
#[inline]
fn parts(meta: &PacketMeta, packet: &Packet<'_>, headers: &Headers<'_>, ports: (u16, u16)) -> KeyParts {
    let Some(ip) = headers.ip else { return KeyParts::default() };
    KeyParts {
        src_port: ports.0,
        dst_port: ports.1,
        protocol: ip.protocol,
        tos: ip.tos,
        ip_version: version(&ip),
        vlan: packet.outer.vlan(0).map_or(0, |vlan| vlan + 1),
        interface: meta.interface,
        ..KeyParts::default()
    }
    .in_tunnel(packet.tunnel)
}

const fn version(ip: &Ip<'_>) -> u8 {
    if ip.source.len() == 16 { 6 } else { 4 }
}

/// Whether these are the same header of one frame.
fn is_same(one: &Ip<'_>, other: &Ip<'_>) -> bool {
    one.source.as_ptr() == other.source.as_ptr()
}

/// The tunnel that this header of a packet is in, which all of its fragments show; [`Packet::tunnel`] may be one that
/// it carries.
fn tunnel_around(packet: &Packet<'_>, ip: &Ip<'_>) -> Option<Tunnel> {
    let innermost = packet.inner().and_then(|inner| inner.ip.as_ref());
    if innermost.is_some_and(|innermost| is_same(innermost, ip)) {
        return packet.tunnel;
    }
    packet.fragmented.as_ref().filter(|(fragmented, _)| is_same(fragmented, ip)).map(|(_, tunnel)| *tunnel)
}

/// Octets of an IP packet that states a length of 0, of which the frame has `captured`: all of them, since segmentation was
/// left to the network card. But what is too short for a transport header behind one of IPv6, whose length leaves the
/// header out, is the padding of Ethernet.
const fn octets_behind(octets: u32, source: &[u8]) -> u32 {
    const IPV6_HEADER: u32 = 40;
    const TRANSPORT_MIN: u32 = 8;
    if source.len() == 16 && octets < IPV6_HEADER + TRANSPORT_MIN { IPV6_HEADER } else { octets }
}

/// Octets of a frame before the IP header that has this source address.
fn headers_before(frame: &[u8], source: &[u8]) -> u32 {
    let offset = (source.as_ptr() as usize).saturating_sub(frame.as_ptr() as usize);
    let in_header = if source.len() == 16 { 8 } else { 12 };
    offset.saturating_sub(in_header) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn padding_behind_an_empty_packet_is_not_of_it() {
        // 46 octets are the least that a frame of Ethernet carries (IEEE 802.3 section 4.2.3.3)
        assert_eq!(octets_behind(46, &[0; 16]), 40);
        assert_eq!(octets_behind(48, &[0; 16]), 48);
        assert_eq!(octets_behind(9_000, &[0; 16]), 9_000);
        assert_eq!(octets_behind(46, &[0; 4]), 46);
    }

    /// RFC 792: destination unreachable (3) has nothing that answers it, and its code is no port with a mark.
    #[test]
    fn errors_without_the_protocol_have_type_and_code_as_ports() {
        let icmp = |kind: u8, code: u8| {
            let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 28, 0, 1, 0, 0, 64, 1, 0, 0];
            frame.extend([10, 0, 0, 1, 10, 0, 0, 2, kind, code, 0, 0, 0, 0, 0, 0]);
            frame
        };
        let ports = |has_protocol: bool, frame: &[u8]| {
            let fields = KeyFields { protocol: has_protocol, ..KeyFields::default() };
            let digester = Digester::new(fields, true, KeyHasher::new(7));
            let (length, link) = (frame.len() as u32, LinkType::Ethernet);
            let meta = PacketMeta { time_us: 9, offset: 0, captured: length, length, interface: 0, link };
            match digester.digest(0, &meta, frame, &mut Packet::default()) {
                DigestOutcome::Whole(digest) => (digest.key.parts().src_port, digest.key.parts().dst_port),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(ports(false, &icmp(3, 3)), (3, 3));
        assert_eq!(ports(false, &icmp(8, 0)), (8, 0));
        assert_ne!(ports(true, &icmp(3, 3)), ports(false, &icmp(3, 3)), "both directions would be one flow");
    }

    fn frame() -> impl Strategy<Value = Vec<u8>> {
        let tag = prop_oneof![Just(vec![]), any::<[u8; 2]>().prop_map(|[a, b]| vec![0x81, 0, a, b])];
        let rest = (any::<bool>(), any::<bool>(), any::<[u8; 40]>(), any::<[u8; 40]>(), 0_usize..90);
        (tag, rest).prop_map(|(tag, (is_ipv6, is_tcp, mut ip, transport, end))| {
            let protocol = if is_tcp { 6 } else { 17 };
            let header = if is_ipv6 {
                (ip[0], ip[4], ip[5], ip[6]) = (0x60 | ip[0] & 0xf, 0, ip[5] % 60, protocol);
                &ip[..]
            } else {
                (ip[0], ip[2], ip[3], ip[6], ip[7], ip[9]) = (0x45, 0, 20 + ip[3] % 60, ip[6] & 0xc0, 0, protocol);
                &ip[..20]
            };
            let ethertype: &[u8] = if is_ipv6 { &[0x86, 0xdd] } else { &[8, 0] };
            let mut frame = [&[2; 12][..], &tag, ethertype, header, &transport].concat();
            frame.truncate(end.max(30) + 30);
            frame
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// The short way and the long one tell the same digest, with any fields and in both directions.
        #[test]
        fn plain_packets_have_the_digest_of_dissection(
            frame in frame(), flags in any::<[bool; 9]>(), is_biflow in any::<bool>(), interface in any::<u16>(),
        ) {
            let [src_addr, dst_addr, src_port, dst_port, protocol, tos, vlan, in_interface, tunnel] = flags;
            let headers = if tunnel { KeyHeaders::Outer } else { KeyHeaders::Inner };
            let fields = KeyFields {
                src_addr, dst_addr, src_port, dst_port, protocol, tos, vlan, interface: in_interface, tunnel, headers,
                ..KeyFields::NONE
            };
            let digester = Digester::new(fields, is_biflow, KeyHasher::new(7));
            let (captured, link) = (frame.len() as u32, LinkType::Ethernet);
            let meta = PacketMeta { time_us: 9, offset: 0, captured, length: captured + 4, interface, link };
            if let Some(plain) = digester.digest_plain(3, &meta, &frame) {
                let DigestOutcome::Whole(whole) = digester.digest(3, &meta, &frame, &mut Packet::default()) else {
                    return Err(TestCaseError::fail("not whole"));
                };
                prop_assert_eq!(format!("{plain:?}"), format!("{whole:?}"));
                let parts = plain.key.parts();
                prop_assert!(in_interface || parts.interface == 0);
                prop_assert!(vlan || parts.vlan == 0);
            }
        }
    }
}
