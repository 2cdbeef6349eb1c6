//! Rows written as they come.
//!
//! Each format is one implementation of the same small trait, which appends text to a buffer; the buffer goes out once
//! there is enough of it.

use std::fmt;
use std::io::{self, ErrorKind, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};

use crate::csv::Csv;
use crate::json::Json;
use crate::ordered;
use crate::table::Table;
use crate::{Format, OutputOptions};

/// Octets gathered before they are written.
const CHUNK_OCTETS: usize = 64 << 10;

/// A format at work: appends text to a buffer.
pub trait RowFormat {
    /// What comes before the first row.
    fn begin(&mut self, schema: &Schema, text: &mut Vec<u8>);
    /// The rows of a batch.
    fn batch(&mut self, batch: &RecordBatch, text: &mut Vec<u8>, flush: &mut Flush<'_>) -> io::Result<()>;
    /// What comes after the last row.
    fn end(&mut self, text: &mut Vec<u8>);
}

/// Writes text out once there is enough of it.
pub struct Flush<'a> {
    /// Where to; nowhere when the text is to stay where it is.
    to: Option<&'a mut dyn Write>,
}

impl<'a> Flush<'a> {
    /// Writes to `to`.
    pub fn new(to: &'a mut dyn Write) -> Self {
        Self { to: Some(to) }
    }

    /// Keeps all text where it is.
    pub fn never() -> Self {
        Self { to: None }
    }

    /// Writes the text out, and clears it, once it is a chunk.
    #[inline]
    pub fn when_full(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        if text.len() < CHUNK_OCTETS { Ok(()) } else { self.now(text) }
    }

    fn now(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        if let Some(to) = &mut self.to {
            to.write_all(text)?;
            text.clear();
        }
        Ok(())
    }
}

/// The format that writes nothing.
#[derive(Debug)]
pub struct NullFormat;

impl RowFormat for NullFormat {
    fn begin(&mut self, _schema: &Schema, _text: &mut Vec<u8>) {}

    fn batch(&mut self, _batch: &RecordBatch, _text: &mut Vec<u8>, _flush: &mut Flush<'_>) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, _text: &mut Vec<u8>) {}
}

/// Writes batches one after the other.
///
/// All batches have the columns of the first one. How rows are cut into batches does not change the text, except that
/// tables make their columns as wide as the first batch needs. Text is gathered; [`flush`](Self::flush) and
/// [`finish`](Self::finish) write the rest, and a printer that is dropped without them loses it. After an error some
/// of the text may be out and some not.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{Float64Array, RecordBatch};
/// use weir_print::{Format, OutputOptions, Printer};
/// let values = Arc::new(Float64Array::from(vec![0.1, 2.0]));
/// let batch = RecordBatch::try_from_iter([("share", values as _)])?;
/// let mut printer = Printer::new(Format::Csv, &OutputOptions::default(), Vec::new());
/// printer.write(&batch)?;
/// printer.write(&batch.slice(0, 1))?;
/// assert_eq!(printer.finish()?, b"share\n0.1\n2\n0.1\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Printer<W: Write> {
    format: Format,
    rows: Box<dyn RowFormat + Send>,
    /// Number of columns, once the first batch has come.
    columns: Option<usize>,
    text: Vec<u8>,
    to: W,
    rows_written: u64,
}

impl<W: Write> fmt::Debug for Printer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.text.len();
        write!(f, "Printer({}, {} rows, {waiting} octets waiting)", self.format.name(), self.rows_written)
    }
}

impl<W: Write> Printer<W> {
    /// A printer that has written nothing yet.
    pub fn new(format: Format, options: &OutputOptions, to: W) -> Self {
        let rows: Box<dyn RowFormat + Send> = match format {
            Format::Table => Box::new(Table::new(options)),
            Format::Csv => Box::new(Csv::new(options)),
            Format::Json => Box::new(Json::array(options.decimals)),
            Format::Ndjson => Box::new(Json::lines(options.decimals)),
            Format::Null => Box::new(NullFormat),
        };
        Self { format, rows, columns: None, text: Vec::new(), to, rows_written: 0 }
    }

