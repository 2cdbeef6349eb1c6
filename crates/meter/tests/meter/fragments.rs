//! Fragments are of the flow of their packet, by what RFC 791 and RFC 8200 say that they have in common.

use std::net::IpAddr;
use std::sync::Arc;
use std::thread;

use arrow::array::AsArray;
use arrow::datatypes::{UInt8Type, UInt16Type, UInt64Type};
use weir_capture::{FileOptions, WarningHandler, open_files};
use weir_flow::address::to_ip;
use weir_flow::{Column, FlowBatch};
use weir_meter::{KeyFields, KeyHeaders, MeterCounts, MeterOptions, Metering, Step, Worker};
use weir_testkit::write_capture;

const UDP: u8 = 17;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;
/// Ends of a tunnel, and of what is in it.
const CARRIERS: [u32; 2] = [0x0909_0901, 0x0909_0902];
const HOSTS: [u32; 2] = [0x0a00_0001, 0x0a00_0002];

/// Source and destination, ports, protocol, type of service; packets and octets.
type Row = (String, [u16; 2], u8, u8, [u64; 2]);

fn ethernet(ethertype: u16, packet: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &ethertype.to_be_bytes(), packet].concat()
}

/// A packet or a fragment of IPv4 (RFC 791 section 3.1).
fn ipv4(
    protocol: u8,
    tos: u8,
    ends: [u32; 2],
    (identification, offset, more): (u16, usize, bool),
    carried: &[u8],
) -> Vec<u8> {
    let fragment = (offset / 8) as u16 | u16::from(more) << 13;
    let mut packet = vec![0x45, tos];
    for word in [20 + carried.len() as u16, identification, fragment] {
        packet.extend(word.to_be_bytes());
    }
    packet.extend([64, protocol, 0, 0]);
    packet.extend(ends.into_iter().flat_map(u32::to_be_bytes));
    packet.extend(carried);
    packet
}

/// Frames with the fragments of a packet of IPv4.
fn ipv4_fragments(protocol: u8, ends: [u32; 2], identification: u16, carried: &[u8], octets: usize) -> Vec<Vec<u8>> {
    let pieces = carried.chunks(octets).enumerate().map(|(number, piece)| (number * octets, piece));
    let fragment = |(offset, piece): (usize, &[u8])| {
        let more = offset + piece.len() < carried.len();
        ethernet(0x0800, &ipv4(protocol, 0, ends, (identification, offset, more), piece))
    };
    pieces.map(fragment).collect()
}

/// Frames with the fragments of a packet of IPv6 (RFC 8200 section 4.5), whose Fragment headers name what follows.
fn ipv6_fragments(next: u8, identification: u32, carried: &[u8], octets: usize) -> Vec<Vec<u8>> {
    let fragment = |(number, piece): (usize, &[u8])| {
        let offset = number * octets;
        let more = offset + piece.len() < carried.len();
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend((8 + piece.len() as u16).to_be_bytes());
        packet.extend([44, 64]);
        packet.extend([[0xfd_u8, 1], [0xfd, 2]].into_iter().flat_map(|[net, host]| {
            let mut address = [0_u8; 16];
            (address[0], address[15]) = (net, host);
            address
        }));
        packet.extend([next, 0]);
        packet.extend((offset as u16 | u16::from(more)).to_be_bytes());
        packet.extend(identification.to_be_bytes());
        packet.extend(piece);
        ethernet(0x86dd, &packet)
    };
    carried.chunks(octets).enumerate().map(fragment).collect()
}

/// A datagram of UDP.
fn udp(ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let words = [ports[0], ports[1], 8 + payload.len() as u16, 0];
    words.into_iter().flat_map(u16::to_be_bytes).chain(payload.iter().copied()).collect()
}

/// A datagram of VXLAN (RFC 7348) with a frame in it.
fn vxlan(ethertype: u16, packet: &[u8]) -> Vec<u8> {
    udp([50_000, 4_789], &[&[8, 0, 0, 0, 0, 0, 5, 0][..], &ethernet(ethertype, packet)].concat())
}

fn run(mut worker: Worker) -> Vec<FlowBatch> {
    let mut batches = Vec::new();
    while worker.step(&mut |batch| batches.push(batch)) != Step::Ended {}
    batches
}

