//! Watches that follow an archive.
//!
//! One thread follows and cuts; each watch has a thread that asks, so that a slow one does not delay the others. At most as many
//! statements as there are cores run at a time. Closed windows wait in a queue with a limit; what does not fit is not
//! asked, counted and reported. Nothing here is waited for by the writer of the archive.
//!
//! A watch that was asked before first catches up in its own thread: the windows since its last one are read from the
//! archive as a backtest reads them. Then it joins the others: its panes get what the archive has of open windows, at a
//! snapshot, and deliveries after the position of that snapshot. So watches come and go without touching one another.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use weir_archive::{FollowOptions, Follower};
use weir_chain::StopSignal;
use weir_flow::Column;
use weir_notify::{Action, Notifier, NotifyCounters, Scope};
use weir_reports::{Journal, Retention};
use weir_sql::standing::{HistoryCounters, StandingEngine, StandingOptions};

use crate::WatchError;
use crate::counters::{WatchCounters, WatchCounts, locked};
use crate::file::WatchFile;
use crate::flow_source::{FlowFeed, FlowSource, Follow, HistoryArchive, stream};
use crate::following::{FollowCommand, FollowThread, LOOK_EVERY};
use crate::paused::{PausedWatch, SkippedWindows};
use crate::shared::{Message, Shared, now_ms, permits};
use crate::watch::Watch;
use crate::worker::Worker;

/// Messages that may wait to be printed. Nothing waits for that: further reports are in the journal only, and counted.
const MESSAGES_MAX: usize = 10_000;

/// How often it is looked whether watches have joined.
const JOIN_LOOK_EVERY: Duration = Duration::from_millis(1);

/// Folder of the journal in an archive, when no other is named.
pub const JOURNAL_FOLDER: &str = "watch";

/// Options of a [`Runner`].
#[derive(Debug, Clone)]
pub struct RunnerOptions {
    /// The archive.
    pub archive: PathBuf,
    /// Folder of the journal; in the archive by default.
    pub journal: Option<PathBuf>,
    /// How long reports are kept in the journal.
    pub retention: Retention,
    /// Where the reports of all watches go, besides the actions of each.
    pub actions: Vec<Action>,
    /// Limits of the statements.
    pub standing: StandingOptions,
    /// Statements that run at a time; one per core by default.
    pub statements_at_once: usize,
}

impl RunnerOptions {
    /// Options for an archive, all others by default.
    pub fn new(archive: &Path) -> Self {
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            archive: archive.to_owned(),
            journal: None,
            retention: Retention::default(),
            actions: Vec::new(),
            standing: StandingOptions::default(),
            statements_at_once: cores,
        }
    }

    /// The folder of the journal.
    pub fn journal_folder(&self) -> PathBuf {
        self.journal.clone().unwrap_or_else(|| self.archive.join(JOURNAL_FOLDER))
    }
}

/// Watches that follow an archive.
#[derive(Debug)]
pub struct Runner {
    messages: Receiver<Message>,
    control: Sender<FollowCommand>,
    engine: StandingEngine,
    shared: Option<Shared>,
    watches: Vec<RunningWatch>,
    paused: Vec<PausedWatch>,
    /// What watches that were removed have counted, to their end.
    gone: BTreeMap<&'static str, u64>,
    /// Of the actions of all watches.
    notifiers: RunningNotifiers,
    follower: JoinHandle<()>,
    stop: StopSignal,
}

/// Threads that send reports.
#[derive(Debug, Default)]
struct RunningNotifiers {
    threads: Vec<JoinHandle<()>>,
    counters: Arc<NotifyCounters>,
    /// Set when they are to send what is left, and end.
    is_ending: Arc<AtomicBool>,
}

