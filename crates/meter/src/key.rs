//! Flow Keys (RFC 7011 section 2): the fields that distinguish flows.

use std::hash::{BuildHasher, Hasher};
use std::net::IpAddr;

use foldhash::fast::FixedState;
use weir_flow::icmp;
use weir_wire::packet::Tunnel;

/// Which headers make the key of a packet in a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyHeaders {
    /// Those of the packet that the tunnel carries.
    #[default]
    Inner,
    /// Those of the packet that carries it, or its own where a link does and no packet (pseudowires, provider bridges).
    Outer,
}

/// Which fields distinguish flows. A field that does not is left out of the record, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field that may be left out by itself")]
pub struct KeyFields {
    /// Source address.
    pub src_addr: bool,
    /// Destination address.
    pub dst_addr: bool,
    /// Source port.
    pub src_port: bool,
    /// Destination port, or type and code of ICMP.
    pub dst_port: bool,
    /// Protocol.
    pub protocol: bool,
    /// Type of service or traffic class.
    pub tos: bool,
    /// VLAN of the frame, the outermost.
    pub vlan: bool,
    /// Interface that the packet was captured on.
    pub interface: bool,
    /// Kind and identifier (VNI, TEID, key) of the tunnel.
    pub tunnel: bool,
    /// Addresses of the outermost packet that carries another one. Ports are not looked at: those of VXLAN and Geneve are
    /// a hash of what is carried (RFC 7348 section 5, RFC 8926 section 3.3).
    pub tunnel_endpoints: bool,
    /// Which headers of a packet in a tunnel.
    pub headers: KeyHeaders,
}

impl KeyFields {
    /// No field at all, so that every packet is of one flow.
    pub const NONE: Self = Self {
        src_addr: false,
        dst_addr: false,
        src_port: false,
        dst_port: false,
        protocol: false,
        tos: false,
        vlan: false,
        interface: false,
        tunnel: false,
        tunnel_endpoints: false,
        headers: KeyHeaders::Inner,
    };
}

impl Default for KeyFields {
    /// The five-tuple, type of service, VLAN and interface; of packets in tunnels the inner headers.
    fn default() -> Self {
        Self {
            src_addr: true,
            dst_addr: true,
            src_port: true,
            dst_port: true,
            protocol: true,
            tos: true,
            vlan: true,
            interface: true,
            tunnel: false,
            tunnel_endpoints: false,
            headers: KeyHeaders::Inner,
        }
    }
}

/// A Flow Key of fixed size. Fields that are not part of the key are 0.
///
/// Both families share one layout: an IPv4 address takes the first 4 of 16 octets. That costs 24 octets for each IPv4
/// flow, and saves a second cache, a second code path, and a branch that cannot be predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(C)]
pub struct FlowKey {
    src: [u64; 2],
    dst: [u64; 2],
    /// Source port, destination port, protocol, type of service, version of IP, kind of the tunnel.
    transport: u64,
    /// VLAN, interface, identifier of the tunnel.
    place: u64,
}

/// The parts of a key besides the addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyParts {
    /// Source port; of ICMP see [`icmp_ports`].
    pub src_port: u16,
    /// Destination port; of ICMP see [`icmp_ports`].
    pub dst_port: u16,
    /// Protocol.
    pub protocol: u8,
    /// Type of service or traffic class.
    pub tos: u8,
    /// 4 or 6.
    pub ip_version: u8,
    /// 0 for none, or the kind of the tunnel and 1.
    pub tunnel_kind: u8,
    /// VLAN with 1 added, 0 for none.
    pub vlan: u16,
    /// Position of the interface.
    pub interface: u16,
    /// Identifier of the tunnel; with [`KeyFields::tunnel_endpoints`] a number for the identifier and the addresses.
    pub tunnel_id: u32,
}

/// What only the first fragment of a packet shows for all of them. Ports of ICMP are what takes their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FragmentTransport {
    /// Protocol behind all headers, those that fragments have only one of among them.
    pub protocol: u8,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Kind of the tunnel that the first fragment carries, or else is in, as in [`KeyParts`].
    pub tunnel_kind: u8,
    /// Identifier of that tunnel, or the number that takes its place.
    pub tunnel_id: u32,
}

impl KeyParts {
    /// The same parts of a packet in this tunnel, or in none.
    #[inline]
    pub(crate) fn in_tunnel(self, tunnel: Option<Tunnel>) -> Self {
        let (tunnel_kind, tunnel_id) = tunnel.map_or((0, 0), |tunnel| (tunnel.kind as u8 + 1, tunnel.id.unwrap_or(0)));
        Self { tunnel_kind, tunnel_id, ..self }
    }

