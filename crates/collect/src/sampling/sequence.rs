//! The Selectors of which a Selection Sequence consists.

/// Most Selectors of a Selection Sequence. A filter before a sampler and one after it are three; what has more than this
/// has no rate. Each of them is looked up for each record.
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
