//! Keeps statistics over time: flows, packets and bytes of each key, for steps of a second, a minute and so on.
//!
//! Rows are counted into the steps that are open, and a step is written when time has passed it by the lateness that is
//! allowed. Nothing is dropped: a row that is later still is counted in the earliest step that is open, so that totals
//! are exact. What speaks against it is that it is then a moment too late, which `rows_late` shows.

mod families;
mod open_steps;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, SystemTime};

use arrow::array::RecordBatch;
use weir_chain::{
    Built, Burst, ByteSize, ComponentContext, ComponentError, ComponentKind, Counter, ONE_INPUT, Opener, OptionError,
    Role, Sink, State, StopSignal, TimeSpan, choices, options,
};
use weir_rows::flow_columns::TimeColumn;
use weir_series::{LargestKeys, Resolution, SeriesError, StatisticsWriter, StepRows, StoreOptions, WriterCounts};

use self::families::{CountedFamily, OTHER};
use self::open_steps::{OpenSteps, StepCounts};

/// The kind `statistics`.
pub const KIND: ComponentKind<StatisticsSinkOptions> = ComponentKind {
    name: "statistics",
    role: Role::Sink,
    inputs: ONE_INPUT,
    doc: "Keeps statistics over time in a folder: flows, packets and bytes for each key, in steps, which are consolidated \
          into coarser ones that are kept for longer. Writing a step takes the same time whatever the history. Rows are \
          counted by the column that `time` names, else by end, else now. Of keys without a bound, such as addresses, \
          each step has the largest by bytes, and the sum of the others as the key `other`, so totals are exact; a key that is \
          that word itself is `other (a key)`. A step \
          without rows is written as well while the sink runs, so that silence can be told from a gap. A full disk is \
          waited for, and is an error when the chain is stopped meanwhile. Counts rows_counted, rows_late (counted in a \
          later step), rows_without_time (counted at the time of the row before), keys_refused (their rows are counted as \
          `other`), steps_written, steps_consolidated, blocks_written, blocks_dropped (of 288 steps each, by max_size), failures and writer_failures (tried again), octets_cut of \
          unfinished writes, steps_damaged, files_damaged, files_set_aside (of a clock that was ahead), keys_repaired and \
          keys_lost (lines of the catalogue of keys with one wrong bit, and with more).",
    configure,
};

choices! {
    /// Whether sampling is applied.
    pub enum SamplingScale {
        /// Multiply packets and bytes by the sampling interval.
        Scale = "scale",
        /// Count what was measured.
        Raw = "raw",
    }
}

options! {
    /// Options of the sink `statistics`.
    pub struct StatisticsSinkOptions {
        /// Folder of the statistics; made when missing.
        statistics: PathBuf,
    }
    includes {
        /// What is counted, and in which steps.
        series: SeriesOptions,
    }
}

options! {
    /// What statistics are kept of, and in which steps.
    pub struct SeriesOptions {
        /// Keys to keep series of: `total`; any column of flows, or several joined by `+`, such as `exporter+in_if`; `src_net`
        /// and `dst_net` for networks; or `interface`, `host`, `network`, `port` and `as`, which stand for the columns of
        /// both sides. `application` is the column of names, `application_id` that of numbers.
        by: Vec<String> = ["total", "exporter", "interface", "protocol", "port", "host", "as"].map(str::to_owned).to_vec(),
        /// Steps and how long to keep each of them, the finest first. Each is a multiple of the one before it.
        steps: Vec<String> = ["1s:1h", "1m:2d", "5m:400d", "1h:1830d"].map(str::to_owned).to_vec(),
        /// Keep this many keys of each step, the largest by bytes, where keys have no bound.
        top: usize = 1_000 => 1..=1_000_000,
        /// Count the distinct addresses that each host and network has spoken with, as the metric `peers`.
        peers: bool = true,
        /// Keep how the values of the finest steps are distributed in coarser ones, for keys that have a bound (total, exporter,
        /// interface, protocol): median, 95th and 99th percentile within 1 %.
        quantiles: bool = true,
        /// Prefix length of networks of IPv4.
        network_bits: u8 = 24 => 1..=32,
        /// Prefix length of networks of IPv6.
        network_bits6: u8 = 48 => 1..=128,
        /// Whether packets and bytes are multiplied by the sampling interval.
        sampling: SamplingScale = SamplingScale::Scale,
        /// Column by which rows are counted into steps. Flows of capture files are received when the meter hands them on, many at
        /// once; with `end` and more lateness, such as `75s`, each is counted when it was over.
        time: TimeColumn = TimeColumn::Received,
        /// Wait this long for rows of a step before it is written.
        lateness: TimeSpan = TimeSpan::from_secs(2),
        /// Count this many distinct keys of a step at most; the rest is counted as `other`.
        keys_max: usize = 1 << 20 => 1..=1 << 28,
        /// Keep this many series at most. From the half of it on, only the larger ones of a step's new keys get a series, and the fewer
        /// the more there are; the others are counted as `other`.
        series_max: usize = 1 << 20 => 1..=1 << 28,
        /// Remove the oldest steps when all statistics have this size, those of the finest steps first; without it they go by their age
        /// only. It is looked at whenever 288 of the finest steps are over.
        max_size: Option<ByteSize> => 1..=u64::MAX >> 1,
    }
}

