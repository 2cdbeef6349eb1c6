//! Which flows belong to a window of time.
//!
//! A flow without `start` or `end` is taken to have happened when it was `received`.

use arrow::array::{Array, ArrayRef, AsArray, TimestampMillisecondArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::TimestampMillisecondType;
use weir_flow::Column;

use crate::{TimeWindow, WindowRule};

/// One end of a window: flows belong to it whose time lies in a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WindowEnd {
    /// `start` or `end`.
    pub(super) column: Column,
    pub(super) first_ms: i64,
    pub(super) last_ms: i64,
}

/// The ends that a window has.
pub(super) fn ends(window: &TimeWindow) -> Vec<WindowEnd> {
    let (lower, upper, strict) = match window.rule {
        WindowRule::Overlaps => (Column::End, Column::Start, 0),
        WindowRule::Inside => (Column::Start, Column::End, 1),
    };
    // nothing is later than the last time: then the range is empty
    let range = |column, first: Option<i64>, last: Option<i64>| match first.zip(last) {
        Some((first_ms, last_ms)) => WindowEnd { column, first_ms, last_ms },
        None => WindowEnd { column, first_ms: i64::MAX, last_ms: i64::MIN },
    };
    let from = window.from_ms.map(|from| range(lower, from.checked_add(strict), Some(i64::MAX)));
    let until = window.until_ms.map(|until| range(upper, Some(i64::MIN), until.checked_sub(strict)));
    from.into_iter().chain(until).collect()
}

/// The columns that decide whether a flow belongs to a window with these ends.
pub(super) fn columns(ends: &[WindowEnd]) -> impl Iterator<Item = Column> {
    ends.iter().flat_map(|end| [end.column, Column::Received])
}

/// Whether a segment may have flows of the window, by the times in its name.
pub(crate) fn may_have(window: &TimeWindow, time_range_ms: Option<(i64, i64)>) -> bool {
    // flows without times may be anywhere; segments whose flows all lack them have no range
    let Some((min, max)) = time_range_ms else { return true };
    window.from_ms.is_none_or(|from| max >= from) && window.until_ms.is_none_or(|until| min <= until)
}

impl WindowEnd {
    fn has(&self, ms: i64) -> bool {
        self.first_ms <= ms && ms <= self.last_ms
    }

    /// Whether a row may need `received` to be decided about.
    pub(super) fn needs_received(values: Option<&ArrayRef>) -> bool {
        values.is_none_or(|values| values.null_count() > 0)
    }

    /// Which of `rows` rows are on the right side of this end. `received` may be left out when it is not needed.
    pub(super) fn mask(&self, rows: usize, values: Option<&ArrayRef>, received: Option<&ArrayRef>) -> BooleanBuffer {
        let times = values.and_then(|values| values.as_primitive_opt::<TimestampMillisecondType>());
        if let Some(times) = times.filter(|times| times.null_count() == 0) {
            let values = times.values();
            return BooleanBuffer::collect_bool(rows, |row| self.has(values[row]));
        }
        let received = received.and_then(|values| values.as_primitive_opt::<TimestampMillisecondType>());
        let time_of = |row: usize| {
            let known = |times: &TimestampMillisecondArray| times.is_valid(row).then(|| times.value(row));
            times.and_then(known).or_else(|| received.and_then(known))
        };
        BooleanBuffer::collect_bool(rows, |row| time_of(row).is_some_and(|ms| self.has(ms)))
    }
}
