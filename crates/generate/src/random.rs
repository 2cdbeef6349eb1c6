//! Random integers, and choices by weight.

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Random numbers whose sequence a seed determines for ever.
#[derive(Debug, Clone)]
pub(crate) struct Random(Xoshiro256PlusPlus);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    #[inline]
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Below `limit`; the bias is at most `limit` in 2^32.
    #[inline]
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        (((self.bits() >> 32) * u64::from(limit)) >> 32) as u32
    }

    /// True in `permille` of 1000 cases.
    #[inline]
    pub(crate) fn chance(&mut self, permille: u32) -> bool {
        self.below(1000) < permille
    }

    /// A number below 2^`octaves` - 1, where each power of two up is as likely as the one before: the steps of
    /// Zipf's law with exponent 1.
    #[inline]
    pub(crate) fn zipf(&mut self, octaves: u32) -> u32 {
        let octave = self.below(octaves);
        self.in_octave(octave) - 1
    }

    /// A number from 2^`octave` to 2^(`octave` + 1) - 1.
    #[inline]
    pub(crate) fn in_octave(&mut self, octave: u32) -> u32 {
        let first = 1 << octave;
        first | ((self.bits() >> 40) as u32 & (first - 1))
    }
}

/// Chooses among outcomes by their weights in constant time (Walker's alias method, in Vose's form).
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    /// For each outcome: how often of 2^32 it stands when its slot is hit, and which one does otherwise.
    slots: Vec<(u64, u16)>,
}

impl Choice {
    /// `weights` are at most 65536 and not all of them are 0.
    pub(crate) fn new(weights: &[u32]) -> Self {
        let total: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
        let count = weights.len() as u64;
        // In units where a full slot is `total`.
        let mut left: Vec<u64> = weights.iter().map(|&weight| u64::from(weight) * count).collect();
        let mut slots: Vec<_> = (0..weights.len()).map(|outcome| (1 << 32, outcome as u16)).collect();
        let (mut small, mut large): (Vec<_>, Vec<_>) = (0..weights.len()).partition(|&slot| left[slot] < total);
        while let (Some(&under), Some(&over)) = (small.last(), large.last()) {
            small.pop();
            let stands = (u128::from(left[under]) << 32) / u128::from(total);
            slots[under] = (stands as u64, over as u16);
            left[over] -= total - left[under];
            if left[over] < total {
                large.pop();
                small.push(over);
            }
        }
        Self { slots }
    }

    #[inline]
    pub(crate) fn pick(&self, random: &mut Random) -> usize {
        let bits = random.bits();
        let slot = (((bits >> 32) * self.slots.len() as u64) >> 32) as usize;
        let (stands, other) = self.slots[slot];
        if bits & 0xffff_ffff < stands { slot } else { usize::from(other) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        // First output of xoshiro256++ 1.0 seeded by SplitMix64 from 0, whose first four outputs are published:
        // rotl(s0 + s3, 23) + s0.
        let (s0, s3) = (0xe220_a839_7b1d_cdaf_u64, 0xf88b_b8a8_724c_81ec_u64);
        let expected = s0.wrapping_add(s3).rotate_left(23).wrapping_add(s0);
        assert_eq!(Random::new(0).bits(), expected);
    }

    #[test]
    fn choices_follow_their_weights() {
        let weights = [5000, 125, 0, 4875];
        let choice = Choice::new(&weights);
        let mut random = Random::new(1);
        let mut counts = [0_u32; 4];
        (0..1_000_000).for_each(|_| counts[choice.pick(&mut random)] += 1);
        for (count, weight) in counts.iter().zip(weights) {
            // Six standard deviations of a fair draw are below 3000.
            assert!(count.abs_diff(weight * 100) < 3000, "{counts:?}");
        }
        assert_eq!(counts[2], 0);
    }

    #[test]
    fn popular_ranks_are_as_likely_as_their_octave() {
        let mut random = Random::new(2);
        let mut firsts = 0;
        for _ in 0..100_000 {
            let rank = random.zipf(20);
            assert!(rank < (1 << 20) - 1);
            firsts += u32::from(rank == 0);
        }
        assert!(firsts.abs_diff(5000) < 500, "one in twenty: {firsts}");
    }
}
