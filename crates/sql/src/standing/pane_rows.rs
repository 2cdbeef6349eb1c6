//! The rows of a pane, which the windows share that it is of.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, ArrayRef, RecordBatch};

use super::made_rows::MadeRows;
use super::window_memory::QuestionMemory;

/// Octets of an aggregated row that counts as one.
const AGGREGATED_ROW_OCTETS: usize = 64;

/// The rows of a pane: those that came, and what was aggregated of them. The thread that follows the stream adds rows; the
/// statement aggregates them when the first window closes that the pane is of, and drops them when nothing else
/// reads them.
#[derive(Debug)]
pub struct PaneRows {
    content: Mutex<PaneContent>,
}

/// How much a pane has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PaneSize {
    /// Rows that are here and were not aggregated.
    pub rows: u64,
    /// Rows that what was aggregated counts as.
    pub aggregated_rows: u64,
    /// Rows that were aggregated and are gone.
    pub released_rows: u64,
}

#[derive(Debug, Default)]
struct PaneContent {
    /// Counts the rows of the panes of a watch, while windows are open that this one is of.
    counted: Option<Arc<AtomicU64>>,
    /// Counts the memory of all that is here, as long as it is.
    memory: Option<QuestionMemory>,
    /// Batches that came first and are not here any more.
    released: usize,
    batches: Vec<RecordBatch>,
    /// Rows of these batches.
    rows: u64,
    /// Rows of those that are not here any more.
    released_rows: u64,
    /// By aggregate of the statement.
    aggregated: Vec<Vec<AggregatedRows>>,
}

/// What was aggregated of some batches.
#[derive(Debug, Clone)]
pub(crate) struct AggregatedRows {
    /// Up to and without this batch.
    to: usize,
    /// Rows that it was made of.
    made_of: u64,
    rows: Vec<RecordBatch>,
    /// Whether a sum of them does not fit.
    is_saturated: bool,
}

/// Rows of batches.
pub(crate) fn count(batches: &[RecordBatch]) -> u64 {
    batches.iter().map(|batch| batch.num_rows() as u64).sum()
}

/// Rows that what was aggregated counts as: a sketch of many values takes the memory of many rows.
pub(crate) fn count_aggregated(batches: &[RecordBatch]) -> u64 {
    let rows = |batch: &RecordBatch| {
        let octets = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or_default();
        let octets: usize = batch.columns().iter().map(octets).sum();
        batch.num_rows().max(octets / AGGREGATED_ROW_OCTETS) as u64
    };
    batches.iter().map(rows).sum()
}

impl PaneRows {
    /// Without rows. What it keeps is counted in `counted`, until it is [closed](Self::close).
    pub fn new(counted: &Arc<AtomicU64>) -> Self {
        let content = PaneContent { counted: Some(Arc::clone(counted)), ..PaneContent::default() };
        Self { content: Mutex::new(content) }
    }

    /// The same, whose memory is counted until nothing has it any more.
    #[must_use]
    pub fn within(self, memory: Option<&QuestionMemory>) -> Self {
        self.content().memory = memory.cloned();
        self
    }

    fn content(&self) -> MutexGuard<'_, PaneContent> {
        // every step under this lock leaves whole values behind
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds rows.
    pub fn push(&self, batch: RecordBatch) {
        let mut content = self.content();
        let rows = batch.num_rows() as u64;
        content.count(rows, 0);
        content.rows += rows;
        content.remember(std::slice::from_ref(&batch));
        content.batches.push(batch);
    }

    /// Rows that are here and were not aggregated.
    pub fn rows(&self) -> u64 {
        self.content().rows
    }

    /// How much it has.
    pub fn size(&self) -> PaneSize {
        let content = self.content();
        let aggregated_rows = content.aggregated_rows();
        PaneSize { rows: content.rows, aggregated_rows, released_rows: content.released_rows }
    }

    /// Batches that came.
    pub fn batches(&self) -> usize {
        let content = self.content();
        content.released + content.batches.len()
    }

    /// The rows that have not been released, of the first batches.
    fn first(&self, batches: usize) -> Vec<RecordBatch> {
        let content = self.content();
        content.batches.iter().take(batches.saturating_sub(content.released)).cloned().collect()
    }

    /// The batches that an aggregate lacks of the first ones.
    fn not_aggregated(&self, aggregate: usize, batches: usize) -> Vec<RecordBatch> {
        let content = self.content();
        let from = content.aggregated.get(aggregate).and_then(|parts| parts.last()).map_or(0, |part| part.to);
        let here = content.batches.iter().enumerate().map(|(number, batch)| (content.released + number, batch));
        here.filter(|(number, _)| (from..batches).contains(number)).map(|(_, batch)| batch.clone()).collect()
    }

