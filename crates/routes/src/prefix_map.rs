//! Values by prefix, collected and built into a table.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

use super::prefix_table::{PrefixMatch, PrefixTable};
use super::trie::{Key, Leaf, Prefix, VALUES_MAX};

/// Values of addresses, by the longest prefix that an address is in.
#[derive(Debug)]
pub struct PrefixMap<V> {
    prefixes: PrefixTable,
    values: Vec<V>,
}

impl<V> PrefixMap<V> {
    /// The value of an address. IPv4 in IPv6 (`::ffff:0:0/96`) is looked up as IPv4.
    #[inline]
    pub fn find(&self, address: IpAddr) -> Option<&V> {
        self.value(self.prefixes.find(address))
    }

    /// The value of an address of 4 or 16 octets; other lengths have none.
    #[inline]
    pub fn find_octets(&self, octets: &[u8]) -> Option<&V> {
        self.value(self.prefixes.find_octets(octets))
    }

    #[inline]
    fn value(&self, found: Option<PrefixMatch>) -> Option<&V> {
        self.values.get(found?.value)
    }

    /// The table of prefixes, and the values in the order of the numbers that it finds.
    pub fn into_parts(self) -> (PrefixTable, Vec<V>) {
        (self.prefixes, self.values)
    }

    /// Octets of memory that the map takes, without what values refer to.
    pub fn octets(&self) -> usize {
        self.prefixes.octets() + size_of_val(&self.values[..])
    }
}

/// More prefixes, or more different values, than a table can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more than {prefixes_max} prefixes or {VALUES_MAX} different values")]
pub struct TooManyPrefixes {
    /// Most prefixes.
    pub prefixes_max: usize,
}

/// Prefixes that become a [`PrefixMap`]. Of several equal prefixes the one that came last counts.
#[derive(Debug)]
pub struct PrefixMapBuilder<V> {
    pub(super) prefixes_max: usize,
    v4: Vec<Prefix<u32>>,
    v6: Vec<Prefix<u128>>,
    values: Vec<V>,
    known: HashMap<V, usize>,
    is_full: bool,
}

impl<V: Clone + Eq + Hash> PrefixMapBuilder<V> {
    /// An empty one, for at most this many prefixes.
    pub fn new(prefixes_max: usize) -> Self {
        let (v4, v6, values, known) = Default::default();
        Self { prefixes_max, v4, v6, values, known, is_full: false }
    }

    /// Adds a prefix; `false` when it is longer than its address. What is too much is an error of
    /// [`build`](Self::build).
    pub fn insert(&mut self, address: IpAddr, prefix_bits: u8, value: V) -> bool {
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        if prefix_bits > bits_max {
            return false;
        }
        if self.v4.len() + self.v6.len() >= self.prefixes_max {
            self.is_full = true;
            return true;
        }
        let Some(leaf) = Leaf::new(self.number(value), prefix_bits) else {
            self.is_full = true;
            return true;
        };
        match address {
            IpAddr::V4(address) => {
                let key = address.to_bits().masked(prefix_bits);
                self.v4.push(Prefix { key, bits: prefix_bits, leaf });
            }
            IpAddr::V6(address) => {
                let key = address.to_bits().masked(prefix_bits);
                self.v6.push(Prefix { key, bits: prefix_bits, leaf });
            }
        }
        true
    }

    fn number(&mut self, value: V) -> usize {
        if let Some(known) = self.known.get(&value) {
            return *known;
        }
        let number = self.values.len();
        self.values.push(value.clone());
        self.known.insert(value, number);
        number
    }

    /// The map.
    ///
    /// # Errors
    ///
    /// When there were more prefixes or values than it can have.
    pub fn build(self) -> Result<PrefixMap<V>, TooManyPrefixes> {
        if self.is_full {
            return Err(TooManyPrefixes { prefixes_max: self.prefixes_max });
        }
        let prefixes = PrefixTable::new(&settled(self.v4), &settled(self.v6));
        Ok(PrefixMap { prefixes, values: self.values })
    }
}

