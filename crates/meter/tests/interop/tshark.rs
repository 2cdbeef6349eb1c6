//! What tshark says of each packet of a capture: the headers that it found, layer by layer.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

/// Nothing is put together, no checksum keeps a packet from being looked into, and the port that Linux has for VXLAN is one.
const OPTIONS: [&str; 19] = [
    "-n",
    "-o",
    "ip.defragment:FALSE",
    "-o",
    "ipv6.defragment:FALSE",
    "-o",
    "tcp.desegment_tcp_streams:FALSE",
    "-o",
    "ip.check_checksum:FALSE",
    "-o",
    "tcp.check_checksum:FALSE",
    "-o",
    "udp.check_checksum:FALSE",
    "-d",
    "udp.port==8472,vxlan",
    "-T",
    "fields",
    "-E",
    "separator=/t",
];

/// What is asked of each packet. Those of several headers are told as often as there are such headers, in their order.
const FIELDS: [&str; 49] = [
    "frame.number",
    "frame.protocols",
    "frame.cap_len",
    "frame.len",
    "frame.encap_type",
    "vlan.id",
    "ieee8021ad.id",
    "ieee8021ad.svid",
    "ieee8021ad.cvid",
    "ip.src",
    "ip.dst",
    "ip.proto",
    "ip.len",
    "ip.dsfield",
    "ip.ttl",
    "ip.frag_offset",
    "ip.flags.mf",
    "ip.id",
    "ipv6.src",
    "ipv6.dst",
    "ipv6.nxt",
    "ipv6.plen",
    "ipv6.opt.jumbo",
    "ipv6.tclass",
    "ipv6.hlim",
    "ipv6.hopopts.nxt",
    "ipv6.routing.nxt",
    "ipv6.fraghdr.nxt",
    "ipv6.fraghdr.offset",
    "ipv6.fraghdr.more",
    "ipv6.fraghdr.ident",
    "ipv6.dstopts.nxt",
    "ah.next_header",
    "mip6.proto",
    "hip.proto",
    "shim6.nxt",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.flags",
    "udp.srcport",
    "udp.dstport",
    "sctp.srcport",
    "sctp.dstport",
    "dccp.srcport",
    "dccp.dstport",
    "icmp.type",
    "icmp.code",
    "icmpv6.type",
    "icmpv6.code",
];

/// Extension headers by their names among the protocols, and the field that says what follows.
const EXTENSIONS: [(&str, &str); 8] = [
    ("ipv6.hopopts", "ipv6.hopopts.nxt"),
    ("ipv6.routing", "ipv6.routing.nxt"),
    ("ipv6.fraghdr", "ipv6.fraghdr.nxt"),
    ("ipv6.dstopts", "ipv6.dstopts.nxt"),
    ("ah", "ah.next_header"),
    ("mipv6", "mip6.proto"),
    ("hip", "hip.proto"),
    ("shim6", "shim6.nxt"),
];

/// What follows these is no packet that travels: errors quote others, requests describe them, and samplers report them.
const REPORTS: [&str; 5] = ["icmp", "icmpv6", "nhrp", "lisp", "sflow"];

/// What may stand before, between and behind the tags of a frame; Ethernet may begin a frame.
const TAGS: [&str; 26] = [
    "ethertype",
    "vlan",
    "ieee8021ad",
    "llc",
    "vntag",
    "etag",
    "cmd",
    "macsec",
    "hsr",
    "avsp",
    "wlan",
    "wlan_radio",
    "wlan_aggregate",
    "radiotap",
    "ppi",
    "prism",
    "wlancap",
    "pcap_pktdata",
    "sll",
    "fddi",
    "tr",
    "chdlc",
    "erf",
    "netanalyzer",
    "juniper",
    "arcnet",
];

/// An IP header, and the transport header behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layer {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: u8,
    /// As the header states it, with the header; 0 for none.
    pub(crate) length: u32,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    /// Identification, offset, and whether others follow.
    pub(crate) fragment: Option<(u32, u16, bool)>,
    pub(crate) ports: Option<(u16, u16)>,
    pub(crate) tcp_flags: Option<u16>,
    pub(crate) icmp: Option<(u8, u8)>,
}

