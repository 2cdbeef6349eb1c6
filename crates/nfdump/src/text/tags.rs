//! The one table of tags: what nfdump calls a field, its headings, and where its value comes from.

use weir_flow::Column;

use super::release::Release;

/// A tag of a format.
#[derive(Debug)]
pub(super) struct Tag {
    /// Name, without the `%`.
    pub(super) name: &'static str,
    /// Heading of lines, as wide as the values.
    pub(super) heading: &'static str,
    /// Heading in comma-separated values; empty when nfdump does not offer the tag there.
    pub(super) csv_heading: &'static str,
    /// Where the value comes from.
    pub(super) field: Field,
}

/// Where the value of a tag comes from, and how it is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Field {
    /// `NetFlow` version.
    Version,
    /// Number of the exporter in the file.
    ExporterNumber,
    /// Ident of the file.
    Ident,
    /// A number in hexadecimal in a field of so many octets after the `0x`.
    HexRight(Column, usize),
    /// Number of the row.
    Count,
    /// A time in the local zone.
    Time(Column),
    /// The same in whole seconds.
    TimeSeconds(Column),
    /// A time as seconds since the epoch.
    TimeRaw(Column),
    /// A time in UTC.
    TimeUtc(Column),
    /// Duration, scaled unless numbers are plain.
    Duration,
    /// Duration in seconds.
    DurationSeconds,
    /// Name of the protocol, or its number when numbers are plain.
    Protocol,
    /// Name of the protocol everywhere.
    ProtocolName,
    /// An address.
    Address(Column),
    /// The country of an address.
    Country(Column),
    /// An address and where it lies.
    GeoAddress(Column),
    /// An address and a port.
    AddressPort(Column, Port),
    /// As `AddressPort`, and where the address lies.
    GeoAddressPort(Column, Port),
    /// An address of which only the routed prefix is kept, and its length.
    Network(Column, Column),
    /// A port in a field of six.
    Port(Port),
    /// Type of ICMP.
    IcmpType,
    /// Code of ICMP.
    IcmpCode,
    /// A number in a field of so many octets.
    Number(Column, usize),
    /// An AS next to that of an address: a blank, and a field of six.
    AdjacentAs(Column),
    /// A counter, scaled unless numbers are plain.
    Counter(Counter),
    /// How many flows.
    Flows,
    /// Bits a second.
    BitsPerSecond,
    /// Packets a second.
    PacketsPerSecond,
    /// Octets in a packet.
    BytesPerPacket,
    /// Letters of the TCP flags.
    Flags,
    /// The same, or their number when numbers are plain.
    FlagsOrNumber,
    /// In or out.
    Direction,
    /// A MAC address.
    Mac(Column),
    /// A number in hexadecimal, of so many digits at least in lines.
    Hex(Column, usize),
    /// Type and number of the engine.
    Engine,
    /// Number of an application, and what is written when there is none.
    Application(&'static str),
    /// Smallest and largest TTL, and what is between them.
    Ttls(u8, usize),
    /// Name of a firewall's or NAT event, in so many octets, and what is written when there is none.
    Event(usize, &'static str),
    /// Name of what a firewall adds to its event, likewise.
    FurtherEvent(usize, &'static str),
    /// Label of MPLS at this depth, its class and whether it is the last.
    Label(u16),
    /// All ten of them, a blank after each.
    Labels,
    /// The three numbers of an access list: its element, and whether they are hexadecimal.
    AccessList(u16, bool),
    /// An address as four words of 32 bits with strokes between them.
    AddressWords(Column),
    /// Size of a block of ports.
    BlockSize,
    /// 2 for IPv4, 10 for IPv6, as Linux numbers them, and what is written when there is no address.
    Family(u64),
    /// A text, and what is written when there is none.
    Text(TextField),
    /// The end of a line.
    NewLine,
    /// What nfdump writes when a record lacks the field: in lines, and in comma-separated values.
    Empty(&'static str, &'static str),
}

/// How a column of texts is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TextField {
    pub(super) column: Column,
    /// What is before the text in lines.
    pub(super) before: &'static str,
    /// Octets that the text has at least in lines.
    pub(super) width: usize,
    /// What is written when there is none: in lines, and in comma-separated values.
    pub(super) none: &'static str,
    pub(super) none_csv: &'static str,
}

impl TextField {
    const fn of(
        column: Column,
        before: &'static str,
        width: usize,
        none: &'static str,
        none_csv: &'static str,
    ) -> Field {
        Field::Text(Self { column, before, width, none, none_csv })
    }
}

/// Which port.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Port {
    /// A column.
    Of(Column),
    /// The destination port, or type and code of ICMP.
    Destination,
}

