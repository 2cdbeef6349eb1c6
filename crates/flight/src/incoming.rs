//! Connections that come in: within a limit, with TLS where there is a certificate, and not idle for ever.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{Instant, Sleep, timeout};
use tokio_openssl::SslStream;
use tonic::transport::server::Connected;
use weir_secure::TlsServer;

use crate::connection_users::{ConnectionUsers, UsersOfConnection};
use crate::counts::FlightCounts;
use crate::options::FlightOptions;

/// Connections whose handshake is done and that wait to be served.
const WAITING_MAX: usize = 16;

/// A connection, plain or with TLS.
trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Transport for T {}

/// Where a connection comes from, and whether somebody has said over it who they are.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) from: SocketAddr,
    is_known: Arc<AtomicBool>,
    is_refused: Arc<AtomicBool>,
    users: UsersOfConnection,
}

impl Caller {
    fn new(from: SocketAddr, users: &Arc<ConnectionUsers>) -> Self {
        let users = UsersOfConnection::new(Arc::clone(users));
        Self { from, is_known: Arc::default(), is_refused: Arc::default(), users }
    }

    /// Lets a call of a user in, and notes it; false when the user has too many connections, which is counted once.
    /// Where there are no users, calls are of `None`, and only the connections of all are limited.
    pub(crate) fn admit(&self, user: Option<&str>, counts: &FlightCounts) -> bool {
        let is_admitted = user.is_none_or(|name| self.users.admit(name));
        if is_admitted {
            self.is_known.store(true, Ordering::Relaxed);
        } else if !self.is_refused.swap(true, Ordering::Relaxed) {
            counts.connections_refused.add_one();
        }
        is_admitted
    }
}

/// A connection within its limits.
pub(crate) struct Incoming {
    transport: Box<dyn Transport>,
    caller: Caller,
    /// Whether its time is that of connections over which a call was let in.
    is_known: bool,
    idle: Pin<Box<Sleep>>,
    idle_max: Duration,
    counts: Arc<FlightCounts>,
    _place: OwnedSemaphorePermit,
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.counts.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connected for Incoming {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        self.caller.clone()
    }
}

impl Incoming {
    fn extend(&mut self) {
        let next = Instant::now() + self.idle_max;
        self.idle.as_mut().reset(next);
    }

    /// Ends it when its time is over.
    fn poll_time(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.idle.as_mut().poll(context));
        self.counts.connections_idle.add_one();
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Incoming {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.is_known && self.caller.is_known.load(Ordering::Relaxed) {
            self.is_known = true;
            self.extend();
        }
        if !self.is_known {
            // octets without a call, such as answers to pings, do not buy time
            if let Poll::Ready(over) = self.poll_time(context) {
                return Poll::Ready(over);
            }
            return Pin::new(&mut self.transport).poll_read(context, buffer);
        }
        if let Poll::Ready(read) = Pin::new(&mut self.transport).poll_read(context, buffer) {
            self.extend();
            return Poll::Ready(read);
        }
        self.poll_time(context)
    }
}

impl AsyncWrite for Incoming {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.transport).poll_write(context, octets)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_shutdown(context)
    }
}

