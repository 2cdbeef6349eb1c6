//! Flows cut into panes, and windows that close.
//!
//! A pane is as long as a slide of the windows, so that every window is a whole number of panes, and a flow is kept
//! once however many windows it is in. Time moves by the rows: a window closes before the first row whose time, less the
//! lateness, is at its end or after. That is decided from row to row, so how flows were delivered does not matter. When
//! no rows come, the clock moves time ([`Panes::advance`]).
//!
//! A row that a closed window should have had is late: it is counted, and kept for those of its windows that are still
//! open. A row that is dated long after its reception is left out, since one of them would close every window before it.
//! A row that the statement does not read, whatever the window, is not kept, and so needs no room.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, TimestampMillisecondArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{Schema, TimestampMillisecondType};
use weir_flow::Column;
use weir_sql::standing::{
    PaneRows, PaneSize, QuestionMemory, RowFilter, WindowKind, WindowPane, WindowRows, WindowSpec,
};

use crate::grown::{GrownPane, Growth};
use crate::window_clock::{EMPTY_WINDOWS_MAX, WindowClock};

/// How long windows that got late rows wait for more of them, when no other window closes meanwhile.
const CORRECTED_AFTER_MS: i64 = 10_000;

/// How panes are made.
#[derive(Debug, Clone)]
pub struct PaneOptions {
    /// The windows of the statement, by number.
    pub windows: Vec<Option<WindowSpec>>,
    /// Columns to keep.
    pub columns: Vec<Column>,
    /// How long after its end a window closes, in milliseconds.
    pub lateness_ms: i64,
    /// How long after it has closed a window is given again when rows come that it should have had, in milliseconds; 0 for
    /// never.
    pub late_ms: i64,
    /// How far after its reception a row may be dated, in milliseconds.
    pub skew_ms: i64,
    /// Rows that are kept at most.
    pub rows_max: u64,
    /// Whether windows without a row are given too.
    pub empty_windows: bool,
}

/// What happened to rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PaneCounts {
    /// Rows that came.
    pub rows: u64,
    /// Rows that a closed window should have had.
    pub rows_late: u64,
    /// Late rows that no open window has either.
    pub rows_late_dropped: u64,
    /// Rows without a time.
    pub rows_without_time: u64,
    /// Rows dated after their reception by more than is allowed.
    pub rows_future: u64,
    /// Rows left out because too many were kept.
    pub rows_shed: u64,
    /// Rows left out because the windows of all watches kept too much memory, and those of this one most of it.
    pub rows_over_memory: u64,
    /// Rows left out because too many sessions were open.
    pub rows_without_session: u64,
    /// Rows left out because what SESSION is of could not be computed.
    pub rows_failed: u64,
}

/// A window that has closed.
#[derive(Debug, Clone)]
pub struct ClosedWindow {
    /// When it ended: all windows of a statement end together.
    pub end_ms: i64,
    /// The rows of each window of the statement, by number.
    pub rows: Vec<WindowRows>,
    /// Whether it was given before, without rows that came too late.
    pub is_correction: bool,
    /// Rows that were left out, because more were kept than is allowed.
    pub rows_left_out: u64,
}

/// Windows that have closed, and got rows since.
#[derive(Debug, Default)]
struct LateWindows {
    /// The first window of which all rows are there.
    first_end_ms: Option<i64>,
    ends_ms: BTreeSet<i64>,
    /// When the first of them got a row.
    since_ms: i64,
}

/// Panes of one watch.
#[derive(Debug)]
pub struct Panes {
    options: PaneOptions,
    /// Rows to keep; `None` keeps all.
    filter: Option<RowFilter>,
    /// The first of the windows; the others end when it does.
    first: WindowSpec,
    size_max_ms: i64,
    /// By their end.
    panes: BTreeMap<i64, Arc<PaneRows>>,
    /// Rows of panes that were left out, by their end.
    shed: BTreeMap<i64, u64>,
    /// Rows that panes keep, of which there are fewer when a statement has aggregated them.
    rows_kept: Arc<AtomicU64>,
    pub(crate) clock: WindowClock,
    late: LateWindows,
    counts: PaneCounts,
    /// When rows are aggregated before windows close; `None`: never aggregated early.
    growth: Option<Growth>,
    /// Share of its rows in the memory of all watches; `None`: not counted.
    memory: Option<QuestionMemory>,
}

