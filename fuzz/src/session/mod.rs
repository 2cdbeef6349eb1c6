//! Sessions of TLS and DTLS with hostile peers: a client of OpenSSL whose octets are changed on their way, or octets of
//! nobody, against the servers of `weir-secure`; and whatever comes, against the listeners of a whole collector.
//!
//! OpenSSL itself is not instrumented, so the fuzzer sees its answers only by what our code does with them.

pub(crate) mod collector;
pub(crate) mod dtls;
pub(crate) mod tls;

use std::path::Path;
use std::time::Duration;

use openssl::ssl::{SslConnector, SslConnectorBuilder, SslMethod};
use weir_secure::{ClientAuth, TlsServerOptions};
use weir_testkit::certificates::{Certificate, Says};

use crate::cost::Cost;

/// What a session may cost: its handshakes, and so much for each octet.
const BASE_TIME: Duration = Duration::from_millis(500);
const OCTET_TIME: Duration = Duration::from_micros(20);
const BASE_MEMORY: usize = 4 << 20;
const OCTET_MEMORY: usize = 64;

/// The name of the server.
const NAME: &str = "localhost";

/// Certificates of both ends, in a folder that is removed when both have read them.
struct Certificates {
    folder: tempfile::TempDir,
    exporter: Certificate,
}

impl Certificates {
    fn new() -> Self {
        let (folder, authority) = (tempfile::tempdir().expect("a folder"), Certificate::authority("fuzz"));
        authority.write(folder.path(), "ca");
        authority.sign(&Says { dns: &[NAME], ..Says::name("server") }).write(folder.path(), "server");
        Self { exporter: authority.sign(&Says::name("exporter")), folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// What a server is made from that asks for certificates or does not.
    fn server(&self, client_auth: ClientAuth) -> TlsServerOptions {
        TlsServerOptions {
            certificate: self.path().join("server.pem"),
            key: self.path().join("server.key"),
            authorities: Some(self.path().join("ca.pem")),
            revocations: None,
            client_auth,
            peers: Vec::new(),
        }
    }

    /// A client that shows its certificate to whoever asks.
    fn client(&self, method: SslMethod) -> SslConnector {
        let mut connector: SslConnectorBuilder = SslConnector::builder(method).expect("a connector");
        connector.set_ca_file(self.path().join("ca.pem")).expect("authorities");
        connector.set_certificate(&self.exporter.certificate).expect("a certificate");
        connector.set_private_key(&self.exporter.key).expect("a key");
        connector.build()
    }
}

/// How an input begins: two octets about everything, then changes of four octets each, then what the client has to send.
struct Script<'a> {
    how: u8,
    changes: Vec<[u8; 4]>,
    plain: &'a [u8],
}

impl<'a> Script<'a> {
    fn parse(input: &'a [u8]) -> Option<Self> {
        let [how, count, rest @ ..] = input else { return None };
        let (changes, plain) = rest.split_at_checked(4 * usize::from(count % 16))?;
        let (changes, _) = changes.as_chunks::<4>();
        Some(Self { how: *how, changes: changes.to_vec(), plain })
    }
}

/// Fails when a session has cost too much.
fn check(cost: Cost, octets: usize) {
    assert!(cost.time <= BASE_TIME + OCTET_TIME * octets as u32, "{:?} for {octets} octets", cost.time);
    assert!(cost.octets <= BASE_MEMORY + OCTET_MEMORY * octets, "{} octets of memory for {octets}", cost.octets);
}

/// Panics once a whole message came out of a session.
#[cfg(feature = "canary")]
fn canary(messages: usize) {
    assert!(messages < 1, "the canary was found");
}

#[cfg(not(feature = "canary"))]
fn canary(_: usize) {}
