//! Which packets are metered (RFC 5475: sampling and filtering techniques for packet selection).

use foldhash::fast::FixedState;
use std::hash::BuildHasher;

use crate::digest::Digest;

/// How packets are selected, one in `interval`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Selection {
    /// Every packet whose number is a multiple (systematic count-based, RFC 5475 section 5.1).
    CountBased,
    /// Each packet by chance (uniform probabilistic, RFC 5475 section 5.2.2.1); the same packets with the same seed.
    Random,
    /// All packets of some flows, by the hash of their keys (hash-based, RFC 5475 section 6.2).
    FlowHash,
}

impl Selection {
    /// `selectorAlgorithm` (element 304) of the selection.
    pub const fn algorithm(self) -> u16 {
        match self {
            Self::CountBased => 1,
            Self::Random => 4,
            Self::FlowHash => 8,
        }
    }
}

/// Selects packets. Which ones does not depend on the number of workers.
#[derive(Debug, Clone)]
pub struct Sampler {
    selection: Selection,
    interval: u32,
    hasher: FixedState,
    /// Hashes up to this are selected.
    most: u64,
}

impl Sampler {
    /// Selects one packet in `interval`, which is 1 or more.
    pub fn new(selection: Selection, interval: u32, seed: u64) -> Self {
        let interval = interval.max(1);
        // a seed of its own, since flows selected by the hash of the table would fill one part of it
        let hasher = FixedState::with_seed(seed ^ 0x5a17_e55e_1ec7_1045);
        Self { selection, interval, hasher, most: u64::MAX / u64::from(interval) }
    }

    /// How it selects, and one packet in how many.
    pub fn parameters(&self) -> (Selection, u32) {
        (self.selection, self.interval)
    }

    /// Whether a packet is selected that is not known yet but by its number, counted from 0.
    #[inline]
    pub(crate) fn takes_number(&self, number: u64) -> bool {
        match self.selection {
            Selection::CountBased => number.is_multiple_of(u64::from(self.interval)),
            Selection::Random => self.hasher.hash_one(number) <= self.most,
            Selection::FlowHash => true,
        }
    }

    /// Whether the flow of a packet is selected. Both directions of a biflow are, or neither.
    #[inline]
    pub(crate) fn takes_flow(&self, digest: &Digest) -> bool {
        self.takes_hash(digest.hash)
    }

    /// Whether a flow is selected whose key has this hash.
    #[inline]
    pub(crate) fn takes_hash(&self, hash: u64) -> bool {
        self.selection != Selection::FlowHash || self.hasher.hash_one(hash) <= self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_one_in_so_many_is_selected() {
        let count = |selection| {
            let sampler = Sampler::new(selection, 100, 1);
            (0..100_000).filter(|&number| sampler.takes_number(number)).count()
        };
        assert_eq!(count(Selection::CountBased), 1_000);
        assert!((800..1_200).contains(&count(Selection::Random)), "{}", count(Selection::Random));
        let all = Sampler::new(Selection::Random, 1, 1);
        assert!((0..1_000).all(|number| all.takes_number(number)));
    }
}
