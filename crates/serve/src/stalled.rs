//! Connections whose client takes nothing.
//!
//! A client that sends requests and reads no answer would hold its connection, and what waits to be written, for ever: a write
//! that cannot go on is an error after a while. Any octet that is taken begins the time anew, so that a slow line is no
//! error; a client that takes a few now and then holds its connection all the same, which the places of one address
//! ([`Places`](crate::places::Places)) are for.
//!
//! What is taken is seen only when the system reports that it can buffer more. By itself it does that when a third of its buffer
//! is free, which grows to 4 MiB for a connection that was fast once: a client that reads 30 kB a second then looks as if it
//! took nothing for 50 s. So there is a limit of what the system keeps unsent ([`limit_unsent`]). A limit of the whole buffer
//! would serve as well, but it would also bound what is in flight, and with it the rate of long lines.

use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Octets that the system keeps unsent for a connection. It reports that it can buffer more when half of them are sent, which
/// at 3 kB a second takes less than the 30 s that a write may wait.
const UNSENT_OCTETS_MAX: u32 = 128 << 10;

/// Limits what the system keeps unsent for a TCP connection (`TCP_NOTSENT_LOWAT`), so that a write that waits goes on soon
/// after its client has read something.
pub(crate) fn limit_unsent(stream: &impl AsFd) -> io::Result<()> {
    SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_OCTETS_MAX)
}

/// A stream whose writes fail when nothing could be written for some time.
#[derive(Debug)]
pub(crate) struct WriteTimeout<S> {
    stream: S,
    time_max: Duration,
    /// Runs while something cannot be written.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    pub(crate) fn new(stream: S, time_max: Duration) -> Self {
        Self { stream, time_max, stalled: None }
    }

    /// What came of a write, or an error when none could go on for too long.
    fn watched<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let time_max = self.time_max;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(time_max)));
        stalled.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Whether a connection ended because its client took nothing.
pub(crate) fn is_stalled(error: &hyper::Error) -> bool {
    let source = std::error::Error::source(error);
    source.and_then(|source| source.downcast_ref::<io::Error>()).is_some_and(|io| io.kind() == io::ErrorKind::TimedOut)
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, octets);
        this.watched(written, context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, pieces);
        this.watched(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(context);
        this.watched(flushed, context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let ended = Pin::new(&mut this.stream).poll_shutdown(context);
        this.watched(ended, context)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use futures::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
    }

    #[test]
    fn a_write_that_cannot_go_on_is_an_error() {
        runtime().block_on(async {
            let (_client, server) = duplex(64);
            let mut server = WriteTimeout::new(server, Duration::from_millis(20));
            let error = server.write_all(&[0; 65]).await.expect_err("nobody reads");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }

    /// All of it takes many times as long as one write may.
    #[test]
    fn a_client_that_takes_a_little_now_and_then_gets_all_of_it() {
        runtime().block_on(async {
            let (mut client, server) = duplex(1);
            let mut server = WriteTimeout::new(server, Duration::from_secs(10));
            let write = async {
                server.write_all(&[7; 20]).await.expect("somebody reads");
                drop(server);
            };
            let read = async {
                let mut octets = Vec::new();
                while let Ok(octet) = client.read_u8().await {
                    octets.push(octet);
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                octets
            };
            let ((), octets) = tokio::join!(write, read);
            assert_eq!(octets, [7; 20]);
        });
    }

    /// The time begins anew with each octet that is taken.
    #[test]
    fn what_was_written_before_does_not_count() {
        runtime().block_on(async {
            let (mut client, server) = duplex(1);
            let mut server = WriteTimeout::new(server, Duration::from_hours(1));
            server.write_all(&[1]).await.expect("there is room");
            assert!(server.write_all(&[2]).now_or_never().is_none());
            assert!(server.stalled.is_some(), "it waits");
            assert_eq!(client.read_u8().await.expect("an octet"), 1);
            server.write_all(&[2]).await.expect("there is room again");
            assert!(server.stalled.is_none(), "and does not any more");
        });
    }

    /// It keeps 3.9 MB otherwise.
    #[test]
    fn the_system_keeps_little_of_what_a_client_does_not_take() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let _client = TcpStream::connect(listener.local_addr().expect("an address")).expect("it listens");
        let (mut server, _) = listener.accept().expect("a connection");
        limit_unsent(&server).expect("it is limited");
        server.set_nonblocking(true).expect("nonblocking");
        let mut octets = 0;
        while let Ok(written) = server.write(&[7; 8 << 10]) {
            octets += written;
        }
        assert!(octets < 1 << 20, "{octets}");
    }
}
