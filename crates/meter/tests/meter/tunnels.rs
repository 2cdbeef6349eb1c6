//! Flows keyed by the inner headers and the ends of their tunnel, against what tshark says of every packet.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{UInt8Type, UInt16Type, UInt64Type};
use weir_capture::{FileOptions, WarningHandler, open_files};
use weir_flow::{Column, FlowBatch};
use weir_meter::{KeyFields, MeterOptions, Metering, Selection, Step, Worker};
use weir_testkit::write_capture;

use crate::theirs::{FIELDS, QUOTING, theirs};

/// What the index of the corpus calls tunnels.
const FEATURES: [&str; 6] = ["gre=", "vxlan=", "geneve=", "gtpu=", "ipip=", "6in4="];
/// Tunnels that it has no name for stand in those of files.
const NAMES: [&str; 6] = ["teredo", "l2tp", "erspan", "etherip", "4in6", "ayiya"];
/// One capture in so many is compared, unless `WEIR_ALL_CAPTURES` is set.
const SAMPLE: usize = 4;

/// Captures of which tshark says something else, with how many packets of theirs ours have not, and why.
const KNOWN: &[(&str, u64, &str)] = &[
    ("eth-ip-gre-ppp-max-ip-packet.pcap", 1_023, "fragments in a tunnel, which to it have no ports"),
    ("gtp1_gn_normal_incl_fragmentation.pcap", 36, CARRIERS),
    ("gtp9_unknown_or_too_short_payload.pcap", 7, CARRIERS),
    ("AH-IPcomp-IPv6.pcap", 7, "it takes apart what is compressed"),
    ("bigtcp-ipv4-geneve-ipv4.pcap", 1, OFFLOADED),
    ("bigtcp-ipv4-geneve-ipv6.pcap", 1, OFFLOADED),
    ("bigtcp-ipv4-vxlan-ipv4.pcap", 1, OFFLOADED),
    ("bigtcp-ipv4-vxlan-ipv6.pcap", 1, OFFLOADED),
    ("bigtcp-ipv6-geneve-ipv4.pcap", 1, OFFLOADED),
    ("bigtcp-ipv6-geneve-ipv6.pcap", 1, OFFLOADED),
];
const CARRIERS: &str = "further fragments of packets in whose place the one that they carry is metered";
const OFFLOADED: &str = "lengths of 0, left to the network card; it stops at them";

/// Ends of the tunnel, addresses, protocol, ports.
type Tuple = (Option<[IpAddr; 2]>, [IpAddr; 2], u8, [u16; 2]);

fn captures(corpus: &Path) -> Vec<(PathBuf, bool)> {
    let index = fs::read_to_string(corpus.join("INDEX.tsv")).unwrap();
    let all = index.lines().filter_map(|line| {
        let cells: Vec<_> = line.split('\t').collect();
        let [path, _, format, _, features] = cells[..] else { return None };
        let lower = path.to_lowercase();
        let has_tunnels = FEATURES.iter().any(|name| format!(" {features}").contains(&format!(" {name}")))
            || NAMES.iter().any(|name| lower.contains(name));
        // tshark's fields have no ports of later fragments, ours have
        let has_fragments = features.contains("frag");
        (has_tunnels && format.starts_with("pcap")).then(|| (corpus.join(path), has_fragments))
    });
    let step = if std::env::var_os("WEIR_ALL_CAPTURES").is_some() { 1 } else { SAMPLE };
    all.step_by(step).collect()
}

/// Protocols whose ports are compared.
fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 33 | 132 | 136)
}

