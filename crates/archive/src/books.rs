//! The books of an archive, added up: no query engine is needed for that.

use weir_flow::Table;
use weir_flow::books::BooksSums;

use crate::{ArchiveError, Snapshot};

impl Snapshot {
    /// The books of the minutes that a time range touches (milliseconds since the epoch, `end_ms` not included), added
    /// up by exporter. Segments written before a counter existed have none of it.
    pub fn books(&self, start_ms: i64, end_ms: i64) -> Result<BooksSums, ArchiveError> {
        let mut sums = BooksSums::default();
        for segment in self.segments(Table::ExporterBooks) {
            for rows in segment.read()? {
                sums.add_rows(&rows, start_ms, end_ms);
            }
        }
        for rows in self.tail(Table::ExporterBooks) {
            sums.add_rows(rows, start_ms, end_ms);
        }
        Ok(sums)
    }
}
