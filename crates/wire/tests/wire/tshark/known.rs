//! Where the two dissectors differ, and why.

/// Link types that the other dissector does not read.
pub(super) const NOT_READ: [u16; 3] = [282, 284, 285];

const OPTIONS: &str = "the other dissector stops at an option or a chunk that it finds malformed";
const OFFLOADED: &str = "an IP length of 0, left to the network card, where the other dissector stops";
const COMPRESSED: &str = "IPComp: the other dissector decompresses";
const LONGER: &str = "IP says that it is longer than the link's frame was, which the other dissector does not believe";
const SLIP: &str = "the other dissector does not read SLIP";

/// Captures in which frames differ, how many, and why.
pub(super) const KNOWN: &[(&str, usize, &str)] = &[
    ("ip_secopt.pcap", 1, OPTIONS),
    ("sctp-pkt-too-small/input.pcap", 1, OPTIONS),
    ("Traces/cisco-fabric-path.pcap", 24, OPTIONS),
    ("ipv6-mobility-dst-opts.pcap", 1, OPTIONS),
    ("AH-IPcomp-IPv4.pcap", 4, COMPRESSED),
    ("AH-IPcomp-IPv6.pcap", 7, COMPRESSED),
    ("LINKTYPE_IPV6_invalid.pcap", 1, "an IPv4 packet where the link type says IPv6: read by its version"),
    ("bigtcp-ipv4-geneve-ipv4.pcap", 1, OFFLOADED),
    ("bigtcp-ipv4-geneve-ipv6.pcap", 1, OFFLOADED),
    ("bigtcp-ipv4-vxlan-ipv4.pcap", 1, OFFLOADED),
    ("bigtcp-ipv4-vxlan-ipv6.pcap", 1, OFFLOADED),
    ("bigtcp-ipv6-geneve-ipv4.pcap", 1, OFFLOADED),
    ("bigtcp-ipv6-geneve-ipv6.pcap", 1, OFFLOADED),
    ("bigtcp-ipv6.pcap", 1, OFFLOADED),
    ("telnet-01/telnet.pcap", 5, LONGER),
    ("default/pcap/telnet.pcap", 5, LONGER),
    ("linux_sll_oversized_addr.pcapng", 8, LONGER),
    ("reasm_crash_anon.pcapng", 8, LONGER),
    ("default/pcap/ajp.pcap", 4, LONGER),
    ("fuzz-2006-09-29-28586.pcap", 1, LONGER),
    ("tls_invalid_reads.pcap", 1, LONGER),
    ("kday4.pcap", 1, LONGER),
    ("kday7.pcap", 1, LONGER),
    ("pppoe-over-qinq.pcap", 6, LONGER),
    ("gtp9_unknown_or_too_short_payload.pcap", 1, LONGER),
    ("arista_ether.pcap", 4, "time stamps of hardware that the other dissector does not know"),
    ("cve2015-0261-crash.pcap", 1, SLIP),
    ("icmp6_nodeinfo_oobr.pcap", 1, SLIP),
    ("kday1.pcap", 1, "noise whose IP length is smaller than its header"),
    ("pim-packet-assortment.pcap", 20, "null registers, whose header is of no packet"),
    ("vxlan_port_8472.pcap", 8, "VXLAN on the port of Linux, which the other dissector has to be told"),
    ("pbb-recursive-frames.pcapng", 1, "more tunnels in each other than are followed"),
];
