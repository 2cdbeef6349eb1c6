//! The one table of flow columns.

use std::fmt;
use std::sync::LazyLock;

use crate::registry::{NTOP_ENTERPRISE, NTOP_NETFLOW9_BASE, REVERSE_ENTERPRISE};

/// What [`Column::ExportVersion`] has for sFlow version 5, which shares its number with NetFlow version 5.
pub const EXPORT_VERSION_SFLOW5: u8 = 105;

/// How a column's values lie in memory.
///
/// Addresses are variable binary in network order, 4 octets for IPv4 and 16 for IPv6, so that one column holds both
/// families; outputs print them as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// Unsigned 8-bit integer.
    U8,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 64-bit integer.
    U64,
    /// Milliseconds since the epoch, UTC.
    Time,
    /// IP address, 4 or 16 octets in network order.
    Address,
    /// MAC address, 6 octets.
    Mac,
    /// Octets of no further meaning.
    Octets,
    /// UTF-8 text, cleaned, see [`crate::text`].
    Text,
    /// A list of Information Elements without a column of their own, see [`crate::elements`].
    Elements,
}

/// Everything the table says about one column.
#[derive(Debug, Clone, Copy)]
pub struct ColumnSpec {
    /// Name in SQL, in files and in outputs.
    pub name: &'static str,
    /// Type of the values.
    pub column_type: ColumnType,
    /// Unit of the values, empty when there is none.
    pub unit: &'static str,
    /// IANA Information Elements that fill the column, the preferred one first. NetFlow v9 field types share these
    /// numbers (RFC 3954 section 8, RFC 7012 section 4); those of ntop stand for its elements in IPFIX too, see
    /// [`crate::registry::NTOP_NETFLOW9_BASE`]. The decoder may convert (seconds to milliseconds).
    pub elements: &'static [u16],
    /// Elements of other enterprises that fill the column, by Private Enterprise Number and element; where there are
    /// `elements` too, these rank behind them. Those of ntop have their numbers in IPFIX.
    pub enterprise_elements: &'static [(u32, u16)],
    /// Reverse elements (RFC 5103, enterprise 29305) that fill the column.
    pub reverse_elements: &'static [u16],
    /// Short heading of outputs made for people.
    pub label: &'static str,
    /// One sentence for the reference page.
    pub doc: &'static str,
}

macro_rules! columns {
    ($($variant:ident $name:literal $ty:ident $unit:literal [$($ie:literal),*] [$($rev:literal),*]
        $({$($enterprise:literal / $id:literal),*})? $label:literal, $doc:literal;)*) => {
        /// A column of the table `flows`, in the order of the schema.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Column {
            $(#[doc = $doc] $variant,)*
        }

        impl Column {
            /// Every column in schema order.
            pub const ALL: &'static [Column] = &[$(Column::$variant),*];
            /// Number of columns.
            pub const COUNT: usize = Self::ALL.len();

            /// What the table says about this column.
            pub const fn spec(self) -> &'static ColumnSpec {
                const SPECS: &[ColumnSpec] = &[$(ColumnSpec {
                    name: $name, column_type: ColumnType::$ty, unit: $unit, elements: &[$($ie),*],
                    enterprise_elements: &[$($(($enterprise, $id)),*)?], reverse_elements: &[$($rev),*],
                    label: $label, doc: $doc,
                }),*];
                &SPECS[self as usize]
            }
        }
    };
}

