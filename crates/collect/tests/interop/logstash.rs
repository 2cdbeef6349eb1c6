//! Events that the tests of the logstash codec (Ruby) expect of payloads of some thirty exporters.

use std::path::Path;

use serde_json::Value as Json;
use weir_flow::registry;
use weir_wire::value::be_uint;

use crate::events::{Event, events, field_named};
use crate::expected::{Expected, Verdict, compare};
use crate::inputs::{self, Input};
use crate::rows::Decoded;
use crate::times::rfc3339_ms;
use crate::walk::Message;

/// Compares the records of a test's files with the events that the test expects; `None` for other inputs and for
/// tests that expect nothing.
pub(crate) fn check(corpus: &Path, input: &Input, messages: &[Message], decoded: &Decoded) -> Option<Verdict> {
    let context = context(corpus, input)?;
    let events = events(messages, decoded);
    let mut verdict = Verdict::default();
    for assertion in context["assertions"].as_array()?.iter().filter_map(Json::as_str) {
        if let Some(size) = between(assertion, "expect(decode.size).to eq(", ")") {
            verdict.expect("events", events.len(), size.parse().unwrap_or(usize::MAX));
        } else if let Some((ours, theirs)) = whole_event(assertion) {
            let theirs = &context["expected_events"][theirs];
            match events.get(ours) {
                Some(event) => verdict.add(check_event(event, theirs)),
                None => verdict.differ("events", format!("no event {ours}")),
            }
        } else if let Some((ours, name, value)) = one_field(assertion)
            && let Some(event) = events.get(ours)
        {
            verdict.add(check_fields(event, [(name, &value)].into_iter()));
        }
    }
    (verdict.values > 0).then_some(verdict)
}

fn context(corpus: &Path, input: &Input) -> Option<Json> {
    let name = input.name.strip_prefix("test '")?.strip_suffix('\'')?;
    let golden = inputs::logstash_golden(corpus)?;
    let files = |context: &Json| -> Vec<String> {
        let files = context["dat_files_in_order"].as_array().into_iter().flatten();
        files.filter_map(|file| Some(file.as_str()?.to_owned())).collect()
    };
    let ours: Vec<_> = input.files.iter().filter_map(|file| Some(file.rsplit_once('/')?.1.to_owned())).collect();
    let contexts = golden.as_array()?.iter();
    contexts
        .into_iter()
        .find(|context| {
            context["context"].as_str().is_some_and(|known| name.starts_with(known.trim())) && files(context) == ours
        })
        .cloned()
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.strip_prefix(before)?.strip_suffix(after)
}

/// `expect(JSON.parse(decode[1].to_json)).to eq(JSON.parse(json_events[0]))`
fn whole_event(assertion: &str) -> Option<(usize, usize)> {
    let numbers = between(assertion, "expect(JSON.parse(decode[", "]))")?;
    let (ours, theirs) = numbers.split_once("].to_json)).to eq(JSON.parse(json_events[")?;
    Some((ours.parse().ok()?, theirs.parse().ok()?))
}

/// `expect(decode[0].get("[netflow][version]")).to eq(5)`
fn one_field(assertion: &str) -> Option<(usize, &str, Json)> {
    let rest = between(assertion, "expect(decode[", ")")?;
    let (number, rest) = rest.split_once("].get(\"[netflow][")?;
    let (name, value) = rest.split_once("]\")).to eq(")?;
    let text = value.trim_matches(['"', '\'']);
    let value = if text == value { Json::Number(value.parse().ok()?) } else { Json::String(text.to_owned()) };
    Some((number.parse().ok()?, name, value))
}

fn check_event(event: &Event<'_>, theirs: &Json) -> Verdict {
    let mut verdict = Verdict::default();
    let timestamp = theirs["@timestamp"].as_str().and_then(rfc3339_ms);
    verdict.expect("@timestamp", Some(event.header.export_ms), timestamp);
    let fields = theirs["netflow"].as_object().expect("fields");
    verdict.add(check_fields(event, fields.iter().map(|(name, value)| (name.as_str(), value))));
    verdict
}

fn check_fields<'a>(event: &Event<'_>, fields: impl Iterator<Item = (&'a str, &'a Json)>) -> Verdict {
    let mut verdict = Verdict::default();
    let mut expected = Vec::new();
    for (name, value) in fields {
        if let Some(ours) = of_the_header(event, name) {
            verdict.expect(name, Some(ours), value.as_u64());
            continue;
        }
        let Some(meaning) = meaning(name, value) else {
            verdict.differ(name, format!("{value} is not understood"));
            continue;
        };
        match field_named(event.record, name, &elements(name), meaning) {
            Some(field) => expected.push(field),
            None => verdict.differ(name, format!("no field of the record is called so, theirs {value}")),
        }
    }
    verdict.add(compare(&event.header, event.record, event.row, &expected));
    verdict
}

