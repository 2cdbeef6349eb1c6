//! What nfdump says about a file, row by row, against what we read.

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use serde_json::{Map, Value};
use weir_flow::elements::elements_of_row;
use weir_flow::{AddressText, Column, ColumnType, FlowBatch};

/// The flows of a file, as `nfdump -o json` prints them.
pub(crate) fn nfdump_rows(file: &Path) -> Vec<Map<String, Value>> {
    let output =
        Command::new("nfdump").env("TZ", "UTC").args(["-o", "json", "-r"]).arg(file).output().expect("nfdump runs");
    let text = String::from_utf8_lossy(&output.stdout);
    // without flows there is no list, or one that is not closed
    match (text.find('['), text.rfind(']')) {
        (Some(begin), Some(end)) if text.contains('{') => {
            serde_json::from_str(&text[begin..=end]).expect("nfdump prints JSON")
        }
        _ => Vec::new(),
    }
}

/// A value as a number, where the column is one of numbers.
fn number(batch: &FlowBatch, column: Column, row: usize) -> Option<u64> {
    let values = batch.column(column)?;
    if values.is_null(row) {
        return None;
    }
    Some(match column.column_type() {
        ColumnType::U8 => values.as_primitive::<UInt8Type>().value(row).into(),
        ColumnType::U16 => values.as_primitive::<UInt16Type>().value(row).into(),
        ColumnType::U32 => values.as_primitive::<UInt32Type>().value(row).into(),
        ColumnType::U64 => values.as_primitive::<UInt64Type>().value(row),
        ColumnType::Time => values.as_primitive::<TimestampMillisecondType>().value(row) as u64,
        _ => return None,
    })
}

fn octets(batch: &FlowBatch, column: Column, row: usize) -> Option<Vec<u8>> {
    let values = batch.binary(column)?;
    values.is_valid(row).then(|| values.value(row).to_vec())
}

fn time_text(ms: u64) -> String {
    let time = jiff::Timestamp::from_millisecond(ms as i64).expect("a time").to_zoned(jiff::tz::TimeZone::UTC);
    time.strftime("%Y-%m-%dT%H:%M:%S.%3f").to_string()
}

fn flags_text(flags: u64) -> String {
    let letters = "CEUAPRSF".chars().enumerate();
    letters.map(|(bit, letter)| if flags & (0x80 >> bit) == 0 { '.' } else { letter }).collect()
}

fn address_text(octets: &[u8]) -> String {
    AddressText(octets).to_string()
}

fn mac_text(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect::<Vec<_>>().join(":")
}

fn element(batch: &FlowBatch, row: usize, enterprise: u32, id: u16) -> Option<Vec<u8>> {
    let values = elements_of_row(batch.column(Column::Elements)?, row);
    let found = values.iter().find(|value| (value.enterprise, value.id) == (enterprise, id))?;
    Some(found.octets.to_vec())
}

fn element_number(batch: &FlowBatch, row: usize, enterprise: u32, id: u16) -> u64 {
    let octets = element(batch, row, enterprise, id).unwrap_or_default();
    octets.iter().fold(0, |sum, octet| sum << 8 | u64::from(*octet))
}

/// Columns that stand for a number under a name of nfdump's. Some are texts there.
const NUMBERS: &[(&str, Column)] = &[
    ("in_packets", Column::Packets),
    ("in_bytes", Column::Bytes),
    ("proto", Column::Protocol),
    ("src_tos", Column::Tos),
    ("src_port", Column::SrcPort),
    ("dst_port", Column::DstPort),
    ("input_snmp", Column::InIf),
    ("output_snmp", Column::OutIf),
    ("src_mask", Column::SrcMask),
    ("dst_mask", Column::DstMask),
    ("direction", Column::Direction),
    ("dst_tos", Column::DstTos),
    ("src_vlan", Column::SrcVlan),
    ("dst_vlan", Column::DstVlan),
    ("src_as", Column::SrcAs),
    ("dst_as", Column::DstAs),
    ("next_as", Column::NextAs),
    ("prev_as", Column::PrevAs),
    ("observationDoaminID", Column::ObservationDomain),
    ("observationPointID", Column::ObservationPoint),
    ("ingress_vrf", Column::IngressVrf),
    ("egress_vrf", Column::EgressVrf),
    ("connect_id", Column::FlowId),
    ("event_id", Column::FirewallEvent),
    ("src_xlt_port", Column::NatSrcPort),
    ("dst_xlt_port", Column::NatDstPort),
    ("nat_event_id", Column::NatEvent),
    ("pblock_start", Column::PortRangeStart),
    ("pblock_end", Column::PortRangeEnd),
];

const ADDRESSES: &[(&str, Column)] = &[
    ("src4_addr", Column::SrcAddr),
    ("dst4_addr", Column::DstAddr),
    ("src6_addr", Column::SrcAddr),
    ("dst6_addr", Column::DstAddr),
    ("bgp4_next_hop", Column::BgpNextHop),
    ("bgp6_next_hop", Column::BgpNextHop),
    ("ip4_next_hop", Column::NextHop),
    ("ip6_next_hop", Column::NextHop),
    ("ip4_router", Column::Exporter),
    ("ip6_router", Column::Exporter),
    ("src4_xlt_ip", Column::NatSrcAddr),
    ("dst4_xlt_ip", Column::NatDstAddr),
    ("src6_xlt_ip", Column::NatSrcAddr),
    ("dst6_xlt_ip", Column::NatDstAddr),
];

const MACS: &[(&str, Column)] = &[
    ("in_src_mac", Column::SrcMac),
    ("in_dst_mac", Column::DstMac),
    ("out_src_mac", Column::PostSrcMac),
    ("out_dst_mac", Column::PostDstMac),
];

