//! Networks of those who may send, for each listener.

use std::io::Write;
use std::net::{SocketAddr, UdpSocket};

use weir_collect::{CollectorOptions, Senders, Transport};
use weir_flow::Counter;
use weir_secure::ClientAuth;

use super::super::templates_only;
use super::certificates::Authority;
use super::{Running, dtls, listening, tcp};

/// The first of two listeners has networks of its own, the second goes by those for all. `send` sends a Template from
/// 127.0.0.1 to an address, and knows whether it is taken there.
#[track_caller]
fn check(options: CollectorOptions, refusals: Counter, send: impl Fn(SocketAddr, bool)) {
    let senders = |own: &str, all: &str| Senders {
        allowed: vec![all.parse().expect(all)],
        allowed_by_listener: vec![vec![own.parse().expect(own)]],
        ..Senders::default()
    };
    let listeners = vec![options.listeners[0]; 2];
    let options = CollectorOptions { listeners, senders: senders("127.0.0.2", "127.0.0.1"), ..options };
    let mut running = Running::start(&options);
    let addresses: Vec<SocketAddr> = running.collector.listeners().iter().map(|info| info.local).collect();
    send(addresses[0], false);
    running.until("a refusal at the first", |running| running.total(refusals) > 0);
    assert_eq!(running.total(Counter::Templates), 0);
    send(addresses[1], true);
    running.until_counted(Counter::Templates, 1);
    let turned = CollectorOptions { senders: senders("127.0.0.0/24", "192.0.2.0/24"), ..options };
    running.collector.reload(&turned).expect("nothing is wrong with these");
    send(addresses[0], true);
    running.until_counted(Counter::Templates, 2);
    let before = running.total(refusals);
    send(addresses[1], false);
    running.until("a refusal at the second", |running| running.total(refusals) > before);
    let booked = running.finish();
    assert_eq!((booked[Counter::Templates as usize], booked[refusals as usize] > before), (2, true));
}

#[test]
fn listeners_of_udp() {
    let options = CollectorOptions { sockets: 2, ..listening(Transport::Udp) };
    check(options, Counter::DatagramsNotAllowed, |to, _| {
        let exporter = UdpSocket::bind("127.0.0.1:0").expect("bound");
        exporter.send_to(&templates_only(0), to).expect("sent");
    });
}

#[test]
fn listeners_of_tcp() {
    check(listening(Transport::Tcp), Counter::ConnectionsRefused, |to, is_taken| {
        let sent = tcp::connect(to).write_all(&templates_only(0));
        // a connection that is refused may be closed by then
        assert!(sent.is_ok() || !is_taken);
    });
}

#[test]
fn listeners_of_tls() {
    let files = Authority::new();
    let options = CollectorOptions { tls: Some(files.options(ClientAuth::None)), ..listening(Transport::Tls) };
    check(options, Counter::ConnectionsRefused, |to, is_taken| {
        let stream = files.connect(to, None);
        assert_eq!(stream.is_some(), is_taken);
        if let Some(mut stream) = stream {
            stream.write_all(&templates_only(0)).and_then(|()| stream.flush()).expect("sent");
            stream.shutdown().expect("said goodbye");
        }
    });
}

#[test]
fn listeners_of_dtls() {
    let files = Authority::new();
    let options = CollectorOptions { tls: Some(files.options(ClientAuth::None)), ..listening(Transport::Dtls) };
    check(options, Counter::ConnectionsRefused, |to, is_taken| {
        if is_taken {
            let mut stream = dtls::connect(&files, None, to).expect("a handshake");
            stream.write_all(&templates_only(0)).expect("sent");
        } else {
            dtls::knock(&files, to);
        }
    });
}
