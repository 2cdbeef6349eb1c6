//! Steps of statistics to a store elsewhere, one after the other.
//!
//! The store of series is the spool, as the archive is for flows: it keeps steps for its retention, and a store elsewhere that
//! is away for less than that misses none. Steps are handed over in the order of time and the next one only after the last
//! one was acknowledged, for stores such as Prometheus take no value that is older than the last one of its series. The time
//! of the last step is kept after each, so a process that is killed repeats one step, with the same values. What speaks against
//! it is the rate: a step for each round trip, which is far more than come.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{AsArray, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::TimestampMillisecondType;
use arrow::error::ArrowError;
use weir_series::{Resolution, RowSelection, SeriesError, SeriesStore, StepsAfter};

use crate::state::{StateFiles, kept, value};
use crate::{StateError, StoreError, StoredRows};

/// Rows that are in memory at once, about.
const ROWS_MAX: usize = 131_072;
/// Steps that are read at once, at most: those of a block.
const STEPS_MAX: usize = 288;
/// How often it is looked at whether forwarding is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A step on its way to a store.
#[derive(Debug, Clone)]
pub struct StatisticsStep {
    /// When it begins, in seconds since the epoch.
    pub time_secs: i64,
    /// Its length in seconds.
    pub step_secs: u32,
    /// Its rows, with the columns of the table `series`: see [`SeriesStore::rows`].
    pub rows: RecordBatch,
}

/// Where steps go.
///
/// **Again.** The last step may come once more, after an error and after a crash, with the same rows; storing it again must
/// change nothing.
///
/// **Stop.** A store that may take long over a step asks `is_stopping` meanwhile, and then returns an error as soon as it can: the step
/// comes again at the next start.
pub trait StatisticsStore {
    /// Stores a step, and returns when it was acknowledged. After an error none, some or all of its rows may have been stored.
    fn store(&mut self, step: &StatisticsStep, is_stopping: &mut dyn FnMut() -> bool)
    -> Result<StoredRows, StoreError>;
}

impl<S: StatisticsStore + ?Sized> StatisticsStore for &mut S {
    fn store(
        &mut self,
        step: &StatisticsStep,
        is_stopping: &mut dyn FnMut() -> bool,
    ) -> Result<StoredRows, StoreError> {
        (**self).store(step, is_stopping)
    }
}

impl<S: StatisticsStore + ?Sized> StatisticsStore for Box<S> {
    fn store(
        &mut self,
        step: &StatisticsStep,
        is_stopping: &mut dyn FnMut() -> bool,
    ) -> Result<StoredRows, StoreError> {
        (**self).store(step, is_stopping)
    }
}

/// Options of a [`StatisticsForwarder`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatisticsForwardOptions {
    /// Name under which the store of series keeps how far the forwarder is.
    pub name: String,
    /// Length of the steps that are forwarded.
    pub step_secs: u32,
    /// Names of the families that are forwarded; `None` for all.
    pub families: Option<Vec<String>>,
    /// How often it is looked for new steps.
    pub look_interval: Duration,
    /// How often the position is made durable against a crash of the machine.
    pub sync_interval: Duration,
    /// The pause after the first error of the store.
    pub retry_after: Duration,
    /// The longest pause after an error of the store.
    pub retry_after_max: Duration,
}

impl Default for StatisticsForwardOptions {
    fn default() -> Self {
        Self {
            name: "statistics".to_owned(),
            step_secs: 60,
            families: None,
            look_interval: Duration::from_millis(500),
            sync_interval: Duration::from_secs(1),
            retry_after: Duration::from_millis(100),
            retry_after_max: Duration::from_secs(10),
        }
    }
}

/// What a forwarder of statistics counts. All but `failures` and `steps_waiting` are kept over restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatisticsForwardCounts {
    /// Steps that the store has acknowledged or refused.
    pub steps_forwarded: u64,
    /// Rows that it has acknowledged.
    pub rows_forwarded: u64,
    /// Rows that it can never take.
    pub rows_refused: u64,
    /// Steps that were removed before they were forwarded, or are damaged; at most, for what was never written counts too.
    pub steps_lost: u64,
    /// Steps that are there and were not forwarded yet, about.
    pub steps_waiting: u64,
    /// Errors after which a step was stored again.
    pub failures: u64,
}

