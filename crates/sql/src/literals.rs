//! Addresses written as text.
//!
//! Addresses are binary columns, and SQL would compare the octets of the text with them, which is false and says
//! nothing. This rule runs before types are coerced and turns text, wherever it meets a binary value, into the address:
//! a literal at once, so that scans prune by it and a slip of the pen is an error; text that is computed or read from
//! a table row by row, by the function `address`. What it cannot turn it refuses. Equality works over both families;
//! an ordered comparison (`<`, `BETWEEN`, `cidr`) holds only between addresses of one family, because 4 octets sort
//! among 16 in no meaningful way.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, JoinConstraint, Result, ScalarValue, plan_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::{Between, Case, Cast, InList, InSubquery, ScalarFunction, SetComparison, TryCast};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, Union, binary_expr,
    ident, lit,
};
use datafusion::optimizer::AnalyzerRule;
use weir_filter::Prefix;
use weir_flow::parse_address;
use weir_flow::schema::CONTENT_KEY;

use crate::compared::{is_comparison, nameable_columns, rewrite_by};
use crate::functions::{self, family, prefix_bounds};
use crate::text_arguments::text_arguments;

/// A text that should be an address, a number or a time, and is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is no {wanted}, but {} is compared with it", text.escape_debug(), name)]
pub(crate) struct BadLiteral {
    pub(crate) text: String,
    /// What it is compared with.
    name: String,
    wanted: &'static str,
    hint: String,
}

/// What a binary value holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Address,
    Mac,
    Prefix,
}

impl Content {
    fn wanted(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Mac => "MAC address",
            Self::Prefix => "prefix",
        }
    }

    fn hint(self, name: &str, text: &str) -> String {
        match self {
            Self::Address if Prefix::parse(text).is_some() => {
                format!("a prefix is tested by cidr({name}, '{text}')")
            }
            Self::Address => "addresses are written as '192.0.2.1' or '2001:db8::1'".to_owned(),
            Self::Mac => "MAC addresses are written as '00:1b:21:01:02:ff'".to_owned(),
            Self::Prefix => "prefixes are written as '192.0.2.0/24' or '2001:db8::/32'".to_owned(),
        }
    }

    fn error(self, text: &str, name: String) -> DataFusionError {
        let hint = self.hint(&name, text);
        BadLiteral::error(text, name, self.wanted(), hint)
    }
}

impl BadLiteral {
    pub(crate) fn hint(&self) -> &str {
        &self.hint
    }

    /// `wanted` is what it is compared with, and `name` the name of that.
    pub(crate) fn error(text: &str, name: String, wanted: &'static str, hint: String) -> DataFusionError {
        DataFusionError::External(Box::new(Self { text: text.to_owned(), name, wanted, hint }))
    }
}

/// A use of an address that no text can be made to fit, or a time that fits no window.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Unfit {
    message: String,
    pub(crate) hint: String,
}

impl Unfit {
    /// A pattern of text.
    fn pattern(value: &Expr, content: Content) -> DataFusionError {
        let name = name_of(value);
        let hint = match content {
            Content::Mac => format!("a MAC address is compared whole, as in {name} = '00:1b:21:01:02:ff'"),
            _ => format!("write cidr({name}, '10.0.0.0/8') for a prefix, or host({name}) for the text of the address"),
        };
        let message = format!("{name} is kept as octets, which no pattern of text matches");
        DataFusionError::External(Box::new(Self { message, hint }))
    }

    /// Text that is not a literal, compared with a MAC address.
    fn computed_mac(value: &Expr) -> DataFusionError {
        let name = name_of(value);
        let message = format!("{name} is a MAC address, but the text it is compared with is not a literal");
        let hint = format!("write the MAC address itself, as in {name} = '00:1b:21:01:02:ff'");
        DataFusionError::External(Box::new(Self { message, hint }))
    }