    /// Tells the columns before there is a batch, so that there is a header even when none comes. Does nothing once
    /// the columns are known.
    pub fn begin(&mut self, schema: &Schema) {
        if self.columns.is_none() {
            self.columns = Some(schema.fields().len());
            self.rows.begin(schema, &mut self.text);
        }
    }

    /// Writes the rows of a batch. It is an error when the batch has more or fewer columns than the first one.
    pub fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        self.begin(batch.schema_ref());
        if self.columns != Some(batch.num_columns()) {
            let (found, expected) = (batch.num_columns(), self.columns.unwrap_or_default());
            let message = format!("rows of {found} columns come after rows of {expected} columns");
            return Err(io::Error::new(ErrorKind::InvalidInput, message));
        }
        // also where the reader has gone: an answer of which nobody reads the rest is none without rows
        self.rows_written += batch.num_rows() as u64;
        self.rows.batch(batch, &mut self.text, &mut Flush::new(&mut self.to))
    }

    /// Rows written so far, those whose text still waits and those at which writing failed included.
    pub fn rows_written(&self) -> u64 {
        self.rows_written
    }

    /// Writes out all text that waits.
    pub fn flush(&mut self) -> io::Result<()> {
        Flush::new(&mut self.to).now(&mut self.text)?;
        self.to.flush()
    }

    /// Writes what comes after the last row, and everything that waits. Returns where it went.
    pub fn finish(mut self) -> io::Result<W> {
        self.begin(&Schema::empty());
        self.rows.end(&mut self.text);
        self.flush()?;
        Ok(self.to)
    }
}

/// Why not all batches were written.
#[derive(Debug, thiserror::Error)]
pub enum PrintError<E> {
    /// Whoever makes the batches could not go on.
    #[error(transparent)]
    Batches(E),
    /// The text could not be written.
    #[error("cannot write rows")]
    Write(#[source] io::Error),
}

/// Writes batches of one schema and returns the number of their rows.
///
/// When the reader of the text goes away (a closed pipe, as behind `head`), no more batches are taken and that is no
/// error: the number is that of the rows that were taken.
pub fn write_batches<E>(
    batches: impl Iterator<Item = Result<RecordBatch, E>>,
    schema: &SchemaRef,
    format: Format,
    options: &OutputOptions,
    to: &mut dyn Write,
) -> Result<u64, PrintError<E>> {
    if format == Format::Csv {
        return write_csv(batches, schema, options, to);
    }
    let mut printer = Printer::new(format, options, to);
    let streamed = stream(batches, schema, &mut printer);
    let rows = printer.rows_written();
    match streamed {
        Ok(()) => {}
        Err(PrintError::Write(error)) if error.kind() == ErrorKind::BrokenPipe => return Ok(rows),
        Err(error) => return Err(error),
    }
    match printer.finish() {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(PrintError::Write(error)),
        _ => Ok(rows),
    }
}

/// As [`write_batches`], the text made on as many threads as there are cores.
fn write_csv<E>(
    batches: impl Iterator<Item = Result<RecordBatch, E>>,
    schema: &SchemaRef,
    options: &OutputOptions,
    to: &mut dyn Write,
) -> Result<u64, PrintError<E>> {
    let mut heading = Vec::new();
    Csv::new(options).begin(schema, &mut heading);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut counted = 0;
    let counting = batches.inspect(|batch| counted += batch.as_ref().map_or(0, |batch| batch.num_rows() as u64));
    let written = ordered::write(counting, threads, to, heading, || Csv::new(options), |_, _| ());
    match written.and_then(|_| to.flush().map_err(PrintError::Write)) {
        Err(PrintError::Write(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(counted),
        Err(error) => Err(error),
        Ok(()) => Ok(counted),
    }
}

fn stream<E>(
    batches: impl Iterator<Item = Result<RecordBatch, E>>,
    schema: &Schema,
    printer: &mut Printer<&mut dyn Write>,
) -> Result<(), PrintError<E>> {
    printer.begin(schema);
    for batch in batches {
        printer.write(&batch.map_err(PrintError::Batches)?).map_err(PrintError::Write)?;
    }
    Ok(())
}
