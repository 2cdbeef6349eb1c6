//! Operators that other databases have for times and addresses.
//!
//! `now() - '1 hour'` and `src_addr << '10.0.0.0/8'` are how people write them for `PostgreSQL`. The types of both sides are
//! checked while an expression is planned, before any rule of the analyzer, so this is a planner of expressions. A network
//! may be a parameter, too: without a type, the planner would take it for an address.

use std::sync::Arc;

use arrow::array::types::IntervalMonthDayNano;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Cast, Placeholder};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use weir_query::times::span;

use crate::functions;
use crate::literals::{is_address, text_of};

/// The planner of these operators.
#[derive(Debug)]
pub(crate) struct Operators;

impl ExprPlanner for Operators {
    fn plan_binary_op(&self, mut expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let (left, right) = (expr.left.get_type(schema), expr.right.get_type(schema));
        match (&expr.op, left, right) {
            (BinaryOperator::Plus | BinaryOperator::Minus, Ok(DataType::Timestamp(..)), _) => {
                if let Some(interval) = text_of(&expr.right).and_then(interval) {
                    expr.right = interval;
                }
                Ok(PlannerResult::Original(expr))
            }
            (BinaryOperator::PGBitwiseShiftLeft, Ok(DataType::Binary), _) => Ok(match network(&expr.right) {
                Some(network) => PlannerResult::Planned(functions::call("cidr", vec![expr.left, network])),
                None => PlannerResult::Original(expr),
            }),
            (BinaryOperator::PGBitwiseShiftRight, _, Ok(DataType::Binary)) => Ok(match network(&expr.left) {
                Some(network) => PlannerResult::Planned(functions::call("cidr", vec![expr.right, network])),
                None => PlannerResult::Original(expr),
            }),
            _ => Ok(PlannerResult::Original(expr)),
        }
    }
}

/// The text of a network: a literal or a parameter, or one of them that is cast to a type of addresses.
fn network(value: &Expr) -> Option<Expr> {
    match value {
        Expr::Cast(Cast { expr, field }) if is_address(field) => network(expr),
        Expr::Placeholder(Placeholder { id, field: None }) => {
            let text = Field::new("", DataType::Utf8, true);
            Some(Expr::Placeholder(Placeholder::new_with_field(id.clone(), Some(Arc::new(text)))))
        }
        other => text_of(other).map(lit),
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
