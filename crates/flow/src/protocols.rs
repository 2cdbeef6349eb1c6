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
    /// Keywords of the registry that are neither shown nor taken by filters, in lower case. They are read in files.
    pub other_names: &'static [&'static str],
    /// The name in nfdump's text, of five letters at most; the same one in 1.7.1 and 1.7.8 (`output_util.c`,
    /// `userio.c`). nfdump calls both 35 and 38 "IDPR".
    pub nfdump_name: Option<&'static str>,
}

const fn protocol(
    number: u8,
    keyword: Option<&'static str>,
    filter_names: &'static [&'static str],
    other_names: &'static [&'static str],
    nfdump_name: Option<&'static str>,
) -> Protocol {
    Protocol { number, keyword, filter_names, other_names, nfdump_name }
}

/// All protocols that have a name, and those between them, so that each is where its number says.
pub const PROTOCOLS: &[Protocol] = &[
    protocol(0, Some("HOPOPT"), &["hopopt"], &[], None),
    protocol(1, Some("ICMP"), &["icmp"], &[], Some("ICMP")),
    protocol(2, Some("IGMP"), &["igmp"], &[], Some("IGMP")),
    protocol(3, None, &["ggp"], &[], Some("GGP")),
    protocol(4, Some("IPv4"), &["ipip", "ipv4"], &[], Some("IPIP")),
    protocol(5, None, &["st"], &[], Some("ST")),
    protocol(6, Some("TCP"), &["tcp"], &[], Some("TCP")),
    protocol(7, None, &["cbt"], &[], Some("CBT")),
    protocol(8, Some("EGP"), &["egp"], &[], Some("EGP")),
    protocol(9, Some("IGP"), &["igp"], &[], Some("IGP")),
    protocol(10, None, &[], &["bbn-rcc-mon"], Some("BBN")),
    protocol(11, None, &[], &["nvp-ii"], Some("NVPII")),
    protocol(12, None, &["pup"], &[], Some("PUP")),
    protocol(13, None, &[], &["argus"], Some("ARGUS")),
    protocol(14, None, &[], &["emcon"], Some("ENCOM")),
    protocol(15, None, &[], &["xnet"], Some("XNET")),
    protocol(16, None, &["chaos"], &[], Some("CHAOS")),
    protocol(17, Some("UDP"), &["udp"], &[], Some("UDP")),
    protocol(18, None, &["mux"], &[], Some("MUX")),
    protocol(19, None, &[], &["dcn-meas"], Some("DCN")),
    protocol(20, None, &["hmp"], &[], Some("HMP")),
    protocol(21, None, &[], &["prm"], Some("PRM")),
    protocol(22, None, &["xns-idp"], &[], Some("XNS")),
    protocol(23, None, &[], &["trunk-1"], Some("Trnk1")),
    protocol(24, None, &[], &["trunk-2"], Some("Trnk2")),
    protocol(25, None, &[], &["leaf-1"], Some("Leaf1")),
    protocol(26, None, &[], &["leaf-2"], Some("Leaf2")),
    protocol(27, Some("RDP"), &["rdp"], &[], Some("RDP")),
    protocol(28, None, &["irtp"], &[], Some("IRTP")),
    protocol(29, None, &["iso-tp4"], &[], Some("ISO-4")),
    protocol(30, None, &[], &["netblt"], Some("NETBK")),
    protocol(31, None, &[], &["mfe-nsp"], Some("MFESP")),
    protocol(32, None, &[], &["merit-inp"], Some("MEINP")),
    protocol(33, Some("DCCP"), &["dccp"], &[], Some("DCCP")),
    protocol(34, None, &[], &["3pc"], Some("3PC")),
    protocol(35, None, &[], &["idpr"], Some("IDPR")),
    protocol(36, None, &["xtp"], &[], Some("XTP")),
    protocol(37, None, &["ddp"], &[], Some("DDP")),
    protocol(38, None, &[], &["idpr-cmtp"], Some("IDPR")),
    protocol(39, None, &[], &["tp++"], Some("TP++")),
    protocol(40, None, &["il"], &[], Some("IL")),
    protocol(41, Some("IPv6"), &["ipv6"], &[], Some("IPv6")),
    protocol(42, None, &["sdrp"], &[], Some("SDRP")),
    protocol(43, Some("IPv6-Route"), &["ipv6-route"], &[], Some("Rte6")),
    protocol(44, Some("IPv6-Frag"), &["ipv6-frag"], &[], Some("Frag6")),
    protocol(45, None, &["idrp"], &[], Some("IDRP")),
    protocol(46, Some("RSVP"), &["rsvp"], &[], Some("RSVP")),
    protocol(47, Some("GRE"), &["gre"], &[], Some("GRE")),
    protocol(48, None, &["dsr"], &[], Some("MHRP")),
    protocol(49, None, &[], &["bna"], Some("BNA")),
    protocol(50, Some("ESP"), &["esp"], &[], Some("ESP")),
    protocol(51, Some("AH"), &["ah"], &[], Some("AH")),
    protocol(52, None, &[], &["i-nlsp"], Some("INLSP")),
    protocol(53, None, &["swipe"], &[], Some("SWIPE")),
    protocol(54, None, &["narp"], &[], Some("NARP")),
    protocol(55, None, &["mobile"], &["min-ipv4"], Some("MOBIL")),
    protocol(56, None, &[], &["tlsp"], Some("TLSP")),
    protocol(57, None, &["skip"], &[], Some("SKIP")),
    protocol(58, Some("IPv6-ICMP"), &["icmp6", "icmpv6", "ipv6-icmp"], &[], Some("ICMP6")),
    protocol(59, Some("IPv6-NoNxt"), &["ipv6-nonxt"], &[], Some("NOHE6")),
    protocol(60, Some("IPv6-Opts"), &["ipv6-opts"], &[], Some("OPTS6")),
    protocol(61, None, &[], &[], Some("HOST")),
    protocol(62, None, &[], &["cftp"], Some("CFTP")),
    protocol(63, None, &[], &[], Some("NET")),
    protocol(64, None, &[], &["sat-expak"], Some("SATNT")),
    protocol(65, None, &[], &["kryptolan"], Some("KLAN")),
    protocol(66, None, &[], &["rvd"], Some("RVD")),
    protocol(67, None, &[], &["ippc"], Some("IPPC")),
    protocol(68, None, &[], &[], Some("FS")),
    protocol(69, None, &[], &["sat-mon"], Some("SATM")),
    protocol(70, None, &[], &["visa"], Some("VISA")),
    protocol(71, None, &[], &["ipcv"], Some("IPCV")),
    protocol(72, None, &[], &["cpnx"], Some("CPNX")),
    protocol(73, None, &[], &["cphb"], Some("CPHB")),
    protocol(74, None, &[], &["wsn"], Some("WSN")),
    protocol(75, None, &[], &["pvp"], Some("PVP")),
    protocol(76, None, &[], &["br-sat-mon"], Some("BSATM")),
    protocol(77, None, &[], &["sun-nd"], Some("SUNND")),
    protocol(78, None, &[], &["wb-mon"], Some("WBMON")),
    protocol(79, None, &[], &["wb-expak"], Some("WBEXP")),
    protocol(80, None, &[], &["iso-ip"], Some("ISOIP")),
    protocol(81, None, &[], &["vmtp"], Some("VMTP")),
    protocol(82, None, &[], &["secure-vmtp"], Some("SVMTP")),
    protocol(83, None, &[], &["vines"], Some("VINES")),
    protocol(84, None, &[], &["iptm"], Some("TTP")),
    protocol(85, None, &[], &["nsfnet-igp"], Some("NSIGP")),
    protocol(86, None, &[], &["dgp"], Some("DGP")),
    protocol(87, None, &[], &["tcf"], Some("TCF")),
    protocol(88, Some("EIGRP"), &["eigrp"], &[], Some("EIGRP")),
    protocol(89, Some("OSPFIGP"), &["ospf", "ospfigp"], &[], Some("OSPF")),
    protocol(90, None, &[], &["sprite-rpc"], Some("S-RPC")),
    protocol(91, None, &[], &["larp"], Some("LARP")),
    protocol(92, None, &["mtp"], &[], Some("MTP")),
    protocol(93, None, &["ax.25"], &[], Some("AX.25")),
    protocol(94, Some("IPIP"), &[], &[], Some("OS")),
    protocol(95, None, &[], &["micp"], Some("MICP")),
    protocol(96, None, &[], &["scc-sp"], Some("SCCSP")),
    protocol(97, Some("ETHERIP"), &["etherip"], &[], Some("ETHIP")),
    protocol(98, Some("ENCAP"), &["encap"], &[], Some("ENCAP")),
    protocol(99, None, &[], &[], None),
    protocol(100, None, &[], &["gmtp"], Some("GMTP")),
    protocol(101, None, &[], &["ifmp"], Some("IFMP")),
    protocol(102, None, &[], &["pnni"], Some("PNNI")),
    protocol(103, Some("PIM"), &["pim"], &[], Some("PIM")),
    protocol(104, None, &[], &["aris"], Some("ARIS")),
    protocol(105, None, &[], &["scps"], Some("SCPS")),
    protocol(106, None, &[], &["qnx"], Some("QNX")),
    protocol(107, None, &[], &["a/n"], Some("A/N")),
    protocol(108, Some("IPComp"), &["ipcomp"], &[], Some("IPcmp")),
    protocol(109, None, &[], &["snp"], Some("SNP")),
    protocol(110, None, &[], &["compaq-peer"], Some("CpqPP")),
    protocol(111, None, &[], &["ipx-in-ip"], Some("IPXIP")),
    protocol(112, Some("VRRP"), &["vrrp"], &[], Some("VRRP")),
    protocol(113, None, &["pgm"], &[], Some("PGM")),
    protocol(114, None, &[], &[], Some("0hop")),
    protocol(115, Some("L2TP"), &["l2tp"], &[], Some("L2TP")),
    protocol(116, None, &["ddx"], &[], Some("DDX")),
    protocol(117, None, &[], &["iatp"], Some("IATP")),
    protocol(118, None, &[], &["stp"], Some("STP")),
    protocol(119, None, &[], &["srp"], Some("SRP")),
    protocol(120, None, &[], &["uti"], Some("UTI")),
    protocol(121, None, &[], &["smp"], Some("SMP")),
    protocol(122, None, &[], &["sm"], Some("SM")),
    protocol(123, None, &[], &["ptp"], Some("PTP")),
    protocol(124, Some("ISIS over IPv4"), &["isis"], &[], Some("ISIS4")),
    protocol(125, None, &[], &["fire"], Some("FIRE")),
    protocol(126, None, &["crtp"], &[], Some("CRTP")),
    protocol(127, None, &[], &["crudp"], Some("CRUDP")),
    protocol(128, None, &[], &["sscopmce"], None),
    protocol(129, None, &[], &["iplt"], Some("IPLT")),
    protocol(130, None, &[], &["sps"], Some("SPS")),
    protocol(131, None, &[], &["pipe"], Some("PIPE")),
    protocol(132, Some("SCTP"), &["sctp"], &[], Some("SCTP")),
    protocol(133, Some("FC"), &["fc"], &[], Some("FC")),
    protocol(134, None, &[], &["rsvp-e2e-ignore"], None),
    protocol(135, None, &["mobility-header"], &["mobility header"], Some("MHEAD")),
    protocol(136, Some("UDPLite"), &["udplite"], &[], Some("UDP-L")),
    protocol(137, Some("MPLS-in-IP"), &["mpls-in-ip"], &[], Some("MPLS")),
    protocol(138, None, &["manet"], &[], None),
    protocol(139, Some("HIP"), &["hip"], &[], None),
    protocol(140, Some("Shim6"), &["shim6"], &[], None),
    protocol(141, None, &["wesp"], &[], None),
    protocol(142, None, &["rohc"], &[], None),
    protocol(143, None, &["ethernet"], &[], None),
    protocol(144, None, &[], &["aggfrag"], None),
    protocol(145, None, &[], &["nsh"], None),
    protocol(146, None, &[], &["homa"], None),
    protocol(147, None, &[], &["bit-emu"], None),
];

