//! TLS and DTLS (RFC 7011 section 11): who we are, who may send, and the sessions of DTLS.
//!
//! OpenSSL does both, so certificates are checked in one way. Versions before 1.2 are not offered (RFC 8996), and the
//! system's policy on ciphers applies.

mod client;
mod cookie;
mod dtls;
mod identity;
mod names;

use openssl::ssl::{Error, ErrorCode, SslRef};
use openssl::x509::X509VerifyResult;

pub use client::{TlsClient, TlsClientOptions, TlsHandshakeError, TlsStream};
pub(crate) use dtls::{DtlsBindError, DtlsListener};
pub(crate) use identity::Identity;
pub use identity::{ClientAuth, TlsError, TlsOptions, TlsPart};

use crate::stream::{Reason, is_timeout};

/// Why a handshake failed.
pub(crate) fn handshake_reason(error: &Error, ssl: &SslRef) -> Reason {
    if let Some(error) = error.io_error() {
        return if is_timeout(error) { Reason::HandshakeTooSlow } else { Reason::HandshakeCutShort };
    }
    match ssl.verify_result() {
        X509VerifyResult::OK => {}
        // X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED
        result if matches!(result.as_raw(), 9 | 10) => return Reason::CertificateExpired,
        _ => return Reason::CertificateUntrusted,
    }
    let told = |text: &str| {
        let errors = error.ssl_error().map(openssl::error::ErrorStack::errors).unwrap_or_default();
        errors.iter().any(|error| error.reason().is_some_and(|reason| reason.contains(text)))
    };
    if told("did not return a certificate") {
        Reason::NoCertificate
    } else if told("alert") {
        Reason::RefusedByPeer
    } else if told("unexpected eof") || error.code() == ErrorCode::SYSCALL {
        Reason::HandshakeCutShort
    } else {
        Reason::NotTls
    }
}
