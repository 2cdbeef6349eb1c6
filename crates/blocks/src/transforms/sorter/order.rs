//! The order of rows by time.

/// Bits of a digit; the counters of one fit into the first level cache.
const DIGIT_BITS: u32 = 11;
/// More digits than this take longer than comparing.
const DIGITS_MAX: u32 = 3;
/// With fewer rows than this comparing is faster.
const RADIX_ROWS_MIN: usize = 200;

/// Sorts row numbers by time, rows of equal time by number. The memory is kept for the next time.
#[derive(Debug, Default)]
pub(super) struct Order {
    rows: Vec<u32>,
    other: Vec<u32>,
}

impl Order {
    /// The numbers of the rows of these times, oldest first.
    pub(super) fn of(&mut self, times: &[i64]) -> &[u32] {
        self.rows.clear();
        if times.is_sorted() {
            self.rows.extend(0..times.len() as u32);
            return &self.rows;
        }
        let (min, max) = times.iter().fold((i64::MAX, i64::MIN), |(min, max), &time| (min.min(time), max.max(time)));
        let range = max.wrapping_sub(min) as u64;
        let digits = (u64::BITS - range.leading_zeros()).div_ceil(DIGIT_BITS);
        if digits > DIGITS_MAX || times.len() < RADIX_ROWS_MIN {
            self.rows.extend(0..times.len() as u32);
            self.rows.sort_by_key(|&row| times[row as usize]);
            return &self.rows;
        }
        let digit = |row: u32, shift: u32| {
            (times[row as usize].wrapping_sub(min) as u64 >> shift) as usize & ((1 << DIGIT_BITS) - 1)
        };
        self.rows.resize(times.len(), 0);
        counting_sort(0..times.len() as u32, &mut self.rows, |row| digit(row, 0));
        for number in 1..digits {
            std::mem::swap(&mut self.rows, &mut self.other);
            self.rows.resize(times.len(), 0);
            counting_sort(self.other.iter().copied(), &mut self.rows, |row| digit(row, number * DIGIT_BITS));
        }
        &self.rows
    }
}

fn counting_sort(rows: impl Iterator<Item = u32> + Clone, into: &mut [u32], digit: impl Fn(u32) -> usize) {
    let mut places = [0u32; 1 << DIGIT_BITS];
    rows.clone().for_each(|row| places[digit(row)] += 1);
    let mut before = 0;
    for place in &mut places {
        before += std::mem::replace(place, before);
    }
    rows.for_each(|row| {
        let place = &mut places[digit(row)];
        into[*place as usize] = row;
        *place += 1;
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_are_sorted_by_time_and_number(
            range in prop_oneof![Just(1u64), Just(300), Just(5000), Just(1 << 22), Just(1 << 32), Just(u64::MAX)],
            start in prop_oneof![Just(i64::MIN), Just(-100), Just(1_700_000_000_000)],
            seeds in proptest::collection::vec(any::<u64>(), 0..600),
        ) {
            let times: Vec<i64> = seeds.iter().map(|seed| start.saturating_add_unsigned(seed % range)).collect();
            let mut expected: Vec<(i64, u32)> = times.iter().copied().zip(0..).collect();
            expected.sort_unstable();
            let mut order = Order::default();
            order.of(&[3, 2, 1]);
            let found: Vec<(i64, u32)> = order.of(&times).iter().map(|&row| (times[row as usize], row)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
