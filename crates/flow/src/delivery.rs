//! What a collector hands on.

use crate::{BooksBatch, FlowBatch};

/// Flows and the lines of the books that account for them. They are kept or lost together, so that the books
/// balance after a crash at any moment.
#[derive(Debug, Clone, Default)]
pub struct Delivery {
    /// Flows, when there are any.
    pub flows: Option<FlowBatch>,
    /// Lines of the books, when there are any.
    pub books: Option<BooksBatch>,
}

impl Delivery {
    /// Number of flows.
    pub fn rows(&self) -> usize {
        self.flows.as_ref().map_or(0, FlowBatch::rows)
    }

    /// True when there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.flows.is_none() && self.books.is_none()
    }
}
