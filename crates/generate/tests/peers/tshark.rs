//! tshark's dissector of NetFlow and IPFIX.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::path::Path;
use std::process::Command;

use arrow::array::AsArray;
use arrow::datatypes::{UInt16Type, UInt64Type};
use weir_export::{ExporterConfig, Interface, Sampling, SamplingAnnouncement, Version};
use weir_flow::{AddressText, Column};
use weir_generate::{Sent, Stream, TrafficModel, write_pcap};

/// False, with a message, when there is no tshark and none is required.
fn there_is_tshark() -> bool {
    let found = Command::new("tshark").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        weir_testkit::skip("tshark", "tshark is not installed");
    }
    found
}

/// Runs tshark on a file and yields the lines of its output. The target's port makes it NetFlow, or IPFIX.
fn tshark(path: &Path, arguments: &[&str]) -> Vec<String> {
    let output = Command::new("tshark")
        .args(["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-d", "udp.port==4739,cflow", "-r"])
        .arg(path)
        .args(arguments)
        .output()
        .expect("tshark");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

/// One line per flow: addresses, ports and octets, with how often it is there.
type Lines = BTreeMap<String, u32>;

fn lines_of_model(model: &TrafficModel, count: u64) -> Lines {
    let mut lines = Lines::new();
    for batch in model.flows(count).expect("a model") {
        let (src, dst) = (batch.binary(Column::SrcAddr), batch.binary(Column::DstAddr));
        let (src, dst) = (src.expect("sources"), dst.expect("destinations"));
        let ports = |column| batch.column(column).expect("ports").as_primitive::<UInt16Type>();
        let (src_port, dst_port) = (ports(Column::SrcPort), ports(Column::DstPort));
        let bytes = batch.column(Column::Bytes).expect("bytes").as_primitive::<UInt64Type>();
        for row in 0..batch.rows() {
            let (src, dst) = (AddressText(src.value(row)), AddressText(dst.value(row)));
            let line = format!("{src} {dst} {} {} {}", src_port.value(row), dst_port.value(row), bytes.value(row));
            *lines.entry(line).or_default() += 1;
        }
    }
    lines
}

/// Each field has one value per flow in each packet, and those of IPv4 and IPv6 come one after the other.
fn lines_of_file(path: &Path) -> Lines {
    let fields = ["srcaddr", "srcaddrv6", "dstaddr", "dstaddrv6", "srcport", "dstport", "octets"];
    let fields: Vec<_> = fields.iter().flat_map(|field| ["-e".to_owned(), format!("cflow.{field}")]).collect();
    let mut arguments = vec!["-T", "fields", "-E", "occurrence=a", "-E", "separator=|", "-E", "aggregator=,"];
    arguments.extend(fields.iter().map(String::as_str));
    let mut lines = Lines::new();
    for packet in tshark(path, &arguments) {
        let fields: Vec<Vec<&str>> =
            packet.split('|').map(|values| values.split(',').filter(|value| !value.is_empty()).collect()).collect();
        let [src, src_v6, dst, dst_v6, src_port, dst_port, octets] = &fields[..] else { panic!("{packet}") };
        // Which family comes first changes from datagram to datagram, so a file has one of them here.
        assert!(src.is_empty() || src_v6.is_empty(), "one family at a time");
        let (src, dst) = ([&src[..], &src_v6[..]].concat(), [&dst[..], &dst_v6[..]].concat());
        let counts = [src.len(), dst.len(), src_port.len(), dst_port.len(), octets.len()];
        assert_eq!(counts, [src.len(); 5]);
        for flow in 0..src.len() {
            let line = [src[flow], dst[flow], src_port[flow], dst_port[flow], octets[flow]].join(" ");
            *lines.entry(line).or_default() += 1;
        }
    }
    lines
}

fn write(path: &Path, model: &TrafficModel, count: u64, config: ExporterConfig) -> Sent {
    let streams = [Stream { source: Some("127.0.0.2".parse().expect("an address")), config }];
    let target: SocketAddrV4 = "127.0.0.1:4739".parse().expect("an address");
    write_pcap(path, &mut model.flows(count).expect("a model"), &streams, target).expect("a file")
}

fn check_nothing_wrong(path: &Path, sent: &Sent) {
    assert_eq!(tshark(path, &["-Y", "cflow"]).len() as u64, sent.datagrams);
    for filter in ["_ws.malformed", "ip.checksum.status != 1", "udp.checksum.status != 1", "cflow.template_frame == 0"]
    {
        assert_eq!(tshark(path, &["-Y", filter]), [""; 0], "{filter}");
    }
    let gaps = tshark(path, &["-Y", "cflow.sequence_analysis.expected_sn"]);
    assert_eq!(gaps, [""; 0], "every sequence number is the one that tshark expects");
    let missing = tshark(path, &["-V"]).into_iter().find(|line| line.contains("No template found"));
    assert_eq!(missing, None);
}

fn check(version: Version, model: &TrafficModel) {
    if !there_is_tshark() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("flows.pcap");
    let sent = write(&path, model, 3_000, ExporterConfig::new(version));
    assert_eq!(sent.flows, 3_000);
    check_nothing_wrong(&path, &sent);
    assert_eq!(lines_of_file(&path), lines_of_model(model, 3_000));
}

#[test]
fn version_5() {
    check(Version::V5, &TrafficModel::new(11));
}

#[test]
fn version_9() {
    check(Version::V9, &TrafficModel::new(12));
    check(Version::V9, &TrafficModel { ipv6_permille: 1000, ..TrafficModel::new(13) });
}

#[test]
fn ipfix() {
    check(Version::Ipfix, &TrafficModel::new(14));
    check(Version::Ipfix, &TrafficModel { ipv6_permille: 1000, ..TrafficModel::new(15) });
}

#[test]
fn both_families_elements_and_options_at_once() {
    if !there_is_tshark() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let sampler = SamplingAnnouncement::Sampler(5);
    for (version, announcement, fields) in [
        (Version::V9, SamplingAnnouncement::Exporter, &["sampling_interval", "sampling_algorithm"][..]),
        (Version::V9, sampler, &["sampler_id", "sampler_mode", "sampler_random_interval"]),
        (Version::Ipfix, SamplingAnnouncement::Exporter, &["sampling_interval", "sampling_algorithm"]),
        (Version::Ipfix, sampler, &["selector_id", "selector_algorithm", "sampling_packet_space"]),
    ] {
        let path = folder.path().join("flows.pcap");
        let model = TrafficModel { ipv6_permille: 300, elements: true, ..TrafficModel::new(16) };
        let config = ExporterConfig {
            sampling: Some(Sampling { interval: 1000, announcement }),
            interfaces: vec![Interface { index: 101, name: "eth1".into(), description: "uplink".into() }],
            ..ExporterConfig::new(version)
        };
        let sent = write(&path, &model, 2_000, config);
        assert_eq!(sent.flows, 2_000);
        check_nothing_wrong(&path, &sent);
        for field in fields {
            let values = tshark(&path, &["-T", "fields", "-E", "occurrence=f", "-e", &format!("cflow.{field}")]);
            assert!(values.iter().any(|value| !value.is_empty()), "{version} {field}");
        }
        let text = tshark(&path, &["-V"]).join("\n");
        assert!(text.contains("eth1") && text.contains("uplink"), "{version}");
        assert_eq!(text.contains("www"), version == Version::Ipfix, "httpRequestHost");
        let octets = |family: &str| {
            let flows = tshark(&path, &["-T", "fields", "-E", "occurrence=a", "-e", &format!("cflow.srcaddr{family}")]);
            flows.iter().flat_map(|values| values.split(',')).filter(|value| !value.is_empty()).count()
        };
        assert_eq!(octets("") + octets("v6"), 2_000, "{version}");
    }
}
