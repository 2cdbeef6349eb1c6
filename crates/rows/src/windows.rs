//! Windows of data time: which window each row belongs to, and when windows close.
//!
//! Windows are next to each other and begin at multiples of their width since the epoch, so that two chains, or two
//! runs of one, have the same ones. They move by the times in the rows alone. A window closes when the largest time seen
//! so far has passed its end by the lateness that is allowed; a row whose window is closed is late, counted and dropped.
//! All of that is decided from row to row, so a burst is cut up where windows close. What speaks against it: one row
//! with a time far in the future closes every window before it; the counter of late rows then shows it.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch, TimestampMillisecondArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Field, Schema, SchemaRef, TimestampMillisecondType};
use weir_chain::{ComponentError, Counter, Counters, OptionError, TimeSpan, options};
use weir_flow::schema::arrow_type;
use weir_flow::{Column, ColumnType};

/// Name of the column that [`Windows::split`] adds. No input has a column of this name.
pub const WINDOW_START: &str = " window start";

options! {
    /// Options of components that work on windows of data time.
    pub struct WindowOptions {
        /// Make windows of this length; 0 makes one window of everything, which closes at the end.
        window: TimeSpan = TimeSpan::from_secs(60),
        /// Take the time of a row from this column. Rows without a time are dropped and counted in
        /// `rows_without_time_dropped`. No column is needed when everything is one window.
        time: String = Column::Start.name().to_owned(),
        /// Close a window when the largest time seen is past its end by this much. Rows that come for a closed window
        /// are dropped and counted in `rows_late_dropped`.
        lateness: TimeSpan = TimeSpan::ZERO,
    }
}

/// Which windows there are, and how far they have come.
#[derive(Debug)]
pub struct Windows {
    /// 0 when everything is one window.
    width_ms: i64,
    lateness_ms: i64,
    time: String,
    /// The largest time seen.
    latest_ms: i64,
    /// The smallest time that closes another window; the smallest of all before the first row.
    next_close_ms: i64,
    /// Windows that end here or before are closed.
    edge_ms: Option<i64>,
    /// The last schema, and the same with the start of the window.
    schemas: Option<(SchemaRef, SchemaRef)>,
    late: Counter,
    without_time: Counter,
}

/// Rows cut where windows close.
#[derive(Debug)]
pub struct Split {
    /// The rows that belong to a window, with its start as the column [`WINDOW_START`] unless everything is one window.
    pub rows: RecordBatch,
    /// Where windows close: before the row of this number those that end at this time or before.
    pub closes: Vec<(usize, i64)>,
}

/// What comes next of some rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Windows that end at this time or before close.
    Close(i64),
    /// These rows are next.
    Rows(Range<usize>),
}

impl Split {
    /// What to do, in this order.
    pub fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        let ends = self.closes.iter().map(|(row, _)| *row).chain([self.rows.num_rows()]);
        let starts = [(0, None)].into_iter().chain(self.closes.iter().map(|(row, edge_ms)| (*row, Some(*edge_ms))));
        starts.zip(ends).flat_map(|((start, edge_ms), end)| {
            let rows = (start < end).then_some(Step::Rows(start..end));
            edge_ms.map(Step::Close).into_iter().chain(rows)
        })
    }
}

/// Settings of windows, checked.
#[derive(Debug, Clone)]
pub struct WindowSettings {
    width_ms: i64,
    lateness_ms: i64,
    time: String,
}

impl WindowSettings {
    /// Checks the options: `time` must be able to be a column of times, unless everything is one window.
    pub fn new(options: WindowOptions) -> Result<Self, OptionError> {
        let WindowOptions { window, time, lateness } = options;
        let is_time = Column::by_name(&time).is_none_or(|column| column.column_type() == ColumnType::Time);
        if !window.is_zero() && (time.is_empty() || !is_time) {
            return Err(OptionError::new("time", format!("'{time}' is no column of times")));
        }
        Ok(Self { width_ms: window.millis(), lateness_ms: lateness.millis(), time })
    }

    /// Whether everything is one window.
    pub fn is_one(&self) -> bool {
        self.width_ms == 0
    }

    /// Windows that nothing has been seen of.
    pub fn open(&self, counters: &Counters) -> Windows {
        Windows {
            width_ms: self.width_ms,
            lateness_ms: self.lateness_ms,
            time: self.time.clone(),
            latest_ms: i64::MIN,
            next_close_ms: i64::MIN,
            edge_ms: None,
            schemas: None,
            late: counters.counter("rows_late_dropped"),
            without_time: counters.counter("rows_without_time_dropped"),
        }
    }
}

impl Windows {
    /// Data time up to which every window is closed.
    pub fn edge_ms(&self) -> Option<i64> {
        self.edge_ms
    }

    /// The start of the window that ends at or before `edge_ms` if any does: starts below this are closed.
    pub fn closed_below(&self, edge_ms: i64) -> i64 {
        // a window ends at the edge or before when it starts a width before it or earlier; both are multiples
        edge_ms.saturating_sub(self.width_ms).saturating_add(1)
    }

