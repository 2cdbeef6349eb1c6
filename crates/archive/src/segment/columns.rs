//! Rows of many batches, column by column.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::Field;
use weir_flow::Table;

use crate::ArchiveError;

/// Batches of one table, each with some of its columns.
#[derive(Debug)]
pub(crate) struct Columns {
    table: Table,
    batches: Vec<RecordBatch>,
}

impl Columns {
    /// Batches whose columns are columns of the table.
    pub(crate) fn new(table: Table, batches: Vec<RecordBatch>) -> Self {
        Self { table, batches }
    }

    pub(crate) fn table(&self) -> Table {
        self.table
    }

    /// The values of a column in all batches, or `None` when no batch has it.
    pub(crate) fn column(&self, field: &Field) -> Result<Option<ArrayRef>, ArchiveError> {
        let present: Vec<_> = self.batches.iter().map(|batch| batch.column_by_name(field.name())).collect();
        if present.iter().all(Option::is_none) {
            return Ok(None);
        }
        if let [Some(only)] = present[..] {
            return Ok(Some(Arc::clone(only)));
        }
        let parts: Vec<ArrayRef> = present
            .iter()
            .zip(&self.batches)
            .map(|(column, batch)| match column {
                Some(column) => Arc::clone(column),
                None => new_null_array(field.data_type(), batch.num_rows()),
            })
            .collect();
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        concat(&parts).map(Some).map_err(|source| self.failed(field, source))
    }

    /// An error of working on a column.
    pub(crate) fn failed(&self, field: &Field, source: arrow::error::ArrowError) -> ArchiveError {
        ArchiveError::GatherColumn { table: self.table, column: field.name().clone(), source }
    }
}
