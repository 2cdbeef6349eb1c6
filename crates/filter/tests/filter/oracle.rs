//! The same filters by nfdump: it must take the same flows of the same file.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value as Json};
use weir_filter::parse;
use weir_flow::{Column, ColumnType, parse_address};

use crate::rows::{Row, Value, batch};

/// Filters in the language of nfdump 1.7.1, whose grammar is still close to that of 1.6.
const FILTERS: &[&str] = &[
    "any",
    "not any",
    "ipv4",
    "ipv6",
    "inet",
    "inet6",
    "not ipv4",
    "proto tcp",
    "proto udp",
    "proto icmp",
    "proto 58",
    "proto 6 or proto 17",
    "not proto tcp",
    "ip 216.206.145.131",
    "src ip 216.206.145.131",
    "dst ip 216.206.145.131",
    "host 209.148.205.55",
    "src host 209.197.3.84",
    "not src ip 209.197.3.84",
    "src or dst ip 209.197.3.84",
    "ip in [209.197.3.84 157.240.14.63]",
    "src ip in [209.197.3.0/24 157.240.0.0/16]",
    "dst ip in [192.168.0.0/16]",
    "net 209.148.0.0/16",
    "src net 216.206.0.0/16",
    "dst net 209.148.0.0 255.255.0.0",
    "src net 209.197.3.0/24",
    "dst net 2604:3d08::/32",
    "dst net 2600::/12",
    "src ip in [0.0.0.0/0]",
    "port 443",
    "src port 443",
    "dst port 443",
    "src port > 1023",
    "dst port < 1024",
    "dst port >= 50000",
    "src port <= 80",
    "port > 65000",
    "dst port eq 443",
    "src port gt 1023",
    "src or dst port 80",
    "src and dst port > 1023",
    "port in [80 443]",
    "src port in [80, 443, 53]",
    "not port in [80 443]",
    "src port 443 and dst port > 50000",
    "if 1170",
    "in if 1170",
    "out if 1264",
    "not in if 1170",
    "src vlan 2",
    "vlan 2",
    "src mask 15",
    "dst mask 20",
    "mask 24",
    "tos 0",
    "src tos 0",
    "tos > 0",
    "src tos 72",
    "flags S",
    "flags A",
    "flags SA",
    "flags S and not flags A",
    "flags X",
    "flags F",
    "not flags A",
    "flags R",
    "flags 16",
    "flags = 24",
    "packets > 3k",
    "packets 3000",
    "packets = 3000",
    "in packets >= 6000",
    "packets lt 6k",
    "bytes > 1m",
    "bytes gt 1m",
    "bytes <= 120000",
    "bytes 4500000",
    "not bytes > 100k",
    "bpp > 1000",
    "bpp < 100",
    "bpp = 1500",
    "duration 0",
    "duration > 0",
    "duration > 1000",
    "duration <= 500",
    "pps 0",
    "pps > 100",
    "pps < 1000",
    "duration > 0 and pps < 100",
    "bps > 10m",
    "bps < 10k",
    "bps = 0",
    "next ip 64.86.79.127",
    "router ip 66.110.1.17",
    "not router ip 66.110.1.17",
    "icmp-type 8",
    "icmp-type 3",
    "icmp-code 1",
    "icmp-type 11 or icmp-type 3",
    "proto icmp and not icmp-type 8",
    "flows > 0",
    "(proto tcp and src port 443) or (proto udp and port 53)",
    "proto udp and not (port 53 or port 443)",
    "not (proto tcp or proto udp)",
    "proto tcp and src port 443 or proto udp and dst port 443",
    "bytes > 1m and packets > 1000 and proto tcp",
    "proto tcp and bytes > 1000000 or port 53",
    "not not proto tcp",
];

/// nfdump's name of a column in its JSON.
const COLUMNS: &[(&str, Column)] = &[
    ("in_packets", Column::Packets),
    ("in_bytes", Column::Bytes),
    ("proto", Column::Protocol),
    ("src_port", Column::SrcPort),
    ("dst_port", Column::DstPort),
    ("src_tos", Column::Tos),
    ("input_snmp", Column::InIf),
    ("output_snmp", Column::OutIf),
    ("src_mask", Column::SrcMask),
    ("dst_mask", Column::DstMask),
    ("dst_tos", Column::DstTos),
    ("direction", Column::Direction),
    ("fwd_status", Column::ForwardingStatus),
    ("src_vlan", Column::SrcVlan),
    ("dst_vlan", Column::DstVlan),
    ("src_as", Column::SrcAs),
    ("dst_as", Column::DstAs),
    ("src4_addr", Column::SrcAddr),
    ("src6_addr", Column::SrcAddr),
    ("dst4_addr", Column::DstAddr),
    ("dst6_addr", Column::DstAddr),
    ("ip4_next_hop", Column::NextHop),
    ("ip6_next_hop", Column::NextHop),
    ("ip4_router", Column::Exporter),
    ("ip6_router", Column::Exporter),
];

