//! The rows of the window, kept apart by slices of time.
//!
//! A slice is a power of two of milliseconds, between a 64th and a 32nd of the window. Rows are copied into the
//! columns of their slice when they come, and sorted when the whole slice leaves: so each row is moved twice within the
//! caches, whatever the disorder, and sorting is counting, because the times of a slice are few. What speaks against it
//! is that rows stay up to a slice longer than they would have to.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use weir_chain::{ComponentError, Outlet};

use super::order::Order;
use super::spill::{Part, SpillFile};
use weir_rows::gather::{Interleaver, Pick, RowStore, Sources, interleave, united};

/// Rows of a burst that is handed on.
const BURST_ROWS: usize = 8192;
/// Rows that are gathered at a time.
const GATHER_ROWS: usize = 16 * BURST_ROWS;
/// Slices whose memory is kept for others.
const FREE_MAX: usize = 8;
/// Of a batch that has so many rows in one slice, and at least one row in so many, the slice holds the batch itself;
/// otherwise it copies the rows.
const HELD_ROWS_MIN: usize = 256;
const HELD_PART: usize = 4;

/// Rows of a slice of time.
#[derive(Debug, Default)]
struct Slice {
    /// On disk; these came before all others.
    parts: Vec<Part>,
    /// In memory, in the order in which they came. Batch 0 is the store.
    picks: Vec<Pick>,
    /// The time of each of them, by which it is sorted.
    times: Vec<i64>,
    store: RowStore,
    batches: Vec<RecordBatch>,
    /// Octets of these batches, as far as their rows are of this slice.
    held_octets: usize,
}

impl Slice {
    /// Takes rows of a batch, as they are or copied.
    fn push(
        &mut self,
        batch: &RecordBatch,
        sources: &Sources,
        rows: &[u32],
        times: &[i64],
    ) -> Result<(), ComponentError> {
        self.times.extend_from_slice(times);
        if rows.len() >= HELD_ROWS_MIN && rows.len() >= batch.num_rows() / HELD_PART {
            self.hold(batch.clone(), rows.len());
            let batch = self.batches.len() as u32;
            self.picks.extend(rows.iter().map(|&row| Pick { batch, row }));
            return Ok(());
        }
        let copied = self.store.len() as u32;
        self.picks.extend((copied..copied + rows.len() as u32).map(|row| Pick { batch: 0, row }));
        self.store.append(sources, rows)
    }

    /// All batches with rows of the slice, in the order of the picks' numbers.
    fn batches(&mut self) -> Result<Vec<RecordBatch>, ComponentError> {
        let mut batches = std::mem::take(&mut self.batches);
        self.held_octets = 0;
        match batches.first() {
            Some(first) if self.store.is_empty() => batches.insert(0, first.clone()),
            _ => batches.insert(0, std::mem::take(&mut self.store).finish()?),
        }
        Ok(batches)
    }

    /// All rows in memory as one batch, in the order in which they came; only their times are left in the slice.
    fn whole(&mut self) -> Result<RecordBatch, ComponentError> {
        interleave(&self.batches()?, &std::mem::take(&mut self.picks))
    }

    /// Takes a whole batch as it is.
    fn push_all(&mut self, batch: RecordBatch, times: &[i64]) {
        self.times.extend_from_slice(times);
        let number = self.batches.len() as u32 + 1;
        self.picks.extend((0..batch.num_rows() as u32).map(|row| Pick { batch: number, row }));
        let rows = batch.num_rows();
        self.hold(batch, rows);
    }

    fn hold(&mut self, batch: RecordBatch, rows: usize) {
        self.held_octets += batch.get_array_memory_size() / batch.num_rows().max(1) * rows;
        self.batches.push(batch);
    }

    fn octets(&self) -> usize {
        self.store.octets() + self.held_octets + self.times.len() * (size_of::<i64>() + size_of::<Pick>())
    }
}

/// Rows by slices.
#[derive(Debug)]
pub(super) struct Slices {
    /// A time is shifted by this to get the number of its slice.
    bits: u32,
    /// Number of the first slice.
    first: i64,
    slices: VecDeque<Slice>,
    /// Rows in memory.
    pub(super) rows: usize,
    /// Rows on disk.
    pub(super) rows_on_disk: usize,
    free: Vec<Slice>,
    order: Order,
    /// The schema that was handed on last, shared by the batches that have it.
    schema: Option<SchemaRef>,
    /// How many rows the last slice had copied; the next will have about as many.
    copied_rows: usize,
    sorted: BySlice,
}

