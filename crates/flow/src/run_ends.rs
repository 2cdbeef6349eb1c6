//! Where values of different lengths end, one after the other in one place.

use arrow::buffer::{OffsetBuffer, ScalarBuffer};

/// The ends of values, with a zero before them, as Arrow has them: handing them out copies nothing.
#[derive(Debug)]
pub(crate) struct RunEnds(Vec<i32>);

impl Default for RunEnds {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl RunEnds {
    pub(crate) fn with_capacity(values: usize) -> Self {
        let mut ends = Vec::with_capacity(values + 1);
        ends.push(0);
        Self(ends)
    }

    /// How many values have ended.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len() - 1
    }

    /// Where the last value ends; 0 where there is none.
    #[inline]
    pub(crate) fn last(&self) -> i32 {
        self.0[self.0.len() - 1]
    }

    /// Where values end.
    pub(crate) fn as_slice(&self) -> &[i32] {
        &self.0[1..]
    }

    #[inline]
    pub(crate) fn push(&mut self, end: i32) {
        self.0.push(end);
    }

    #[inline]
    pub(crate) fn extend(&mut self, ends: impl Iterator<Item = i32>) {
        self.0.extend(ends);
    }

    pub(crate) fn reserve(&mut self, values: usize) {
        self.0.reserve(values);
    }

    /// Adds values without octets until there are so many.
    pub(crate) fn pad_to(&mut self, values: usize) {
        let last = self.last();
        self.0.resize((values + 1).max(self.0.len()), last);
    }

    pub(crate) fn finish(self) -> OffsetBuffer<i32> {
        OffsetBuffer::new(ScalarBuffer::from(fitted(self.0)))
    }
}

/// Gives back memory that values do not need, when that is at least half of it. Builders begin with room for as many rows as
/// come at high rates, and batches of a few rows may be kept for hours.
pub(crate) fn fitted<T>(mut values: Vec<T>) -> Vec<T> {
    if values.len() <= values.capacity() / 2 {
        values.shrink_to_fit();
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_follow_a_zero() {
        let mut ends = RunEnds::default();
        assert_eq!((ends.len(), ends.last()), (0, 0));
        ends.pad_to(2);
        ends.push(3);
        ends.extend([4, 9].into_iter());
        ends.pad_to(4);
        assert_eq!((ends.len(), ends.last(), ends.as_slice()), (5, 9, &[0, 0, 3, 4, 9][..]));
        assert_eq!(&ends.finish()[..], [0, 0, 0, 3, 4, 9]);
        assert_eq!(&RunEnds::with_capacity(8).finish()[..], [0]);
    }
}
