//! Connections that come in: within a limit, with TLS where there is a certificate, and not idle for ever.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{Instant, Sleep, timeout};
use tokio_openssl::SslStream;
use tonic::transport::server::Connected;
use weir_secure::TlsServer;

use crate::counts::FlightCounts;
use crate::options::FlightOptions;

/// Connections whose handshake is done and that wait to be served.
const WAITING_MAX: usize = 16;

/// A connection, plain or with TLS.
trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Transport for T {}

/// A connection within its limits.
pub(crate) struct Incoming {
    transport: Box<dyn Transport>,
    from: SocketAddr,
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
    type ConnectInfo = SocketAddr;

    fn connect_info(&self) -> SocketAddr {
        self.from
    }
}

impl AsyncRead for Incoming {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(read) = Pin::new(&mut self.transport).poll_read(context, buffer) {
            let next = Instant::now() + self.idle_max;
            self.idle.as_mut().reset(next);
            return Poll::Ready(read);
        }
        ready!(self.idle.as_mut().poll(context));
        self.counts.connections_idle.add_one();
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
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
                // the first octets must come soon
                let idle = Box::pin(tokio::time::sleep(login_max));
                // when the service ends, nobody takes it
                let _ = sender.send(Incoming { transport, from, idle, idle_max, counts, _place: place }).await;
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