impl Panes {
    /// Panes without rows. `None` when the statement has no window.
    pub fn new(options: PaneOptions) -> Option<Self> {
        let first = options.windows.iter().flatten().next().copied()?;
        let size_max_ms = options.windows.iter().flatten().map(|spec| spec.kind.size_ms).max()?;
        Some(Self {
            clock: WindowClock::new(first.kind, options.lateness_ms),
            late: LateWindows::default(),
            options,
            filter: None,
            first,
            size_max_ms,
            panes: BTreeMap::new(),
            shed: BTreeMap::new(),
            rows_kept: Arc::default(),
            counts: PaneCounts::default(),
            growth: None,
            memory: None,
        })
    }

    /// Keeps only rows that the statement reads. Other rows still advance time and open windows.
    #[must_use]
    pub fn filtered(self, filter: Option<RowFilter>) -> Self {
        Self { filter, ..self }
    }

    /// The same, of which panes that have many rows are [given](Self::grown) before windows close: the statement can aggregate
    /// them.
    #[must_use]
    pub(crate) fn aggregated_early(self, is_early: bool) -> Self {
        Self { growth: is_early.then(|| Growth::new(self.options.rows_max)), ..self }
    }

    /// The same, whose rows share memory with those of other watches.
    #[must_use]
    pub fn within(self, memory: Option<QuestionMemory>) -> Self {
        Self { memory, ..self }
    }

    /// Leaves out rows of an open window that came last, because the windows of all watches keep too much; false when none can
    /// go.
    pub fn give_way(&mut self) -> bool {
        if self.growth.as_ref().is_some_and(Growth::is_busy) {
            return false;
        }
        // a window that has closed keeps what it has
        let first_end_ms = self.clock.next_end_ms().unwrap_or(i64::MIN);
        for (end_ms, pane) in self.panes.range(first_end_ms..).rev() {
            let rows = pane.drop_last();
            if rows > 0 {
                self.counts.rows_over_memory += rows;
                *self.shed.entry(*end_ms).or_default() += rows;
                return true;
            }
        }
        false
    }

    /// A pane that is to be aggregated now.
    pub(crate) fn grown(&mut self) -> Option<GrownPane> {
        let (rows, rows_kept) = (self.counts.rows, self.rows_kept());
        let is_scarce = self.memory.as_ref().is_some_and(|memory| memory.of_all().is_scarce());
        let growth = self.growth.as_mut()?;
        growth.set_scarce(is_scarce);
        if !growth.looks(rows, rows_kept) {
            return None;
        }
        // a window that has closed has the rows that came before: of its panes nothing else may be aggregated before it is asked
        let first_end_ms = self.clock.next_end_ms().unwrap_or(i64::MIN);
        let (end_ms, pane) = self.panes.range(first_end_ms..).max_by_key(|(_, pane)| pane.rows())?;
        let turn = growth.gives(*end_ms, pane.size())?;
        let of_pane = |spec: &Option<WindowSpec>| {
            let window = spec.map(|spec| spec.kind.ending_at(*end_ms)).unwrap_or_default();
            WindowRows { window, panes: vec![WindowPane::of(pane)] }
        };
        Some(GrownPane::new(self.options.windows.iter().map(of_pane).collect(), turn))
    }

    /// Waits until the pane that was given has been aggregated.
    pub(crate) fn wait_for_grown(&self) {
        self.growth.iter().for_each(Growth::wait);
    }

    /// What happened to rows.
    pub fn counts(&self) -> PaneCounts {
        self.counts
    }

    /// Rows that are kept at most.
    pub fn rows_max(&self) -> u64 {
        self.options.rows_max
    }

