//! Flows told with the routes of their addresses; pmacctd, which reads the same file of prefixes and the same packets, is
//! the judge.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use arrow::datatypes::{UInt8Type, UInt16Type, UInt32Type};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use weir_capture::{FileOptions, WarningHandler, open_files};
use weir_flow::address::to_ip;
use weir_flow::{Column, FlowBatch};
use weir_meter::{KeyFields, MeterOptions, Metering, Step};
use weir_routes::{AsChoice, RouteTableBuilder, SharedRouteTable};

/// A datagram of UDP in an Ethernet frame.
fn frame(src: IpAddr, dst: IpAddr, ports: [u16; 2]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            frame.extend([8, 0, 0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0]);
            frame.extend(src.octets().into_iter().chain(dst.octets()));
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 12, 17, 64]);
            frame.extend(src.octets().into_iter().chain(dst.octets()));
        }
        _ => panic!("{src} and {dst} are of different families"),
    }
    frame.extend(ports.into_iter().flat_map(u16::to_be_bytes));
    frame.extend([0, 12, 0, 0, 1, 2, 3, 4]);
    frame
}

fn routes(lines: &str, choice: AsChoice) -> SharedRouteTable {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines).unwrap();
    let mut builder = RouteTableBuilder::new(choice);
    let report = builder.load(file.path()).unwrap();
    assert_eq!(report.defective, 0, "{report:?}");
    SharedRouteTable::new(builder.build().unwrap())
}

/// Meters a capture to its end.
fn metered(capture: &Path, options: &MeterOptions) -> Vec<FlowBatch> {
    let tell: WarningHandler = Arc::new(|line: &str| panic!("{line}"));
    let source = open_files(&FileOptions { paths: vec![capture.to_owned()], ..FileOptions::default() }, &tell).unwrap();
    let (_, mut workers) = Metering::new(options, vec![source], 1);
    let mut batches = Vec::new();
    while workers[0].step(&mut |batch| batches.push(batch)) != Step::Ended {}
    batches
}

/// What a flow tells of its networks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Told {
    systems: [Option<u32>; 2],
    masks: [Option<u8>; 2],
    hops: [Option<IpAddr>; 2],
}

/// What flows tell, by their source port.
fn told(batches: &[FlowBatch]) -> BTreeMap<u16, Told> {
    let mut told = BTreeMap::new();
    for batch in batches {
        let ports = batch.primitive::<UInt16Type>(Column::SrcPort).unwrap();
        let number = |column, row| batch.primitive::<UInt32Type>(column).and_then(|array| array.iter().nth(row)?);
        let bits = |column, row| batch.primitive::<UInt8Type>(column).and_then(|array| array.iter().nth(row)?);
        let hop = |column, row| batch.binary(column).and_then(|array| to_ip(array.iter().nth(row)??));
        for row in 0..batch.rows() {
            let flow = Told {
                systems: [Column::SrcAs, Column::DstAs].map(|column| number(column, row)),
                masks: [Column::SrcMask, Column::DstMask].map(|column| bits(column, row)),
                hops: [Column::NextHop, Column::BgpNextHop].map(|column| hop(column, row)),
            };
            assert!(told.insert(ports.value(row), flow).is_none(), "a flow for each source port");
        }
    }
    told
}

const LINES: &str = "10.0.0.0/8,64500,192.0.2.1,192.0.2.2\n10.1.0.0/16,64501,192.0.2.3\n0.0.0.0/1,0\n\
    198.51.100.0/24,4200000000\n2001:db8::/32,64502,fe80::1,2001:db8::1\n2001:db8:1::/48,64503\n";

