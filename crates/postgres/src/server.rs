//! The server: connections within limits.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use weir_secure::{ClientAuth, ReadIdentity, TlsError, TlsServer, TlsServerOptions};
use weir_sql::QuestionService;

use crate::connection::Connection;
use crate::counts::PostgresCounts;
use crate::errors::{PgError, TOO_MANY_CONNECTIONS};
use crate::options::PostgresOptions;
use crate::session::Session;
use crate::shared::{Shared, UserPlace};
use crate::startup::{LoggedIn, StartupResult, begin};

/// How long answers that are on their way may take when the service ends.
const ENDING_MAX: Duration = Duration::from_secs(2);

/// Why the wire of Postgres cannot be spoken.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    /// It would be open to the network without users.
    #[error(
        "{0} is not an address of this machine only, and there are no users\nhint: add [[users]] with 'scram' to the \
         configuration, or listen for clients of Postgres on 127.0.0.1"
    )]
    NoUsers(SocketAddr),
    /// It would be open to the network without TLS.
    #[error(
        "{0} is not an address of this machine only, and there is no certificate\nhint: add 'certificate' and 'key' to \
         [postgres], or listen for clients of Postgres on 127.0.0.1"
    )]
    NoCertificate(SocketAddr),
    /// A certificate has no key, or the other way round.
    #[error("[postgres] has {0}\nhint: 'certificate' and 'key' go together")]
    HalfIdentity(&'static str),
    /// The certificate cannot be used.
    #[error("the certificate of [postgres] cannot be used")]
    Tls(#[from] TlsError),
    /// The address cannot be had.
    #[error("cannot listen for clients of Postgres on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
}

/// A server that listens and does not answer yet.
#[derive(Debug)]
pub struct PostgresServer {
    listener: TcpListener,
    address: SocketAddr,
    options: PostgresOptions,
    tls: Option<TlsServer>,
    counts: Arc<PostgresCounts>,
}

impl PostgresServer {
    /// Listens, when the options say where. Refuses an address that others than this machine reach when there are no users, or no
    /// certificate.
    pub fn bind(options: &PostgresOptions, has_users: bool) -> Result<Option<Self>, PostgresError> {
        let Some((address, tls)) = prepared(options, has_users)? else { return Ok(None) };
        let listen = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = listen().map_err(|source| PostgresError::Listen { address, source })?;
        let counts = Arc::default();
        Ok(Some(Self { listener, address, options: options.clone(), tls, counts }))
    }

    /// Finds out whether [`bind`](Self::bind) would listen, as that does first: exposure and certificate.
    pub fn check(options: &PostgresOptions, has_users: bool) -> Result<(), PostgresError> {
        prepared(options, has_users).map(drop)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its counters.
    pub fn counts(&self) -> Arc<PostgresCounts> {
        Arc::clone(&self.counts)
    }

    /// A function that reads the certificate again, if there is one, for connections that begin once it is put in place.
    pub fn certificate_reloader(
        &self,
    ) -> Option<impl Fn() -> Result<ReadIdentity, PostgresError> + Send + Sync + use<>> {
        let read = self.tls.as_ref()?.certificate_reloader(tls_options(&self.options).ok()??);
        Some(move || Ok(read()?))
    }

    /// Answers until `ending` becomes true. Must be called from a task of tokio.
    pub async fn run(
        self,
        service: Arc<dyn QuestionService>,
        mut ending: watch::Receiver<bool>,
    ) -> Result<(), PostgresError> {
        let address = self.address;
        let listener = tokio::net::TcpListener::from_std(self.listener);
        let listener = listener.map_err(|source| PostgresError::Listen { address, source })?;
        let places = Arc::new(Semaphore::new(self.options.connections_max));
        let shared = Arc::new(Shared::new(self.options, service, self.tls, self.counts));
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
                _ = ending.wait_for(|ending| *ending) => break,
            };
            let Ok((stream, from)) = accepted else {
                // no file is left: some are closed soon
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            shared.counts.connections.add_one();
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                shared.counts.connections_refused.add_one();
                refuse(&stream);
                continue;
            };
            let (shared, ending) = (Arc::clone(&shared), ending.clone());
            connections.spawn(async move {
                shared.counts.open.fetch_add(1, Ordering::Relaxed);
                serve(stream, from, &shared, ending).await;
                shared.counts.open.fetch_sub(1, Ordering::Relaxed);
                drop(place);
            });
        }
        drop(listener);
        let ended = async { while connections.join_next().await.is_some() {} };
        // those that do not end by themselves end with the set
        let _ = tokio::time::timeout(ENDING_MAX, ended).await;
        Ok(())
    }
}

