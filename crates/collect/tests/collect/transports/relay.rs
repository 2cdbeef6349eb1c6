//! The relay to other collectors.

use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use weir_collect::{Collector, CollectorOptions, RelayOptions, Transport};
use weir_flow::Counter;
use weir_wire::message_builder::TemplateKind;

use super::super::{any_port, data, ipfix_message, netflow5_packet, simple_record, simple_template, templates_only};
use super::{Running, listening, tcp};

/// Another collector, as far as a relay can see.
struct Other(UdpSocket);

impl Other {
    fn on(address: &str) -> Self {
        let socket = UdpSocket::bind(address).expect("bound");
        socket.set_read_timeout(Some(Duration::from_mins(1))).expect("a timeout");
        Self(socket)
    }

    fn target(&self) -> String {
        self.0.local_addr().expect("an address").to_string()
    }

    fn next(&self) -> (Vec<u8>, SocketAddr) {
        let mut buffer = vec![0; 65_536];
        let (octets, source) = self.0.recv_from(&mut buffer).expect("a datagram in time");
        buffer.truncate(octets);
        (buffer, source)
    }

    fn has_more(&self) -> bool {
        self.0.set_nonblocking(true).expect("an option");
        self.0.recv(&mut [0; 16]).is_ok()
    }
}

fn with_relay(relay: RelayOptions, options: CollectorOptions) -> CollectorOptions {
    CollectorOptions { relay: Some(relay), ..options }
}

/// Datagrams of every kind and length: short, empty, garbage, and as long as they can be.
fn datagrams() -> Vec<Vec<u8>> {
    let mut datagrams = vec![templates_only(0), data(0, &[1, 2, 3]), netflow5_packet(0, 30, 0), b"garbage".to_vec()];
    datagrams.push((0..65_507).map(|octet: u32| (octet / 7) as u8).collect());
    datagrams.push(vec![9; 2049]);
    datagrams
}

#[test]
fn datagrams_are_relayed_octet_by_octet_to_all_collectors() {
    let others = [Other::on("127.0.0.1:0"), Other::on("[::1]:0")];
    let relay = RelayOptions::new(others.iter().map(Other::target).collect());
    let mut running = Running::start(&with_relay(relay, CollectorOptions { sockets: 2, ..any_port() }));
    let exporter = UdpSocket::bind("127.0.0.1:0").expect("bound");
    for sent in datagrams() {
        exporter.send_to(&sent, running.address()).expect("sent");
        for other in &others {
            let (received, source) = other.next();
            assert!(received == sent, "{} octets for {}", received.len(), sent.len());
            assert_ne!(source, exporter.local_addr().expect("an address"), "the relay sends under its own address");
        }
    }
    let booked = running.finish();
    assert_eq!(booked[Counter::DatagramsRelayed as usize], 2 * datagrams().len() as u64);
    assert!(!others.iter().any(Other::has_more));
}

#[test]
fn the_source_is_kept_with_privileges() {
    let other = Other::on("127.0.0.1:0");
    let other_v6 = Other::on("[::1]:0");
    let targets = vec![other.target(), other_v6.target()];
    let relay = RelayOptions { keep_source: true, ..RelayOptions::new(targets) };
    let options = with_relay(
        relay,
        CollectorOptions {
            listeners: ["udp://0.0.0.0:0", "udp://[::1]:0", "tcp://127.0.0.1:0"]
                .map(|text| text.parse().expect(text))
                .into(),
            ..any_port()
        },
    );
    match Collector::start(&options) {
        Ok(_) => {}
        Err(error) => {
            let cause = std::error::Error::source(&error).expect("a cause").to_string();
            assert!(cause.starts_with("cannot keep the source addresses of what is relayed\nhint: "), "{cause}");
            weir_testkit::skip("raw-sockets", "no privilege for raw sockets");
            return;
        }
    }
    let mut running = Running::start(&options);
    let addresses: Vec<_> = running.collector.listeners().iter().map(|info| info.local).collect();
    let port = addresses[0].port();
    let exporter = UdpSocket::bind("127.1.2.3:0").expect("bound");
    let exporter_v6 = UdpSocket::bind("[::1]:0").expect("bound");
    for sent in datagrams().iter().filter(|datagram| datagram.len() < 65_000) {
        exporter.send_to(sent, ("127.0.0.1", port)).expect("sent");
        assert_eq!(other.next(), (sent.clone(), exporter.local_addr().expect("an address")));
        // the families differ: under our own address
        let (received, source) = other_v6.next();
        assert!(received == *sent && source.ip().is_loopback());
        exporter_v6.send_to(sent, addresses[1]).expect("sent");
        assert_eq!(other_v6.next(), (sent.clone(), exporter_v6.local_addr().expect("an address")));
        assert_eq!(other.next().0, *sent);
    }
    let mut stream = tcp::connect(addresses[2]);
    stream.write_all(&templates_only(0)).expect("sent");
    assert_eq!(other.next(), (templates_only(0), stream.local_addr().expect("an address")));
    let booked = running.finish();
    assert_eq!(booked[Counter::RelayFailures as usize], 0);
}

