//! Goldens of `NetGauze`, a Rust decoder of other authors: one JSON object per datagram of the `pmacct` captures with
//! its header, sets, templates and every field of every record by its IANA name.

use std::path::Path;

use serde_json::Value as Json;
use weir_flow::registry;
use weir_wire::{ElementId, Template};

use crate::expected::{Expected, ExpectedField, Verdict, compare};
use crate::inputs::Input;
use crate::rows::{Decoded, Row};
use crate::times::rfc3339_ms;
use crate::walk::{HeaderSeen, Message, Record, SetSeen};

/// The golden file of an input, if there is one.
pub(crate) fn golden(corpus: &Path, input: &Input) -> Option<String> {
    let rest = input.files[0].strip_prefix("pmacct+pmacct/tests/")?.strip_suffix(".pcap")?;
    let path = corpus.join("NetGauze+NetGauze/assets/pcaps/pmacct-tests").join(format!("{rest}-flow.json"));
    std::fs::read_to_string(path).ok()
}

/// Compares all messages of a capture.
pub(crate) fn check(golden: &str, messages: &[Message], decoded: &Decoded) -> Verdict {
    let mut verdict = Verdict::default();
    let theirs: Vec<Json> = golden.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    verdict.expect("datagrams", messages.len(), theirs.len());
    for (number, theirs) in theirs.iter().enumerate().take(messages.len()) {
        let (name, theirs) = theirs.as_object().and_then(|object| object.iter().next()).expect("a message");
        verdict.add(check_message(name, theirs, &messages[number], &decoded.rows[number]));
    }
    verdict
}

fn check_message(protocol: &str, theirs: &Json, ours: &Message, rows: &[Row]) -> Verdict {
    let mut verdict = check_header(protocol, theirs, &ours.header);
    let sets = theirs["sets"].as_array().expect("sets");
    verdict.expect("sets", ours.sets.len(), sets.len());
    let mut rows = rows.iter();
    for (ours_set, theirs) in ours.sets.iter().zip(sets) {
        let (kind, theirs) = theirs.as_object().and_then(|object| object.iter().next()).expect("a set");
        match (ours_set, kind.as_str()) {
            (SetSeen::Templates(templates), "Template") | (SetSeen::OptionsTemplates(templates), "OptionsTemplate") => {
                verdict.add(check_templates(templates, theirs));
            }
            (SetSeen::Data { template, records, .. }, "Data") => {
                verdict.expect("set id", u64::from(*template), theirs["id"].as_u64().unwrap_or(0));
                let their_records = theirs["records"].as_array().expect("records");
                verdict.expect("records of set", records.len(), their_records.len());
                for (record, theirs) in records.iter().zip(their_records) {
                    let row = if record.scopes == 0 { rows.next() } else { None };
                    if record.scopes == 0 && row.is_none() {
                        verdict.differ("flows", "the decoder yields fewer");
                    }
                    verdict.add(check_record(&ours.header, record, row, theirs));
                }
            }
            _ => verdict.differ("set", format!("ours {ours_set:?}, theirs {kind}")),
        }
    }
    verdict
}

fn check_header(protocol: &str, theirs: &Json, ours: &HeaderSeen) -> Verdict {
    let mut verdict = Verdict::default();
    let time = |name: &str| theirs[name].as_str().and_then(rfc3339_ms);
    verdict.expect("version", u64::from(ours.version), theirs["version"].as_u64().unwrap_or(0));
    verdict.expect("sequence", u64::from(ours.sequence), theirs["sequence_number"].as_u64().unwrap_or(0));
    if protocol == "IPFIX" {
        verdict.expect("export time", Some(ours.export_ms), time("export_time"));
        verdict.expect("domain", u64::from(ours.domain), theirs["observation_domain_id"].as_u64().unwrap_or(0));
    } else {
        verdict.expect("export time", Some(ours.export_ms), time("unix_time"));
        verdict.expect("domain", u64::from(ours.domain), theirs["source_id"].as_u64().unwrap_or(0));
        verdict.expect("uptime", ours.uptime_ms.map(u64::from), theirs["sys_up_time"].as_u64());
    }
    verdict
}

