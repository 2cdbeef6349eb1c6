//! The rows of an answer, from groups in parts.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt16Array, UInt32Array, UInt64Array};
use arrow::datatypes::UInt16Type;
use weir_flow::ColumnType;
use weir_flow::schema::field;

use super::Grouping;
use super::collect::KeySet;
use super::keys::KeyLayout;
use super::part::Part;
use super::row::GroupSums;
use super::sums::{Sums, sum_columns};
use crate::{Measure, MemoryError, Progress, QueryError, Reservation};

/// Rows of a batch of an answer.
const BATCH_ROWS: usize = 8192;

/// Where a group of the answer is.
#[derive(Debug, Clone, Copy)]
struct Place {
    rank: u64,
    row: u32,
    part: u16,
    is_long: bool,
}

/// The groups of an answer, in their order.
pub(crate) struct AnswerOrder {
    count: usize,
    /// Number of the first group of each part, those with short keys and then those with long ones.
    starts: Vec<usize>,
    /// The groups in their order; `None` for that of the parts.
    sorted: Option<Vec<Place>>,
    _memory: Reservation,
}

impl Grouping {
    /// The rows of the answer, from what is left of all parts.
    pub(crate) fn answer<S: GroupSums>(
        &self,
        parts: &[Part<S>],
        memory: &Reservation,
    ) -> Result<AnswerOrder, MemoryError> {
        let mut memory = memory.empty();
        let mut starts = Vec::with_capacity(2 * parts.len());
        let mut groups = 0;
        for part in parts {
            starts.push(groups);
            starts.push(groups + part.short.len());
            groups += part.short.len() + part.long.len();
        }
        let count = self.limit.unwrap_or(usize::MAX).min(groups);
        let Some(sorting) = self.sorting else {
            return Ok(AnswerOrder { count, starts, sorted: None, _memory: memory });
        };
        memory.try_grow(groups * size_of::<Place>())?;
        let mut sorted = Vec::with_capacity(groups);
        for (part, groups) in parts.iter().enumerate() {
            let place = |is_long, row: usize, rank| Place { rank, row: row as u32, part: part as u16, is_long };
            let short = groups.short.iter().enumerate();
            sorted.extend(short.map(|(row, group)| place(false, row, group.sums.rank(sorting))));
            let long = groups.long.iter().enumerate();
            sorted.extend(long.map(|(row, group)| place(true, row, group.sums.rank(sorting))));
        }
        sorted.sort_unstable_by_key(|place: &Place| place.rank);
        for tied in sorted.chunk_by_mut(|a, b| a.rank == b.rank).filter(|tied| tied.len() > 1) {
            tied.sort_unstable_by(|a, b| key_order(self.layout(), parts, a, b));
        }
        sorted.truncate(count);
        Ok(AnswerOrder { count, starts, sorted: Some(sorted), _memory: memory })
    }

    /// Columns of the rows at these places.
    fn batch(&self, parts: &[Part<Sums>], places: &[Place], progress: &Progress) -> Result<RecordBatch, QueryError> {
        let (long, short): (Vec<&Place>, Vec<&Place>) = places.iter().partition(|place| place.is_long);
        let short_row = |place: &Place| parts[usize::from(place.part)].short.row(place.row as usize);
        let long_row = |place: &Place| parts[usize::from(place.part)].long.row(place.row as usize);
        let short_keys: Vec<u128> = short.iter().map(|place| short_row(place).key).collect();
        let long_keys: Vec<&[u8]> = long.iter().map(|place| &*long_row(place).key).collect();
        let sums = short.iter().map(|place| short_row(place).sums);
        let sums: Vec<Sums> = sums.chain(long.iter().map(|place| long_row(place).sums)).collect();
        progress.add_rows_saturated(sums.iter().filter(|sums| sums.is_saturated()).count() as u64);
        let mut columns = self.layout().columns(&short_keys, &long_keys);
        columns.extend(sum_columns(&sums));
        for (number, measure) in self.counting.measures.iter().enumerate() {
            let values = short.iter().chain(&long).map(|place| {
                let (part, row) = (&parts[usize::from(place.part)], place.row as usize);
                if place.is_long { part.long.more(row)[number] } else { part.short.more(row)[number] }
            });
            columns.push(further_column(*measure, values));
        }
        let batch = RecordBatch::try_new(self.schema(), columns)?;
        if long.is_empty() || short.is_empty() {
            return Ok(batch);
        }
        // rows have the short keys first: put them back into the order asked for
        let mut shorts = 0_u32..;
        let mut longs = short.len() as u32..;
        let rows: Vec<u32> = places
            .iter()
            .map(|place| if place.is_long { longs.next() } else { shorts.next() }.unwrap_or_default())
            .collect();
        Ok(arrow::compute::take_record_batch(&batch, &UInt32Array::from(rows))?)
    }
}

