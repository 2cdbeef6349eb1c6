//! The engine: an archive at one position, and the threads that answer questions about it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::datasource::ViewTable as SqlView;
use datafusion::error::DataFusionError;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{FunctionRegistry, SendableRecordBatchStream, SessionState, SessionStateBuilder};
use datafusion::logical_expr::{LogicalPlan, ScalarUDF};
use datafusion::optimizer::Analyzer;
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use futures::TryFutureExt;
use jiff::tz::TimeZone;
use weir_archive::{ArchiveHandle, HandleOptions, Position, Snapshot};
use weir_flow::Table;
use weir_flow::scaling::Corrections;
use weir_query::FlowQuery;
use weir_series::SeriesStore;

use crate::answer::Answer;
use crate::control::{QueryControl, Watch};
use crate::enrichment::{self, Enrichment, LoadedNames};
use crate::exact_literals::ExactLiterals;
use crate::exact_numbers::ExactNumbers;
use crate::inet::AddressTypes;
use crate::lengths::LengthsOfTime;
use crate::limits::batches::BoundBatches;
use crate::limits::{self, MemoryShares};
use crate::literals::AddressLiterals;
use crate::mistake::Mistake;
use crate::operators::Operators;
use crate::parameters::{ParameterValue, StatementDescription};
use crate::reported_names::{self, ReportedNames};
use crate::reports_table::ReportsTable;
use crate::scaling;
use crate::scan::ArchiveTable;
use crate::series_table::SeriesTable;
use crate::standing::planner::WindowPlanner;
use crate::statement::Parsed;
use crate::stored_flows::{StoredFlows, StoredTable};
use crate::stored_series::StoredSeries;
use crate::threads::{BusyThreads, RunningQuestions};
use crate::times_of_flows::TimesOfFlows;
use crate::user_tables::UserTable;
use crate::values::NamedValues;
use crate::view::FlowView;
use crate::{EngineError, TableDescription, describe, functions, statement, user_tables};

/// The part of the memory that indexes and frames may take, which several scans of one question share.
const CACHE_PART: usize = 32;

/// Limits of the engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Threads that work on a question; one per core by default.
    pub threads: usize,
    /// Memory that all running questions may use together, in octets. Half of it is for what they sort, group and join;
    /// beyond that they write to disk. Batches on their way, and values that are repeated for each row, are bounded by
    /// parts of the rest.
    pub memory_octets_max: usize,
    /// Space on disk that they may use, in octets.
    pub spill_octets_max: u64,
    /// Folder for what does not fit into memory; the system's folder of temporary files by default.
    pub spill_folder: Option<PathBuf>,
    /// Rows of a batch.
    pub batch_rows: usize,
    /// Files that are tables next to those of the archive.
    pub tables: Vec<UserTable>,
    /// Folder of statistics, which are the table `series`; without it there is no such table, unless another store has them.
    pub statistics: Option<PathBuf>,
    /// Statistics that another store keeps, in place of those in a folder.
    pub stored_series: Option<Arc<dyn StoredSeries>>,
    /// Folder of the journal of watches, whose reports are the table `reports`; without it there is no such table.
    pub reports: Option<PathBuf>,
    /// What is known about addresses and interfaces from files.
    pub enrichment: Arc<Enrichment>,
    /// Zone of times that are written without one, and of days in functions; UTC by default.
    pub zone: TimeZone,
    /// Sampling intervals that override what exporters report, for `bytes_scaled` and `packets_scaled`.
    pub corrections: Arc<Corrections>,
    /// What of the flows questions may see. Unless that is everything, `flows` is the only table of the archive, there is no
    /// table of statistics, and plans are not explained: these tell of flows that are not seen.
    pub view: FlowView,
    /// Whether scans filter, and leave out segments and pages that cannot hold a wanted row. Without, they give every row
    /// and the engine filters, which is for checking answers: they are the same. Default: yes.
    pub pruning: bool,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_octets_max: 2 << 30,
            spill_octets_max: 100 << 30,
            spill_folder: None,
            batch_rows: 8192,
            tables: Vec::new(),
            statistics: None,
            stored_series: None,
            reports: None,
            enrichment: Arc::default(),
            zone: TimeZone::UTC,
            corrections: Arc::default(),
            view: FlowView::default(),
            pruning: true,
        }
    }
}

