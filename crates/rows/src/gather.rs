//! Rows by index, from one batch or from several, into new columns.
//!
//! Components with a state keep columns and hand on rows in another order than they came in. Arrow's own kernels for that work for
//! every type and are slow for the few types that flows are made of, so numbers, times and addresses have plain loops
//! here: a number is copied by its index, and octets whose values are all equally long (4 for IPv4) are copied as
//! numbers of that width, without looking at their offsets. Everything else goes to Arrow's kernels, at their speed.
//!
//! Batches of one window may have different columns. An absent column means that every value is null, so what comes out
//! has the columns of all batches together, see [`united`].

mod interleaver;
mod octets;
mod source;
mod store;

use std::sync::Arc;

use arrow::array::{ArrayData, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::{ArrowNativeType, DataType, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use weir_chain::ComponentError;
use weir_flow::Column;

pub use interleaver::Interleaver;
pub use source::Sources;
use source::{Source, Values};
pub use store::RowStore;

/// A row of one of several batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pick {
    /// Index of the batch.
    pub batch: u32,
    /// Index of the row in it.
    pub row: u32,
}

/// The rows of a batch that have these indexes, in this order. An index may come more than once.
///
/// # Panics
/// When an index is not one of the batch.
pub fn take(batch: &RecordBatch, rows: &[u32]) -> Result<RecordBatch, ComponentError> {
    let columns = batch.columns().iter().map(|column| take_column(column, rows)).collect::<Result<_, _>>()?;
    assemble(batch.schema(), columns, rows.len())
}

/// The values of a column that have these indexes, in this order.
///
/// # Panics
/// When an index is not one of the column.
pub fn take_column(column: &ArrayRef, rows: &[u32]) -> Result<ArrayRef, ComponentError> {
    let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0);
    let nulls = nulls.and_then(|nulls| some_nulls(rows.len(), |at| nulls.is_valid(rows[at] as usize)));
    let data_type = column.data_type();
    match Values::of(column) {
        Values::Width1(values) => numbers(data_type, pick(values, rows), nulls),
        Values::Width2(values) => numbers(data_type, pick(values, rows), nulls),
        Values::Width4(values) => numbers(data_type, pick(values, rows), nulls),
        Values::Width8(values) => numbers(data_type, pick(values, rows), nulls),
        Values::Octets(values) => octets::take(&values, rows, nulls),
        Values::Others(column) => {
            arrow::compute::take(column, &UInt32Array::from(rows.to_vec()), None).map_err(cannot_gather)
        }
    }
}

fn pick<T: Copy>(values: &[T], rows: &[u32]) -> Vec<T> {
    rows.iter().map(|&row| values[row as usize]).collect()
}

/// A column of numbers, from values of the same width.
fn numbers<T: ArrowNativeType>(
    data_type: &DataType,
    values: Vec<T>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ComponentError> {
    let builder = ArrayData::builder(data_type.clone()).len(values.len()).nulls(nulls);
    builder.add_buffer(Buffer::from_vec(values)).build().map(make_array).map_err(cannot_gather)
}

/// Which of some values are there, `None` when all are.
fn some_nulls(len: usize, is_valid: impl FnMut(usize) -> bool) -> Option<NullBuffer> {
    Some(NullBuffer::new(BooleanBuffer::collect_bool(len, is_valid))).filter(|nulls| nulls.null_count() > 0)
}

/// Rows of several batches, in the order of the picks. The columns are those of [`united`]; a value is null when its
/// batch has no such column. See [`Interleaver`] for taking rows of the same batches several times.
///
/// # Panics
/// When a pick is not one of the batches.
pub fn interleave(batches: &[RecordBatch], picks: &[Pick]) -> Result<RecordBatch, ComponentError> {
    let schema = united(batches.iter().map(RecordBatch::schema_ref))?;
    Interleaver::new(&schema, batches).take(picks)
}

/// The schema that has the columns of all of these: those of flows in the order of their table, others after them in
/// the order in which they first come. Fails when a column has two types.
pub fn united<'a>(schemas: impl IntoIterator<Item = &'a SchemaRef>) -> Result<SchemaRef, ComponentError> {
    let mut found: Vec<&SchemaRef> = Vec::new();
    for schema in schemas {
        // batches from one place most often have the same schema
        if !found.iter().rev().take(4).any(|known| Arc::ptr_eq(known, schema) || *known == schema) {
            found.push(schema);
        }
    }
    if let [only] = found[..] {
        return Ok(Arc::clone(only));
    }
    let mut fields: Vec<FieldRef> = Vec::new();
    for field in found.into_iter().flat_map(|schema| schema.fields()) {
        match fields.iter().find(|known| known.name() == field.name()) {
            None => fields.push(Arc::clone(field)),
            Some(known) => same_type(known, field)?,
        }
    }
    fields.sort_by_key(flow_position);
    Ok(Arc::new(Schema::new(fields)))
}

/// Makes batches of equal schemas share one, so that what depends on the schema is worked out once.
#[derive(Debug, Default)]
pub struct SharedSchema(Option<SchemaRef>);

impl SharedSchema {
    /// The same batch, with the schema of the one before when they are equal.
    pub fn share(&mut self, batch: RecordBatch) -> RecordBatch {
        match &self.0 {
            Some(known) if Arc::ptr_eq(known, batch.schema_ref()) => batch,
            Some(known) if known == batch.schema_ref() => batch.clone().with_schema(Arc::clone(known)).unwrap_or(batch),
            _ => {
                self.0 = Some(batch.schema());
                batch
            }
        }
    }
}

/// The position of a field in the table of flow columns; what is not there comes after it.
fn flow_position(field: &FieldRef) -> usize {
    Column::by_name(field.name()).map_or(Column::COUNT, |column| column as usize)
}

fn same_type(first: &FieldRef, second: &FieldRef) -> Result<(), ComponentError> {
    if first.data_type() == second.data_type() {
        return Ok(());
    }
    let (name, first, second) = (first.name(), first.data_type(), second.data_type());
    Err(ComponentError::new(format!("column '{name}' is {first} in some rows and {second} in others")))
}

fn cannot_gather(error: ArrowError) -> ComponentError {
    ComponentError::caused("cannot gather rows", error)
}

fn assemble(schema: SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, ComponentError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, columns, &options).map_err(cannot_gather)
}

#[cfg(test)]
mod tests;
