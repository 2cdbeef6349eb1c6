//! The thread that asks the statement of a watch.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, never, select};
use weir_archive::{FollowRetry, Snapshot};
use weir_reports::journal::WatchState;
use weir_reports::{Acknowledgements, JournalError};
use weir_sql::standing::Window;

use crate::WatchError;
use crate::corrections::{Changes, Corrections, corrected_id};
use crate::counters::{WatchCounters, locked};
use crate::error::with_causes;
use crate::flows::{Flows, Pieces};
use crate::following::{FollowCommand, FollowedWatch, LOOK_EVERY};
use crate::grown::GrownPane;
use crate::panes::ClosedWindow;
use crate::paused::SkippedWindows;
use crate::report::{Report, too_many_id};
use crate::shared::{Message, Shared, now_ms};
use crate::waiting::WaitingWindow;
use crate::watch::{RepeatFilter, Watch};

/// Watches that are taken to load flows of the past at the same time, as all do at a start.
const LOADING_WATCHES: u64 = 8;
/// How often the state of a watch without reports is kept.
const COMMIT_EVERY: Duration = Duration::from_secs(5);
/// How long after a failure the journal is written again.
const COMMIT_AGAIN: Duration = Duration::from_millis(500);

/// The thread that asks the statement of a watch.
pub(crate) struct Worker {
    watch: Watch,
    counters: Arc<WatchCounters>,
    shared: Shared,
    repeats: RepeatFilter,
    corrections: Corrections,
    /// Reports that were kept before a crash, and whose window is asked again.
    known: HashSet<String>,
    acknowledged: Acknowledgements,
    folder: PathBuf,
    /// Set when the watch is to end.
    leaving: Arc<AtomicBool>,
    last_commit: Instant,
    uncommitted: Option<WatchState>,
    /// Whether the last statement failed, which is reported once.
    is_failing: bool,
    /// Whether the archive had too little of the past for the last window.
    is_lacking_past: bool,
    /// Whether rows could not be aggregated before their window closed, which is reported once.
    is_keeping_rows: bool,
}

/// Ends the runner when a thread panics: its windows would not be asked.
struct PanicFlag(Arc<AtomicBool>);

impl Drop for PanicFlag {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

impl Worker {
    pub(crate) fn start(
        watch: Watch,
        counters: Arc<WatchCounters>,
        control: Sender<FollowCommand>,
        leaving: &Arc<AtomicBool>,
        shared: &Shared,
    ) -> Result<JoinHandle<()>, WatchError> {
        let name = watch.file.name.clone();
        let (before, state, paused_ms, reported, folder) = {
            let journal = locked(&shared.journal);
            let paused_ms = journal.paused_since(&name)?;
            let before = journal.state(&name)?;
            let state = before.filter(|state| state.windows == watch.lengths());
            let after_ms = state.map_or(i64::MIN, |state| state.window_end_ms);
            let repeat_after_ms = watch.file.options.reports.repeat_after.millis();
            let reported = journal.reported(&name, repeat_after_ms, after_ms)?;
            (before, state, paused_ms, reported, journal.folder().to_owned())
        };
        if before.is_some() && state.is_none() && paused_ms.is_none() {
            shared.notice(format!("watch '{name}' has windows of another length than before: it begins anew"));
        }
        let mut worker = Self {
            repeats: RepeatFilter::new(&watch.file, reported.last),
            corrections: Corrections::new(watch.late_ms()),
            watch,
            counters,
            shared: shared.clone(),
            known: reported.ids,
            acknowledged: Acknowledgements::default(),
            folder,
            leaving: Arc::clone(leaving),
            last_commit: Instant::now(),
            uncommitted: None,
            is_failing: false,
            is_lacking_past: false,
            is_keeping_rows: false,
        };
        let run = move || {
            let _panics = PanicFlag(Arc::clone(&worker.shared.is_failed));
            let asked_through_ms = worker.begun(state, paused_ms);
            worker.run(asked_through_ms, &control);
        };
        thread::Builder::new().name(format!("watch-{name}")).spawn(run).map_err(WatchError::Thread)
    }

