//! Which rows may be held, and how far time has moved.

use arrow::array::{RecordBatch, TimestampMillisecondArray};
use weir_chain::{ComponentError, Counter, Counters, ParameterSpec, ParameterType, Parameters};
use weir_flow::Column;

use crate::flow_columns::{number, numbers};

/// The parameters that a gate is made of.
pub const PARAMETERS: [ParameterSpec; 5] = [
    ParameterSpec {
        key: "window_secs",
        parameter_type: ParameterType::Seconds,
        default: Some("120"),
        doc: "How long a row is held, in the time of the data: until a row has come whose start is later by more than \
              this. It should be longer than the active timeout of the exporters, because flows come when they end.",
    },
    ParameterSpec {
        key: "window_rows_max",
        parameter_type: ParameterType::Integer(1, 1 << 31),
        default: Some("1000000"),
        doc: "How many rows are held at most.",
    },
    ParameterSpec {
        key: "when_full",
        parameter_type: ParameterType::Choice(&["hand-on", "shed"]),
        default: Some("\"hand-on\""),
        doc: "What happens over 'window_rows_max'. With hand-on what started first is handed on before its time and \
              counted in 'handed_on_early'; nothing is lost, but later rows do not find it any more. With shed the row \
              that has come is dropped and counted in 'rows_shed'.",
    },
    ParameterSpec {
        key: "late",
        parameter_type: ParameterType::Choice(&["pass", "drop"]),
        default: Some("\"pass\""),
        doc: "What happens to a row that starts before what was handed on already: it is passed on at once as it is \
              and counted in 'rows_late_passed', or dropped and counted in 'rows_late_dropped'.",
    },
    ParameterSpec {
        key: "future_secs",
        parameter_type: ParameterType::Seconds,
        default: Some("3600"),
        doc: "A row whose 'start' is later than its 'received' by more than this has a wrong clock: it is treated like \
              one without a start, so that it does not make all others late. Nothing is checked where 'received' is \
              null.",
    },
];

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
    is_shedding: bool,
    drops_late: bool,
    /// Everything that started before this has been handed on.
    edge: Option<i64>,
    without_start: Counter,
    late: Counter,
    shed: Counter,
    early: Counter,
}

impl Gate {
    /// A gate of the parameters in [`PARAMETERS`].
    pub fn new(parameters: &Parameters, meter: &Counters) -> Self {
        let drops_late = parameters.text("late") == "drop";
        Self {
            window_ms: parameters.millis("window_secs"),
            future_ms: parameters.millis("future_secs"),
            rows_max: parameters.integer("window_rows_max") as usize,
            is_shedding: parameters.text("when_full") == "shed",
            drops_late,
            edge: None,
            without_start: meter.counter("rows_without_start"),
            late: meter.counter(if drops_late { "rows_late_dropped" } else { "rows_late_passed" }),
            shed: meter.counter("rows_shed"),
            early: meter.counter("handed_on_early"),
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
            self.late.add(1);
            return if self.drops_late { Admission::Drop } else { Admission::Pass };
        }
        let edge = start.saturating_sub(self.window_ms);
        self.edge = self.edge.max(Some(edge));
        Admission::Hold(start)
    }

    /// Whether a row must be dropped because so many are held already.
    #[inline]
    pub fn sheds(&mut self, held: usize) -> bool {
        let sheds = self.is_shedding && held >= self.rows_max;
        self.shed.add(u64::from(sheds));
        sheds
    }

    #[cold]
    fn without_start(&self) -> Admission {
        self.without_start.add(1);
        Admission::Pass
    }

    /// Whether something must be handed on before its time when `held` rows are held.
    pub fn is_over(&self, held: usize) -> bool {
        held > self.rows_max
    }

    /// What started at this time was handed on before its time.
    pub fn handed_on_early(&mut self, start: i64) {
        self.edge = self.edge.max(Some(start));
        self.early.add(1);
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