    /// Rows of the past that are loaded at once at most, where so many watches do that at the same time.
    pub(crate) fn loaded_rows_max(&self, watches: u64) -> u64 {
        let by_memory = self.memory.as_ref().map_or(u64::MAX, |memory| memory.loaded_rows_max(watches));
        self.options.rows_max.min(by_memory)
    }

    /// Rows that are kept.
    pub fn rows_kept(&self) -> u64 {
        self.rows_kept.load(Ordering::Relaxed)
    }

    /// The longest window, in milliseconds.
    pub fn size_max_ms(&self) -> i64 {
        self.size_max_ms
    }

    /// Takes the rows of a delivery; windows that they close go to `closed`.
    pub fn take(&mut self, rows: &RecordBatch, closed: &mut Vec<ClosedWindow>) {
        self.counts.rows += rows.num_rows() as u64;
        let Some(times) = times(rows, self.first.time) else {
            self.counts.rows_without_time += rows.num_rows() as u64;
            return;
        };
        let kept = self.projected(rows);
        if let Some(end_ms) = self.one_pane(times) {
            self.keep(end_ms, kept);
            return;
        }
        let received = if self.first.time == Column::Received { None } else { self::times(rows, Column::Received) };
        let mut parts: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
        for row in 0..times.len() {
            let time_ms = if times.is_valid(row) { times.value(row) } else { i64::MIN };
            if time_ms == i64::MIN {
                self.counts.rows_without_time += 1;
                continue;
            }
            if self.is_future(time_ms, received, row) {
                continue;
            }
            if self.clock.advance(time_ms) && (self.clock.closes() || self.corrects()) {
                self.keep_parts(&kept, &mut parts);
                self.close(closed);
            }
            if let Some(end_ms) = self.pane_of(time_ms) {
                parts.entry(end_ms).or_default().push(row as u32);
            }
        }
        self.keep_parts(&kept, &mut parts);
    }

    /// Takes rows in any order without moving time.
    pub fn load(&mut self, rows: &RecordBatch) {
        let Some(times) = times(rows, self.first.time) else { return };
        let kept = self.projected(rows);
        let received = if self.first.time == Column::Received { None } else { self::times(rows, Column::Received) };
        if received.is_none()
            && let Some(mut parts) = numbered_parts(times, &self.first.kind)
        {
            self.counts.rows += rows.num_rows() as u64;
            self.keep_parts(&kept, &mut parts);
            return;
        }
        let mut parts: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
        let mut last: Option<(i64, i64)> = None;
        let slide_ms = self.first.kind.slide_ms;
        let mut current: Vec<u32> = Vec::new();
        for row in 0..times.len() {
            if times.is_null(row) {
                self.counts.rows_without_time += 1;
                continue;
            }
            let time_ms = times.value(row);
            if self.is_future(time_ms, received, row) {
                continue;
            }
            match last {
                Some((start, end)) if (start..end).contains(&time_ms) => current.push(row as u32),
                _ => {
                    if let Some((_, end)) = last {
                        parts.entry(end).or_default().append(&mut current);
                    }
                    let end = self.first.kind.first_end_after(time_ms);
                    last = Some((end - slide_ms, end));
                    current.push(row as u32);
                }
            }
        }
        if let Some((_, end)) = last {
            parts.entry(end).or_default().append(&mut current);
        }
        self.counts.rows += rows.num_rows() as u64;
        self.keep_parts(&kept, &mut parts);
    }

    /// The clock says that it is this time, and no rows come.
    pub fn advance(&mut self, now_ms: i64, closed: &mut Vec<ClosedWindow>) {
        self.clock.advance(now_ms);
        if self.clock.closes() || self.corrects() {
            self.close(closed);
        }
    }

