//! Rows as lines of tags.

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;

use super::cells::{Cell, Style};
use super::layout::{Layout, Piece};
use weir_print::digits::ZonedClock;
use weir_print::printer::{Flush, RowFormat};

/// Writes rows by a layout.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    pub(super) layout: Layout,
    pub(super) style: Style,
    pub(super) clock: ZonedClock,
    pub(super) header: bool,
    /// Rows written so far.
    pub(super) rows: u64,
}

enum Part<'a> {
    Literal(&'a [u8]),
    Cell(Box<Cell<'a>>),
}

impl RowFormat for Lines {
    fn begin(&mut self, _schema: &Schema, text: &mut Vec<u8>) {
        if self.header {
            text.extend_from_slice(self.layout.heading.as_bytes());
            text.push(b'\n');
        }
    }

    fn batch(&mut self, batch: &RecordBatch, text: &mut Vec<u8>, flush: &mut Flush<'_>) -> std::io::Result<()> {
        let part = |piece| match piece {
            &Piece::Field(field) => Part::Cell(Box::new(Cell::new(field, batch))),
            Piece::Literal(literal) => Part::Literal(literal.as_bytes()),
        };
        let parts: Vec<Part<'_>> = self.layout.pieces.iter().map(part).collect();
        for row in 0..batch.num_rows() {
            let count = self.rows + row as u64 + 1;
            for part in &parts {
                match part {
                    Part::Literal(literal) => text.extend_from_slice(literal),
                    Part::Cell(cell) => cell.push(row, count, self.style, &mut self.clock, text),
                }
            }
            text.push(b'\n');
            flush.when_full(text)?;
        }
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    fn end(&mut self, _text: &mut Vec<u8>) {}
}