impl SeriesOptions {
    /// The same for flows of the past, which come as fast as they are read, in bursts without an order: counted by their end,
    /// and waited for so long by the times of others.
    #[must_use]
    pub fn of_past(self, lateness: TimeSpan) -> Self {
        Self { time: TimeColumn::End, lateness, ..self }
    }
}

/// Pause before a full disk is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// Most steps without rows that are written between two with rows; a longer silence is a gap.
const EMPTY_STEPS_MAX: i64 = 3_600;
/// Rows whose time is within this of the clock are taken for traffic of now, in milliseconds.
const LIVE_MS: i64 = 60_000;
/// Series in the catalogue at which it is looked for some that are not used any more.
const SERIES_MANY: usize = 100_000;

/// A duration such as `5m`, in seconds.
fn seconds(text: &str) -> Option<u64> {
    let span: TimeSpan = text.trim().parse().ok()?;
    let duration = span.duration();
    (duration.subsec_nanos() == 0).then_some(duration.as_secs())
}

/// The resolutions that the option `steps` has.
fn resolutions(steps: &[String]) -> Result<Vec<Resolution>, OptionError> {
    let wrong = |text: &str| {
        OptionError::new("steps", format!("'{text}' is no step"))
            .with_hint("a step and how long it is kept, in whole seconds: 5m:400d")
    };
    let one = |text: &String| {
        let (step, keep) = text.split_once(':').ok_or_else(|| wrong(text))?;
        let (step_secs, keep_secs) = seconds(step).zip(seconds(keep)).ok_or_else(|| wrong(text))?;
        Ok(Resolution { step_secs: u32::try_from(step_secs).map_err(|_| wrong(text))?, keep_secs })
    };
    let resolutions: Vec<_> = steps.iter().map(one).collect::<Result<_, OptionError>>()?;
    weir_series::check_resolutions(&resolutions).map_err(|error| OptionError::new("steps", error.to_string()))?;
    Ok(resolutions)
}

fn configure(options: StatisticsSinkOptions) -> Result<Opener, OptionError> {
    let largest = LargestKeys { keys_max: options.series.top, metric: "bytes".to_owned(), other: OTHER.to_owned() };
    let store = StoreOptions {
        resolutions: resolutions(&options.series.steps)?,
        largest: Some(largest),
        octets_max: options.series.max_size.map(ByteSize::bytes),
        ..StoreOptions::default()
    };
    let families = families::counted_families(&options.series)?;
    Ok(Box::new(move |context| {
        check(&options)?;
        Ok(Built::Sink(Box::new(StatisticsSink::open(&options, &store, families, context)?)))
    }))
}

/// Finds out whether statistics could be kept with these options, as the start does first: whether their folder can be made, or
/// takes files. Nothing is made.
pub fn check(options: &StatisticsSinkOptions) -> Result<(), ComponentError> {
    let folder = &options.statistics;
    let cannot = |error| ComponentError::caused(format!("cannot write the statistics {}", folder.display()), error);
    weir_disk::check_folder(folder).map_err(cannot)
}

/// How a count is had from what the writer has counted.
type Reading = fn(&WriterCounts) -> u64;

