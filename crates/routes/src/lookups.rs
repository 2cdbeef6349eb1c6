//! Many addresses looked up together, which takes a fraction of the time of one by one.

use std::net::IpAddr;

use super::prefix_table::is_global;
use super::route_table::{Route, RouteTable};
use super::trie::Leaf;

/// Addresses to be looked up, and what was found. It is used again and again, so that nothing is allocated in the end.
#[derive(Debug, Default)]
pub struct Lookups {
    v4: TrieLookups<u32>,
    global: TrieLookups<u128>,
    v6: TrieLookups<u128>,
    found: Vec<Leaf>,
}

/// Addresses of one trie.
#[derive(Debug)]
struct TrieLookups<K> {
    keys: Vec<K>,
    /// Number of each among all addresses.
    numbers: Vec<u32>,
    leaves: Vec<Leaf>,
}

impl<K> Default for TrieLookups<K> {
    fn default() -> Self {
        Self { keys: Vec::new(), numbers: Vec::new(), leaves: Vec::new() }
    }
}

impl<K> TrieLookups<K> {
    fn clear(&mut self) {
        self.keys.clear();
        self.numbers.clear();
    }

    #[inline]
    fn push(&mut self, key: K, number: usize) {
        self.keys.push(key);
        self.numbers.push(number as u32);
    }

    /// Looks the addresses up, and puts what is found where it belongs.
    fn find(&mut self, find_all: impl FnOnce(&[K], &mut [Leaf]), found: &mut [Leaf]) {
        self.leaves.resize(self.keys.len(), Leaf::NONE);
        find_all(&self.keys, &mut self.leaves);
        if self.leaves.len() == found.len() {
            found.copy_from_slice(&self.leaves);
            return;
        }
        for (number, leaf) in self.numbers.iter().zip(&self.leaves) {
            found[*number as usize] = *leaf;
        }
    }
}

impl Lookups {
    /// Looks up addresses, in place of those before. IPv4 in IPv6 (`::ffff:0:0/96`) is IPv6 here, as it was in the packet.
    pub fn find(&mut self, table: &RouteTable, addresses: impl Iterator<Item = IpAddr>) {
        self.v4.clear();
        self.global.clear();
        self.v6.clear();
        let mut count = 0;
        for (number, address) in addresses.enumerate() {
            count = number + 1;
            match address {
                IpAddr::V4(address) => self.v4.push(address.to_bits(), number),
                IpAddr::V6(address) if is_global(address.to_bits()) => self.global.push(address.to_bits(), number),
                IpAddr::V6(address) => self.v6.push(address.to_bits(), number),
            }
        }
        self.found.clear();
        self.found.resize(count, Leaf::NONE);
        self.v4.find(|keys, leaves| table.prefixes.v4.find_all(keys, leaves), &mut self.found);
        self.global.find(|keys, leaves| table.prefixes.global.find_all(keys, leaves), &mut self.found);
        self.v6.find(|keys, leaves| table.prefixes.v6.find_all(keys, leaves), &mut self.found);
    }

    /// The routes of the addresses looked up last, in their order. `table` is the one that they were looked up in.
    pub fn routes<'t>(&'t self, table: &'t RouteTable) -> impl ExactSizeIterator<Item = Option<Route>> + 't {
        self.found.iter().map(|leaf| table.route(*leaf))
    }
}
