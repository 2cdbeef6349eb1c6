//! The same traffic seen by two routers, one behind the other.
//!
//! Packets pass the first router and, some milliseconds later and unless they are lost, the second one. Each keeps a
//! flow cache and exports records as Kögel and Scholz describe it ("Processing of Flow Accounting Data in Java", 2010,
//! section 2.1): after an active, an inactive and a fast timeout, and early when the cache is full. So records come
//! sorted neither by start nor by end, a conversation is told in several of them, and the two routers cut it at
//! different places. What was planted is known exactly ([`Truth`]), so that the paper's chain of sorters, joiners, a
//! correlator and statistics can be checked and not only be measured.
//!
//! Each router is simulated on its own, from the same stream of conversations. That keeps memory bounded by a few
//! minutes of traffic and lets the routers run in different threads; what speaks against it is that the conversations
//! are drawn twice. The packets of one conversation keep an even step, so there are no bursts inside it.

use std::net::Ipv4Addr;

use crate::model::{ModelError, Service, TrafficModel};

mod agenda;
mod cache;
mod keys;
mod packets;
mod plan;
mod records;
#[cfg(test)]
mod tests;
mod truth;

pub use records::RouterRecords;
pub use truth::{Histogram, Truth};

/// One of the two routers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Router {
    /// The one that every packet passes.
    First,
    /// The one behind it.
    Second,
}

impl Router {
    /// Where its export datagrams come from.
    pub const fn address(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 255, 0, 1 + self as u8)
    }
}

/// A model of traffic that passes two routers, with everything that decides about their records.
///
/// ```
/// use weir_generate::{Router, RouterPair};
/// let pair = RouterPair::new(7);
/// let truth = pair.truth(1_000)?;
/// let mut second = pair.records(Router::Second, 1_000)?;
/// assert_eq!(second.by_ref().map(|batch| batch.rows() as u64).sum::<u64>(), truth.records[1]);
/// assert_eq!(second.totals().packets, truth.packets[0] - truth.packets_lost);
/// # Ok::<(), weir_generate::RouterPairError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterPair {
    /// Chooses among all the traffic that the model describes.
    pub seed: u64,
    /// As in [`TrafficModel::hosts`].
    pub hosts: u32,
    /// As in [`TrafficModel::ipv6_permille`].
    pub ipv6_permille: u16,
    /// As in [`TrafficModel::services`].
    pub services: Vec<Service>,
    /// As in [`TrafficModel::other_services_weight`].
    pub other_services_weight: u32,
    /// When the first conversation begins, milliseconds since the epoch.
    pub start_ms: i64,
    /// How many conversations begin in a second, on the average over five minutes.
    pub conversations_per_second: u32,
    /// How many of 1000 conversations begin in the last 30 s of each five minutes; 100 make no peak.
    pub peak_permille: u16,
    /// How many of 1000 conversations send a packet each 0.5 to 31.5 s; the others each 1 to 2047 ms.
    pub slow_permille: u16,
    /// How many of 1000 conversations of several packets pause once, for 20 to 100 s.
    pub paused_permille: u16,
    /// Shortest delay from the first router to the second.
    pub delay_base_ms: u32,
    /// How much longer it can be. It is the same for all packets of a conversation.
    pub delay_jitter_ms: u32,
    /// How many of 1000 packets are lost between the routers, on the average over conversations.
    pub loss_permille: u16,
    /// How many of 1000 conversations lose all their packets, whatever `loss_permille` says.
    pub unseen_permille: u16,
    /// How many of 1000 conversations the second router counts the octets of wrongly.
    pub miscounted_permille: u16,
    /// How many octets of each packet it then counts too many or, as often, too few.
    pub miscounted_octets: u16,
    /// Entries are exported when they are so old.
    pub active_timeout_ms: u32,
    /// Entries are exported when there was no packet for so long.
    pub inactive_timeout_ms: u32,
    /// Entries are exported when they are so old and have fewer than `fast_packets` packets.
    pub fast_timeout_ms: u32,
    /// 0 for no fast timeout.
    pub fast_packets: u32,
    /// When there are more entries in a cache, those are exported that were opened first.
    pub cache_entries_max: u32,
    /// Routers look at their timers so often, so that records come up to so much later than a timeout says.
    pub timer_check_ms: u32,
    /// How long after the start of the model the first and the second router look at their timers, and every
    /// `timer_check_ms` before and after that.
    pub timer_phases_ms: [u32; 2],
}

/// A model of two routers that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouterPairError {
    /// Hosts or services.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A number that is too small or too large.
    #[error("{name} = {value}: between {min} and {max} are possible")]
    OutOfRange {
        /// Name of the field.
        name: &'static str,
        /// As given.
        value: u64,
        /// Smallest possible.
        min: u64,
        /// Largest possible.
        max: u64,
    },
    /// Too many conversations whose keys have no port.
    #[error(
        "{conversations} conversations without ports begin while no key may come again: among {hosts} hosts at most \
         {max} are possible"
    )]
    WithoutPorts {
        /// How many there would be.
        conversations: u64,
        /// Number of hosts.
        hosts: u32,
        /// Most possible.
        max: u64,
    },
}

