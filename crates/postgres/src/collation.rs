//! Collations in statements. DuckDB names one (`"C"`) with every text that it compares a column with, also where that column is an
//! address here, which it takes for a text.
//!
//! The engine knows no collations. It compares texts by their octets, which is what "C" means, so the name can go; values of other
//! types are compared by their texts, as the client does with what it gets. Whether they are the same does not depend on that,
//! so equality stays as it is, and finds addresses by their index.

use std::borrow::Cow;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, ObjectName, Statement, Value, VisitMut, VisitorMut,
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

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        match expression {
            Expr::BinaryOp { left, op, right } if is_order(op) => match (is_collated(left), is_collated(right)) {
                (true, false) => by_text(right),
                (false, true) => by_text(left),
                _ => {}
            },
            Expr::Between { expr, low, high, .. } if is_collated(low) || is_collated(high) => by_text(expr),
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
                "SELECT a FROM t WHERE a IN ('x', 'y') ORDER BY b",
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