struct StatisticsSink {
    /// `None` once it is closed.
    writer: Option<StatisticsWriter>,
    folder: PathBuf,
    store: StoreOptions,
    steps: OpenSteps,
    families: Vec<CountedFamily>,
    top: usize,
    series_max: usize,
    keys_refused: Counter,
    /// The last step that this process has written.
    written_secs: Option<i64>,
    /// Series in the catalogue when it was last looked for unused ones.
    series_used: usize,
    stop: StopSignal,
    steps_written: Counter,
    failures: Counter,
    counted: [(Counter, Reading); 9],
    /// Blocks of 288 steps that a limit by size has taken.
    blocks_dropped: Counter,
}

impl StatisticsSink {
    fn open(
        options: &StatisticsSinkOptions,
        store: &StoreOptions,
        families: Vec<CountedFamily>,
        context: &ComponentContext,
    ) -> Result<Self, ComponentError> {
        let folder = options.statistics.clone();
        let specs: Vec<_> = families.iter().map(|family| family.spec.clone()).collect();
        let writer = StatisticsWriter::open(&folder, store, &specs).map_err(|error| failed(&folder, error))?;
        let counters = &context.counters;
        let finest = store.resolutions[0];
        Ok(Self {
            // a step of a process before may get more rows, an earlier one may not
            steps: OpenSteps::new(&options.series, finest, writer.last_secs(), counters),
            series_used: writer.catalogue().len(),
            writer: Some(writer),
            folder,
            store: store.clone(),
            families,
            top: options.series.top,
            series_max: options.series.series_max,
            keys_refused: counters.counter("keys_refused"),
            written_secs: None,
            stop: context.stop.clone(),
            steps_written: counters.counter("steps_written"),
            failures: counters.counter("failures"),
            blocks_dropped: counters.counter("blocks_dropped"),
            counted: [
                (counters.counter("steps_consolidated"), |counts| counts.steps_consolidated),
                (counters.counter("blocks_written"), |counts| counts.blocks),
                (counters.counter("steps_damaged"), |counts| counts.steps_damaged),
                (counters.counter("writer_failures"), |counts| counts.failures),
                (counters.counter("octets_cut"), |counts| counts.octets_cut),
                (counters.counter("files_damaged"), |counts| counts.files_damaged),
                (counters.counter("files_set_aside"), |counts| counts.files_set_aside),
                (counters.counter("keys_repaired"), |counts| counts.keys_repaired),
                (counters.counter("keys_lost"), |counts| counts.keys_lost),
            ],
        })
    }

    /// Opens the store again after the clock was ahead: what it has of that time is set aside, or nothing could be written
    /// until the clock is there again.
    fn come_back(&mut self, now_ms: i64) -> Result<(), ComponentError> {
        let latest = now_ms.div_euclid(1_000).saturating_add_unsigned(self.store.ahead_secs_max);
        if !self.steps.is_live() || self.written_secs.max(Some(self.steps.floor_secs())) <= Some(latest) {
            return Ok(());
        }
        self.write_until(i64::MAX)?;
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let failed = |error| failed(&self.folder, error);
        writer.close().map_err(failed)?;
        let specs: Vec<_> = self.families.iter().map(|family| family.spec.clone()).collect();
        let writer = StatisticsWriter::open(&self.folder, &self.store, &specs).map_err(failed)?;
        tracing::warn!("the clock was ahead: statistics of that time are set aside in {}", self.folder.display());
        self.written_secs = None;
        self.steps.begin_again(writer.last_secs());
        self.writer = Some(writer);
        Ok(())
    }

    /// Writes the steps that end before a time, those without rows included.
    fn write_until(&mut self, edge_secs: i64) -> Result<(), ComponentError> {
        let step_secs = self.steps.step_secs();
        while let Some((time_secs, counts)) = self.steps.pop_before(edge_secs) {
            self.write_silence(time_secs)?;
            let rows = self.rows_of(&counts)?;
            self.steps.recycle(counts);
            self.write(time_secs, &rows)?;
        }
        // nothing is open before the edge any more
        let edge = edge_secs - edge_secs.rem_euclid(step_secs);
        self.steps.close_before(edge);
        self.write_silence(self.steps.earliest().map_or(edge, |earliest| earliest.min(edge)))
    }

