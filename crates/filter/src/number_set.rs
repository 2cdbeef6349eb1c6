//! Sets of unsigned numbers.

/// A set of numbers as inclusive ranges, sorted, disjoint and not adjacent, so that equal sets are equal values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NumberSet(Vec<(u64, u64)>);

impl NumberSet {
    /// The union of inclusive ranges. A range that ends before it begins is empty.
    pub fn from_ranges(mut ranges: Vec<(u64, u64)>) -> Self {
        ranges.retain(|(first, last)| first <= last);
        ranges.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    /// The inclusive ranges: sorted, disjoint, not adjacent.
    pub fn ranges(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// Whether the number is in the set.
    pub fn contains(&self, number: u64) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= number);
        after > 0 && number <= self.0[after - 1].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_merge() {
        let set =
            NumberSet::from_ranges(vec![(5, 9), (1, 2), (3, 4), (20, 30), (25, 26), (9, 3), (u64::MAX, u64::MAX)]);
        assert_eq!(set.ranges(), [(1, 9), (20, 30), (u64::MAX, u64::MAX)]);
        assert!(!set.contains(0) && set.contains(1) && set.contains(9) && !set.contains(10));
        assert!(!set.contains(19) && set.contains(30) && !set.contains(31) && set.contains(u64::MAX));
        assert!(!NumberSet::default().contains(0));
    }
}
