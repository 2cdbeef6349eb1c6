//! A flat hash table of numbers.
//!
//! The keys stay with the caller, in columns or wherever; the table holds for each key its number and 32 bits of its
//! hash. It is written here, and not taken from a library, for three reasons that were measured with 1.5 million flows:
//! it can be [touched](IdTable::touch) before it is asked, so that the memory of many rows is waited for at once; it
//! grows without reading a single key; and a key is compared only when 32 bits of its hash agree, of which a table of
//! octets has seven. What speaks against it is that it needs eight octets for a key where such a table needs five.

use std::hash::{BuildHasher, RandomState};

/// What makes hashes differ between processes.
#[derive(Debug, Clone, Copy)]
pub struct Seed {
    first: u64,
    second: u64,
}

impl Seed {
    /// A seed from the operating system's randomness.
    pub fn random() -> Self {
        let state = RandomState::new();
        Self { first: state.hash_one(1u64), second: state.hash_one(2u64) | 1 }
    }

    /// The hash of some words.
    #[inline]
    pub fn hash(self, words: &[u64]) -> u64 {
        let mut pairs = words.chunks_exact(2);
        let mut hash = self.first;
        for pair in &mut pairs {
            hash = fold(pair[0] ^ hash, pair[1] ^ self.second);
        }
        if let [last] = pairs.remainder() { fold(last ^ hash, self.second) } else { hash }
    }
}

