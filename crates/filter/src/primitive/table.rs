//! The words themselves: what each primitive reads, what nfdump knows besides, and other spellings.

use weir_flow::Column;

use super::form::Form::{
    Address, Always, Block, Family, Flags, Ident, Mac, Named, Net, Number, RecordNumber, Text, Time, User, Zero,
};
use super::form::{Direction, Primitive};
use crate::Operand;
use crate::names::{DENIED, DIRECTIONS, FIREWALL_EVENTS, FORWARDING, NAT_EVENTS, PROTOCOLS};

macro_rules! column {
    ($($column:ident),*) => { &[$(Operand::Column(Column::$column)),*] };
}

/// Numbers in elements without a column of their own.
mod element {
    use crate::{ElementNumber, Operand};

    /// `bits` bits of an element, above the lowest `shift`.
    const fn part(elements: &'static [(u32, u16)], shift: u8, bits: u8) -> Operand {
        Operand::Element(ElementNumber { elements, shift, bits })
    }

    const NPROBE: u32 = 35632;

    // nProbe's numbers are 57472 higher in NetFlow v9, which knows no enterprises.
    pub(super) const CLIENT_LATENCY: Operand = part(&[(NPROBE, 123), (0, 57595)], 0, 32);
    pub(super) const SERVER_LATENCY: Operand = part(&[(NPROBE, 124), (0, 57596)], 0, 32);
    // Cisco's NSEL: 33002 is NF_F_FW_EXT_EVENT, 33000 and 33001 are the access lists in and out, each three numbers.
    pub(super) const EXTENDED_EVENT: Operand = part(&[(0, 33002)], 0, 16);
    pub(super) const INGRESS_ACL: [Operand; 3] = acl(&[(0, 33000)]);
    pub(super) const EGRESS_ACL: [Operand; 3] = acl(&[(0, 33001)]);
    pub(super) const BLOCK_STEP: Operand = part(&[(0, 363)], 0, 16);
    pub(super) const BLOCK_SIZE: Operand = part(&[(0, 364)], 0, 16);

    const fn acl(elements: &'static [(u32, u16)]) -> [Operand; 3] {
        [part(elements, 64, 32), part(elements, 32, 32), part(elements, 0, 32)]
    }

    /// Label of an entry of the MPLS label stack: 20 bits of label, 3 of traffic class, 1 of bottom of stack.
    pub(super) const fn mpls_label(elements: &'static [(u32, u16)]) -> Operand {
        part(elements, 4, 20)
    }

    /// Traffic class of such an entry.
    pub(super) const fn mpls_exp(elements: &'static [(u32, u16)]) -> Operand {
        part(elements, 1, 3)
    }
}

macro_rules! mpls {
    ($($label:literal $exp:literal $id:literal;)*) => {
        /// The ten entries of the MPLS label stack, elements 70 to 79.
        pub(super) const MPLS: &[Primitive] = &[$(
            Primitive {
                name: $label, form: Number, directions: &[Direction("", &[element::mpls_label(&[(0, $id)])])],
                example: concat!($label, " > 1000"), doc: "Label of an entry of the MPLS stack: `label1`, the top, to `label10`.",
            },
            Primitive {
                name: $exp, form: Number, directions: &[Direction("", &[element::mpls_exp(&[(0, $id)])])],
                example: concat!($exp, " 5"), doc: "Traffic class (experimental bits) of such an entry, `exp1` to `exp10`.",
            },
        )*];

        const MPLS_LABELS: &[Operand] = &[$(element::mpls_label(&[(0, $id)])),*];
    };
}

mpls! {
    "mpls label1" "mpls exp1" 70;
    "mpls label2" "mpls exp2" 71;
    "mpls label3" "mpls exp3" 72;
    "mpls label4" "mpls exp4" 73;
    "mpls label5" "mpls exp5" 74;
    "mpls label6" "mpls exp6" 75;
    "mpls label7" "mpls exp7" 76;
    "mpls label8" "mpls exp8" 77;
    "mpls label9" "mpls exp9" 78;
    "mpls label10" "mpls exp10" 79;
}

