//! Columns of which a flow keeps the first value.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, RecordBatch, TimestampMillisecondArray, UInt8Array, UInt16Array,
    UInt32Array, UInt64Array,
};
use arrow::datatypes::{TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use weir_chain::{ComponentError, OptionError};
use weir_flow::schema::arrow_type;
use weir_flow::{Column, ColumnType};

/// A value of any column that can be kept.
#[derive(Debug, Clone, Copy, Default)]
struct Value {
    octets: [u8; 16],
    /// 0 for null, otherwise one more than the number of octets.
    length: u8,
}

#[derive(Debug)]
struct KeptColumn {
    column: Column,
    /// Of the rows of the last batch.
    rows: Vec<Value>,
    /// Of the flows, by their places in the table.
    flows: Vec<Value>,
}

/// The first values of flows.
#[derive(Debug)]
pub(super) struct Kept(Vec<KeptColumn>);

impl Kept {
    /// Values of these columns. Those that can be of any length are refused.
    pub(super) fn new(columns: &[Column]) -> Result<Self, OptionError> {
        let kept = columns.iter().map(|&column| match column.column_type() {
            ColumnType::Octets | ColumnType::Text | ColumnType::Elements => {
                Err(OptionError::new("keep", format!("'{column}' cannot be kept")))
            }
            _ => Ok(KeptColumn { column, rows: Vec::new(), flows: Vec::new() }),
        });
        kept.collect::<Result<_, _>>().map(Self)
    }

    /// Reads the values of a batch.
    pub(super) fn read(&mut self, batch: &RecordBatch) -> Result<(), ComponentError> {
        for kept in &mut self.0 {
            kept.rows.clear();
            kept.rows.resize(batch.num_rows(), Value::default());
            let Some(values) = batch.column_by_name(kept.column.name()) else { continue };
            let expected = arrow_type(kept.column.column_type());
            if *values.data_type() != expected {
                let (column, found) = (kept.column, values.data_type());
                return Err(ComponentError::new(format!(
                    "column '{column}' has type {found}, but {expected} is needed"
                )));
            }
            for (row, value) in kept.rows.iter_mut().enumerate().filter(|(row, _)| values.is_valid(*row)) {
                *value = Value::of(kept.column, values, row);
            }
        }
        Ok(())
    }

    /// A flow begins with a row.
    #[inline]
    pub(super) fn set(&mut self, flow: u32, row: usize) {
        let flow = flow as usize;
        for kept in &mut self.0 {
            if kept.flows.len() <= flow {
                kept.flows.resize(flow + 1, Value::default());
            }
            kept.flows[flow] = kept.rows[row];
        }
    }

    /// The columns of some flows.
    pub(super) fn columns(&self, flows: &[u32]) -> Vec<(Column, ArrayRef)> {
        self.0.iter().map(|kept| (kept.column, kept.column_of(flows))).collect()
    }

    /// Octets of memory.
    pub(super) fn octets(&self) -> usize {
        self.0.iter().map(|kept| (kept.rows.capacity() + kept.flows.capacity()) * size_of::<Value>()).sum()
    }
}

impl Value {
    fn of(column: Column, values: &ArrayRef, row: usize) -> Self {
        let number: u64 = match column.column_type() {
            ColumnType::U8 => values.as_primitive::<UInt8Type>().value(row).into(),
            ColumnType::U16 => values.as_primitive::<UInt16Type>().value(row).into(),
            ColumnType::U32 => values.as_primitive::<UInt32Type>().value(row).into(),
            ColumnType::U64 => values.as_primitive::<UInt64Type>().value(row),
            ColumnType::Time => values.as_primitive::<TimestampMillisecondType>().value(row) as u64,
            _ => {
                let (mut octets, value) = ([0; 16], values.as_binary::<i32>().value(row));
                return match octets.get_mut(..value.len()) {
                    Some(target) => {
                        target.copy_from_slice(value);
                        Self { octets, length: value.len() as u8 + 1 }
                    }
                    // no address is that long
                    None => Self::default(),
                };
            }
        };
        let mut octets = [0; 16];
        octets[..8].copy_from_slice(&number.to_le_bytes());
        Self { octets, length: 9 }
    }

    fn number(&self) -> Option<u64> {
        let [low, _] = self.octets.as_chunks::<8>().0 else { return None };
        (self.length > 0).then_some(u64::from_le_bytes(*low))
    }

    fn octets(&self) -> Option<&[u8]> {
        self.octets.get(..usize::from(self.length.checked_sub(1)?))
    }
}

impl KeptColumn {
    fn column_of(&self, flows: &[u32]) -> ArrayRef {
        let values = flows.iter().map(|&flow| &self.flows[flow as usize]);
        match self.column.column_type() {
            ColumnType::U8 => Arc::new(values.map(|v| Some(v.number()? as u8)).collect::<UInt8Array>()),
            ColumnType::U16 => Arc::new(values.map(|v| Some(v.number()? as u16)).collect::<UInt16Array>()),
            ColumnType::U32 => Arc::new(values.map(|v| Some(v.number()? as u32)).collect::<UInt32Array>()),
            ColumnType::U64 => Arc::new(values.map(Value::number).collect::<UInt64Array>()),
            ColumnType::Time => {
                let times = values.map(|v| Some(v.number()? as i64)).collect::<TimestampMillisecondArray>();
                Arc::new(times.with_timezone("UTC"))
            }
            _ => Arc::new(values.map(Value::octets).collect::<BinaryArray>()),
        }
    }
}
