//! Prefixes of both families, each with the number of a value.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::trie::{Leaf, Prefix, Span, Trie};

/// Below this many prefixes the table at the top of a trie is small, since it would take more memory than all the rest.
pub(super) const FEW_PREFIXES: usize = 4_096;
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
pub(super) fn is_global(key: u128) -> bool {
    key >> (u128::BITS - GLOBAL_BITS) == GLOBAL >> (u128::BITS - GLOBAL_BITS)
}

/// Numbers of values by prefix. The values are kept by the table's owner, such as
/// [`PrefixMap`](super::PrefixMap).
#[derive(Debug, Default)]
pub struct PrefixTable {
    pub(super) v4: Trie<u32>,
    /// Of `2000::/3`, which global unicast addresses come from (RFC 4291 section 2.4).
    pub(super) global: Trie<u128>,
    /// Of all other IPv6 addresses.
    pub(super) v6: Trie<u128>,
    prefixes: [usize; 2],
}

/// The longest prefix that an address is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixMatch {
    /// Number of its value.
    pub value: usize,
    /// Its bits.
    pub prefix_bits: u8,
}

impl PrefixTable {
    /// The table of prefixes, of which each is there once, in the order of their keys and then of their lengths.
    pub(super) fn new(v4: &[Prefix<u32>], v6: &[Prefix<u128>]) -> Self {
        use super::trie::Key;

        let span = |prefixes, many, few| if prefixes < FEW_PREFIXES { few } else { many };
        // those that all global addresses are in are in both
        let within = |prefix: &Prefix<u128>| u32::from(prefix.bits) > GLOBAL_BITS && is_global(prefix.key);
        let around =
            |prefix: &Prefix<u128>| u32::from(prefix.bits) <= GLOBAL_BITS && GLOBAL.masked(prefix.bits) == prefix.key;
        let global: Vec<_> = v6.iter().filter(|prefix| within(prefix) || around(prefix)).copied().collect();
        let others: Vec<_> = v6.iter().filter(|prefix| !within(prefix)).copied().collect();
        Self {
            v4: Trie::build(span(v4.len(), TOP_V4, TOP_FEW), v4),
            global: Trie::build(span(global.len(), TOP_GLOBAL, TOP_GLOBAL_FEW), &global),
            v6: Trie::build(TOP_FEW, &others),
            prefixes: [v4.len(), v6.len()],
        }
    }

    /// Finds the longest prefix that an address is in. IPv4 in IPv6 (`::ffff:0:0/96`) is looked up as IPv4.
    #[inline]
    pub fn find(&self, address: IpAddr) -> Option<PrefixMatch> {
        match address.to_canonical() {
            IpAddr::V4(address) => self.leaf_v4(address).matched(),
            IpAddr::V6(address) => self.leaf_v6(address).matched(),
        }
    }

    /// As [`find`](Self::find), of an address of 4 or 16 octets; other lengths are in no prefix.
    #[inline]
    pub fn find_octets(&self, octets: &[u8]) -> Option<PrefixMatch> {
        if let Ok(v4) = <[u8; 4]>::try_from(octets) {
            return self.leaf_v4(Ipv4Addr::from(v4)).matched();
        }
        self.find(Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?).into())
    }

    #[inline]
    pub(super) fn leaf_v4(&self, address: Ipv4Addr) -> Leaf {
        self.v4.find(address.to_bits())
    }

    #[inline]
    pub(super) fn leaf_v6(&self, address: Ipv6Addr) -> Leaf {
        let key = address.to_bits();
        if is_global(key) { self.global.find(key) } else { self.v6.find(key) }
    }

    /// Prefixes of IPv4 and of IPv6.
    pub fn prefixes(&self) -> [usize; 2] {
        self.prefixes
    }

    /// Octets of memory that the table takes.
    pub fn octets(&self) -> usize {
        self.v4.octets() + self.global.octets() + self.v6.octets()
    }
}