    #[inline]
    const fn transport(self) -> u64 {
        self.src_port as u64
            | (self.dst_port as u64) << 16
            | (self.protocol as u64) << 32
            | (self.tos as u64) << 40
            | (self.ip_version as u64) << 48
            | (self.tunnel_kind as u64) << 56
    }

    #[inline]
    const fn place(self) -> u64 {
        self.vlan as u64 | (self.interface as u64) << 16 | (self.tunnel_id as u64) << 32
    }
}

impl FlowKey {
    /// A key of nothing.
    pub(crate) const ZERO: Self = Self { src: [0; 2], dst: [0; 2], transport: 0, place: 0 };

    /// All bits of the fields that distinguish flows; the version of IP always does.
    pub const fn mask(fields: &KeyFields) -> Self {
        const fn all(is_key: bool) -> u64 {
            if is_key { u64::MAX } else { 0 }
        }
        let parts = KeyParts {
            src_port: all(fields.src_port) as u16,
            dst_port: all(fields.dst_port) as u16,
            protocol: all(fields.protocol) as u8,
            tos: all(fields.tos) as u8,
            ip_version: u8::MAX,
            tunnel_kind: all(fields.tunnel) as u8,
            vlan: all(fields.vlan) as u16,
            interface: all(fields.interface) as u16,
            tunnel_id: all(fields.tunnel) as u32,
        };
        let (src, dst) = (all(fields.src_addr), all(fields.dst_addr));
        Self { src: [src; 2], dst: [dst; 2], transport: parts.transport(), place: parts.place() }
    }

    /// The key without the fields that are not in this mask.
    #[inline]
    #[must_use]
    pub const fn masked(&self, mask: &Self) -> Self {
        Self {
            src: [self.src[0] & mask.src[0], self.src[1] & mask.src[1]],
            dst: [self.dst[0] & mask.dst[0], self.dst[1] & mask.dst[1]],
            transport: self.transport & mask.transport,
            place: self.place & mask.place,
        }
    }

    /// Makes a key of addresses with 16 octets, those of IPv4 with 12 octets of 0 behind them, and the rest.
    #[inline]
    pub(crate) fn of_octets(src: &[u8; 16], dst: &[u8; 16], parts: KeyParts) -> Self {
        let words = |octets: &[u8; 16]| {
            let [low, high] = [u128::from_le_bytes(*octets), u128::from_le_bytes(*octets) >> 64];
            [low as u64, high as u64]
        };
        Self { src: words(src), dst: words(dst), transport: parts.transport(), place: parts.place() }
    }

    /// Makes a key of addresses (4 or 16 octets, others count as none) and the rest.
    #[inline]
    pub fn new(src: &[u8], dst: &[u8], parts: KeyParts) -> Self {
        Self { src: words(src), dst: words(dst), transport: parts.transport(), place: parts.place() }
    }

    /// Everything but the addresses.
    #[inline]
    pub const fn parts(&self) -> KeyParts {
        KeyParts {
            src_port: self.transport as u16,
            dst_port: (self.transport >> 16) as u16,
            protocol: (self.transport >> 32) as u8,
            tos: (self.transport >> 40) as u8,
            ip_version: (self.transport >> 48) as u8,
            tunnel_kind: (self.transport >> 56) as u8,
            vlan: self.place as u16,
            interface: (self.place >> 16) as u16,
            tunnel_id: (self.place >> 32) as u32,
        }
    }

    /// The protocol.
    #[inline]
    pub const fn protocol(&self) -> u8 {
        (self.transport >> 32) as u8
    }

    /// Whether addresses have 16 octets.
    #[inline]
    pub const fn is_ipv6(&self) -> bool {
        (self.transport >> 48) as u8 == 6
    }

    /// Source address in network order; the first 4 octets count for IPv4.
    #[inline]
    pub fn src_octets(&self) -> [u8; 16] {
        octets(self.src)
    }

    /// Destination address in network order; the first 4 octets count for IPv4.
    #[inline]
    pub fn dst_octets(&self) -> [u8; 16] {
        octets(self.dst)
    }

    /// Source address.
    pub fn src_addr(&self) -> IpAddr {
        address(self.is_ipv6(), self.src_octets())
    }

    /// Destination address.
    pub fn dst_addr(&self) -> IpAddr {
        address(self.is_ipv6(), self.dst_octets())
    }

