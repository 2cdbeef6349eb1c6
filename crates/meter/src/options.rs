//! How to meter.

use std::net::IpAddr;

use weir_routes::SharedRouteTable;

use crate::key::KeyFields;
use crate::measures::Measures;
use crate::sampling::{Sampler, Selection};

/// When flows end. All times are those of the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// A flow ends when it has gone on for this long, in microseconds.
    pub active_us: i64,
    /// A flow ends when no packet came for this long.
    pub idle_us: i64,
    /// Flows of few packets end sooner.
    pub fast: Option<FastTimeout>,
    /// A flow that TCP has ended (RST, or FIN of each direction that is counted) waits this long for what is still on
    /// its way, and ends before that with the next SYN.
    pub closed_us: i64,
}

/// The idle timeout of flows of few packets, such as questions and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastTimeout {
    /// A flow of at most `packets_max` packets ends when none came for this long, in microseconds.
    pub idle_us: i64,
    /// Most packets of such a flow.
    pub packets_max: u64,
}

impl Default for Timeouts {
    /// Active 30 minutes, idle 15 seconds (the usual defaults of routers), no fast timeout, 2 seconds after TCP's end.
    fn default() -> Self {
        Self { active_us: 1_800_000_000, idle_us: 15_000_000, fast: None, closed_us: 2_000_000 }
    }
}

/// The configuration of a Metering Process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeterOptions {
    /// The Flow Keys.
    pub fields: KeyFields,
    /// Whether both directions make one flow (RFC 5103).
    pub is_biflow: bool,
    /// When flows end.
    pub timeouts: Timeouts,
    /// Most flows at the same time, over all workers.
    pub flows_max: usize,
    /// What flows have next to their counters.
    pub measures: Measures,
    /// Where flows get the networks of their addresses from: autonomous systems, lengths of prefixes, next hops. Which
    /// system of a path, that of the origin or of the neighbour, was decided when the table was made.
    pub routes: Option<SharedRouteTable>,
    /// Which packets are metered, one in how many; `None` for all.
    pub sampling: Option<(Selection, u32)>,
    /// Address that flows have as their exporter.
    pub exporter: Option<IpAddr>,
    /// Observation Domain of the flows.
    pub observation_domain: u32,
    /// Seed of the hash of Flow Keys, and of sampling.
    pub seed: u64,
}

impl MeterOptions {
    pub(crate) fn sampler(&self) -> Option<Sampler> {
        self.sampling.map(|(selection, interval)| Sampler::new(selection, interval, self.seed))
    }
}

impl Default for MeterOptions {
    /// Uniflows, one million of them at the same time, with a seed that is different each time.
    fn default() -> Self {
        use std::hash::{BuildHasher, RandomState};
        Self {
            fields: KeyFields::default(),
            is_biflow: false,
            timeouts: Timeouts::default(),
            flows_max: 1_000_000,
            measures: Measures::default(),
            routes: None,
            sampling: None,
            exporter: None,
            observation_domain: 0,
            seed: RandomState::new().hash_one(0_u8),
        }
    }
}
