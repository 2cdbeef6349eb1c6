//! Rows with the same key in the same window, and what is counted for each.
//!
//! There is one table of groups for all windows that are open, in which the start of the window is part of the key, so
//! that one limit holds for all of them and a row costs one look-up however many windows are open. What is counted is
//! in [`Cells`] of the component's own, by the number of the group. The groups of a window that has closed stay in the table,
//! where no row finds them any more, until they are more than those of open windows: so closing one of many windows
//! costs what is in it. What speaks against it is that the table may be twice as large as it need be.

mod prefix;

use std::collections::BTreeMap;

use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::{SortColumn, SortOptions, filter_record_batch, lexsort_to_indices};
use arrow::datatypes::TimestampMillisecondType;
use weir_chain::{ComponentError, Counter, Counters, Outlet, State, choices};

pub use self::prefix::KeyNames;
use crate::keys::{KeyColumns, NO_KEY};
use crate::windows::{Step, WINDOW_START, WindowSettings, Windows};

/// Rows handed on at once; more are cut.
const BURST_ROWS_MAX: usize = 32_768;

/// What is counted for each group.
pub trait Cells {
    /// Counts rows. `ids` are the numbers of their groups, of which there are `groups` now.
    fn add(&mut self, rows: &RecordBatch, ids: &[u32], groups: usize) -> Result<(), ComponentError>;

    /// Forgets the groups whose new number is [`NO_KEY`] and numbers the others anew; their order stays.
    fn renumber(&mut self, renumbered: &[u32]);

    /// Forgets all groups.
    fn clear(&mut self);

    /// Octets of memory, about.
    fn octets(&self) -> usize;
}

choices! {
    /// What happens to a row whose group is new when there are as many groups as allowed.
    pub enum WhenFull {
        /// Hand on all groups before their time, count them in `groups_handed_on_early`, and begin anew. Nothing is
        /// lost, but a key may come twice in a window.
        HandOn = "hand-on",
        /// Drop the row and count it in `rows_shed`.
        Shed = "shed",
    }
}

/// The groups of a window that has closed.
pub struct Closed<'a, C> {
    /// Start of the window; `None` when everything is one window.
    pub start_ms: Option<i64>,
    /// Their numbers, in the order in which they were first seen.
    pub ids: &'a [u32],
    /// Their keys; the columns of the key come first.
    pub keys: &'a KeyColumns,
    /// What was counted.
    pub cells: &'a C,
}

/// Groups of rows.
pub struct Grouping<C> {
    windows: Windows,
    names: KeyNames,
    keys: KeyColumns,
    cells: C,
    /// The groups of each open window by its start, which is 0 when everything is one window.
    open: BTreeMap<i64, Vec<u32>>,
    is_one_window: bool,
    /// How many groups the table has.
    groups: usize,
    /// How many of them belong to windows that are closed.
    closed: usize,
    groups_max: usize,
    when_full: WhenFull,
    /// Groups of the rows at hand; here so that its memory is used again.
    ids: Vec<u32>,
    shed: Counter,
    early: Option<Counter>,
}

impl<C: Cells> Grouping<C> {
    /// No groups yet.
    pub fn new(
        windows: &WindowSettings,
        names: KeyNames,
        cells: C,
        groups_max: usize,
        when_full: WhenFull,
        counters: &Counters,
    ) -> Self {
        let start = (!windows.is_one()).then(|| WINDOW_START.to_owned());
        Self {
            keys: KeyColumns::new(names.names().iter().cloned().chain(start)),
            windows: windows.open(counters),
            names,
            cells,
            open: BTreeMap::new(),
            is_one_window: windows.is_one(),
            groups: 0,
            closed: 0,
            groups_max,
            when_full,
            ids: Vec::new(),
            shed: counters.counter("rows_shed"),
            early: (when_full == WhenFull::HandOn).then(|| counters.counter("groups_handed_on_early")),
        }
    }

    /// Counts rows, and hands the windows that close to `emit`, the oldest first.
    pub fn take(&mut self, rows: &RecordBatch, emit: &mut Emit<'_, C>) -> Result<(), ComponentError> {
        let mut split = self.windows.split(rows)?;
        split.rows = self.names.cut(&split.rows)?;
        for step in split.steps() {
            match step {
                Step::Close(edge_ms) => self.close(Some(self.windows.closed_below(edge_ms)), emit)?,
                Step::Rows(range) => self.add(&split.rows.slice(range.start, range.len()), emit)?,
            }
        }
        Ok(())
    }

    /// Hands on what is left.
    pub fn finish(&mut self, emit: &mut Emit<'_, C>) -> Result<(), ComponentError> {
        self.close(None, emit)
    }

    /// What is held.
    pub fn state(&self) -> State {
        let octets = self.keys.octets() + self.groups * size_of::<u32>() + self.cells.octets();
        State { rows: self.open_groups() as u64, octets: octets as u64, edge_ms: self.windows.edge_ms() }
    }

    fn open_groups(&self) -> usize {
        self.groups - self.closed
    }