const ADDRESS_DIRECTIONS: &[Direction] = &[
    Direction("", column![SrcAddr, DstAddr]),
    Direction("src", column![SrcAddr]),
    Direction("dst", column![DstAddr]),
    Direction("next", column![NextHop]),
    Direction("bgp next", column![BgpNextHop]),
    Direction("router", column![Exporter]),
    Direction("nat", column![NatSrcAddr, NatDstAddr]),
    Direction("src nat", column![NatSrcAddr]),
    Direction("dst nat", column![NatDstAddr]),
];

macro_rules! primitives {
    ($($name:literal $form:expr, [$($direction:literal: $operands:expr),*], $example:literal, $doc:literal;)*) => {
        &[$(Primitive {
            name: $name, form: $form, directions: &[$(Direction($direction, $operands)),*], example: $example, doc: $doc,
        }),*]
    };
}

pub(super) const ADDRESSES: &[Primitive] = &[
    Primitive {
        name: "ip",
        form: Address,
        directions: ADDRESS_DIRECTIONS,
        example: "src ip in [192.0.2.1, 198.51.100.0/24, 2001:db8::/32]",
        doc: "An address is this one, or is in one of the prefixes. Lists may mix both families and overlap.",
    },
    Primitive {
        name: "net",
        form: Net,
        directions: ADDRESS_DIRECTIONS,
        example: "dst net 198.51.100.0/24",
        doc: "An address is in a network, written `ADDRESS/LENGTH` or `ADDRESS MASK`; missing octets of an IPv4 \
              address are 0.",
    },
];

