//! What Wireshark's dissector sees innermost, read from the fields that it prints for a frame.

use std::net::IpAddr;

/// The fields that are asked for, in this order.
pub(super) const FIELDS: [&str; 17] = [
    "frame.protocols",
    "ip.src",
    "ip.dst",
    "ip.proto",
    "ipv6.src",
    "ipv6.dst",
    "tcp.srcport",
    "tcp.dstport",
    "udp.srcport",
    "udp.dstport",
    "sctp.srcport",
    "sctp.dstport",
    "dccp.srcport",
    "dccp.dstport",
    "tcp.flags",
    "tcp.len",
    "udp.length",
];

/// Protocols that quote packets or tell of them: what follows is not the packet.
pub(super) const QUOTING: [&str; 6] = ["icmp", "icmpv6", "sflow", "nhrp", "openflow_v1", "lisp"];

/// Names of what IP carries, with their numbers.
const PROTOCOLS: [(&str, u8); 16] = [
    ("tcp", 6),
    ("udp", 17),
    ("udplite", 136),
    ("sctp", 132),
    ("dccp", 33),
    ("icmp", 1),
    ("icmpv6", 58),
    ("igmp", 2),
    ("esp", 50),
    ("gre", 47),
    ("ospf", 89),
    ("pim", 103),
    ("vrrp", 112),
    ("eigrp", 88),
    ("rsvp", 46),
    ("l2tp", 115),
];
/// Headers between IP and what it carries.
const EXTENSIONS: [&str; 10] = [
    "ipv6.hopopts",
    "ipv6.dstopts",
    "ipv6.routing",
    "ipv6.fraghdr",
    "ipv6.mipv6",
    "mipv6",
    "ah",
    "hip",
    "shim6",
    "ipv6.shim6",
];

/// Source and destination of the innermost IP header, what it carries, and ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tuple {
    pub(super) addresses: Option<[IpAddr; 2]>,
    /// `None` where the other dissector's words do not tell.
    pub(super) protocol: Option<u8>,
    pub(super) ports: Option<[u16; 2]>,
    /// Flags and octets of payload.
    pub(super) tcp: Option<(u16, u32)>,
    /// Octets of payload.
    pub(super) udp: Option<u32>,
}

/// Reads a line of the other dissector.
pub(super) fn theirs(line: &str) -> Tuple {
    let columns: Vec<_> = line.split('\t').collect();
    let protocols: Vec<_> = columns[0].split(':').collect();
    let end = protocols.iter().position(|name| QUOTING.contains(name)).map_or(protocols.len(), |at| at + 1);
    let protocols = &protocols[..end];
    let count = |names: &[&str]| protocols.iter().filter(|name| names.contains(name)).count();
    let nth = |column: usize, nth: usize| -> Option<&str> {
        columns.get(column)?.split(',').nth(nth.checked_sub(1)?).filter(|value| !value.is_empty())
    };
    let Some(at) = protocols.iter().rposition(|name| matches!(*name, "ip" | "ipv6")) else { return Tuple::default() };
    let (source, n) = if protocols[at] == "ip" { (1, count(&["ip"])) } else { (4, count(&["ipv6"])) };
    let addresses = || Some([nth(source, n)?.parse().ok()?, nth(source + 1, n)?.parse().ok()?]);
    let next = protocols[at + 1..].iter().find(|name| !EXTENSIONS.contains(name));
    let named = next.and_then(|next| PROTOCOLS.iter().find(|(name, _)| name == next)).map(|(_, number)| *number);
    let stated = (protocols[at] == "ip").then(|| nth(3, n)?.parse().ok()).flatten();
    let ports = |names: &[&str], column: usize| {
        let n = count(names);
        Some([nth(column, n)?.parse().ok()?, nth(column + 1, n)?.parse().ok()?])
    };
    let tcp = || {
        let n = count(&["tcp"]);
        Some((u16::from_str_radix(nth(14, n)?.trim_start_matches("0x"), 16).ok()?, nth(15, n)?.parse().ok()?))
    };
    let udp = || nth(16, count(&["udp", "udplite"]))?.parse::<u32>().ok()?.checked_sub(8);
    Tuple {
        tcp: next.filter(|name| **name == "tcp").and_then(|_| tcp()),
        udp: next.filter(|name| **name == "udp").and_then(|_| udp()),
        addresses: addresses(),
        protocol: named.or(stated.filter(|_| !protocols.contains(&"ah"))),
        ports: match next {
            Some(&"tcp") => ports(&["tcp"], 6),
            Some(&"udp" | &"udplite") => ports(&["udp", "udplite"], 8),
            Some(&"sctp") => ports(&["sctp"], 10),
            Some(&"dccp") => ports(&["dccp"], 12),
            _ => None,
        },
    }
}
