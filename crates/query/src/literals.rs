//! Addresses written as text.
//!
//! Addresses are binary columns, and SQL would compare the octets of the text with them. This rule runs before types
//! are coerced and turns the text of an address, wherever it meets a binary value, into the address. Equality works
//! over both families; an ordered comparison (`<`, `BETWEEN`, `cidr`) holds only between addresses of one family,
//! because 4 octets sort among 16 in no meaningful way.

use std::collections::HashMap;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::{Between, InList, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, lit};
use datafusion::optimizer::AnalyzerRule;
use weir_filter::Prefix;
use weir_flow::parse_address;
use weir_flow::schema::CONTENT_KEY;

use crate::functions::{self, family, prefix_bounds};

/// A text that should be an address and is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is no {wanted}, but {} is compared with it", text.escape_debug(), name)]
pub(crate) struct BadLiteral {
    pub(crate) text: String,
    /// What it is compared with.
    name: String,
    wanted: Content,
}

/// What a binary value holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Address,
    Mac,
    Prefix,
}

impl std::fmt::Display for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Address => "address",
            Self::Mac => "MAC address",
            Self::Prefix => "prefix",
        })
    }
}

impl BadLiteral {
    pub(crate) fn hint(&self) -> String {
        match self.wanted {
            Content::Address if Prefix::parse(&self.text).is_some() => {
                format!("a prefix is tested by cidr({}, '{}')", self.name, self.text)
            }
            Content::Address => "addresses are written as '192.0.2.1' or '2001:db8::1'".to_owned(),
            Content::Mac => "MAC addresses are written as '00:1b:21:01:02:ff'".to_owned(),
            Content::Prefix => "prefixes are written as '192.0.2.0/24' or '2001:db8::/32'".to_owned(),
        }
    }

    fn error(text: &str, name: String, wanted: Content) -> DataFusionError {
        DataFusionError::External(Box::new(Self { text: text.to_owned(), name, wanted }))
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
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    let names = NamePreserver::new(&plan);
    let rewritten = plan.map_expressions(|expression| {
        let name = names.save(&expression);
        let rewritten = expression.transform_up(|expression| rewrite(expression, &schema))?;
        Ok(rewritten.update_data(|expression| name.restore(expression)))
    })?;
    if rewritten.transformed { rewritten.map_data(LogicalPlan::recompute_schema) } else { Ok(rewritten) }
}

fn rewrite(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expression {
        Expr::BinaryExpr(binary) if is_comparison(binary.op) => comparison(binary, schema),
        Expr::Between(between) => range(between, schema),
        Expr::InList(list) => one_of(list, schema),
        Expr::ScalarFunction(call) if functions::takes_address(call.name()) => function(call, schema),
        other => Ok(Transformed::no(other)),
    }
}

fn is_comparison(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// The text of a literal.
fn text_of(expression: &Expr) -> Option<&str> {
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

/// Octets of a literal that is compared with `beside`.
fn octets_of(text: &str, beside: &Expr, content: Content) -> Result<Vec<u8>> {
    let octets = match content {
        Content::Mac => parse_mac(text).map(|mac| mac.to_vec()),
        _ => parse_address(text),
    };
    octets.ok_or_else(|| BadLiteral::error(text, name_of(beside), content))
}

/// An expression as errors name it: columns without their table.
fn name_of(expression: &Expr) -> String {
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
    let (value, text, op) = match (text_of(&left), text_of(&right)) {
        (None, Some(text)) => (&left, text, op),
        (Some(text), None) => match op.swap() {
            Some(op) => (&right, text, op),
            None => return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))),
        },
        _ => return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))),
    };
    let Some(content) = content_of(value, schema) else {
        return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
    };
    let octets = octets_of(text, value, content)?;
    let value = (**value).clone();
    let is_ordered = matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq);
    let family = is_ordered.then(|| same_family(&value, &octets));
    let test = datafusion::logical_expr::binary_expr(value, op, lit_octets(octets));
    Ok(Transformed::yes(match family {
        Some(family) => test.and(family),
        None => test,
    }))
}