/// Which counter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Counter {
    Packets,
    Bytes,
    /// Packets after the Observation Point, or in the opposite direction.
    PacketsOut,
    /// The same for octets.
    BytesOut,
}

impl Counter {
    /// Columns that the counter comes from, the first that has a value.
    pub(super) fn columns(self) -> &'static [Column] {
        match self {
            Self::Packets => &[Column::Packets],
            Self::Bytes => &[Column::Bytes],
            Self::PacketsOut => &[Column::PacketsOut, Column::PacketsReverse],
            Self::BytesOut => &[Column::BytesOut, Column::BytesReverse],
        }
    }
}

/// Tags that 1.7.8 does not have any more.
static GONE: &[&str] = &["sgt", "nevt"];

macro_rules! tags {
    ($($name:literal $heading:literal $csv:literal $field:expr;)*) => {
        &[$(Tag { name: $name, heading: $heading, csv_heading: $csv, field: $field }),*]
    };
}

/// Every tag of nfdump 1.7.
pub(super) static TAGS: &[Tag] = {
    use Column as C;
    use Field as F;
    const SP: Port = Port::Of(Column::SrcPort);
    tags! {
        "nfv" "Ver" "version" F::Version;
        "cnt" "Count" "count" F::Count;
        "idt" "Ident" "Ident" F::Empty("<no ident>", "<no ident>");
        "eng" " engine" "engine" F::Engine;
        "exp" "Exp ID" "exporterID" F::ExporterNumber;
        "tfs" "Date first seen        " "firstSeen" F::Time(C::Start);
        "ts" "Date first seen        " "firstSeen" F::Time(C::Start);
        "tsr" "Date first seen (raw)    " "firstSeen" F::TimeRaw(C::Start);
        "tsg" "Date first seen        " "firstSeen" F::TimeUtc(C::Start);
        "te" "Date last seen         " "lastSeen" F::Time(C::End);
        "ter" "Date last seen (raw)     " "lastSeen" F::TimeRaw(C::End);
        "teg" "Date last seen         " "lastSeen" F::TimeUtc(C::End);
        "tr" "Date flow received     " "received" F::Time(C::Received);
        "trr" "Date flow received (raw)  " "received" F::TimeRaw(C::Received);
        "trg" "Date flow received     " "received" F::TimeUtc(C::Received);
        "td" "    Duration    " "duration" F::Duration;
        "tds" "    Duration    " "duration" F::DurationSeconds;
        "pr" "Proto" "proto" F::Protocol;
        "sa" "     Src IP Addr" "srcAddr" F::Address(C::SrcAddr);
        "da" "     Dst IP Addr" "dstAddr" F::Address(C::DstAddr);
        "gsa" "     Src IP Addr(..)" "" F::GeoAddress(C::SrcAddr);
        "gda" "     Dst IP Addr(..)" "" F::GeoAddress(C::DstAddr);
        "sn" "        Src Network" "srcNet" F::Network(C::SrcAddr, C::SrcMask);
        "dn" "        Dst Network" "dstNet" F::Network(C::DstAddr, C::DstMask);
        "nh" "     Next-hop IP" "nextIP" F::Address(C::NextHop);
        "nhb" " BGP next-hop IP" "bgpNextIP" F::Address(C::BgpNextHop);
        "ra" "       Router IP" "routerIP" F::Address(C::Exporter);
        "gra" "       Router IP(..)" "" F::GeoAddress(C::Exporter);
        "sap" "     Src IP Addr:Port " "" F::AddressPort(C::SrcAddr, SP);
        "dap" "     Dst IP Addr:Port " "" F::AddressPort(C::DstAddr, Port::Destination);
        "gsap" "     Src IP Addr(..):Port " "" F::GeoAddressPort(C::SrcAddr, SP);
        "gdap" "     Dst IP Addr(..):Port " "" F::GeoAddressPort(C::DstAddr, Port::Destination);
        "sp" "Src Pt" "srcPort" F::Port(SP);
        "dp" "Dst Pt" "dstPort" F::Port(Port::Destination);
        "it" "ICMP-T" "icmpType" F::IcmpType;
        "ic" "ICMP-C" "icmpCode" F::IcmpCode;
        "sas" "Src AS" "srcAS" F::Number(C::SrcAs, 6);
        "das" "Dst AS" "dstAS" F::Number(C::DstAs, 6);
        "nas" "Next AS" "nextAS" F::AdjacentAs(C::NextAs);
        "pas" "Prev AS" "prevAS" F::AdjacentAs(C::PrevAs);
        "in" " Input" "input" F::Number(C::InIf, 6);
        "out" "Output" "output" F::Number(C::OutIf, 6);
        "inam" " Input interface name" "inIfName" F::Empty("", "");
        "onam" "Output interface name" "outIfName" F::Empty("", "");
        "pkt" " Packets" "packets" F::Counter(Counter::Packets);
        "ipkt" "  In Pkt" "inPackets" F::Counter(Counter::Packets);
        "opkt" " Out Pkt" "outPackets" F::Counter(Counter::PacketsOut);
        "byt" "   Bytes" "bytes" F::Counter(Counter::Bytes);
        "ibyt" " In Byte" "inBytes" F::Counter(Counter::Bytes);
        "obyt" "Out Byte" "outBytes" F::Counter(Counter::BytesOut);
        "fl" "Flows" "flows" F::Flows;
        "flg" "   Flags" "flags" F::Flags;
        "tos" "Tos" "tos" F::Number(C::Tos, 3);
        "stos" "STos" "srcTos" F::Number(C::Tos, 4);
        "dtos" "DTos" "dstTos" F::Number(C::DstTos, 4);
        "dir" "Dir" "direction" F::Direction;
        "smk" "SMask" "srcMask" F::Number(C::SrcMask, 5);
        "dmk" "DMask" "dstMask" F::Number(C::DstMask, 5);
        "fwd" "Fwd" "fwdStatus" F::Number(C::ForwardingStatus, 3);
        "bfd" "Bfd" "biDirection" F::Empty("  0", "0");
        "end" "End" "endReason" F::Number(C::EndReason, 3);
        "svln" "SVlan" "srcVlan" F::Number(C::SrcVlan, 5);
        "dvln" "DVlan" "dstVlan" F::Number(C::DstVlan, 5);
        "eth" "Ethertype" "ethertype" F::Hex(C::Ethertype, 4);
        "minttl" "MinTTL" "minTTL" F::Number(C::MinTtl, 6);
        "maxttl" "MaxTTL" "maxTTL" F::Number(C::MaxTtl, 6);
        "ttl" "    TTL" "" F::Ttls(b',', 3);
        "frag" "Frag" "Frag" F::Empty("----", "----");
        "ismc" "  In src MAC Addr" "inSrcMac" F::Mac(C::SrcMac);
        "odmc" " Out dst MAC Addr" "outDstMac" F::Mac(C::PostDstMac);
        "idmc" "  In dst MAC Addr" "inDstMac" F::Mac(C::DstMac);
        "osmc" " Out src MAC Addr" "outSrcMac" F::Mac(C::PostSrcMac);
        "mpls1" " MPLS lbl 1 " "mplsLabel1" F::Label(0);
        "mpls2" " MPLS lbl 2 " "mplsLabel2" F::Label(1);
        "mpls3" " MPLS lbl 3 " "mplsLabel3" F::Label(2);
        "mpls4" " MPLS lbl 4 " "mplsLabel4" F::Label(3);
        "mpls5" " MPLS lbl 5 " "mplsLabel5" F::Label(4);
        "mpls6" " MPLS lbl 6 " "mplsLabel6" F::Label(5);
        "mpls7" " MPLS lbl 7 " "mplsLabel7" F::Label(6);
        "mpls8" " MPLS lbl 8 " "mplsLabel8" F::Label(7);
        "mpls9" " MPLS lbl 9 " "mplsLabel9" F::Label(8);
        "mpls10" " MPLS lbl 10" "mplsLabel10" F::Label(9);
        "mpls" "                                               MPLS labels 1-10                                                                   " "" F::Labels;
        "bps" "     bps" "bps" F::BitsPerSecond;
        "pps" "     pps" "pps" F::PacketsPerSecond;
        "bpp" "   Bpp" "bpp" F::BytesPerPacket;
        "lbl" "           label" "label" F::Empty("          <none>", "<none>");
        "sc" "SC" "srcGeo" F::Country(C::SrcAddr);
        "dc" "DC" "dstGeo" F::Country(C::DstAddr);
        "sloc" "Src IP location info" "srcLocation" F::Empty("", "");
        "dloc" "Dst IP location info" "dstLocation" F::Empty("", "");
        "sasn" "Src AS organisation" "srcOrg" F::Empty("", "");
        "dasn" "Dst AS organisation" "dstOrg" F::Empty("", "");
        "stor" "STor" "srcTor" F::Empty("  ..", "..");
        "dtor" "DTor" "dstTor" F::Empty("  ..", "..");
        "n" "" "" F::NewLine;
        "ipl" "" "" F::Empty("\n", "");
        "opl" "" "" F::Empty("\n", "");
        "nbid" "nbar ID" "nbarID" F::Application(" 0..0");
        "nbnam" "nbar name" "nbarName" F::Empty("<no info>", "no-nbar");
        "ja3" "                             ja3" "ja3" TextField::of(C::Ja3, "", 32, "                                ", "no-ja3");
        "ja4" "                                 ja4" "ja4" TextField::of(C::Ja4, "", 36, "                                    ", "no-ja4");
        "sni" "sni name" "sniName" TextField::of(C::ServerName, "", 6, "      ", "0");
        "tls" "TLS ver" "tlsVersion" F::Empty("      0", "0");
        "odid" "obsDomainID" "obsDomainID" F::Hex(C::ObservationDomain, 9);
        "opid" "  obsPointID" "obsPointID" F::Hex(C::ObservationPoint, 10);
        "vrf" "  I-VRF-ID" "ingressVrfID" F::Number(C::IngressVrf, 10);
        "ivrf" "  I-VRF-ID" "ingressVrfID" F::Number(C::IngressVrf, 10);
        "ivrfnam" "  I-VRF-Name" "ingressVrfName" F::Empty("", "");
        "evrf" "  E-VRF-ID" "egressVrfID" F::Number(C::EgressVrf, 10);
        "evrfnam" "  E-VRF-Name" "egressVrfName" F::Empty("", "");
        "pfifn" "interface" "pfInterface" F::Empty("<no pfinfo>", "<no pfinfo>");
        "pfact" "action" "pfAction" F::Empty("<no pfinfo>", "<no pfinfo>");
        "pfrea" "reason" "pfReason" F::Empty("<no pfinfo>", "<no pfinfo>");
        "pfdir" "dir" "pfDirection" F::Empty("<no pfinfo>", "<no pfinfo>");
        "pfrule" "rule" "pfRule" F::Empty("<no pfinfo>", "<no pfinfo>");
        "nfc" "   Conn-ID" "connectionID" F::Empty("         0", "0");
        "tevt" "Event time             " "eventTime" F::Empty("1970-01-01 00:00:00.000", "0000-00-00 00:00:00.000");
        "msec" "   Event Time" "eventTime" F::Empty("            0", "0");
        "evt" " Event" "event" F::Event(6, "INVALID");
        "nevt" " Event" "event" F::Event(6, "INVALID");
        "xevt" " XEvent" "xEvent" F::FurtherEvent(7, "Ignore");
        "sgt" "  SGT  " "" F::Empty("    0", "");
        "iacl" "Ingress ACL                     " "ingressACL" F::AccessList(33000, true);
        "eacl" "Egress ACL                      " "egressACL" F::AccessList(33001, false);
        "uname" "UserName" "nselUser" F::Empty("<empty>", "<empty>");
        "xsa" "   X-late Src IP" "srcXIP" F::Address(C::NatSrcAddr);
        "xda" "   X-late Dst IP" "dstXIP" F::Address(C::NatDstAddr);
        "nsa" "   X-late Src IP" "srcXIP" F::Address(C::NatSrcAddr);
        "nda" "   X-late Dst IP" "dstXIP" F::Address(C::NatDstAddr);
        "xsp" "XsPort" "srcXPort" F::Port(Port::Of(C::NatSrcPort));
        "xdp" "XdPort" "dstXPort" F::Port(Port::Of(C::NatDstPort));
        "nsp" "XsPort" "srcXPort" F::Port(Port::Of(C::NatSrcPort));
        "ndp" "XdPort" "dstXPort" F::Port(Port::Of(C::NatDstPort));
        "xsap" "   X-Src IP Addr:Port " "" F::AddressPort(C::NatSrcAddr, Port::Of(C::NatSrcPort));
        "xdap" "   X-Dst IP Addr:Port " "" F::AddressPort(C::NatDstAddr, Port::Of(C::NatDstPort));
        "nsap" "   X-Src IP Addr:Port " "" F::AddressPort(C::NatSrcAddr, Port::Of(C::NatSrcPort));
        "ndap" "   X-Dst IP Addr:Port " "" F::AddressPort(C::NatDstAddr, Port::Of(C::NatDstPort));
        "pbstart" "Pb-Start" "pbStart" F::Number(C::PortRangeStart, 7);
        "pbend" "Pb-End" "pbEnd" F::Number(C::PortRangeEnd, 7);
        "pbstep" "Pb-Step" "pbStep" F::Empty("      0", "0");
        "pbsize" "Pb-Size" "pbSize" F::BlockSize;
        "flid" "     flowID" "flowID" F::Number(C::FlowId, 11);
        "isid" "inSrvID" "inSrvID" F::Empty("      0", "0");
        "osid" "outSrvID" "outSrvID" F::Empty("       0", "0");
        "nats" "nat string" "natString" F::Empty("<no nat>", "<no nat>");
        "cl" "C Latency" "clientLatency" F::Empty("    0.000", "0.000");
        "sl" "S latency" "serverLatency" F::Empty("    0.000", "0.000");
        "al" "A latency" "appLatency" F::Empty("    0.000", "0.000");
    }
};

