//! What a follower is given.

use std::time::Duration;

use weir_flow::{Column, FlowBatch};

use crate::FollowPosition;

/// What a follower meets.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum FollowEvent {
    /// The next delivery.
    Delivery(FollowedDelivery),
    /// Deliveries that cannot be given any more: their flows have expired, were set aside as damaged, or were lost with
    /// a file. Some of them may have had no flows.
    Gap {
        /// The position before them.
        after: FollowPosition,
        /// The last of them; the follower is there now.
        through: FollowPosition,
    },
    /// Deliveries that were given and that a crash of the machine took away. Others have their positions now.
    Rewound {
        /// Where the follower was.
        from: FollowPosition,
        /// The last delivery that is left; the follower goes on after it.
        to: FollowPosition,
    },
}

/// A delivery.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FollowedDelivery {
    /// Its position. A follower that has handled the delivery and keeps this continues after it later.
    pub position: FollowPosition,
    /// Its flows; `None` when it had none. Columns without a value may be left out.
    pub flows: Option<FlowBatch>,
    /// Flows of it that have expired, or are lost: of a delivery of two days one may be gone.
    pub rows_missing: u64,
    /// Whether it is known to survive a crash of the machine. What is read from the tail of another process is not,
    /// even when it does.
    pub is_durable: bool,
}

/// How far a follower is behind the newest delivery.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Behind {
    /// Deliveries.
    pub deliveries: u64,
    /// Octets that they take where they are, in memory or in tails; `None` while they are read from segments.
    pub octets: Option<u64>,
}

/// Options of a [`Follower`](crate::Follower).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowOptions {
    /// Columns to give; `None` for all.
    pub columns: Option<Vec<Column>>,
    /// How often files are looked at for something new. In the process of the writer nothing is looked at while it
    /// writes. Default: 100 ms.
    pub poll_interval: Duration,
    /// Octets of rows of segments in memory, about: what is sealed is read in windows of so many. One delivery is read
    /// whole, whatever it takes. Default: 256 MiB.
    pub window_octets_max: u64,
    /// Octets of deliveries that the writer keeps in memory for followers in its own process; what is older is read from
    /// files. The largest number of all followers counts. Default: 64 MiB.
    pub ring_octets_max: u64,
}

impl Default for FollowOptions {
    fn default() -> Self {
        Self {
            columns: None,
            poll_interval: Duration::from_millis(100),
            window_octets_max: 256 << 20,
            ring_octets_max: 64 << 20,
        }
    }
}