columns! {
    Received "received" Time "ms" [] [] "received", "When the Collecting Process received the datagram that carried the flow, by its own clock.";
    Start "start" Time "ms" [152, 154, 156, 158, 150, 22] [] "start", "When the first packet of the flow was observed; for sFlow, which has no times, when it was received.";
    End "end" Time "ms" [153, 155, 157, 159, 151, 21] [] "end", "When the last packet of the flow was observed; for sFlow as `start`.";
    Exporter "exporter" Address "" [] [] "exporter", "Address that the export datagrams came from; for sFlow the address that the agent reports, which relays keep.";
    ObservationDomain "observation_domain" U32 "" [] [] "domain", "Observation Domain ID (IPFIX), Source ID (NetFlow v9), engine type and id (NetFlow v5), sub-agent ID (sFlow); 0 in NetFlow v1 and v7, which have none.";
    ExportVersion "export_version" U8 "" [] [] "ver", "Version of the export protocol: 1, 5, 7, 9, 10 for IPFIX, 105 for sFlow version 5.";
    SrcAddr "src_addr" Address "" [8, 27] [] "src addr", "Source address in the IP header.";
    DstAddr "dst_addr" Address "" [12, 28] [] "dst addr", "Destination address in the IP header.";
    SrcPort "src_port" U16 "" [7, 180, 182] [] "sport", "Source port of the transport header.";
    DstPort "dst_port" U16 "" [11, 181, 183] [] "dport", "Destination port of the transport header; for ICMP in NetFlow v5, and as many exporters of other versions have it, type * 256 + code.";
    Protocol "protocol" U8 "" [4] [] "proto", "IP protocol number.";
    TcpFlags "tcp_flags" U16 "" [6] [] "flags", "TCP control bits, combined over all packets of the flow.";
    Tos "tos" U8 "" [5] [] "tos", "Type of service, or traffic class of IPv6.";
    Packets "packets" U64 "packets" [2, 86, 298] [] "packets", "Packets of the flow as measured, not scaled by sampling; 1 for a sample of sFlow. Of exporters that count packets after the Observation Point only (elements 24, 172) these.";
    Bytes "bytes" U64 "octets" [1, 85, 231] [] "bytes", "Octets of the flow as measured, IP header included, not scaled by sampling. For sFlow the length of the IP packet (of the outermost one), or of what the frame carries when it is no IP; the length of the frame is element 352. Of exporters that count octets after the Observation Point only (elements 23, 171) these, and of exporters that count those of frames only element 352.";
    NextHop "next_hop" Address "" [15, 62] [] "next hop", "Address of the next router.";
    InIf "in_if" U32 "" [10] [] "in if", "SNMP index of the interface that the flow came in by.";
    OutIf "out_if" U32 "" [14] [] "out if", "SNMP index of the interface that the flow went out by.";
    SrcAs "src_as" U32 "" [16] [] "src as", "Autonomous system number of the source.";
    DstAs "dst_as" U32 "" [17] [] "dst as", "Autonomous system number of the destination.";
    SrcMask "src_mask" U8 "bits" [9, 29] [] "smask", "Length of the routing prefix of the source.";
    DstMask "dst_mask" U8 "bits" [13, 30] [] "dmask", "Length of the routing prefix of the destination.";
    SamplingInterval "sampling_interval" U32 "packets" [34, 50, 305] [] "1 in", "Sampling interval in force when the flow was measured: one packet of this many; null when the exporter reported none.";
    EngineType "engine_type" U8 "" [38] [] "engine", "Type of the switching engine (NetFlow v5 header).";
    EngineId "engine_id" U8 "" [39] [] "eid", "Number of the switching engine (NetFlow v5 header).";
    SamplerId "sampler_id" U32 "" [302, 48] [] "sampler", "Identifier of the sampler that selected the packets.";
    BytesReverse "bytes_reverse" U64 "octets" [232] [1, 85] "bytes rev", "Octets in the opposite direction of a bidirectional flow.";
    PacketsReverse "packets_reverse" U64 "packets" [299] [2, 86] "packets rev", "Packets in the opposite direction of a bidirectional flow.";
    BytesOut "bytes_out" U64 "octets" [23, 171] [] "bytes out", "Octets after the Observation Point, where the exporter counts both.";
    PacketsOut "packets_out" U64 "packets" [24, 172] [] "packets out", "Packets after the Observation Point, where the exporter counts both.";
    Flows "flows" U64 "flows" [3] [] "flows", "Number of flows in an aggregated record; null means one.";
    DstTos "dst_tos" U8 "" [55] [] "dtos", "Type of service after the Observation Point.";
    MinTtl "min_ttl" U8 "hops" [52] [] "min ttl", "Smallest TTL or hop limit seen.";
    MaxTtl "max_ttl" U8 "hops" [53] [] "max ttl", "Largest TTL or hop limit seen.";
    IcmpType "icmp_type" U8 "" [176, 178] [] "itype", "ICMP or ICMPv6 type, also of exporters that have it in one element with the code; null where `dst_port` alone has it. `icmp type` of filters finds all.";
    IcmpCode "icmp_code" U8 "" [177, 179] [] "icode", "ICMP or ICMPv6 code, as `icmp_type`.";
    IcmpTypeCode "icmp_type_code" U16 "" [32, 139] [] "icmp", "ICMP or ICMPv6 type * 256 + code, where the exporter has both in one element.";
    Direction "direction" U8 "" [61] [] "dir", "0 for a flow measured on its way in, 1 on its way out.";
    ForwardingStatus "forwarding_status" U8 "" [89] [] "fwd", "Forwarding status and reason (RFC 7270 section 4.12).";
    EndReason "end_reason" U8 "" [136] [] "reason", "Why the flow ended: 1 idle, 2 active timeout, 3 end of flow, 4 forced, 5 lack of resources.";
    BgpNextHop "bgp_next_hop" Address "" [18, 63] [] "bgp hop", "Address of the next BGP router.";
    PrevAs "prev_as" U32 "" [129] [] "prev as", "Autonomous system of the previous hop.";
    NextAs "next_as" U32 "" [128] [] "next as", "Autonomous system of the next hop.";
    SrcVlan "src_vlan" U16 "" [58, 243] [] "svlan", "VLAN of the packets as observed.";
    DstVlan "dst_vlan" U16 "" [59, 254] [] "dvlan", "VLAN of the packets after the Observation Point.";
    SrcMac "src_mac" Mac "" [56] [] "src mac", "Source MAC address as observed.";
    DstMac "dst_mac" Mac "" [80] [] "dst mac", "Destination MAC address as observed.";
    PostSrcMac "post_src_mac" Mac "" [81] [] "post src mac", "Source MAC address after the Observation Point.";
    PostDstMac "post_dst_mac" Mac "" [57] [] "post dst mac", "Destination MAC address after the Observation Point.";
    IngressVrf "ingress_vrf" U32 "" [234] [] "in vrf", "VRF that the flow came in by.";
    EgressVrf "egress_vrf" U32 "" [235] [] "out vrf", "VRF that the flow went out by.";
    FlowId "flow_id" U64 "" [148] [] "flow id", "Identifier of the flow, unique within the Observation Domain.";
    ApplicationId "application_id" Octets "" [95] [] "app id", "Application identifier: engine octet and selector (RFC 6759 section 4).";
    NatSrcAddr "nat_src_addr" Address "" [225, 281, 40001] [] "nat src", "Source address after translation.";
    NatDstAddr "nat_dst_addr" Address "" [226, 282, 40002] [] "nat dst", "Destination address after translation.";
    NatSrcPort "nat_src_port" U16 "" [227, 40003] [] "nat sport", "Source port after translation.";
    NatDstPort "nat_dst_port" U16 "" [228, 40004] [] "nat dport", "Destination port after translation.";
    NatEvent "nat_event" U8 "" [230] [] "nat ev", "NAT event (RFC 8158 section 4.3).";
    FirewallEvent "firewall_event" U8 "" [233, 40005] [] "fw ev", "Firewall event: 1 created, 2 deleted, 3 denied, 4 alert, 5 update.";
    Ethertype "ethertype" U16 "" [256] [] "etype", "EtherType of the packets.";
    ObservationPoint "observation_point" U64 "" [138] [] "point", "Observation Point identifier; for sFlow the source of the sample: class * 2^32 + index.";
    TcpFlagsReverse "tcp_flags_reverse" U16 "" [] [6] "flags rev", "TCP control bits of the opposite direction of a bidirectional flow, combined over all its packets.";
    StartReverse "start_reverse" Time "ms" [] [152, 154, 156, 158, 150, 22] "start rev", "When the first packet in the opposite direction of a bidirectional flow was observed.";
    EndReverse "end_reverse" Time "ms" [] [153, 155, 157, 159, 151, 21] "end rev", "When the last packet in the opposite direction of a bidirectional flow was observed.";
    PortRangeStart "port_range_start" U16 "" [361] [] "port from", "First port of the block of ports that a NAT event is about (RFC 8158 section 4.3).";
    PortRangeEnd "port_range_end" U16 "" [362] [] "port to", "Last port of the block of ports that a NAT event is about.";
    TimeFlags "time_flags" U16 "" [] [] "time", "What is wrong with the times, as a sum of bits: 1 the exporter's clock is before 2000, 2 it is over 5 minutes ahead of `received`, 4 it is over a day behind, 8 the flow ends before it starts, 16 it starts or ends over 5 minutes after `received`, 32 it ends over a day before `received`, 64 a time counts from a start of the exporter that is not known, 128 a time in a field for uptimes is taken as one since 1970; null when nothing is.";
    TunnelSrcAddr "tunnel_src_addr" Address "" [57586, 57868] [] "tun src", "Source address of the packets that carry those of the flow through a tunnel; null without one.";
    TunnelDstAddr "tunnel_dst_addr" Address "" [57588, 57869] [] "tun dst", "Destination address of the packets that carry those of the flow through a tunnel; null without one.";
    Application "application" Text "" [96, 56701] [] {35632/119, 35632/427} "app", "Name of the application, as the exporter or the meter recognized it: `tls`, `domain`; nProbe and firewalls have names of their own. That a meter guessed it by the port alone is in `application_id`.";
    ServerName "server_name" Text "" [] [] {8057/808, 8057/890, 6871/294, 35632/188, 26866/112} "server name", "Name of the server that the client asks for in TLS, DTLS or QUIC (Server Name Indication, RFC 6066 section 3).";
    Ja4 "ja4" Text "" [] [] {35632/576} "ja4", "JA4 fingerprint of the client's TLS, DTLS or QUIC handshake.";
    Ja3 "ja3" Text "" [] [] {35632/489, 39499/357} "ja3", "JA3 fingerprint of the client's TLS handshake, 32 hexadecimal digits.";
    Alpn "alpn" Text "" [] [] {39499/337} "alpn", "Application protocol of TLS (RFC 7301): the one that the server chose, or those that the client offers, separated by commas, where the choice is hidden.";
    DnsName "dns_name" Text "" [] [] {8057/2, 6871/179, 35632/205, 26866/204} "dns name", "Name that the first question of DNS asks for, without the last dot; `.` for the root.";
    HttpHost "http_host" Text "" [460] [] {6871/117, 39499/1, 35632/187, 5951/142} "http host", "Host that a request of HTTP is for, with the port where one is given.";
    UserAgent "user_agent" Text "" [468] [] {6871/111, 39499/20, 35632/183, 5951/143, 8057/891, 8057/106, 16982/601, 8057/823} "user agent", "What the client says that it is: in HTTP, QUIC, SIP, RTSP or SSDP.";
    TcpRtt "tcp_rtt" U32 "µs" [] [] "rtt", "Round trip time of TCP's handshake: from the SYN to the ACK that answers the SYN with ACK, which is the way to the server and back and the way to the client and back. Null where a SYN comes again after the answer, since the ACK may be for either.";
    Retransmissions "retransmissions" U32 "packets" [] [] {35632/109} "retrans", "Segments of TCP all of whose octets were seen before.";
    RetransmissionsReverse "retransmissions_reverse" U32 "packets" [] [] {35632/110} "retrans rev", "Segments of TCP in the opposite direction all of whose octets were seen before.";
    SrcCountry "src_country" Text "" [57573] [] "src country", "ISO code of the country of the source when the flow came in, as the exporter reported it or a database had it (`enrichment`).";
    DstCountry "dst_country" Text "" [57575] [] "dst country", "ISO code of the country of the destination, as `src_country`.";
    SrcLabel "src_label" Text "" [] [] "src label", "Label of the longest prefix that holds the source, by the file of labels.";
    DstLabel "dst_label" Text "" [] [] "dst label", "Label of the longest prefix that holds the destination, by the file of labels.";
    InIfName "in_if_name" Text "" [] [] "in if name", "Name of `in_if` at the exporter, by the file of interfaces.";
    OutIfName "out_if_name" Text "" [] [] "out if name", "Name of `out_if` at the exporter, by the file of interfaces.";
    ExporterName "exporter_name" Text "" [] [] "exporter name", "Name of the exporter, by the file of exporters.";
    SrcName "src_name" Text "" [] [] "src name", "Name of the host of the source, by reverse DNS when the flow came in.";
    DstName "dst_name" Text "" [] [] "dst name", "Name of the host of the destination, by reverse DNS when the flow came in.";
    Enrichment "enrichment" Text "" [] [] "enrichment", "Files that the flow was enriched from, and the version of each: the type of a database and when it was built, the name of a file and when it was changed; null when it was not enriched.";
    Elements "elements" Elements "" [] [] "elements", "Information Elements of the record that have no column of their own, as they came; lists are followed by what is in them.";
}