#[test]
fn only_the_networks_asked_for_are_relayed() {
    let other = Other::on("127.0.0.1:0");
    let sources = ["127.9.0.0/16", "2001:db8::/32"].map(|text| text.parse().expect(text)).to_vec();
    let relay = RelayOptions { sources, ..RelayOptions::new(vec![other.target()]) };
    let mut running = Running::start(&with_relay(relay, any_port()));
    for (source, octet) in [("127.8.255.255:0", 1), ("127.9.1.1:0", 2), ("127.10.0.0:0", 3), ("127.9.255.255:0", 4)] {
        let exporter = UdpSocket::bind(source).expect("bound");
        exporter.send_to(&[octet], running.address()).expect("sent");
    }
    assert_eq!([other.next().0, other.next().0], [[2], [4]]);
    let booked = running.finish();
    assert_eq!((booked[Counter::DatagramsRelayed as usize], booked[Counter::Datagrams as usize]), (2, 4));
    assert!(!other.has_more());
}

#[test]
fn messages_of_streams_are_relayed_where_they_fit() {
    let other = Other::on("127.0.0.1:0");
    let relay = RelayOptions::new(vec![other.target()]);
    let mut running = Running::start(&with_relay(relay, listening(Transport::Tcp)));
    let long = ipfix_message(2, |message| {
        let records = (0..100u8).flat_map(|host| {
            let mut record = Vec::new();
            simple_record(&mut record, host, 1);
            record
        });
        message.records(&simple_template(), |out| out.extend(records)).expect("fits");
    });
    let withdrawal = ipfix_message(102, |message| message.withdraw_all(TemplateKind::Data).expect("fits"));
    let messages = [templates_only(0), data(0, &[1, 2]), long, withdrawal];
    tcp::send(running.address(), &messages.concat());
    for number in [0, 1, 3] {
        assert_eq!(other.next().0, messages[number]);
    }
    running.until_problem("relay_too_long", 1);
    let booked = running.finish();
    let counted = [Counter::DatagramsRelayed, Counter::RelayFailures, Counter::RecordsStored];
    assert_eq!(counted.map(|counter| booked[counter as usize]), [3, 1, 102]);
}

#[test]
fn what_cannot_be_relayed_holds_up_nothing() {
    // nobody listens on the one, and there is no way to the other
    let closed = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("an address");
    let targets = vec![closed.to_string(), "255.255.255.255:9".to_owned()];
    let relay = RelayOptions { queue_bursts_max: 1, ..RelayOptions::new(targets) };
    let mut running = Running::start(&with_relay(relay, listening(Transport::Tcp)));
    let mut stream = tcp::connect(running.address());
    stream.write_all(&templates_only(0)).expect("sent");
    for number in 0..2000 {
        stream.write_all(&data(number, &[1])).expect("sent");
    }
    running.until_counted(Counter::RecordsStored, 2000);
    let booked = running.finish();
    let relayed = booked[Counter::DatagramsRelayed as usize];
    let (dropped, failed) = (booked[Counter::RelayDrops as usize], booked[Counter::RelayFailures as usize]);
    // each message counts twice if it was sent or could not be, and once if it was dropped before
    assert_eq!(relayed + failed + 2 * dropped, 2 * 2001, "{relayed} {failed} {dropped}");
    assert!(failed > 0);
}

#[test]
fn errors_name_the_target() {
    for (target, expected) in [
        ("192.0.2.1", "cannot relay to '192.0.2.1'\nhint: "),
        ("no-such-host.invalid:2055", "cannot relay to 'no-such-host.invalid:2055'\nhint: "),
    ] {
        let options = with_relay(RelayOptions::new(vec![target.to_owned()]), any_port());
        let error = Collector::start(&options).expect_err("an error");
        let cause = std::error::Error::source(&error).expect("a cause").to_string();
        assert!(cause.starts_with(expected), "{cause}");
    }
}
