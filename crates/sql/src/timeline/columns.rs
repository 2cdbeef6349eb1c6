//! The columns of a batch that a time line is drawn of.

use arrow::array::{Array, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch};
use arrow::datatypes::{TimestampMillisecondType, UInt64Type};
use weir_flow::Column;

type Times = PrimitiveArray<TimestampMillisecondType>;

/// The columns of a batch; one that is absent, or has nothing but nulls, is `None`.
pub(super) struct FlowColumns<'a> {
    starts: Option<&'a Times>,
    ends: Option<&'a Times>,
    received: Option<&'a Times>,
    counts: Option<&'a PrimitiveArray<UInt64Type>>,
    /// What a flow without a count has.
    count_default: Option<u64>,
}

impl<'a> FlowColumns<'a> {
    pub(super) fn of(batch: &'a RecordBatch, counted: Column, count_default: Option<u64>) -> Self {
        Self {
            starts: column(batch, Column::Start),
            ends: column(batch, Column::End),
            received: column(batch, Column::Received),
            counts: column(batch, counted),
            count_default,
        }
    }

    /// When the flow of a row begins and ends; `None` when it has no time.
    pub(super) fn times(&self, row: usize) -> Option<(i64, i64)> {
        let end = value(self.ends, row);
        let start = value(self.starts, row).or(end).or_else(|| value(self.received, row))?;
        Some((start, end.unwrap_or(start).max(start)))
    }

    pub(super) fn count(&self, row: usize) -> Option<u64> {
        value(self.counts, row).or(self.count_default)
    }

    /// The same columns where each flow has a start, an end and a count.
    pub(super) fn without_nulls(&self) -> Option<WholeColumns<'a>> {
        let counts = match self.counts {
            None if self.count_default == Some(1) => None,
            counts => Some(slice(counts)?),
        };
        Some(WholeColumns { starts: slice(self.starts)?, ends: slice(self.ends)?, counts })
    }
}

/// Columns without nulls.
#[derive(Debug, Clone, Copy)]
pub(super) struct WholeColumns<'a> {
    starts: &'a [i64],
    ends: &'a [i64],
    /// `None` when each flow is one.
    counts: Option<&'a [u64]>,
}

impl WholeColumns<'_> {
    /// The first and the last millisecond in which flows are; `None` without flows. A flow that ends with a millisecond is not
    /// in the next one.
    pub(super) fn range_ms(&self) -> Option<(i64, i64)> {
        let ranges = self.starts.iter().zip(self.ends).map(|(start, end)| (*start, last_ms(*start, *end)));
        ranges.reduce(|(first, last), (other_first, other_last)| (first.min(other_first), last.max(other_last)))
    }

    /// Start and end of each flow.
    pub(super) fn times(&self) -> impl Iterator<Item = (i64, i64)> {
        self.starts.iter().zip(self.ends).map(|(start, end)| (*start, (*end).max(*start)))
    }

    pub(super) fn count(&self, row: usize) -> u64 {
        self.counts.map_or(1, |counts| counts[row])
    }
}

/// The last millisecond in which a flow is.
pub(super) fn last_ms(start_ms: i64, end_ms: i64) -> i64 {
    start_ms.max(end_ms.saturating_sub(1))
}

fn column<T: ArrowPrimitiveType>(batch: &RecordBatch, column: Column) -> Option<&PrimitiveArray<T>> {
    let values = batch.column_by_name(column.name())?.as_primitive_opt::<T>()?;
    (values.null_count() < values.len()).then_some(values)
}

fn value<T: ArrowPrimitiveType>(values: Option<&PrimitiveArray<T>>, row: usize) -> Option<T::Native> {
    values.filter(|values| values.is_valid(row)).map(|values| values.value(row))
}

/// The values of a column without nulls.
fn slice<T: ArrowPrimitiveType>(values: Option<&PrimitiveArray<T>>) -> Option<&[T::Native]> {
    values.filter(|values| values.null_count() == 0).map(|values| &values.values()[..])
}