/// Rows of a batch by slices; the memory is kept for the next batch.
#[derive(Debug, Default)]
struct BySlice {
    slice_of: Vec<u16>,
    /// For each slice, where its rows begin; when they are filled in, where they end.
    places: Vec<u32>,
    rows: Vec<u32>,
    times: Vec<i64>,
}

impl BySlice {
    /// Sorts rows by slice. Rows of a slice keep their order.
    fn sort(&mut self, rows: &[u32], times: &[i64], slice_of: impl Fn(i64) -> usize) {
        self.slice_of.clear();
        self.slice_of.extend(times.iter().map(|&time| slice_of(time) as u16));
        self.places.clear();
        let slices = self.slice_of.iter().max().map_or(0, |&last| usize::from(last) + 1);
        self.places.resize(slices, 0);
        self.slice_of.iter().for_each(|&slice| self.places[usize::from(slice)] += 1);
        let mut before = 0;
        for place in &mut self.places {
            before += std::mem::replace(place, before);
        }
        self.rows.resize(rows.len(), 0);
        self.times.resize(rows.len(), 0);
        for ((&slice, &row), &time) in self.slice_of.iter().zip(rows).zip(times) {
            let place = &mut self.places[usize::from(slice)];
            self.rows[*place as usize] = row;
            self.times[*place as usize] = time;
            *place += 1;
        }
    }
}

impl Slices {
    /// Slices for a window of so many milliseconds, whose first row has the edge `edge`.
    pub(super) fn new(window_ms: i64, edge: i64) -> Self {
        let bits = (window_ms / 32).max(1).ilog2();
        Self {
            bits,
            first: edge >> bits,
            slices: VecDeque::new(),
            rows: 0,
            rows_on_disk: 0,
            free: Vec::new(),
            order: Order::default(),
            schema: None,
            copied_rows: 0,
            sorted: BySlice::default(),
        }
    }

    /// Time before which everything was handed on.
    pub(super) fn start_ms(&self) -> i64 {
        self.first << self.bits
    }

    /// Octets in memory, about.
    pub(super) fn octets(&self) -> usize {
        self.slices.iter().map(Slice::octets).sum()
    }

    /// Takes rows of a batch, which have these times, and hands on the slices that lie before `edge`. That is the edge
    /// after the last row; no time is before the edge at the turn of its own row.
    pub(super) fn admit(
        &mut self,
        batch: &RecordBatch,
        sources: &Sources,
        rows: &[u32],
        times: &[i64],
        edge: i64,
        out: &mut Outlet,
    ) -> Result<(), ComponentError> {
        let (first, cut, known) = (self.first, edge >> self.bits, self.slices.len());
        let end = first + known as i64;
        // When time jumps, all that comes between the known slices and the new edge leaves at once: one slice is enough.
        let gap = cut > end;
        if gap {
            let new_from = known as i64 + 1 - cut;
            self.sorted.sort(rows, times, |time| match time >> self.bits {
                slice if slice < end => (slice - first) as usize,
                slice if slice < cut => known,
                slice => (slice + new_from) as usize,
            });
        } else {
            self.sorted.sort(rows, times, |time| ((time >> self.bits) - first) as usize);
        }
        self.fill(batch, sources)?;
        let leaving = if gap { known + 1 } else { (cut - first).max(0) as usize };
        for _ in 0..leaving.min(self.slices.len()) {
            let slice = self.slices.pop_front().unwrap_or_default();
            self.hand_on(slice, out)?;
        }
        self.first = first.max(cut);
        Ok(())
    }

    /// Copies the rows that were sorted by slice.
    fn fill(&mut self, batch: &RecordBatch, sources: &Sources) -> Result<(), ComponentError> {
        let mut begin = 0;
        for (number, &end) in self.sorted.places.iter().enumerate() {
            if self.slices.len() <= number {
                let mut slice = self.free.pop().unwrap_or_default();
                slice.store = RowStore::with_capacity(self.copied_rows);
                self.slices.push_back(slice);
            }
            let (slice, range) = (&mut self.slices[number], begin as usize..end as usize);
            begin = end;
            if range.is_empty() {
                continue;
            }
            self.rows += range.len();
            slice.push(batch, sources, &self.sorted.rows[range.clone()], &self.sorted.times[range])?;
        }
        Ok(())
    }

    /// Hands on everything.
    pub(super) fn finish(&mut self, out: &mut Outlet) -> Result<(), ComponentError> {
        while let Some(slice) = self.slices.pop_front() {
            self.hand_on(slice, out)?;
            self.first += 1;
        }
        Ok(())
    }

