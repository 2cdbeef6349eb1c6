//! Dissects packets: which headers a frame has, through tags, labels and tunnels.
//!
//! One pass over the octets finds every header that distinguishes flows: link addresses, VLAN tags, labels,
//! the IP header with its extensions, ports, and again the same inside of a tunnel. Everything is borrowed and nothing
//! is allocated, so that sampled headers (sFlow, PSAMP) and whole captured frames take the same way at line rate. The
//! price is that only two sets of headers are kept, the outermost and the innermost with an IP header; of tunnels
//! between them no more is known than how many there were, and the first IP header that is of a fragment.
//!
//! The IP header keeps its octets. Where headers end, and what is payload, follows from them when somebody asks: a
//! Metering Process does for each packet, a collector of samples never does.
//!
//! A frame may be cut off anywhere, because samplers cut: whatever was read before that is kept, and [`Packet::end`]
//! has why reading ended. No length in a header is trusted beyond the octets at hand.
//!
//! Limits: [`TUNNELS_MAX`], [`EXTENSION_HEADERS_MAX`].

mod captured;
mod headers;
mod in_udp;
mod link;
mod link_type;
mod mpls;
mod network;
mod plain;
mod ppp;
mod tunnel;
mod wireless;

#[cfg(test)]
mod tests;

pub use headers::{Fragment, Headers, Ip, Macs, Packet, Tunnel, TunnelKind};
pub use link_type::LinkType;
pub use plain::{PlainPacket, plain};

/// Most tunnels inside of each other that are followed.
pub const TUNNELS_MAX: u8 = 4;
/// Most IPv6 extension headers of one packet that are followed.
pub const EXTENSION_HEADERS_MAX: usize = 16;

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
    Llc,
    AccessPoint,
    Type(u16),
    Protocol(u8),
    /// A tunnel begins, with this in it.
    Tunnel(Tunnel, Inside),
}

/// What a tunnel carries.
#[derive(Debug, Clone, Copy)]
enum Inside {
    Link(LinkType),
    /// IEEE 802.11 of an access point that may have its frame control in the wrong order.
    AccessPoint,
    Type(u16),
}

impl Inside {
    fn layer(self) -> Layer {
        match self {
            Self::Link(link) => Layer::Link(link),
            Self::AccessPoint => Layer::AccessPoint,
            Self::Type(ethertype) => Layer::Type(ethertype),
        }
    }
}

/// A header that was read: what comes next, and where it begins.
type Step<'a> = Result<(Layer, &'a [u8]), End>;

/// Dissects a frame.
#[inline]
pub fn dissect(link: LinkType, frame: &[u8]) -> Packet<'_> {
    let mut packet = Packet::begin(frame);
    from_link(link, &mut packet);
    packet
}

/// Dissects a frame into a packet that is there already; what it held is gone.
#[inline]
pub fn dissect_into<'a>(link: LinkType, frame: &'a [u8], packet: &mut Packet<'a>) {
    packet.begin_again(frame);
    from_link(link, packet);
}

/// Dissects what follows a link layer header of this `EtherType`.
pub fn dissect_ethertype(ethertype: u16, octets: &[u8]) -> Packet<'_> {
    let mut packet = Packet::begin(octets);
    from_layer(Layer::Type(ethertype), &mut packet);
    packet
}

/// Takes the first step, which is all there is to nearly every packet: from Ethernet through tags and IP to TCP, UDP or
/// ICMP the layers follow each other in one line. Only what is left goes round the loop.
#[inline]
fn from_link(link: LinkType, packet: &mut Packet<'_>) {
    if link != LinkType::Ethernet {
        return from_layer(Layer::Link(link), packet);
    }
    match link::ethernet(packet.rest, &mut packet.outer) {
        Err(end) => packet.end = end,
        Ok((layer, rest)) => {
            packet.rest = rest;
            from_layer(layer, packet);
        }
    }
}

#[inline(never)]
fn from_layer(first: Layer, packet: &mut Packet<'_>) {
    let mut layer = first;
    // The innermost headers with IP of tunnels before the last one, in case that there is none in it.
    let mut before = None;
    loop {
        let headers = if packet.tunnels == 0 { &mut packet.outer } else { &mut packet.inner };
        let step = match layer {
            Layer::Link(link) => link::link(link, packet.rest, headers),
            Layer::AccessPoint => wireless::ieee80211_of_either_order(packet.rest, headers),
            Layer::Llc => link::llc(packet.rest, headers),
            Layer::Type(ethertype) => link::ethertype(ethertype, packet.rest, headers),
            Layer::Protocol(protocol) => network::protocol(protocol, packet.rest, headers),
            Layer::Tunnel(..) if packet.tunnels >= TUNNELS_MAX => Err(End::TooDeep),
            Layer::Tunnel(tunnel, inside) => {
                if let Some(ip) = packet.inner.ip {
                    if packet.outer.ip.is_none() {
                        packet.outer.take_ip(&packet.inner);
                    }
                    if ip.fragment.is_some() && packet.fragmented.is_none() {
                        packet.fragmented = packet.tunnel.map(|around| (ip, around));
                    }
                    before = Some((packet.inner, packet.tunnel));
                }
                if packet.tunnels > 0 {
                    packet.inner.clear();
                }
                (packet.tunnel, packet.tunnels) = (Some(tunnel), packet.tunnels + 1);
                Ok((inside.layer(), packet.rest))
            }
        };
        match step {
            Ok((next, rest)) => (layer, packet.rest) = (next, rest),
            Err(end) => {
                packet.end = end;
                break;
            }
        }
    }
    // Headers without IP are dropped, for those of a tunnel around them if that has some.
    if packet.tunnels > 0 && packet.inner.ip.is_none() {
        packet.inner.clear();
        if let Some(found) = before {
            (packet.inner, packet.tunnel) = found;
        }
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
