//! How large expressions become when what computes a column is written in the place of its name.
//!
//! The optimiser does that with conditions, to check them where rows are read: `x > 0` about `x + x AS x` becomes
//! `x + x > 0`, and twice as long with each further subquery that adds `x` to itself. It is measured for all expressions
//! and not for conditions alone, since conditions are also derived from others.

use std::collections::HashMap;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};

/// As many values of a list take as long as one operator.
const LISTED: usize = 64;

/// Numbers of operators and functions of a plan, with columns written out.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    /// Of the largest expression.
    pub largest: usize,
    /// Of all conditions together: those of several steps become one.
    pub conditions: usize,
}

/// The sizes of the expressions of a plan.
pub(super) fn sizes(plan: &LogicalPlan) -> Result<Sizes> {
    let mut sizes = Sizes::default();
    columns(plan, &mut sizes)?;
    Ok(sizes)
}

/// The sizes of the columns of a step, each written out.
fn columns(step: &LogicalPlan, found: &mut Sizes) -> Result<Vec<usize>> {
    step.apply_subqueries(|subquery| columns(subquery, found).map(|_| TreeNodeRecursion::Continue))?;
    let mut inputs = Vec::new();
    let mut known = HashMap::new();
    for input in step.inputs() {
        let sizes = columns(input, found)?;
        known.extend(input.schema().columns().iter().map(Column::flat_name).zip(sizes.iter().copied()));
        inputs.push(sizes);
    }
    let mut sizes = Vec::new();
    step.apply_expressions(|expression| {
        sizes.push(size(expression, &known)?);
        Ok(TreeNodeRecursion::Continue)
    })?;
    found.largest = sizes.iter().copied().fold(found.largest, usize::max);
    if matches!(step, LogicalPlan::Filter(_) | LogicalPlan::Join(_)) {
        found.conditions = sizes.iter().copied().fold(found.conditions, usize::saturating_add);
    }
    let by_name = || {
        let columns = step.schema().columns();
        columns.iter().map(|column| known.get(&column.flat_name()).copied().unwrap_or(1)).collect::<Vec<usize>>()
    };
    let width = step.schema().fields().len();
    Ok(match step {
        LogicalPlan::Projection(_) if sizes.len() == width => sizes,
        LogicalPlan::Aggregate(aggregate) if sizes.len() == width => {
            // no condition goes through an aggregate but those about its groups
            sizes.iter_mut().skip(aggregate.group_expr.len()).for_each(|size| *size = 1);
            sizes
        }
        LogicalPlan::SubqueryAlias(_) => inputs.pop().unwrap_or_default(),
        LogicalPlan::Union(_) => {
            let size = |column: usize| inputs.iter().filter_map(|sizes| sizes.get(column)).copied().max().unwrap_or(1);
            (0..width).map(size).collect()
        }
        _ => by_name(),
    })
}

/// The size of an expression whose columns have these sizes.
fn size(expression: &Expr, known: &HashMap<String, usize>) -> Result<usize> {
    let mut size = 0_usize;
    expression.apply(|part| {
        size = size.saturating_add(match part {
            Expr::Column(column) => known.get(&column.flat_name()).copied().unwrap_or(1),
            Expr::InList(list) => 1 + list.list.len() / LISTED,
            Expr::Alias(_) => 0,
            part if super::is_value(part) => 0,
            _ => 1,
        });
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(size)
}
