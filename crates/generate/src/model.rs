//! What traffic looks like.

use crate::flows::Flows;
use crate::scenes::Scene;

/// A service that clients talk to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    /// IP protocol: 6, 17, or 1 for ICMP, which becomes 58 in IPv6 and has no port.
    pub protocol: u8,
    /// Port of the server.
    pub port: u16,
    /// How often it is used, relative to the sum of all weights.
    pub weight: u32,
}

/// A model of traffic, with everything that decides about the flows. Times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrafficModel {
    /// Chooses among all the traffic that the model describes.
    pub seed: u64,
    /// About how many hosts there are, one in eight of them inside;
    /// [`HOSTS_MIN`](Self::HOSTS_MIN) to [`HOSTS_MAX`](Self::HOSTS_MAX).
    pub hosts: u32,
    /// How many of 1000 conversations are IPv6.
    pub ipv6_permille: u16,
    /// The services with names of their own, at most [`SERVICES_MAX`](Self::SERVICES_MAX).
    pub services: Vec<Service>,
    /// Weight of all other services together, whose ports are 1024 to 32767, the low ones more often.
    pub other_services_weight: u32,
    /// When the simulated clock starts, milliseconds since the epoch.
    pub start_ms: i64,
    /// How many flows the simulated clock lets pass in a second.
    pub flows_per_second: u32,
    /// Flows are cut when they last so long.
    pub active_timeout_ms: u32,
    /// Flows are told up to so long after their end.
    pub idle_timeout_ms: u32,
    /// Whether flows have elements without a column: 32473/1 (an enterprise number for examples, RFC 5612), and for
    /// web traffic httpRequestHost 460, whose length varies.
    pub elements: bool,
    /// Whether `bytes` is the number of the flow from 0, modulo 2^32, so that whoever receives flows can tell which
    /// are missing and which came twice.
    pub numbered: bool,
    /// Whether flows have the column `received`, filled from the simulated clock, so that they can go into an archive
    /// without a collector.
    pub received: bool,
    /// What is planted into the traffic, at most [`SCENES_MAX`](Self::SCENES_MAX). Its flows come on top of the others.
    pub scenes: Vec<Scene>,
}

/// A model that describes no traffic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// Too few or too many hosts.
    #[error("{hosts} hosts: between {min} and {max} are possible")]
    Hosts {
        /// As given.
        hosts: u32,
        /// Fewest possible.
        min: u32,
        /// Most possible.
        max: u32,
    },
    /// A share of IPv6 over 1000 in 1000.
    #[error("{permille} in 1000 conversations cannot be IPv6")]
    Ipv6Share {
        /// As given.
        permille: u16,
    },
    /// Too many services, or none with a weight.
    #[error("{services} services: at most {max} are possible, and the sum of weights must be between 1 and 2^32 - 1")]
    Services {
        /// As given.
        services: usize,
        /// Most possible.
        max: usize,
    },
    /// A clock that stands still.
    #[error("simulated clock needs at least 1 flow per second")]
    Clock,
    /// Too many scenes.
    #[error("{scenes} scenes: at most {max} are possible")]
    Scenes {
        /// As given.
        scenes: usize,
        /// Most possible.
        max: usize,
    },
    /// A scene before the first flow.
    #[error("scene '{scene}' begins {early_ms} ms before the flows do")]
    SceneEarly {
        /// Name of its kind.
        scene: &'static str,
        /// By how much, in milliseconds.
        early_ms: i64,
    },
    /// Scenes in flows whose octets are their number.
    #[error("flows whose bytes are their number have no scenes")]
    SceneNumbered,
}

impl TrafficModel {
    /// Fewest hosts.
    pub const HOSTS_MIN: u32 = 1 << 10;
    /// Most hosts.
    pub const HOSTS_MAX: u32 = 1 << 23;
    /// Most services with names of their own.
    pub const SERVICES_MAX: usize = 4096;
    /// Most scenes.
    pub const SCENES_MAX: usize = 64;

    /// IPv4 flows among a million hosts, 1.25 % of them with port 22, 10000 in a simulated second from
    /// 2026-01-01T00:00:00Z on.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            hosts: 1 << 20,
            ipv6_permille: 0,
            services: SERVICES.iter().map(|&(protocol, port, weight)| Service { protocol, port, weight }).collect(),
            other_services_weight: 1_000,
            start_ms: 1_767_225_600_000,
            flows_per_second: 10_000,
            active_timeout_ms: 60_000,
            idle_timeout_ms: 15_000,
            elements: false,
            numbered: false,
            received: false,
            scenes: Vec::new(),
        }
    }

    /// The first `count` flows.
    pub fn flows(&self, count: u64) -> Result<Flows, ModelError> {
        self.check()?;
        Ok(Flows::new(self.clone(), count))
    }

    pub(crate) fn check(&self) -> Result<(), ModelError> {
        if !(Self::HOSTS_MIN..=Self::HOSTS_MAX).contains(&self.hosts) {
            return Err(ModelError::Hosts { hosts: self.hosts, min: Self::HOSTS_MIN, max: Self::HOSTS_MAX });
        }
        if self.ipv6_permille > 1000 {
            return Err(ModelError::Ipv6Share { permille: self.ipv6_permille });
        }
        let named: u64 = self.services.iter().map(|service| u64::from(service.weight)).sum();
        let weights = named + u64::from(self.other_services_weight);
        if self.services.len() > Self::SERVICES_MAX || weights == 0 || weights > u32::MAX.into() {
            return Err(ModelError::Services { services: self.services.len(), max: Self::SERVICES_MAX });
        }
        if self.flows_per_second == 0 {
            return Err(ModelError::Clock);
        }
        self.check_scenes()
    }

    fn check_scenes(&self) -> Result<(), ModelError> {
        if self.scenes.len() > Self::SCENES_MAX {
            return Err(ModelError::Scenes { scenes: self.scenes.len(), max: Self::SCENES_MAX });
        }
        if let Some(scene) = self.scenes.iter().find(|scene| scene.at_ms < self.start_ms) {
            let early_ms = self.start_ms.saturating_sub(scene.at_ms);
            return Err(ModelError::SceneEarly { scene: scene.kind.name(), early_ms });
        }
        if self.numbered && !self.scenes.is_empty() {
            return Err(ModelError::SceneNumbered);
        }
        Ok(())
    }
}

/// Protocol, port and weight in 10000 together with the other services.
const SERVICES: &[(u8, u16, u32)] = &[
    (6, 443, 3_100),
    (17, 443, 900),
    (17, 53, 1_900),
    (6, 80, 1_050),
    (1, 0, 375),
    (6, 22, 125),
    (17, 123, 300),
    (6, 25, 150),
    (6, 993, 140),
    (6, 445, 130),
    (6, 3389, 110),
    (6, 8080, 100),
    (17, 161, 90),
    (6, 23, 80),
    (17, 5060, 70),
    (6, 587, 60),
    (6, 3306, 50),
    (6, 5432, 50),
    (17, 1900, 40),
    (6, 8443, 40),
    (6, 21, 30),
    (17, 500, 30),
    (17, 4500, 30),
    (47, 0, 20),
    (50, 0, 30),
];
