//! Values that a statement compares with each other, for rules that run before types are coerced.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::logical_expr::expr::{Between, Case, InList};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};

/// The columns that expressions of a plan may name.
pub(crate) fn nameable_columns(plan: &LogicalPlan) -> Result<DFSchema> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = plan {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    Ok(schema)
}

/// Rewrites every expression of a plan from the inside out, by the columns that it may name. Columns keep their names; their types
/// are computed anew where something was rewritten.
pub(crate) fn rewrite_expressions(
    plan: LogicalPlan,
    rewrite: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let schema = nameable_columns(&plan)?;
    let rewritten = rewrite_by(plan, &schema, rewrite)?;
    if rewritten.transformed { rewritten.map_data(LogicalPlan::recompute_schema) } else { Ok(rewritten) }
}

/// The same by these columns, without computing types.
pub(crate) fn rewrite_by(
    plan: LogicalPlan,
    schema: &DFSchema,
    rewrite: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expression| {
        let name = names.save(&expression);
        let rewritten = expression.transform_up(|expression| rewrite(expression, schema))?;
        Ok(rewritten.update_data(|expression| name.restore(expression)))
    })
}

/// Hands the values that an expression compares with each other to `align`, which gives as many back. Other expressions stay
/// as they are.
pub(crate) fn align_compared(
    expression: Expr,
    align: impl FnOnce(Vec<Expr>) -> Result<Transformed<Vec<Expr>>>,
) -> Result<Transformed<Expr>> {
    match expression {
        Expr::BinaryExpr(binary) if is_comparison(binary.op) => {
            let BinaryExpr { left, op, right } = binary;
            align(vec![*left, *right])?.transform_data(|pair| {
                let [left, right] = as_many(pair)?;
                Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr::new(left.into(), op, right.into()))))
            })
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            align(vec![*expr, *low, *high])?.transform_data(|values| {
                let [value, low, high] = as_many(values)?;
                Ok(Transformed::no(Expr::Between(Between::new(value.into(), negated, low.into(), high.into()))))
            })
        }
        Expr::InList(InList { expr, list, negated }) => align(std::iter::once(*expr).chain(list).collect())?
            .transform_data(|mut values| {
                let expr = values.remove(0);
                Ok(Transformed::no(Expr::InList(InList::new(Box::new(expr), values, negated))))
            }),
        Expr::Case(Case { expr: Some(base), when_then_expr, else_expr }) => {
            let (whens, thens): (Vec<_>, Vec<_>) = when_then_expr.into_iter().unzip();
            let values = std::iter::once(*base).chain(whens.into_iter().map(|when| *when)).collect();
            align(values)?.transform_data(|mut values| {
                let base = Some(Box::new(values.remove(0)));
                let pairs = values.into_iter().map(Box::new).zip(thens).collect();
                Ok(Transformed::no(Expr::Case(Case { expr: base, when_then_expr: pairs, else_expr })))
            })
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Whether an operator compares.
pub(crate) fn is_comparison(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn as_many<const N: usize>(values: Vec<Expr>) -> Result<[Expr; N]> {
    <[Expr; N]>::try_from(values)
        .map_err(|_| DataFusionError::Internal("values were aligned to another count".to_owned()))
}
