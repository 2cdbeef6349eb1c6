//! Numbers of a statement that a double cannot hold, next to whole numbers.
//!
//! The parser makes a double of each literal with a point or beyond 64 bits, and the engine compares counters with it as doubles:
//! `bytes = 18446744073709551616` would be true of 18446744073709551615. So the texts of such literals are kept, as casts of a
//! text to a double, which anything but a comparison takes as before. A rule, which runs before types are coerced, turns them
//! into decimals where whole numbers or decimals are compared with them. Shorter numbers stay doubles: next to one of at most
//! 15 digits, no whole number rounds to the wrong side.

use std::ops::ControlFlow;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::parser::{ExplainStatement, Statement};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType as SqlType, Expr as Written, UnaryOperator, Value, ValueWithSpan,
    visit_expressions_mut,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use crate::compared::{align_compared, rewrite_expressions};
use crate::literals::text_of;

/// Digits of a number that a double always holds.
const DOUBLE_DIGITS: usize = 15;
/// The least whole number that has more digits.
const DOUBLE_LARGE: f64 = 1e15;
/// Digits of the largest decimal.
const DIGITS_MAX: u32 = 38;
/// Digits behind the point that leave room for those of a counter before it.
const FRACTION_MAX: u32 = 18;

/// Keeps the texts of the numbers in comparisons that a double does not hold.
pub(crate) fn keep_texts(statement: &mut Statement) {
    match statement {
        Statement::Statement(ansi) => {
            // no step ends the visit
            let _ = visit_expressions_mut(&mut **ansi, |expression| {
                keep_compared(expression);
                ControlFlow::<()>::Continue(())
            });
        }
        Statement::Explain(ExplainStatement { statement, .. }) => keep_texts(statement),
        _ => {}
    }
}

fn keep_compared(expression: &mut Written) {
    match expression {
        Written::BinaryOp { left, op, right } if is_written_comparison(op) => keep([&mut **left, &mut **right]),
        Written::IsDistinctFrom(left, right) | Written::IsNotDistinctFrom(left, right) => {
            keep([&mut **left, &mut **right]);
        }
        Written::Between { expr, low, high, .. } => keep([&mut **expr, &mut **low, &mut **high]),
        Written::InList { expr, list, .. } => keep(std::iter::once(&mut **expr).chain(list)),
        Written::Case { operand: Some(operand), conditions, .. } => {
            keep(std::iter::once(&mut **operand).chain(conditions.iter_mut().map(|when| &mut when.condition)));
        }
        _ => {}
    }
}

fn is_written_comparison(operator: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq, Spaceship};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | Spaceship)
}

/// If a double does not hold one of these values, none of those that would become doubles does.
fn keep<'a>(values: impl IntoIterator<Item = &'a mut Written>) {
    let values: Vec<_> = values.into_iter().map(without_parentheses).collect();
    if !values.iter().any(|value| number_of(value).is_some_and(|text| is_rounded(&text))) {
        return;
    }
    for value in values {
        let Some(text) = number_of(value).filter(|text| is_double(text)) else { continue };
        let text = Value::SingleQuotedString(text);
        *value = Written::Cast {
            kind: CastKind::Cast,
            expr: Box::new(Written::Value(ValueWithSpan { value: text, span: Span::empty() })),
            data_type: SqlType::DoublePrecision,
            array: false,
            format: None,
        };
    }
}

fn without_parentheses(value: &mut Written) -> &mut Written {
    match value {
        Written::Nested(inner) => without_parentheses(inner),
        other => other,
    }
}

/// The digits of a number as it is written, with a sign.
fn number_of(value: &Written) -> Option<String> {
    let (sign, number) = match value {
        Written::UnaryOp { op: UnaryOperator::Minus, expr } => ("-", &**expr),
        other => ("", other),
    };
    let Written::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) = number else { return None };
    let text = format!("{sign}{}", digits.replace('_', ""));
    text.bytes().all(|letter| letter.is_ascii_digit() || b".-+eE".contains(&letter)).then_some(text)
}

/// Whether the planner makes a double of it.
fn is_double(text: &str) -> bool {
    text.parse::<i64>().is_err() && text.parse::<u64>().is_err()
}

