//! A standing question, and the engine that answers it.

mod collected;
mod early;
mod explained;
mod shared_panes;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::datasource::ViewTable as SqlView;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::prelude::{SQLOptions, SessionContext};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use tokio::runtime::{Builder, Runtime};
use weir_archive::Snapshot;
use weir_flow::{Column, Table};
use weir_query::SaturationFlag;

use self::shared_panes::{SharedPanes, split_of};
use super::cache::{HistoryCache, is_worth};
use super::dialect;
use super::history::BaseTable;
use super::history_counters::HistoryCounters;
use super::key_rows::KeyRows;
use super::keys::{live_parts, narrowed};
use super::live::{Live, LiveParts};
use super::made_rows::MadeRows;
use super::options::{QuerySetup, StandingOptions};
use super::planner::WindowPlanner;
use super::row_filter::RowFilter;
use super::session::{SessionInput, SessionRelation};
use super::silence::Silence;
use super::slot::{RelationRows, Slot, SlotContent, Window, WindowRows};
use super::sources::{columns_of, of_provider, windows_of};
use super::statement::{Bound, StatementContext, bound_of, check_times};
use super::window_memory::{QuestionMemory, WindowMemory};
use super::window_table::WindowTable;
use super::window_time::WindowSpec;
use crate::engine::{EngineOptions, runtime_env, session};
use crate::limits::MemoryShares;
use crate::mistake::{Mistake, phrases};
use crate::{EngineError, describe, exact_literals, functions, scaling, statement_size, unanswered};

/// Divisor of the memory: cached answers about history may take this share, cached rows another one.
const CACHE_PART: usize = 4;
/// A window that has nothing in common with the first one.
const FAR: Window = Window { start_ms: 4_000_000_000_000, end_ms: 4_000_000_060_000 };
/// Stack of a thread: plans of deep expressions are walked recursively.
const STACK_OCTETS: usize = 8 << 20;

/// Prepares standing questions, which share its memory.
#[derive(Debug)]
pub struct StandingEngine {
    runtime: Arc<RuntimeEnv>,
    options: EngineOptions,
    cache: Arc<HistoryCache>,
    rows: Arc<KeyRows>,
    /// Threads for what reads history alone.
    wide: Arc<Runtime>,
    windows: Arc<WindowMemory>,
}

impl StandingEngine {
    /// An engine without questions.
    pub fn new(options: &StandingOptions) -> Result<Self, EngineError> {
        let windows = WindowMemory::new(options.window_octets_max);
        let options = EngineOptions {
            threads: 1,
            memory_octets_max: options.memory_octets_max,
            spill_folder: options.spill_folder.clone(),
            corrections: Arc::clone(&options.corrections),
            ..EngineOptions::default()
        };
        let shares = MemoryShares::of(options.memory_octets_max, 1, options.batch_rows);
        let runtime = runtime_env(&options, shares).map_err(EngineError::plan)?;
        let cache = Arc::new(HistoryCache::new(options.memory_octets_max / CACHE_PART));
        let rows = Arc::new(KeyRows::new(options.memory_octets_max / CACHE_PART));
        let mut wide = Builder::new_multi_thread();
        let wide = wide.thread_name("history").thread_stack_size(STACK_OCTETS).enable_time().build();
        let wide = Arc::new(wide.map_err(EngineError::Start)?);
        Ok(Self { runtime: Arc::new(runtime), options, cache, rows, wide, windows })
    }

    /// Memory for the windows of another question.
    pub fn window_memory(&self) -> QuestionMemory {
        self.windows.question()
    }

    /// What is kept of history.
    pub fn history_counters(&self) -> HistoryCounters {
        HistoryCounters::new(&self.cache, &self.rows)
    }

    /// Plans a statement. Must not be called from an asynchronous task.
    pub fn prepare(&self, text: &str, setup: &QuerySetup) -> Result<StandingQuery, EngineError> {
        self.planned(text, setup, false)
    }

