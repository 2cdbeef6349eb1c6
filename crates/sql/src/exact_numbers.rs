//! Sums, differences and products of whole numbers, which do not begin again at the other end of their type.
//!
//! `DataFusion` computes them in the type of both sides. That of two counters has 64 bits and no sign, so `bytes - bytes_reverse`
//! would be 18446744073709547716 where it is -3900, and `src_port - dst_port` would be a port. Here both sides become a type in
//! which the result is exact: numbers of 64 bits with a sign where these have room for it, else decimals, which the engine takes
//! by itself where one side is a literal. A counter and a literal are divided as counters, so that the quotient is cut. A product
//! of two decimals that has more than 38 digits is an error.
//!
//! This is a planner of expressions, and no rule of the analyzer: subqueries, unions and references to outer tables have the types
//! of their columns from the time when they are planned, and a rule would have to mend all of them.
//!
//! Left as they are: sums of two numbers of 64 bits with a sign, and products of one of them and a literal. Such numbers are counts
//! of rows, literals, and what a statement casts to them. Functions want whole numbers of that type, as in
//! `from_unixtime(to_unixtime(start) / 60 * 60)`.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Cast, Placeholder};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Decimals that hold every number of 64 bits, with a sign or without.
const DECIMAL: DataType = DataType::Decimal128(38, 0);

/// The planner of sums, differences and products.
#[derive(Debug)]
pub(crate) struct ExactNumbers;

impl ExprPlanner for ExactNumbers {
    fn plan_binary_op(&self, mut expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let is_product = match expr.op {
            BinaryOperator::Plus | BinaryOperator::Minus => false,
            BinaryOperator::Multiply => true,
            BinaryOperator::Divide => return Ok(PlannerResult::Original(cut_quotient(expr, schema))),
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let (left, right) = match (whole_type(&expr.left, schema), whole_type(&expr.right, schema)) {
            (Some(left), Some(right)) => (left, right),
            // a parameter has the type of the other side until its value comes
            (Some(left), None) if is_untyped(&expr.right) => (left.clone(), left),
            (None, Some(right)) if is_untyped(&expr.left) => (right.clone(), right),
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let is_scaled = is_product && !is_constant(&expr.left) && !is_constant(&expr.right);
        if let Some(exact) = exact_type(&left, &right, is_product, is_scaled) {
            expr.left = converted(expr.left, left, &exact);
            expr.right = converted(expr.right, right, &exact);
        }
        Ok(PlannerResult::Original(expr))
    }
}

/// A counter that is divided by a literal, or a literal by a counter: the engine would make decimals of both, as a literal has a
/// sign, and cut the quotient of two counters only.
fn cut_quotient(mut expr: RawBinaryExpr, schema: &DFSchema) -> RawBinaryExpr {
    let is_counter = |value: &Expr| whole_type(value, schema) == Some(DataType::UInt64);
    if is_counter(&expr.left) {
        expr.right = without_sign(expr.right);
    } else if is_counter(&expr.right) {
        expr.left = without_sign(expr.left);
    }
    expr
}

/// A literal that is not negative, as a counter.
fn without_sign(value: Expr) -> Expr {
    match value {
        Expr::Literal(ScalarValue::Int64(Some(number)), metadata) => match u64::try_from(number) {
            Ok(number) => Expr::Literal(ScalarValue::UInt64(Some(number)), metadata),
            Err(_) => Expr::Literal(ScalarValue::Int64(Some(number)), metadata),
        },
        other => other,
    }
}

/// The type of a whole number; `None` for everything else.
fn whole_type(value: &Expr, schema: &DFSchema) -> Option<DataType> {
    let found = value.get_type(schema).ok().or_else(|| joined_type(value, schema));
    found.filter(DataType::is_integer)
}

/// The type of a value of columns that both sides of a join have (`USING`, `NATURAL`): the engine decides only later which side
/// a column without a table is of, and has no type for it until then.
fn joined_type(value: &Expr, schema: &DFSchema) -> Option<DataType> {
    let qualified = value.clone().transform(|part| {
        let Expr::Column(Column { relation: None, name, .. }) = &part else { return Ok(Transformed::no(part)) };
        let sides = schema.qualified_fields_with_unqualified_name(name);
        let is_one_type = sides.windows(2).all(|pair| pair[0].1.data_type() == pair[1].1.data_type());
        Ok(match sides.first() {
            Some((side, field)) if is_one_type => {
                Transformed::yes(Expr::Column(Column::new(side.cloned(), field.name().clone())))
            }
            _ => Transformed::no(part),
        })
    });
    qualified.ok()?.data.get_type(schema).ok()
}

fn is_untyped(value: &Expr) -> bool {
    matches!(value, Expr::Placeholder(Placeholder { field: None, .. }))
}

fn is_constant(value: &Expr) -> bool {
    matches!(value, Expr::Literal(..) | Expr::Placeholder(_))
}

/// The type that both sides become; `None` where the engine's own is right. `is_scaled` for products without a constant.
fn exact_type(left: &DataType, right: &DataType, is_product: bool, is_scaled: bool) -> Option<DataType> {
    match (left, right) {
        // of these the engine makes decimals
        (DataType::UInt64, signed) | (signed, DataType::UInt64) if signed.is_signed_integer() => None,
        (DataType::UInt64, _) | (_, DataType::UInt64) => Some(DECIMAL),
        (DataType::Int64, _) | (_, DataType::Int64) => is_scaled.then_some(DECIMAL),
        (DataType::UInt32, DataType::UInt32) if is_product => Some(DECIMAL),
        _ => Some(DataType::Int64),
    }
}

/// A side in its new type. A parameter stays one of its old type: its value may be a number with a fraction.
fn converted(value: Expr, of: DataType, exact: &DataType) -> Expr {
    match value {
        Expr::Placeholder(Placeholder { id, field: None }) => {
            Expr::Placeholder(Placeholder::new_with_field(id, Some(Arc::new(Field::new("", of, true)))))
        }
        value => Expr::Cast(Cast::new(Box::new(value), exact.clone())),
    }
}
