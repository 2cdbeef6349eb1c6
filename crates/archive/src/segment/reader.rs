//! Rows of a segment, read back.

use std::fs::File;

use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::Field;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;

/// Rows decoded at a time when a whole column is read.
const COLUMN_BATCH_ROWS: usize = 1 << 16;

use super::Segment;
use crate::ArchiveError;

impl Segment {
    /// Every row of the segment, as batches with all columns of its table.
    ///
    /// A query engine reads the file itself, and only what it needs; this is for callers that want all of it.
    pub fn read(&self) -> Result<Vec<RecordBatch>, ArchiveError> {
        let reader = self.open()?.with_batch_size(8192).build().map_err(|error| self.unreadable(error))?;
        reader.map(|batch| batch.map_err(|error| self.unreadable(error.into()))).collect()
    }

    /// Opens the file and reads Parquet's footer.
    pub(crate) fn open(&self) -> Result<ParquetRecordBatchReaderBuilder<File>, ArchiveError> {
        let file = self.open_file()?;
        ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| self.unreadable(error))
    }

    /// Rows of the segment by its footer.
    pub(crate) fn rows_by_footer(&self) -> Result<u64, ArchiveError> {
        let rows = self.open()?.metadata().file_metadata().num_rows();
        Ok(u64::try_from(rows).unwrap_or_default())
    }

    /// Gives the rows of some columns to `each`, batch by batch. Columns that the segment was written before are not in
    /// the batches.
    pub(crate) fn read_columns(&self, names: &[&str], mut each: impl FnMut(RecordBatch)) -> Result<(), ArchiveError> {
        let builder = self.open()?;
        let roots = names.iter().filter_map(|name| Some(builder.schema().column_with_name(name)?.0));
        let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
        let reader = builder.with_projection(mask).with_batch_size(8192).build();
        for batch in reader.map_err(|error| self.unreadable(error))? {
            each(batch.map_err(|error| self.unreadable(error.into()))?);
        }
        Ok(())
    }

    /// Gives the values of one column in all rows to `take`, in pieces: nulls when the segment was written before there
    /// was this column.
    pub(super) fn read_column(&self, field: &Field, mut take: impl FnMut(ArrayRef)) -> Result<(), ArchiveError> {
        let builder = self.open()?;
        let Some((root, _)) = builder.schema().column_with_name(field.name()) else {
            take(new_null_array(field.data_type(), self.rows as usize));
            return Ok(());
        };
        let mask = ProjectionMask::roots(builder.parquet_schema(), [root]);
        let reader = builder.with_projection(mask).with_batch_size(COLUMN_BATCH_ROWS).build();
        for batch in reader.map_err(|error| self.unreadable(error))? {
            take(batch.map_err(|error| self.unreadable(error.into()))?.column(0).clone());
        }
        Ok(())
    }

    /// An error of the Parquet reader.
    pub(crate) fn unreadable(&self, source: ParquetError) -> ArchiveError {
        ArchiveError::ReadSegment { path: self.path(), source }
    }
}
