//! From hashes of keys to entries.
//!
//! Open addressing with linear steps: a place is 8 octets, half of a hash and the number of an entry, so that a line of
//! the processor's cache holds eight places, and growing needs no look at the entries. The upper bits of the hash say
//! where a key belongs; so a table that grows is read and written from front to back.

use super::pages::make_large;

/// Most entries that an index can distinguish.
pub(super) const ENTRIES_MAX: usize = u32::MAX as usize - 1;
const PLACES_MIN: usize = 1 << 10;
const EMPTY: u64 = 0;

#[derive(Debug)]
pub(super) struct Index {
    /// Hash in the upper half, number of the entry with 1 added in the lower.
    places: Vec<u64>,
    /// The upper half of a hash shifted by this is where its key belongs.
    shift: u32,
    taken: usize,
}

impl Index {
    pub(super) fn new() -> Self {
        Self { places: vec![EMPTY; PLACES_MIN], shift: 32 - PLACES_MIN.trailing_zeros(), taken: 0 }
    }

    /// Number of entries in it.
    pub(super) fn len(&self) -> usize {
        self.taken
    }

    pub(super) fn octets(&self) -> usize {
        self.places.len() * size_of::<u64>()
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        (hash >> 32 >> self.shift) as usize
    }

    #[inline]
    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    /// The entry that a key most likely has, for fetching it; a number that no entry has when there is none.
    #[inline]
    pub(super) fn guess(&self, hash: u64) -> u32 {
        let home = self.home(hash);
        let tag = hash >> 32;
        let first = self.places[home];
        if first >> 32 == tag || first == EMPTY {
            return (first as u32).wrapping_sub(1);
        }
        (self.places[self.after(home)] as u32).wrapping_sub(1)
    }

    /// The entry of a key, which `is_it` recognizes.
    #[inline]
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let tag = hash >> 32;
        let mut place = self.home(hash);
        loop {
            let found = self.places[place];
            if found == EMPTY {
                return None;
            }
            let slot = found as u32 - 1;
            if found >> 32 == tag && is_it(slot) {
                return Some(slot);
            }
            place = self.after(place);
        }
    }

    /// Adds an entry whose key is not in it.
    pub(super) fn insert(&mut self, hash: u64, slot: u32) {
        // three quarters at most, beyond which the steps become many
        if (self.taken + 1) * 4 > self.places.len() * 3 {
            self.grow();
        }
        self.put(hash >> 32 << 32 | u64::from(slot + 1));
        self.taken += 1;
    }

    fn put(&mut self, value: u64) {
        let mut place = self.home(value);
        while self.places[place] != EMPTY {
            place = self.after(place);
        }
        self.places[place] = value;
    }

    #[cold]
    fn grow(&mut self) {
        let mut places = vec![EMPTY; self.places.len() * 2];
        make_large(&mut places);
        let before = std::mem::replace(&mut self.places, places);
        self.shift -= 1;
        before.into_iter().filter(|&value| value != EMPTY).for_each(|value| self.put(value));
    }

    /// Takes an entry out, and moves those behind it up, so that no mark has to stay in its place.
    pub(super) fn remove(&mut self, hash: u64, slot: u32) {
        let value = hash >> 32 << 32 | u64::from(slot + 1);
        let mut hole = self.home(hash);
        while self.places[hole] != value {
            if self.places[hole] == EMPTY {
                return;
            }
            hole = self.after(hole);
        }
        let mask = self.places.len() - 1;
        let mut place = self.after(hole);
        while self.places[place] != EMPTY {
            // what belongs between the hole and its place stays
            let steps_from_home = place.wrapping_sub(self.home(self.places[place])) & mask;
            let steps_from_hole = place.wrapping_sub(hole) & mask;
            if steps_from_home >= steps_from_hole {
                self.places[hole] = self.places[place];
                hole = place;
            }
            place = self.after(place);
        }
        self.places[hole] = EMPTY;
        self.taken -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Hashes that collide a lot: few homes, at the end of the table as well.
    fn hash(number: u32) -> u64 {
        let home = u64::from(number % 7) * 0x2fff_ffff + 0xffff_fff0;
        (home & 0xffff_ffff) << 32 | u64::from(number)
    }

    #[test]
    fn it_holds_what_a_map_holds() {
        let (mut index, mut set) = (Index::new(), HashSet::new());
        let mut state = 1_u32;
        for _ in 0..20_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let key = (state >> 16) % 900;
            if set.remove(&key) {
                index.remove(hash(key), key);
            } else {
                set.insert(key);
                index.insert(hash(key), key);
            }
            assert_eq!(index.len(), set.len());
        }
        for key in 0..900 {
            assert_eq!(index.find(hash(key), |slot| slot == key), set.get(&key).copied());
        }
        index.remove(hash(5_000), 5_000);
        assert_eq!(index.len(), set.len(), "what is not there cannot be removed");
    }

    #[test]
    fn it_grows_and_finds_everything() {
        let mut index = Index::new();
        for number in 0..100_000_u32 {
            index.insert(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15), number);
        }
        for number in 0..100_000_u32 {
            let hash = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            assert_eq!(index.find(hash, |slot| slot == number), Some(number));
        }
        assert!(index.octets() <= 100_000 * 22);
    }
}