/// A packet.
#[derive(Debug, Clone)]
pub(crate) struct Dissected {
    pub(crate) captured: usize,
    /// Names of all protocols, in their order.
    pub(crate) protocols: Vec<String>,
    /// VLANs of the frame itself.
    pub(crate) vlans: Vec<u16>,
    /// All IP headers, the outermost first, each with the position of its name among the protocols. What an error message
    /// quotes is none.
    pub(crate) layers: Vec<(usize, Layer)>,
    /// A protocol is named whose fields are not told, since tshark gave up in it.
    pub(crate) gave_up: bool,
}

/// The packets of a capture; `None` when tshark cannot read it, or there are none. It counts blocks of pcapng that hold
/// something else, and have no link; they are left out.
pub(crate) fn packets(tshark: &Path, capture: &Path) -> Option<Vec<Dissected>> {
    let mut command = Command::new(tshark);
    command.arg("-r").arg(capture).args(OPTIONS).args(["-E", "occurrence=a", "-E", "aggregator=,"]);
    command.args(FIELDS.iter().flat_map(|field| ["-e", field]));
    let output = command.output().expect("tshark runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let packets: Vec<_> = text.lines().filter(|line| has_link(line)).map(dissected).collect();
    (!packets.is_empty()).then_some(packets)
}

/// Name and version, as tshark tells it first.
pub(crate) fn version(tshark: &Path) -> String {
    let output = Command::new(tshark).arg("--version").output().expect("tshark runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let words = text.split_whitespace().skip_while(|word| !word.starts_with("TShark")).skip(1);
    let number =
        words.map(|word| word.trim_end_matches('.')).find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    format!("tshark {}", number.unwrap_or("of no version"))
}

fn has_link(line: &str) -> bool {
    let at = FIELDS.iter().position(|field| *field == "frame.encap_type");
    at.and_then(|at| line.split('\t').nth(at)).is_some_and(|link| !link.is_empty())
}

/// The values of a packet, handed out in their order.
struct Values<'a> {
    cells: HashMap<&'static str, Vec<&'a str>>,
    handed_out: HashMap<&'static str, usize>,
}

impl<'a> Values<'a> {
    fn of(line: &'a str) -> Self {
        let split = |cell: &'a str| if cell.is_empty() { Vec::new() } else { cell.split(',').collect() };
        let cells = FIELDS.into_iter().zip(line.split('\t').map(split)).collect();
        Self { cells, handed_out: HashMap::new() }
    }

    fn text(&mut self, field: &'static str) -> Option<&'a str> {
        let at = self.handed_out.entry(field).or_default();
        *at += 1;
        self.cells.get(field)?.get(*at - 1).copied()
    }

    /// A number, in decimal or with `0x` before it.
    fn number<T: TryFrom<u64>>(&mut self, field: &'static str) -> Option<T> {
        let text = self.text(field)?;
        let number = text.strip_prefix("0x").map_or_else(|| text.parse(), |digits| u64::from_str_radix(digits, 16));
        T::try_from(number.ok()?).ok()
    }

    fn ports(&mut self, source: &'static str, destination: &'static str) -> Option<(u16, u16)> {
        let source = self.number(source);
        source.zip(self.number(destination))
    }

    fn ipv4(&mut self) -> Option<Layer> {
        let fragment = (self.number("ip.id"), self.number("ip.frag_offset"), self.text("ip.flags.mf"));
        let (source, destination) = (self.text("ip.src"), self.text("ip.dst"));
        let (protocol, length) = (self.number("ip.proto"), self.number("ip.len"));
        let (tos, ttl) = (self.number("ip.dsfield"), self.number("ip.ttl"));
        let fragment = match fragment {
            (Some(id), Some(offset), Some(more)) => {
                Some((id, u16::wrapping_shl(offset, 3), more == "1" || more == "True"))
            }
            _ => None,
        };
        Some(Layer {
            source: source?.parse().ok()?,
            destination: destination?.parse().ok()?,
            protocol: protocol?,
            length: length?,
            tos: tos?,
            ttl: ttl?,
            fragment: fragment.filter(|(_, offset, more)| *offset > 0 || *more),
            ports: None,
            tcp_flags: None,
            icmp: None,
        })
    }

    fn ipv6(&mut self) -> Option<Layer> {
        let (source, destination) = (self.text("ipv6.src"), self.text("ipv6.dst"));
        let (protocol, length) = (self.number("ipv6.nxt"), self.number::<u32>("ipv6.plen"));
        let (tos, ttl) = (self.number("ipv6.tclass"), self.number("ipv6.hlim"));
        let length = length?;
        Some(Layer {
            source: source?.parse().ok()?,
            destination: destination?.parse().ok()?,
            protocol: protocol?,
            length: if length == 0 { 0 } else { length + 40 },
            tos: tos?,
            ttl: ttl?,
            fragment: None,
            ports: None,
            tcp_flags: None,
            icmp: None,
        })
    }

    /// Reads what stands behind an IP header into its layer. Returns whether the name was known and its fields were told.
    fn behind(&mut self, name: &str, layer: &mut Layer) -> Option<bool> {
        if let Some((_, field)) = EXTENSIONS.iter().find(|(known, _)| *known == name) {
            let next = self.number(field);
            layer.protocol = next.unwrap_or(layer.protocol);
            if name == "ipv6.fraghdr" {
                let (offset, id) = (self.number::<u16>("ipv6.fraghdr.offset"), self.number("ipv6.fraghdr.ident"));
                let more = self.text("ipv6.fraghdr.more").is_some_and(|more| more == "1" || more == "True");
                layer.fragment = id.zip(offset).map(|(id, offset)| (id, offset << 3, more));
                layer.fragment = layer.fragment.filter(|(_, offset, more)| *offset > 0 || *more);
            }
            if let ("ipv6.hopopts", Some(jumbo)) = (name, self.number::<u32>("ipv6.opt.jumbo")) {
                layer.length = jumbo.saturating_add(40);
            }
            return Some(next.is_some());
        }
        match name {
            "tcp" => {
                layer.ports = self.ports("tcp.srcport", "tcp.dstport");
                layer.tcp_flags = self.number("tcp.flags");
                Some(layer.tcp_flags.is_some())
            }
            "udp" | "udplite" => {
                layer.ports = self.ports("udp.srcport", "udp.dstport");
                Some(layer.ports.is_some())
            }
            "sctp" => {
                layer.ports = self.ports("sctp.srcport", "sctp.dstport");
                Some(layer.ports.is_some())
            }
            "dccp" => {
                layer.ports = self.ports("dccp.srcport", "dccp.dstport");
                Some(layer.ports.is_some())
            }
            "icmp" => {
                let kind = self.number("icmp.type");
                layer.icmp = kind.zip(self.number("icmp.code"));
                Some(layer.icmp.is_some())
            }
            "icmpv6" => {
                let kind = self.number("icmpv6.type");
                layer.icmp = kind.zip(self.number("icmpv6.code"));
                Some(layer.icmp.is_some())
            }
            _ => None,
        }
    }
}

fn dissected(line: &str) -> Dissected {
    let mut values = Values::of(line);
    let protocols: Vec<String> =
        values.text("frame.protocols").unwrap_or_default().split(':').map(ToOwned::to_owned).collect();
    let mut dissected = Dissected {
        captured: values.number("frame.cap_len").unwrap_or_default(),
        protocols: Vec::new(),
        vlans: Vec::new(),
        layers: Vec::new(),
        gave_up: false,
    };
    let mut tags_go_on = true;
    for (position, name) in protocols.iter().enumerate() {
        match name.as_str() {
            "vlan" if tags_go_on => dissected.vlans.extend(values.number::<u16>("vlan.id")),
            // Of two tags it tells both at once.
            "ieee8021ad" if tags_go_on => {
                let one = values.number::<u16>("ieee8021ad.id");
                let mut of_two = || [values.number("ieee8021ad.svid"), values.number("ieee8021ad.cvid")];
                let found = if one.is_some() { [one, None] } else { of_two() };
                dissected.vlans.extend(found.into_iter().flatten());
            }
            "ip" | "ipv6" => {
                let layer = if name == "ip" { values.ipv4() } else { values.ipv6() };
                dissected.gave_up |= layer.is_none();
                dissected.layers.extend(layer.map(|layer| (position, layer)));
            }
            name => {
                if let Some((_, layer)) = dissected.layers.last_mut() {
                    dissected.gave_up |= values.behind(name, layer) == Some(false);
                }
            }
        }
        let begins =
            name == "eth" && protocols[..position].iter().all(|before| before != "eth" && before != "ethertype");
        tags_go_on &= TAGS.contains(&name.as_str()) || begins;
        if dissected.gave_up || REPORTS.contains(&name.as_str()) {
            break;
        }
    }
    dissected.protocols = protocols;
    dissected
}
