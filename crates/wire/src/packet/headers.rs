//! The headers of a dissected packet.

use super::End;

/// What a frame is made of.
///
/// The default is a packet of which nothing is known, to be filled by those who have headers but no octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Packet<'a> {
    /// The headers up to the first tunnel, or all there are. Where these have no IP header, since links carry frames in
    /// frames (pseudowires, provider bridges), and IP tunnels are in the first tunnel, IP and its transport are those
    /// of the first IP header there.
    pub outer: Headers<'a>,
    /// The headers within the innermost tunnel that has an IP header; nothing without such a tunnel.
    pub(super) inner: Headers<'a>,
    /// The tunnel that the innermost headers travel in; the last one when none carries IP.
    pub tunnel: Option<Tunnel>,
    /// The first IP packet within a tunnel that carries a tunnel itself and is in fragments, of which this is the
    /// first, and the tunnel that it is in. The other fragments are in that one, too, and do not show what is carried.
    pub fragmented: Option<(Ip<'a>, Tunnel)>,
    /// Tunnels met.
    pub tunnels: u8,
    /// Why reading ended.
    pub end: End,
    /// Where the layer begins that was entered last; what is read in one go with the layer before does not count.
    pub(super) rest: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Nothing is known yet.
    #[inline]
    pub(super) const fn begin(rest: &'a [u8]) -> Self {
        Self {
            outer: Headers::NONE,
            inner: Headers::NONE,
            tunnel: None,
            fragmented: None,
            tunnels: 0,
            end: End::Payload,
            rest,
        }
    }

    /// Forgets what the packet held. What marks a value as absent is written and not its space, which is a fraction of
    /// what a new packet would copy, for every packet.
    #[inline]
    pub(super) fn begin_again(&mut self, rest: &'a [u8]) {
        self.outer.clear();
        if self.inner.ip.is_some() {
            self.inner.clear();
        }
        (self.tunnel, self.fragmented, self.tunnels) = (None, None, 0);
        (self.end, self.rest) = (End::Payload, rest);
    }

    /// The headers within the innermost tunnel that has an IP header, `None` without such a tunnel.
    #[inline]
    pub fn inner(&self) -> Option<&Headers<'a>> {
        self.inner.ip.is_some().then_some(&self.inner)
    }

    /// The headers that decide which flow the packet belongs to: those in the tunnel when there is one.
    #[inline]
    pub fn innermost(&self) -> &Headers<'a> {
        self.inner().unwrap_or(&self.outer)
    }

    /// The headers of the outermost IP packet: within the first tunnel when a link carries that one, and no IP packet does.
    #[inline]
    pub fn outermost(&self) -> &Headers<'a> {
        if self.outer.ip.is_some() { &self.outer } else { self.innermost() }
    }

    /// Octets of link headers at the beginning of the frame that was dissected: where the outermost IP header begins,
    /// or, in a frame without one, what is not dissected.
    pub fn link_octets(&self, frame: &[u8]) -> usize {
        let carried = self.outermost().ip.map_or(self.rest, |ip| ip.octets);
        // A packet that was put together from other sources than octets has none; its part is then all of the frame.
        carried.as_ptr().addr().checked_sub(frame.as_ptr().addr()).filter(|at| *at <= frame.len()).unwrap_or(0)
    }
}

/// Headers from one link layer to one transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Headers<'a> {
    /// Link addresses, where the link has both.
    pub macs: Option<Macs<'a>>,
    /// VLAN tags (IEEE 802.1Q clause 9), the outermost first: TPID and TCI of each, 4 octets; other octets in the place of
    /// the first TPID when that is apart, in the protocol field of [`LinuxSll2`](super::LinkType::LinuxSll2). See
    /// [`Headers::vlan`].
    pub vlan_tags: &'a [u8],
    /// MPLS label stack entries (RFC 3032 section 2.1), top first, 4 octets each.
    pub labels: &'a [u8],
    /// Session of PPP over Ethernet (RFC 2516 section 4).
    pub pppoe_session: Option<u16>,
    /// `EtherType` behind all tags; of PPP and bare IP the one that Ethernet would have.
    pub ethertype: Option<u16>,
    /// The IP header.
    pub ip: Option<Ip<'a>>,
    /// Source and destination port of TCP, UDP, UDP-Lite, DCCP or SCTP; none in later fragments.
    pub ports: Option<(u16, u16)>,
    /// TCP control bits (RFC 9293 section 3.1), with the reserved ones.
    pub tcp_flags: Option<u16>,
    /// Type and code of ICMP or `ICMPv6`.
    pub icmp: Option<(u8, u8)>,
}

