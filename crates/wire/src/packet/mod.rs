//! Dissects packets: which headers a frame has, through tags, labels and tunnels.
//!
//! One pass over the octets finds every header that tells a flow from another: link addresses, VLAN tags, labels,
//! the IP header with its extensions, ports, and again the same inside of a tunnel. Everything is borrowed and nothing
//! is allocated, so that sampled headers (sFlow, PSAMP) and whole captured frames take the same way at line rate. The
//! price is that only two sets of headers are kept, the outermost and the innermost with an IP header; of tunnels
//! between them no more is known than how many there were.
//!
//! A frame may be cut off anywhere, because samplers cut: whatever was read before that is told, and [`Packet::end`]
//! says why reading ended. No length in a header is believed beyond the octets at hand.
//!
//! Limits: [`TUNNELS_MAX`], [`EXTENSION_HEADERS_MAX`].

mod link;
mod network;
mod tunnel;

#[cfg(test)]
mod tests;

/// Most tunnels inside of each other that are followed.
pub const TUNNELS_MAX: u8 = 4;
/// Most IPv6 extension headers of one packet that are followed.
pub const EXTENSION_HEADERS_MAX: usize = 16;

/// How a frame begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// IEEE 802.3, from the destination address on.
    Ethernet,
    /// IEEE 802.11, from the frame control field on.
    Ieee80211,
    /// The Point-to-Point Protocol (RFC 1661), with or without the address and control octets of HDLC (RFC 1662).
    Ppp,
    /// A label stack (RFC 3032).
    Mpls,
    /// An IP header of the version that its first four bits say.
    Ip,
}

/// What a frame is made of.
///
/// The default is a packet of which nothing is known, to be filled by those who have headers but no octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Packet<'a> {
    /// The headers up to the first tunnel, or all there are.
    pub outer: Headers<'a>,
    /// The headers within the innermost tunnel that has an IP header.
    inner: Option<Headers<'a>>,
    /// The tunnel that the innermost headers travel in; the last one when none carries IP.
    pub tunnel: Option<Tunnel>,
    /// Tunnels met.
    pub tunnels: u8,
    /// Why reading ended.
    pub end: End,
    /// What follows the last header that was read.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Nothing is known yet. Written out, since this is done for every packet and is cheaper than to copy a default.
    #[inline]
    const fn begin(payload: &'a [u8]) -> Self {
        Self { outer: Headers::NONE, inner: None, tunnel: None, tunnels: 0, end: End::Payload, payload }
    }

    /// The headers within the innermost tunnel that has an IP header, `None` without such a tunnel.
    pub fn inner(&self) -> Option<&Headers<'a>> {
        self.inner.as_ref()
    }

    /// The headers that tell which flow the packet belongs to: those in the tunnel when there is one.
    pub fn innermost(&self) -> &Headers<'a> {
        self.inner.as_ref().unwrap_or(&self.outer)
    }
}

/// Headers from one link layer to one transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Headers<'a> {
    /// Link addresses.
    pub macs: Option<Macs<'a>>,
    /// VLAN tags (IEEE 802.1Q clause 9), the outermost first: TPID and TCI of each, 4 octets. See [`Headers::vlan`].
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

impl Headers<'_> {
    const NONE: Self = Self {
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

    /// VLAN identifier of a tag, 0 being the outermost. Tags of priority only have the identifier 0.
    pub fn vlan(&self, number: usize) -> Option<u16> {
        let tag = self.vlan_tags.as_chunks::<4>().0.get(number)?;
        Some(u16::from_be_bytes([tag[2], tag[3]]) & 0xfff)
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

/// What an IP header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip<'a> {
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
    /// Octets of the packet from the header on, as stated; 0 where the length field says so (segmentation left to the
    /// network card, jumbograms).
    pub total_length: u32,
    /// Flow label of IPv6.
    pub flow_label: u32,
    /// Set when the packet is a fragment.
    pub fragment: Option<Fragment>,
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
    /// What tells it from others of its kind between the same ends, if it has that: key, VNI, TEID, session.
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
    /// GTP-U version 1 (3GPP TS 29.281); the id is the TEID.
    Gtp,
    /// Ethernet in MPLS (RFC 4448).
    EthernetOverMpls,
    /// MPLS in IP (RFC 4023) or UDP (RFC 7510).
    Mpls,
    /// `EtherIP` (RFC 3378), or Ethernet as an IP protocol (RFC 8986 section 4.9).
    EthernetInIp,
    /// Provider Backbone Bridges (IEEE 802.1Q clause 9.7); the id is the I-SID.
    Pbb,
}

/// Why reading a frame ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum End {
    /// All headers were read; what follows is payload.
    #[default]
    Payload,
    /// What follows is of a protocol that is not dissected.
    Unknown,
    /// The octets end within a header.
    Truncated,
    /// A header contradicts itself.
    Malformed,
    /// [`TUNNELS_MAX`] or [`EXTENSION_HEADERS_MAX`] was met.
    TooDeep,
}