/// Where to listen, when the options say it, and the certificate: an address that others than this machine reach needs users and
/// one.
fn prepared(
    options: &PostgresOptions,
    has_users: bool,
) -> Result<Option<(SocketAddr, Option<TlsServer>)>, PostgresError> {
    let Some(address) = options.listen else { return Ok(None) };
    let tls = tls_options(options)?.map(|options| TlsServer::new(&options)).transpose()?;
    if !address.ip().is_loopback() {
        if !has_users {
            return Err(PostgresError::NoUsers(address));
        }
        if tls.is_none() {
            return Err(PostgresError::NoCertificate(address));
        }
    }
    Ok(Some((address, tls)))
}

fn tls_options(options: &PostgresOptions) -> Result<Option<TlsServerOptions>, PostgresError> {
    match (&options.certificate, &options.key) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(PostgresError::HalfIdentity("a certificate and no key")),
        (None, Some(_)) => Err(PostgresError::HalfIdentity("a key and no certificate")),
        (Some(certificate), Some(key)) => Ok(Some(TlsServerOptions {
            certificate: certificate.clone(),
            key: key.clone(),
            authorities: None,
            revocations: None,
            client_auth: ClientAuth::None,
            peers: Vec::new(),
        })),
    }
}

/// Says that there are too many connections, as far as the buffer of the system takes it: nothing waits for this client.
fn refuse(stream: &TcpStream) {
    let mut replies = crate::replies::Replies::default();
    replies.error(&PgError::fatal(TOO_MANY_CONNECTIONS, "too many connections"));
    // whoever does not read it finds the connection closed
    let _ = stream.try_write(&replies.0);
}

/// Serves a connection from its first octet to its last.
async fn serve(stream: TcpStream, from: SocketAddr, shared: &Arc<Shared>, ending: watch::Receiver<bool>) {
    let StartupResult::Client(client) = begin(stream, from, shared).await else { return };
    let LoggedIn { connection, asker, settings, database } = *client;
    // without users everybody has one name: a program with many connections would shut out the others of this machine
    let place = shared.service.has_users().then(|| UserPlace::of(asker.name(), shared));
    if matches!(place, Some(None)) {
        shared.counts.connections_refused.add_one();
        return too_many(connection, asker.name()).await;
    }
    let Some(key) = shared.cancel.key() else { return };
    let (connection, error) =
        Session::new(connection, asker, settings, database, key, Arc::clone(shared)).run(ending).await;
    connection.end(error).await;
}

async fn too_many(connection: Connection, user: &str) {
    let message = format!("too many connections of '{user}'");
    connection.end(Some(PgError::fatal(TOO_MANY_CONNECTIONS, message))).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_not_open_to_the_network_without_users_and_tls() {
        let options = |listen: &str| PostgresOptions { listen: listen.parse().ok(), ..PostgresOptions::default() };
        assert!(PostgresServer::bind(&PostgresOptions::default(), false).expect("none").is_none());
        assert!(PostgresServer::bind(&options("127.0.0.1:0"), false).expect("it listens").is_some());
        let refused = |users| PostgresServer::bind(&options("0.0.0.0:0"), users).expect_err("open");
        assert!(matches!(refused(false), PostgresError::NoUsers(_)));
        assert!(matches!(refused(true), PostgresError::NoCertificate(_)));
        let half = PostgresOptions { certificate: Some("c.pem".into()), ..options("127.0.0.1:0") };
        assert!(matches!(PostgresServer::bind(&half, true), Err(PostgresError::HalfIdentity(_))));
    }
}