fn range(between: Between, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (Some(low), Some(high)) = (text_of(&between.low), text_of(&between.high)) else {
        return Ok(Transformed::no(Expr::Between(between)));
    };
    let Some(content) = content_of(&between.expr, schema) else {
        return Ok(Transformed::no(Expr::Between(between)));
    };
    let (low, high) = (octets_of(low, &between.expr, content)?, octets_of(high, &between.expr, content)?);
    let value = *between.expr;
    let inside = value.clone().gt_eq(lit_octets(low.clone())).and(value.clone().lt_eq(lit_octets(high.clone())));
    let inside = inside.and(same_family(&value, &low)).and(same_family(&value, &high));
    Ok(Transformed::yes(if between.negated { Expr::Not(Box::new(inside)) } else { inside }))
}

fn one_of(list: InList, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let content = content_of(&list.expr, schema);
    let Some(content) = content.filter(|_| list.list.iter().any(|item| text_of(item).is_some())) else {
        return Ok(Transformed::no(Expr::InList(list)));
    };
    let items = list.list.into_iter().map(|item| match text_of(&item) {
        Some(text) => Ok(lit_octets(octets_of(text, &list.expr, content)?)),
        None => Ok(item),
    });
    let items = items.collect::<Result<Vec<_>>>()?;
    Ok(Transformed::yes(Expr::InList(InList::new(list.expr, items, list.negated))))
}

/// A function of an address: the address may be text, and `cidr` with a literal prefix becomes a range, by which
/// scans prune.
fn function(mut call: ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut is_rewritten = false;
    if let Some(text) = call.args.first().and_then(text_of) {
        call.args[0] = lit_octets(octets_of(text, &lit(call.name()), Content::Address)?);
        is_rewritten = true;
    }
    if call.name() != "cidr" || call.args.len() != 2 {
        return Ok(Transformed::new_transformed(Expr::ScalarFunction(call), is_rewritten));
    }
    let is_address = content_of(&call.args[0], schema) == Some(Content::Address);
    let Some(text) = text_of(&call.args[1]).filter(|_| is_address) else {
        return Ok(Transformed::new_transformed(Expr::ScalarFunction(call), is_rewritten));
    };
    let prefix = Prefix::parse(text).ok_or_else(|| BadLiteral::error(text, name_of(&call.args[0]), Content::Prefix))?;
    Ok(Transformed::yes(in_prefix(&call.args[0], prefix)))
}

/// Whether an address lies in a prefix, as a range by which scans prune.
pub(crate) fn in_prefix(address: &Expr, prefix: Prefix) -> Expr {
    let (first, last) = prefix_bounds(prefix);
    in_range(address, first, last)
}

/// Whether an address lies between two addresses of one family, both included.
pub(crate) fn in_range(address: &Expr, first: Vec<u8>, last: Vec<u8>) -> Expr {
    if first == last {
        return address.clone().eq(lit_octets(first));
    }
    let family = same_family(address, &first);
    address.clone().gt_eq(lit_octets(first)).and(address.clone().lt_eq(lit_octets(last))).and(family)
}

/// A literal that outputs print as an address.
pub(crate) fn lit_octets(octets: Vec<u8>) -> Expr {
    Expr::Literal(ScalarValue::Binary(Some(octets)), None)
}

fn same_family(address: &Expr, octets: &[u8]) -> Expr {
    let number: u8 = if octets.len() == 16 { 6 } else { 4 };
    // MAC addresses all have six octets: any order among them is meaningful.
    if octets.len() == 6 { lit(true) } else { family(address.clone()).eq(lit(number)) }
}

/// Metadata of a field that holds addresses.
pub(crate) fn address_metadata() -> HashMap<String, String> {
    [(CONTENT_KEY.to_owned(), "address".to_owned())].into()
}
