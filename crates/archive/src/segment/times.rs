//! The range of times of a segment's rows.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{Field, TimestampMillisecondType, UInt16Type};
use weir_flow::books::SPAN_COLUMN;

/// The range of times in a segment's name, while its columns are written.
#[derive(Debug, Default)]
pub(super) struct TimeRange {
    told: Option<(i64, i64)>,
    received: Option<(i64, i64)>,
    /// Some row has no start or no end. It counts as having happened when it was received.
    is_lacking: bool,
}

impl TimeRange {
    /// A column has no value.
    pub(super) fn lacks(&mut self, field: &Field) {
        self.is_lacking |= matches!(field.name().as_str(), "start" | "end");
    }

    pub(super) fn add(&mut self, field: &Field, values: &ArrayRef) {
        if field.name() == SPAN_COLUMN {
            return self.cover(arrow::compute::max(values.as_primitive::<UInt16Type>()));
        }
        if let Some(times) = values.as_primitive_opt::<TimestampMillisecondType>() {
            self.widen(field, arrow::compute::min(times).zip(arrow::compute::max(times)), times.null_count() > 0);
        }
    }

    /// Times of a column lie in this range, and some rows have none.
    pub(super) fn widen(&mut self, field: &Field, range: Option<(i64, i64)>, nulls: bool) {
        let into = match field.name().as_str() {
            "start" | "end" | "minute" => &mut self.told,
            "received" => &mut self.received,
            _ => return,
        };
        *into = wider(*into, range);
        if nulls {
            self.lacks(field);
        }
    }

    /// Rows of the books cover so many minutes at most. Those that cover more than one cover all of a day: then the range
    /// ends with the last millisecond of the day, at which no minute begins.
    fn cover(&mut self, span_minutes_max: Option<u16>) {
        if let (Some((_, last)), Some(span)) = (&mut self.told, span_minutes_max.filter(|span| *span > 1)) {
            let span_ms = i64::from(span) * 60_000;
            *last = last.saturating_sub(last.rem_euclid(span_ms)).saturating_add(span_ms - 1);
        }
    }

    pub(super) fn finish(self) -> Option<(i64, i64)> {
        match self.told {
            Some(told) if self.is_lacking => wider(Some(told), self.received),
            told => told,
        }
    }
}

fn wider(a: Option<(i64, i64)>, b: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (one, other) => one.or(other),
    }
}
