//! Lengths of time that are compared with each other.
//!
//! The engine compares intervals part by part, months before days before nanoseconds. A difference of times has nanoseconds
//! alone, so `now() - start > INTERVAL '1 day'` would be false of every flow, and `INTERVAL '24 hours'` shorter than a day. This
//! rule runs before types are coerced and compares their nanoseconds instead, by the months and days of `PostgreSQL`: 30 days,
//! and 24 hours. Where the engine sorts by the parts and there is no comparison to rewrite, intervals are refused.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result, plan_err};
use datafusion::logical_expr::expr::{AggregateFunction, InSubquery, ScalarFunction, SetComparison};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Subquery};
use datafusion::optimizer::AnalyzerRule;

use crate::compared::{align_compared, rewrite_expressions};
use crate::functions::nanoseconds;

/// The rule.
#[derive(Debug)]
pub(crate) struct LengthsOfTime;

impl AnalyzerRule for LengthsOfTime {
    fn name(&self) -> &'static str {
        "lengths_of_time"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(rewrite_plan)?.data)
    }
}

fn rewrite_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let plan = match plan {
        // keys of USING, INTERSECT and EXCEPT are in no expression
        LogicalPlan::Join(mut join) => {
            for (left, right) in &mut join.on {
                let types = [type_of(left, join.left.schema()), type_of(right, join.right.schema())];
                if are_unlike_lengths(&types) {
                    (*left, *right) = (nanoseconds(left.clone()), nanoseconds(right.clone()));
                }
            }
            LogicalPlan::Join(join)
        }
        LogicalPlan::Sort(sort) => {
            let schema = merge_schema(&[&*sort.input]);
            for key in &sort.expr {
                refuse_interval(&key.expr, &schema, "ORDER BY sorts")?;
            }
            LogicalPlan::Sort(sort)
        }
        plan => plan,
    };
    rewrite_expressions(plan, rewrite)
}

fn rewrite(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expression {
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            let aligned = subquery_column(*expr, subquery, schema)?;
            Ok(aligned.update_data(|(expr, subquery)| {
                Expr::InSubquery(InSubquery { expr: Box::new(expr), subquery, negated })
            }))
        }
        Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
            let aligned = subquery_column(*expr, subquery, schema)?;
            Ok(aligned.update_data(|(expr, subquery)| {
                Expr::SetComparison(SetComparison { expr: Box::new(expr), subquery, op, quantifier })
            }))
        }
        Expr::ScalarFunction(call) => {
            refuse_compared_arguments(&call, schema)?;
            Ok(Transformed::no(Expr::ScalarFunction(call)))
        }
        Expr::AggregateFunction(call) => {
            refuse_extremes(&call, schema)?;
            Ok(Transformed::no(Expr::AggregateFunction(call)))
        }
        other => align_compared(other, |values| Ok(align(values, schema))),
    }
}

fn align(values: Vec<Expr>, schema: &DFSchema) -> Transformed<Vec<Expr>> {
    let types: Vec<_> = values.iter().map(|value| type_of(value, schema)).collect();
    if !are_unlike_lengths(&types) {
        return Transformed::no(values);
    }
    Transformed::yes(values.into_iter().map(nanoseconds).collect())
}

fn type_of(value: &Expr, schema: &DFSchema) -> Option<DataType> {
    value.get_type(schema).ok()
}

/// Whether these are lengths of time that are not all durations of one unit, which the engine compares rightly.
fn are_unlike_lengths(types: &[Option<DataType>]) -> bool {
    let is_null = |of: &Option<DataType>| *of == Some(DataType::Null);
    let is_length = |of: &Option<DataType>| matches!(of, Some(DataType::Interval(_) | DataType::Duration(_)));
    let Some(first) = types.iter().find(|of| is_length(of)) else { return false };
    let is_of_one_unit =
        matches!(first, Some(DataType::Duration(_))) && types.iter().all(|of| of == first || is_null(of));
    !is_of_one_unit && types.iter().all(|of| is_length(of) || is_null(of))
}

/// A value and the column of a subquery that it is compared with.
fn subquery_column(value: Expr, subquery: Subquery, schema: &DFSchema) -> Result<Transformed<(Expr, Subquery)>> {
    let inner = Arc::clone(subquery.subquery.schema());
    if inner.fields().len() != 1 {
        return Ok(Transformed::no((value, subquery)));
    }
    let column = Expr::Column(Column::from(inner.qualified_field(0)));
    if !are_unlike_lengths(&[type_of(&value, schema), type_of(&column, &inner)]) {
        return Ok(Transformed::no((value, subquery)));
    }
    let plan = LogicalPlanBuilder::from(Arc::clone(&subquery.subquery)).project([nanoseconds(column)])?.build()?;
    Ok(Transformed::yes((nanoseconds(value), subquery.with_plan(Arc::new(plan)))))
}

/// Functions that compare their arguments themselves.
fn refuse_compared_arguments(call: &ScalarFunction, schema: &DFSchema) -> Result<()> {
    if !matches!(call.name(), "greatest" | "least" | "nullif") {
        return Ok(());
    }
    let does = format!("{}() compares", call.name());
    call.args.iter().try_for_each(|value| refuse_interval(value, schema, &does))
}

fn refuse_extremes(call: &AggregateFunction, schema: &DFSchema) -> Result<()> {
    let name = call.func.name();
    if !matches!(name, "min" | "max") {
        return Ok(());
    }
    let does = format!("{name}() compares");
    call.params.args.iter().try_for_each(|value| refuse_interval(value, schema, &does))
}

/// Refuses what would be sorted by its parts.
fn refuse_interval(value: &Expr, schema: &DFSchema, does: &str) -> Result<()> {
    if matches!(type_of(value, schema), Some(DataType::Interval(_))) {
        return plan_err!(
            "{does} no intervals, whose months and days have no fixed length\nhint: write date_part('epoch', ...) for \
             their seconds, of months of 30 days"
        );
    }
    Ok(())
}
