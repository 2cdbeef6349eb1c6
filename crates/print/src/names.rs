//! Names of protocols and letters of TCP flags.

/// Keywords of the IANA registry "Assigned Internet Protocol Numbers" that are met in flows.
const PROTOCOLS: &[(u8, &str)] = &[
    (0, "HOPOPT"),
    (1, "ICMP"),
    (2, "IGMP"),
    (4, "IPv4"),
    (6, "TCP"),
    (8, "EGP"),
    (9, "IGP"),
    (17, "UDP"),
    (27, "RDP"),
    (33, "DCCP"),
    (41, "IPv6"),
    (43, "IPv6-Route"),
    (44, "IPv6-Frag"),
    (46, "RSVP"),
    (47, "GRE"),
    (50, "ESP"),
    (51, "AH"),
    (58, "IPv6-ICMP"),
    (59, "IPv6-NoNxt"),
    (60, "IPv6-Opts"),
    (88, "EIGRP"),
    (89, "OSPFIGP"),
    (94, "IPIP"),
    (97, "ETHERIP"),
    (98, "ENCAP"),
    (103, "PIM"),
    (108, "IPComp"),
    (112, "VRRP"),
    (115, "L2TP"),
    (124, "ISIS over IPv4"),
    (132, "SCTP"),
    (133, "FC"),
    (136, "UDPLite"),
    (137, "MPLS-in-IP"),
    (139, "HIP"),
    (140, "Shim6"),
];

/// Keyword of an IP protocol, if it is one that is met in flows.
pub fn protocol_name(number: u8) -> Option<&'static str> {
    let position = PROTOCOLS.binary_search_by_key(&number, |(number, _)| *number).ok()?;
    Some(PROTOCOLS[position].1)
}

/// Letters of the TCP control bits from the highest, `CEUAPRSF`, a dot for each bit that is not set. Bits above the
/// eighth have no letters.
pub fn tcp_flags_text(flags: u16) -> [u8; 8] {
    let mut letters = *b"CEUAPRSF";
    for (position, letter) in letters.iter_mut().enumerate() {
        if flags & (0x80 >> position) == 0 {
            *letter = b'.';
        }
    }
    letters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_sorted_and_found() {
        assert!(PROTOCOLS.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!((protocol_name(6), protocol_name(132), protocol_name(253)), (Some("TCP"), Some("SCTP"), None));
    }

    #[test]
    fn flags_have_their_places() {
        assert_eq!(&tcp_flags_text(0x12), b"...A..S.");
        assert_eq!(&tcp_flags_text(0xff), b"CEUAPRSF");
        assert_eq!(&tcp_flags_text(0x100), b"........");
    }
}
