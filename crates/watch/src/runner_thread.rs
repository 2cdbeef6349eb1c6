//! The thread that looks after the watches of a chain: it prints what they report, and follows their files and pauses.
//!
//! A watch that is paused or changed is waited for until its last answer is there, and flows of the chain must not wait for that.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_chain::{Counters, Notices};

use crate::counters::WatchCounts;
use crate::error::{WatchError, with_causes};
use crate::loaded_files::LoadedFiles;
use crate::runner::Runner;
use crate::shared::Message;

/// How often files and pauses are looked at, and counters brought up to date.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a message is waited for.
const WAIT: Duration = Duration::from_millis(50);

/// A runner that is looked after. When it is dropped the thread ends, and the watches are not waited for.
pub(crate) struct RunnerThread {
    is_ending: Arc<AtomicBool>,
    /// `None` after the end.
    thread: Option<JoinHandle<AttendedRunner>>,
}

/// What the thread has.
pub(crate) struct AttendedRunner {
    pub(crate) runner: Runner,
    /// Those of `files`.
    pub(crate) loaded: LoadedFiles,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) published: PublishedCounts,
    pub(crate) notices: Notices,
}

impl RunnerThread {
    pub(crate) fn start(attended: AttendedRunner) -> Result<Self, WatchError> {
        let is_ending = Arc::<AtomicBool>::default();
        let ending = Arc::clone(&is_ending);
        let thread = thread::Builder::new().name("watch-files".to_owned()).spawn(move || attended.run(&ending));
        Ok(Self { is_ending, thread: Some(thread.map_err(WatchError::Thread)?) })
    }

    /// Gives the runner back; `None` after the end.
    pub(crate) fn end(mut self) -> Option<AttendedRunner> {
        self.is_ending.store(true, Ordering::Relaxed);
        match self.thread.take()?.join() {
            Ok(attended) => Some(attended),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for RunnerThread {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }
}

impl AttendedRunner {
    fn run(mut self, is_ending: &AtomicBool) -> Self {
        let mut looked = Instant::now();
        while !is_ending.load(Ordering::Relaxed) && !self.runner.is_ended() {
            if let Some(message) = self.runner.next_timeout(WAIT) {
                print(&self.notices, message);
            }
            if looked.elapsed() >= LOOK_EVERY {
                looked = Instant::now();
                self.published.publish(&self.runner.counts());
                if let Err(error) = self.loaded.refresh(&mut self.runner, &self.files) {
                    self.notices.send(&format!("error: {}", with_causes(&error)));
                }
            }
        }
        self
    }

    /// The last windows close, and are answered.
    pub(crate) fn finish(mut self) -> Result<(), WatchError> {
        let counts = self.runner.finish(|message| print(&self.notices, message))?;
        self.published.publish(&counts);
        Ok(())
    }
}

fn print(notices: &Notices, message: Message) {
    match message {
        Message::Notice(text) => notices.send(&text),
        Message::Report(report) => notices.send(&report.text()),
    }
}

/// Counters of all watches together, as the chain has them.
pub(crate) struct PublishedCounts {
    counters: Counters,
    /// What was published of each watch.
    published: BTreeMap<String, BTreeMap<&'static str, u64>>,
}

impl PublishedCounts {
    pub(crate) fn new(counters: &Counters) -> Self {
        Self { counters: counters.clone(), published: BTreeMap::new() }
    }

    /// Adds what has come. A watch that was begun anew counts from 0 again, and one that has gone is begun anew when it comes back.
    fn publish(&mut self, watches: &[(String, WatchCounts)]) {
        let mut published = BTreeMap::new();
        for (watch, counts) in watches {
            let mut sums = BTreeMap::new();
            let found = [("reports", counts.reports), ("windows_answered", counts.windows_answered)];
            for (name, count) in found.into_iter().chain(counts.losses()).chain(counts.notify.losses()) {
                *sums.entry(name).or_insert(0) += count;
            }
            let before = self.published.remove(watch).unwrap_or_default();
            for (&name, &sum) in &sums {
                let before = before.get(name).copied().filter(|before| *before <= sum).unwrap_or(0);
                self.counters.counter(name).add(sum - before);
            }
            published.insert(watch.clone(), sums);
        }
        self.published = published;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_is_begun_anew_or_gone_takes_nothing_from_the_counters() {
        let counters = Counters::new();
        let mut published = PublishedCounts::new(&counters);
        let of = |name: &str, reports: u64| (name.to_owned(), WatchCounts { reports, ..WatchCounts::default() });
        for (watches, expected) in [
            (vec![of("one", 5), of("two", 2)], 7),
            (vec![of("one", 5), of("two", 3)], 8),
            // the first was begun anew
            (vec![of("one", 1), of("two", 3)], 9),
            (vec![of("two", 4)], 10),
            (vec![of("one", 1), of("two", 4)], 11),
        ] {
            published.publish(&watches);
            assert_eq!(counters.counter("reports").get(), expected);
        }
    }
}
