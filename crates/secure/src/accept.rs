//! Why a server has no session with a client.

use std::io;

use openssl::error::ErrorStack;
use openssl::ssl::{Error, ErrorCode, SslRef};
use openssl::x509::X509VerifyResult;

/// Why a handshake failed, seen from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AcceptError {
    /// Nothing came for as long as the connection waits.
    #[error("the handshake takes too long")]
    TooSlow,
    /// The connection ended before the handshake did.
    #[error("the connection ended within the handshake")]
    CutShort,
    /// The client must show a certificate and has shown none.
    #[error("the client has shown no certificate")]
    NoCertificate,
    /// The client's certificate is not valid yet, or not any more.
    #[error("the client's certificate has expired or is not valid yet")]
    CertificateExpired,
    /// The client's certificate does not lead to an authority that we trust.
    #[error("the client's certificate is not trusted")]
    CertificateUntrusted,
    /// The client's certificate was revoked, or there is no list in which that could be looked up.
    #[error("the client's certificate is revoked, or there is no revocation list of its authority that is in force")]
    CertificateRevoked,
    /// The client's certificate has none of the names that are admitted.
    #[error("the client's certificate has none of the admitted names")]
    NameNotAdmitted,
    /// The client has sent an alert, such as when it does not trust our certificate.
    #[error("the client refused the session")]
    RefusedByPeer,
    /// What came is not TLS, or shares no version or cipher with us.
    #[error("the client does not speak a version of TLS that is offered")]
    NotTls,
    /// OpenSSL had no memory for a session.
    #[error("no resources for a session")]
    NoResources,
}

impl AcceptError {
    /// Reads the reason off what OpenSSL reports.
    pub(crate) fn of(error: &Error, ssl: &SslRef) -> Self {
        if let Some(error) = error.io_error() {
            return if is_timeout(error) { Self::TooSlow } else { Self::CutShort };
        }
        match ssl.verify_result() {
            X509VerifyResult::OK => {}
            // X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED
            result if matches!(result.as_raw(), 9 | 10) => return Self::CertificateExpired,
            // X509_V_ERR_UNABLE_TO_GET_CRL, _CRL_NOT_YET_VALID, _CRL_HAS_EXPIRED and _CERT_REVOKED
            result if matches!(result.as_raw(), 3 | 11 | 12 | 23) => return Self::CertificateRevoked,
            _ => return Self::CertificateUntrusted,
        }
        let has_reason = |text: &str| {
            let errors = error.ssl_error().map(ErrorStack::errors).unwrap_or_default();
            errors.iter().any(|error| error.reason().is_some_and(|reason| reason.contains(text)))
        };
        if has_reason("did not return a certificate") {
            Self::NoCertificate
        } else if has_reason("alert") {
            Self::RefusedByPeer
        } else if has_reason("unexpected eof") || error.code() == ErrorCode::SYSCALL {
            Self::CutShort
        } else {
            Self::NotTls
        }
    }
}

/// Whether a read came to nothing only because its time was over.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}