    /// The key of the opposite direction.
    #[inline]
    #[must_use]
    pub const fn reversed(&self) -> Self {
        let ports = ((self.transport & 0xffff) << 16) | ((self.transport >> 16) & 0xffff);
        Self { src: self.dst, dst: self.src, transport: (self.transport & !0xffff_ffff) | ports, place: self.place }
    }

    /// One key for both directions, and whether it is the reversed one.
    #[inline]
    #[must_use]
    pub fn of_both_directions(self) -> (Self, bool) {
        let from = (self.src, self.transport & 0xffff);
        let to = (self.dst, (self.transport >> 16) & 0xffff);
        if from <= to { (self, false) } else { (self.reversed(), true) }
    }

    /// What further fragments learn from the first one, whose key this is.
    pub(crate) const fn fragment_transport(&self) -> FragmentTransport {
        let KeyParts { src_port, dst_port, protocol, tunnel_kind, tunnel_id, .. } = self.parts();
        FragmentTransport { protocol, src_port, dst_port, tunnel_kind, tunnel_id }
    }

    /// Sets protocol, ports and tunnel, for fragments that learn them from the first one.
    pub(crate) const fn set_fragment_transport(&mut self, of: FragmentTransport) {
        const LEARNT: u64 = 0xff00_00ff_ffff_ffff;
        let ports = of.src_port as u64 | (of.dst_port as u64) << 16;
        let learnt = ports | (of.protocol as u64) << 32 | (of.tunnel_kind as u64) << 56;
        self.transport = (self.transport & !LEARNT) | learnt;
        self.set_tunnel_id(of.tunnel_id);
    }

    /// Sets the identifier of the tunnel, or what takes its place.
    pub(crate) const fn set_tunnel_id(&mut self, id: u32) {
        self.place = (self.place & 0xffff_ffff) | (id as u64) << 32;
    }
}

#[inline]
fn words(address: &[u8]) -> [u64; 2] {
    if let Ok(ipv4) = <[u8; 4]>::try_from(address) {
        return [u64::from(u32::from_le_bytes(ipv4)), 0];
    }
    match address.as_chunks::<8>() {
        ([high, low], []) => [u64::from_le_bytes(*high), u64::from_le_bytes(*low)],
        _ => [0, 0],
    }
}

#[inline]
fn octets(words: [u64; 2]) -> [u8; 16] {
    let mut octets = [0; 16];
    octets[..8].copy_from_slice(&words[0].to_le_bytes());
    octets[8..].copy_from_slice(&words[1].to_le_bytes());
    octets
}

fn address(is_ipv6: bool, octets: [u8; 16]) -> IpAddr {
    match octets.first_chunk::<4>() {
        Some(ipv4) if !is_ipv6 => (*ipv4).into(),
        _ => octets.into(),
    }
}

/// The hash of keys. It is seeded, so that a sender who does not know the seed cannot choose packets whose flows collide.
#[derive(Debug, Clone)]
pub struct KeyHasher(FixedState);

impl KeyHasher {
    /// A hash of its own for each seed.
    pub fn new(seed: u64) -> Self {
        Self(FixedState::with_seed(seed))
    }

    /// Hashes a key.
    #[inline]
    pub fn hash(&self, key: &FlowKey) -> u64 {
        let mut hasher = self.0.build_hasher();
        hasher.write_u64(key.src[0]);
        hasher.write_u64(key.dst[0]);
        hasher.write_u64(key.transport);
        hasher.write_u64(key.place);
        if key.is_ipv6() {
            hasher.write_u64(key.src[1]);
            hasher.write_u64(key.dst[1]);
        }
        hasher.finish()
    }
}