/// Packets by tuple, as tshark tells them. A packet that no protocol is known of is left out on both sides.
fn of_tshark(program: &Path, capture: &Path, with_ports: bool) -> BTreeMap<Tuple, u64> {
    let mut command = Command::new(program);
    command.args(["-n", "-r"]).arg(capture).args(["-T", "fields", "-E", "occurrence=a", "-d", "udp.port==8472,vxlan"]);
    for option in ["ip.defragment:FALSE", "ipv6.defragment:FALSE", "tcp.desegment_tcp_streams:FALSE"] {
        command.args(["-o", option]);
    }
    command.args(FIELDS.iter().flat_map(|field| ["-e", field]));
    let output = command.output().expect("tshark runs");
    let mut packets = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let inner = theirs(line);
        let (Some(addresses), Some(protocol)) = (inner.addresses, inner.protocol) else { continue };
        let ports = inner.ports.filter(|_| with_ports && has_ports(protocol)).unwrap_or_default();
        *packets.entry((carrier(line), addresses, protocol, ports)).or_default() += 1;
    }
    packets
}

/// Addresses of the first IP header, where there is another one behind it that is no quotation.
fn carrier(line: &str) -> Option<[IpAddr; 2]> {
    let columns: Vec<_> = line.split('\t').collect();
    let headers: Vec<_> = columns[0]
        .split(':')
        .take_while(|name| !QUOTING.contains(name))
        .filter(|name| matches!(*name, "ip" | "ipv6"))
        .collect();
    let column = if *headers.first()? == "ip" { 1 } else { 4 };
    let first = |column: usize| columns.get(column)?.split(',').next()?.parse().ok();
    (headers.len() > 1).then(|| Some([first(column)?, first(column + 1)?]))?
}

/// Meters a capture, with as many threads as workers.
pub(crate) fn meter(capture: &Path, options: &MeterOptions, workers: usize) -> Vec<FlowBatch> {
    let tell: WarningHandler = Arc::new(|_| {});
    let source = open_files(&FileOptions { paths: vec![capture.to_owned()], ..FileOptions::default() }, &tell).unwrap();
    let (_, workers) = Metering::new(options, vec![source], workers);
    let run = |mut worker: Worker| {
        let mut batches = Vec::new();
        while worker.step(&mut |batch| batches.push(batch)) != Step::Ended {}
        batches
    };
    let threads: Vec<_> = workers.into_iter().map(|worker| thread::spawn(move || run(worker))).collect();
    threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
}

/// With the ends of tunnels in the key.
fn options() -> MeterOptions {
    let fields = KeyFields { tunnel_endpoints: true, ..KeyFields::default() };
    MeterOptions { fields, ..MeterOptions::default() }
}

fn of_weir(capture: &Path, with_ports: bool) -> BTreeMap<Tuple, u64> {
    let mut packets = BTreeMap::new();
    for (tuple, count) in meter(capture, &options(), 1).iter().flat_map(|batch| tuples(batch, with_ports)) {
        *packets.entry(tuple).or_default() += count;
    }
    packets
}

fn tuples(batch: &FlowBatch, with_ports: bool) -> Vec<(Tuple, u64)> {
    let full = batch.to_full();
    let column = |column: Column| full.column_by_name(column.name()).expect("a column").clone();
    let address = |of: Column, row: usize| -> Option<IpAddr> {
        let column = column(of);
        let values = column.as_binary::<i32>();
        let octets = values.is_valid(row).then(|| values.value(row))?;
        <[u8; 4]>::try_from(octets).map(IpAddr::from).or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from)).ok()
    };
    let both = |from, to, row| Some([address(from, row)?, address(to, row)?]);
    let (protocols, packets) = (column(Column::Protocol), column(Column::Packets));
    let ports = [Column::SrcPort, Column::DstPort].map(&column);
    let tuple = |row: usize| {
        let protocol = protocols.as_primitive::<UInt8Type>().value(row);
        let ports = ports.each_ref().map(|ports| ports.as_primitive::<UInt16Type>().value(row));
        let ports = if with_ports && has_ports(protocol) { ports } else { [0; 2] };
        let ends = both(Column::TunnelSrcAddr, Column::TunnelDstAddr, row);
        let addresses = both(Column::SrcAddr, Column::DstAddr, row).expect("addresses");
        ((ends, addresses, protocol, ports), packets.as_primitive::<UInt64Type>().value(row))
    };
    (0..batch.rows()).map(tuple).collect()
}