impl<'a> Headers<'a> {
    pub(super) const NONE: Self = Self {
        macs: None,
        vlan_tags: &[],
        labels: &[],
        pppoe_session: None,
        ethertype: None,
        ip: None,
        ports: None,
        tcp_flags: None,
        icmp: None,
    };

    /// Forgets what was known, as [`Packet::begin_again`] does.
    #[inline]
    pub(super) fn clear(&mut self) {
        (self.macs, self.vlan_tags, self.labels) = (None, &[], &[]);
        (self.pppoe_session, self.ethertype, self.ip) = (None, None, None);
        (self.ports, self.tcp_flags, self.icmp) = (None, None, None);
    }

    /// Takes over the values of IP and its transport.
    pub(super) fn take_ip(&mut self, other: &Self) {
        (self.ip, self.ports) = (other.ip, other.ports);
        (self.tcp_flags, self.icmp) = (other.tcp_flags, other.icmp);
    }

    /// VLAN identifier of a tag, 0 being the outermost. Tags of priority only have the identifier 0.
    pub fn vlan(&self, number: usize) -> Option<u16> {
        let tag = self.vlan_tags.as_chunks::<4>().0.get(number)?;
        Some(u16::from_be_bytes([tag[2], tag[3]]) & 0xfff)
    }

    /// The transport header and all that follows it in the packet. Empty where there is none: no IP, a later fragment,
    /// a frame cut off before it.
    ///
    /// It ends where the IP packet states that it ends, or where the captured octets do: padding of the link is not in
    /// it.
    #[inline]
    pub fn transport(&self) -> &'a [u8] {
        match &self.ip {
            Some(ip) if !ip.is_later_fragment() => ip.carried(),
            _ => &[],
        }
    }

    /// Sequence number of the first octet that a segment of TCP carries (RFC 9293 section 3.1); a SYN takes the one
    /// before. `None` of other transports, of a later fragment, and where the capture ends before it.
    #[inline]
    pub fn tcp_sequence(&self) -> Option<u32> {
        const SYN: u16 = 0x02;
        let (flags, segment) = (self.tcp_flags?, self.transport());
        let &[_, _, _, _, a, b, c, d] = segment.first_chunk::<8>()?;
        Some(u32::from_be_bytes([a, b, c, d]).wrapping_add(u32::from(flags & SYN != 0)))
    }

    /// What the transport carries, as far as it was captured; of a later fragment all that it carries. Behind a protocol
    /// whose header is not dissected this is the same as [`Headers::transport`].
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        let Some(ip) = &self.ip else { return &[] };
        let carried = ip.carried();
        if ip.is_later_fragment() {
            return carried;
        }
        let end = stated_by_udp(ip.protocol, carried).map_or(carried.len(), |stated| carried.len().min(stated));
        carried.get(transport_octets(ip.protocol, carried)..end).unwrap_or_default()
    }

    /// Octets that the transport carries by the lengths in the headers, captured or not. Without a stated length
    /// ([`Ip::total_length`] of 0) those that were captured.
    #[inline]
    pub fn payload_octets(&self) -> u32 {
        let Some(ip) = &self.ip else { return 0 };
        let stated = if ip.total_length > 0 { ip.total_length } else { ip.octets.len() as u32 };
        let stated = stated.saturating_sub(ip.header_octets);
        if ip.is_later_fragment() {
            return stated;
        }
        let carried = ip.carried();
        let stated = stated_by_udp(ip.protocol, carried).map_or(stated, |octets| stated.min(octets as u32));
        stated.saturating_sub(transport_octets(ip.protocol, carried) as u32)
    }
}

/// Octets from the header of UDP on, by its own length (RFC 768), of which 0 leaves it to IP (RFC 2675 section 4).
#[inline]
fn stated_by_udp(protocol: u8, octets: &[u8]) -> Option<usize> {
    match octets {
        [_, _, _, _, high, low, _, _, ..] if protocol == 17 => {
            Some(u16::from_be_bytes([*high, *low]).into()).filter(|stated| *stated > 0)
        }
        _ => None,
    }
}

/// Octets of the transport header that begins here, as it states itself; 0 for protocols whose header is not dissected.
#[inline]
fn transport_octets(protocol: u8, octets: &[u8]) -> usize {
    match protocol {
        // RFC 9293 section 3.1: the data offset; of a header cut off before it the least.
        6 => octets.get(12).map_or(20, |offset| usize::from(offset >> 4) * 4),
        // UDP, UDP-Lite, and all of ICMP that carries something
        17 | 136 | 1 | 58 => 8,
        // RFC 4340 section 5.1: the data offset
        33 => octets.get(4).map_or(12, |offset| usize::from(*offset) * 4),
        132 => 12,
        _ => 0,
    }
}

