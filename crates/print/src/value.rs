//! Single values as people read them, for labels and headings.

use arrow::array::ArrayRef;
use arrow::datatypes::Field;
use jiff::tz::TimeZone;

use crate::cell::Cells;
use crate::digits::Clock;
use crate::human::{Meaning, Writer};

/// The values of a column of one batch, each as tables have it: times in UTC, protocols by name, numbers in full.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{Array, ArrayRef, UInt8Array};
/// use arrow::datatypes::Field;
/// use weir_print::ColumnText;
/// let values: ArrayRef = Arc::new(UInt8Array::from(vec![Some(6), None]));
/// let mut column = ColumnText::new(&Field::new("protocol", values.data_type().clone(), true), &values);
/// let mut text = Vec::new();
/// (0..2).for_each(|row| column.push(row, &mut text));
/// assert_eq!(text, b"TCP-");
/// ```
pub struct ColumnText<'a> {
    cells: Cells<'a>,
    meaning: Meaning,
    writer: Writer,
}

impl std::fmt::Debug for ColumnText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ColumnText({:?})", self.meaning)
    }
}

impl<'a> ColumnText<'a> {
    /// Makes sense of a column.
    pub fn new(field: &Field, values: &'a ArrayRef) -> Self {
        let writer = Writer::new(TimeZone::UTC, false);
        Self { cells: Cells::new(field, values), meaning: Meaning::of(field), writer }
    }

    /// Appends the value in a row, in UTF-8 and without characters that a terminal obeys; `-` when it is null.
    pub fn push(&mut self, row: usize, text: &mut Vec<u8>) {
        self.writer.push(&self.cells, row, self.meaning, text);
    }
}

/// A time as ISO 8601 has it, in UTC: `2026-01-01T00:00:00.000Z`.
pub fn time_text(ms: i64) -> String {
    let mut text = Vec::with_capacity(24);
    Clock::new().push(&mut text, ms, b'T');
    text.push(b'Z');
    String::from_utf8(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Array, UInt64Array};

    use super::*;

    #[test]
    fn numbers_are_in_full_and_times_in_utc() {
        let bytes: ArrayRef = Arc::new(UInt64Array::from(vec![1_250_000]));
        let mut text = Vec::new();
        ColumnText::new(&Field::new("bytes", bytes.data_type().clone(), true), &bytes).push(0, &mut text);
        assert_eq!(text, b"1250000");
        // date -u -d @1700000000
        assert_eq!(time_text(1_700_000_000_007), "2023-11-14T22:13:20.007Z");
    }
}