    /// A time that is counted from now, in a statement that is asked about windows of other times.
    pub(crate) fn counted_from_now(text: &str) -> DataFusionError {
        let message = format!("'{}' is counted from now, and a watch is asked about windows", text.escape_debug());
        let hint = "write HISTORY(flows, INTERVAL '1' HOUR) for flows before the window, or a condition with its times, as in \
                    start > window_end - INTERVAL '1' HOUR"
            .to_owned();
        DataFusionError::External(Box::new(Self { message, hint }))
    }

    /// Text that is cast to an address, and is none.
    fn cast(text: &str) -> DataFusionError {
        let text = text.escape_debug().to_string();
        let (what, hint) = if Prefix::parse(&text).is_some() {
            ("a network, and a value is one address", format!("write src_addr << '{text}' for the addresses in it"))
        } else {
            ("no address", "addresses are written as '192.0.2.1' or '2001:db8::1'".to_owned())
        };
        DataFusionError::External(Box::new(Self { message: format!("'{text}' is {what}"), hint }))
    }

    /// An address and text in the same column of a `UNION`, or at the same place of two rows.
    fn mixed(name: &str, place: &str) -> DataFusionError {
        let message = format!("{name} is an address in one {place} and text in another");
        let hint = "write address(...) around the text, or host(...) around the address".to_owned();
        DataFusionError::External(Box::new(Self { message, hint }))
    }

    /// A join by a name that is an address on one side and text on the other.
    fn using(address: &Expr, text: &Expr) -> DataFusionError {
        let message = format!("{} is an address on one side of the join and text on the other", name_of(address));
        let hint = format!("write JOIN ... ON {address} = address({text})");
        DataFusionError::External(Box::new(Self { message, hint }))
    }
}

/// The rule.
#[derive(Debug)]
pub(crate) struct AddressLiterals;

impl AnalyzerRule for AddressLiterals {
    fn name(&self) -> &'static str {
        "address_literals"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(rewrite_plan)?.data)
    }
}

fn rewrite_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = nameable_columns(&plan)?;
    let plan = match plan {
        LogicalPlan::Join(join) => join_keys(join)?,
        LogicalPlan::Union(union) => {
            refuse_mixed_columns(&union)?;
            LogicalPlan::Union(union)
        }
        plan => plan,
    };
    let rewritten = rewrite_by(plan, &schema, rewrite)?;
    // Also where nothing was rewritten: a column of an input may have become an address.
    rewritten.map_data(LogicalPlan::recompute_schema)
}

