//! Where octets would be read as letters: functions and operators that take text, and whatever can be cast to it.
//!
//! The engine casts octets, too. Of most addresses that fails in the middle of an answer, and of some it is a text that means
//! nothing.

use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

/// Functions of text that cast their arguments. Others refuse what is no text by themselves.
const FUNCTIONS: [&str; 11] = [
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