#[test]
fn tshark_sees_the_same_ends_of_tunnels() {
    let (Some(corpus), Some(program)) = (weir_testkit::corpus(), weir_testkit::program("tshark")) else { return };
    let (mut in_tunnels, mut compared, mut complaints) = (0, 0, Vec::new());
    let captures = captures(&corpus);
    for (capture, has_fragments) in &captures {
        let (theirs, ours) = (of_tshark(&program, capture, !has_fragments), of_weir(capture, !has_fragments));
        // what one of them has of a tuple and the other has not, in packets
        let more = |one: &BTreeMap<Tuple, u64>, other: &BTreeMap<Tuple, u64>| {
            let more = one.iter().map(|(tuple, count)| (tuple, count.saturating_sub(*other.get(tuple).unwrap_or(&0))));
            more.filter(|(_, count)| *count > 0).map(|(tuple, count)| (*tuple, count)).collect::<Vec<_>>()
        };
        let (lacking, extra) = (more(&theirs, &ours), more(&ours, &theirs));
        let known = KNOWN.iter().find(|(name, ..)| capture.ends_with(name)).map_or(0, |(_, packets, _)| *packets);
        let packets: u64 = lacking.iter().map(|(_, count)| count).sum();
        if packets != known {
            let name = capture.strip_prefix(&corpus).unwrap().display();
            let first = |of: &[(Tuple, u64)]| of.iter().take(2).map(|one| format!("{one:?}")).collect::<Vec<_>>();
            complaints.push(format!(
                "{name}: {packets} packets, {known} known: theirs {:?}, ours {:?}",
                first(&lacking),
                first(&extra)
            ));
        }
        compared += theirs.values().sum::<u64>();
        in_tunnels += theirs.iter().filter(|(tuple, _)| tuple.0.is_some()).map(|(_, count)| count).sum::<u64>();
    }
    let known =
        KNOWN.iter().map(|(name, packets, why)| format!("{name}: {packets} packets, {why}")).collect::<Vec<_>>();
    println!("known to differ:\n{}", known.join("\n"));
    println!("{} captures, {compared} packets compared, {in_tunnels} of them in tunnels", captures.len());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(in_tunnels > 200 && captures.len() > 20, "{in_tunnels} packets in tunnels");
}

