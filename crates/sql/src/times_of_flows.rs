//! The time of the flow, for functions that look addresses up.
//!
//! `label(src_addr)` means the label that the address had when the flow came. Once a file has several versions, this
//! rule adds the column `received` of the table that the address is from as the second argument. With one version
//! nothing is added, because the column would be read for nothing. Where there is no such column, as behind a grouping
//! by address, the newest version is used: only the writer of the statement knows which time is meant, and can give it.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use weir_flow::ColumnType;
use weir_flow::schema::arrow_type;

use crate::enrichment::Enrichment;

/// The rule.
#[derive(Debug)]
pub(crate) struct TimesOfFlows {
    pub(crate) tables: Arc<Enrichment>,
}

impl AnalyzerRule for TimesOfFlows {
    fn name(&self) -> &'static str {
        "times_of_flows"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(|plan| self.plan(plan))?.data)
    }
}

impl TimesOfFlows {
    fn plan(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let schema = merge_schema(&plan.inputs());
        let names = NamePreserver::new(&plan);
        let named = |expression: Expr| -> Result<Transformed<Expr>> {
            let name = names.save(&expression);
            let dated = expression.transform_up(|expression| Ok(self.expression(expression, &schema)))?;
            Ok(dated.update_data(|expression| name.restore(expression)))
        };
        let dated = plan.map_expressions(|expression| match expression {
            // its keys have names, and it has none
            Expr::GroupingSet(_) => expression.map_children(&named),
            expression => named(expression),
        })?;
        if dated.transformed { dated.map_data(LogicalPlan::recompute_schema) } else { Ok(dated) }
    }

    /// Adds the time to a call that has none.
    fn expression(&self, expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
        match expression {
            Expr::ScalarFunction(mut call) if call.args.len() == 1 && self.tables.changes(call.name()) => {
                let time = time_of(&call.args[0], schema);
                let is_known = time.is_some();
                call.args.extend(time);
                Transformed::new_transformed(Expr::ScalarFunction(call), is_known)
            }
            other => Transformed::no(other),
        }
    }
}

/// The column `received` of the table that the columns of an expression are from.
fn time_of(address: &Expr, schema: &DFSchema) -> Option<Expr> {
    let columns = address.column_refs();
    let relation = &columns.iter().next()?.relation;
    if columns.iter().any(|column| column.relation != *relation) {
        return None;
    }
    let time = Column::new(relation.clone(), weir_flow::Column::Received.name());
    let (_, field) = schema.qualified_field_from_column(&time).ok()?;
    (*field.data_type() == arrow_type(ColumnType::Time)).then_some(Expr::Column(time))
}