/// What 1.7.8 writes in another way.
static CHANGED: &[Tag] = {
    use Column as C;
    use Field as F;
    tags! {
        "idt" "Ident       " "Ident" F::Ident;
        "tsr" "First seen raw" "firstSeen" F::TimeRaw(C::Start);
        "tsg" "First seen GMT         " "firstSeen" F::TimeUtc(C::Start);
        "ter" "Last seen raw " "lastSeen" F::TimeRaw(C::End);
        "teg" "Last seen GMT          " "lastSeen" F::TimeUtc(C::End);
        "trr" "Received raw  " "received" F::TimeRaw(C::Received);
        "trg" "Date flow received GMT " "received" F::TimeUtc(C::Received);
        "td" "Duration        " "duration" F::Duration;
        "tds" "Duration        " "duration" F::DurationSeconds;
        "flg" "   Flags" "flags" F::FlagsOrNumber;
        "tos" " Tos" "tos" F::Number(C::Tos, 4);
        "eth" "EtherType" "ethertype" F::Hex(C::Ethertype, 4);
        "minttl" "minTTL" "minTTL" F::Number(C::MinTtl, 6);
        "maxttl" "maxTTL" "maxTTL" F::Number(C::MaxTtl, 6);
        "ttl" "min/maxTTL" "" F::Ttls(b' ', 5);
        "sloc" "Src IP location info" "srcLocation" F::Empty("<no location info>", "");
        "dloc" "Dst IP location info" "dstLocation" F::Empty("<no location info>", "");
        "sasn" "Src AS organisation           " "srcOrg" F::Empty("                          none", "");
        "dasn" "Dst AS organisation           " "dstOrg" F::Empty("                          none", "");
        "stor" "STor" "srcTor" F::Empty("    ", "");
        "dtor" "DTor" "dstTor" F::Empty("    ", "");
        "ipl" "Input Payload" "" F::Empty("<no payload>", "");
        "opl" "Output Payload" "" F::Empty("<no payload>", "");
        "nbid" "nbar ID" "nbarID" F::Application("0..0..0");
        "nbnam" "nbar name" "nbarName" F::Empty("<no nbar>", "no-nbar");
        "ja3" "                                   ja3" "ja3" TextField::of(C::Ja3, "ja3 : ", 32, "                                no ja3", "no-ja3");
        "ja4" "                                   ja4" "ja4" TextField::of(C::Ja4, "ja4 : ", 32, "                                no ja4", "no-ja4");
        "sni" "sni name" "sniName" TextField::of(C::ServerName, "", 6, "   0", "0");
        "tls" "TLS ver" "tlsVersion" F::Empty("   0", "0");
        "odid" "obsDomainID" "obsDomainID" F::Hex(C::ObservationDomain, 2);
        "opid" "  obsPointID" "obsPointID" F::Hex(C::ObservationPoint, 2);
        "pfifn" "interface" "pfInterface" F::Empty("  <no-pf>", "<no-pf>");
        "pfact" "action" "pfAction" F::Empty("<no-pf>", "<no-pf>");
        "pfrea" "reason" "pfReason" F::Empty("<no-pf>", "<no-pf>");
        "pfrule" "rule" "pfRule" F::Empty("   0", "0");
        "tevt" "Event time             " "eventTime" F::Empty("0000-00-00 00:00:00.000", "0000-00-00 00:00:00.000");
        "evt" "   Event" "event" F::Event(8, "<no-evt>");
        "xevt" " XEvent" "xEvent" F::FurtherEvent(8, "<no-evt>");
        "flid" "               flowID" "flowID" F::HexRight(C::FlowId, 13);
        "isid" " inSrvID" "inSrvID" F::Empty("       0", "0");
        "nats" "nat string" "natString" F::Empty("<unknown>", "<unknown>");
    }
};

