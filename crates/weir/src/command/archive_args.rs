//! Arguments that name an archive, and how much a query of it may use.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use weir_chain::ByteSize;
use weir_flow::scaling::Corrections;
use weir_query::{Archive, MemoryPool, QueryOptions};
use weir_sql::stored_flows::StoredFlows;
use weir_sql::stored_series::StoredSeries;
use weir_sql::{Engine, EngineOptions, FlowAnswers, QueryControl};

/// Where the archive is and how much a question may use.
#[derive(Debug, clap::Args)]
pub(crate) struct ArchiveArgs {
    /// Folder of the archive, or the keyspace of a cluster that has flows: cassandra://HOST/KEYSPACE
    #[arg(long, short = 'R', value_name = "DIR", env = "WEIR_ARCHIVE")]
    pub(super) archive: PathBuf,
    /// Sort, group and join in at most this much memory; write the rest to temporary files
    #[arg(long, value_name = "SIZE", default_value = "2GiB", help_heading = "Limits")]
    memory_limit: ByteSize,
    /// Use at most this many threads [default: one per core]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    sampling: SamplingArgs,
}

/// Corrections of the sampling intervals that exporters report.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SamplingArgs {
    /// Override the sampling intervals that exporters report by those of a CSV file
    ///
    /// Its header is exporter,domain,sampler,in_if,from,to,interval; any field but the last may be empty, which means any.
    #[arg(long, value_name = "FILE", env = "WEIR_SAMPLING_CORRECTIONS")]
    sampling_corrections: Option<PathBuf>,
}

impl SamplingArgs {
    /// The corrections of the file; none without a file.
    pub(crate) fn corrections(&self) -> anyhow::Result<Arc<Corrections>> {
        let read = self.sampling_corrections.as_deref().map(Corrections::read);
        Ok(Arc::new(read.transpose()?.unwrap_or_default()))
    }
}

impl ArchiveArgs {
    /// Opens the SQL engine for a statement; with an empty statement, only checks that it can be opened.
    pub(crate) fn engine(&self, options: EngineOptions, statement: &str) -> anyhow::Result<Engine> {
        let options = EngineOptions { corrections: self.sampling.corrections()?, ..options };
        match self.elsewhere()? {
            Some(store) => {
                let options = EngineOptions { stored_series: self.series_elsewhere(statement)?, ..options };
                Ok(Engine::over_stored(store, &options, &QueryControl::default())?)
            }
            None => Ok(Engine::open(&self.archive, &options)?),
        }
    }

    /// The store that the argument names when it is no folder.
    #[cfg(feature = "cassandra")]
    fn elsewhere(&self) -> anyhow::Result<Option<Arc<dyn StoredFlows>>> {
        let named = super::cluster::ClusterFlows::named(&self.archive)?;
        Ok(named.map(|flows| Arc::new(flows) as Arc<dyn StoredFlows>))
    }

    #[cfg(not(feature = "cassandra"))]
    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "there is no other store without the feature")]
    fn elsewhere(&self) -> anyhow::Result<Option<Arc<dyn StoredFlows>>> {
        Ok(None)
    }

    /// The statistics of that store, if it has any and the statement can name them.
    #[cfg(feature = "cassandra")]
    fn series_elsewhere(&self, statement: &str) -> anyhow::Result<Option<Arc<dyn StoredSeries>>> {
        let named = super::cluster::ClusterSeries::named(&self.archive, statement)?;
        Ok(named.map(|series| Arc::new(series) as Arc<dyn StoredSeries>))
    }

    #[cfg(not(feature = "cassandra"))]
    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "there is no other store without the feature")]
    fn series_elsewhere(&self, _statement: &str) -> anyhow::Result<Option<Arc<dyn StoredSeries>>> {
        Ok(None)
    }

    /// Opens the archive for questions about flows. Corrections of sampling are read only when they are `scaled`;
    /// `approximate` answers count flows that have expired by their summaries.
    pub(crate) fn flow_answers(
        &self,
        control: &QueryControl,
        scaled: bool,
        approximate: bool,
    ) -> anyhow::Result<FlowAnswers> {
        if let Some(store) = self.elsewhere()? {
            if approximate {
                anyhow::bail!("only an archive keeps summaries of flows that have expired");
            }
            let options = EngineOptions { corrections: self.sampling.corrections()?, ..self.engine_options() };
            return Ok(FlowAnswers::by(Engine::over_stored(store, &options, control)?, control.clone()));
        }
        let usual = QueryOptions::default();
        let options = QueryOptions {
            threads: self.threads.map_or(usual.threads, NonZeroUsize::get),
            memory: MemoryPool::new(self.memory_octets()),
            progress: Arc::clone(&control.progress),
            approximate,
            ..usual
        };
        let archive = Archive::open(&self.archive, options)?;
        let mut options = self.engine_options();
        if scaled {
            options.corrections = self.sampling.corrections()?;
        }
        Ok(FlowAnswers::new(archive, options, control.clone(), approximate))
    }

    fn memory_octets(&self) -> usize {
        usize::try_from(self.memory_limit.bytes()).unwrap_or(usize::MAX)
    }

    /// The folder of versions of files about addresses; `None` when nothing has kept any.
    pub(crate) fn versions(&self) -> Option<PathBuf> {
        Some(self.archive.join(weir_sql::VERSIONS_FOLDER)).filter(|folder| folder.is_dir())
    }

    /// Limits of the engine.
    pub(crate) fn engine_options(&self) -> EngineOptions {
        let mut options = EngineOptions { memory_octets_max: self.memory_octets(), ..EngineOptions::default() };
        if let Some(threads) = self.threads {
            options.threads = threads.get();
        }
        let statistics = self.archive.join(super::series::FOLDER);
        options.statistics = statistics.join("store.toml").is_file().then_some(statistics);
        options.reports = Some(self.archive.join(weir_watch::runner::JOURNAL_FOLDER)).filter(|folder| folder.is_dir());
        options
    }
}

/// Where the archive is.
#[derive(Debug, clap::Args)]
pub(crate) struct ArchiveArg {
    /// Folder of the archive
    #[arg(long, short = 'R', value_name = "DIR", env = "WEIR_ARCHIVE")]
    pub(crate) archive: PathBuf,
}

/// The hint of an error about arguments without an archive: the variable that names it.
pub(super) fn hint_at_archive(error: &clap::Error) -> Option<&'static str> {
    if error.kind() != ErrorKind::MissingRequiredArgument {
        return None;
    }
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_missing = missing.iter().any(|argument| argument.starts_with("--archive "));
    is_missing
        .then_some("the variable WEIR_ARCHIVE of the environment names the archive, too: export WEIR_ARCHIVE=flows")
}
