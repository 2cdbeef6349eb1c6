//! What is sealed, delivery by delivery: some deliveries at a time, of all segments that have rows of them.
//!
//! A segment is read once for each window, with only the columns that are wanted, and of its rows those are kept that
//! came in the deliveries of the window. So memory is that of the window, whatever the segment has; what speaks against
//! it is that a large segment is decoded several times.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array, new_null_array};
use arrow::compute::{concat, interleave_record_batch, take_record_batch};
use arrow::datatypes::{Field, TimestampMillisecondType};
use arrow::error::ArrowError;
use parquet::arrow::ProjectionMask;
use weir_flow::{Column, FlowBatch, Table};

use crate::index::positions::SegmentDeliveries;
use crate::manifest::ArchiveState;
use crate::position::TailNumber;
use crate::{ArchiveError, Position, Segment};

/// Rows decoded at a time.
const BATCH_ROWS: usize = 8192;
/// Octets taken for a value of no fixed width, and for what is noted of a row.
const VALUE_OCTETS: u64 = 16;
const ROW_OCTETS: u64 = 24;

/// Segments that have the next sealed deliveries.
#[derive(Debug)]
pub(super) struct NextSealed {
    /// The first sealed delivery from where it was asked, and its tail.
    pub(super) first: Position,
    pub(super) tail: TailNumber,
    /// Up to here no other segment has any.
    horizon: Position,
    segments: Vec<KnownSegment>,
}

#[derive(Debug, Clone)]
struct KnownSegment {
    segment: Segment,
    deliveries: Arc<SegmentDeliveries>,
}

impl NextSealed {
    /// The last of the first deliveries of which no row is left: of a day that has expired, while another day of their tail is
    /// there. Only those before `end`; `None` when the first one has rows.
    pub(super) fn gone_through(&self, end: Option<Position>) -> Option<Position> {
        let mut expected = self.first;
        let is_next_and_gone = |delivery: &WindowDelivery| {
            let is_next = delivery.position == std::mem::replace(&mut expected, delivery.position.next());
            is_next && delivery.is_gone()
        };
        self.deliveries(end).into_values().take_while(is_next_and_gone).last().map(|delivery| delivery.position)
    }

    /// Deliveries from the first one on, before `end` and up to where no other segment has any.
    fn deliveries(&self, end: Option<Position>) -> BTreeMap<Position, WindowDelivery> {
        let last = end.map_or(u64::MAX, |end| end.get().saturating_sub(1)).min(self.horizon.get());
        let mut all: BTreeMap<Position, WindowDelivery> = BTreeMap::new();
        for delivery in self.segments.iter().flat_map(|known| &known.deliveries.deliveries) {
            let position = delivery.position;
            if position < self.first || position.get() > last {
                continue;
            }
            let one = all.entry(position).or_insert(WindowDelivery { position, rows: 0, rows_total: 0 });
            one.rows += delivery.rows;
            one.rows_total = one.rows_total.max(delivery.rows + delivery.rows_elsewhere);
        }
        all
    }
}

/// Finds sealed deliveries, and remembers which deliveries the last segments have.
#[derive(Debug, Default)]
pub(super) struct SealedDeliveries(HashMap<PathBuf, Arc<SegmentDeliveries>>);

impl SealedDeliveries {
    /// The first sealed delivery from this position on.
    pub(super) fn next(&mut self, state: &ArchiveState, from: Position) -> Result<Option<NextSealed>, ArchiveError> {
        let mut left: Vec<&Segment> = state.segments_of(Table::Flows).filter(|segment| segment.last >= from).collect();
        left.sort_by_key(|segment| (segment.first, segment.day));
        let mut known = std::mem::take(&mut self.0);
        let mut found: Option<(Position, TailNumber)> = None;
        let (mut horizon, mut segments) = (Position::new(u64::MAX), Vec::new());
        for segment in left {
            if found.is_some_and(|(first, _)| segment.first > first) {
                horizon = Position::new(segment.first.get().saturating_sub(1));
                break;
            }
            let path = segment.path();
            let deliveries = match known.remove(&path) {
                Some(deliveries) => deliveries,
                None => Arc::new(segment.deliveries()?),
            };
            let at = deliveries.deliveries.partition_point(|delivery| delivery.position < from);
            if let Some(next) = deliveries.deliveries.get(at) {
                found = Some(found.map_or((next.position, next.tail), |found| found.min((next.position, next.tail))));
                segments.push(KnownSegment { segment: segment.clone(), deliveries: Arc::clone(&deliveries) });
            }
            self.0.insert(path, deliveries);
        }
        Ok(found.map(|(first, tail)| NextSealed { first, tail, horizon, segments }))
    }

