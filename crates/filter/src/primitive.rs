//! The table of primitives: every word that a filter may use, what follows it, and what it reads.
//!
//! A *phrase* is a direction and the name of a primitive: `port`, `src port`, `bgp next ip`. The parser looks the
//! longest phrase up; everything that can be said about it stands here.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use weir_flow::{Column, ColumnType};

use crate::Operand;
use crate::names::{DIRECTIONS, FIREWALL_EVENTS, FORWARDING, NAT_EVENTS, Names, PROTOCOLS};
use crate::primitive::Form::{Address, Always, Family, Flags, Mac, Named, Net, Number, Time, Unanswerable};

/// What follows a phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Nothing; true for every flow.
    Always,
    /// Nothing; true for flows of a family.
    Family { v6: bool },
    /// `[COMP] NUMBER` or `in [ NUMBER … ]`.
    Number,
    /// As `Number`, and names may stand for numbers.
    Named(&'static Names),
    /// An address, a prefix, or `in [ … ]`.
    Address,
    /// `ADDRESS/LENGTH` or `ADDRESS MASK`.
    Net,
    /// Six octets in hexadecimal.
    Mac,
    /// `[COMP] TIME`.
    Time,
    /// `LETTERS`, `=LETTERS` or `[COMP] NUMBER`.
    Flags,
    /// nfdump knows the phrase, but flows have no column for it; the text says what to do instead.
    Unanswerable(&'static str),
}

/// A direction and what it makes a primitive read; several operands are joined by "or".
#[derive(Debug, Clone, Copy)]
pub(crate) struct Direction(pub &'static str, pub &'static [Operand]);

/// One primitive.
#[derive(Debug)]
pub(crate) struct Primitive {
    pub name: &'static str,
    pub form: Form,
    pub directions: &'static [Direction],
    /// A filter that shows it.
    pub example: &'static str,
    /// One sentence for the reference page.
    pub doc: &'static str,
}

/// How the operands of a phrase join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Join {
    Any,
    All,
}

/// What the parser finds under a phrase.
#[derive(Debug, Clone)]
pub(crate) struct Phrase {
    pub form: Form,
    pub join: Join,
    pub operands: Vec<Operand>,
}

macro_rules! column {
    ($($column:ident),*) => { &[$(Operand::Column(Column::$column)),*] };
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

const ADDRESSES: &[Primitive] = &[
    Primitive {
        name: "ip",
        form: Address,
        directions: ADDRESS_DIRECTIONS,
        example: "src ip in [192.0.2.1, 198.51.100.0/24, 2001:db8::/32]",
        doc: "An address is this one, or lies in one of the prefixes. Lists may mix both families and overlap.",
    },
    Primitive {
        name: "net",
        form: Net,
        directions: ADDRESS_DIRECTIONS,
        example: "dst net 198.51.100.0/24",
        doc: "An address lies in a network, written `ADDRESS/LENGTH` or `ADDRESS MASK`; missing octets of an IPv4 \
              address are 0.",
    },
];

const PRIMITIVES: &[Primitive] = primitives! {
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
};

/// What nfdump can ask and flows cannot answer yet.
const UNANSWERABLE: &[(&str, &str)] = &[
    ("geo", "flows carry no country; filter by 'as' or 'net'"),
    ("src geo", "flows carry no country; filter by 'src as' or 'src net'"),
    ("dst geo", "flows carry no country; filter by 'dst as' or 'dst net'"),
    ("ip tor", "flows are not compared with the list of Tor relays; filter by 'ip in [...]'"),
    ("src ip tor", "flows are not compared with the list of Tor relays; filter by 'src ip in [...]'"),
    ("dst ip tor", "flows are not compared with the list of Tor relays; filter by 'dst ip in [...]'"),
    ("payload", "flows carry no payload"),
    ("in payload", "flows carry no payload"),
    ("out payload", "flows carry no payload"),
    ("mpls", "flows have no columns of MPLS labels"),
    ("pf", "flows have no columns of pf logs"),
    ("tun ip", "flows have no columns of tunnel headers"),
    ("src tun ip", "flows have no columns of tunnel headers"),
    ("dst tun ip", "flows have no columns of tunnel headers"),
    ("tun net", "flows have no columns of tunnel headers"),
    ("src tun net", "flows have no columns of tunnel headers"),
    ("dst tun net", "flows have no columns of tunnel headers"),
    ("tun proto", "flows have no columns of tunnel headers"),
    ("count", "flows have no number in order of reading"),
    ("ident", "flows carry no ident; filter by 'router ip' or 'observation domain id'"),
    ("exporter id", "exporters have no internal number; filter by 'router ip' or 'observation domain id'"),
    ("client latency", "flows have no columns of latencies"),
    ("server latency", "flows have no columns of latencies"),
    ("asa xevent", "flows have no column of the extended firewall event"),
    ("asa denied", "flows have no column of the extended firewall event; 'asa event denied' takes all denied flows"),
    ("asa user", "flows have no column of user names"),
    ("ingress acl", "flows have no columns of access lists"),
    ("egress acl", "flows have no columns of access lists"),
    ("nat pblock", "flows have no columns of port blocks"),
    ("ttl equal", "two fields cannot be compared with each other"),
    ("src tz", "flows carry no time zone"),
    ("dst tz", "flows carry no time zone"),
    ("ja3", "flows carry no payload"),
    ("ja4", "flows carry no payload"),
    ("ja4s", "flows carry no payload"),
];

/// Other spellings of whole phrases, those of nfdump 1.6 among them.
pub(crate) const SPELLINGS: &[(&str, &str)] = &[
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
    ("ingress vrfid", "ingress vrf"),
    ("egress vrfid", "egress vrf"),
];

/// Every primitive, addresses first.
pub(crate) fn primitives() -> impl Iterator<Item = &'static Primitive> {
    ADDRESSES.iter().chain(PRIMITIVES)
}

