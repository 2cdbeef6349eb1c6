//! Parts of statements that the engine would answer as if they were not there, or as others.

use std::ops::ControlFlow;

use datafusion::common::{DataFusionError, Result, plan_datafusion_err};
use datafusion::sql::parser::{ExplainStatement, Statement};
use datafusion::sql::sqlparser::ast::{
    Query, SetExpr, SetOperator, SetQuantifier, TableFactor, TableSampleKind, Visit, Visitor,
};

/// Refuses a statement that has such a part: it would get a wrong answer without a word.
pub(crate) fn check(statement: &Statement) -> Result<()> {
    let found = match statement {
        Statement::Statement(ansi) => ansi.visit(&mut Unanswered),
        Statement::Explain(ExplainStatement { statement, .. }) => return check(statement),
        _ => return Ok(()),
    };
    match found {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Unanswered;

impl Visitor for Unanswered {
    type Break = DataFusionError;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<DataFusionError> {
        match repeated(&query.body) {
            Some(operation) => ControlFlow::Break(plan_datafusion_err!(
                "{operation} ALL is not supported\nhint: {operation} gives each row once; to count repeated rows, group \
                 both sides, as in SELECT src_port, count(*) FROM flows GROUP BY src_port"
            )),
            None => ControlFlow::Continue(()),
        }
    }

    /// The planner takes no notice of it, and would answer about all rows.
    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<DataFusionError> {
        let sample: Option<&TableSampleKind> = match table {
            TableFactor::Table { sample, .. } | TableFactor::Derived { sample, .. } => sample.as_ref(),
            _ => None,
        };
        match sample {
            Some(_) => ControlFlow::Break(plan_datafusion_err!(
                "TABLESAMPLE is not supported\nhint: write WHERE random() < 0.01 for about one row in a hundred"
            )),
            None => ControlFlow::Continue(()),
        }
    }
}

/// An operation of sets that counts how often each side has a row, which the engine answers as a test of membership.
fn repeated(body: &SetExpr) -> Option<&'static str> {
    // a chain of operations is as deep as it is long
    let mut waiting = vec![body];
    while let Some(body) = waiting.pop() {
        let SetExpr::SetOperation { left, op, set_quantifier, right } = body else { continue };
        let is_all = matches!(set_quantifier, SetQuantifier::All | SetQuantifier::AllByName);
        match op {
            SetOperator::Except | SetOperator::Minus if is_all => return Some("EXCEPT"),
            SetOperator::Intersect if is_all => return Some("INTERSECT"),
            _ => waiting.extend([&**left, &**right]),
        }
    }
    None
}