    /// The end of the last window that was asked, that passed while the watch was paused, or before it began. `None` when that is not
    /// known: it goes on from now.
    fn begun(&mut self, state: Option<WatchState>, paused_ms: Option<i64>) -> Option<i64> {
        let name = self.watch.file.name.clone();
        let Some(paused_ms) = paused_ms else {
            let Some(state) = state else { return self.begin_anew() };
            if state.window_end_ms > now_ms().saturating_add(self.watch.file.options.windows.skew.millis()) {
                self.shared.notice(format!("watch '{name}': its last window is ahead of the clock; it begins anew"));
                return self.begin_anew();
            }
            return self.caught_up(state.window_end_ms);
        };
        let after_ms = state.map_or(paused_ms, |state| state.window_end_ms.min(paused_ms));
        let skipped = if self.shared.is_stream { Ok(None) } else { SkippedWindows::after(&self.watch, after_ms) };
        let asked_through_ms = match skipped {
            Ok(Some(skipped)) => {
                let now_ms = now_ms();
                let window_end_ms = skipped.last_end_ms(now_ms);
                self.counters.windows_skipped.fetch_add(skipped.count(now_ms), Ordering::Relaxed);
                // first, so that a crash between the two makes it skip again rather than ask
                self.commit(&[], Some(&WatchState { window_end_ms, windows: self.watch.lengths() }));
                Some(window_end_ms)
            }
            // the end of the thread has the error
            Ok(None) | Err(_) => state.map(|state| state.window_end_ms),
        };
        if let Err(error) = locked(&self.shared.journal).resume(&name) {
            self.shared.notice(format!("watch '{name}' stays paused in the journal: {}", with_causes(&error)));
        }
        asked_through_ms
    }

    /// Begins with the window that is open, and keeps that: a stop before its answer must not make the next start begin anew, and
    /// leave out what ended between. The windows of a chain go by the time of its flows, which is not known yet.
    fn begin_anew(&mut self) -> Option<i64> {
        if self.shared.is_stream {
            return None;
        }
        // the end of the thread has the error
        let windows = self.watch.open_windows().ok().flatten()?;
        let lengths = self.watch.lengths();
        let window_end_ms = windows.first_end_after(now_ms()).saturating_sub(lengths.1);
        let state = WatchState { window_end_ms, windows: lengths };
        if let Err(error) = locked(&self.shared.journal).keep_state(&self.watch.file.name, &state) {
            // the watch runs all the same, and its first report or its end tries again
            self.uncommitted = Some(state);
            self.shared.notice(format!("the journal cannot be written: {}", with_causes(&error)));
        }
        Some(window_end_ms)
    }

    fn run(&mut self, mut asked_through_ms: Option<i64>, control: &Sender<FollowCommand>) {
        let (begun_ms, mut retry) = (now_ms(), FollowRetry::default());
        while let Some((windows, grown)) = join(&self.watch, &self.counters, &self.shared, asked_through_ms, control) {
            self.answer(&windows, grown);
            let Some(error) = locked(&self.counters.join_error).clone() else { break };
            if retry.failed(Instant::now()) {
                let name = &self.watch.file.name;
                self.shared.notice(format!("watch '{name}' does not run yet, trying again: {error}"));
            }
            if !waits(&retry, || self.is_leaving()) {
                break;
            }
            // windows that end before it has joined are asked then
            asked_through_ms.get_or_insert(begun_ms);
        }
        if let Some(state) = self.uncommitted.take() {
            self.commit(&[], Some(&state));
        }
    }

    /// Answers windows until no more come, or the watch is to end.
    fn answer(&mut self, windows: &Receiver<WaitingWindow>, mut panes_grown: Receiver<GrownPane>) {
        loop {
            select! {
                recv(windows) -> waiting => {
                    let Ok(waiting) = waiting else { break };
                    self.counters.waiting.answer(&waiting);
                    let is_asked = self.ask(&waiting.window);
                    drop(waiting);
                    self.counters.waiting.answered();
                    if !is_asked {
                        self.leave(windows);
                        break;
                    }
                }
                recv(panes_grown) -> grown => match grown {
                    Ok(grown) if !self.is_leaving() => self.aggregate(&grown),
                    Ok(_) => {}
                    Err(_) => panes_grown = never(),
                },
            }
        }
    }

    /// Aggregates rows of a window before it closes. When that fails they stay, and what there is no room for then is counted. It
    /// takes no turn of those that answer: while it waited, rows would be left out.
    fn aggregate(&mut self, grown: &GrownPane) {
        let failure = self.watch.aggregate(grown).err();
        let was_failing = std::mem::replace(&mut self.is_keeping_rows, failure.is_some());
        if let Some(error) = failure.filter(|_| !was_failing) {
            self.shared.notice(format!("rows are kept until their window closes: {}", with_causes(&error)));
        }
    }

