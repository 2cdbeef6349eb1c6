//! One connection: the handshake, if any, and then messages until it ends.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crossbeam_channel::Sender;
use weir_secure::{TlsServer, TlsStream};

use super::{DRAIN_MAX, Framing, Open, Read, Reason, Sessions, configure, is_timeout};
use crate::socket::now_ms;

/// Octets read at a time.
const READ_OCTETS: usize = 16 << 10;

/// A connection and what its thread needs.
pub(super) struct Connection {
    pub stream: TcpStream,
    pub open: Open,
    pub sessions: Arc<Sessions>,
    pub queue: Sender<Read>,
    /// For TLS.
    pub tls: Option<TlsServer>,
}

impl Connection {
    /// Reads the connection to its end.
    pub(super) fn run(self) {
        let Self { stream, open, sessions, queue, tls } = self;
        let session = open.session;
        let timed = match configure(&stream, session.transport, sessions.limits.handshake_timeout) {
            Ok(()) => Timed {
                stream,
                deadline: Instant::now(),
                sessions: Arc::clone(&sessions),
                stopping_since: None,
                given_up: None,
            },
            Err(_) => return sessions.tally.count_peer(Reason::Broken, session.source),
        };
        let reading = Reading { open: &open, sessions: &sessions, queue: &queue };
        // Whatever carried the octets is closed last: while it is open, the exporter cannot begin another session from
        // the same port, and nothing of that one can come before the end of this one.
        let (failed, _still_open): (Option<Reason>, Box<dyn std::any::Any>) = match &tls {
            None => {
                let mut timed = timed;
                (reading.messages(&mut timed), Box::new(timed))
            }
            Some(tls) => match reading.handshake(tls, timed) {
                Ok(mut stream) => {
                    let failed = reading.messages(&mut stream);
                    // if the exporter cannot be notified, the connection is gone anyway
                    let _ = stream.close();
                    (failed, Box::new(stream))
                }
                Err(reason) => (Some(reason), Box::new(())),
            },
        };
        if let Some(reason) = failed {
            sessions.tally.count_peer(reason, session.source);
        }
        // fails only when the collector is being dropped
        let _ = queue.send(Read::End(session));
        drop(open);
    }
}

/// Something that carries messages and has a time by which a read must have come to something.
trait Carrier: io::Read {
    fn set_deadline(&mut self, deadline: Instant);

    /// What ends a read when it is set.
    fn set_given_up(&mut self, given_up: Option<Arc<AtomicBool>>);
}

impl Carrier for Timed {
    fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    fn set_given_up(&mut self, given_up: Option<Arc<AtomicBool>>) {
        self.given_up = given_up;
    }
}

impl Carrier for TlsStream<Timed> {
    fn set_deadline(&mut self, deadline: Instant) {
        self.get_mut().deadline = deadline;
    }

    fn set_given_up(&mut self, given_up: Option<Arc<AtomicBool>>) {
        self.get_mut().given_up = given_up;
    }
}

struct Reading<'c> {
    open: &'c Open,
    sessions: &'c Arc<Sessions>,
    queue: &'c Sender<Read>,
}

impl Reading<'_> {
    fn handshake(&self, tls: &TlsServer, mut timed: Timed) -> Result<TlsStream<Timed>, Reason> {
        let under_way = self.sessions.handshake(self.open.session);
        timed.deadline = Instant::now() + self.sessions.limits.handshake_timeout;
        timed.given_up = Some(under_way.given_up());
        let mut stream = tls
            .accept(timed)
            .map_err(|error| if under_way.is_given_up() { Reason::TooManyHandshakes } else { error.into() })?;
        stream.get_mut().given_up = None;
        Ok(stream)
    }

    /// Reads messages until the connection ends. Returns why it was closed for an error.
    fn messages(&self, carrier: &mut impl Carrier) -> Option<Reason> {
        let limits = &self.sessions.limits;
        let mut framing = Framing::default();
        // on the stack, which is a thread's own anyway
        let mut buffer = [0; READ_OCTETS];
        carrier.set_deadline(Instant::now() + limits.idle_timeout);
        carrier.set_given_up(Some(self.open.given_up()));
        let mut is_heard = false;
        loop {
            let begun = framing.unfinished_octets() > 0;
            let octets = match carrier.read(&mut buffer) {
                Ok(0) => return begun.then_some(Reason::CutShort),
                Ok(count) => buffer.get(..count).unwrap_or_default(),
                Err(error) if is_stop(&error) => return None,
                Err(error) if is_timeout(&error) && !is_heard && self.open.is_given_up() => {
                    return Some(Reason::TooManyConnections);
                }
                Err(error) if is_timeout(&error) => {
                    return Some(if begun { Reason::MessageTooSlow } else { Reason::Idle });
                }
                Err(_) => return Some(if begun { Reason::CutShort } else { Reason::Broken }),
            };
            let (octets, problem) = framing.push(octets);
            let progress = !octets.is_empty();
            if progress && !std::mem::replace(&mut is_heard, true) {
                self.open.heard();
                carrier.set_given_up(None);
            }
            if progress {
                let read = Read::Messages { session: self.open.session, received_ms: now_ms(), octets };
                if self.queue.send(read).is_err() {
                    return None;
                }
            }
            if let Some(problem) = problem {
                return Some(problem.into());
            }
            // the time for a message runs from its first octet, however many follow
            match framing.unfinished_octets() {
                0 => carrier.set_deadline(Instant::now() + limits.idle_timeout),
                _ if progress || !begun => carrier.set_deadline(Instant::now() + limits.message_timeout),
                _ => {}
            }
        }
    }
}

/// A connection whose reads end at a deadline, or when the collector stops and there is nothing left to read.
///
/// The deadline is kept here and not around the reads because OpenSSL reads as long as octets come, be it one a second.
struct Timed {
    stream: TcpStream,
    deadline: Instant,
    sessions: Arc<Sessions>,
    stopping_since: Option<Instant>,
    /// Set when others have taken the place of this handshake, or of this connection before its first message.
    given_up: Option<Arc<AtomicBool>>,
}

impl io::Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let is_given_up = self.given_up.as_ref().is_some_and(|given_up| given_up.load(Ordering::Acquire));
            if is_given_up || Instant::now() >= self.deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let stopping = self.sessions.is_stopping();
            if stopping && self.stopping_since.get_or_insert_with(Instant::now).elapsed() > DRAIN_MAX {
                return Err(stopped());
            }
            match self.stream.read(buffer) {
                Err(error) if is_timeout(&error) => {
                    if stopping {
                        return Err(stopped());
                    }
                }
                read => return read,
            }
        }
    }
}

impl io::Write for Timed {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Says that reading ended because the collector stops.
fn stopped() -> io::Error {
    io::Error::other(Stopped)
}

fn is_stop(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Stopped>)
}

#[derive(Debug, thiserror::Error)]
#[error("the collector stops")]
struct Stopped;