/// Why forwarding ended.
#[derive(Debug, thiserror::Error)]
pub enum StatisticsForwardError {
    /// What was kept of it cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The store of series cannot be read.
    #[error(transparent)]
    Series(#[from] SeriesError),
    /// Rows of it cannot be put together.
    #[error("cannot put the rows of a step together")]
    Rows(#[from] ArrowError),
    /// The store of series has no steps of this length.
    #[error("the statistics have no steps of {step_secs} s")]
    NoSuchStep {
        /// The length asked for.
        step_secs: u32,
    },
    /// Steps of another length were forwarded under this name.
    #[error("steps of {kept_secs} s are forwarded under the name '{name}', not of {step_secs} s")]
    OtherStep {
        /// The name.
        name: String,
        /// The length so far.
        kept_secs: u32,
        /// The length asked for.
        step_secs: u32,
    },
    /// The store will not take anything.
    #[error("{0}")]
    Store(StoreError),
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Progress {
    /// The last step that needs nothing more; `i64::MIN` before the first.
    through_secs: i64,
    counts: StatisticsForwardCounts,
}

/// Follows a store of series and hands its steps to a store elsewhere.
#[derive(Debug)]
pub struct StatisticsForwarder<S> {
    statistics: PathBuf,
    options: StatisticsForwardOptions,
    store: S,
    files: StateFiles,
    progress: Progress,
    /// Damaged steps that were found and not passed yet: they count as lost when a step behind them is handed over.
    damaged: BTreeSet<i64>,
    synced_at: Instant,
    is_error_logged: bool,
    is_refusal_logged: bool,
    is_key_loss_logged: bool,
    /// Since when how far it is could not be kept.
    unkept_since: Option<Instant>,
}

impl<S: StatisticsStore> StatisticsForwarder<S> {
    /// Follows the store of series in a folder from where the forwarder of this name was; at first from the oldest step.
    pub fn open(
        statistics: &Path,
        options: StatisticsForwardOptions,
        store: S,
    ) -> Result<Self, StatisticsForwardError> {
        // an error about the store comes before a folder is made where there is none
        resolution(&SeriesStore::open(statistics)?, options.step_secs)?;
        let files = StateFiles::open(statistics, &options.name)?;
        let progress = loaded(&files, &options)?;
        Ok(Self {
            statistics: statistics.to_owned(),
            options,
            store,
            files,
            progress,
            damaged: BTreeSet::new(),
            synced_at: Instant::now(),
            is_error_logged: false,
            is_refusal_logged: false,
            is_key_loss_logged: false,
            unkept_since: None,
        })
    }

    /// What was counted so far.
    pub fn counts(&self) -> StatisticsForwardCounts {
        self.progress.counts
    }

    /// Forwards until `is_stopping`, which is asked often and told what was counted, or until everything is forwarded when
    /// `until_end` is set.
    pub fn run(
        mut self,
        mut is_stopping: impl FnMut(&StatisticsForwardCounts) -> bool,
        until_end: bool,
    ) -> Result<StatisticsForwardCounts, StatisticsForwardError> {
        self.forward(&mut is_stopping, until_end).inspect_err(|_| self.keep_on_the_way(true))?;
        self.keep(true)?;
        Ok(self.counts())
    }

    fn forward(
        &mut self,
        is_stopping: &mut impl FnMut(&StatisticsForwardCounts) -> bool,
        until_end: bool,
    ) -> Result<(), StatisticsForwardError> {
        loop {
            // families that a collector adds meanwhile are in the description
            let series = Arc::new(SeriesStore::open(&self.statistics)?);
            let resolution = resolution(&series, self.options.step_secs)?;
            let catalogue_rows = series.catalogue()?.len().max(1);
            let steps_max = (ROWS_MAX / catalogue_rows).clamp(1, STEPS_MAX);
            let found = series.steps_after(resolution, self.progress.through_secs, steps_max)?;
            self.account(resolution, &found);
            for step in self.steps(&series, resolution, &found)? {
                if !self.hand_over(&step, is_stopping)? {
                    return Ok(());
                }
            }
            if !found.has_more {
                if until_end || self.wait(self.options.look_interval, is_stopping) {
                    return Ok(());
                }
            } else if is_stopping(&self.progress.counts) {
                return Ok(());
            }
        }
    }

    /// Counts what is gone, and what waits.
    fn account(&mut self, resolution: Resolution, found: &StepsAfter) {
        let step_secs = i64::from(resolution.step_secs);
        let progress = &mut self.progress;
        if let Some(newest) = found.newest_secs.filter(|newest| *newest < progress.through_secs) {
            tracing::warn!("the clock of the statistics was ahead: forwarding goes on after the step at {newest} s");
            progress.through_secs = newest;
        }
        // up to here everything has been removed; before the first step nothing was there
        let removed = found.oldest_secs.map(|oldest| oldest - step_secs);
        if progress.through_secs == i64::MIN {
            progress.through_secs = removed.unwrap_or(i64::MIN);
        }
        let gone = removed.max(found.damaged_through_secs);
        if let Some(gone) = gone.filter(|gone| *gone > progress.through_secs) {
            let lost = ((gone - progress.through_secs) / step_secs).unsigned_abs();
            tracing::warn!("up to {lost} steps are gone from the statistics before they were forwarded");
            progress.counts.steps_lost += lost;
            progress.through_secs = gone;
        }
        // the oldest block begins before the first of its steps
        let before = found.times.first().map(|first| first - step_secs).max(Some(progress.through_secs));
        let ahead =
            found.newest_secs.zip(before).map_or(0, |(newest, before)| newest.saturating_sub(before) / step_secs);
        progress.counts.steps_waiting = ahead.unsigned_abs();
    }

    /// The rows of steps, step by step. Steps that are damaged have none of what is damaged of them.
    fn steps(
        &mut self,
        series: &Arc<SeriesStore>,
        resolution: Resolution,
        found: &StepsAfter,
    ) -> Result<Vec<StatisticsStep>, StatisticsForwardError> {
        let (Some(&first), Some(&last)) = (found.times.first(), found.times.last()) else { return Ok(Vec::new()) };
        let selection = RowSelection {
            resolution,
            families: self.options.families.clone(),
            keys: None,
            // steps before the first one that are not among them may be damaged, which is counted
            from_secs: first.min(self.progress.through_secs.saturating_add(1)),
            until_secs: last + 1,
        };
        // keys are there before the steps that have them, so it is read after these were found
        let catalogue = Arc::new(series.catalogue()?);
        let mut batches = Vec::new();
        let mut damaged: BTreeSet<i64> = BTreeSet::new();
        for batch in series.rows_with(&selection, catalogue)? {
            match batch {
                // the steps are forwarded with their other series, and are not lost
                Err(error @ SeriesError::LostKeys { .. }) => {
                    if !std::mem::replace(&mut self.is_key_loss_logged, true) {
                        tracing::warn!("series without a key are not forwarded: {error}");
                    }
                }
                Err(error) if error.is_damage() => {
                    tracing::warn!("series of some steps are damaged and not forwarded: {error}");
                    if let SeriesError::DamagedSteps(damage) = error {
                        damaged.extend(damage.times_secs);
                    } else {
                        damaged.extend(&found.times);
                    }
                }
                batch => batches.push(batch?),
            }
        }
        self.damaged = damaged;
        let rows = concat_batches(&series.schema(), &batches)?;
        let times = rows.column(0).as_primitive::<TimestampMillisecondType>();
        let mut by_time: BTreeMap<i64, Vec<u32>> = found.times.iter().map(|time| (*time, Vec::new())).collect();
        for (row, time_ms) in (0..).zip(times.values()) {
            // of a step that was not complete when its time was looked up nothing is taken
            if let Some(rows) = by_time.get_mut(&(time_ms / 1_000)) {
                rows.push(row);
            }
        }
        let step = |(time_secs, taken): (i64, Vec<u32>)| {
            let rows = take_record_batch(&rows, &UInt32Array::from(taken))?;
            Ok(StatisticsStep { time_secs, step_secs: resolution.step_secs, rows })
        };
        by_time.into_iter().map(step).collect()
    }

    /// Stores a step, again and again until the store takes it. `false` when forwarding is to stop before it did.
    fn hand_over(
        &mut self,
        step: &StatisticsStep,
        is_stopping: &mut impl FnMut(&StatisticsForwardCounts) -> bool,
    ) -> Result<bool, StatisticsForwardError> {
        let mut pause = self.options.retry_after;
        let stored = loop {
            let counts = self.progress.counts;
            if is_stopping(&counts) {
                return Ok(false);
            }
            let stored = self.store.store(step, &mut || is_stopping(&counts));
            match stored {
                Ok(stored) => break stored,
                Err(error @ StoreError::Refused(_)) => return Err(StatisticsForwardError::Store(error)),
                // it may have ended early since forwarding stops
                Err(_) if is_stopping(&counts) => return Ok(false),
                Err(error) => {
                    self.progress.counts.failures += 1;
                    if !self.is_error_logged {
                        tracing::warn!("the store takes no statistics, trying again until it does: {error}");
                        self.is_error_logged = true;
                    }
                }
            }
            if self.wait(pause, is_stopping) {
                return Ok(false);
            }
            pause = (pause * 2).min(self.options.retry_after_max);
        };
        if self.is_error_logged {
            tracing::info!("the store takes statistics again");
            self.is_error_logged = false;
        }
        if stored.refused > 0 && !self.is_refusal_logged {
            tracing::warn!("the store refuses {} rows of the step at {} s", stored.refused, step.time_secs);
        }
        self.is_refusal_logged = stored.refused > 0;
        let counts = &mut self.progress.counts;
        counts.steps_forwarded += 1;
        counts.rows_forwarded += stored.stored;
        counts.rows_refused += stored.refused;
        counts.steps_waiting = counts.steps_waiting.saturating_sub(1);
        let behind = self.damaged.split_off(&step.time_secs.saturating_add(1));
        counts.steps_lost += std::mem::replace(&mut self.damaged, behind).len() as u64;
        self.progress.through_secs = step.time_secs;
        self.keep_on_the_way(self.synced_at.elapsed() >= self.options.sync_interval);
        Ok(true)
    }

    /// Waits; whether forwarding is to stop.
    fn wait(&self, length: Duration, is_stopping: &mut impl FnMut(&StatisticsForwardCounts) -> bool) -> bool {
        let began = Instant::now();
        loop {
            if is_stopping(&self.progress.counts) {
                return true;
            }
            let left = length.saturating_sub(began.elapsed());
            if left.is_zero() {
                return false;
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }

    /// Writes how far it is.
    fn keep(&mut self, durable: bool) -> Result<(), StatisticsForwardError> {
        let Progress { through_secs, counts } = self.progress;
        let mut text = format!("step_secs {}\nthrough_secs {through_secs}\n", self.options.step_secs);
        for (name, count) in [
            ("steps_forwarded", counts.steps_forwarded),
            ("rows_forwarded", counts.rows_forwarded),
            ("rows_refused", counts.rows_refused),
            ("steps_lost", counts.steps_lost),
        ] {
            let _ = writeln!(text, "{name} {count}");
        }
        if durable {
            self.synced_at = Instant::now();
        }
        Ok(self.files.keep_lines(&text, durable)?)
    }

    /// The same while steps come. A disk that is full for a while is no reason to end: more is repeated after a crash.
    fn keep_on_the_way(&mut self, durable: bool) {
        match self.keep(durable) {
            Ok(()) => {
                if let Some(since) = self.unkept_since.take() {
                    tracing::info!("how far forwarding is was kept again after {} s", since.elapsed().as_secs());
                }
            }
            Err(error) => {
                if self.unkept_since.is_none() {
                    tracing::warn!("how far forwarding is cannot be kept, trying again with each step: {error}");
                }
                self.unkept_since.get_or_insert_with(Instant::now);
            }
        }
    }
}

/// The resolution whose steps have this length.
fn resolution(series: &SeriesStore, step_secs: u32) -> Result<Resolution, StatisticsForwardError> {
    let found = series.resolutions().iter().find(|resolution| resolution.step_secs == step_secs);
    found.copied().ok_or(StatisticsForwardError::NoSuchStep { step_secs })
}

/// How far a forwarder of statistics is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatisticsForwardState {
    /// Length of the steps that it forwards.
    pub step_secs: u32,
    /// When the last step begins that was acknowledged or is lost, in seconds since the epoch; `None` before the first.
    pub through_secs: Option<i64>,
    /// What was counted up to there.
    pub counts: StatisticsForwardCounts,
}

/// How far a forwarder of statistics is behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatisticsLag {
    /// Steps that wait, at most: what was never written counts too.
    pub steps_waiting: u64,
    /// How long after the last step that was forwarded the newest one begins that can be, in seconds.
    pub secs: u64,
}

impl StatisticsForwardState {
    /// How far it is behind a store of series. `None` when that is not known: nothing was forwarded yet, or there are no
    /// steps of this length.
    ///
    /// # Errors
    /// Those of reading the store.
    pub fn lag(&self, series: &SeriesStore) -> Result<Option<StatisticsLag>, SeriesError> {
        let found = series.resolutions().iter().find(|resolution| resolution.step_secs == self.step_secs);
        let Some((&resolution, through_secs)) = found.zip(self.through_secs) else { return Ok(None) };
        let Some((first_secs, newest_secs)) = series.extent(resolution)? else { return Ok(None) };
        let step_secs = i64::from(self.step_secs);
        // before the first step there is nothing that could wait
        let through_secs = through_secs.max(first_secs.saturating_sub(step_secs));
        // another part of the newest of the finest steps may come, so it is forwarded with the next one
        let is_finest = resolution == series.resolutions()[0];
        let newest_secs = if is_finest { newest_secs - step_secs } else { newest_secs };
        let secs = newest_secs.saturating_sub(through_secs).max(0);
        let steps_waiting = (secs / step_secs.max(1)).unsigned_abs();
        Ok(Some(StatisticsLag { steps_waiting, secs: secs.unsigned_abs() }))
    }
}

/// A forwarder of statistics, whether it runs or not.
#[derive(Debug)]
pub struct KeptStatisticsForwarder {
    /// The name under which the statistics keep how far it is.
    pub name: String,
    /// How far it was when it last kept that; or why that cannot be read.
    pub state: Result<StatisticsForwardState, StateError>,
}

/// The forwarders that a folder of statistics knows, by their names. Nothing is locked or changed.
///
/// # Errors
/// [`StateError::File`] when the folder of their files cannot be listed; none when there is no such folder.
pub fn statistics_forwarders(statistics: &Path) -> Result<Vec<KeptStatisticsForwarder>, StateError> {
    let state = |lines: &str| {
        let (step_secs, Progress { through_secs, counts }) = parsed(lines)?;
        let through_secs = Some(through_secs).filter(|secs| *secs != i64::MIN);
        Some(StatisticsForwardState { step_secs, through_secs, counts })
    };
    let kept = kept(statistics, state)?;
    Ok(kept.into_iter().map(|(name, state)| KeptStatisticsForwarder { name, state }).collect())
}

/// The length of steps and how far they are forwarded, of the lines of a file.
fn parsed(lines: &str) -> Option<(u32, Progress)> {
    let progress = Progress {
        through_secs: value(lines, "through_secs")?,
        counts: StatisticsForwardCounts {
            steps_forwarded: value(lines, "steps_forwarded")?,
            rows_forwarded: value(lines, "rows_forwarded")?,
            rows_refused: value(lines, "rows_refused")?,
            steps_lost: value(lines, "steps_lost")?,
            ..StatisticsForwardCounts::default()
        },
    };
    Some((value(lines, "step_secs")?, progress))
}

/// How far a forwarder was when it ended.
fn loaded(files: &StateFiles, options: &StatisticsForwardOptions) -> Result<Progress, StatisticsForwardError> {
    let Some(lines) = files.lines()? else {
        return Ok(Progress { through_secs: i64::MIN, counts: StatisticsForwardCounts::default() });
    };
    let (kept_secs, progress) = parsed(&lines).ok_or_else(|| files.damaged())?;
    if kept_secs != options.step_secs {
        let (name, step_secs) = (options.name.clone(), options.step_secs);
        return Err(StatisticsForwardError::OtherStep { name, kept_secs, step_secs });
    }
    Ok(progress)
}