    /// Hands on the rows of a slice, sorted.
    fn hand_on(&mut self, slice: Slice, out: &mut Outlet) -> Result<(), ComponentError> {
        let mut slice = self.load(slice)?;
        let mut order = std::mem::take(&mut self.order);
        self.copied_rows = slice.store.len();
        let batches = slice.batches()?;
        self.emit(&batches, order.of(&slice.times).iter().map(|&row| slice.picks[row as usize]), out)?;
        self.order = order;
        slice.times.clear();
        slice.picks.clear();
        if self.free.len() < FREE_MAX {
            self.free.push(slice);
        }
        Ok(())
    }

    fn emit(
        &mut self,
        batches: &[RecordBatch],
        picks: impl Iterator<Item = Pick>,
        out: &mut Outlet,
    ) -> Result<(), ComponentError> {
        let picks: Vec<Pick> = picks.collect();
        let schema = united(batches.iter().map(RecordBatch::schema_ref))?;
        let schema = self.schema.take().filter(|known| *known == schema).unwrap_or(schema);
        let interleaver = Interleaver::new(&schema, batches);
        // A column of many rows is gathered as a whole, while what it is gathered from is in the cache, and cut then.
        for picks in picks.chunks(GATHER_ROWS) {
            let rows = interleaver.take(picks)?;
            for from in (0..picks.len()).step_by(BURST_ROWS) {
                out.rows(rows.slice(from, BURST_ROWS.min(picks.len() - from)));
            }
        }
        self.rows -= picks.len();
        self.schema = Some(schema);
        Ok(())
    }

    /// Reads what a slice has on disk.
    fn load(&mut self, mut slice: Slice) -> Result<Slice, ComponentError> {
        if slice.parts.is_empty() {
            return Ok(slice);
        }
        let mut loaded = Slice::default();
        for part in slice.parts.drain(..) {
            self.rows_on_disk -= part.rows();
            self.rows += part.rows();
            part.read(|batch, times| loaded.push_all(batch, times))?;
        }
        if !slice.times.is_empty() {
            let times = std::mem::take(&mut slice.times);
            loaded.push_all(slice.whole()?, &times);
        }
        Ok(loaded)
    }

    /// Hands on the oldest rows before it is their time, and returns the time of the last of them.
    pub(super) fn shed(&mut self, mut rows: usize, out: &mut Outlet) -> Result<Option<i64>, ComponentError> {
        while let Some(slice) = self.slices.pop_front() {
            let slice = self.load(slice)?;
            let held = slice.times.len();
            if held < rows {
                rows -= held;
                self.hand_on(slice, out)?;
                self.first += 1;
                continue;
            }
            // The slice stays, even empty, because rows of the time of the last one may still come.
            let order = self.order.of(&slice.times).to_vec();
            let last = rows.checked_sub(1).map(|last| slice.times[order[last] as usize]);
            let rest = self.hand_on_first(slice, &order, rows, out)?;
            self.slices.push_front(rest);
            return Ok(last);
        }
        Ok(None)
    }

    /// Hands on the first rows of a slice and returns the rest.
    fn hand_on_first(
        &mut self,
        mut slice: Slice,
        order: &[u32],
        rows: usize,
        out: &mut Outlet,
    ) -> Result<Slice, ComponentError> {
        let batches = slice.batches()?;
        let pick = |row: &u32| slice.picks[*row as usize];
        self.emit(&batches, order[..rows].iter().map(pick), out)?;
        let mut rest = Slice::default();
        if rows < order.len() {
            let picks: Vec<Pick> = order[rows..].iter().map(pick).collect();
            let times: Vec<i64> = order[rows..].iter().map(|&row| slice.times[row as usize]).collect();
            rest.push_all(interleave(&batches, &picks)?, &times);
        }
        Ok(rest)
    }

    /// Writes the newest slices to disk until no more than `rows` rows are in memory.
    pub(super) fn spill(&mut self, rows: usize, file: &Arc<SpillFile>) -> Result<(), ComponentError> {
        for slice in self.slices.iter_mut().rev() {
            if self.rows <= rows {
                break;
            }
            if slice.times.is_empty() {
                continue;
            }
            let batch = slice.whole()?;
            match SpillFile::write(file, &batch, &slice.times) {
                Ok(part) => slice.parts.push(part),
                Err(error) => {
                    let times = std::mem::take(&mut slice.times);
                    slice.push_all(batch, &times);
                    return Err(error);
                }
            }
            self.rows -= slice.times.len();
            self.rows_on_disk += slice.times.len();
            slice.times = Vec::new();
        }
        Ok(())
    }
}
