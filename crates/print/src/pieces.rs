//! Text made where batches are made, and written in their order.
//!
//! Whoever makes batches in threads can make their text there as well, while the values are still in the cache of the
//! processor, so that only text has to move between threads. What speaks against it is that the caller must give its
//! batches to [`CsvPieces::piece`] itself; [`write_batches`](crate::write_batches) does so for any iterator instead,
//! with threads of its own.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::sync::{Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;

use crate::OutputOptions;
use crate::csv::Csv;
use crate::printer::{Flush, PrintError, RowFormat};

/// Octets of short texts that are gathered before they are written.
const GATHERED_OCTETS: usize = 64 << 10;

/// Texts whose memory is kept for further ones.
const SPARE_MAX: usize = 16;

/// Octets of a text of unknown length, per value: most values are shorter.
const VALUE_OCTETS: usize = 12;

/// The text of some rows.
#[derive(Debug, Default)]
pub struct Piece {
    rows: u64,
    text: Vec<u8>,
}

/// Makes CSV of batches in any thread, and writes it.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{RecordBatch, UInt16Array};
/// use weir_print::{CsvPieces, OutputOptions};
/// let batch = RecordBatch::try_from_iter([("port", Arc::new(UInt16Array::from(vec![22, 53])) as _)])?;
/// let pieces = CsvPieces::new(&OutputOptions::default());
/// let made = [Ok::<_, std::io::Error>(pieces.piece(&batch))];
/// let mut text = Vec::new();
/// assert_eq!(pieces.write(made, batch.schema_ref(), &mut text)?, 2);
/// assert_eq!(text, b"port\n22\n53\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CsvPieces {
    options: OutputOptions,
    /// Memory of texts that were written.
    spare: Mutex<Vec<Vec<u8>>>,
}

impl CsvPieces {
    /// Text as these options want it.
    pub fn new(options: &OutputOptions) -> Self {
        Self { options: options.clone(), spare: Mutex::default() }
    }

    /// The text of the rows of a batch.
    pub fn piece(&self, batch: &RecordBatch) -> Piece {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let octets = batch.num_rows() * (batch.num_columns() + 1) * VALUE_OCTETS;
        let mut text = spare.unwrap_or_else(|| Vec::with_capacity(octets));
        // nothing is written here, so nothing fails
        let _ = Csv::new(&self.options).batch(batch, &mut text, &mut Flush::never());
        Piece { rows: batch.num_rows() as u64, text }
    }

    /// Writes the header and the pieces as they come, and returns the number of their rows. When the reader of the text
    /// goes away, no more pieces are taken and that is no error.
    pub fn write<E>(
        &self,
        pieces: impl IntoIterator<Item = Result<Piece, E>>,
        schema: &Schema,
        to: &mut dyn Write,
    ) -> Result<u64, PrintError<E>> {
        let mut to = BufWriter::with_capacity(GATHERED_OCTETS, to);
        let mut heading = Vec::new();
        Csv::new(&self.options).begin(schema, &mut heading);
        let mut rows = 0;
        let mut written = to.write_all(&heading);
        for piece in pieces {
            if written.is_err() {
                break;
            }
            let Piece { rows: more, mut text } = match piece {
                Ok(piece) => piece,
                Err(error) => {
                    // what came before the error is written first
                    return match to.flush() {
                        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(PrintError::Write(error)),
                        _ => Err(PrintError::Batches(error)),
                    };
                }
            };
            written = to.write_all(&text);
            rows += more;
            text.clear();
            let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
            if spare.len() < SPARE_MAX {
                spare.push(text);
            }
        }
        finished(written.and_then(|()| to.flush()), rows)
    }
}

fn finished<E>(written: io::Result<()>, rows: u64) -> Result<u64, PrintError<E>> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(PrintError::Write(error)),
        _ => Ok(rows),
    }
}