fn rewrite(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    refuse_as_text(&expression, schema)?;
    match expression {
        Expr::BinaryExpr(binary) if is_comparison(binary.op) => comparison(binary, schema),
        Expr::BinaryExpr(binary) if is_pattern(binary.op) => {
            refuse_pattern(&binary.left, schema)?;
            Ok(Transformed::no(Expr::BinaryExpr(binary)))
        }
        Expr::Like(like) => {
            refuse_pattern(&like.expr, schema)?;
            Ok(Transformed::no(Expr::Like(like)))
        }
        Expr::SimilarTo(like) => {
            refuse_pattern(&like.expr, schema)?;
            Ok(Transformed::no(Expr::SimilarTo(like)))
        }
        Expr::Between(between) => range(between, schema),
        Expr::InList(list) => one_of(list, schema),
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
        Expr::Case(case) => choice(case, schema),
        Expr::Cast(Cast { expr, field }) if is_address(&field) => Ok(Transformed::yes(cast_address(*expr, schema)?)),
        Expr::TryCast(TryCast { expr, field }) if is_address(&field) => {
            Ok(Transformed::yes(cast_address(*expr, schema)?))
        }
        Expr::Cast(Cast { expr, field }) if is_text_of_address(&expr, &field, schema) => {
            Ok(Transformed::yes(functions::call("host", vec![*expr])))
        }
        Expr::TryCast(TryCast { expr, field }) if is_text_of_address(&expr, &field, schema) => {
            Ok(Transformed::yes(functions::call("host", vec![*expr])))
        }
        Expr::ScalarFunction(mut call) if is_contains_address(&call, schema) => {
            call.args.swap(0, 1);
            match functions::call("cidr", call.args) {
                Expr::ScalarFunction(cidr) => Ok(Transformed::yes(function(cidr, schema)?.data)),
                other => Ok(Transformed::yes(other)),
            }
        }
        Expr::ScalarFunction(call) if functions::address_arguments(call.name()) > 0 => function(call, schema),
        Expr::ScalarFunction(call) if is_of_one_type(call.name()) => {
            let ScalarFunction { func, args } = call;
            let aligned = align(args, schema)?;
            Ok(aligned.update_data(|args| Expr::ScalarFunction(ScalarFunction { func, args })))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// A value that is cast to `inet`, as octets. The text of one host may have its mask, as `PostgreSQL` sends it.
fn cast_address(value: Expr, schema: &DFSchema) -> Result<Expr> {
    if let Some(text) = text_of(&value) {
        let host = Prefix::parse(text).map(prefix_bounds).filter(|(first, last)| first == last).map(|(first, _)| first);
        return parse_address(text).or(host).map(lit_octets).ok_or_else(|| Unfit::cast(text));
    }
    if is_text(&value, schema) {
        return Ok(functions::call("address", vec![value]));
    }
    if matches!(value, Expr::Literal(ScalarValue::Null, _)) {
        return Ok(Expr::Literal(ScalarValue::Binary(None), None));
    }
    if content_of(&value, schema) == Some(Content::Address) {
        return Ok(value);
    }
    plan_err!("{} is no text, and only text is cast to an address", name_of(&value))
}

/// Whether an address is cast to text, which would be its octets read as letters.
fn is_text_of_address(value: &Expr, to: &FieldRef, schema: &DFSchema) -> bool {
    is_text_type(to.data_type()) && content_of(value, schema).is_some()
}

/// `contains(network, address)`, which for text is a function of SQL.
fn is_contains_address(call: &ScalarFunction, schema: &DFSchema) -> bool {
    call.name() == "contains"
        && call.args.len() == 2
        && call.args.get(1).and_then(|value| content_of(value, schema)) == Some(Content::Address)
}

fn refuse_mixed_columns(union: &Union) -> Result<()> {
    for (position, field) in union.schema.fields().iter().enumerate() {
        let types = || union.inputs.iter().filter_map(|input| Some(input.schema().fields().get(position)?.data_type()));
        if types().any(|of| *of == DataType::Binary) && types().any(is_text_type) {
            return Err(Unfit::mixed(field.name(), "part of the UNION"));
        }
    }
    Ok(())
}

/// Rows of values, as in `(src_addr, src_port) = ('10.0.0.1', 22)`, are compared as wholes.
fn refuse_mixed_rows(left: &Expr, right: &Expr, schema: &DFSchema) -> Result<()> {
    let (Ok((_, left_field)), Ok((_, right_field))) = (left.to_field(schema), right.to_field(schema)) else {
        return Ok(());
    };
    let (DataType::Struct(lefts), DataType::Struct(rights)) = (left_field.data_type(), right_field.data_type()) else {
        return Ok(());
    };
    let is_mixed = lefts.iter().zip(rights).any(|(left, right)| {
        let (left, right) = (left.data_type(), right.data_type());
        (*left == DataType::Binary && is_text_type(right)) || (is_text_type(left) && *right == DataType::Binary)
    });
    if is_mixed { Err(Unfit::mixed("a value", "of the rows compared")) } else { Ok(()) }
}

/// Functions of SQL that compare their arguments with each other or give back one of them.
fn is_of_one_type(name: &str) -> bool {
    matches!(name, "nullif" | "greatest" | "least")
}

fn is_pattern(operator: Operator) -> bool {
    use Operator::{
        ILikeMatch, LikeMatch, NotILikeMatch, NotLikeMatch, RegexIMatch, RegexMatch, RegexNotIMatch, RegexNotMatch,
    };
    matches!(operator, LikeMatch | ILikeMatch | NotLikeMatch | NotILikeMatch)
        || matches!(operator, RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch)
}

fn refuse_pattern(value: &Expr, schema: &DFSchema) -> Result<()> {
    content_of(value, schema).map_or(Ok(()), |content| Err(Unfit::pattern(value, content)))
}

/// Refuses an address whose octets would be read as letters.
fn refuse_as_text(expression: &Expr, schema: &DFSchema) -> Result<()> {
    let Some(taken) = text_arguments(expression) else { return Ok(()) };
    if taken.has_octets(schema, |value| content_of(value, schema).is_some()) {
        return plan_err!("a call to '{}' takes text and received Binary", taken.name);
    }
    Ok(())
}

/// The text of a literal.
pub(crate) fn text_of(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Literal(ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text), _) => {
            text.as_deref()
        }
        _ => None,
    }
}

/// What the values of an expression hold, if they are binary.
fn content_of(expression: &Expr, schema: &DFSchema) -> Option<Content> {
    let (_, field) = expression.to_field(schema).ok()?;
    match (field.data_type(), field.metadata().get(CONTENT_KEY).map(String::as_str)) {
        (DataType::Binary, Some("mac")) => Some(Content::Mac),
        (DataType::Binary, Some("octets")) => None,
        (DataType::Binary, _) => Some(Content::Address),
        _ => None,
    }
}

fn is_text(expression: &Expr, schema: &DFSchema) -> bool {
    expression.to_field(schema).is_ok_and(|(_, field)| is_text_type(field.data_type()))
}

fn is_text_type(of: &DataType) -> bool {
    match of {
        DataType::Dictionary(_, values) => values.is_string(),
        other => other.is_string(),
    }
}

/// Text that is compared with `beside`, as octets; what is no text stays as it is.
fn as_octets(value: Expr, schema: &DFSchema, beside: &Expr, content: Content) -> Result<Transformed<Expr>> {
    if let Some(text) = text_of(&value) {
        return Ok(Transformed::yes(lit_octets(octets_of(text, beside, content)?)));
    }
    match content {
        _ if !is_text(&value, schema) => Ok(Transformed::no(value)),
        Content::Mac => Err(Unfit::computed_mac(beside)),
        _ => Ok(Transformed::yes(functions::call("address", vec![value]))),
    }
}

/// Values that are compared with each other: when one of them is an address, those that are text become addresses.
fn align(values: Vec<Expr>, schema: &DFSchema) -> Result<Transformed<Vec<Expr>>> {
    let found = values.iter().find_map(|value| Some((value.clone(), content_of(value, schema)?)));
    let Some((beside, content)) = found else { return Ok(Transformed::no(values)) };
    let mut is_rewritten = false;
    let values = values.into_iter().map(|value| {
        let value = as_octets(value, schema, &beside, content)?;
        is_rewritten |= value.transformed;
        Ok(value.data)
    });
    let values = values.collect::<Result<Vec<_>>>()?;
    Ok(Transformed::new_transformed(values, is_rewritten))
}

/// As [`align`], for two values out of different inputs.
fn align_pair(
    (left, left_schema): (Expr, &DFSchema),
    (right, right_schema): (Expr, &DFSchema),
) -> Result<Transformed<(Expr, Expr)>> {
    Ok(match (content_of(&left, left_schema), content_of(&right, right_schema)) {
        (Some(content), None) => as_octets(right, right_schema, &left, content)?.update_data(|right| (left, right)),
        (None, Some(content)) => as_octets(left, left_schema, &right, content)?.update_data(|left| (left, right)),
        _ => Transformed::no((left, right)),
    })
}

/// Octets of a literal that is compared with `beside`.
fn octets_of(text: &str, beside: &Expr, content: Content) -> Result<Vec<u8>> {
    let octets = match content {
        Content::Mac => parse_mac(text).map(|mac| mac.to_vec()),
        _ => parse_address(text),
    };
    octets.ok_or_else(|| content.error(text, name_of(beside)))
}

/// An expression as errors name it: columns without their table.
pub(crate) fn name_of(expression: &Expr) -> String {
    match expression {
        Expr::Column(column) => column.name.clone(),
        other => other.schema_name().to_string(),
    }
}

/// Six octets in hexadecimal, parted by colons or hyphens.
pub(crate) fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let mut octets = [0; 6];
    let mut parts = text.split([':', '-']);
    for octet in &mut octets {
        let part = parts.next().filter(|part| (1..=2).contains(&part.len()))?;
        *octet = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(octets)
}

fn comparison(binary: BinaryExpr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let BinaryExpr { left, op, right } = binary;
    refuse_mixed_rows(&left, &right, schema)?;
    let is_ordered = matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq);
    let is_mac = is_mac(&left, schema) || is_mac(&right, schema);
    let aligned = align_pair((*left, schema), (*right, schema))?;
    let is_rewritten = aligned.transformed;
    let (left, right) = aligned.data;
    let family = (is_ordered && is_rewritten && !is_mac).then(|| same_family(&left, &right));
    let test = binary_expr(left, op, right);
    let test = match family {
        Some(family) => test.and(family),
        None => test,
    };
    Ok(Transformed::new_transformed(test, is_rewritten))
}