    /// Keeps what an aggregate made of the batches that it lacked.
    fn keep_aggregated(&self, aggregate: usize, batches: usize, made_of: u64, made: MadeRows) {
        let MadeRows { batches: rows, is_saturated } = made;
        let mut content = self.content();
        content.count(count_aggregated(&rows), 0);
        content.remember(&rows);
        if content.aggregated.len() <= aggregate {
            content.aggregated.resize_with(aggregate + 1, Vec::new);
        }
        if let Some(parts) = content.aggregated.get_mut(aggregate) {
            parts.push(AggregatedRows { to: batches, made_of, rows, is_saturated });
        }
    }

    /// What an aggregate made, of how many parts, when it should be merged: since that was done last it has doubled.
    fn unmerged(&self, aggregate: usize) -> Option<(usize, Vec<RecordBatch>)> {
        let content = self.content();
        let parts = content.aggregated.get(aggregate)?;
        let (first, later) = parts.split_first()?;
        let of_later: u64 = later.iter().map(|part| count(&part.rows)).sum();
        let is_due = of_later > 0 && of_later >= count(&first.rows);
        is_due.then(|| (parts.len(), parts.iter().flat_map(|part| part.rows.iter().cloned()).collect()))
    }

    /// Keeps one part in the place of the first ones of an aggregate.
    fn keep_merged(&self, aggregate: usize, parts: usize, merged: &MadeRows) {
        let rows = &merged.batches;
        let mut content = self.content();
        let Some(all) = content.aggregated.get_mut(aggregate).filter(|all| all.len() >= parts) else { return };
        let gone: Vec<AggregatedRows> = all.drain(..parts).collect();
        let Some(to) = gone.last().map(|part| part.to) else { return };
        let made_of = gone.iter().map(|part| part.made_of).sum();
        let is_saturated = merged.is_saturated || gone.iter().any(|part| part.is_saturated);
        all.insert(0, AggregatedRows { to, made_of, rows: rows.clone(), is_saturated });
        content.remember(rows);
        for part in &gone {
            content.forget(&part.rows);
        }
        content.count(count_aggregated(rows), gone.iter().map(|part| count_aggregated(&part.rows)).sum());
    }

    /// What an aggregate made of the first batches.
    pub(crate) fn aggregated(&self, aggregate: usize, batches: usize) -> MadeRows {
        let content = self.content();
        let parts = content.aggregated.get(aggregate).into_iter().flatten();
        let mut made = MadeRows::default();
        for part in parts.filter(|part| part.to <= batches) {
            made.batches.extend_from_slice(&part.rows);
            made.is_saturated |= part.is_saturated;
        }
        made
    }

    /// Drops those of the first batches that every aggregate of the statement has: nothing else reads them. One that is of a
    /// shorter window may lack late rows, and a correction may ask for them.
    pub(crate) fn release(&self, batches: usize, aggregates: usize) {
        let mut content = self.content();
        let to = |aggregate: usize| {
            content.aggregated.get(aggregate).and_then(|parts| parts.last()).map_or(0, |part| part.to)
        };
        let batches = (0..aggregates).map(to).min().unwrap_or(0).min(batches);
        let number = batches.saturating_sub(content.released).min(content.batches.len());
        let gone: Vec<RecordBatch> = content.batches.drain(..number).collect();
        content.released += number;
        content.forget(&gone);
        let gone = count(&gone);
        content.rows -= gone;
        content.released_rows += gone;
        content.count(0, gone);
    }

    /// Drops the rows that came last, or what was made of them, and gives how many rows these were; 0 when there are none that can
    /// go. No window that has closed may have them, nor a statement that aggregates them.
    pub fn drop_last(&self) -> u64 {
        let mut content = self.content();
        let aggregated = content.aggregated.iter().filter_map(|parts| parts.last()).map(|part| part.to).max();
        if content.batches.is_empty() {
            return content.drop_last_aggregated();
        }
        if content.released + content.batches.len() <= aggregated.unwrap_or(0) {
            return 0;
        }
        let Some(batch) = content.batches.pop() else { return 0 };
        let gone = batch.num_rows() as u64;
        content.forget(std::slice::from_ref(&batch));
        content.rows -= gone;
        content.count(0, gone);
        gone
    }

    /// No window will be open any more that it is of: its rows are those of windows that wait for their answers.
    pub fn close(&self) {
        let mut content = self.content();
        content.count(0, content.rows + content.aggregated_rows());
        content.counted = None;
    }
}

impl Drop for PaneRows {
    fn drop(&mut self) {
        let content = self.content.get_mut().unwrap_or_else(PoisonError::into_inner);
        let aggregated = content.aggregated.iter().flatten().flat_map(|part| &part.rows);
        if let Some(memory) = &content.memory {
            content.batches.iter().chain(aggregated).for_each(|batch| memory.remove(batch));
        }
    }
}

impl PaneContent {
    /// Counts the memory of batches that are kept from now on.
    fn remember(&self, batches: &[RecordBatch]) {
        if let Some(memory) = &self.memory {
            for batch in batches {
                memory.add(batch);
            }
        }
    }

