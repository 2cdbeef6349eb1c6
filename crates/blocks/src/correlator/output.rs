//! Matches as columns.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMillisecondArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use weir_chain::BlockError;
use weir_flow::builder::NumberColumn;
use weir_flow::{Column, FlowBatchBuilder};

use super::rows::Row;
use crate::five_tuple;

/// Rows that are to be handed on.
pub(super) struct Output {
    passes: bool,
    /// Each row of the first input, of the second, or both.
    pairs: Vec<(Option<Row>, Option<Row>)>,
    schema: Option<SchemaRef>,
}

impl Output {
    pub(super) fn new(passes: bool) -> Self {
        Self { passes, pairs: Vec::new(), schema: None }
    }

    pub(super) fn matched(&mut self, first: &Row, second: &Row) {
        self.pairs.push((Some(*first), Some(*second)));
    }

    pub(super) fn unmatched(&mut self, input: usize, row: &Row) {
        if self.passes {
            self.pairs.push(if input == 0 { (Some(*row), None) } else { (None, Some(*row)) });
        }
    }

    /// Everything since the last time, as one batch.
    pub(super) fn finish(&mut self) -> Result<Option<RecordBatch>, BlockError> {
        if self.pairs.is_empty() {
            return Ok(None);
        }
        let flows = self.flow_columns();
        let mut columns: Vec<ArrayRef> = flows.columns().to_vec();
        columns.extend(self.own_columns());
        let schema = self.schema.get_or_insert_with(|| {
            let flow_fields = flows.schema();
            let fields = flow_fields.fields().iter().cloned().chain(own_fields().into_iter().map(Arc::new));
            Arc::new(Schema::new(fields.collect::<Vec<_>>()))
        });
        self.pairs.clear();
        RecordBatch::try_new(Arc::clone(schema), columns)
            .map(Some)
            .map_err(|error| BlockError::caused("cannot make rows of matches", error))
    }

    /// Key, times and counts of the first input.
    fn flow_columns(&self) -> RecordBatch {
        let rows = self.pairs.len();
        let mut builder = FlowBatchBuilder::new(rows);
        builder.begin_rows(rows);
        let first = || self.pairs.iter().map(|(first, _)| first.as_ref());
        each(builder.time(Column::Start), first().map(|row| row.and_then(|row| row.start)));
        each(builder.time(Column::End), first().map(|row| row.and_then(|row| row.end)));
        let keys: Vec<_> = self
            .pairs
            .iter()
            .filter_map(|(first, second)| first.as_ref().or(second.as_ref()))
            .map(|row| row.key)
            .collect();
        five_tuple::append(&mut builder, keys.iter().copied());
        each(builder.u64(Column::Packets), first().map(|row| row.map(|row| row.packets)));
        each(builder.u64(Column::Bytes), first().map(|row| row.map(|row| row.bytes)));
        builder.finish().record_batch().clone()
    }

    /// What the second input has, and the differences.
    fn own_columns(&self) -> Vec<ArrayRef> {
        let second = || self.pairs.iter().map(|(_, second)| second.as_ref());
        let both = || self.pairs.iter().map(|(first, second)| Some((first.as_ref()?, second.as_ref()?)));
        let times = |of: fn(&Row) -> Option<i64>| -> ArrayRef {
            let times: TimestampMillisecondArray = second().map(|row| of(row?)).collect();
            Arc::new(times.with_timezone("UTC"))
        };
        let counts =
            |of: fn(&Row) -> u64| -> ArrayRef { Arc::new(second().map(|row| row.map(of)).collect::<UInt64Array>()) };
        let differences = |of: fn(&Row, &Row) -> Option<i64>| -> ArrayRef {
            Arc::new(both().map(|rows| rows.and_then(|(first, second)| of(first, second))).collect::<Int64Array>())
        };
        vec![
            times(|row| row.start),
            times(|row| row.end),
            counts(|row| row.packets),
            counts(|row| row.bytes),
            differences(|first, second| second.start?.checked_sub(first.start?)),
            differences(|first, second| second.end?.checked_sub(first.end?)),
            differences(|first, second| Some(first.packets.wrapping_sub(second.packets) as i64)),
            differences(|first, second| Some(first.bytes.wrapping_sub(second.bytes) as i64)),
        ]
    }
}

fn own_fields() -> Vec<Field> {
    let time = || DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    [
        ("start_second", time()),
        ("end_second", time()),
        ("packets_second", DataType::UInt64),
        ("bytes_second", DataType::UInt64),
        ("start_difference_ms", DataType::Int64),
        ("end_difference_ms", DataType::Int64),
        ("packets_difference", DataType::Int64),
        ("bytes_difference", DataType::Int64),
    ]
    .into_iter()
    .map(|(name, data_type)| Field::new(name, data_type, true))
    .collect()
}

fn each<T: arrow::datatypes::ArrowPrimitiveType>(
    column: &mut NumberColumn<T>,
    values: impl Iterator<Item = Option<T::Native>>,
) {
    values.for_each(|value| column.push(value));
}
