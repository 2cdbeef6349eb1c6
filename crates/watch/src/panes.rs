//! Flows cut into panes, and windows that close.
//!
//! A pane is as long as a slide of the windows, so that every window is a whole number of panes, and a flow is kept
//! once however many windows it is in. Time moves by the rows: a window closes before the first row whose time, less the
//! lateness, is at its end or after. That is decided from row to row, so how flows were delivered does not matter. When
//! no rows come, the clock moves time ([`Panes::advance`]).
//!
//! A row that a closed window should have had is late: it is counted, and kept for those of its windows that are still
//! open. A row that is dated long after its reception is left out, since one of them would close every window before it.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, TimestampMillisecondArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{Schema, TimestampMillisecondType};
use weir_flow::Column;
use weir_sql::standing::{WindowRows, WindowSpec};

/// Empty windows that are asked in a row; beyond that time jumps.
const EMPTY_WINDOWS_MAX: i64 = 100_000;

/// How panes are made.
#[derive(Debug, Clone)]
pub struct PaneOptions {
    /// The windows of the statement, by number.
    pub windows: Vec<Option<WindowSpec>>,
    /// Columns to keep.
    pub columns: Vec<Column>,
    /// How long after its end a window closes, in milliseconds.
    pub lateness_ms: i64,
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
}

#[derive(Debug)]
struct Pane {
    batches: Vec<RecordBatch>,
    rows: u64,
}

/// A window that has closed.
#[derive(Debug, Clone)]
pub struct ClosedWindow {
    /// When it ended: all windows of a statement end together.
    pub end_ms: i64,
    /// The rows of each window of the statement, by number.
    pub rows: Vec<WindowRows>,
    /// Rows of the longest window.
    pub rows_count: u64,
}

/// Panes of one watch.
#[derive(Debug)]
pub struct Panes {
    options: PaneOptions,
    /// The first of the windows; the others end when it does.
    first: WindowSpec,
    size_max_ms: i64,
    /// By their end.
    panes: BTreeMap<i64, Pane>,
    rows_kept: u64,
    /// The end of the next window to close.
    next_end_ms: Option<i64>,
    latest_ms: i64,
    /// Windows that end here or before are not given.
    not_before_ms: i64,
    counts: PaneCounts,
}

impl Panes {
    /// Panes without rows. `None` when the statement has no window.
    pub fn new(options: PaneOptions) -> Option<Self> {
        let first = options.windows.iter().flatten().next().copied()?;
        let size_max_ms = options.windows.iter().flatten().map(|spec| spec.kind.size_ms).max()?;
        Some(Self {
            options,
            first,
            size_max_ms,
            panes: BTreeMap::new(),
            rows_kept: 0,
            next_end_ms: None,
            latest_ms: i64::MIN,
            not_before_ms: i64::MIN,
            counts: PaneCounts::default(),
        })
    }

    /// Gives no window that ends at this time or before.
    pub fn skip_through(&mut self, end_ms: i64) {
        self.not_before_ms = end_ms;
    }

    /// What happened to rows.
    pub fn counts(&self) -> PaneCounts {
        self.counts
    }

    /// Rows that are kept at most.
    pub fn rows_max(&self) -> u64 {
        self.options.rows_max
    }

    /// Rows that are kept.
    pub fn rows_kept(&self) -> u64 {
        self.rows_kept
    }

    /// The longest window, in milliseconds.
    pub fn size_max_ms(&self) -> i64 {
        self.size_max_ms
    }

    /// The time up to which rows have come.
    pub fn latest_ms(&self) -> Option<i64> {
        (self.latest_ms > i64::MIN).then_some(self.latest_ms)
    }

