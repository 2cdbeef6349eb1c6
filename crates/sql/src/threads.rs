//! The threads that work on one question.
//!
//! Each question has threads of its own. A task cannot be interrupted in the middle of a computation, and a long one (a
//! pattern of text on a large value, an aggregation that hands over its groups) would hold up the questions beside it,
//! the one that planned it, and whoever ends it. So the caller never waits for these threads: it looks at the limits
//! of the question itself, and threads that are still busy when a question ends go when they can, watched by
//! [`EndingThreads`]. What speaks against it: starting threads costs a tenth of a millisecond for each question.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use futures::FutureExt;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::EngineError;
use crate::control::Watch;

/// How often a question is asked whether it must end, while it has nothing to say.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long threads of an ended question are waited for by the thread that watches them.
const ENDING_MAX: Duration = Duration::from_hours(1);

/// Stack of a thread: plans of deep expressions are walked recursively.
const STACK_OCTETS: usize = 8 << 20;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // every step under these locks leaves whole values behind
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no reason given").to_owned()
}

/// The threads of one question; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct QuestionThreads {
    /// `None` once they end.
    runtime: Mutex<Option<Runtime>>,
    ending: Arc<EndingThreads>,
}

impl QuestionThreads {
    pub(crate) fn start(threads: usize, ending: &Arc<EndingThreads>) -> Result<Self, EngineError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("query")
            .thread_stack_size(STACK_OCTETS)
            .enable_time()
            .build()
            .map_err(EngineError::Start)?;
        Ok(Self { runtime: Mutex::new(Some(runtime)), ending: Arc::clone(ending) })
    }

    /// Where tasks are spawned; `None` once they end.
    pub(crate) fn handle(&self) -> Option<Handle> {
        locked(&self.runtime).as_ref().map(|runtime| runtime.handle().clone())
    }

    /// Does some work in these threads, and waits for it as long as the question may run.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, EngineError>> + Send + 'static,
        watch: &Watch,
    ) -> Result<T, EngineError> {
        let Some(handle) = self.handle() else { return Err(EngineError::Stopped) };
        let (sender, done) = sync_channel(1);
        handle.spawn(async move {
            let worked = AssertUnwindSafe(work).catch_unwind().await;
            // an error here means that the caller waits no longer
            let _ = sender.send(worked.unwrap_or_else(|panic| Err(EngineError::Panicked(panic_text(&*panic)))));
        });
        loop {
            if let Some(error) = watch.verdict() {
                return Err(error);
            }
            match done.recv_timeout(LOOK_EVERY) {
                Ok(worked) => return worked,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(EngineError::Stopped),
            }
        }
    }

    /// Ends the threads, which drop their tasks as soon as these pause. Does not wait for that.
    pub(crate) fn end(&self) {
        if let Some(runtime) = locked(&self.runtime).take() {
            self.ending.add(runtime);
        }
    }
}

impl Drop for QuestionThreads {
    fn drop(&mut self) {
        self.end();
    }
}

/// Threads of questions that have ended: how many questions still have some.
#[derive(Debug, Default)]
pub(crate) struct EndingThreads {
    questions: Mutex<usize>,
    changed: Condvar,
}

impl EndingThreads {
    /// Ends the threads of a question, from a thread that may wait for them.
    fn add(self: &Arc<Self>, runtime: Runtime) {
        *locked(&self.questions) += 1;
        let ended = Arc::new(Mutex::new(Some(runtime)));
        let (all, taken) = (Arc::clone(self), Arc::clone(&ended));
        let wait = move || {
            let runtime = locked(&taken).take();
            if let Some(runtime) = runtime {
                runtime.shutdown_timeout(ENDING_MAX);
            }
            all.is_gone();
        };
        if thread::Builder::new().name("query-end".to_owned()).spawn(wait).is_err() {
            if let Some(runtime) = locked(&ended).take() {
                runtime.shutdown_background();
            }
            self.is_gone();
        }
    }

    fn is_gone(&self) {
        *locked(&self.questions) -= 1;
        self.changed.notify_all();
    }

    /// Waits until all have gone, at most this long; whether they have.
    pub(crate) fn wait(&self, wait_max: Duration) -> bool {
        let until = Instant::now() + wait_max;
        let mut questions = locked(&self.questions);
        while *questions > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(questions, left);
            questions = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// Threads of questions whose engine was closed, and which are still busy: a task cannot be interrupted while it plans or
/// computes.
#[derive(Debug)]
pub struct BusyThreads(pub(crate) Arc<EndingThreads>);

impl BusyThreads {
    /// Waits until they have ended, or for an hour.
    pub fn wait(&self) {
        self.0.wait(ENDING_MAX);
    }
}

/// The questions of an engine that are not answered yet.
#[derive(Debug, Default)]
pub(crate) struct RunningQuestions {
    questions: Mutex<Vec<Weak<QuestionThreads>>>,
    pub(crate) ending: Arc<EndingThreads>,
}

impl RunningQuestions {
    /// Starts the threads of one more.
    pub(crate) fn start(&self, threads: usize) -> Result<Arc<QuestionThreads>, EngineError> {
        let started = Arc::new(QuestionThreads::start(threads, &self.ending)?);
        let mut questions = locked(&self.questions);
        questions.retain(|question| question.strong_count() > 0);
        questions.push(Arc::downgrade(&started));
        Ok(started)
    }

    /// Ends all of them without waiting; their answers end with [`EngineError::Stopped`].
    pub(crate) fn end(&self) {
        let questions = std::mem::take(&mut *locked(&self.questions));
        questions.iter().filter_map(Weak::upgrade).for_each(|question| question.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::QueryControl;

    /// Work that blocks its thread: the caller returns at the limit, the next question has threads of its own, and the
    /// blocked thread is waited for by whoever wants to.
    #[test]
    fn nobody_waits_for_a_thread_that_is_busy() {
        let running = RunningQuestions::default();
        let (release, held) = std::sync::mpsc::channel::<()>();
        let busy = running.start(1).expect("threads");
        let control = QueryControl { time_max: Some(Duration::from_millis(1)), ..QueryControl::default() };
        let work = async move {
            let _ = held.recv();
            Ok(())
        };
        let error = busy.wait(work, &Watch::new(&control, true)).expect_err("too little time");
        assert!(matches!(error, EngineError::TimeLimit { .. }), "{error}");
        drop(busy);
        assert!(!running.ending.wait(Duration::from_millis(1)), "the thread cannot have ended");
        let unlimited = Watch::new(&QueryControl::default(), true);
        let next = running.start(1).expect("threads").wait(async { Ok(7) }, &unlimited);
        assert_eq!(next.expect("done"), 7);
        drop(release);
        assert!(running.ending.wait(Duration::from_mins(1)), "the thread ends when it can");
    }

    #[test]
    fn a_panic_while_planning_is_an_error() {
        let running = RunningQuestions::default();
        let threads = running.start(1).expect("threads");
        let work = async { panic!("no such plan") };
        let failed: Result<(), _> = threads.wait(work, &Watch::new(&QueryControl::default(), true));
        assert!(matches!(failed, Err(EngineError::Panicked(text)) if text == "no such plan"));
    }
}