    /// Leaves a window that waits, and those behind it, to the next start. The flows of a chain do not come again, so there it
    /// is reported how many windows are not asked.
    fn leave(&self, behind: &Receiver<WaitingWindow>) {
        if !self.shared.is_stream || self.shared.is_ending() {
            return;
        }
        // until the thread that follows has let the watch go
        let left = 1 + behind.iter().count();
        let windows = match left {
            1 => "1 window that waited is".to_owned(),
            left => format!("{left} windows that waited are"),
        };
        self.shared.notice(format!("watch '{}' is begun anew or ends: {windows} not asked", self.watch.file.name));
    }

    fn is_leaving(&self) -> bool {
        self.shared.is_ending() || self.leaving.load(Ordering::Relaxed)
    }

    /// Asks for the windows since the last one that was asked, until the rest is of the last seconds; gives the end of the
    /// last. `None` when the archive cannot be read: what was kept stays, so that another start can ask what this one does not.
    fn caught_up(&mut self, mut through_ms: i64) -> Option<i64> {
        let name = self.watch.file.name.clone();
        let windows = &self.watch.file.options.windows;
        if self.shared.is_stream {
            return Some(through_ms);
        }
        let wait_ms = windows.lateness.millis().saturating_add(windows.idle.millis()).saturating_add(1_000);
        let near_ms = wait_ms.saturating_add(2 * self.watch.lengths().1);
        loop {
            match self.catch_up(through_ms, wait_ms) {
                Ok(reached_ms) if reached_ms == through_ms || now_ms() - reached_ms < near_ms || self.is_leaving() => {
                    return Some(reached_ms);
                }
                Ok(reached_ms) => through_ms = reached_ms,
                Err(error) => {
                    let error = with_causes(&error);
                    self.shared.notice(format!("watch '{name}' cannot catch up, and goes on from now: {error}"));
                    return None;
                }
            }
        }
    }

    /// Asks for the windows after one, as far as they must have ended; gives the end of the last.
    fn catch_up(&mut self, through_ms: i64, wait_ms: i64) -> Result<i64, WatchError> {
        let Some(mut panes) = self.watch.open_windows()? else { return Ok(through_ms) };
        let time = self.watch.file.options.windows.time.column();
        let columns = self.watch.query.columns().to_vec();
        let snapshot = Arc::new(self.shared.history.snapshot()?);
        let flows = Arc::new(Flows::at(&snapshot)?);
        panes.skip_through(through_ms);
        panes.begin_at(through_ms);
        let end_ms = panes.first_end_after(now_ms().saturating_sub(wait_ms)).saturating_sub(self.watch.lengths().1);
        let from_ms = panes.first_end_after(through_ms).saturating_sub(panes.size_max_ms());
        let mut pieces =
            Pieces::between(&flows, &columns, time, (from_ms, end_ms), panes.loaded_rows_max(LOADING_WATCHES))?;
        let mut asked_through_ms = through_ms;
        let mut closed = Vec::new();
        while pieces.load(&mut panes)?.is_some() {
            if let Some(grown) = panes.grown() {
                self.aggregate(&grown);
            }
            while let Some(next_ms) = panes.next_end_through(pieces.at_ms()) {
                if self.is_leaving() {
                    return Ok(asked_through_ms);
                }
                panes.close_through(next_ms, &mut closed);
                for window in closed.drain(..) {
                    self.counters.windows_closed.fetch_add(1, Ordering::Relaxed);
                    if !self.ask(&window) {
                        return Ok(asked_through_ms);
                    }
                }
                asked_through_ms = panes.closed_through().unwrap_or(next_ms);
            }
            *locked(&self.counters.panes) = panes.counts();
        }
        Ok(asked_through_ms)
    }

