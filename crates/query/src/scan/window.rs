//! Which flows belong to a window of time.
//!
//! A flow without `start` or `end` is taken to have happened when it was `received`.

use arrow::array::{Array, BooleanArray, TimestampMillisecondArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::TimestampMillisecondType;
use weir_flow::{Column, FlowBatch};

use crate::{TimeWindow, WindowRule};

/// The columns that decide whether a flow belongs to the window.
pub(super) fn columns(window: &TimeWindow) -> &'static [Column] {
    match window {
        TimeWindow { from_ms: None, until_ms: None, .. } => &[],
        _ => &[Column::Received, Column::Start, Column::End],
    }
}

/// Whether a segment may have flows of the window, by the times in its name.
pub(crate) fn may_have(window: &TimeWindow, time_range_ms: Option<(i64, i64)>) -> bool {
    // flows without times may be anywhere; segments whose flows all lack them have no range
    let Some((min, max)) = time_range_ms else { return true };
    window.from_ms.is_none_or(|from| max >= from) && window.until_ms.is_none_or(|until| min <= until)
}

/// Which rows belong to the window; `None` for all.
pub(super) fn mask(window: &TimeWindow, batch: &FlowBatch) -> Option<BooleanArray> {
    let (lower, upper) = match window.rule {
        WindowRule::Overlaps => (Column::End, Column::Start),
        WindowRule::Inside => (Column::Start, Column::End),
    };
    let strict = window.rule == WindowRule::Inside;
    let of_lower =
        window.from_ms.map(|from| test(batch, lower, |time| if strict { time > from } else { time >= from }));
    let of_upper =
        window.until_ms.map(|until| test(batch, upper, |time| if strict { time < until } else { time <= until }));
    let bits = match (of_lower, of_upper) {
        (Some(a), Some(b)) => &a & &b,
        (one, other) => one.or(other)?,
    };
    Some(BooleanArray::from(bits))
}

fn test(batch: &FlowBatch, column: Column, passes: impl Fn(i64) -> bool) -> BooleanBuffer {
    let rows = batch.rows();
    let times: Option<&TimestampMillisecondArray> = batch.primitive::<TimestampMillisecondType>(column);
    let received: Option<&TimestampMillisecondArray> = batch.primitive::<TimestampMillisecondType>(Column::Received);
    if let Some(times) = times.filter(|times| times.null_count() == 0) {
        let values = times.values();
        return BooleanBuffer::collect_bool(rows, |row| passes(values[row]));
    }
    let time_of = |row: usize| {
        let known = |times: &TimestampMillisecondArray| times.is_valid(row).then(|| times.value(row));
        times.and_then(known).or_else(|| received.and_then(known))
    };
    BooleanBuffer::collect_bool(rows, |row| time_of(row).is_some_and(&passes))
}
