//! Matches as columns.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, TimestampMillisecondArray, UInt64Array,
};
use arrow::datatypes::{Field, Schema, SchemaRef};
use weir_chain::ComponentError;
use weir_flow::builder::NumberColumn;
use weir_flow::{Column, FlowBatchBuilder};

use super::rows::Row;
use weir_rows::five_tuple;

/// Rows that are to be handed on.
pub(super) struct Output {
    passes: bool,
    /// Names of the columns that are handed on; all when there is none.
    columns: Vec<String>,
    /// Each row of the first input, of the second, or both.
    pairs: Vec<(Option<Row>, Option<Row>)>,
    schema: Option<SchemaRef>,
}

/// The columns of the first input, which are columns of flows.
const FLOW_COLUMNS: [Column; 9] = [
    Column::Start,
    Column::End,
    Column::SrcAddr,
    Column::DstAddr,
    Column::SrcPort,
    Column::DstPort,
    Column::Protocol,
    Column::Packets,
    Column::Bytes,
];
/// Those of the key.
const KEY_COLUMNS: [Column; 5] = [Column::SrcAddr, Column::DstAddr, Column::SrcPort, Column::DstPort, Column::Protocol];

/// A column that flows do not have.
enum Own {
    /// A time of the second input.
    Time(fn(&Row) -> Option<i64>),
    /// A count of the second input.
    Count(fn(&Row) -> u64),
    /// A difference of first and second.
    Difference(fn(&Row, &Row) -> Option<i64>),
}

const OWN_COLUMNS: [(&str, Own); 8] = [
    ("start_second", Own::Time(|row| row.start)),
    ("end_second", Own::Time(|row| row.end)),
    ("packets_second", Own::Count(|row| row.packets)),
    ("bytes_second", Own::Count(|row| row.bytes)),
    ("start_difference_ms", Own::Difference(|first, second| second.start?.checked_sub(first.start?))),
    ("end_difference_ms", Own::Difference(|first, second| second.end?.checked_sub(first.end?))),
    ("packets_difference", Own::Difference(|first, second| Some(first.packets.wrapping_sub(second.packets) as i64))),
    ("bytes_difference", Own::Difference(|first, second| Some(first.bytes.wrapping_sub(second.bytes) as i64))),
];

/// Whether matches have a column of this name.
pub(super) fn is_column(name: &str) -> bool {
    FLOW_COLUMNS.iter().any(|column| column.name() == name) || OWN_COLUMNS.iter().any(|(own, _)| *own == name)
}

impl Output {
    pub(super) fn new(passes: bool, columns: Vec<String>) -> Self {
        Self { passes, columns, pairs: Vec::new(), schema: None }
    }

    pub(super) fn matched(&mut self, first: &Row, second: &Row) {
        self.pairs.push((Some(*first), Some(*second)));
    }

    pub(super) fn unmatched(&mut self, input: usize, row: &Row) {
        if self.passes {
            self.pairs.push(if input == 0 { (Some(*row), None) } else { (None, Some(*row)) });
        }
    }

    fn wants(&self, name: &str) -> bool {
        self.columns.is_empty() || self.columns.iter().any(|column| column == name)
    }

    /// Everything since the last time, as one batch.
    pub(super) fn finish(&mut self) -> Result<Option<RecordBatch>, ComponentError> {
        if self.pairs.is_empty() {
            return Ok(None);
        }
        let flows = self.flow_columns();
        let mut columns: Vec<ArrayRef> = flows.columns().to_vec();
        let own: Vec<_> = OWN_COLUMNS.iter().filter(|(name, _)| self.wants(name)).collect();
        columns.extend(own.iter().map(|(_, own)| self.own_column(own)));
        let schema = self.schema.get_or_insert_with(|| {
            let flow_fields = flows.schema();
            let own = own.iter().zip(&columns[flows.num_columns()..]);
            let own = own.map(|((name, _), values)| Arc::new(Field::new(*name, values.data_type().clone(), true)));
            Arc::new(Schema::new(flow_fields.fields().iter().cloned().chain(own).collect::<Vec<_>>()))
        });
        let options = RecordBatchOptions::new().with_row_count(Some(self.pairs.len()));
        self.pairs.clear();
        RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
            .map(Some)
            .map_err(|error| ComponentError::caused("cannot make rows of matches", error))
    }

    /// Key, times and counts of the first input.
    fn flow_columns(&self) -> RecordBatch {
        let rows = self.pairs.len();
        let mut builder = FlowBatchBuilder::new(rows);
        builder.begin_rows(rows);
        let first = || self.pairs.iter().map(|(first, _)| first.as_ref());
        for column in FLOW_COLUMNS.into_iter().filter(|column| self.wants(column.name())) {
            match column {
                Column::Start => each(builder.time(column), first().map(|row| row.and_then(|row| row.start))),
                Column::End => each(builder.time(column), first().map(|row| row.and_then(|row| row.end))),
                Column::Packets => each(builder.u64(column), first().map(|row| row.map(|row| row.packets))),
                Column::Bytes => each(builder.u64(column), first().map(|row| row.map(|row| row.bytes))),
                _ => {}
            }
        }
        if !KEY_COLUMNS.iter().any(|column| self.wants(column.name())) {
            return builder.finish().record_batch().clone();
        }
        let either = self.pairs.iter().filter_map(|(first, second)| first.as_ref().or(second.as_ref()));
        let keys: Vec<_> = either.map(|row| row.key).collect();
        five_tuple::append(&mut builder, keys.iter().copied());
        let flows = builder.finish().record_batch().clone();
        let wanted = flows.schema().fields().iter().map(|field| self.wants(field.name())).collect::<Vec<_>>();
        let wanted: Vec<_> = wanted.iter().enumerate().filter(|(_, wanted)| **wanted).map(|(at, _)| at).collect();
        flows.project(&wanted).unwrap_or(flows)
    }

    /// What the second input has, or a difference.
    fn own_column(&self, own: &Own) -> ArrayRef {
        let second = || self.pairs.iter().map(|(_, second)| second.as_ref());
        match own {
            Own::Time(of) => {
                let times: TimestampMillisecondArray = second().map(|row| of(row?)).collect();
                Arc::new(times.with_timezone("UTC"))
            }
            Own::Count(of) => Arc::new(second().map(|row| row.map(of)).collect::<UInt64Array>()),
            Own::Difference(of) => {
                let both = self.pairs.iter().map(|(first, second)| of(first.as_ref()?, second.as_ref()?));
                Arc::new(both.collect::<Int64Array>())
            }
        }
    }
}

fn each<T: arrow::datatypes::ArrowPrimitiveType>(
    column: &mut NumberColumn<T>,
    values: impl Iterator<Item = Option<T::Native>>,
) {
    values.for_each(|value| column.push(value));
}
