//! A batch of flows.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BinaryArray, RecordBatch, RecordBatchOptions, StringArray, UInt64Array, new_null_array,
};
use arrow::datatypes::{ArrowPrimitiveType, Schema};

use crate::elements::without_empty_lists;
use crate::schema::{arrow_type, field};
use crate::{Column, Table};

/// A batch of flows as Arrow columns: some of the columns of [`Column`], in its order. An absent column means that
/// every value is null.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowBatch {
    batch: RecordBatch,
    /// Position of each column in `batch`, [`ABSENT`] when it is not there.
    positions: [u8; Column::COUNT],
}

const ABSENT: u8 = u8::MAX;

/// The batch with null where a row has no elements, so that rows do not depend on what was in their batch.
fn without_empty_lists_of(batch: RecordBatch, elements: u8) -> RecordBatch {
    let Some(found) = batch.columns().get(usize::from(elements)) else { return batch };
    let lists = without_empty_lists(found);
    if Arc::ptr_eq(&lists, found) {
        return batch;
    }
    let mut columns = batch.columns().to_vec();
    columns[usize::from(elements)] = lists;
    RecordBatch::try_new(batch.schema(), columns).unwrap_or(batch)
}

/// Why a record batch is not a batch of flows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// A field that is not in the column table.
    #[error("'{0}' is not a column of flows")]
    UnknownColumn(String),
    /// A field whose type is not that of the column table.
    #[error("column '{column}' has type {found}, but {expected} is needed")]
    WrongType {
        /// The column.
        column: Column,
        /// Its type in the batch.
        found: String,
        /// Its type in the table.
        expected: String,
    },
    /// Fields out of the order of the column table, or twice.
    #[error("column '{0}' is out of order or twice")]
    OutOfOrder(Column),
}

impl FlowBatch {
    /// Takes a record batch whose fields are columns of flows in the order of the table. Empty lists of elements become
    /// null.
    pub fn try_new(batch: RecordBatch) -> Result<Self, BatchError> {
        let mut positions = [ABSENT; Column::COUNT];
        let mut last = None;
        for (position, found) in batch.schema_ref().fields().iter().enumerate() {
            let column =
                Column::by_name(found.name()).ok_or_else(|| BatchError::UnknownColumn(found.name().clone()))?;
            if last >= Some(column) {
                return Err(BatchError::OutOfOrder(column));
            }
            let expected = arrow_type(column.column_type());
            if *found.data_type() != expected {
                let (found, expected) = (found.data_type().to_string(), expected.to_string());
                return Err(BatchError::WrongType { column, found, expected });
            }
            last = Some(column);
            positions[column as usize] = position as u8;
        }
        Ok(Self { batch: without_empty_lists_of(batch, positions[Column::Elements as usize]), positions })
    }

    /// Builds a batch of `rows` rows from the columns that are present.
    pub fn from_columns(rows: usize, columns: Vec<(Column, ArrayRef)>) -> Result<Self, BatchError> {
        let fields: Vec<_> = columns.iter().map(|(column, _)| field(*column)).collect();
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        match RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options) {
            Ok(batch) => Self::try_new(batch),
            Err(error) => Err(BatchError::UnknownColumn(error.to_string())),
        }
    }

    /// Number of flows.
    pub fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// The columns that are present, as Arrow sees them.
    pub fn record_batch(&self) -> &RecordBatch {
        &self.batch
    }

    /// The values of a column, or `None` when all of them are null.
    pub fn column(&self, column: Column) -> Option<&ArrayRef> {
        match self.positions[column as usize] {
            ABSENT => None,
            position => Some(self.batch.column(usize::from(position))),
        }
    }

    /// A column of numbers or times. `None` when it is absent or of another type.
    pub fn primitive<T: ArrowPrimitiveType>(&self, column: Column) -> Option<&arrow::array::PrimitiveArray<T>> {
        self.column(column)?.as_primitive_opt::<T>()
    }

    /// A column of addresses, MAC addresses or octets. `None` when it is absent or of another type.
    pub fn binary(&self, column: Column) -> Option<&BinaryArray> {
        self.column(column)?.as_binary_opt::<i32>()
    }

    /// A column of text. `None` when it is absent or of another type.
    pub fn text(&self, column: Column) -> Option<&StringArray> {
        self.column(column)?.as_string_opt::<i32>()
    }

    /// Sum of a 64-bit counter column, nulls counting as 0.
    pub fn sum(&self, column: Column) -> u64 {
        let values: Option<&UInt64Array> = self.primitive(column);
        values.and_then(arrow::compute::sum).unwrap_or(0)
    }

    /// The same flows with every column of the schema, absent ones as nulls.
    pub fn to_full(&self) -> RecordBatch {
        let schema = Table::Flows.schema();
        let columns = Column::ALL.iter().map(|&column| match self.column(column) {
            Some(values) => Arc::clone(values),
            None => new_null_array(schema.field(column as usize).data_type(), self.rows()),
        });
        RecordBatch::try_new(Arc::clone(&schema), columns.collect()).unwrap_or_else(|_| RecordBatch::new_empty(schema))
    }
}
