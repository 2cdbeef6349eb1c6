//! IPFIX over TCP in a capture (RFC 7011 section 10.4): connections put together, and messages taken out of them.
//!
//! Each direction of a connection is a stream of its own. Which of them are exports is not known before octets come: a
//! stream is one when it begins with a message whose sets fill it. A capture that begins in the middle of a connection has
//! streams that begin with any segment that looks so; to the port that IPFIX has, or that is asked for, messages are looked
//! for within segments, too. Of other streams nothing is kept, so captures of any traffic cost little.
//!
//! Streams that are not known to be exports have a table of their own, and so have those that have ended or cannot be read:
//! whoever begins connections by the thousand cannot keep sessions out.

mod framing;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use self::framing::{MessageFraming, StreamCounts, may_begin};
use self::stream::{EachMessage, Stream};
use super::segment::Segment;
use crate::session::{Session, Transport};

/// Most sessions at a time; the oldest is given up for another.
const SESSIONS_MAX: usize = 1024;
/// Most streams at a time that have ended or are not read; the one that has been so for longest is forgotten for another.
const CLOSED_MAX: usize = 1024;
/// Most streams at a time that are not known to be exports; the oldest is forgotten for another.
const UNDECIDED_MAX: usize = 1024;
/// Most octets of all streams that wait for others; the oldest stream that has some loses them.
const OCTETS_MAX: usize = 64 << 20;
/// Port of IPFIX, and of IPFIX over TLS (RFC 7011 section 10.1).
const PORT: u16 = 4739;
const PORT_TLS: u16 = 4740;

/// What comes of connections in a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionEvent<'a> {
    /// A message.
    Message {
        /// The connection, by the address and port that it comes from.
        session: Session,
        /// When its last octet was captured, milliseconds since the epoch.
        captured_ms: i64,
        /// The message.
        octets: &'a [u8],
    },
    /// Nothing more comes of a session, or another one begins with its address and port: its Templates are forgotten (RFC
    /// 7011 section 8.1). A session whose end was not captured has none: a further capture may go on with it.
    End {
        /// The connection.
        session: Session,
        /// When it ended, milliseconds since the epoch.
        captured_ms: i64,
    },
}

/// What was found of connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConnectionReport {
    /// Connections with messages.
    pub sessions: u64,
    /// Those that were given up: there were too many, or another one with the same address and port began elsewhere.
    pub sessions_given_up: u64,
    /// Connections with TLS to a port of IPFIX, which cannot be read.
    pub sessions_encrypted: u64,
    /// Messages delivered.
    pub messages: u64,
    /// Octets of sessions that are not in the capture, as far as later ones show it.
    pub octets_missing: u64,
    /// Octets of sessions that belong to no whole message.
    pub octets_skipped: u64,
}

/// Takes what comes of connections.
pub(super) type Each<'a> = dyn FnMut(ConnectionEvent<'_>) + 'a;
/// Source and destination of a stream.
type Key = (SocketAddr, SocketAddr);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No message has come.
    Undecided,
    Session,
    /// It cannot be read, or is not to be.
    Ignored,
    Ended,
}

/// One direction of a connection.
#[derive(Debug)]
struct Connection {
    stream: Stream,
    state: State,
    /// Whether its first octet is known.
    has_begin: bool,
    /// Those that have its state for less long have larger numbers.
    number: u64,
    /// What was found before it is known to be one of exports.
    unreported: StreamCounts,
}

impl Connection {
    /// Its place among those that hold octets.
    fn place(&self) -> (bool, u64) {
        (self.state != State::Undecided, self.number)
    }
}

/// The connections of a capture.
#[derive(Debug, Default)]
pub(super) struct Connections {
    /// The only port whose streams are read.
    port: Option<u16>,
    connections: HashMap<Key, Connection, foldhash::fast::RandomState>,
    /// Those that are undecided, those that are sessions, and all others, the oldest first.
    undecided: BTreeMap<u64, Key>,
    sessions: BTreeMap<u64, Key>,
    closed: BTreeMap<u64, Key>,
    /// Those that hold octets, in the order in which they lose them: undecided ones first, and then the oldest.
    holders: BTreeMap<(bool, u64), Key>,
    /// Where the session of a source goes.
    destinations: HashMap<SocketAddr, SocketAddr, foldhash::fast::RandomState>,
    /// The number of the next one.
    next: u64,
    octets_held: usize,
    report: ConnectionReport,
}

impl Connections {
    /// Reads all streams to this port and no other; `None`: those of any port that look like exports.
    pub(super) fn new(port: Option<u16>) -> Self {
        Self { port, ..Self::default() }
    }

    /// What was found so far.
    pub(super) fn report(&self) -> ConnectionReport {
        self.report
    }

