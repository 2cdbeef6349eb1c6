//! Operators that other databases have for times and addresses.
//!
//! `now() - '1 hour'` and `src_addr << '10.0.0.0/8'` are how people write them for `PostgreSQL`. The types of both sides are
//! checked while an expression is planned, before any rule of the analyzer, so this is a planner of expressions.

use arrow::array::types::IntervalMonthDayNano;
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use weir_query::times::span;

use crate::functions;
use crate::literals::text_of;

/// The planner of these operators.
#[derive(Debug)]
pub(crate) struct Operators;

impl ExprPlanner for Operators {
    fn plan_binary_op(&self, mut expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let left = expr.left.get_type(schema);
        match (&expr.op, left) {
            (BinaryOperator::Plus | BinaryOperator::Minus, Ok(DataType::Timestamp(..))) => {
                if let Some(interval) = text_of(&expr.right).and_then(interval) {
                    expr.right = interval;
                }
                Ok(PlannerResult::Original(expr))
            }
            (BinaryOperator::PGBitwiseShiftLeft, Ok(DataType::Binary)) if text_of(&expr.right).is_some() => {
                Ok(PlannerResult::Planned(functions::call("cidr", vec![expr.left, expr.right])))
            }
            _ => Ok(PlannerResult::Original(expr)),
        }
    }
}

/// A length of time as a literal.
fn interval(text: &str) -> Option<Expr> {
    let span = span(text).ok()?;
    let months = i32::from(span.get_years()) * 12 + span.get_months();
    let days = span.get_weeks() * 7 + span.get_days();
    let shorter = span.years(0).months(0).weeks(0).days(0);
    let nanoseconds = shorter.total(jiff::Unit::Nanosecond).ok()? as i64;
    let value = IntervalMonthDayNano::new(months, days, nanoseconds);
    Some(Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(value)), None))
}
