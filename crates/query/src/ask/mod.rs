//! Questions as nfdump asks them: which flows, of which time, and what to make of them.

mod keys;
mod measures;

use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Expr, ident, lit};
use datafusion::prelude::DataFrame;
use weir_filter::Predicate;
use weir_flow::Column;

pub use keys::{AggregateKey, KeyError, StatisticKey};
pub use measures::{Direction, Order, Sorting};

use crate::lower::filter_expr;

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
        /// At most so many flows.
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
        /// At most so many values.
        limit: Option<usize>,
    },
    /// Flows that agree in all keys as one row.
    Aggregate {
        /// The keys; none for the five-tuple.
        keys: Vec<AggregateKey>,
        /// By what to sort.
        sorting: Option<Sorting>,
        /// At most so many rows.
        limit: Option<usize>,
    },
}

impl FlowQuery {
    /// The plan of the question over the table `flows`.
    pub(crate) fn plan(&self, flows: DataFrame) -> Result<DataFrame> {
        let flows = match self.condition() {
            Some(condition) => flows.filter(condition)?,
            None => flows,
        };
        match &self.select {
            Select::List { columns, sorting, limit } => list(flows, columns, *sorting, *limit),
            Select::Statistic { key, per_protocol, sorting, limit } => {
                let answer = measures::statistic(flows, *key, *per_protocol)?;
                limited(sorting.apply(answer)?, *limit)
            }
            Select::Aggregate { keys, sorting, limit } => {
                let answer = measures::aggregate(flows, keys)?;
                let answer = sorting.map_or(Ok(answer.clone()), |sorting| sorting.apply(answer))?;
                limited(answer, *limit)
            }
        }
    }

    fn condition(&self) -> Option<Expr> {
        let filter = (self.filter != Predicate::True).then(|| filter_expr(&self.filter));
        [self.window.condition(), filter].into_iter().flatten().reduce(Expr::and)
    }
}

impl TimeWindow {
    fn condition(&self) -> Option<Expr> {
        let (lower_column, upper_column) = match self.rule {
            WindowRule::Overlaps => (Column::End, Column::Start),
            WindowRule::Inside => (Column::Start, Column::End),
        };
        let test = |column: Column, bound: i64, is_lower: bool| {
            let bound = Expr::Literal(ScalarValue::TimestampMillisecond(Some(bound), Some("UTC".into())), None);
            let value = ident(column.name());
            match (self.rule, is_lower) {
                (WindowRule::Overlaps, true) => value.gt_eq(bound),
                (WindowRule::Overlaps, false) => value.lt_eq(bound),
                (WindowRule::Inside, true) => value.gt(bound),
                (WindowRule::Inside, false) => value.lt(bound),
            }
        };
        let or_received = |column: Column, bound: i64, is_lower: bool| {
            let without = ident(column.name()).is_null().and(test(Column::Received, bound, is_lower));
            test(column, bound, is_lower).or(without)
        };
        let lower = self.from_ms.map(|from| or_received(lower_column, from, true));
        let upper = self.until_ms.map(|until| or_received(upper_column, until, false));
        [lower, upper].into_iter().flatten().reduce(Expr::and)
    }
}

fn list(flows: DataFrame, columns: &[Column], sorting: Option<Sorting>, limit: Option<usize>) -> Result<DataFrame> {
    let sorted = match sorting {
        Some(sorting) => flows.sort(vec![measures::flow_measure(sorting.order).sort(sorting.is_ascending(), false)])?,
        None => flows,
    };
    let limited = limited(sorted, limit)?;
    match columns {
        [] => Ok(limited),
        columns => limited.select(columns.iter().map(|column| ident(column.name()))),
    }
}

fn limited(answer: DataFrame, limit: Option<usize>) -> Result<DataFrame> {
    match limit {
        Some(limit) => answer.limit(0, Some(limit)),
        None => Ok(answer),
    }
}

/// One for a record that stands for itself, the number of flows for one that stands for several.
fn flow_count() -> Expr {
    datafusion::functions::core::expr_fn::coalesce(vec![ident(Column::Flows.name()), lit(1_u64)])
}
