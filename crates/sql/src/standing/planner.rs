//! Windows and history in FROM.
//!
//! `TUMBLE(t, time, size [, offset])` and `HOP(t, time, slide, size [, offset])` add the columns `window_start` and
//! `window_end` to the rows of `t`, which is a table, a view, a name of `WITH` or a subquery. Over an archive they do so
//! for every row; in a standing question `t` has the rows of the window that closed, and nothing else. `HISTORY(t,
//! length)` and `SAME_TIME(t, days => n)` exist in standing questions only: without a window there is no time that they
//! lie before.

use std::sync::Arc;

use datafusion::catalog::{CatalogProviderList, TableProvider};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column as SqlColumn, Result, ScalarValue, plan_datafusion_err, plan_err};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, ScalarUDF, ident, lit};
use datafusion::sql::sqlparser::ast::{Expr as Ast, Ident, ObjectName, TableAlias, TableFactor};
use futures::FutureExt;
use weir_flow::{Column, Table};

use super::arguments::{Call, named_table};
use super::history::HistoryTable;
use super::session_relation;
use super::slot::Place;
use super::sources::{Source, of_provider, origin, windows_of, with_sources};
use super::statement::{Anchor, Bound, StatementContext, WINDOW_END, WINDOW_START};
use super::window_table::WindowTable;
use super::window_time::{WindowKind, WindowSpec, WindowTime};

/// Windows that a row of HOP can be in.
const WINDOWS_OF_ROW_MAX: i64 = 10_000;
/// Days of the longest window: times at its end must be dates, and those end with the year 9999.
const WINDOW_DAYS_MAX: i64 = 1_000_000;
/// Days that `SAME_TIME` can look back.
const DAYS_MAX: i64 = 400;

/// Plans window functions and history.
#[derive(Debug)]
pub(crate) struct WindowPlanner {
    /// `None` over an archive.
    standing: Option<Arc<StatementContext>>,
    /// Where tables are: the planner looks only for those that are named outside of arguments.
    catalogs: Arc<dyn CatalogProviderList>,
}

impl WindowPlanner {
    /// For statements over an archive.
    pub(crate) fn batch(state: &SessionState) -> Self {
        Self { standing: None, catalogs: Arc::clone(state.catalog_list()) }
    }

    pub(crate) fn standing(state: &SessionState, standing: &Arc<StatementContext>) -> Self {
        Self { standing: Some(Arc::clone(standing)), catalogs: Arc::clone(state.catalog_list()) }
    }

    /// A table by its name, without a schema.
    fn table(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        let schema = self.catalogs.catalog("datafusion")?.schema("public")?;
        // tables are in memory, so looking for one does not wait
        schema.table(name).now_or_never()?.ok()?
    }

    /// The first argument of a function as a relation: of WITH, or a table.
    fn relation(&self, call: &mut Call<'_>, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
        let (factor, name) = match call.required("table")? {
            Ast::Identifier(name) => {
                (named_table(ObjectName::from(vec![name.clone()])), Some(context.normalize_ident(name.clone())))
            }
            Ast::CompoundIdentifier(parts) => (named_table(ObjectName::from(parts.clone())), None),
            Ast::Subquery(subquery) => {
                let subquery = subquery.clone();
                (TableFactor::Derived { lateral: false, subquery, alias: None, sample: None }, None)
            }
            other => return plan_err!("{}: {other} is no table", call.function),
        };
        let planned = context.plan(factor);
        match (&planned, name) {
            (Err(_), Some(name)) => match self.table(&name) {
                Some(table) => LogicalPlanBuilder::scan(name, provider_as_source(table), None)?.build(),
                None => planned,
            },
            _ => planned,
        }
    }
}

