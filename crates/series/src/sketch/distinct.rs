//! How many distinct things there were.
//!
//! Up to 256 of them are kept as hashes of 32 bits, which counts them exactly but for two that have the same hash: one pair in
//! 2^32. More become the 1,024 registers of `HyperLogLog` (Flajolet et al. 2007), read by the estimator of Ertl ("New
//! cardinality estimation algorithms for `HyperLogLog` sketches", 2017, algorithm 6), which needs no correction of small
//! numbers. Its standard error is 1.04 / sqrt(1,024) = 3.3 %.

/// Hashes that are kept as they are.
const EXACT_MAX: usize = 256;
/// Bits of a hash that choose a register.
const INDEX_BITS: u32 = 10;
const REGISTERS: usize = 1 << INDEX_BITS;
/// Bits of a hash that are left for the rank.
const RANK_BITS: u32 = 32 - INDEX_BITS;
/// Formats, the first octet of a sketch.
const EXACT: u8 = 1;
const HYPERLOGLOG: u8 = 2;

/// A set of which the size is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DistinctSketch(Members);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Members {
    /// Ascending.
    Exact(Vec<u32>),
    Registers(Box<[u8; REGISTERS]>),
}

impl Default for DistinctSketch {
    fn default() -> Self {
        Self(Members::Exact(Vec::new()))
    }
}

impl DistinctSketch {
    /// The hash of a thing. It is part of what is stored and does not change.
    pub fn hash(octets: &[u8]) -> u32 {
        // odd numbers from the digits of pi; a product of 128 bits whose halves are folded mixes every bit
        let fold = |left: u64, right: u64| {
            let product = u128::from(left) * u128::from(right);
            product as u64 ^ (product >> 64) as u64
        };
        let mut hash = octets.len() as u64 ^ 0x243f_6a88_85a3_08d3;
        for chunk in octets.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            hash = fold(hash ^ 0xa409_3822_299f_31d1, u64::from_le_bytes(word) ^ 0x1319_8a2e_0370_7345);
        }
        let hash = fold(hash ^ 0x082e_fa98_ec4e_6c89, 0x4528_21e6_38d0_1377);
        (hash >> 32) as u32
    }

    /// A sketch of things with these hashes.
    pub fn of_hashes(mut hashes: Vec<u32>) -> Self {
        hashes.sort_unstable();
        hashes.dedup();
        if hashes.len() <= EXACT_MAX {
            return Self(Members::Exact(hashes));
        }
        let mut registers = Box::new([0; REGISTERS]);
        for hash in hashes {
            raise(&mut registers, hash);
        }
        Self(Members::Registers(registers))
    }

    /// Puts the things of another sketch in.
    pub fn merge(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (Members::Exact(own), Members::Exact(more)) => {
                let mut merged = std::mem::take(own);
                merged.extend_from_slice(more);
                *self = Self::of_hashes(merged);
            }
            (Members::Registers(own), Members::Exact(more)) => more.iter().for_each(|hash| raise(own, *hash)),
            (Members::Registers(own), Members::Registers(more)) => {
                own.iter_mut().zip(more.iter()).for_each(|(own, more)| *own = (*own).max(*more));
            }
            (Members::Exact(own), Members::Registers(more)) => {
                let mut registers = more.clone();
                for hash in own.iter() {
                    raise(&mut registers, *hash);
                }
                self.0 = Members::Registers(registers);
            }
        }
    }

    /// How many there are: exact up to 256, within 3.3 % (standard error) above.
    pub fn estimate(&self) -> u64 {
        match &self.0 {
            Members::Exact(hashes) => hashes.len() as u64,
            Members::Registers(registers) => estimate(registers).round() as u64,
        }
    }

    /// Its octets.
    pub fn encode(&self) -> Box<[u8]> {
        let mut octets = Vec::new();
        match &self.0 {
            Members::Exact(hashes) => {
                octets.push(EXACT);
                octets.extend(hashes.iter().flat_map(|hash| hash.to_le_bytes()));
            }
            Members::Registers(registers) => {
                octets.push(HYPERLOGLOG);
                octets.extend_from_slice(&registers[..]);
            }
        }
        octets.into_boxed_slice()
    }

    /// The sketch of these octets; `None` when they are none.
    pub fn decode(octets: &[u8]) -> Option<Self> {
        let (&format, rest) = octets.split_first()?;
        match format {
            EXACT if rest.len().is_multiple_of(4) && rest.len() <= 4 * EXACT_MAX => {
                let hash = |octets: &[u8]| u32::from_le_bytes([octets[0], octets[1], octets[2], octets[3]]);
                Some(Self::of_hashes(rest.chunks_exact(4).map(hash).collect()))
            }
            HYPERLOGLOG => {
                let registers: [u8; REGISTERS] = rest.try_into().ok()?;
                let is_rank = |rank: &u8| u32::from(*rank) <= RANK_BITS + 1;
                registers.iter().all(is_rank).then(|| Self(Members::Registers(Box::new(registers))))
            }
            _ => None,
        }
    }
}

