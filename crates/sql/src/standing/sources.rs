//! The tables that a plan reads, and plans that read others in their place.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column as SqlColumn, DFSchema, Result};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableScan};
use weir_flow::{Column, ColumnType, Table};

use super::history::BaseTable;
use super::window_table::WindowTable;

/// The window relations that a plan reads.
pub(crate) fn windows_of(plan: &LogicalPlan) -> Result<Vec<usize>> {
    let mut windows = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let Some(relation) = of_provider(node, WindowTable::relation)
            && !windows.contains(&relation)
        {
            windows.push(relation);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(windows)
}

/// The columns that a plan reads of windows.
pub(crate) fn columns_of(plan: &LogicalPlan) -> Result<Vec<Column>> {
    let mut columns = Vec::new();
    plan.apply_with_subqueries(|node| {
        if of_provider(node, WindowTable::relation).is_some() {
            let found = node.schema().fields().iter().filter_map(|field| Column::by_name(field.name()));
            for column in found {
                if !columns.contains(&column) {
                    columns.push(column);
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(columns)
}

/// Something of the provider of a scan, if it is one of this type.
pub(crate) fn of_provider<T: TableProvider, V>(node: &LogicalPlan, value: impl Fn(&T) -> V) -> Option<V> {
    let LogicalPlan::TableScan(scan) = node else { return None };
    let provider = source_as_provider(&scan.source).ok()?;
    provider.downcast_ref::<T>().map(value)
}

/// What a scan reads that gets another source.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source {
    Base(Table),
    Window,
}

/// A plan whose tables have other sources; views are opened for that.
pub(super) fn with_sources(
    plan: LogicalPlan,
    source: &dyn Fn(Source) -> Option<Arc<dyn TableProvider>>,
) -> Result<LogicalPlan> {
    let plan = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = &node else { return Ok(Transformed::no(node)) };
        if let Some(view) = scan.source.get_logical_plan() {
            let inner = with_sources(view.into_owned(), source)?;
            let aliased = LogicalPlanBuilder::from(inner).alias(scan.table_name.clone())?.build()?;
            return Ok(Transformed::yes(aliased));
        }
        let base = of_provider(&node, |base: &BaseTable| Source::Base(base.0));
        let read = base.or_else(|| of_provider(&node, |_: &WindowTable| Source::Window));
        match read.and_then(source) {
            Some(provider) => {
                let scan = TableScan { source: provider_as_source(provider), ..scan.clone() };
                Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
            }
            None => Ok(Transformed::no(node)),
        }
    })?;
    Ok(plan.data)
}

/// The column of flows that a column of a plan is.
pub(super) fn origin(plan: &LogicalPlan, column: &SqlColumn) -> Option<Column> {
    match plan {
        LogicalPlan::TableScan(scan) => match scan.source.get_logical_plan() {
            Some(view) => origin(&view, &SqlColumn::from_name(&column.name)),
            None => Column::by_name(&column.name).filter(|column| column.column_type() == ColumnType::Time),
        },
        LogicalPlan::Projection(projection) => {
            let position = position_in(&projection.schema, column)?;
            let mut expression = projection.expr.get(position)?;
            while let Expr::Alias(alias) = expression {
                expression = &alias.expr;
            }
            match expression {
                Expr::Column(inner) => origin(&projection.input, inner),
                _ => None,
            }
        }
        LogicalPlan::SubqueryAlias(alias) => origin(&alias.input, &SqlColumn::from_name(&column.name)),
        LogicalPlan::Filter(filter) => origin(&filter.input, column),
        _ => None,
    }
}

fn position_in(schema: &DFSchema, column: &SqlColumn) -> Option<usize> {
    schema
        .index_of_column_by_name(column.relation.as_ref(), &column.name)
        .or_else(|| schema.index_of_column_by_name(None, &column.name))
}
