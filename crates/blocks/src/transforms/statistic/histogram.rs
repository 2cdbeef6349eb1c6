//! How many values there are of about which size.
//!
//! A histogram of another shape than the row that it belongs to is handed on as text, `"0:12 64:3"`: rows have one schema,
//! and text is what reads best in a table and in CSV. What speaks against it is that a program must take it apart.

use std::fmt::Write as _;

/// How wide buckets are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Buckets {
    /// All of the same width; at most so many on either side of 0.
    Linear { width: u64, max: usize },
    /// 0, 1, 2 to 3, 4 to 7, 8 to 15, and so on.
    Log2,
}

/// Counts of values.
#[derive(Debug, Clone, Default)]
pub(super) struct Histogram {
    /// Buckets of values from 0 upwards.
    above: Vec<u64>,
    /// Buckets of negative values, from 0 downwards.
    below: Vec<u64>,
}

impl Histogram {
    #[inline]
    pub(super) fn add(&mut self, value: i64, buckets: Buckets) {
        let counts = if value < 0 { &mut self.below } else { &mut self.above };
        let bucket = match buckets {
            // the buckets of negative values are -width to -1, -2 width to -width - 1, and so on
            Buckets::Linear { width, max } => {
                let distance = if value < 0 { !value } else { value } as u64;
                usize::try_from(distance / width).map_or(max - 1, |bucket| bucket.min(max - 1))
            }
            Buckets::Log2 => 64 - value.unsigned_abs().leading_zeros() as usize,
        };
        if counts.len() <= bucket {
            counts.resize(bucket + 1, 0);
        }
        counts[bucket] += 1;
    }

    /// `value:count` of each bucket that is not empty, the lowest first.
    pub(super) fn text(&self, buckets: Buckets) -> String {
        let negative =
            self.below.iter().enumerate().rev().map(|(bucket, count)| (negative_edge(bucket, buckets), count));
        let positive = self.above.iter().enumerate().map(|(bucket, count)| (positive_edge(bucket, buckets), count));
        let mut text = String::new();
        for (edge, count) in negative.chain(positive).filter(|(_, count)| **count > 0) {
            let separator = if text.is_empty() { "" } else { " " };
            // writing to a text does not fail
            let _ = write!(text, "{separator}{edge}:{count}");
        }
        text
    }

    /// Octets of memory beside the structure itself.
    pub(super) fn octets(&self) -> usize {
        (self.above.capacity() + self.below.capacity()) * 8
    }
}

/// The lowest value of a bucket.
fn positive_edge(bucket: usize, buckets: Buckets) -> i128 {
    match (buckets, bucket) {
        (Buckets::Linear { width, .. }, _) => bucket as i128 * i128::from(width),
        (Buckets::Log2, 0) => 0,
        (Buckets::Log2, _) => 1 << (bucket - 1),
    }
}

/// The lowest value of a bucket of negative values.
fn negative_edge(bucket: usize, buckets: Buckets) -> i128 {
    match buckets {
        Buckets::Linear { width, .. } => -(bucket as i128 + 1) * i128::from(width),
        Buckets::Log2 => 1 - (1 << bucket),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn text(values: &[i64], buckets: Buckets) -> String {
        let mut histogram = Histogram::default();
        for value in values {
            histogram.add(*value, buckets);
        }
        histogram.text(buckets)
    }

    #[test]
    fn buckets_are_named_by_their_lowest_value() {
        let linear = Buckets::Linear { width: 100, max: 1000 };
        assert_eq!(text(&[0, 99, 100, 250, 250], linear), "0:2 100:1 200:2");
        assert_eq!(text(&[-1, -100, -101, 0], linear), "-200:1 -100:2 0:1");
        assert_eq!(text(&[0, 1, 2, 3, 4, 7, 8, 1500], Buckets::Log2), "0:1 1:1 2:2 4:2 8:1 1024:1");
        assert_eq!(text(&[-1, -2, -3, -4, -7, -8], Buckets::Log2), "-15:1 -7:2 -3:2 -1:1");
        assert_eq!(text(&[i64::MIN], Buckets::Log2), "-18446744073709551615:1");
        assert_eq!(text(&[], Buckets::Log2), "");
    }

    #[test]
    fn the_outermost_buckets_are_open() {
        let buckets = Buckets::Linear { width: 10, max: 3 };
        assert_eq!(text(&[5, 29, 30, i64::MAX], buckets), "0:1 20:3");
        assert_eq!(text(&[-5, -21, -31, i64::MIN], buckets), "-30:3 -10:1");
    }

    proptest! {
        #[test]
        fn counts_are_those_of_a_map(values in prop::collection::vec(-5_000_i64..5_000, 1..200), width in 1_u64..600) {
            let mut linear = BTreeMap::<i64, u64>::new();
            let mut log2 = BTreeMap::<i64, u64>::new();
            for value in &values {
                *linear.entry(value.div_euclid(width as i64) * width as i64).or_default() += 1;
                // the largest power of two that is not larger, found by doubling
                let mut edge = i64::from(*value != 0);
                while edge != 0 && edge * 2 <= value.abs() {
                    edge *= 2;
                }
                *log2.entry(if *value < 0 { 1 - 2 * edge } else { edge }).or_default() += 1;
            }
            let told = |map: &BTreeMap<i64, u64>| {
                map.iter().map(|(edge, count)| format!("{edge}:{count}")).collect::<Vec<_>>().join(" ")
            };
            prop_assert_eq!(text(&values, Buckets::Linear { width, max: 5_001 }), told(&linear));
            prop_assert_eq!(text(&values, Buckets::Log2), told(&log2));
        }
    }
}
