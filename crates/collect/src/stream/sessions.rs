//! The sessions that are open, within their limits.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weir_flow::Counter;

use super::descriptors::Descriptors;
use super::reasons::{Reason, Tally};
use crate::Session;
use crate::rate::source_of;
use crate::relay::network::{Allowed, is_allowed};

/// What exporters may take up by connections. Each limit has a counter for when it is hit; the reasons are reported by
/// [`crate::DecoderStatistics::problems`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionLimits {
    /// Most connections and DTLS sessions at a time. When there are more, the oldest connection that never sent a message is
    /// closed; else they are refused and counted under `connections_refused`. A connection costs a thread, and up to some 450 KiB while a message of 64 KiB is unfinished.
    pub connections_max: usize,
    /// Most of them from one source, so that one sender cannot keep the others out. A source is an address, or the 64
    /// bits of an IPv6 network in front of it: whoever has one address of those has all.
    pub connections_per_source_max: usize,
    /// Most handshakes of TLS or DTLS that are under way. When there are more, the oldest is given up.
    pub handshakes_max: usize,
    /// Most of them from one source; when there are more, its oldest is given up.
    pub handshakes_per_source_max: usize,
    /// Longest time for a handshake; then it counts under `handshakes_failed`.
    pub handshake_timeout: Duration,
    /// Longest time from the first octet of a message to its last; then the connection is closed and counted under
    /// `connections_failed`.
    pub message_timeout: Duration,
    /// Longest time without a message; then the same happens.
    pub idle_timeout: Duration,
    /// Reads of up to 16 KiB between all connections and their decoder. A connection waits while they are full, a DTLS
    /// session does not: what does not fit is dropped and counted under `queue_drops`.
    pub queue_reads_max: usize,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            connections_max: 1024,
            connections_per_source_max: 256,
            handshakes_max: 128,
            handshakes_per_source_max: 32,
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
    /// Files that may be open when a connection is accepted.
    pub descriptors: Descriptors,
    stop: AtomicBool,
    /// Who may send to which listener.
    pub allowed: Allowed,
    open: Mutex<OpenSessions>,
    /// Those under way, the oldest first, but for those that were given up.
    handshakes: Mutex<VecDeque<HalfOpen>>,
}

/// Connections without a message that may be on their way out at a time.
const LEAVING_MAX: usize = 64;

/// The sessions that are open.
#[derive(Debug, Default)]
struct OpenSessions {
    by_session: HashMap<Session, OpenSession>,
    /// The number of the next one.
    next: u64,
}

/// A session that is open.
#[derive(Debug)]
struct OpenSession {
    /// Later ones have larger numbers.
    number: u64,
    /// Whether a message has come, or need not have.
    is_heard: bool,
    /// Set when it has to give its place to another one.
    given_up: Arc<AtomicBool>,
}

impl OpenSession {
    fn is_leaving(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }
}

impl OpenSessions {
    /// Whether there is room for one more among these. When there is none, the oldest that never sent a message gives its place
    /// up: whoever keeps others out by connecting says nothing, and an exporter sends its Templates.
    fn make_room(&self, sessions_max: usize, is_meant: impl Fn(&Session) -> bool) -> bool {
        let among = || self.by_session.iter().filter(|(session, _)| is_meant(session)).map(|(_, open)| open);
        if among().filter(|open| !open.is_leaving()).count() < sessions_max {
            return true;
        }
        let is_full = self.by_session.values().filter(|open| open.is_leaving()).count() >= LEAVING_MAX;
        let silent = among().filter(|open| !open.is_heard && !open.is_leaving());
        let oldest = silent.min_by_key(|open| open.number).filter(|_| !is_full);
        oldest.inspect(|open| open.given_up.store(true, Ordering::Release)).is_some()
    }

    /// Adds a session; `None` when it is there.
    fn insert(&mut self, session: Session) -> Option<Arc<AtomicBool>> {
        let std::collections::hash_map::Entry::Vacant(place) = self.by_session.entry(session) else { return None };
        let given_up = Arc::<AtomicBool>::default();
        // a session of DTLS has no thread that waits for its messages
        let is_heard = session.transport.is_datagrams();
        place.insert(OpenSession { number: self.next, is_heard, given_up: Arc::clone(&given_up) });
        self.next += 1;
        Some(given_up)
    }
}

