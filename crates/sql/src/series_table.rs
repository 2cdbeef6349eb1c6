//! Statistics as the table `series`.
//!
//! The store has the same time in steps of several lengths, which must not be added up. So a question names one of them,
//! `step = 60` say; one that does not is refused, with the steps that there are.

use std::collections::HashSet;
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
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use weir_series::{Resolution, RowSelection, SeriesStore};

/// The table `series`.
#[derive(Debug)]
pub(crate) struct SeriesTable {
    store: Arc<SeriesStore>,
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
    pub(crate) fn new(store: SeriesStore) -> Self {
        let schema = store.schema();
        Self { store: Arc::new(store), schema }
    }

    /// The rows that can pass the conditions.
    fn selection(&self, filters: &[Expr]) -> Result<RowSelection> {
        let mut selection = RowSelection {
            resolution: self.store.resolutions()[0],
            families: None,
            keys: None,
            from_secs: i64::MIN,
            until_secs: i64::MAX,
        };
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
        selection.resolution = self.resolution(steps.as_ref())?;
        Ok(selection)
    }

    /// The resolution whose steps have this length.
    fn resolution(&self, steps: Option<&HashSet<u32>>) -> Result<Resolution> {
        let known: Vec<String> = self.store.resolutions().iter().map(|one| one.step_secs.to_string()).collect();
        let known = known.join(", ");
        let refused = |message: &str| {
            let hint =
                format!("hint: add step = N to the WHERE of series; the statistics have steps of {known} seconds");
            Err(DataFusionError::Plan(format!("{message}\n{hint}")))
        };
        let Some(steps) = steps else { return refused("a question to series must name the length of a step") };
        let found = self.store.resolutions().iter().find(|one| steps.contains(&one.step_secs));
        match (found, steps.len()) {
            (Some(found), 1) => Ok(*found),
            (None, _) => refused("the statistics have no steps of this length"),
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
    store: Arc<SeriesStore>,
    selection: RowSelection,
    projection: Vec<usize>,
    schema: SchemaRef,
}

impl PartitionStream for SeriesPart {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let projection = self.projection.clone();
        let external = |error: weir_series::SeriesError| DataFusionError::External(Box::new(error));
        let projected = move |batch: RecordBatch| Ok(batch.project(&projection)?);
        let rows: Box<dyn Iterator<Item = Result<RecordBatch>> + Send> = match self.store.rows(&self.selection) {
            Ok(rows) => Box::new(rows.map(move |batch| batch.map_err(external).and_then(&projected))),
            Err(error) => Box::new(std::iter::once(Err(external(error)))),
        };
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), futures::stream::iter(rows)))
    }
}
