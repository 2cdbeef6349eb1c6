//! Certificates, keys and authorities from PEM files.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use openssl::error::ErrorStack;
use openssl::pkey::PKey;
use openssl::ssl::{SslContextBuilder, SslFiletype};
use openssl::x509::X509;
use openssl::x509::store::{X509Lookup, X509StoreBuilder};
use openssl::x509::verify::X509VerifyFlags;

/// What a PEM file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PemContent {
    /// Our certificate.
    Certificate,
    /// Our private key.
    Key,
    /// The authorities that sign the certificates of the other end.
    Authorities,
    /// Certificates that their authorities have revoked.
    Revocations,
}

impl fmt::Display for PemContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Certificate => "certificate",
            Self::Key => "private key",
            Self::Authorities => "authorities",
            Self::Revocations => "revocation list",
        })
    }
}

/// Why TLS and DTLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file could not be read.
    #[error("cannot read the {content} {}", path.display())]
    Read {
        /// What it should hold.
        content: PemContent,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{} holds no {content} in PEM form{}", path.display(), encrypted_hint(*encrypted))]
    Parse {
        /// What it should hold.
        content: PemContent,
        /// The file.
        path: PathBuf,
        /// Whether it is a key with a passphrase.
        encrypted: bool,
        /// The error of OpenSSL.
        #[source]
        source: ErrorStack,
    },
    /// The key belongs to another certificate.
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
        /// The error of OpenSSL.
        #[source]
        source: ErrorStack,
    },
    /// Certificates of clients are to be checked, against nothing.
    #[error(
        "certificates of clients cannot be checked without their authorities\nhint: give the file of the authorities, or ask for no certificates"
    )]
    NoAuthorities,
    /// Names are to be checked, of certificates that clients need not show.
    #[error(
        "names of clients are only known when they must show a certificate\nhint: require certificates of clients, or give no names"
    )]
    NamesWithoutCertificates,
    /// OpenSSL itself.
    #[error("TLS cannot be set up")]
    Setup(#[from] ErrorStack),
}

const fn encrypted_hint(encrypted: bool) -> &'static str {
    if encrypted { "\nhint: it has a passphrase; openssl pkey -in KEY -out PLAIN takes it off" } else { "" }
}

/// Loads our certificate, those of the authorities between it and the root, and its key into a context.
pub(crate) fn load_identity(
    context: &mut SslContextBuilder,
    certificate: &Path,
    key_path: &Path,
) -> Result<(), TlsError> {
    let mut chain = certificates(PemContent::Certificate, certificate)?.into_iter();
    let refused = |source| TlsError::Refused { path: certificate.to_owned(), source };
    // there is at least one, or reading had failed
    if let Some(first) = chain.next() {
        context.set_certificate(&first).map_err(refused)?;
    }
    for next in chain {
        context.add_extra_chain_cert(next).map_err(refused)?;
    }
    let octets = read(PemContent::Key, key_path)?;
    let encrypted = octets.windows(ENCRYPTED.len()).any(|window| window == ENCRYPTED);
    // no passphrase is asked for: there may be no terminal to ask at
    let key = PKey::private_key_from_pem_callback(&octets, |_| Err(ErrorStack::get()))
        .map_err(|source| TlsError::Parse { content: PemContent::Key, path: key_path.to_owned(), encrypted, source })?;
    let mismatch = || TlsError::Mismatch { key: key_path.to_owned(), certificate: certificate.to_owned() };
    context.set_private_key(&key).map_err(|_| mismatch())?;
    context.check_private_key().map_err(|_| mismatch())
}

/// PEM files of keys with a passphrase contain this.
const ENCRYPTED: &[u8] = b"ENCRYPTED";

/// The certificates of authorities in a file.
pub(crate) fn authorities(path: &Path) -> Result<Vec<X509>, TlsError> {
    certificates(PemContent::Authorities, path)
}

/// Has certificates looked for in the revocation lists of a file.
pub(crate) fn add_revocations(store: &mut X509StoreBuilder, path: &Path) -> Result<(), TlsError> {
    let content = PemContent::Revocations;
    let wrong = |source| TlsError::Parse { content, path: path.to_owned(), encrypted: false, source };
    // OpenSSL reads the file itself, and says less about one that is not there; its binding takes no other names
    read(content, path)?;
    if path.to_str().is_none_or(|name| name.contains('\0')) {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "the name of the file is not UTF-8");
        return Err(TlsError::Read { content, path: path.to_owned(), source });
    }
    let lookup = store.add_lookup(X509Lookup::file())?;
    lookup.load_crl_file(path, SslFiletype::PEM).map_err(wrong)?;
    Ok(store.set_flags(X509VerifyFlags::CRL_CHECK)?)
}

fn certificates(content: PemContent, path: &Path) -> Result<Vec<X509>, TlsError> {
    let wrong = |source| TlsError::Parse { content, path: path.to_owned(), encrypted: false, source };
    let certificates = X509::stack_from_pem(&read(content, path)?).map_err(wrong)?;
    if certificates.is_empty() { Err(wrong(ErrorStack::get())) } else { Ok(certificates) }
}

fn read(content: PemContent, path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::Read { content, path: path.to_owned(), source })
}
