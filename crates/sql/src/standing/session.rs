//! Sessions: rows of one key that follow each other by less than a gap.
//!
//! `SESSION(t, time, gap [, key => …] [, cap => …] [, every => …])` adds `window_start` and `window_end` to the rows of `t`, as
//! the other windows do: the first row of a session, and a gap after its last. Over an archive a function of the rows of
//! a key, in the order of their times, says so. In a standing question the sessions that ended since the last look are a
//! relation; whoever asks puts flows through a [`SessionInput`], keeps the rows of open sessions, and gives those that ended.
//!
//! A host that never falls silent would make a session without an end, so a run of rows is cut: at a multiple of half of
//! the cap (since 1970), once it has lasted that half. So no session reaches the cap, and where it is cut follows from the rows of
//! the last cap and gap alone: a restart, and a backtest that begins anywhere, cut where others did. What speaks against
//! it is that the parts are not equally long.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, RecordBatch, TimestampMillisecondArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, TimeUnit, TimestampMillisecondType};
use datafusion::catalog::TableProvider;
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
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::Expr as Ast;
use tokio::runtime::{Builder, Runtime};
use weir_flow::{Column, Table};

use super::arguments::Call;
use super::planner::{
    Source, StatementContext, WINDOW_END, WINDOW_START, WindowPlanner, columns_of, of_provider, origin, windows_of,
    with_sources,
};
use super::slot::{Place, RelationRows, Slot, SlotContent, Window};
use super::window_table::WindowTable;
use super::window_time::{WindowKind, WindowSpec};
use crate::EngineError;

/// Gaps that a session may last, when no cap is given.
const CAP_GAPS: i64 = 12;
/// How often sessions that ended are looked for, when nothing else is given and the gap is not shorter.
const EVERY_MS: i64 = 1_000;

/// Sessions of one length of gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionKind {
    /// Rows of a session follow each other by less than this, in milliseconds.
    pub gap_ms: i64,
    /// A session is shorter than this, in milliseconds; at least two gaps.
    pub cap_ms: i64,
    /// How often sessions that ended are given, in milliseconds; at most a gap.
    pub every_ms: i64,
}

/// Rows of a key that follow each other by less than the gap, however long that lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The time of the first.
    pub start_ms: i64,
    /// The time of the last that is known.
    pub last_ms: i64,
}

/// A session, or what a cut made of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    /// The time of its first row.
    pub start_ms: i64,
    /// A gap after its last row, or where it was cut.
    pub end_ms: i64,
    /// Its rows.
    pub rows: usize,
    /// The run that it is of, up to its last row.
    pub run: Run,
}

impl SessionKind {
    /// The first session of rows, whose times are in order. `before` is the run of the rows before them.
    pub fn first(&self, before: Option<Run>, times: impl IntoIterator<Item = i64>) -> Option<Session> {
        let mut times = times.into_iter();
        let start_ms = times.next()?;
        let run_start_ms = match before {
            Some(run) if self.is_within_gap(run.last_ms, start_ms) => run.start_ms,
            _ => start_ms,
        };
        let cut_ms = self.next_cut(run_start_ms, start_ms);
        let (mut last_ms, mut rows) = (start_ms, 1);
        for time_ms in times {
            if time_ms >= cut_ms || !self.is_within_gap(last_ms, time_ms) {
                break;
            }
            (last_ms, rows) = (time_ms, rows + 1);
        }
        let end_ms = last_ms.saturating_add(self.gap_ms).min(cut_ms);
        Some(Session { start_ms, end_ms, rows, run: Run { start_ms: run_start_ms, last_ms } })
    }

    fn is_within_gap(&self, earlier_ms: i64, later_ms: i64) -> bool {
        later_ms.saturating_sub(earlier_ms) < self.gap_ms
    }

    /// Where a run is cut next after a row.
    fn next_cut(&self, run_start_ms: i64, row_ms: i64) -> i64 {
        let cut_every_ms = self.cap_ms / 2;
        let first_ms = run_start_ms.saturating_add(cut_every_ms);
        let first_cut_ms =
            first_ms.saturating_add(cut_every_ms - 1).div_euclid(cut_every_ms).saturating_mul(cut_every_ms);
        let cuts_before_ms = row_ms.div_euclid(cut_every_ms).saturating_mul(cut_every_ms);
        first_cut_ms.max(cuts_before_ms.saturating_add(if cuts_before_ms >= first_cut_ms { cut_every_ms } else { 0 }))
    }

    /// The time at which the session of a row may end at the earliest.
    pub fn earliest_end(&self, row_ms: i64) -> i64 {
        row_ms.saturating_add(self.gap_ms).min(self.next_cut(i64::MIN, row_ms))
    }

    /// How far back rows must be known to tell the sessions that end after a time.
    pub fn look_back_ms(&self) -> i64 {
        self.cap_ms.saturating_add(self.gap_ms)
    }

    fn checked(self, function: &str) -> Result<Self> {
        let Self { gap_ms, cap_ms, every_ms } = self;
        if cap_ms / 2 < gap_ms {
            return plan_err!("{function}: a cap of {cap_ms} ms is less than two gaps of {gap_ms} ms");
        }
        if every_ms > gap_ms {
            return plan_err!("{function}: every {every_ms} ms is more than a gap of {gap_ms} ms");
        }
        Ok(self)
    }

    fn windows(&self) -> WindowKind {
        let size_ms = self.look_back_ms().saturating_add(self.every_ms);
        WindowKind { size_ms, slide_ms: self.every_ms, offset_ms: 0 }
    }
}