/// Prefixes in the order that the trie needs, the last of each.
fn settled<K: Key>(mut prefixes: Vec<Prefix<K>>) -> Vec<Prefix<K>> {
    // The sort is stable, so the last one that came is the first one from behind.
    prefixes.reverse();
    prefixes.sort_by_key(|prefix| (prefix.key, prefix.bits));
    prefixes.dedup_by_key(|prefix| (prefix.key, prefix.bits));
    prefixes
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    /// First octets as a number, bits, and a value; the octets of IPv4 are the highest ones of the number.
    type Given = (u128, u8, u32);

    /// The definition: of all prefixes that have the address in them the longest, and of equal ones the last.
    fn naive(prefixes: &[Given], address: u128) -> Option<u32> {
        let holds = |(first, bits, _): &&Given| {
            let behind = u128::MAX.checked_shr(u32::from(*bits)).unwrap_or(0);
            (address ^ first) & !behind == 0
        };
        prefixes.iter().filter(holds).max_by_key(|(_, bits, _)| *bits).map(|(_, _, value)| *value)
    }

    /// Prefixes that are often in each other: their bits come from few patterns.
    fn prefixes(width: u8) -> impl Strategy<Value = Vec<Given>> {
        let pattern = prop_oneof![Just(0), Just(u128::MAX), Just(0x0a01 << 112), any::<u128>()];
        let prefix = (pattern, 0..=width, 0..5u32).prop_map(|(pattern, bits, value)| {
            let behind = u128::MAX.checked_shr(u32::from(bits)).unwrap_or(0);
            (pattern & !behind, bits, value)
        });
        proptest::collection::vec(prefix, 0..12)
    }

    /// Addresses at and next to the ends of prefixes, where mistakes would be.
    fn edges(prefixes: &[Given]) -> Vec<u128> {
        let ends = prefixes.iter().flat_map(|(first, bits, _)| {
            let last = first | u128::MAX.checked_shr(u32::from(*bits)).unwrap_or(0);
            let step = 1 << 96;
            [*first, last, first.wrapping_sub(1), last.wrapping_add(1), last.wrapping_add(step)]
        });
        ends.chain([0, u128::MAX]).collect()
    }

    proptest! {
        #[test]
        fn the_longest_prefix_is_found(v4 in prefixes(32), v6 in prefixes(128), others: Vec<u128>) {
            let mut builder = PrefixMapBuilder::new(100);
            for (first, bits, value) in &v4 {
                prop_assert!(builder.insert(Ipv4Addr::from((first >> 96) as u32).into(), *bits, *value));
            }
            for (first, bits, value) in &v6 {
                prop_assert!(builder.insert(std::net::Ipv6Addr::from(*first).into(), *bits, *value));
            }
            let map = builder.build().expect("a map");
            let find = |octets: &[u8]| map.find_octets(octets).copied();
            for address in edges(&v4).into_iter().chain(others.clone()) {
                let address = address >> 96 << 96;
                prop_assert_eq!(find(&((address >> 96) as u32).to_be_bytes()), naive(&v4, address));
                let mapped = 0xffff << 32 | address >> 96;
                prop_assert_eq!(find(&mapped.to_be_bytes()), naive(&v4, address));
            }
            for address in edges(&v6).into_iter().chain(others).filter(|address| address >> 32 != 0xffff) {
                prop_assert_eq!(find(&address.to_be_bytes()), naive(&v6, address));
            }
        }
    }

    #[test]
    fn other_lengths_have_no_value() {
        let mut builder = PrefixMapBuilder::new(2);
        for address in [IpAddr::from([0; 4]), IpAddr::from([0; 16])] {
            assert!(builder.insert(address, 0, 7));
        }
        let map = builder.build().expect("a map");
        assert_eq!([&[1, 2, 3, 4][..], &[0; 16]].map(|octets| map.find_octets(octets)), [Some(&7), Some(&7)]);
        assert_eq!([&[][..], &[1, 2, 3, 4, 5, 6]].map(|octets| map.find_octets(octets)), [None, None]);
    }
}
