//! Which flows, of which time, and what to make of them.

use weir_filter::Predicate;
use weir_flow::Column;

use crate::{AggregateKey, Sorting, StatisticKey};

/// Which flows, of which time, and what to make of them.
#[derive(Debug, Clone)]
pub struct FlowQuery {
    /// The flows that pass.
    pub filter: Predicate,
    /// The time that they are of.
    pub window: TimeWindow,
    /// What to make of them.
    pub select: Select,
    /// Whether bytes and packets are scaled by the sampling interval, rather than as measured. The filter is applied to
    /// the scaled ones too.
    pub scaled: bool,
}

/// A span of time, milliseconds since the epoch, UTC. An open end has no limit.
///
/// A flow without `start` or `end` is taken to have happened when it was `received`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeWindow {
    /// First millisecond of the window.
    pub from_ms: Option<i64>,
    /// Last millisecond of the window.
    pub until_ms: Option<i64>,
    /// Which flows belong to the window.
    pub rule: WindowRule,
}

impl TimeWindow {
    /// The milliseconds at which a flow of the window may be active; the end is not included.
    pub fn range_ms(&self) -> (i64, i64) {
        let (from_ms, until_ms) = (self.from_ms.unwrap_or(i64::MIN), self.until_ms.unwrap_or(i64::MAX));
        match self.rule {
            WindowRule::Overlaps => (from_ms, until_ms.saturating_add(1)),
            WindowRule::Inside => (from_ms.saturating_add(1), until_ms),
        }
    }
}

/// When a flow belongs to a window of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WindowRule {
    /// When some of it lies in the window: `end >= from` and `start <= until`.
    #[default]
    Overlaps,
    /// When all of it lies strictly inside, as nfdump's `-t` has it: `start > from` and `end < until`.
    Inside,
}

/// What to make of the flows that pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Select {
    /// The flows themselves.
    List {
        /// Columns, in this order; none for all of them.
        columns: Vec<Column>,
        /// By what to sort; unsorted flows come as they are found.
        sorting: Option<Sorting>,
        /// Flows at most.
        limit: Option<usize>,
    },
    /// The values of one field that account for most. An undirected key (`ip`, `port`, …) counts a flow once for each
    /// of its sides; flows that lack the field are not counted.
    Statistic {
        /// The field.
        key: StatisticKey,
        /// One row per value and protocol rather than per value.
        per_protocol: bool,
        /// By what to sort.
        sorting: Sorting,
        /// Values at most.
        limit: Option<usize>,
    },
    /// Flows that agree in all keys as one row.
    Aggregate {
        /// The keys; none for the five-tuple.
        keys: Vec<AggregateKey>,
        /// What else is measured of the flows of a row, in columns of its own after the usual ones, named by
        /// [`Measure::name`].
        more: Vec<Measure>,
        /// By what to sort.
        sorting: Option<Sorting>,
        /// Rows at most.
        limit: Option<usize>,
    },
}

/// What is measured of the flows of one row besides their number, their packets and bytes and their times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Measure {
    /// Sum of a counter; null when no flow has it.
    Sum(Column),
    /// Bits that are set in any flow; null when no flow has the column.
    Or(Column),
}

impl Measure {
    /// The column whose values are taken.
    pub fn column(self) -> Column {
        match self {
            Self::Sum(column) | Self::Or(column) => column,
        }
    }

    /// Name of the column of the answer: that of the flows' column. Asking twice for one column gives two of one name.
    pub fn name(self) -> &'static str {
        self.column().name()
    }
}
