//! The other end of TLS: an Exporting Process that knows its collector by its certificate.
//!
//! It stands here so that certificates are read and checked in one way on both ends.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::path::PathBuf;

use openssl::ssl::{
    HandshakeError, ShutdownState, Ssl, SslContext, SslMethod, SslMode, SslOptions, SslSessionCacheMode, SslStream,
    SslVerifyMode, SslVersion,
};
use openssl::x509::X509VerifyResult;
use openssl::x509::verify::X509CheckFlags;

use super::identity::{TlsError, authorities, load_identity};

/// How an Exporting Process makes itself known, and whom it believes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsClientOptions {
    /// PEM file of the authorities that sign the certificates of collectors; without one those of the system.
    pub authorities: Option<PathBuf>,
    /// PEM files of our certificate and of its key, for collectors that ask for one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// What sessions of an Exporting Process are made with.
#[derive(Clone)]
pub struct TlsClient {
    context: SslContext,
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").finish_non_exhaustive()
    }
}

/// Why a collector was not let be one.
#[derive(Debug, thiserror::Error)]
pub enum TlsHandshakeError {
    /// Its certificate is not good, or has another name.
    #[error("the certificate of the collector is not believed: {reason}")]
    Certificate {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The handshake came to nothing, such as when the collector wants a certificate and is shown none.
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
        // a write that the connection has no room for is taken up again where it stopped
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

    /// Does the handshake with the collector at the other end, whose certificate must be of this name: a DNS name or an
    /// address among its alternative names, or, when it has no DNS names, its common name (RFC 7011 section 11.3).
    /// Names are compared whole, as those of exporters are.
    pub fn connect(&self, name: &str, stream: TcpStream) -> Result<TlsStream, TlsHandshakeError> {
        let mut ssl = Ssl::new(&self.context)?;
        if let Ok(address) = name.parse::<IpAddr>() {
            ssl.param_mut().set_ip(address)?;
        } else {
            ssl.set_hostname(name)?;
            ssl.param_mut().set_hostflags(X509CheckFlags::NO_WILDCARDS);
            ssl.param_mut().set_host(name)?;
        }
        ssl.connect(stream).map(TlsStream).map_err(|error| match error {
            HandshakeError::SetupFailure(error) => TlsHandshakeError::Setup(error),
            HandshakeError::Failure(stream) | HandshakeError::WouldBlock(stream) => {
                match stream.ssl().verify_result() {
                    X509VerifyResult::OK => TlsHandshakeError::Handshake(stream.into_error()),
                    result => TlsHandshakeError::Certificate { reason: result.error_string() },
                }
            }
        })
    }
}

/// A session with a collector.
pub struct TlsStream(SslStream<TcpStream>);

impl fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TlsStream").field(self.0.get_ref()).finish()
    }
}

impl TlsStream {
    /// The connection that carries it.
    pub fn socket(&self) -> &TcpStream {
        self.0.get_ref()
    }

    /// Says that nothing more will come (`close_notify`).
    ///
    /// # Errors
    ///
    /// When the connection is gone.
    pub fn close(&mut self) -> io::Result<()> {
        if self.0.get_shutdown().contains(ShutdownState::SENT) {
            return Ok(());
        }
        match self.0.shutdown() {
            Ok(_) => Ok(()),
            Err(error) => Err(error.into_io_error().unwrap_or_else(io::Error::other)),
        }
    }
}

impl Read for TlsStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for TlsStream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
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