impl Column {
    /// Name in SQL and in files.
    pub const fn name(self) -> &'static str {
        self.spec().name
    }

    /// Type of the column's values.
    pub const fn column_type(self) -> ColumnType {
        self.spec().column_type
    }

    /// Finds a column by its name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|column| column.name() == name)
    }

    /// The column that an Information Element fills, with its rank among the elements of that column (0 is
    /// preferred), or `None` when it goes to [`Column::Elements`].
    pub fn of_element(enterprise: u32, id: u16) -> Option<(Self, usize)> {
        let find = |elements: &ElementsByNumber, key: (u32, u16)| {
            let at = elements.binary_search_by_key(&key, |(known, ..)| *known).ok()?;
            let (_, column, rank) = elements[at];
            Some((column, rank))
        };
        match enterprise {
            0 => find(&ELEMENTS, (0, id))
                .or_else(|| find(&ELEMENTS, (NTOP_ENTERPRISE, id.checked_sub(NTOP_NETFLOW9_BASE)?))),
            // ntop has the same elements in both protocols
            NTOP_ENTERPRISE => {
                find(&ELEMENTS, (enterprise, id)).or_else(|| find(&ELEMENTS, (0, NTOP_NETFLOW9_BASE.checked_add(id)?)))
            }
            REVERSE_ENTERPRISE => find(&REVERSE_ELEMENTS, (0, id)),
            _ => find(&ELEMENTS, (enterprise, id)),
        }
    }

    /// The element that the column is exported as, by enterprise and number: the preferred one; `None` when no element
    /// fits it.
    pub fn preferred_element(self) -> Option<(u32, u16)> {
        let spec = self.spec();
        spec.elements.first().map(|id| (0, *id)).or_else(|| spec.enterprise_elements.first().copied())
    }
}

