//! What the correlator needs of a flow, read column by column.

use std::collections::VecDeque;

use arrow::array::RecordBatch;
use arrow::datatypes::{TimestampMillisecondType, UInt64Type};
use weir_chain::ComponentError;
use weir_flow::Column;

use weir_rows::five_tuple::{Key, Keys};
use weir_rows::flow_columns::{number, numbers};

/// A flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub key: Key,
    /// The time by which inputs are merged; one of the next two.
    pub time: i64,
    pub start: Option<i64>,
    pub end: Option<i64>,
    pub packets: u64,
    pub bytes: u64,
}

/// Which time counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Times {
    Start,
    End,
}

/// Appends the rows of a batch that have a time; returns how many have none.
pub(super) fn read(rows: &RecordBatch, times: Times, to: &mut VecDeque<Row>) -> Result<u64, ComponentError> {
    let start = numbers::<TimestampMillisecondType>(rows, Column::Start)?;
    let end = numbers::<TimestampMillisecondType>(rows, Column::End)?;
    let packets = numbers::<UInt64Type>(rows, Column::Packets)?;
    let bytes = numbers::<UInt64Type>(rows, Column::Bytes)?;
    let keys = Keys::new(rows)?;
    let mut without_time = 0;
    to.reserve(rows.num_rows());
    for row in 0..rows.num_rows() {
        let (start, end) = (number(start, row), number(end, row));
        let Some(time) = (if times == Times::Start { start } else { end }) else {
            without_time += 1;
            continue;
        };
        let (packets, bytes) = (number(packets, row).unwrap_or(0), number(bytes, row).unwrap_or(0));
        to.push_back(Row { key: keys.key(row), time, start, end, packets, bytes });
    }
    Ok(without_time)
}