/// Fields that the codec copies from the header, and scopes, which are no elements.
fn of_the_header(event: &Event<'_>, name: &str) -> Option<u64> {
    let header = &event.header;
    let v5 = header.version == 5;
    Some(match name {
        "version" => header.version.into(),
        "flow_seq_num" => header.sequence.into(),
        "flowset_id" => event.record.template.into(),
        "flow_records" => header.count.into(),
        "engine_type" if v5 => (header.domain >> 8).into(),
        "engine_id" if v5 => (header.domain & 0xff).into(),
        "sampling_interval" if v5 => header.sampling_interval.into(),
        "sampling_algorithm" if v5 => header.sampling_mode.into(),
        "scope_system" => {
            let scope = event.record.fields.iter().find(|field| field.scope_type && field.element.id == 1)?;
            be_uint(&scope.octets)?
        }
        _ => return None,
    })
}

fn meaning(name: &str, value: &Json) -> Option<Expected> {
    match value {
        Json::Number(number) => number.as_u64().map(Expected::Number),
        Json::String(text) => Some(text_meaning(name, text)?),
        // RFC 7270 section 4.12
        Json::Object(parts) if name == "forwarding_status" => {
            Some(Expected::Number(parts["status"].as_u64()? << 6 | parts["reason"].as_u64()?))
        }
        _ => None,
    }
}

fn text_meaning(name: &str, text: &str) -> Option<Expected> {
    let hex = |text: &str| -> Option<Vec<u8>> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
    };
    if !name.starts_with("netscalerHttp")
        && let Ok(address) = text.parse()
    {
        return Some(Expected::Address(address));
    }
    // What Ruby would have put in for the nanoseconds is not in the golden.
    if let Some(ms) = rfc3339_ms(&text.replace("#{nanos}", "")) {
        return Some(Expected::Time(ms));
    }
    match name {
        "application_id" => {
            let (engine, selector) = text.split_once("..")?;
            Some(Expected::Number(engine.parse::<u64>().ok()? << 24 | selector.parse::<u64>().ok()?))
        }
        "ingress_acl_id" | "egress_acl_id" => hex(&text.replace('-', "")).map(Expected::Octets),
        _ if name.ends_with("_mac") || name.ends_with("MacAddress") => {
            hex(&text.replace(':', "")).map(Expected::Octets)
        }
        "netscalerConnectionChainID" => hex(text).map(Expected::Octets),
        _ => Some(Expected::Text(text.to_owned())),
    }
}

/// The elements that a name of the codec may stand for. IPFIX names are those of the registry.
fn elements(name: &str) -> Vec<(u32, u16)> {
    if let Some((_, ids)) = NAMES.iter().find(|(known, _)| *known == name) {
        return ids.to_vec();
    }
    registry::element_by_name(name).map(|element| (element.enterprise, element.id)).into_iter().collect()
}