/// Accepts connections until the service ends.
pub(crate) fn accept(
    listener: TcpListener,
    options: &FlightOptions,
    tls: Option<TlsServer>,
    counts: Arc<FlightCounts>,
    mut ending: watch::Receiver<bool>,
) -> mpsc::Receiver<Incoming> {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let places = Arc::new(Semaphore::new(options.connections_max));
    let users = Arc::new(ConnectionUsers::new(options.per_user_max));
    let (login_max, idle_max) = (options.login_timeout.duration(), options.idle_timeout.duration());
    tokio::spawn(async move {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = ending.wait_for(|ending| *ending) => return,
            };
            let Ok((stream, from)) = accepted else {
                // no file is left: some are closed soon
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            counts.connections.add_one();
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                counts.connections_refused.add_one();
                continue;
            };
            counts.open.fetch_add(1, Ordering::Relaxed);
            let (tls, counts, sender) = (tls.clone(), Arc::clone(&counts), sender.clone());
            let users = Arc::clone(&users);
            tokio::spawn(async move {
                // answers are written at once
                let _ = stream.set_nodelay(true);
                let transport = match tls {
                    None => Some(Box::new(stream) as Box<dyn Transport>),
                    Some(tls) => timeout(login_max, secured(&tls, stream)).await.ok().flatten(),
                };
                let Some(transport) = transport else {
                    counts.handshakes_failed.add_one();
                    counts.open.fetch_sub(1, Ordering::Relaxed);
                    return;
                };
                // the first call that is let in must come soon
                let idle = Box::pin(tokio::time::sleep(login_max));
                let caller = Caller::new(from, &users);
                let incoming = Incoming { transport, caller, is_known: false, idle, idle_max, counts, _place: place };
                // when the service ends, nobody takes it
                let _ = sender.send(incoming).await;
            });
        }
    });
    receiver
}

async fn secured(tls: &TlsServer, stream: TcpStream) -> Option<Box<dyn Transport>> {
    let mut session = SslStream::new(tls.session().ok()?, stream).ok()?;
    Pin::new(&mut session).accept().await.ok()?;
    Some(Box::new(session))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::runtime::Builder;

    use super::*;

    /// A connection whose client sends without end, and whose first call must come within a millisecond.
    fn incoming() -> Incoming {
        let (mut client, transport) = duplex(64);
        tokio::spawn(async move { while client.write_all(&[0; 64]).await.is_ok() {} });
        let places = Arc::new(Semaphore::new(1));
        Incoming {
            transport: Box::new(transport),
            caller: Caller::new(([127, 0, 0, 1], 1).into(), &Arc::new(ConnectionUsers::new(1))),
            is_known: false,
            idle: Box::pin(tokio::time::sleep(Duration::from_millis(1))),
            idle_max: Duration::from_mins(10),
            counts: Arc::default(),
            _place: places.try_acquire_owned().expect("a place"),
        }
    }

    #[test]
    fn a_client_that_sends_and_does_not_call_is_given_up() {
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let mut unknown = incoming();
            let mut octets = [0; 64];
            let error = loop {
                if let Err(error) = unknown.read(&mut octets).await {
                    break error;
                }
            };
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert_eq!(unknown.counts.connections_idle.get(), 1);
            let mut known = incoming();
            assert!(known.caller.admit(Some("ann"), &known.counts));
            // its first time is over
            tokio::time::sleep(Duration::from_millis(2)).await;
            for _ in 0..100 {
                assert!(known.read(&mut octets).await.expect("octets") > 0);
            }
            assert_eq!(known.counts.connections_idle.get(), 0);
        });
    }

    #[test]
    fn a_call_over_one_connection_too_many_is_refused() {
        let users = Arc::new(ConnectionUsers::new(1));
        let (from, counts) = (([127, 0, 0, 1], 1).into(), FlightCounts::default());
        let (first, second) = (Caller::new(from, &users), Caller::new(from, &users));
        assert!(first.admit(Some("ann"), &counts) && first.is_known.load(Ordering::Relaxed));
        assert!(!second.admit(Some("ann"), &counts) && !second.admit(Some("ann"), &counts));
        assert!(!second.is_known.load(Ordering::Relaxed), "it has the time of a login, and no more");
        assert_eq!(counts.connections_refused.get(), 1);
        drop(first);
        assert!(second.admit(Some("ann"), &counts));
    }

    #[test]
    fn whoever_is_on_this_machine_has_all_connections_where_there_are_no_users() {
        let users = Arc::new(ConnectionUsers::new(1));
        let (from, counts) = (([127, 0, 0, 1], 1).into(), FlightCounts::default());
        let (first, second) = (Caller::new(from, &users), Caller::new(from, &users));
        assert!(first.admit(None, &counts) && second.admit(None, &counts));
        assert!(second.is_known.load(Ordering::Relaxed));
        assert_eq!(counts.connections_refused.get(), 0);
    }
}
