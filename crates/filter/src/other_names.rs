//! Fields by the names that other programs give them, and by names that are misspelt.
//!
//! Who comes from nfdump, `SiLK`, ntopng, ClickHouse schemas or IPFIX types the names of there, which are often nearer in
//! spelling to another column than to the one that is meant: `src_ip` is `src_addr` and not `src_as`.

use crate::error::nearest;

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

/// The column that other programs, and the registry of IPFIX, call so; `None` when the name is not known.
///
/// ```
/// assert_eq!(weir_filter::other_name("sourceIPv4Address"), Some("src_addr"));
/// ```
pub fn other_name(name: &str) -> Option<&'static str> {
    let plain: String = name.to_lowercase().chars().filter(|letter| letter.is_alphanumeric()).collect();
    NAMES.iter().find(|(_, others)| others.contains(&plain.as_str())).map(|(ours, _)| *ours)
}

/// The word of `known` that was probably meant: by the name that other programs have for it, or by its letters.
///
/// ```
/// let known = ["src_addr", "src_as", "packets"];
/// assert_eq!(weir_filter::meant("src_ip", known.into_iter()), Some("src_addr"));
/// assert_eq!(weir_filter::meant("pakcets", known.into_iter()), Some("packets"));
/// ```
pub fn meant<'a>(wrong: &str, known: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let other = other_name(wrong);
    known.clone().find(|known| Some(*known) == other).or_else(|| nearest(wrong, known))
}
