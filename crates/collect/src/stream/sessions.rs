//! The sessions that are open, within their limits.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weir_flow::Counter;

use super::reasons::{Reason, Tally};
use crate::Session;

/// What exporters may take up by connections. Each limit has a counter for when it is hit; the reasons are reported by
/// [`crate::DecoderStatistics::problems`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionLimits {
    /// Most connections and DTLS sessions at a time; more are refused and counted under `connections_refused`. A
    /// connection costs a thread, and some 100 KiB when a message has begun.
    pub connections_max: usize,
    /// Most of them from one address, so that one sender cannot keep the others out.
    pub connections_per_source_max: usize,
    /// Most handshakes of TLS or DTLS that are under way.
    pub handshakes_max: usize,
    /// Longest time for a handshake; then it counts under `handshakes_failed`.
    pub handshake_timeout: Duration,
    /// Longest time from the first octet of a message to its last; then the connection is closed and counted under
    /// `connections_failed`.
    pub message_timeout: Duration,
    /// Longest time without a message; then the same happens.
    pub idle_timeout: Duration,
    /// Reads of up to 32 KiB between all connections and their decoder. A connection waits while they are full, a DTLS
    /// session does not: what does not fit is dropped and counted under `queue_drops`.
    pub queue_reads_max: usize,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            connections_max: 1024,
            connections_per_source_max: 256,
            handshakes_max: 128,
            handshake_timeout: Duration::from_secs(10),
            message_timeout: Duration::from_mins(1),
            idle_timeout: Duration::from_mins(30),
            queue_reads_max: 256,
        }
    }
}

/// What all listeners for sessions share.
#[derive(Debug)]
pub(crate) struct Sessions {
    pub limits: SessionLimits,
    pub tally: Arc<Tally>,
    stop: AtomicBool,
    open: Mutex<HashSet<Session>>,
    handshakes: AtomicUsize,
}

impl Sessions {
    pub(crate) fn new(limits: SessionLimits, tally: Arc<Tally>) -> Arc<Self> {
        let (open, handshakes) = (Mutex::default(), AtomicUsize::new(0));
        Arc::new(Self { limits, tally, stop: AtomicBool::new(false), open, handshakes })
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Lets a session begin, or counts why not.
    pub(crate) fn begin(self: &Arc<Self>, session: Session) -> Option<Open> {
        let refused = {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            let of_source = open.iter().filter(|known| known.source.ip() == session.source.ip());
            if open.len() >= self.limits.connections_max {
                Some(Reason::TooManyConnections)
            } else if of_source.count() >= self.limits.connections_per_source_max {
                Some(Reason::TooManyOfSource)
            } else {
                // the same port of an exporter at two listeners of ours: their Templates would be mixed up
                (!open.insert(session)).then_some(Reason::SessionExists)
            }
        };
        if let Some(reason) = refused {
            self.tally.count_reason(reason);
            return None;
        }
        self.tally.count(Counter::ConnectionsAccepted, 1);
        Some(Open { session, sessions: Arc::clone(self) })
    }

    /// Lets a handshake begin, unless there are too many.
    pub(crate) fn handshake(self: &Arc<Self>) -> Result<UnderWay, Reason> {
        let under_way = UnderWay(Arc::clone(self));
        if self.handshakes.fetch_add(1, Ordering::Relaxed) < self.limits.handshakes_max {
            return Ok(under_way);
        }
        Err(Reason::TooManyHandshakes)
    }
}

/// A session that counts against the limits until it is dropped.
#[derive(Debug)]
pub(crate) struct Open {
    pub session: Session,
    sessions: Arc<Sessions>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.sessions.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.session);
    }
}

/// A handshake that counts against the limit until it is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay(Arc<Sessions>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.handshakes.fetch_sub(1, Ordering::Relaxed);
    }
}
