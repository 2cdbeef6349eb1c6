//! Addresses as small numbers that order like the addresses.
//!
//! Most work on a segment asks of two addresses only whether they are the same and which comes first. A table of all
//! that occur, built once, lets the order of rows, the index and the rollups work with numbers of 32 bits, IPv4 and
//! IPv6 alike.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use arrow::array::{Array, ArrayRef, AsArray};

/// The number of a row without an address; it comes before all others.
pub(crate) const NO_HOST: u32 = 0;

/// Addresses while they are collected, numbered from 1 as they come.
#[derive(Debug)]
pub(crate) struct HostCollector {
    short: HashMap<u32, u32, Mixer>,
    long: HashMap<u128, u32, Mixer>,
    other: HashMap<Vec<u8>, u32>,
    count: u32,
}

/// The addresses of a segment: those of IPv4 first, then those of IPv6, each in their order.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Hosts {
    pub(crate) short: Vec<u32>,
    pub(crate) long: Vec<u128>,
    /// What has neither 4 octets nor 16, and is no address.
    pub(crate) other: Vec<Vec<u8>>,
}

impl HostCollector {
    pub(crate) fn new() -> Self {
        let (short, long) = (HashMap::with_hasher(Mixer::new()), HashMap::with_hasher(Mixer::new()));
        Self { short, long, other: HashMap::new(), count: NO_HOST }
    }

    /// Numbers of a column's values, handed to `put` in the order of rows.
    pub(crate) fn add(&mut self, values: &ArrayRef, mut put: impl FnMut(u32)) {
        let Some(values) = values.as_binary_opt::<i32>() else {
            return (0..values.len()).for_each(|_| put(NO_HOST));
        };
        for row in 0..values.len() {
            put(if values.is_null(row) { NO_HOST } else { self.number(values.value(row)) });
        }
    }

    #[inline]
    fn number(&mut self, octets: &[u8]) -> u32 {
        let next = self.count + 1;
        let number = if let Ok(short) = <[u8; 4]>::try_from(octets) {
            *self.short.entry(u32::from_be_bytes(short)).or_insert(next)
        } else if let Ok(long) = <[u8; 16]>::try_from(octets) {
            *self.long.entry(u128::from_be_bytes(long)).or_insert(next)
        } else if let Some(number) = self.other.get(octets) {
            *number
        } else {
            *self.other.entry(octets.to_vec()).or_insert(next)
        };
        self.count = self.count.max(number);
        number
    }

    /// The addresses in order, and for each number given so far the number that orders like its address.
    pub(crate) fn finish(self) -> (Hosts, Vec<u32>) {
        let mut ranks = vec![NO_HOST; self.count as usize + 1];
        let mut next = NO_HOST;
        let hosts = Hosts {
            short: in_order(self.short, &mut next, &mut ranks),
            long: in_order(self.long, &mut next, &mut ranks),
            other: in_order(self.other, &mut next, &mut ranks),
        };
        (hosts, ranks)
    }
}

/// Addresses in order; each gets the number after those before.
fn in_order<T: Ord, S>(numbers: HashMap<T, u32, S>, next: &mut u32, ranks: &mut [u32]) -> Vec<T> {
    let mut hosts: Vec<(T, u32)> = numbers.into_iter().collect();
    hosts.sort_unstable();
    let rank = |(host, number)| {
        *next += 1;
        ranks[number as usize] = *next;
        host
    };
    hosts.into_iter().map(rank).collect()
}

impl Hosts {
    /// For each number the number of its network: of the first 16 bits of IPv4, of the first 48 of IPv6, and one for
    /// all that is no address.
    pub(crate) fn networks(&self) -> Vec<u32> {
        let mut networks = Vec::with_capacity(self.numbers());
        networks.push(0);
        networks.extend(self.short.iter().map(|host| host >> 16));
        let prefix = |long: u128| long >> 80;
        let mut network = 1 << 16;
        for (at, host) in self.long.iter().enumerate() {
            let before = at.checked_sub(1).and_then(|before| self.long.get(before));
            network += u32::from(before.is_some_and(|before| prefix(*before) != prefix(*host)));
            networks.push(network);
        }
        networks.resize(self.numbers(), network + 1);
        networks
    }

    /// Smallest and largest address of each family among these numbers.
    pub(crate) fn ranges(&self, numbers: impl Iterator<Item = u32>) -> [Option<(u128, u128)>; 2] {
        let first_long = NO_HOST + 1 + self.short.len() as u32;
        let [mut short, mut long] = [(u32::MAX, NO_HOST); 2];
        for number in numbers.filter(|number| *number != NO_HOST) {
            let range = if number < first_long { &mut short } else { &mut long };
            *range = (range.0.min(number), range.1.max(number));
        }
        let of_short = |number: u32| self.short.get((number - NO_HOST - 1) as usize).map(|host| u128::from(*host));
        let of_long = |number: u32| self.long.get((number - first_long) as usize).copied();
        [
            (short.0 <= short.1).then(|| of_short(short.0).zip(of_short(short.1))).flatten(),
            (long.0 <= long.1).then(|| of_long(long.0).zip(of_long(long.1))).flatten(),
        ]
    }

    /// How many numbers there are, that of no address included.
    pub(crate) fn numbers(&self) -> usize {
        1 + self.short.len() + self.long.len() + self.other.len()
    }
}

/// Hashes of numbers: one multiplication, with a secret, because senders of flows choose addresses.
#[derive(Debug, Clone)]
pub(crate) struct Mixer {
    secret: u64,
}

impl Mixer {
    pub(crate) fn new() -> Self {
        Self { secret: RandomState::new().hash_one(0) }
    }
}

impl BuildHasher for Mixer {
    type Hasher = Mixed;

    fn build_hasher(&self) -> Mixed {
        Mixed { state: self.secret }
    }
}

#[derive(Debug)]
pub(crate) struct Mixed {
    state: u64,
}

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.state
    }

    fn write(&mut self, octets: &[u8]) {
        for octet in octets {
            self.write_u32((*octet).into());
        }
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u128(&mut self, number: u128) {
        self.write_u64((number >> 64) as u64);
        self.write_u64(number as u64);
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        // the golden ratio in 64 bits; both halves of the product together depend on all bits
        let product = u128::from(self.state ^ number) * 0x9e37_79b9_7f4a_7c15;
        self.state = (product as u64) ^ (product >> 64) as u64;
    }
}
