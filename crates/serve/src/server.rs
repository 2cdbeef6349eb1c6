//! Connections, and the life of the service.
//!
//! Connections are accepted by hand rather than by axum, because a client that sends half a head must not hold one for ever,
//! and because there is a limit to them. What is over it is closed at once: waiting would let whoever holds the others
//! decide.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use weir_archive::ArchiveError;

use crate::access::User;
use crate::api;
use crate::archive::AskedArchive;
use crate::live::{LiveSample, LiveThread};
use crate::service::{Service, ServiceOptions};
use crate::status::Status;

/// Threads of connections; questions have their own.
const THREADS: usize = 2;
/// Octets of a head and of what is read ahead of a body.
const BUFFER_OCTETS: usize = 64 << 10;
/// How long answers that are on their way may take when the service ends.
const ENDING_MAX: Duration = Duration::from_secs(2);

/// Why the service cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// It would be open to the network without users.
    #[error(
        "{0} is not an address of this machine only, and there are no users\nhint: add [[users]] to the configuration, or \
         listen on 127.0.0.1"
    )]
    Unprotected(SocketAddr),
    /// The address cannot be had.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The archive cannot be opened.
    #[error("cannot open the archive")]
    Archive(#[from] ArchiveError),
    /// Threads cannot be started.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
}

/// A service that listens and does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    options: ServiceOptions,
}

impl Server {
    /// Listens. Refuses an address that others than this machine reach when there are no users.
    pub fn bind(options: ServiceOptions) -> Result<Self, ServeError> {
        let address = options.http.listen;
        check(address, &options.users)?;
        let listen = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = listen().map_err(|source| ServeError::Listen { address, source })?;
        Ok(Self { listener, address, options })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Opens the archive, which must be there, and answers from now on.
    pub fn start(self, status: Arc<Status>) -> Result<RunningServer, ServeError> {
        let archive = Arc::new(AskedArchive::open(&self.options.archive, &self.options.questions)?);
        let (samples, live) = watch::channel(LiveSample::default());
        let live_thread = LiveThread::start(Arc::clone(&archive), Arc::clone(&status), samples);
        let live_thread = live_thread.map_err(ServeError::Thread)?;
        let (ending, is_ending) = watch::channel(false);
        let service = Arc::new(Service::new(self.options, archive, status, live, is_ending.clone()));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("weir-http")
            .enable_all()
            .build()
            .map_err(ServeError::Thread)?;
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(self.listener)
        };
        let address = self.address;
        let listener = listener.map_err(|source| ServeError::Listen { address, source })?;
        runtime.spawn(accept(listener, Arc::clone(&service), is_ending));
        Ok(RunningServer { runtime, service, ending, live_thread, address })
    }
}

fn check(address: SocketAddr, users: &[User]) -> Result<(), ServeError> {
    if users.is_empty() && !address.ip().is_loopback() {
        return Err(ServeError::Unprotected(address));
    }
    Ok(())
}

/// A service that answers.
#[derive(Debug)]
pub struct RunningServer {
    runtime: Runtime,
    service: Arc<Service>,
    ending: watch::Sender<bool>,
    live_thread: LiveThread,
    address: SocketAddr,
}

impl RunningServer {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends: no connection is accepted any more, and answers that are on their way get a moment; then questions are
    /// cancelled.
    pub fn end(mut self) {
        self.ending.send_replace(true);
        self.service.questions.end(ENDING_MAX);
        self.live_thread.end();
        self.runtime.shutdown_timeout(ENDING_MAX);
    }
}

/// Accepts connections until the service ends.
async fn accept(listener: tokio::net::TcpListener, service: Arc<Service>, mut ending: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(service.options.http.connections_max));
    let router = api::router(&service);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            _ = ending.wait_for(|ending| *ending) => break,
        };
        let Ok((stream, _)) = accepted else {
            // no file is left: some are closed soon
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        service.http.count_connection();
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            service.http.count_refused();
            continue;
        };
        let (router, ending) = (router.clone(), ending.clone());
        let header_timeout = service.options.http.header_timeout.duration();
        let http = Arc::clone(&service);
        connections.spawn(async move {
            http.http.connection_begins();
            serve(stream, router, header_timeout, ending).await;
            http.http.connection_ends();
            drop(place);
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Answers the requests of a connection, one after the other.
async fn serve(stream: TcpStream, router: Router, header_timeout: Duration, mut ending: watch::Receiver<bool>) {
    // answers are written at once
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .max_buf_size(BUFFER_OCTETS)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    // what goes wrong on a connection is its client's to notice
    let ended: Option<Result<(), hyper::Error>> = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        _ = ending.wait_for(|ending| *ending) => None,
    };
    if ended.is_none() {
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(ENDING_MAX, connection).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_not_open_to_the_network_without_users() {
        for (address, is_fine) in [
            ("127.0.0.1:0", true),
            ("[::1]:0", true),
            ("0.0.0.0:0", false),
            ("[::]:0", false),
            ("192.0.2.1:2080", false),
        ] {
            assert_eq!(check(address.parse().expect("an address"), &[]).is_ok(), is_fine, "{address}");
        }
        let hash = crate::hash_password("secret").expect("a hash");
        let user = User::new("ann", crate::Role::Admin, Some(hash), Vec::new()).expect("a user");
        assert!(check("0.0.0.0:0".parse().expect("an address"), &[user]).is_ok());
    }
}
