//! Quantiles of whole numbers, exact while there are few values and within 1/128 of the value after that.
//!
//! A quantile is the value at a rank, so it is one that occurred: of n values in ascending order the p-quantile is
//! number ⌈p n⌉. Up to [`EXACT_MAX`] values are kept as they are. Then they are counted in buckets that get wider with
//! the value, as in `HdrHistogram`: each power of two is cut into 64 buckets of the same width, so a bucket is found by
//! shifts, and its middle is less than 1/128 = 0.8 % away from every value in it. Values up to 127 have a bucket each.
//! What is kept depends on which values there were and not on their order.
//!
//! What speaks against it: a sketch with equal errors in the *rank* (t-digest, KLL) is smaller, but its answer depends
//! on order or on chance.

/// So many values are kept as they are.
pub(super) const EXACT_MAX: usize = 64;

/// Buckets of a power of two.
const PAGE: usize = 64;

/// Which share of the values is at or below, in billionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Quantile(u64);

const ONE: u64 = 1_000_000_000;

impl Quantile {
    /// Reads `0.99`, `99%` or `p99`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let trimmed = text.trim();
        let percent = trimmed.strip_prefix('p').or_else(|| trimmed.strip_suffix('%'));
        let (number, places) = percent.map_or((trimmed, 9), |number| (number.trim(), 7));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || fraction.len() > places || number.ends_with('.') {
            return None;
        }
        let digits = format!("{whole}{fraction:0<places$}");
        let is_number = digits.len() < 19 && digits.bytes().all(|digit| digit.is_ascii_digit());
        let billionths: u64 = if is_number { digits.parse().ok()? } else { return None };
        (billionths <= ONE).then_some(Self(billionths))
    }

    /// As the name of a column: `p99`, `p99_9`.
    pub(super) fn name(self) -> String {
        let (whole, fraction) = (self.0 / 10_000_000, self.0 % 10_000_000);
        let name = format!("p{whole}_{fraction:07}");
        name.trim_end_matches('0').trim_end_matches('_').to_owned()
    }

    /// The number of the value that it is, from 1.
    fn rank(self, count: u64) -> u64 {
        let rank = (u128::from(self.0) * u128::from(count)).div_ceil(u128::from(ONE));
        (rank as u64).clamp(1, count)
    }
}

/// Values, or how many there are of about the same size.
#[derive(Debug, Clone, Default)]
pub(super) struct Sketch {
    count: u64,
    exact: Vec<i64>,
    buckets: Option<Box<Buckets>>,
}

#[derive(Debug, Clone)]
struct Buckets {
    /// For each sign and power of two, the number of its page from 1; 0 when there is none yet.
    pages: [u8; 2 * PAGE],
    /// The pages, each of 64 counts.
    counts: Vec<u64>,
}

impl Sketch {
    #[inline]
    pub(super) fn add(&mut self, value: i64) {
        self.count += 1;
        match &mut self.buckets {
            Some(buckets) => buckets.add(value),
            None if self.exact.len() < EXACT_MAX => self.exact.push(value),
            None => self.add_to_new_buckets(value),
        }
    }

    #[cold]
    fn add_to_new_buckets(&mut self, value: i64) {
        let mut buckets = Box::new(Buckets { pages: [0; 2 * PAGE], counts: Vec::new() });
        for value in std::mem::take(&mut self.exact) {
            buckets.add(value);
        }
        buckets.add(value);
        self.buckets = Some(buckets);
    }

    /// Quantiles of the values, of which `min` and `max` are the smallest and the largest; nothing without values.
    pub(super) fn quantiles(&self, wanted: &[Quantile], min: i64, max: i64) -> Vec<Option<i64>> {
        if self.count == 0 {
            return vec![None; wanted.len()];
        }
        let mut sorted = self.exact.clone();
        sorted.sort_unstable();
        let at_rank = |rank: u64| match &self.buckets {
            None => sorted[rank as usize - 1],
            Some(_) if rank == 1 => min,
            Some(_) if rank == self.count => max,
            Some(buckets) => buckets.at_rank(rank).clamp(min, max),
        };
        wanted.iter().map(|quantile| Some(at_rank(quantile.rank(self.count)))).collect()
    }

    /// Octets of memory beside the structure itself.
    pub(super) fn octets(&self) -> usize {
        let buckets = self.buckets.as_ref().map_or(0, |buckets| size_of::<Buckets>() + buckets.counts.capacity() * 8);
        self.exact.capacity() * 8 + buckets
    }
}

impl Buckets {
    #[inline]
    fn add(&mut self, value: i64) {
        let magnitude = value.unsigned_abs();
        let shift = (magnitude | 64).ilog2() - 6;
        // page 0 is for values below 64, page 1 for those below 128, and so on
        let page = (shift + u32::from(magnitude >= 64)) as usize + if value < 0 { PAGE } else { 0 };
        let start = match self.pages[page] {
            0 => self.new_page(page),
            number => (usize::from(number) - 1) * PAGE,
        };
        self.counts[start + (magnitude >> shift) as usize % PAGE] += 1;
    }

    #[cold]
    fn new_page(&mut self, page: usize) -> usize {
        let start = self.counts.len();
        self.counts.resize(start + PAGE, 0);
        self.pages[page] = (self.counts.len() / PAGE) as u8;
        start
    }

