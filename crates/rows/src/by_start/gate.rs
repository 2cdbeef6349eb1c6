//! Which rows may be held, and how far time has moved.

use arrow::array::{RecordBatch, TimestampMillisecondArray};
use weir_chain::{ComponentError, Counter, Counters, TimeSpan, choices, options};
use weir_flow::Column;

use crate::flow_columns::{number, numbers};

options! {
    /// Options of components that hold rows for a while and hand them on in the order of their start.
    pub struct GateOptions {
        /// Hold a row for this long, in the time of the data: until a row has come whose start is later by more than
        /// this. Make it longer than the active timeout of the exporters, because flows come when they end.
        window: TimeSpan = TimeSpan::from_secs(120),
        /// Hold at most this many rows; over the limit `when_full` applies.
        window_rows_max: usize = 1_000_000 => 1..=1 << 31,
        /// What happens when more rows than `window_rows_max` would be held.
        when_full: WhenFull = WhenFull::HandOn,
        /// What happens to a row that starts before what was handed on already.
        late: Late = Late::Pass,
        /// Treat a row whose `start` is later than its `received` by more than this like a row without a start: its
        /// clock is wrong, and it would make all others late. Nothing is checked where `received` is null.
        future: TimeSpan = TimeSpan::from_secs(3600),
    }
}

choices! {
    /// What happens when more rows than allowed would be held.
    pub enum WhenFull {
        /// Hand on the row that started first before its time and count it in `handed_on_early`. Nothing is lost, but
        /// later rows do not find it any more.
        HandOn = "hand-on",
        /// Drop the row that has come and count it in `rows_shed`.
        Shed = "shed",
    }
}

choices! {
    /// What happens to a row that starts before what was handed on already.
    pub enum Late {
        /// Hand it on at once as it is and count it in `rows_late_passed`.
        Pass = "pass",
        /// Drop it and count it in `rows_late_dropped`.
        Drop = "drop",
    }
}

/// What a row may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Be held, and be handed on in the order of this start.
    Hold(i64),
    /// Go on at once.
    Pass,
    /// Be dropped.
    Drop,
}

/// Decides about rows by their times, and knows up to which start everything has been handed on.
#[derive(Debug)]
pub struct Gate {
    window_ms: i64,
    future_ms: i64,
    rows_max: usize,
    when_full: WhenFull,
    late: Late,
    /// Everything that started before this has been handed on.
    edge: Option<i64>,
    rows_without_start: Counter,
    rows_late: Counter,
    rows_shed: Counter,
    rows_early: Counter,
}

impl Gate {
    /// A gate that no row has passed yet.
    pub fn new(options: &GateOptions, counters: &Counters) -> Self {
        Self {
            window_ms: options.window.millis(),
            future_ms: options.future.millis(),
            rows_max: options.window_rows_max,
            when_full: options.when_full,
            late: options.late,
            edge: None,
            rows_without_start: counters.counter("rows_without_start"),
            rows_late: counters.counter(match options.late {
                Late::Drop => "rows_late_dropped",
                Late::Pass => "rows_late_passed",
            }),
            rows_shed: counters.counter("rows_shed"),
            rows_early: counters.counter("handed_on_early"),
        }
    }

    /// What the next row may do. A row that may be held moves time on: before it is held, everything that starts before
    /// the [`edge`](Self::edge) must be handed on.
    #[inline]
    pub fn admit(&mut self, times: &Times, row: usize) -> Admission {
        let Some(start) = number(times.starts, row) else { return self.without_start() };
        if number(times.received, row).is_some_and(|received| start > received.saturating_add(self.future_ms)) {
            return self.without_start();
        }
        if self.edge.is_some_and(|edge| start < edge) {
            self.rows_late.add(1);
            return if self.late == Late::Drop { Admission::Drop } else { Admission::Pass };
        }
        let edge = start.saturating_sub(self.window_ms);
        self.edge = self.edge.max(Some(edge));
        Admission::Hold(start)
    }

    /// Whether a row must be dropped because so many are held already.
    #[inline]
    pub fn sheds(&mut self, held: usize) -> bool {
        let sheds = self.when_full == WhenFull::Shed && held >= self.rows_max;
        self.rows_shed.add(u64::from(sheds));
        sheds
    }

    #[cold]
    fn without_start(&self) -> Admission {
        self.rows_without_start.add(1);
        Admission::Pass
    }

    /// Whether something must be handed on before its time when `held` rows are held.
    pub fn is_over(&self, held: usize) -> bool {
        held > self.rows_max
    }

    /// What started at this time was handed on before its time.
    pub fn handed_on_early(&mut self, start: i64) {
        self.edge = self.edge.max(Some(start));
        self.rows_early.add(1);
    }

    /// The start before which everything has been handed on.
    pub fn edge(&self) -> Option<i64> {
        self.edge
    }
}

/// The columns of times.
#[derive(Debug)]
pub struct Times<'a> {
    starts: Option<&'a TimestampMillisecondArray>,
    received: Option<&'a TimestampMillisecondArray>,
}

impl<'a> Times<'a> {
    /// The columns `start` and `received` of some rows.
    pub fn new(rows: &'a RecordBatch) -> Result<Self, ComponentError> {
        Ok(Self { starts: numbers(rows, Column::Start)?, received: numbers(rows, Column::Received)? })
    }
}
