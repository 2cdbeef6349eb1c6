//! The server: where it listens, and how it ends.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use futures::StreamExt;
use tokio::sync::watch;
use tonic::transport::Server;
use weir_secure::{ClientAuth, ReadIdentity, TlsError, TlsServer, TlsServerOptions};
use weir_sql::QuestionService;

use crate::counts::FlightCounts;
use crate::incoming::accept;
use crate::options::FlightOptions;
use crate::service::FlightSql;

/// Protocol of TLS that clients of gRPC insist on (RFC 7301).
const HTTP2: &[u8] = b"\x02h2";
/// How often a connection is looked at, and how long its client may take to answer.
const KEEPALIVE_INTERVAL: Duration = Duration::from_mins(1);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Octets of headers of a call.
const HEADERS_OCTETS_MAX: u32 = 16 << 10;
/// How long answers that are on their way may take when the service ends.
const ENDING_MAX: Duration = Duration::from_secs(2);

/// Why Flight SQL cannot be spoken.
#[derive(Debug, thiserror::Error)]
pub enum FlightError {
    /// It would be open to the network without users.
    #[error(
        "{0} is not an address of this machine only, and there are no users\nhint: add [[users]] to the configuration, or \
         listen for clients of Flight SQL on 127.0.0.1"
    )]
    NoUsers(SocketAddr),
    /// It would be open to the network without TLS.
    #[error(
        "{0} is not an address of this machine only, and there is no certificate\nhint: add 'certificate' and 'key' to \
         [flight], or listen for clients of Flight SQL on 127.0.0.1"
    )]
    NoCertificate(SocketAddr),
    /// A certificate has no key, or the other way round.
    #[error("[flight] has {0}\nhint: 'certificate' and 'key' go together")]
    HalfIdentity(&'static str),
    /// The certificate cannot be used.
    #[error("the certificate of [flight] cannot be used")]
    Tls(#[from] TlsError),
    /// The address cannot be had.
    #[error("cannot listen for clients of Flight SQL on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The server failed.
    #[error("Flight SQL has failed")]
    Serve(#[from] tonic::transport::Error),
}

/// A server that listens and does not answer yet.
#[derive(Debug)]
pub struct FlightServer {
    listener: TcpListener,
    address: SocketAddr,
    options: FlightOptions,
    tls: Option<TlsServer>,
    counts: Arc<FlightCounts>,
}

impl FlightServer {
    /// Listens, when the options say where. Refuses an address that others than this machine reach when there are no users, or no
    /// certificate.
    pub fn bind(options: &FlightOptions, has_users: bool) -> Result<Option<Self>, FlightError> {
        let Some((address, tls)) = prepared(options, has_users)? else { return Ok(None) };
        let listen = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = listen().map_err(|source| FlightError::Listen { address, source })?;
        Ok(Some(Self { listener, address, options: options.clone(), tls, counts: Arc::default() }))
    }

    /// Finds out whether [`bind`](Self::bind) would listen, as that does first: exposure and certificate.
    pub fn check(options: &FlightOptions, has_users: bool) -> Result<(), FlightError> {
        prepared(options, has_users).map(drop)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its counters.
    pub fn counts(&self) -> Arc<FlightCounts> {
        Arc::clone(&self.counts)
    }

    /// A function that reads the certificate again, if there is one, for connections that begin once it is put in place.
    pub fn certificate_reloader(&self) -> Option<impl Fn() -> Result<ReadIdentity, FlightError> + Send + Sync + use<>> {
        let read = self.tls.as_ref()?.certificate_reloader(tls_options(&self.options).ok()??);
        Some(move || Ok(read()?))
    }

    /// Answers until `ending` becomes true. Must be called from a task of tokio.
    pub async fn run(
        self,
        service: Arc<dyn QuestionService>,
        mut ending: watch::Receiver<bool>,
    ) -> Result<(), FlightError> {
        let address = self.address;
        let listener = tokio::net::TcpListener::from_std(self.listener);
        let listener = listener.map_err(|source| FlightError::Listen { address, source })?;
        let incoming = accept(listener, &self.options, self.tls, Arc::clone(&self.counts), ending.clone());
        let incoming = futures::stream::unfold(incoming, |mut incoming| async move {
            let connection = incoming.recv().await?;
            Some((Ok::<_, Infallible>(connection), incoming))
        });
        let message_max = usize::try_from(self.options.message_max.bytes()).unwrap_or(usize::MAX);
        let flight = FlightServiceServer::new(FlightSql::new(service, &self.options, self.counts))
            .max_decoding_message_size(message_max);
        let server = Server::builder()
            .max_concurrent_streams(self.options.calls_max)
            .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
            .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
            .http2_max_header_list_size(HEADERS_OCTETS_MAX)
            .add_service(flight);
        let mut ended = ending.clone();
        let ends = async move {
            // a service that is gone has ended
            let _ = ending.wait_for(|ending| *ending).await;
        };
        let served = server.serve_with_incoming_shutdown(incoming.boxed(), ends);
        let over = async move {
            let _ = ended.wait_for(|ending| *ending).await;
            tokio::time::sleep(ENDING_MAX).await;
        };
        tokio::select! {
            served = served => Ok(served?),
            () = over => Ok(()),
        }
    }
}

/// Where to listen, when the options say it, and the certificate: an address that others than this machine reach needs users and
/// one.
fn prepared(options: &FlightOptions, has_users: bool) -> Result<Option<(SocketAddr, Option<TlsServer>)>, FlightError> {
    let Some(address) = options.listen else { return Ok(None) };
    let tls = tls_options(options)?.map(|options| TlsServer::speaking(&options, HTTP2)).transpose()?;
    if !address.ip().is_loopback() {
        if !has_users {
            return Err(FlightError::NoUsers(address));
        }
        if tls.is_none() {
            return Err(FlightError::NoCertificate(address));
        }
    }
    Ok(Some((address, tls)))
}

fn tls_options(options: &FlightOptions) -> Result<Option<TlsServerOptions>, FlightError> {
    match (&options.certificate, &options.key) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(FlightError::HalfIdentity("a certificate and no key")),
        (None, Some(_)) => Err(FlightError::HalfIdentity("a key and no certificate")),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_not_open_to_the_network_without_users_and_tls() {
        let options = |listen: &str| FlightOptions { listen: listen.parse().ok(), ..FlightOptions::default() };
        assert!(FlightServer::bind(&FlightOptions::default(), false).expect("none").is_none());
        assert!(FlightServer::bind(&options("127.0.0.1:0"), false).expect("it listens").is_some());
        let refused = |users| FlightServer::bind(&options("0.0.0.0:0"), users).expect_err("open");
        assert!(matches!(refused(false), FlightError::NoUsers(_)));
        assert!(matches!(refused(true), FlightError::NoCertificate(_)));
    }
}
