//! Rows of many batches, column by column.

use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::Field;
use weir_flow::Table;

use super::Segment;
use crate::ArchiveError;
use crate::books::fold::{BooksFold, BooksStep, KeyColumns};
use crate::sequences::fold::{SequenceColumns, SequenceFold};
use crate::tail::{Stream, TailFile};

/// Batches of one table, each with some of its columns, still in their files.
#[derive(Debug)]
pub(crate) struct Columns<'a> {
    table: Table,
    source: Source<'a>,
    /// Octets of a column of segments that are held at once.
    column_octets_max: usize,
    /// Set when the rows of segments are no longer wanted.
    is_ending: Option<&'a AtomicBool>,
}

#[derive(Debug)]
enum Source<'a> {
    Tail { file: &'a TailFile, batches: &'a [Stream] },
    Segments(&'a [Segment]),
    Folded { of: Box<Columns<'a>>, fold: Fold },
}

/// Which rows become one.
#[derive(Debug)]
enum Fold {
    Books(BooksFold),
    Sequences(SequenceFold),
}

impl<'a> Columns<'a> {
    /// Batches of a tail whose columns are columns of the table.
    pub(crate) fn of_tail(table: Table, file: &'a TailFile, batches: &'a [Stream]) -> Self {
        Self { table, source: Source::Tail { file, batches }, column_octets_max: usize::MAX, is_ending: None }
    }

    /// The rows of some segments of the table, one segment after the other.
    pub(crate) fn of_segments(table: Table, segments: &'a [Segment]) -> Self {
        Self { table, source: Source::Segments(segments), column_octets_max: usize::MAX, is_ending: None }
    }

    /// The same, where so many octets of a column are held at most.
    pub(crate) fn within(self, column_octets_max: usize) -> Self {
        Self { column_octets_max, ..self }
    }

    /// The same, where reading on after this is set is [`ArchiveError::MergeAbandoned`].
    pub(crate) fn until(self, is_ending: &'a AtomicBool) -> Self {
        Self { is_ending: Some(is_ending), ..self }
    }

    /// Rows of the books added up by key and step of time, and those of sequence numbers that go on from one another as
    /// one; rows of other tables as they are.
    pub(crate) fn folded(self, step: BooksStep) -> Result<Self, ArchiveError> {
        let table = self.table;
        let fold = match table {
            Table::ExporterBooks => Fold::Books(BooksFold::new(&KeyColumns::new(self.named(KeyColumns::NAMES)?), step)),
            Table::ExporterSequences => {
                let columns = SequenceColumns::new(self.named(SequenceColumns::NAMES)?);
                Fold::Sequences(SequenceFold::new(columns.as_ref()))
            }
            _ => return Ok(self),
        };
        let source = Source::Folded { of: Box::new(self), fold };
        Ok(Self { table, source, column_octets_max: usize::MAX, is_ending: None })
    }

    /// The columns of these names; `None` for one that no batch has.
    fn named<const N: usize>(&self, names: [&str; N]) -> Result<[Option<ArrayRef>; N], ArchiveError> {
        let (schema, mut columns) = (self.table.schema(), [const { None }; N]);
        for (column, name) in columns.iter_mut().zip(names) {
            if let Some((_, field)) = schema.column_with_name(name) {
                *column = self.column(field)?;
            }
        }
        Ok(columns)
    }

    pub(crate) fn table(&self) -> Table {
        self.table
    }

    pub(crate) fn rows(&self) -> usize {
        match &self.source {
            Source::Tail { batches, .. } => batches.iter().map(Stream::rows).sum(),
            Source::Segments(segments) => segments.iter().map(|segment| segment.rows as usize).sum(),
            Source::Folded { fold: Fold::Books(fold), .. } => fold.rows(),
            Source::Folded { fold: Fold::Sequences(fold), .. } => fold.rows(),
        }
    }

    /// The values of a column, piece by piece, or `None` when no row has any. Of segments that are more than a merge may hold it is
    /// [`ArchiveError::MergeTooLarge`].
    pub(crate) fn pieces(&self, field: &Field) -> Result<Option<Vec<ArrayRef>>, ArchiveError> {
        let (mut pieces, mut octets) = (Vec::new(), 0);
        let octets_max = if matches!(self.source, Source::Segments(_)) { self.column_octets_max } else { usize::MAX };
        let found = self.each(field, |piece| {
            octets += piece.to_data().get_slice_memory_size().unwrap_or_else(|_| piece.get_array_memory_size());
            if octets <= octets_max {
                pieces.push(piece);
            } else {
                pieces.clear();
            }
        })?;
        if octets > octets_max {
            return Err(ArchiveError::MergeTooLarge { table: self.table, column: field.name().clone(), octets_max });
        }
        Ok(found.then_some(pieces))
    }

    /// Gives each piece of a column to `take`, in the order of rows. Returns whether a row has a value; a column
    /// without may have no pieces.
    pub(crate) fn each(&self, field: &Field, mut take: impl FnMut(ArrayRef)) -> Result<bool, ArchiveError> {
        let mut found = false;
        match &self.source {
            Source::Tail { file, batches } => {
                if batches.iter().all(|batch| batch.schema().column_with_name(field.name()).is_none()) {
                    return Ok(false);
                }
                for batch in *batches {
                    let column = file.column(batch, field.name())?;
                    take(column.unwrap_or_else(|| new_null_array(field.data_type(), batch.rows())));
                }
                // what a tail has may be null all the same, which nobody looks for
                found = true;
            }
            Source::Segments(segments) => {
                for segment in *segments {
                    if self.is_ending.is_some_and(|is_ending| is_ending.load(Ordering::Relaxed)) {
                        return Err(ArchiveError::MergeAbandoned);
                    }
                    segment.read_column(field, |piece| {
                        found |= piece.null_count() < piece.len();
                        take(piece);
                    })?;
                }
            }
            Source::Folded { of, fold: Fold::Sequences(fold) } => {
                // as a trait object, for this would otherwise be compiled for itself without end
                let mut pieces = Vec::new();
                let mut add = |piece: ArrayRef| pieces.push(piece);
                found = of.each(field, &mut add as &mut dyn FnMut(ArrayRef))?;
                if found {
                    let failed = |source| self.failed(field, source);
                    take(fold.column(field, &joined(pieces).map_err(failed)?).map_err(failed)?);
                }
            }
            Source::Folded { of, fold: Fold::Books(fold) } => {
                if let Some(column) = fold.key_column(field) {
                    take(column);
                } else {
                    let mut sums = fold.sums();
                    // as a trait object, for this would otherwise be compiled for itself without end
                    let mut add = |piece: ArrayRef| sums.add(&piece);
                    of.each(field, &mut add as &mut dyn FnMut(ArrayRef))?;
                    take(sums.finish());
                }
                found = true;
            }
        }
        Ok(found)
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
