//! Certificates and keys into TLS and DTLS identities and sessions, for both ends.
//!
//! A server is made from [`TlsServerOptions`]: [`TlsServer`] accepts connections, [`DtlsServer`] sessions over one UDP
//! socket. A client is made from [`TlsClientOptions`]: [`TlsClient`] connects. What is sent over a session is not known
//! here.
//!
//! OpenSSL does TLS and DTLS, so both ends check certificates in one way. Versions before 1.2 are not offered (RFC
//! 8996), and the system's policy on ciphers applies. What speaks against it: it is a library of the system written in
//! C, and its version decides what works.
//!
//! # Invariants
//!
//! Sessions are neither renegotiated nor resumed nor compressed. A client that must show a certificate has no session
//! without a trusted one; a server without a trusted certificate of the expected name is sent nothing. Names are
//! compared whole: a wildcard matches nothing. No state is kept for a DTLS client before it has returned its cookie.

mod accept;
mod client;
mod cookie;
mod dtls;
mod identity;
mod names;
mod pem;
mod server;
mod stream;

pub use accept::AcceptError;
pub use client::{ConnectError, TlsClient, TlsClientOptions};
pub use cookie::ClientHello;
pub use dtls::{DtlsServer, DtlsSession, Progress, SessionEnd};
pub use identity::{ClientAuth, TlsServerOptions};
pub use pem::{PemContent, TlsError};
pub use server::{ReadIdentity, TlsServer};
pub use stream::TlsStream;