    /// Passes over windows without a row that end at this time or before, of which all rows were loaded.
    pub(crate) fn pass_empty(&mut self, through_ms: i64) {
        let Some(end_ms) = self.clock.next_end_ms() else { return };
        let first_ms = end_ms.saturating_sub(self.size_max_ms - self.first.kind.slide_ms);
        let next_ms = self.panes.range(first_ms..).next().map(|(end_ms, _)| *end_ms);
        self.clock.pass_empty(next_ms, through_ms, self.options.empty_windows);
    }

    /// Whether windows that got late rows have waited for long enough for more of them.
    fn corrects(&self) -> bool {
        let waited_ms = self.clock.latest_ms().unwrap_or(i64::MIN).saturating_sub(self.late.since_ms);
        !self.late.ends_ms.is_empty() && waited_ms >= CORRECTED_AFTER_MS
    }

    /// Goes on from now when times are ahead of the clock, which then was wrong for a while: otherwise every row would be
    /// late until the clock has come there. Rows of windows that have not begun are dropped, and counted as such.
    pub fn rewind(&mut self, now_ms: i64) -> bool {
        let Some(open_end_ms) = self.clock.rewind(now_ms, self.options.skew_ms) else { return false };
        let future = self.panes.split_off(&(open_end_ms + 1));
        let _ = self.shed.split_off(&(open_end_ms + 1));
        let came = |pane: &PaneSize| pane.rows + pane.released_rows;
        self.counts.rows_future += future.values().map(|pane| came(&pane.size())).sum::<u64>();
        self.late = LateWindows::default();
        for pane in future.values() {
            pane.close();
        }
        true
    }

    /// The end of the one pane that all rows are in, when nothing closes and none is late.
    fn one_pane(&mut self, times: &TimestampMillisecondArray) -> Option<i64> {
        if times.null_count() > 0 || self.first.time != Column::Received {
            return None;
        }
        let (min, max) = (arrow::compute::min(times)?, arrow::compute::max(times)?);
        let end_ms = self.first.kind.first_end_after(min);
        let next_end_ms = self.clock.next_end_ms()?;
        let is_open = end_ms >= next_end_ms && max < end_ms && max < self.clock.closes_at(next_end_ms);
        let is_open = is_open && self.late.ends_ms.is_empty();
        if is_open {
            self.clock.advance(max);
        }
        is_open.then_some(end_ms)
    }

    /// Whether a row is dated too long after its reception, which is counted.
    fn is_future(&mut self, time_ms: i64, received: Option<&TimestampMillisecondArray>, row: usize) -> bool {
        let is_future = received.is_some_and(|received| {
            received.is_valid(row) && time_ms > received.value(row).saturating_add(self.options.skew_ms)
        });
        self.counts.rows_future += u64::from(is_future);
        is_future
    }

    /// The pane of a row, by its end; counts a late one. `None` when no open window has it.
    fn pane_of(&mut self, time_ms: i64) -> Option<i64> {
        let end_ms = self.first.kind.first_end_after(time_ms);
        let next_end_ms = self.clock.next_end_for(time_ms);
        if end_ms < next_end_ms {
            self.counts.rows_late += 1;
            // the last window that it is in ends this much later
            let last_end_ms = end_ms.saturating_add(self.size_max_ms - self.first.kind.slide_ms);
            if !self.correct(end_ms, last_end_ms.min(next_end_ms - self.first.kind.slide_ms))
                && last_end_ms < next_end_ms
            {
                self.counts.rows_late_dropped += 1;
                return None;
            }
        }
        Some(end_ms)
    }

    /// Notes that closed windows, from the first to the last of these ends, have got a row. False when none of them can be
    /// given again.
    fn correct(&mut self, first_end_ms: i64, last_end_ms: i64) -> bool {
        let Some(closed_ms) = self.clock.closed_through() else { return false };
        let slide_ms = self.first.kind.slide_ms;
        let kept_ms = closed_ms.saturating_sub(self.options.late_ms).saturating_add(1);
        let known_ms = self.late.first_end_ms.unwrap_or(i64::MAX);
        let mut end_ms = last_end_ms;
        let mut is_any = false;
        while end_ms >= first_end_ms.max(kept_ms).max(known_ms) {
            if self.late.ends_ms.is_empty() {
                self.late.since_ms = self.clock.latest_ms().unwrap_or(end_ms);
            }
            self.late.ends_ms.insert(end_ms);
            is_any = true;
            end_ms -= slide_ms;
        }
        is_any
    }

