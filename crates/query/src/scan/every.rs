//! One of every so many things.

/// One of every `one_of` things, from number `first` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Every {
    one_of: usize,
    first: usize,
}

impl Every {
    /// Those of a row of things with this number, among other rows: where they begin is spread evenly over the rows, also over
    /// those that follow each other (multiples of the golden ratio), so that of rows shorter than `one_of` the same part is
    /// taken.
    pub(super) fn spread(one_of: usize, number: usize) -> Self {
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
        let part = (number as u64).wrapping_mul(GOLDEN).wrapping_add(1 << 63);
        Self { one_of, first: ((u128::from(part) * one_of as u128) >> 64) as usize }
    }

    pub(super) fn takes(self, number: usize) -> bool {
        number >= self.first && (number - self.first).is_multiple_of(self.one_of)
    }

    /// How many of so many are taken.
    pub(super) fn of(self, all: usize) -> usize {
        all.saturating_sub(self.first).div_ceil(self.one_of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_taken_as_it_says() {
        for (one_of, number, all) in [(1, 0, 5), (1, 7, 0), (3, 0, 10), (3, 1, 10), (7, 5, 3), (31, 2, 1000)] {
            let every = Every::spread(one_of, number);
            assert!(every.first < one_of);
            assert_eq!((0..all).filter(|number| every.takes(*number)).count(), every.of(all), "{every:?} of {all}");
        }
        assert_eq!((0..9).filter(|number| Every::spread(4, 0).takes(*number)).collect::<Vec<_>>(), [2, 6]);
    }

    #[test]
    fn of_short_rows_the_same_part_is_taken() {
        for (one_of, length) in [(31, 1), (31, 3), (10, 7), (4, 4)] {
            let taken: usize = (0..1000).map(|number| Every::spread(one_of, number).of(length)).sum();
            let expected = 1000 * length / one_of;
            assert!(taken.abs_diff(expected) <= 3, "{taken}, not {expected}: one of {one_of} in rows of {length}");
            // and of each part of the rows
            let taken: usize = (300..400).map(|number| Every::spread(one_of, number).of(length)).sum();
            assert!(taken.abs_diff(expected / 10) <= 3, "{taken}: one of {one_of} in rows of {length}");
        }
    }
}