#[test]
fn flows_tell_the_longest_prefixes_and_nothing_where_there_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("trace.pcap");
    let pairs = [
        ("10.1.2.3", "10.2.3.4"),
        ("198.51.100.7", "203.0.113.7"),
        ("203.0.113.7", "10.1.2.3"),
        ("2001:db8:1::7", "2001:db8:2::7"),
        ("2001:db9::7", "2001:db8:1::7"),
        ("127.0.0.1", "198.51.100.7"),
        // neither is a way to get an IPv4 prefix for an IPv6 address
        ("::ffff:10.1.2.3", "::10.1.2.3"),
    ];
    let pairs = pairs.map(|(src, dst)| [src, dst].map(|text| text.parse::<IpAddr>().unwrap()));
    let frames =
        pairs.iter().enumerate().map(|(number, pair)| (number as i64, frame(pair[0], pair[1], [number as u16, 53])));
    weir_testkit::write_capture(&capture, frames);
    let options = MeterOptions { routes: Some(routes(LINES, AsChoice::Origin)), ..MeterOptions::default() };
    let hop = |text: &str| Some(text.parse().unwrap());
    let expected = [
        Told {
            systems: [Some(64501), Some(64500)],
            masks: [Some(16), Some(8)],
            hops: [hop("192.0.2.1"), hop("192.0.2.2")],
        },
        Told { systems: [Some(4_200_000_000), None], masks: [Some(24), None], hops: [None, None] },
        Told { systems: [None, Some(64501)], masks: [None, Some(16)], hops: [hop("192.0.2.3"), None] },
        Told {
            systems: [Some(64503), Some(64502)],
            masks: [Some(48), Some(32)],
            hops: [hop("fe80::1"), hop("2001:db8::1")],
        },
        Told { systems: [None, Some(64503)], masks: [None, Some(48)], hops: [None, None] },
        // a route of which the system is not known has a prefix all the same
        Told { systems: [None, Some(4_200_000_000)], masks: [Some(1), Some(24)], hops: [None, None] },
        Told::default(),
    ];
    let found = told(&metered(&capture, &options));
    assert_eq!(found, (0..).zip(expected.clone()).collect());

    // without routes nothing is told, and nothing of what is not part of the key
    let plain = told(&metered(&capture, &MeterOptions::default()));
    assert!(plain.values().all(|told| *told == Told::default()) && plain.len() == 7);
    let fields = KeyFields { dst_addr: false, ..KeyFields::default() };
    let found = told(&metered(&capture, &MeterOptions { fields, ..options.clone() }));
    let sources = expected.iter().map(|told| Told {
        systems: [told.systems[0], None],
        masks: [told.masks[0], None],
        hops: [None, None],
    });
    assert_eq!(found, (0..).zip(sources).collect());
    let fields = KeyFields { src_addr: false, ..KeyFields::default() };
    let found = told(&metered(&capture, &MeterOptions { fields, ..options }));
    let destinations = expected.iter().map(|told| Told {
        systems: [None, told.systems[1]],
        masks: [None, told.masks[1]],
        hops: told.hops,
    });
    assert_eq!(found, (0..).zip(destinations).collect());
}

/// Whoever begins is the source, whichever of the two addresses is the smaller one.
#[test]
fn biflows_tell_routes_as_the_initiator_sees_them() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("trace.pcap");
    let (one, other): (IpAddr, IpAddr) = ("10.1.2.3".parse().unwrap(), "198.51.100.7".parse().unwrap());
    let frames = [(one, other, [7, 53]), (other, one, [53, 7]), (other, one, [8, 54]), (one, other, [54, 8])];
    let frames = frames.iter().zip(0..).map(|(&(src, dst, ports), time_us)| (time_us, frame(src, dst, ports)));
    weir_testkit::write_capture(&capture, frames);
    let routes = Some(routes(LINES, AsChoice::Origin));
    let options = MeterOptions { routes, is_biflow: true, ..MeterOptions::default() };
    let hop = Some("192.0.2.3".parse().unwrap());
    let forth = Told { systems: [Some(64501), Some(4_200_000_000)], masks: [Some(16), Some(24)], hops: [None, None] };
    let back = Told { systems: [Some(4_200_000_000), Some(64501)], masks: [Some(24), Some(16)], hops: [hop, None] };
    assert_eq!(told(&metered(&capture, &options)), BTreeMap::from([(7, forth), (8, back)]));
}

/// Flows of the test with pmacctd.
const FLOWS: u16 = 6_000;

