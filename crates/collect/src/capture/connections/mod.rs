//! IPFIX over TCP in a capture (RFC 7011 section 10.4): connections put together, and messages taken out of them.
//!
//! Each direction of a connection is a stream of its own. Which of them are exports is not known before octets come: a
//! stream is one when it begins with a message whose sets fill it. A capture that begins in the middle of a connection has
//! streams that begin with any segment that looks so; to the port that IPFIX has, or that is asked for, messages are looked
//! for within segments, too. Of other streams nothing is kept, so captures of any traffic cost little.

mod framing;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::SocketAddr;

pub(super) use self::framing::may_begin;
use self::framing::{MessageFraming, StreamCounts};
use self::stream::{EachMessage, Stream};
use super::export_port::ExportPort;
use super::segment::Segment;
use super::stream_table::{Holder, State, StreamTable};
use crate::session::{Session, Transport};

/// What comes of connections over TCP, and of associations of SCTP, in a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionEvent<'a> {
    /// A message.
    Message {
        /// The connection or association, by the address and port that it comes from.
        session: Session,
        /// When its last octet was captured, milliseconds since the epoch.
        captured_ms: i64,
        /// The message.
        octets: &'a [u8],
    },
    /// Nothing more comes of a session, or another one begins with its address and port: its Templates are forgotten (RFC
    /// 7011 section 8.1). A session whose end was not captured has none: a further capture may go on with it.
    End {
        /// The connection or association.
        session: Session,
        /// When it ended, milliseconds since the epoch.
        captured_ms: i64,
    },
}

/// What was found of connections over TCP.
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

/// One direction of a connection.
#[derive(Debug)]
struct Connection {
    stream: Stream,
    /// Whether its first octet is known.
    has_begin: bool,
    /// What was found before it is known to be one of exports.
    unreported: StreamCounts,
}

impl Holder for Connection {
    fn octets_held(&self) -> usize {
        self.stream.octets_held()
    }
}

/// The connections of a capture.
#[derive(Debug, Default)]
pub(super) struct Connections {
    port: ExportPort,
    streams: StreamTable<Key, Connection>,
    /// Where the session of a source goes.
    destinations: HashMap<SocketAddr, SocketAddr, foldhash::fast::RandomState>,
    report: ConnectionReport,
}

impl Connections {
    /// Reads the streams to this port.
    pub(super) fn new(port: ExportPort) -> Self {
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
        if !self.port.is_read(segment.destination.port()) {
            return;
        }
        if segment.begins() {
            self.begin(key, segment.first_octet(), captured_ms, each);
        }
        if segment.payload.is_empty() && !segment.ends() {
            return;
        }
        let first = segment.first_octet();
        let known = self.streams.get(key).map(|(state, known)| (state, known.stream.is_behind(first)));
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
        if self.streams.get(key).is_some_and(|(_, known)| known.stream.is_over()) {
            self.end(key, captured_ms, each);
        }
        self.limit_octets();
    }

    /// Hands on what is left at the end of the capture. Sessions do not end with it.
    pub(super) fn finish(&mut self, each: &mut Each<'_>) {
        for key in self.streams.keys_read() {
            if self.streams.state(key).is_some_and(State::is_read) {
                self.work(key, each, Stream::finish);
            }
        }
    }

    /// Whether exports may begin with this segment, of a connection that is not known.
    fn is_begin(&self, segment: &Segment<'_>) -> bool {
        let port = segment.destination.port();
        if segment.payload.is_empty() {
            return false;
        }
        self.port.is_of_exports(port)
            || self.port.is_of_tls(port) && looks_like_tls(segment.payload)
            || segment.payload.len() >= weir_wire::ipfix::HEADER_LEN + 4 && may_begin(segment.payload)
    }

    /// Whether the first octets that came of a stream are of TLS.
    fn is_encrypted(&self, key: Key, segment: &Segment<'_>) -> bool {
        let is_first = |(state, known): (State, &Connection)| state == State::Undecided && known.stream.is_untouched();
        self.port.is_of_tls(segment.destination.port())
            && looks_like_tls(segment.payload)
            && self.streams.get(key).is_some_and(is_first)
    }

