//! Sessions of TCP, TLS, SCTP and DTLS: listeners, a thread for each connection, and one decoder for all of them.
//!
//! ```text
//! accept ─▶ connection ─▶ [reads] ─▶ decode ─▶ [deliveries]
//!           waits         DTLS drops waits
//!           when full     when full  when full
//! ```
//!
//! A connection that waits stops reading, the kernel's window closes, and the exporter slows down: that is what
//! connections are for (RFC 7011 section 10.4.2.1). Plain UDP is not touched by it, its sockets have decoders of their
//! own.
//!
//! A thread for each connection keeps handshakes, slow senders and broken ones apart without any code for it, and
//! exporters are counted in hundreds. What speaks against it: a connection costs a stack, and ten thousand of them
//! would need another design.

mod connection;
mod decode;
mod descriptors;
mod dtls;
mod framing;
mod reasons;
mod sessions;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use weir_secure::TlsServer;

pub use descriptors::Descriptors;
pub use framing::{Framing, FramingError, messages};
pub use sessions::SessionLimits;

pub(crate) use decode::decode;
pub(crate) use dtls::DtlsListener;
pub(crate) use reasons::{Reason, Tally};
pub(crate) use sessions::{Open, Sessions, UnderWay};

use crate::{Listener, Session, Transport};

/// What has been read of a session, on its way to the decoder.
#[derive(Debug)]
pub(crate) enum Read {
    /// Whole messages, one after the other.
    Messages { session: Session, received_ms: i64, octets: Vec<u8> },
    /// One datagram.
    Datagram { session: Session, received_ms: i64, octets: Vec<u8> },
    /// There will be no more.
    End(Session),
}

/// How often threads look whether they should stop.
pub(crate) const STOP_INTERVAL: Duration = Duration::from_millis(250);
/// Connections that the kernel completes before they are accepted.
const BACKLOG: i32 = 1024;
/// Stack of a connection's thread. OpenSSL checks chains on it.
const STACK_OCTETS: usize = 512 << 10;
/// Silence after which the kernel asks whether the exporter is still there.
const KEEPALIVE: Duration = Duration::from_mins(1);
/// Pause after the system had no resources for another connection.
const NO_RESOURCES_PAUSE: Duration = Duration::from_millis(50);

/// A socket that connections come to.
#[derive(Debug)]
pub(crate) struct Acceptor {
    socket: Socket,
    transport: Transport,
    /// Its place among the listeners.
    number: usize,
    /// For TLS.
    tls: Option<TlsServer>,
    pub local: SocketAddr,
}

impl Acceptor {
    /// Binds a socket for TCP, TLS or SCTP, for the listener of this number.
    pub(crate) fn bind(listener: Listener, number: usize, tls: Option<TlsServer>) -> io::Result<Self> {
        let protocol =
            if listener.transport == Transport::Sctp { Protocol::from(PROTOCOL_SCTP) } else { Protocol::TCP };
        let socket = Socket::new(Domain::for_address(listener.address), Type::STREAM, Some(protocol))?;
        if listener.address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        // connections of an earlier run that are not quite over must not keep the port
        socket.set_reuse_address(true)?;
        socket.bind(&listener.address.into())?;
        socket.listen(BACKLOG)?;
        // accepting ends after this time as well, to look whether it should stop
        socket.set_read_timeout(Some(STOP_INTERVAL))?;
        let local = socket.local_addr()?.as_socket().unwrap_or(listener.address);
        Ok(Self { socket, transport: listener.transport, number, tls, local })
    }

    /// Accepts connections until it is stopped, and then those that the kernel holds already.
    pub(crate) fn run(&self, sessions: &Arc<Sessions>, queue: &Sender<Read>) {
        let (mut stopping_since, mut is_failing) = (None, false);
        loop {
            match self.socket.accept() {
                Ok((socket, source)) => {
                    is_failing = false;
                    if let Some(source) = source.as_socket() {
                        self.accepted(TcpStream::from(socket), source, sessions, queue);
                    }
                }
                Err(error) if is_timeout(&error) => {
                    is_failing = false;
                    if sessions.is_stopping() {
                        return;
                    }
                }
                // the peer has gone again
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    if !std::mem::replace(&mut is_failing, true) {
                        sessions.tally.count_failed_accept(&self.local, &error);
                    }
                    thread::sleep(NO_RESOURCES_PAUSE);
                }
            }
            if sessions.is_stopping() && stopping_since.get_or_insert_with(Instant::now).elapsed() > DRAIN_MAX {
                return;
            }
        }
    }

    fn accepted(&self, stream: TcpStream, source: SocketAddr, sessions: &Arc<Sessions>, queue: &Sender<Read>) {
        let source = SocketAddr::new(source.ip().to_canonical(), source.port());
        if !sessions.descriptors.leave_half(&stream) {
            return sessions.tally.count_peer(Reason::TooManyFiles, source);
        }
        let Some(open) = sessions.begin(Session { transport: self.transport, source }, self.number) else { return };
        let work = connection::Connection {
            stream,
            open,
            sessions: Arc::clone(sessions),
            queue: queue.clone(),
            tls: self.tls.clone(),
        };
        let thread = thread::Builder::new().name("weir-session".to_owned()).stack_size(STACK_OCTETS);
        // the thread ends with the connection; that all have ended is seen by their ends of the queue
        if thread.spawn(move || work.run()).is_err() {
            sessions.tally.count_peer(Reason::NoResources, source);
        }
    }
}

/// Number of SCTP among the protocols over IP.
const PROTOCOL_SCTP: i32 = 132;
/// Longest time that stopping goes on reading.
pub(crate) const DRAIN_MAX: Duration = Duration::from_secs(5);

/// Whether a read came to nothing only because its time was over.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// What a connection of an exporter is set to.
fn configure(stream: &TcpStream, transport: Transport, write_timeout: Duration) -> io::Result<()> {
    stream.set_read_timeout(Some(STOP_INTERVAL))?;
    stream.set_write_timeout(Some(write_timeout))?;
    if transport != Transport::Sctp {
        SockRef::from(stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE))?;
    }
    Ok(())
}