/// The sessions of a standing question.
#[derive(Debug)]
pub(crate) struct SessionRelation {
    kind: SessionKind,
    pub(crate) relation: usize,
    /// Names of columns of `rows`.
    keys: Vec<String>,
    time: String,
    /// What makes the rows of flows, which are a window of a slot.
    rows: LogicalPlan,
}

impl SessionRelation {
    /// In one line, for people.
    pub(crate) fn text(&self) -> String {
        let span = |ms: i64| Duration::from_millis(ms.unsigned_abs());
        let SessionKind { gap_ms, cap_ms, every_ms } = self.kind;
        let (gap, cap, every) = (span(gap_ms), span(cap_ms), span(every_ms));
        let keys = if self.keys.is_empty() { "all flows".to_owned() } else { self.keys.join(", ") };
        format!("sessions: of {keys} by {}, gap {gap:?}, shorter than {cap:?}, given every {every:?}", self.time)
    }
}

impl WindowPlanner {
    /// Plans `SESSION(…)`.
    pub(super) fn session(
        &self,
        call: &mut Call<'_>,
        standing: Option<&Arc<StatementContext>>,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        let rows = self.relation(call, context)?;
        let time = super::planner::time_of(call, &rows, standing, context)?;
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
}

/// The columns of `key => a` or `key => (a, b)`.
fn keys(call: &mut Call<'_>, rows: &LogicalPlan, context: &mut dyn RelationPlannerContext) -> Result<Vec<SqlColumn>> {
    let given = match call.named("key") {
        None => return Ok(Vec::new()),
        Some(Ast::Tuple(keys)) => keys.clone(),
        Some(Ast::Nested(key)) => vec![key.as_ref().clone()],
        Some(key) => vec![key.clone()],
    };
    let column = |key: Ast| match context.sql_to_expr(key.clone(), rows.schema())? {
        Expr::Column(column) => Ok(column),
        _ => {
            let function = &call.function;
            plan_err!(
                "{function}: {key} is no column\nhint: name it in a subquery: (SELECT *, {key} AS name FROM flows)"
            )
        }
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
    if origin(rows, time) != Some(standing.time) {
        let usual = standing.time.name();
        return plan_err!(
            "sessions go by '{}', and the watch by '{usual}'\nhint: set `time` in the file of the watch",
            time.name
        );
    }
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

/// The flows that a slot holds.
fn flows_of(slot: &Arc<Slot>) -> Arc<dyn TableProvider> {
    Arc::new(WindowTable::new(Table::Flows.schema(), Place { slot: Arc::clone(slot), relation: 0 }))
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

fn time_type() -> DataType {
    DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()))
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

/// Makes the rows that sessions of a standing question are of out of flows.
pub struct SessionInput {
    runtime: Runtime,
    context: SessionContext,
    plan: Arc<dyn ExecutionPlan>,
    slot: Arc<Slot>,
    /// The sessions.
    pub kind: SessionKind,
    /// Columns of the rows by which sessions differ.
    pub keys: Vec<String>,
    /// The column of the rows with their time.
    pub time: String,
    columns: Vec<Column>,
}

impl std::fmt::Debug for SessionInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionInput").field("kind", &self.kind).field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl SessionInput {
    /// For a statement that reads these columns of the sessions.
    pub(crate) fn new(
        context: &SessionContext,
        relation: &SessionRelation,
        columns: &[String],
    ) -> Result<Self, EngineError> {
        let runtime = Builder::new_current_thread().enable_time().build().map_err(EngineError::Start)?;
        let SessionRelation { kind, keys, time, rows, .. } = relation;
        let (slot, state) = (Arc::new(Slot::default()), context.state());
        let is_read = |name: &String| columns.contains(name) || keys.contains(name) || name == time;
        let plan = || {
            let rows = with_sources(rows.clone(), &|table| match table {
                Source::Window => Some(flows_of(&slot)),
                Source::Base(_) => None,
            })?;
            let read = rows.schema().columns().into_iter().filter(|column| is_read(&column.name));
            let named = read.map(|column| Expr::Column(column.clone()).alias(column.name)).collect::<Vec<_>>();
            state.optimize(&LogicalPlanBuilder::from(rows).project(named)?.build()?)
        };
        let plan = plan().map_err(EngineError::plan)?;
        let columns = columns_of(&plan).map_err(EngineError::plan)?;
        let planner = Arc::clone(state.query_planner());
        let plan = runtime.block_on(async { planner.create_physical_plan(&plan, &state).await });
        let (plan, context) = (plan.map_err(EngineError::plan)?, context.clone());
        Ok(Self { runtime, context, plan, slot, kind: *kind, keys: keys.clone(), time: time.clone(), columns })
    }

    /// The columns of flows that it reads.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The rows that flows make, in the order of the flows. Must not be called from an asynchronous task.
    pub fn rows(&self, flows: &RecordBatch) -> Result<RecordBatch, EngineError> {
        let rows = vec![RelationRows { window: Window::default(), batches: vec![flows.clone()] }];
        *self.slot.held() = SlotContent { rows, history: None };
        let run = || {
            let plan = reset_plan_states(Arc::clone(&self.plan))?;
            let schema = plan.schema();
            let batches = self.runtime.block_on(collect(plan, self.context.task_ctx()))?;
            Ok(concat_batches(&schema, &batches)?)
        };
        let rows = run().map_err(EngineError::run);
        *self.slot.held() = SlotContent::default();
        rows
    }
}