    /// A connection begins: another one with its addresses and ports has ended.
    fn begin(&mut self, key: Key, first: u32, captured_ms: i64, each: &mut Each<'_>) {
        // the same segment may be sent again
        if self.streams.get(key).is_some_and(|(_, known)| known.stream.first() == first) {
            return;
        }
        self.end(key, captured_ms, each);
        self.remove(key);
        self.open(key, first, true);
    }

    fn open(&mut self, key: Key, first: u32, has_begin: bool) {
        let is_known = has_begin && self.port.is_of_exports(key.1.port());
        let framing = if is_known { MessageFraming::synchronized() } else { MessageFraming::default() };
        let (stream, unreported) = (Stream::new(first, framing), StreamCounts::default());
        if let Some(oldest) = self.streams.insert(key, Connection { stream, has_begin, unreported }) {
            self.remove(oldest);
        }
    }

    /// RFC 9293 section 3.10.7: either side ends both directions. What nobody believes has any numbers, so a direction ends with
    /// those that are close to its own.
    fn reset(&mut self, segment: &Segment<'_>, captured_ms: i64, each: &mut Each<'_>) {
        let (key, back) = ((segment.source, segment.destination), (segment.destination, segment.source));
        for (key, number) in [(key, Some(segment.sequence)), (back, segment.acknowledged)] {
            let is_believed = |known: &Connection| number.is_some_and(|number| known.stream.is_near(number));
            if self.streams.get(key).is_some_and(|(_, known)| is_believed(known)) {
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
        let session = Session { transport: Transport::Tcp, source: key.0 };
        let was_session = self.streams.state(key) == Some(State::Session);
        let (mut is_session, mut counts) = (was_session, StreamCounts::default());
        let is_given = self.port.is_given();
        self.streams.work(key, |known| {
            let has_begin = known.has_begin;
            work(&mut known.stream, &mut counts, &mut |captured_ms: i64, octets: &[u8]| {
                if !is_session && has_begin {
                    // of one that had this address and port before, in another capture as well
                    each(ConnectionEvent::End { session, captured_ms });
                }
                is_session = true;
                each(ConnectionEvent::Message { session, captured_ms, octets });
            });
            known.unreported.add(&counts);
            if is_session || is_given {
                // with what came before the first message
                self.report.add(&std::mem::take(&mut known.unreported));
            }
        });
        if is_session && !was_session {
            self.begin_session(key);
        }
        if !is_session && counts.octets_skipped > 0 && !self.port.is_of_exports(key.1.port()) {
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

    fn set_state(&mut self, key: Key, state: State) {
        let Some(oldest) = self.streams.set_state(key, state) else { return };
        if state == State::Session {
            self.report.sessions_given_up += 1;
            self.drop_octets(oldest);
        }
        self.remove(oldest);
    }

    /// Ends a stream, and the session that it is.
    fn end(&mut self, key: Key, captured_ms: i64, each: &mut Each<'_>) {
        if !self.streams.state(key).is_some_and(State::is_read) {
            return;
        }
        self.work(key, each, Stream::finish);
        if self.streams.state(key) != Some(State::Session) {
            return self.remove(key);
        }
        self.close(key, State::Ended);
        each(ConnectionEvent::End { session: Session { transport: Transport::Tcp, source: key.0 }, captured_ms });
    }

    /// Reads no more of a stream, but still knows it.
    fn close(&mut self, key: Key, state: State) {
        self.drop_octets(key);
        self.set_state(key, state);
        self.release_source(key);
    }

    fn remove(&mut self, key: Key) {
        if let Some((State::Session, _)) = self.streams.remove(key) {
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
        while let Some(oldest) = self.streams.next_to_lose() {
            if self.streams.state(oldest) == Some(State::Undecided) {
                self.remove(oldest);
            } else {
                self.drop_octets(oldest);
            }
        }
    }

    fn drop_octets(&mut self, key: Key) {
        let mut counts = StreamCounts::default();
        self.streams.work(key, |known| known.stream.clear(&mut counts));
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