    /// The columns to keep.
    fn projected(&self, rows: &RecordBatch) -> RecordBatch {
        let schema = rows.schema_ref();
        let kept = self.options.columns.iter().filter_map(|column| {
            let position = schema.index_of(column.name()).ok()?;
            Some((schema.field(position).clone(), rows.columns().get(position)?.clone()))
        });
        let (fields, columns): (Vec<_>, Vec<ArrayRef>) = kept.unzip();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let projected = RecordBatch::try_new_with_options(Schema::new(fields).into(), columns, &options);
        projected.unwrap_or_else(|_| rows.clone())
    }

    fn keep_parts(&mut self, rows: &RecordBatch, parts: &mut BTreeMap<i64, Vec<u32>>) {
        for (end_ms, part) in std::mem::take(parts) {
            let is_all = part.len() == rows.num_rows();
            let part = if is_all { Ok(rows.clone()) } else { taken(rows, part) };
            // the numbers are of rows that there are
            if let Ok(part) = part {
                self.keep(end_ms, part);
            }
        }
    }

    fn keep(&mut self, end_ms: i64, rows: RecordBatch) {
        if rows.num_rows() == 0 {
            return;
        }
        let rows = match &self.filter {
            Some(filter) => filter.kept(&rows),
            None => rows,
        };
        let count = rows.num_rows() as u64;
        let room = self.options.rows_max.saturating_sub(self.rows_kept());
        let fits = count.min(room);
        if fits < count {
            self.counts.rows_shed += count - fits;
            *self.shed.entry(end_ms).or_default() += count - fits;
        }
        let rows = if fits < count { rows.slice(0, fits as usize) } else { rows };
        let has_memory = fits == 0 || self.memory.as_ref().is_none_or(|memory| memory.has_room(&rows));
        // without rows to keep, too: a window has a flow even if the statement reads none
        let (memory, rows_kept) = (self.memory.as_ref(), &self.rows_kept);
        let pane = self.panes.entry(end_ms).or_insert_with(|| Arc::new(PaneRows::new(rows_kept).within(memory)));
        if !has_memory {
            self.counts.rows_over_memory += fits;
            *self.shed.entry(end_ms).or_default() += fits;
        } else if fits > 0 {
            pane.push(rows);
        }
    }

    /// Gives the windows that have ended.
    fn close(&mut self, closed: &mut Vec<ClosedWindow>) {
        // those that are given now have their late rows
        for end_ms in std::mem::take(&mut self.late.ends_ms) {
            closed.push(ClosedWindow { is_correction: true, ..self.window(end_ms) });
        }
        let edge_ms = self.clock.edge_ms();
        let Some(mut end_ms) = self.clock.next_end_ms() else { return };
        self.late.first_end_ms.get_or_insert(end_ms);
        let slide_ms = self.first.kind.slide_ms;
        while end_ms <= edge_ms {
            let has_rows =
                self.panes.range(end_ms.saturating_sub(self.size_max_ms - slide_ms)..=end_ms).next().is_some();
            if self.clock.is_given(end_ms) && (has_rows || self.options.empty_windows) {
                closed.push(self.window(end_ms));
            }
            self.forget(end_ms);
            end_ms = end_ms.saturating_add(slide_ms);
            let behind = (edge_ms - end_ms).div_euclid(slide_ms);
            if !has_rows && (!self.options.empty_windows || behind > EMPTY_WINDOWS_MAX) {
                // to the next window that has a row, or to the one that is open now
                let next = self.panes.range(end_ms..).next().map(|(end_ms, _)| *end_ms);
                let open = self.first.kind.first_end_after(edge_ms);
                end_ms = next.map_or(open, |next| next.min(open)).max(end_ms);
            }
        }
        self.clock.set_next_end(end_ms);
    }