/// Answers questions about an archive at one position.
///
/// Every question to one engine sees the same rows; to see newer ones, open another. Several may run at a time, each in
/// threads of its own.
pub struct Engine {
    context: SessionContext,
    /// Threads of a question.
    threads: usize,
    running: RunningQuestions,
    /// Flows as they are kept. Tables keep the files of their position from being deleted.
    flows: Arc<dyn TableProvider>,
    /// `None` when the flows are not those of an archive.
    position: Option<Position>,
    reported: LoadedNames,
    /// Whether everything is seen.
    is_whole: bool,
}

impl Engine {
    /// Opens the archive in `folder` at its newest position.
    pub fn open(folder: &Path, options: &EngineOptions) -> Result<Self, EngineError> {
        let cached = HandleOptions { cache_octets_max: (options.memory_octets_max / CACHE_PART) as u64 };
        let snapshot = ArchiveHandle::open(folder, &cached).and_then(|handle| handle.snapshot());
        Self::over(&Arc::new(snapshot.map_err(EngineError::Archive)?), options)
    }

    /// An engine at the position of `snapshot`.
    pub fn over(snapshot: &Arc<Snapshot>, options: &EngineOptions) -> Result<Self, EngineError> {
        Self::over_on(snapshot, options, &QueryControl::default())
    }

    /// As [`over`](Self::over), where reading the files of the caller is watched and limited by `control`.
    pub fn over_on(
        snapshot: &Arc<Snapshot>,
        options: &EngineOptions,
        control: &QueryControl,
    ) -> Result<Self, EngineError> {
        let provider = |table: Table| Arc::new(ArchiveTable::new(table, Arc::clone(snapshot), options.pruning));
        let flows = ArchiveTable::new(Table::Flows, Arc::clone(snapshot), options.pruning);
        let flows = Arc::new(flows.seen_through(options.view.clone()));
        let engine = Self::with_flows(flows, Some(snapshot.position()), options)?;
        if !options.view.is_whole() {
            return engine.with_tables(options, control);
        }
        for &table in Table::ALL.iter().filter(|table| **table != Table::Flows) {
            engine.context.register_table(table.name(), provider(table)).map_err(EngineError::plan)?;
        }
        engine.with_statistics(options)?.with_reports(options)?.with_tables(options, control)
    }

    /// An engine over flows that another store keeps. Its other tables are those that the options name.
    pub fn over_stored(
        store: Arc<dyn StoredFlows>,
        options: &EngineOptions,
        control: &QueryControl,
    ) -> Result<Self, EngineError> {
        if !options.view.is_whole() {
            return Err(EngineError::plan(DataFusionError::NotImplemented(
                "flows of another store have no views".to_owned(),
            )));
        }
        Self::with_flows(Arc::new(StoredTable::new(store)), None, options)?
            .with_statistics(options)?
            .with_reports(options)?
            .with_tables(options, control)
    }

    /// An engine with the table `flows`.
    fn with_flows(
        flows: Arc<dyn TableProvider>,
        position: Option<Position>,
        options: &EngineOptions,
    ) -> Result<Self, EngineError> {
        let threads = options.threads.max(1);
        let shares = MemoryShares::of(options.memory_octets_max, threads, options.batch_rows);
        let runtime = runtime_env(options, shares).map_err(|error| EngineError::Start(std::io::Error::other(error)))?;
        let mut state = session(options, threads, Arc::new(runtime), false)?;
        let reported = LoadedNames::default();
        for function in enrichment::functions(&options.enrichment, &reported) {
            state.register_udf(function).map_err(EngineError::plan)?;
        }
        let planner = WindowPlanner::batch(&state);
        state.register_relation_planner(Arc::new(planner)).map_err(EngineError::plan)?;
        let context = SessionContext::new_with_state(state);
        let planned = EngineError::plan;
        let corrections = options.view.corrections(&options.corrections);
        let kept = context.read_table(Arc::clone(&flows)).map_err(planned)?;
        let scaled = Arc::new(SqlView::new(scaling::with_scaled(kept, &corrections).map_err(planned)?, None));
        context.register_table(Table::Flows.name(), scaled).map_err(planned)?;
        let is_whole = options.view.is_whole();
        Ok(Self { context, threads, running: RunningQuestions::default(), flows, position, reported, is_whole })
    }

    /// The same with statistics as a table.
    fn with_statistics(self, options: &EngineOptions) -> Result<Self, EngineError> {
        let store = match (&options.stored_series, &options.statistics) {
            (Some(store), _) => Arc::clone(store),
            (None, None) => return Ok(self),
            (None, Some(folder)) => match SeriesStore::open(folder) {
                Ok(store) => Arc::new(Arc::new(store)) as Arc<dyn StoredSeries>,
                // questions about flows do not fail because of statistics
                Err(error) => {
                    tracing::warn!("there is no table series: {error}");
                    return Ok(self);
                }
            },
        };
        let table = Arc::new(SeriesTable::new(store));
        self.context.register_table("series", table).map_err(EngineError::plan)?;
        Ok(self)
    }