    /// Writes steps without rows after the last one, up to this one.
    fn write_silence(&mut self, until_secs: i64) -> Result<(), ComponentError> {
        let step_secs = self.steps.step_secs();
        let Some(written) = self.written_secs else { return Ok(()) };
        if until_secs.saturating_sub(written) / step_secs > EMPTY_STEPS_MAX {
            return Ok(());
        }
        let mut time_secs = written + step_secs;
        while time_secs < until_secs {
            self.write(time_secs, &StepRows::default())?;
            time_secs += step_secs;
        }
        Ok(())
    }

    /// The rows of a step: every key, or the largest and the sum of the others.
    fn rows_of(&mut self, counts: &StepCounts) -> Result<StepRows, ComponentError> {
        let mut step = StepRows::default();
        let Some(writer) = &mut self.writer else { return Ok(step) };
        for (counted, family) in counts.families.iter().zip(&self.families) {
            let (rows, refused) = counted.rows(family, self.top, self.series_max, writer)?;
            self.keys_refused.add(refused);
            if let Some(id) = writer.family(&family.spec.name).filter(|_| !rows.ids.is_empty()) {
                step.families.push((id, rows));
            }
        }
        step.families.sort_by_key(|(id, _)| *id);
        Ok(step)
    }

    /// Writes a step, again and again while the disk is full and the chain goes on.
    fn write(&mut self, time_secs: i64, rows: &StepRows) -> Result<(), ComponentError> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let mut is_reported = false;
        loop {
            let is_last = self.stop.is_set();
            match writer.write_step(time_secs, rows.clone()) {
                Ok(()) => break,
                Err(error) if is_last || !error.may_pass() => {
                    return Err(failed(&self.folder, error));
                }
                Err(error) => {
                    self.failures.add(1);
                    if !is_reported {
                        tracing::warn!(
                            "statistics take nothing, trying again: {}",
                            failed(&self.folder, error).chain()
                        );
                        is_reported = true;
                    }
                    thread::sleep(RETRY);
                }
            }
        }
        self.written_secs = Some(time_secs);
        self.steps_written.add(1);
        Ok(())
    }

    fn count(&self, counts: &WriterCounts) {
        for (counter, of) in &self.counted {
            counter.add(of(counts).saturating_sub(counter.get()));
        }
        let dropped = counts.blocks_dropped.saturating_sub(self.blocks_dropped.get());
        if dropped > 0 {
            self.blocks_dropped.add(dropped);
            let folder = self.folder.display();
            tracing::warn!(
                "the statistics {folder} have reached max_size: the oldest {dropped} blocks of 288 steps are removed"
            );
        }
    }

    /// Forgets keys that are in no step any more, once they may be half of all.
    fn forget_unused(&mut self) {
        let Some(writer) = &mut self.writer else { return };
        if writer.catalogue().len() < SERIES_MANY.max(2 * self.series_used) {
            return;
        }
        if let Err(error) = writer.forget_unused() {
            self.failures.add(1);
            tracing::warn!("keys that are not used any more are kept: {}", failed(&self.folder, error).chain());
        }
        self.series_used = writer.catalogue().len();
    }
}

fn failed(folder: &std::path::Path, error: SeriesError) -> ComponentError {
    ComponentError::caused(format!("cannot write the statistics {}", folder.display()), error)
}

fn now_ms() -> i64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as i64)
}

impl Sink for StatisticsSink {
    fn take(&mut self, burst: Burst) -> Result<(), ComponentError> {
        let rows: &RecordBatch = burst.rows();
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let now_ms = now_ms();
        self.come_back(now_ms)?;
        self.steps.take(rows, &self.families, now_ms)?;
        self.write_until(self.steps.edge_secs())
    }

    fn finish(&mut self) -> Result<(), ComponentError> {
        self.write_until(i64::MAX)?;
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let counts = writer.close().map_err(|error| failed(&self.folder, error))?;
        self.count(&counts);
        Ok(())
    }

    fn tick(&mut self) -> Result<(), ComponentError> {
        let now_ms = now_ms();
        if self.steps.is_live() {
            self.come_back(now_ms)?;
            self.steps.advance(now_ms);
            self.write_until(self.steps.edge_secs())?;
        }
        if let Some(writer) = &self.writer {
            self.count(&writer.counts());
        }
        self.forget_unused();
        Ok(())
    }

    fn state(&self) -> State {
        self.steps.state()
    }
}

#[cfg(test)]
mod tests;
