//! The columns of a batch, looked at once so that rows can be copied from them many times.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, downcast_primitive};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::{DataType, FieldRef, SchemaRef};

use super::octets::OctetSlice;

/// A batch, ready to be copied from.
#[derive(Debug)]
pub struct Sources<'a> {
    pub(crate) schema: &'a SchemaRef,
    pub(crate) columns: Vec<Source<'a>>,
}

#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) field: &'a FieldRef,
    pub(crate) values: Values<'a>,
    /// `None` when no value is null.
    pub(crate) nulls: Option<&'a NullBuffer>,
}

/// Values of a column. Numbers and times differ only in how many octets they have.
#[derive(Debug)]
pub(crate) enum Values<'a> {
    Width1(&'a [u8]),
    Width2(&'a [u16]),
    Width4(&'a [u32]),
    Width8(&'a [u64]),
    Octets(OctetSlice<'a>),
    /// What Arrow's kernels are for.
    Others(&'a ArrayRef),
}

impl<'a> Sources<'a> {
    /// Looks at the columns of a batch.
    pub fn new(batch: &'a RecordBatch) -> Self {
        let fields = batch.schema_ref().fields().iter();
        let columns = fields.zip(batch.columns()).map(|(field, column)| Source {
            field,
            values: Values::of(column),
            nulls: column.nulls().filter(|nulls| nulls.null_count() > 0),
        });
        Self { schema: batch.schema_ref(), columns: columns.collect() }
    }
}

impl<'a> Values<'a> {
    pub(crate) fn of(column: &'a ArrayRef) -> Self {
        macro_rules! number {
            ($type:ty) => {
                Self::numbers(column, column.as_primitive::<$type>().values().inner())
            };
        }
        downcast_primitive! {
            column.data_type() => (number),
            DataType::Binary => Self::Octets(OctetSlice::new(column.as_binary())),
            _ => Self::Others(column),
        }
    }

    fn numbers(column: &'a ArrayRef, buffer: &'a Buffer) -> Self {
        match column.data_type().primitive_width() {
            Some(1) => Self::Width1(buffer.typed_data()),
            Some(2) => Self::Width2(buffer.typed_data()),
            Some(4) => Self::Width4(buffer.typed_data()),
            Some(8) => Self::Width8(buffer.typed_data()),
            _ => Self::Others(column),
        }
    }
}
