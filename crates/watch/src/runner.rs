//! Watches that follow an archive.
//!
//! One thread follows and cuts; each watch has a thread that asks, so that a slow one holds up nobody. At most as many
//! statements as there are cores run at a time. Closed windows wait in a queue with a limit; what does not fit is not
//! asked, counted and reported. Nothing here is waited for by the writer of the archive.
//!
//! A watch that was asked before first catches up in its own thread: the windows since its last one are read from the
//! archive as a backtest reads them. Then it joins the others: its panes get what the archive has of open windows, at a
//! snapshot, and deliveries after the position of that snapshot. So watches come and go without touching one another.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use weir_archive::{ArchiveHandle, FollowOptions, Follower, HandleOptions};
use weir_chain::StopSignal;
use weir_flow::Column;
use weir_sql::standing::{StandingEngine, StandingOptions};

use crate::WatchError;
use crate::action_sender::ActionSender;
use crate::counters::{WatchCounters, WatchCounts, locked};
use crate::file::WatchFile;
use crate::following::{Follow, FollowCommand, FollowThread, LOOK_EVERY};
use crate::journal::Journal;
use crate::shared::{Message, Shared, permits};
use crate::watch::Watch;
use crate::worker::Worker;

/// Messages that may wait to be printed. Nothing waits for that: further reports are in the journal only, and counted.
const MESSAGES_MAX: usize = 10_000;

/// Options of a [`Runner`].
#[derive(Debug, Clone)]
pub struct RunnerOptions {
    /// The archive.
    pub archive: PathBuf,
    /// Folder of the journal; in the archive by default.
    pub journal: Option<PathBuf>,
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
            standing: StandingOptions::default(),
            statements_at_once: cores,
        }
    }

    /// The folder of the journal.
    pub fn journal_folder(&self) -> PathBuf {
        self.journal.clone().unwrap_or_else(|| self.archive.join("watch"))
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
    follower: JoinHandle<Result<(), WatchError>>,
    stop: StopSignal,
}

/// A watch of a runner.
#[derive(Debug)]
struct RunningWatch {
    name: String,
    counters: Arc<WatchCounters>,
    worker: JoinHandle<()>,
    senders: Vec<JoinHandle<()>>,
    /// Set when the worker is to end.
    leaving: Arc<AtomicBool>,
    /// Set when the worker has ended, so that senders send what is left and end.
    is_ending: Arc<AtomicBool>,
}

impl RunningWatch {
    fn end(self) {
        let ended = self.worker.join();
        self.is_ending.store(true, Ordering::Relaxed);
        for thread in self.senders.into_iter().map(JoinHandle::join).chain([ended]) {
            if let Err(panic) = thread {
                std::panic::resume_unwind(panic);
            }
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
        let engine = StandingEngine::new(&options.standing)
            .map_err(|source| WatchError::Statement { name: String::new(), source: Box::new(source) })?;
        // first, so that no journal is made where there is no archive
        let handle = ArchiveHandle::open(&options.archive, &HandleOptions::default())?;
        let journal = Journal::open(&options.journal_folder())?;
        let after = handle.snapshot()?.follow_position();
        let (sender, messages) = bounded(MESSAGES_MAX);
        let (control, controls) = unbounded();
        let shared = Shared {
            archive: options.archive.display().to_string(),
            journal: Arc::new(Mutex::new(journal)),
            handle: Arc::new(handle),
            permits: permits(options.statements_at_once.max(1)),
            messages: sender,
            is_failed: Arc::default(),
            stop: stop.clone(),
        };
        let columns = vec![Column::Received];
        let follower = follow(after, FollowOptions { columns: Some(columns.clone()), ..FollowOptions::default() })?;
        let mut following =
            FollowThread { follow, follower, columns, watches: Vec::new(), controls, shared: shared.clone() };
        let run = move || {
            let result = following.run();
            following.shared.is_failed.fetch_or(result.is_err(), Ordering::Relaxed);
            result
        };
        let follower = thread::Builder::new().name("watch-follow".to_owned()).spawn(run).map_err(WatchError::Thread)?;
        let (watches, shared, stop) = (Vec::new(), Some(shared), stop.clone());
        Ok(Self { messages, control, engine, shared, watches, follower, stop })
    }

    /// Plans the statement of a watch, and lets it catch up and join.
    pub fn add(&mut self, file: WatchFile) -> Result<(), WatchError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let name = file.name.clone();
        if self.watches.iter().any(|watch| watch.name == name) {
            return Err(WatchError::TwoOfName { name });
        }
        let actions = file.actions.clone();
        let watch = Watch::prepare(file, &self.engine, &shared.archive)?;
        let counters = Arc::new(WatchCounters::default());
        let (folder, leaving) = (locked(&shared.journal).folder().to_owned(), Arc::default());
        let is_ending = Arc::<AtomicBool>::default();
        let mut senders = Vec::new();
        let start = || {
            for action in &actions {
                senders.push(ActionSender::start(&name, action, &folder, &is_ending, shared)?);
            }
            Worker::start(watch, Arc::clone(&counters), self.control.clone(), &leaving, shared)
        };
        let worker = start().inspect_err(|_| {
            // those that have started must not wait for a watch that will not come
            is_ending.store(true, Ordering::Relaxed);
        })?;
        self.watches.push(RunningWatch { name, counters, worker, senders, leaving, is_ending });
        Ok(())
    }

    /// Lets a watch go: windows that wait are asked when it comes back. False when there is none of the name.
    pub fn remove(&mut self, name: &str) -> bool {
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
        watch.end();
        true
    }

    /// The next message; `None` when there is none within the time.
    pub fn next_timeout(&self, timeout: Duration) -> Option<Message> {
        self.messages.recv_timeout(timeout).ok()
    }

    /// Whether it has ended: because it was stopped, or by an error that [`end`](Self::end) gives.
    pub fn is_ended(&self) -> bool {
        self.follower.is_finished()
    }

    /// What happened to each watch.
    pub fn counts(&self) -> Vec<(String, WatchCounts)> {
        self.watches.iter().map(|watch| (watch.name.clone(), watch.counters.counts())).collect()
    }

    /// Stops, and waits for answers that are on their way; messages that are left go to `rest`. Windows that wait are asked by
    /// the next start.
    pub fn end(mut self, mut rest: impl FnMut(Message)) -> Result<Vec<(String, WatchCounts)>, WatchError> {
        self.stop.set();
        self.shared = None;
        drop(self.control);
        let (watches, follower) = (std::mem::take(&mut self.watches), self.follower);
        let counters: Vec<_> = watches.iter().map(|watch| (watch.name.clone(), Arc::clone(&watch.counters))).collect();
        let ending = thread::spawn(move || {
            watches.into_iter().for_each(RunningWatch::end);
            Ok(())
        });
        // until every thread that has something to say has ended
        self.messages.iter().for_each(&mut rest);
        ended(follower)?;
        ended(ending)?;
        Ok(counters.into_iter().map(|(name, counters)| (name, counters.counts())).collect())
    }
}

fn ended(thread: JoinHandle<Result<(), WatchError>>) -> Result<(), WatchError> {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
