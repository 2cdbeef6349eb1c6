//! Routes of addresses: the longest prefix that an address is in, and what a route says of it.
//!
//! A [`RouteTable`] is built once from dumps of routing tables, files of prefixes or address databases
//! ([`RouteTableBuilder`]), and then read by any number of threads. Lookups go through a trie of six bits a level whose
//! nodes are two words of bits ([`trie`]). What speaks against it is that a table is not changed but built anew, which takes
//! about a second; [`Routes`] puts the new one in the place of the old one while others look addresses up.

mod trie;

mod lookups;
pub use lookups::Lookups;
mod routes;
pub use routes::Routes;
mod columns;
pub(crate) use columns::RouteColumns;

mod builder;
pub use builder::{AsChoice, Defect, LoadReport, RouteTableBuilder, RoutingError};
mod database;
mod input;
mod mrt;
mod prefixes;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use trie::{Key, Prefix, Span, Trie};

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
pub struct Route {
    /// Bits of its prefix (sourceIPv4PrefixLength and its like).
    pub prefix_bits: u8,
    /// What it says.
    pub attributes: Attributes,
}

/// [`Attributes`] as a table keeps them: there are many systems and few ways to them, so the ways are told apart from the
/// systems, and a lookup that asks for the system alone touches little memory.
#[derive(Debug, Clone, Copy)]
struct Stored {
    autonomous_system: u32,
    /// Place among the hops.
    hops: u32,
}

/// Next hop, and next hop of BGP.
type Hops = [Option<IpAddr>; 2];

/// Routes by prefix.
#[derive(Debug, Default)]
pub struct RouteTable {
    v4: Trie<u32>,
    /// Of `2000::/3`, which global unicast addresses come from (RFC 4291 section 2.4).
    global: Trie<u128>,
    /// Of all other IPv6 addresses.
    v6: Trie<u128>,
    attributes: Vec<Stored>,
    hops: Vec<Hops>,
    prefixes: [usize; 2],
}

/// Below so many prefixes the table at the top of a trie is small, since it would take more memory than all the rest.
const FEW_PREFIXES: usize = 4_096;
/// Tops end where a level of nodes begins that ends with the length of most prefixes: 24 bits, and 48 of IPv6.
const TOP_V4: Span = Span { skipped: 0, count: 18 };
const TOP_GLOBAL: Span = Span { skipped: GLOBAL_BITS, count: 21 };
const TOP_FEW: Span = Span { skipped: 0, count: 12 };
const TOP_GLOBAL_FEW: Span = Span { skipped: GLOBAL_BITS, count: 9 };
/// `2000::/3`.
const GLOBAL: u128 = 1 << 125;
const GLOBAL_BITS: u32 = 3;

/// Whether an address is of `2000::/3`.
#[inline]
fn is_global(key: u128) -> bool {
    key >> (u128::BITS - GLOBAL_BITS) == GLOBAL >> (u128::BITS - GLOBAL_BITS)
}

impl RouteTable {
    /// The table of prefixes, of which each is there once, in the order of their keys and then of their lengths.
    fn new(v4: &[Prefix<u32>], v6: &[Prefix<u128>], attributes: &[Attributes]) -> Self {
        let span = |prefixes, many, few| if prefixes < FEW_PREFIXES { few } else { many };
        // those that all global addresses are in are in both
        let within = |prefix: &Prefix<u128>| u32::from(prefix.bits) > GLOBAL_BITS && is_global(prefix.key);
        let around =
            |prefix: &Prefix<u128>| u32::from(prefix.bits) <= GLOBAL_BITS && GLOBAL.masked(prefix.bits) == prefix.key;
        let global: Vec<_> = v6.iter().filter(|prefix| within(prefix) || around(prefix)).copied().collect();
        let others: Vec<_> = v6.iter().filter(|prefix| !within(prefix)).copied().collect();
        let mut known: HashMap<Hops, u32> = HashMap::new();
        let mut hops = Vec::new();
        let stored = attributes.iter().map(|attributes| {
            let both = [attributes.next_hop, attributes.bgp_next_hop];
            let place = *known.entry(both).or_insert_with(|| {
                hops.push(both);
                hops.len() as u32 - 1
            });
            Stored { autonomous_system: attributes.autonomous_system, hops: place }
        });
        let attributes = stored.collect();
        Self {
            v4: Trie::build(span(v4.len(), TOP_V4, TOP_FEW), v4),
            global: Trie::build(span(global.len(), TOP_GLOBAL, TOP_GLOBAL_FEW), &global),
            v6: Trie::build(TOP_FEW, &others),
            attributes,
            hops,
            prefixes: [v4.len(), v6.len()],
        }
    }

    /// The route of an address. IPv4 in IPv6 (`::ffff:0:0/96`) is looked up as IPv4.
    pub fn find(&self, address: IpAddr) -> Option<Route> {
        match address.to_canonical() {
            IpAddr::V4(address) => self.find_v4(address),
            IpAddr::V6(address) => self.find_v6(address),
        }
    }

    /// The route of an IPv4 address.
    #[inline]
    pub fn find_v4(&self, address: Ipv4Addr) -> Option<Route> {
        self.route(self.v4.find(address.to_bits()))
    }

    /// The route of an IPv6 address.
    #[inline]
    pub fn find_v6(&self, address: Ipv6Addr) -> Option<Route> {
        let key = address.to_bits();
        self.route(if is_global(key) { self.global.find(key) } else { self.v6.find(key) })
    }

    #[inline]
    fn route(&self, leaf: Leaf) -> Option<Route> {
        let stored = self.attributes.get(leaf.index()?)?;
        let [next_hop, bgp_next_hop] = self.hops.get(stored.hops as usize).copied().unwrap_or_default();
        let attributes = Attributes { autonomous_system: stored.autonomous_system, next_hop, bgp_next_hop };
        Some(Route { prefix_bits: leaf.prefix_bits(), attributes })
    }

    /// Prefixes of IPv4 and of IPv6.
    pub fn prefixes(&self) -> [usize; 2] {
        self.prefixes
    }

    /// Octets of memory that the table takes.
    pub fn octets(&self) -> usize {
        self.v4.octets()
            + self.global.octets()
            + self.v6.octets()
            + self.attributes.len() * size_of::<Stored>()
            + self.hops.len() * size_of::<Hops>()
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