impl Tag {
    /// The tag of a name.
    pub(super) fn by_name(name: &str, release: Release) -> Option<&'static Self> {
        Self::all(release).find(|tag| tag.name == name)
    }

    /// The tags of a release.
    pub(super) fn all(release: Release) -> impl Iterator<Item = &'static Self> {
        let changed = |tag: &&Self| CHANGED.iter().find(|changed| changed.name == tag.name);
        TAGS.iter()
            .filter(move |tag| !(release.is_last() && GONE.contains(&tag.name)))
            .map(move |tag| changed(&tag).filter(|_| release.is_last()).unwrap_or(tag))
    }

    /// Whether its heading grows when addresses of IPv6 are written in full; 1.7.1 forgets those of translations.
    pub(super) fn has_wide_heading(&self, release: Release) -> bool {
        let is_forgotten = !release.is_last() && ["xsa", "xda", "nsa", "nda"].contains(&self.name);
        self.field.is_address() && !is_forgotten
    }
}

impl Field {
    /// The columns that it is made of.
    pub(super) fn columns(self) -> Vec<Column> {
        use Column as C;
        let port = |port: Port| match port {
            Port::Of(column) => vec![column],
            Port::Destination => super::rows::ICMP_COLUMNS.to_vec(),
        };
        match self {
            Self::Version => vec![C::ExportVersion],
            Self::Time(column)
            | Self::TimeSeconds(column)
            | Self::HexRight(column, _)
            | Self::TimeRaw(column)
            | Self::TimeUtc(column)
            | Self::Number(column, _)
            | Self::AdjacentAs(column)
            | Self::Address(column)
            | Self::Mac(column)
            | Self::Hex(column, _)
            | Self::AddressWords(column) => vec![column],
            Self::Country(address) => country_of(address).into_iter().collect(),
            Self::GeoAddress(address) => std::iter::once(address).chain(country_of(address)).collect(),
            Self::Duration | Self::DurationSeconds => vec![C::Start, C::End],
            Self::Protocol | Self::ProtocolName => vec![C::Protocol],
            Self::AddressPort(column, of) => std::iter::once(column).chain(port(of)).collect(),
            Self::GeoAddressPort(address, of) => {
                std::iter::once(address).chain(port(of)).chain(country_of(address)).collect()
            }
            Self::Network(column, mask) => vec![column, mask],
            Self::Port(of) => port(of),
            Self::IcmpType | Self::IcmpCode => super::rows::ICMP_COLUMNS.to_vec(),
            Self::Counter(counter) => counter.columns().to_vec(),
            Self::Flows => vec![C::Flows],
            Self::BitsPerSecond => vec![C::Bytes, C::Start, C::End],
            Self::PacketsPerSecond => vec![C::Packets, C::Start, C::End],
            Self::BytesPerPacket => vec![C::Packets, C::Bytes],
            Self::Flags | Self::FlagsOrNumber => vec![C::TcpFlags, C::Protocol],
            Self::Direction => vec![C::Direction],
            Self::Engine => vec![C::EngineType, C::EngineId],
            Self::Application(_) => vec![C::ApplicationId],
            Self::Ttls(..) => vec![C::MinTtl, C::MaxTtl],
            Self::Event(..) => vec![C::FirewallEvent, C::NatEvent],
            Self::ExporterNumber
            | Self::Ident
            | Self::FurtherEvent(..)
            | Self::Label(_)
            | Self::Labels
            | Self::AccessList(..) => vec![C::Elements],
            Self::BlockSize => vec![C::PortRangeStart, C::PortRangeEnd],
            Self::Family(_) => vec![C::SrcAddr],
            Self::Text(text) => vec![text.column],
            Self::Count | Self::NewLine | Self::Empty(..) => Vec::new(),
        }
    }

    /// Whether it grows when addresses of IPv6 are written in full.
    fn is_address(self) -> bool {
        matches!(
            self,
            Self::Address(_)
                | Self::GeoAddress(_)
                | Self::AddressPort(..)
                | Self::GeoAddressPort(..)
                | Self::Network(..)
        )
    }
}

/// The column of the country of an address.
pub(super) fn country_of(address: Column) -> Option<Column> {
    match address {
        Column::SrcAddr => Some(Column::SrcCountry),
        Column::DstAddr => Some(Column::DstCountry),
        _ => None,
    }
}