/// Meters a capture of these frames.
fn meter(frames: &[Vec<u8>], options: &MeterOptions, workers: usize) -> (Vec<FlowBatch>, MeterCounts) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.pcap");
    write_capture(&path, (1_700_000_000_000_000..).zip(frames.iter().cloned()));
    let tell: WarningHandler = Arc::new(|line: &str| panic!("{line}"));
    let source = open_files(&FileOptions { paths: vec![path], ..FileOptions::default() }, &tell).expect("a source");
    let (metering, workers) = Metering::new(options, vec![source], workers);
    let threads: Vec<_> = workers.into_iter().map(|worker| thread::spawn(move || run(worker))).collect();
    let batches = threads.into_iter().flat_map(|thread| thread.join().expect("a worker")).collect();
    let counts = metering.counts();
    assert!(counts.balances(), "{counts:?}");
    (batches, counts)
}

/// All flows, in order.
fn flows(batches: &[FlowBatch]) -> Vec<Row> {
    let mut flows: Vec<_> = batches.iter().flat_map(rows).collect();
    flows.sort();
    flows
}

fn rows(batch: &FlowBatch) -> Vec<Row> {
    let full = batch.to_full();
    let column = |column: Column| full.column_by_name(column.name()).expect("a column").clone();
    let [src, dst] = [Column::SrcAddr, Column::DstAddr].map(&column);
    let address =
        |column: &arrow::array::ArrayRef, row: usize| -> Option<IpAddr> { to_ip(column.as_binary::<i32>().value(row)) };
    let ports = [Column::SrcPort, Column::DstPort].map(&column);
    let [protocols, tos] = [Column::Protocol, Column::Tos].map(&column);
    let sums = [Column::Packets, Column::Bytes].map(&column);
    let row = |row: usize| {
        let ends = [&src, &dst].map(|column| address(column, row).map_or_else(String::new, |ip| ip.to_string()));
        (
            ends.join(" "),
            ports.each_ref().map(|ports| ports.as_primitive::<UInt16Type>().value(row)),
            protocols.as_primitive::<UInt8Type>().value(row),
            tos.as_primitive::<UInt8Type>().value(row),
            sums.each_ref().map(|sums| sums.as_primitive::<UInt64Type>().value(row)),
        )
    };
    (0..batch.rows()).map(row).collect()
}

/// The flows of frames in this order and in the opposite one, of uniflows and of biflows, with one worker and with
/// three; and how many frames are in none, since what they are fragments of carries a packet of these flows.
fn check(frames: &[Vec<u8>], expected: &[Row], of_tunnels: u64) {
    check_by(KeyHeaders::Inner, frames, expected, of_tunnels);
}

/// The same by these headers of packets in tunnels.
fn check_by(headers: KeyHeaders, frames: &[Vec<u8>], expected: &[Row], of_tunnels: u64) {
    let reversed: Vec<_> = frames.iter().rev().cloned().collect();
    for (frames, workers) in [(frames, 1), (&reversed[..], 1), (frames, 3), (&reversed[..], 3)] {
        for is_biflow in [false, true] {
            for tunnel in [false, true] {
                for tunnel_endpoints in [false, true] {
                    // the identifier and the addresses of the tunnel, which the other fragments do not have
                    let fields = KeyFields { tunnel, tunnel_endpoints, headers, ..KeyFields::default() };
                    let options = MeterOptions { fields, is_biflow, ..MeterOptions::default() };
                    let (batches, counts) = meter(frames, &options, workers);
                    let case = format!("{workers} workers, biflow {is_biflow}, {fields:?}");
                    assert_eq!(flows(&batches), expected, "{case}");
                    let fragments = (counts.fragments_of_tunnels, counts.fragments_without_first);
                    assert_eq!(fragments, (of_tunnels, 0), "{case}");
                }
            }
        }
    }
}

#[test]
fn what_only_the_first_fragment_shows_is_known_of_all() {
    let datagram = udp([1111, 2222], &[7; 1600]);
    let ends = "fd00::1 fd00::2".to_owned();
    // an options header of padding, and an authentication header (RFC 4302 section 2) of 28 octets
    let options = [&[UDP, 0, 1, 4, 0, 0, 0, 0][..], &datagram].concat();
    let authenticated = [&[UDP, 5, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1][..], &[9; 16], &datagram].concat();
    let row = |octets: usize| (ends.clone(), [1111, 2222], UDP, 0, [3, octets as u64]);
    check(&ipv6_fragments(UDP, 5, &datagram, 800), &[row(3 * 48 + 1608)], 0);
    check(&ipv6_fragments(DESTINATION_OPTIONS, 6, &options, 800), &[row(3 * 48 + 1616)], 0);
    check(&ipv6_fragments(AUTHENTICATION, 7, &authenticated, 800), &[row(3 * 48 + 1636)], 0);
    let of_ipv4 = ("10.0.0.1 10.0.0.2".to_owned(), [1111, 2222], UDP, 0, [3, 3 * 20 + 1636]);
    check(&ipv4_fragments(AUTHENTICATION, HOSTS, 79, &authenticated, 800), &[of_ipv4], 0);
}

