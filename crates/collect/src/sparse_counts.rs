//! Counts of which most are zero.
//!
//! Between two lines of the books an Observation Domain uses a handful of counters. A sender that invents domains causes one
//! line per message, and clearing and copying a slot for every counter was most of its cost. So the first counters are kept
//! one by one. What speaks against it: each count searches them, which reads a few octets.

use weir_flow::Counter;

/// Every counter of the books.
pub(crate) type Counts = [u64; Counter::COUNT];

/// Most counters that are kept one by one; with more of them, every counter has a slot.
const FEW: usize = 12;

/// What was counted since it was last taken.
#[derive(Debug)]
pub(crate) struct SparseCounts {
    /// What the first `length` of `few` count.
    counters: [Counter; FEW],
    few: [u64; FEW],
    length: usize,
    /// Every counter, once there are more than a few.
    all: Option<Box<Counts>>,
}

impl Default for SparseCounts {
    fn default() -> Self {
        Self { counters: [Counter::Datagrams; FEW], few: [0; FEW], length: 0, all: None }
    }
}

impl SparseCounts {
    /// Octets that it has elsewhere, at most, with what an allocation costs.
    pub(crate) const ELSEWHERE_OCTETS: usize = size_of::<Counts>() + 16;

    /// Whether nothing was counted.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Counts from zero again.
    #[inline]
    pub(crate) fn clear(&mut self) {
        (self.length, self.all) = (0, None);
    }

    /// Counts something. Nothing is counted by 0.
    #[inline]
    pub(crate) fn add(&mut self, counter: Counter, by: u64) {
        if by == 0 {
            return;
        }
        if let Some(all) = &mut self.all {
            all[counter as usize] += by;
            return;
        }
        match self.counters[..self.length].iter().position(|known| *known == counter) {
            Some(at) => self.few[at] += by,
            None => self.add_another(counter, by),
        }
    }

    fn add_another(&mut self, counter: Counter, by: u64) {
        if self.length < FEW {
            (self.counters[self.length], self.few[self.length]) = (counter, by);
            self.length += 1;
            return;
        }
        let mut all = Box::new([0; Counter::COUNT]);
        for (counter, count) in self.iter() {
            all[counter as usize] = count;
        }
        all[counter as usize] = by;
        self.all = Some(all);
    }

    /// What was counted, each counter once.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Counter, u64)> + '_ {
        let few = if self.all.is_some() { 0 } else { self.length };
        let few = self.counters.iter().copied().zip(self.few.iter().copied()).take(few);
        let all = self.all.iter().flat_map(|all| Counter::ALL.iter().copied().zip(all.iter().copied()));
        few.chain(all.filter(|(_, count)| *count > 0))
    }

    /// Adds what was counted to counts of all counters.
    pub(crate) fn add_to(&self, counts: &mut Counts) {
        for (counter, count) in self.iter() {
            counts[counter as usize] += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_counters_is_counted_and_only_many_take_memory_elsewhere() {
        for counters in [0, 1, FEW, FEW + 1, Counter::COUNT] {
            let mut sparse = SparseCounts::default();
            for round in 1..=3 {
                for &counter in Counter::ALL.iter().rev().take(counters) {
                    sparse.add(counter, round * (counter as u64 + 1));
                }
                sparse.add(Counter::ALL[0], 0);
            }
            let mut counted: Vec<_> = sparse.iter().map(|(counter, count)| (counter as usize, count)).collect();
            counted.sort_unstable();
            let expected: Vec<_> =
                (Counter::COUNT - counters..Counter::COUNT).map(|at| (at, 6 * (at as u64 + 1))).collect();
            assert_eq!(counted, expected);
            let mut totals = [1; Counter::COUNT];
            sparse.add_to(&mut totals);
            let has_all = sparse.all.is_some();
            assert_eq!(
                totals.iter().sum::<u64>(),
                Counter::COUNT as u64 + expected.iter().map(|(_, by)| by).sum::<u64>()
            );
            assert_eq!((sparse.is_empty(), has_all), (counters == 0, counters > FEW));
            sparse.clear();
            assert!(sparse.is_empty() && sparse.iter().next().is_none());
            sparse.add(Counter::ALL[1], 7);
            assert_eq!(sparse.iter().collect::<Vec<_>>(), [(Counter::ALL[1], 7)]);
        }
        assert!(size_of::<SparseCounts>() < size_of::<Counts>() / 4);
    }
}
