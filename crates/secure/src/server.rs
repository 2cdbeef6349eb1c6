//! The server end of TLS.

use std::io::{Read, Write};

use openssl::ssl::{AlpnError, Ssl, SslMethod, SslStream, SslVersion, select_next_proto};

use crate::identity::{CurrentIdentity, Identity};
use crate::{AcceptError, TlsError, TlsServerOptions, TlsStream};

/// Accepts sessions of TLS.
#[derive(Debug, Clone)]
pub struct TlsServer {
    identity: CurrentIdentity,
    protocols: &'static [u8],
}

/// The files of a server that were read again and are not in use yet, so that several servers change together or none does.
#[derive(Debug)]
#[must_use = "the server goes on with the old files"]
pub struct ReadIdentity {
    current: CurrentIdentity,
    identity: Identity,
}

impl ReadIdentity {
    /// Uses them for the sessions that begin from now on, of all clones of the server. Sessions that have begun go on.
    pub fn put_in_place(self) {
        self.current.replace(self.identity);
    }
}

impl TlsServer {
    /// Reads the files.
    pub fn new(options: &TlsServerOptions) -> Result<Self, TlsError> {
        Self::speaking(options, &[])
    }

    /// The same, where client and server agree on one of these protocols (RFC 7301): each its length and its name. A client that
    /// offers others has no session; one that offers none has.
    pub fn speaking(options: &TlsServerOptions, protocols: &'static [u8]) -> Result<Self, TlsError> {
        Ok(Self { identity: CurrentIdentity::new(identity(options, protocols)?), protocols })
    }

    /// Reads the files again, for the sessions that begin from now on, of all clones. When that fails, the old ones stay
    /// in use.
    pub fn reload(&self, options: &TlsServerOptions) -> Result<(), TlsError> {
        self.read_again(options)?.put_in_place();
        Ok(())
    }

    /// Reads the files again. The caller puts them in place.
    pub fn read_again(&self, options: &TlsServerOptions) -> Result<ReadIdentity, TlsError> {
        Ok(ReadIdentity { current: self.identity.clone(), identity: identity(options, self.protocols)? })
    }

    /// A function that reads the files again on each call, for servers that reload several certificates together.
    pub fn certificate_reloader(
        &self,
        options: TlsServerOptions,
    ) -> impl Fn() -> Result<ReadIdentity, TlsError> + Send + Sync + use<> {
        let server = self.clone();
        move || server.read_again(&options)
    }

    /// The state of a session that begins, for callers that do the handshake by other means, asynchronously for instance. They
    /// must check themselves whether the client has an admitted name.
    pub fn session(&self) -> Result<Ssl, TlsError> {
        Ok(self.identity.get().session()?)
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

fn identity(options: &TlsServerOptions, protocols: &'static [u8]) -> Result<Identity, TlsError> {
    Identity::new(options, SslMethod::tls_server(), SslVersion::TLS1_2, |context| {
        if !protocols.is_empty() {
            context.set_alpn_select_callback(move |_, offered| {
                select_next_proto(protocols, offered).ok_or(AlpnError::ALERT_FATAL)
            });
        }
        // a session is never resumed
        Ok(context.set_num_tickets(0)?)
    })
}
