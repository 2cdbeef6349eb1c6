//! Certificates of a collector and its exporters.

use std::net::TcpStream;
use std::path::PathBuf;

use openssl::ssl::{SslConnector, SslMethod, SslStream, SslVerifyMode};
use tempfile::TempDir;
use weir_secure::{ClientAuth, TlsServerOptions};
pub(super) use weir_testkit::certificates::{Certificate, Says};

/// An authority, and the files of a collector whose certificate it has signed.
pub(super) struct Authority {
    pub authority: Certificate,
    pub folder: TempDir,
}

impl Authority {
    pub(super) fn new() -> Self {
        let made =
            Self { authority: Certificate::authority("weir test"), folder: tempfile::tempdir().expect("a folder") };
        let server = made.authority.sign(&Says { dns: &["localhost"], ..Says::name("collector") });
        server.write(made.folder.path(), "server");
        made.authority.write(made.folder.path(), "ca");
        made
    }

    pub(super) fn write(&self, name: &str, octets: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, octets).expect("written");
        path
    }

    /// Options of the collector.
    pub(super) fn options(&self, client_auth: ClientAuth) -> TlsServerOptions {
        let path = |name: &str| self.folder.path().join(name);
        TlsServerOptions {
            certificate: path("server.pem"),
            key: path("server.key"),
            authorities: Some(path("ca.pem")),
            revocations: None,
            client_auth,
            peers: Vec::new(),
        }
    }

    /// An exporter that checks the collector's certificate, and shows one itself.
    pub(super) fn exporter(&self, method: SslMethod, shows: Option<&Certificate>) -> SslConnector {
        let mut connector = SslConnector::builder(method).expect("a connector");
        let mut store = openssl::x509::store::X509StoreBuilder::new().expect("a store");
        store.add_cert(self.authority.certificate.clone()).expect("an authority");
        connector.set_cert_store(store.build());
        connector.set_verify(SslVerifyMode::PEER);
        if let Some(shows) = shows {
            connector.set_certificate(&shows.certificate).expect("a certificate");
            connector.set_private_key(&shows.key).expect("a key");
        }
        connector.build()
    }

    /// Connects by TLS. With TLS 1.3 a refusal is only seen later.
    pub(super) fn connect(
        &self,
        address: std::net::SocketAddr,
        shows: Option<&Certificate>,
    ) -> Option<SslStream<TcpStream>> {
        let stream = TcpStream::connect(address).expect("connected");
        // so that nobody waits for what should have been refused
        stream.set_read_timeout(Some(std::time::Duration::from_mins(1))).expect("a timeout");
        self.exporter(SslMethod::tls_client(), shows).connect("localhost", stream).ok()
    }
}
