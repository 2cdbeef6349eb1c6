//! What is handed on: rows as they came, and pairs with the values of both.

use std::sync::Arc;

use arrow::array::{ArrayRef, PrimitiveArray, RecordBatch};
use arrow::datatypes::{ArrowPrimitiveType, FieldRef, Schema};
use arrow::datatypes::{TimestampMillisecondType, UInt16Type, UInt64Type};
use weir_chain::{ComponentError, Outlet};
use weir_flow::Column;
use weir_flow::schema::{arrow_type, field};

use super::flows::{Flow, Stitched};
use weir_rows::by_start::RowStore;
use weir_rows::flow_columns::{number, numbers, place_of};
use weir_rows::gather::Pick;

/// Rows of a burst, at most.
const BURST_ROWS_MAX: usize = 8192;

/// Rows on their way out, in their order.
#[derive(Debug, Default)]
pub(super) struct HandedOn {
    picks: Vec<Pick>,
    stitched: Vec<Option<Stitched>>,
}

impl HandedOn {
    /// A row as it came.
    pub(super) fn as_it_is(&mut self, pick: Pick) {
        self.picks.push(pick);
        self.stitched.push(None);
    }

    /// A row or a pair.
    pub(super) fn flow(&mut self, flow: &Flow) {
        self.picks.push(flow.record.pick);
        self.stitched.push(flow.stitched);
    }

    /// Puts the rows out and begins anew.
    pub(super) fn put_out(&mut self, store: &mut RowStore, out: &mut Outlet) -> Result<(), ComponentError> {
        for (picks, stitched) in self.picks.chunks(BURST_ROWS_MAX).zip(self.stitched.chunks(BURST_ROWS_MAX)) {
            out.rows(with_both(&store.gather(picks)?, stitched)?);
        }
        self.picks.clear();
        self.stitched.clear();
        Ok(())
    }
}

fn with_both(rows: &RecordBatch, stitched: &[Option<Stitched>]) -> Result<RecordBatch, ComponentError> {
    type Time = TimestampMillisecondType;
    let changed: [(Column, ArrayRef); 5] = [
        (Column::Start, mixed::<Time>(rows, stitched, Column::Start, |pair| Some(pair.start))?),
        (Column::End, mixed::<Time>(rows, stitched, Column::End, |pair| pair.end)?),
        (Column::TcpFlags, mixed::<UInt16Type>(rows, stitched, Column::TcpFlags, |pair| pair.tcp_flags)?),
        (Column::BytesReverse, mixed::<UInt64Type>(rows, stitched, Column::BytesReverse, |pair| pair.bytes_reverse)?),
        (
            Column::PacketsReverse,
            mixed::<UInt64Type>(rows, stitched, Column::PacketsReverse, |pair| pair.packets_reverse)?,
        ),
    ];
    let mut fields: Vec<FieldRef> = rows.schema_ref().fields().to_vec();
    let mut columns = rows.columns().to_vec();
    for (column, values) in changed {
        match place_of(fields.iter().map(|field| &**field), column) {
            Ok(place) => columns[place] = values,
            Err(place) => {
                fields.insert(place, Arc::new(field(column)));
                columns.insert(place, values);
            }
        }
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
        .map_err(|error| ComponentError::caused("rows cannot be put together again", error))
}

/// A column with the values of pairs where there are pairs, and those of the rows elsewhere.
fn mixed<T: ArrowPrimitiveType>(
    rows: &RecordBatch,
    stitched: &[Option<Stitched>],
    column: Column,
    of_pair: impl Fn(&Stitched) -> Option<T::Native>,
) -> Result<ArrayRef, ComponentError> {
    let before = numbers::<T>(rows, column)?;
    let values = stitched.iter().enumerate().map(|(row, pair)| match pair {
        Some(pair) => of_pair(pair),
        None => number(before, row),
    });
    let values: PrimitiveArray<T> = values.collect();
    Ok(Arc::new(values.with_data_type(arrow_type(column.column_type()))))
}
