//! Threads that read ahead: several runs at a time, handed on one after the other.
//!
//! Of N threads the first has runs 0, N, 2 N and so on. Each has a queue of its own, so that the rows of the run whose
//! turn it is are never behind those of a later one, and the sequence does not depend on who is faster. While one
//! thread hands on its run, the others have read and sorted theirs and wait. What speaks against dealing out whole runs
//! is memory: each thread holds one. Dealing out columns of a run would hold one run only, but every value would then
//! be waited for by all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use arrow::array::RecordBatch;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use weir_chain::ComponentError;

use super::reader::{RunReader, Step};
use super::run::Run;

/// Batches that a thread may be ahead of whoever takes them.
const QUEUE_BATCHES: usize = 32;
/// Longest time to wait for rows.
const WAIT: Duration = Duration::from_millis(50);

/// What a thread tells.
enum Message {
    Rows(RecordBatch),
    RunDone,
    Failed(ComponentError),
}

/// The threads and their queues.
pub(super) struct Ahead {
    queues: Vec<Receiver<Message>>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    /// The run whose rows come next.
    run: usize,
    runs: usize,
}

impl Ahead {
    /// Starts a thread for each reader.
    pub(super) fn start(runs: Vec<Run>, readers: Vec<RunReader>) -> Result<Self, ComponentError> {
        let runs = Arc::new(runs);
        let mut ahead =
            Self { queues: Vec::new(), threads: Vec::new(), stop: Arc::default(), run: 0, runs: runs.len() };
        let threads = readers.len();
        for (number, reader) in readers.into_iter().enumerate() {
            let (queue, taken) = bounded(QUEUE_BATCHES);
            let (runs, stop) = (Arc::clone(&runs), Arc::clone(&ahead.stop));
            let work = move || read(runs.iter().skip(number).step_by(threads), reader, &queue, &stop);
            let thread = thread::Builder::new().name("weir-read".to_owned()).spawn(work);
            ahead.threads.push(thread.map_err(|error| ComponentError::caused("cannot start a thread", error))?);
            ahead.queues.push(taken);
        }
        Ok(ahead)
    }

    /// The next step of the run whose turn it is; `None` after the last run.
    pub(super) fn step(&mut self) -> Result<Option<Step>, ComponentError> {
        if self.run == self.runs {
            return Ok(None);
        }
        match self.queues[self.run % self.queues.len()].recv_timeout(WAIT) {
            Ok(Message::Rows(rows)) => Ok(Some(Step::Rows(rows))),
            Ok(Message::RunDone) => {
                self.run += 1;
                Ok(Some(Step::Done))
            }
            Ok(Message::Failed(error)) => Err(error),
            Err(RecvTimeoutError::Timeout) => Ok(Some(Step::Busy)),
            Err(RecvTimeoutError::Disconnected) => {
                Err(ComponentError::new("a thread that reads the archive has ended"))
            }
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // whoever waits for room in a queue is let go
        self.queues.clear();
        for thread in self.threads.drain(..) {
            // a panic was told when the queue ended
            let _ = thread.join();
        }
    }
}

fn read<'a>(runs: impl Iterator<Item = &'a Run>, mut reader: RunReader, queue: &Sender<Message>, stop: &AtomicBool) {
    for run in runs {
        loop {
            if stop.load(Ordering::Acquire) {
                return;
            }
            let (message, is_last) = match reader.step(run) {
                Ok(Step::Busy) => continue,
                Ok(Step::Rows(rows)) => (Message::Rows(rows), false),
                Ok(Step::Done) => (Message::RunDone, true),
                Err(error) => (Message::Failed(error), true),
            };
            if queue.send(message).is_err() {
                return;
            }
            if is_last {
                break;
            }
        }
    }
}
