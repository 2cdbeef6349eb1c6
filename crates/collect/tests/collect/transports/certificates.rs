//! Certificates made for a test.

use std::net::TcpStream;
use std::path::PathBuf;

use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::ssl::{SslConnector, SslMethod, SslStream, SslVerifyMode};
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509Builder, X509NameBuilder};
use tempfile::TempDir;
use weir_collect::{ClientAuth, TlsOptions};

/// A certificate and its key.
pub(super) struct Certificate {
    pub certificate: X509,
    pub key: PKey<Private>,
}

/// What a certificate says.
pub(super) struct Says<'a> {
    pub common_name: &'a str,
    pub dns: &'a [&'a str],
    pub ip: Option<&'a str>,
    /// When it ends, in days from the year 2001.
    pub is_expired: bool,
}

impl<'a> Says<'a> {
    pub(super) fn name(common_name: &'a str) -> Self {
        Self { common_name, dns: &[], ip: None, is_expired: false }
    }
}

impl Certificate {
    /// An authority of its own, with a key of RSA as most still have.
    pub(super) fn authority(name: &str) -> Self {
        let key = PKey::from_rsa(Rsa::generate(2048).expect("a key")).expect("a key");
        let mut builder = begin(&Says::name(name), &key);
        let constraints = BasicConstraints::new().critical().ca().build().expect("an extension");
        builder.append_extension(constraints).expect("an extension");
        let subject = name_of(name);
        builder.set_issuer_name(&subject).and_then(|()| builder.sign(&key, MessageDigest::sha256())).expect("signed");
        Self { certificate: builder.build(), key }
    }

    /// A certificate signed by this authority.
    pub(super) fn sign(&self, says: &Says<'_>) -> Self {
        let curve = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).expect("a curve");
        let key = PKey::from_ec_key(EcKey::generate(&curve).expect("a key")).expect("a key");
        let mut builder = begin(says, &key);
        let mut names = SubjectAlternativeName::new();
        for name in says.dns {
            names.dns(name);
        }
        if let Some(address) = says.ip {
            names.ip(address);
        }
        if !says.dns.is_empty() || says.ip.is_some() {
            let context = builder.x509v3_context(Some(&self.certificate), None);
            let extension = names.build(&context).expect("an extension");
            builder.append_extension(extension).expect("an extension");
        }
        let issuer = self.certificate.subject_name();
        builder
            .set_issuer_name(issuer)
            .and_then(|()| builder.sign(&self.key, MessageDigest::sha256()))
            .expect("signed");
        Self { certificate: builder.build(), key }
    }
}

fn name_of(common_name: &str) -> openssl::x509::X509Name {
    let mut name = X509NameBuilder::new().expect("a name");
    name.append_entry_by_nid(Nid::COMMONNAME, common_name).expect("a name");
    name.build()
}

fn begin(says: &Says<'_>, key: &PKey<Private>) -> X509Builder {
    let mut builder = X509::builder().expect("a builder");
    builder.set_version(2).expect("version 3");
    let serial = BigNum::from_slice(&std::process::id().to_be_bytes()).and_then(|number| number.to_asn1_integer());
    builder.set_serial_number(&serial.expect("a number")).expect("a number");
    builder.set_subject_name(&name_of(says.common_name)).expect("a name");
    builder.set_pubkey(key).expect("a key");
    let after = if says.is_expired { "20010102000000Z" } else { "20991231000000Z" };
    for (time, is_start) in [("20010101000000Z", true), (after, false)] {
        let time = Asn1Time::from_str(time).expect("a time");
        if is_start { builder.set_not_before(&time) } else { builder.set_not_after(&time) }.expect("a time");
    }
    builder
}

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
        made.write("server.pem", &server.certificate.to_pem().expect("PEM"));
        made.write("server.key", &server.key.private_key_to_pem_pkcs8().expect("PEM"));
        made.write("ca.pem", &made.authority.certificate.to_pem().expect("PEM"));
        made
    }

    pub(super) fn write(&self, name: &str, octets: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, octets).expect("written");
        path
    }

    /// Options of the collector.
    pub(super) fn options(&self, client_auth: ClientAuth) -> TlsOptions {
        let path = |name: &str| self.folder.path().join(name);
        TlsOptions {
            certificate: path("server.pem"),
            key: path("server.key"),
            authorities: Some(path("ca.pem")),
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
        stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).expect("a timeout");
        self.exporter(SslMethod::tls_client(), shows).connect("localhost", stream).ok()
    }
}
