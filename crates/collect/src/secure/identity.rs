//! Certificate, key and authorities from PEM files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use openssl::error::ErrorStack;
use openssl::pkey::PKey;
use openssl::ssl::{
    Ssl, SslContext, SslContextBuilder, SslMethod, SslOptions, SslRef, SslSessionCacheMode, SslVerifyMode, SslVersion,
};
use openssl::x509::X509;
use openssl::x509::store::X509StoreBuilder;

use super::{cookie, names};
use crate::Transport;

/// Who the Collecting Process is, and which exporters it lets in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsOptions {
    /// PEM file of our certificate, followed by those of the authorities between it and the root.
    pub certificate: PathBuf,
    /// PEM file of its private key.
    pub key: PathBuf,
    /// PEM file of the authorities that sign the certificates of exporters.
    pub authorities: Option<PathBuf>,
    /// Whether exporters must show a certificate.
    pub client_auth: ClientAuth,
    /// Names of which the certificate of an exporter must have one; empty for any.
    pub peers: Vec<String>,
}

/// Whether exporters must show a certificate. RFC 7011 section 11.3 has both sides do so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientAuth {
    /// None is asked for.
    None,
    /// One is asked for, and checked when it comes.
    Request,
    /// Without a good one there is no session.
    #[default]
    Require,
}

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsPart {
    /// Our certificate.
    Certificate,
    /// Our private key.
    Key,
    /// The authorities of exporters, or of collectors.
    Authorities,
}

impl std::fmt::Display for TlsPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Certificate => "certificate",
            Self::Key => "private key",
            Self::Authorities => "authorities",
        })
    }
}

/// Why TLS cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file could not be read.
    #[error("cannot read the {part} {}", path.display())]
    Read {
        /// What it is for.
        part: TlsPart,
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{} holds no {part} in PEM form{}", path.display(), encrypted_hint(*encrypted))]
    Parse {
        /// What it should hold.
        part: TlsPart,
        /// The file.
        path: PathBuf,
        /// Whether it is a key with a passphrase.
        encrypted: bool,
        /// What OpenSSL said.
        #[source]
        source: ErrorStack,
    },
    /// The key is of another certificate.
    #[error("the private key {} does not belong to the certificate {}", key.display(), certificate.display())]
    Mismatch {
        /// The file of the key.
        key: PathBuf,
        /// The file of the certificate.
        certificate: PathBuf,
    },
    /// OpenSSL refuses the certificate, such as one with a key that is too short.
    #[error("the certificate {} cannot be used", path.display())]
    Refused {
        /// The file of the certificate.
        path: PathBuf,
        /// What OpenSSL said.
        #[source]
        source: ErrorStack,
    },
    /// Certificates of exporters are to be checked, against nothing.
    #[error(
        "certificates of exporters cannot be checked without their authorities\nhint: give the file of the authorities, or ask for no certificates"
    )]
    NoAuthorities,
    /// Names are to be checked, of certificates that nobody asks for.
    #[error(
        "names of exporters are only known when they must show a certificate\nhint: require certificates of exporters, or give no names"
    )]
    NamesWithoutCertificates,
    /// OpenSSL itself.
    #[error("TLS cannot be set up")]
    Setup(#[from] ErrorStack),
}

const fn encrypted_hint(encrypted: bool) -> &'static str {
    if encrypted { "\nhint: it has a passphrase; openssl pkey -in KEY -out PLAIN takes it off" } else { "" }
}

/// Our certificate and whom it is shown to: what sessions are made with.
#[derive(Clone)]
pub(crate) struct Identity {
    context: SslContext,
    peers: Arc<[String]>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("peers", &self.peers).finish_non_exhaustive()
    }
}

