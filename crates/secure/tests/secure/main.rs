//! Both ends of TLS, and the server end of DTLS, with certificates made for the test.

mod dtls;
mod files;
mod tls;

use std::path::PathBuf;

use tempfile::TempDir;
use weir_secure::{ClientAuth, TlsClientOptions, TlsServerOptions};
use weir_testkit::certificates::{Certificate, Says};

/// An authority, and a folder with its certificate and those of a server for `localhost`.
struct Authority {
    authority: Certificate,
    folder: TempDir,
}

impl Authority {
    fn new() -> Self {
        let made = Self { authority: Certificate::authority("test"), folder: tempfile::tempdir().expect("a folder") };
        made.authority.write(made.folder.path(), "ca");
        made.sign("server", &Says { dns: &["localhost"], ..Says::name("server") });
        made
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, octets: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, octets).expect("written");
        path
    }

    /// Writes `NAME.pem` and `NAME.key`.
    fn sign(&self, name: &str, says: &Says<'_>) -> Certificate {
        let signed = self.authority.sign(says);
        signed.write(self.folder.path(), name);
        signed
    }

    fn server(&self, client_auth: ClientAuth, peers: &[&str]) -> TlsServerOptions {
        TlsServerOptions {
            certificate: self.path("server.pem"),
            key: self.path("server.key"),
            authorities: Some(self.path("ca.pem")),
            revocations: None,
            client_auth,
            peers: peers.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    /// A client that trusts the authority, and shows `NAME.pem`.
    fn client(&self, shows: Option<&str>) -> TlsClientOptions {
        let identity = shows.map(|name| (self.path(&format!("{name}.pem")), self.path(&format!("{name}.key"))));
        TlsClientOptions { authorities: Some(self.path("ca.pem")), identity }
    }
}
