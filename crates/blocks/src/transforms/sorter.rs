//! The sorter: rows by time, out of a window that moves with them.
//!
//! Which rows are late is decided row by row. Everything else is put off until whole [`slices`] of the window can leave,
//! so that a row is copied twice and sorted once; since the order of what leaves is the order of times, nobody can see
//! how much was put off.

mod order;
mod slices;
mod spill;

use std::ops::Range;
use std::path::PathBuf;

use arrow::array::{Array, AsArray, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::TimestampMillisecondType;
use weir_chain::{
    Built, ColumnRule, ComponentContext, ComponentError, ComponentKind, Counter, FlowColumnRule, KindWithColumns,
    ONE_INPUT, Opener, OptionError, Outlet, Role, State, TimeSpan, Transform, choices, options,
};
use weir_flow::Column;

use self::slices::Slices;
use self::spill::SpillFile;
use weir_rows::flow_columns::TimeColumn;
use weir_rows::gather::{SharedSchema, Sources, take};

/// What chain files call `sorter`.
pub const KIND: ComponentKind<SorterOptions> = ComponentKind {
    name: "sorter",
    role: Role::Transform,
    inputs: ONE_INPUT,
    doc: "Sorts rows by time. It needs rows with the column that `time` names and hands on the same rows with the same \
          columns; rows of equal time stay in the order in which they came. \
          The edge of the window is the largest time seen so far, in the row itself and all before it, minus `window`. \
          A row whose time is before the edge is late, see `late`. A row without a time is treated as a late one and \
          counted in `rows_without_time`, too. All other rows are handed on sorted, some time after the edge has passed \
          them (a 32nd of the window later, or sooner).",
    configure,
};

/// The same, with the columns that it needs.
pub const KIND_WITH_COLUMNS: KindWithColumns<SorterOptions> = KindWithColumns {
    kind: KIND,
    columns: |_| ColumnRule::Kept,
    flow_columns: |options| FlowColumnRule::Kept(vec![options.time.column().name()]),
};

options! {
    /// Options of `sorter`.
    pub struct SorterOptions {
        /// Sort rows by this column.
        time: TimeColumn = TimeColumn::Start,
        /// Wait for a row until its time is smaller by this much than the largest time seen so far.
        window: TimeSpan = TimeSpan::from_secs(20),
        /// What happens to late rows.
        late: Late = Late::Drop,
        /// Keep at most this many rows in memory; a row of a flow takes 60 to 100 bytes. Over the limit `when_full`
        /// applies.
        window_rows_max: usize = 8_000_000 => 1..=1 << 31,
        /// What happens to rows over the limit.
        when_full: WhenFull = WhenFull::Spill,
        /// Write the temporary files into this folder; without it, where the system has its temporary files.
        spill_folder: Option<PathBuf>,
    }
}

choices! {
    /// What happens to late rows.
    pub enum Late {
        /// Drop them and count them in `rows_late_dropped`.
        Drop = "drop",
        /// Hand them on as if their time were that of the edge and count them in `rows_late_passed`.
        Pass = "pass",
    }
}

choices! {
    /// What happens when more rows than allowed would be in memory.
    pub enum WhenFull {
        /// Write the newest rows to a temporary file, until half of them are left, and count them in `rows_spilled`;
        /// they come back when it is their turn, and the order does not change. When the disk fails, that is counted
        /// in `spill_failures`, and rows are shed from then on.
        Spill = "spill",
        /// Hand on the oldest quarter before its time and count it in `rows_shed`: the edge moves up to the last of
        /// them, and what comes later and is older is late.
        Shed = "shed",
    }
}

#[expect(clippy::unnecessary_wraps, reason = "every kind is configured by a function of this type")]
fn configure(options: SorterOptions) -> Result<Opener, OptionError> {
    Ok(Box::new(move |context| {
        let folder = options.spill_folder.unwrap_or_else(std::env::temp_dir);
        Ok(Built::Transform(Box::new(Sorter {
            time: options.time.column(),
            window_ms: options.window.millis(),
            passes_late: options.late == Late::Pass,
            rows_max: options.window_rows_max,
            spill_folder: (options.when_full == WhenFull::Spill).then_some(folder),
            newest: None,
            floor: i64::MIN,
            slices: None,
            counters: Counters::new(context),
            schema: SharedSchema::default(),
            rows: Vec::new(),
            times: Vec::new(),
        })))
    }))
}

struct Counters {
    late_dropped: Counter,
    late_passed: Counter,
    without_time: Counter,
    shed: Counter,
    spilled: Counter,
    spill_failures: Counter,
}

impl Counters {
    fn new(context: &ComponentContext) -> Self {
        Self {
            late_dropped: context.counters.counter("rows_late_dropped"),
            late_passed: context.counters.counter("rows_late_passed"),
            without_time: context.counters.counter("rows_without_time"),
            shed: context.counters.counter("rows_shed"),
            spilled: context.counters.counter("rows_spilled"),
            spill_failures: context.counters.counter("spill_failures"),
        }
    }
}

struct Sorter {
    time: Column,
    window_ms: i64,
    passes_late: bool,
    rows_max: usize,
    /// `None` when rows over the limit are shed.
    spill_folder: Option<PathBuf>,
    /// The largest time seen.
    newest: Option<i64>,
    /// The edge is not before this, because rows of that time left early.
    floor: i64,
    /// The rows; `None` until a time was seen.
    slices: Option<Slices>,
    counters: Counters,
    schema: SharedSchema,
    /// The rows of a batch that are kept, and their times.
    rows: Vec<u32>,
    times: Vec<i64>,
}

/// Times beyond these are nonsense; with them in bounds no sum or difference of times overflows.
const TIME_MAX: i64 = 1 << 60;

impl Sorter {
    fn edge(&self, newest: i64) -> i64 {
        self.floor.max(newest - self.window_ms)
    }

    /// Takes rows from `from` on, up to the one with which the window may be over its limit; returns the one after it.
    fn take_some(
        &mut self,
        batch: &RecordBatch,
        sources: &Sources,
        times: Option<&TimestampMillisecondArray>,
        from: usize,
        out: &mut Outlet,
    ) -> Result<usize, ComponentError> {
        let room = self.rows_max + 1 - self.slices.as_ref().map_or(0, |slices| slices.rows);
        let to = batch.num_rows().min(from + room);
        self.rows.clear();
        self.times.clear();
        if !self.keep_all(times, from..to) {
            self.decide(batch, times, from..to, out)?;
        }
        let edge = self.newest.map(|newest| self.edge(newest));
        if let (Some(slices), Some(edge)) = (&mut self.slices, edge) {
            slices.admit(batch, sources, &self.rows, &self.times, edge, out)?;
        }
        Ok(to)
    }

    /// Keeps all rows of a range; does nothing and returns false when one of them might be late.
    fn keep_all(&mut self, times: Option<&TimestampMillisecondArray>, range: Range<usize>) -> bool {
        let Some(times) = times.filter(|times| times.null_count() == 0) else { return false };
        let times = &times.values()[range.clone()];
        let bounds = |(min, max): (i64, i64), &time: &i64| (min.min(time), max.max(time));
        let (min, max) = times.iter().fold((TIME_MAX, -TIME_MAX), bounds);
        let newest = self.newest.map_or(max, |newest| newest.max(max));
        if min < self.edge(newest) || min < -TIME_MAX || max > TIME_MAX {
            return false;
        }
        self.begin(times[0]);
        self.newest = Some(newest);
        self.rows.extend(range.start as u32..range.end as u32);
        self.times.extend_from_slice(times);
        true
    }

    /// The window begins with the first time seen.
    fn begin(&mut self, time: i64) {
        let edge = self.edge(time);
        self.slices.get_or_insert_with(|| Slices::new(self.window_ms, edge));
    }

    /// Decides row by row which are kept, and by what time they are sorted.
    fn decide(
        &mut self,
        batch: &RecordBatch,
        times: Option<&TimestampMillisecondArray>,
        range: Range<usize>,
        out: &mut Outlet,
    ) -> Result<(), ComponentError> {
        // without a time, and before any: nothing can be older
        let mut first = Vec::new();
        let mut late = 0;
        let mut without_time = 0;
        for row in range {
            let time = times.filter(|times| times.is_valid(row)).map(|times| times.value(row));
            let time = time.map(|time| time.clamp(-TIME_MAX, TIME_MAX));
            if let Some(time) = time {
                self.newest = Some(self.newest.map_or(time, |newest| newest.max(time)));
                self.begin(time);
            }
            let edge = self.newest.map(|newest| self.edge(newest));
            without_time += u64::from(time.is_none());
            match time.filter(|time| Some(*time) >= edge) {
                Some(time) => {
                    self.rows.push(row as u32);
                    self.times.push(time);
                    continue;
                }
                None => late += 1,
            }
            match edge.filter(|_| self.passes_late) {
                Some(edge) => {
                    self.rows.push(row as u32);
                    self.times.push(edge);
                }
                None if self.passes_late => first.push(row as u32),
                None => {}
            }
        }
        let counter = if self.passes_late { &self.counters.late_passed } else { &self.counters.late_dropped };
        counter.add(late);
        self.counters.without_time.add(without_time);
        if !first.is_empty() {
            out.rows(take(batch, &first)?);
        }
        Ok(())
    }

    /// Brings the rows in memory below the limit.
    fn relieve(&mut self, out: &mut Outlet) -> Result<(), ComponentError> {
        let Some(slices) = &mut self.slices else { return Ok(()) };
        if slices.rows <= self.rows_max {
            return Ok(());
        }
        if let Some(folder) = &self.spill_folder {
            let before = slices.rows_on_disk;
            let spilled = SpillFile::create(folder).and_then(|file| slices.spill(self.rows_max / 2, &file));
            self.counters.spilled.add((slices.rows_on_disk - before) as u64);
            match spilled {
                Ok(()) => return Ok(()),
                Err(error) => {
                    tracing::warn!("sorter sheds rows from now on: {}", error.chain());
                    self.counters.spill_failures.add(1);
                    self.spill_folder = None;
                }
            }
        }
        while slices.rows > self.rows_max {
            let rows = slices.rows.div_ceil(4);
            let last = slices.shed(rows, out)?;
            self.floor = self.floor.max(last.unwrap_or(self.floor));
            self.counters.shed.add(rows as u64);
        }
        Ok(())
    }
}

impl Transform for Sorter {
    fn take(&mut self, _input: usize, rows: RecordBatch, out: &mut Outlet) -> Result<(), ComponentError> {
        let rows = self.schema.share(rows);
        let times = match rows.column_by_name(self.time.name()) {
            None => None,
            Some(column) => Some(column.as_primitive_opt::<TimestampMillisecondType>().ok_or_else(|| {
                let (time, found) = (self.time, column.data_type());
                ComponentError::new(format!("column '{time}' has type {found}, but a time is needed"))
            })?),
        };
        let sources = Sources::new(&rows);
        let mut from = 0;
        while from < rows.num_rows() {
            from = self.take_some(&rows, &sources, times, from, out)?;
            self.relieve(out)?;
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Outlet) -> Result<(), ComponentError> {
        self.slices.as_mut().map_or(Ok(()), |slices| slices.finish(out))
    }

    fn state(&self) -> State {
        let Some(slices) = &self.slices else { return State::default() };
        State {
            rows: (slices.rows + slices.rows_on_disk) as u64,
            octets: slices.octets() as u64,
            edge_ms: Some(slices.start_ms().max(self.floor)),
        }
    }
}

#[cfg(test)]
mod tests;
