//! The archive that is asked, and how much a question may use of the machine.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use weir_archive::{ArchiveError, ArchiveHandle, HandleOptions, Snapshot};
use weir_flow::scaling::Corrections;
use weir_query::{Archive, MemoryPool, QueryOptions};
use weir_sql::{Engine, EngineOptions, Enrichment, FlowAnswers, QueryControl};
use weir_watch::runner::JOURNAL_FOLDER;

use crate::Problem;
use crate::config::QuestionOptions;
use crate::view::View;

/// How old the snapshot of a question may be: questions that come together see the same flows, and share answers.
const SNAPSHOT_AGE_MAX: Duration = Duration::from_millis(500);
/// The part of the memory of questions that indexes and frames may take.
const CACHE_PART: u64 = 4;
/// Name of the folder of statistics within an archive.
pub(crate) const STATISTICS: &str = "statistics";

/// An archive that many ask.
#[derive(Debug)]
pub(crate) struct AskedArchive {
    folder: PathBuf,
    handle: ArchiveHandle,
    latest: Mutex<Option<(Instant, Arc<Snapshot>)>>,
    memory: MemoryPool,
    threads: usize,
    /// Memory of the engine of one question.
    engine_octets_max: usize,
    spill_octets_max: u64,
    /// What is known about addresses and interfaces.
    enrichment: RwLock<Arc<Enrichment>>,
    /// Sampling intervals that override what exporters report.
    corrections: RwLock<Arc<Corrections>>,
}

impl AskedArchive {
    /// Opens the archive in a folder.
    pub(crate) fn open(folder: &Path, options: &QuestionOptions) -> Result<Self, ArchiveError> {
        let memory = options.memory.bytes();
        let handle = ArchiveHandle::open(folder, &HandleOptions { cache_octets_max: memory / CACHE_PART })?;
        let octets = |octets: u64| usize::try_from(octets).unwrap_or(usize::MAX);
        let half = memory / 2;
        Ok(Self {
            folder: folder.to_owned(),
            handle,
            latest: Mutex::default(),
            memory: MemoryPool::new(octets(half)),
            threads: options.threads.unwrap_or_else(|| QueryOptions::default().threads),
            engine_octets_max: octets(half / options.turns()),
            spill_octets_max: options.spill.bytes() / options.turns(),
            enrichment: RwLock::default(),
            corrections: RwLock::default(),
        })
    }

    /// The folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Everything that was appended, some hundred milliseconds ago at most.
    pub(crate) fn snapshot(&self) -> Result<Arc<Snapshot>, ArchiveError> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((taken, snapshot)) = latest.as_ref()
            && taken.elapsed() < SNAPSHOT_AGE_MAX
        {
            return Ok(Arc::clone(snapshot));
        }
        let snapshot = Arc::new(self.handle.snapshot()?);
        *latest = Some((Instant::now(), Arc::clone(&snapshot)));
        Ok(snapshot)
    }

    /// Lets an old snapshot go, so that files which no longer count can be removed.
    pub(crate) fn forget_old(&self) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.take_if(|(taken, _)| taken.elapsed() >= SNAPSHOT_AGE_MAX);
    }

    /// What is known about addresses from now on.
    pub(crate) fn set_enrichment(&self, enrichment: Arc<Enrichment>) {
        *self.enrichment.write().unwrap_or_else(PoisonError::into_inner) = enrichment;
    }

    /// What is known about addresses and interfaces.
    pub(crate) fn enrichment(&self) -> Arc<Enrichment> {
        Arc::clone(&self.enrichment.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The sampling intervals that override what exporters report from now on.
    pub(crate) fn set_corrections(&self, corrections: Arc<Corrections>) {
        *self.corrections.write().unwrap_or_else(PoisonError::into_inner) = corrections;
    }

    /// Sampling intervals that override what exporters report.
    pub(crate) fn corrections(&self) -> Arc<Corrections> {
        Arc::clone(&self.corrections.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Answers questions about the flows of the snapshot that are in a view.
    pub(crate) fn answers(&self, snapshot: &Arc<Snapshot>, control: &QueryControl, view: &View) -> FlowAnswers {
        let options = QueryOptions {
            threads: self.threads,
            memory: self.memory.clone(),
            progress: Arc::clone(&control.progress),
            ..QueryOptions::default()
        };
        let archive = Archive::over(Arc::clone(snapshot), options);
        FlowAnswers::new(archive, self.engine_options(view), control.clone(), false)
    }

    /// An engine over what of the snapshot is in a view.
    pub(crate) fn engine(
        &self,
        snapshot: &Arc<Snapshot>,
        control: &QueryControl,
        view: &View,
    ) -> Result<Engine, Problem> {
        self.engine_in(snapshot, control, view, TimeZone::UTC)
    }

    /// The same, where times without a zone are in this one.
    pub(crate) fn engine_in(
        &self,
        snapshot: &Arc<Snapshot>,
        control: &QueryControl,
        view: &View,
        zone: TimeZone,
    ) -> Result<Engine, Problem> {
        Ok(Engine::over_on(snapshot, &EngineOptions { zone, ..self.engine_options(view) }, control)?)
    }

    /// Memory of the engine of one question.
    pub(crate) fn engine_octets_max(&self) -> usize {
        self.engine_octets_max
    }

    fn engine_options(&self, view: &View) -> EngineOptions {
        let statistics = self.folder.join(STATISTICS);
        EngineOptions {
            threads: self.threads,
            memory_octets_max: self.engine_octets_max,
            spill_octets_max: self.spill_octets_max,
            statistics: statistics.join("store.toml").is_file().then_some(statistics),
            view: view.flows.clone(),
            // what files know of an address is not known of its image
            enrichment: if view.flows.pseudonyms.is_some() { Arc::default() } else { self.enrichment() },
            reports: Some(self.folder.join(JOURNAL_FOLDER)).filter(|folder| folder.is_dir()),
            corrections: self.corrections(),
            ..EngineOptions::default()
        }
    }

    /// Octets of memory that questions use, and those that indexes and frames take.
    pub(crate) fn memory_octets(&self) -> (u64, u64) {
        (self.memory.used_bytes() as u64, self.handle.cache_octets())
    }
}
