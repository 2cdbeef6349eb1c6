//! Rows of a segment, read back.

use std::fs::File;
use std::io::{Read, Seek};

use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::Field;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::ChunkReader;
use parquet::file::statistics::Statistics;

/// Rows decoded at a time when a whole column is read.
const COLUMN_BATCH_ROWS: usize = 1 << 16;
/// Segments up to so many octets are read at once when many columns are wanted: from a file the Parquet library reads
/// each page by itself, with eight system calls.
const WHOLE_OCTETS_MAX: u64 = 4 << 20;

use super::Segment;
use crate::ArchiveError;

impl Segment {
    /// Every row of the segment, as batches with all columns of its table.
    ///
    /// A query engine reads the file itself, and only what it needs; this is for callers that want all of it. The
    /// checksums of the whole file are verified first: pages of the side tables have none, nor have headers of pages.
    pub fn read(&self) -> Result<Vec<RecordBatch>, ArchiveError> {
        self.verify()?;
        let reader = self.open()?.with_batch_size(8192).build().map_err(|error| self.unreadable(error))?;
        reader.map(|batch| batch.map_err(|error| self.unreadable(error.into()))).collect()
    }

    /// Opens the file and reads Parquet's footer.
    pub(crate) fn open(&self) -> Result<ParquetRecordBatchReaderBuilder<File>, ArchiveError> {
        let file = self.file()?;
        ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| self.unreadable(error))
    }

    /// Rows of the segment by its footer.
    pub(crate) fn rows_by_footer(&self) -> Result<u64, ArchiveError> {
        let rows = self.open()?.metadata().file_metadata().num_rows();
        Ok(u64::try_from(rows).unwrap_or_default())
    }

    /// Gives the rows of some columns of keys and counters to `each`, batch by batch. Columns that the segment was written
    /// before are not in the batches, nor are counters that are zero in all rows, as the footer knows of most of them.
    pub(crate) fn read_counters(
        &self,
        keys: &[&str],
        counters: &[&str],
        each: impl FnMut(RecordBatch),
    ) -> Result<(), ArchiveError> {
        let unreadable = |error| self.unreadable(error);
        let mut file = self.file()?;
        if self.octets > WHOLE_OCTETS_MAX {
            self.verify()?;
            return read_counters(file, keys, counters, each).map_err(unreadable);
        }
        let mut octets = Vec::with_capacity(self.octets as usize);
        file.rewind().and_then(|()| file.read_to_end(&mut octets)).map_err(|error| unreadable(error.into()))?;
        self.verify_octets(&octets)?;
        read_counters(Bytes::from(octets), keys, counters, each).map_err(unreadable)
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

fn read_counters<R: ChunkReader + 'static>(
    source: R,
    keys: &[&str],
    counters: &[&str],
    mut each: impl FnMut(RecordBatch),
) -> Result<(), ParquetError> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(source)?;
    let root = |name: &&str| Some(builder.schema().column_with_name(name)?.0);
    let counters = counters.iter().filter_map(root).filter(|root| !is_zero(builder.metadata(), *root));
    let roots: Vec<usize> = keys.iter().filter_map(root).chain(counters).collect();
    let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
    builder.with_projection(mask).with_batch_size(8192).build()?.try_for_each(|batch| {
        each(batch?);
        Ok(())
    })
}

/// Whether a counter is zero in all rows, by the statistics of its column. The counters' tables have no nested columns.
fn is_zero(metadata: &ParquetMetaData, column: usize) -> bool {
    metadata.row_groups().iter().all(|group| match group.column(column).statistics() {
        Some(Statistics::Int64(range)) => range.min_opt() == Some(&0) && range.max_opt() == Some(&0),
        _ => false,
    })
}
