//! Lists of flows: their columns, their order.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array, new_null_array};
use arrow::datatypes::{Schema, SchemaRef};
use weir_flow::schema::field;
use weir_flow::{Column, FlowBatch};

use crate::group::{Sums, rows_of};
use crate::{Order, QueryError, Reservation, Sorting};

/// The columns of a list: those asked for, or all.
pub(crate) fn list_columns(columns: &[Column]) -> &[Column] {
    if columns.is_empty() { Column::ALL } else { columns }
}

pub(crate) fn schema(columns: &[Column]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(|column| field(*column)).collect::<Vec<_>>()))
}

/// Columns that the order of a list depends on.
pub(crate) fn order_columns(order: Order) -> &'static [Column] {
    match order {
        Order::Flows => &[Column::Flows],
        Order::Packets => &[Column::Packets],
        Order::Bytes => &[Column::Bytes],
        Order::PacketsPerSecond => &[Column::Start, Column::End, Column::Packets],
        Order::BitsPerSecond => &[Column::Start, Column::End, Column::Bytes],
        Order::BytesPerPacket => &[Column::Packets, Column::Bytes],
        Order::Start => &[Column::Start],
        Order::End => &[Column::End],
        Order::Duration => &[Column::Start, Column::End],
    }
}

/// The rows of a batch under the schema of the list: columns that no row has are null.
pub(crate) fn in_schema(batch: &FlowBatch, columns: &[Column], schema: &SchemaRef) -> Result<RecordBatch, QueryError> {
    let values = columns.iter().enumerate().map(|(position, column)| match batch.column(*column) {
        Some(values) => Arc::clone(values),
        None => new_null_array(schema.field(position).data_type(), batch.rows()),
    });
    let values: Vec<ArrayRef> = values.collect();
    Ok(RecordBatch::try_new(Arc::clone(schema), values)?)
}

fn batch_bytes(batch: &FlowBatch) -> usize {
    batch.record_batch().get_array_memory_size()
}

/// A row that is kept: what its order depends on, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    rank: u64,
    /// Number of the unit that it is of.
    unit: u64,
    /// Number among the rows of the unit that passed.
    number: u32,
    batch: u32,
    row: u32,
}

/// Rows of a list that is sorted: those kept so far. Rows of one rank come in the order of the archive, so that the
/// answer does not depend on threads.
pub(crate) struct Sorted {
    sorting: Sorting,
    limit: Option<usize>,
    batches: Vec<FlowBatch>,
    rows: Vec<Row>,
    /// The unit that the last batch was of, and how many of its rows have come.
    unit: (u64, u32),
    /// Of the batches and rows.
    memory: Reservation,
}

impl Sorted {
    pub(crate) fn new(sorting: Sorting, limit: Option<usize>, memory: Reservation) -> Self {
        Self { sorting, limit, batches: Vec::new(), rows: Vec::new(), unit: (0, 0), memory }
    }

    /// Takes the rows of a batch; with a limit only those that may be among the first. Batches of a unit come one after
    /// the other.
    pub(crate) fn add(&mut self, unit: u64, batch: FlowBatch) -> Result<(), QueryError> {
        self.memory.try_grow(batch_bytes(&batch))?;
        if self.rows.capacity() < self.rows.len() + batch.rows() {
            let more = self.rows.len().max(batch.rows());
            self.memory.try_grow(more * size_of::<Row>())?;
            self.rows.reserve_exact(more);
        }
        if self.unit.0 != unit {
            self.unit = (unit, 0);
        }
        let (first, batch_number) = (self.unit.1, self.batches.len() as u32);
        self.unit.1 += batch.rows() as u32;
        let rows = rows_of(&batch).zip(0_u32..).map(|(sums, row): (Sums, u32)| Row {
            rank: sums.rank_by(self.sorting),
            unit,
            number: first + row,
            batch: batch_number,
            row,
        });
        self.rows.extend(rows);
        self.batches.push(batch);
        if let Some(limit) = self.limit
            && self.rows.len() >= 2 * limit.max(1 << 16)
        {
            self.shrink(limit)?;
        }
        Ok(())
    }

