//! A set of pages of one segment.

/// Some of the pages of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageSet {
    words: Vec<u64>,
    pages: usize,
}

impl PageSet {
    /// No page of `pages`.
    pub fn none(pages: usize) -> Self {
        Self { words: vec![0; pages.div_ceil(64)], pages }
    }

    /// Every page of `pages`.
    pub fn all(pages: usize) -> Self {
        let mut set = Self { words: vec![u64::MAX; pages.div_ceil(64)], pages };
        if let (Some(last), rest @ 1..) = (set.words.last_mut(), pages % 64) {
            *last = (1 << rest) - 1;
        }
        set
    }

    /// How many pages the segment has.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Adds a page; one that the segment does not have is left out.
    pub fn insert(&mut self, page: usize) {
        if page < self.pages
            && let Some(word) = self.words.get_mut(page / 64)
        {
            *word |= 1 << (page % 64);
        }
    }

    /// Whether a page is in the set.
    pub fn contains(&self, page: usize) -> bool {
        self.words.get(page / 64).is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    /// Keeps what is in both.
    pub fn and(&mut self, other: &Self) {
        for (at, word) in self.words.iter_mut().enumerate() {
            *word &= other.words.get(at).copied().unwrap_or(0);
        }
    }

    /// Adds what is in the other.
    pub fn or(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
    }

    /// Removes what is in the other.
    pub fn and_not(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= !other;
        }
    }

    /// How many pages are in the set.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether no page is in the set.
    pub fn is_none(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Whether every page is in the set.
    pub fn is_all(&self) -> bool {
        self.count() == self.pages
    }

    /// The pages in the set, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            std::iter::successors((word != 0).then_some(word), |word| {
                let rest = word & (word - 1);
                (rest != 0).then_some(rest)
            })
            .map(move |word| at * 64 + word.trailing_zeros() as usize)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set(pages: usize, of: &BTreeSet<usize>) -> PageSet {
        let mut set = PageSet::none(pages);
        for page in of {
            set.insert(*page);
        }
        set
    }

    proptest! {
        #[test]
        fn sets_are_sets(
            pages in 0usize..200,
            one in proptest::collection::btree_set(0usize..200, 0..60),
            other in proptest::collection::btree_set(0usize..200, 0..60),
        ) {
            let [one, other] = [one, other].map(|of| of.into_iter().filter(|page| *page < pages).collect());
            let (a, b) = (set(pages, &one), set(pages, &other));
            prop_assert_eq!(a.iter().collect::<BTreeSet<_>>(), one.clone());
            prop_assert_eq!((a.count(), a.is_none()), (one.len(), one.is_empty()));
            let combined = |combine: fn(&mut PageSet, &PageSet)| {
                let mut set = a.clone();
                combine(&mut set, &b);
                set.iter().collect::<BTreeSet<_>>()
            };
            prop_assert_eq!(combined(PageSet::and), &one & &other);
            prop_assert_eq!(combined(PageSet::or), &one | &other);
            prop_assert_eq!(combined(PageSet::and_not), &one - &other);
            prop_assert!(PageSet::all(pages).is_all());
            prop_assert_eq!(PageSet::all(pages).iter().collect::<Vec<_>>(), (0..pages).collect::<Vec<_>>());
        }
    }
}
