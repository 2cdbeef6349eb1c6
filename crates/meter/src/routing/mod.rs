//! Routes of addresses: the longest prefix that an address is in, and what a route says of it.
//!
//! A [`RouteTable`] is built once from dumps of routing tables, files of prefixes or address databases
//! ([`RouteTableBuilder`]), and then read by any number of threads. Lookups go through a trie of six bits a level whose
//! nodes are two words of bits ([`trie`]); a full table of the internet lies in the second-level cache for the most
//! part. What speaks against it is that a table is not changed but built anew, which takes about a second.

mod trie;

mod builder;
pub use builder::{AsChoice, Defect, LoadReport, RouteTableBuilder, RoutingError};
mod database;
mod input;
mod mrt;
mod prefixes;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use trie::Trie;

/// What a route says of the addresses in its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Attributes {
    /// Number of the autonomous system (RFC 6793), 0 when it is not known: the origin's or the neighbour's
    /// ([`AsChoice`]).
    pub autonomous_system: u32,
    /// Where packets are sent next (ipNextHopIPv4Address, ipNextHopIPv6Address).
    pub next_hop: Option<IpAddr>,
    /// The `NEXT_HOP` of BGP (RFC 4271 section 5.1.3; bgpNextHopIPv4Address, bgpNextHopIPv6Address).
    pub bgp_next_hop: Option<IpAddr>,
}

/// The route of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route<'a> {
    /// Bits of its prefix (sourceIPv4PrefixLength and its like).
    pub prefix_bits: u8,
    /// What it says.
    pub attributes: &'a Attributes,
}

/// Routes by prefix.
#[derive(Debug, Default)]
pub struct RouteTable {
    v4: Trie<u32>,
    v6: Trie<u128>,
    attributes: Vec<Attributes>,
    prefixes: [usize; 2],
}

impl RouteTable {
    /// The route of an address. IPv4 in IPv6 (`::ffff:0:0/96`) is looked up as IPv4.
    pub fn find(&self, address: IpAddr) -> Option<Route<'_>> {
        match address.to_canonical() {
            IpAddr::V4(address) => self.find_v4(address),
            IpAddr::V6(address) => self.find_v6(address),
        }
    }

    /// The route of an IPv4 address.
    #[inline]
    pub fn find_v4(&self, address: Ipv4Addr) -> Option<Route<'_>> {
        self.route(self.v4.find(address.to_bits()))
    }

    /// The route of an IPv6 address.
    #[inline]
    pub fn find_v6(&self, address: Ipv6Addr) -> Option<Route<'_>> {
        self.route(self.v6.find(address.to_bits()))
    }

    #[inline]
    fn route(&self, leaf: Leaf) -> Option<Route<'_>> {
        let attributes = self.attributes.get(leaf.index()?)?;
        Some(Route { prefix_bits: leaf.prefix_bits(), attributes })
    }

    /// Prefixes of IPv4 and of IPv6.
    pub fn prefixes(&self) -> [usize; 2] {
        self.prefixes
    }

    /// Octets of memory that the table takes.
    pub fn octets(&self) -> usize {
        self.v4.octets() + self.v6.octets() + self.attributes.len() * size_of::<Attributes>()
    }
}

/// Most different attributes of a table: a leaf has 23 bits for their number.
const ATTRIBUTES_MAX: usize = (1 << 23) - 1;

/// What is at the end of a path through a trie: the number of the attributes, from 1, and the bits of the prefix. 0 is
/// no route, and the highest bit is the trie's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Leaf(u32);

impl Leaf {
    const NONE: Self = Self(0);

    /// The leaf of attributes by their place in the table; `None` beyond [`ATTRIBUTES_MAX`].
    fn new(index: usize, prefix_bits: u8) -> Option<Self> {
        (index < ATTRIBUTES_MAX).then(|| Self((index as u32 + 1) << 8 | u32::from(prefix_bits)))
    }

    #[inline]
    fn index(self) -> Option<usize> {
        (self.0 >> 8).checked_sub(1).map(|index| index as usize)
    }

    #[inline]
    fn prefix_bits(self) -> u8 {
        self.0 as u8
    }
}

#[cfg(test)]
mod tests;
