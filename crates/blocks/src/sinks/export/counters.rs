//! What became of messages, flows and connections, over all collectors.

use weir_chain::Counter;

/// Clones share the counters.
#[derive(Debug, Clone)]
pub(super) struct ExportCounters {
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

impl ExportCounters {
    pub(super) fn new(counters: &weir_chain::Counters) -> Self {
        Self {
            exported: counters.counter("records_exported"),
            unsent: counters.counter("records_unsent"),
            uncertain: counters.counter("records_uncertain"),
            datagrams: counters.counter("datagrams_sent"),
            datagrams_failed: counters.counter("datagrams_failed"),
            messages: counters.counter("messages_sent"),
            octets: counters.counter("octets_sent"),
            connections_made: counters.counter("connections_made"),
            connections_failed: counters.counter("connections_failed"),
            connections_lost: counters.counter("connections_lost"),
        }
    }
}