    /// Takes a segment.
    pub(super) fn take(&mut self, segment: &Segment<'_>, captured_ms: i64, each: &mut Each<'_>) {
        let key = (segment.source, segment.destination);
        if segment.resets() {
            return self.reset(segment, captured_ms, each);
        }
        if self.port.is_some_and(|port| port != segment.destination.port()) {
            return;
        }
        if segment.begins() {
            self.begin(key, segment.first_octet(), captured_ms, each);
        }
        if segment.payload.is_empty() && !segment.ends() {
            return;
        }
        let first = segment.first_octet();
        let known = self.connections.get(&key).map(|known| (known.state, known.stream.is_behind(first)));
        match known {
            Some((State::Undecided | State::Session, _)) => {}
            // what has ended is sent again at times
            Some((State::Ignored, _) | (State::Ended, true)) => return,
            Some((State::Ended, false)) | None => {
                if !self.is_begin(segment) {
                    return;
                }
                self.remove(key);
                self.open(key, first, false);
            }
        }
        if self.is_encrypted(key, segment) {
            self.report.sessions_encrypted += 1;
            return self.set_state(key, State::Ignored);
        }
        self.work(key, each, |stream, counts, each| stream.add(segment, captured_ms, counts, each));
        if self.connections.get(&key).is_some_and(|known| known.stream.is_over()) {
            self.end(key, captured_ms, each);
        }
        self.limit_octets();
    }

    /// Hands on what is left at the end of the capture. Sessions do not end with it.
    pub(super) fn finish(&mut self, each: &mut Each<'_>) {
        let keys: Vec<Key> = self.sessions.values().chain(self.undecided.values()).copied().collect();
        for key in keys {
            if matches!(self.state(key), Some(State::Undecided | State::Session)) {
                self.work(key, each, Stream::finish);
            }
        }
    }

    /// Whether this port is one of exports, so that all that is sent to it is looked at.
    fn is_of_exports(&self, port: u16) -> bool {
        port == self.port.unwrap_or(PORT)
    }

    fn is_of_tls(&self, port: u16) -> bool {
        self.is_of_exports(port) || self.port.is_none() && port == PORT_TLS
    }

    /// Whether exports may begin with this segment, of a connection that is not known.
    fn is_begin(&self, segment: &Segment<'_>) -> bool {
        let port = segment.destination.port();
        if segment.payload.is_empty() {
            return false;
        }
        self.is_of_exports(port)
            || self.is_of_tls(port) && looks_like_tls(segment.payload)
            || segment.payload.len() >= weir_wire::ipfix::HEADER_LEN + 4 && may_begin(segment.payload)
    }

    /// Whether the first octets that came of a stream are of TLS.
    fn is_encrypted(&self, key: Key, segment: &Segment<'_>) -> bool {
        let is_first = |known: &Connection| known.state == State::Undecided && known.stream.is_untouched();
        self.is_of_tls(segment.destination.port())
            && looks_like_tls(segment.payload)
            && self.connections.get(&key).is_some_and(is_first)
    }

    /// A connection begins: another one with its addresses and ports has ended.
    fn begin(&mut self, key: Key, first: u32, captured_ms: i64, each: &mut Each<'_>) {
        // the same segment may be sent again
        if self.connections.get(&key).is_some_and(|known| known.stream.first() == first) {
            return;
        }
        self.end(key, captured_ms, each);
        self.remove(key);
        self.open(key, first, true);
    }

    fn open(&mut self, key: Key, first: u32, has_begin: bool) {
        let is_known = has_begin && self.is_of_exports(key.1.port());
        let framing = if is_known { MessageFraming::synchronized() } else { MessageFraming::default() };
        let (stream, state, unreported) = (Stream::new(first, framing), State::Undecided, StreamCounts::default());
        self.connections.insert(key, Connection { stream, state, has_begin, number: self.next, unreported });
        self.set_state(key, state);
    }

    /// RFC 9293 section 3.10.7: either side ends both directions. What nobody believes has any numbers, so a direction ends with
    /// those that are close to its own.
    fn reset(&mut self, segment: &Segment<'_>, captured_ms: i64, each: &mut Each<'_>) {
        let (key, back) = ((segment.source, segment.destination), (segment.destination, segment.source));
        for (key, number) in [(key, Some(segment.sequence)), (back, segment.acknowledged)] {
            let is_believed = |known: &Connection| number.is_some_and(|number| known.stream.is_near(number));
            if self.connections.get(&key).is_some_and(is_believed) {
                self.end(key, captured_ms, each);
            }
        }
    }

