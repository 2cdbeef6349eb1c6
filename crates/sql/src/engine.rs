//! The engine: an archive at one position, and the threads that answer questions about it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use datafusion::datasource::ViewTable as SqlView;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::Analyzer;
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use tokio::runtime::Runtime;
use weir_archive::{Position, Snapshot};
use weir_flow::Table;
use weir_flow::scaling::Corrections;
use weir_query::FlowQuery;

use crate::answer::Answer;
use crate::control::{QueryControl, Watch};
use crate::literals::AddressLiterals;
use crate::mistake::Mistake;
use crate::scaling;
use crate::scan::ViewTable;
use crate::user_tables::UserTable;
use crate::view::{ArchiveView, SegmentFile, TableView};
use crate::{EngineError, describe, functions, statement, user_tables};

/// Limits of the engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Threads that work on a question; one per core by default.
    pub threads: usize,
    /// Memory that all running questions may use together for sorting, grouping and joining, in octets. Beyond it
    /// they write to disk. Batches in flight are not counted.
    pub memory_octets_max: usize,
    /// Space on disk that they may use, in octets.
    pub spill_octets_max: u64,
    /// Folder for what does not fit into memory; the system's folder of temporary files by default.
    pub spill_folder: Option<PathBuf>,
    /// Rows of a batch.
    pub batch_rows: usize,
    /// Files that are tables next to those of the archive.
    pub tables: Vec<UserTable>,
    /// Sampling intervals that override what exporters report, for `bytes_scaled` and `packets_scaled`.
    pub corrections: Corrections,
    /// Whether segments, row groups and pages are left out that cannot hold a wanted row. Every row is looked at
    /// without, which is for checking answers: they are the same. Default: yes.
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
            corrections: Corrections::default(),
            pruning: true,
        }
    }
}

/// Answers questions about an archive at one position.
///
/// Every question to one engine sees the same rows; to see newer ones, open another. Questions run in the engine's own
/// threads, several at a time.
pub struct Engine {
    context: SessionContext,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    /// Flows as they are kept.
    flows: Arc<ViewTable>,
    position: Position,
    /// Keeps the files of the position from being deleted.
    _guard: Option<Arc<dyn std::any::Any + Send + Sync>>,
}

impl Engine {
    /// Opens the archive in `folder` at its newest position.
    pub fn open(folder: &Path, options: &EngineOptions) -> Result<Self, EngineError> {
        let snapshot = Snapshot::open(folder).map_err(EngineError::Archive)?;
        let position = snapshot.position();
        let view = ArchiveView {
            tables: std::array::from_fn(|index| table_view(&snapshot, Table::ALL[index])),
            guard: Some(Arc::new(snapshot)),
        };
        Self::over(view, position, options)
    }

    /// An engine over rows from elsewhere.
    pub fn over(view: ArchiveView, position: Position, options: &EngineOptions) -> Result<Self, EngineError> {
        let threads = options.threads.max(1);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("query")
            .enable_time()
            .build()
            .map_err(EngineError::Start)?;
        let context = SessionContext::new_with_state(session(options, threads)?);
        let planned = |error| EngineError::Plan(Box::new(error));
        let provider = |table: Table| Arc::new(ViewTable::new(table, view.table(table).clone(), options.pruning));
        let flows = provider(Table::Flows);
        let corrections = Arc::new(options.corrections.clone());
        let kept = context.read_table(Arc::<ViewTable>::clone(&flows)).map_err(planned)?;
        let scaled = Arc::new(SqlView::new(scaling::with_scaled(kept, &corrections).map_err(planned)?, None));
        context.register_table(Table::Flows.name(), scaled).map_err(planned)?;
        for &table in Table::ALL.iter().filter(|table| **table != Table::Flows) {
            context.register_table(table.name(), provider(table)).map_err(planned)?;
        }
        for table in &options.tables {
            runtime.block_on(user_tables::register(&context, table))?;
        }
        Ok(Self { context, runtime: Some(runtime), flows, position, _guard: view.guard })
    }

    /// The position that every question sees.
    pub fn position(&self) -> Position {
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
        let watch = Watch::new(control);
        let runtime = self.runtime();
        let context = self.context_on(control);
        let stream = runtime.block_on(statement::answer(&context, text, &control.progress));
        let stream = stream.map_err(|error| {
            let tables = describe::table_names(&self.context);
            let tables: Vec<_> = tables.iter().map(String::as_str).collect();
            EngineError::from(Mistake::explain(text, &error, &tables))
        })?;
        Ok(Answer::spawn(runtime.handle(), stream, watch))
    }

    /// Asks as nfdump does: a filter, a time window, and what to make of the flows that pass.
    ///
    /// Must not be called from an asynchronous task: planning blocks.
    pub fn ask(&self, question: &FlowQuery) -> Result<Answer, EngineError> {
        self.ask_on(question, &QueryControl::default())
    }