    fn page(&self, page: usize) -> &[u64] {
        match self.pages[page] {
            0 => &[],
            number => &self.counts[(usize::from(number) - 1) * PAGE..][..PAGE],
        }
    }

    /// The middle of the bucket that holds the value of a rank, from 1.
    fn at_rank(&self, rank: u64) -> i64 {
        let mut before = 0;
        for page in (0..PAGE).rev() {
            for (place, count) in self.page(PAGE + page).iter().enumerate().rev() {
                before += count;
                if before >= rank {
                    return 0_i64.saturating_sub_unsigned(middle(page, place));
                }
            }
        }
        for page in 0..PAGE {
            for (place, count) in self.page(page).iter().enumerate() {
                before += count;
                if before >= rank {
                    return i64::try_from(middle(page, place)).unwrap_or(i64::MAX);
                }
            }
        }
        i64::MAX
    }
}

/// The middle of a bucket.
fn middle(page: usize, place: usize) -> u64 {
    match page {
        0 => place as u64,
        _ => ((PAGE + place) as u64) << (page - 1) | (1 << (page - 1)) >> 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sketch(values: &[i64]) -> Sketch {
        let mut sketch = Sketch::default();
        for value in values {
            sketch.add(*value);
        }
        sketch
    }

    /// By the definition: sort, count up to the rank. `p` is a fraction of whole numbers, so that nothing is rounded.
    fn exact(values: &[i64], (part, whole): (u64, u64)) -> i64 {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let rank = (part * values.len() as u64).div_ceil(whole).max(1);
        sorted[rank as usize - 1]
    }

    fn check(values: &[i64]) {
        let sketch = sketch(values);
        let (min, max) = (*values.iter().min().expect("values"), *values.iter().max().expect("values"));
        for (text, part) in
            [("0", 0), ("0.001", 1), ("p5", 50), ("0.5", 500), ("0.99", 990), ("99.9%", 999), ("1", 1000)]
        {
            let quantile = Quantile::parse(text).expect("a quantile");
            let found = sketch.quantiles(&[quantile], min, max)[0].expect("values");
            let exact = exact(values, (part, 1000));
            let bound = if values.len() <= EXACT_MAX { 0 } else { exact.unsigned_abs() / 128 };
            assert!(found.abs_diff(exact) <= bound, "{text} of {} values: {found}, not {exact}", values.len());
        }
    }

    #[test]
    fn texts_are_shares() {
        for (text, name) in [
            ("0.5", "p50"),
            ("50%", "p50"),
            ("p50", "p50"),
            ("0.999", "p99_9"),
            ("p99.99", "p99_99"),
            ("0", "p0"),
            ("0.001", "p0_1"),
            ("1", "p100"),
            ("100%", "p100"),
            ("0.1", "p10"),
            ("1%", "p1"),
            ("0.000000001", "p0_0000001"),
        ] {
            assert_eq!(Quantile::parse(text).map(Quantile::name).as_deref(), Some(name), "{text}");
        }
        for text in ["", "p", "%", "50", "1.1", "-0.5", "101%", "0.0000000001", ".5", "1.", "half", "1e-1", "p5%"] {
            assert_eq!(Quantile::parse(text), None, "{text}");
        }
    }

    #[test]
    fn ranks_are_not_rounded() {
        // 0.07 * 100 is 7.000000000000001 in floating point
        assert_eq!(Quantile::parse("0.07").expect("a quantile").rank(100), 7);
        assert_eq!(Quantile::parse("0.07").expect("a quantile").rank(101), 8);
        assert_eq!(Quantile::parse("0").expect("a quantile").rank(100), 1);
        assert_eq!(Quantile::parse("1").expect("a quantile").rank(u64::MAX), u64::MAX);
    }

    #[test]
    fn edges_of_buckets() {
        let mut values: Vec<i64> = (0..63).flat_map(|bits| [(1_i64 << bits) - 1, 1 << bits, (1 << bits) + 1]).collect();
        values.extend(values.clone().iter().map(|value| -value));
        values.extend([i64::MIN, i64::MIN + 1, i64::MAX, i64::MAX - 1, 0]);
        check(&values);
        for value in values {
            check(&[value; EXACT_MAX + 1]);
            check(&[value]);
        }
        let small: Vec<i64> = (-127..=127).collect();
        for (number, value) in small.iter().enumerate() {
            let billionths = (number as u64 + 1) * ONE / small.len() as u64;
            assert_eq!(sketch(&small).quantiles(&[Quantile(billionths)], -127, 127), [Some(*value)]);
        }
    }

    proptest! {
        #[test]
        fn few_and_many_values(values in prop::collection::vec(any::<i64>(), 1..300)) {
            check(&values);
        }

        #[test]
        fn values_of_all_sizes(values in prop::collection::vec((any::<i64>(), 0_u32..64), 60..400)) {
            check(&values.into_iter().map(|(value, bits)| value >> bits).collect::<Vec<_>>());
        }

        #[test]
        fn order_does_not_matter(mut values in prop::collection::vec(-100_000_i64..100_000, 60..200)) {
            let all: Vec<_> = (0..=100).map(|percent| Quantile(percent * ONE / 100)).collect();
            let before = sketch(&values).quantiles(&all, -100_000, 100_000);
            values.sort_unstable();
            prop_assert_eq!(before, sketch(&values).quantiles(&all, -100_000, 100_000));
        }
    }
}
