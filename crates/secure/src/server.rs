//! The server end of TLS.

use std::io::{Read, Write};

use openssl::ssl::{SslMethod, SslStream, SslVersion};

use crate::identity::{CurrentIdentity, Identity};
use crate::{AcceptError, TlsError, TlsServerOptions, TlsStream};

/// Accepts sessions of TLS.
#[derive(Debug, Clone)]
pub struct TlsServer {
    identity: CurrentIdentity,
}

impl TlsServer {
    /// Reads the files.
    pub fn new(options: &TlsServerOptions) -> Result<Self, TlsError> {
        Ok(Self { identity: CurrentIdentity::new(identity(options)?) })
    }

    /// Reads the files again, for the sessions that begin from now on, of all clones. When that fails, the old ones stay
    /// in use.
    pub fn reload(&self, options: &TlsServerOptions) -> Result<(), TlsError> {
        self.identity.replace(identity(options)?);
        Ok(())
    }

    /// Does the handshake with the client at the other end. How long it may take is for the connection to decide, whose
    /// reads should fail after a time.
    pub fn accept<S: Read + Write>(&self, connection: S) -> Result<TlsStream<S>, AcceptError> {
        let identity = self.identity.get();
        let ssl = identity.session().map_err(|_| AcceptError::NoResources)?;
        let mut stream = SslStream::new(ssl, connection).map_err(|_| AcceptError::NoResources)?;
        stream.accept().map_err(|error| AcceptError::of(&error, stream.ssl()))?;
        if identity.admits(stream.ssl()) { Ok(TlsStream(stream)) } else { Err(AcceptError::NameNotAdmitted) }
    }
}

fn identity(options: &TlsServerOptions) -> Result<Identity, TlsError> {
    Identity::new(options, SslMethod::tls_server(), SslVersion::TLS1_2, |context| {
        // a session is never resumed
        Ok(context.set_num_tickets(0)?)
    })
}
