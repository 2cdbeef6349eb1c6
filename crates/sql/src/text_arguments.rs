//! Where octets would be read as letters: functions and operators that take text, and whatever can be cast to it.
//!
//! The engine casts octets, too. Of most addresses that fails in the middle of an answer, and of some it is a text that means
//! nothing.

use arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};
use weir_flow::schema::CONTENT_KEY;

/// Functions of text that cast their arguments. Others refuse what is no text by themselves.
const FUNCTIONS: [&str; 12] = [
    "array_to_string",
    "find_in_set",
    "left",
    "lpad",
    "regexp_count",
    "regexp_instr",
    "regexp_match",
    "regexp_replace",
    "right",
    "rpad",
    "substr_index",
    "translate",
];

/// What is taken as text.
pub(crate) struct TextArguments<'a> {
    /// The function or the operator.
    pub(crate) name: &'a str,
    pub(crate) values: Vec<&'a Expr>,
    /// Whether it joins octets as octets, where all of its values are.
    pub(crate) joins_octets: bool,
}

/// What an expression takes as text, if anything.
pub(crate) fn text_arguments(expression: &Expr) -> Option<TextArguments<'_>> {
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }) => {
            Some(TextArguments { name: "||", values: vec![&**left, &**right], joins_octets: true })
        }
        Expr::ScalarFunction(call) if is_cast_to_text(call) => {
            Some(TextArguments { name: call.name(), values: call.args.iter().take(1).collect(), joins_octets: false })
        }
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) if is_list_of_text(field) => {
            Some(TextArguments { name: "CAST", values: vec![&**expr], joins_octets: false })
        }
        Expr::ScalarFunction(call) => {
            let (name, joins_octets) = (call.name(), matches!(call.name(), "concat" | "concat_ws"));
            let takes_text = joins_octets || FUNCTIONS.contains(&name);
            takes_text.then(|| TextArguments { name, values: call.args.iter().collect(), joins_octets })
        }
        Expr::AggregateFunction(AggregateFunction { func, params }) if func.name() == "string_agg" => {
            Some(TextArguments { name: "string_agg", values: params.args.iter().collect(), joins_octets: false })
        }
        _ => None,
    }
}

/// Whether a value is a list of addresses, or a list of such lists.
pub(crate) fn is_list_of_octets(value: &Expr, schema: &DFSchema) -> bool {
    value.to_field(schema).is_ok_and(|(_, field)| {
        has_item(&field, |item| {
            *item.data_type() == DataType::Binary
                && item.metadata().get(CONTENT_KEY).is_none_or(|content| content != "octets")
        })
    })
}

fn is_list_of_text(field: &Field) -> bool {
    has_item(field, |item| item.data_type().is_string())
}

/// Whether the items of a list, or of the lists in it, are as they should be.
fn has_item(list: &Field, is_wanted: impl Fn(&Field) -> bool + Copy) -> bool {
    match list.data_type() {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            is_wanted(item) || has_item(item, is_wanted)
        }
        _ => false,
    }
}

/// Whether a function casts to a type of Arrow, such as `Utf8` or `List(Utf8)`.
fn is_cast_to_text(call: &ScalarFunction) -> bool {
    matches!(
        (call.name(), call.args.as_slice()),
        ("arrow_cast" | "arrow_try_cast", [_, Expr::Literal(ScalarValue::Utf8(Some(of_type)), _)])
            if of_type.contains("Utf8")
    )
}
