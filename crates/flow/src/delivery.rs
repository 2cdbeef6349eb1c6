//! What a collector hands on, and the seam to whoever takes it.

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

/// Where deliveries go.
///
/// A sink may block: whoever feeds it from a socket puts a bounded queue in between. An error is final for the
/// delivery: the sink has kept all of it or nothing.
pub trait Sink: Send {
    /// Why a delivery could not be kept.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Takes one delivery.
    fn deliver(&mut self, delivery: Delivery) -> Result<(), Self::Error>;

    /// Whether trying again is pointless, because the same delivery or every delivery will fail again.
    fn is_final(_error: &Self::Error) -> bool {
        false
    }
}
