//! A forwarder in a thread of its own, beside what writes the archive.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::{ForwardCounters, ForwardCounts, ForwardError, ForwardOptions, ForwardStore, Forwarder, InFlight};

/// How long what was handed to the store gets to end, when forwarding is to stop.
const GRACE: Duration = Duration::from_secs(5);
/// How often it is looked at whether forwarding has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A forwarder that runs in a thread of its own.
#[derive(Debug)]
pub struct ForwardThread {
    thread: Option<JoinHandle<Result<ForwardCounts, ForwardError>>>,
    is_stopping: Arc<AtomicBool>,
    is_ending: Arc<AtomicBool>,
    counters: ForwardCounters,
    begun: ForwardCounts,
}

impl ForwardThread {
    /// Begins to forward the archive in a folder, which must be there.
    pub fn start<S: ForwardStore + 'static>(
        archive: &Path,
        options: ForwardOptions,
        store: S,
    ) -> Result<Self, ForwardError> {
        Self::start_with(archive, options, store, InFlight::default())
    }

    /// The same beside other forwarders, with which it shares the limits of what is in flight.
    pub fn start_with<S: ForwardStore + 'static>(
        archive: &Path,
        options: ForwardOptions,
        store: S,
        in_flight: InFlight,
    ) -> Result<Self, ForwardError> {
        let counters = ForwardCounters::default();
        let forwarder = Forwarder::open(archive, options, store, counters.clone())?.sharing(in_flight);
        let [is_stopping, is_ending] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (stopping, ending) = (Arc::clone(&is_stopping), Arc::clone(&is_ending));
        let begun = counters.read();
        let refusals = counters.clone();
        let run = move || {
            let is_ending = || ending.load(Ordering::Relaxed);
            // what is refused waits for somebody to do something about it, and its end must not
            let is_stopping = || stopping.load(Ordering::Relaxed) || (is_ending() && refusals.is_refused());
            forwarder.run(is_stopping, is_ending, GRACE)
        };
        let thread = std::thread::Builder::new().name("weir-forward".to_owned()).spawn(run);
        let thread = thread.map_err(|error| ForwardError::Thread { source: error })?;
        Ok(Self { thread: Some(thread), is_stopping, is_ending, counters, begun })
    }

    /// What was counted so far, that of earlier runs included.
    pub fn counts(&self) -> ForwardCounts {
        self.counters.read()
    }

    /// What was counted when it began.
    pub fn begun(&self) -> ForwardCounts {
        self.begun
    }

    /// Whether it has ended, which without being asked it does after an error only.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Has it end once everything that the archive has is forwarded.
    pub fn finish(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Has it end soon.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Forwards what the archive has, until that is done or `is_stopping` says that it must end, and ends. While the store
    /// refuses what it gets it ends at once, with that error.
    pub fn end(mut self, is_stopping: impl Fn() -> bool) -> Result<ForwardCounts, ForwardError> {
        self.finish();
        while !self.has_ended() {
            if is_stopping() {
                self.stop();
            }
            std::thread::sleep(LOOK_EVERY);
        }
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(self.counters.read()),
        }
    }
}

impl Drop for ForwardThread {
    fn drop(&mut self) {
        self.stop();
        // without it the thread would use an archive that its owner takes for closed
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
