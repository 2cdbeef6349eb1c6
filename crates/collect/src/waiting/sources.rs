//! The sources of Data Sets that wait, by the octets that their sets cost: a binary heap whose entries can change.
//!
//! Every set that comes or goes changes what its source has, and the source that has most is asked for by each that comes when
//! there is no capacity left. Mostly few change places.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;

use super::chain::Chain;

/// The sets of a source.
#[derive(Debug)]
pub(super) struct SourceSets {
    pub(super) address: IpAddr,
    octets: usize,
    /// Running number of the oldest.
    oldest: u64,
    /// All of them, oldest first.
    pub(super) sets: Chain,
    /// Its place in the heap.
    at: usize,
}

impl SourceSets {
    /// The largest gives way; among equals the one whose oldest set is the oldest.
    fn rank(&self) -> (usize, Reverse<u64>, IpAddr) {
        (self.octets, Reverse(self.oldest), self.address)
    }
}

/// All sources that have sets. Each has a number while it has any.
#[derive(Debug, Default)]
pub(super) struct Sources {
    numbers: HashMap<IpAddr, u32, foldhash::fast::RandomState>,
    table: Vec<SourceSets>,
    /// Numbers in `table` that are free.
    free: Vec<u32>,
    /// Numbers of sources; none has more than the one at half its place.
    heap: Vec<u32>,
}

impl Sources {
    /// Adds a set with this running number to a source. Returns the source's number.
    pub(super) fn add(&mut self, address: IpAddr, octets: usize, number: u64) -> u32 {
        if let Some(&source) = self.numbers.get(&address) {
            self.table[source as usize].octets += octets;
            self.rise(source);
            return source;
        }
        let new = SourceSets { address, octets, oldest: number, sets: Chain::default(), at: self.heap.len() };
        let source = if let Some(source) = self.free.pop() {
            self.table[source as usize] = new;
            source
        } else {
            self.table.push(new);
            self.table.len() as u32 - 1
        };
        self.numbers.insert(address, source);
        self.heap.push(source);
        self.rise(source);
        source
    }

    /// Takes a set away from a source, whose oldest one has this running number now; `None` when it has none.
    pub(super) fn subtract(&mut self, source: u32, octets: usize, oldest: Option<u64>) {
        let of_source = &mut self.table[source as usize];
        of_source.octets -= octets;
        if let Some(oldest) = oldest {
            // one that was given back by the disk is older than those before it
            let rises = oldest < std::mem::replace(&mut of_source.oldest, oldest);
            if rises {
                self.rise(source);
            }
            self.sink(source);
            return;
        }
        let (address, at) = (of_source.address, of_source.at);
        self.numbers.remove(&address);
        self.free.push(source);
        self.heap.swap_remove(at);
        if let Some(&moved) = self.heap.get(at) {
            self.table[moved as usize].at = at;
            self.rise(moved);
            self.sink(moved);
        }
    }

    /// The one with this number.
    pub(super) fn get(&mut self, source: u32) -> &mut SourceSets {
        &mut self.table[source as usize]
    }

    /// The one that has most.
    pub(super) fn largest(&self) -> Option<&SourceSets> {
        self.heap.first().map(|source| &self.table[*source as usize])
    }

    fn rank_at(&self, at: usize) -> Option<(usize, Reverse<u64>, IpAddr)> {
        self.heap.get(at).map(|source| self.table[*source as usize].rank())
    }

    /// Moves a source towards the first as far as it belongs.
    fn rise(&mut self, source: u32) {
        let of_source = &self.table[source as usize];
        let (mut at, rank) = (of_source.at, of_source.rank());
        while at > 0 && self.rank_at((at - 1) / 2).is_some_and(|above| above < rank) {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    /// Moves a source towards the last as far as it belongs.
    fn sink(&mut self, source: u32) {
        let of_source = &self.table[source as usize];
        let (mut at, rank) = (of_source.at, of_source.rank());
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let below = if self.rank_at(right) > self.rank_at(left) { right } else { left };
            if self.rank_at(below).is_none_or(|below| below <= rank) {
                return;
            }
            self.swap(at, below);
            at = below;
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for at in [one, other] {
            self.table[self.heap[at] as usize].at = at;
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty() && self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_is_found_however_they_change() {
        let mut sources = Sources::default();
        let mut model: Vec<(usize, u64, u32)> = Vec::new();
        let mut chance = 1_u64;
        for round in 0..20_000_u64 {
            chance = chance.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let address = (chance >> 40) as u32 % 50;
            let octets = (chance >> 33) as usize % 100 + 1;
            match model.iter().position(|(.., known)| *known == address) {
                Some(at) if round % 3 > 0 => {
                    let source = sources.numbers[&IpAddr::from(address.to_be_bytes())];
                    let gone = octets.min(model[at].0);
                    model[at].0 -= gone;
                    model[at].1 = round;
                    let left = (model[at].0 > 0).then_some(round);
                    sources.subtract(source, gone, left);
                    model.retain(|(octets, ..)| *octets > 0);
                }
                Some(at) => {
                    model[at].0 += octets;
                    sources.add(address.to_be_bytes().into(), octets, round);
                }
                None => {
                    model.push((octets, round, address));
                    sources.add(address.to_be_bytes().into(), octets, round);
                }
            }
            let most = model.iter().max_by_key(|(octets, oldest, address)| (*octets, Reverse(*oldest), *address));
            let expected =
                most.map(|(octets, oldest, address)| (*octets, *oldest, IpAddr::from(address.to_be_bytes())));
            let found = sources.largest().map(|source| (source.octets, source.oldest, source.address));
            assert_eq!(found, expected, "in round {round}");
        }
    }
}
