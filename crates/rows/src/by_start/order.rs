//! What is next to be handed on.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The place of something held in the order: by its start, then by its arrival. No two have the same arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    /// Milliseconds since the epoch.
    pub start: i64,
    /// Number of the row among all that came.
    pub arrival: u64,
    /// Where the component keeps it.
    pub slot: u32,
}

/// Places, of which the first can be taken. A place that has moved is added anew; what is left of the old one is told
/// from valid ones by whoever knows where things stand now.
#[derive(Debug, Default)]
pub struct StartOrder {
    /// Places that came in their order. Most do where rows were sorted before, and a heap would sift each of them.
    run: VecDeque<Place>,
    /// All others.
    heap: BinaryHeap<Reverse<Place>>,
}

impl StartOrder {
    /// Adds a place.
    #[inline]
    pub fn add(&mut self, place: Place) {
        if self.run.back().is_none_or(|last| *last < place) {
            self.run.push_back(place);
        } else {
            self.heap.push(Reverse(place));
        }
    }

    /// Takes the first place when it starts before `edge`, or whatever it is without one. `is_valid` tells whether
    /// something stands there now.
    pub fn take_first(&mut self, edge: Option<i64>, is_valid: impl Fn(Place) -> bool) -> Option<Place> {
        loop {
            let (in_run, in_heap) = (self.run.front(), self.heap.peek().map(|Reverse(place)| place));
            let is_in_run = in_heap.is_none() || in_run.is_some_and(|place| Some(place) < in_heap);
            let place = *if is_in_run { in_run } else { in_heap }?;
            if edge.is_some_and(|edge| place.start >= edge) {
                return None;
            }
            if is_in_run {
                self.run.pop_front();
            } else {
                self.heap.pop();
            }
            if is_valid(place) {
                return Some(place);
            }
        }
    }

    /// Octets of memory.
    pub fn octets(&self) -> usize {
        (self.run.capacity() + self.heap.capacity()) * size_of::<Place>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn places_come_in_order(steps in proptest::collection::vec((0..30i64, any::<bool>(), 0..40i64), 1..100)) {
            let mut order = StartOrder::default();
            let mut all: Vec<Place> = Vec::new();
            for (arrival, (start, takes, edge)) in steps.into_iter().enumerate() {
                let place = Place { start, arrival: arrival as u64, slot: arrival as u32 };
                order.add(place);
                all.push(place);
                all.sort();
                if takes {
                    // every third place has moved away
                    let is_valid = |place: Place| !place.slot.is_multiple_of(3);
                    let first = all.iter().position(|place| is_valid(*place) && place.start < edge);
                    let expected = first.map(|at| all[at]);
                    prop_assert_eq!(order.take_first(Some(edge), is_valid), expected);
                    all.retain(|place| Some(*place) != expected);
                }
            }
            let rest: Vec<Place> = std::iter::from_fn(|| order.take_first(None, |place| !place.slot.is_multiple_of(3))).collect();
            all.retain(|place| !place.slot.is_multiple_of(3));
            prop_assert_eq!(rest, all);
        }
    }
}
