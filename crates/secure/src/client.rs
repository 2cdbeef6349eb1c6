//! The client end of TLS, which checks the server by its certificate.

use std::fmt;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::path::PathBuf;

use openssl::ssl::{
    HandshakeError, Ssl, SslContext, SslMethod, SslMode, SslOptions, SslSessionCacheMode, SslVerifyMode, SslVersion,
};
use openssl::x509::X509VerifyResult;
use openssl::x509::verify::X509CheckFlags;

use crate::TlsStream;
use crate::pem::{TlsError, authorities, load_identity};

/// The certificate of a client, and the authorities that it trusts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsClientOptions {
    /// PEM file of the authorities that sign the certificates of servers; those of the system when there is none.
    pub authorities: Option<PathBuf>,
    /// PEM files of our certificate and of its key, for servers that ask for one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Connects to servers over TLS.
#[derive(Clone)]
pub struct TlsClient {
    context: SslContext,
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").finish_non_exhaustive()
    }
}

/// Why there is no session with a server.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Its certificate is not trusted, or has another name.
    #[error("the certificate of the server is not trusted: {reason}")]
    Certificate {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The handshake failed, such as when the server requires a certificate and is shown none.
    #[error("the handshake failed")]
    Handshake(#[source] openssl::ssl::Error),
    /// OpenSSL itself.
    #[error("TLS cannot be set up")]
    Setup(#[from] openssl::error::ErrorStack),
}

impl TlsClient {
    /// Reads the files.
    pub fn new(options: &TlsClientOptions) -> Result<Self, TlsError> {
        let mut context = SslContext::builder(SslMethod::tls_client())?;
        context.set_min_proto_version(Some(SslVersion::TLS1_2))?;
        context.set_options(SslOptions::NO_RENEGOTIATION | SslOptions::NO_COMPRESSION | SslOptions::NO_TICKET);
        context.set_session_cache_mode(SslSessionCacheMode::OFF);
        // a write for which the connection has no buffer left is resumed where it stopped
        context.set_mode(SslMode::ENABLE_PARTIAL_WRITE | SslMode::ACCEPT_MOVING_WRITE_BUFFER);
        context.set_verify(SslVerifyMode::PEER);
        match &options.authorities {
            Some(path) => {
                let mut store = openssl::x509::store::X509StoreBuilder::new()?;
                for authority in authorities(path)? {
                    store.add_cert(authority)?;
                }
                context.set_verify_cert_store(store.build())?;
            }
            None => context.set_default_verify_paths()?,
        }
        if let Some((certificate, key)) = &options.identity {
            load_identity(&mut context, certificate, key)?;
        }
        Ok(Self { context: context.build() })
    }

    /// Does the handshake with the server at the other end, whose certificate must have this name: a DNS name or an
    /// address among its alternative names, or, when it has no DNS names, its common name (RFC 7011 section 11.3).
    /// Names are compared whole, as those of clients are.
    pub fn connect<S: Read + Write>(&self, name: &str, connection: S) -> Result<TlsStream<S>, ConnectError> {
        let mut ssl = Ssl::new(&self.context)?;
        if let Ok(address) = name.parse::<IpAddr>() {
            ssl.param_mut().set_ip(address)?;
        } else {
            ssl.set_hostname(name)?;
            ssl.param_mut().set_hostflags(X509CheckFlags::NO_WILDCARDS);
            ssl.param_mut().set_host(name)?;
        }
        ssl.connect(connection).map(TlsStream).map_err(|error| match error {
            HandshakeError::SetupFailure(error) => ConnectError::Setup(error),
            HandshakeError::Failure(stream) | HandshakeError::WouldBlock(stream) => {
                match stream.ssl().verify_result() {
                    X509VerifyResult::OK => ConnectError::Handshake(stream.into_error()),
                    result => ConnectError::Certificate { reason: result.error_string() },
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_not_there_are_named() {
        let options = TlsClientOptions { authorities: Some("no-such.pem".into()), ..TlsClientOptions::default() };
        assert_eq!(
            TlsClient::new(&options).expect_err("no file").to_string(),
            "cannot read the authorities no-such.pem"
        );
        let identity = Some(("no-such.pem".into(), "no-such.key".into()));
        let options = TlsClientOptions { identity, ..TlsClientOptions::default() };
        assert_eq!(
            TlsClient::new(&options).expect_err("no file").to_string(),
            "cannot read the certificate no-such.pem"
        );
    }
}
