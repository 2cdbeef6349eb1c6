//! Conversations: both directions of what has one five-tuple, whoever began.

use std::net::SocketAddr;

/// Types of ICMP and `ICMPv6` that answer each other (RFC 792, RFC 950, RFC 1256, RFC 4443, RFC 4861, RFC 2710).
const ANSWERS: [&[(u8, u8)]; 2] = [
    &[(8, 0), (13, 14), (15, 16), (17, 18), (10, 9)],
    &[(128, 129), (130, 131), (133, 134), (135, 136), (139, 140), (144, 145)],
];

/// Protocol and both ends, the lower one first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Conversation {
    pub(crate) protocol: u8,
    pub(crate) low: SocketAddr,
    pub(crate) high: SocketAddr,
    /// Type of ICMP, of a question and its answer that of the question.
    pub(crate) icmp: Option<u8>,
}

/// Packets and octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Side {
    pub(crate) packets: u64,
    pub(crate) octets: u64,
}

/// What each end sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Sides {
    pub(crate) low: Side,
    pub(crate) high: Side,
}

impl Conversation {
    /// The conversation of a packet, and whether its lower end sent it. Ends of ICMP have no port.
    pub(crate) fn of(protocol: u8, source: SocketAddr, destination: SocketAddr, icmp: Option<u8>) -> (Self, bool) {
        let icmp = icmp.map(|kind| question(protocol, kind));
        let (mut from, mut to) = (source, destination);
        if is_icmp(protocol) {
            from.set_port(0);
            to.set_port(0);
        }
        let by_low = from <= to;
        let (low, high) = if by_low { (from, to) } else { (to, from) };
        (Self { protocol, low, high, icmp }, by_low)
    }

    /// Both directions, given what the source and what the destination sent.
    pub(crate) fn sides(by_low: bool, source: Side, destination: Side) -> Sides {
        if by_low { Sides { low: source, high: destination } } else { Sides { low: destination, high: source } }
    }
}

impl Sides {
    pub(crate) fn and(self, other: Self) -> Self {
        let add =
            |one: Side, other: Side| Side { packets: one.packets + other.packets, octets: one.octets + other.octets };
        Self { low: add(self.low, other.low), high: add(self.high, other.high) }
    }

    /// The same without octets, for whoever counts other octets.
    pub(crate) fn packets_only(self) -> Self {
        let only = |side: Side| Side { packets: side.packets, octets: 0 };
        Self { low: only(self.low), high: only(self.high) }
    }

    pub(crate) fn packets(self) -> u64 {
        self.low.packets + self.high.packets
    }
}

pub(crate) const fn is_icmp(protocol: u8) -> bool {
    matches!(protocol, 1 | 58)
}

fn question(protocol: u8, kind: u8) -> u8 {
    let pairs = ANSWERS[usize::from(protocol != 1)];
    pairs.iter().find(|(_, answer)| *answer == kind).map_or(kind, |(asks, _)| *asks)
}