/// What nfdump can ask and flows cannot answer yet, and why.
pub(crate) fn unanswerable() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    UNANSWERABLE.iter()
}

/// The longest phrase has so many words.
pub(crate) const PHRASE_WORDS_MAX: usize = 4;

static PHRASES: LazyLock<BTreeMap<String, Phrase>> = LazyLock::new(|| {
    let mut phrases = BTreeMap::new();
    for primitive in primitives() {
        let form = primitive.form;
        for Direction(direction, operands) in primitive.directions {
            let phrase = Phrase { form, join: Join::Any, operands: operands.to_vec() };
            add(&mut phrases, &join_words(direction, primitive.name), &phrase);
        }
        add_src_and_dst(&mut phrases, primitive);
    }
    for (phrase, hint) in UNANSWERABLE {
        let form = Unanswerable(hint);
        phrases.insert((*phrase).to_owned(), Phrase { form, join: Join::Any, operands: Vec::new() });
    }
    for (spelling, phrase) in SPELLINGS {
        if let Some(meaning) = phrases.get(*phrase).cloned() {
            phrases.insert((*spelling).to_owned(), meaning);
        }
    }
    for &column in Column::ALL {
        let operands = vec![Operand::Column(column)];
        let Some(form) = form_of_column(column) else { continue };
        phrases.entry(column.name().to_owned()).or_insert(Phrase { form, join: Join::Any, operands });
    }
    phrases
});

fn join_words(direction: &str, name: &str) -> String {
    if direction.is_empty() { name.to_owned() } else { format!("{direction} {name}") }
}

/// Adds a phrase and its spellings by other words: `host` for `ip`, `xlate` for `nat`, `exporter` for `router`.
fn add(phrases: &mut BTreeMap<String, Phrase>, text: &str, phrase: &Phrase) {
    let spellings = text.split(' ').fold(vec![String::new()], |texts, word| {
        let words: &[&str] = match word {
            "ip" => &["ip", "host"],
            "nat" => &["nat", "xlate"],
            "router" => &["router", "exporter"],
            _ => std::slice::from_ref(&word),
        };
        texts.iter().flat_map(|text| words.iter().map(move |word| join_words(text, word))).collect()
    });
    phrases.extend(spellings.into_iter().map(|spelling| (spelling, phrase.clone())));
}

