//! The server end of TLS.

use std::io::{Read, Write};

use openssl::ssl::{SslMethod, SslStream, SslVersion};

use crate::identity::Identity;
use crate::{AcceptError, TlsError, TlsServerOptions, TlsStream};

/// Accepts sessions of TLS.
#[derive(Debug, Clone)]
pub struct TlsServer {
    identity: Identity,
}

impl TlsServer {
    /// Reads the files.
    pub fn new(options: &TlsServerOptions) -> Result<Self, TlsError> {
        let identity = Identity::new(options, SslMethod::tls_server(), SslVersion::TLS1_2, |context| {
            // a session is never resumed
            Ok(context.set_num_tickets(0)?)
        })?;
        Ok(Self { identity })
    }

    /// Does the handshake with the client at the other end. How long it may take is for the connection to decide, whose
    /// reads should fail after a time.
    pub fn accept<S: Read + Write>(&self, connection: S) -> Result<TlsStream<S>, AcceptError> {
        let ssl = self.identity.session().map_err(|_| AcceptError::NoResources)?;
        let mut stream = SslStream::new(ssl, connection).map_err(|_| AcceptError::NoResources)?;
        stream.accept().map_err(|error| AcceptError::of(&error, stream.ssl()))?;
        if self.identity.admits(stream.ssl()) { Ok(TlsStream(stream)) } else { Err(AcceptError::NameNotAdmitted) }
    }
}