/// RFC 8200 section 4.5: what the Fragment headers of one packet name may differ, and the first one's counts.
#[test]
fn fragments_of_ipv6_may_name_different_headers() {
    let datagram = udp([1111, 2222], &[7; 800]);
    let mut frames = ipv6_fragments(UDP, 5, &datagram, 800);
    let fragment_header = 14 + 40;
    frames[1][fragment_header] = 59;
    check(&frames, &[("fd00::1 fd00::2".to_owned(), [1111, 2222], UDP, 0, [2, 2 * 48 + 808])], 0);
}

/// RFC 3168 section 5.3: a router marks one fragment of a packet.
#[test]
fn a_fragment_that_a_router_marked_has_the_ports_of_its_packet() {
    let datagram = udp([1111, 2222], &[7; 1600]);
    let mut frames = ipv4_fragments(UDP, HOSTS, 77, &datagram, 800);
    let tos = 14 + 1;
    for (frame, marked) in frames.iter_mut().zip([2, 3, 2]) {
        frame[tos] = marked;
    }
    let row = |tos, sums| ("10.0.0.1 10.0.0.2".to_owned(), [1111, 2222], UDP, tos, sums);
    let (batches, counts) = meter(&frames, &MeterOptions::default(), 2);
    assert_eq!(flows(&batches), [row(2, [2, 820 + 28]), row(3, [1, 820])]);
    assert_eq!(counts.fragments_without_first, 0);
}

#[test]
fn packets_of_two_hosts_are_not_mixed_where_addresses_are_no_key() {
    let fields = KeyFields { src_port: true, dst_port: true, ..KeyFields::NONE };
    let options = MeterOptions { fields, ..MeterOptions::default() };
    let of = |host: u32, port: u16| ipv4_fragments(UDP, [host, 9], 7, &udp([port, 53], &[1; 1000]), 800);
    let ([one, two], [three, four]) = (pair(of(1, 1111)), pair(of(2, 2222)));
    let (batches, _) = meter(&[one, three, two, four], &options, 2);
    let mut found: Vec<_> = batches
        .iter()
        .flat_map(|batch| {
            let ports = batch.primitive::<UInt16Type>(Column::SrcPort).expect("ports");
            let packets = batch.primitive::<UInt64Type>(Column::Packets).expect("packets");
            (0..batch.rows()).map(|row| (ports.value(row), packets.value(row))).collect::<Vec<_>>()
        })
        .collect();
    found.sort_unstable();
    assert_eq!(found, [(1111, 2), (2222, 2)]);
}

fn pair(frames: Vec<Vec<u8>>) -> [Vec<u8>; 2] {
    frames.try_into().expect("two fragments")
}

/// 100 datagrams of VXLAN with a packet of 8940 octets, each in 7 fragments.
fn tunnel_in_fragments() -> Vec<Vec<u8>> {
    let inner = ipv4(UDP, 0, HOSTS, (0, 0, false), &udp([1, 2], &[7; 8912]));
    (0..100).flat_map(|number| ipv4_fragments(UDP, CARRIERS, number, &vxlan(0x0800, &inner), 1480)).collect()
}

/// tshark finds 100 packets within, and octets are those of their headers.
#[test]
fn packets_in_tunnels_count_once_where_the_tunnel_is_in_fragments() {
    let frames = tunnel_in_fragments();
    assert_eq!(frames.len(), 700);
    check(&frames, &[("10.0.0.1 10.0.0.2".to_owned(), [1, 2], UDP, 0, [100, 894_000])], 600);
}

#[test]
fn by_outer_headers_all_fragments_are_of_the_flow() {
    let expected = ("9.9.9.1 9.9.9.2".to_owned(), [50_000, 4_789], UDP, 0, [700, 911_000]);
    check_by(KeyHeaders::Outer, &tunnel_in_fragments(), &[expected], 0);
}

