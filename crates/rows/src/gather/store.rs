//! Rows that grow batch by batch.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use weir_chain::ComponentError;

use super::octets::StoredOctets;
use super::{Source, Sources, Values, assemble, cannot_gather, flow_position, numbers, some_nulls, take_column};

/// Rows copied from any batches into columns that grow.
///
/// Holding batches and remembering rows of them costs less when rows come in. But when few rows of each batch are
/// needed at a time, every value of every column is fetched from far away, and a batch of which one row is left is held
/// as a whole. Copying the rows that belong together into one store first is then the faster way, and what is held is
/// what is needed.
///
/// Batches may have different columns; those that a batch lacks are null for its rows.
#[derive(Debug, Default)]
pub struct RowStore {
    /// In the order in which they came.
    columns: Vec<StoredColumn>,
    rows: usize,
    /// Whether all batches had the same columns in the same order.
    same: bool,
    /// Rows for which columns have room from the beginning.
    capacity: usize,
    /// For the schema that came last, the position in `columns` of each of its fields.
    positions: Option<(SchemaRef, Vec<usize>)>,
}

#[derive(Debug)]
struct StoredColumn {
    field: FieldRef,
    values: StoredValues,
    /// Whether each value is there; empty when all are.
    valid: Vec<bool>,
    len: usize,
}

#[derive(Debug)]
enum StoredValues {
    Width1(Vec<u8>),
    Width2(Vec<u16>),
    Width4(Vec<u32>),
    Width8(Vec<u64>),
    Octets(StoredOctets),
    Others(Vec<ArrayRef>),
}

/// Rows of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rows<'a> {
    Range(usize, usize),
    Picked(&'a [u32]),
}

impl<'a> Rows<'a> {
    fn new(rows: &'a [u32]) -> Self {
        let (first, last) = (rows.first().copied().unwrap_or(0), rows.last().copied().unwrap_or(0));
        if last.wrapping_sub(first) as usize + 1 == rows.len() && rows.is_sorted_by(|one, next| one < next) {
            return Self::Range(first as usize, rows.len());
        }
        Self::Picked(rows)
    }

    pub(crate) fn len(self) -> usize {
        match self {
            Self::Range(_, len) => len,
            Self::Picked(rows) => rows.len(),
        }
    }

    #[inline]
    pub(crate) fn extend<T: Copy>(self, target: &mut Vec<T>, source: &[T]) {
        match self {
            Self::Range(from, len) => target.extend_from_slice(&source[from..from + len]),
            Self::Picked(rows) => target.extend(rows.iter().map(|&row| source[row as usize])),
        }
    }

    #[inline]
    pub(crate) fn for_each(self, mut each: impl FnMut(usize)) {
        match self {
            Self::Range(from, len) => (from..from + len).for_each(each),
            Self::Picked(rows) => rows.iter().for_each(|&row| each(row as usize)),
        }
    }
}

impl RowStore {
    /// A store without rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// A store without rows, with the capacity for this many.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { capacity, ..Self::default() }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// True when there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Octets of the values.
    pub fn octets(&self) -> usize {
        self.columns.iter().map(|column| column.values.octets() + column.valid.len()).sum()
    }

    /// Appends the rows of a batch that have these indexes, in this order.
    ///
    /// # Panics
    /// When an index is not one of the batch.
    pub fn append(&mut self, batch: &Sources, rows: &[u32]) -> Result<(), ComponentError> {
        if rows.is_empty() {
            return Ok(());
        }
        let known = self.positions.take().filter(|(schema, _)| Arc::ptr_eq(schema, batch.schema));
        let (schema, positions) = match known {
            Some(known) => known,
            None => (Arc::clone(batch.schema), self.positions_of(batch)?),
        };
        let rows = Rows::new(rows);
        for (source, &position) in batch.columns.iter().zip(&positions) {
            let column = &mut self.columns[position];
            column.pad_to(self.rows);
            column.append(source, rows)?;
        }
        self.positions = Some((schema, positions));
        self.rows += rows.len();
        Ok(())
    }

    /// Makes columns for those of a batch that are new, and returns where all of them are.
    fn positions_of(&mut self, batch: &Sources) -> Result<Vec<usize>, ComponentError> {
        let known = self.columns.iter().map(|known| &known.field);
        self.same = self.columns.is_empty() || self.same && known.eq(batch.schema.fields());
        for source in &batch.columns {
            match self.columns.iter().find(|known| known.field.name() == source.field.name()) {
                None => self.columns.push(StoredColumn::new(source, self.capacity)),
                Some(known) => super::same_type(&known.field, source.field)?,
            }
        }
        let position =
            |source: &Source| self.columns.iter().position(|known| known.field.name() == source.field.name());
        Ok(batch.columns.iter().filter_map(position).collect())
    }

