//! Datagrams on the loopback interface: all arrive, in sequence, and sending ends by itself.

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use weir_export::{ExporterConfig, Refusal, Version};
use weir_generate::{SendError, SendPlan, Sent, Stream, TrafficModel, send};
use weir_wire::netflow5;

fn streams(version: Version, sources: &[&str]) -> Vec<Stream> {
    let source = |text: &&str| Some(text.parse::<IpAddr>().expect("an address"));
    sources.iter().map(|text| Stream { source: source(text), config: ExporterConfig::new(version) }).collect()
}

/// Sends to a socket of our own and yields what came, by source address. The rate is low enough for the buffer of
/// the socket, and the receiver ends when it has as many datagrams as were sent.
fn receive(model: &TrafficModel, count: u64, streams: &[Stream]) -> (Sent, BTreeMap<IpAddr, Vec<Vec<u8>>>) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_mins(1))).expect("a timeout");
    // room for all of them, however late the thread gets its turn
    if setsockopt(&socket, sockopt::RcvBufForce, &(8 << 20)).is_err() {
        let _ = setsockopt(&socket, sockopt::RcvBuf, &(4 << 20));
    }
    let port = socket.local_addr().expect("an address").port();
    let done = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let receiver = thread::spawn(move || {
        let (mut datagrams, mut buffer) = (BTreeMap::<_, Vec<Vec<u8>>>::new(), vec![0; 65536]);
        loop {
            let (octets, from) = socket.recv_from(&mut buffer).expect("a datagram, or the one that says it is over");
            if octets == 0 {
                return datagrams;
            }
            datagrams.entry(from.ip()).or_default().push(buffer[..octets].to_vec());
        }
    });
    let plan = SendPlan { flows_per_second: Some(10_000), ..SendPlan::to_loopback(port) };
    let sent = send(&mut model.flows(count).expect("a model"), streams, &plan).expect("sent");
    done.send_to(&[], ("127.0.0.1", port)).expect("the end");
    (sent, receiver.join().expect("the receiver"))
}

#[test]
fn every_flow_arrives_once_and_in_sequence() {
    let model = TrafficModel { numbered: true, ..TrafficModel::new(5) };
    let (sent, received) = receive(&model, 10_000, &streams(Version::V5, &["127.0.0.2", "127.0.0.3"]));
    assert_eq!((sent.flows, sent.datagrams_refused, sent.exported.flows), (10_000, 0, 10_000));
    assert_eq!(received.keys().map(ToString::to_string).collect::<Vec<_>>(), ["127.0.0.2", "127.0.0.3"]);
    let mut numbers = HashSet::new();
    for datagrams in received.values() {
        let mut sequence = 0;
        for datagram in datagrams {
            let packet = netflow5::FORMAT.decode(datagram).expect("a packet");
            assert_eq!(packet.header.flow_sequence, sequence);
            sequence += u32::from(packet.header.count);
            packet.iter().for_each(|record| assert!(numbers.insert(netflow5::field::OCTETS.number(record)), "twice"));
        }
    }
    assert_eq!(numbers.len(), 10_000);
    assert_eq!(sent.datagrams as usize, received.values().map(Vec::len).sum::<usize>());
    assert_eq!(sent.octets as usize, received.values().flatten().map(Vec::len).sum::<usize>());
    let mut flows = model.flows(10_000).expect("a model");
    flows.by_ref().for_each(drop);
    assert_eq!((sent.exported.packets, sent.exported.bytes), (flows.totals().packets, flows.totals().bytes));
}

#[test]
fn the_same_seed_gives_the_same_datagrams() {
    let model = TrafficModel { ipv6_permille: 250, elements: true, ..TrafficModel::new(5) };
    let streams = streams(Version::Ipfix, &["127.0.0.1"]);
    assert_eq!(receive(&model, 2_000, &streams).1, receive(&model, 2_000, &streams).1);
}

#[test]
fn what_version_5_cannot_tell_is_counted() {
    let model = TrafficModel { ipv6_permille: 500, ..TrafficModel::new(6) };
    let (sent, _) = receive(&model, 4_000, &streams(Version::V5, &["127.0.0.1"]));
    let refused = sent.exported.refused_for(Refusal::Address);
    assert!((1_800..2_200).contains(&refused), "{refused}");
    assert_eq!(sent.flows + refused, 4_000);
}

#[test]
fn sending_ends_without_running_out_of_flows() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let port = socket.local_addr().expect("an address").port();
    let streams = streams(Version::V9, &["127.0.0.1"]);
    let mut flows = TrafficModel::new(7).flows(u64::MAX).expect("a model");
    let slow = SendPlan { flows_per_second: Some(1000), ..SendPlan::to_loopback(port) };
    let sent = send(&mut flows, &streams, &SendPlan { duration_max: Duration::from_secs(1), ..slow }).expect("sent");
    assert_eq!(sent.flows, flows.totals().flows, "what was begun went out");
    assert!(sent.flows > 0);
    let stop = AtomicBool::new(true);
    let sent = send(&mut flows, &streams, &SendPlan { stop: Some(&stop), ..slow }).expect("sent");
    assert_eq!(sent.flows, 0);
}

#[test]
fn errors_name_what_was_wrong() {
    let plan = SendPlan::to_loopback(9);
    let mut flows = TrafficModel::new(7).flows(1).expect("a model");
    assert!(matches!(send(&mut flows, &[], &plan), Err(SendError::NoStream)));
    // 192.0.2.0/24 is no network of any machine (RFC 5737).
    let error = send(&mut flows, &streams(Version::V9, &["192.0.2.1"]), &plan).expect_err("no such address");
    assert_eq!(error.to_string(), "cannot send from 192.0.2.1");
}

#[test]
fn what_the_kernel_refuses_is_counted() {
    // Port 0 is no port to send to.
    let streams = streams(Version::V5, &["127.0.0.1"]);
    let mut flows = TrafficModel::new(7).flows(100).expect("a model");
    let sent = send(&mut flows, &streams, &SendPlan::to_loopback(0)).expect("nothing fatal");
    assert_eq!((sent.datagrams, sent.datagrams_refused, sent.flows_refused), (0, 4, 100));
}