    /// Asks about a window, and keeps what it finds. A statement that fails is counted, and
    /// reported until one works again. False when the watch is to end before its turn comes: the window is not asked.
    fn ask(&mut self, window: &ClosedWindow) -> bool {
        let state = WatchState { window_end_ms: window.end_ms, windows: self.watch.lengths() };
        let is_correction = window.is_correction;
        let longest = self.watch.longest(window);
        let Some(permit) = self.shared.permit(|| self.is_leaving()) else { return false };
        let asked = Instant::now();
        let history = if self.watch.query.has_history() { self.shared.history.snapshot().map(Some) } else { Ok(None) };
        let answer = history.and_then(|snapshot| self.reports_of(window, snapshot.map(Arc::new).as_ref()));
        drop(permit);
        self.counters.answer_ms_max.fetch_max(asked.elapsed().as_millis() as u64, Ordering::Relaxed);
        match answer {
            Ok(None) => {
                self.counters.windows_without_past.fetch_add(1, Ordering::Relaxed);
                self.keep(Vec::new(), Some(state).filter(|_| !is_correction));
            }
            Ok(Some(reports)) => {
                self.counters.windows_answered.fetch_add(1, Ordering::Relaxed);
                self.is_failing = false;
                if is_correction {
                    self.correct(longest, reports);
                } else {
                    self.corrections.remember(state.window_end_ms, &reports);
                    let new = self.new_of(reports);
                    if !new.is_empty() {
                        self.watch.note_reported();
                    }
                    self.corrections.reported(state.window_end_ms, &new);
                    self.keep(new, Some(state));
                }
            }
            Err(error) => {
                self.counters.windows_failed.fetch_add(1, Ordering::Relaxed);
                if !std::mem::replace(&mut self.is_failing, true) {
                    self.shared.notice(with_causes(&error));
                }
                self.keep(Vec::new(), Some(state).filter(|_| !is_correction));
            }
        }
        true
    }

    /// What is reported of a window; `None` when the archive has too little of the past for it, which is said once.
    fn reports_of(
        &mut self,
        window: &ClosedWindow,
        history: Option<&Arc<Snapshot>>,
    ) -> Result<Option<Vec<Report>>, WatchError> {
        let lack = self.watch.lacks_past(window, history)?;
        let was_lacking = std::mem::replace(&mut self.is_lacking_past, lack.is_some());
        match lack {
            Some(notice) => {
                if !was_lacking {
                    self.shared.notice(notice);
                }
                Ok(None)
            }
            None => self.watch.ask(window, history).map(|(_, reports)| Some(reports)),
        }
    }

    /// Reports what late flows have changed of a window.
    fn correct(&mut self, window: Window, reports: Vec<Report>) {
        self.counters.windows_corrected.fetch_add(1, Ordering::Relaxed);
        let Changes { changed, new, withdrawn } = self.corrections.changes(window.end_ms, reports);
        let selection = self.repeats.select_later(new);
        self.counters.reports.suppressed.fetch_add(selection.suppressed, Ordering::Relaxed);
        let withdrawn = withdrawn.into_iter().map(|(key, corrections)| {
            self.repeats.forget(&key, window.end_ms);
            let report = self.watch.withdrawn(window, key);
            Report { id: corrected_id(&report.id, corrections), ..report }
        });
        let mut corrected: Vec<Report> = changed.into_iter().chain(selection.new).chain(withdrawn).collect();
        self.retain_unacknowledged(&mut corrected);
        let left_out = corrected.len().saturating_sub(self.watch.file.options.reports.reports_max);
        corrected.truncate(corrected.len() - left_out);
        self.counters.reports.suppressed.fetch_add(left_out as u64, Ordering::Relaxed);
        self.corrections.reported(window.end_ms, &corrected);
        if !corrected.is_empty() {
            self.keep(corrected, None);
        }
    }

    /// Keeps new reports and how far the watch is, if that is another window, and then sends them.
    fn keep(&mut self, mut new: Vec<Report>, state: Option<WatchState>) {
        if new.is_empty() && self.last_commit.elapsed() < COMMIT_EVERY {
            self.uncommitted = state.or(self.uncommitted.take());
            return;
        }
        if let Some(window) = new.first().map(|report| report.window) {
            let lost = self.shared.history.lost_records(window.start_ms, window.end_ms);
            for report in &mut new {
                report.records_lost = lost;
            }
        }
        let state = state.or(self.uncommitted);
        if !self.commit(&new, state.as_ref()) {
            return;
        }
        (self.last_commit, self.uncommitted) = (Instant::now(), None);
        self.counters.reports.made.fetch_add(new.len() as u64, Ordering::Relaxed);
        for report in new {
            // nothing waits for them to be printed; they are in the journal
            let is_full = self.shared.messages.try_send(Message::Report(Box::new(report))).is_err();
            self.counters.reports.unprinted.fetch_add(u64::from(is_full), Ordering::Relaxed);
        }
    }

