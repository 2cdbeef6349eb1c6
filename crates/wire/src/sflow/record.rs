//! Records: what a flow sample knows of its packet.
//!
//! The structures are those of "sFlow Version 5" section 5.3 and of the documents named at each, under the numbers of
//! sflow.org's list of structures. A record longer than its structure is read as far as it is known.

use super::xdr::Xdr;
use super::{Format, counters};
use crate::error::{WireError, octets_of};
use crate::packet::{Ip, LinkType};

/// A record as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// What it is.
    pub format: Format,
    /// Its octets.
    pub body: &'a [u8],
}

/// The records of a sample, in order. After the last, a disagreement with their number is yielded once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Records<'a> {
    rest: &'a [u8],
    stated: u32,
    found: u32,
}

impl<'a> Records<'a> {
    pub(super) fn new(stated: u32, rest: &'a [u8]) -> Self {
        Self { rest, stated, found: 0 }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, WireError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.found == self.stated {
            return None;
        }
        let mut xdr = Xdr::new(self.rest);
        let whole = xdr.u32().zip(xdr.u32());
        let Some((format, body)) = whole.and_then(|(format, length)| Some((format, xdr.opaque(length)?))) else {
            let error = WireError::SampleRecordTruncated {
                record: self.found,
                need: whole.map_or(8, |(_, length)| length.saturating_add(8)),
                have: octets_of(self.rest.len()),
            };
            self.stated = self.found;
            return Some(Err(error));
        };
        self.rest = xdr.rest();
        self.found += 1;
        Some(Ok(Record { format: Format(format), body }))
    }
}

/// The first octets of a sampled packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledHeader<'a> {
    /// `header_protocol`: what the octets begin with. See [`SampledHeader::link_type`].
    pub protocol: u32,
    /// Octets of the packet on its link, with checksum and whatever else was stripped.
    pub frame_length: u32,
    /// Octets that the agent has taken off the packet before sampling it: at its end, and of link headers that it does
    /// not report.
    pub stripped: u32,
    /// The octets.
    pub header: &'a [u8],
}

impl SampledHeader<'_> {
    /// How the header is to be dissected, `None` for protocols that are not in use any more.
    pub fn link_type(&self) -> Option<LinkType> {
        Some(match self.protocol {
            1 => LinkType::Ethernet,
            7 | 14 => LinkType::Ppp,
            11 | 12 => LinkType::Ip,
            13 => LinkType::Mpls,
            15 => LinkType::Ieee80211,
            _ => return None,
        })
    }
}

/// The Ethernet header of a packet, read by the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledEthernet<'a> {
    /// Octets of the frame, without what lower layers add.
    pub length: u32,
    /// Source address.
    pub source: &'a [u8; 6],
    /// Destination address.
    pub destination: &'a [u8; 6],
    /// `EtherType`.
    pub ethertype: u32,
}

/// The IP header of a packet, read by the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledIp<'a> {
    /// Octets of the IP packet.
    pub length: u32,
    /// IP protocol.
    pub protocol: u32,
    /// Source address, 4 or 16 octets.
    pub source: &'a [u8],
    /// Destination address, 4 or 16 octets.
    pub destination: &'a [u8],
    /// Source port of TCP or UDP, or what is like it.
    pub source_port: u32,
    /// Destination port of TCP or UDP, or what is like it.
    pub destination_port: u32,
    /// TCP flags.
    pub tcp_flags: u32,
    /// Type of service, or priority of IPv6.
    pub tos: u32,
}

impl<'a> SampledIp<'a> {
    /// The header as the dissector has it. The TTL is not known.
    pub fn header(&self) -> Ip<'a> {
        Ip {
            octets: &[],
            header_octets: 0,
            source: self.source,
            destination: self.destination,
            protocol: self.protocol as u8,
            tos: self.tos as u8,
            ttl: 0,
            total_length: self.length,
            flow_label: 0,
            fragment: None,
        }
    }

    /// The ports, of protocols that have them.
    pub fn ports(&self) -> Option<(u16, u16)> {
        matches!(self.protocol, 6 | 17 | 33 | 132 | 136)
            .then_some((self.source_port as u16, self.destination_port as u16))
    }

    /// The flags, of TCP.
    pub fn tcp_flags(&self) -> Option<u16> {
        (self.protocol == 6).then_some(self.tcp_flags as u16)
    }
}

