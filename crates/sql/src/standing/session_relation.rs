//! `SESSION(…)` in FROM: over an archive, a function of the rows of a key; in a standing question, a relation of those that ended.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray, TimestampMillisecondArray};
use arrow::datatypes::{Field, FieldRef, Schema, TimestampMillisecondType};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column as SqlColumn, Result, plan_datafusion_err, plan_err};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, PartitionEvaluator, Signature, Volatility, WindowUDF,
    WindowUDFImpl,
};
use datafusion::sql::sqlparser::ast::Expr as Ast;
use weir_flow::Table;

use super::arguments::Call;
use super::session::{SessionKind, SessionRelation, flows_of, time_type};
use super::slot::Place;
use super::sources::{Source, of_provider, origin, windows_of, with_sources};
use super::statement::{StatementContext, WINDOW_END, WINDOW_START};
use super::window_table::WindowTable;
use super::window_time::WindowSpec;

/// Gaps that a session may last, when no cap is given.
const CAP_GAPS: i64 = 12;
/// How often sessions that ended are looked for, when nothing else is given and the gap is not shorter.
const EVERY_MS: i64 = 1_000;

/// Plans `SESSION(…)`, of these rows by this time.
pub(super) fn planned(
    rows: LogicalPlan,
    time: SqlColumn,
    call: &mut Call<'_>,
    standing: Option<&Arc<StatementContext>>,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let gap = call.required("gap")?;
    let gap_ms = call.millis(gap, context)?;
    let mut length = |call: &mut Call<'_>, name: &str, usual_ms| match call.named(name) {
        Some(value) => call.millis(value, context),
        None => Ok(usual_ms),
    };
    let cap_ms = length(call, "cap", gap_ms.saturating_mul(CAP_GAPS))?;
    let every_ms = length(call, "every", gap_ms.min(EVERY_MS))?;
    let kind = SessionKind { gap_ms, cap_ms, every_ms }.checked(&call.function)?;
    let keys = keys(call, &rows, context)?;
    match standing {
        None => over_rows(rows, time, &keys, kind),
        Some(standing) => of_stream(&rows, &time, &keys, kind, standing),
    }
}

/// The columns of `key => a` or `key => (a, b)`.
fn keys(call: &mut Call<'_>, rows: &LogicalPlan, context: &mut dyn RelationPlannerContext) -> Result<Vec<SqlColumn>> {
    let given = match call.named("key") {
        None => return Ok(Vec::new()),
        Some(Ast::Tuple(keys)) => keys.clone(),
        Some(Ast::Nested(key)) => vec![key.as_ref().clone()],
        Some(key) => vec![key.clone()],
    };
    let column = |key: Ast| {
        let Expr::Column(column) = context.sql_to_expr(key.clone(), rows.schema())? else {
            let function = &call.function;
            return plan_err!(
                "{function}: {key} is no column\nhint: name it in a subquery: (SELECT *, {key} AS name FROM flows)"
            );
        };
        Ok(column)
    };
    given.into_iter().map(column).collect()
}

/// Every row of a relation with the times of its session.
fn over_rows(rows: LogicalPlan, time: SqlColumn, keys: &[SqlColumn], kind: SessionKind) -> Result<LogicalPlan> {
    let mut columns: Vec<Expr> = rows.schema().columns().into_iter().map(Expr::Column).collect();
    let time = Expr::Column(time);
    let rows = LogicalPlanBuilder::from(rows).filter(time.clone().is_not_null())?.build()?;
    let bound = |is_end| {
        let function = Arc::new(WindowUDF::from(SessionTime { kind, is_end }));
        let call = Expr::WindowFunction(Box::new(WindowFunction::new(function, vec![time.clone()])));
        let keys = keys.iter().cloned().map(Expr::Column).collect();
        call.partition_by(keys).order_by(vec![time.clone().sort(true, false)]).build()
    };
    let (start, end) = (bound(false)?, bound(true)?);
    for (bound, name) in [(&start, WINDOW_START), (&end, WINDOW_END)] {
        columns.push(Expr::Column(SqlColumn::new_unqualified(bound.schema_name().to_string())).alias(name));
    }
    let rows = LogicalPlanBuilder::window_plan(rows, [start, end])?;
    LogicalPlanBuilder::from(rows).project(columns)?.build()
}

