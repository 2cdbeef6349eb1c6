//! Collations in statements. DuckDB names one (`"C"`) with every text that it compares a column with, also where that column is an
//! address here, which it takes for a text.
//!
//! The engine knows no collations. It compares texts by their octets, which is what "C" means, so the name can go; values of other
//! types are compared by their texts, as the client does with what it gets. Whether they are the same does not depend on that,
//! so equality stays as it is, and finds addresses by their index.

use std::borrow::Cow;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, ObjectName, OrderBy, OrderByKind, Query, SetExpr, Statement, Value,
    VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// The statement without collations that order texts by their octets. Others are left to the engine, which refuses them.
pub(crate) fn without_collations(text: &str) -> Cow<'_, str> {
    if !text.to_ascii_lowercase().contains("collate") {
        return Cow::Borrowed(text);
    }
    let Ok(mut statements) = Parser::parse_sql(&PostgreSqlDialect {}, text) else { return Cow::Borrowed(text) };
    let [statement @ (Statement::Query(_) | Statement::Explain { .. })] = statements.as_mut_slice() else {
        return Cow::Borrowed(text);
    };
    let mut removal = Removal { is_changed: false };
    let _: ControlFlow<()> = VisitMut::visit(statement, &mut removal);
    if removal.is_changed { Cow::Owned(statement.to_string()) } else { Cow::Borrowed(text) }
}

struct Removal {
    is_changed: bool,
}

impl VisitorMut for Removal {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        // what is made distinct can only be ordered by what it has
        let is_distinct = matches!(query.body.as_ref(), SetExpr::Select(select) if select.distinct.is_some());
        if let Some(OrderBy { kind: OrderByKind::Expressions(expressions), .. }) = &mut query.order_by
            && !is_distinct
        {
            for ordered in expressions {
                by_texts(&mut [&mut ordered.expr]);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        match expression {
            Expr::BinaryOp { left, op, right } if is_order(op) => by_texts(&mut [left.as_mut(), right.as_mut()]),
            Expr::Between { expr, low, high, .. } => by_texts(&mut [expr.as_mut(), low.as_mut(), high.as_mut()]),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if is_collated(expression)
            && let Expr::Collate { expr, .. } = expression
        {
            *expression = std::mem::replace(expr, Expr::value(Value::Null));
            self.is_changed = true;
        }
        ControlFlow::Continue(())
    }
}

fn is_order(operator: &BinaryOperator) -> bool {
    matches!(operator, BinaryOperator::Lt | BinaryOperator::LtEq | BinaryOperator::Gt | BinaryOperator::GtEq)
}

/// Makes values their texts where one of them is collated.
fn by_texts(values: &mut [&mut Expr]) {
    if values.iter().any(|value| is_collated(inner(value))) {
        values.iter_mut().filter(|value| !is_literal(value)).for_each(|value| by_text(value));
    }
}

/// An expression without parentheses around it.
fn inner(expression: &Expr) -> &Expr {
    match expression {
        Expr::Nested(nested) => inner(nested),
        other => other,
    }
}

fn is_literal(expression: &Expr) -> bool {
    match inner(expression) {
        Expr::Collate { expr, .. } => is_literal(expr),
        other => matches!(other, Expr::Value(_)),
    }
}

fn is_collated(expression: &Expr) -> bool {
    matches!(expression, Expr::Collate { collation, .. } if is_by_octets(collation))
}

/// Whether a collation orders texts by their octets.
fn is_by_octets(collation: &ObjectName) -> bool {
    let name = collation.0.last().and_then(|part| part.as_ident());
    // names are those of Postgres
    name.is_some_and(|name| matches!(name.value.as_str(), "C" | "POSIX" | "default" | "ucs_basic"))
}

/// Makes an expression its text.
fn by_text(expression: &mut Expr) {
    let inner = std::mem::replace(expression, Expr::value(Value::Null));
    *expression = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(inner),
        data_type: DataType::Varchar(None),
        array: false,
        format: None,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collations_by_octets_go() {
        for (asked, taken) in [
            ("SELECT a FROM t WHERE a = 'x' COLLATE \"C\"", "SELECT a FROM t WHERE a = 'x'"),
            ("SELECT a FROM t WHERE a > 'x' COLLATE \"C\"", "SELECT a FROM t WHERE CAST(a AS VARCHAR) > 'x'"),
            ("SELECT a FROM t WHERE 'x' COLLATE \"POSIX\" <= a", "SELECT a FROM t WHERE 'x' <= CAST(a AS VARCHAR)"),
            (
                "SELECT a FROM t WHERE a IN ('x' COLLATE \"C\", 'y' COLLATE \"C\") ORDER BY b COLLATE \"C\"",
                "SELECT a FROM t WHERE a IN ('x', 'y') ORDER BY CAST(b AS VARCHAR)",
            ),
            ("SELECT a FROM t WHERE a COLLATE \"C\" < 'x'", "SELECT a FROM t WHERE CAST(a AS VARCHAR) < 'x'"),
            (
                "SELECT a FROM t WHERE a COLLATE \"C\" >= b COLLATE \"C\"",
                "SELECT a FROM t WHERE CAST(a AS VARCHAR) >= CAST(b AS VARCHAR)",
            ),
            ("SELECT a FROM t WHERE a < (('x' COLLATE \"C\"))", "SELECT a FROM t WHERE CAST(a AS VARCHAR) < (('x'))"),
            ("SELECT a FROM t WHERE (a COLLATE \"C\") = b", "SELECT a FROM t WHERE (a) = b"),
            (
                "SELECT a FROM t WHERE a COLLATE \"C\" BETWEEN 'x' AND 'y'",
                "SELECT a FROM t WHERE CAST(a AS VARCHAR) BETWEEN 'x' AND 'y'",
            ),
            ("SELECT DISTINCT a FROM t ORDER BY a COLLATE \"C\"", "SELECT DISTINCT a FROM t ORDER BY a"),
            (
                "SELECT a FROM t ORDER BY (a COLLATE \"C\") DESC, b",
                "SELECT a FROM t ORDER BY CAST((a) AS VARCHAR) DESC, b",
            ),
            (
                "SELECT a FROM t WHERE a BETWEEN 'x' COLLATE \"C\" AND 'y' COLLATE \"C\"",
                "SELECT a FROM t WHERE CAST(a AS VARCHAR) BETWEEN 'x' AND 'y'",
            ),
        ] {
            assert_eq!(without_collations(asked), taken);
        }
    }

    #[test]
    fn other_statements_stay_as_they_came() {
        for text in [
            "SELECT  a FROM t",
            "SELECT a  FROM t WHERE a = 'collate'",
            "SELECT a FROM t  WHERE a > 'x' COLLATE \"de_DE\"",
            "SELECT a FROM t WHERE a COLLATE",
            "DELETE FROM t WHERE a = 'x'  COLLATE \"C\"",
        ] {
            assert_eq!(without_collations(text), text);
        }
    }
}
