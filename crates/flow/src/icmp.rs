//! Requests and answers of ICMP and `ICMPv6`.

/// IP protocol number of ICMP.
pub const ICMP: u8 = 1;
/// IP protocol number of `ICMPv6`.
pub const ICMPV6: u8 = 58;

/// Types of ICMP (RFC 792, RFC 950, RFC 1256) that answer each other.
const PAIRS: [(u8, u8); 5] = [(8, 0), (13, 14), (15, 16), (17, 18), (10, 9)];
/// Types of `ICMPv6` (RFC 4443, RFC 2710, RFC 4861, RFC 4620, RFC 6275) that answer each other.
const PAIRS_V6: [(u8, u8); 6] = [(128, 129), (130, 131), (133, 134), (135, 136), (139, 140), (144, 145)];

/// The type that answers this one, or that it answers.
pub fn answer(protocol: u8, kind: u8) -> Option<u8> {
    let pairs: &[(u8, u8)] = match protocol {
        ICMP => &PAIRS,
        ICMPV6 => &PAIRS_V6,
        _ => return None,
    };
    pairs.iter().find_map(|&(request, reply)| match kind {
        _ if kind == request => Some(reply),
        _ if kind == reply => Some(request),
        _ => None,
    })
}