/// A frame of IPv4 in IPv4 (RFC 2003) with UDP. A fragment has more to come, or its offset in units of 8 octets.
fn frame(ends: [u32; 2], addresses: [u32; 2], ports: [u16; 2], fragment: u16) -> Vec<u8> {
    let header = |protocol: u8, octets: u8, fragment: u16, addresses: [u32; 2]| {
        let mut header = vec![0x45, 0, 0, octets, 0, 1];
        header.extend(fragment.to_be_bytes().into_iter().chain([64, protocol, 0, 0]));
        header.extend(addresses.into_iter().flat_map(u32::to_be_bytes));
        header
    };
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend(header(4, 56, 0, ends));
    frame.extend(header(17, 36, fragment, addresses));
    frame.extend(ports.into_iter().flat_map(u16::to_be_bytes));
    frame.extend([0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    frame
}

fn write(path: &Path, frames: impl IntoIterator<Item = Vec<u8>>) {
    write_capture(path, (0..).zip(frames).map(|(number, frame)| (1_700_000_000_000_000 + number, frame)));
}

/// The ends as they are told, the source port, and packets of both directions.
fn told(batches: &[FlowBatch]) -> Vec<(String, u16, [u64; 2])> {
    let mut told: Vec<_> = batches
        .iter()
        .flat_map(|batch| {
            let reverse = batch.to_full().column_by_name(Column::PacketsReverse.name()).unwrap().clone();
            let rows = tuples(batch, true).into_iter().enumerate();
            let told = rows.map(move |(row, ((ends, _, _, ports), packets))| {
                let ends = ends.map_or_else(String::new, |[from, to]| format!("{from} {to}"));
                (ends, ports[0], [packets, reverse.as_primitive::<UInt64Type>().value(row)])
            });
            told.collect::<Vec<_>>()
        })
        .collect();
    told.sort();
    told
}

#[test]
fn a_biflow_has_the_ends_as_who_began_it_sees_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.pcap");
    let [a, b, c] = [0xc000_0201, 0xc000_0202, 0xc000_0203];
    let (there, back) = (([1, 2], [1000, 53]), ([2, 1], [53, 1000]));
    // whichever of two addresses is the lesser, whoever begins
    for (first, second, port) in [(there, back, 1000), (back, there, 53)] {
        for (from, to) in [(a, b), (b, a)] {
            write(
                &path,
                [
                    frame([from, to], first.0, first.1, 0),
                    frame([to, from], second.0, second.1, 0),
                    frame([from, to], first.0, first.1, 0),
                    // by another tunnel, and by the same one the wrong way
                    frame([from, c], first.0, first.1, 0),
                    frame([from, to], second.0, second.1, 0),
                ],
            );
            let name = |address: u32| std::net::Ipv4Addr::from(address);
            let answer = if port == 53 { 1000 } else { 53 };
            let mut expected = vec![
                (format!("{} {}", name(from), name(to)), port, [2, 1]),
                (format!("{} {}", name(from), name(c)), port, [1, 0]),
                (format!("{} {}", name(from), name(to)), answer, [1, 0]),
            ];
            expected.sort();
            for workers in [1, 3] {
                let batches = meter(&path, &MeterOptions { is_biflow: true, ..options() }, workers);
                assert_eq!(told(&batches), expected, "{workers} workers");
            }
        }
    }
}

#[test]
fn fragments_have_the_ends_of_their_own_tunnel() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.pcap");
    let [a, b, c] = [0xc000_0201, 0xc000_0202, 0xc000_0203];
    let (first, later) = (0x2000, 1);
    // the same packet by two tunnels, the later fragment before the first; by a third the first never comes
    for addresses in [[1, 2], [2, 1]] {
        let fragments = [
            frame([b, a], addresses, [7, 7], later),
            frame([b, c], addresses, [7, 7], later),
            frame([b, c], addresses, [1000, 53], first),
            frame([b, a], addresses, [1000, 53], first),
            frame([c, a], addresses, [7, 7], later),
        ];
        write(&path, fragments);
        for is_biflow in [false, true] {
            let batches = meter(&path, &MeterOptions { is_biflow, ..options() }, 2);
            let found = told(&batches).into_iter().map(|(ends, port, [packets, _])| (ends, port, packets));
            let ends = ["192.0.2.2 192.0.2.1", "192.0.2.2 192.0.2.3", "192.0.2.3 192.0.2.1"].map(str::to_owned);
            let [one, two, three] = ends;
            assert_eq!(found.collect::<Vec<_>>(), [(one, 1000, 2), (two, 1000, 2), (three, 0, 1)]);
        }
    }
}

#[test]
fn workers_know_ends_by_the_same_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.pcap");
    // flows that differ in nothing but their ends, each with packets in every block
    write(&path, (0..40_000).map(|number| frame([number % 5_000, 1 << 20], [1, 2], [1000, 53], 0)));
    for is_biflow in [false, true] {
        for workers in [1, 2, 4] {
            let told = told(&meter(&path, &MeterOptions { is_biflow, ..options() }, workers));
            assert_eq!(told.len(), 5_000, "{workers} workers");
            assert!(told.iter().all(|(_, _, packets)| *packets == [8, 0]), "{workers} workers");
            assert!(told.windows(2).all(|pair| pair[0].0 != pair[1].0), "{workers} workers");
        }
    }
}

#[test]
fn the_same_flows_are_selected_by_any_number_of_workers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.pcap");
    // some blocks of packets, so that workers race for the numbers of ends
    write(&path, (0..40_000).map(|number| frame([number, 1], [number % 500, 2], [1000, 53], 0)));
    let sampling = Some((Selection::FlowHash, 4));
    let flows = |workers| told(&meter(&path, &MeterOptions { sampling, seed: 7, ..options() }, workers));
    let expected = flows(1);
    assert!((5_000..15_000).contains(&expected.len()), "{} of 40000 flows", expected.len());
    assert!([2, 4].into_iter().all(|workers| flows(workers) == expected));
}