/// Addresses of a link layer frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Macs<'a> {
    /// Source.
    pub source: &'a [u8; 6],
    /// Destination.
    pub destination: &'a [u8; 6],
}

/// An IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip<'a> {
    /// The packet from its header on: as long as the header states, or as was captured. Padding of the link is not in
    /// it. Empty where an agent reported the header's fields without its octets.
    pub octets: &'a [u8],
    /// Octets of the header with its options, extension headers and authentication headers. Where the capture ends
    /// among the options these are more than [`Ip::octets`]; extension headers count as far as they were captured.
    pub header_octets: u32,
    /// Source address, 4 or 16 octets.
    pub source: &'a [u8],
    /// Destination address, 4 or 16 octets.
    pub destination: &'a [u8],
    /// Protocol of what the header and its extensions carry.
    pub protocol: u8,
    /// Type of service or traffic class.
    pub tos: u8,
    /// TTL or hop limit.
    pub ttl: u8,
    /// Octets of the packet from the header on, as stated, that of a jumbogram (RFC 2675) too; 0 where the length field
    /// says so and no option does (segmentation left to the network card).
    pub total_length: u32,
    /// Flow label of IPv6.
    pub flow_label: u32,
    /// Set when the packet is a fragment.
    pub fragment: Option<Fragment>,
}

impl<'a> Ip<'a> {
    /// The header with its options or extension headers.
    #[inline]
    pub fn header(&self) -> &'a [u8] {
        self.octets.get(..self.header_octets as usize).unwrap_or(self.octets)
    }

    /// What follows the header and its extensions.
    #[inline]
    pub fn carried(&self) -> &'a [u8] {
        self.octets.get(self.header_octets as usize..).unwrap_or_default()
    }

    /// Whether this is a fragment without the beginning of what is carried.
    #[inline]
    pub fn is_later_fragment(&self) -> bool {
        self.fragment.is_some_and(|fragment| fragment.offset > 0)
    }
}

/// Which part of a packet a fragment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Common to all fragments of a packet.
    pub identification: u32,
    /// Where it belongs, in octets.
    pub offset: u16,
    /// Whether others follow.
    pub more: bool,
}

/// A tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tunnel {
    /// Its protocol.
    pub kind: TunnelKind,
    /// What distinguishes it from others of its kind between the same ends, if there is anything: key, VNI, TEID,
    /// session.
    pub id: Option<u32>,
}

/// Protocols that carry packets in packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TunnelKind {
    /// IPv4 or IPv6 in IPv4 (RFC 2003, RFC 4213) or in IPv6 (RFC 2473).
    Ip,
    /// Generic Routing Encapsulation (RFC 2784, RFC 2890; RFC 2637 for PPTP; RFC 8086 in UDP); the id is the key or
    /// the call.
    Gre,
    /// ERSPAN types I to III in GRE; the id is the session.
    Erspan,
    /// VXLAN and VXLAN-GPE (RFC 7348); the id is the VNI.
    Vxlan,
    /// Geneve (RFC 8926); the id is the VNI.
    Geneve,
    /// GTP-U version 1 (3GPP TS 29.281), the id being the TEID, and version 0 (GSM 09.60).
    Gtp,
    /// Ethernet in MPLS (RFC 4448).
    EthernetOverMpls,
    /// MPLS in IP (RFC 4023) or UDP (RFC 7510).
    Mpls,
    /// `EtherIP` (RFC 3378), or Ethernet as an IP protocol (RFC 8986 section 4.9).
    EthernetInIp,
    /// Provider Backbone Bridges (IEEE 802.1Q clause 9.7); the id is the I-SID.
    Pbb,
    /// Cisco's `FabricPath`.
    FabricPath,
    /// Network Service Header (RFC 8300); the id is the service path.
    Nsh,
    /// Teredo (RFC 4380).
    Teredo,
    /// The Layer Two Tunneling Protocol: version 2 (RFC 2661), the id being tunnel and session, and version 3
    /// (RFC 3931), the id being the session.
    L2tp,
    /// Anything In Anything (draft-massar-v6ops-ayiya-02).
    Ayiya,
    /// Data of CAPWAP (RFC 5415).
    Capwap,
    /// Data of LISP (RFC 9300); the id is the instance.
    Lisp,
    /// Register messages of PIM (RFC 7761 section 4.9.3).
    PimRegister,
}
