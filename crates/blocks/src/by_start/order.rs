//! What is next to be handed on.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Where something that is held stands in the order: by its start, then by its arrival. No two have the same arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    /// Milliseconds since the epoch.
    pub start: i64,
    /// Number of the row among all that came.
    pub arrival: u64,
    /// Where the block keeps it.
    pub slot: u32,
}

/// Places, of which the first can be taken. A place that has moved is added anew; what is left of the old one is told
/// from valid ones by whoever knows where things stand now.
#[derive(Debug, Default)]
pub struct StartOrder {
    heap: BinaryHeap<Reverse<Place>>,
}

impl StartOrder {
    /// Adds a place.
    #[inline]
    pub fn add(&mut self, place: Place) {
        self.heap.push(Reverse(place));
    }

    /// Takes the first place when it starts before `edge`, or whatever it is without one. `is_valid` tells whether
    /// something stands there now.
    pub fn take_first(&mut self, edge: Option<i64>, is_valid: impl Fn(Place) -> bool) -> Option<Place> {
        loop {
            let Reverse(place) = *self.heap.peek()?;
            if edge.is_some_and(|edge| place.start >= edge) {
                return None;
            }
            self.heap.pop();
            if is_valid(place) {
                return Some(place);
            }
        }
    }

    /// Octets of memory.
    pub fn octets(&self) -> usize {
        self.heap.capacity() * size_of::<Place>()
    }
}