impl RelationPlanner for WindowPlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::Table { name, alias, args: Some(args), .. } = &relation else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let function = function_name(name);
        let is_ours = matches!(function.as_str(), "tumble" | "hop" | "session" | "history" | "same_time");
        if !is_ours {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        let mut call = Call::new(&function, &args.args)?;
        let plan = match (function.as_str(), &self.standing) {
            ("tumble" | "hop", standing) => self.window(&function, &mut call, standing.as_ref(), context)?,
            ("session", standing) => self.session(&mut call, standing.as_ref(), context)?,
            ("history", Some(standing)) => {
                let rows = self.relation(&mut call, context)?;
                history(rows, &mut call, standing, context)?
            }
            ("same_time", Some(standing)) => {
                let rows = self.relation(&mut call, context)?;
                same_time(rows, &mut call, standing, context)?
            }
            _ => {
                let name = function.to_uppercase();
                return plan_err!(
                    "{name} is history before a window, and this statement is asked once\nhint: write a range \
                                  of times: WHERE received >= now() - INTERVAL '7 days'"
                );
            }
        };
        call.nothing_left()?;
        let alias = alias.clone().or_else(|| Some(unqualified(&function)));
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
    }
}

/// What a window is called that has no alias: rows are found by their own names too.
fn unqualified(function: &str) -> TableAlias {
    TableAlias { explicit: false, name: Ident::new(function), columns: Vec::new(), at: None }
}

fn function_name(name: &ObjectName) -> String {
    match name.0.as_slice() {
        [part] => part.as_ident().map(|ident| ident.value.to_lowercase()).unwrap_or_default(),
        _ => String::new(),
    }
}

impl WindowPlanner {
    fn window(
        &self,
        function: &str,
        call: &mut Call<'_>,
        standing: Option<&Arc<StatementContext>>,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        let rows = self.relation(call, context)?;
        let time = time_of(call, &rows, standing, context)?;
        let first = call.required(if function == "hop" { "slide" } else { "size" })?;
        let slide_ms = call.millis(first, context)?;
        let size_ms = if function == "hop" {
            let size = call.required("size")?;
            call.millis(size, context)?
        } else {
            slide_ms
        };
        if size_ms > WINDOW_DAYS_MAX * 86_400_000 {
            return plan_err!("{}: a window is at most {WINDOW_DAYS_MAX} days long", call.function);
        }
        let kind = WindowKind { size_ms, slide_ms, offset_ms: call.offset(context)? };
        if size_ms % slide_ms != 0 || size_ms / slide_ms > WINDOWS_OF_ROW_MAX {
            return plan_err!(
                "{}: a window of {size_ms} ms is no whole number of slides of {slide_ms} ms, at most \
                 {WINDOWS_OF_ROW_MAX}",
                call.function
            );
        }
        match standing {
            None => over_rows(rows, time, kind),
            Some(standing) => of_stream(rows, &time, kind, standing),
        }
    }

    fn session(
        &self,
        call: &mut Call<'_>,
        standing: Option<&Arc<StatementContext>>,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        let rows = self.relation(call, context)?;
        let time = time_of(call, &rows, standing, context)?;
        session_relation::planned(rows, time, call, standing, context)
    }
}

/// The column of a relation that a window goes by.
fn time_of(
    call: &mut Call<'_>,
    rows: &LogicalPlan,
    standing: Option<&Arc<StatementContext>>,
    context: &mut dyn RelationPlannerContext,
) -> Result<SqlColumn> {
    let time = match (call.has("time"), standing) {
        // the time of the watch, when only lengths are given
        (false, Some(standing)) if !call.has_positional() => usual_time(rows, standing)?,
        _ => context.sql_to_expr(call.required("time")?.clone(), rows.schema())?,
    };
    match time {
        Expr::Column(time) => Ok(time),
        other => plan_err!("{}: {other} is no column", call.function),
    }
}

/// The column of a relation that is the time of the watch; any column when its rows are those of windows already.
fn usual_time(rows: &LogicalPlan, standing: &Arc<StatementContext>) -> Result<Expr> {
    let is_of_windows = !windows_of(rows)?.is_empty();
    let columns = rows.schema().columns();
    let found = columns.into_iter().find(|column| is_of_windows || origin(rows, column) == Some(standing.time));
    let missing = || plan_datafusion_err!("no column is the time '{}' of flows", standing.time.name());
    found.map(Expr::Column).ok_or_else(missing)
}