/// What is said elsewhere, or made up by nfdump.
const ELSEWHERE: &[&str] = &["type", "sampled", "export_sysid", "src_net", "dst_net", "label", "event", "nat_event"];

/// What we have for a name of nfdump's, as nfdump would print it.
fn said(batch: &FlowBatch, row: usize, name: &str) -> Option<String> {
    let of = |column| number(batch, column, row);
    let either = |first, second| of(first).or_else(|| of(second)).unwrap_or(0).to_string();
    if let Some((_, column)) = NUMBERS.iter().find(|(known, _)| *known == name) {
        return of(*column).map(|value| value.to_string());
    }
    if let Some((_, column)) = ADDRESSES.iter().find(|(known, _)| *known == name) {
        return octets(batch, *column, row).map(|octets| address_text(&octets));
    }
    if let Some((_, column)) = MACS.iter().find(|(known, _)| *known == name) {
        return octets(batch, *column, row).map(|octets| mac_text(&octets));
    }
    if let Some(label) = name.strip_prefix("mpls_") {
        let label: u16 = label.parse().expect("a number");
        let value = element_number(batch, row, 0, 69 + label);
        return Some(format!("{}-{}-{}", value >> 4, (value & 0xe) >> 1, value & 1));
    }
    Some(match name {
        "first" => time_text(of(Column::Start)?),
        "last" => time_text(of(Column::End)?),
        "received" => time_text(of(Column::Received)?),
        "tcp_flags" => flags_text(of(Column::TcpFlags)?),
        "icmp_type" => (of(Column::DstPort)? >> 8).to_string(),
        "icmp_code" => (of(Column::DstPort)? & 0xff).to_string(),
        "fwd_status" => of(Column::ForwardingStatus).unwrap_or(0).to_string(),
        "aggr_flows" => of(Column::Flows).unwrap_or(0).to_string(),
        "out_packets" => either(Column::PacketsOut, Column::PacketsReverse),
        "out_bytes" => either(Column::BytesOut, Column::BytesReverse),
        "xevent_id" => element_number(batch, row, 0, 33002).to_string(),
        "pblock_step" => element_number(batch, row, 0, 363).to_string(),
        "pblock_size" => element_number(batch, row, 0, 364).to_string(),
        "t_event" => time_text(element_number(batch, row, 0, 323)),
        "user_name" => {
            let octets = element(batch, row, 0, 40000);
            octets.map_or_else(|| "<empty>".to_owned(), |octets| String::from_utf8_lossy(&octets).into_owned())
        }
        "ingress_acl" => access_list(batch, row, 33000),
        "egress_acl" => access_list(batch, row, 33001),
        "cli_latency" => latency(batch, row, 83),
        "srv_latency" => latency(batch, row, 85),
        "app_latency" => latency(batch, row, 87),
        _ => return None,
    })
}

fn access_list(batch: &FlowBatch, row: usize, id: u16) -> String {
    let octets = element(batch, row, 0, id).unwrap_or_else(|| vec![0; 12]);
    let words = octets.chunks(4).map(|word| word.iter().fold(0_u32, |sum, octet| sum << 8 | u32::from(*octet)));
    words.map(|word| format!("{word:#x}")).collect::<Vec<_>>().join("/")
}

fn latency(batch: &FlowBatch, row: usize, id: u16) -> String {
    format!("{:.6}", element_number(batch, row, 35632, id) as f64 / 1000.0)
}

/// A value of nfdump's as text in one spelling.
fn spelled(value: &Value) -> String {
    match value {
        Value::String(text) => text.parse::<IpAddr>().map_or_else(|_| text.clone(), |address| address.to_string()),
        Value::Number(number) if number.is_f64() => format!("{:.6}", number.as_f64().unwrap_or(0.0)),
        other => other.to_string(),
    }
}

/// Compares every field of every row. Returns how many fields were compared.
pub(crate) fn compare(file: &Path, batches: &[FlowBatch]) -> usize {
    let expected = nfdump_rows(file);
    let rows: usize = batches.iter().map(FlowBatch::rows).sum();
    assert_eq!(rows, expected.len(), "rows of {}", file.display());
    let ours = batches.iter().flat_map(|batch| (0..batch.rows()).map(move |row| (batch, row)));
    let mut compared = 0;
    for (index, ((batch, row), expected_row)) in ours.zip(&expected).enumerate() {
        for (name, value) in expected_row.iter().filter(|(name, _)| !ELSEWHERE.contains(&name.as_str())) {
            let found = said(batch, row, name);
            if of_other_family(name, expected_row) {
                continue;
            }
            // nfdump has a zero where it knows nothing
            let expected = spelled(value);
            let nothing = found.is_none() && ["0", "0.0.0.0", "::"].contains(&expected.as_str());
            assert!(
                nothing || found.as_deref() == Some(expected.as_str()),
                "{} row {index} {name}: nfdump says {expected}, we say {found:?}\n{:?}",
                file.display(),
                serde_json::to_string(&expected)
            );
            compared += 1;
        }
    }
    compared
}

/// Whether a record has addresses of both families under this name, and this is not the one that is meant: the one of
/// IPv4, unless that is zero. nfdump 1.7.1 prints zeros for both where only that of IPv6 is told.
fn of_other_family(name: &str, row: &Map<String, Value>) -> bool {
    let (four, six) = (name.replacen('6', "4", 1), name.replacen('4', "6", 1));
    match (row.get(&four), row.get(&six)) {
        (Some(value), Some(_)) if four != six => value == "0.0.0.0" || name == six,
        _ => false,
    }
}
