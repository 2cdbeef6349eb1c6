//! Statistics as the table `series`.
//!
//! The store has the same time in steps of several lengths, which must not be added up. So a question names one of them,
//! `step = 60` say; one that does not is refused, with the steps that there are.
//!
//! Steps that are damaged have no rows, as gaps have none, and are warnings of the question's progress.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use weir_query::Progress;

use crate::stored_series::{SeriesSelection, StoredSeries};

/// Batches that are read ahead.
const BATCHES_AHEAD: usize = 2;

/// The table `series`.
#[derive(Debug)]
pub(crate) struct SeriesTable {
    store: Arc<dyn StoredSeries>,
    schema: SchemaRef,
}

/// What the conditions of a question say about a column.
#[derive(Debug, Clone, PartialEq)]
enum Condition {
    /// It has one of these values.
    OneOf(&'static str, Vec<ScalarValue>),
    /// Its time, in milliseconds since the epoch, is not before the first and not after the second.
    Within(i64, i64),
}

impl SeriesTable {
    pub(crate) fn new(store: Arc<dyn StoredSeries>) -> Self {
        let schema = store.schema();
        Self { store, schema }
    }

    /// The rows that can pass the conditions.
    fn selection(&self, filters: &[Expr]) -> Result<SeriesSelection> {
        let mut selection =
            SeriesSelection { step_secs: 0, families: None, keys: None, from_secs: i64::MIN, until_secs: i64::MAX };
        let mut steps: Option<HashSet<u32>> = None;
        for condition in filters.iter().filter_map(condition_of) {
            match condition {
                Condition::OneOf("by", values) => narrow(&mut selection.families, &values),
                Condition::OneOf("key", values) => narrow(&mut selection.keys, &values),
                Condition::OneOf(_, values) => {
                    let wanted = values.iter().filter_map(step_secs).collect();
                    steps = Some(steps.map_or(wanted, |steps: HashSet<u32>| {
                        steps
                            .into_iter()
                            .filter(|step| values.iter().any(|value| step_secs(value) == Some(*step)))
                            .collect()
                    }));
                }
                Condition::Within(first_ms, last_ms) => {
                    selection.from_secs = selection.from_secs.max(first_ms.div_euclid(1_000));
                    selection.until_secs = selection.until_secs.min(last_ms.div_euclid(1_000).saturating_add(1));
                }
            }
        }
        selection.step_secs = self.step(steps.as_ref())?;
        Ok(selection)
    }

