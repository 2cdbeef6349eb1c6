//! A watch asked about the past: when it would have reported.
//!
//! Flows are read in pieces of time with the columns that the statement needs, put into panes, and each window is asked
//! as a runner asks it. The archive has its rows, so none is late here. What speaks against using the live path is its
//! speed for short windows: each costs a run of a plan, some tenths of a millisecond.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use weir_archive::{ArchiveHandle, HandleOptions, Snapshot};
use weir_sql::standing::StandingEngine;

use crate::WatchError;
use crate::error::with_causes;
use crate::file::WatchFile;
use crate::flows::{Flows, Pieces};
use crate::open_windows::OpenWindows;
use crate::panes::ClosedWindow;
use crate::report::Report;
use crate::runner::RunnerOptions;
use crate::watch::{RepeatFilter, Selection, Watch};

/// When a watch would have reported.
#[derive(Debug, Clone)]
pub struct Firing {
    /// The reports of a window that are new.
    pub reports: Vec<Report>,
    /// When the window ended.
    pub window_end_ms: i64,
}

/// What a backtest found.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Windows with reports, in their order.
    pub firings: Vec<Firing>,
    /// Windows that closed.
    pub windows: u64,
    /// Flows that were read, and those dated after all windows.
    pub rows: u64,
    /// Reports that repeated a key too soon.
    pub suppressed: u64,
    /// Flows that were left out because windows had more than `rows_max` or the memory for windows, or more sessions were open than
    /// `sessions_max`.
    pub rows_shed: u64,
    /// Flows that were left out because they are dated after their reception by more than `skew`.
    pub rows_future: u64,
    /// Flows that were left out because they lack the time that windows go by; with bounds, of those received between them.
    pub rows_without_time: u64,
    /// Windows that were not asked, because the archive has less of the past than `history_min`.
    pub windows_without_past: u64,
    /// Why the first of them was not.
    pub lack: Option<String>,
    /// Windows whose answer failed.
    pub windows_failed: u64,
    /// Why the first of them did.
    pub failure: Option<String>,
    /// How long it took.
    pub elapsed: Duration,
    /// The first and the last time of windows that were asked.
    pub range_ms: Option<(i64, i64)>,
}

impl Outcome {
    /// Reports.
    pub fn reports(&self) -> usize {
        self.firings.iter().map(|firing| firing.reports.len()).sum()
    }
}

/// Windows one after the other without an answer at which a backtest ends: they may take the longest time each.
const FAILED_MAX: u32 = 20;

/// A watch asked about the past of an archive.
pub struct Backtest {
    watch: Watch,
    snapshot: Arc<Snapshot>,
    flows: Arc<Flows>,
    /// Why the first window without an answer has none.
    failed: Option<WatchError>,
}

impl std::fmt::Debug for Backtest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backtest").field("watch", &self.watch.file.name).finish_non_exhaustive()
    }
}

impl Backtest {
    /// Plans the statement.
    pub fn new(file: WatchFile, options: &RunnerOptions) -> Result<Self, WatchError> {
        let engine = StandingEngine::new(&options.standing)
            .map_err(|source| WatchError::Statement { name: file.name.clone(), source: Box::new(source) })?;
        let mut watch = Watch::prepare(file, &engine, &options.archive.display().to_string())?;
        watch.past_must_be_there();
        let handle = ArchiveHandle::open(&options.archive, &HandleOptions::default())?;
        let snapshot = Arc::new(handle.snapshot()?);
        let flows = Arc::new(Flows::at(&snapshot)?);
        Ok(Self { watch, snapshot, flows, failed: None })
    }

    /// Asks for the windows that end after `from_ms` and at `to_ms` or before; what the archive has, where no bound is
    /// given. `window` is called with the answer about each.
    pub fn run(
        &mut self,
        from_ms: Option<i64>,
        to_ms: Option<i64>,
        window: impl FnMut(&ClosedWindow, &[RecordBatch]),
    ) -> Result<Outcome, WatchError> {
        self.run_until(from_ms, to_ms, window, || false)
    }

