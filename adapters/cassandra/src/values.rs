//! Rows of a batch of flows as values of a statement, straight from Arrow columns.
//!
//! There is no row in between: the driver asks for the values of the next row when it writes the frame, and each column
//! writes its own. A value that is null is sent as not set, which writes nothing: a null would be a tombstone.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, PrimitiveArray};
use arrow::datatypes::{ArrowPrimitiveType, TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use scylla::serialize::SerializationError;
use scylla::serialize::batch::{BatchValues, BatchValuesIterator};
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::{CellWriter, RowWriter};
use weir_flow::elements::elements_of_row;
use weir_flow::{Column, ColumnType};
use weir_forward::ForwardDelivery;

use crate::element_blob;
use crate::times::FlowTimes;

/// What precedes each value in a frame: its length.
const LENGTH_OCTETS: usize = 4;
/// Octets of a row beside its columns: the statement, its number of values, and the key.
const KEY_OCTETS: usize = 1 + 18 + 2 + (LENGTH_OCTETS * 5 + 8 + 2 + 8 + 8 + 8);

/// The columns of a delivery that have values, as arrays of their own types.
#[derive(Debug)]
pub(crate) struct FlowColumns {
    values: Vec<(Column, Values)>,
    received: PrimitiveArray<TimestampMillisecondType>,
    origin: i64,
    row_keys: Arc<[i64]>,
}

#[derive(Debug)]
enum Values {
    U8(PrimitiveArray<UInt8Type>),
    U16(PrimitiveArray<UInt16Type>),
    U32(PrimitiveArray<UInt32Type>),
    U64(PrimitiveArray<UInt64Type>),
    Time(PrimitiveArray<TimestampMillisecondType>),
    Octets(BinaryArray),
    Elements(ArrayRef),
}

impl FlowColumns {
    /// The columns of a delivery. `None` when rows have no time of reception, which no archive takes.
    pub(crate) fn of(delivery: &ForwardDelivery) -> Option<Self> {
        let flows = &delivery.flows;
        let received = flows.primitive::<TimestampMillisecondType>(Column::Received)?.clone();
        let mut values = Vec::new();
        for column in crate::schema::value_columns() {
            let Some(found) = flows.column(column).filter(|found| found.null_count() < found.len()) else { continue };
            let typed = match column.column_type() {
                ColumnType::U8 => Values::U8(found.as_primitive().clone()),
                ColumnType::U16 => Values::U16(found.as_primitive().clone()),
                ColumnType::U32 => Values::U32(found.as_primitive().clone()),
                ColumnType::U64 => Values::U64(found.as_primitive().clone()),
                ColumnType::Time => Values::Time(found.as_primitive().clone()),
                ColumnType::Address | ColumnType::Mac | ColumnType::Octets => Values::Octets(found.as_binary().clone()),
                ColumnType::Text => Values::Octets(found.as_string::<i32>().clone().into()),
                ColumnType::Elements => Values::Elements(Arc::clone(found)),
            };
            values.push((column, typed));
        }
        Some(Self { values, received, origin: delivery.origin, row_keys: Arc::clone(&delivery.row_keys) })
    }

    /// The columns that have values, in the order of the table.
    pub(crate) fn columns(&self) -> impl Iterator<Item = Column> {
        self.values.iter().map(|(column, _)| *column)
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.row_keys.len()
    }

    /// When a row was received, in milliseconds.
    pub(crate) fn received_ms(&self, row: usize) -> i64 {
        self.received.value(row)
    }

    /// When rows began and ended.
    pub(crate) fn times(&self, rows: &[u32]) -> FlowTimes {
        let mut times = FlowTimes::default();
        for (column, values) in &self.values {
            let range = match column {
                Column::Start => &mut times.start,
                Column::End => &mut times.end,
                _ => continue,
            };
            if let Values::Time(values) = values {
                let known = rows.iter().map(|row| *row as usize).filter(|row| values.is_valid(*row));
                known.for_each(|row| range.add(values.value(row)));
            }
        }
        times
    }

    /// Octets of a row in a frame, about.
    pub(crate) fn octets(&self, row: usize) -> usize {
        let values = self.values.iter().map(|(_, values)| LENGTH_OCTETS + values.octets(row));
        KEY_OCTETS + values.sum::<usize>()
    }

    fn serialize(&self, place: Place, row: usize, writer: &mut RowWriter<'_>) -> Result<(), SerializationError> {
        set(writer, &place.bucket_ms.to_be_bytes())?;
        set(writer, &place.shard.to_be_bytes())?;
        set(writer, &self.received.value(row).to_be_bytes())?;
        set(writer, &self.origin.to_be_bytes())?;
        set(writer, &self.row_keys[row].to_be_bytes())?;
        self.values.iter().try_for_each(|(_, values)| values.serialize(row, writer.make_cell_writer()))
    }
}

fn set(writer: &mut RowWriter<'_>, octets: &[u8]) -> Result<(), SerializationError> {
    writer.make_cell_writer().set_value(octets).map(drop).map_err(SerializationError::new)
}

fn set_cell(cell: CellWriter<'_>, octets: &[u8]) -> Result<(), SerializationError> {
    cell.set_value(octets).map(drop).map_err(SerializationError::new)
}

fn number<T: ArrowPrimitiveType, const N: usize>(
    values: &PrimitiveArray<T>,
    row: usize,
    cell: CellWriter<'_>,
    octets: impl FnOnce(T::Native) -> [u8; N],
) -> Result<(), SerializationError> {
    if values.is_null(row) {
        cell.set_unset();
        return Ok(());
    }
    set_cell(cell, &octets(values.value(row)))
}

impl Values {
    fn octets(&self, row: usize) -> usize {
        match self {
            Self::U8(_) => 2,
            Self::U16(_) => 4,
            Self::U32(_) | Self::U64(_) | Self::Time(_) => 8,
            Self::Octets(values) => values.value_length(row) as usize,
            Self::Elements(values) if values.is_null(row) => 0,
            Self::Elements(values) => {
                // flags, number, enterprise, place and length of each
                elements_of_row(values, row).iter().map(|element| 15 + element.octets.len()).sum()
            }
        }
    }

    fn serialize(&self, row: usize, cell: CellWriter<'_>) -> Result<(), SerializationError> {
        match self {
            Self::U8(values) => number(values, row, cell, |value| i16::from(value).to_be_bytes()),
            Self::U16(values) => number(values, row, cell, |value| i32::from(value).to_be_bytes()),
            Self::U32(values) => number(values, row, cell, |value| i64::from(value).to_be_bytes()),
            Self::U64(values) => number(values, row, cell, u64::to_be_bytes),
            Self::Time(values) => number(values, row, cell, i64::to_be_bytes),
            Self::Octets(values) if values.is_valid(row) => set_cell(cell, values.value(row)),
            Self::Elements(values) if values.is_valid(row) => {
                let mut blob = Vec::new();
                element_blob::encode(&elements_of_row(values, row), &mut blob);
                set_cell(cell, &blob)
            }
            Self::Octets(_) | Self::Elements(_) => {
                cell.set_unset();
                Ok(())
            }
        }
    }
}

/// A partition of `flows`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Begin of the bucket, milliseconds since the epoch.
    pub(crate) bucket_ms: i64,
    /// Which of the partitions of the bucket.
    pub(crate) shard: i16,
}

