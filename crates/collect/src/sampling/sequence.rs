//! The Selectors of which a Selection Sequence consists, and the interval that they make up.

use std::cell::Cell;

/// Most Selectors of a Selection Sequence. A filter before a sampler and one after it are three; what has more than this
/// has no rate.
pub(crate) const SELECTORS_MAX: usize = 4;

/// The Selectors of a Selection Sequence, in the order in which packets pass them (RFC 5476 section 6.5.1). There are none
/// where they are more than [`SELECTORS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SequenceSelectors {
    numbers: [u64; SELECTORS_MAX],
    count: u8,
}

impl SequenceSelectors {
    /// Their numbers.
    pub(crate) fn numbers(&self) -> &[u64] {
        &self.numbers[..usize::from(self.count)]
    }

    /// The product of their intervals, since each selects from what the one before it has selected. There is none while
    /// one of them is not known, or beyond 32 bits.
    fn interval(&self, of_selector: impl Fn(u64) -> Option<u32>) -> Option<u32> {
        let (first, others) = self.numbers().split_first()?;
        others.iter().try_fold(of_selector(*first)?, |product, selector| product.checked_mul(of_selector(*selector)?))
    }
}

/// A Selection Sequence. Its interval is computed once after each change of what is known of Selectors: records of one
/// octet may name another sequence each, and there are several Selectors to look up for each of them.
#[derive(Debug, Clone)]
pub(super) struct SelectionSequence {
    selectors: SequenceSelectors,
    /// The interval, and the generation of what is known of Selectors that it was computed from.
    computed: Cell<Option<(u64, Option<u32>)>>,
}

impl SelectionSequence {
    pub(super) fn new(selectors: SequenceSelectors) -> Self {
        Self { selectors, computed: Cell::new(None) }
    }

    pub(super) fn selectors(&self) -> SequenceSelectors {
        self.selectors
    }

    /// Its interval, by those of its Selectors. What `of_selector` says has to be the same as long as the generation is.
    pub(super) fn interval(&self, generation: u64, of_selector: impl Fn(u64) -> Option<u32>) -> Option<u32> {
        match self.computed.get() {
            Some((of_generation, interval)) if of_generation == generation => interval,
            _ => {
                let interval = self.selectors.interval(of_selector);
                self.computed.set(Some((generation, interval)));
                interval
            }
        }
    }
}

impl FromIterator<u64> for SequenceSelectors {
    fn from_iter<I: IntoIterator<Item = u64>>(selectors: I) -> Self {
        let mut found = Self::default();
        for selector in selectors {
            let Some(place) = found.numbers.get_mut(usize::from(found.count)) else { return Self::default() };
            *place = selector;
            found.count += 1;
        }
        found
    }
}
