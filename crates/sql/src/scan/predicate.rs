//! Conditions of SQL as filters of flows.
//!
//! A scan tests flows by a [`Predicate`], which is true or false; SQL knows null besides. So an expression becomes two
//! predicates, the flows for which it is true and those for which it is false; it is null for all others. Negation
//! swaps the two, and a condition passes where the first of them does. What is no test of columns against constants has
//! none, and is left to the engine.
//!
//! Tests of one column that must all hold become one: each half of a range alone would be looked up as half of
//! everything.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{Between, InList, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use weir_filter::{Comparison, NumberSet, Operand, Predicate, Test, TextCondition};
use weir_flow::{Column, ColumnType};

use super::address_ranges::{AddressRanges, common};
use crate::functions::filter_of;

/// The flows for which a condition is true; `None` when no filter says the same.
pub(crate) fn predicate_of(condition: &Expr) -> Option<Predicate> {
    truth(condition).map(|truth| truth.yes)
}

/// For which flows an expression is true, and for which it is false; it is null for all others.
struct Truth {
    yes: Predicate,
    no: Predicate,
}

impl Truth {
    /// Of an expression that is never null.
    fn known(yes: Predicate) -> Self {
        let no = Predicate::not(yes.clone());
        Self { yes, no }
    }

    fn null() -> Self {
        Self { yes: Predicate::False, no: Predicate::False }
    }

    fn negated(self) -> Self {
        Self { yes: self.no, no: self.yes }
    }

    fn and(self, other: Self) -> Self {
        Self { yes: all([self.yes, other.yes]), no: any([self.no, other.no]) }
    }

    fn or(self, other: Self) -> Self {
        Self { yes: any([self.yes, other.yes]), no: all([self.no, other.no]) }
    }
}

fn truth(condition: &Expr) -> Option<Truth> {
    match condition {
        Expr::Alias(alias) => truth(&alias.expr),
        Expr::Literal(ScalarValue::Boolean(Some(is_true)), _) => {
            Some(Truth::known(if *is_true { Predicate::True } else { Predicate::False }))
        }
        Expr::Literal(value, _) if value.is_null() => Some(Truth::null()),
        Expr::Not(inner) => truth(inner).map(Truth::negated),
        Expr::IsTrue(inner) => truth(inner).map(|inner| Truth::known(inner.yes)),
        Expr::IsNotTrue(inner) => truth(inner).map(|inner| Truth::known(inner.yes).negated()),
        Expr::IsFalse(inner) => truth(inner).map(|inner| Truth::known(inner.no)),
        Expr::IsNotFalse(inner) => truth(inner).map(|inner| Truth::known(inner.no).negated()),
        Expr::IsUnknown(inner) => truth(inner).map(|inner| Truth::known(any([inner.yes, inner.no])).negated()),
        Expr::IsNotUnknown(inner) => truth(inner).map(|inner| Truth::known(any([inner.yes, inner.no]))),
        Expr::IsNull(inner) => is_known(column_of(inner)?).map(|known| Truth::known(known).negated()),
        Expr::IsNotNull(inner) => is_known(column_of(inner)?).map(Truth::known),
        Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) => chain(condition, *op),
        Expr::BinaryExpr(binary) => comparison(binary),
        Expr::Between(Between { expr, negated, low, high }) => {
            let column = column_of(expr)?;
            let inside = compared(column, Operator::GtEq, low)?.and(compared(column, Operator::LtEq, high)?);
            Some(if *negated { inside.negated() } else { inside })
        }
        Expr::InList(InList { expr, list, negated }) => {
            let column = column_of(expr)?;
            let found = one_of(column, list)?;
            Some(if *negated { found.negated() } else { found })
        }
        Expr::ScalarFunction(call) => called(call),
        _ => None,
    }
}

/// A chain of `AND` or of `OR`, however long.
fn chain(condition: &Expr, operator: Operator) -> Option<Truth> {
    let (mut left, mut parts) = (vec![condition], Vec::new());
    while let Some(part) = left.pop() {
        match part {
            Expr::BinaryExpr(binary) if binary.op == operator => left.extend([&*binary.right, &*binary.left]),
            part => parts.push(truth(part)?),
        }
    }
    let (yes, no): (Vec<_>, Vec<_>) = parts.into_iter().map(|part| (part.yes, part.no)).unzip();
    Some(if operator == Operator::And {
        Truth { yes: all(yes), no: any(no) }
    } else {
        Truth { yes: any(yes), no: all(no) }
    })
}