/// Keyword of an IP protocol, if it is one that is often in flows.
pub fn protocol_name(number: u8) -> Option<&'static str> {
    PROTOCOLS.get(usize::from(number))?.keyword
}

/// nfdump's name of an IP protocol, `None` where nfdump prints the number.
pub fn nfdump_protocol_name(number: u8) -> Option<&'static str> {
    PROTOCOLS.get(usize::from(number))?.nfdump_name
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    #[test]
    fn protocols_are_where_their_numbers_say() {
        assert!(PROTOCOLS.iter().enumerate().all(|(position, protocol)| usize::from(protocol.number) == position));
        assert_eq!((protocol_name(6), protocol_name(132), protocol_name(253)), (Some("TCP"), Some("SCTP"), None));
        assert_eq!(protocol_name(113), None, "PGM is shown as a number");
        assert_eq!((nfdump_protocol_name(4), nfdump_protocol_name(94)), (Some("IPIP"), Some("OS")));
        assert_eq!((nfdump_protocol_name(0), nfdump_protocol_name(138), nfdump_protocol_name(255)), (None, None, None));
    }

    #[test]
    fn names_are_unique_and_in_lower_case() {
        let names: Vec<_> = PROTOCOLS.iter().flat_map(|one| one.filter_names.iter().chain(one.other_names)).collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        assert!(names.iter().all(|name| **name == name.to_ascii_lowercase()));
    }

    /// In the registry IPIP is 94, and for filters it is 4, as for nfdump: of no other name two numbers are meant.
    #[test]
    fn keywords_and_other_names_mean_the_same() {
        let keywords = PROTOCOLS.iter().filter_map(|one| Some((one.keyword?.to_ascii_lowercase(), one.number)));
        let keywords: HashMap<_, _> = keywords.collect();
        let names = PROTOCOLS.iter().flat_map(|one| {
            one.filter_names.iter().chain(one.other_names).map(move |name| ((*name).to_owned(), one.number))
        });
        let differ: Vec<_> =
            names.filter(|(name, number)| keywords.get(name).is_some_and(|keyword| keyword != number)).collect();
        assert_eq!(differ, [("ipip".to_owned(), 4)]);
    }

    /// nfdump has one name for two protocols, and no other twice in any case.
    #[test]
    fn names_of_nfdump_are_unique_but_for_one() {
        let names: Vec<_> = PROTOCOLS.iter().filter_map(|one| one.nfdump_name).map(str::to_ascii_lowercase).collect();
        assert_eq!(names.len(), 134);
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len() - 1);
        assert!(names.iter().all(|name| name.len() <= 5));
    }
}