    /// The same with the reports of watches as a table.
    fn with_reports(self, options: &EngineOptions) -> Result<Self, EngineError> {
        // a file of the caller has the name before
        let is_taken = options.tables.iter().any(|table| table.name == weir_reports::table::NAME);
        if let Some(journal) = options.reports.as_deref().filter(|_| !is_taken) {
            let table = Arc::new(ReportsTable::new(journal));
            self.context.register_table(weir_reports::table::NAME, table).map_err(EngineError::plan)?;
        }
        Ok(self)
    }

    /// The same with files of the caller as tables.
    fn with_tables(self, options: &EngineOptions, control: &QueryControl) -> Result<Self, EngineError> {
        if !options.tables.is_empty() {
            self.add_tables(options.tables.clone(), control)?;
        }
        Ok(self)
    }

    /// Adds files of the caller as tables: they are read to find out what their columns hold.
    fn add_tables(&self, tables: Vec<UserTable>, control: &QueryControl) -> Result<(), EngineError> {
        let context = self.context.clone();
        let register = async move {
            for table in &tables {
                user_tables::register(&context, table).await?;
            }
            Ok(())
        };
        self.running.start(self.threads)?.wait(register, &Watch::new(control, self.is_whole))
    }

    /// The position of the archive that every question sees; `None` when the flows are not those of an archive.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// Asks in SQL. One statement that only reads: SELECT, EXPLAIN, SHOW or DESCRIBE.
    ///
    /// Must not be called from an asynchronous task: planning blocks.
    pub fn sql(&self, text: &str) -> Result<Answer, EngineError> {
        self.sql_on(text, &QueryControl::default())
    }

    /// As [`sql`](Self::sql), watched and limited by `control`.
    pub fn sql_on(&self, text: &str, control: &QueryControl) -> Result<Answer, EngineError> {
        self.sql_with(text, &[], control)
    }

    /// As [`sql_on`](Self::sql_on), with values in place of `$1`, `$2` and so on.
    pub fn sql_with(
        &self,
        text: &str,
        values: &[ParameterValue],
        control: &QueryControl,
    ) -> Result<Answer, EngineError> {
        if self.position.is_some() && self.is_whole && self.reported.get().is_none() && enrichment::needs_reported(text)
        {
            let mut names = ReportedNames::default();
            for batch in self.planned(reported_names::REPORTED, &[], control)? {
                names.add(&batch?);
            }
            // another thread may have been first, with the same names
            let _ = self.reported.set(names);
        }
        self.planned(text, values, control)
    }

    fn planned(&self, text: &str, values: &[ParameterValue], control: &QueryControl) -> Result<Answer, EngineError> {
        let (context, statement, progress) =
            (self.context_on(control)?, text.to_owned(), Arc::clone(&control.progress));
        let (values, is_whole) = (values.to_vec(), self.is_whole);
        let plan = async move {
            let parsed = parsed(&context, &statement, is_whole)?;
            let quoted = parsed.quoted();
            let answer = statement::answer(&context, parsed, &values, &progress).await;
            let original = |line, column| quoted.original(line, column);
            answer.map_err(|error| mistake(&context, &statement, &error, &original))
        };
        self.answer(plan, control)
    }

    /// What a statement takes and gives, without answering it. `declared` are the types of its parameters that the caller knows.
    ///
    /// Must not be called from an asynchronous task: planning blocks.
    pub fn describe_on(
        &self,
        text: &str,
        declared: &[Option<DataType>],
        control: &QueryControl,
    ) -> Result<StatementDescription, EngineError> {
        let (context, statement, declared) = (self.context_on(control)?, text.to_owned(), declared.to_vec());
        let is_whole = self.is_whole;
        let plan = async move {
            let parsed = parsed(&context, &statement, is_whole)?;
            let quoted = parsed.quoted();
            let original = |line, column| quoted.original(line, column);
            let description = statement::description(&context, parsed, &declared).await;
            description.map_err(|error| mistake(&context, &statement, &error, &original))
        };
        self.running.start(self.threads)?.wait(plan, &Watch::new(control, self.is_whole))
    }

    /// The tables, and what their columns hold.
    pub fn tables(&self) -> Vec<TableDescription> {
        describe::described(&self.context)
    }