/// The same frames in a provider bridge (IEEE 802.1Q clause 9.7), whose service all fragments show.
#[test]
fn tunnels_in_fragments_may_be_in_a_provider_bridge() {
    let bridged = |frame: Vec<u8>| ethernet(0x88e7, &[&[0, 0, 1, 35][..], &frame].concat());
    let frames: Vec<_> = tunnel_in_fragments().into_iter().map(bridged).collect();
    check(&frames, &[("10.0.0.1 10.0.0.2".to_owned(), [1, 2], UDP, 0, [100, 894_000])], 600);
    let outer = ("9.9.9.1 9.9.9.2".to_owned(), [50_000, 4_789], UDP, 0, [700, 911_000]);
    check_by(KeyHeaders::Outer, &frames, &[outer], 0);
    // nothing but links carries this one, which is in fragments itself
    let datagram = udp([1111, 2222], &[7; 1600]);
    let frames: Vec<_> = ipv4_fragments(UDP, HOSTS, 77, &datagram, 800).into_iter().map(bridged).collect();
    let own = ("10.0.0.1 10.0.0.2".to_owned(), [1111, 2222], UDP, 0, [3, 3 * 20 + 1608]);
    check(&frames, std::slice::from_ref(&own), 0);
    check_by(KeyHeaders::Outer, &frames, &[own], 0);
}

#[test]
fn fragments_in_fragments_have_the_ports_of_their_packet() {
    let inner = ipv4_fragments(UDP, HOSTS, 5, &udp([1111, 2222], &[7; 3600]), 1600);
    assert_eq!(inner.len(), 3);
    let carried = (1..).zip(&inner).flat_map(|(number, frame)| {
        // the frame is in the tunnel with a link header of its own
        ipv4_fragments(UDP, CARRIERS, number, &vxlan(0x0800, &frame[14..]), 1480)
    });
    let expected = ("10.0.0.1 10.0.0.2".to_owned(), [1111, 2222], UDP, 0, [3, 3 * 20 + 3608]);
    check(&carried.collect::<Vec<_>>(), &[expected], 2);
}

/// 100 packets of GRE (RFC 2784) with a packet of 3000 octets, each in three fragments, which are in VXLAN one by one.
fn tunnel_in_fragments_in_a_tunnel() -> Vec<Vec<u8>> {
    const GRE: u8 = 47;
    const ROUTERS: [u32; 2] = [0xac10_0001, 0xac10_0002];
    let inner = ipv4(UDP, 0, HOSTS, (0, 0, false), &udp([1, 2], &[7; 2972]));
    let gre = [&[0, 0, 8, 0][..], &inner].concat();
    let carried = (0..100).flat_map(|number| ipv4_fragments(GRE, ROUTERS, number, &gre, 1200));
    carried.map(|frame| vxlan(0x0800, &frame[14..])).collect()
}

/// tshark finds 100 packets within, and octets are those of their headers.
#[test]
fn packets_count_once_where_a_tunnel_in_a_tunnel_is_in_fragments() {
    let expected = ("10.0.0.1 10.0.0.2".to_owned(), [1, 2], UDP, 0, [100, 300_000]);
    let carried = tunnel_in_fragments_in_a_tunnel();
    assert_eq!(carried.len(), 300);
    let whole = (0..).zip(&carried);
    let whole: Vec<_> =
        whole.flat_map(|(number, datagram)| ipv4_fragments(UDP, CARRIERS, number, datagram, 1480)).collect();
    assert_eq!(whole.len(), 300);
    check(&whole, std::slice::from_ref(&expected), 200);
    // the packets around are in fragments as well, two of each but the last of three, which is shorter
    let pieces = (0..).zip(&carried);
    let pieces: Vec<_> =
        pieces.flat_map(|(number, datagram)| ipv4_fragments(UDP, CARRIERS, number, datagram, 800)).collect();
    assert_eq!(pieces.len(), 500);
    check(&pieces, &[expected], 400);
}

/// What carries no IP is metered itself, and so are all of its fragments.
#[test]
fn a_tunnel_packet_without_ip_has_all_of_its_fragments() {
    let arp = vxlan(0x0806, &[0; 2000]);
    let expected = ("9.9.9.1 9.9.9.2".to_owned(), [50_000, 4_789], UDP, 0, [2, 2 * 20 + 2030]);
    let frames = ipv4_fragments(UDP, CARRIERS, 1, &arp, 1480);
    check(&frames, std::slice::from_ref(&expected), 0);
    check_by(KeyHeaders::Outer, &frames, &[expected], 0);
}
