//! One exporter's session of DTLS.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

use openssl::error::ErrorStack;
use openssl::ssl::{ErrorCode, SslStream};

use super::super::cookie::Hello;
use super::super::{Identity, handshake_reason};
use crate::Session;
use crate::stream::{Open, Reason, Sessions, UnderWay};

/// Longest datagram that a handshake sends: below what links on the Internet carry whole.
const HANDSHAKE_OCTETS: u32 = 1200;
/// Longest content of a record (RFC 5246 section 6.2.1).
const RECORD_OCTETS: usize = 16_384;

/// What came of a datagram or of time.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// What the exporter sent.
    pub datagrams: Vec<Vec<u8>>,
    /// Why the session ended for an error.
    pub failed: Option<Reason>,
    pub ended: bool,
}

impl Progress {
    fn failed(reason: Reason) -> Self {
        Self { failed: Some(reason), ended: true, ..Self::default() }
    }
}

/// A session from the hello with the right cookie on.
pub(super) struct Peer {
    stream: SslStream<Link>,
    open: Open,
    /// While the handshake is under way.
    under_way: Option<UnderWay>,
    /// Of the hello that began it.
    random: Vec<u8>,
    /// When it began, or when something came last.
    since: Instant,
}

impl Peer {
    /// Begins a session; the hello itself is still to be given to [`Peer::datagram`].
    pub(super) fn new(
        identity: &Identity,
        socket: &Arc<UdpSocket>,
        source: SocketAddr,
        hello: &Hello<'_>,
        open: Open,
        under_way: UnderWay,
    ) -> Result<Self, ErrorStack> {
        let mut ssl = identity.session()?;
        ssl.set_mtu(HANDSHAKE_OCTETS)?;
        let inbox = VecDeque::from([hello.before()]);
        let link = Link { socket: Arc::clone(socket), source, inbox, is_muted: false };
        let stream = SslStream::new(ssl, link)?;
        let (random, since) = (hello.random.to_vec(), Instant::now());
        Ok(Self { stream, open, under_way: Some(under_way), random, since })
    }

    pub(super) fn session(&self) -> Session {
        self.open.session
    }

    /// Whether this hello is the one that began the session.
    pub(super) fn is_of(&self, hello: &Hello<'_>) -> bool {
        self.random == hello.random
    }

    /// Takes a datagram.
    pub(super) fn datagram(&mut self, octets: &[u8], identity: &Identity) -> Progress {
        if !records_are_plausible(octets, self.sealed_octets_min()) {
            return Progress::default();
        }
        self.stream.get_mut().inbox.push_back(octets.to_vec());
        let progress = self.go_on(identity);
        if !progress.datagrams.is_empty() {
            self.since = Instant::now();
        }
        progress
    }

    /// Looks whether a handshake has to send something again, or anything takes too long.
    pub(super) fn tend(&mut self, identity: &Identity, sessions: &Sessions) -> Progress {
        let waited = self.since.elapsed();
        if self.under_way.is_some() {
            if waited > sessions.limits.handshake_timeout {
                return Progress::failed(Reason::HandshakeTooSlow);
            }
            return self.go_on(identity);
        }
        if waited > sessions.limits.idle_timeout {
            self.say_goodbye();
            return Progress::failed(Reason::Idle);
        }
        Progress::default()
    }

    /// Tells the exporter that the session ends.
    pub(super) fn say_goodbye(&mut self) {
        if self.under_way.is_none() {
            let _ = self.stream.shutdown();
        }
    }

    /// Octets of a sealed record at least: what the cipher adds to nothing.
    fn sealed_octets_min(&self) -> usize {
        let cipher = self.stream.ssl().current_cipher().map(openssl::ssl::SslCipherRef::name);
        match cipher {
            // the first sealed record of a handshake is its Finished, which is longer under any cipher
            _ if self.under_way.is_some() => 24,
            Some(name) if name.contains("GCM") => 24,
            _ => 16,
        }
    }

    fn go_on(&mut self, identity: &Identity) -> Progress {
        // errors that another session has left in this thread are not this one's
        drop(ErrorStack::get());
        if self.under_way.is_some() {
            match self.stream.accept() {
                Ok(()) if !identity.admits(self.stream.ssl()) => return Progress::failed(Reason::NameNotAllowed),
                Ok(()) => self.under_way = None,
                Err(error) if error.code() == ErrorCode::WANT_READ => return Progress::default(),
                Err(error) => return Progress::failed(handshake_reason(&error, self.stream.ssl())),
            }
            self.since = Instant::now();
        }
        self.read()
    }

    /// Reads records, each of which is a message.
    fn read(&mut self) -> Progress {
        let (mut progress, mut buffer) = (Progress::default(), vec![0; RECORD_OCTETS]);
        loop {
            match self.stream.ssl_read(&mut buffer) {
                Ok(octets) => progress.datagrams.push(buffer.get(..octets).unwrap_or_default().to_vec()),
                Err(error) if error.code() == ErrorCode::WANT_READ => return progress,
                Err(error) => {
                    progress.ended = true;
                    if error.code() == ErrorCode::ZERO_RETURN {
                        self.say_goodbye();
                    } else {
                        progress.failed = Some(Reason::Broken);
                    }
                    return progress;
                }
            }
        }
    }
}

/// Whether a datagram consists of records that may be of the session. Anybody can send others under its address, and
/// OpenSSL (3.0) ends the session over a sealed record that is too short to be opened.
fn records_are_plausible(mut rest: &[u8], sealed_octets_min: usize) -> bool {
    while !rest.is_empty() {
        let Some((header, after)) = rest.split_first_chunk::<13>() else { return false };
        let length = usize::from(u16::from_be_bytes([header[11], header[12]]));
        let is_sealed = header[3..5] != [0, 0];
        if header[1] != 0xfe || is_sealed && length < sealed_octets_min {
            return false;
        }
        let Some(after) = after.get(length..) else { return false };
        rest = after;
    }
    true
}

/// What OpenSSL takes for the network: datagrams that have come, and a socket to answer by.
struct Link {
    socket: Arc<UdpSocket>,
    source: SocketAddr,
    inbox: VecDeque<Vec<u8>>,
    /// While the first hello is answered, which the exporter has had from us already.
    is_muted: bool,
}

impl io::Read for Link {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(datagram) = self.inbox.pop_front() else { return Err(io::ErrorKind::WouldBlock.into()) };
        self.is_muted = !self.inbox.is_empty();
        let octets = datagram.len().min(buffer.len());
        buffer[..octets].copy_from_slice(&datagram[..octets]);
        Ok(octets)
    }
}

impl io::Write for Link {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if !self.is_muted {
            // what cannot be sent is lost, as it might be on the way
            let _ = self.socket.send_to(buffer, self.source);
        }
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
