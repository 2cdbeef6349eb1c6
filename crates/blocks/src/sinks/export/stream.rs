//! A connection to a collector: TCP, TLS over it, or SCTP.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use weir_collect::Transport;
use weir_flow::with_causes;
use weir_secure::{ConnectError, TlsClient, TlsStream};

use super::target::Target;

/// Longest time for a connection to come about, and as long again for each step of the handshake of TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a wait for a connection checks whether it should go on.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Number of SCTP among the protocols over IP.
const PROTOCOL_SCTP: i32 = 132;

/// How connections are made.
#[derive(Debug, Clone)]
pub(super) struct Dialling {
    pub target: Target,
    pub from: Option<IpAddr>,
    /// For TLS, with the name that the certificate must have.
    pub tls: Option<(TlsClient, String)>,
    /// How long what was written may go without acknowledgement, and a write without progress.
    pub stall_timeout: Duration,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("{0}")]
    Address(String),
    #[error("this kernel has no SCTP")]
    NoSctp,
    #[error("{address}: {source}")]
    Connect { address: SocketAddr, source: io::Error },
    #[error("the connection cannot be set up: {0}")]
    Setup(io::Error),
    #[error("{}", with_causes(.0))]
    Tls(#[from] ConnectError),
}

impl Dialling {
    /// Connects to the first address of the collector that answers. Its name is looked up each time.
    pub(super) fn connect(&self) -> Result<Stream, DialError> {
        let addresses = self.target.addresses(self.from).map_err(|error| DialError::Address(error.chain()))?;
        let mut outcome = Err(DialError::Address(format!("'{}' has no address", self.target.host)));
        for address in addresses {
            outcome = self.connect_to(address);
            if outcome.is_ok() {
                break;
            }
        }
        let stream = outcome?;
        let carrier = match &self.tls {
            None => Carrier::Plain(stream),
            Some((tls, name)) => Carrier::Tls(Box::new(tls.connect(name, stream)?)),
        };
        carrier.socket().set_write_timeout(Some(LOOK_INTERVAL)).map_err(DialError::Setup)?;
        carrier.socket().set_read_timeout(Some(LOOK_INTERVAL)).map_err(DialError::Setup)?;
        Ok(Stream { carrier, stall_timeout: self.stall_timeout, looked: Instant::now() })
    }

    fn connect_to(&self, address: SocketAddr) -> Result<TcpStream, DialError> {
        let is_sctp = self.target.transport == Transport::Sctp;
        let protocol = if is_sctp { Protocol::from(PROTOCOL_SCTP) } else { Protocol::TCP };
        let connect = || {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(protocol))?;
            if let Some(from) = self.from {
                socket.bind(&SocketAddr::new(from, 0).into())?;
            }
            socket.connect_timeout(&address.into(), CONNECT_TIMEOUT)?;
            // of the handshake
            socket.set_read_timeout(Some(CONNECT_TIMEOUT))?;
            socket.set_write_timeout(Some(CONNECT_TIMEOUT))?;
            if !is_sctp {
                let stall = self.stall_timeout;
                // what is not acknowledged for so long ends the connection, be it that nobody is there any more or that
                // the collector does not read
                SockRef::from(&socket).set_tcp_user_timeout(Some(stall))?;
                socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(stall).with_interval(stall))?;
                // messages are written whole
                socket.set_tcp_nodelay(true)?;
            }
            Ok(TcpStream::from(socket))
        };
        connect().map_err(|source: io::Error| match source.raw_os_error().map(nix::errno::Errno::from_raw) {
            Some(nix::errno::Errno::EPROTONOSUPPORT | nix::errno::Errno::ESOCKTNOSUPPORT) if is_sctp => {
                DialError::NoSctp
            }
            _ => DialError::Connect { address, source },
        })
    }
}

#[derive(Debug)]
enum Carrier {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Carrier {
    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref(),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }

    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(octets),
            Self::Tls(stream) => stream.write(octets),
        }
    }
}

/// A connection that is made.
#[derive(Debug)]
pub(super) struct Stream {
    carrier: Carrier,
    stall_timeout: Duration,
    looked: Instant,
}

impl Stream {
    /// Writes a whole message, or fails: when the connection does, when the collector takes nothing for the stall
    /// timeout, or when `is_over` says that there is no more time.
    pub(super) fn write(&mut self, octets: &[u8], is_over: &impl Fn() -> bool) -> io::Result<()> {
        if self.looked.elapsed() >= LOOK_INTERVAL {
            self.look()?;
        }
        let (mut left, mut progress) = (octets, Instant::now());
        while !left.is_empty() {
            match self.carrier.write(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    left = &left[written..];
                    progress = Instant::now();
                }
                Err(error) if is_timeout(&error) => {
                    if progress.elapsed() > self.stall_timeout {
                        return Err(io::Error::new(io::ErrorKind::TimedOut, "the collector takes nothing"));
                    }
                    if is_over() {
                        return Err(io::Error::new(io::ErrorKind::TimedOut, "no time is left"));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sees whether the collector has gone. It sends nothing; what it sends all the same is left out.
    pub(super) fn look(&mut self) -> io::Result<()> {
        self.looked = Instant::now();
        self.carrier.socket().set_nonblocking(true)?;
        let read = self.carrier.read(&mut [0; 256]);
        self.carrier.socket().set_nonblocking(false)?;
        match read {
            Ok(0) => Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the collector closed the connection")),
            Err(error) if !is_timeout(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Says that nothing more will come, and waits until the collector has closed as well: it has read everything then.
    pub(super) fn close(mut self, is_over: &impl Fn() -> bool) -> io::Result<()> {
        let unclosed = || io::Error::new(io::ErrorKind::TimedOut, "the collector does not close");
        if let Carrier::Tls(stream) = &mut self.carrier {
            while let Err(error) = stream.close() {
                if !is_timeout(&error) {
                    return Err(error);
                }
                if is_over() {
                    return Err(unclosed());
                }
            }
        }
        let mut socket = self.carrier.socket();
        socket.shutdown(Shutdown::Write)?;
        // under TLS too, since many end without saying so in it
        loop {
            match socket.read(&mut [0; 256]) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
            if is_over() {
                return Err(unclosed());
            }
        }
    }
}

/// Whether something came to nothing only because its turn was over. `TimedOut` is another thing: the system has given the
/// connection up.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
