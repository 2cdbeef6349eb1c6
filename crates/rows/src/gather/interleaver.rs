//! Rows of several batches.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ArrowNativeType, DataType, FieldRef, SchemaRef};
use weir_chain::ComponentError;

use super::octets::{self, OctetSlice};
use super::source::{Source, Sources, Values};
use super::{Pick, assemble, cannot_gather, numbers, some_nulls};

/// Batches from which rows are taken, with the columns of one schema.
#[derive(Debug)]
pub struct Interleaver<'a> {
    schema: SchemaRef,
    batches: Vec<Sources<'a>>,
    /// For each field of the schema, which column of each batch that is; empty when that is the same one everywhere.
    positions: Vec<Vec<Option<usize>>>,
}

impl<'a> Interleaver<'a> {
    /// Looks at the columns of batches. Columns that are not in `schema` are left out, and those that a batch does not
    /// have are null for its rows.
    pub fn new(schema: &SchemaRef, batches: impl IntoIterator<Item = &'a RecordBatch>) -> Self {
        let batches: Vec<Sources> = batches.into_iter().map(Sources::new).collect();
        let same = batches.iter().all(|batch| Arc::ptr_eq(batch.schema, schema) || batch.schema == schema);
        let positions = schema.fields().iter().filter(|_| !same).map(|field| {
            let position = |batch: &Sources| batch.schema.index_of(field.name()).ok();
            batches.iter().map(position).collect()
        });
        let positions = positions.collect();
        Self { schema: Arc::clone(schema), batches, positions }
    }

    /// The rows of the picks, in this order.
    ///
    /// # Panics
    /// When a pick is not one of the batches.
    pub fn take(&self, picks: &[Pick]) -> Result<RecordBatch, ComponentError> {
        let fields = self.schema.fields().iter().enumerate();
        let columns = fields.map(|(position, field)| self.column(position, field, picks)).collect::<Result<_, _>>()?;
        assemble(Arc::clone(&self.schema), columns, picks.len())
    }

    fn column(&self, position: usize, field: &FieldRef, picks: &[Pick]) -> Result<ArrayRef, ComponentError> {
        let source = |number: usize| -> Option<&Source> {
            let batch = &self.batches[number];
            let position = self.positions.get(position).map_or(Some(position), |positions| positions[number])?;
            Some(&batch.columns[position])
        };
        let sources: Vec<Option<&Source>> = (0..self.batches.len()).map(source).collect();
        let Some(first) = sources.iter().flatten().next() else {
            return Ok(new_null_array(field.data_type(), picks.len()));
        };
        for source in sources.iter().flatten() {
            super::same_type(field, source.field)?;
        }
        macro_rules! number {
            ($width:ident) => {{
                let values = sources.iter().map(|source| match source.map(|source| &source.values) {
                    Some(Values::$width(values)) => *values,
                    _ => &[],
                });
                interleave_numbers(field.data_type(), &values.collect::<Vec<_>>(), &sources, picks)
            }};
        }
        match first.values {
            Values::Width1(_) => number!(Width1),
            Values::Width2(_) => number!(Width2),
            Values::Width4(_) => number!(Width4),
            Values::Width8(_) => number!(Width8),
            Values::Octets(_) => {
                let values = sources.iter().map(|source| match &source.as_ref()?.values {
                    Values::Octets(values) => Some(values),
                    _ => None,
                });
                octets::interleave(&values.collect::<Vec<Option<&OctetSlice>>>(), picks, nulls(&sources, picks))
            }
            Values::Others(_) => interleave_others(field.data_type(), &sources, picks),
        }
    }
}

fn interleave_numbers<T: ArrowNativeType>(
    data_type: &DataType,
    values: &[&[T]],
    sources: &[Option<&Source>],
    picks: &[Pick],
) -> Result<ArrayRef, ComponentError> {
    let taken: Vec<T> = if sources.iter().all(Option::is_some) {
        picks.iter().map(|pick| values[pick.batch as usize][pick.row as usize]).collect()
    } else {
        // what a batch without the column has is null, so its value does not matter
        picks
            .iter()
            .map(|pick| values[pick.batch as usize].get(pick.row as usize).copied().unwrap_or_default())
            .collect()
    };
    numbers(data_type, taken, nulls(sources, picks))
}

/// Which of the picks are null; `None` when no source can have nulls.
fn nulls(sources: &[Option<&Source>], picks: &[Pick]) -> Option<NullBuffer> {
    if sources.iter().all(|source| source.is_some_and(|source| source.nulls.is_none())) {
        return None;
    }
    some_nulls(picks.len(), |at| match sources[picks[at].batch as usize].map(|source| source.nulls) {
        None => false,
        Some(None) => true,
        Some(Some(nulls)) => nulls.is_valid(picks[at].row as usize),
    })
}

fn interleave_others(
    data_type: &DataType,
    sources: &[Option<&Source>],
    picks: &[Pick],
) -> Result<ArrayRef, ComponentError> {
    let null = new_null_array(data_type, 1);
    let arrays = sources.iter().map(|source| match source.map(|source| &source.values) {
        Some(Values::Others(column)) => column.as_ref(),
        _ => null.as_ref(),
    });
    let arrays: Vec<&dyn Array> = arrays.collect();
    let index = |pick: &Pick| {
        let row = sources[pick.batch as usize].map_or(0, |_| pick.row as usize);
        (pick.batch as usize, row)
    };
    let indices: Vec<(usize, usize)> = picks.iter().map(index).collect();
    arrow::compute::interleave(&arrays, &indices).map_err(cannot_gather)
}