    /// Counts it no more.
    fn forget(&self, batches: &[RecordBatch]) {
        if let Some(memory) = &self.memory {
            for batch in batches {
                memory.remove(batch);
            }
        }
    }

    /// Drops what all aggregates made last, of rows that are gone; gives how many these were.
    fn drop_last_aggregated(&mut self) -> u64 {
        let Some(first) = self.aggregated.first() else { return 0 };
        let Some(last_to) = first.last().map(|part| part.to).filter(|to| *to <= self.released) else { return 0 };
        if self.aggregated.iter().any(|parts| parts.last().is_none_or(|part| part.to != last_to)) {
            return 0;
        }
        // parts of one may have been merged, and those of another one not
        let all_have = |to: &usize| self.aggregated.iter().all(|parts| parts.iter().any(|part| part.to == *to));
        let kept_to = first.iter().rev().skip(1).map(|part| part.to).find(all_have).unwrap_or(0);
        let split = |parts: &mut Vec<AggregatedRows>| {
            let kept = parts.partition_point(|part| part.to <= kept_to);
            parts.split_off(kept)
        };
        let gone: Vec<Vec<AggregatedRows>> = self.aggregated.iter_mut().map(split).collect();
        for part in gone.iter().flatten() {
            self.forget(&part.rows);
            self.count(0, count_aggregated(&part.rows));
        }
        let made_of: u64 = gone.first().into_iter().flatten().map(|part| part.made_of).sum();
        self.released_rows = self.released_rows.saturating_sub(made_of);
        made_of
    }

    fn aggregated_rows(&self) -> u64 {
        self.aggregated.iter().flatten().map(|part| count_aggregated(&part.rows)).sum()
    }

    fn count(&self, more: u64, less: u64) {
        if let Some(counted) = &self.counted {
            counted.fetch_add(more, Ordering::Relaxed);
            counted.fetch_sub(less, Ordering::Relaxed);
        }
    }
}

/// A pane as a window has it: what came after the window closed is not of it.
#[derive(Debug, Clone)]
pub struct WindowPane {
    rows: Arc<PaneRows>,
    batches: usize,
}

impl WindowPane {
    /// With the rows that have come so far.
    pub fn of(rows: &Arc<PaneRows>) -> Self {
        Self { batches: rows.batches(), rows: Arc::clone(rows) }
    }

    /// Of rows that no other window shares.
    pub fn single(batches: Vec<RecordBatch>) -> Self {
        Self::single_within(batches, None)
    }

    /// The same, whose memory is counted.
    pub(crate) fn single_within(batches: Vec<RecordBatch>, memory: Option<&QuestionMemory>) -> Self {
        let rows = Arc::new(PaneRows::new(&Arc::default()).within(memory));
        for batch in batches {
            rows.push(batch);
        }
        Self::of(&rows)
    }

    /// How much its pane has.
    pub fn size(&self) -> PaneSize {
        self.rows.size()
    }

    /// Whether some of its rows were aggregated and are gone.
    pub(crate) fn has_released(&self) -> bool {
        self.rows.content().released > 0
    }

    /// Its rows, as far as they were not released.
    pub fn rows(&self) -> Vec<RecordBatch> {
        self.rows.first(self.batches)
    }

    /// The batches that an aggregate lacks.
    pub(crate) fn not_aggregated(&self, aggregate: usize) -> Vec<RecordBatch> {
        self.rows.not_aggregated(aggregate, self.batches)
    }

    /// Keeps what an aggregate made of the batches that it lacked, which had so many rows.
    pub(crate) fn keep_aggregated(&self, aggregate: usize, made_of: u64, made: MadeRows) {
        self.rows.keep_aggregated(aggregate, self.batches, made_of, made);
    }

    /// What an aggregate made of its rows; `aggregate_rows` makes it of those that it lacks.
    pub(crate) fn aggregated<E>(
        &self,
        aggregate: usize,
        aggregate_rows: impl FnOnce(Vec<RecordBatch>) -> Result<MadeRows, E>,
    ) -> Result<MadeRows, E> {
        let lacking = self.not_aggregated(aggregate);
        if !lacking.is_empty() {
            let made_of = count(&lacking);
            self.keep_aggregated(aggregate, made_of, aggregate_rows(lacking)?);
        }
        Ok(self.rows.aggregated(aggregate, self.batches))
    }

    /// Merges what an aggregate made of parts of its rows by `merge_rows`, if there is enough of it. No window that has closed may
    /// have some of these parts alone.
    pub(crate) fn merge<E>(
        &self,
        aggregate: usize,
        merge_rows: impl FnOnce(Vec<RecordBatch>) -> Result<MadeRows, E>,
    ) -> Result<(), E> {
        if let Some((parts, rows)) = self.rows.unmerged(aggregate) {
            self.rows.keep_merged(aggregate, parts, &merge_rows(rows)?);
        }
        Ok(())
    }

    /// Drops its rows that this number of aggregates have.
    pub(crate) fn release(&self, aggregates: usize) {
        self.rows.release(self.batches, aggregates);
    }
}