    /// Drops rows that belong to no open window, and cuts the others where windows close.
    pub fn split(&mut self, rows: &RecordBatch) -> Result<Split, ComponentError> {
        if self.width_ms == 0 {
            return Ok(Split { rows: rows.clone(), closes: Vec::new() });
        }
        let Some(times) = self.times(rows)? else {
            self.without_time.add(rows.num_rows() as u64);
            return Ok(Split { rows: rows.slice(0, 0), closes: Vec::new() });
        };
        let mut assigned = Assigned { starts: Vec::with_capacity(times.len()), late: Vec::new(), closes: Vec::new() };
        let mut window = self.window_of(self.latest_ms);
        if times.null_count() == 0 {
            times.values().iter().for_each(|time_ms| self.assign(*time_ms, &mut window, &mut assigned));
        } else {
            // a row without a time gets a window that it is then dropped from
            times.iter().for_each(|time_ms| match time_ms {
                Some(time_ms) => self.assign(time_ms, &mut window, &mut assigned),
                None => assigned.starts.push(i64::MIN),
            });
        }
        let rows = self.with_starts(rows, std::mem::take(&mut assigned.starts))?;
        self.late.add(assigned.late.len() as u64);
        self.without_time.add(times.null_count() as u64);
        if assigned.late.is_empty() && times.null_count() == 0 {
            return Ok(Split { rows, closes: assigned.closes });
        }
        drop_rows(&rows, times, &assigned)
    }

    fn times<'a>(&self, rows: &'a RecordBatch) -> Result<Option<&'a TimestampMillisecondArray>, ComponentError> {
        match rows.column_by_name(&self.time) {
            Some(column) => {
                let times = column.as_primitive_opt::<TimestampMillisecondType>();
                times.map(Some).ok_or_else(|| {
                    let (name, found) = (&self.time, column.data_type());
                    ComponentError::new(format!(
                        "column '{name}' has type {found}, but a time in milliseconds is needed"
                    ))
                })
            }
            None if Column::by_name(&self.time).is_some() => Ok(None),
            None => Err(ComponentError::missing_column(&self.time, rows)),
        }
    }

    fn window_of(&self, time_ms: i64) -> Range<i64> {
        let start = time_ms.div_euclid(self.width_ms).saturating_mul(self.width_ms);
        start..start.saturating_add(self.width_ms)
    }

    /// Assigns one row. `window` is the window of the row before, so that most rows cost no division.
    #[inline]
    fn assign(&mut self, time_ms: i64, window: &mut Range<i64>, assigned: &mut Assigned) {
        if time_ms > self.latest_ms {
            self.latest_ms = time_ms;
            if time_ms >= self.next_close_ms {
                let edge_ms = self.advance();
                assigned.closes.push((assigned.starts.len(), edge_ms));
            }
        }
        if !window.contains(&time_ms) {
            *window = self.window_of(time_ms);
        }
        if self.edge_ms.is_some_and(|edge_ms| window.end <= edge_ms) {
            assigned.late.push(assigned.starts.len() as u32);
        }
        assigned.starts.push(window.start);
    }

    #[cold]
    fn advance(&mut self) -> i64 {
        let edge_ms = self.window_of(self.latest_ms.saturating_sub(self.lateness_ms)).start;
        self.edge_ms = Some(edge_ms);
        self.next_close_ms = edge_ms.saturating_add(self.width_ms).saturating_add(self.lateness_ms);
        edge_ms
    }

    fn with_starts(&mut self, rows: &RecordBatch, starts: Vec<i64>) -> Result<RecordBatch, ComponentError> {
        let schema = match &self.schemas {
            Some((known, with_start)) if Arc::ptr_eq(known, rows.schema_ref()) => Arc::clone(with_start),
            _ => {
                let mut fields = rows.schema_ref().fields().to_vec();
                fields.push(Arc::new(Field::new(WINDOW_START, arrow_type(ColumnType::Time), false)));
                let with_start = Arc::new(Schema::new(fields));
                self.schemas = Some((rows.schema(), Arc::clone(&with_start)));
                with_start
            }
        };
        let mut columns = rows.columns().to_vec();
        columns.push(Arc::new(TimestampMillisecondArray::new(starts.into(), None).with_timezone("UTC")));
        RecordBatch::try_new(schema, columns).map_err(|error| ComponentError::caused("rows get no window", error))
    }
}

/// Rows of a burst on the way into windows.
struct Assigned {
    /// Start of the window of each row.
    starts: Vec<i64>,
    /// Rows that are late, ascending.
    late: Vec<u32>,
    closes: Vec<(usize, i64)>,
}

/// The rows without those that are late or have no time.
fn drop_rows(
    rows: &RecordBatch,
    times: &TimestampMillisecondArray,
    assigned: &Assigned,
) -> Result<Split, ComponentError> {
    let mut late = assigned.late.iter().copied().peekable();
    let keep = BooleanBuffer::collect_bool(rows.num_rows(), |row| {
        late.next_if_eq(&(row as u32)).is_none() && times.is_valid(row)
    });
    let closes =
        assigned.closes.iter().map(|(row, edge_ms)| (keep.slice(0, *row).count_set_bits(), *edge_ms)).collect();
    let rows = filter_record_batch(rows, &BooleanArray::from(keep));
    Ok(Split { rows: rows.map_err(|error| ComponentError::caused("late rows cannot be dropped", error))?, closes })
}

#[cfg(test)]
mod tests;