/// Routing of the destination by BGP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gateway<'a> {
    /// Address of the border router.
    pub next_hop: &'a [u8],
    /// Autonomous system of the router.
    pub router_as: u32,
    /// Autonomous system of the source.
    pub source_as: u32,
    /// Autonomous system that the source was learnt from.
    pub source_peer_as: u32,
    /// Number of segments of the path to the destination.
    pub segments: u32,
    /// First autonomous system of the path.
    pub first_as: Option<u32>,
    /// Last autonomous system of the path: the destination's.
    pub last_as: Option<u32>,
    /// BGP communities, 4 octets each.
    pub communities: &'a [u8],
    /// Local preference.
    pub local_preference: u32,
}

/// A local and a remote end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Socket<'a> {
    /// IP protocol.
    pub protocol: u32,
    /// Local address.
    pub local: &'a [u8],
    /// Remote address.
    pub remote: &'a [u8],
    /// Local port.
    pub local_port: u32,
    /// Remote port.
    pub remote_port: u32,
}

/// Which end of a tunnel a record describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Headers that were on the packet when it came in, and were taken off.
    Ingress,
    /// Headers that the packet gets when it goes out.
    Egress,
}

/// A record of a flow sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowRecord<'a> {
    /// 1, `sampled_header`.
    Header(SampledHeader<'a>),
    /// 2, `sampled_ethernet`.
    Ethernet(SampledEthernet<'a>),
    /// 3 and 4, `sampled_ipv4` and `sampled_ipv6`.
    Ip(SampledIp<'a>),
    /// 1001, `extended_switch`: VLAN and priority on the way in and out.
    Switch {
        /// VLAN in.
        source_vlan: u32,
        /// Priority in.
        source_priority: u32,
        /// VLAN out.
        destination_vlan: u32,
        /// Priority out.
        destination_priority: u32,
    },
    /// 1002, `extended_router`.
    Router {
        /// Address of the next router.
        next_hop: &'a [u8],
        /// Prefix length of the source.
        source_mask: u32,
        /// Prefix length of the destination.
        destination_mask: u32,
    },
    /// 1003, `extended_gateway`.
    Gateway(Gateway<'a>),
    /// 1004, `extended_user`; the character sets are MIB numbers (RFC 2978).
    User {
        /// User at the source.
        source: &'a [u8],
        /// User at the destination.
        destination: &'a [u8],
    },
    /// 1005, `extended_url`.
    Url {
        /// 1 when the address is the source's, 2 when it is the destination's.
        direction: u32,
        /// Request target.
        url: &'a [u8],
        /// Host field.
        host: &'a [u8],
    },
    /// 1006, `extended_mpls`; label stack entries as RFC 3032 has them.
    Mpls {
        /// Address of the next hop.
        next_hop: &'a [u8],
        /// Labels in.
        input: &'a [u8],
        /// Labels out.
        output: &'a [u8],
    },
    /// 1007, `extended_nat`.
    Nat {
        /// Source address after translation.
        source: &'a [u8],
        /// Destination address after translation.
        destination: &'a [u8],
    },
    /// 1020, `extended_nat_port` ("sFlow Port NAT Structures").
    NatPorts {
        /// Source port after translation.
        source: u32,
        /// Destination port after translation.
        destination: u32,
    },
    /// 1008, `extended_mpls_tunnel`, and 1009, `extended_mpls_vc`: name, number, class of service.
    MplsPath {
        /// Name of the label switched path or the virtual circuit.
        name: &'a [u8],
        /// Its number.
        id: u32,
        /// Its class of service.
        class_of_service: u32,
    },
    /// 1010, `extended_mpls_FTN` (RFC 3814).
    MplsFtn {
        /// `mplsFTNDescr`.
        description: &'a [u8],
        /// `mplsFTNMask`.
        mask: u32,
    },
    /// 1011, `extended_mpls_LDP_FEC` (RFC 3815): prefix length.
    MplsLdpFec(u32),
    /// 1012, `extended_vlantunnel`: tags that were taken off, TPID and TCI of each, the outermost first.
    VlanTunnel(&'a [u8]),
    /// 1014 and 1015, `extended_80211_rx` and `extended_80211_tx` ("sFlow 802.11 Structures"), as far as both agree.
    Wireless {
        /// Name of the network.
        ssid: &'a [u8],
        /// Address of the access point.
        bssid: &'a [u8; 6],
    },
    /// 1021 and 1022 ("sFlow Tunnel Structures"): Ethernet header of a tunnel.
    EthernetTunnel(Side, SampledEthernet<'a>),
    /// 1023 to 1026 ("sFlow Tunnel Structures"): IP header of a tunnel.
    IpTunnel(Side, SampledIp<'a>),
    /// 1027 and 1028: where in the sampled header the packet in the tunnel begins.
    Decapsulate(Side, u32),
    /// 1029 and 1030: Virtual Network Identifier.
    Vni(Side, u32),
    /// 1036, `extended_egress_queue` ("sFlow Dropped Packet Notification Structures").
    EgressQueue(u32),
    /// 1037, `extended_acl`.
    Acl {
        /// Number of the list.
        number: u32,
        /// Name of the list.
        name: &'a [u8],
        /// 1 in, 2 out.
        direction: u32,
    },
    /// 1038, `extended_function`: where in the software the packet was discarded.
    Function(&'a [u8]),
    /// 2100 and 2101, `extended_socket_ipv4` and `extended_socket_ipv6` ("sFlow Host Structures").
    Socket(Socket<'a>),
    /// Anything else.
    Unknown,
}

impl<'a> Record<'a> {
    /// Reads the record of a flow sample.
    ///
    /// # Errors
    ///
    /// [`WireError::StructureTooShort`].
    #[inline]
    pub fn flow(&self) -> Result<FlowRecord<'a>, WireError> {
        let mut xdr = Xdr::new(self.body);
        read(self.format, &mut xdr).ok_or_else(|| self.too_short())
    }

    /// Whether the record of a counters sample has all that its structure has.
    ///
    /// # Errors
    ///
    /// [`WireError::StructureTooShort`].
    pub fn check_counters(&self) -> Result<(), WireError> {
        let short = counters::length(self.format).is_some_and(|length| self.body.len() < length);
        if short { Err(self.too_short()) } else { Ok(()) }
    }

    #[cold]
    pub(super) fn too_short(&self) -> WireError {
        WireError::StructureTooShort { format: self.format.0, octets: octets_of(self.body.len()) }
    }
}

fn read<'a>(format: Format, xdr: &mut Xdr<'a>) -> Option<FlowRecord<'a>> {
    Some(match format.0 {
        1 => FlowRecord::Header(SampledHeader {
            protocol: xdr.u32()?,
            frame_length: xdr.u32()?,
            stripped: xdr.u32()?,
            header: xdr.variable()?,
        }),
        2 => FlowRecord::Ethernet(ethernet(xdr)?),
        3 => FlowRecord::Ip(ip(xdr, 4)?),
        4 => FlowRecord::Ip(ip(xdr, 16)?),
        1001 => FlowRecord::Switch {
            source_vlan: xdr.u32()?,
            source_priority: xdr.u32()?,
            destination_vlan: xdr.u32()?,
            destination_priority: xdr.u32()?,
        },
        1002 => FlowRecord::Router { next_hop: xdr.address()?, source_mask: xdr.u32()?, destination_mask: xdr.u32()? },
        1003 => FlowRecord::Gateway(gateway(xdr)?),
        1021..=1030 => return read_tunnel(format, xdr),
        _ => return read_extended(format, xdr),
    })
}

fn read_tunnel<'a>(format: Format, xdr: &mut Xdr<'a>) -> Option<FlowRecord<'a>> {
    let side = if format.0 % 2 == 1 { Side::Egress } else { Side::Ingress };
    Some(match format.0 {
        1021 | 1022 => FlowRecord::EthernetTunnel(side, ethernet(xdr)?),
        1023 | 1024 => FlowRecord::IpTunnel(side, ip(xdr, 4)?),
        1025 | 1026 => FlowRecord::IpTunnel(side, ip(xdr, 16)?),
        1027 | 1028 => FlowRecord::Decapsulate(side, xdr.u32()?),
        _ => FlowRecord::Vni(side, xdr.u32()?),
    })
}

fn read_extended<'a>(format: Format, xdr: &mut Xdr<'a>) -> Option<FlowRecord<'a>> {
    Some(match format.0 {
        1004 => {
            xdr.u32()?;
            let source = xdr.variable()?;
            xdr.u32()?;
            FlowRecord::User { source, destination: xdr.variable()? }
        }
        1005 => FlowRecord::Url { direction: xdr.u32()?, url: xdr.variable()?, host: xdr.variable()? },
        1006 => FlowRecord::Mpls { next_hop: xdr.address()?, input: xdr.numbers()?, output: xdr.numbers()? },
        1007 => FlowRecord::Nat { source: xdr.address()?, destination: xdr.address()? },
        1008 | 1009 => FlowRecord::MplsPath { name: xdr.variable()?, id: xdr.u32()?, class_of_service: xdr.u32()? },
        1010 => FlowRecord::MplsFtn { description: xdr.variable()?, mask: xdr.u32()? },
        1011 => FlowRecord::MplsLdpFec(xdr.u32()?),
        1012 => FlowRecord::VlanTunnel(xdr.numbers()?),
        1014 | 1015 => FlowRecord::Wireless { ssid: xdr.variable()?, bssid: xdr.fixed()? },
        1020 => FlowRecord::NatPorts { source: xdr.u32()?, destination: xdr.u32()? },
        1036 => FlowRecord::EgressQueue(xdr.u32()?),
        1037 => FlowRecord::Acl { number: xdr.u32()?, name: xdr.variable()?, direction: xdr.u32()? },
        1038 => FlowRecord::Function(xdr.variable()?),
        2100 => FlowRecord::Socket(socket(xdr, 4)?),
        2101 => FlowRecord::Socket(socket(xdr, 16)?),
        _ => FlowRecord::Unknown,
    })
}

fn ethernet<'a>(xdr: &mut Xdr<'a>) -> Option<SampledEthernet<'a>> {
    Some(SampledEthernet { length: xdr.u32()?, source: xdr.fixed()?, destination: xdr.fixed()?, ethertype: xdr.u32()? })
}

