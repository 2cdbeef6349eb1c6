//! What became of messages, flows and connections, over all collectors.

use weir_chain::{Counter, Meter};

/// Clones share the counters.
#[derive(Debug, Clone)]
pub(super) struct Counters {
    /// Flows handed to the system, for each collector.
    pub exported: Counter,
    /// Flows that were not, for each collector.
    pub unsent: Counter,
    /// Those of the exported ones whose connection failed soon after.
    pub uncertain: Counter,
    pub datagrams: Counter,
    pub datagrams_failed: Counter,
    /// Messages written into connections.
    pub messages: Counter,
    pub octets: Counter,
    pub connections_made: Counter,
    pub connections_failed: Counter,
    pub connections_lost: Counter,
}

impl Counters {
    pub(super) fn new(meter: &Meter) -> Self {
        Self {
            exported: meter.counter("records_exported"),
            unsent: meter.counter("records_unsent"),
            uncertain: meter.counter("records_uncertain"),
            datagrams: meter.counter("datagrams_sent"),
            datagrams_failed: meter.counter("datagrams_failed"),
            messages: meter.counter("messages_sent"),
            octets: meter.counter("octets_sent"),
            connections_made: meter.counter("connections_made"),
            connections_failed: meter.counter("connections_failed"),
            connections_lost: meter.counter("connections_lost"),
        }
    }
}