    /// Adds tables under a schema of their own, which statements name before the table.
    pub fn add_schema(&self, name: &str, tables: Arc<dyn SchemaProvider>) -> Result<(), EngineError> {
        let catalog = self.context.catalog("datafusion");
        let added = catalog.map(|catalog| catalog.register_schema(name, tables));
        added.transpose().map(drop).map_err(EngineError::plan)
    }

    /// Adds a function, in place of one of the same name.
    pub fn add_function(&self, function: ScalarUDF) {
        self.context.register_udf(function);
    }

    /// Asks as nfdump does: a filter, a time window, and what to make of the flows that pass.
    ///
    /// Must not be called from an asynchronous task: planning blocks.
    pub fn ask(&self, question: &FlowQuery) -> Result<Answer, EngineError> {
        self.ask_on(question, &QueryControl::default())
    }

    /// As [`ask`](Self::ask), watched and limited by `control`.
    pub fn ask_on(&self, question: &FlowQuery, control: &QueryControl) -> Result<Answer, EngineError> {
        let (context, flows, question) = (self.context_on(control)?, Arc::clone(&self.flows), question.clone());
        let plan = async move {
            let flows = flows_of(&context, &flows, &question).await?;
            let rows = crate::ask::plan(&question, flows)?.execute_stream().await?;
            Ok(crate::ask::named(&question, rows))
        };
        self.answer(plan.map_err(EngineError::plan), control)
    }

    /// What all flows that a question asks about carried together, whatever it makes of them and however few rows of
    /// that it wants.
    ///
    /// Must not be called from an asynchronous task: planning blocks.
    pub fn totals_on(&self, question: &FlowQuery, control: &QueryControl) -> Result<Totals, EngineError> {
        let (context, flows, question) = (self.context_on(control)?, Arc::clone(&self.flows), question.clone());
        let plan = async move {
            let flows = flows_of(&context, &flows, &question).await?;
            crate::ask::totals(&question, flows)?.execute_stream().await
        };
        let mut totals = Totals::default();
        for batch in self.answer(plan.map_err(EngineError::plan), control)? {
            totals.add(&batch?);
        }
        Ok(totals)
    }

    /// Plans a question in threads of its own, and begins to answer it.
    fn answer(
        &self,
        plan: impl Future<Output = Result<SendableRecordBatchStream, EngineError>> + Send + 'static,
        control: &QueryControl,
    ) -> Result<Answer, EngineError> {
        let watch = Watch::new(control, self.is_whole);
        let threads = self.running.start(self.threads)?;
        let rows = threads.wait(plan, &watch)?;
        Ok(Answer::spawn(threads, rows, watch))
    }

    /// Ends whatever still runs and removes what it wrote to disk; waits for that at most so long, and then removes it from
    /// below threads that are still busy, which are given back: whoever limits questions counts theirs until they have ended.
    ///
    /// A dropped engine does neither, and when the process then ends, files that did not fit into memory may stay.
    pub fn close(self, wait_max: Duration) -> Option<BusyThreads> {
        self.running.end();
        if self.running.ending.wait(wait_max) {
            return None;
        }
        for folder in self.context.runtime_env().disk_manager.temp_dir_paths() {
            // what cannot be removed now goes with the thread that uses it
            let _ = std::fs::remove_dir_all(folder);
        }
        Some(BusyThreads(Arc::clone(&self.running.ending)))
    }

    /// The context of one question: scans find its progress there, and sums note there that they do not fit.
    fn context_on(&self, control: &QueryControl) -> Result<SessionContext, EngineError> {
        let mut state = self.context.state();
        state.config_mut().set_extension(Arc::clone(&control.progress));
        functions::note_saturation(&mut state, control.progress.saturation()).map_err(EngineError::plan)?;
        Ok(SessionContext::new_with_state(state))
    }

    /// The plan of a question, before it is optimised.
    pub fn plan_of(&self, question: &FlowQuery) -> Result<LogicalPlan, EngineError> {
        let (context, flows, question) = (self.context.clone(), Arc::clone(&self.flows), question.clone());
        let plan = async move { crate::ask::plan(&question, flows_of(&context, &flows, &question).await?) };
        let watch = Watch::new(&QueryControl::default(), self.is_whole);
        let planned = self.running.start(self.threads)?.wait(plan.map_err(EngineError::plan), &watch);
        planned.map(DataFrame::into_unoptimized_plan)
    }
}

/// Parses a statement. Who does not see the whole of the flows is shown no plan.
fn parsed(context: &SessionContext, statement: &str, is_whole: bool) -> Result<Parsed, EngineError> {
    let parsed = Parsed::new(context, statement);
    let parsed = parsed.and_then(|parsed| if is_whole { Ok(parsed) } else { parsed.unexplained() });
    parsed.map_err(|error| mistake(context, statement, &error, &|_, column| column))
}