impl RouterPair {
    /// Longest time from the first to the last packet of a conversation.
    pub const DURATION_MS_MAX: u64 = 1_200_000;
    /// Longest time between two packets of a conversation at either router, less than half of the five minutes that
    /// the paper's joiner waits: two slow steps, when the packet between them is lost, and a pause.
    pub const GAP_MS_MAX: u64 = 2 * 31_500 + Self::PAUSE_MS_MAX as u64 + 2;
    /// So many conversations of [`new`](Self::new) make about 65 million records of both routers together, as many as
    /// the paper's measurements have. They begin within 6,520 s; the last of them are exported twenty minutes later.
    pub const REFERENCE_CONVERSATIONS: u64 = 21_384_000;
    /// No key comes again at either router for so long after its conversation ended there, which is more than the
    /// five minutes that the paper's joiner waits.
    pub const KEY_REST_MS: u64 = 360_000;
    /// Longest delay possible.
    pub const DELAY_MS_MAX: u32 = 10_000;
    /// From one beginning of a conversation to the next one with the same key. The clock that keys go by has whole
    /// seconds, hence the second more.
    const REUSE_MS: u64 = Self::DURATION_MS_MAX + Self::DELAY_MS_MAX as u64 + Self::KEY_REST_MS + 1000;
    const PAUSE_MS_MIN: u32 = 20_000;
    const PAUSE_MS_MAX: u32 = 100_000;

    /// IPv4 traffic among a million hosts from 2026-01-01T00:00:00Z on, with 5,000 records in a second from each
    /// router; delays of 12 to 40 ms, 0.5 % of packets lost.
    pub fn new(seed: u64) -> Self {
        let TrafficModel { hosts, ipv6_permille, services, other_services_weight, start_ms, .. } =
            TrafficModel::new(seed);
        Self {
            seed,
            hosts,
            ipv6_permille,
            services,
            other_services_weight,
            start_ms,
            conversations_per_second: 3_280,
            peak_permille: 150,
            slow_permille: 150,
            paused_permille: 150,
            delay_base_ms: 12,
            delay_jitter_ms: 28,
            loss_permille: 5,
            unseen_permille: 2,
            miscounted_permille: 50,
            miscounted_octets: 4,
            active_timeout_ms: 60_000,
            inactive_timeout_ms: 15_000,
            fast_timeout_ms: 5_000,
            fast_packets: 3,
            cache_entries_max: 48_000,
            timer_check_ms: 100,
            timer_phases_ms: [0, 37],
        }
    }

    /// What a router exports of the first `conversations` conversations, all of it.
    pub fn records(&self, router: Router, conversations: u64) -> Result<RouterRecords, RouterPairError> {
        self.check()?;
        Ok(RouterRecords::new(self, router, conversations))
    }

    /// What is true of the first `conversations` conversations. It takes the time of generating them three times, and
    /// no memory to speak of.
    pub fn truth(&self, conversations: u64) -> Result<Truth, RouterPairError> {
        self.check()?;
        Ok(Truth::new(self, conversations))
    }

    /// Whether such routers can be.
    pub fn check(&self) -> Result<(), RouterPairError> {
        self.traffic().check()?;
        let ranges: [(&'static str, u32, u32, u32); 15] = [
            ("conversations_per_second", self.conversations_per_second, 1, 20_000),
            ("peak_permille", self.peak_permille.into(), 0, 1000),
            ("slow_permille", self.slow_permille.into(), 0, 1000),
            ("paused_permille", self.paused_permille.into(), 0, 1000),
            ("delay_base_ms", self.delay_base_ms, 0, Self::DELAY_MS_MAX / 2),
            ("delay_jitter_ms", self.delay_jitter_ms, 0, Self::DELAY_MS_MAX / 2),
            // Three times as many are at most every second one.
            ("loss_permille", self.loss_permille.into(), 0, 166),
            ("unseen_permille", self.unseen_permille.into(), 0, 1000),
            ("miscounted_permille", self.miscounted_permille.into(), 0, 1000),
            // An IPv4 header, which no packet is smaller than.
            ("miscounted_octets", self.miscounted_octets.into(), 0, 20),
            ("active_timeout_ms", self.active_timeout_ms, 1000, 1_800_000),
            ("inactive_timeout_ms", self.inactive_timeout_ms, 1000, 1_800_000),
            ("fast_timeout_ms", self.fast_timeout_ms, 1000, 1_800_000),
            ("cache_entries_max", self.cache_entries_max, 1, u32::MAX),
            ("timer_check_ms", self.timer_check_ms, 1, 60_000),
        ];
        for (name, value, min, max) in ranges {
            if !(min..=max).contains(&value) {
                let [value, min, max] = [value, min, max].map(u64::from);
                return Err(RouterPairError::OutOfRange { name, value, min, max });
            }
        }
        let (conversations, inside) = (self.without_ports(), u64::from(self.hosts / 8));
        // A quarter of the pairs of a host inside and one outside, so that a free one is soon found.
        let max = keys::WITHOUT_PORTS_MAX.min(inside * (u64::from(self.hosts) - inside) / 4);
        if conversations > max {
            return Err(RouterPairError::WithoutPorts { conversations, hosts: self.hosts, max });
        }
        Ok(())
    }

    /// About how many conversations without ports begin while no key may come again.
    fn without_ports(&self) -> u64 {
        let has_ports = |service: &&Service| matches!(service.protocol, 6 | 17);
        let weight = |service: &Service| u64::from(service.weight);
        let all: u64 = self.services.iter().map(weight).sum::<u64>() + u64::from(self.other_services_weight);
        let with_ports: u64 = self.services.iter().filter(has_ports).map(weight).sum::<u64>();
        let without_ports = all - with_ports - u64::from(self.other_services_weight);
        let begun = u64::from(self.conversations_per_second) * Self::REUSE_MS.div_ceil(1000);
        (begun * without_ports).div_ceil(all.max(1))
    }

    /// Who talks to whom.
    fn traffic(&self) -> TrafficModel {
        TrafficModel {
            hosts: self.hosts,
            ipv6_permille: self.ipv6_permille,
            services: self.services.clone(),
            other_services_weight: self.other_services_weight,
            ..TrafficModel::new(self.seed)
        }
    }
}