    fn window(&self, end_ms: i64) -> ClosedWindow {
        let rows: Vec<WindowRows> =
            self.options.windows.iter().map(|spec| self.rows_of(spec.as_ref(), end_ms)).collect();
        let shed = self.shed.range(end_ms.saturating_sub(self.size_max_ms - 1)..=end_ms);
        ClosedWindow { end_ms, rows, is_correction: false, rows_left_out: shed.map(|(_, rows)| rows).sum() }
    }

    fn rows_of(&self, spec: Option<&WindowSpec>, end_ms: i64) -> WindowRows {
        let Some(spec) = spec else { return WindowRows::default() };
        let window = spec.kind.ending_at(end_ms);
        let panes = self.panes.range(window.start_ms + 1..=end_ms);
        WindowRows { window, panes: panes.map(|(_, pane)| WindowPane::of(pane)).collect() }
    }

    /// Drops panes that no window has that ends later.
    fn forget(&mut self, end_ms: i64) {
        let open_ms = end_ms.saturating_add(self.first.kind.slide_ms).saturating_sub(self.size_max_ms);
        let keep_after_ms = open_ms.saturating_sub(self.options.late_ms);
        self.shed = self.shed.split_off(&(keep_after_ms + 1));
        let kept = self.panes.split_off(&(keep_after_ms + 1));
        for pane in std::mem::replace(&mut self.panes, kept).values() {
            pane.close();
        }
    }
}

pub(crate) fn times(rows: &RecordBatch, column: Column) -> Option<&TimestampMillisecondArray> {
    rows.column_by_name(column.name())?.as_primitive_opt::<TimestampMillisecondType>()
}

fn taken(rows: &RecordBatch, numbers: Vec<u32>) -> Result<RecordBatch, arrow::error::ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(numbers.len()));
    let contiguous = match (numbers.first(), numbers.last()) {
        (Some(first), Some(last)) if (last - first) as usize + 1 == numbers.len() => Some(*first as usize),
        _ => None,
    };
    if let Some(first) = contiguous {
        return Ok(rows.slice(first, numbers.len()));
    }
    let numbers = UInt32Array::from(numbers);
    let columns = rows.columns().iter().map(|column| take(column, &numbers, None)).collect::<Result<_, _>>()?;
    RecordBatch::try_new_with_options(rows.schema(), columns, &options)
}

/// Panes among which rows of a batch are divided by number.
const NUMBERED_PANES_MAX: u64 = 1_024;

/// The rows of each pane, by its end, where all rows have times that are not far apart. A division of 32 bits for each row is
/// all that it costs.
fn numbered_parts(times: &TimestampMillisecondArray, kind: &WindowKind) -> Option<BTreeMap<i64, Vec<u32>>> {
    if times.null_count() > 0 {
        return None;
    }
    let (min, max) = (arrow::compute::min(times)?, arrow::compute::max(times)?);
    let first_end_ms = kind.first_end_after(min);
    let begin_ms = first_end_ms.checked_sub(kind.slide_ms).filter(|begin_ms| *begin_ms <= min)?;
    max.checked_add(kind.slide_ms)?;
    let length_ms = u32::try_from(max.checked_sub(begin_ms)?).ok()?;
    let slide_ms = u32::try_from(kind.slide_ms).ok()?;
    let panes = length_ms / slide_ms;
    if u64::from(panes) >= NUMBERED_PANES_MAX {
        return None;
    }
    let mut parts = vec![Vec::new(); panes as usize + 1];
    for (row, time_ms) in (0..).zip(times.values()) {
        let pane = (time_ms - begin_ms) as u32 / slide_ms;
        parts[pane as usize].push(row);
    }
    let of_pane = |(pane, rows): (i64, Vec<u32>)| (first_end_ms + pane * kind.slide_ms, rows);
    Some((0..).zip(parts).filter(|(_, rows)| !rows.is_empty()).map(of_pane).collect())
}