    /// When the first window ends that can close after this time.
    pub fn first_end_after(&self, time_ms: i64) -> i64 {
        self.first.kind.first_end_after(time_ms)
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
            if time_ms > self.latest_ms {
                self.latest_ms = time_ms;
                if self.closes() {
                    self.keep_parts(&kept, &mut parts);
                    self.close(closed);
                }
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
        self.latest_ms = self.latest_ms.max(now_ms);
        if self.closes() {
            self.close(closed);
        }
    }

    /// Gives the windows that end at this time or before, of which all rows were loaded.
    pub fn close_through(&mut self, end_ms: i64, closed: &mut Vec<ClosedWindow>) {
        self.advance(end_ms.saturating_add(self.options.lateness_ms), closed);
    }

    /// The end of the next window to close, when it is this time or before.
    pub fn next_end_through(&self, through_ms: i64) -> Option<i64> {
        self.next_end_ms.filter(|end_ms| *end_ms <= through_ms)
    }

    /// The end of the last window that has closed, with rows or without.
    pub fn closed_through(&self) -> Option<i64> {
        self.next_end_ms.map(|end_ms| end_ms.saturating_sub(self.first.kind.slide_ms))
    }

    /// Begins with the window that ends first after this time.
    pub fn begin_at(&mut self, time_ms: i64) {
        self.next_end_ms.get_or_insert(self.first.kind.first_end_after(time_ms));
    }

    /// Goes on from now when times are ahead of the clock, which then was wrong for a while: otherwise every row would be
    /// late until the clock has come there. Rows of windows that have not begun are dropped, and counted as such.
    pub fn rewind(&mut self, now_ms: i64) -> bool {
        let skewed_ms = now_ms.saturating_add(self.options.skew_ms);
        let is_ahead = self.next_end_ms.is_some_and(|end_ms| end_ms > self.first.kind.first_end_after(skewed_ms));
        if self.latest_ms <= skewed_ms && !is_ahead {
            return false;
        }
        let open_end_ms = self.first.kind.first_end_after(now_ms);
        let future = self.panes.split_off(&(open_end_ms + 1));
        let rows = future.values().map(|pane| pane.rows).sum::<u64>();
        self.rows_kept -= rows;
        self.counts.rows_future += rows;
        self.latest_ms = now_ms;
        self.next_end_ms = Some(open_end_ms);
        self.not_before_ms = self.not_before_ms.min(open_end_ms - 1);
        true
    }

    /// The end of the one pane that all rows are in, when nothing closes and none is late.
    fn one_pane(&mut self, times: &TimestampMillisecondArray) -> Option<i64> {
        if times.null_count() > 0 || self.first.time != Column::Received {
            return None;
        }
        let (min, max) = (arrow::compute::min(times)?, arrow::compute::max(times)?);
        let end_ms = self.first.kind.first_end_after(min);
        let next_end_ms = self.next_end_ms?;
        let is_open =
            end_ms >= next_end_ms && max < end_ms && max.saturating_sub(self.options.lateness_ms) < next_end_ms;
        if is_open {
            self.latest_ms = self.latest_ms.max(max);
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

    fn closes(&mut self) -> bool {
        let edge_ms = self.latest_ms.saturating_sub(self.options.lateness_ms);
        let next_end_ms = *self.next_end_ms.get_or_insert_with(|| self.first.kind.first_end_after(edge_ms));
        edge_ms >= next_end_ms
    }

    /// The pane of a row, by its end; counts a late one. `None` when no open window has it.
    fn pane_of(&mut self, time_ms: i64) -> Option<i64> {
        let end_ms = self.first.kind.first_end_after(time_ms);
        let next_end_ms = *self.next_end_ms.get_or_insert(end_ms);
        if end_ms < next_end_ms {
            self.counts.rows_late += 1;
            // the last window that it is in ends this much later
            let last_end_ms = end_ms.saturating_add(self.size_max_ms - self.first.kind.slide_ms);
            if last_end_ms < next_end_ms {
                self.counts.rows_late_dropped += 1;
                return None;
            }
        }
        Some(end_ms)
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
        let count = rows.num_rows() as u64;
        if count == 0 {
            return;
        }
        let room = self.options.rows_max.saturating_sub(self.rows_kept);
        let fits = count.min(room);
        self.counts.rows_shed += count - fits;
        let rows = if fits < count { rows.slice(0, fits as usize) } else { rows };
        let pane = self.panes.entry(end_ms).or_insert_with(|| Pane { batches: Vec::new(), rows: 0 });
        pane.rows += fits;
        pane.batches.push(rows);
        self.rows_kept += fits;
    }

    /// Gives the windows that have ended.
    fn close(&mut self, closed: &mut Vec<ClosedWindow>) {
        let edge_ms = self.latest_ms.saturating_sub(self.options.lateness_ms);
        let Some(mut end_ms) = self.next_end_ms else { return };
        let slide_ms = self.first.kind.slide_ms;
        while end_ms <= edge_ms {
            let has_rows =
                self.panes.range(end_ms.saturating_sub(self.size_max_ms - slide_ms)..=end_ms).next().is_some();
            let is_new = end_ms > self.not_before_ms;
            if is_new && (has_rows || self.options.empty_windows) {
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
        self.next_end_ms = Some(end_ms);
    }

    fn window(&self, end_ms: i64) -> ClosedWindow {
        let rows: Vec<WindowRows> =
            self.options.windows.iter().map(|spec| self.rows_of(spec.as_ref(), end_ms)).collect();
        let count = |rows: &WindowRows| rows.batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
        let rows_count = rows.iter().map(count).max().unwrap_or(0);
        ClosedWindow { end_ms, rows, rows_count }
    }

    fn rows_of(&self, spec: Option<&WindowSpec>, end_ms: i64) -> WindowRows {
        let Some(spec) = spec else { return WindowRows::default() };
        let window = spec.kind.ending_at(end_ms);
        let panes = self.panes.range(window.start_ms + 1..=end_ms);
        WindowRows { window, batches: panes.flat_map(|(_, pane)| pane.batches.iter().cloned()).collect() }
    }

    /// Drops panes that no window has that ends later.
    fn forget(&mut self, end_ms: i64) {
        let keep_after_ms = end_ms.saturating_add(self.first.kind.slide_ms).saturating_sub(self.size_max_ms);
        let kept = self.panes.split_off(&(keep_after_ms + 1));
        let gone = std::mem::replace(&mut self.panes, kept);
        self.rows_kept -= gone.values().map(|pane| pane.rows).sum::<u64>();
    }
}

fn times(rows: &RecordBatch, column: Column) -> Option<&TimestampMillisecondArray> {
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