/// Puts a hash into the registers: the first bits choose one, and it keeps the longest run of zeros after them, plus one.
fn raise(registers: &mut [u8; REGISTERS], hash: u32) {
    let register = &mut registers[(hash >> RANK_BITS) as usize];
    let rank = (hash << INDEX_BITS).leading_zeros().min(RANK_BITS) + 1;
    *register = (*register).max(rank as u8);
}

fn estimate(registers: &[u8; REGISTERS]) -> f64 {
    let mut counts = [0.0_f64; RANK_BITS as usize + 2];
    for &rank in registers {
        counts[usize::from(rank)] += 1.0;
    }
    let size = REGISTERS as f64;
    let mut sum = size * tau(1.0 - counts[RANK_BITS as usize + 1] / size);
    for count in counts[1..=RANK_BITS as usize].iter().rev() {
        sum = 0.5 * (sum + count);
    }
    sum += size * sigma(counts[0] / size);
    size * size / (2.0 * std::f64::consts::LN_2 * sum)
}

/// Ertl's sum for registers that are empty.
fn sigma(share: f64) -> f64 {
    if share >= 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut factor, mut sum) = (share, 1.0, share);
    loop {
        power *= power;
        let before = sum;
        sum += power * factor;
        factor += factor;
        if sum <= before {
            return sum;
        }
    }
}

/// Ertl's sum for registers that are full.
fn tau(share: f64) -> f64 {
    if share <= 0.0 || share >= 1.0 {
        return 0.0;
    }
    let (mut root, mut factor, mut sum) = (share, 1.0, 1.0 - share);
    loop {
        root = root.sqrt();
        let before = sum;
        factor *= 0.5;
        sum -= (1.0 - root).powi(2) * factor;
        if sum >= before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn of(numbers: impl Iterator<Item = u64>) -> DistinctSketch {
        DistinctSketch::of_hashes(numbers.map(|number| DistinctSketch::hash(&number.to_be_bytes())).collect())
    }

    #[test]
    fn few_are_counted_exactly_and_many_within_the_stated_error() {
        assert_eq!(DistinctSketch::default().estimate(), 0);
        assert_eq!(of(0..256).estimate(), 256);
        let mut worst: f64 = 0.0;
        let mut squares = 0.0;
        let sizes = [257_u64, 400, 1_000, 2_000, 3_000, 5_000, 20_000, 100_000, 1_000_000];
        for (round, size) in sizes.into_iter().enumerate() {
            for part in 0..4 {
                let first = (round as u64 * 4 + part) << 32;
                let error = of(first..first + size).estimate() as f64 / size as f64 - 1.0;
                worst = worst.max(error.abs());
                squares += error * error;
            }
        }
        // of 36 sketches none should be off by more than four standard errors, and they together not by more than stated
        let standard: f64 = (squares / (4.0 * sizes.len() as f64)).sqrt();
        assert!(worst < 4.0 * 0.033 && standard < 1.2 * 0.033, "worst {worst}, standard {standard}");
    }

    proptest! {
        #[test]
        fn merged_sketches_are_the_sketch_of_everything(
            parts in prop::collection::vec(prop::collection::vec(any::<u16>(), 0..400), 0..6),
        ) {
            let all: BTreeSet<u16> = parts.iter().flatten().copied().collect();
            let whole = of(all.iter().map(|number| u64::from(*number)));
            let mut merged = DistinctSketch::default();
            for part in parts {
                let sketch = of(part.into_iter().map(u64::from));
                let again = DistinctSketch::decode(&sketch.encode());
                prop_assert_eq!(again.as_ref(), Some(&sketch));
                merged.merge(&sketch);
            }
            prop_assert_eq!(&merged, &whole);
            if all.len() <= EXACT_MAX {
                prop_assert_eq!(merged.estimate(), all.len() as u64);
            }
        }

        #[test]
        fn damage_is_no_panic(octets in prop::collection::vec(any::<u8>(), 0..1_100)) {
            if let Some(sketch) = DistinctSketch::decode(&octets) {
                sketch.estimate();
            }
        }
    }
}
