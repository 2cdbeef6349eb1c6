//! Questions as nfdump asks them, as plans of the engine.

mod measures;

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::{Expr, ident, lit};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::DataFrame;
use futures::StreamExt;
use weir_filter::Predicate;
use weir_flow::Column;
use weir_query::{FlowQuery, Select, Sorting, TimeWindow, WindowRule};

use crate::functions::filter_expr;

/// The plan of a question over the table `flows`. Columns of further measures have names of their own in it, see
/// [`named`].
pub(crate) fn plan(question: &FlowQuery, flows: DataFrame) -> Result<DataFrame> {
    let flows = match condition(question) {
        Some(condition) => flows.filter(condition)?,
        None => flows,
    };
    match &question.select {
        Select::List { columns, sorting, limit } => list(flows, columns, *sorting, *limit),
        Select::Statistic { key, per_protocol, sorting, limit } => {
            let answer = measures::statistic(flows, *key, *per_protocol)?;
            limited(measures::sorted(answer, *sorting)?, *limit)
        }
        Select::Aggregate { keys, more, sorting, limit } => {
            let answer = measures::aggregate(flows, keys, more)?;
            let answer = sorting.map_or(Ok(answer.clone()), |sorting| measures::sorted(answer, sorting))?;
            limited(answer, *limit)
        }
    }
}

/// The rows of a plan, with the names that the question has for its columns. Two of them may have one name, which no plan
/// of the engine may have.
pub(crate) fn named(question: &FlowQuery, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let Select::Aggregate { more, .. } = &question.select else { return rows };
    if more.is_empty() {
        return rows;
    }
    let planned = rows.schema();
    let others = planned.fields().len() - more.len();
    let fields =
        planned.fields().iter().enumerate().map(|(position, field)| match more.get(position.wrapping_sub(others)) {
            Some(measure) => weir_flow::schema::field(measure.column()),
            None => field.as_ref().clone(),
        });
    let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let answered = Arc::clone(&schema);
    let rows = rows.map(move |batch| {
        let batch = batch?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let schema = Arc::clone(&answered);
        Ok(RecordBatch::try_new_with_options(schema, batch.columns().to_vec(), &options)?)
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

/// What all flows of a question carried together: one row of `flows`, `packets` and `bytes`.
pub(crate) fn totals(question: &FlowQuery, flows: DataFrame) -> Result<DataFrame> {
    let flows = match condition(question) {
        Some(condition) => flows.filter(condition)?,
        None => flows,
    };
    measures::totals(flows)
}

fn condition(question: &FlowQuery) -> Option<Expr> {
    let filter = (question.filter != Predicate::True).then(|| filter_expr(&question.filter));
    [window_condition(&question.window), filter].into_iter().flatten().reduce(Expr::and)
}

fn window_condition(window: &TimeWindow) -> Option<Expr> {
    let (lower_column, upper_column) = match window.rule {
        WindowRule::Overlaps => (Column::End, Column::Start),
        WindowRule::Inside => (Column::Start, Column::End),
    };
    let test = |column: Column, bound: i64, is_lower: bool| {
        let bound = Expr::Literal(ScalarValue::TimestampMillisecond(Some(bound), Some("UTC".into())), None);
        let value = ident(column.name());
        match (window.rule, is_lower) {
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
    let lower = window.from_ms.map(|from| or_received(lower_column, from, true));
    let upper = window.until_ms.map(|until| or_received(upper_column, until, false));
    [lower, upper].into_iter().flatten().reduce(Expr::and)
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
