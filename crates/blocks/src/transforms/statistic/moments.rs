//! Count, sum, mean, variance, smallest and largest of whole numbers.
//!
//! The sum and the sum of squares are kept exactly, in 128 and 192 bits, and become floating point only when they are
//! read. So neither the order of the values nor how they are cut into bursts shows in the last digit, and a variance
//! that is small beside the mean keeps its digits, for which others need Welford's method and a division per value.
//! What speaks against it is that the values must be whole numbers, as all measures of flows are.

/// Moments of values that have at most 64 bits and a sign.
#[derive(Debug, Clone, Default)]
pub(super) struct Moments {
    count: u64,
    sum: i128,
    /// Sum of the squares: the low 128 bits, and those above.
    squares: (u128, u64),
    min: i128,
    max: i128,
}

impl Moments {
    #[inline]
    pub(super) fn add(&mut self, value: i128) {
        let magnitude = value.unsigned_abs() as u64;
        let square = u128::from(magnitude) * u128::from(magnitude);
        let (low, carry) = self.squares.0.overflowing_add(square);
        self.squares = (low, self.squares.1 + u64::from(carry));
        self.sum += value;
        if self.count == 0 {
            (self.min, self.max) = (value, value);
        } else {
            self.min = self.min.min(value);
            self.max = self.max.max(value);
        }
        self.count += 1;
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn sum(&self) -> Option<i128> {
        (self.count > 0).then_some(self.sum)
    }

    pub(super) fn min(&self) -> Option<i128> {
        (self.count > 0).then_some(self.min)
    }

    pub(super) fn max(&self) -> Option<i128> {
        (self.count > 0).then_some(self.max)
    }

    /// The sum divided by the count, rounded three times.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Mean square of the distance from the mean: (n Σx² - (Σx)²) / n², exact up to the division.
    pub(super) fn variance(&self) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let squares = [self.squares.0 as u64, (self.squares.0 >> 64) as u64, self.squares.1];
        let sum = self.sum.unsigned_abs();
        let sum = [sum as u64, (sum >> 64) as u64];
        let excess = difference(product(&squares, &[self.count]), product(&sum, &sum));
        let excess = excess.iter().rev().fold(0.0, |number, limb| number * 18_446_744_073_709_551_616.0 + *limb as f64);
        let count = self.count as f64;
        Some(excess / count / count)
    }
}

/// Product of numbers of 64-bit limbs, the lowest first; it has at most 256 bits.
fn product(left: &[u64], right: &[u64]) -> [u64; 4] {
    let mut limbs = [0; 4];
    for (i, &factor) in left.iter().enumerate() {
        let mut carry = 0;
        for (j, limb) in limbs[i..].iter_mut().enumerate() {
            let partial = u128::from(factor) * u128::from(right.get(j).copied().unwrap_or(0));
            let partial = partial + u128::from(*limb) + u128::from(carry);
            (*limb, carry) = (partial as u64, (partial >> 64) as u64);
        }
    }
    limbs
}

/// The first number without the second, which is not larger.
fn difference(mut left: [u64; 4], right: [u64; 4]) -> [u64; 4] {
    let mut borrow = false;
    for (limb, taken) in left.iter_mut().zip(right) {
        let (without, first) = limb.overflowing_sub(taken);
        let (without, second) = without.overflowing_sub(u64::from(borrow));
        (*limb, borrow) = (without, first || second);
    }
    left
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn moments(values: &[i128]) -> Moments {
        let mut moments = Moments::default();
        for value in values {
            moments.add(*value);
        }
        moments
    }

    /// By the definition, in floating point: distances from the mean, squared, averaged.
    fn naive_variance(values: &[i128]) -> f64 {
        let mean = values.iter().map(|value| *value as f64).sum::<f64>() / values.len() as f64;
        values.iter().map(|value| (*value as f64 - mean).powi(2)).sum::<f64>() / values.len() as f64
    }

    #[test]
    fn variance_keeps_its_digits_beside_a_large_mean() {
        // the textbook formula in floating point gives 0 or a negative number here
        let far = u64::MAX as i128 - 3;
        let values = moments(&[far, far + 1, far + 2, far + 3]);
        assert_eq!(values.variance(), Some(1.25));
        assert_eq!(values.min(), Some(far));
        assert_eq!(moments(&[-far, far]).variance(), Some((far as f64).powi(2)));
        assert_eq!(moments(&[-far, far]).mean(), Some(0.0));
    }

    #[test]
    fn the_largest_sums_do_not_overflow() {
        let many = Moments {
            count: u64::MAX,
            sum: i128::from(u64::MAX) * i128::from(u64::MAX >> 1),
            ..moments(&[u64::MAX.into()])
        };
        assert!(many.variance().is_some());
        let values = moments(&[u64::MAX.into(); 1000]);
        assert_eq!((values.variance(), values.mean()), (Some(0.0), Some(u64::MAX as f64)));
    }

    #[test]
    fn without_values_nothing_is_known() {
        let none = Moments::default();
        assert_eq!((none.count(), none.sum(), none.min(), none.mean(), none.variance()), (0, None, None, None, None));
    }

    proptest! {
        #[test]
        fn they_agree_with_the_definitions(values in prop::collection::vec(-1_000_000_i64..1_000_000, 1..200)) {
            let values: Vec<i128> = values.into_iter().map(i128::from).collect();
            let found = moments(&values);
            prop_assert_eq!(found.sum(), Some(values.iter().sum::<i128>()));
            prop_assert_eq!((found.min(), found.max()), (values.iter().min().copied(), values.iter().max().copied()));
            let (variance, naive) = (found.variance().expect("values"), naive_variance(&values));
            prop_assert!((variance - naive).abs() <= 1e-12 * naive.max(1.0), "{variance} {naive}");
        }

        #[test]
        fn their_order_does_not_matter(mut values in prop::collection::vec(any::<i64>(), 1..50)) {
            let before = moments(&values.iter().copied().map(i128::from).collect::<Vec<_>>());
            values.sort_unstable();
            let after = moments(&values.iter().copied().map(i128::from).collect::<Vec<_>>());
            prop_assert_eq!(before.variance(), after.variance());
            prop_assert_eq!(before.mean(), after.mean());
        }
    }
}