fn ip<'a>(xdr: &mut Xdr<'a>, address: u32) -> Option<SampledIp<'a>> {
    Some(SampledIp {
        length: xdr.u32()?,
        protocol: xdr.u32()?,
        source: xdr.take(address)?,
        destination: xdr.take(address)?,
        source_port: xdr.u32()?,
        destination_port: xdr.u32()?,
        tcp_flags: xdr.u32()?,
        tos: xdr.u32()?,
    })
}

fn socket<'a>(xdr: &mut Xdr<'a>, address: u32) -> Option<Socket<'a>> {
    Some(Socket {
        protocol: xdr.u32()?,
        local: xdr.take(address)?,
        remote: xdr.take(address)?,
        local_port: xdr.u32()?,
        remote_port: xdr.u32()?,
    })
}

fn gateway<'a>(xdr: &mut Xdr<'a>) -> Option<Gateway<'a>> {
    let (next_hop, router_as) = (xdr.address()?, xdr.u32()?);
    let (source_as, source_peer_as, segments) = (xdr.u32()?, xdr.u32()?, xdr.u32()?);
    let (mut first_as, mut last_as) = (None, None);
    for _ in 0..segments {
        // 1 set, 2 sequence
        xdr.u32()?;
        let path = xdr.numbers()?.as_chunks::<4>().0;
        first_as = first_as.or(path.first().map(|number| u32::from_be_bytes(*number)));
        last_as = path.last().map(|number| u32::from_be_bytes(*number)).or(last_as);
    }
    let (communities, local_preference) = (xdr.numbers()?, xdr.u32()?);
    Some(Gateway {
        next_hop,
        router_as,
        source_as,
        source_peer_as,
        segments,
        first_as,
        last_as,
        communities,
        local_preference,
    })
}
