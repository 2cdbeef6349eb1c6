//! Which rows of windows a statement reads at all: those that its conditions leave out need not be kept.
//!
//! The optimiser has moved conditions down to the windows that they are about, as far as outer joins, groups and counts allow
//! that. What it left directly above a window holds for the rows of that place alone; a statement may read windows in
//! several places, which share the rows of panes, so a row is kept when one of the places reads it. The plan
//! still has its conditions: a row that is kept needlessly changes no answer. Left out here are the parts of conditions
//! that depend on more than the row: times of the window, bounds of history, subqueries, random numbers.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column as SqlColumn, DFSchema, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::utils::{conjunction, disjunction, split_conjunction};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_expr::PhysicalExpr;
use weir_flow::{Column, Table};

use super::pane_aggregates::{has_subquery, has_window_time, resolved};
use super::sources::of_provider;
use super::window_table::WindowTable;
use crate::scan::padded;

/// The condition that rows of windows must meet for a statement to read them.
#[derive(Debug, Clone)]
pub struct RowFilter {
    condition: Arc<dyn PhysicalExpr>,
    /// The condition, for people.
    text: String,
    /// What it reads.
    schema: SchemaRef,
}

impl RowFilter {
    /// Of an optimised plan that holds for every window; `None` when the statement reads all rows in one of its places.
    pub(super) fn of(state: &SessionState, optimised: &LogicalPlan) -> Result<Option<Self>> {
        let mut of_places = Vec::new();
        optimised.apply_with_subqueries(|node| {
            if !is_of_window_rows(node) {
                return Ok(TreeNodeRecursion::Continue);
            }
            let condition = condition_of(node);
            if !of_places.contains(&condition) {
                of_places.push(condition);
            }
            Ok(TreeNodeRecursion::Jump)
        })?;
        let of_places: Option<Vec<Expr>> = of_places.into_iter().collect();
        let Some(condition) = of_places.and_then(disjunction) else { return Ok(None) };
        let condition = unqualified(condition)?;
        let names: HashSet<String> = condition.column_refs().into_iter().map(|column| column.name.clone()).collect();
        let flows = Table::Flows.schema();
        let fields = flows.fields().iter().filter(|field| names.contains(field.name())).cloned();
        let fields: Vec<FieldRef> = fields.collect();
        if fields.len() < names.len() {
            return Ok(None);
        }
        let schema = Arc::new(Schema::new(fields));
        let text = condition.to_string();
        let condition = state.create_physical_expr(condition, &DFSchema::try_from(Arc::clone(&schema))?)?;
        Ok(Some(Self { condition, text, schema }))
    }

    /// The columns of flows that it reads.
    pub(super) fn columns(&self) -> impl Iterator<Item = Column> {
        self.schema.fields().iter().filter_map(|field| Column::by_name(field.name()))
    }

    /// The condition, for people.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The rows that the statement reads; all of them when that cannot be computed, so that the statement fails by them.
    pub fn kept(&self, rows: &RecordBatch) -> RecordBatch {
        self.filtered(rows).unwrap_or_else(|_| rows.clone())
    }

    fn filtered(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let values = self.condition.evaluate(&padded(rows, &self.schema)?)?.into_array(rows.num_rows())?;
        match values.as_boolean_opt() {
            Some(is_read) if is_read.true_count() < rows.num_rows() => Ok(filter_record_batch(rows, is_read)?),
            _ => Ok(rows.clone()),
        }
    }
}

/// Whether a plan gives rows of a window, each made of one row.
fn is_of_window_rows(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => of_provider(plan, WindowTable::relation).is_some(),
        LogicalPlan::Projection(projection) => {
            !projection.expr.iter().any(has_subquery) && is_of_window_rows(&projection.input)
        }
        LogicalPlan::SubqueryAlias(alias) => is_of_window_rows(&alias.input),
        LogicalPlan::Filter(filter) => !has_subquery(&filter.predicate) && is_of_window_rows(&filter.input),
        _ => false,
    }
}

/// What holds for the rows of a window that a plan gives; `None` when it gives all.
fn condition_of(plan: &LogicalPlan) -> Option<Expr> {
    let mut parts = Vec::new();
    let mut node = Some(plan);
    while let Some(current) = node {
        if let LogicalPlan::Filter(filter) = current {
            let of_rows = split_conjunction(&filter.predicate).into_iter().map(|part| resolved(&filter.input, part));
            parts.extend(of_rows.filter(is_of_row_alone));
        }
        node = current.inputs().first().copied();
    }
    conjunction(parts)
}

/// Whether a condition has the same value for a row, whatever the window and whenever it is asked.
fn is_of_row_alone(condition: &Expr) -> bool {
    // looking at an expression cannot fail
    let has_bound = condition.exists(|part| Ok(matches!(part, Expr::Placeholder(_)))).unwrap_or(true);
    !has_bound && !has_window_time(condition) && !condition.is_volatile()
}

fn unqualified(condition: Expr) -> Result<Expr> {
    let condition = condition.transform_up(|part| {
        Ok(match part {
            Expr::Column(column) => Transformed::yes(Expr::Column(SqlColumn::new_unqualified(column.name))),
            part => Transformed::no(part),
        })
    })?;
    Ok(condition.data)
}