fn range(between: Between, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Between { expr, negated, low, high } = between;
    let is_mac = [&expr, &low, &high].iter().any(|value| is_mac(value, schema));
    let aligned = align(vec![*expr, *low, *high], schema)?;
    let is_rewritten = aligned.transformed;
    let Ok([value, low, high]) = <[Expr; 3]>::try_from(aligned.data) else {
        return Err(DataFusionError::Internal("three values were aligned to another count".to_owned()));
    };
    if !is_rewritten {
        return Ok(Transformed::no(Expr::Between(Between::new(value.into(), negated, low.into(), high.into()))));
    }
    let mut inside = value.clone().gt_eq(low.clone()).and(value.clone().lt_eq(high.clone()));
    if !is_mac {
        inside = inside.and(same_family(&value, &low)).and(same_family(&value, &high));
    }
    Ok(Transformed::yes(if negated { Expr::Not(Box::new(inside)) } else { inside }))
}

fn one_of(list: InList, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let InList { expr, list, negated } = list;
    list.iter().try_for_each(|item| refuse_mixed_rows(&expr, item, schema))?;
    let aligned = align(std::iter::once(*expr).chain(list).collect(), schema)?;
    aligned.transform_data(|mut values| {
        let expr = values.remove(0);
        Ok(Transformed::no(Expr::InList(InList::new(Box::new(expr), values, negated))))
    })
}

