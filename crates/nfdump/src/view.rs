//! Flows as nfdump counts them: every field has a value, and most orders add up both directions.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, RecordBatch, Scalar, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
    make_array,
};
use arrow::compute::kernels::numeric::add_wrapping;
use arrow::compute::kernels::zip::zip;
use arrow::compute::{is_not_null, take};
use arrow::datatypes::Schema;
use weir_flow::schema::field;
use weir_flow::{Column, ColumnType, FlowBatch};

/// The direction whose counters are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum CounterDirection {
    /// Counters of what came in.
    #[default]
    In,
    /// Counters of what went out, or of the reverse direction.
    Out,
    /// The sum of both.
    Both,
}

impl CounterDirection {
    /// The direction that an order of this name counts.
    pub(crate) fn of_order(name: &str) -> Self {
        match name {
            "flows" | "tstart" | "tend" | "duration" => Self::In,
            name if name.starts_with('o') => Self::Out,
            name if name.starts_with('i') => Self::In,
            _ => Self::Both,
        }
    }
}

/// How flows are seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct View {
    pub(crate) direction: CounterDirection,
    /// Columns that are 0 where a flow lacks them.
    pub(crate) zeros: Vec<Column>,
}

/// A counter, and its columns after the Observation Point and in the reverse direction.
const COUNTERS: [(Column, [Column; 2]); 2] = [
    (Column::Packets, [Column::PacketsOut, Column::PacketsReverse]),
    (Column::Bytes, [Column::BytesOut, Column::BytesReverse]),
];

impl View {
    /// The flows as they are seen.
    pub(crate) fn of(&self, flows: &FlowBatch) -> FlowBatch {
        let mut changed: Vec<(Column, ArrayRef)> = Vec::new();
        for (counter, others) in COUNTERS {
            let out = others.into_iter().find_map(|other| flows.column(other));
            match (self.direction, out) {
                (CounterDirection::In, _) | (CounterDirection::Both, None) => {}
                (CounterDirection::Out, out) => {
                    let out = out.map(|out| or_zero(out, counter));
                    changed.extend(out.or_else(|| zeros(counter, flows.rows())).map(|out| (counter, out)));
                }
                (CounterDirection::Both, Some(out)) => changed.extend(sum(flows.column(counter), out, counter)),
            }
        }
        for &column in &self.zeros {
            let values = match flows.column(column) {
                Some(values) if values.null_count() == 0 => continue,
                Some(values) => Some(or_zero(values, column)),
                None => zeros(column, flows.rows()),
            };
            changed.extend(values.map(|values| (column, values)));
        }
        if changed.is_empty() {
            return flows.clone();
        }
        let kept = Column::ALL.iter().filter(|column| changed.iter().all(|(changed, _)| changed != *column));
        let kept = kept.filter_map(|column| Some((*column, Arc::clone(flows.column(*column)?))));
        let mut columns: Vec<_> = kept.collect();
        columns.extend(changed);
        columns.sort_unstable_by_key(|(column, _)| *column);
        // the columns have the types that they had
        FlowBatch::from_columns(flows.rows(), columns).unwrap_or_else(|_| flows.clone())
    }
}

fn sum(counter: Option<&ArrayRef>, out: &ArrayRef, column: Column) -> Option<(Column, ArrayRef)> {
    let Some(counter) = counter else { return Some((column, or_zero(out, column))) };
    let sum = add_wrapping(&or_zero(counter, column), &or_zero(out, column)).ok()?;
    Some((column, sum))
}

/// The value that nfdump has for a field that a record lacks.
fn zero(column: Column) -> Option<ArrayRef> {
    Some(match column.column_type() {
        ColumnType::U8 => Arc::new(UInt8Array::from(vec![0])),
        ColumnType::U16 => Arc::new(UInt16Array::from(vec![0])),
        ColumnType::U32 => Arc::new(UInt32Array::from(vec![0])),
        ColumnType::U64 => Arc::new(UInt64Array::from(vec![0])),
        ColumnType::Address => Arc::new(BinaryArray::from(vec![&[0; 4][..]])),
        ColumnType::Mac => Arc::new(BinaryArray::from(vec![&[0; 6][..]])),
        _ => return None,
    })
}

pub(crate) fn zeros(column: Column, rows: usize) -> Option<ArrayRef> {
    take(&zero(column)?, &UInt32Array::from(vec![0; rows]), None).ok()
}

fn or_zero(values: &ArrayRef, column: Column) -> ArrayRef {
    let filled = zero(column).filter(|_| values.null_count() > 0).and_then(|zero| {
        let there = is_not_null(values).ok()?;
        zip(&there, &make_array(values.to_data()), &Scalar::new(zero)).ok()
    });
    filled.unwrap_or_else(|| Arc::clone(values))
}

/// The rows of an answer that have one address only, with an unspecified one of the same family on the other side.
pub(crate) fn with_other_address(batch: RecordBatch) -> RecordBatch {
    let sides = [Column::SrcAddr, Column::DstAddr];
    let [source, destination] = sides.map(|side| batch.column_by_name(side.name()));
    let (there, absent) = match (source, destination) {
        (Some(source), None) => (source, Column::DstAddr),
        (None, Some(destination)) => (destination, Column::SrcAddr),
        _ => return batch,
    };
    let Some(there) = there.as_binary_opt::<i32>() else { return batch };
    let other: BinaryArray =
        there.iter().map(|address| Some(&[0; 16][..address.map_or(4, |it| it.len().min(16))])).collect();
    let fields = batch.schema_ref().fields().iter().cloned().chain([Arc::new(field(absent))]);
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let columns = batch.columns().iter().cloned().chain([Arc::new(other) as ArrayRef]).collect();
    RecordBatch::try_new(schema, columns).unwrap_or(batch)
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{UInt32Type, UInt64Type};

    use super::*;

    fn flows() -> FlowBatch {
        let columns: Vec<(Column, ArrayRef)> = vec![
            (Column::SrcAs, Arc::new(UInt32Array::from(vec![Some(7), None]))),
            (Column::Bytes, Arc::new(UInt64Array::from(vec![Some(100), Some(200)]))),
            (Column::BytesOut, Arc::new(UInt64Array::from(vec![None, Some(5)]))),
        ];
        let mut columns = columns;
        columns.sort_unstable_by_key(|(column, _)| *column);
        FlowBatch::from_columns(2, columns).expect("a batch")
    }

    #[track_caller]
    fn check(direction: CounterDirection, bytes: &[u64]) {
        let seen = View { direction, zeros: vec![Column::SrcAs, Column::DstAs] }.of(&flows());
        let numbers = |column| seen.column(column).expect("a column").clone();
        assert_eq!(numbers(Column::Bytes).as_primitive::<UInt64Type>().values(), bytes);
        assert_eq!(numbers(Column::SrcAs).as_primitive::<UInt32Type>().values(), &[7, 0]);
        assert_eq!(numbers(Column::DstAs).as_primitive::<UInt32Type>().values(), &[0, 0]);
    }

    #[test]
    fn counters_of_one_way_or_both() {
        check(CounterDirection::In, &[100, 200]);
        check(CounterDirection::Out, &[0, 5]);
        check(CounterDirection::Both, &[100, 205]);
        assert_eq!(CounterDirection::of_order("obyte"), CounterDirection::Out);
        assert_eq!(
            (CounterDirection::of_order("ipkg"), CounterDirection::of_order("bps")),
            (CounterDirection::In, CounterDirection::Both)
        );
    }
}