/// Every row of a relation in each of its windows.
fn over_rows(rows: LogicalPlan, time: SqlColumn, kind: WindowKind) -> Result<LogicalPlan> {
    let mut columns: Vec<Expr> = rows.schema().columns().into_iter().map(Expr::Column).collect();
    let start = ScalarUDF::from(WindowTime::computed(kind, false)).call(vec![Expr::Column(time.clone())]);
    let overlapping = kind.size_ms / kind.slide_ms;
    if overlapping == 1 {
        let end = ScalarUDF::from(WindowTime::computed(kind, true)).call(vec![Expr::Column(time)]);
        columns.extend([start.alias(WINDOW_START), end.alias(WINDOW_END)]);
        return LogicalPlanBuilder::from(rows).project(columns)?.build();
    }
    let shifts = (0..overlapping).map(|slides| vec![lit(interval(slides * kind.slide_ms))]).collect();
    let shifts = LogicalPlanBuilder::values(shifts)?.project([ident("column1").alias(SHIFT)])?.build()?;
    let begins = start - ident(SHIFT);
    columns.extend([begins.clone().alias(WINDOW_START), (begins + lit(interval(kind.size_ms))).alias(WINDOW_END)]);
    LogicalPlanBuilder::from(rows).cross_join(shifts)?.project(columns)?.build()
}

/// Column of how far a window is before the last one that a row is in.
const SHIFT: &str = " slides before";

fn interval(ms: i64) -> ScalarValue {
    ScalarValue::new_interval_mdn(0, 0, ms.saturating_mul(1_000_000))
}

/// A relation of the stream, whose rows are those of one window.
fn of_stream(
    rows: LogicalPlan,
    time: &SqlColumn,
    kind: WindowKind,
    standing: &Arc<StatementContext>,
) -> Result<LogicalPlan> {
    let inner = windows_of(&rows)?;
    if standing.found().sessions.iter().any(|session| inner.contains(&session.relation)) {
        return plan_err!("a window is of flows or of windows, and not of sessions");
    }
    let column = match inner.first() {
        // windows of what windows gave: by the time of the rows that those are made of
        Some(relation) => standing.found().windows.get(*relation).map(|spec| spec.time),
        None => origin(&rows, time),
    };
    let Some(column) = column else {
        return plan_err!("'{}' is no time of flows\nhint: use received, start or end", time.name);
    };
    if column != standing.time {
        let (name, usual) = (column.name(), standing.time.name());
        return plan_err!(
            "windows go by '{name}', and the watch by '{usual}'\nhint: write time = \"{name}\" in the file of the watch"
        );
    }
    let relation = {
        let mut found = standing.found();
        found.windows.push(WindowSpec { kind, time: column });
        found.windows.len() - 1
    };
    let place = Place { slot: Arc::clone(&standing.slot), relation };
    let of_window = || Arc::new(WindowTable::new(Table::Flows.schema(), place.clone())) as Arc<dyn TableProvider>;
    let rows = over_each_window(rows, kind)?;
    let rows = with_sources(rows, &|table| match table {
        Source::Base(Table::Flows) | Source::Window => Some(of_window()),
        Source::Base(_) => None,
    })?;
    let mut columns: Vec<Expr> = rows.schema().columns().into_iter().map(Expr::Column).collect();
    for (name, is_end) in [(WINDOW_START, false), (WINDOW_END, true)] {
        let of_slot = ScalarUDF::from(WindowTime { kind, is_end, place: Some(place.clone()) });
        columns.push(of_slot.call(vec![Expr::Column(time.clone())]).alias(name));
    }
    LogicalPlanBuilder::from(rows).project(columns)?.build()
}