    /// As [`ask`](Self::ask), watched and limited by `control`.
    pub fn ask_on(&self, question: &FlowQuery, control: &QueryControl) -> Result<Answer, EngineError> {
        let watch = Watch::new(control);
        let runtime = self.runtime();
        let context = self.context_on(control);
        let stream = runtime.block_on(async { self.planned(&context, question).await?.execute_stream().await });
        let stream = stream.map_err(|error| EngineError::Plan(Box::new(error)))?;
        Ok(Answer::spawn(runtime.handle(), stream, watch))
    }

    /// What all flows that a question asks about carried together, whatever it makes of them and however few rows of
    /// that it wants.
    ///
    /// Must not be called from an asynchronous task: planning blocks.
    pub fn totals_on(&self, question: &FlowQuery, control: &QueryControl) -> Result<Totals, EngineError> {
        let watch = Watch::new(control);
        let runtime = self.runtime();
        let context = self.context_on(control);
        let stream = runtime.block_on(async {
            let flows = self.flows_of(&context, question).await?;
            crate::ask::totals(question, flows)?.execute_stream().await
        });
        let stream = stream.map_err(|error| EngineError::Plan(Box::new(error)))?;
        let mut totals = Totals::default();
        for batch in Answer::spawn(runtime.handle(), stream, watch) {
            totals.add(&batch?);
        }
        Ok(totals)
    }

    /// Ends whatever still runs and removes what it wrote to disk; waits for that at most so long.
    ///
    /// A dropped engine does not wait, and when the process then ends, files that did not fit into memory may stay.
    pub fn close(mut self, wait_max: Duration) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(wait_max);
        }
    }

    /// The context of one question: scans find its progress there.
    fn context_on(&self, control: &QueryControl) -> SessionContext {
        let mut state = self.context.state();
        state.config_mut().set_extension(Arc::clone(&control.progress));
        SessionContext::new_with_state(state)
    }

    /// The plan of a question, before it is optimised.
    pub fn plan_of(&self, question: &FlowQuery) -> Result<LogicalPlan, EngineError> {
        let planned = self.runtime().block_on(self.planned(&self.context, question));
        planned.map(DataFrame::into_unoptimized_plan).map_err(|error| EngineError::Plan(Box::new(error)))
    }

    async fn planned(&self, context: &SessionContext, question: &FlowQuery) -> datafusion::common::Result<DataFrame> {
        crate::ask::plan(question, self.flows_of(context, question).await?)
    }

    /// Flows with the counts that a question is about.
    async fn flows_of(&self, context: &SessionContext, question: &FlowQuery) -> datafusion::common::Result<DataFrame> {
        if question.scaled {
            scaling::in_place_of_counts(context.table(Table::Flows.name()).await?)
        } else {
            context.read_table(Arc::<ViewTable>::clone(&self.flows))
        }
    }

    fn runtime(&self) -> &Runtime {
        match &self.runtime {
            Some(runtime) => runtime,
            None => unreachable!("the runtime goes when the engine is dropped"),
        }
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
    /// Adds the rows of a batch.
    fn add(&mut self, batch: &RecordBatch) {
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
    /// Stops the threads without waiting, so that an engine may also be dropped by an asynchronous task.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn table_view(snapshot: &Snapshot, table: Table) -> TableView {
    let segments = snapshot.segments(table).iter();
    let segments = segments.map(|segment| {
        let file = SegmentFile::new(segment.path(), segment.octets, segment.rows);
        Arc::new(file.with_time_range_ms(segment.time_range_ms).with_index_of(segment.clone()))
    });
    TableView { segments: segments.collect(), tail: snapshot.tail(table).to_vec() }
}

fn session(options: &EngineOptions, threads: usize) -> Result<SessionState, EngineError> {
    let mut config = SessionConfig::new()
        .with_target_partitions(threads)
        .with_batch_size(options.batch_rows.max(1))
        .with_information_schema(true);
    config.options_mut().sql_parser.collect_spans = true;
    // Five-tuples hardly repeat: grouping them in each partition first, before the partitions exchange rows, builds
    // every table twice for nothing. The engine finds that out after this many rows; by default only after 100,000.
    config.options_mut().execution.skip_partial_aggregation_probe_rows_threshold = 16_384;
    let runtime = limits(options).map_err(|error| EngineError::Start(std::io::Error::other(error)))?;
    let mut rules = Analyzer::new().rules;
    rules.insert(0, Arc::new(AddressLiterals));
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(Arc::new(runtime))
        .with_default_features()
        .with_analyzer_rules(rules)
        .build();
    functions::register(&mut state).map_err(|error| EngineError::Plan(Box::new(error)))?;
    Ok(state)
}

fn limits(options: &EngineOptions) -> datafusion::common::Result<RuntimeEnv> {
    let mode = match &options.spill_folder {
        Some(folder) => DiskManagerMode::Directories(vec![folder.clone()]),
        None => DiskManagerMode::OsTmpDirectory,
    };
    let disk = DiskManagerBuilder::default().with_mode(mode).with_max_temp_directory_size(options.spill_octets_max);
    RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(FairSpillPool::new(options.memory_octets_max)))
        .with_disk_manager_builder(disk)
        .build()
}
