//! Text made on several threads, written in order.
//!
//! Making text costs more than making rows, and rows do not depend on each other. Pieces of batches are dealt out to
//! threads in turn, and their texts are taken back in the same turn, so the order needs no sorting and what waits is
//! bounded. What speaks against it is that a piece that takes long holds up those behind it; pieces are small enough.
//! Short answers are written without any thread.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Scope;

use arrow::array::RecordBatch;

use crate::printer::{Flush, PrintError, RowFormat};

/// Rows whose text is made at once.
const PIECE_ROWS: usize = 8192;

/// Answers of fewer rows need no threads.
const ALONE_ROWS_MAX: usize = 2048;

/// Pieces that each thread may be ahead.
const PIECES_AHEAD: usize = 2;

/// A piece of work: rows, the number of rows before them, and a buffer for the text.
struct Piece {
    batch: RecordBatch,
    rows_before: u64,
    text: Vec<u8>,
}

struct Worker {
    pieces: SyncSender<Piece>,
    texts: Receiver<Vec<u8>>,
}

/// Writes `heading` and the rows of all batches, and returns their number. Each thread has a maker of its own, which
/// `place` sets how many rows came before those that it is given next.
pub fn write<E, R: RowFormat + Send>(
    batches: impl Iterator<Item = Result<RecordBatch, E>>,
    threads: usize,
    to: &mut dyn Write,
    heading: Vec<u8>,
    make: impl Fn() -> R,
    place: impl Fn(&mut R, u64) + Copy + Send,
) -> Result<u64, PrintError<E>> {
    std::thread::scope(|scope| {
        let mut alone = make();
        let mut crew = Crew { workers: Vec::new(), sent: 0, taken: 0, spare: Vec::new() };
        let (mut rows, mut text) = (0, heading);
        for batch in batches {
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    crew.take_all(to).map_err(PrintError::Write)?;
                    return Err(PrintError::Batches(error));
                }
            };
            if threads <= 1 || crew.is_idle() && batch.num_rows() <= ALONE_ROWS_MAX {
                place(&mut alone, rows);
                alone.batch(&batch, &mut text, &mut Flush::new(to)).map_err(PrintError::Write)?;
                to.write_all(&text).map_err(PrintError::Write)?;
                text.clear();
                rows += batch.num_rows() as u64;
                continue;
            }
            while crew.workers.len() < threads {
                crew.workers.push(hire(scope, make(), place));
            }
            to.write_all(&text).map_err(PrintError::Write)?;
            text.clear();
            for start in (0..batch.num_rows()).step_by(PIECE_ROWS) {
                let piece = batch.slice(start, PIECE_ROWS.min(batch.num_rows() - start));
                rows += crew.send(piece, rows, to).map_err(PrintError::Write)?;
            }
        }
        // the heading, when there was nothing below it
        to.write_all(&text).map_err(PrintError::Write)?;
        crew.take_all(to).map_err(PrintError::Write)?;
        Ok(rows)
    })
}

fn hire<'scope, R: RowFormat + Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    mut rows: R,
    place: impl Fn(&mut R, u64) + Send + 'scope,
) -> Worker {
    let (pieces, to_do) = sync_channel::<Piece>(PIECES_AHEAD);
    let (done, texts) = sync_channel(PIECES_AHEAD);
    scope.spawn(move || {
        for Piece { batch, rows_before, mut text } in to_do {
            place(&mut rows, rows_before);
            // the text is kept whole: nothing is written here, so nothing fails
            let made = rows.batch(&batch, &mut text, &mut Flush::never());
            if made.is_err() || done.send(text).is_err() {
                return;
            }
        }
    });
    Worker { pieces, texts }
}

/// The threads, and how far they are.
struct Crew {
    workers: Vec<Worker>,
    sent: usize,
    taken: usize,
    spare: Vec<Vec<u8>>,
}

impl Crew {
    fn is_idle(&self) -> bool {
        self.sent == self.taken
    }

    /// Gives a piece to the next thread, and writes what is ready. Returns the rows of the piece.
    fn send(&mut self, batch: RecordBatch, rows_before: u64, to: &mut dyn Write) -> io::Result<u64> {
        if self.sent - self.taken == self.workers.len() * PIECES_AHEAD {
            self.take(to)?;
        }
        let rows = batch.num_rows() as u64;
        let text = self.spare.pop().unwrap_or_default();
        let worker = &self.workers[self.sent % self.workers.len()];
        worker.pieces.send(Piece { batch, rows_before, text }).map_err(|_| gone())?;
        self.sent += 1;
        while !self.is_idle() {
            match self.workers[self.taken % self.workers.len()].texts.try_recv() {
                Ok(text) => self.write(text, to)?,
                Err(_) => break,
            }
        }
        Ok(rows)
    }

    fn take_all(&mut self, to: &mut dyn Write) -> io::Result<()> {
        while !self.is_idle() {
            self.take(to)?;
        }
        Ok(())
    }

    fn take(&mut self, to: &mut dyn Write) -> io::Result<()> {
        let text = self.workers[self.taken % self.workers.len()].texts.recv().map_err(|_| gone())?;
        self.write(text, to)
    }

    fn write(&mut self, mut text: Vec<u8>, to: &mut dyn Write) -> io::Result<()> {
        self.taken += 1;
        to.write_all(&text)?;
        text.clear();
        self.spare.push(text);
        Ok(())
    }
}

fn gone() -> io::Error {
    io::Error::other("a thread that makes text has ended")
}

/// Writes the rows of all batches on this thread.
pub fn write_alone<E>(
    batches: impl Iterator<Item = Result<RecordBatch, E>>,
    rows: &mut dyn RowFormat,
    to: &mut dyn Write,
) -> Result<u64, PrintError<E>> {
    let (mut count, mut text) = (0, Vec::new());
    for batch in batches {
        let batch = batch.map_err(PrintError::Batches)?;
        rows.batch(&batch, &mut text, &mut Flush::new(to)).map_err(PrintError::Write)?;
        to.write_all(&text).map_err(PrintError::Write)?;
        text.clear();
        count += batch.num_rows() as u64;
    }
    Ok(count)
}
