//! Rows of a segment, read back.

use std::fs::File;

use arrow::array::RecordBatch;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::Segment;
use crate::ArchiveError;

impl Segment {
    /// Every row of the segment, as batches with all columns of its table.
    ///
    /// A query engine reads the file itself, and only what it needs; this is for those who want all of it.
    pub fn read(&self) -> Result<Vec<RecordBatch>, ArchiveError> {
        let file =
            File::open(&self.path).map_err(|source| ArchiveError::OpenSegment { path: self.path.clone(), source })?;
        let failed = |source| ArchiveError::ReadSegment { path: self.path.clone(), source };
        let reader =
            ParquetRecordBatchReaderBuilder::try_new(file).and_then(|builder| builder.with_batch_size(8192).build());
        reader.map_err(failed)?.map(|batch| batch.map_err(|error| failed(error.into()))).collect()
    }
}