fn further_column(measure: Measure, values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    let numbers: UInt64Array = values.collect();
    match measure.column().column_type() {
        ColumnType::U64 => Arc::new(numbers),
        // bits of narrow columns stay as narrow, sums of them do not occur
        ColumnType::U16 => {
            let narrow: UInt16Array = numbers.unary::<_, UInt16Type>(|number| number as u16);
            Arc::new(narrow)
        }
        _ => {
            let data_type = field(measure.column()).data_type().clone();
            arrow::compute::cast(&numbers, &data_type)
                .unwrap_or_else(|_| arrow::array::new_null_array(&data_type, numbers.len()))
        }
    }
}

/// Groups of one rank are in the order of their keys, column by column, so that an answer does not depend on threads.
fn key_order<S: GroupSums>(layout: &KeyLayout, parts: &[Part<S>], a: &Place, b: &Place) -> Ordering {
    let (left, right) = (&parts[usize::from(a.part)], &parts[usize::from(b.part)]);
    let (left_row, right_row) = (a.row as usize, b.row as usize);
    match (a.is_long, b.is_long) {
        (false, false) => left.short.row(left_row).key.cmp(&right.short.row(right_row).key),
        (true, true) => left.long.row(left_row).key.cmp(&right.long.row(right_row).key),
        (false, true) => (*layout.long_of(left.short.row(left_row).key)).cmp(&right.long.row(right_row).key),
        (true, false) => (*left.long.row(left_row).key).cmp(&layout.long_of(right.short.row(right_row).key)),
    }
}

impl AnswerOrder {
    /// How many batches the answer has.
    pub(crate) fn batches(&self) -> usize {
        self.count.div_ceil(BATCH_ROWS)
    }

    fn range(&self, number: usize) -> Range<usize> {
        let first = (number * BATCH_ROWS).min(self.count);
        first..(first + BATCH_ROWS).min(self.count)
    }

    fn place(&self, number: usize) -> Place {
        if let Some(sorted) = &self.sorted {
            return sorted[number];
        }
        // of several that begin with one number all but the last are empty
        let at = self.starts.partition_point(|start| *start <= number) - 1;
        let row = (number - self.starts[at]) as u32;
        Place { rank: 0, row, part: (at / 2) as u16, is_long: at % 2 == 1 }
    }

    /// The keys of the answer alone, to be counted again; `None` when a group among them has nothing of what decides,
    /// so that it cannot be distinguished from groups where that is null.
    pub(crate) fn keys(&self, parts: &[Part<u64>]) -> Option<KeySet> {
        let mut only = KeySet::default();
        for number in 0..self.count {
            let Place { row, part, is_long, .. } = self.place(number);
            let (part, row) = (&parts[usize::from(part)], row as usize);
            let counted = if is_long { part.long.row(row).sums } else { part.short.row(row).sums };
            if counted == 0 {
                return None;
            }
            if is_long {
                only.long.insert(part.long.row(row).key.clone());
            } else {
                only.short.insert(part.short.row(row).key);
            }
        }
        Some(only)
    }

    /// Where the rows of one of the batches are from, when all are of one part: whether their key is long, and which
    /// row.
    pub(crate) fn places(&self, number: usize) -> impl Iterator<Item = (bool, usize)> {
        let places = self.range(number).map(|number| self.place(number));
        places.map(|place| (place.is_long, place.row as usize))
    }

    /// One of the batches.
    pub(crate) fn batch(
        &self,
        grouping: &Grouping,
        parts: &[Part<Sums>],
        number: usize,
        progress: &Progress,
    ) -> Result<RecordBatch, QueryError> {
        let places: Vec<Place> = self.range(number).map(|number| self.place(number)).collect();
        grouping.batch(parts, &places, progress)
    }
}