    fn planned(&self, text: &str, setup: &QuerySetup, is_early: bool) -> Result<StandingQuery, EngineError> {
        let runtime = Builder::new_current_thread().enable_time().build().map_err(EngineError::Start)?;
        let standing = Arc::new(StatementContext {
            slot: Arc::new(Slot::default()),
            rows: Arc::clone(&self.rows),
            time: setup.time,
            saturation: SaturationFlag::default(),
            found: Mutex::default(),
        });
        let options = EngineOptions { zone: setup.zone.clone(), ..self.options.clone() };
        let mut state = session(&options, 1, Arc::clone(&self.runtime), true)?;
        functions::note_saturation(&mut state, &standing.saturation).map_err(EngineError::plan)?;
        // a plan that runs again and again must not keep what one run learned
        state.config_mut().options_mut().optimizer.enable_dynamic_filter_pushdown = false;
        let planner = WindowPlanner::standing(&state, &standing);
        state.register_relation_planner(Arc::new(planner)).map_err(EngineError::plan)?;
        let context = SessionContext::new_with_state(state);
        self.add_tables(&context)?;
        for (name, view) in &setup.views {
            let plan = runtime.block_on(planned(&context, view, setup))?;
            let view = Arc::new(SqlView::new(plan, None));
            context.register_table(name.as_str(), view).map_err(EngineError::plan)?;
        }
        let plan = runtime.block_on(planned(&context, text, setup))?;
        let threads = Threads { one: runtime, wide: Arc::clone(&self.wide) };
        let asked = context.clone();
        let panes = SharedPanes { is_early, ..SharedPanes::default() };
        StandingQuery::new(threads, context, (plan, panes), &standing, &self.cache).map_err(|error| match error {
            EngineError::Plan(error) => explained(&asked, text, &error),
            other => other,
        })
    }

    fn add_tables(&self, context: &SessionContext) -> Result<(), EngineError> {
        let planned = EngineError::plan;
        let flows = context.read_table(Arc::new(BaseTable(Table::Flows))).map_err(planned)?;
        let scaled = SqlView::new(scaling::with_scaled(flows, &self.options.corrections).map_err(planned)?, None);
        context.register_table(Table::Flows.name(), Arc::new(scaled)).map_err(planned)?;
        for &table in Table::ALL.iter().filter(|table| **table != Table::Flows) {
            context.register_table(table.name(), Arc::new(BaseTable(table))).map_err(planned)?;
        }
        Ok(())
    }
}

/// The plan of a statement, before it is optimised.
async fn planned(context: &SessionContext, text: &str, setup: &QuerySetup) -> Result<LogicalPlan, EngineError> {
    // rewriting it walks groups in groups recursively
    statement_size::check_text(text, &GenericDialect {}).map_err(|error| explained(context, text, &error))?;
    let text = dialect::rewritten(text, &setup.parameters)?;
    let plan = async {
        statement_size::check_text(&text, &GenericDialect {})?;
        let state = context.state();
        let dialect = state.config().options().sql_parser.dialect;
        let mut statement = state.sql_to_statement(&text, &dialect)?;
        statement_size::check_reads(&statement)?;
        unanswered::check(&statement)?;
        exact_literals::keep_texts(&mut statement);
        let plan = state.statement_to_plan(statement).await?;
        statement_size::check_plan(&plan)?;
        let read_only = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        read_only.verify_plan(&plan)?;
        Ok(plan)
    };
    let plan = plan.await.map_err(|error: DataFusionError| explained(context, &text, &error))?;
    if matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_)) {
        let hint = Some("weir watch explain prints how a watch is answered".to_owned());
        let message = "EXPLAIN has no answer that could be reported".to_owned();
        return Err(EngineError::from(Mistake { message, place: None, hint }));
    }
    Ok(plan)
}

fn explained(context: &SessionContext, text: &str, error: &DataFusionError) -> EngineError {
    if let Some(known) = EngineError::known(error) {
        return known;
    }
    let tables = describe::table_names(context);
    let tables: Vec<_> = tables.iter().map(String::as_str).collect();
    let mut mistake = Mistake::explain(text, error, &tables, &|_, column| column);
    // the general hint is about the prompt of `weir sql`
    if mistake.message == phrases::SEVERAL_STATEMENTS {
        mistake.hint = Some("a watch has one statement: put each of them into a file of its own".to_owned());
    }
    EngineError::from(mistake)
}

