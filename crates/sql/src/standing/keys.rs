//! What a window found narrows what history is asked.
//!
//! Where rows of a window are joined with history, and rows of history without a partner count for nothing, the part of
//! the plan that reads the window is answered first. Its keys become a list in the condition on history, by which the
//! archive's index of hosts finds the pages: a hundred addresses cost milliseconds in a month. When the window found
//! nothing, history is not asked at all.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, Result, ScalarValue};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::logical_expr::{Distinct, Expr, Join, LogicalPlan, LogicalPlanBuilder, ident, lit};

use super::history::HistoryTable;
use super::sources::{of_provider, windows_of};

/// Keys that a list may have; beyond that history is asked without.
const KEYS_MAX: usize = 20_000;

/// The sides of a join of the window with history: whether the left one is the window's.
fn sides(join: &Join) -> Result<Option<bool>> {
    if join.null_aware {
        // NOT IN: one null of history decides, and no list of keys has it
        return Ok(None);
    }
    let (left, right) = (reads(&join.left)?, reads(&join.right)?);
    let is_kept = |types: &[JoinType]| types.contains(&join.join_type);
    Ok(match (left, right) {
        (Reads::Window, Reads::History)
            if is_kept(&[
                JoinType::Inner,
                JoinType::Left,
                JoinType::LeftSemi,
                JoinType::LeftAnti,
                JoinType::LeftMark,
            ]) =>
        {
            Some(true)
        }
        (Reads::History, Reads::Window)
            if is_kept(&[
                JoinType::Inner,
                JoinType::Right,
                JoinType::RightSemi,
                JoinType::RightAnti,
                JoinType::RightMark,
            ]) =>
        {
            Some(false)
        }
        _ => None,
    })
}

/// Whether a node is a join by which what the window found narrows history.
pub(crate) fn is_narrowed(node: &LogicalPlan) -> Result<bool> {
    let LogicalPlan::Join(join) = node else { return Ok(false) };
    let Some(is_left) = sides(join)? else { return Ok(false) };
    Ok(join.on.iter().any(|on| key_of(join, on, is_left).is_some()))
}

/// The columns of a condition of a join: that of the window, and that of history if a list of its values comes down to the
/// columns that the archive has an index of.
fn key_of<'a>(join: &'a Join, on: &'a (Expr, Expr), is_left: bool) -> Option<(&'a Column, &'a Column)> {
    let (live, history) = if is_left { (&on.0, &on.1) } else { (&on.1, &on.0) };
    let plan = if is_left { &join.right } else { &join.left };
    match (live, history) {
        (Expr::Column(live), Expr::Column(history)) if is_kept(plan, history) => Some((live, history)),
        _ => None,
    }
}

/// Whether a column is one that the archive keeps, and a condition on it holds for rows as it does for what is made of them.
fn is_kept(plan: &LogicalPlan, column: &Column) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => true,
        LogicalPlan::Projection(projection) => {
            let position = projection.schema.maybe_index_of_column(column);
            let mut expression = position.and_then(|position| projection.expr.get(position));
            while let Some(Expr::Alias(alias)) = expression {
                expression = Some(&alias.expr);
            }
            matches!(expression, Some(Expr::Column(inner)) if is_kept(&projection.input, inner))
        }
        LogicalPlan::Aggregate(aggregate) => {
            let is_group =
                aggregate.group_expr.iter().any(|group| matches!(group, Expr::Column(group) if group == column));
            is_group && is_kept(&aggregate.input, column)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let position = alias.schema.maybe_index_of_column(column);
            let inner = position.and_then(|position| alias.input.schema().columns().get(position).cloned());
            inner.is_some_and(|inner| is_kept(&alias.input, &inner))
        }
        LogicalPlan::Filter(filter) => is_kept(&filter.input, column),
        LogicalPlan::Distinct(Distinct::All(input)) => is_kept(input, column),
        _ => false,
    }
}

/// What a plan reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    Window,
    History,
    /// Both, or neither.
    Other,
}

