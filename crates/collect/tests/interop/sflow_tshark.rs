//! Wireshark's dissector on sFlow: every sample's own fields, the headers of the sampled packets, counters of
//! interfaces.

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use arrow::array::RecordBatch;
use weir_flow::{Column, Table};

use crate::expected::Verdict;
use crate::rows::{Cell, Row};
use crate::sflow::{self, Case, Decoded};
use crate::tshark::pcap;

/// The port that the dissector is told to expect sFlow on.
const PORT: u16 = 6343;

/// What the dissector says of one sample: names of fields and their values, in order.
#[derive(Debug, Default)]
struct Seen {
    fields: Vec<(String, String)>,
}

/// Compares every datagram of every case; the verdicts are in the order of the cases.
pub(crate) fn check(tshark: &Path, cases: &[Case]) -> Vec<Verdict> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sflow.pcap");
    std::fs::write(&path, pcap(cases.iter().map(|case| &case.datagrams[..]), PORT)).expect("a file");
    let mut command = Command::new(tshark);
    command.args(["-n", "-d", &format!("udp.port=={PORT},sflow"), "-T", "pdml", "-r"]).arg(&path);
    let output = command.output().expect("tshark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let mut packets = text.split("<packet>").skip(1).map(samples);
    let mut verdict = |case: &Case| {
        let mut verdict = Verdict::default();
        for decoded in &case.decoded {
            check_datagram(decoded, &packets.next().expect("a packet for each datagram"), &mut verdict);
        }
        verdict
    };
    cases.iter().map(&mut verdict).collect()
}

/// The samples of one packet in PDML: a line is a field, with its name and its value.
fn samples(packet: &str) -> Vec<Seen> {
    let mut samples = Vec::new();
    // What the dissector adds behind the protocol it has guessed from payloads, and belongs to no sample.
    let lines = packet.lines().skip_while(|line| !line.contains("<proto name=\"sflow\""));
    for line in lines.take_while(|line| !line.starts_with("  </proto>")) {
        let Some(name) = attribute(line, "name").filter(|name| !name.is_empty()) else { continue };
        let Some(value) = attribute(line, "show") else { continue };
        if name == "sflow_245.sampletype" {
            samples.push(Seen::default());
        }
        if let Some(sample) = samples.last_mut() {
            sample.fields.push((name.to_owned(), value.to_owned()));
        }
    }
    samples
}