/// Runs nfdump; `None` when it is not installed.
fn nfdump(arguments: &[&str]) -> Option<String> {
    let output = Command::new("nfdump").args(arguments).env("TZ", "UTC").output().ok()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "nfdump {arguments:?}: {errors}{text}");
    Some(text)
}

/// Records of nfdump's JSON as they are printed, one text each.
fn records(json: &str) -> Vec<&str> {
    json.split("\n{\n").skip(1).map(|record| record.split("\n}").next().expect("a record")).collect()
}

fn row(record: &str) -> Row {
    let object: Map<String, Json> = serde_json::from_str(&format!("{{{record}}}")).expect("a JSON object");
    let mut row = Row::new();
    for (name, column) in COLUMNS {
        let value = match object.get(*name) {
            Some(Json::String(text)) => Value::Octets(parse_address(text).expect("an address")),
            Some(number) => Value::Number(number.as_u64().expect("a number")),
            None => continue,
        };
        assert_eq!(column.column_type() == ColumnType::Address, matches!(value, Value::Octets(_)));
        row.insert(*column, value);
    }
    for (name, column) in [("first", Column::Start), ("last", Column::End)] {
        let time: jiff::Timestamp = format!("{}Z", object[name].as_str().expect("a time")).parse().expect("a time");
        row.insert(column, Value::Ms(time.as_millisecond()));
    }
    if let (Some(kind), Some(code)) = (object.get("icmp_type"), object.get("icmp_code")) {
        // Where NetFlow v5 has them, and nfdump keeps them.
        let both = kind.as_u64().expect("a type") * 256 + code.as_u64().expect("a code");
        row.insert(Column::SrcPort, Value::Number(0));
        row.insert(Column::DstPort, Value::Number(both));
    }
    if let Some(flags) = object.get("tcp_flags") {
        // Printed as "CEUAPRSF" with dots for the unset ones.
        let letters = flags.as_str().expect("flags").bytes();
        let bits = letters.fold(0, |bits, letter| bits << 1 | u64::from(letter != b'.'));
        row.insert(Column::TcpFlags, Value::Number(bits));
    }
    row
}

/// A file of some thousand flows of the corpus, written by nfdump; `None` when something is missing.
fn sample(folder: &Path) -> Option<String> {
    let large = weir_testkit::corpus()?.join("chrispassas+nfdump/testdata/nfcapd-large-bz2");
    let file = folder.join("flows").to_str()?.to_owned();
    // Some of everything: the flows that are neither TCP nor IPv4 are few.
    let wanted =
        "not proto tcp or (inet6 and port 80) or src net 209.0.0.0/8 or src net 216.206.0.0/16 or duration > 9000";
    nfdump(&["-q", "-r", large.to_str()?, "-c", "6000", "-w", &file, wanted])?;
    Some(file)
}

fn folder() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("oracle-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

#[test]
fn nfdump_takes_the_same_flows() {
    let folder = folder();
    let Some(file) = sample(&folder) else {
        weir_testkit::skip("nfdump", "there is no nfdump, or no corpus");
        return;
    };
    let all = nfdump(&["-r", &file, "-o", "json"]).expect("nfdump is there");
    let all = records(&all);
    let flows = batch(&all.iter().map(|record| row(record)).collect::<Vec<_>>());
    assert!(flows.rows() > 1000, "{} flows", flows.rows());
    let mut wrong = Vec::new();
    let mut decisive = 0;
    for filter in FILTERS {
        let theirs = nfdump(&["-r", &file, "-o", "json", filter]).expect("nfdump is there");
        let theirs = records(&theirs);
        let mask = parse(filter).unwrap_or_else(|error| panic!("{}", error.render(filter))).mask(&flows);
        let ours: Vec<&str> =
            all.iter().zip(mask.values()).filter(|(_, taken)| *taken).map(|(record, _)| *record).collect();
        decisive += usize::from(!ours.is_empty() && ours.len() < all.len());
        if ours != theirs {
            wrong.push(format!("{filter}: nfdump takes {}, we take {}", theirs.len(), ours.len()));
        }
    }
    std::fs::remove_dir_all(folder).expect("removed");
    assert!(wrong.is_empty(), "of {} flows\n{}", all.len(), wrong.join("\n"));
    assert!(decisive > 70, "only {decisive} filters take some flows and leave some");
}