    /// The rows as a batch, without another copy. Its columns are those of [`united`](super::united).
    pub fn finish(mut self) -> Result<RecordBatch, ComponentError> {
        if !self.same {
            self.columns.sort_by_key(|column| flow_position(&column.field));
        }
        let fields: Vec<_> = self.columns.iter().map(|column| Arc::clone(&column.field)).collect();
        // who looks at the batches finds their columns faster when batches share a schema
        let known = self.positions.map(|(schema, _)| schema).filter(|schema| schema.fields().iter().eq(&fields));
        let schema = known.unwrap_or_else(|| Arc::new(Schema::new(fields)));
        let rows = self.rows;
        let columns = self.columns.into_iter().map(|mut column| {
            column.pad_to(rows);
            column.finish()
        });
        assemble(schema, columns.collect::<Result<_, _>>()?, rows)
    }
}

impl StoredColumn {
    fn new(source: &Source, capacity: usize) -> Self {
        let values = match &source.values {
            Values::Width1(_) => StoredValues::Width1(Vec::with_capacity(capacity)),
            Values::Width2(_) => StoredValues::Width2(Vec::with_capacity(capacity)),
            Values::Width4(_) => StoredValues::Width4(Vec::with_capacity(capacity)),
            Values::Width8(_) => StoredValues::Width8(Vec::with_capacity(capacity)),
            Values::Octets(values) => StoredValues::Octets(values.stored(capacity)),
            Values::Others(_) => StoredValues::Others(Vec::new()),
        };
        Self { field: Arc::clone(source.field), values, valid: Vec::new(), len: 0 }
    }

    fn pad_to(&mut self, len: usize) {
        let missing = len.saturating_sub(self.len);
        if missing == 0 {
            return;
        }
        match &mut self.values {
            StoredValues::Width1(values) => values.resize(len, 0),
            StoredValues::Width2(values) => values.resize(len, 0),
            StoredValues::Width4(values) => values.resize(len, 0),
            StoredValues::Width8(values) => values.resize(len, 0),
            StoredValues::Octets(values) => values.pad(missing),
            StoredValues::Others(pieces) => pieces.push(new_null_array(self.field.data_type(), missing)),
        }
        self.valid.resize(self.len, true);
        self.valid.resize(len, false);
        self.len = len;
    }

    fn append(&mut self, source: &Source, rows: Rows) -> Result<(), ComponentError> {
        match (&mut self.values, &source.values) {
            (StoredValues::Width1(target), Values::Width1(values)) => rows.extend(target, values),
            (StoredValues::Width2(target), Values::Width2(values)) => rows.extend(target, values),
            (StoredValues::Width4(target), Values::Width4(values)) => rows.extend(target, values),
            (StoredValues::Width8(target), Values::Width8(values)) => rows.extend(target, values),
            (StoredValues::Octets(target), Values::Octets(values)) => target.append(values, rows)?,
            (StoredValues::Others(pieces), Values::Others(column)) => pieces.push(match rows {
                Rows::Range(from, len) => column.slice(from, len),
                Rows::Picked(rows) => take_column(column, rows)?,
            }),
            // columns of one type lie in memory in one way
            _ => return super::same_type(&self.field, source.field),
        }
        let len = self.len + rows.len();
        match source.nulls {
            Some(nulls) => {
                self.valid.resize(self.len, true);
                rows.for_each(|row| self.valid.push(nulls.is_valid(row)));
            }
            None if self.valid.is_empty() => {}
            None => self.valid.resize(len, true),
        }
        self.len = len;
        Ok(())
    }

    fn finish(self) -> Result<ArrayRef, ComponentError> {
        let nulls = if self.valid.is_empty() { None } else { some_nulls(self.len, |row| self.valid[row]) };
        let data_type = self.field.data_type();
        match self.values {
            StoredValues::Width1(values) => numbers(data_type, values, nulls),
            StoredValues::Width2(values) => numbers(data_type, values, nulls),
            StoredValues::Width4(values) => numbers(data_type, values, nulls),
            StoredValues::Width8(values) => numbers(data_type, values, nulls),
            StoredValues::Octets(values) => Ok(values.finish(nulls)),
            StoredValues::Others(pieces) => {
                let arrays: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
                concat(&arrays).map_err(cannot_gather)
            }
        }
    }
}

impl StoredValues {
    fn octets(&self) -> usize {
        match self {
            Self::Width1(values) => values.len(),
            Self::Width2(values) => 2 * values.len(),
            Self::Width4(values) => 4 * values.len(),
            Self::Width8(values) => 8 * values.len(),
            Self::Octets(values) => values.octets(),
            Self::Others(pieces) => pieces.iter().map(Array::get_array_memory_size).sum(),
        }
    }
}