impl RunningNotifiers {
    /// Starts one for each action; none when one cannot be started.
    fn start(scope: &Scope, actions: &[Action], folder: &Path, shared: &Shared) -> Result<Self, WatchError> {
        let mut running = Self::default();
        let mut start = || -> Result<(), WatchError> {
            for action in actions {
                let shared = shared.clone();
                let notice = Arc::new(move |text| shared.notice(text));
                let notifier = Notifier::new(scope, action, folder, &running.counters, notice)?;
                running.threads.push(notifier.start(&running.is_ending).map_err(WatchError::Thread)?);
            }
            Ok(())
        };
        let started = start();
        // those that have started must not wait for a watch that will not come
        running.is_ending.store(started.is_err(), Ordering::Relaxed);
        started.map(|()| running)
    }

    fn end(self) {
        self.is_ending.store(true, Ordering::Relaxed);
        for thread in self.threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// A watch of a runner.
#[derive(Debug)]
struct RunningWatch {
    name: String,
    counters: Arc<WatchCounters>,
    worker: JoinHandle<()>,
    notifiers: RunningNotifiers,
    /// Set when the worker is to end.
    leaving: Arc<AtomicBool>,
}

impl RunningWatch {
    fn end(self) {
        let ended = self.worker.join();
        self.notifiers.end();
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Runner {
    /// Follows the archive, from memory when its writer is in this process; watches are [added](Self::add). It ends when `stop` is set.
    pub fn start(options: &RunnerOptions, stop: &StopSignal) -> Result<Self, WatchError> {
        let archive = options.archive.clone();
        let follow = move |after, options| Ok(Follower::attach(&archive, after, options)?);
        Self::start_on(options, stop, Box::new(follow))
    }

    /// As [`start`](Self::start), with followers that `follow` opens.
    pub fn start_on(options: &RunnerOptions, stop: &StopSignal, follow: Follow) -> Result<Self, WatchError> {
        // first, so that no journal is made where there is no archive
        let history = HistoryArchive::open(&options.archive)?;
        let after = history.snapshot()?.follow_position();
        let columns = vec![Column::Received];
        let follower = follow(after, FollowOptions { columns: Some(columns.clone()), ..FollowOptions::default() })?;
        Self::start_with(options, stop, FlowSource::Archive { follow, follower, columns }, history, false)
    }

    /// Takes rows that a chain hands over by the [`FlowFeed`], of which at most so many wait; whoever hands them over then waits
    /// too if `waits`. Watches that ask history need `archive`, which is opened when it is first asked. [`finish`](Self::finish) ends it.
    pub fn start_fed(
        options: &RunnerOptions,
        archive: Option<&Path>,
        rows_max: u64,
        waits: bool,
    ) -> Result<(Self, FlowFeed), WatchError> {
        let (feed, source) = stream(rows_max, waits);
        let history = HistoryArchive::named(archive.map(Path::to_owned));
        Ok((Self::start_with(options, &StopSignal::new(), source, history, waits)?, feed))
    }

    fn start_with(
        options: &RunnerOptions,
        stop: &StopSignal,
        source: FlowSource,
        history: HistoryArchive,
        waits: bool,
    ) -> Result<Self, WatchError> {
        let engine = StandingEngine::new(&options.standing)
            .map_err(|source| WatchError::Statement { name: String::new(), source: Box::new(source) })?;
        let journal = Journal::open(&options.journal_folder(), options.retention)?;
        let (sender, messages) = bounded(MESSAGES_MAX);
        let (control, controls) = unbounded();
        let shared = Shared {
            archive: options.archive.display().to_string(),
            journal: Arc::new(Mutex::new(journal)),
            history: Arc::new(history),
            is_stream: source.is_stream(),
            permits: permits(options.statements_at_once.max(1)),
            messages: sender,
            joined: Arc::default(),
            is_failed: Arc::default(),
            stop: stop.clone(),
        };
        let mut following = FollowThread { source, waits, watches: Vec::new(), controls, shared: shared.clone() };
        let run = move || following.run();
        let follower = thread::Builder::new().name("watch-follow".to_owned()).spawn(run).map_err(WatchError::Thread)?;
        let notifiers = RunningNotifiers::start(&Scope::All, &options.actions, &options.journal_folder(), &shared)?;
        let (watches, paused, gone) = (Vec::new(), Vec::new(), BTreeMap::new());
        let (shared, stop) = (Some(shared), stop.clone());
        Ok(Self { messages, control, engine, shared, watches, paused, gone, notifiers, follower, stop })
    }

    /// Plans the statement of a watch, and lets it catch up and join.
    pub fn add(&mut self, file: WatchFile) -> Result<(), WatchError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let name = file.name.clone();
        if self.has(&name) {
            return Err(WatchError::TwoOfName { name, other: None });
        }
        let scope = Scope::Watch(name.clone());
        let actions = file.actions.clone();
        let watch = Watch::prepare(file, &self.engine, &shared.archive)?;
        if watch.query.has_history() && !shared.history.is_some() {
            return Err(WatchError::NoHistory { name });
        }
        let (counters, leaving) = (Arc::new(WatchCounters::within(watch.memory().clone())), Arc::default());
        let folder = locked(&shared.journal).folder().to_owned();
        let notifiers = RunningNotifiers::start(&scope, &actions, &folder, shared)?;
        let worker = Worker::start(watch, Arc::clone(&counters), self.control.clone(), &leaving, shared)
            .inspect_err(|_| notifiers.is_ending.store(true, Ordering::Relaxed))?;
        self.watches.push(RunningWatch { name, counters, worker, notifiers, leaving });
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        self.watches.iter().any(|watch| watch.name == name) || self.paused.iter().any(|watch| watch.name == name)
    }

    /// Pauses a watch that does not run, until it is [removed](Self::remove) and [added](Self::add): windows that end
    /// meanwhile are not asked, also over restarts, and counted as skipped. Then it goes on with the next whole window.
    pub fn pause(&mut self, file: WatchFile) -> Result<(), WatchError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let name = file.name.clone();
        if self.has(&name) {
            return Err(WatchError::TwoOfName { name, other: None });
        }
        let watch = Watch::prepare(file, &self.engine, &shared.archive)?;
        let skipped = {
            let journal = locked(&shared.journal);
            let since_ms = journal.pause(&name, now_ms())?;
            let state = journal.state(&name)?.filter(|state| state.windows == watch.lengths());
            // those that waited when it was paused pass, too
            let after_ms = state.map_or(since_ms, |state| state.window_end_ms.min(since_ms));
            if shared.is_stream { None } else { SkippedWindows::after(&watch, after_ms)? }
        };
        self.paused.push(PausedWatch { name, skipped });
        Ok(())
    }

    /// Whether a watch is paused; `None` when none of the name runs or is paused.
    pub(crate) fn is_paused(&self, name: &str) -> Option<bool> {
        if self.paused.iter().any(|watch| watch.name == name) {
            return Some(true);
        }
        // one whose thread has ended by an error does not run
        let runs = self.watches.iter().any(|watch| watch.name == name && !watch.worker.is_finished());
        runs.then_some(false)
    }

    /// Lets a watch go: windows of an archive that wait are asked when it comes back; those of a chain are not, and a notice
    /// says how many. False when there is none of the name.
    pub fn remove(&mut self, name: &str) -> bool {
        if let Some(at) = self.paused.iter().position(|watch| watch.name == name) {
            self.paused.remove(at);
            return true;
        }
        let Some(at) = self.watches.iter().position(|watch| watch.name == name) else { return false };
        let watch = self.watches.remove(at);
        watch.leaving.store(true, Ordering::Relaxed);
        // the thread may have ended by an error, which the end tells
        let _ = self.control.send(FollowCommand::Leave(name.to_owned()));
        while !watch.worker.is_finished() {
            // it may be joining just now
            let _ = self.control.send(FollowCommand::Leave(name.to_owned()));
            thread::sleep(LOOK_EVERY);
        }
        let (counters, notify) = (Arc::clone(&watch.counters), Arc::clone(&watch.notifiers.counters));
        watch.end();
        for (name, count) in counters.counts(notify.counts()).summed() {
            *self.gone.entry(name).or_default() += count;
        }
        true
    }

    /// Why watches that were added do not run yet, by name. They try again.
    pub(crate) fn join_errors(&self) -> BTreeMap<String, String> {
        let error = |watch: &RunningWatch| Some((watch.name.clone(), locked(&watch.counters.join_error).clone()?));
        self.watches.iter().filter_map(error).collect()
    }

    /// What watches that were [removed](Self::remove) have counted, by name of the counter.
    pub(crate) fn gone(&self) -> &BTreeMap<&'static str, u64> {
        &self.gone
    }

    /// The next message; `None` when there is none within the time.
    pub fn next_timeout(&self, timeout: Duration) -> Option<Message> {
        self.messages.recv_timeout(timeout).ok()
    }

    /// Waits until all watches that were added get flows.
    pub fn wait_joined(&self) {
        let Some(shared) = &self.shared else { return };
        while shared.joined.load(Ordering::Relaxed) < self.watches.len() && !self.is_ended() {
            thread::sleep(JOIN_LOOK_EVERY);
        }
    }

    /// Whether it has ended: because it was stopped, or by a panic that [`end`](Self::end) passes on.
    pub fn is_ended(&self) -> bool {
        self.follower.is_finished()
    }

    /// Ends it as a panic in the thread of a watch does.
    #[cfg(test)]
    pub(crate) fn end_as_by_panic(&self) {
        self.shared.iter().for_each(|shared| shared.is_failed.store(true, Ordering::Relaxed));
    }

    /// What happened to each watch.
    pub fn counts(&self) -> Vec<(String, WatchCounts)> {
        self.watches
            .iter()
            .map(|watch| (watch.name.clone(), watch.counters.counts(watch.notifiers.counters.counts())))
            .chain(paused_counts(&self.paused))
            .collect()
    }

    /// What is kept of history for all watches.
    pub fn history_counters(&self) -> HistoryCounters {
        self.engine.history_counters()
    }

    /// What became of the reports that go to the actions of all watches.
    pub fn notify_counters(&self) -> Arc<NotifyCounters> {
        Arc::clone(&self.notifiers.counters)
    }

    /// Stops, and waits for answers that are on their way; messages that are left go to `rest`. Windows that wait are asked by
    /// the next start.
    pub fn end(self, rest: impl FnMut(Message)) -> Result<Vec<(String, WatchCounts)>, WatchError> {
        self.stop.set();
        self.finish(rest)
    }

    /// As [`end`](Self::end), after all that a chain handed over was asked: its [`FlowFeed`] must have been dropped.
    pub fn finish(mut self, mut rest: impl FnMut(Message)) -> Result<Vec<(String, WatchCounts)>, WatchError> {
        self.shared = None;
        drop(self.control);
        let (watches, notifiers, follower) = (std::mem::take(&mut self.watches), self.notifiers, self.follower);
        let shared = |watch: &RunningWatch| {
            (watch.name.clone(), Arc::clone(&watch.counters), Arc::clone(&watch.notifiers.counters))
        };
        let counters: Vec<_> = watches.iter().map(shared).collect();
        let ending = thread::spawn(move || {
            watches.into_iter().for_each(RunningWatch::end);
            notifiers.end();
        });
        // until every thread that has something to say has ended
        self.messages.iter().for_each(&mut rest);
        ended(follower);
        ended(ending);
        let counts = counters.into_iter().map(|(name, counters, notify)| (name, counters.counts(notify.counts())));
        Ok(counts.chain(paused_counts(&self.paused)).collect())
    }
}

fn paused_counts(paused: &[PausedWatch]) -> impl Iterator<Item = (String, WatchCounts)> {
    let now_ms = now_ms();
    paused.iter().map(move |watch| (watch.name.clone(), watch.counts(now_ms)))
}

fn ended(thread: JoinHandle<()>) {
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}