    /// The one length of steps that a question names.
    fn step(&self, steps: Option<&HashSet<u32>>) -> Result<u32> {
        let lengths = self.store.step_lengths();
        let refused = |message: &str| {
            let mut hint = "hint: add step = N to the WHERE of series".to_owned();
            if let Some(lengths) = &lengths {
                let lengths: Vec<String> = lengths.iter().map(u32::to_string).collect();
                // writing to a string cannot fail
                let _ = write!(hint, "; the statistics have steps of {} seconds", lengths.join(", "));
            }
            Err(DataFusionError::Plan(format!("{message}\n{hint}")))
        };
        let Some(steps) = steps else { return refused("a question to series must name the length of a step") };
        let is_there = |step: &u32| lengths.as_ref().is_none_or(|lengths| lengths.contains(step));
        let found: Vec<u32> = steps.iter().copied().filter(is_there).collect();
        match (&found[..], steps.len()) {
            ([found], 1) => Ok(*found),
            ([], _) => refused("the statistics have no steps of this length"),
            _ => refused("a question to series must name the length of one step, not of several"),
        }
    }
}

/// Leaves those of the values that are in the list, too.
fn narrow(known: &mut Option<Vec<String>>, values: &[ScalarValue]) {
    let texts: Vec<String> = values.iter().filter_map(text).collect();
    *known = Some(match known.take() {
        Some(known) => known.into_iter().filter(|text| texts.contains(text)).collect(),
        None => texts,
    });
}

fn text(value: &ScalarValue) -> Option<String> {
    value.try_as_str().flatten().map(str::to_owned)
}

fn step_secs(value: &ScalarValue) -> Option<u32> {
    match value {
        ScalarValue::UInt32(Some(step)) => Some(*step),
        ScalarValue::Int64(Some(step)) => u32::try_from(*step).ok(),
        _ => None,
    }
}

/// What a condition says, when it is one that the store can use.
fn condition_of(filter: &Expr) -> Option<Condition> {
    let column = |expr: &Expr| match expr {
        Expr::Column(column) => ["time", "step", "by", "key"].into_iter().find(|name| *name == column.name),
        _ => None,
    };
    let literal = |expr: &Expr| match expr {
        Expr::Literal(value, _) => Some(value.clone()),
        _ => None,
    };
    match filter {
        Expr::InList(InList { expr, list, negated: false }) => {
            let values: Option<Vec<_>> = list.iter().map(literal).collect();
            column(expr).filter(|name| *name != "time").zip(values).map(|(name, values)| Condition::OneOf(name, values))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            // a list of few values is rewritten to alternatives
            let (Condition::OneOf(name, mut values), Condition::OneOf(other, more)) =
                (condition_of(left)?, condition_of(right)?)
            else {
                return None;
            };
            values.extend(more);
            (name == other).then_some(Condition::OneOf(name, values))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (name, op, value) = match (column(left), column(right)) {
                (Some(name), _) => (name, *op, literal(right)?),
                (_, Some(name)) => (name, op.swap()?, literal(left)?),
                _ => return None,
            };
            match (name, op, value) {
                ("time", _, ScalarValue::TimestampMillisecond(Some(ms), _)) => match op {
                    Operator::Eq => Some(Condition::Within(ms, ms)),
                    Operator::Lt | Operator::LtEq => Some(Condition::Within(i64::MIN, ms)),
                    Operator::Gt | Operator::GtEq => Some(Condition::Within(ms, i64::MAX)),
                    _ => None,
                },
                ("time", ..) => None,
                (name, Operator::Eq, value) => Some(Condition::OneOf(name, vec![value])),
                _ => None,
            }
        }
        _ => None,
    }
}

#[async_trait]
impl TableProvider for SeriesTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let decide = |filter: &&Expr| match condition_of(filter) {
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(decide).collect())
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let selection = self.selection(filters)?;
        let every = (0..self.schema.fields().len()).collect();
        let projection = projection.unwrap_or(&every).clone();
        let schema = Arc::new(self.schema.project(&projection)?);
        let store = Arc::clone(&self.store);
        let part = Arc::new(SeriesPart { store, selection, projection, schema: Arc::clone(&schema) });
        Ok(Arc::new(StreamingTableExec::try_new(schema, vec![part], None, None, false, None)?))
    }
}

/// Reads the rows of a selection when it runs.
#[derive(Debug)]
struct SeriesPart {
    store: Arc<dyn StoredSeries>,
    selection: SeriesSelection,
    projection: Vec<usize>,
    schema: SchemaRef,
}

impl PartitionStream for SeriesPart {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let progress = context.session_config().get_extension::<Progress>().unwrap_or_default();
        let (store, selection, projection) = (Arc::clone(&self.store), self.selection.clone(), self.projection.clone());
        let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&self.schema), BATCHES_AHEAD);
        let sender = builder.tx();
        builder.spawn_blocking(move || {
            let mut take = |batch: RecordBatch| {
                let rows = batch.project(&projection).map_err(DataFusionError::from);
                let is_last = rows.is_err();
                // without a receiver the question has ended
                sender.blocking_send(rows).is_ok() && !is_last
            };
            store.read(&selection, &progress, &mut take).map_err(DataFusionError::External)
        });
        builder.build()
    }
}

#[cfg(test)]
mod tests;