fn attribute<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let (_, rest) = line.split_once(&format!(" {name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

impl Seen {
    fn first<N: AsRef<str>>(&self, names: &[N]) -> Option<&str> {
        let wanted = |name: &str| names.iter().any(|wanted| wanted.as_ref() == name);
        self.fields.iter().find(|(name, _)| wanted(name)).map(|(_, value)| value.as_str())
    }

    fn number<N: AsRef<str>>(&self, names: &[N]) -> Option<u64> {
        self.first(names).and_then(number)
    }

    /// The dissector does not step over a structure that it does not know: what follows is read wrongly. Yields what
    /// is before, and whether there is more.
    fn up_to_unknown_counters(&self) -> (Seen, bool) {
        let format = |(name, value): &(String, String)| {
            name == "sflow_245.counters_record_format" && !number(value).is_some_and(|n| COUNTERS_KNOWN.contains(&n))
        };
        let unknown = self.fields.iter().position(format);
        let fields = self.fields[..unknown.unwrap_or(self.fields.len())].to_vec();
        // the format and the length of the unknown structure itself
        let more = unknown.is_some_and(|at| self.fields.len() > at + 2);
        (Seen { fields }, more)
    }

    /// TCP flags of a header that the agent has read, which the dissector has bit by bit.
    fn sampled_tcp_flags(&self) -> Option<u64> {
        let bits = ["cwr", "ece", "urg", "ack", "psh", "rst", "syn", "fin"];
        let bit = |bit: &str| match self.first(&[format!("sflow_245.ip.tcp_flag.{bit}")])? {
            "1" | "True" => Some(1),
            _ => Some(0),
        };
        bits.iter().try_fold(0, |flags, name| Some(flags << 1 | bit(name)?))
    }

    /// Of headers that come twice: those of the packet in the tunnel, but not those of packets that ICMP quotes.
    fn innermost(&self, names: &[&str]) -> Option<&str> {
        let end = self.fields.iter().position(|(name, _)| name.starts_with("icmp")).unwrap_or(self.fields.len());
        let found = self.fields[..end].iter().rfind(|(name, _)| names.contains(&name.as_str()));
        found.map(|(_, value)| value.as_str())
    }

    fn flow(&self) -> bool {
        matches!(self.number(&["sflow_245.sampletype"]), Some(1 | 3))
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn check_datagram(decoded: &Decoded, seen: &[Seen], verdict: &mut Verdict) {
    let flows: Vec<_> = seen.iter().filter(|sample| sample.flow()).collect();
    verdict.records += flows.len();
    verdict.expect("flow samples", decoded.rows.len(), flows.len());
    for (row, sample) in decoded.rows.iter().zip(flows) {
        check_flow(row, sample, verdict);
    }
    let mut interfaces = decoded.counters(Table::InterfaceCounters);
    for sample in seen.iter().filter(|sample| !sample.flow()) {
        check_counters(&mut interfaces, sample, verdict);
    }
}

fn check_counters(rows: &mut Vec<RecordBatch>, sample: &Seen, verdict: &mut Verdict) {
    let of =
        |names: &[&str]| sample.number(&names.iter().map(|n| format!("sflow.counters_sample.{n}")).collect::<Vec<_>>());
    let source = (of(&["source_id_class", "source_id_type"]), of(&["index", "source_id_index"]));
    let found = rows
        .iter()
        .position(|row| source == (sflow::counter(row, "source_class"), sflow::counter(row, "source_index")));
    let (known, lost) = sample.up_to_unknown_counters();
    if lost {
        verdict.differ("structures after an unknown one", format!("source {source:?}"));
    }
    let theirs = |field: &str| known.number(&[field]);
    let Some(position) = found else {
        let any = COUNTERS.iter().filter_map(|(_, field)| theirs(field)).count();
        if any > 0 {
            verdict.differ("counters samples", format!("none of source {source:?}"));
        }
        return;
    };
    let row = rows.remove(position);
    verdict.records += 1;
    for (column, field) in COUNTERS.iter().filter(|(_, field)| !lost || theirs(field).is_some()) {
        let width = if column.ends_with("octets") || *column == "if_speed" { u64::MAX } else { u32::MAX.into() };
        verdict.expect(column, sflow::counter(&row, column), theirs(field).filter(|value| *value != width));
    }
}

/// Structures of counters that the dissector knows.
const COUNTERS_KNOWN: [u64; 9] = [1, 2, 3, 4, 5, 6, 7, 1001, 1002];

const COUNTERS: &[(&str, &str)] = &[
    ("if_index", "sflow_245.ifindex"),
    ("if_type", "sflow_245.iftype"),
    ("if_speed", "sflow_245.ifspeed"),
    ("if_direction", "sflow_245.ifdirection"),
    ("in_octets", "sflow_245.ifinoct"),
    ("in_unicast", "sflow_245.ifinpkt"),
    ("in_multicast", "sflow_245.ifinmcast"),
    ("in_broadcast", "sflow_245.ifinbcast"),
    ("in_discards", "sflow_245.ifindisc"),
    ("in_errors", "sflow_245.ifinerr"),
    ("in_unknown_protocols", "sflow_245.ifinunk"),
    ("out_octets", "sflow_245.ifoutoct"),
    ("out_unicast", "sflow_245.ifoutpkt"),
    ("out_multicast", "sflow_245.ifoutmcast"),
    ("out_broadcast", "sflow_245.ifoutbcast"),
    ("out_discards", "sflow_245.ifoutdisc"),
    ("out_errors", "sflow_245.ifouterr"),
    ("promiscuous", "sflow_245.ifpromisc"),
    ("ethernet_alignment_errors", "sflow_245.dot3StatsAlignmentErrors"),
    ("ethernet_fcs_errors", "sflow_245.dot3StatsFCSErrors"),
    ("ethernet_single_collisions", "sflow_245.dot3StatsSingleCollisionFrames"),
    ("ethernet_multiple_collisions", "sflow_245.dot3StatsMultipleCollisionFrames"),
    ("ethernet_sqe_test_errors", "sflow_245.dot3StatsSQETestErrors"),
    ("ethernet_deferred", "sflow_245.dot3StatsDeferredTransmissions"),
    ("ethernet_late_collisions", "sflow_245.dot3StatsLateCollisions"),
    ("ethernet_excessive_collisions", "sflow_245.dot3StatsExcessiveCollisions"),
    ("ethernet_mac_transmit_errors", "sflow_245.dot3StatsInternalMacTransmitErrors"),
    ("ethernet_carrier_sense_errors", "sflow_245.dot3StatsCarrierSenseErrors"),
    ("ethernet_frames_too_long", "sflow_245.dot3StatsFrameTooLongs"),
    ("ethernet_mac_receive_errors", "sflow_245.dot3StatsInternalMacReceiveErrors"),
    ("ethernet_symbol_errors", "sflow_245.dot3StatsSymbolErrors"),
    ("vlan", "sflow_245.vlan_id"),
    ("vlan_octets", "sflow_245.octets"),
    ("vlan_unicast", "sflow_245.ucastPkts"),
    ("vlan_multicast", "sflow_245.multicastPkts"),
    ("vlan_broadcast", "sflow_245.broadcastPkts"),
    ("vlan_discards", "sflow_245.discards"),
];

fn ours(row: &Row, column: Column) -> Option<u64> {
    match row.cells.get(&column) {
        Some(Cell::Number(value)) => Some(*value),
        _ => None,
    }
}

fn octets(row: &Row, column: Column) -> Option<Vec<u8>> {
    match row.cells.get(&column) {
        Some(Cell::Octets(value)) => Some(value.clone()),
        _ => None,
    }
}

fn element(row: &Row, id: u16) -> Option<u64> {
    let (.., octets) = row.elements.iter().find(|(enterprise, number, _)| (*enterprise, *number) == (0, id))?;
    weir_wire::value::be_uint(octets)
}

fn check_flow(row: &Row, seen: &Seen, verdict: &mut Verdict) {
    let set = |value: Option<u64>| value.filter(|value| *value > 0);
    let sample = "sflow.flow_sample";
    let of = |name: &str| seen.number(&[&format!("{sample}.{name}")]);
    verdict.expect("sampling rate", ours(row, Column::SamplingInterval), set(of("sampling_rate")));
    let input = of("input_interface").or_else(|| of("input_interface_value"));
    verdict.expect("input interface", ours(row, Column::InIf), set(input.filter(|value| *value != 0xffff_ffff)));
    if of("output_interface_format").unwrap_or(0) == 0 {
        let output = of("output_interface_value").or_else(|| of("output_interface"));
        verdict.expect("output interface", ours(row, Column::OutIf), set(output));
    }
    let source =
        of("source_id_class").or_else(|| of("source_id_type")).zip(of("index").or_else(|| of("source_id_index")));
    verdict.expect("source", ours(row, Column::ObservationPoint), source.map(|(class, index)| class << 32 | index));
    if let Some(length) = seen.number(&["sflow_245.header.frame_length", "sflow_245.ethernet.length"]) {
        verdict.expect("frame length", element(row, 352), Some(length));
    }
    check_extended(row, seen, verdict);
    check_headers(row, seen, verdict);
}

fn check_extended(row: &Row, seen: &Seen, verdict: &mut Verdict) {
    let vlan = seen.number(&["sflow_245.vlan.in"]).or_else(|| seen.number(&["vlan.id"]));
    verdict.expect("VLAN in", ours(row, Column::SrcVlan), vlan.filter(|vlan| *vlan <= 0xffff));
    let vlan = seen.number(&["sflow_245.vlan.out"]).filter(|vlan| *vlan <= 0xffff);
    verdict.expect("VLAN out", ours(row, Column::DstVlan), vlan);
    for (name, column) in [
        ("nexthop.src_mask", Column::SrcMask),
        ("nexthop.dst_mask", Column::DstMask),
        ("srcAS", Column::SrcAs),
        ("peerAS", Column::PrevAs),
    ] {
        verdict.expect(name, ours(row, column), seen.number(&[&format!("sflow_245.{name}")]));
    }
    if let Some(next_hop) = seen.first(&["sflow_245.nexthop", "sflow_245.nexthop.v6"]) {
        let hops = [Column::NextHop, Column::BgpNextHop].map(|column| octets(row, column));
        let hops: Vec<_> = hops.iter().flatten().filter_map(|octets| weir_flow::address::to_ip(octets)).collect();
        verdict.expect("next hop", hops.first().map(ToString::to_string), Some(next_hop.to_owned()));
    }
}

fn check_headers(row: &Row, seen: &Seen, verdict: &mut Verdict) {
    let address = |column| octets(row, column).and_then(|octets| weir_flow::address::to_ip(&octets));
    let parse = |text: Option<&str>| text.and_then(|text| text.parse::<IpAddr>().ok());
    for (column, names) in [
        (Column::SrcAddr, ["ip.src", "ipv6.src", "sflow_245.ipv4_src", "sflow_245.ipv6_src"]),
        (Column::DstAddr, ["ip.dst", "ipv6.dst", "sflow_245.ipv4_dst", "sflow_245.ipv6_dst"]),
    ] {
        verdict.expect(column.name(), address(column), parse(seen.innermost(&names)));
    }
    for (column, names) in [
        (Column::SrcPort, &["tcp.srcport", "udp.srcport", "sctp.srcport", "sflow_245.ip.source_port"][..]),
        (Column::DstPort, &["tcp.dstport", "udp.dstport", "sctp.dstport", "sflow.ip.destination_port"]),
        (Column::TcpFlags, &["tcp.flags"]),
        (Column::IcmpType, &["icmp.type", "icmpv6.type"]),
        (Column::IcmpCode, &["icmp.code", "icmpv6.code"]),
    ] {
        let theirs = if matches!(column, Column::IcmpType | Column::IcmpCode) {
            seen.first(names)
        } else {
            seen.innermost(names)
        };
        if column == Column::TcpFlags && theirs.is_none() {
            let tcp = ours(row, Column::Protocol) == Some(6);
            verdict.expect(column.name(), ours(row, column), seen.sampled_tcp_flags().filter(|_| tcp));
            continue;
        }
        verdict.expect(column.name(), ours(row, column), theirs.and_then(number));
    }
    for (column, names) in [(Column::MinTtl, ["ip.ttl", "ipv6.hlim"]), (Column::Tos, ["ip.dsfield", "ipv6.tclass"])] {
        if let Some(theirs) = seen.innermost(&names) {
            verdict.expect(column.name(), ours(row, column), number(theirs));
        }
    }
    if let Some(protocol) = seen.innermost(&["ip.proto", "sflow.ip_protocol"]) {
        verdict.expect("protocol", ours(row, Column::Protocol), number(protocol));
    }
    for (column, name) in [(Column::SrcMac, "eth.src"), (Column::DstMac, "eth.dst")] {
        if let Some(theirs) = seen.first(&[name]) {
            let ours = octets(row, column).map(|octets| weir_flow::AddressText(&octets).to_string());
            verdict.expect(column.name(), ours, Some(theirs.to_owned()));
        }
    }
    let length = seen.number(&["ip.len", "sflow_245.ip.length"]);
    let length = length.or_else(|| seen.number(&["ipv6.plen"]).map(|payload| payload + 40));
    if let Some(length) = length {
        verdict.expect("bytes", ours(row, Column::Bytes), Some(length));
    }
}