impl Identity {
    /// Reads the files, for TLS or for DTLS.
    pub(crate) fn new(options: &TlsOptions, transport: Transport) -> Result<Self, TlsError> {
        let datagrams = transport == Transport::Dtls;
        let (method, oldest) = if datagrams {
            (SslMethod::dtls_server(), SslVersion::DTLS1_2)
        } else {
            (SslMethod::tls_server(), SslVersion::TLS1_2)
        };
        let mut context = SslContext::builder(method)?;
        context.set_min_proto_version(Some(oldest))?;
        context.set_options(SslOptions::NO_RENEGOTIATION | SslOptions::NO_COMPRESSION | SslOptions::NO_TICKET);
        context.set_session_cache_mode(SslSessionCacheMode::OFF);
        context.set_session_id_context(b"weir")?;
        if datagrams {
            cookie::require(&mut context);
            // sessions are told what to send at most
            context.set_options(SslOptions::NO_QUERY_MTU);
        } else {
            // a session is never taken up again
            context.set_num_tickets(0)?;
        }
        load_identity(&mut context, &options.certificate, &options.key)?;
        load_authorities(&mut context, options)?;
        Ok(Self { context: context.build(), peers: options.peers.as_slice().into() })
    }

    /// The state of a session that begins.
    pub(crate) fn session(&self) -> Result<Ssl, ErrorStack> {
        Ssl::new(&self.context)
    }

    /// Whether the exporter at the other end has a name that is let in.
    pub(crate) fn admits(&self, ssl: &SslRef) -> bool {
        self.peers.is_empty()
            || ssl.peer_certificate().is_some_and(|certificate| names::has_one_of(&certificate, &self.peers))
    }
}

/// Has sessions show a certificate, with those of the authorities behind it.
pub(super) fn load_identity(
    context: &mut SslContextBuilder,
    certificate: &Path,
    key_path: &Path,
) -> Result<(), TlsError> {
    let mut chain = certificates(TlsPart::Certificate, certificate)?.into_iter();
    let refused = |source| TlsError::Refused { path: certificate.to_owned(), source };
    // there is one at least, or reading had failed
    if let Some(first) = chain.next() {
        context.set_certificate(&first).map_err(refused)?;
    }
    for next in chain {
        context.add_extra_chain_cert(next).map_err(refused)?;
    }
    let octets = read(TlsPart::Key, key_path)?;
    let encrypted = octets.windows(ENCRYPTED.len()).any(|window| window == ENCRYPTED);
    // no passphrase is asked for: there may be nobody to ask
    let key = PKey::private_key_from_pem_callback(&octets, |_| Err(ErrorStack::get()))
        .map_err(|source| TlsError::Parse { part: TlsPart::Key, path: key_path.to_owned(), encrypted, source })?;
    let mismatch = || TlsError::Mismatch { key: key_path.to_owned(), certificate: certificate.to_owned() };
    context.set_private_key(&key).map_err(|_| mismatch())?;
    context.check_private_key().map_err(|_| mismatch())
}

/// Stands in PEM files of keys with a passphrase.
const ENCRYPTED: &[u8] = b"ENCRYPTED";

fn load_authorities(context: &mut SslContextBuilder, options: &TlsOptions) -> Result<(), TlsError> {
    if !options.peers.is_empty() && options.client_auth != ClientAuth::Require {
        return Err(TlsError::NamesWithoutCertificates);
    }
    context.set_verify(match options.client_auth {
        ClientAuth::None => SslVerifyMode::NONE,
        ClientAuth::Request => SslVerifyMode::PEER,
        ClientAuth::Require => SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT,
    });
    let Some(path) = &options.authorities else {
        return if options.client_auth == ClientAuth::None { Ok(()) } else { Err(TlsError::NoAuthorities) };
    };
    let mut store = X509StoreBuilder::new()?;
    for authority in authorities(path)? {
        // exporters with several certificates choose by these names
        context.add_client_ca(&authority)?;
        store.add_cert(authority)?;
    }
    context.set_verify_cert_store(store.build())?;
    Ok(())
}

/// The certificates of authorities in a file.
pub(super) fn authorities(path: &Path) -> Result<Vec<X509>, TlsError> {
    certificates(TlsPart::Authorities, path)
}

fn certificates(part: TlsPart, path: &Path) -> Result<Vec<X509>, TlsError> {
    let wrong = |source| TlsError::Parse { part, path: path.to_owned(), encrypted: false, source };
    let certificates = X509::stack_from_pem(&read(part, path)?).map_err(wrong)?;
    if certificates.is_empty() { Err(wrong(ErrorStack::get())) } else { Ok(certificates) }
}

fn read(part: TlsPart, path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::Read { part, path: path.to_owned(), source })
}
