//! Outputs of telegraf's netflow input for sFlow.

use std::path::Path;

use weir_flow::{Column, Table};

use crate::expected::Verdict;
use crate::rows::Cell;
use crate::sflow::{self, Decoded};
use crate::telegraf::{fields, number};

/// Columns of flows by telegraf's names.
const FLOWS: &[(&str, Column)] = &[
    ("src", Column::SrcAddr),
    ("dst", Column::DstAddr),
    ("src_port", Column::SrcPort),
    ("dst_port", Column::DstPort),
    ("protocol", Column::Protocol),
    ("in_snmp", Column::InIf),
    ("out_snmp", Column::OutIf),
    ("sampling_interval", Column::SamplingInterval),
    ("ipv4_total_len", Column::Bytes),
    ("src_tos", Column::Tos),
    ("direction", Column::Direction),
    ("vlan_src", Column::SrcVlan),
    ("vlan_dst", Column::DstVlan),
    ("in_src_mac", Column::SrcMac),
    ("out_dst_mac", Column::DstMac),
];

/// Columns of counters by telegraf's names.
const COUNTERS: &[(&str, &str)] = &[
    ("interface", "if_index"),
    ("interface_type", "if_type"),
    ("speed", "if_speed"),
    ("in_bytes", "in_octets"),
    ("in_unicast_packets_total", "in_unicast"),
    ("in_mcast_packets_total", "in_multicast"),
    ("in_broadcast_packets_total", "in_broadcast"),
    ("in_dropped_packets", "in_discards"),
    ("in_errors", "in_errors"),
    ("in_unknown_protocol", "in_unknown_protocols"),
    ("out_bytes", "out_octets"),
    ("out_unicast_packets_total", "out_unicast"),
    ("out_mcast_packets_total", "out_multicast"),
    ("out_broadcast_packets_total", "out_broadcast"),
    ("out_dropped_packets", "out_discards"),
    ("out_errors", "out_errors"),
    ("promiscuous", "promiscuous"),
    ("collisions_late", "ethernet_late_collisions"),
    ("errors_fcs", "ethernet_fcs_errors"),
    ("errors_symbols", "ethernet_symbol_errors"),
    ("errors_frame_too_long", "ethernet_frames_too_long"),
];

/// Compares the samples of a test case with the lines that the test expects.
pub(crate) fn check(corpus: &Path, files: &[String], decoded: &[Decoded]) -> Option<Verdict> {
    let (folder, _) = files[0].rsplit_once('/')?;
    let golden = std::fs::read_to_string(corpus.join(folder).join("expected.out")).ok()?;
    let lines: Vec<_> = golden.lines().map(fields).collect();
    let (counters, flows): (Vec<_>, Vec<_>) =
        lines.iter().partition(|line| line.iter().any(|(name, _)| name == "interface_type"));
    let mut verdict = Verdict::default();
    let rows: Vec<_> = decoded.iter().flat_map(|decoded| &decoded.rows).collect();
    verdict.expect("flow samples", rows.len(), flows.len());
    for (row, line) in rows.iter().zip(flows) {
        verdict.records += 1;
        for (name, text) in line {
            let Some((_, column)) = FLOWS.iter().find(|(known, _)| known == name) else { continue };
            verdict.expect(name, row.cells.get(column).map(print), Some(text_of(text)));
        }
    }
    let rows: Vec<_> = decoded.iter().flat_map(|decoded| decoded.counters(Table::InterfaceCounters)).collect();
    verdict.expect("counters samples", rows.len(), counters.len());
    for (row, line) in rows.iter().zip(counters) {
        verdict.records += 1;
        for (name, text) in line {
            let Some((_, column)) = COUNTERS.iter().find(|(known, _)| known == name) else { continue };
            // all ones are "unknown" by the standard, which telegraf prints as a number
            let theirs = number(text).filter(|value| *value != 0xffff_ffff);
            verdict.expect(name, sflow::counter(row, column), theirs);
        }
    }
    Some(verdict)
}

fn print(cell: &Cell) -> String {
    match cell {
        Cell::Number(number) => number.to_string(),
        Cell::Time(time) => time.to_string(),
        Cell::Octets(octets) => weir_flow::AddressText(octets).to_string(),
    }
}

fn text_of(text: &str) -> String {
    match text {
        "tcp" => "6".to_owned(),
        "udp" => "17".to_owned(),
        "ingress" => "0".to_owned(),
        "egress" | "icmp" => "1".to_owned(),
        text => number(text).map_or_else(|| text.to_owned(), |number| number.to_string()),
    }
}