/// A column is one of these constants.
fn one_of(column: Column, list: &[Expr]) -> Option<Truth> {
    match list {
        [] => Some(Truth { yes: Predicate::False, no: Predicate::True }),
        [item] => compared(column, Operator::Eq, item),
        // halves, so that long lists are joined in few steps
        list => {
            let (one, other) = list.split_at(list.len() / 2);
            Some(one_of(column, one)?.or(one_of(column, other)?))
        }
    }
}

/// A comparison of a column, or of its family, with a constant.
fn comparison(binary: &BinaryExpr) -> Option<Truth> {
    let (value, operator, literal) = match (&*binary.left, &*binary.right) {
        (literal @ Expr::Literal(..), value) => (value, binary.op.swap()?, literal),
        (value, literal) => (value, binary.op, literal),
    };
    if let Some(column) = column_of(value) {
        return compared(column, operator, literal);
    }
    let Expr::ScalarFunction(ScalarFunction { func, args }) = value else { return None };
    let (column, Expr::Literal(ScalarValue::UInt8(Some(number)), _)) = (column_of(args.first()?)?, literal) else {
        return None;
    };
    let is_test = func.name() == "family" && column.column_type() == ColumnType::Address;
    let set = match number {
        4 => AddressRanges::all_v4(),
        6 => AddressRanges::all_v6(),
        _ => return None,
    };
    match operator {
        Operator::Eq if is_test => Some(of_addresses(column, set)),
        Operator::NotEq if is_test => Some(of_addresses(column, set).negated()),
        _ => None,
    }
}

/// A function that is a test of columns.
fn called(call: &ScalarFunction) -> Option<Truth> {
    if let Some(predicate) = filter_of(call) {
        return Some(Truth::known(predicate.clone()));
    }
    let column = || column_of(call.args.first()?).filter(|column| column.column_type() == ColumnType::Address);
    match call.name() {
        "is_ipv4" => Some(of_addresses(column()?, AddressRanges::all_v4())),
        "is_ipv6" => Some(of_addresses(column()?, AddressRanges::all_v6())),
        _ => None,
    }
}

/// A column of flows that tests read.
fn column_of(expression: &Expr) -> Option<Column> {
    let Expr::Column(column) = expression else { return None };
    // null counts as one where a filter reads this column
    Column::by_name(&column.name).filter(|column| *column != Column::Flows)
}

/// Whether a column has a value.
fn is_known(column: Column) -> Option<Predicate> {
    match column.column_type() {
        ColumnType::U8 | ColumnType::U16 | ColumnType::U32 | ColumnType::U64 => {
            Some(numbers(column, vec![(0, number_max(column))]))
        }
        ColumnType::Address => Some(AddressRanges::all().test(column)),
        ColumnType::Time => {
            let test = |comparison| Predicate::Test(Test::Time { column, comparison, ms: 0 });
            Some(any([test(Comparison::GreaterOrEqual), test(Comparison::Less)]))
        }
        ColumnType::Text => Some(text(column, TextCondition::Like("%".to_owned()))),
        ColumnType::Mac | ColumnType::Octets | ColumnType::Elements => None,
    }
}

fn text(column: Column, condition: TextCondition) -> Predicate {
    Predicate::Test(Test::Text { column, condition })
}

/// A column is this text. `None` of a text that a filter has no quotes for.
fn of_text(column: Column, wanted: &str) -> Option<Truth> {
    if wanted.contains(char::is_control) || wanted.contains('"') && wanted.contains('\'') {
        return None;
    }
    let yes = text(column, TextCondition::Exactly(wanted.to_owned()));
    let no = all([is_known(column)?, Predicate::not(yes.clone())]);
    Some(Truth { yes, no })
}

fn compared(column: Column, operator: Operator, literal: &Expr) -> Option<Truth> {
    let Expr::Literal(value, _) = literal else { return None };
    if operator == Operator::NotEq {
        return compared(column, Operator::Eq, literal).map(Truth::negated);
    }
    if !matches!(operator, Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq) {
        return None;
    }
    if value.is_null() {
        return Some(Truth::null());
    }
    match (column.column_type(), value) {
        (ColumnType::U8, ScalarValue::UInt8(Some(number))) => Some(of_numbers(column, operator, (*number).into())),
        (ColumnType::U16, ScalarValue::UInt16(Some(number))) => Some(of_numbers(column, operator, (*number).into())),
        (ColumnType::U32, ScalarValue::UInt32(Some(number))) => Some(of_numbers(column, operator, (*number).into())),
        (ColumnType::U64, ScalarValue::UInt64(Some(number))) => Some(of_numbers(column, operator, *number)),
        (ColumnType::Time, ScalarValue::TimestampMillisecond(Some(ms), _)) => Some(of_time(column, operator, *ms)),
        (ColumnType::Address, ScalarValue::Binary(Some(octets))) => {
            AddressRanges::compared(operator, octets).map(|set| of_addresses(column, set))
        }
        (
            ColumnType::Text,
            ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) | ScalarValue::LargeUtf8(Some(text)),
        ) if operator == Operator::Eq => of_text(column, text),
        _ => None,
    }
}

