//! What is counted of the files that are read.

use weir_chain::{ComponentContext, Counter};
use weir_collect::capture::{AssociationReport, CaptureReport, ConnectionReport};

/// What is counted of files.
pub(super) struct CaptureCounters {
    frames: Counter,
    udp: Counter,
    pub(super) skipped: Counter,
    truncated: Counter,
    exports_truncated: Counter,
    exports_tunneled: Counter,
    connections: ConnectionCounters,
    associations: AssociationCounters,
    pub(super) messages: Counter,
    pub(super) messages_damaged: Counter,
    pub(super) octets_skipped: Counter,
    pub(super) octets: Counter,
    pub(super) failed: Counter,
}

/// What is counted of connections in captures.
struct ConnectionCounters {
    sessions: Counter,
    given_up: Counter,
    encrypted: Counter,
    messages: Counter,
    octets_missing: Counter,
    octets_skipped: Counter,
}

/// What is counted of associations in captures.
struct AssociationCounters {
    sessions: Counter,
    given_up: Counter,
    encrypted: Counter,
    messages: Counter,
    chunks_missing: Counter,
    octets_skipped: Counter,
    packets_damaged: Counter,
}

impl CaptureCounters {
    pub(super) fn new(context: &ComponentContext) -> Self {
        let counter = |name| context.counters.counter(name);
        Self {
            frames: counter("frames"),
            udp: counter("datagrams_udp"),
            skipped: counter("datagrams_skipped"),
            truncated: counter("datagrams_truncated"),
            exports_truncated: counter("exports_truncated"),
            exports_tunneled: counter("exports_tunneled"),
            connections: ConnectionCounters::new(context),
            associations: AssociationCounters::new(context),
            messages: counter("messages"),
            messages_damaged: counter("messages_damaged"),
            octets_skipped: counter("octets_skipped"),
            octets: counter("octets_read"),
            failed: counter("files_failed"),
        }
    }

    /// Adds what a capture contained.
    pub(super) fn add_capture(&self, report: &CaptureReport) {
        self.frames.add(report.frames);
        self.udp.add(report.datagrams);
        self.truncated.add(report.datagrams_truncated);
        self.exports_truncated.add(report.exports_truncated);
        self.exports_tunneled.add(report.exports_tunneled);
        self.connections.add(&report.connections);
        self.associations.add(&report.associations);
    }
}

impl ConnectionCounters {
    fn new(context: &ComponentContext) -> Self {
        let counter = |name| context.counters.counter(name);
        Self {
            sessions: counter("connections"),
            given_up: counter("connections_given_up"),
            encrypted: counter("connections_encrypted"),
            messages: counter("connection_messages"),
            octets_missing: counter("connection_octets_missing"),
            octets_skipped: counter("connection_octets_skipped"),
        }
    }

    fn add(&self, report: &ConnectionReport) {
        self.sessions.add(report.sessions);
        self.given_up.add(report.sessions_given_up);
        self.encrypted.add(report.sessions_encrypted);
        self.messages.add(report.messages);
        self.octets_missing.add(report.octets_missing);
        self.octets_skipped.add(report.octets_skipped);
    }
}

impl AssociationCounters {
    fn new(context: &ComponentContext) -> Self {
        let counter = |name| context.counters.counter(name);
        Self {
            sessions: counter("associations"),
            given_up: counter("associations_given_up"),
            encrypted: counter("associations_encrypted"),
            messages: counter("association_messages"),
            chunks_missing: counter("association_chunks_missing"),
            octets_skipped: counter("association_octets_skipped"),
            packets_damaged: counter("association_packets_damaged"),
        }
    }

    fn add(&self, report: &AssociationReport) {
        self.sessions.add(report.sessions);
        self.given_up.add(report.sessions_given_up);
        self.encrypted.add(report.sessions_encrypted);
        self.messages.add(report.messages);
        self.chunks_missing.add(report.chunks_missing);
        self.octets_skipped.add(report.octets_skipped);
        self.packets_damaged.add(report.packets_damaged);
    }
}
