//! Sets of tails: what a segment was made of, exactly.

use crate::position::TailNumber;

/// Tails as ranges, ascending, with a gap between any two.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct TailSet(Vec<(TailNumber, TailNumber)>);

impl TailSet {
    /// No tail at all.
    pub(crate) const EMPTY: Self = Self(Vec::new());

    /// All tails from `first` to `last`, both included.
    pub(crate) fn range(first: TailNumber, last: TailNumber) -> Self {
        Self(if first <= last { vec![(first, last)] } else { Vec::new() })
    }

    /// Ranges in any order, which may overlap; an empty range counts for nothing.
    pub(crate) fn of_ranges(ranges: impl IntoIterator<Item = (TailNumber, TailNumber)>) -> Self {
        let mut ranges: Vec<_> = ranges.into_iter().filter(|(first, last)| first <= last).collect();
        ranges.sort_unstable();
        let mut joined: Vec<(TailNumber, TailNumber)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match joined.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => joined.push((first, last)),
            }
        }
        Self(joined)
    }

    /// The tails of all sets together.
    pub(crate) fn union<'a>(sets: impl IntoIterator<Item = &'a Self>) -> Self {
        Self::of_ranges(sets.into_iter().flat_map(|set| set.0.iter().copied()))
    }

    /// Those tails that are not in the other one.
    pub(crate) fn without(&self, other: &Self) -> Self {
        let mut left = Vec::new();
        for &(first, last) in &self.0 {
            let mut at = first;
            for &(from, to) in other.0.iter().filter(|range| range.0 <= last && range.1 >= first) {
                if from > at {
                    left.push((at, from - 1));
                }
                at = to + 1;
            }
            left.push((at, last));
        }
        Self::of_ranges(left)
    }

    /// The ranges, ascending.
    pub(crate) fn ranges(&self) -> &[(TailNumber, TailNumber)] {
        &self.0
    }

    /// The smallest tail; 0 of an empty set.
    pub(crate) fn first(&self) -> TailNumber {
        self.0.first().map_or(0, |range| range.0)
    }

    /// The largest tail; 0 of an empty set.
    pub(crate) fn last(&self) -> TailNumber {
        self.0.last().map_or(0, |range| range.1)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(&self, tail: TailNumber) -> bool {
        let at = self.0.partition_point(|range| range.1 < tail);
        self.0.get(at).is_some_and(|range| range.0 <= tail)
    }

    /// Whether every tail of the other one is in this one.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        let is_within = |range: &(TailNumber, TailNumber)| {
            let at = self.0.partition_point(|own| own.1 < range.0);
            self.0.get(at).is_some_and(|own| own.0 <= range.0 && range.1 <= own.1)
        };
        other.0.iter().all(is_within)
    }

    /// Whether a tail is in both.
    pub(crate) fn intersects(&self, other: &Self) -> bool {
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            if a.0 <= b.1 && b.0 <= a.1 {
                return true;
            }
            if a.1 < b.1 {
                left.next()
            } else {
                right.next()
            };
        }
        false
    }

    pub(crate) fn insert(&mut self, tail: TailNumber) {
        *self = Self::of_ranges(self.0.iter().copied().chain([(tail, tail)]));
    }

    pub(crate) fn remove(&mut self, tail: TailNumber) {
        let without = self.0.iter().flat_map(|&(first, last)| {
            let is_in = first <= tail && tail <= last;
            let before = (is_in && first < tail).then(|| (first, tail - 1));
            let after = (is_in && tail < last).then(|| (tail + 1, last));
            [if is_in { before } else { Some((first, last)) }, after]
        });
        self.0 = without.flatten().collect();
    }

    /// The tails, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = TailNumber> + '_ {
        self.0.iter().flat_map(|&(first, last)| first..=last)
    }
}

/// `1-3,7`: the text in the metadata of a merged segment.
impl std::fmt::Display for TailSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (number, (first, last)) in self.0.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            if first == last { write!(f, "{comma}{first}")? } else { write!(f, "{comma}{first}-{last}")? }
        }
        Ok(())
    }
}

impl std::str::FromStr for TailSet {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Ok((first.parse()?, last.parse()?))
        };
        let parts = text.split(',').filter(|part| !part.is_empty());
        parts.map(range).collect::<Result<Vec<_>, _>>().map(Self::of_ranges)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set() -> impl Strategy<Value = BTreeSet<TailNumber>> {
        proptest::collection::btree_set(0u64..40, 0..20)
    }

    fn of(tails: &BTreeSet<TailNumber>) -> TailSet {
        TailSet::of_ranges(tails.iter().map(|tail| (*tail, *tail)))
    }

    proptest! {
        #[test]
        fn it_is_the_set_that_the_standard_library_has(a in set(), b in set(), tail in 0u64..41) {
            let (left, right) = (of(&a), of(&b));
            prop_assert_eq!(left.iter().collect::<BTreeSet<_>>(), a.clone());
            prop_assert_eq!(left.intersects(&right), !a.is_disjoint(&b));
            prop_assert_eq!(left.includes(&right), b.is_subset(&a));
            prop_assert_eq!(left.contains(tail), a.contains(&tail));
            prop_assert_eq!(TailSet::union([&left, &right]), of(&a.union(&b).copied().collect()));
            prop_assert_eq!(left.to_string().parse::<TailSet>(), Ok(left.clone()));
            let (mut more, mut fewer) = (left.clone(), left.clone());
            more.insert(tail);
            fewer.remove(tail);
            prop_assert_eq!(more, of(&a.iter().copied().chain([tail]).collect()));
            prop_assert_eq!(fewer, of(&a.iter().copied().filter(|other| *other != tail).collect()));
            prop_assert_eq!((left.first(), left.last()), (a.first().copied().unwrap_or(0), a.last().copied().unwrap_or(0)));
            prop_assert_eq!(left.is_empty(), a.is_empty());
            prop_assert_eq!(left.without(&right), of(&a.difference(&b).copied().collect()));
        }
    }
}