/// A handshake that is under way.
#[derive(Debug)]
struct HalfOpen {
    source: IpAddr,
    given_up: Arc<AtomicBool>,
}

impl Sessions {
    pub(crate) fn new(limits: SessionLimits, allowed: Allowed, tally: Arc<Tally>) -> Arc<Self> {
        let (open, handshakes) = (Mutex::default(), Mutex::default());
        let descriptors = Descriptors::of_process();
        Arc::new(Self { limits, tally, descriptors, stop: AtomicBool::new(false), allowed, open, handshakes })
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Lets a session begin at the listener of this number, or counts why not.
    pub(crate) fn begin(self: &Arc<Self>, session: Session, listener: usize) -> Option<Open> {
        let begun = {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            let source = source_of(session.source.ip());
            let is_of_source = |known: &Session| source_of(known.source.ip()) == source;
            if !is_allowed(&self.allowed.networks(listener), session.source.ip()) {
                Err(Reason::NotAllowed)
            } else if !open.make_room(self.limits.connections_per_source_max, is_of_source) {
                Err(Reason::TooManyOfSource)
            } else if !open.make_room(self.limits.connections_max, |_| true) {
                Err(Reason::TooManyConnections)
            } else {
                // the same port of an exporter at two listeners of ours: their Templates would be mixed up
                open.insert(session).ok_or(Reason::SessionExists)
            }
        };
        match begun {
            Ok(given_up) => {
                self.tally.count(Counter::ConnectionsAccepted, 1);
                Some(Open { session, given_up, sessions: Arc::clone(self) })
            }
            Err(reason) => {
                self.tally.count_peer(reason, session.source);
                None
            }
        }
    }

    /// Lets the handshake of a session begin. When there are too many, the oldest is given up: whoever floods us begins new
    /// ones all the time, and an exporter is done with its own long before it is the oldest.
    pub(crate) fn handshake(self: &Arc<Self>, session: Session) -> UnderWay {
        let source = source_of(session.source.ip());
        let mut handshakes = self.handshakes.lock().unwrap_or_else(PoisonError::into_inner);
        let of_source = handshakes.iter().filter(|known| known.source == source).count();
        let oldest = if of_source >= self.limits.handshakes_per_source_max {
            handshakes.iter().position(|known| known.source == source)
        } else {
            (handshakes.len() >= self.limits.handshakes_max).then_some(0)
        };
        if let Some(oldest) = oldest.and_then(|at| handshakes.remove(at)) {
            oldest.given_up.store(true, Ordering::Release);
        }
        let given_up = Arc::<AtomicBool>::default();
        handshakes.push_back(HalfOpen { source, given_up: Arc::clone(&given_up) });
        UnderWay { given_up, sessions: Arc::clone(self) }
    }
}

/// A session that counts against the limits until it is dropped.
#[derive(Debug)]
pub(crate) struct Open {
    pub session: Session,
    given_up: Arc<AtomicBool>,
    sessions: Arc<Sessions>,
}

impl Open {
    /// For whoever waits for its first message: set when another one takes its place.
    pub(crate) fn given_up(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.given_up)
    }

    /// Whether another one takes its place.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    /// Notes that a message has come: the place is its own.
    pub(crate) fn heard(&self) {
        let mut open = self.sessions.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = open.by_session.get_mut(&self.session) {
            open.is_heard = true;
            // it was just about to go
            open.given_up.store(false, Ordering::Release);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.sessions.open.lock().unwrap_or_else(PoisonError::into_inner).by_session.remove(&self.session);
    }
}

/// A handshake that counts against the limit until it is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay {
    given_up: Arc<AtomicBool>,
    sessions: Arc<Sessions>,
}

impl UnderWay {
    /// Whether others have taken its place.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    /// For whoever waits for the handshake: see [`is_given_up`](Self::is_given_up).
    pub(crate) fn given_up(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.given_up)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut handshakes = self.sessions.handshakes.lock().unwrap_or_else(PoisonError::into_inner);
        handshakes.retain(|known| !Arc::ptr_eq(&known.given_up, &self.given_up));
    }
}
