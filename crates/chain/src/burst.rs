//! What moves from component to component.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use weir_flow::{Beside, Delivery, FlowBatch};

/// Rows that move together, and what came beside them: lines of the books, rows of other tables.
///
/// Rows are most often flows, that is columns of [`weir_flow::Column`] in the order of that table; a component may hand on
/// rows of its own making (statistics, say), whose columns its documentation tells. Columns are shared and immutable:
/// every component behind the same output sees the same rows, and a copy costs nothing.
#[derive(Debug, Clone)]
pub struct Burst {
    rows: RecordBatch,
    beside: Beside,
}

impl Burst {
    /// A burst of rows.
    pub fn new(rows: RecordBatch) -> Self {
        Self { rows, beside: Beside::default() }
    }

    /// A burst of rows and what stands beside them.
    pub fn with_beside(rows: RecordBatch, beside: Beside) -> Self {
        Self { rows, beside }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.num_rows()
    }

    /// True when there are neither rows nor anything beside them.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.beside.is_empty()
    }

    /// The rows.
    pub fn rows(&self) -> &RecordBatch {
        &self.rows
    }

    /// What stands beside the rows.
    pub fn beside(&self) -> &Beside {
        &self.beside
    }

    /// The rows and what stands beside them.
    pub fn into_parts(self) -> (RecordBatch, Beside) {
        (self.rows, self.beside)
    }
}

impl From<FlowBatch> for Burst {
    fn from(flows: FlowBatch) -> Self {
        Self::new(flows.record_batch().clone())
    }
}

/// What a collector or a meter delivers. A delivery without flows becomes a burst without columns.
impl From<Delivery> for Burst {
    fn from(delivery: Delivery) -> Self {
        let rows = match delivery.flows {
            Some(flows) => flows.record_batch().clone(),
            None => RecordBatch::new_empty(Arc::new(Schema::empty())),
        };
        Self::with_beside(rows, delivery.beside)
    }
}
