//! The values of records that are joined, row by row.

use arrow::array::{Array, AsArray, PrimitiveArray, RecordBatch};
use arrow::datatypes::{ArrowPrimitiveType, TimestampMillisecondType, UInt16Type, UInt64Type};
use weir_chain::ComponentError;
use weir_flow::Column;
use weir_flow::schema::arrow_type;

/// Which values a record or a flow has.
pub(super) const HAS_PACKETS: u16 = 1 << 0;
pub(super) const HAS_BYTES: u16 = 1 << 1;
pub(super) const HAS_TCP_FLAGS: u16 = 1 << 2;
pub(super) const HAS_PACKETS_REVERSE: u16 = 1 << 3;
pub(super) const HAS_BYTES_REVERSE: u16 = 1 << 4;
pub(super) const HAS_REVERSE: u16 = HAS_PACKETS_REVERSE | HAS_BYTES_REVERSE;
/// All bits above.
pub(super) const HAS_ALL: u16 = (1 << 5) - 1;
const HAS_START: u16 = 1 << 5;
const HAS_END: u16 = 1 << 6;
const HAS_RECEIVED: u16 = 1 << 7;

/// A record. What it does not have is 0.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Record {
    pub(super) start: i64,
    pub(super) end: i64,
    received: i64,
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) flows: u64,
    pub(super) tcp_flags: u16,
    pub(super) has: u16,
}

impl Record {
    /// Whether there is a start or an end. When there is one of them, the other is the same.
    pub(super) fn has_time(&self) -> bool {
        self.has & (HAS_START | HAS_END) != 0
    }

    /// The time by which records are sorted.
    pub(super) fn time(&self, by: Column) -> Option<i64> {
        match by {
            Column::Start => Some(self.start),
            Column::End => Some(self.end),
            _ => (self.has & HAS_RECEIVED != 0).then_some(self.received),
        }
    }
}

/// The records of a batch; the memory is kept for the next one.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) rows: Vec<Record>,
    /// Packets and octets of the opposite direction, when there are such columns.
    reverse: Vec<[u64; 2]>,
}

impl Records {
    /// Reads a batch. `received` is read when asked for.
    pub(super) fn fill(&mut self, batch: &RecordBatch, with_received: bool) -> Result<(), ComponentError> {
        self.rows.clear();
        self.rows.resize(batch.num_rows(), Record { flows: 1, ..Record::default() });
        self.reverse.clear();
        let rows = &mut self.rows;
        each::<TimestampMillisecondType>(batch, Column::Start, rows, HAS_START, |record, value| record.start = value)?;
        each::<TimestampMillisecondType>(batch, Column::End, rows, HAS_END, |record, value| record.end = value)?;
        each::<UInt64Type>(batch, Column::Packets, rows, HAS_PACKETS, |record, value| record.packets = value)?;
        each::<UInt64Type>(batch, Column::Bytes, rows, HAS_BYTES, |record, value| record.bytes = value)?;
        each::<UInt64Type>(batch, Column::Flows, rows, 0, |record, value| record.flows = value)?;
        each::<UInt16Type>(batch, Column::TcpFlags, rows, HAS_TCP_FLAGS, |record, value| record.tcp_flags = value)?;
        if with_received {
            let set = |record: &mut Record, value| record.received = value;
            each::<TimestampMillisecondType>(batch, Column::Received, rows, HAS_RECEIVED, set)?;
        }
        for record in rows.iter_mut().filter(|record| record.has & (HAS_START | HAS_END) != HAS_START | HAS_END) {
            match record.has & HAS_START {
                0 => record.start = record.end,
                _ => record.end = record.start,
            }
        }
        self.fill_reverse(batch, Column::PacketsReverse, 0, HAS_PACKETS_REVERSE)?;
        self.fill_reverse(batch, Column::BytesReverse, 1, HAS_BYTES_REVERSE)
    }

    fn fill_reverse(&mut self, batch: &RecordBatch, column: Column, at: usize, has: u16) -> Result<(), ComponentError> {
        let Some(values) = typed::<UInt64Type>(batch, column)? else { return Ok(()) };
        self.reverse.resize(self.rows.len(), [0; 2]);
        for (row, record) in self.rows.iter_mut().enumerate().filter(|(row, _)| values.is_valid(*row)) {
            record.has |= has;
            self.reverse[row][at] = values.value(row);
        }
        Ok(())
    }

    /// Packets and octets of the opposite direction.
    pub(super) fn reverse(&self, row: usize) -> [u64; 2] {
        self.reverse.get(row).copied().unwrap_or_default()
    }
}

fn typed<T: ArrowPrimitiveType>(
    batch: &RecordBatch,
    column: Column,
) -> Result<Option<&PrimitiveArray<T>>, ComponentError> {
    let Some(values) = batch.column_by_name(column.name()) else { return Ok(None) };
    values.as_primitive_opt::<T>().map(Some).ok_or_else(|| {
        let (found, needed) = (values.data_type(), arrow_type(column.column_type()));
        ComponentError::new(format!("column '{column}' has type {found}, but {needed} is needed"))
    })
}

fn each<T: ArrowPrimitiveType>(
    batch: &RecordBatch,
    column: Column,
    rows: &mut [Record],
    has: u16,
    set: impl Fn(&mut Record, T::Native),
) -> Result<(), ComponentError> {
    let Some(values) = typed::<T>(batch, column)? else { return Ok(()) };
    let all = values.null_count() == 0;
    for (row, (record, &value)) in rows.iter_mut().zip(values.values()).enumerate() {
        if all || values.is_valid(row) {
            record.has |= has;
            set(record, value);
        }
    }
    Ok(())
}
