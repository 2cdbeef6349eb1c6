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

/// The notice when watches have ended before their chain, which goes on: an end of it would cost all flows.
const ENDED: &str =
    "error: the watches have ended by a panic; flows go on without them, and are counted in rows_unwatched";

/// How long a message is waited for.
const WAIT: Duration = Duration::from_millis(50);

/// How long a runner that is dropped is waited for: it has the lock of the journal until its last answers are there.
const DROP_WAIT: Duration = Duration::from_secs(5);
const DROP_LOOK_EVERY: Duration = Duration::from_millis(1);

/// A runner that is looked after. When it is dropped, windows that wait are not asked; what is being asked is waited for a
/// while, and ends by itself after that.
pub(crate) struct RunnerThread {
    is_ending: Arc<AtomicBool>,
    /// Set before `is_ending` when the runner is not taken back.
    is_dropped: Arc<AtomicBool>,
    /// `None` after the end.
    thread: Option<JoinHandle<Option<AttendedRunner>>>,
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
        let (is_ending, is_dropped) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (ending, dropped) = (Arc::clone(&is_ending), Arc::clone(&is_dropped));
        let run = move || {
            let attended = attended.run(&ending);
            if dropped.load(Ordering::Relaxed) {
                attended.end();
                return None;
            }
            Some(attended)
        };
        let thread = thread::Builder::new().name("watch-files".to_owned()).spawn(run).map_err(WatchError::Thread)?;
        Ok(Self { is_ending, is_dropped, thread: Some(thread) })
    }

    /// Gives the runner back; `None` after the end.
    pub(crate) fn end(mut self) -> Option<AttendedRunner> {
        self.is_ending.store(true, Ordering::Relaxed);
        match self.thread.take()?.join() {
            Ok(attended) => attended,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for RunnerThread {
    fn drop(&mut self) {
        let Some(running) = self.thread.take() else { return };
        self.is_dropped.store(true, Ordering::Relaxed);
        // the thread that sees this sees the other, too
        self.is_ending.store(true, Ordering::Release);
        let until = Instant::now() + DROP_WAIT;
        while !running.is_finished() && Instant::now() < until {
            thread::sleep(DROP_LOOK_EVERY);
        }
    }
}

impl AttendedRunner {
    fn run(mut self, is_ending: &AtomicBool) -> Self {
        let (mut looked, mut has_ended) = (Instant::now(), false);
        while !is_ending.load(Ordering::Acquire) {
            if let Some(message) = self.runner.next_timeout(WAIT) {
                print(&self.notices, message);
            }
            // in order it ends after this thread
            if !has_ended && self.runner.is_ended() {
                has_ended = true;
                self.notices.send(ENDED);
            }
            if looked.elapsed() >= LOOK_EVERY && !has_ended {
                looked = Instant::now();
                self.published.publish(self.runner.gone(), &self.runner.counts());
                if let Err(error) = self.loaded.refresh(&mut self.runner, &self.files) {
                    self.notices.send(&format!("error: {}", with_causes(&error)));
                }
            }
        }
        self
    }

    /// The last windows close, and are answered.
    pub(crate) fn finish(mut self) -> Result<(), WatchError> {
        let gone = self.runner.gone().clone();
        let counts = self.runner.finish(|message| print(&self.notices, message))?;
        self.published.publish(&gone, &counts);
        Ok(())
    }

    /// Windows that wait are not asked.
    fn end(self) {
        if let Err(error) = self.runner.end(|message| print(&self.notices, message)) {
            self.notices.send(&format!("error: {}", with_causes(&error)));
        }
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
    /// What was published of all watches.
    published: BTreeMap<&'static str, u64>,
}

impl PublishedCounts {
    pub(crate) fn new(counters: &Counters) -> Self {
        Self { counters: counters.clone(), published: BTreeMap::new() }
    }

    /// Adds what has come: what watches that are gone have counted to their end, and those that run since they were begun.
    fn publish(&mut self, gone: &BTreeMap<&'static str, u64>, watches: &[(String, WatchCounts)]) {
        let mut sums = gone.clone();
        for (name, count) in watches.iter().flat_map(|(_, counts)| counts.summed()) {
            *sums.entry(name).or_default() += count;
        }
        for (name, sum) in sums {
            let before = self.published.insert(name, sum).unwrap_or(0);
            self.counters.counter(name).add(sum.saturating_sub(before));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::path::Path;
    use std::sync::Mutex;

    use weir_flow::{Column, FlowBatchBuilder};
    use weir_reports::{Journal, Retention};

    use super::*;
    use crate::file::WatchFile;
    use crate::flow_source::FlowFeed;
    use crate::runner::RunnerOptions;

    const QUERY: &str = "SELECT count(*) AS flows FROM TUMBLE(flows, received, INTERVAL '1' SECOND)";

    /// A runner of a chain with its journal here, and what hands flows to it.
    fn started(journal: &Path) -> (Runner, FlowFeed) {
        let options = RunnerOptions { journal: Some(journal.to_owned()), ..RunnerOptions::new(Path::new("")) };
        Runner::start_fed(&options, None, 1_000, true).expect("a runner")
    }

    fn add(runner: &mut Runner) {
        let text = format!("repeat_after = '0s'\nquery = \"{QUERY}\"");
        runner.add(WatchFile::parse(&text, "one", Path::new("")).expect("a watch")).expect("added");
        runner.wait_joined();
    }

    /// Hands over a flow of each of these seconds of the past, and waits until all windows but the last are answered.
    fn answer(runner: &Runner, feed: &FlowFeed, seconds: Range<i64>) {
        let windows = seconds.clone().count();
        let mut builder = FlowBatchBuilder::new(windows);
        builder.begin_rows(windows);
        for second in seconds {
            builder.time(Column::Received).push(Some(1_767_225_600_000 + second * 1_000));
        }
        assert!(feed.send(builder.finish().record_batch()));
        let until = Instant::now() + Duration::from_mins(2);
        while runner.counts()[0].1.windows_answered < windows as u64 - 1 {
            assert!(Instant::now() < until, "{:?}", runner.counts());
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_watch_that_is_begun_anew_or_gone_takes_nothing_from_the_counters() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut runner, feed) = started(folder.path());
        let counters = Counters::new();
        let mut published = PublishedCounts::new(&counters);
        let mut publish = |runner: &Runner| {
            published.publish(runner.gone(), &runner.counts());
            counters.counter("windows_answered").get()
        };
        add(&mut runner);
        answer(&runner, &feed, 0..4);
        assert_eq!(publish(&runner), 3);
        // begun anew, and past what it had counted before
        assert!(runner.remove("one"));
        add(&mut runner);
        answer(&runner, &feed, 4..10);
        assert_eq!(publish(&runner), 3 + 5);
        // what it counted since goes with it
        assert!(runner.remove("one"));
        add(&mut runner);
        answer(&runner, &feed, 10..13);
        assert!(runner.remove("one"));
        assert_eq!(publish(&runner), 3 + 5 + 2);
        drop(feed);
        let gone = runner.gone().clone();
        published.publish(&gone, &runner.finish(|_| ()).expect("no error"));
        assert_eq!(counters.counter("windows_answered").get(), 3 + 5 + 2);
    }

    #[test]
    fn an_end_by_a_panic_is_noticed_once_and_flows_go_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut runner, feed) = started(folder.path());
        add(&mut runner);
        answer(&runner, &feed, 0..3);
        runner.end_as_by_panic();
        let noticed = Arc::<Mutex<Vec<String>>>::default();
        let times_noticed = || noticed.lock().expect("a list").iter().filter(|text| *text == ENDED).count();
        let taken = Arc::clone(&noticed);
        let notices = Notices::to(move |text| taken.lock().expect("a list").push(text.to_owned()));
        let loaded = LoadedFiles::new(folder.path().to_owned(), false, |_| ());
        let published = PublishedCounts::new(&Counters::new());
        let attended = AttendedRunner { runner, loaded, files: Vec::new(), published, notices };
        let running = RunnerThread::start(attended).expect("started");
        let until = Instant::now() + Duration::from_mins(2);
        while times_noticed() == 0 {
            assert!(Instant::now() < until, "nothing is said");
            thread::sleep(Duration::from_millis(1));
        }
        let mut builder = FlowBatchBuilder::new(1);
        builder.begin_rows(1);
        assert!(!feed.send(builder.finish().record_batch()), "it is counted as not watched");
        // several looks later
        thread::sleep(3 * WAIT);
        let attended = running.end().expect("it is given back");
        assert_eq!(times_noticed(), 1);
        drop(feed);
        attended.finish().expect("no error");
    }

    /// A chain that fails drops it, and may be started again.
    #[test]
    fn a_runner_that_is_dropped_leaves_the_journal_to_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut runner, feed) = started(folder.path());
        add(&mut runner);
        answer(&runner, &feed, 0..3);
        let loaded = LoadedFiles::new(folder.path().to_owned(), false, |_| ());
        let (published, notices) = (PublishedCounts::new(&Counters::new()), Notices::to(|_| ()));
        let attended = AttendedRunner { runner, loaded, files: Vec::new(), published, notices };
        drop(RunnerThread::start(attended).expect("started"));
        Journal::open(folder.path(), Retention::default()).expect("nobody has it any more");
        drop(feed);
    }
}
