//! What became of connections and requests.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;

/// What became of connections and requests.
#[derive(Debug, Default)]
pub(crate) struct HttpCounts {
    pub(crate) connections: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) open: AtomicU64,
    /// Connections without a session of TLS where there must be one.
    pub(crate) handshake_failures: AtomicU64,
    /// Connections that were closed because their client took nothing.
    pub(crate) stalled: AtomicU64,
    /// By the first digit of the status.
    pub(crate) requests: [AtomicU64; 5],
}

impl HttpCounts {
    pub(crate) fn count_connection(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_handshake_failure(&self) {
        self.handshake_failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_stalled(&self) {
        self.stalled.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connection_begins(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connection_ends(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn count_request(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        if let Some(counter) = self.requests.get(class) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}
