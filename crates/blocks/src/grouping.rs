//! Rows with the same key in the same window, and what is counted for each.
//!
//! There is one table of groups for all windows that are open, in which the start of the window is part of the key, so
//! that one limit holds for all of them and a row costs one look-up however many windows are open. What is counted lies
//! in [`Cells`] of the block's own, by the number of the group. What speaks against one table: when some windows
//! close and others stay open, those that stay must be entered anew.

mod prefix;

use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::{SortColumn, SortOptions, filter_record_batch, lexsort_to_indices};
use arrow::datatypes::TimestampMillisecondType;
use weir_chain::{BlockError, Counter, Meter, Outlet, Window};

pub(crate) use self::prefix::KeyNames;
use crate::keys::{KeyColumns, NO_KEY};
use crate::windows::{Step, WINDOW_START, WindowSettings, Windows};

/// Rows handed on at once; more are cut.
const BURST_ROWS_MAX: usize = 32_768;

/// What is counted for each group.
pub(crate) trait Cells {
    /// Counts rows. `ids` are the numbers of their groups, of which there are `groups` now.
    fn add(&mut self, rows: &RecordBatch, ids: &[u32], groups: usize) -> Result<(), BlockError>;

    /// Forgets the groups whose new number is [`NO_KEY`] and numbers the others anew; their order stays.
    fn renumber(&mut self, renumbered: &[u32]);

    /// Forgets all groups.
    fn clear(&mut self);

    /// Octets of memory, about.
    fn octets(&self) -> usize;
}

/// What happens to a row whose group is new when there is no room for one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// The row is counted and dropped.
    Shed,
    /// All groups are handed on and begin anew.
    HandOn,
}

/// The groups of a window that has closed.
pub(crate) struct Closed<'a, C> {
    /// Start of the window; `None` when everything is one window.
    pub(crate) start_ms: Option<i64>,
    /// Their numbers, in the order in which they were first seen.
    pub(crate) ids: &'a [u32],
    /// Their keys; the columns of the key come first.
    pub(crate) keys: &'a KeyColumns,
    /// What was counted.
    pub(crate) cells: &'a C,
}

/// Groups of rows.
pub(crate) struct Grouping<C> {
    windows: Windows,
    names: KeyNames,
    keys: KeyColumns,
    /// Start of the window of each group; 0 when everything is one window.
    starts: Vec<i64>,
    is_one_window: bool,
    cells: C,
    groups_max: usize,
    when_full: WhenFull,
    /// Groups of the rows at hand; here so that its memory is used again.
    ids: Vec<u32>,
    shed: Counter,
    early: Option<Counter>,
}

impl<C: Cells> Grouping<C> {
    /// No groups yet.
    pub(crate) fn new(
        windows: &WindowSettings,
        names: KeyNames,
        cells: C,
        groups_max: usize,
        when_full: WhenFull,
        meter: &Meter,
    ) -> Self {
        let start = (!windows.is_one()).then(|| WINDOW_START.to_owned());
        Self {
            keys: KeyColumns::new(names.names().iter().cloned().chain(start)),
            windows: windows.open(meter),
            names,
            starts: Vec::new(),
            is_one_window: windows.is_one(),
            cells,
            groups_max,
            when_full,
            ids: Vec::new(),
            shed: meter.counter("rows_shed"),
            early: (when_full == WhenFull::HandOn).then(|| meter.counter("groups_handed_on_early")),
        }
    }

    /// Counts rows, and hands the windows that close to `emit`, the oldest first.
    pub(crate) fn take(&mut self, rows: &RecordBatch, emit: &mut impl Emit<C>) -> Result<(), BlockError> {
        let mut split = self.windows.split(rows)?;
        split.rows = self.names.cut(&split.rows)?;
        for step in split.steps() {
            match step {
                Step::Close(edge_ms) => self.close_below(self.windows.closed_below(edge_ms), emit)?,
                Step::Rows(range) => self.add(&split.rows.slice(range.start, range.len()), emit)?,
            }
        }
        Ok(())
    }

    /// Hands on what is left.
    pub(crate) fn finish(&mut self, emit: &mut impl Emit<C>) -> Result<(), BlockError> {
        self.close_below(i64::MAX, emit)
    }

    /// What is held.
    pub(crate) fn window(&self) -> Window {
        let octets = self.keys.octets() + self.starts.capacity() * size_of::<i64>() + self.cells.octets();
        Window { rows: self.starts.len() as u64, octets: octets as u64, edge_ms: self.windows.edge_ms() }
    }

    /// Counts rows of windows that are open.
    fn add(&mut self, rows: &RecordBatch, emit: &mut impl Emit<C>) -> Result<(), BlockError> {
        let mut from = 0;
        while from < rows.num_rows() {
            let left = rows.num_rows() - from;
            // When groups are handed on, rows behind the place are looked up again: not too many at once, then.
            let length = if self.when_full == WhenFull::HandOn { left.min(2 * self.groups_max) } else { left };
            from += self.add_some(&rows.slice(from, length), emit)?;
        }
        Ok(())
    }

