//! Rows of a segment, read back.

use std::fs::File;

use arrow::array::{ArrayRef, RecordBatch};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// Rows decoded at a time when a whole column is read.
const COLUMN_BATCH_ROWS: usize = 1 << 16;

use super::Segment;
use crate::{Action, ArchiveError};

impl Segment {
    /// Every row of the segment, as batches with all columns of its table.
    ///
    /// A query engine reads the file itself, and only what it needs; this is for those who want all of it.
    pub fn read(&self) -> Result<Vec<RecordBatch>, ArchiveError> {
        let file = File::open(&self.path).map_err(Action::OpenSegment.failed(&self.path))?;
        let failed = |source| ArchiveError::ReadSegment { path: self.path.clone(), source };
        let reader =
            ParquetRecordBatchReaderBuilder::try_new(file).and_then(|builder| builder.with_batch_size(8192).build());
        reader.map_err(failed)?.map(|batch| batch.map_err(|error| failed(error.into()))).collect()
    }

    /// Gives the values of one column in all rows to `take`, in pieces.
    pub(super) fn read_column(&self, name: &str, mut take: impl FnMut(ArrayRef)) -> Result<(), ArchiveError> {
        let file = File::open(&self.path).map_err(Action::OpenSegment.failed(&self.path))?;
        let failed = |source| ArchiveError::ReadSegment { path: self.path.clone(), source };
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(failed)?;
        let (root, _) = builder.schema().column_with_name(name).ok_or_else(|| {
            failed(parquet::errors::ParquetError::General(format!("segment without the column '{name}'")))
        })?;
        let mask = ProjectionMask::roots(builder.parquet_schema(), [root]);
        let reader = builder.with_projection(mask).with_batch_size(COLUMN_BATCH_ROWS).build().map_err(failed)?;
        for batch in reader {
            take(batch.map_err(|error| failed(error.into()))?.column(0).clone());
        }
        Ok(())
    }
}
