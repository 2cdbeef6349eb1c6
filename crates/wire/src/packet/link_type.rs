//! How a frame begins, by the numbers that capture files have for it.
//!
//! The numbers are the `LINKTYPE_` values of <https://www.tcpdump.org/linktypes.html>, and those `DLT_` values
//! that some systems write instead. Numbers that differ from system to system in what they mean are left out.

/// How a frame begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// IEEE 802.3, from the destination address on.
    Ethernet,
    /// IEEE 802.11, from the frame control field on.
    Ieee80211,
    /// The Point-to-Point Protocol (RFC 1661), with or without the address and control octets of HDLC (RFC 1662), or
    /// Cisco HDLC where its address is of that.
    Ppp,
    /// A label stack (RFC 3032).
    Mpls,
    /// An IP header of the version in its first four bits.
    Ip,
    /// An address family in four octets of either order, then what it means: loopback interfaces of BSD.
    Loopback,
    /// IEEE 802.2 logical link control, as in ATM (RFC 2684).
    Llc,
    /// IEEE 802.5 Token Ring.
    TokenRing,
    /// FDDI.
    Fddi,
    /// SLIP (RFC 1055), with a header of the capturing system about how it was compressed (RFC 1144).
    Slip,
    /// PPP over Ethernet (RFC 2516), from its version field on.
    Pppoe,
    /// An octet for the direction, then PPP.
    PppWithDirection,
    /// Cisco HDLC: address, control, `EtherType`.
    CiscoHdlc,
    /// Frame Relay with the encapsulation of RFC 2427 or of Cisco.
    FrameRelay,
    /// Linux "cooked" capture.
    LinuxSll,
    /// Linux "cooked" capture, version 2.
    LinuxSll2,
    /// A radiotap header, then IEEE 802.11.
    Radiotap,
    /// A header of the Prism driver, or one of AVS, then IEEE 802.11.
    Prism,
    /// An AVS header, then IEEE 802.11.
    Avs,
    /// Per-Packet Information, which names what follows it.
    Ppi,
    /// Apple's header with the process that sent or received, which names what follows it.
    Pktap,
    /// Linux netfilter log messages.
    Nflog,
    /// Endace's Extensible Record Format.
    Erf,
    /// OpenBSD's encapsulated packets: family, SPI, flags.
    Enc,
    /// Packets logged by pf.
    Pflog,
    /// IP over IEEE 1394 of Apple: two addresses of 8 octets and an `EtherType`.
    Firewire,
    /// `SunATM` devices: flags, VPI, VCI.
    SunAtm,
    /// ATM LAN emulation, in `SunATM` alone: two octets before Ethernet.
    AtmLane,
    /// Classical IP over ATM (RFC 2225) as Linux has it: with logical link control, or IP at once.
    ClassicalIp,
    /// Solaris's observability of IP.
    Ipnet,
    /// IP over InfiniBand (RFC 4391) with a global routing header.
    IpOverInfiniBand,
    /// Four octets of Hilscher's analyzer before Ethernet.
    NetAnalyzer,
    /// Ethernet with its preamble (IEEE 802.3br).
    Mpacket,
    /// Ethernet with a Marvell switch tag behind the addresses.
    Dsa,
    /// As [`LinkType::Dsa`], with an `EtherType` of its own before the tag.
    EthertypeDsa,
    /// Ethernet with a Broadcom switch tag behind the addresses.
    BroadcomTag,
    /// Ethernet with a Broadcom switch tag before it.
    BroadcomTagPrepended,
    /// Ethernet behind a header of Juniper's routers.
    JuniperEthernet,
    /// PPP behind a header of Juniper's routers.
    JuniperPpp,
    /// Frame Relay behind a header of Juniper's routers.
    JuniperFrameRelay,
    /// Cisco HDLC behind a header of Juniper's routers.
    JuniperCiscoHdlc,
}

/// Every number that is known, in order.
const NUMBERS: [(u16, LinkType); 48] = [
    (0, LinkType::Loopback),
    (1, LinkType::Ethernet),
    (6, LinkType::TokenRing),
    (8, LinkType::Slip),
    (9, LinkType::Ppp),
    (10, LinkType::Fddi),
    (11, LinkType::Llc),
    (12, LinkType::Ip),
    (14, LinkType::Ip),
    (50, LinkType::Ppp),
    (51, LinkType::Pppoe),
    (100, LinkType::Llc),
    (101, LinkType::Ip),
    (104, LinkType::CiscoHdlc),
    (105, LinkType::Ieee80211),
    (106, LinkType::ClassicalIp),
    (107, LinkType::FrameRelay),
    (108, LinkType::Loopback),
    (109, LinkType::Enc),
    (113, LinkType::LinuxSll),
    (117, LinkType::Pflog),
    (119, LinkType::Prism),
    (123, LinkType::SunAtm),
    (127, LinkType::Radiotap),
    (138, LinkType::Firewire),
    (163, LinkType::Avs),
    (178, LinkType::JuniperEthernet),
    (179, LinkType::JuniperPpp),
    (180, LinkType::JuniperFrameRelay),
    (181, LinkType::JuniperCiscoHdlc),
    (192, LinkType::Ppi),
    (197, LinkType::Erf),
    (204, LinkType::PppWithDirection),
    (219, LinkType::Mpls),
    (226, LinkType::Ipnet),
    (228, LinkType::Ip),
    (229, LinkType::Ip),
    (239, LinkType::Nflog),
    (240, LinkType::NetAnalyzer),
    (241, LinkType::NetAnalyzer),
    (242, LinkType::IpOverInfiniBand),
    (258, LinkType::Pktap),
    (274, LinkType::Mpacket),
    (276, LinkType::LinuxSll2),
    (281, LinkType::BroadcomTag),
    (282, LinkType::BroadcomTagPrepended),
    (284, LinkType::Dsa),
    (285, LinkType::EthertypeDsa),
];

impl LinkType {
    /// The link type of a number in a capture file, `None` for what is not dissected.
    pub fn from_dlt(number: u16) -> Option<Self> {
        let at = NUMBERS.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        NUMBERS.get(at).map(|(_, link)| *link)
    }

    /// Every number that [`LinkType::from_dlt`] knows, with its link type.
    pub fn numbers() -> &'static [(u16, Self)] {
        &NUMBERS
    }
}