    /// As [`run`](Self::run), until `is_stopped`: the outcome is that of the windows before.
    pub fn run_until(
        &mut self,
        from_ms: Option<i64>,
        to_ms: Option<i64>,
        mut window: impl FnMut(&ClosedWindow, &[RecordBatch]),
        is_stopped: impl Fn() -> bool,
    ) -> Result<Outcome, WatchError> {
        let began = Instant::now();
        let mut outcome = Outcome::default();
        let Some(mut panes) = self.watch.open_windows()? else { return Ok(outcome) };
        let Some((first_ms, end_ms)) = self.range(&panes, (from_ms, to_ms), &mut outcome)? else { return Ok(outcome) };
        let from_ms = from_ms.unwrap_or(first_ms).max(first_ms);
        if end_ms <= from_ms {
            return Ok(outcome);
        }
        let at_ms = from_ms.saturating_sub(panes.size_max_ms()).max(first_ms);
        panes.begin_at(from_ms);
        let mut repeats = RepeatFilter::new(&self.watch.file, std::collections::HashMap::new());
        let time = self.watch.file.options.windows.time.column();
        let columns = self.watch.query.columns();
        let mut pieces = Pieces::between(&self.flows, columns, time, (at_ms, end_ms), panes.loaded_rows_max(1))?;
        while !is_stopped()
            && let Some(rows) = pieces.load(&mut panes)?
        {
            outcome.rows += rows;
            if let Some(grown) = panes.grown() {
                // as in a watch that runs, where this fails the rows stay
                let _ = self.watch.aggregate(&grown);
            }
            let at_ms = pieces.at_ms();
            self.ask_closed(&mut panes, at_ms, &mut repeats, &mut outcome, (&mut window, &is_stopped))?;
        }
        let counts = panes.counts();
        outcome.rows_shed =
            counts.rows_shed + counts.rows_over_memory + counts.rows_without_session + counts.rows_failed;
        outcome.rows_future += counts.rows_future;
        outcome.rows_without_time += counts.rows_without_time;
        outcome.elapsed = began.elapsed();
        match self.failed.take() {
            Some(error) if outcome.windows_failed + outcome.windows_without_past == outcome.windows => Err(error),
            _ => Ok(outcome),
        }
    }

    /// The first time of flows, and the end of the last window that can have one, at `to_ms` at the latest. Flows that are not
    /// read are counted: those without a time, and those dated after all windows. `None` without any flow of windows.
    fn range(
        &self,
        panes: &OpenWindows,
        (from_ms, to_ms): (Option<i64>, Option<i64>),
        outcome: &mut Outcome,
    ) -> Result<Option<(i64, i64)>, WatchError> {
        let windows = &self.watch.file.options.windows;
        let time = windows.time.column();
        outcome.rows_without_time = self.flows.count_without(time, (from_ms, to_ms))?;
        let last_ms = self.flows.last_time(time, windows.skew.millis())?;
        let extent = self.flows.extent(time, last_ms)?;
        let end_ms = extent.map(|(_, last_ms)| panes.first_end_after(last_ms).saturating_add(panes.size_max_ms()));
        // where windows go by reception there is no last time, and no flow after it
        if let Some(after_ms) = last_ms.map(|last_ms| end_ms.unwrap_or(last_ms.saturating_add(1))) {
            let after_ms = from_ms.map_or(after_ms, |from_ms| from_ms.max(after_ms));
            outcome.rows_future = self.flows.count_within(time, (after_ms, to_ms))?;
            outcome.rows = outcome.rows_future;
        }
        let bounded = |end_ms: i64| to_ms.map_or(end_ms, |to_ms| to_ms.min(end_ms));
        Ok(extent.zip(end_ms.map(bounded)).map(|((first_ms, _), end_ms)| (first_ms, end_ms)))
    }

    fn ask_closed(
        &mut self,
        panes: &mut OpenWindows,
        through_ms: i64,
        repeats: &mut RepeatFilter,
        outcome: &mut Outcome,
        (window, is_stopped): (&mut impl FnMut(&ClosedWindow, &[RecordBatch]), &impl Fn() -> bool),
    ) -> Result<(), WatchError> {
        let (mut closed, mut failed_since) = (Vec::new(), 0);
        // one after the other: windows that overlap share their rows, but a list of them is long
        while let Some(end_ms) = panes.next_given_through(through_ms).filter(|_| !is_stopped()) {
            panes.close_through(end_ms, &mut closed);
            let Some(closed_window) = closed.pop() else { continue };
            let end_ms = closed_window.end_ms;
            outcome.windows += 1;
            let (first_ms, _) = outcome.range_ms.unwrap_or((end_ms, end_ms));
            outcome.range_ms = Some((first_ms, end_ms));
            if let Some(lack) = self.watch.lacks_past(&closed_window, Some(&self.snapshot))? {
                outcome.windows_without_past += 1;
                outcome.lack.get_or_insert(lack);
                continue;
            }
            let (answer, reports) = match self.watch.ask(&closed_window, Some(&self.snapshot)) {
                Ok(answer) => answer,
                // as in a watch that runs: one window says nothing about the others
                Err(error) => {
                    failed_since += 1;
                    if failed_since >= FAILED_MAX {
                        return Err(error);
                    }
                    outcome.windows_failed += 1;
                    outcome.failure.get_or_insert_with(|| with_causes(&error));
                    self.failed.get_or_insert(error);
                    continue;
                }
            };
            failed_since = 0;
            window(&closed_window, &answer);
            let Selection { new: reports, suppressed } =
                repeats.select(reports, self.watch.file.options.reports.reports_max);
            outcome.suppressed += suppressed;
            if !reports.is_empty() {
                self.watch.note_reported();
                outcome.firings.push(Firing { reports, window_end_ms: end_ms });
            }
        }
        Ok(())
    }
}
