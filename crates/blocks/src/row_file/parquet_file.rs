//! Rows as Parquet.

use std::io;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::target::Target;

/// Rows of a row group: it is in memory, encoded, until it is full.
const ROW_GROUP_ROWS: usize = 262_144;

/// A Parquet file, whose columns are those of the first rows.
#[derive(Debug)]
pub(super) enum ParquetFile {
    Empty(Target),
    Rows(Box<ArrowWriter<Target>>),
    /// Making the writer failed.
    Failed,
}

impl ParquetFile {
    pub(super) fn write(&mut self, rows: &RecordBatch) -> io::Result<()> {
        self.begin(&rows.schema())?;
        match self {
            Self::Rows(writer) => writer.write(rows).map_err(io_error),
            Self::Empty(_) | Self::Failed => Ok(()),
        }
    }

    /// Writes what is held and the footer. `schema` is that of a file without rows.
    pub(super) fn finish(mut self, schema: &SchemaRef) -> io::Result<()> {
        self.begin(schema)?;
        match self {
            Self::Rows(writer) => writer.into_inner().map_err(io_error)?.finish(),
            Self::Empty(target) => target.finish(),
            Self::Failed => Ok(()),
        }
    }

    /// Rows held, and the memory that they take.
    pub(super) fn held(&self) -> (u64, u64) {
        match self {
            Self::Rows(writer) => (writer.in_progress_rows() as u64, writer.memory_size() as u64),
            Self::Empty(_) | Self::Failed => (0, 0),
        }
    }

    fn begin(&mut self, schema: &SchemaRef) -> io::Result<()> {
        *self = match std::mem::replace(self, Self::Failed) {
            Self::Empty(target) => {
                let level = ZstdLevel::try_new(3).map_err(io_error)?;
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(level))
                    .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
                    .set_created_by(format!("weir {}", env!("CARGO_PKG_VERSION")))
                    .build();
                let writer = ArrowWriter::try_new(target, schema.clone(), Some(properties));
                Self::Rows(Box::new(writer.map_err(io_error)?))
            }
            other => other,
        };
        Ok(())
    }
}

/// What the file said, when it was the file.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(cause) => io::Error::other(cause),
        },
        error => io::Error::other(error),
    }
}