/// `CASE`: the base is compared with each `WHEN`, and the results are of one type.
fn choice(case: Case, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Case { expr, when_then_expr, else_expr } = case;
    let (mut whens, mut thens): (Vec<_>, Vec<_>) =
        when_then_expr.into_iter().map(|(when, then)| (*when, *then)).unzip();
    let mut is_rewritten = false;
    let expr = match expr {
        Some(base) => {
            whens.insert(0, *base);
            let aligned = align(whens, schema)?;
            is_rewritten |= aligned.transformed;
            whens = aligned.data;
            Some(Box::new(whens.remove(0)))
        }
        None => None,
    };
    let count = thens.len();
    thens.extend(else_expr.map(|other| *other));
    let aligned = align(thens, schema)?;
    is_rewritten |= aligned.transformed;
    thens = aligned.data;
    let else_expr = thens.split_off(count).pop().map(Box::new);
    let when_then_expr = whens.into_iter().zip(thens).map(|(when, then)| (Box::new(when), Box::new(then))).collect();
    Ok(Transformed::new_transformed(Expr::Case(Case { expr, when_then_expr, else_expr }), is_rewritten))
}

/// A value and the column of a subquery that it is compared with.
fn subquery_column(value: Expr, subquery: Subquery, schema: &DFSchema) -> Result<Transformed<(Expr, Subquery)>> {
    let inner = Arc::clone(subquery.subquery.schema());
    if inner.fields().len() != 1 {
        return Ok(Transformed::no((value, subquery)));
    }
    let column = Expr::Column(Column::from(inner.qualified_field(0)));
    let aligned = align_pair((value, schema), (column.clone(), &inner))?;
    aligned.transform_data(|(value, octets)| {
        if octets == column {
            return Ok(Transformed::no((value, subquery)));
        }
        let plan = LogicalPlanBuilder::from(Arc::clone(&subquery.subquery)).project([octets])?.build()?;
        Ok(Transformed::yes((value, subquery.with_plan(Arc::new(plan)))))
    })
}