    /// Counts rows up to where groups must be handed on; returns how many.
    fn add_some(&mut self, rows: &RecordBatch, emit: &mut impl Emit<C>) -> Result<usize, BlockError> {
        let groups_before = self.keys.len();
        self.keys.ids(rows, self.groups_max, &mut self.ids)?;
        let groups = self.keys.len();
        if groups > groups_before {
            self.note_starts(rows);
        }
        if groups < self.groups_max {
            self.cells.add(rows, &self.ids, groups)?;
            return Ok(rows.num_rows());
        }
        match (self.ids.iter().position(|id| *id == NO_KEY), self.when_full) {
            (None, _) => {
                self.cells.add(rows, &self.ids, groups)?;
                Ok(rows.num_rows())
            }
            (Some(end), WhenFull::HandOn) => {
                self.cells.add(&rows.slice(0, end), &self.ids[..end], groups)?;
                if let Some(early) = &self.early {
                    early.add(groups as u64);
                }
                self.close_below(i64::MAX, emit)?;
                Ok(end)
            }
            (Some(_), WhenFull::Shed) => {
                let known: BooleanArray = self.ids.iter().map(|id| Some(*id != NO_KEY)).collect();
                self.shed.add((rows.num_rows() - known.true_count()) as u64);
                let kept = filter_record_batch(rows, &known);
                let kept = kept.map_err(|error| BlockError::caused("rows cannot be shed", error))?;
                self.ids.retain(|id| *id != NO_KEY);
                self.cells.add(&kept, &self.ids, groups)?;
                Ok(rows.num_rows())
            }
        }
    }

    /// Notes the windows of groups that are new. New groups are numbered in the order of the rows.
    fn note_starts(&mut self, rows: &RecordBatch) {
        let starts = rows.column_by_name(WINDOW_START).map(AsArray::as_primitive::<TimestampMillisecondType>);
        for (row, id) in self.ids.iter().enumerate() {
            if *id as usize == self.starts.len() {
                self.starts.push(starts.map_or(0, |starts| starts.value(row)));
            }
        }
    }

    /// Hands on the groups of windows that start below.
    fn close_below(&mut self, start_ms: i64, emit: &mut impl Emit<C>) -> Result<(), BlockError> {
        let closed = |start: i64| start < start_ms || start_ms == i64::MAX;
        let mut ids: Vec<u32> = (0..self.starts.len() as u32).filter(|id| closed(self.starts[*id as usize])).collect();
        if ids.is_empty() {
            return Ok(());
        }
        // the order within a window stays
        ids.sort_by_key(|id| self.starts[*id as usize]);
        for ids in ids.chunk_by(|left, right| self.starts[*left as usize] == self.starts[*right as usize]) {
            let start_ms = (!self.is_one_window).then(|| self.starts[ids[0] as usize]);
            emit.emit(&Closed { start_ms, ids, keys: &self.keys, cells: &self.cells })?;
        }
        if ids.len() == self.starts.len() {
            self.keys.clear();
            self.cells.clear();
            self.starts.clear();
        } else {
            let renumbered = self.keys.retain(|id| !closed(self.starts[id as usize]));
            self.cells.renumber(&renumbered);
            self.starts.retain(|start| !closed(*start));
        }
        Ok(())
    }
}

/// Who takes the groups of a window that has closed.
pub(crate) trait Emit<C> {
    /// Takes them.
    fn emit(&mut self, closed: &Closed<'_, C>) -> Result<(), BlockError>;
}

impl<C, F: FnMut(&Closed<'_, C>) -> Result<(), BlockError>> Emit<C> for F {
    fn emit(&mut self, closed: &Closed<'_, C>) -> Result<(), BlockError> {
        self(closed)
    }
}

/// Hands on rows in bursts of moderate size.
pub(crate) fn hand_on(rows: &RecordBatch, out: &mut Outlet) {
    for from in (0..rows.num_rows()).step_by(BURST_ROWS_MAX) {
        out.rows(rows.slice(from, BURST_ROWS_MAX.min(rows.num_rows() - from)));
    }
}

/// Groups in ascending order of their keys, nulls first. The start of the window is no part of it.
pub(crate) fn by_key<C>(closed: &Closed<'_, C>, ids: &[u32]) -> Result<Vec<u32>, BlockError> {
    let columns = closed.keys.columns(ids)?;
    let columns = columns.into_iter().filter(|(field, _)| field.name() != WINDOW_START);
    let sorted = |values: ArrayRef| SortColumn { values, options: Some(SortOptions::default()) };
    let columns: Vec<_> = columns.map(|(_, values)| sorted(values)).collect();
    if columns.is_empty() {
        return Ok(ids.to_vec());
    }
    let order = lexsort_to_indices(&columns, None);
    let order = order.map_err(|error| BlockError::caused("keys cannot be put in order", error))?;
    Ok(order.values().iter().map(|place| ids[*place as usize]).collect())
}