    /// Drops all but the first rows.
    fn shrink(&mut self, limit: usize) -> Result<(), QueryError> {
        if limit == 0 || self.rows.len() <= limit {
            self.rows.truncate(limit);
        } else {
            self.rows.select_nth_unstable(limit - 1);
            self.rows.truncate(limit);
        }
        self.rows.sort_unstable_by_key(|row| (row.batch, row.row));
        let mut kept = Vec::new();
        let mut rows = Vec::with_capacity(self.rows.len());
        for group in self.rows.chunk_by(|a, b| a.batch == b.batch) {
            let indices: UInt32Array = group.iter().map(|row| row.row).collect::<Vec<_>>().into();
            let Some(batch) = group.first().and_then(|row| self.batches.get(row.batch as usize)) else { continue };
            let taken = arrow::compute::take_record_batch(batch.record_batch(), &indices)?;
            let number = kept.len() as u32;
            rows.extend(group.iter().zip(0_u32..).map(|(row, place)| Row { batch: number, row: place, ..*row }));
            kept.push(FlowBatch::try_new(taken).map_err(|error| QueryError::Source(error.into()))?);
        }
        self.memory.resize(kept.iter().map(batch_bytes).sum::<usize>() + rows.capacity() * size_of::<Row>());
        self.batches = kept;
        self.rows = rows;
        Ok(())
    }

    /// The rows of all threads in their order, as batches of the list.
    pub(crate) fn finish(
        all: Vec<Self>,
        columns: &[Column],
        schema: &SchemaRef,
    ) -> Result<Vec<RecordBatch>, QueryError> {
        const BATCH_ROWS: usize = 8192;
        let limit = all.first().and_then(|sorted| sorted.limit);
        let mut batches = Vec::new();
        let mut rows = Vec::new();
        // the rows of all threads in one, and the answer, which is a copy
        let mut copied = all.first().map(|sorted| sorted.memory.empty());
        if let Some(copied) = &mut copied {
            let all_rows: usize = all.iter().map(|sorted| sorted.rows.len()).sum();
            let all_bytes: usize = all.iter().flat_map(|sorted| &sorted.batches).map(batch_bytes).sum();
            let kept_rows: usize = all.iter().flat_map(|sorted| &sorted.batches).map(FlowBatch::rows).sum();
            let answered = all_rows.min(limit.unwrap_or(usize::MAX));
            copied.try_grow(all_rows * size_of::<Row>() + all_bytes / kept_rows.max(1) * answered)?;
            rows.reserve_exact(all_rows);
        }
        for mut sorted in all {
            if let Some(limit) = limit {
                sorted.shrink(limit)?;
            }
            let first = batches.len() as u32;
            rows.extend(sorted.rows.into_iter().map(|row| Row { batch: row.batch + first, ..row }));
            for batch in &sorted.batches {
                batches.push(in_schema(batch, columns, schema)?);
            }
        }
        rows.sort_unstable();
        rows.truncate(limit.unwrap_or(usize::MAX));
        let columns: Vec<Vec<&dyn Array>> = (0..schema.fields().len())
            .map(|position| batches.iter().map(|batch| batch.column(position).as_ref()).collect())
            .collect();
        let chunks = rows.chunks(BATCH_ROWS).map(|chunk| {
            let indices: Vec<(usize, usize)> = chunk.iter().map(|row| (row.batch as usize, row.row as usize)).collect();
            let values = columns.iter().map(|pieces| arrow::compute::interleave(pieces, &indices));
            Ok(RecordBatch::try_new(Arc::clone(schema), values.collect::<Result<_, _>>()?)?)
        });
        chunks.collect()
    }
}