pub(super) const PRIMITIVES: &[Primitive] = primitives! {
    "any" Always, ["": &[]], "any", "Every flow.";
    "ipv4" Family { v6: false }, ["": &[]], "ipv4", "The source or destination address is IPv4.";
    "ipv6" Family { v6: true }, ["": &[]], "ipv6", "The source or destination address is IPv6.";
    "proto" Named(&PROTOCOLS), ["": column![Protocol]], "proto udp", "IP protocol, by name or number.";
    "port" Number, ["": column![SrcPort, DstPort], "src": column![SrcPort], "dst": column![DstPort],
        "nat": column![NatSrcPort, NatDstPort], "src nat": column![NatSrcPort], "dst nat": column![NatDstPort]],
        "dst port in [80, 443, 8000-8999]", "Port, whatever the protocol: TCP or UDP are not implied.";
    "icmp type" Number, ["": &[Operand::IcmpType]], "icmp type 8",
        "ICMP or ICMPv6 type; implies `proto icmp or proto icmp6`. Read from `dst_port` where the exporter put it there.";
    "icmp code" Number, ["": &[Operand::IcmpCode]], "icmp type 3 and icmp code 1", "ICMP or ICMPv6 code, likewise.";
    "flags" Flags, ["": &[Operand::TcpFlags]], "flags S and not flags AFRPU",
        "TCP control bits; implies `proto tcp`. `flags SA`: these bits are set, `flags =SA`: these and no others, \
         `flags > 2`: as a number. Letters F S R P A U E C; X stands for the first six.";
    "if" Number, ["": column![InIf, OutIf], "in": column![InIf], "out": column![OutIf]], "in if 3",
        "SNMP index of the interface.";
    "vlan" Number, ["": column![SrcVlan, DstVlan], "src": column![SrcVlan], "dst": column![DstVlan]], "src vlan 100",
        "VLAN number.";
    "mask" Number, ["": column![SrcMask, DstMask], "src": column![SrcMask], "dst": column![DstMask]], "dst mask < 8",
        "Length of the routing prefix.";
    "as" Number, ["": column![SrcAs, DstAs], "src": column![SrcAs], "dst": column![DstAs], "prev": column![PrevAs],
        "next": column![NextAs]], "src as in [64496, 64497]", "Autonomous system number, as exported.";
    "mac" Mac, ["": column![SrcMac, PostDstMac, DstMac, PostSrcMac], "src": column![SrcMac, PostSrcMac],
        "dst": column![DstMac, PostDstMac], "in": column![SrcMac, DstMac], "out": column![PostSrcMac, PostDstMac],
        "in src": column![SrcMac], "in dst": column![DstMac], "out src": column![PostSrcMac],
        "out dst": column![PostDstMac]], "src mac 00:1b:21:01:02:ff", "MAC address; undirected is any of the four.";
    "packets" Number, ["": column![Packets], "in": column![Packets], "out": column![PacketsOut, PacketsReverse],
        "reverse": column![PacketsReverse]], "packets > 1k",
        "Packets as measured. `out` reads the exporter's second counter: after the Observation Point, or reverse.";
    "bytes" Number, ["": column![Bytes], "in": column![Bytes], "out": column![BytesOut, BytesReverse],
        "reverse": column![BytesReverse]], "bytes >= 10m", "Octets as measured, likewise.";
    "flows" Number, ["": &[Operand::Flows]], "flows > 1",
        "Number of flows that the record stands for; 1 where the exporter tells none.";
    "pps" Number, ["": &[Operand::PacketsPerSecond]], "pps > 100",
        "Packets per second, rounded down; 0 when the duration is 0.";
    "bps" Number, ["": &[Operand::BitsPerSecond]], "bps > 10m",
        "Bits per second, rounded down; 0 when the duration is 0.";
    "bpp" Number, ["": &[Operand::BytesPerPacket]], "bpp < 64",
        "Octets per packet, rounded down; 0 when there are no packets.";
    "duration" Number, ["": &[Operand::DurationMs]], "duration > 60000", "`end` minus `start`, in milliseconds.";
    "first seen" Time, ["": column![Start]], "first seen >= 2024-05-01T12:30", "Start of the flow.";
    "last seen" Time, ["": column![End]], "last seen < 2024-05-02", "End of the flow.";
    "tos" Number, ["": column![Tos], "src": column![Tos], "dst": column![DstTos]], "tos 184",
        "Type of service; `dst tos` after the Observation Point.";
    "ttl" Number, ["": column![MinTtl, MaxTtl], "min": column![MinTtl], "max": column![MaxTtl]], "min ttl < 5",
        "TTL or hop limit; undirected is the smallest or the largest seen.";
    "flowdir" Named(&DIRECTIONS), ["": column![Direction]], "flowdir egress", "Whether the flow was measured on its way in or out.";
    "fwdstat" Named(&FORWARDING), ["": column![ForwardingStatus]], "fwdstat drop",
        "Forwarding status and reason, exactly this value: `drop` is 128, dropped for an unknown reason.";
    "ethertype" Number, ["": column![Ethertype]], "ethertype 0x86dd", "EtherType of the packets.";
    "engine type" Number, ["": column![EngineType]], "engine type 1", "Type of the switching engine.";
    "engine id" Number, ["": column![EngineId]], "engine id 2", "Number of the switching engine.";
    "observation domain id" Number, ["": column![ObservationDomain]], "observation domain id 256",
        "Observation Domain ID, or Source ID of NetFlow v9.";
    "observation point id" Number, ["": column![ObservationPoint]], "observation point id 7", "Observation Point ID.";
    "vrf" Number, ["ingress": column![IngressVrf], "egress": column![EgressVrf]], "ingress vrf 12", "VRF number.";
    "nat event" Named(&NAT_EVENTS), ["": column![NatEvent]], "nat event add44", "NAT event.";
    "asa event" Named(&FIREWALL_EVENTS), ["": column![FirewallEvent]], "asa event denied", "Firewall event.";
    "asa xevent" Number, ["": &[element::EXTENDED_EVENT]], "asa xevent 1001", "Extended firewall event of Cisco's NSEL (element 33002).";
    "asa denied" Named(&DENIED), ["": &[element::EXTENDED_EVENT]], "asa denied ingress", "Why the firewall denied the flow, from the extended event.";
    "asa user" User, ["": &[]], "asa user 'jane'", "Name of the user (element 371, or 40000 of Cisco's NSEL), exactly this text.";
    "acl" Number, ["ingress": &element::INGRESS_ACL, "egress": &element::EGRESS_ACL], "ingress acl 0x1a2b",
        "Any of the three numbers that name an access list of Cisco's NSEL (elements 33000 and 33001).";
    "acl id" Number, ["ingress": &[element::INGRESS_ACL[0]], "egress": &[element::EGRESS_ACL[0]]], "ingress acl id 0x1a2b",
        "The first of these numbers, the list.";
    "ace" Number, ["ingress": &[element::INGRESS_ACL[1]], "egress": &[element::EGRESS_ACL[1]]], "ingress ace 7",
        "The second, its entry.";
    "xace" Number, ["ingress": &[element::INGRESS_ACL[2]], "egress": &[element::EGRESS_ACL[2]]], "egress xace 9",
        "The third, the extended entry.";
    "nat pblock start" Number, ["": column![PortRangeStart]], "nat pblock start >= 1024", "First port of the block that a NAT event is about.";
    "nat pblock end" Number, ["": column![PortRangeEnd]], "nat pblock end < 2048", "Last port of the block.";
    "nat pblock step" Number, ["": &[element::BLOCK_STEP]], "nat pblock step 1", "Step from port to port of the block (element 363).";
    "nat pblock size" Number, ["": &[element::BLOCK_SIZE]], "nat pblock size 512", "Number of ports of the block (element 364).";
    "port in nat pblock" Block, ["": column![SrcPort, DstPort], "src": column![SrcPort], "dst": column![DstPort]],
        "src port in nat pblock", "The port is between the first and the last port of the block.";
    "ttl equal" Zero, ["": &[Operand::TtlSpread]], "ttl equal", "The smallest and the largest TTL are the same.";
    "ttl spread" Number, ["": &[Operand::TtlSpread]], "ttl spread > 4", "Largest TTL minus smallest.";
    "latency" Number, ["client": &[element::CLIENT_LATENCY], "server": &[element::SERVER_LATENCY]], "client latency > 100",
        "Network latency that nProbe measured, in milliseconds (elements 123 and 124 of enterprise 35632).";
    "mpls any" Number, ["": MPLS_LABELS], "mpls any 24000", "Some label of the MPLS stack.";
    "mpls eos" Number, ["": &[Operand::MplsBottom]], "mpls eos 16", "Label at the bottom of the MPLS stack.";
    "application" Text, ["": column![Application]], "application in [dns, tls]",
        "Name of the application; `dns`, `rdp`, `smb`, `vnc`, `ike` and `postgres` stand for the names in the registry of services too.";
    "sni" Text, ["": column![ServerName]], "sni like '%.example.com'", "Name of the server that the client asks for in TLS, DTLS or QUIC.";
    "ja4" Text, ["": column![Ja4]], "ja4 t13d1516h2_8daaf6152771_02713d6af862", "JA4 of the client's handshake.";
    "ja3" Text, ["": column![Ja3]], "ja3 like 'd41d%'", "JA3 of the client's handshake.";
    "alpn" Text, ["": column![Alpn]], "alpn h2", "Application protocol of TLS.";
    "dns name" Text, ["": column![DnsName]], "dns name www.example.org", "Name that DNS is asked for.";
    "http host" Text, ["": column![HttpHost]], "http host in [example.org, 'example.org:8080']", "Host of an HTTP request.";
    "user agent" Text, ["": column![UserAgent]], "user agent like 'curl/%'", "What the client says that it is.";
    "country" Text, ["": column![SrcCountry, DstCountry], "src": column![SrcCountry], "dst": column![DstCountry]],
        "dst country in [CN, RU]", "Country that was kept with the flow, by its ISO code; `geo` of nfdump is the same.";
    "label" Text, ["": column![SrcLabel, DstLabel], "src": column![SrcLabel], "dst": column![DstLabel]],
        "src label 'guest wifi'", "Label that was kept with the flow.";
    "if name" Text, ["": column![InIfName, OutIfName], "in": column![InIfName], "out": column![OutIfName]],
        "in if name like 'uplink%'", "Name of the interface that was kept with the flow.";
    "router name" Text, ["": column![ExporterName]], "router name like 'core-%'", "Name of the exporter that was kept with the flow.";
    "rtt" Number, ["": column![TcpRtt]], "rtt > 200k", "Round trip time of TCP's handshake, in microseconds.";
    "retransmissions" Number, ["": column![Retransmissions], "reverse": column![RetransmissionsReverse]],
        "retransmissions > 10", "Segments of TCP all of whose octets were seen before.";
    "count" RecordNumber, ["": &[Operand::RecordNumber]], "count <= 100",
        "Number of the record in order of reading, from 1. Only where files are read in order, as by `weir nfdump`.";
    "ident" Ident, ["": &[]], "ident router-7", "Ident of the file that the flow was read from. Only where files with idents are read.";
};