    /// Writes the journal: the reports, and then how far the watch is. False when the watch ended before that was possible.
    fn commit(&self, reports: &[Report], state: Option<&WatchState>) -> bool {
        let name = &self.watch.file.name;
        let is_appended = reports.is_empty() || self.persist(|| self.append(reports));
        let keep = |state: &WatchState| self.persist(|| locked(&self.shared.journal).keep_state(name, state));
        is_appended && state.is_none_or(keep)
    }

    /// Appends reports to the journal, and lets that remove old ones; when only this fails, it is reported and tried again later.
    fn append(&self, reports: &[Report]) -> Result<(), JournalError> {
        let (mut journal, now_ms) = (locked(&self.shared.journal), now_ms());
        journal.append(reports.iter().map(Report::members), now_ms)?;
        if let Err(error) = journal.cut(now_ms) {
            self.shared.notice(format!("old reports cannot be removed, trying again: {}", with_causes(&error)));
        }
        Ok(())
    }

    /// Does something with the journal again and again until it works: a disk that is full has room some time. False when the
    /// watch ended before.
    fn persist(&self, write: impl Fn() -> Result<(), JournalError>) -> bool {
        let mut is_reported = false;
        while let Err(error) = write() {
            if !is_reported {
                is_reported = true;
                self.shared.notice(format!("the journal cannot be written, trying again: {}", with_causes(&error)));
            }
            if self.is_leaving() {
                return false;
            }
            thread::sleep(COMMIT_AGAIN);
        }
        true
    }

    fn new_of(&mut self, mut reports: Vec<Report>) -> Vec<Report> {
        let Some(first) = reports.first() else { return reports };
        if self.known.contains(&too_many_id(first)) {
            // the window was reported as a whole before a crash
            return Vec::new();
        }
        // a key that late flows gave a window which had no report may have been kept, and how far the watch was not
        reports.retain(|report| !self.known.remove(&report.id) && !self.known.remove(&corrected_id(&report.id, 1)));
        self.retain_unacknowledged(&mut reports);
        let selection = self.repeats.select(reports, self.watch.file.options.reports.reports_max);
        self.counters.reports.suppressed.fetch_add(selection.suppressed, Ordering::Relaxed);
        selection.new
    }

    /// Leaves out, and counts, reports whose key is acknowledged.
    fn retain_unacknowledged(&mut self, reports: &mut Vec<Report>) {
        self.acknowledged.refresh(&self.folder);
        let found = reports.len();
        reports.retain(|report| !self.acknowledged.has(&report.watch, &report.key, report.window.end_ms));
        let acknowledged = found - reports.len();
        self.counters.reports.acknowledged.fetch_add(acknowledged as u64, Ordering::Relaxed);
    }
}

/// Asks to join those that follow. Gives the windows that close from then on, and panes to aggregate; `None` when there are no
/// windows, or nobody follows any more.
fn join(
    watch: &Watch,
    counters: &Arc<WatchCounters>,
    shared: &Shared,
    asked_through_ms: Option<i64>,
    control: &Sender<FollowCommand>,
) -> Option<(Receiver<WaitingWindow>, Receiver<GrownPane>)> {
    let name = &watch.file.name;
    let ends = |error: &WatchError| shared.notice(format!("watch '{name}' ends: {}", with_causes(error)));
    let mut panes = watch.open_windows().inspect_err(ends).ok()??;
    panes.skip_through(asked_through_ms.unwrap_or(i64::MIN));
    let (closed, windows) = bounded(watch.file.options.windows.windows_waiting_max);
    let (grown, panes_grown) = bounded(1);
    let followed = FollowedWatch::new(watch, counters, panes, asked_through_ms, (closed, grown));
    control.send(FollowCommand::Join(Box::new(followed))).ok()?;
    Some((windows, panes_grown))
}

/// Waits until joining is tried again; false when the watch is to end.
fn waits(retry: &FollowRetry, is_leaving: impl Fn() -> bool) -> bool {
    while retry.is_waiting(Instant::now()) && !is_leaving() {
        thread::sleep(LOOK_EVERY);
    }
    !is_leaving()
}

#[cfg(test)]
mod tests;