/// Whether the double may be another number, or may equal a whole number that is another one.
fn is_rounded(text: &str) -> bool {
    let digits = text.bytes().take_while(|letter| !matches!(letter, b'e' | b'E')).filter(u8::is_ascii_digit);
    let is_long = digits.skip_while(|digit| *digit == b'0').count() > DOUBLE_DIGITS;
    is_double(text) && (is_long || text.parse::<f64>().is_ok_and(|number| number.abs() >= DOUBLE_LARGE))
}

/// The rule.
#[derive(Debug)]
pub(crate) struct ExactLiterals;

impl AnalyzerRule for ExactLiterals {
    fn name(&self) -> &'static str {
        "exact_literals"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let rewrite = |expression, schema: &DFSchema| align_compared(expression, |values| Ok(align(values, schema)));
        Ok(plan.transform_up_with_subqueries(|plan| rewrite_expressions(plan, rewrite))?.data)
    }
}

fn align(values: Vec<Expr>, schema: &DFSchema) -> Transformed<Vec<Expr>> {
    let (kept, others): (Vec<_>, Vec<_>) = values.iter().partition(|value| kept_text(value).is_some());
    let is_exact = |value: &&Expr| {
        let of = value.get_type(schema);
        of.is_ok_and(|of| of.is_integer() || of.is_decimal() || of == DataType::Null)
    };
    if kept.is_empty() || others.is_empty() || !others.iter().all(is_exact) {
        return Transformed::no(values);
    }
    let exact = |value: Expr| kept_text(&value).and_then(decimal).unwrap_or(value);
    Transformed::yes(values.into_iter().map(exact).collect())
}

/// The text of a number that was kept.
fn kept_text(value: &Expr) -> Option<&str> {
    match value {
        Expr::Cast(Cast { expr, field }) if *field.data_type() == DataType::Float64 => text_of(expr),
        _ => None,
    }
}

/// A number as a decimal, unless it has too many digits.
fn decimal(text: &str) -> Option<Expr> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_end_matches('0');
    let zeros = i32::try_from(all.len() - digits.len()).ok()?;
    let scale = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?.checked_sub(zeros)?;
    let value: i128 = if digits.is_empty() || digits == "-" { 0 } else { digits.parse().ok()? };
    let value = value.checked_mul(10_i128.checked_pow(u32::try_from(scale.checked_neg()?).unwrap_or(0))?)?;
    let scale = u32::try_from(scale).unwrap_or(0);
    let digits = value.unsigned_abs().checked_ilog10().map_or(1, |last| last + 1).max(scale);
    if digits > DIGITS_MAX || scale > FRACTION_MAX {
        return None;
    }
    let number = ScalarValue::Decimal128(Some(value), u8::try_from(digits).ok()?, i8::try_from(scale).ok()?);
    Some(Expr::Literal(number, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_decimals_of_their_digits() {
        let number =
            |value, digits, scale| Some(Expr::Literal(ScalarValue::Decimal128(Some(value), digits, scale), None));
        assert_eq!(decimal("18446744073709551616"), number(18_446_744_073_709_551_616, 20, 0));
        assert_eq!(decimal("9007199254740992.0"), number(9_007_199_254_740_992, 16, 0));
        assert_eq!(decimal("-9007199254740992.50"), number(-90_071_992_547_409_925, 17, 1));
        assert_eq!(decimal("1.5e19"), number(15_000_000_000_000_000_000, 20, 0));
        assert_eq!(decimal("0.001"), number(1, 3, 3));
        assert_eq!(decimal("-0.0"), number(0, 1, 0));
        assert_eq!(decimal("1e40"), None);
        assert_eq!(decimal("1e-30"), None);
    }

    #[test]
    fn doubles_hold_numbers_of_few_digits() {
        for text in
            ["1.5", "18446744073709551615", "-9223372036854775808", "99999999999999.5", "0.000000000000000000001"]
        {
            assert!(!is_rounded(text), "{text}");
        }
        for text in ["18446744073709551616", "1e15", "9007199254740992.0", "1.0000000000000001", "-9223372036854775809"]
        {
            assert!(is_rounded(text), "{text}");
        }
    }
}