/// A relation of the sessions that ended.
fn of_stream(
    rows: &LogicalPlan,
    time: &SqlColumn,
    keys: &[SqlColumn],
    kind: SessionKind,
    standing: &Arc<StatementContext>,
) -> Result<LogicalPlan> {
    if !windows_of(rows)?.is_empty() {
        return plan_err!("SESSION is of flows, and not of what a window gave");
    }
    let is_of_time = origin(rows, time) == Some(standing.time);
    let rows = with_sources(rows.clone(), &|table| match table {
        // each `SessionInput` has a slot of its own in place of this one
        Source::Base(Table::Flows) => Some(flows_of(&standing.slot)),
        Source::Base(_) | Source::Window => None,
    })?;
    if !is_row_by_row(&rows)? {
        return plan_err!(
            "SESSION is of a table, a view or a subquery that takes flows one by one\nhint: join and group what SESSION gives"
        );
    }
    if !is_of_time {
        let usual = standing.time.name();
        return plan_err!(
            "sessions go by '{}', and the watch by '{usual}'\nhint: set `time` in the file of the watch",
            time.name
        );
    }
    let fields = rows.schema().fields().iter().cloned();
    let bounds = [WINDOW_START, WINDOW_END].map(|name| Arc::new(Field::new(name, time_type(), false)));
    let schema = Arc::new(Schema::new(fields.chain(bounds).collect::<Vec<_>>()));
    let relation = {
        let mut found = standing.found();
        found.windows.push(WindowSpec { kind: kind.windows(), time: standing.time });
        let relation = found.windows.len() - 1;
        let keys = keys.iter().map(|key| key.name.clone()).collect();
        found.sessions.push(SessionRelation { kind, relation, keys, time: time.name.clone(), rows });
        relation
    };
    let table = WindowTable::new(schema, Place { slot: Arc::clone(&standing.slot), relation });
    LogicalPlanBuilder::scan("session", provider_as_source(Arc::new(table)), None)?.build()
}

/// Whether each row that a plan gives is made of one row that it reads.
fn is_row_by_row(plan: &LogicalPlan) -> Result<bool> {
    let mut is_row_by_row = true;
    plan.apply_with_subqueries(|node| {
        is_row_by_row &= match node {
            LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => true,
            node => of_provider(node, WindowTable::relation).is_some(),
        };
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                let is_subquery = matches!(part, Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_));
                is_row_by_row &= !is_subquery;
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(is_row_by_row)
}

/// When the session of a row begins or ends, of the rows of a key in the order of their times.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct SessionTime {
    kind: SessionKind,
    is_end: bool,
}

impl WindowUDFImpl for SessionTime {
    fn name(&self) -> &str {
        if self.is_end { "time_of_session_end" } else { "time_of_session_start" }
    }

    fn signature(&self) -> &Signature {
        static ANY: LazyLock<Signature> = LazyLock::new(|| Signature::any(1, Volatility::Immutable));
        &ANY
    }

    fn partition_evaluator(&self, _arguments: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(self.clone()))
    }

    fn field(&self, arguments: WindowUDFFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(arguments.name(), time_type(), false)))
    }
}

impl PartitionEvaluator for SessionTime {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let times = values.first().and_then(|times| times.as_primitive_opt::<TimestampMillisecondType>());
        let times = times.ok_or_else(|| plan_datafusion_err!("sessions are of times in milliseconds"))?;
        let mut bounds = Vec::with_capacity(rows);
        let mut left: &[i64] = times.values();
        let mut before = None;
        while let Some(session) = self.kind.first(before, left.iter().copied()) {
            let bound_ms = if self.is_end { session.end_ms } else { session.start_ms };
            bounds.resize(bounds.len() + session.rows, bound_ms);
            left = left.get(session.rows..).unwrap_or_default();
            before = Some(session.run);
        }
        Ok(Arc::new(TimestampMillisecondArray::from(bounds).with_timezone("UTC")))
    }
}
