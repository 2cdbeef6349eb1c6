//! What moves from component to component.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use weir_flow::{Delivery, FlowBatch, SideTables};

/// Rows that move together, and their side tables: lines of the books, rows of other tables.
///
/// Rows are most often flows, that is columns of [`weir_flow::Column`] in the order of that table; a component may hand on
/// rows of its own making (statistics, say), whose columns its documentation tells. Columns are shared and immutable:
/// every component behind the same output sees the same rows, and a copy costs nothing.
#[derive(Debug, Clone)]
pub struct Burst {
    rows: RecordBatch,
    side_tables: SideTables,
}

impl Burst {
    /// A burst of rows.
    pub fn new(rows: RecordBatch) -> Self {
        Self { rows, side_tables: SideTables::default() }
    }

    /// A burst of rows and their side tables.
    pub fn with_side_tables(rows: RecordBatch, side_tables: SideTables) -> Self {
        Self { rows, side_tables }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.num_rows()
    }

    /// True when there are neither rows nor side tables.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.side_tables.is_empty()
    }

    /// The rows.
    pub fn rows(&self) -> &RecordBatch {
        &self.rows
    }

    /// The side tables of the rows.
    pub fn side_tables(&self) -> &SideTables {
        &self.side_tables
    }

    /// The rows and their side tables.
    pub fn into_parts(self) -> (RecordBatch, SideTables) {
        (self.rows, self.side_tables)
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
        Self::with_side_tables(rows, delivery.side_tables)
    }
}