/// What nfdump can ask and flows cannot answer yet.
pub(super) const UNANSWERABLE: &[(&str, &str)] = &[
    ("ip tor", "flows are not compared with the list of Tor relays; filter by 'ip in [...]'"),
    ("src ip tor", "flows are not compared with the list of Tor relays; filter by 'src ip in [...]'"),
    ("dst ip tor", "flows are not compared with the list of Tor relays; filter by 'dst ip in [...]'"),
    ("payload", "flows carry no payload"),
    ("in payload", "flows carry no payload"),
    ("out payload", "flows carry no payload"),
    ("tun geo", "flows have no columns of tunnel headers"),
    ("src tun geo", "flows have no columns of tunnel headers"),
    ("dst tun geo", "flows have no columns of tunnel headers"),
    ("nat geo", "flows carry no country of translated addresses; filter by 'nat net'"),
    ("src nat geo", "flows carry no country of translated addresses; filter by 'src nat net'"),
    ("dst nat geo", "flows carry no country of translated addresses; filter by 'dst nat net'"),
    ("pf", "flows have no columns of pf logs"),
    ("tun ip", "flows have no columns of tunnel headers"),
    ("src tun ip", "flows have no columns of tunnel headers"),
    ("dst tun ip", "flows have no columns of tunnel headers"),
    ("tun net", "flows have no columns of tunnel headers"),
    ("src tun net", "flows have no columns of tunnel headers"),
    ("dst tun net", "flows have no columns of tunnel headers"),
    ("tun proto", "flows have no columns of tunnel headers"),
    ("exporter id", "exporters have no internal number; filter by 'router ip' or 'observation domain id'"),
    ("src tz", "flows carry no time zone"),
    ("dst tz", "flows carry no time zone"),
    ("ja4s", "flows carry no fingerprint of the server; 'ja4' and 'ja3' are those of the client"),
];

