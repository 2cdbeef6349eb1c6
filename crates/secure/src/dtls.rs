//! The server end of DTLS 1.2: sessions over one UDP socket, clients distinguished by address and port.
//!
//! A session reads no socket. Its caller receives datagrams, hands each to the session of its sender and resends from
//! time to time; so a session that waits for a datagram keeps no other one waiting. What a handshake computes takes
//! about a millisecond.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use openssl::error::ErrorStack;
use openssl::ssl::{ErrorCode, SslMethod, SslOptions, SslStream, SslVersion};

use crate::cookie::{self, ClientHello, Cookies};
use crate::identity::{CurrentIdentity, Identity};
use crate::{AcceptError, TlsError, TlsServerOptions};

/// Longest datagram that a handshake sends: below what links on the Internet carry whole.
const HANDSHAKE_OCTETS: u32 = 1200;
/// Longest content of a record (RFC 5246 section 6.2.1).
const RECORD_OCTETS: usize = 16_384;

/// Accepts sessions of DTLS.
pub struct DtlsServer {
    identity: CurrentIdentity,
    cookies: Cookies,
}

impl fmt::Debug for DtlsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DtlsServer").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl DtlsServer {
    /// Reads the files.
    pub fn new(options: &TlsServerOptions) -> Result<Self, TlsError> {
        Ok(Self { identity: CurrentIdentity::new(identity(options)?), cookies: Cookies::new()? })
    }

    /// Reads the files again, for the sessions that begin from now on. When that fails, the old ones stay in use.
    pub fn reload(&self, options: &TlsServerOptions) -> Result<(), TlsError> {
        self.identity.replace(identity(options)?);
        Ok(())
    }

    /// Whether a hello has the cookie of its handshake, so that its sender can receive at this address.
    pub fn is_verified(&self, client: SocketAddr, hello: &ClientHello<'_>, now_ms: i64) -> bool {
        self.cookies.is_right(client, hello, now_ms)
    }

    /// The datagram that asks the sender of a hello to return a cookie. If it is lost, the client says hello again.
    pub fn verify_request(&self, client: SocketAddr, hello: &ClientHello<'_>, now_ms: i64) -> Option<Vec<u8>> {
        self.cookies.of(client, hello, now_ms).ok().map(|cookie| hello.verify_request(&cookie))
    }

    /// Begins a session that answers by this socket. The verified hello itself is still to be handed to
    /// [`DtlsSession::receive`].
    pub fn begin(
        &self,
        socket: &Arc<UdpSocket>,
        client: SocketAddr,
        hello: &ClientHello<'_>,
    ) -> Result<DtlsSession, AcceptError> {
        let identity = self.identity.get();
        let begin = || {
            let mut ssl = identity.session()?;
            ssl.set_mtu(HANDSHAKE_OCTETS)?;
            let inbox = VecDeque::from([hello.without_cookie()]);
            SslStream::new(ssl, Link { socket: Arc::clone(socket), client, inbox, is_muted: false })
        };
        let stream = begin().map_err(|_: ErrorStack| AcceptError::NoResources)?;
        let random = hello.random.to_vec();
        Ok(DtlsSession { stream, identity, is_established: false, random, active_at: Instant::now() })
    }
}

fn identity(options: &TlsServerOptions) -> Result<Identity, TlsError> {
    Identity::new(options, SslMethod::dtls_server(), SslVersion::DTLS1_2, |context| {
        cookie::require(context);
        // Under a suite of another kind OpenSSL ends the session when a forged record fails its check, and anybody can
        // send a datagram under the address of an exporter.
        context.set_cipher_list("ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM:DHE+CHACHA20")?;
        // sessions are given the longest datagram that they may send
        context.set_options(SslOptions::NO_QUERY_MTU);
        Ok(())
    })
}

/// What a datagram, or time, has led to.
#[derive(Debug, Default)]
pub struct Progress {
    /// What the client has sent, a datagram each.
    pub datagrams: Vec<Vec<u8>>,
    /// Why the session has ended, if it has.
    pub end: Option<SessionEnd>,
}

/// Why a session of DTLS has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEnd {
    /// The client has closed it.
    Closed,
    /// Its handshake has failed.
    Refused(AcceptError),
    /// What came could not be read.
    Broken,
}

impl Progress {
    fn ended(end: SessionEnd) -> Self {
        Self { end: Some(end), ..Self::default() }
    }
}

