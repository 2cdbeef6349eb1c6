//! What users can set of the wire of Postgres.

use std::net::SocketAddr;
use std::path::PathBuf;

use weir_chain::{ByteSize, TimeSpan, options};

options! {
    /// Where the wire of Postgres is spoken, and limits of its connections.
    pub struct PostgresOptions {
        /// Listen for clients of Postgres here; port 0 takes a free one. Without it nobody is listened for. On another address than
        /// one of this machine only there must be users and a certificate.
        listen: Option<SocketAddr>,
        /// PEM file of the certificate for TLS. Clients of other machines must then use it.
        certificate: Option<PathBuf>,
        /// PEM file of the private key of the certificate.
        key: Option<PathBuf>,
        /// Accept at most this many connections at a time; more are refused and counted.
        connections_max: usize = 100 => 1..=1 << 16,
        /// Accept at most this many connections of one user at a time; more are refused and counted.
        per_user_max: usize = 50 => 1..=1 << 16,
        /// Close a connection that has not logged in after this time.
        login_timeout: TimeSpan = TimeSpan::from_secs(10),
        /// Close a connection that sends nothing, or takes nothing of an answer, for this time.
        idle_timeout: TimeSpan = TimeSpan::from_secs(1_800),
        /// Refuse messages that are larger.
        message_max: ByteSize = ByteSize::from_mib(1) => 1 << 12..=1 << 30,
        /// Keep at most this many octets of prepared statements and values of one connection.
        prepared_max: ByteSize = ByteSize::from_mib(4) => 1 << 12..=1 << 32,
        /// End an answer that has more rows with an error.
        rows_max: u64 = 100_000_000 => 1..=1 << 60,
    }
}
