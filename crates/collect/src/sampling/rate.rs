//! How many packets are selected of how many.

use weir_wire::value;

use crate::records::Records;

/// Packets selected, of packets observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    pub selected: u64,
    pub observed: u64,
}

impl Rate {
    /// `None` unless something is selected, of at least as much.
    pub(crate) fn new(selected: u64, observed: u64) -> Option<Self> {
        (selected > 0 && observed >= selected).then_some(Self { selected, observed })
    }

    /// One packet in this many, rounded; `None` beyond 32 bits.
    pub(crate) fn interval(self) -> Option<u32> {
        if self.selected == 1 {
            // as nearly all are; divisions are not free
            return u32::try_from(self.observed).ok();
        }
        let (whole, rest) = (self.observed / self.selected, self.observed % self.selected);
        let up = u64::from(rest >= self.selected - rest);
        u32::try_from(whole + up).ok()
    }

    /// What a field with a probability says in a record, see [`Rate::of_probability`].
    pub(crate) fn of_field(field: usize, records: Records<'_>, record: usize) -> Option<Self> {
        Self::of_probability(value::float64(records.octets_of(field, record))?)
    }

    /// A probability (`samplingProbability`), to a millionth; `None` unless it is more than 0, and 1 at most.
    pub(crate) fn of_probability(probability: f64) -> Option<Self> {
        const SELECTED: u64 = 1_000_000;
        let valid = probability > 0.0 && probability <= 1.0;
        Self::new(SELECTED, if valid { (SELECTED as f64 / probability).round() as u64 } else { 0 })
    }
}
