//! Rows on disk.
//!
//! All that is written at one time goes into one file, as one Arrow IPC stream for each slice. The file is unlinked as
//! soon as it is open, so that nothing is left when the process dies; its space is free again when the last of its
//! slices was read.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use weir_chain::ComponentError;

/// A file that is gone when nobody reads it any more.
#[derive(Debug)]
pub(super) struct SpillFile {
    file: File,
}

/// Rows of a slice in a file.
#[derive(Debug)]
pub(super) struct Part {
    file: Arc<SpillFile>,
    from: u64,
    octets: u64,
    rows: usize,
}

/// Numbers files, so that two of one process do not meet.
static FILES: AtomicU64 = AtomicU64::new(0);

impl SpillFile {
    /// Makes a file in a folder.
    pub(super) fn create(folder: &Path) -> Result<Arc<Self>, ComponentError> {
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("weir-sorter-{}-{number}", std::process::id()));
        let failed = |error| ComponentError::caused(format!("cannot write rows to {}", path.display()), error);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).map_err(failed)?;
        std::fs::remove_file(&path).map_err(failed)?;
        Ok(Arc::new(Self { file }))
    }

    /// Appends rows and the times by which they are sorted.
    pub(super) fn write(this: &Arc<Self>, rows: &RecordBatch, times: &[i64]) -> Result<Part, ComponentError> {
        let failed = |error| ComponentError::caused("cannot write rows to disk", error);
        let mut fields: Vec<_> = rows.schema().fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new("", DataType::Int64, false)));
        let times: ArrayRef = Arc::new(Int64Array::from(times.to_vec()));
        let columns = rows.columns().iter().cloned().chain([times]).collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(failed)?;
        let from = (&this.file).seek(SeekFrom::End(0)).map_err(|error| failed(error.into()))?;
        let buffer = BufWriter::with_capacity(1 << 20, &this.file);
        let mut writer = StreamWriter::try_new(buffer, &batch.schema()).map_err(failed)?;
        writer.write(&batch).map_err(failed)?;
        let mut buffer = writer.into_inner().map_err(failed)?;
        buffer.flush().map_err(|error| failed(error.into()))?;
        let end = (&this.file).stream_position().map_err(|error| failed(error.into()))?;
        Ok(Part { file: Arc::clone(this), from, octets: end - from, rows: rows.num_rows() })
    }
}

impl Part {
    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Reads the rows and the times by which they are sorted.
    pub(super) fn read(&self, mut each: impl FnMut(RecordBatch, &[i64])) -> Result<(), ComponentError> {
        let failed = |error| ComponentError::caused("cannot read back rows that were written to disk", error);
        let mut file = &self.file.file;
        file.seek(SeekFrom::Start(self.from)).map_err(|error| failed(error.into()))?;
        let reader = BufReader::with_capacity(1 << 20, file.take(self.octets));
        for batch in StreamReader::try_new(reader, None).map_err(failed)? {
            let mut batch = batch.map_err(failed)?;
            let times = batch.remove_column(batch.num_columns() - 1);
            each(batch, times.as_primitive::<Int64Type>().values());
        }
        Ok(())
    }
}