/// A session from the hello with the right cookie on.
pub struct DtlsSession {
    stream: SslStream<Link>,
    identity: Identity,
    is_established: bool,
    /// Of the hello that began it.
    random: Vec<u8>,
    /// When it began, when its handshake ended, or when the client sent something last.
    active_at: Instant,
}

impl fmt::Debug for DtlsSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let client = &self.stream.get_ref().client;
        f.debug_struct("DtlsSession").field("client", client).finish_non_exhaustive()
    }
}

impl DtlsSession {
    /// Whether this hello is the one that began the session.
    pub fn began_with(&self, hello: &ClientHello<'_>) -> bool {
        self.random == hello.random
    }

    /// Whether the handshake is over.
    pub fn is_established(&self) -> bool {
        self.is_established
    }

    /// How long ago the session began, its handshake ended or the client sent something, whichever was last.
    pub fn inactive_for(&self) -> Duration {
        self.active_at.elapsed()
    }

    /// Takes a datagram of the client. One that cannot be of this session changes nothing.
    pub fn receive(&mut self, datagram: &[u8]) -> Progress {
        // OpenSSL takes an empty datagram for the end of the session
        if datagram.is_empty() || !records_are_plausible(datagram, self.sealed_octets_min()) {
            return Progress::default();
        }
        self.stream.get_mut().inbox.push_back(datagram.to_vec());
        let progress = self.advance();
        if !progress.datagrams.is_empty() {
            self.active_at = Instant::now();
        }
        progress
    }

    /// Sends again what may have been lost of a handshake. To be called several times a second.
    pub fn resend(&mut self) -> Progress {
        if self.is_established { Progress::default() } else { self.advance() }
    }

    /// Reports to the client that the session ends, once the handshake is over.
    pub fn close(&mut self) {
        if self.is_established {
            let _ = self.stream.shutdown();
        }
    }

    /// Octets of a sealed record at least: what the cipher adds to nothing.
    fn sealed_octets_min(&self) -> usize {
        let cipher = self.stream.ssl().current_cipher().map(openssl::ssl::SslCipherRef::name);
        match cipher {
            // the first sealed record of a handshake is its Finished, which is longer under any cipher
            _ if !self.is_established => 24,
            Some(name) if name.contains("GCM") => 24,
            _ => 16,
        }
    }

    /// Continues with what is in the inbox.
    fn advance(&mut self) -> Progress {
        // errors that another session has left in this thread are not this one's
        drop(ErrorStack::get());
        if !self.is_established {
            match self.stream.accept() {
                Ok(()) if !self.identity.admits(self.stream.ssl()) => {
                    return Progress::ended(SessionEnd::Refused(AcceptError::NameNotAdmitted));
                }
                Ok(()) => self.is_established = true,
                Err(error) if error.code() == ErrorCode::WANT_READ => return Progress::default(),
                Err(error) => {
                    return Progress::ended(SessionEnd::Refused(AcceptError::of(&error, self.stream.ssl())));
                }
            }
            self.active_at = Instant::now();
        }
        self.read()
    }

    /// Reads records, each of which is a datagram of the client.
    fn read(&mut self) -> Progress {
        let (mut progress, mut buffer) = (Progress::default(), vec![0; RECORD_OCTETS]);
        loop {
            match self.stream.ssl_read(&mut buffer) {
                Ok(octets) => progress.datagrams.push(buffer.get(..octets).unwrap_or_default().to_vec()),
                Err(error) if error.code() == ErrorCode::WANT_READ => return progress,
                Err(error) if error.code() == ErrorCode::ZERO_RETURN => {
                    self.close();
                    progress.end = Some(SessionEnd::Closed);
                    return progress;
                }
                Err(_) => {
                    progress.end = Some(SessionEnd::Broken);
                    return progress;
                }
            }
        }
    }
}

/// Whether a datagram consists of records that may be of the session. Any sender can forge others under its address,
/// and OpenSSL (3.0) ends the session over a sealed record that is too short to be opened.
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

/// The network as OpenSSL sees it: datagrams that have come, and a socket to answer by.
struct Link {
    socket: Arc<UdpSocket>,
    client: SocketAddr,
    inbox: VecDeque<Vec<u8>>,
    /// While the first hello is answered, whose answer the client has had from us already.
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
            let _ = self.socket.send_to(buffer, self.client);
        }
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