    /// Counts rows of windows that are open.
    fn add(&mut self, rows: &RecordBatch, emit: &mut Emit<'_, C>) -> Result<(), ComponentError> {
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
    fn add_some(&mut self, rows: &RecordBatch, emit: &mut Emit<'_, C>) -> Result<usize, ComponentError> {
        self.look_up(rows)?;
        let is_full = self.open_groups() >= self.groups_max;
        match is_full.then(|| self.ids.iter().position(|id| *id == NO_KEY)).flatten() {
            None => {
                self.cells.add(rows, &self.ids, self.groups)?;
                Ok(rows.num_rows())
            }
            Some(end) if self.when_full == WhenFull::HandOn => {
                self.cells.add(&rows.slice(0, end), &self.ids[..end], self.groups)?;
                if let Some(early) = &self.early {
                    early.add(self.open_groups() as u64);
                }
                self.close(None, emit)?;
                Ok(end)
            }
            Some(_) => {
                let known: BooleanArray = self.ids.iter().map(|id| Some(*id != NO_KEY)).collect();
                self.shed.add((rows.num_rows() - known.true_count()) as u64);
                let kept = filter_record_batch(rows, &known);
                let kept = kept.map_err(|error| ComponentError::caused("rows cannot be shed", error))?;
                self.ids.retain(|id| *id != NO_KEY);
                self.cells.add(&kept, &self.ids, self.groups)?;
                Ok(rows.num_rows())
            }
        }
    }

    /// Puts the groups of rows into `self.ids`.
    fn look_up(&mut self, rows: &RecordBatch) -> Result<(), ComponentError> {
        if self.keys.names().is_empty() {
            self.ids.clear();
            self.ids.resize(rows.num_rows(), 0);
        } else {
            self.keys.ids(rows, self.groups_max + self.closed, &mut self.ids)?;
            if self.keys.len() == self.groups {
                return Ok(());
            }
        }
        // New groups are numbered in the order of the rows.
        let starts = rows.column_by_name(WINDOW_START).map(AsArray::as_primitive::<TimestampMillisecondType>);
        for (row, id) in self.ids.iter().enumerate() {
            if *id as usize == self.groups {
                let start_ms = starts.map_or(0, |starts| starts.value(row));
                self.open.entry(start_ms).or_default().push(*id);
                self.groups += 1;
            }
        }
        Ok(())
    }

    /// Hands on the groups of windows that start below; of all windows when nothing is said.
    fn close(&mut self, below_ms: Option<i64>, emit: &mut Emit<'_, C>) -> Result<(), ComponentError> {
        while let Some(oldest) = self.open.first_entry() {
            let start_ms = *oldest.key();
            if below_ms.is_some_and(|below_ms| start_ms >= below_ms) {
                break;
            }
            let ids = oldest.remove();
            let start_ms = (!self.is_one_window).then_some(start_ms);
            emit(&Closed { start_ms, ids: &ids, keys: &self.keys, cells: &self.cells })?;
            self.closed += ids.len();
        }
        if self.open.is_empty() {
            self.keys.clear();
            self.cells.clear();
            (self.groups, self.closed) = (0, 0);
        } else if self.closed > self.open_groups() {
            self.forget_closed();
        }
        Ok(())
    }

    /// Takes the groups of closed windows out of the table.
    fn forget_closed(&mut self) {
        let mut is_open = vec![false; self.groups];
        self.open.values().flatten().for_each(|id| is_open[*id as usize] = true);
        let renumbered = self.keys.retain(|id| is_open[id as usize]);
        self.cells.renumber(&renumbered);
        self.open.values_mut().flatten().for_each(|id| *id = renumbered[*id as usize]);
        (self.groups, self.closed) = (self.open_groups(), 0);
    }
}

/// Who takes the groups of a window that has closed.
pub type Emit<'a, C> = dyn FnMut(&Closed<'_, C>) -> Result<(), ComponentError> + 'a;

/// Hands on rows in bursts of moderate size.
pub fn hand_on(rows: &RecordBatch, out: &mut Outlet) {
    for from in (0..rows.num_rows()).step_by(BURST_ROWS_MAX) {
        out.rows(rows.slice(from, BURST_ROWS_MAX.min(rows.num_rows() - from)));
    }
}

/// Groups in ascending order of their keys, nulls first. The start of the window is no part of it.
pub fn by_key<C>(closed: &Closed<'_, C>, ids: &[u32]) -> Result<Vec<u32>, ComponentError> {
    let columns = closed.keys.columns(ids)?;
    let columns = columns.into_iter().filter(|(field, _)| field.name() != WINDOW_START);
    let sorted = |values: ArrayRef| SortColumn { values, options: Some(SortOptions::default()) };
    let columns: Vec<_> = columns.map(|(_, values)| sorted(values)).collect();
    if columns.is_empty() {
        return Ok(ids.to_vec());
    }
    let order = lexsort_to_indices(&columns, None);
    let order = order.map_err(|error| ComponentError::caused("keys cannot be put in order", error))?;
    Ok(order.values().iter().map(|place| ids[*place as usize]).collect())
}