/// What takes the place of ports for ICMP.
///
/// Of uniflows it is what `NetFlow` has: 0 and type * 256 + code. Of biflows it is the type and that of its answer (as
/// Zeek has it), so that a request and its reply make one flow. What has no answer has its code there, with a mark that
/// no type has: errors of one direction would else be taken for answers to those of the other. Where the protocol is
/// no key (`has_protocol`) there is no mark, since these are ports like others then, and go into the record.
#[inline]
pub(crate) fn icmp_ports(protocol: u8, icmp: (u8, u8), is_biflow: bool, has_protocol: bool) -> (u16, u16) {
    let no_answer = if has_protocol { 0x100 } else { 0 };
    let (kind, code) = (u16::from(icmp.0), u16::from(icmp.1));
    if is_biflow {
        (kind, icmp::answer(protocol, icmp.0).map_or(no_answer | code, u16::from))
    } else {
        (0, kind << 8 | code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::icmp::{ICMP, ICMPV6};

    const PARTS: KeyParts = KeyParts {
        src_port: 0x1234,
        dst_port: 53,
        protocol: 17,
        tos: 0xb8,
        ip_version: 6,
        tunnel_kind: 3,
        vlan: 4095,
        interface: 7,
        tunnel_id: 0xdead_beef,
    };

    #[test]
    fn what_goes_in_comes_out() {
        let (src, dst): ([u8; 16], [u8; 16]) =
            (std::array::from_fn(|i| i as u8), std::array::from_fn(|i| 200 + i as u8));
        let key = FlowKey::new(&src, &dst, PARTS);
        assert_eq!((key.src_octets(), key.dst_octets(), key.parts()), (src, dst, PARTS));
        assert_eq!(key.src_addr(), IpAddr::from(src));
        let key = FlowKey::new(&[192, 0, 2, 1], &[198, 51, 100, 7], KeyParts { ip_version: 4, ..PARTS });
        assert_eq!(
            (key.src_addr().to_string(), key.dst_addr().to_string()),
            ("192.0.2.1".into(), "198.51.100.7".into())
        );
    }

    #[test]
    fn both_directions_have_one_key_that_only_swaps_ends() {
        let key = FlowKey::new(&[192, 0, 2, 1], &[198, 51, 100, 7], KeyParts { ip_version: 4, ..PARTS });
        let back = key.reversed();
        assert_eq!(back.reversed(), key);
        assert_eq!(back.parts(), KeyParts { src_port: 53, dst_port: 0x1234, ip_version: 4, ..PARTS });
        let ((one, swapped), (other, swapped_back)) = (key.of_both_directions(), back.of_both_directions());
        assert_eq!(one, other);
        assert_ne!(swapped, swapped_back);
        let same_host = FlowKey::new(&[10, 0, 0, 1], &[10, 0, 0, 1], KeyParts { src_port: 9, dst_port: 8, ..PARTS });
        assert_eq!(same_host.of_both_directions().0, same_host.reversed().of_both_directions().0);
    }

    #[test]
    fn every_field_changes_the_hash() {
        let hasher = KeyHasher::new(7);
        let key = |parts| FlowKey::new(&[192, 0, 2, 1], &[198, 51, 100, 7], parts);
        let plain = hasher.hash(&key(PARTS));
        let others = [
            KeyParts { src_port: 1, ..PARTS },
            KeyParts { dst_port: 54, ..PARTS },
            KeyParts { protocol: 6, ..PARTS },
            KeyParts { tos: 0, ..PARTS },
            KeyParts { vlan: 1, ..PARTS },
            KeyParts { interface: 8, ..PARTS },
            KeyParts { tunnel_kind: 4, ..PARTS },
            KeyParts { tunnel_id: 1, ..PARTS },
        ];
        for parts in others {
            assert_ne!(hasher.hash(&key(parts)), plain, "{parts:?}");
        }
        assert_ne!(KeyHasher::new(8).hash(&key(PARTS)), plain, "the seed counts");
    }

    #[test]
    fn a_reply_has_the_ports_of_its_request_the_other_way_round() {
        assert_eq!(icmp_ports(ICMP, (8, 0), false, true), (0, 0x800));
        assert_eq!(icmp_ports(ICMP, (8, 0), true, true), (8, 0));
        assert_eq!(icmp_ports(ICMP, (0, 0), true, true), (0, 8));
        assert_eq!(icmp_ports(ICMPV6, (136, 0), true, true), (136, 135));
    }

    /// RFC 792 and RFC 4443 section 2.4: nothing answers an error.
    #[test]
    fn errors_of_opposite_directions_are_two_flows() {
        let flow = |protocol, from: u8, to: u8, icmp: (u8, u8)| {
            let (src_port, dst_port) = icmp_ports(protocol, icmp, true, true);
            let parts = KeyParts { protocol, src_port, dst_port, ip_version: 4, ..KeyParts::default() };
            FlowKey::new(&[10, 0, 0, from], &[10, 0, 0, to], parts).of_both_directions().0
        };
        for (protocol, there, back) in [(ICMPV6, (1, 3), (3, 1)), (ICMP, (3, 3), (3, 3)), (ICMP, (5, 1), (5, 1))] {
            assert_ne!(flow(protocol, 1, 2, there), flow(protocol, 2, 1, back));
        }
        assert_eq!(flow(ICMP, 1, 2, (8, 0)), flow(ICMP, 2, 1, (0, 0)));
        assert_eq!(flow(ICMPV6, 1, 2, (128, 0)), flow(ICMPV6, 2, 1, (129, 0)));
    }
}