    /// The last tail of which a sealed delivery before this position is known.
    pub(super) fn tail_before(&self, state: &ArchiveState, position: Position) -> TailNumber {
        let whole = state.segments_of(Table::Flows).filter(|segment| segment.last < position);
        let whole = whole.map(|segment| segment.tails.last());
        let part = self.0.values().filter_map(|known| {
            let at = known.deliveries.partition_point(|delivery| delivery.position < position);
            known.deliveries.get(at.checked_sub(1)?).map(|delivery| delivery.tail)
        });
        whole.chain(part).max().unwrap_or(0)
    }
}

/// Some sealed deliveries, in memory.
#[derive(Debug)]
pub(super) struct Window {
    /// In the order of positions.
    deliveries: VecDeque<WindowDelivery>,
    parts: Vec<WindowPart>,
}

/// A delivery of a window.
#[derive(Debug, Clone, Copy)]
struct WindowDelivery {
    position: Position,
    /// Rows that there are, and all that there were.
    rows: u64,
    rows_total: u64,
}

impl WindowDelivery {
    /// Whether it had rows, and none is left.
    fn is_gone(&self) -> bool {
        self.rows == 0 && self.rows_total > 0
    }
}

/// The rows of one segment.
#[derive(Debug)]
struct WindowPart {
    pieces: Vec<RecordBatch>,
    /// In the order of deliveries.
    rows: Vec<WindowRow>,
}

/// A row, in the order in which rows are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct WindowRow {
    position: Position,
    received: i64,
    piece: u32,
    row: u32,
}

/// A delivery taken from a window, or the last of some of which nothing is left.
#[derive(Debug)]
pub(super) struct SealedDelivery {
    pub(super) position: Position,
    pub(super) flows: Option<FlowBatch>,
    pub(super) rows_missing: u64,
}

impl Window {
    /// Reads deliveries from the first one on, before `end`, as many as fit into so many octets. It ends before a position
    /// that is missing: what became of that one is not known here.
    pub(super) fn read(
        next: &NextSealed,
        end: Option<Position>,
        columns: Option<&[Column]>,
        octets_max: u64,
    ) -> Result<Self, ArchiveError> {
        let all = next.deliveries(end);
        let rows_max = octets_max / row_octets(columns);
        let (mut rows, mut expected) = (0, next.first);
        let mut has_room = |delivery: &WindowDelivery| {
            rows += delivery.rows;
            let is_next = delivery.position == std::mem::replace(&mut expected, delivery.position.next());
            is_next && (delivery.position == next.first || rows <= rows_max)
        };
        let deliveries: VecDeque<WindowDelivery> = all.into_values().take_while(|one| has_room(one)).collect();
        let last = deliveries.back().map_or(next.first, |delivery| delivery.position);
        let parts = next.segments.iter().map(|known| read_part(known, (next.first, last), columns));
        Ok(Self { parts: parts.collect::<Result<_, _>>()?, deliveries })
    }

    /// The next delivery.
    pub(super) fn next(&mut self) -> Result<Option<SealedDelivery>, ArchiveError> {
        let Some(first) = self.deliveries.pop_front() else { return Ok(None) };
        let WindowDelivery { mut position, rows_total, .. } = first;
        if first.is_gone() {
            while let Some(more) = self.deliveries.front().copied().filter(WindowDelivery::is_gone) {
                position = more.position;
                self.deliveries.pop_front();
            }
            return Ok(Some(SealedDelivery { position, flows: None, rows_missing: rows_total }));
        }
        let failed = |source| ArchiveError::GatherColumn { table: Table::Flows, column: "*".to_owned(), source };
        let mut found = Vec::new();
        for part in &self.parts {
            found.extend(part.delivery(position).map_err(failed)?);
        }
        let flows = joined(&found).map_err(failed)?;
        let rows = flows.as_ref().map_or(0, |flows| flows.rows() as u64);
        Ok(Some(SealedDelivery { position, flows, rows_missing: rows_total.saturating_sub(rows) }))
    }
}

/// Octets that a row takes in memory, about.
fn row_octets(columns: Option<&[Column]>) -> u64 {
    let schema = Table::Flows.schema();
    let wanted = columns.unwrap_or(Column::ALL).iter().map(|column| schema.field(*column as usize));
    let octets = |field: &Field| field.data_type().primitive_width().map_or(VALUE_OCTETS, |width| width as u64);
    ROW_OCTETS + wanted.map(octets).sum::<u64>()
}

