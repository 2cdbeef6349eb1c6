//! Rows that any component made, as flows that an archive takes.

use std::sync::Arc;
use std::time::SystemTime;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::TimestampMillisecondType;
use weir_chain::ComponentError;
use weir_flow::{Column, FlowBatch};

/// How rows become flows that an archive takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fit {
    /// Whether rows without `received` were received now, rather than when they ended.
    pub(super) received_now: bool,
    /// Whether columns that flows do not have are left out.
    pub(super) drop: bool,
}

impl Fit {
    /// The rows as flows. A column that flows do not have is an error unless such ones are left out.
    pub(super) fn flows(self, rows: &RecordBatch) -> Result<FlowBatch, ComponentError> {
        let schema = rows.schema();
        let mut columns = Vec::with_capacity(rows.num_columns() + 1);
        for (field, values) in schema.fields().iter().zip(rows.columns()) {
            match Column::by_name(field.name()) {
                Some(column) => columns.push((column, Arc::clone(values))),
                None if self.drop => {}
                None => {
                    let message =
                        format!("'{}' is no column of flows (extra_columns = \"drop\" leaves it out)", field.name());
                    return Err(ComponentError::new(message));
                }
            }
        }
        let received = columns.iter().position(|(column, _)| *column == Column::Received);
        let find = |wanted| columns.iter().find(|(column, _)| *column == wanted).map(|(_, values)| Arc::clone(values));
        let times = [find(Column::End), find(Column::Start)];
        match received {
            Some(at) if columns[at].1.null_count() == 0 => {}
            Some(at) => columns[at].1 = self.received(rows.num_rows(), Some(&columns[at].1), &times),
            None => columns.push((Column::Received, self.received(rows.num_rows(), None, &times))),
        }
        columns.sort_by_key(|(column, _)| *column);
        FlowBatch::from_columns(rows.num_rows(), columns)
            .map_err(|error| ComponentError::caused("the rows are no flows", error))
    }

    /// The column `received`: what is there, else the first of the times that is, else now.
    fn received(self, rows: usize, received: Option<&ArrayRef>, times: &[Option<ArrayRef>]) -> ArrayRef {
        let now_ms = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as i64);
        let times = if self.received_now { &[] } else { times };
        let value = |values: Option<&ArrayRef>, row: usize| {
            let times = values?.as_primitive_opt::<TimestampMillisecondType>()?;
            times.is_valid(row).then(|| times.value(row))
        };
        let told = (0..rows).map(|row| {
            let told = value(received, row).or_else(|| times.iter().find_map(|times| value(times.as_ref(), row)));
            told.unwrap_or(now_ms)
        });
        Arc::new(TimestampMillisecondArray::from_iter_values(told).with_timezone("UTC"))
    }
}