/// Where a statement runs.
struct Threads {
    /// The thread that asks.
    one: Runtime,
    /// For what reads history alone.
    wide: Arc<Runtime>,
}

/// A statement that is asked for each window.
pub struct StandingQuery {
    threads: Threads,
    context: SessionContext,
    slot: Arc<Slot>,
    plan: LogicalPlan,
    /// The physical plan, when it is the same for each window.
    kept: Option<Arc<dyn ExecutionPlan>>,
    bounds: Vec<Bound>,
    windows: Vec<Option<WindowSpec>>,
    columns: Vec<Column>,
    has_history: bool,
    silence: Silence,
    live: LiveParts,
    /// Whether a sum that the last answer was made of does not fit.
    saturation: SaturationFlag,
    sessions: Option<SessionsRead>,
    panes: SharedPanes,
    cache: Arc<HistoryCache>,
}

/// The sessions of a statement, and the names of their columns that it reads.
#[derive(Debug)]
struct SessionsRead {
    relation: SessionRelation,
    columns: Vec<String>,
}

impl std::fmt::Debug for StandingQuery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StandingQuery").field("windows", &self.windows).finish_non_exhaustive()
    }
}

/// The sessions that a statement of these windows reads, which must be its only ones.
fn only_session(
    sessions: Vec<SessionRelation>,
    windows: &[Option<WindowSpec>],
) -> Result<Option<SessionRelation>, EngineError> {
    let is_used = |session: &SessionRelation| matches!(windows.get(session.relation), Some(Some(_)));
    let session = sessions.into_iter().find(is_used);
    if session.is_none() || windows.iter().flatten().count() == 1 {
        return Ok(session);
    }
    Err(EngineError::from(Mistake {
        message: "sessions end when their keys fall silent, and the other windows of the statement do not".to_owned(),
        place: None,
        hint: Some("make a watch of its own for the other windows, or name SESSION once, in WITH".to_owned()),
    }))
}

impl StandingQuery {
    fn new(
        threads: Threads,
        context: SessionContext,
        (plan, panes): (LogicalPlan, SharedPanes),
        standing: &Arc<StatementContext>,
        cache: &Arc<HistoryCache>,
    ) -> Result<Self, EngineError> {
        let found = std::mem::take(&mut *standing.found());
        let used = windows_of(&plan).map_err(EngineError::plan)?;
        let silence = Silence::new(&context.state(), &plan, found.has_history.then_some(standing.time));
        let windows = found.windows.iter().enumerate().map(|(at, spec)| used.contains(&at).then_some(*spec)).collect();
        let mut query = Self {
            threads,
            context,
            slot: Arc::clone(&standing.slot),
            plan,
            kept: None,
            bounds: found.bounds,
            windows,
            columns: Vec::new(),
            has_history: found.has_history,
            silence,
            live: LiveParts::default(),
            saturation: standing.saturation.clone(),
            sessions: None,
            panes,
            cache: Arc::clone(cache),
        };
        let session = only_session(found.sessions, &query.windows)?;
        query.check_windows()?;
        check_times(&query.plan)?;
        if let Some(session) = &session {
            check_times(session.rows())?;
        }
        let optimised = query.optimised(Window::default()).map_err(EngineError::plan)?;
        query.columns = columns_of(&optimised).map_err(EngineError::plan)?;
        if let Some(session) = session {
            query.take_sessions(session, &optimised)?;
        }
        let lasting = query.lasting(&optimised);
        if let Some(lasting) = lasting.as_ref().filter(|_| query.sessions.is_none()) {
            query.panes.filter = RowFilter::of(&query.context.state(), lasting).map_err(EngineError::plan)?;
        }
        // which window a row is in, whether it is dated after it was received, and whether it is read
        let times = query.windows.iter().flatten().map(|spec| spec.time).chain([Column::Received]);
        let needed: Vec<_> = times.chain(query.panes.filter.iter().flat_map(RowFilter::columns)).collect();
        for column in needed {
            if !query.columns.contains(&column) {
                query.columns.push(column);
            }
        }
        let filter = query.panes.filter.take();
        let (panes, optimised) = SharedPanes::of(&query, optimised, lasting).map_err(EngineError::plan)?;
        query.panes = SharedPanes { filter, ..panes };
        if query.has_history {
            query.live = query.live_planned().map_err(EngineError::plan)?;
        } else {
            query.kept = Some(query.physical(&optimised).map_err(EngineError::plan)?);
        }
        Ok(query)
    }

