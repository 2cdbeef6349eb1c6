//! Sessions: rows of one key that follow each other by less than a gap.
//!
//! `SESSION(t, time, gap [, key => …] [, cap => …] [, every => …])` adds `window_start` and `window_end` to the rows of `t`, as
//! the other windows do: the first row of a session, and a gap after its last. Over an archive a function of the rows of
//! a key, in the order of their times, computes both. In a standing question the sessions that ended within a step are a
//! relation; the caller puts flows through a [`SessionInput`], keeps the rows of open sessions, and passes those that ended.
//!
//! A host that never falls silent would make a session without an end, so a run of rows is cut: at a multiple of half of
//! the cap (since 1970), once it has lasted that half. So no session reaches the cap, and where it is cut follows from the rows of
//! the last cap and gap alone: a restart, and a backtest that begins anywhere, cut where others did. What speaks against
//! it is that the parts are not equally long.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use tokio::runtime::{Builder, Runtime};
use weir_flow::{Column, Table};

use super::slot::{Place, RelationRows, Slot, SlotContent, Window};
use super::sources::{Source, columns_of, with_sources};
use super::window_table::WindowTable;
use super::window_time::WindowKind;
use crate::EngineError;

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

    /// How far back rows must be known to find the sessions that end after a time.
    pub fn look_back_ms(&self) -> i64 {
        self.cap_ms.saturating_add(self.gap_ms)
    }

    pub(super) fn checked(self, function: &str) -> Result<Self> {
        let Self { gap_ms, cap_ms, every_ms } = self;
        if cap_ms / 2 < gap_ms {
            return plan_err!("{function}: a cap of {cap_ms} ms is less than two gaps of {gap_ms} ms");
        }
        if every_ms > gap_ms {
            return plan_err!("{function}: every {every_ms} ms is more than a gap of {gap_ms} ms");
        }
        Ok(self)
    }

    pub(super) fn windows(&self) -> WindowKind {
        let size_ms = self.look_back_ms().saturating_add(self.every_ms);
        WindowKind { size_ms, slide_ms: self.every_ms, offset_ms: 0 }
    }
}

/// The sessions of a standing question.
#[derive(Debug)]
pub(crate) struct SessionRelation {
    pub(super) kind: SessionKind,
    pub(crate) relation: usize,
    /// Names of columns of `rows`.
    pub(super) keys: Vec<String>,
    pub(super) time: String,
    /// What makes the rows of flows, which are a window of a slot.
    pub(super) rows: LogicalPlan,
}

impl SessionRelation {
    /// What makes its rows of flows.
    pub(crate) fn rows(&self) -> &LogicalPlan {
        &self.rows
    }

    /// In one line, for people.
    pub(crate) fn text(&self) -> String {
        let span = |ms: i64| Duration::from_millis(ms.unsigned_abs());
        let SessionKind { gap_ms, cap_ms, every_ms } = self.kind;
        let (gap, cap, every) = (span(gap_ms), span(cap_ms), span(every_ms));
        let keys = if self.keys.is_empty() { "all flows".to_owned() } else { self.keys.join(", ") };
        format!("sessions: of {keys} by {}, gap {gap:?}, shorter than {cap:?}, given every {every:?}", self.time)
    }
}

/// The flows that a slot holds.
pub(super) fn flows_of(slot: &Arc<Slot>) -> Arc<dyn TableProvider> {
    Arc::new(WindowTable::new(Table::Flows.schema(), Place { slot: Arc::clone(slot), relation: 0 }))
}

pub(super) fn time_type() -> DataType {
    DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()))
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
