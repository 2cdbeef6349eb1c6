//! How values are distributed.
//!
//! After Masson, Rim and Lee, "`DDSketch`: A fast and fully-mergeable quantile sketch with relative-error guarantees" (VLDB 2019):
//! values are counted in buckets whose bounds grow by a factor, so every quantile is within 1 % of the value. Zero has a bucket
//! of its own. Numbers of 64 bits have 2,219 buckets at most, so none is ever collapsed; those without a value take no room.

/// The stated error of a quantile, relative to it.
const ERROR: f64 = 0.01;
/// The factor between bounds of buckets.
const FACTOR: f64 = (1.0 + ERROR) / (1.0 - ERROR);
/// The last bucket: that of 2^64.
const LAST: u16 = 2_219;
/// The format, the first octet of a sketch.
const FORMAT: u8 = 1;

/// Counts of values in buckets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuantileSketch {
    /// Buckets that have values, and how many, ascending.
    buckets: Vec<(u16, u32)>,
}

impl QuantileSketch {
    /// Puts a value in.
    pub fn insert(&mut self, value: u64) {
        self.add(bucket(value), 1);
    }

    fn add(&mut self, bucket: u16, count: u32) {
        match self.buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(at) => self.buckets[at].1 = self.buckets[at].1.saturating_add(count),
            Err(at) => self.buckets.insert(at, (bucket, count)),
        }
    }

    /// Puts the values of another sketch in.
    pub fn merge(&mut self, other: &Self) {
        other.buckets.iter().for_each(|(bucket, count)| self.add(*bucket, *count));
    }

    /// How many values it has.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    /// The value that this share of the values is not above, within 1 % of it, when there are `zeros` more values of zero.
    /// `None` when there is no value.
    pub fn quantile(&self, share: f64, zeros: u64) -> Option<u64> {
        let count = self.count() + zeros;
        let last = count.checked_sub(1)?;
        let rank = ((share.clamp(0.0, 1.0) * count as f64).ceil() as u64).saturating_sub(1).min(last);
        let mut seen = zeros;
        for (bucket, count) in &self.buckets {
            if rank < seen {
                break;
            }
            seen += u64::from(*count);
            if rank < seen {
                return Some(middle(*bucket));
            }
        }
        Some(0)
    }

    /// Its octets.
    pub fn encode(&self) -> Box<[u8]> {
        let mut octets = vec![FORMAT];
        let mut before = 0;
        for (bucket, count) in &self.buckets {
            push_varint(u32::from(bucket - before), &mut octets);
            push_varint(*count, &mut octets);
            before = *bucket;
        }
        octets.into_boxed_slice()
    }

    /// The sketch of these octets; `None` when they are none.
    pub fn decode(octets: &[u8]) -> Option<Self> {
        let (&format, mut rest) = octets.split_first()?;
        (format == FORMAT).then_some(())?;
        let mut sketch = Self::default();
        let mut before = 0_u32;
        while !rest.is_empty() {
            let (step, count) = (take_varint(&mut rest)?, take_varint(&mut rest)?);
            before = before.checked_add(step).filter(|bucket| *bucket <= u32::from(LAST))?;
            sketch.add(before as u16, count);
        }
        Some(sketch)
    }
}

/// The bucket of a value.
fn bucket(value: u64) -> u16 {
    if value == 0 {
        return 0;
    }
    (((value as f64).ln() / FACTOR.ln()).ceil() as u16 + 1).min(LAST)
}

/// The value that is within the stated error of all values of a bucket.
fn middle(bucket: u16) -> u64 {
    match bucket {
        0 => 0,
        bucket => (2.0 * FACTOR.powi(i32::from(bucket) - 1) / (FACTOR + 1.0)).round() as u64,
    }
}

/// Seven bits an octet, the lowest first.
fn push_varint(mut value: u32, octets: &mut Vec<u8>) {
    while value >= 0x80 {
        octets.push(value as u8 | 0x80);
        value >>= 7;
    }
    octets.push(value as u8);
}

fn take_varint(octets: &mut &[u8]) -> Option<u32> {
    let mut value = 0;
    for shift in (0..35).step_by(7) {
        let (&octet, rest) = octets.split_first()?;
        *octets = rest;
        value |= u64::from(octet & 0x7f) << shift;
        if octet & 0x80 == 0 {
            return u32::try_from(value).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Values of any size, small ones and zero among them.
    fn value() -> impl Strategy<Value = u64> {
        (0_u32..65, any::<u64>()).prop_map(|(bits, value)| value.checked_shr(bits).unwrap_or(0))
    }

    /// What a sorted list says, by the same rank.
    fn exact(sorted: &[u64], share: f64) -> u64 {
        sorted[((share * sorted.len() as f64).ceil() as usize).saturating_sub(1).min(sorted.len() - 1)]
    }

    #[test]
    fn all_buckets_are_within_bounds() {
        assert_eq!((bucket(0), bucket(1), bucket(2), bucket(u64::MAX)), (0, 1, 36, LAST));
        assert_eq!(QuantileSketch::default().quantile(0.5, 0), None);
        assert_eq!(QuantileSketch::default().quantile(0.5, 3), Some(0));
    }

    proptest! {
        #[test]
        fn quantiles_are_within_the_stated_error_however_parts_were_merged(
            parts in prop::collection::vec(prop::collection::vec(value(), 0..80), 1..8),
            zeros in 0_usize..50,
            share in 0.0..=1.0,
        ) {
            let mut merged = QuantileSketch::default();
            for part in &parts {
                let mut sketch = QuantileSketch::default();
                for value in part {
                    sketch.insert(*value);
                }
                let again = QuantileSketch::decode(&sketch.encode());
                prop_assert_eq!(again.as_ref(), Some(&sketch));
                merged.merge(&sketch);
            }
            let mut sorted: Vec<u64> = parts.concat();
            sorted.extend(std::iter::repeat_n(0, zeros));
            sorted.sort_unstable();
            let found = merged.quantile(share, zeros as u64);
            prop_assert_eq!(found.is_some(), !sorted.is_empty());
            if let Some(found) = found {
                let wanted = exact(&sorted, share);
                let error = found.abs_diff(wanted) as f64;
                // and half for rounding
                prop_assert!(error <= wanted as f64 * ERROR * 1.000_001 + 0.5, "{} for {}", found, wanted);
            }
        }

        #[test]
        fn damage_is_no_panic(octets in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Some(sketch) = QuantileSketch::decode(&octets) {
                sketch.quantile(0.9, 0);
            }
        }
    }
}