/// Reads the rows of a segment that came in the deliveries of a range, both ends included.
fn read_part(
    known: &KnownSegment,
    (first, last): (Position, Position),
    columns: Option<&[Column]>,
) -> Result<WindowPart, ArchiveError> {
    let KnownSegment { segment, deliveries } = known;
    let place = |position: Position| deliveries.deliveries.partition_point(|delivery| delivery.position < position);
    let wanted = place(first) as u32..place(last.next()) as u32;
    let in_range = deliveries.deliveries.get(wanted.start as usize..wanted.end as usize).unwrap_or_default();
    let mut part = WindowPart { pieces: Vec::new(), rows: Vec::new() };
    if in_range.iter().all(|delivery| delivery.rows == 0) {
        return Ok(part);
    }
    let failed = |error: ArrowError| segment.unreadable(error.into());
    let builder = segment.open()?;
    let names = columns.unwrap_or(Column::ALL).iter().chain([&Column::Received]).map(|column| column.name());
    let roots = names.filter_map(|name| Some(builder.schema().column_with_name(name)?.0));
    let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
    let reader = builder.with_projection(mask).with_batch_size(BATCH_ROWS).build();
    let (mut row, mut numbers) = (0, Vec::new());
    for batch in reader.map_err(|error| segment.unreadable(error))? {
        let batch = batch.map_err(failed)?;
        let Some(received) = batch.column_by_name(Column::Received.name()) else { continue };
        let received = received.as_primitive::<TimestampMillisecondType>().values();
        numbers.clear();
        deliveries.numbers(row, received, &mut numbers);
        row += batch.num_rows() as u64;
        let (piece, mut indices) = (part.pieces.len() as u32, Vec::new());
        for ((number, received), at) in numbers.iter().zip(received.iter()).zip(0..) {
            if wanted.contains(number) {
                let position = deliveries.deliveries[*number as usize].position;
                part.rows.push(WindowRow { position, received: *received, piece, row: indices.len() as u32 });
                indices.push(at);
            }
        }
        if !indices.is_empty() {
            part.pieces.push(take_record_batch(&batch, &UInt32Array::from(indices)).map_err(failed)?);
        }
    }
    part.rows.sort_unstable();
    Ok(part)
}

impl WindowPart {
    /// The rows of a delivery; `None` when there are none.
    fn delivery(&self, position: Position) -> Result<Option<RecordBatch>, ArrowError> {
        let start = self.rows.partition_point(|row| row.position < position);
        let end = self.rows.partition_point(|row| row.position <= position);
        let rows = self.rows.get(start..end).unwrap_or_default();
        if rows.is_empty() {
            return Ok(None);
        }
        let mut used: Vec<u32> = rows.iter().map(|row| row.piece).collect();
        used.sort_unstable();
        used.dedup();
        let pieces: Vec<&RecordBatch> = used.iter().filter_map(|piece| self.pieces.get(*piece as usize)).collect();
        let place = |row: &WindowRow| (used.partition_point(|piece| *piece < row.piece), row.row as usize);
        interleave_record_batch(&pieces, &rows.iter().map(place).collect::<Vec<_>>()).map(Some)
    }
}

/// The rows of all batches, without columns that have no value; `None` without a batch.
fn joined(batches: &[RecordBatch]) -> Result<Option<FlowBatch>, ArrowError> {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    if rows == 0 {
        return Ok(None);
    }
    let schema = Table::Flows.schema();
    let mut columns: Vec<(Column, ArrayRef)> = Vec::new();
    for &column in Column::ALL {
        let field = schema.field(column as usize);
        let has_values = |batch: &RecordBatch| {
            batch.column_by_name(field.name()).is_some_and(|values| values.null_count() < values.len())
        };
        if !batches.iter().any(has_values) {
            continue;
        }
        let pieces: Vec<ArrayRef> = batches
            .iter()
            .map(|batch| match batch.column_by_name(field.name()) {
                Some(values) => Arc::clone(values),
                None => new_null_array(field.data_type(), batch.num_rows()),
            })
            .collect();
        let values = match pieces.as_slice() {
            [only] => Arc::clone(only),
            pieces => concat(&pieces.iter().map(|piece| piece.as_ref() as &dyn Array).collect::<Vec<_>>())?,
        };
        columns.push((column, values));
    }
    let batch = FlowBatch::from_columns(rows, columns);
    batch.map(Some).map_err(|error| ArrowError::SchemaError(error.to_string()))
}