    /// Plans the parts that read the window alone.
    fn live_planned(&self) -> Result<LiveParts> {
        let of = |window| self.combined(self.optimised(window)?);
        let plans = [of(Window::default())?, of(FAR)?];
        LiveParts::new(&self.context.state(), &plans, |part| self.physical(part))
    }

    /// The plan that is the same for every window: with history, the bounds of its times are left open. `None` where that cannot
    /// be optimised.
    fn lasting(&self, optimised: &LogicalPlan) -> Option<LogicalPlan> {
        if self.has_history { self.context.state().optimize(&self.plan).ok() } else { Some(optimised.clone()) }
    }

    /// Keeps sessions, and finds the columns of flows that they are made of.
    fn take_sessions(&mut self, relation: SessionRelation, optimised: &LogicalPlan) -> Result<(), EngineError> {
        let mut columns = Vec::new();
        let found = optimised.apply_with_subqueries(|node| {
            if of_provider(node, WindowTable::relation).is_some() {
                columns.extend(node.schema().fields().iter().map(|field| field.name().clone()));
            }
            Ok(TreeNodeRecursion::Continue)
        });
        found.map_err(EngineError::plan)?;
        self.columns = SessionInput::new(&self.context, &relation, &columns)?.columns().to_vec();
        self.sessions = Some(SessionsRead { relation, columns });
        Ok(())
    }

    /// Whether its window is one of sessions.
    pub fn has_sessions(&self) -> bool {
        self.sessions.is_some()
    }

    /// What makes the rows of sessions of flows; `None` when the windows of the statement are none. Must not be called from an
    /// asynchronous task.
    pub fn session_input(&self) -> Result<Option<SessionInput>, EngineError> {
        let input = |sessions: &SessionsRead| SessionInput::new(&self.context, &sessions.relation, &sessions.columns);
        self.sessions.as_ref().map(input).transpose()
    }

    /// All windows of a statement end together.
    fn check_windows(&self) -> Result<(), EngineError> {
        let mistake = |message: &str, hint: &str| {
            Err(EngineError::from(Mistake { message: message.to_owned(), place: None, hint: Some(hint.to_owned()) }))
        };
        let mut specs = self.windows.iter().flatten();
        let Some(first) = specs.next() else {
            return mistake(
                "the statement has no window, so there is no time to ask it again",
                "read flows as TUMBLE(flows, received, INTERVAL '1' MINUTE)",
            );
        };
        let phase = |spec: &WindowSpec| (spec.kind.offset_ms + spec.kind.size_ms).rem_euclid(spec.kind.slide_ms);
        for spec in specs {
            let is_alike = spec.time == first.time && spec.kind.slide_ms == first.kind.slide_ms;
            if !is_alike || phase(spec) != phase(first) {
                return mistake(
                    "the windows of the statement do not end together",
                    "give all of them the same time, slide and offset; their sizes may differ",
                );
            }
        }
        Ok(())
    }

    /// The windows that the statement reads, by number; `None` for a number that is not used.
    pub fn windows(&self) -> &[Option<WindowSpec>] {
        &self.windows
    }

    /// The columns of flows that rows of windows must have, if they have a value.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Which rows of windows it reads; `None` when it reads all, or its windows are sessions.
    pub fn row_filter(&self) -> Option<&RowFilter> {
        self.panes.filter.as_ref()
    }

    /// Whether it asks the archive too.
    pub fn has_history(&self) -> bool {
        self.has_history
    }

    /// Windows that have no answer because they have no flows, and the archive nothing of the times that are asked.
    pub fn windows_passed(&self) -> u64 {
        self.silence.windows_passed()
    }

    /// Windows whose rows decided that there is no answer, whatever history has, so that it was not asked.
    pub fn windows_decided(&self) -> u64 {
        self.live.windows_decided()
    }

    /// Whether a sum that the last answer was made of does not fit into 64 bits, so that the nearest number that does stands for it.
    pub fn is_saturated(&self) -> bool {
        self.saturation.is_set()
    }