/// Prefixes close together, many of them within others, in the lines of pmacct; and flows between addresses near them.
///
/// All are of IPv4: pmacctd 1.7.7 finds `2001:1::/32` for `2001::1`, and no IPv6 prefix that lies in another one. What other
/// programs find of IPv6 is in the golden databases.
fn many() -> (String, Vec<[IpAddr; 2]>) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
    let mut near = move || random.next_u32() & random.next_u32() & 0x0f3f_0f3f | 0x0a00_0000;
    let mut lines = String::new();
    let mut known = std::collections::BTreeSet::new();
    for number in 0..2_000_u32 {
        let bits = 8 + near() % 25;
        let prefix = Ipv4Addr::from_bits(near() >> (32 - bits) << (32 - bits));
        if !known.insert((prefix, bits)) {
            continue;
        }
        let (origin, peer) = (64_512 + number, 4_200_000_000 + number % 7);
        let hop = Ipv4Addr::new(192, 0, 2, (number % 250) as u8);
        match number % 3 {
            0 => writeln!(lines, "{hop},{peer}_{origin},{prefix}/{bits}"),
            1 => writeln!(lines, "{peer}_{origin},{prefix}/{bits}"),
            _ => writeln!(lines, "{origin},{prefix}/{bits}"),
        }
        .unwrap();
    }
    let pair = |flow: u16| {
        // some come from where no prefix is
        let far = if flow.is_multiple_of(10) { 0xa000_0000 } else { 0 };
        [near() ^ far, near() ^ 0x0020_0000].map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)))
    };
    let pairs = (0..FLOWS).map(pair).collect();
    (lines, pairs)
}

/// What pmacctd tells of each flow by its source port: 0 is what it knows nothing of.
fn pmacctd(program: &Path, folder: &Path) -> BTreeMap<u16, Told> {
    let path = |name: &str| folder.join(name).display().to_string();
    let configuration = format!(
        "daemonize: false\npcap_savefile: {}\nplugins: print\n\
         aggregate: src_host, dst_host, src_port, dst_port, proto, src_as, dst_as, src_mask, dst_mask, peer_dst_ip\n\
         networks_file: {}\npmacctd_as: file\npmacctd_net: file\nprint_output: json\nprint_output_file: {}\n\
         print_refresh_time: 3600\n",
        path("trace.pcap"),
        path("networks"),
        path("told.json"),
    );
    std::fs::write(path("pmacctd.conf"), configuration).unwrap();
    let output = Command::new(program).arg("-f").arg(path("pmacctd.conf")).stdin(Stdio::null()).output().unwrap();
    let lines = std::fs::read_to_string(path("told.json"));
    let lines = lines.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let number = |flow: &serde_json::Value, key: &str| flow[key].as_u64().filter(|number| *number > 0);
    let flow = |line: &str| {
        let flow: serde_json::Value = serde_json::from_str(line).unwrap();
        let told = Told {
            systems: ["as_src", "as_dst"].map(|key| number(&flow, key).map(|system| system as u32)),
            masks: ["mask_src", "mask_dst"].map(|key| number(&flow, key).map(|bits| bits as u8)),
            hops: [None, flow["peer_ip_dst"].as_str().and_then(|hop| hop.parse().ok())],
        };
        (flow["port_src"].as_u64().unwrap() as u16, told)
    };
    lines.lines().map(flow).collect()
}

#[test]
fn pmacctd_tells_the_same_routes() {
    let Some(program) = weir_testkit::program("pmacctd") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (lines, pairs) = many();
    std::fs::write(folder.path().join("networks"), &lines).unwrap();
    let capture = folder.path().join("trace.pcap");
    let frames = (1..).zip(&pairs).map(|(port, pair)| (i64::from(port), frame(pair[0], pair[1], [port, 53])));
    weir_testkit::write_capture(&capture, frames);
    let options = MeterOptions { routes: Some(routes(&lines, AsChoice::Origin)), ..MeterOptions::default() };
    let (found, expected) = (told(&metered(&capture, &options)), pmacctd(&program, folder.path()));
    assert_eq!((found.len(), expected.len()), (usize::from(FLOWS), usize::from(FLOWS)));
    for (port, expected) in &expected {
        assert_eq!(found[port], *expected, "{:?}", pairs[usize::from(*port) - 1]);
    }
    let masks: std::collections::BTreeSet<_> = expected.values().flat_map(|told| told.masks).collect();
    let hops = expected.values().filter(|told| told.hops[1].is_some()).count();
    assert!(masks.len() > 20 && masks.contains(&None) && hops > 500, "{masks:?}, {hops} hops");
}