/// `src or dst port` and `src and dst port` of nfdump 1.6.
fn add_src_and_dst(phrases: &mut BTreeMap<String, Phrase>, primitive: &Primitive) {
    let of = |wanted: &str| primitive.directions.iter().find(|Direction(words, _)| *words == wanted);
    let (Some(Direction(_, src)), Some(Direction(_, dst))) = (of("src"), of("dst")) else { return };
    // An undirected `mac` has two operands on each side, which "and" cannot join flat.
    if src.len() > 1 || dst.len() > 1 {
        return;
    }
    let operands = [*src, *dst].concat();
    for (word, join) in [("or", Join::Any), ("and", Join::All)] {
        for (first, second) in [("src", "dst"), ("dst", "src")] {
            let text = format!("{first} {word} {second} {}", primitive.name);
            add(phrases, &text, &Phrase { form: primitive.form, join, operands: operands.clone() });
        }
    }
}

/// Any column may be asked by its name in the schema.
pub(crate) fn form_of_column(column: Column) -> Option<Form> {
    match column.column_type() {
        ColumnType::U8 | ColumnType::U16 | ColumnType::U32 | ColumnType::U64 => Some(Number),
        ColumnType::Time => Some(Time),
        ColumnType::Address => Some(Address),
        ColumnType::Mac => Some(Mac),
        ColumnType::Octets | ColumnType::Elements => None,
    }
}

/// Every phrase in every spelling.
pub(crate) fn phrases() -> impl Iterator<Item = &'static str> {
    PHRASES.keys().map(String::as_str)
}

/// The meaning of a phrase in lower case, words parted by one space.
pub(crate) fn find_phrase(text: &str) -> Option<&'static Phrase> {
    PHRASES.get(text)
}

/// The phrase that reads this operand alone, for canonical text.
pub(crate) fn phrase_of(operand: Operand) -> String {
    let in_table = primitives().find_map(|primitive| {
        let reads_it = |direction: &&Direction| direction.1 == [operand];
        primitive.directions.iter().find(reads_it).map(|Direction(words, _)| join_words(words, primitive.name))
    });
    match (in_table, operand) {
        (Some(phrase), _) => phrase,
        (None, Operand::Column(column)) => column.name().to_owned(),
        // Every other operand is in the table, which a test checks.
        (None, other) => format!("{other:?}"),
    }
}

/// The largest value that an operand can have.
pub(crate) fn value_max(operand: Operand) -> u64 {
    match operand {
        Operand::Column(Column::SrcMask | Column::DstMask) => 128,
        Operand::Column(column) => match column.column_type() {
            ColumnType::U8 => u8::MAX.into(),
            ColumnType::U16 => u16::MAX.into(),
            ColumnType::U32 => u32::MAX.into(),
            _ => u64::MAX,
        },
        Operand::TcpFlags => u16::MAX.into(),
        Operand::IcmpType | Operand::IcmpCode => u8::MAX.into(),
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operand_has_a_phrase_that_reads_it() {
        let columns = Column::ALL.iter().filter(|column| form_of_column(**column).is_some());
        let operands = columns.filter(|column| **column != Column::Flows).map(|column| Operand::Column(*column));
        let computed = [
            Operand::Flows,
            Operand::TcpFlags,
            Operand::IcmpType,
            Operand::IcmpCode,
            Operand::DurationMs,
            Operand::PacketsPerSecond,
            Operand::BitsPerSecond,
            Operand::BytesPerPacket,
        ];
        for operand in operands.chain(computed) {
            let phrase = phrase_of(operand);
            let found = find_phrase(&phrase).unwrap_or_else(|| panic!("'{phrase}' is not in the table"));
            assert_eq!(found.operands, [operand], "{phrase}");
        }
    }

    #[test]
    fn phrases_are_short_and_spellings_lead_somewhere() {
        for phrase in phrases() {
            assert!(phrase.split(' ').count() <= PHRASE_WORDS_MAX, "{phrase}");
            assert_eq!(phrase, phrase.to_ascii_lowercase());
        }
        for (spelling, phrase) in SPELLINGS {
            assert!(find_phrase(spelling).is_some(), "{spelling} for {phrase}");
        }
    }
}