/// Other spellings of whole phrases, those of nfdump 1.6 among them.
pub(crate) const SPELLINGS: &[(&str, &str)] = &[
    ("geo", "country"),
    ("src geo", "src country"),
    ("dst geo", "dst country"),
    ("inet", "ipv4"),
    ("inet6", "ipv6"),
    ("protocol", "proto"),
    ("icmp-type", "icmp type"),
    ("icmp-code", "icmp code"),
    ("inif", "in if"),
    ("outif", "out if"),
    ("nip", "nat ip"),
    ("src nip", "src nat ip"),
    ("dst nip", "dst nat ip"),
    ("xip", "nat ip"),
    ("src xip", "src nat ip"),
    ("dst xip", "dst nat ip"),
    ("nport", "nat port"),
    ("src nport", "src nat port"),
    ("dst nport", "dst nat port"),
    ("xport", "nat port"),
    ("src xport", "src nat port"),
    ("dst xport", "dst nat port"),
    ("bgpnext ip", "bgp next ip"),
    ("bgpnext", "bgp next ip"),
    ("engine-type", "engine type"),
    ("engine-id", "engine id"),
    ("sysid", "exporter id"),
    ("event", "asa event"),
    ("xevent", "asa xevent"),
    ("firewall event", "asa event"),
    ("cnt", "count"),
    ("previous as", "prev as"),
    ("odid", "observation domain id"),
    ("opid", "observation point id"),
    ("ingress vrfid", "ingress vrf"),
    ("egress vrfid", "egress vrf"),
    ("app", "application"),
    ("server name", "sni"),
    ("server_name", "sni"),
];
