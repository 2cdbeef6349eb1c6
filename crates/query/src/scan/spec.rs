//! Which flows a scan selects, and the columns that it reads and answers.

use arrow::array::{ArrayRef, BooleanArray};
use arrow::compute::filter_record_batch;
use weir_filter::Predicate;
use weir_flow::{Column, FlowBatch};

use super::window::{self, WindowEnd};
use crate::{FlowQuery, QueryError, TimeWindow};

/// The flows that a scan selects, and the columns of its answer.
#[derive(Debug, Clone)]
pub struct ScanSpec {
    pub(super) predicate: Predicate,
    /// A condition that every selected flow also passes; it is used to leave out pages only.
    pub(super) hint: Predicate,
    pub(super) window: Vec<WindowEnd>,
    /// Columns of filter, window and answer, in the order of the table.
    pub(super) columns: Vec<Column>,
    /// The columns of the answer, in the order of the table.
    pub(super) answered: Vec<Column>,
}

impl ScanSpec {
    /// The flows of a question, with these columns.
    pub(crate) fn new(question: &FlowQuery, answer: impl IntoIterator<Item = Column>) -> Self {
        Self::of(question.filter.clone(), &question.window, answer)
    }

    /// The flows of a window that pass a filter, with these columns.
    pub fn of(predicate: Predicate, window: &TimeWindow, answer: impl IntoIterator<Item = Column>) -> Self {
        let window = window::ends(window);
        let mut answered: Vec<Column> = answer.into_iter().collect();
        answered.sort_unstable();
        answered.dedup();
        let mut columns: Vec<Column> = predicate.columns().into_iter().collect();
        columns.extend(window::columns(&window).chain(answered.iter().copied()));
        columns.sort_unstable();
        columns.dedup();
        Self { predicate, hint: Predicate::True, window, columns, answered }
    }

    /// The same flows, of which those that fail `hint` need not be given.
    pub(crate) fn with_hint(self, hint: Predicate) -> Self {
        Self { hint, ..self }
    }

    /// Which rows of a batch pass; `None` for all.
    fn mask(&self, batch: &FlowBatch) -> Option<BooleanArray> {
        let mut bits = (self.predicate != Predicate::True).then(|| self.predicate.mask(batch).values().clone());
        for end in &self.window {
            let of_end = end.mask(batch.rows(), batch.column(end.column), batch.column(Column::Received));
            bits = Some(bits.map_or_else(|| of_end.clone(), |bits| &bits & &of_end));
        }
        bits.map(BooleanArray::from)
    }

    /// The rows of a batch that pass, with the columns of the answer; `None` when there is no such row.
    pub(super) fn of_batch(&self, batch: &FlowBatch) -> Result<Option<FlowBatch>, QueryError> {
        let kept: Vec<(Column, ArrayRef)> = self
            .answered
            .iter()
            .filter_map(|column| batch.column(*column).map(|values| (*column, values.clone())))
            .collect();
        let kept = flow_batch(batch.rows(), kept)?;
        let Some(mask) = self.mask(batch) else { return Ok(Some(kept)) };
        let rows = mask.true_count();
        if rows == 0 {
            return Ok(None);
        }
        if rows == batch.rows() {
            return Ok(Some(kept));
        }
        let filtered = filter_record_batch(kept.record_batch(), &mask)?;
        FlowBatch::try_new(filtered).map(Some).map_err(|error| QueryError::Source(error.into()))
    }
}

/// A batch of columns in the order of the table.
pub(super) fn flow_batch(rows: usize, columns: Vec<(Column, ArrayRef)>) -> Result<FlowBatch, QueryError> {
    FlowBatch::from_columns(rows, columns).map_err(|error| QueryError::Source(error.into()))
}
