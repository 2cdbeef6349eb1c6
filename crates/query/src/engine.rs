//! The engine: an archive at one position, and the threads that answer questions about it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::datasource::ViewTable as SqlView;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::Analyzer;
use datafusion::prelude::{DataFrame, SQLOptions, SessionConfig, SessionContext};
use tokio::runtime::Runtime;
use weir_archive::{Position, Snapshot};
use weir_ask::FlowQuery;
use weir_flow::Table;
use weir_flow::scaling::Corrections;

use crate::EngineError;
use crate::answer::Answer;
use crate::functions;
use crate::literals::AddressLiterals;
use crate::mistake::Mistake;
use crate::scaling;
use crate::scan::ViewTable;
use crate::view::{ArchiveView, SegmentFile, TableView};

/// Limits of the engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Threads that work on a question; one per core unless told otherwise.
    pub threads: usize,
    /// Memory that all running questions may use together for sorting, grouping and joining, in octets. Beyond it
    /// they write to disk. Batches in flight are not counted.
    pub memory_octets_max: usize,
    /// Space on disk that they may use, in octets.
    pub spill_octets_max: u64,
    /// Folder for what does not fit into memory; the system's folder of temporary files unless told otherwise.
    pub spill_folder: Option<PathBuf>,
    /// Rows of a batch.
    pub batch_rows: usize,
    /// What is known better about sampling than the exporters told, for `bytes_scaled` and `packets_scaled`.
    pub corrections: Corrections,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_octets_max: 2 << 30,
            spill_octets_max: 100 << 30,
            spill_folder: None,
            batch_rows: 8192,
            corrections: Corrections::default(),
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
        let provider = |table: Table| Arc::new(ViewTable::new(table.schema(), view.table(table).clone()));
        let flows = provider(Table::Flows);
        let corrections = Arc::new(options.corrections.clone());
        let kept = context.read_table(Arc::<ViewTable>::clone(&flows)).map_err(planned)?;
        let scaled = Arc::new(SqlView::new(scaling::with_scaled(kept, &corrections).map_err(planned)?, None));
        context.register_table(Table::Flows.name(), scaled).map_err(planned)?;
        for &table in Table::ALL.iter().filter(|table| **table != Table::Flows) {
            context.register_table(table.name(), provider(table)).map_err(planned)?;
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
        let runtime = self.runtime();
        let read_only = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        let tables: Vec<_> = Table::ALL.iter().map(|table| table.name()).collect();
        let stream = runtime.block_on(async {
            let frame = self.context.sql_with_options(text, read_only).await?;
            frame.execute_stream().await
        });
        let stream = stream.map_err(|error| EngineError::from(Mistake::explain(text, &error, &tables)))?;
        Ok(Answer::spawn(runtime.handle(), stream))
    }

    /// Asks as nfdump does: a filter, a time window, and what to make of the flows that pass.
    ///
    /// Must not be called from an asynchronous task: planning blocks.
    pub fn ask(&self, question: &FlowQuery) -> Result<Answer, EngineError> {
        let runtime = self.runtime();
        let stream = runtime.block_on(async { self.planned(question).await?.execute_stream().await });
        let stream = stream.map_err(|error| EngineError::Plan(Box::new(error)))?;
        Ok(Answer::spawn(runtime.handle(), stream))
    }

    /// The plan of a question, before it is optimised.
    pub fn plan_of(&self, question: &FlowQuery) -> Result<LogicalPlan, EngineError> {
        let planned = self.runtime().block_on(self.planned(question));
        planned.map(DataFrame::into_unoptimized_plan).map_err(|error| EngineError::Plan(Box::new(error)))
    }

    async fn planned(&self, question: &FlowQuery) -> datafusion::common::Result<DataFrame> {
        let flows = if question.scaled {
            scaling::in_place_of_counts(self.context.table(Table::Flows.name()).await?)?
        } else {
            self.context.read_table(Arc::<ViewTable>::clone(&self.flows))?
        };
        crate::ask::plan(question, flows)
    }

    fn runtime(&self) -> &Runtime {
        match &self.runtime {
            Some(runtime) => runtime,
            None => unreachable!("the runtime goes when the engine is dropped"),
        }
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
        let file = SegmentFile::new(&segment.path, segment.octets, segment.rows);
        Arc::new(file.with_time_range_ms(segment.time_range_ms))
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
    // every table twice for nothing. The engine finds that out after so many rows; by default only after 100,000.
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