/// A plan over one window as one over all windows that its rows are in, which must be a whole number of them.
fn over_each_window(plan: LogicalPlan, outer: WindowKind) -> Result<LogicalPlan> {
    let plan = plan.transform_up_with_subqueries(|node| {
        node.map_expressions(|expression| {
            expression.transform_up(|expression| {
                let Expr::ScalarFunction(call) = expression else { return Ok(Transformed::no(expression)) };
                let Some(inner) = call.func.inner().downcast_ref::<WindowTime>() else {
                    return Ok(Transformed::no(Expr::ScalarFunction(call)));
                };
                let kind = inner.kind;
                if kind.size_ms != kind.slide_ms
                    || outer.size_ms % kind.size_ms != 0
                    || outer.slide_ms % kind.size_ms != 0
                {
                    return plan_err!("a window over windows must be a whole number of them, which must not overlap");
                }
                let computed = ScalarUDF::from(WindowTime::computed(kind, inner.is_end));
                Ok(Transformed::yes(computed.call(call.args)))
            })
        })
    })?;
    Ok(plan.data)
}

/// The archive in a range of times.
fn in_history(rows: LogicalPlan, standing: &Arc<StatementContext>, ranges: &[(Bound, Bound)]) -> Result<LogicalPlan> {
    standing.found().has_history = true;
    let rows = with_sources(rows, &|read| match read {
        Source::Base(table) => {
            Some(Arc::new(HistoryTable::new(table, Arc::clone(&standing.slot), Arc::clone(&standing.rows))) as _)
        }
        Source::Window => None,
    })?;
    let ranged = rows.transform_up_with_subqueries(|node| {
        let Some(table) = of_provider(&node, HistoryTable::table) else { return Ok(Transformed::no(node)) };
        let time = ident(time_column(table, standing.time));
        let condition = ranges
            .iter()
            .map(|(from, to)| time.clone().gt_eq(standing.bound(*from)).and(time.clone().lt(standing.bound(*to))));
        let condition = condition.reduce(Expr::or).unwrap_or_else(|| lit(false));
        Ok(Transformed::yes(LogicalPlanBuilder::from(node).filter(condition)?.build()?))
    })?;
    Ok(ranged.data)
}

/// The column of a table by which it is history.
fn time_column(table: Table, of_flows: Column) -> &'static str {
    match table {
        Table::Flows => of_flows.name(),
        Table::ExporterBooks => "minute",
        _ => "received",
    }
}

fn history(
    rows: LogicalPlan,
    call: &mut Call<'_>,
    standing: &Arc<StatementContext>,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let length = call.required("length")?;
    let length_ms = call.millis(length, context)?;
    let every_ms = match call.named("every") {
        Some(value) => call.millis(value, context)?,
        None => 1,
    };
    let bound = |plus_ms| Bound { anchor: Anchor::Start, plus_ms, every_ms, is_rounded_up: false };
    in_history(rows, standing, &[(bound(-length_ms), bound(0))])
}

fn same_time(
    rows: LogicalPlan,
    call: &mut Call<'_>,
    standing: &Arc<StatementContext>,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    const DAY_MS: i64 = 86_400_000;
    let days = call.required("days")?;
    let days = call.number(days, context)?;
    if !(1..=DAYS_MAX).contains(&days) {
        return plan_err!("SAME_TIME: {days} days, but 1 to {DAYS_MAX} can be looked back");
    }
    let width_ms = call.optional("width").map(|value| call.millis(value, context)).transpose()?;
    let every_ms = match call.named("every") {
        Some(value) => call.millis(value, context)?,
        None => 1,
    };
    let (from, to) = match width_ms {
        Some(width_ms) if width_ms > DAY_MS => return plan_err!("SAME_TIME: a width of more than a day is HISTORY"),
        Some(width_ms) => (Anchor::Middle(-(width_ms / 2)), Anchor::Middle(width_ms - width_ms / 2)),
        None => (Anchor::Start, Anchor::End),
    };
    let bound = |anchor, day: i64, is_rounded_up| Bound { anchor, plus_ms: -day * DAY_MS, every_ms, is_rounded_up };
    let ranges: Vec<_> = (1..=days).map(|day| (bound(from, day, false), bound(to, day, true))).collect();
    in_history(rows, standing, &ranges)
}
