//! Rows of many batches, column by column.

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::Field;
use weir_flow::Table;

use super::Segment;
use crate::ArchiveError;
use crate::tail::{Stream, TailFile};

/// Batches of one table, each with some of its columns, still in their files.
#[derive(Debug)]
pub(crate) struct Columns<'a> {
    table: Table,
    source: Source<'a>,
}

#[derive(Debug)]
enum Source<'a> {
    Tail { file: &'a TailFile, batches: &'a [Stream] },
    Segments(&'a [Segment]),
}

impl<'a> Columns<'a> {
    /// Batches of a tail whose columns are columns of the table.
    pub(crate) fn of_tail(table: Table, file: &'a TailFile, batches: &'a [Stream]) -> Self {
        Self { table, source: Source::Tail { file, batches } }
    }

    /// The rows of some segments of the table, one segment after the other.
    pub(crate) fn of_segments(table: Table, segments: &'a [Segment]) -> Self {
        Self { table, source: Source::Segments(segments) }
    }

    pub(crate) fn table(&self) -> Table {
        self.table
    }

    pub(crate) fn rows(&self) -> usize {
        match &self.source {
            Source::Tail { batches, .. } => batches.iter().map(Stream::rows).sum(),
            Source::Segments(segments) => segments.iter().map(|segment| segment.rows as usize).sum(),
        }
    }

    /// The values of a column, piece by piece, or `None` when no row has any.
    pub(crate) fn pieces(&self, field: &Field) -> Result<Option<Vec<ArrayRef>>, ArchiveError> {
        match &self.source {
            Source::Tail { file, batches } => pieces_of_tail(file, batches, field),
            Source::Segments(segments) => {
                let mut pieces = Vec::new();
                for segment in *segments {
                    pieces.extend(segment.read_column(field.name())?);
                }
                let is_null = |piece: &ArrayRef| piece.null_count() == piece.len();
                Ok(if pieces.iter().all(is_null) { None } else { Some(pieces) })
            }
        }
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

fn pieces_of_tail(file: &TailFile, batches: &[Stream], field: &Field) -> Result<Option<Vec<ArrayRef>>, ArchiveError> {
    if batches.iter().all(|batch| batch.schema().column_with_name(field.name()).is_none()) {
        return Ok(None);
    }
    let pieces = batches.iter().map(|batch| {
        let column = file.column(batch, field.name())?;
        Ok(column.unwrap_or_else(|| new_null_array(field.data_type(), batch.rows())))
    });
    pieces.collect::<Result<Vec<_>, _>>().map(Some)
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
