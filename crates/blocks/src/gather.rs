//! Rows by index, from one batch or from several, into new columns.
//!
//! Window blocks keep columns and hand on rows in another order than they came in. Arrow's own kernels for that work for
//! every type and are slow for the few types that flows are made of, so numbers, times and addresses have plain loops
//! here: a number is copied by its index, and octets whose values are all equally long (4 for IPv4) are copied as
//! numbers of that width, without looking at their offsets. Everything else goes to Arrow's kernels, at their speed.
//!
//! Batches of one window may have different columns. An absent column means that every value is null, so what comes out
//! has the columns of all batches together, see [`united`].

mod octets;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, PrimitiveArray, RecordBatch, RecordBatchOptions,
    UInt32Array, downcast_primitive, new_null_array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use weir_chain::BlockError;
use weir_flow::Column;

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
pub fn take(batch: &RecordBatch, rows: &[u32]) -> Result<RecordBatch, BlockError> {
    let columns = batch.columns().iter().map(|column| take_column(column, rows)).collect::<Result<_, _>>()?;
    assemble(batch.schema(), columns, rows.len())
}

/// The values of a column that have these indexes, in this order.
///
/// # Panics
/// When an index is not one of the column.
pub fn take_column(column: &ArrayRef, rows: &[u32]) -> Result<ArrayRef, BlockError> {
    macro_rules! numbers {
        ($type:ty) => {
            Ok(Arc::new(take_numbers::<$type>(column.as_primitive(), rows)))
        };
    }
    downcast_primitive! {
        column.data_type() => (numbers),
        DataType::Binary => Ok(Arc::new(octets::take(column.as_binary(), rows)?)),
        _ => {
            let indices = UInt32Array::from(rows.to_vec());
            arrow::compute::take(column, &indices, None).map_err(|error| BlockError::caused("cannot gather rows", error))
        }
    }
}

fn take_numbers<T: ArrowPrimitiveType>(column: &PrimitiveArray<T>, rows: &[u32]) -> PrimitiveArray<T> {
    let values = column.values();
    let taken: Vec<_> = rows.iter().map(|&row| values[row as usize]).collect();
    let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0).and_then(|nulls| take_nulls(nulls, rows));
    PrimitiveArray::new(taken.into(), nulls).with_data_type(column.data_type().clone())
}

fn take_nulls(nulls: &NullBuffer, rows: &[u32]) -> Option<NullBuffer> {
    some_nulls(BooleanBuffer::collect_bool(rows.len(), |at| nulls.is_valid(rows[at] as usize)))
}

/// The nulls of a column, `None` when there are none.
fn some_nulls(valid: BooleanBuffer) -> Option<NullBuffer> {
    Some(NullBuffer::new(valid)).filter(|nulls| nulls.null_count() > 0)
}

/// Rows of several batches, in the order of the picks. The columns are those of [`united`]; a value is null when its
/// batch has no such column.
///
/// # Panics
/// When a pick is not one of the batches.
pub fn interleave(batches: &[RecordBatch], picks: &[Pick]) -> Result<RecordBatch, BlockError> {
    let schema = united(batches.iter().map(RecordBatch::schema_ref))?;
    interleave_as(&schema, batches, picks)
}

/// The same with the columns of `schema`, whatever the batches have; for callers that know it already.
///
/// # Panics
/// When a pick is not one of the batches.
pub fn interleave_as(schema: &SchemaRef, batches: &[RecordBatch], picks: &[Pick]) -> Result<RecordBatch, BlockError> {
    let mut columns = Vec::with_capacity(schema.fields().len());
    let same = batches.iter().all(|batch| Arc::ptr_eq(batch.schema_ref(), schema) || batch.schema_ref() == schema);
    for (position, field) in schema.fields().iter().enumerate() {
        let sources: Vec<Option<&ArrayRef>> = batches
            .iter()
            .map(|batch| if same { Some(batch.column(position)) } else { batch.column_by_name(field.name()) })
            .collect();
        columns.push(interleave_column(field.data_type(), &sources, picks)?);
    }
    assemble(Arc::clone(schema), columns, picks.len())
}

