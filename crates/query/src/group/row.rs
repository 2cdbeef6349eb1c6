//! A key with what is counted for it.

use std::hash::Hash;

use super::sums::{Sums, add_saturating};
use crate::Sorting;

/// A key and what was counted for it: a line of the processor's cache for the sums of an IPv4 five-tuple.
#[derive(Debug, Clone)]
pub(crate) struct Row<K, S> {
    pub(crate) key: K,
    pub(crate) sums: S,
}

/// A key of a group.
pub(crate) trait Key: Eq + Hash + Ord + Clone + Send + Sync {
    /// Bytes that it takes besides those of its own size.
    fn heap_bytes(&self) -> usize;
}

impl Key for u128 {
    #[inline]
    fn heap_bytes(&self) -> usize {
        0
    }
}

impl Key for Box<[u8]> {
    /// Allocators round up, and some keep a number next to each allocation.
    #[inline]
    fn heap_bytes(&self) -> usize {
        self.len().next_multiple_of(16) + 16
    }
}

/// What is counted for a key.
pub(crate) trait GroupSums: Copy + Send + Sync {
    /// Adds what was counted elsewhere.
    fn add(&mut self, other: &Self);
    /// A number by which groups are sorted, the smallest first.
    fn rank(&self, sorting: Sorting) -> u64;
    /// Says that a sum of the group is larger than 64 bits hold.
    fn saturate(&mut self);
    /// Any of its numbers, so that it has been read.
    fn touch(&self) -> u64;
}

impl GroupSums for Sums {
    #[inline]
    fn add(&mut self, other: &Self) {
        self.join(other);
    }

    fn rank(&self, sorting: Sorting) -> u64 {
        self.rank_by(sorting)
    }

    fn saturate(&mut self) {
        Sums::saturate(self);
    }

    #[inline]
    fn touch(&self) -> u64 {
        self.flows ^ self.end as u64
    }
}

/// One counter alone: enough to know which groups come first.
impl GroupSums for u64 {
    #[inline]
    fn add(&mut self, other: &Self) {
        add_saturating(self, *other);
    }

    fn rank(&self, _sorting: Sorting) -> u64 {
        !*self
    }

    /// It is the largest number then.
    fn saturate(&mut self) {}

    #[inline]
    fn touch(&self) -> u64 {
        *self
    }
}
