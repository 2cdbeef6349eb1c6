//! Rows of many batches, column by column.

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::Field;
use weir_flow::Table;

use crate::ArchiveError;
use crate::tail::{Stream, TailFile};

/// Batches of one table, each with some of its columns, still in the file of their tail.
#[derive(Debug)]
pub(crate) struct Columns<'a> {
    table: Table,
    file: &'a TailFile,
    batches: &'a [Stream],
}

impl<'a> Columns<'a> {
    /// Batches whose columns are columns of the table.
    pub(crate) fn new(table: Table, file: &'a TailFile, batches: &'a [Stream]) -> Self {
        Self { table, file, batches }
    }

    pub(crate) fn table(&self) -> Table {
        self.table
    }

    /// The values of a column, batch by batch, or `None` when no batch has it.
    pub(crate) fn pieces(&self, field: &Field) -> Result<Option<Vec<ArrayRef>>, ArchiveError> {
        if self.batches.iter().all(|batch| batch.schema().column_with_name(field.name()).is_none()) {
            return Ok(None);
        }
        let pieces = self.batches.iter().map(|batch| {
            let column = self.file.column(batch, field.name())?;
            Ok(column.unwrap_or_else(|| new_null_array(field.data_type(), batch.rows())))
        });
        pieces.collect::<Result<Vec<_>, _>>().map(Some)
    }

    /// The values of a column in all batches as one, or `None` when no batch has it.
    pub(crate) fn column(&self, field: &Field) -> Result<Option<ArrayRef>, ArchiveError> {
        let pieces = self.pieces(field)?;
        pieces.map(|pieces| joined(pieces).map_err(|source| self.failed(field, source))).transpose()
    }

    /// An error of working on a column.
    pub(crate) fn failed(&self, field: &Field, source: arrow::error::ArrowError) -> ArchiveError {
        ArchiveError::GatherColumn { table: self.table, column: field.name().clone(), source }
    }
}

/// Pieces of a column as one.
pub(super) fn joined(mut pieces: Vec<ArrayRef>) -> Result<ArrayRef, arrow::error::ArrowError> {
    if pieces.len() == 1
        && let Some(only) = pieces.pop()
    {
        return Ok(only);
    }
    let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
    concat(&pieces)
}
