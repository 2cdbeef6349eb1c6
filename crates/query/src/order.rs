//! By what answers are sorted.

/// By what answers are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// Number of flows.
    Flows,
    /// Number of packets.
    Packets,
    /// Number of octets.
    Bytes,
    /// Packets per second.
    PacketsPerSecond,
    /// Bits per second.
    BitsPerSecond,
    /// Octets per packet.
    BytesPerPacket,
    /// Start of the first flow.
    Start,
    /// End of the last flow.
    End,
    /// Time from start to end.
    Duration,
}

/// Which way answers are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The smallest first.
    Ascending,
    /// The largest first.
    Descending,
}

/// By what answers are sorted, and which way. What is null comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sorting {
    /// By what.
    pub order: Order,
    /// Which way.
    pub direction: Direction,
}

impl Order {
    /// nfdump's names of all orders.
    pub const NAMES: [&str; 9] = ["flows", "packets", "bytes", "pps", "bps", "bpp", "tstart", "tend", "duration"];

    /// The order of nfdump's name for it: `flows`, `packets`, `bytes`, `pps`, `bps`, `bpp`, `tstart`, `tend`,
    /// `duration`. The names for one direction (`ibyte`, `ibps`, …) mean the plain counters, which are those.
    pub fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "flows" => Self::Flows,
            "packets" | "ipkg" | "ipackets" => Self::Packets,
            "bytes" | "ibyte" | "ibytes" => Self::Bytes,
            "pps" | "ipps" => Self::PacketsPerSecond,
            "bps" | "ibps" => Self::BitsPerSecond,
            "bpp" | "ibpp" => Self::BytesPerPacket,
            "tstart" => Self::Start,
            "tend" => Self::End,
            "duration" => Self::Duration,
            _ => return None,
        })
    }

    /// The way nfdump sorts unless asked otherwise: times ascending, the rest descending.
    pub fn usual_direction(self) -> Direction {
        match self {
            Self::Start | Self::End => Direction::Ascending,
            _ => Direction::Descending,
        }
    }

    /// Name of its column in an aggregated answer.
    pub fn column_name(self) -> &'static str {
        match self {
            Self::Flows => "flows",
            Self::Packets => "packets",
            Self::Bytes => "bytes",
            Self::PacketsPerSecond => "packets_per_second",
            Self::BitsPerSecond => "bits_per_second",
            Self::BytesPerPacket => "bytes_per_packet",
            Self::Start => "start",
            Self::End => "end",
            Self::Duration => "duration_ms",
        }
    }
}

impl Sorting {
    /// By `order`, the usual way.
    pub fn usual(order: Order) -> Self {
        Self { order, direction: order.usual_direction() }
    }

    /// Whether the smallest come first.
    pub fn is_ascending(self) -> bool {
        self.direction == Direction::Ascending
    }
}
