//! What a Metering Process counts.

use crate::application;
use crate::cache::CacheCounts;
use crate::digest::NotFlow;

/// Packets and where they went. Each packet that a source delivered is counted in exactly one of `packets_in_flows`,
/// `not_flows`, `packets_not_sampled`, `fragments_of_tunnels` and `fragments_held`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MeterCounts {
    /// Packets that sources delivered.
    pub packets: u64,
    /// Octets of their frames on the wire.
    pub octets: u64,
    /// Packets counted in flows.
    pub packets_in_flows: u64,
    /// Packets that belong to no flow, by [`NotFlow`].
    pub not_flows: [u64; NotFlow::COUNT],
    /// Packets that were not selected.
    pub packets_not_sampled: u64,
    /// Fragments that wait for the first of their packet.
    pub fragments_held: u64,
    /// Further fragments of packets that carry another one, which is in a flow with its whole length. They are in none.
    pub fragments_of_tunnels: u64,
    /// Fragments among `packets_in_flows` whose first one did not come, so that their flow has no ports.
    pub fragments_without_first: u64,
    /// Flows begun.
    pub flows_begun: u64,
    /// Flows delivered.
    pub flows_ended: u64,
    /// Flows that ended before their time since the table was full.
    pub flows_evicted: u64,
    /// Handshakes of which not all was looked at, because they were too long or too many at the same time.
    pub handshakes_cut: u64,
    /// Payloads of a known protocol that contradict themselves or end too early.
    pub payloads_malformed: u64,
    /// Ends of tunnels that were forgotten since there were too many ([`TUNNEL_PAIRS_MAX`](crate::TUNNEL_PAIRS_MAX)).
    pub tunnel_pairs_forgotten: u64,
    /// Most flows at the same time; of several workers the sum of what each had at most.
    pub flows_peak: u64,
}

impl MeterCounts {
    /// Adds what another worker counted.
    pub fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.octets += other.octets;
        self.packets_in_flows += other.packets_in_flows;
        for (reason, count) in self.not_flows.iter_mut().zip(other.not_flows) {
            *reason += count;
        }
        self.packets_not_sampled += other.packets_not_sampled;
        self.fragments_held += other.fragments_held;
        self.fragments_of_tunnels += other.fragments_of_tunnels;
        self.fragments_without_first += other.fragments_without_first;
        self.flows_begun += other.flows_begun;
        self.flows_ended += other.flows_ended;
        self.flows_evicted += other.flows_evicted;
        self.flows_peak += other.flows_peak;
        self.tunnel_pairs_forgotten += other.tunnel_pairs_forgotten;
        self.handshakes_cut += other.handshakes_cut;
        self.payloads_malformed += other.payloads_malformed;
    }

    /// Takes over what a cache counted.
    pub(crate) fn set_cache(&mut self, cache: &CacheCounts) {
        self.packets_in_flows = cache.packets;
        self.flows_begun = cache.flows_begun;
        self.flows_evicted = cache.flows_evicted;
        self.flows_peak = cache.flows_peak;
    }

    /// Takes over what inspections counted.
    pub(crate) fn set_inspections(&mut self, inspections: &application::Counts) {
        self.handshakes_cut = inspections.handshakes_cut + inspections.buffers_refused;
        self.payloads_malformed = inspections.malformed;
    }

    /// Packets that belong to no flow, for whatever reason.
    pub fn not_flows_total(&self) -> u64 {
        self.not_flows.iter().sum()
    }

    /// Whether every packet is in one of the counts, which holds when nothing is on its way.
    pub fn balances(&self) -> bool {
        let in_no_flow = self.not_flows_total() + self.packets_not_sampled + self.fragments_of_tunnels;
        self.packets == self.packets_in_flows + in_no_flow + self.fragments_held
    }
}