/// What a plan reads.
pub(crate) fn reads(plan: &LogicalPlan) -> Result<Reads> {
    let has_window = !windows_of(plan)?.is_empty();
    let mut has_history = false;
    plan.apply_with_subqueries(|node| {
        has_history |= of_provider(node, |_: &HistoryTable| ()).is_some();
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(match (has_window, has_history) {
        (true, false) => Reads::Window,
        (false, true) => Reads::History,
        _ => Reads::Other,
    })
}

/// The parts that read the window alone and are joined with history, in the order in which [`narrowed`] wants their rows.
pub(crate) fn live_parts(plan: &LogicalPlan) -> Result<Vec<LogicalPlan>> {
    let mut parts = Vec::new();
    plan.apply(|node| {
        let LogicalPlan::Join(join) = node else { return Ok(TreeNodeRecursion::Continue) };
        let sides = if is_narrowed(node)? { sides(join)? } else { None };
        let Some(is_left) = sides else { return Ok(TreeNodeRecursion::Continue) };
        let live = if is_left { &join.left } else { &join.right };
        parts.push(live.as_ref().clone());
        Ok(TreeNodeRecursion::Jump)
    })?;
    Ok(parts)
}

/// The plan with the rows of its live parts in their places, and history narrowed to their keys.
pub(crate) fn narrowed(plan: LogicalPlan, answers: Vec<Vec<RecordBatch>>) -> Result<LogicalPlan> {
    let mut answers = answers.into_iter();
    let plan = plan.transform_down(|node| {
        let is_narrowed = is_narrowed(&node)?;
        let LogicalPlan::Join(join) = node else { return Ok(Transformed::no(node)) };
        let sides = if is_narrowed { sides(&join)? } else { None };
        let Some(is_left) = sides else { return Ok(Transformed::no(LogicalPlan::Join(join))) };
        let Some(rows) = answers.next() else { return Ok(Transformed::no(LogicalPlan::Join(join))) };
        let joined = with_rows(join, is_left, rows)?;
        Ok(Transformed::new(joined, true, TreeNodeRecursion::Jump))
    })?;
    Ok(plan.data)
}

fn with_rows(mut join: Join, is_left: bool, rows: Vec<RecordBatch>) -> Result<LogicalPlan> {
    let (live, history) = if is_left { (&join.left, &join.right) } else { (&join.right, &join.left) };
    let mut conditions = Vec::new();
    for on in &join.on {
        let Some((key, of_history)) = key_of(&join, on, is_left) else { continue };
        if let Some(keys) = keys_of(&rows, live, key)? {
            conditions.push(Expr::Column(of_history.clone()).in_list(keys, false));
        }
    }
    let rows = Arc::new(rows_of(live, rows)?);
    let history = match conditions.into_iter().reduce(Expr::and) {
        Some(condition) => Arc::new(LogicalPlanBuilder::from(history.as_ref().clone()).filter(condition)?.build()?),
        None => Arc::clone(history),
    };
    (join.left, join.right) = if is_left { (rows, history) } else { (history, rows) };
    Ok(LogicalPlan::Join(join))
}

/// The values of a key; `None` when they are too many, or null may be equal to null.
fn keys_of(rows: &[RecordBatch], live: &LogicalPlan, key: &Column) -> Result<Option<Vec<Expr>>> {
    let Some(position) = live.schema().maybe_index_of_column(key) else { return Ok(None) };
    let mut seen = std::collections::HashSet::new();
    for batch in rows {
        let values: &ArrayRef = batch.column(position);
        if values.null_count() > 0 {
            return Ok(None);
        }
        for row in 0..values.len() {
            seen.insert(ScalarValue::try_from_array(values, row)?);
            if seen.len() > KEYS_MAX {
                return Ok(None);
            }
        }
    }
    Ok(Some(seen.into_iter().map(lit).collect()))
}

/// Rows in place of the plan that made them, with the same columns.
pub(crate) fn rows_of(plan: &LogicalPlan, rows: Vec<RecordBatch>) -> Result<LogicalPlan> {
    let fields: Vec<_> =
        plan.schema().iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field))).collect();
    let named = fields
        .iter()
        .enumerate()
        .map(|(position, (_, field))| Arc::new(field.as_ref().clone().with_name(format!("c{position}"))));
    let schema = Arc::new(arrow::datatypes::Schema::new(named.collect::<Vec<_>>()));
    let batches = rows.into_iter().map(|batch| {
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&schema), batch.columns().to_vec(), &options)?)
    });
    let table = MemTable::try_new(Arc::clone(&schema), vec![batches.collect::<Result<Vec<_>>>()?])?;
    let columns = fields.iter().enumerate().map(|(position, (qualifier, field))| {
        ident(format!("c{position}")).alias_qualified(qualifier.clone(), field.name())
    });
    let columns: Vec<_> = columns.collect();
    LogicalPlanBuilder::scan("rows of the window", provider_as_source(Arc::new(table)), None)?.project(columns)?.build()
}
