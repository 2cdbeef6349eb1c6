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
    values: Vec<&'a Expr>,
    reading: OctetReading,
}

/// Which octets are read as letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OctetReading {
    /// All.
    Letters,
    /// Those next to a text; others are joined as octets, and lists of them as lists.
    Joined,
    /// Those in lists. One address becomes its text.
    InLists,
}

impl TextArguments<'_> {
    /// Whether octets would be read as letters. `is_octets` is true of a value that is an address.
    pub(crate) fn has_octets(&self, schema: &DFSchema, is_octets: impl Fn(&Expr) -> bool) -> bool {
        let single = self.values.iter().filter(|value| is_octets(value)).count();
        let lists = self.values.iter().filter(|value| is_list_of_octets(value, schema)).count();
        match self.reading {
            OctetReading::Letters => single + lists > 0,
            OctetReading::InLists => lists > 0,
            OctetReading::Joined => {
                let is_next_to_text = || self.values.iter().any(|value| is_text_or_list(value, schema));
                (single > 0 && single + lists < self.values.len()) || (lists > 0 && is_next_to_text())
            }
        }
    }
}

/// What an expression takes as text, if anything.
pub(crate) fn text_arguments(expression: &Expr) -> Option<TextArguments<'_>> {
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }) => {
            Some(TextArguments { name: "||", values: vec![&**left, &**right], reading: OctetReading::Joined })
        }
        Expr::ScalarFunction(call) if is_cast_to_text(call) => {
            let values = call.args.iter().take(1).collect();
            Some(TextArguments { name: call.name(), values, reading: OctetReading::Letters })
        }
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) if is_list_of_text(field) => {
            Some(TextArguments { name: "CAST", values: vec![&**expr], reading: OctetReading::Letters })
        }
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) if is_text(field.data_type()) => {
            Some(TextArguments { name: "CAST", values: vec![&**expr], reading: OctetReading::InLists })
        }
        Expr::ScalarFunction(call) => {
            let name = call.name();
            let reading = match name {
                "concat" | "concat_ws" => OctetReading::Joined,
                _ if FUNCTIONS.contains(&name) => OctetReading::Letters,
                _ => return None,
            };
            Some(TextArguments { name, values: call.args.iter().collect(), reading })
        }
        Expr::AggregateFunction(AggregateFunction { func, params }) if func.name() == "string_agg" => {
            let values = params.args.iter().collect();
            Some(TextArguments { name: "string_agg", values, reading: OctetReading::Letters })
        }
        _ => None,
    }
}

/// Whether a value is a list of addresses, or a list of such lists.
fn is_list_of_octets(value: &Expr, schema: &DFSchema) -> bool {
    value.to_field(schema).is_ok_and(|(_, field)| {
        has_item(&field, |item| {
            *item.data_type() == DataType::Binary
                && item.metadata().get(CONTENT_KEY).is_none_or(|content| content != "octets")
        })
    })
}

fn is_text_or_list(value: &Expr, schema: &DFSchema) -> bool {
    value.to_field(schema).is_ok_and(|(_, field)| is_text(field.data_type()) || is_list_of_text(&field))
}

fn is_list_of_text(field: &Field) -> bool {
    has_item(field, |item| is_text(item.data_type()))
}

fn is_text(of: &DataType) -> bool {
    match of {
        DataType::Dictionary(_, values) => values.is_string(),
        other => other.is_string(),
    }
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

#[cfg(test)]
mod tests {
    use arrow::datatypes::Schema;
    use datafusion::logical_expr::{binary_expr, cast, col, lit, try_cast};

    use super::*;

    fn has_octets(expression: &Expr) -> bool {
        let list = |name: &str, of: DataType| Field::new_list(name, Field::new("item", of, true), true);
        let fields = vec![
            Field::new("address", DataType::Binary, true),
            list("addresses", DataType::Binary),
            list("texts", DataType::Utf8),
            list("numbers", DataType::UInt64),
        ];
        let schema = DFSchema::try_from(Schema::new(fields)).expect("a schema");
        text_arguments(expression).is_some_and(|taken| {
            taken.has_octets(&schema, |value| matches!(value, Expr::Column(column) if column.name == "address"))
        })
    }

    #[test]
    fn octets_are_joined_unless_there_is_text() {
        let nulls = ScalarValue::List(ScalarValue::new_list_nullable(&[ScalarValue::Null], &DataType::Null));
        let nothing = ScalarValue::List(ScalarValue::new_list_nullable(&[], &DataType::Null));
        for (left, right, expected) in [
            (col("address"), col("address"), false),
            (col("address"), lit("x"), true),
            (col("addresses"), col("address"), false),
            (col("addresses"), lit(nulls), false),
            (col("addresses"), lit(nothing), false),
            (col("addresses"), lit("x"), true),
            (col("texts"), col("addresses"), true),
            (col("texts"), lit("x"), false),
        ] {
            let joined = binary_expr(left, Operator::StringConcat, right);
            assert_eq!(has_octets(&joined), expected, "{joined}");
        }
    }

    #[test]
    fn lists_of_octets_have_no_text() {
        for text in [DataType::Utf8, DataType::Utf8View] {
            assert!(has_octets(&cast(col("addresses"), text.clone())), "{text}");
            assert!(has_octets(&try_cast(col("addresses"), text.clone())), "{text}");
            assert!(!has_octets(&cast(col("numbers"), text.clone())), "{text}");
            // which becomes the text of the address
            assert!(!has_octets(&cast(col("address"), text)));
        }
    }
}