/// The schema that has the columns of all of these: those of flows in the order of their table, others after them in
/// the order in which they first come.
pub fn united<'a>(schemas: impl IntoIterator<Item = &'a SchemaRef>) -> Result<SchemaRef, BlockError> {
    let mut last: Option<&SchemaRef> = None;
    let mut fields: Vec<FieldRef> = Vec::new();
    for schema in schemas {
        if last.is_some_and(|last| Arc::ptr_eq(last, schema) || last == schema) {
            continue;
        }
        for field in schema.fields() {
            match fields.iter().find(|known| known.name() == field.name()) {
                None => fields.push(Arc::clone(field)),
                Some(known) if known.data_type() == field.data_type() => {}
                Some(known) => {
                    let (name, first, second) = (field.name(), known.data_type(), field.data_type());
                    return Err(BlockError::new(format!(
                        "column '{name}' is {first} in some rows and {second} in others"
                    )));
                }
            }
        }
        last = Some(schema);
    }
    fields.sort_by_key(|field| Column::by_name(field.name()).map_or(Column::COUNT, |column| column as usize));
    Ok(Arc::new(Schema::new(fields)))
}

fn interleave_column(
    data_type: &DataType,
    sources: &[Option<&ArrayRef>],
    picks: &[Pick],
) -> Result<ArrayRef, BlockError> {
    macro_rules! numbers {
        ($type:ty) => {{
            let columns: Vec<Option<&PrimitiveArray<$type>>> =
                sources.iter().map(|source| source.map(AsArray::as_primitive)).collect();
            Ok(Arc::new(interleave_numbers(&columns, picks).with_data_type(data_type.clone())))
        }};
    }
    downcast_primitive! {
        data_type => (numbers),
        DataType::Binary => {
            let columns: Vec<Option<&BinaryArray>> = sources.iter().map(|source| source.map(AsArray::as_binary)).collect();
            Ok(Arc::new(octets::interleave(&columns, picks)?))
        }
        _ => interleave_others(data_type, sources, picks),
    }
}

fn interleave_numbers<T: ArrowPrimitiveType>(
    sources: &[Option<&PrimitiveArray<T>>],
    picks: &[Pick],
) -> PrimitiveArray<T> {
    let values: Vec<&[T::Native]> = sources.iter().map(|source| source.map_or(&[][..], |s| s.values())).collect();
    let taken: Vec<T::Native> = if sources.iter().all(Option::is_some) {
        picks.iter().map(|pick| values[pick.batch as usize][pick.row as usize]).collect()
    } else {
        // what a batch without the column has is null, so its value does not matter
        picks
            .iter()
            .map(|pick| values[pick.batch as usize].get(pick.row as usize).copied().unwrap_or_default())
            .collect()
    };
    let arrays: Vec<_> = sources.iter().map(|source| source.map(|source| source as &dyn Array)).collect();
    PrimitiveArray::new(taken.into(), interleave_nulls(&arrays, picks))
}

/// Which of the picks are null; `None` when no source can have nulls.
fn interleave_nulls(sources: &[Option<&dyn Array>], picks: &[Pick]) -> Option<NullBuffer> {
    enum Validity<'a> {
        All,
        None,
        Some(&'a NullBuffer),
    }
    let validity: Vec<Validity> = sources
        .iter()
        .map(|source| match source.map(|source| source.nulls().filter(|nulls| nulls.null_count() > 0)) {
            None => Validity::None,
            Some(None) => Validity::All,
            Some(Some(nulls)) => Validity::Some(nulls),
        })
        .collect();
    if validity.iter().all(|validity| matches!(validity, Validity::All)) {
        return None;
    }
    some_nulls(BooleanBuffer::collect_bool(picks.len(), |at| match &validity[picks[at].batch as usize] {
        Validity::All => true,
        Validity::None => false,
        Validity::Some(nulls) => nulls.is_valid(picks[at].row as usize),
    }))
}

fn interleave_others(
    data_type: &DataType,
    sources: &[Option<&ArrayRef>],
    picks: &[Pick],
) -> Result<ArrayRef, BlockError> {
    let null = new_null_array(data_type, 1);
    let arrays: Vec<&dyn Array> = sources.iter().map(|source| source.map_or(null.as_ref(), |s| s.as_ref())).collect();
    let indices: Vec<(usize, usize)> = picks
        .iter()
        .map(|pick| (pick.batch as usize, if sources[pick.batch as usize].is_some() { pick.row as usize } else { 0 }))
        .collect();
    arrow::compute::interleave(&arrays, &indices).map_err(|error| BlockError::caused("cannot gather rows", error))
}

fn assemble(schema: SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, BlockError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, columns, &options)
        .map_err(|error| BlockError::caused("cannot gather rows", error))
}

#[cfg(test)]
mod tests;
