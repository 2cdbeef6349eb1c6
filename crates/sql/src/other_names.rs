//! Columns by the names that other programs give them.
//!
//! Who comes from nfdump, `SiLK`, ntopng, ClickHouse schemas or IPFIX types the names of there, which are often nearer in
//! spelling to another column than to the one that is meant: `src_ip` is `src_addr` and not `src_as`.

/// A name of ours, and those that other programs have for it, in lower case without underscores.
const NAMES: &[(&str, &[&str])] = &[
    (
        "src_addr",
        &[
            "srcip",
            "sip",
            "sa",
            "srcaddr",
            "ipsrc",
            "ipsrcaddr",
            "ipv4srcaddr",
            "ipv6srcaddr",
            "sourceip",
            "sourceaddress",
            "sourceipv4address",
            "sourceipv6address",
            "srchost",
            "saddr",
            "idorigh",
            "clientip",
        ],
    ),
    (
        "dst_addr",
        &[
            "dstip",
            "dip",
            "da",
            "dstaddr",
            "ipdst",
            "ipdstaddr",
            "ipv4dstaddr",
            "ipv6dstaddr",
            "destip",
            "destinationip",
            "destinationaddress",
            "destinationipv4address",
            "destinationipv6address",
            "dsthost",
            "daddr",
            "idresph",
            "serverip",
        ],
    ),
    ("src_port", &["sport", "sp", "srcport", "l4srcport", "sourceport", "sourcetransportport", "portsrc", "idorigp"]),
    (
        "dst_port",
        &[
            "dport",
            "dp",
            "dstport",
            "l4dstport",
            "destport",
            "destinationport",
            "destinationtransportport",
            "portdst",
            "idrespp",
            "port",
        ],
    ),
    ("protocol", &["proto", "pr", "prot", "ipproto", "protocolidentifier", "ipprotocol"]),
    (
        "bytes",
        &[
            "byt",
            "ibyt",
            "octets",
            "inbytes",
            "doctets",
            "octetdeltacount",
            "octetcount",
            "octettotalcount",
            "bytecount",
            "size",
            "nbytes",
        ],
    ),
    (
        "packets",
        &[
            "pkt",
            "pkts",
            "ipkt",
            "inpkts",
            "dpkts",
            "inpackets",
            "packetdeltacount",
            "packetcount",
            "packettotalcount",
            "npackets",
        ],
    ),
    ("flows", &["fl", "flowcount", "aggrflows"]),
    (
        "start",
        &[
            "ts",
            "first",
            "firstseen",
            "stime",
            "starttime",
            "tstart",
            "flowstart",
            "flowstartmilliseconds",
            "firstswitched",
            "timestamp",
            "time",
            "timestart",
            "timeflowstart",
            "datetime",
            "timereceived",
        ],
    ),
    (
        "end",
        &[
            "te",
            "last",
            "lastseen",
            "etime",
            "endtime",
            "tend",
            "flowend",
            "flowendmilliseconds",
            "lastswitched",
            "timeend",
            "timeflowend",
        ],
    ),
    ("received", &["tr", "receivedat", "timereceived", "recvtime"]),
    ("tcp_flags", &["flg", "flags", "tcpflag", "flgs", "tcpcontrolbits", "initialflags"]),
    ("tos", &["srctos", "dscp", "ipclassofservice", "ipdscp", "iptos"]),
    ("src_as", &["sas", "srcas", "srcasn", "asnsrc", "bgpsourceasnumber", "sourceas"]),
    ("dst_as", &["das", "dstas", "dstasn", "asndst", "bgpdestinationasnumber", "destinationas"]),
    ("in_if", &["in", "inif", "input", "inputsnmp", "ingressinterface", "inputinterface", "ininterface", "iif"]),
    ("out_if", &["out", "outif", "output", "outputsnmp", "egressinterface", "outputinterface", "outinterface", "oif"]),
    ("next_hop", &["nh", "nhip", "nexthop", "ipnexthop", "ipnexthopipv4address", "bgpnexthop"]),
    (
        "exporter",
        &[
            "ra",
            "router",
            "routerip",
            "exporterip",
            "exporteraddress",
            "exporteripv4address",
            "agent",
            "agentip",
            "sampleraddress",
            "device",
            "probe",
            "sensor",
        ],
    ),
    ("sampling_interval", &["samplingrate", "sampling", "samplerate"]),
    ("src_mask", &["smk", "srcmask", "srcnet", "sourceipv4prefixlength"]),
    ("dst_mask", &["dmk", "dstmask", "dstnet", "destinationipv4prefixlength"]),
    ("icmp_type", &["icmptype", "icmptypeipv4"]),
    ("src_vlan", &["svln", "srcvlan", "vlan", "vlanid"]),
    ("dst_vlan", &["dvln", "dstvlan", "postvlanid"]),
    ("src_mac", &["smac", "srcmac", "sourcemacaddress", "ismc"]),
    ("dst_mac", &["dmac", "dstmac", "destinationmacaddress", "odmc"]),
    ("application", &["app", "l7proto", "l7protoname", "applicationname", "appname", "appid", "service"]),
    ("server_name", &["sni", "tlssni", "tlsservername", "servername"]),
    ("dns_name", &["dnsquery", "dnsqname", "qname", "query"]),
    ("http_host", &["httphost", "host"]),
    ("user_agent", &["useragent", "httpuseragent"]),
];

/// What is written instead of a column that is computed.
const COMPUTED: &[(&str, &str)] = &[
    ("duration", "duration_ms(start, end)"),
    ("td", "duration_ms(start, end)"),
    ("dur", "duration_ms(start, end)"),
    ("durationms", "duration_ms(start, end)"),
    ("bps", "bits_per_second(start, end, bytes)"),
    ("pps", "packets_per_second(start, end, packets)"),
    ("bpp", "bytes_per_packet(bytes, packets)"),
    ("ip", "src_addr or dst_addr"),
    ("ipaddress", "src_addr or dst_addr"),
    ("address", "src_addr or dst_addr"),
    ("addr", "src_addr or dst_addr"),
    ("asn", "src_as or dst_as"),
    ("country", "country(src_addr)"),
    ("srccountry", "country(src_addr)"),
    ("dstcountry", "country(dst_addr)"),
];

/// What to write instead of a name that another program has; `known` are the columns that there are.
pub(crate) fn meant(name: &str, known: &[&str]) -> Option<String> {
    let plain: String = name.to_lowercase().chars().filter(|letter| letter.is_alphanumeric()).collect();
    let ours = NAMES.iter().find(|(_, others)| others.contains(&plain.as_str())).map(|(ours, _)| *ours);
    if let Some(ours) = ours.filter(|ours| known.contains(ours)) {
        return Some(format!("'{ours}'"));
    }
    let computed = COMPUTED.iter().find(|(other, _)| *other == plain).map(|(_, instead)| *instead);
    computed.filter(|_| known.contains(&"src_addr")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_programs_lead_to_one_column_of_ours() {
        let known = ["src_addr", "src_as", "dst_port", "bytes", "end"];
        let cases = [
            ("src_ip", Some("'src_addr'")),
            ("sourceIPv4Address", Some("'src_addr'")),
            ("L4_DST_PORT", Some("'dst_port'")),
            ("in_bytes", Some("'bytes'")),
            ("last_seen", Some("'end'")),
            ("duration", Some("duration_ms(start, end)")),
            ("proto", None),
            ("nonsense", None),
        ];
        for (name, expected) in cases {
            assert_eq!(meant(name, &known).as_deref(), expected, "{name}");
        }
    }
}