/// NetFlow v9 field types by the names that Cisco (RFC 3954 section 8, NSEL) and the codec give them, and enterprise
/// elements that the registry calls otherwise.
const NAMES: &[(&str, &[(u32, u16)])] = &[
    ("in_bytes", &[(0, 1)]),
    ("in_pkts", &[(0, 2)]),
    ("flows", &[(0, 3)]),
    ("protocol", &[(0, 4)]),
    ("src_tos", &[(0, 5)]),
    ("tcp_flags", &[(0, 6)]),
    ("l4_src_port", &[(0, 7)]),
    ("ipv4_src_addr", &[(0, 8)]),
    ("src_mask", &[(0, 9)]),
    ("input_snmp", &[(0, 10)]),
    ("l4_dst_port", &[(0, 11)]),
    ("ipv4_dst_addr", &[(0, 12)]),
    ("dst_mask", &[(0, 13)]),
    ("output_snmp", &[(0, 14)]),
    ("ipv4_next_hop", &[(0, 15)]),
    ("src_as", &[(0, 16)]),
    ("dst_as", &[(0, 17)]),
    ("bgp_ipv4_next_hop", &[(0, 18)]),
    ("last_switched", &[(0, 21)]),
    ("first_switched", &[(0, 22)]),
    ("out_bytes", &[(0, 23)]),
    ("out_pkts", &[(0, 24)]),
    ("sampling_interval", &[(0, 34)]),
    ("sampling_algorithm", &[(0, 35)]),
    ("flow_active_timeout", &[(0, 36)]),
    ("flow_inactive_timeout", &[(0, 37)]),
    ("total_bytes_exp", &[(0, 40)]),
    ("total_pkts_exp", &[(0, 41)]),
    ("total_flows_exp", &[(0, 42)]),
    ("ipv4_src_prefix", &[(0, 44)]),
    ("flow_sampler_id", &[(0, 48)]),
    ("ipv4_ident", &[(0, 54)]),
    ("in_src_mac", &[(0, 56)]),
    ("out_dst_mac", &[(0, 57)]),
    ("src_vlan", &[(0, 58)]),
    ("dst_vlan", &[(0, 59)]),
    ("ip_protocol_version", &[(0, 60)]),
    ("direction", &[(0, 61)]),
    ("in_dst_mac", &[(0, 80)]),
    ("out_src_mac", &[(0, 81)]),
    ("if_desc", &[(0, 83)]),
    ("in_permanent_bytes", &[(0, 85)]),
    ("forwarding_status", &[(0, 89)]),
    ("src_traffic_index", &[(0, 92)]),
    ("dst_traffic_index", &[(0, 93)]),
    ("application_description", &[(0, 94)]),
    ("application_id", &[(0, 95)]),
    ("application_name", &[(0, 96)]),
    ("conn_id", &[(0, 148)]),
    ("flow_start_msec", &[(0, 152)]),
    ("icmp_type", &[(0, 32), (0, 176)]),
    ("icmp_code", &[(0, 177)]),
    ("udp_dst_port", &[(0, 181)]),
    ("tcp_src_port", &[(0, 182)]),
    ("ip_dscp", &[(0, 195)]),
    ("xlate_src_addr_ipv4", &[(0, 225), (0, 40001)]),
    ("xlate_dst_addr_ipv4", &[(0, 226), (0, 40002)]),
    ("xlate_src_port", &[(0, 227), (0, 40003)]),
    ("xlate_dst_port", &[(0, 228), (0, 40004)]),
    ("fw_event", &[(0, 233), (0, 40005)]),
    ("event_time_msec", &[(0, 323)]),
    ("fw_ext_event", &[(0, 33002)]),
    ("ingress_acl_id", &[(0, 33000)]),
    ("egress_acl_id", &[(0, 33001)]),
    ("username", &[(0, 40000)]),
    ("app_id", &[(0, 56701)]),
    ("user_id", &[(0, 56702)]),
    ("nprobe_proto", &[(0, 57590)]),
    ("nprobe_proto_name", &[(0, 57591)]),
    ("netscalerRoundTripTime", &[(5951, 128)]),
    ("netscalerTransactionId", &[(5951, 129)]),
    ("netscalerHttpReqUrl", &[(5951, 130)]),
    ("netscalerHttpReqCookie", &[(5951, 131)]),
    ("netscalerFlowFlags", &[(5951, 132)]),
    ("netscalerConnectionId", &[(5951, 133)]),
    ("netscalerHttpReqReferer", &[(5951, 140)]),
    ("netscalerHttpReqMethod", &[(5951, 141)]),
    ("netscalerHttpReqHost", &[(5951, 142)]),
    ("netscalerHttpReqUserAgent", &[(5951, 143)]),
    ("netscalerAppNameAppId", &[(5951, 151)]),
    ("netscalerHttpResForwFB", &[(5951, 158)]),
    ("netscalerHttpResForwLB", &[(5951, 170)]),
    ("netscalerAppUnitNameAppId", &[(5951, 171)]),
    ("netscalerHttpContentType", &[(5951, 183)]),
    ("netscalerHttpReqAuthorization", &[(5951, 185)]),
    ("netscalerHttpReqVia", &[(5951, 186)]),
    ("netscalerHttpReqXForwardedFor", &[(5951, 190)]),
    ("netscalerConnectionChainID", &[(5951, 192)]),
    ("netscalerConnectionChainHopCount", &[(5951, 193)]),
    ("netscalerAaaUsername", &[(5951, 205)]),
    ("netscalerHttpDomainName", &[(5951, 267)]),
    ("netscalerUnknown330", &[(5951, 330)]),
    ("expiredFragmentCount", &[(6871, 100)]),
    ("assembledFragmentCount", &[(6871, 101)]),
    ("meanFlowRate", &[(6871, 102)]),
    ("meanPacketRate", &[(6871, 103)]),
    ("flowTableFlushEventCount", &[(6871, 104)]),
    ("flowTablePeakCount", &[(6871, 105)]),
    ("reverseInitialTCPFlags", &[(6871, 16398)]),
    ("reverseUnionTCPFlags", &[(6871, 16399)]),
    ("reverseFlowAttributes", &[(6871, 16424)]),
    ("vmwareEgressInterfaceAttr", &[(6876, 888)]),
    ("vmwareVxlanExportRole", &[(6876, 889)]),
    ("vmwareIngressInterfaceAttr", &[(6876, 890)]),
];
