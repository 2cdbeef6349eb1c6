//! What moves from block to block.

use arrow::array::RecordBatch;
use weir_flow::{BooksBatch, FlowBatch};

/// Rows that move together, and the lines of the books that came with them.
///
/// Rows are most often flows, that is columns of [`weir_flow::Column`] in the order of that table; a block may hand on
/// rows of its own making (statistics, say), whose columns its documentation tells. Columns are shared and immutable:
/// every block behind the same output sees the same rows, and a copy costs nothing.
#[derive(Debug, Clone)]
pub struct Burst {
    rows: RecordBatch,
    books: Option<BooksBatch>,
}

impl Burst {
    /// A burst of rows.
    pub fn new(rows: RecordBatch) -> Self {
        Self { rows, books: None }
    }

    /// A burst of rows and the lines of the books that account for them.
    pub fn with_books(rows: RecordBatch, books: Option<BooksBatch>) -> Self {
        Self { rows, books }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.num_rows()
    }

    /// True when there are neither rows nor lines of the books.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.books.is_none()
    }

    /// The rows.
    pub fn rows(&self) -> &RecordBatch {
        &self.rows
    }

    /// Lines of the books, when there are any.
    pub fn books(&self) -> Option<&BooksBatch> {
        self.books.as_ref()
    }

    /// The rows and the lines of the books.
    pub fn into_parts(self) -> (RecordBatch, Option<BooksBatch>) {
        (self.rows, self.books)
    }
}

impl From<FlowBatch> for Burst {
    fn from(flows: FlowBatch) -> Self {
        Self::new(flows.record_batch().clone())
    }
}