/// Rows of a delivery that belong to one partition.
#[derive(Debug, Clone)]
pub(crate) struct PartitionRows {
    pub(crate) columns: Arc<FlowColumns>,
    pub(crate) place: Place,
    /// Numbers of the rows.
    pub(crate) rows: Arc<[u32]>,
    /// The range of `rows` that is meant.
    pub(crate) range: (usize, usize),
}

impl PartitionRows {
    /// Cuts the rows so that each piece takes about so many octets.
    pub(crate) fn cut(self, octets_max: usize) -> Vec<Self> {
        let mut pieces = Vec::new();
        let (mut begin, mut octets) = (self.range.0, 0);
        for at in self.range.0..self.range.1 {
            let row = self.columns.octets(self.rows[at] as usize);
            if at > begin && (octets + row > octets_max || at - begin >= usize::from(u16::MAX)) {
                pieces.push(Self { range: (begin, at), ..self.clone() });
                (begin, octets) = (at, 0);
            }
            octets += row;
        }
        pieces.push(Self { range: (begin, self.range.1), ..self });
        pieces
    }
}

impl crate::piece::Piece for PartitionRows {
    fn len(&self) -> usize {
        self.range.1 - self.range.0
    }

    fn flows(&self) -> u64 {
        self.len() as u64
    }

    fn halves(&self) -> [Self; 2] {
        let middle = self.range.0 + self.len() / 2;
        [(self.range.0, middle), (middle, self.range.1)].map(|range| Self { range, ..self.clone() })
    }
}

impl BatchValues for PartitionRows {
    type BatchValuesIter<'r> = RowsIter<'r>;

    fn batch_values_iter(&self) -> RowsIter<'_> {
        RowsIter { rows: self, at: self.range.0 }
    }
}

/// The rows that are still to be written.
#[derive(Debug)]
pub(crate) struct RowsIter<'r> {
    rows: &'r PartitionRows,
    at: usize,
}

impl RowsIter<'_> {
    fn next(&mut self) -> Option<usize> {
        let row = (self.at < self.rows.range.1).then(|| self.rows.rows[self.at] as usize)?;
        self.at += 1;
        Some(row)
    }
}

impl<'r> BatchValuesIterator<'r> for RowsIter<'r> {
    fn serialize_next(
        &mut self,
        _: &RowSerializationContext<'_>,
        writer: &mut RowWriter<'_>,
    ) -> Option<Result<(), SerializationError>> {
        let row = self.next()?;
        Some(self.rows.columns.serialize(self.rows.place, row, writer))
    }

    fn is_empty_next(&mut self) -> Option<bool> {
        self.next().map(|_| false)
    }

    fn skip_next(&mut self) -> Option<()> {
        self.next().map(drop)
    }
}

/// The first row alone, for a statement that is in no batch.
impl SerializeRow for PartitionRows {
    fn serialize(&self, _: &RowSerializationContext<'_>, writer: &mut RowWriter<'_>) -> Result<(), SerializationError> {
        self.columns.serialize(self.place, self.rows[self.range.0] as usize, writer)
    }

    fn is_empty(&self) -> bool {
        false
    }
}