/// What comes next.
#[derive(Debug, Clone, Copy)]
enum Layer {
    Link(LinkType),
    Type(u16),
    Protocol(u8),
    /// A tunnel begins, with this in it.
    Tunnel(Tunnel, Inside),
}

/// What a tunnel carries.
#[derive(Debug, Clone, Copy)]
enum Inside {
    Link(LinkType),
    Type(u16),
}

/// A header that was read: what comes next, and where it begins.
type Step<'a> = Result<(Layer, &'a [u8]), End>;

/// Dissects a frame.
pub fn dissect(link: LinkType, frame: &[u8]) -> Packet<'_> {
    let mut packet = Packet::begin(frame);
    from_layer(Layer::Link(link), &mut packet);
    packet
}

/// Dissects a frame into a packet that is there already; what it held is gone.
pub fn dissect_into<'a>(link: LinkType, frame: &'a [u8], packet: &mut Packet<'a>) {
    *packet = Packet::begin(frame);
    from_layer(Layer::Link(link), packet);
}

/// Dissects what follows a link layer header of this `EtherType`.
pub fn dissect_ethertype(ethertype: u16, octets: &[u8]) -> Packet<'_> {
    let mut packet = Packet::begin(octets);
    from_layer(Layer::Type(ethertype), &mut packet);
    packet
}

fn from_layer(first: Layer, packet: &mut Packet<'_>) {
    let mut layer = first;
    let mut headers = &mut packet.outer;
    let mut within = Headers::NONE;
    let mut entered = None;
    loop {
        let step = match layer {
            Layer::Link(link) => link::link(link, packet.payload, headers),
            Layer::Type(ethertype) => link::ethertype(ethertype, packet.payload, headers),
            Layer::Protocol(protocol) => network::protocol(protocol, packet.payload, headers),
            Layer::Tunnel(..) if packet.tunnels >= TUNNELS_MAX => Err(End::TooDeep),
            Layer::Tunnel(tunnel, inside) => {
                settle(entered, &within, &mut packet.inner, &mut packet.tunnel);
                packet.tunnels += 1;
                entered = Some(tunnel);
                within = Headers::NONE;
                headers = &mut within;
                let inside = match inside {
                    Inside::Link(link) => Layer::Link(link),
                    Inside::Type(ethertype) => Layer::Type(ethertype),
                };
                Ok((inside, packet.payload))
            }
        };
        match step {
            Ok((next, rest)) => (layer, packet.payload) = (next, rest),
            Err(end) => {
                packet.end = end;
                break;
            }
        }
    }
    settle(entered, &within, &mut packet.inner, &mut packet.tunnel);
}

/// Keeps what was found within a tunnel, if it is IP or there is nothing better.
fn settle<'a>(
    entered: Option<Tunnel>,
    within: &Headers<'a>,
    inner: &mut Option<Headers<'a>>,
    tunnel: &mut Option<Tunnel>,
) {
    if entered.is_some() && within.ip.is_some() {
        (*inner, *tunnel) = (Some(*within), entered);
    } else if inner.is_none() && entered.is_some() {
        *tunnel = entered;
    }
}

/// The first `N` octets and the rest.
#[inline]
fn split<const N: usize>(octets: &[u8]) -> Result<(&[u8; N], &[u8]), End> {
    octets.split_first_chunk::<N>().ok_or(End::Truncated)
}

/// The octets from `length` on.
#[inline]
fn skip(octets: &[u8], length: usize) -> Result<&[u8], End> {
    octets.get(length..).ok_or(End::Truncated)
}