/// What is wrong with a statement; `original` is that of [`Mistake::explain`].
fn mistake(
    context: &SessionContext,
    statement: &str,
    error: &DataFusionError,
    original: &dyn Fn(u64, u64) -> u64,
) -> EngineError {
    EngineError::known(error).unwrap_or_else(|| {
        let tables = describe::table_names(context);
        let tables: Vec<_> = tables.iter().map(String::as_str).collect();
        Mistake::explain(statement, error, &tables, original).into()
    })
}

/// Flows with the counts that a question is about; `kept` are those of the archive.
async fn flows_of(
    context: &SessionContext,
    kept: &Arc<dyn TableProvider>,
    question: &FlowQuery,
) -> datafusion::common::Result<DataFrame> {
    if question.scaled {
        scaling::in_place_of_counts(context.table(Table::Flows.name()).await?)
    } else {
        context.read_table(Arc::clone(kept))
    }
}

/// What flows carried together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Flows.
    pub flows: u64,
    /// Packets.
    pub packets: u64,
    /// Octets.
    pub bytes: u64,
}

impl Totals {
    /// Adds the rows of a batch, which has the columns `flows`, `packets` and `bytes`.
    pub fn add(&mut self, batch: &RecordBatch) {
        let sum = |name| {
            let values = batch.column_by_name(name).and_then(|values| values.as_primitive_opt::<UInt64Type>());
            values.and_then(arrow::compute::sum).unwrap_or(0)
        };
        self.flows = self.flows.saturating_add(sum("flows"));
        self.packets = self.packets.saturating_add(sum("packets"));
        self.bytes = self.bytes.saturating_add(sum("bytes"));
    }
}

impl Drop for Engine {
    /// Ends what runs without waiting, so that an engine may also be dropped by an asynchronous task.
    fn drop(&mut self) {
        self.running.end();
    }
}

/// A session with our functions, rules and limits, whose memory is that of `runtime`. Statements are asked once, or about each
/// window if they are standing.
pub(crate) fn session(
    options: &EngineOptions,
    threads: usize,
    runtime: Arc<RuntimeEnv>,
    is_standing: bool,
) -> Result<SessionState, EngineError> {
    let mut config = SessionConfig::new()
        .with_target_partitions(threads)
        .with_batch_size(options.batch_rows.max(1))
        .with_information_schema(true);
    config.options_mut().sql_parser.collect_spans = true;
    // Five-tuples hardly repeat: grouping them in each partition first, before the partitions exchange rows, builds
    // every table twice for nothing. The engine finds that out after this many rows; by default only after 100,000.
    config.options_mut().execution.skip_partial_aggregation_probe_rows_threshold = 16_384;
    let shares = MemoryShares::of(options.memory_octets_max, threads, options.batch_rows);
    let mut rules = Analyzer::new().rules;
    rules.insert(0, Arc::new(AddressLiterals));
    rules.insert(1, Arc::new(NamedValues { zone: options.zone.clone(), is_standing }));
    rules.insert(2, Arc::new(LengthsOfTime));
    rules.insert(3, Arc::new(ExactLiterals));
    if options.enrichment.has_versions() {
        rules.insert(2, Arc::new(TimesOfFlows { tables: Arc::clone(&options.enrichment) }));
    }
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features()
        .with_analyzer_rules(rules)
        .with_type_planner(Arc::new(AddressTypes))
        .with_physical_optimizer_rule(Arc::new(BoundBatches(shares)))
        .build();
    functions::register(&mut state).map_err(EngineError::plan)?;
    state.register_expr_planner(Arc::new(Operators)).map_err(EngineError::plan)?;
    state.register_expr_planner(Arc::new(ExactNumbers)).map_err(EngineError::plan)?;
    limits::functions::register(&mut state, shares).map_err(EngineError::plan)?;
    Ok(state)
}

pub(crate) fn runtime_env(options: &EngineOptions, shares: MemoryShares) -> datafusion::common::Result<RuntimeEnv> {
    let mode = match &options.spill_folder {
        Some(folder) => DiskManagerMode::Directories(vec![folder.clone()]),
        None => DiskManagerMode::OsTmpDirectory,
    };
    let disk = DiskManagerBuilder::default().with_mode(mode).with_max_temp_directory_size(options.spill_octets_max);
    RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(FairSpillPool::new(shares.pool)))
        .with_disk_manager_builder(disk)
        .build()
}
