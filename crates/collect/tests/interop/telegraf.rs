//! Outputs of telegraf's netflow input (Go, built on goflow2), in Influx line protocol.

use std::path::Path;

use weir_flow::{Column, ColumnType};
use weir_wire::value::be_uint;

use crate::events::{Event, events, field_named};
use crate::expected::{Expected, Verdict, compare};
use crate::inputs::Input;
use crate::rows::Decoded;
use crate::walk::Message;

/// Compares the records of a test case with the lines that the test expects.
pub(crate) fn check(corpus: &Path, input: &Input, messages: &[Message], decoded: &Decoded) -> Option<Verdict> {
    if input.datagrams.is_empty() {
        return None;
    }
    let (folder, _) = input.files[0].rsplit_once('/')?;
    let golden = std::fs::read_to_string(corpus.join(folder).join("expected.out")).ok()?;
    let lines: Vec<_> = golden.lines().map(fields).collect();
    let events = events(messages, decoded);
    let mut verdict = Verdict::default();
    verdict.expect("records", events.len(), lines.len());
    for (event, line) in events.iter().zip(&lines) {
        verdict.add(check_line(event, line));
    }
    Some(verdict)
}

/// The fields of a line: name and value; no text in the goldens holds a comma or a quote.
pub(crate) fn fields(line: &str) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    let mut rest = line.split_once(' ').map_or("", |(_, rest)| rest);
    while let Some((name, after)) = rest.split_once('=') {
        let (value, after) = match after.strip_prefix('"') {
            Some(text) => text.split_once('"').unwrap_or((text, "")),
            None => after.split_at(after.find([',', ' ']).unwrap_or(after.len())),
        };
        fields.push((name.to_owned(), value.to_owned()));
        // a space ends the fields, after it comes the time of the test
        let Some(next) = after.strip_prefix(',') else { break };
        rest = next;
    }
    fields
}

fn check_line(event: &Event<'_>, line: &[(String, String)]) -> Verdict {
    let mut verdict = Verdict::default();
    let mut expected = Vec::new();
    for (name, text) in line {
        if let Some(ours) = of_the_header(event, name) {
            verdict.expect(name, Some(ours), number(text));
            continue;
        }
        let (elements, value) = (elements(name), meaning(name, text));
        let Some(field) = value.and_then(|value| field_named(event.record, name, &elements, value)) else {
            verdict.differ(name, format!("no field of the record is called so, theirs {text}"));
            continue;
        };
        expected.push(field);
    }
    verdict.add(compare(&event.header, event.record, event.row, &expected));
    verdict
}

fn of_the_header(event: &Event<'_>, name: &str) -> Option<u64> {
    let header = &event.header;
    if let ("in_bytes", Some(scope)) = (name, event.record.fields.first().filter(|field| field.scope_type)) {
        // The scope type System has the number of the element that telegraf takes it for.
        return be_uint(&scope.octets);
    }
    if header.version != 5 {
        return None;
    }
    Some(match name {
        "flows" => header.count.into(),
        "engine_type" => (header.domain >> 8).into(),
        "engine_id" => (header.domain & 0xff).into(),
        "sys_uptime" => header.uptime_ms?.into(),
        "seq_number" => header.sequence.into(),
        "sampling_interval" => header.sampling_interval.into(),
        _ => return None,
    })
}

/// A number as the line protocol or telegraf's texts have it.
pub(crate) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.trim_end_matches('u').parse().ok(),
    }
}

fn meaning(name: &str, text: &str) -> Option<Expected> {
    if let Ok(address) = text.parse() {
        return Some(Expected::Address(address));
    }
    let value = match (name, text) {
        ("protocol", "tcp") => 6,
        ("protocol", "udp") => 17,
        ("direction", "ingress") | ("flow_end_reason", "reserved") => 0,
        ("direction", "egress") | ("flow_end_reason", "idle timeout") => 1,
        ("flow_end_reason", "active timeout") => 2,
        ("flow_end_reason", "end of flow") => 3,
        ("flow_end_reason", "forced end") => 4,
        ("tcp_flags", flags) => flags.chars().fold(0, |bits, flag| bits << 1 | u64::from(flag != '.')),
        ("interface" | "interface_desc", text) => return Some(Expected::Text(text.to_owned())),
        _ if name.starts_with("type_") || name == "padding" => {
            let hex = text.strip_prefix("0x")?;
            let octets = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok());
            let octets: Vec<u8> = octets.collect::<Option<_>>()?;
            // it has octets of all elements that it does not know
            let number = be_uint(&octets).filter(|_| elements(name).into_iter().any(is_number));
            return Some(number.map_or(Expected::Octets(octets), Expected::Number));
        }
        _ => number(text)?,
    };
    Some(Expected::Number(value))
}

/// Whether an element has a column of numbers.
fn is_number((enterprise, id): (u32, u16)) -> bool {
    let column = Column::of_element(enterprise, id).map(|(column, _)| column.column_type());
    matches!(column, Some(ColumnType::U8 | ColumnType::U16 | ColumnType::U32 | ColumnType::U64))
}

/// The elements that a name of telegraf may stand for: `type_29305_85` names them itself.
fn elements(name: &str) -> Vec<(u32, u16)> {
    if let Some((enterprise, id)) = name.strip_prefix("type_").and_then(|numbers| numbers.split_once('_')) {
        let Ok(enterprise) = enterprise.parse() else { return Vec::new() };
        return match id.strip_prefix("rev_") {
            // YAF marks the reverse of its own elements by this bit.
            Some(id) => id.parse().map(|id: u16| (enterprise, id | 0x4000)).into_iter().collect(),
            None => id.parse().map(|id: u16| (enterprise, id & 0x7fff)).into_iter().collect(),
        };
    }
    let known = NAMES.iter().find(|(known, _)| *known == name);
    known.map(|(_, ids)| ids.iter().map(|id| (0, *id)).collect()).unwrap_or_default()
}

const NAMES: &[(&str, &[u16])] = &[
    ("in_bytes", &[1]),
    ("in_packets", &[2]),
    ("flows", &[3]),
    ("protocol", &[4]),
    ("src_tos", &[5]),
    ("tcp_flags", &[6]),
    ("src_port", &[7]),
    ("src", &[8, 27]),
    ("src_mask", &[9, 29]),
    ("in_snmp", &[10]),
    ("dst_port", &[11]),
    ("dst", &[12, 28]),
    ("dst_mask", &[13, 30]),
    ("out_snmp", &[14]),
    ("next_hop", &[15]),
    ("bgp_src_as", &[16]),
    ("bgp_dst_as", &[17]),
    ("last_switched", &[21]),
    ("first_switched", &[22]),
    ("total_flows_exported", &[42]),
    ("vlan_src", &[58]),
    ("direction", &[61]),
    ("interface", &[82]),
    ("interface_desc", &[83]),
    ("in_total_bytes", &[85]),
    ("in_total_packets", &[86]),
    ("exporter", &[130]),
    ("dropped_packets_total", &[135]),
    ("flow_end_reason", &[136]),
    ("exporting_pid", &[144]),
    ("observation_domain_id", &[149]),
    ("flow_start", &[150]),
    ("flow_end", &[151]),
    ("flow_start_ms", &[152]),
    ("flow_end_ms", &[153]),
    ("system_init_ms", &[160]),
    ("ignored_packet_total", &[164]),
    ("notsent_packet_total", &[167]),
    ("padding", &[210]),
    ("event_time", &[322]),
];
