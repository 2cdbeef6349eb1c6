//! What users can set of Flight SQL.

use std::net::SocketAddr;
use std::path::PathBuf;

use weir_chain::{ByteSize, TimeSpan, options};

options! {
    /// Where Flight SQL is spoken, and limits of its connections.
    pub struct FlightOptions {
        /// Listen for clients of Flight SQL here; port 0 takes a free one. Without it nobody is listened for. On another address than
        /// one of this machine only there must be users and a certificate.
        listen: Option<SocketAddr>,
        /// PEM file of the certificate for TLS. Every client must then use it.
        certificate: Option<PathBuf>,
        /// PEM file of the private key of the certificate.
        key: Option<PathBuf>,
        /// Accept at most this many connections at a time; more are closed and counted.
        connections_max: usize = 100 => 1..=1 << 16,
        /// Let at most this many connections be of one user at a time; calls over more are refused, and the connections counted.
        per_user_max: usize = 50 => 1..=1 << 16,
        /// Answer at most this many calls of a connection at a time.
        calls_max: u32 = 64 => 1..=1 << 16,
        /// Close a connection that has not finished its handshake, or over which nobody has logged in, after this time.
        login_timeout: TimeSpan = TimeSpan::from_secs(10),
        /// Close a connection over which nothing comes for this time.
        idle_timeout: TimeSpan = TimeSpan::from_secs(1_800),
        /// Refuse messages that are larger.
        message_max: ByteSize = ByteSize::from_mib(1) => 1 << 12..=1 << 30,
        /// Forget a login after this time.
        session_length: TimeSpan = TimeSpan::from_secs(43_200),
        /// Keep at most this many prepared statements; of the user who has most, the one that was used longest ago is forgotten for
        /// the next.
        prepared_max: usize = 1_024 => 1..=1 << 20,
        /// End an answer that has more rows with an error.
        rows_max: u64 = 100_000_000 => 1..=1 << 60,
    }
}
