//! Batches on their way between operators.
//!
//! The last rule of the planner puts a [`BoundedExec`] where rows get wider or more. It passes batches on as they are,
//! or ends the question.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec, SymmetricHashJoinExec,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::unnest::{ListUnnest, UnnestExec};
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::StreamExt;

use super::width::{innermost, octets_of_batch, widest};
use super::{MemoryShares, too_large};

/// The rule.
#[derive(Debug)]
pub(crate) struct BoundBatches(pub(crate) MemoryShares);

impl PhysicalOptimizerRule for BoundBatches {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| bounded(node, self.0)).data()
    }

    fn name(&self) -> &'static str {
        "bound_batches"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn bounded(node: Arc<dyn ExecutionPlan>, shares: MemoryShares) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    check_literals(&node, shares.value)?;
    let before = |bound: Bound| {
        let children = node.children().into_iter().cloned();
        let children = children.map(|child| -> Arc<dyn ExecutionPlan> {
            Arc::new(BoundedExec { input: child, bound: bound.clone(), shares })
        });
        let keep = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
        Arc::clone(&node).replace_children(children.collect(), keep)
    };
    let after = |node| -> Arc<dyn ExecutionPlan> { Arc::new(BoundedExec { input: node, bound: Bound::Batch, shares }) };
    if let Some(unnest) = node.downcast_ref::<UnnestExec>() {
        let lists = Arc::from(unnest.list_column_indices().to_vec());
        return Ok(Transformed::yes(after(before(Bound::Unnested(lists))?)));
    }
    if is_join(&node) {
        return Ok(Transformed::yes(after(before(Bound::Repeated)?)));
    }
    if node.downcast_ref::<WindowAggExec>().is_some() {
        return Ok(Transformed::yes(after(before(Bound::Kept)?)));
    }
    if node.downcast_ref::<ProjectionExec>().is_some() {
        return Ok(Transformed::yes(after(node)));
    }
    Ok(Transformed::no(node))
}

fn is_join(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.downcast_ref::<HashJoinExec>().is_some()
        || node.downcast_ref::<NestedLoopJoinExec>().is_some()
        || node.downcast_ref::<CrossJoinExec>().is_some()
        || node.downcast_ref::<SortMergeJoinExec>().is_some()
        || node.downcast_ref::<SymmetricHashJoinExec>().is_some()
}

/// A constant becomes a value of each row of a batch.
fn check_literals(node: &Arc<dyn ExecutionPlan>, octets_max: usize) -> Result<()> {
    let mut check = |expression: &Arc<dyn PhysicalExpr>| {
        expression.apply(|part| {
            let octets = part.downcast_ref::<Literal>().map_or(0, |literal| literal.value().size());
            if octets > octets_max {
                return Err(too_large("a constant for each row", octets as u128, octets_max));
            }
            Ok(TreeNodeRecursion::Continue)
        })
    };
    node.apply_expressions(&mut check).map(drop)
}

/// What of a batch is bounded.
#[derive(Debug, Clone)]
enum Bound {
    /// The batch itself.
    Batch,
    /// Its widest row, which may be repeated for each row of a batch.
    Repeated,
    /// What it has once the lists of these columns are rows.
    Unnested(Arc<[ListUnnest]>),
    /// All batches together, which are kept to the end and then made one.
    Kept,
}

/// Passes on batches that are not too large.
#[derive(Debug, Clone)]
pub(crate) struct BoundedExec {
    input: Arc<dyn ExecutionPlan>,
    bound: Bound,
    shares: MemoryShares,
}

impl BoundedExec {
    /// What is bounded.
    pub(crate) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }
}

impl Bound {
    fn check(&self, batch: &RecordBatch, shares: MemoryShares, kept: Option<&MemoryReservation>) -> Result<()> {
        let refuse = |what, octets: usize, octets_max| Err(too_large(what, octets as u128, octets_max));
        match self {
            Self::Batch => match octets_of_batch(batch) {
                octets if octets > shares.batch => refuse("a batch of rows", octets, shares.batch),
                _ => Ok(()),
            },
            Self::Repeated => match batch.columns().iter().map(|values| widest(values)).max() {
                Some(octets) if octets > shares.value => refuse("a joined value", octets, shares.value),
                _ => Ok(()),
            },
            Self::Unnested(lists) => match unnested(batch, lists) {
                octets if octets > shares.batch => refuse("an unnested list", octets, shares.batch),
                _ => Ok(()),
            },
            Self::Kept => kept.map_or(Ok(()), |kept| kept.try_grow(2 * octets_of_batch(batch))),
        }
    }
}

/// Octets that the row with the longest list has once it is as many rows; all rows together, when lists of lists
/// become rows, because those are not cut into batches.
fn unnested(batch: &RecordBatch, lists: &[ListUnnest]) -> usize {
    let is_list = |position| lists.iter().any(|list| list.index_in_input_schema == position);
    let columns = batch.columns().iter().enumerate();
    let beside: usize = columns.filter(|(position, _)| !is_list(*position)).map(|(_, values)| widest(values)).sum();
    let of_list = |list: &ListUnnest| {
        let values = batch.column(list.index_in_input_schema);
        let counts = innermost(values, list.depth);
        let all: usize = counts.iter().sum();
        let rows = if list.depth > 1 { all } else { counts.into_iter().max().unwrap_or(0) };
        let each = super::width::octets(values).div_ceil(all.max(1));
        (rows, rows * each)
    };
    let (rows, octets) =
        lists.iter().map(of_list).fold((0, 0), |(rows, octets), list| (list.0.max(rows), list.1 + octets));
    rows * beside + octets
}

impl DisplayAs for BoundedExec {
    fn fmt_as(&self, _form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BoundedExec: batch={}, value={}", self.shares.batch, self.shares.value)
    }
}

impl ExecutionPlan for BoundedExec {
    fn name(&self) -> &'static str {
        "BoundedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop() else { return Ok(self) };
        Ok(Arc::new(Self { input, bound: self.bound.clone(), shares: self.shares }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        input_stats: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&input_stats[0]))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let kept = matches!(self.bound, Bound::Kept)
            .then(|| MemoryConsumer::new(format!("window[{partition}]")).register(context.memory_pool()));
        let batches = self.input.execute(partition, context)?;
        let (bound, shares) = (self.bound.clone(), self.shares);
        let schema = batches.schema();
        let batches = batches.map(move |batch| {
            let batch = batch?;
            bound.check(&batch, shares, kept.as_ref())?;
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}
