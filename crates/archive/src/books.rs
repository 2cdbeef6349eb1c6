//! The books of an archive, added up: no query engine is needed for that.
//!
//! Only segments that the time range touches are opened, by the ranges of times in their names, and their rows are added
//! batch by batch: memory goes with the number of exporters, and not with the length of the range.

pub(crate) mod days;
pub(crate) mod fold;

use weir_flow::books::{BooksSums, Completeness, KEY_DOCS};
use weir_flow::{Counter, Table};

use crate::removed::explained;
use crate::{ArchiveError, Segment, Snapshot};

impl Snapshot {
    /// The books of the minutes that a time range touches (milliseconds since the epoch, `end_ms` not included), added
    /// up by exporter. Segments written before a counter existed have none of it. Of days whose books are kept by day
    /// the whole day counts, see [`BooksSums::cut_days`].
    pub fn books(&self, start_ms: i64, end_ms: i64) -> Result<BooksSums, ArchiveError> {
        self.books_of(Counter::ALL, start_ms, end_ms)
    }

    /// How complete the flows of a time range are, which is as wide as that of [`books`](Self::books). Only the counters
    /// are read that say it.
    pub fn completeness(&self, start_ms: i64, end_ms: i64) -> Result<Completeness, ArchiveError> {
        Ok(self.books_of(Completeness::COUNTERS, start_ms, end_ms)?.completeness())
    }

    fn books_of(&self, counters: &[Counter], start_ms: i64, end_ms: i64) -> Result<BooksSums, ArchiveError> {
        let keys: Vec<&str> = KEY_DOCS.iter().map(|(name, _)| *name).collect();
        let counters: Vec<&str> = counters.iter().map(|counter| counter.name()).collect();
        let touches = |segment: &&Segment| {
            let covered = segment.time_range_ms.map(days::covered);
            covered.is_none_or(|(first, end)| first < end_ms && start_ms < end)
        };
        let mut sums = BooksSums::default();
        for segment in self.segments(Table::ExporterBooks).iter().filter(touches) {
            let read = segment.read_counters(&keys, &counters, |rows| sums.add_rows(&rows, start_ms, end_ms));
            read.map_err(|error| explained(segment, error))?;
        }
        for rows in self.tail(Table::ExporterBooks)? {
            sums.add_rows(&rows, start_ms, end_ms);
        }
        Ok(sums)
    }
}