/// Largest number of a column.
fn number_max(column: Column) -> u64 {
    match column.column_type() {
        ColumnType::U8 => u8::MAX.into(),
        ColumnType::U16 => u16::MAX.into(),
        ColumnType::U32 => u32::MAX.into(),
        _ => u64::MAX,
    }
}

fn of_numbers(column: Column, operator: Operator, number: u64) -> Truth {
    let max = number_max(column);
    let below = number.checked_sub(1).map(|last| (0, last));
    let above = number.checked_add(1).filter(|first| *first <= max).map(|first| (first, max));
    let (yes, no): (Vec<_>, Vec<_>) = match operator {
        Operator::Lt => (below.into_iter().collect(), vec![(number, max)]),
        Operator::LtEq => (vec![(0, number)], above.into_iter().collect()),
        Operator::Gt => (above.into_iter().collect(), vec![(0, number)]),
        Operator::GtEq => (vec![(number, max)], below.into_iter().collect()),
        _ => (vec![(number, number)], below.into_iter().chain(above).collect()),
    };
    Truth { yes: numbers(column, yes), no: numbers(column, no) }
}

fn numbers(column: Column, ranges: Vec<(u64, u64)>) -> Predicate {
    if ranges.is_empty() {
        return Predicate::False;
    }
    let values = NumberSet::from_ranges(ranges);
    Predicate::Test(Test::NumberIn { operand: Operand::Column(column), values })
}

fn of_time(column: Column, operator: Operator, ms: i64) -> Truth {
    let test = |comparison| Predicate::Test(Test::Time { column, comparison, ms });
    let (yes, no) = match operator {
        Operator::Lt => (test(Comparison::Less), test(Comparison::GreaterOrEqual)),
        Operator::LtEq => (test(Comparison::LessOrEqual), test(Comparison::Greater)),
        Operator::Gt => (test(Comparison::Greater), test(Comparison::LessOrEqual)),
        Operator::GtEq => (test(Comparison::GreaterOrEqual), test(Comparison::Less)),
        _ => (test(Comparison::Equal), any([test(Comparison::Less), test(Comparison::Greater)])),
    };
    Truth { yes, no }
}

fn of_addresses(column: Column, set: AddressRanges) -> Truth {
    Truth { no: set.complement().test(column), yes: set.test(column) }
}

/// All of these hold. Tests of one column become one.
pub(crate) fn all(parts: impl IntoIterator<Item = Predicate>) -> Predicate {
    joined(Predicate::and(parts), true)
}

/// One of these holds. Tests of one column become one.
fn any(parts: impl IntoIterator<Item = Predicate>) -> Predicate {
    joined(Predicate::or(parts), false)
}

fn joined(predicate: Predicate, is_and: bool) -> Predicate {
    let parts = match predicate {
        Predicate::And(parts) if is_and => parts,
        Predicate::Or(parts) if !is_and => parts,
        other => return other,
    };
    let mut kept: Vec<Predicate> = Vec::with_capacity(parts.len());
    for part in parts {
        let found = kept.iter_mut().find_map(|before| Some((joined_pair(before, &part, is_and)?, before)));
        match found {
            Some((both, before)) => *before = both,
            None => kept.push(part),
        }
    }
    if is_and { Predicate::and(kept) } else { Predicate::or(kept) }
}

/// Two tests of one column as one.
fn joined_pair(one: &Predicate, other: &Predicate, is_and: bool) -> Option<Predicate> {
    let (Predicate::Test(one), Predicate::Test(other)) = (one, other) else { return None };
    match (one, other) {
        (
            Test::NumberIn { operand: Operand::Column(column), values: a },
            Test::NumberIn { operand: Operand::Column(same), values: b },
        ) if column == same => {
            let ranges = if is_and { common(a.ranges(), b.ranges()) } else { [a.ranges(), b.ranges()].concat() };
            Some(numbers(*column, ranges))
        }
        (Test::Address { column, set: a }, Test::Address { column: same, set: b }) if column == same => {
            let (a, b) = (AddressRanges::of(a), AddressRanges::of(b));
            Some(if is_and { a.common(&b) } else { a.joined(&b) }.test(*column))
        }
        _ => None,
    }
}
