//! What is planned for a statement before anything is: each subquery as often as it is read.
//!
//! A subquery that has a name in `WITH` is planned anew wherever the name is read. Twenty of them that each read the one before
//! twice are a million, in one KB of text, and planning them takes all memory before there is a plan that could be looked at.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::vec::IntoIter;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, Query, Select, TableFactor, Visit, Visitor,
};

/// Operators, functions, queries and tables of a statement, those of a subquery as often as it is read.
pub(super) fn of(statement: &Statement) -> usize {
    let mut reads = Reads { scopes: vec![Scope::default()] };
    // no step of the visitor ends the visit
    let _ = match statement {
        Statement::Statement(ansi) => ansi.visit(&mut reads),
        Statement::CopyTo(copy) => match &copy.source {
            CopyToSource::Query(query) => query.visit(&mut reads),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::Explain(explained) => return of(&explained.statement),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    };
    reads.scopes.pop().map_or(0, |outermost| outermost.size)
}

/// A subquery that has a name.
struct NamedQuery {
    size: usize,
    is_read: bool,
}

/// A query that is being visited.
#[derive(Default)]
struct Scope {
    /// The names in its `WITH` whose subqueries are not visited yet. They are visited in their order, and before all else.
    unvisited: IntoIter<String>,
    named: HashMap<String, NamedQuery>,
    size: usize,
}

impl Scope {
    fn of(query: &Query) -> Self {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        let names: Vec<String> = tables.map(|table| normalized(&table.alias.name)).collect();
        Self { unvisited: names.into_iter(), named: HashMap::new(), size: 1 }
    }

    fn add(&mut self, size: usize) {
        self.size = self.size.saturating_add(size);
    }

    /// What is planned for it: a subquery that nothing reads is planned once too.
    fn whole(&self) -> usize {
        let unread = self.named.values().filter(|named| !named.is_read).map(|named| named.size);
        unread.fold(self.size, usize::saturating_add)
    }
}

/// Adds up what is read. The last scope is the innermost one.
struct Reads {
    scopes: Vec<Scope>,
}

impl Reads {
    fn add(&mut self, size: usize) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.add(size);
        }
    }

    /// Adds what a name stands for: this where it is no subquery.
    fn read(&mut self, name: &str, size: usize) {
        let named = self.scopes.iter_mut().rev().find_map(|scope| scope.named.get_mut(name));
        let size = named.map_or(size, |named| {
            named.is_read = true;
            named.size
        });
        self.add(size);
    }
}

impl Visitor for Reads {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.scopes.push(Scope::of(query));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        let size = self.scopes.pop().map_or(0, |scope| scope.whole());
        if let Some(outer) = self.scopes.last_mut() {
            match outer.unvisited.next() {
                Some(name) => {
                    outer.named.insert(name, NamedQuery { size, is_read: false });
                }
                None => outer.add(size),
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, _select: &Select) -> ControlFlow<()> {
        self.add(1);
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        // a name with a dot in quotes is found by the name of a table and its schema
        let parts: Vec<_> = relation.0.iter().filter_map(|part| part.as_ident()).map(normalized).collect();
        self.read(&parts.join("."), 1);
        ControlFlow::Continue(())
    }

    /// A window reads the table that its first argument names: `TUMBLE(t, received, …)`.
    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { args: Some(args), .. } = table else { return ControlFlow::Continue(()) };
        for arg in &args.args {
            let (FunctionArg::Unnamed(value)
            | FunctionArg::Named { arg: value, .. }
            | FunctionArg::ExprNamed { arg: value, .. }) = arg;
            match value {
                FunctionArgExpr::Expr(Expr::Identifier(name)) => self.read(&normalized(name), 0),
                FunctionArgExpr::Expr(Expr::CompoundIdentifier(parts)) => {
                    let parts: Vec<_> = parts.iter().map(normalized).collect();
                    self.read(&parts.join("."), 0);
                }
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        self.add(usize::from(is_computed(expression)));
        ControlFlow::Continue(())
    }
}

/// Whether it is more than a column or a value: values of a list cost little, also with a sign.
fn is_computed(expression: &Expr) -> bool {
    !matches!(
        expression,
        Expr::Identifier(_)
            | Expr::CompoundIdentifier(_)
            | Expr::Wildcard(_)
            | Expr::QualifiedWildcard(..)
            | Expr::Value(_)
            | Expr::TypedString(_)
            | Expr::Interval(_)
            | Expr::UnaryOp { .. }
            | Expr::Nested(_)
            | Expr::Tuple(_)
    )
}

/// A name as the planner compares it.
fn normalized(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_ascii_lowercase() }
}