/// Keys that a join pairs without an expression of their own: by `USING`, or by `INTERSECT` and `EXCEPT`.
fn join_keys(mut join: Join) -> Result<LogicalPlan> {
    for (left, right) in &mut join.on {
        let pair = ((left.clone(), &**join.left.schema()), (right.clone(), &**join.right.schema()));
        let aligned = align_pair(pair.0, pair.1)?;
        if aligned.transformed && join.join_constraint == JoinConstraint::Using {
            let is_left_text = is_text(left, join.left.schema());
            let (address, text) = if is_left_text { (&*right, &*left) } else { (&*left, &*right) };
            return Err(Unfit::using(address, text));
        }
        (*left, *right) = aligned.data;
    }
    Ok(LogicalPlan::Join(join))
}

fn is_mac(value: &Expr, schema: &DFSchema) -> bool {
    content_of(value, schema) == Some(Content::Mac)
}

/// A function of an address: the address may be text, and `cidr` with a literal prefix becomes a range, by which
/// scans prune.
fn function(mut call: ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut is_rewritten = false;
    let name = ident(call.name());
    for argument in call.args.iter_mut().take(functions::address_arguments(call.func.name())) {
        if let Some(text) = text_of(argument) {
            *argument = lit_octets(octets_of(text, &name, Content::Address)?);
            is_rewritten = true;
        }
    }
    if call.name() != "cidr" || call.args.len() != 2 {
        return Ok(Transformed::new_transformed(Expr::ScalarFunction(call), is_rewritten));
    }
    let is_address = content_of(&call.args[0], schema) == Some(Content::Address);
    let Some(text) = text_of(&call.args[1]).filter(|_| is_address) else {
        return Ok(Transformed::new_transformed(Expr::ScalarFunction(call), is_rewritten));
    };
    let prefix = Prefix::parse(text).ok_or_else(|| Content::Prefix.error(text, name_of(&call.args[0])))?;
    let (first, last) = prefix_bounds(prefix);
    Ok(Transformed::yes(in_range(&call.args[0], first, last)))
}

/// Whether an address is between two addresses of one family, both included.
fn in_range(address: &Expr, first: Vec<u8>, last: Vec<u8>) -> Expr {
    if first == last {
        return address.clone().eq(lit_octets(first));
    }
    let first = lit_octets(first);
    let family = same_family(address, &first);
    address.clone().gt_eq(first).and(address.clone().lt_eq(lit_octets(last))).and(family)
}

/// A literal that outputs print as an address.
fn lit_octets(octets: Vec<u8>) -> Expr {
    Expr::Literal(ScalarValue::Binary(Some(octets)), None)
}

fn same_family(left: &Expr, right: &Expr) -> Expr {
    family_of(left).eq(family_of(right))
}

fn family_of(address: &Expr) -> Expr {
    match address {
        Expr::Literal(ScalarValue::Binary(Some(octets)), _) => lit(if octets.len() == 16 { 6_u8 } else { 4 }),
        other => family(other.clone()),
    }
}

/// Whether a field is said to hold addresses, as the type that a value is cast to is.
pub(crate) fn is_address(field: &FieldRef) -> bool {
    let content = field.metadata().get(CONTENT_KEY).map(String::as_str);
    *field.data_type() == DataType::Binary && content == Some("address")
}

/// Metadata of a field that holds addresses.
pub(crate) fn address_metadata() -> HashMap<String, String> {
    [(CONTENT_KEY.to_owned(), "address".to_owned())].into()
}
