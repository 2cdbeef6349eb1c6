//! Names of IP protocols.

/// An IP protocol and its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocol {
    /// Its number.
    pub number: u8,
    /// The keyword of the IANA registry "Assigned Internet Protocol Numbers", for those that are often in flows; the
    /// others are shown as numbers.
    pub keyword: Option<&'static str>,
    /// The names that filters take, in lower case: keywords, and what exporters and other tools write. The first one is
    /// the one to show.
    pub filter_names: &'static [&'static str],
}

const fn protocol(number: u8, keyword: Option<&'static str>, filter_names: &'static [&'static str]) -> Protocol {
    Protocol { number, keyword, filter_names }
}

/// All protocols that have a name, by their numbers.
pub const PROTOCOLS: &[Protocol] = &[
    protocol(0, Some("HOPOPT"), &["hopopt"]),
    protocol(1, Some("ICMP"), &["icmp"]),
    protocol(2, Some("IGMP"), &["igmp"]),
    protocol(3, None, &["ggp"]),
    protocol(4, Some("IPv4"), &["ipip", "ipv4"]),
    protocol(5, None, &["st"]),
    protocol(6, Some("TCP"), &["tcp"]),
    protocol(7, None, &["cbt"]),
    protocol(8, Some("EGP"), &["egp"]),
    protocol(9, Some("IGP"), &["igp"]),
    protocol(12, None, &["pup"]),
    protocol(16, None, &["chaos"]),
    protocol(17, Some("UDP"), &["udp"]),
    protocol(18, None, &["mux"]),
    protocol(20, None, &["hmp"]),
    protocol(22, None, &["xns-idp"]),
    protocol(27, Some("RDP"), &["rdp"]),
    protocol(28, None, &["irtp"]),
    protocol(29, None, &["iso-tp4"]),
    protocol(33, Some("DCCP"), &["dccp"]),
    protocol(36, None, &["xtp"]),
    protocol(37, None, &["ddp"]),
    protocol(40, None, &["il"]),
    protocol(41, Some("IPv6"), &["ipv6"]),
    protocol(42, None, &["sdrp"]),
    protocol(43, Some("IPv6-Route"), &["ipv6-route"]),
    protocol(44, Some("IPv6-Frag"), &["ipv6-frag"]),
    protocol(45, None, &["idrp"]),
    protocol(46, Some("RSVP"), &["rsvp"]),
    protocol(47, Some("GRE"), &["gre"]),
    protocol(48, None, &["dsr"]),
    protocol(50, Some("ESP"), &["esp"]),
    protocol(51, Some("AH"), &["ah"]),
    protocol(53, None, &["swipe"]),
    protocol(54, None, &["narp"]),
    protocol(55, None, &["mobile"]),
    protocol(57, None, &["skip"]),
    protocol(58, Some("IPv6-ICMP"), &["icmp6", "icmpv6", "ipv6-icmp"]),
    protocol(59, Some("IPv6-NoNxt"), &["ipv6-nonxt"]),
    protocol(60, Some("IPv6-Opts"), &["ipv6-opts"]),
    protocol(88, Some("EIGRP"), &["eigrp"]),
    protocol(89, Some("OSPFIGP"), &["ospf", "ospfigp"]),
    protocol(92, None, &["mtp"]),
    protocol(93, None, &["ax.25"]),
    protocol(94, Some("IPIP"), &[]),
    protocol(97, Some("ETHERIP"), &["etherip"]),
    protocol(98, Some("ENCAP"), &["encap"]),
    protocol(103, Some("PIM"), &["pim"]),
    protocol(108, Some("IPComp"), &["ipcomp"]),
    protocol(112, Some("VRRP"), &["vrrp"]),
    protocol(113, None, &["pgm"]),
    protocol(115, Some("L2TP"), &["l2tp"]),
    protocol(116, None, &["ddx"]),
    protocol(124, Some("ISIS over IPv4"), &["isis"]),
    protocol(126, None, &["crtp"]),
    protocol(132, Some("SCTP"), &["sctp"]),
    protocol(133, Some("FC"), &["fc"]),
    protocol(135, None, &["mobility-header"]),
    protocol(136, Some("UDPLite"), &["udplite"]),
    protocol(137, Some("MPLS-in-IP"), &["mpls-in-ip"]),
    protocol(138, None, &["manet"]),
    protocol(139, Some("HIP"), &["hip"]),
    protocol(140, Some("Shim6"), &["shim6"]),
    protocol(141, None, &["wesp"]),
    protocol(142, None, &["rohc"]),
    protocol(143, None, &["ethernet"]),
];

/// Keyword of an IP protocol, if it is one that is often in flows.
pub fn protocol_name(number: u8) -> Option<&'static str> {
    let position = PROTOCOLS.binary_search_by_key(&number, |protocol| protocol.number).ok()?;
    PROTOCOLS[position].keyword
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn protocols_are_sorted_and_found() {
        assert!(PROTOCOLS.is_sorted_by(|a, b| a.number < b.number));
        assert_eq!((protocol_name(6), protocol_name(132), protocol_name(253)), (Some("TCP"), Some("SCTP"), None));
        assert_eq!(protocol_name(113), None, "PGM is shown as a number");
    }

    #[test]
    fn names_are_unique_and_in_lower_case() {
        let names: Vec<_> = PROTOCOLS.iter().flat_map(|protocol| protocol.filter_names).collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        assert!(names.iter().all(|name| **name == name.to_ascii_lowercase()));
    }
}