/// Both halves of the product of two numbers, as foldhash and wyhash mix them.
#[inline]
fn fold(first: u64, second: u64) -> u64 {
    let product = u128::from(first) * u128::from(second);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Numbers, found by the hash of their keys.
#[derive(Debug, Clone)]
pub struct IdTable {
    /// For each slot the upper 32 bits of the hash, and the number plus one; 0 when it is empty. A number lies in the
    /// slot that the uppermost bits of its hash name, or in the next empty one.
    slots: Vec<u64>,
    /// The hash is shifted by this to get a slot.
    shift: u32,
    len: usize,
}

const SLOTS_BITS_MIN: u32 = 6;

#[inline]
fn tag(hash: u64) -> u64 {
    hash & 0xffff_ffff_0000_0000
}

impl Default for IdTable {
    fn default() -> Self {
        Self::new()
    }
}

impl IdTable {
    /// A table without numbers.
    pub fn new() -> Self {
        Self { slots: vec![0; 1 << SLOTS_BITS_MIN], shift: 64 - SLOTS_BITS_MIN, len: 0 }
    }

    /// How many numbers are in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when no number is in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Octets of memory.
    pub fn octets(&self) -> usize {
        self.slots.capacity() * size_of::<u64>()
    }

    /// Reads the place of a hash. Doing so for some ten hashes before they are looked up makes their memory come in
    /// parallel. The number there, if any, is most often the right one, and its key may be touched in turn.
    #[inline]
    pub fn touch(&self, hash: u64) -> Option<u32> {
        (self.slots[(hash >> self.shift) as usize] as u32).checked_sub(1)
    }

    /// The number of a key: `is_it` returns whether a number of the same hash has that key.
    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut at = (hash >> self.shift) as usize;
        loop {
            let slot = self.slots[at & mask];
            let id = (slot as u32).checked_sub(1)?;
            if tag(slot) == tag(hash) && is_it(id) {
                return Some(id);
            }
            at += 1;
        }
    }

    /// Adds a number whose key is not in the table.
    ///
    /// # Panics
    /// When the number is `u32::MAX`.
    #[inline]
    pub fn insert(&mut self, hash: u64, id: u32) {
        assert!(id < u32::MAX, "the largest number has no place in the table");
        if self.len + 1 > self.slots.len() / 8 * 5 {
            self.grow();
        }
        self.put(tag(hash) | u64::from(id + 1));
        self.len += 1;
    }

    #[inline]
    fn put(&mut self, slot: u64) {
        let mask = self.slots.len() - 1;
        let mut at = (slot >> self.shift) as usize;
        while self.slots[at & mask] != 0 {
            at += 1;
        }
        self.slots[at & mask] = slot;
    }

    #[cold]
    fn grow(&mut self) {
        let slots = self.slots.len() * 2;
        let before = std::mem::replace(&mut self.slots, vec![0; slots]);
        self.shift -= 1;
        before.into_iter().filter(|slot| *slot != 0).for_each(|slot| self.put(slot));
    }

    /// Removes a number that was added with this hash; nothing happens when it is not there.
    pub fn remove(&mut self, hash: u64, id: u32) {
        let mask = self.slots.len() - 1;
        let mut hole = (hash >> self.shift) as usize;
        loop {
            match self.slots[hole] {
                0 => return,
                slot if slot == tag(hash) | u64::from(id + 1) => break,
                _ => hole = (hole + 1) & mask,
            }
        }
        // What comes behind moves up, unless that would put it before its own place: so no search ends too early.
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot == 0 {
                break;
            }
            let home = (slot >> self.shift) as usize;
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = 0;
        self.len -= 1;
    }

    /// Removes all numbers and keeps the memory.
    pub fn clear(&mut self) {
        self.slots.fill(0);
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Hashes of few different places, so that numbers often lie beside their places and at the end of the table.
        #[test]
        fn it_finds_what_a_map_finds(steps in proptest::collection::vec((any::<bool>(), 0..40u64, 0..3u64), 0..400)) {
            let place = |key: u64, spread: u64| (key % 5 + 59 + spread) << 58 | key << 32;
            let mut map: HashMap<u64, u32> = HashMap::new();
            let mut table = IdTable::new();
            for (number, (adds, key, spread)) in steps.into_iter().enumerate() {
                let (key, hash) = (key * 3 + spread, place(key, spread));
                let number = number as u32;
                match map.get(&key).copied() {
                    None if adds => {
                        map.insert(key, number);
                        table.insert(hash, number);
                    }
                    Some(known) if !adds => {
                        map.remove(&key);
                        table.remove(hash, known);
                    }
                    _ => {}
                }
                prop_assert_eq!(table.len(), map.len());
                let hash_of = |key: u64| place(key / 3, key % 3);
                for (&key, &id) in &map {
                    prop_assert_eq!(table.find(hash_of(key), |found| found == id), Some(id));
                }
                for absent in (0..120).filter(|key| !map.contains_key(key)) {
                    let is_it = |id| map.get(&absent) == Some(&id);
                    prop_assert_eq!(table.find(hash_of(absent), is_it), None);
                }
            }
        }
    }

    #[test]
    fn it_grows_without_losing_a_number() {
        let seed = Seed::random();
        let mut table = IdTable::new();
        (0..100_000u32).for_each(|id| table.insert(seed.hash(&[u64::from(id)]), id));
        assert_eq!(table.len(), 100_000);
        for id in 0..100_000 {
            assert_eq!(table.find(seed.hash(&[u64::from(id)]), |found| found == id), Some(id));
        }
        (0..100_000u32).step_by(2).for_each(|id| table.remove(seed.hash(&[u64::from(id)]), id));
        for id in 0..100_000 {
            let found = table.find(seed.hash(&[u64::from(id)]), |found| found == id);
            assert_eq!(found, (id % 2 == 1).then_some(id));
        }
    }

    #[test]
    fn hashes_differ_in_any_word() {
        let seed = Seed::random();
        let hashes = [&[1, 2, 3][..], &[1, 2, 4], &[2, 1, 3], &[1, 2], &[1], &[0, 2, 3]].map(|words| seed.hash(words));
        for (at, hash) in hashes.iter().enumerate() {
            assert!(!hashes[..at].contains(hash), "two hashes of {hashes:?} are the same");
        }
    }
}