    /// Columns of the answer.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(self.plan.schema().inner())
    }

    /// Answers the statement about windows that ended together: the rows of each, in the order of
    /// [`windows`](Self::windows), and the archive, with at least the rows before them.
    ///
    /// Must not be called from an asynchronous task.
    pub fn answer(
        &mut self,
        rows: &[WindowRows],
        history: Option<&Arc<Snapshot>>,
        time_max: Duration,
    ) -> Result<Vec<RecordBatch>, EngineError> {
        self.saturation.clear();
        let first = rows.iter().zip(&self.windows).filter(|(_, spec)| spec.is_some()).map(|(rows, _)| rows.window);
        // history ends where the shortest of the windows begins
        let window = first.max_by_key(|window| window.start_ms).unwrap_or_default();
        if rows.iter().all(|rows| rows.panes.is_empty()) && self.silence.passes(&self.bounds, window, history) {
            return Ok(Vec::new());
        }
        let until = Instant::now() + time_max;
        let answer = self.put(rows, history, until).and_then(|()| self.run(window, until));
        *self.slot.held() = SlotContent::default();
        let answer = answer?;
        if answer.is_none() {
            self.live.add_decided();
        }
        Ok(answer.unwrap_or_default())
    }

    /// Puts the rows where the plan reads them: first those of windows, then the aggregates of their panes.
    fn put(&self, rows: &[WindowRows], history: Option<&Arc<Snapshot>>, until: Instant) -> Result<(), EngineError> {
        let mut aggregated = Vec::new();
        for (number, (aggregate, _)) in self.panes.aggregates.iter().enumerate() {
            let Some(WindowRows { window, panes }) = rows.get(aggregate.relation) else { continue };
            let made = panes.iter().map(|pane| pane.aggregated(number, |batches| self.make(number, batches, until)));
            let made = made.collect::<Result<Vec<_>, EngineError>>()?.into_iter();
            let batches = made.flat_map(|made| made.noted_in(&self.saturation)).collect();
            aggregated.push(RelationRows { window: *window, batches });
        }
        if self.panes.is_releasing {
            let aggregates = self.panes.aggregates.len();
            rows.iter().flat_map(|rows| &rows.panes).for_each(|pane| pane.release(aggregates));
        }
        let of_window = |rows: &WindowRows| RelationRows { window: rows.window, batches: rows.batches() };
        let mut held = self.slot.held();
        held.rows = rows.iter().map(of_window).chain(aggregated).collect();
        held.history = history.cloned();
        Ok(())
    }

    /// Aggregates the rows of one pane.
    fn make(&self, number: usize, batches: Vec<RecordBatch>, until: Instant) -> Result<MadeRows, EngineError> {
        let Some((aggregate, plan)) = self.panes.aggregates.get(number) else { return Ok(MadeRows::default()) };
        let mut of_pane = vec![RelationRows::default(); self.windows.len()];
        if let Some(place) = of_pane.get_mut(aggregate.relation) {
            place.batches = batches;
        }
        self.slot.held().rows = of_pane;
        MadeRows::of(&self.saturation, || self.collected_again(plan, until))
    }

    /// The answer; `None` when the rows of the window decided that there is none.
    fn run(&self, window: Window, until: Instant) -> Result<Option<Vec<RecordBatch>>, EngineError> {
        if let Some(kept) = &self.kept {
            return self.collected_again(kept, until).map(Some);
        }
        let Some(mut asked) = self.live.asked(|plan| self.collected_again(plan, until))? else {
            return Ok(None);
        };
        let mut plan = self.combined(self.optimised(window).map_err(EngineError::plan)?).map_err(EngineError::plan)?;
        if self.bounds.iter().any(|bound| is_worth(bound.every_ms)) {
            plan = self
                .cache
                .substituted(plan, &self.saturation, |part, octets_max| self.wide_answer(part, until, octets_max))?
                .map_err(EngineError::plan)?;
        }
        let parts = live_parts(&plan).map_err(EngineError::plan)?;
        let answers = parts.iter().map(|part| match self.live.of(part, &mut asked) {
            Some(Live::Rows(rows)) => Ok(rows),
            Some(Live::Plan(plan)) => self.collected_again(&plan, until),
            None => self.collected(self.physical(part).map_err(EngineError::plan)?, until),
        });
        let answers = answers.collect::<Result<Vec<_>, EngineError>>()?;
        let plan = if parts.is_empty() { Ok(plan) } else { narrowed(plan, answers) };
        let plan = plan.and_then(|plan| self.context.state().optimize(&plan)).map_err(EngineError::plan)?;
        Ok(Some(self.wide_answer(&plan, until, usize::MAX)?.unwrap_or_default()))
    }

    /// The plan over what panes made, if it is that which was prepared.
    fn combined(&self, optimised: LogicalPlan) -> Result<LogicalPlan> {
        if self.panes.aggregates.is_empty() || self.panes.combining.is_some() {
            return Ok(optimised);
        }
        let (plan, aggregates) = split_of(self, optimised.clone())?;
        let is_prepared = aggregates.len() == self.panes.aggregates.len()
            && aggregates.iter().zip(&self.panes.aggregates).all(|(now, (prepared, _))| now.is_same(prepared));
        Ok(if is_prepared { plan } else { optimised })
    }

    /// The plan for a window, optimised.
    fn optimised(&self, window: Window) -> Result<LogicalPlan> {
        let plan = self.panes.combining.as_ref().unwrap_or(&self.plan);
        let bound = plan.clone().transform_up_with_subqueries(|node| {
            node.map_expressions(|expression| {
                expression.transform_up(|expression| match &expression {
                    Expr::Placeholder(placeholder) => {
                        let bound = bound_of(placeholder).and_then(|number| self.bounds.get(number));
                        Ok(match bound {
                            Some(bound) => Transformed::yes(time(bound.at(window))),
                            None => Transformed::no(expression),
                        })
                    }
                    _ => Ok(Transformed::no(expression)),
                })
            })
        })?;
        self.context.state().optimize(&bound.data)
    }

    fn physical(&self, optimised: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
        let state: SessionState = self.context.state();
        let planner = Arc::clone(state.query_planner());
        self.threads.one.block_on(async { planner.create_physical_plan(optimised, &state).await })
    }

    /// Answers what reads history, on all cores; `None` when the answer has more octets than this.
    fn wide_answer(
        &self,
        part: &LogicalPlan,
        until: Instant,
        octets_max: usize,
    ) -> Result<Option<Vec<RecordBatch>>, EngineError> {
        let mut state = self.context.state();
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        state.config_mut().options_mut().execution.target_partitions = cores;
        let planner = Arc::clone(state.query_planner());
        // rows of history that are kept are read meanwhile
        let planning = async {
            let plan = planner.create_physical_plan(part, &state);
            tokio::time::timeout_at(until.into(), plan).await.map_err(|_| EngineError::AnswerTime)
        };
        let plan = self.threads.wide.block_on(planning)?;
        self.collected_on(&self.threads.wide, plan.map_err(EngineError::plan)?, until, octets_max)
    }

    /// Runs a plan that is kept.
    fn collected_again(&self, plan: &Arc<dyn ExecutionPlan>, until: Instant) -> Result<Vec<RecordBatch>, EngineError> {
        self.collected(reset_plan_states(Arc::clone(plan)).map_err(EngineError::run)?, until)
    }

    fn collected(&self, plan: Arc<dyn ExecutionPlan>, until: Instant) -> Result<Vec<RecordBatch>, EngineError> {
        Ok(self.collected_on(&self.threads.one, plan, until, usize::MAX)?.unwrap_or_default())
    }

    fn collected_on(
        &self,
        runtime: &Runtime,
        plan: Arc<dyn ExecutionPlan>,
        until: Instant,
        octets_max: usize,
    ) -> Result<Option<Vec<RecordBatch>>, EngineError> {
        runtime.block_on(collected::until(until, plan, self.context.task_ctx(), octets_max))
    }

    /// How the statement is answered: its windows, columns and plan.
    pub fn explain(&self) -> String {
        explained::text(self)
    }
}

fn time(ms: i64) -> Expr {
    Expr::Literal(ScalarValue::TimestampMillisecond(Some(ms), Some("UTC".into())), None)
}