fn check_templates(ours: &[Template], theirs: &Json) -> Verdict {
    let mut verdict = Verdict::default();
    let theirs = theirs.as_array().expect("templates");
    verdict.expect("templates", ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(theirs) {
        verdict.expect("template id", u64::from(ours.id().get()), theirs["id"].as_u64().unwrap_or(0));
        let scopes = theirs["scope_field_specifiers"].as_array().map_or(&[][..], Vec::as_slice);
        verdict.expect("scopes", ours.scope_count(), scopes.len());
        let fields = theirs["field_specifiers"].as_array().expect("fields");
        verdict.expect("fields", ours.fields().len(), scopes.len() + fields.len());
        for (field, theirs) in ours.fields().iter().zip(scopes.iter().chain(fields)) {
            let name = registry::element(field.element.enterprise, field.element.id).map(|e| e.name.as_str());
            // Scopes and options of NetFlow v9 are objects of their own there, named by enumerations.
            if let Some(theirs) = theirs["element_id"].as_str() {
                verdict.expect("element of template", name, Some(theirs));
            }
            verdict.expect("length in template", u64::from(field.length), theirs["length"].as_u64().unwrap_or(0));
        }
    }
    verdict
}

fn check_record(header: &HeaderSeen, record: &Record, row: Option<&Row>, theirs: &Json) -> Verdict {
    let mut verdict = Verdict::default();
    let part = |name: &str| theirs[name].as_array().map_or(&[][..], Vec::as_slice);
    let (scopes, fields) = (part("scope_fields"), part("fields"));
    verdict.expect("fields of record", record.fields.len(), scopes.len() + fields.len());
    let mut expected = Vec::new();
    for (position, theirs) in scopes.iter().chain(fields).enumerate() {
        let (name, value) = theirs.as_object().and_then(|object| object.iter().next()).expect("a field");
        let scope_type = record.fields.get(position).is_some_and(|field| field.scope_type);
        match registry::element_by_name(name) {
            Some(element) if !scope_type => {
                let element = ElementId { enterprise: element.enterprise, id: element.id };
                match meaning(name, value) {
                    Some(value) => expected.push(ExpectedField { name: name.clone(), element, value }),
                    None => verdict.differ(name, format!("{value} is not understood")),
                }
            }
            _ => verdict.differ(name, "the registry has no such name"),
        }
    }
    verdict.add(compare(header, record, row, &expected));
    verdict
}

fn meaning(name: &str, value: &Json) -> Option<Expected> {
    match value {
        Json::Number(number) => number.as_u64().map(Expected::Number),
        Json::Array(octets) => {
            octets.iter().map(|octet| octet.as_u64()?.try_into().ok()).collect::<Option<_>>().map(Expected::Octets)
        }
        Json::String(text) => {
            if let Ok(address) = text.parse() {
                return Some(Expected::Address(address));
            }
            if let Some(ms) = rfc3339_ms(text) {
                return Some(Expected::Time(ms));
            }
            match enumeration(name, text) {
                Some(number) => Some(Expected::Number(number)),
                None => Some(Expected::Text(text.clone())),
            }
        }
        Json::Object(object) => match name {
            "tcpControlBits" => {
                const BITS: [&str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
                let bits = BITS.iter().enumerate().map(|(bit, name)| match object.get(*name) {
                    Some(Json::Bool(true)) => 1 << bit,
                    _ => 0,
                });
                Some(Expected::Number(bits.sum()))
            }
            "forwardingStatus" => {
                let (status, reason) = object.iter().next()?;
                enumeration(name, &format!("{status} {}", reason.as_str()?)).map(Expected::Number)
            }
            _ => object.get("Unassigned")?.as_u64().map(Expected::Number),
        },
        _ => None,
    }
}

/// The number of a name that IANA gives to a value of an element. `NetGauze` leaves out whatever is not a letter or a
/// digit, so that it is not looked at here.
fn enumeration(element: &str, name: &str) -> Option<u64> {
    let plain = |name: &str| -> String {
        name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
    };
    let (_, names) = ENUMERATIONS.iter().find(|(known, _)| *known == element)?;
    names.iter().find(|(known, _)| plain(known) == plain(name)).map(|(_, number)| *number)
}

/// Elements whose values have names in the registries of IANA, with those names.
const ENUMERATIONS: &[(&str, &[(&str, u64)])] = &[
    (
        "protocolIdentifier",
        &[
            ("HOPOPT", 0),
            ("ICMP", 1),
            ("IGMP", 2),
            ("IPv4", 4),
            ("TCP", 6),
            ("EGP", 8),
            ("IGP", 9),
            ("UDP", 17),
            ("IPv6", 41),
            ("IPv6-Route", 43),
            ("IPv6-Frag", 44),
            ("RSVP", 46),
            ("GRE", 47),
            ("ESP", 50),
            ("AH", 51),
            ("IPv6-ICMP", 58),
            ("IPv6-NoNxt", 59),
            ("IPv6-Opts", 60),
            ("EIGRP", 88),
            ("OSPFIGP", 89),
            ("ETHERIP", 97),
            ("PIM", 103),
            ("VRRP", 112),
            ("L2TP", 115),
            ("SCTP", 132),
            ("UDPLite", 136),
            ("MPLS-in-IP", 137),
            ("Ethernet", 143),
        ],
    ),
    (
        "flowEndReason",
        &[
            ("idle timeout", 1),
            ("active timeout", 2),
            ("end of Flow detected", 3),
            ("forced end", 4),
            ("lack of resources", 5),
        ],
    ),
    ("flowDirection", &[("ingress", 0), ("egress", 1)]),
    ("mplsTopLabelType", &[("Unknown", 0), ("TE-MIDPT", 1), ("Pseudowire", 2), ("VPN", 3), ("BGP", 4), ("LDP", 5)]),
    (
        "selectorAlgorithm",
        &[
            ("Systematic count-based Sampling", 1),
            ("Systematic time-based Sampling", 2),
            ("Random n-out-of-N Sampling", 3),
            ("Uniform probabilistic Sampling", 4),
        ],
    ),
    // RFC 7270 section 4.12: two bits of status, six of reason
    (
        "forwardingStatus",
        &[
            ("Forwarded Unknown", 64),
            ("Forwarded Fragmented", 65),
            ("Forwarded Not Fragmented", 66),
            ("Dropped Unknown", 128),
            ("Dropped ACL deny", 129),
            ("Dropped ACL drop", 130),
            ("Dropped Unroutable", 131),
            ("Dropped Adjacency", 132),
            ("Dropped Fragmentation and DF set", 133),
            ("Dropped Bad header checksum", 134),
            ("Dropped Bad total Length", 135),
            ("Dropped Bad header length", 136),
            ("Dropped bad TTL", 137),
            ("Dropped Policer", 138),
            ("Dropped WRED", 139),
            ("Dropped RPF", 140),
            ("Dropped For us", 141),
            ("Dropped Bad output interface", 142),
            ("Dropped Hardware", 143),
            ("Consumed Unknown", 192),
            ("Consumed Punt Adjacency", 193),
            ("Consumed Incomplete Adjacency", 194),
            ("Consumed For us", 195),
        ],
    ),
];
