//! Routes by prefix.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::prefix_map::PrefixMap;
use super::prefix_table::PrefixTable;
use super::trie::Leaf;

/// What a route says of the addresses in its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Attributes {
    /// Number of the autonomous system (RFC 6793), 0 when it is not known: the origin's or the neighbour's
    /// ([`AsChoice`](super::AsChoice)).
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

/// [`Attributes`] as a table keeps them: there are many systems and few ways to them, so the ways are kept apart from
/// the systems, and a look-up of the system alone touches little memory.
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
    pub(super) prefixes: PrefixTable,
    attributes: Vec<Stored>,
    hops: Vec<Hops>,
}

impl From<PrefixMap<Attributes>> for RouteTable {
    fn from(map: PrefixMap<Attributes>) -> Self {
        let (prefixes, attributes) = map.into_parts();
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
        Self { prefixes, attributes, hops }
    }
}

impl RouteTable {
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
        self.route(self.prefixes.leaf_v4(address))
    }

    /// The route of an IPv6 address.
    #[inline]
    pub fn find_v6(&self, address: Ipv6Addr) -> Option<Route> {
        self.route(self.prefixes.leaf_v6(address))
    }

    #[inline]
    pub(super) fn route(&self, leaf: Leaf) -> Option<Route> {
        let found = leaf.matched()?;
        let stored = self.attributes.get(found.value)?;
        let [next_hop, bgp_next_hop] = self.hops.get(stored.hops as usize).copied().unwrap_or_default();
        let attributes = Attributes { autonomous_system: stored.autonomous_system, next_hop, bgp_next_hop };
        Some(Route { prefix_bits: found.prefix_bits, attributes })
    }

    /// Prefixes of IPv4 and of IPv6.
    pub fn prefixes(&self) -> [usize; 2] {
        self.prefixes.prefixes()
    }

    /// Octets of memory that the table takes.
    pub fn octets(&self) -> usize {
        self.prefixes.octets() + self.attributes.len() * size_of::<Stored>() + self.hops.len() * size_of::<Hops>()
    }
}
