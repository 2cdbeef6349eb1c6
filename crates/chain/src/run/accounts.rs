//! The books of rows that a transform drops or changes.
//!
//! Flows come from a source with lines of the books that count them as stored, and these lines go past transforms to the sink.
//! A transform that drops flows, or makes other rows of them, would leave books that say more than a sink has. So what it
//! takes is counted as filtered and what it hands on as stored and made, and such lines go after those of the source. What speaks
//! against it is that rows which are held for a while count in both. Rows without books, as those of a generator, get none.

use arrow::array::RecordBatch;
use weir_flow::SideTables;
use weir_flow::books::ChangedRows;

/// Rows that may pass before the first lines of books: those of a source come with its flows.
const ROWS_WITHOUT_BOOKS_MAX: u64 = 1 << 17;

/// What a transform took and handed on.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    changed: ChangedRows,
    has_books: bool,
    /// Rows that came before any books.
    rows_without_books: u64,
}

impl Accounts {
    /// Counts rows that the transform takes, which may come with books.
    pub(crate) fn take(&mut self, rows: &RecordBatch, side_tables: &SideTables) {
        self.has_books |= side_tables.books.is_some();
        if !self.has_books && self.is_counting() {
            self.rows_without_books += rows.num_rows() as u64;
            if !self.is_counting() {
                self.changed = ChangedRows::default();
            }
        }
        if self.is_counting() && rows.num_rows() > 0 {
            self.changed.take(rows);
        }
    }

    /// Counts rows that it hands on.
    pub(crate) fn hand_on(&mut self, rows: &RecordBatch) {
        if self.is_counting() && rows.num_rows() > 0 {
            self.changed.make(rows);
        }
    }

    /// Adds the lines for what was counted, once there are books that they belong to.
    pub(crate) fn add_lines(&mut self, side_tables: &mut SideTables) {
        if !self.has_books {
            return;
        }
        let Some(lines) = self.changed.take_lines() else { return };
        side_tables.books = Some(match side_tables.books.take() {
            Some(books) => books.followed_by(&lines),
            None => lines,
        });
    }

    fn is_counting(&self) -> bool {
        self.has_books || self.rows_without_books <= ROWS_WITHOUT_BOOKS_MAX
    }
}
