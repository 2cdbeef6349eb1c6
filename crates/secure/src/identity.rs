//! The server's side of a session: its certificate, and the clients that it admits.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use openssl::error::ErrorStack;
use openssl::ssl::{
    Ssl, SslContext, SslContextBuilder, SslMethod, SslOptions, SslRef, SslSessionCacheMode, SslVerifyMode, SslVersion,
};
use openssl::x509::store::X509StoreBuilder;

use crate::names;
use crate::pem::{TlsError, add_revocations, authorities, load_identity};

/// The certificate of a server, and the clients that it admits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsServerOptions {
    /// PEM file of our certificate, followed by those of the authorities between it and the root.
    pub certificate: PathBuf,
    /// PEM file of its private key.
    pub key: PathBuf,
    /// PEM file of the authorities that sign the certificates of clients.
    pub authorities: Option<PathBuf>,
    /// PEM file of revocation lists of these authorities (RFC 5280 section 5): with one, the certificate of a client is looked
    /// for in the list of its authority, and refused where there is none.
    pub revocations: Option<PathBuf>,
    /// Whether clients must show a certificate.
    pub client_auth: ClientAuth,
    /// Names of which the certificate of a client must have one; empty for any.
    pub peers: Vec<String>,
}

/// Whether clients must show a certificate. RFC 7011 section 11.3 requires it of both ends of an export session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientAuth {
    /// None is asked for.
    None,
    /// One is asked for, and checked when it comes.
    Request,
    /// Without a trusted one there is no session.
    #[default]
    Require,
}

/// What the sessions of a server are made with.
#[derive(Clone)]
pub(crate) struct Identity {
    context: SslContext,
    peers: Arc<[String]>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("peers", &self.peers).finish_non_exhaustive()
    }
}

impl Identity {
    /// Reads the files. `protocol` sets what only TLS, or only DTLS, needs.
    pub(crate) fn new(
        options: &TlsServerOptions,
        method: SslMethod,
        oldest: SslVersion,
        protocol: impl FnOnce(&mut SslContextBuilder) -> Result<(), TlsError>,
    ) -> Result<Self, TlsError> {
        let mut context = SslContext::builder(method)?;
        context.set_min_proto_version(Some(oldest))?;
        context.set_options(SslOptions::NO_RENEGOTIATION | SslOptions::NO_COMPRESSION | SslOptions::NO_TICKET);
        context.set_session_cache_mode(SslSessionCacheMode::OFF);
        context.set_session_id_context(b"weir")?;
        protocol(&mut context)?;
        load_identity(&mut context, &options.certificate, &options.key)?;
        load_authorities(&mut context, options)?;
        Ok(Self { context: context.build(), peers: options.peers.as_slice().into() })
    }

    /// The state of a session that begins.
    pub(crate) fn session(&self) -> Result<Ssl, ErrorStack> {
        Ssl::new(&self.context)
    }

    /// Whether the client at the other end has an admitted name.
    pub(crate) fn admits(&self, ssl: &SslRef) -> bool {
        self.peers.is_empty()
            || ssl.peer_certificate().is_some_and(|certificate| names::has_one_of(&certificate, &self.peers))
    }
}

fn load_authorities(context: &mut SslContextBuilder, options: &TlsServerOptions) -> Result<(), TlsError> {
    if !options.peers.is_empty() && options.client_auth != ClientAuth::Require {
        return Err(TlsError::NamesWithoutCertificates);
    }
    context.set_verify(match options.client_auth {
        ClientAuth::None => SslVerifyMode::NONE,
        ClientAuth::Request => SslVerifyMode::PEER,
        ClientAuth::Require => SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT,
    });
    let Some(path) = &options.authorities else {
        let needs_none = options.client_auth == ClientAuth::None && options.revocations.is_none();
        return if needs_none { Ok(()) } else { Err(TlsError::NoAuthorities) };
    };
    let mut store = X509StoreBuilder::new()?;
    for authority in authorities(path)? {
        // clients with several certificates choose by these names
        context.add_client_ca(&authority)?;
        store.add_cert(authority)?;
    }
    if let Some(path) = &options.revocations {
        add_revocations(&mut store, path)?;
    }
    context.set_verify_cert_store(store.build())?;
    Ok(())
}

/// What the sessions of a server are made with from now on. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct CurrentIdentity(Arc<RwLock<Identity>>);

impl CurrentIdentity {
    pub(crate) fn new(identity: Identity) -> Self {
        Self(Arc::new(RwLock::new(identity)))
    }

    pub(crate) fn get(&self) -> Identity {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sessions that have begun keep the one that they began with.
    pub(crate) fn replace(&self, identity: Identity) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = identity;
    }
}
