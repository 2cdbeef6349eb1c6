//! What the threads of a runner share.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{Receiver, Sender, unbounded};
use weir_chain::StopSignal;
use weir_reports::Journal;

use crate::flow_source::HistoryArchive;
use crate::report::Report;

/// How long one that waits for a permit takes to notice that it is to leave.
const LEAVE_WITHIN: Duration = Duration::from_millis(50);

/// What a runner has to say while it runs.
#[derive(Debug)]
pub enum Message {
    /// A new report, which is in the journal.
    Report(Box<Report>),
    /// Something that the user should know.
    Notice(String),
}

/// As many permits as statements may run at a time: one is taken to run, and put back.
pub(crate) fn permits(count: usize) -> (Sender<()>, Receiver<()>) {
    let (put, take) = unbounded();
    for _ in 0..count {
        // the receiver is here
        let _ = put.send(());
    }
    (put, take)
}
/// What all watches share.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) archive: String,
    pub(crate) journal: Arc<Mutex<Journal>>,
    pub(crate) history: Arc<HistoryArchive>,
    /// Whether flows come from a chain, so that those of the past cannot be read again.
    pub(crate) is_stream: bool,
    pub(crate) permits: (Sender<()>, Receiver<()>),
    pub(crate) messages: Sender<Message>,
    /// Watches that have joined and not left.
    pub(crate) joined: Arc<AtomicUsize>,
    pub(crate) is_failed: Arc<AtomicBool>,
    pub(crate) stop: StopSignal,
}

/// The right to run a statement; it is given back when this is dropped.
pub(crate) struct Permit(Sender<()>);

impl Drop for Permit {
    fn drop(&mut self) {
        // nothing waits when the receiver has gone
        let _ = self.0.send(());
    }
}

impl Shared {
    /// Waits until a statement may run. `None` when the one that waits is to leave: those that run may take long, and a stop
    /// would wait for one after the other.
    pub(crate) fn permit(&self, is_leaving: impl Fn() -> bool) -> Option<Permit> {
        while !is_leaving() {
            // the sender is here, so there will be one
            if self.permits.1.recv_timeout(LEAVE_WITHIN).is_ok() {
                let permit = Permit(self.permits.0.clone());
                return Some(permit).filter(|_| !is_leaving());
            }
        }
        None
    }

    pub(crate) fn notice(&self, text: String) {
        // perhaps it is not read, and nothing waits for that
        let _ = self.messages.try_send(Message::Notice(text));
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.stop.is_set() || self.is_failed.load(Ordering::Relaxed)
    }
}

/// The time of the clock, in milliseconds since the epoch.
pub(crate) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
