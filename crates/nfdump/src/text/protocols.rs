//! Short names of protocols.

use weir_print::digits::push_u64;

/// nfdump's names of the protocols from 0 on, of five letters at most; empty where it has none.
static NAMES: &[&str] = &[
    "", "ICMP", "IGMP", "GGP", "IPIP", "ST", "TCP", "CBT", "EGP", "IGP", "BBN", "NVPII", "PUP", "ARGUS", "ENCOM",
    "XNET", "CHAOS", "UDP", "MUX", "DCN", "HMP", "PRM", "XNS", "Trnk1", "Trnk2", "Leaf1", "Leaf2", "RDP", "IRTP",
    "ISO-4", "NETBK", "MFESP", "MEINP", "DCCP", "3PC", "IDPR", "XTP", "DDP", "IDPR", "TP++", "IL", "IPv6", "SDRP",
    "Rte6", "Frag6", "IDRP", "RSVP", "GRE", "MHRP", "BNA", "ESP", "AH", "INLSP", "SWIPE", "NARP", "MOBIL", "TLSP",
    "SKIP", "ICMP6", "NOHE6", "OPTS6", "HOST", "CFTP", "NET", "SATNT", "KLAN", "RVD", "IPPC", "FS", "SATM", "VISA",
    "IPCV", "CPNX", "CPHB", "WSN", "PVP", "BSATM", "SUNND", "WBMON", "WBEXP", "ISOIP", "VMTP", "SVMTP", "VINES", "TTP",
    "NSIGP", "DGP", "TCF", "EIGRP", "OSPF", "S-RPC", "LARP", "MTP", "AX.25", "OS", "MICP", "SCCSP", "ETHIP", "ENCAP",
    "", "GMTP", "IFMP", "PNNI", "PIM", "ARIS", "SCPS", "QNX", "A/N", "IPcmp", "SNP", "CpqPP", "IPXIP", "VRRP", "PGM",
    "0hop", "L2TP", "DDX", "IATP", "STP", "SRP", "UTI", "SMP", "SM", "PTP", "ISIS4", "FIRE", "CRTP", "CRUDP", "",
    "IPLT", "SPS", "PIPE", "SCTP", "FC", "", "MHEAD", "UDP-L", "MPLS",
];

/// Appends the name of a protocol, or its number when it has no name.
pub(super) fn push_protocol(text: &mut Vec<u8>, number: u8) {
    match NAMES.get(usize::from(number)) {
        Some(name) if !name.is_empty() => text.extend_from_slice(name.as_bytes()),
        _ => push_u64(text, number.into()),
    }
}
