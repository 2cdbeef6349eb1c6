//! Connections, and the life of the service.
//!
//! Connections are accepted by hand rather than by axum, because a client that sends half a head or takes no answer must not hold
//! one for ever, and because there is a limit to them. What is over it is closed at once: waiting would let whoever holds the
//! others decide.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinSet;
use weir_archive::ArchiveError;
use weir_chain::OptionError;
use weir_collect::Descriptors;
use weir_flight::{FlightError, FlightServer};
use weir_flow::scaling::{Corrections, CorrectionsFileError};
use weir_postgres::{PostgresError, PostgresServer};
use weir_secure::{TlsError, TlsServer};
use weir_sql::{EngineError, Enrichment, QuestionService};

use crate::archive::AskedArchive;
use crate::audit::{AuditLog, AuditOptions};
use crate::exposure::{Unprotected, check};
use crate::live::{LiveHistory, LiveSample, LiveThread};
use crate::peer::Peer;
use crate::places::Places;
use crate::service::{Listening, Parts, Service, ServiceOptions};
use crate::stalled::{WriteTimeout, is_stalled, limit_unsent};
use crate::status::Status;
use crate::tls::Accepted;
use crate::version_keeper::KEEPING_MAX;
use crate::wire_certificates::WireCertificates;
use crate::wire_counts::WireCounts;
use crate::wires::Wires;
use crate::{api, peer, tls};

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
    #[error(transparent)]
    Unprotected(#[from] Unprotected),
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
    /// An option is wrong.
    #[error("{}", with_hint(.0))]
    Option(OptionError),
    /// The certificate of the service cannot be used.
    #[error("cannot use the certificate of the service")]
    Certificate(#[from] TlsError),
    /// The audit cannot be written.
    #[error("cannot write the audit {}", file.display())]
    Audit {
        /// Its file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The folder of watch files cannot be read.
    #[error(
        "cannot read the watch files in {}: {reason}\nhint: name another folder, or make this one; it may be empty",
        folder.display()
    )]
    Watches {
        /// The folder.
        folder: PathBuf,
        /// Why; the remedy is behind it, so it is no source.
        reason: std::io::Error,
    },
    /// Files about addresses cannot be read.
    #[error("cannot read what is known about addresses")]
    Enrichment(#[source] EngineError),
    /// The file of sampling intervals cannot be read.
    #[error("cannot use the corrections of sampling intervals")]
    Corrections(#[from] CorrectionsFileError),
    /// Threads cannot be started.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    /// The wire of Postgres cannot be spoken.
    #[error(transparent)]
    Postgres(#[from] PostgresError),
    /// Flight SQL cannot be spoken.
    #[error(transparent)]
    Flight(#[from] FlightError),
}

fn with_hint(error: &OptionError) -> String {
    let hint = error.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    format!("{}{hint}", error.message)
}

/// A service that listens and does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    listening: Listening,
    enrichment: Arc<Enrichment>,
    corrections: Arc<Corrections>,
    options: ServiceOptions,
    postgres: Option<PostgresServer>,
    flight: Option<FlightServer>,
}

/// What a service has before it listens.
struct Prepared {
    tls: Option<TlsServer>,
    proxies: Vec<IpAddr>,
    enrichment: Arc<Enrichment>,
    corrections: Arc<Corrections>,
}

impl Prepared {
    fn of(address: SocketAddr, options: &ServiceOptions) -> Result<Self, ServeError> {
        check(address, &options.users)?;
        let tls = tls::options(&options.http).map_err(ServeError::Option)?;
        let tls = tls.map(|files| TlsServer::new(&files)).transpose()?;
        let proxies = peer::proxies(&options.http.proxies).map_err(ServeError::Option)?;
        let enrichment =
            Enrichment::load(&options.enrichment.with_versions_of(&options.archive)).map_err(ServeError::Enrichment)?;
        let corrections = Arc::new(options.questions.corrections()?);
        if let Some(folder) = &options.watches {
            // a folder whose name is misspelt would look as if there were no watches
            std::fs::read_dir(folder).map_err(|reason| ServeError::Watches { folder: folder.clone(), reason })?;
        }
        AuditLog::could_open(&options.audit).map_err(|source| cannot_audit(&options.audit, source))?;
        Ok(Self { tls, proxies, enrichment: Arc::new(enrichment), corrections })
    }
}

fn cannot_audit(options: &AuditOptions, source: std::io::Error) -> ServeError {
    ServeError::Audit { file: options.file.clone().unwrap_or_default(), source }
}

impl Server {
    /// Listens. Refuses an address that others than this machine reach when there are no users.
    pub fn bind(options: ServiceOptions) -> Result<Self, ServeError> {
        Self::on(None, options)
    }

    /// Finds out whether it could begin, without listening and without writing anything: exposure, certificates, proxies, the
    /// audit, files about addresses and of sampling intervals, the folder of watches. Where nobody `makes_archive`, it must be
    /// there.
    pub fn check(options: &ServiceOptions, makes_archive: bool) -> Result<(), ServeError> {
        Prepared::of(options.http.listen, options)?;
        let has_users = !options.users.is_empty();
        PostgresServer::check(&options.postgres, has_users)?;
        FlightServer::check(&options.flight, has_users)?;
        if !makes_archive {
            AskedArchive::open(&options.archive, &options.questions)?;
        }
        Ok(())
    }

    /// The same as [`bind`](Self::bind) on a socket that somebody else opened, which the option `listen` then does not.
    pub fn on(inherited: Option<TcpListener>, options: ServiceOptions) -> Result<Self, ServeError> {
        let own = inherited.as_ref().and_then(|listener| listener.local_addr().ok());
        let address = own.unwrap_or(options.http.listen);
        let Prepared { tls, proxies, enrichment, corrections } = Prepared::of(address, &options)?;
        let audit =
            Arc::new(AuditLog::open(options.audit.clone()).map_err(|source| cannot_audit(&options.audit, source))?);
        let listen = || {
            let listener = inherited.map_or_else(|| TcpListener::bind(address), Ok)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = listen().map_err(|source| ServeError::Listen { address, source })?;
        let has_users = !options.users.is_empty();
        let postgres = PostgresServer::bind(&options.postgres, has_users)?;
        let flight = FlightServer::bind(&options.flight, has_users)?;
        let wire_certificates = WireCertificates::of(postgres.as_ref(), flight.as_ref());
        let listening = Listening { address, audit, tls, wire_certificates, proxies };
        Ok(Self { listener, listening, enrichment, corrections, options, postgres, flight })
    }

    /// Where clients of Postgres and of Flight SQL are listened for.
    pub fn wires(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        (self.postgres.as_ref().map(PostgresServer::address), self.flight.as_ref().map(FlightServer::address))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listening.address
    }

    /// Opens the archive, which must be there, and answers from now on.
    pub fn start(self, status: Arc<Status>) -> Result<RunningServer, ServeError> {
        let archive = Arc::new(AskedArchive::open(&self.options.archive, &self.options.questions)?);
        archive.set_enrichment(Arc::clone(&self.enrichment));
        archive.set_corrections(self.corrections);
        let (samples, live) = watch::channel(LiveSample::default());
        let live_history = Arc::<LiveHistory>::default();
        let live_thread =
            LiveThread::start(Arc::clone(&archive), Arc::clone(&status), samples, Arc::clone(&live_history));
        let live_thread = live_thread.map_err(ServeError::Thread)?;
        let (ending, is_ending) = watch::channel(false);
        let wires = WireCounts {
            postgres: self.postgres.as_ref().map(PostgresServer::counts),
            flight: self.flight.as_ref().map(FlightServer::counts),
        };
        let parts = Parts { archive, status, live, live_history, wires, ending: is_ending.clone() };
        let address = self.listening.address;
        let service = Arc::new(Service::new(parts, self.listening, self.options));
        // a version of now is worth a moment: the file may change any time
        service.reloads.versions.begin(self.enrichment);
        service.reloads.versions.wait(KEEPING_MAX);
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
        let listener = listener.map_err(|source| ServeError::Listen { address, source })?;
        let wires: Arc<dyn QuestionService> = Arc::new(Wires(Arc::clone(&service)));
        if let Some(postgres) = self.postgres {
            runtime.spawn(logged("postgres", postgres.run(Arc::clone(&wires), is_ending.clone())));
        }
        if let Some(flight) = self.flight {
            runtime.spawn(logged("flight", flight.run(wires, is_ending.clone())));
        }
        runtime.spawn(accept(listener, Arc::clone(&service), is_ending));
        Ok(RunningServer { runtime, service, ending, live_thread, address })
    }
}

/// Says in the log why a protocol is not spoken any more.
async fn logged<E: std::error::Error>(protocol: &str, run: impl Future<Output = Result<(), E>>) {
    if let Err(error) = run.await {
        tracing::error!("{protocol} is not spoken any more: {error}");
    }
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

    /// Where a browser finds it.
    pub fn url(&self) -> String {
        let scheme = if self.service.listening.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}/", self.address)
    }

    /// What reads the configuration again, or leaves all as it was and logs why; it says whether all of it could be used. `by`
    /// is what the audit has.
    pub fn reloader(&self, by: &'static str) -> impl Fn() -> bool + Send + Sync + use<> {
        let service = Arc::clone(&self.service);
        // whatever is wrong was logged
        move || service.reload(by).is_ok()
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
    let http = &service.options.http;
    let proxies = &service.listening.proxies;
    let places = Arc::new(Places::new(http.connections_max, http.connections_per_address_max, proxies));
    let descriptors = Descriptors::of_process();
    let router = api::router(&service);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            _ = ending.wait_for(|ending| *ending) => break,
        };
        let Ok((stream, peer)) = accepted else {
            // no file is left: some are closed soon
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        service.http.count_connection();
        // the archive must be able to open files as well
        let place = descriptors.leave_quarter(&stream).then(|| places.take(peer.ip())).flatten();
        let Some(place) = place else {
            service.http.count_refused();
            continue;
        };
        let connection = Connection { router: router.clone(), peer: Peer(peer.ip()), ending: ending.clone() };
        let service = Arc::clone(&service);
        connections.spawn(async move {
            service.http.connection_begins();
            connection.serve(stream, &service).await;
            service.http.connection_ends();
            drop(place);
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// A connection that was accepted.
struct Connection {
    router: Router,
    peer: Peer,
    ending: watch::Receiver<bool>,
}

impl Connection {
    /// Does the handshake where there is one, and answers requests.
    async fn serve(self, stream: TcpStream, service: &Service) {
        // answers are written at once
        let _ = stream.set_nodelay(true);
        let _ = limit_unsent(&stream);
        let header_timeout = service.options.http.header_timeout.duration();
        let Some(server) = &service.listening.tls else { return self.answer(stream, service).await };
        match tokio::time::timeout(header_timeout, tls::accept(server, stream)).await {
            Ok(Some(Accepted::Session(session))) => self.answer(session, service).await,
            Ok(Some(Accepted::Plain(mut stream))) => {
                service.http.count_handshake_failure();
                let _ = tokio::time::timeout(header_timeout, stream.write_all(tls::PLAIN_ANSWER)).await;
            }
            Ok(None) | Err(_) => service.http.count_handshake_failure(),
        }
    }

    /// Answers the requests of a connection, one after the other.
    async fn answer<S: AsyncRead + AsyncWrite + Unpin>(self, stream: S, service: &Service) {
        let Self { router, peer, mut ending } = self;
        let http = &service.options.http;
        let stream = WriteTimeout::new(stream, http.write_timeout.duration());
        let routed = TowerToHyperService::new(router);
        let answer = service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(peer);
            routed.call(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(http.header_timeout.duration())
            .max_buf_size(BUFFER_OCTETS)
            .serve_connection(TokioIo::new(stream), answer);
        tokio::pin!(connection);
        // what goes wrong on a connection is its client's to notice
        let ended: Option<Result<(), hyper::Error>> = tokio::select! {
            ended = connection.as_mut() => Some(ended),
            _ = ending.wait_for(|ending| *ending) => None,
        };
        match ended {
            Some(Err(error)) if is_stalled(&error) => service.http.count_stalled(),
            Some(_) => {}
            None => {
                connection.as_mut().graceful_shutdown();
                let _ = tokio::time::timeout(ENDING_MAX, connection).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::User;

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