/// Numbers of elements with their columns and ranks, by number: templates of a thousand fields come from anybody.
type ElementsByNumber = Box<[((u32, u16), Column, usize)]>;

static ELEMENTS: LazyLock<ElementsByNumber> = LazyLock::new(|| {
    by_number(|column| {
        let spec = column.spec();
        spec.elements.iter().map(|id| (0, *id)).chain(spec.enterprise_elements.iter().copied()).collect()
    })
});
static REVERSE_ELEMENTS: LazyLock<ElementsByNumber> =
    LazyLock::new(|| by_number(|column| column.spec().reverse_elements.iter().map(|id| (0, *id)).collect()));

fn by_number(elements: impl Fn(Column) -> Vec<(u32, u16)>) -> ElementsByNumber {
    let of_column = |column: Column| elements(column).into_iter().zip(0..).map(move |(id, rank)| (id, column, rank));
    let mut all: Vec<_> = Column::ALL.iter().copied().flat_map(of_column).collect();
    // of an element that two columns name the first counts
    all.sort_by_key(|(id, column, _)| (*id, *column));
    all.dedup_by_key(|(id, ..)| *id);
    all.into_boxed_slice()
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for &column in Column::ALL {
            assert_eq!(Column::by_name(column.name()), Some(column));
        }
    }

    #[test]
    fn no_two_columns_have_one_label() {
        let mut seen = std::collections::HashSet::new();
        for column in Column::ALL {
            assert!(seen.insert(column.spec().label), "label '{}' is that of two columns", column.spec().label);
        }
    }

    #[test]
    fn no_element_fills_two_columns() {
        let mut seen = std::collections::HashSet::new();
        for column in Column::ALL {
            let of_iana = column.spec().elements.iter().map(|id| (0, *id));
            for element in of_iana.chain(column.spec().enterprise_elements.iter().copied()) {
                assert!(seen.insert(element), "element {element:?} fills two columns");
            }
        }
    }

    #[test]
    fn preferred_elements_are_the_first_of_the_table() {
        assert_eq!(Column::Application.preferred_element(), Some((0, 96)));
        assert_eq!(Column::ServerName.preferred_element(), Some((8057, 808)));
        assert_eq!(Column::TcpRtt.preferred_element(), None);
    }

    #[test]
    fn elements_lead_to_their_columns() {
        assert_eq!(Column::of_element(0, 8), Some((Column::SrcAddr, 0)));
        assert_eq!(Column::of_element(0, 27), Some((Column::SrcAddr, 1)));
        assert_eq!(Column::of_element(29305, 1), Some((Column::BytesReverse, 0)));
        // YAF counts both directions of a biflow in total counters (RFC 5103 section 4: reverse elements have the same
        // meaning in the other direction)
        assert_eq!(Column::of_element(29305, 85), Some((Column::BytesReverse, 1)));
        assert_eq!(Column::of_element(29305, 86), Some((Column::PacketsReverse, 1)));
        assert_eq!(Column::of_element(9, 8), None);
        // nProbe's numbers by protocol (ntop, nProbe User's Guide, "Flow Information Elements")
        assert_eq!(Column::of_element(0, 57586), Some((Column::TunnelSrcAddr, 0)));
        assert_eq!(Column::of_element(35632, 114), Some((Column::TunnelSrcAddr, 0)));
        assert_eq!(Column::of_element(35632, 397), Some((Column::TunnelDstAddr, 1)));
        assert_eq!([Column::of_element(35632, 8), Column::of_element(35632, u16::MAX)], [None; 2]);
        assert_eq!(Column::of_element(35632, 188), Some((Column::ServerName, 3)));
        assert_eq!(Column::of_element(0, 57660), Some((Column::ServerName, 3)));
        // ipfixprobe, `ipfix-elements.hpp`: the server name of QUIC; yaf, `CERT_IE.h`: that of TLS
        assert_eq!(Column::of_element(8057, 890), Some((Column::ServerName, 1)));
        assert_eq!(Column::of_element(6871, 294), Some((Column::ServerName, 2)));
        // Palo Alto Networks, "NetFlow Templates": App-ID
        assert_eq!(Column::of_element(0, 56701), Some((Column::Application, 1)));
    }
}
