//! Files read again when they change, without the rows waiting for it.

use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, TryRecvError, bounded};
use weir_chain::{ComponentContext, Counter, ReloadSignal};

use super::tables::{Refreshed, Tables};

/// Looks at the files from time to time, and when that is asked for.
pub(super) struct Reload {
    /// Zero: when it is asked for only.
    every: Duration,
    next: Option<Instant>,
    running: Option<Receiver<(Tables, Refreshed)>>,
    loaded: Counter,
    failed: Counter,
    asked: ReloadSignal,
}

impl Reload {
    pub(super) fn new(every: Duration, context: &ComponentContext) -> Self {
        let meter = &context.counters;
        let (loaded, failed) = (meter.counter("files_reloaded"), meter.counter("reloads_failed"));
        let next = (!every.is_zero()).then(|| Instant::now() + every);
        Self { every, next, running: None, loaded, failed, asked: context.reload.clone() }
    }

    /// Takes over what a look has found, or begins one when it is time.
    pub(super) fn tick(&mut self, tables: &mut Tables) {
        if self.asked.take() {
            self.next = Some(Instant::now());
        }
        match self.running.as_ref().map(Receiver::try_recv) {
            Some(Ok((found, refreshed))) => {
                *tables = found;
                self.account(&refreshed);
                self.running = None;
            }
            // the thread is gone without an answer
            Some(Err(TryRecvError::Disconnected)) => {
                self.failed.add(1);
                self.running = None;
            }
            None if self.next.is_some_and(|next| Instant::now() >= next) => self.begin(tables.clone()),
            // still at work, or not yet time
            Some(Err(TryRecvError::Empty)) | None => {}
        }
    }

    fn begin(&mut self, mut tables: Tables) {
        self.next = (!self.every.is_zero()).then(|| Instant::now() + self.every);
        let (send, receive) = bounded(1);
        let work = move || {
            let refreshed = tables.refresh();
            // nobody listens any more when the block has ended
            let _ = send.send((tables, refreshed));
        };
        match thread::Builder::new().name("enrich-reload".to_owned()).spawn(work) {
            Ok(_) => self.running = Some(receive),
            Err(error) => {
                self.failed.add(1);
                tracing::warn!("no thread to read changed files again: {error}");
            }
        }
    }

    fn account(&self, refreshed: &Refreshed) {
        self.loaded.add(refreshed.loaded);
        self.failed.add(refreshed.errors.len() as u64);
        for error in &refreshed.errors {
            tracing::warn!("a changed file is not used: {}", error.chain());
        }
    }
}