    /// Has a stream do something, and hands on the messages that come of it.
    fn work(
        &mut self,
        key: Key,
        each: &mut Each<'_>,
        work: impl FnOnce(&mut Stream, &mut StreamCounts, &mut EachMessage<'_>),
    ) {
        let Some(known) = self.connections.get_mut(&key) else { return };
        let session = Session { transport: Transport::Tcp, source: key.0 };
        let (has_begin, was_session) = (known.has_begin, known.state == State::Session);
        let (mut is_session, mut counts) = (was_session, StreamCounts::default());
        let held = known.stream.octets_held();
        work(&mut known.stream, &mut counts, &mut |captured_ms: i64, octets: &[u8]| {
            if !is_session && has_begin {
                // of one that had this address and port before, in another capture as well
                each(ConnectionEvent::End { session, captured_ms });
            }
            is_session = true;
            each(ConnectionEvent::Message { session, captured_ms, octets });
        });
        let holds = known.stream.octets_held();
        self.octets_held = self.octets_held + holds - held;
        if held == 0 && holds > 0 {
            self.holders.insert(known.place(), key);
        } else if held > 0 && holds == 0 {
            self.holders.remove(&known.place());
        }
        known.unreported.add(counts);
        if is_session || self.port.is_some() {
            // with what came before the first message
            self.report.add(&std::mem::take(&mut known.unreported));
        }
        if is_session && !was_session {
            self.begin_session(key);
        }
        if !is_session && counts.octets_skipped > 0 && !self.is_of_exports(key.1.port()) {
            self.remove(key);
        }
    }

    /// The first message of a stream has come.
    fn begin_session(&mut self, key: Key) {
        self.report.sessions += 1;
        // the Templates of two streams with one source would be mixed up: the one that began last is read
        if let Some(other) = self.destinations.insert(key.0, key.1)
            && other != key.1
        {
            self.report.sessions_given_up += 1;
            self.close((key.0, other), State::Ignored);
        }
        self.set_state(key, State::Session);
    }

    /// Gives a stream a state, and a place behind the others that have it; the oldest of too many is forgotten.
    fn set_state(&mut self, key: Key, state: State) {
        let Some(known) = self.connections.get_mut(&key) else { return };
        for table in [&mut self.undecided, &mut self.sessions, &mut self.closed] {
            table.remove(&known.number);
        }
        let is_holder = self.holders.remove(&known.place()).is_some();
        (known.state, known.number) = (state, self.next);
        self.next += 1;
        if is_holder {
            self.holders.insert(known.place(), key);
        }
        let (table, streams_max) = match state {
            State::Undecided => (&mut self.undecided, UNDECIDED_MAX),
            State::Session => (&mut self.sessions, SESSIONS_MAX),
            State::Ignored | State::Ended => (&mut self.closed, CLOSED_MAX),
        };
        table.insert(known.number, key);
        if table.len() > streams_max
            && let Some(oldest) = table.first_key_value().map(|(_, oldest)| *oldest)
        {
            if state == State::Session {
                self.report.sessions_given_up += 1;
                self.drop_octets(oldest);
            }
            self.remove(oldest);
        }
    }

    /// Ends a stream, and the session that it is.
    fn end(&mut self, key: Key, captured_ms: i64, each: &mut Each<'_>) {
        if !matches!(self.state(key), Some(State::Undecided | State::Session)) {
            return;
        }
        self.work(key, each, Stream::finish);
        if self.state(key) != Some(State::Session) {
            return self.remove(key);
        }
        self.close(key, State::Ended);
        each(ConnectionEvent::End { session: Session { transport: Transport::Tcp, source: key.0 }, captured_ms });
    }

    fn state(&self, key: Key) -> Option<State> {
        self.connections.get(&key).map(|known| known.state)
    }

    /// Reads no more of a stream, but still knows it.
    fn close(&mut self, key: Key, state: State) {
        self.drop_octets(key);
        self.set_state(key, state);
        self.release_source(key);
    }

    fn remove(&mut self, key: Key) {
        let Some(known) = self.connections.remove(&key) else { return };
        self.octets_held -= known.stream.octets_held();
        self.holders.remove(&known.place());
        for table in [&mut self.undecided, &mut self.sessions, &mut self.closed] {
            table.remove(&known.number);
        }
        if known.state == State::Session {
            self.release_source(key);
        }
    }

    fn release_source(&mut self, (source, destination): Key) {
        if self.destinations.get(&source) == Some(&destination) {
            self.destinations.remove(&source);
        }
    }

    /// Drops octets of the oldest streams while too many are held.
    fn limit_octets(&mut self) {
        while self.octets_held > OCTETS_MAX {
            let Some(oldest) = self.holders.first_key_value().map(|(_, oldest)| *oldest) else { return };
            if self.state(oldest) == Some(State::Undecided) {
                self.remove(oldest);
            } else {
                self.drop_octets(oldest);
            }
        }
    }

    fn drop_octets(&mut self, key: Key) {
        let Some(known) = self.connections.get_mut(&key) else { return };
        let mut counts = StreamCounts::default();
        self.octets_held -= known.stream.octets_held();
        self.holders.remove(&known.place());
        known.stream.clear(&mut counts);
        self.report.add(&counts);
    }
}

impl ConnectionReport {
    fn add(&mut self, counts: &StreamCounts) {
        self.messages += counts.messages;
        self.octets_missing += counts.octets_missing;
        self.octets_skipped += counts.octets_skipped;
    }
}

/// Whether a record of TLS begins here: type and version (RFC 8446 section 5.1).
fn looks_like_tls(octets: &[u8]) -> bool {
    matches!(octets, [20..=23, 3, 0..=4, ..])
}
