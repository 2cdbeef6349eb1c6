//! DTLS 1.2 (RFC 7011 section 11, RFC 6347).

use std::io::{self, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use openssl::ssl::{SslMethod, SslStream};
use weir_collect::{CollectorOptions, SessionLimits, Transport};
use weir_flow::Counter;
use weir_secure::{ClientAuth, TlsServerOptions};

use super::super::{data, templates_only};
use super::certificates::{Authority, Certificate, Says};
use super::tls::random;
use super::{Running, listening};

fn options(tls: TlsServerOptions) -> CollectorOptions {
    CollectorOptions { tls: Some(tls), ..listening(Transport::Dtls) }
}

/// A UDP socket as what OpenSSL reads and writes: a datagram each. Some of what it writes may get lost.
#[derive(Debug)]
pub(super) struct Datagrams {
    socket: UdpSocket,
    /// Numbers of the datagrams that are lost on the way.
    lost: Vec<usize>,
    written: usize,
    /// The last datagrams that were sent.
    sent: Vec<Vec<u8>>,
}

impl Datagrams {
    fn from(local: SocketAddr, to: SocketAddr, lost: &[usize]) -> Self {
        let socket = UdpSocket::bind(local).expect("bound");
        socket.connect(to).expect("connected");
        // a second is after what OpenSSL sends again
        socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
        Self { socket, lost: lost.to_vec(), written: 0, sent: Vec::new() }
    }
}

impl Read for Datagrams {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.recv(buffer)
    }
}

impl Write for Datagrams {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.written += 1;
        self.sent.push(buffer.to_vec());
        if self.lost.contains(&(self.written - 1)) {
            return Ok(buffer.len());
        }
        self.socket.send(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const ANY: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// Shakes hands, if the collector wants to.
fn shake(files: &Authority, shows: Option<&Certificate>, datagrams: Datagrams) -> Option<SslStream<Datagrams>> {
    let connector = files.exporter(SslMethod::dtls_client(), shows);
    let ssl = connector.configure().and_then(|configuration| configuration.into_ssl("localhost")).expect("a session");
    shake_with(ssl, datagrams)
}

fn shake_with(ssl: openssl::ssl::Ssl, datagrams: Datagrams) -> Option<SslStream<Datagrams>> {
    let mut stream = SslStream::new(ssl, datagrams).expect("a session");
    for _ in 0..100 {
        match stream.connect() {
            Ok(()) => return Some(stream),
            Err(error) if error.code() == openssl::ssl::ErrorCode::WANT_READ => {}
            Err(_) => return None,
        }
    }
    None
}

/// Says hello, twice because of the cookie, and waits for a moment for an answer that does not come.
pub(super) fn knock(files: &Authority, to: SocketAddr) {
    let connector = files.exporter(SslMethod::dtls_client(), None);
    let ssl = connector.configure().and_then(|configuration| configuration.into_ssl("localhost")).expect("a session");
    let mut stream = SslStream::new(ssl, Datagrams::from(ANY.into(), to, &[])).expect("a session");
    let is_answered = (0..3).any(|_| stream.connect().is_ok());
    assert!(!is_answered, "a handshake");
}

pub(super) fn connect(files: &Authority, shows: Option<&Certificate>, to: SocketAddr) -> Option<SslStream<Datagrams>> {
    shake(files, shows, Datagrams::from(ANY.into(), to, &[]))
}

/// A suite whose sessions end at the first forged record is not offered.
#[test]
fn suites_without_authenticated_encryption_are_refused() {
    let files = Authority::new();
    let mut running = Running::start(&options(files.options(ClientAuth::None)));
    for (suite, is_taken) in [("ECDHE-RSA-AES128-SHA256:ECDHE-ECDSA-AES128-SHA256", false), ("DEFAULT", true)] {
        let connector = files.exporter(SslMethod::dtls_client(), None);
        let mut ssl = connector.configure().and_then(|c| c.into_ssl("localhost")).expect("a session");
        ssl.set_cipher_list(suite).expect("known");
        let taken = shake_with(ssl, Datagrams::from(ANY.into(), running.address(), &[])).is_some();
        assert_eq!(taken, is_taken, "{suite}");
    }
    running.finish();
}

#[test]
fn many_exporters_on_one_port_with_certificates() {
    let files = Authority::new();
    let mut running = Running::start(&options(files.options(ClientAuth::Require)));
    let exporter = files.authority.sign(&Says::name("exporter"));
    let mut streams: Vec<_> =
        (0..20).map(|_| connect(&files, Some(&exporter), running.address()).expect("a handshake")).collect();
    for stream in &mut streams {
        stream.write_all(&templates_only(0)).expect("sent");
    }
    for stream in &mut streams {
        stream.write_all(&data(0, &[1, 2])).expect("sent");
        stream.write_all(&data(2, &[3])).expect("sent");
    }
    running.until_counted(Counter::RecordsStored, 60);
    streams.truncate(10);
    for stream in &mut streams {
        stream.shutdown().expect("said goodbye");
    }
    let domains =
        |running: &Running| -> usize { running.collector.statistics().iter().map(|decoder| decoder.domains).sum() };
    running.until("the end of half of them", |running| domains(running) == 10);
    let booked = running.finish();
    let counted = [Counter::ConnectionsAccepted, Counter::ConnectionsFailed, Counter::HandshakesFailed];
    assert_eq!(counted.map(|counter| booked[counter as usize]), [20, 0, 0]);
    assert_eq!((booked[Counter::RecordsLost as usize], booked[Counter::QueueDrops as usize]), (0, 0));
}

#[test]
fn who_is_not_let_in_is_counted_by_reason() {
    let files = Authority::new();
    let tls = TlsServerOptions { peers: vec!["router".into()], ..files.options(ClientAuth::Require) };
    let mut running = Running::start(&options(tls));
    let stranger = Certificate::authority("another authority").sign(&Says::name("router"));
    let refused = [
        (None, "handshake_no_certificate"),
        (Some(stranger), "handshake_certificate_untrusted"),
        (Some(files.authority.sign(&Says::name("another"))), "handshake_name_not_allowed"),
    ];
    for (shows, label) in refused {
        if let Some(mut stream) = connect(&files, shows.as_ref(), running.address()) {
            let _ = stream.write_all(&templates_only(0));
        }
        running.until_problem(label, 1);
    }
    let router = files.authority.sign(&Says::name("router"));
    let mut stream = connect(&files, Some(&router), running.address()).expect("a handshake");
    stream.write_all(&templates_only(0)).expect("sent");
    running.until_counted(Counter::Templates, 1);
    let booked = running.finish();
    assert_eq!((booked[Counter::HandshakesFailed as usize], booked[Counter::Datagrams as usize]), (3, 1));
}

#[test]
fn what_is_lost_in_a_handshake_is_sent_again() {
    let files = Authority::new();
    let mut running = Running::start(&options(files.options(ClientAuth::Require)));
    let exporter = files.authority.sign(&Says::name("exporter"));
    // the first hello, the one with the cookie, and some of what comes after
    for lost in [&[0][..], &[1], &[2], &[0, 2]] {
        let datagrams = Datagrams::from(ANY.into(), running.address(), lost);
        let mut stream = shake(&files, Some(&exporter), datagrams).unwrap_or_else(|| panic!("lost {lost:?}"));
        stream.write_all(&templates_only(0)).expect("sent");
    }
    running.until_counted(Counter::Templates, 4);
    let booked = running.finish();
    assert_eq!((booked[Counter::ConnectionsAccepted as usize], booked[Counter::HandshakesFailed as usize]), (4, 0));
}

#[test]
fn an_exporter_that_starts_again_on_its_port_is_let_in() {
    let files = Authority::new();
    let mut running = Running::start(&options(files.options(ClientAuth::None)));
    let mut first = connect(&files, None, running.address()).expect("a handshake");
    first.write_all(&templates_only(0)).expect("sent");
    running.until_counted(Counter::Templates, 1);
    let port = first.get_ref().socket.local_addr().expect("an address");
    // the hello of the session itself, late and twice, is not another
    let hellos: Vec<_> = first.get_ref().sent.iter().take(2).cloned().collect();
    for hello in hellos.iter().rev() {
        first.get_ref().socket.send(hello).expect("sent");
    }
    first.write_all(&data(0, &[1])).expect("sent");
    running.until_counted(Counter::RecordsStored, 1);
    // it goes without a word
    drop(first);
    let mut second = shake(&files, None, Datagrams::from(port, running.address(), &[])).expect("a handshake");
    second.write_all(&data(0, &[2])).expect("sent");
    running.until_counted(Counter::SetsWaitingIn, 1);
    second.write_all(&templates_only(1)).expect("sent");
    running.until_counted(Counter::RecordsStored, 2);
    assert_eq!(running.finish()[Counter::ConnectionsAccepted as usize], 2);
}

#[test]
fn a_hello_without_its_cookie_costs_nothing_and_is_answered_shortly() {
    let files = Authority::new();
    let sessions = SessionLimits { connections_max: 10, ..SessionLimits::default() };
    let options = CollectorOptions { sessions, ..options(files.options(ClientAuth::None)) };
    let mut running = Running::start(&options);
    let mut stream = connect(&files, None, running.address()).expect("a handshake");
    let (plain, with_cookie) = (stream.get_ref().sent[0].clone(), stream.get_ref().sent[1].clone());
    let mut answer = [0; 2048];
    for number in 0..500u16 {
        let socket = UdpSocket::bind(SocketAddr::from(ANY)).expect("bound");
        socket.connect(running.address()).expect("connected");
        socket.set_read_timeout(Some(Duration::from_mins(1))).expect("a timeout");
        // the cookie of another address is no better than none
        let hello = if number % 2 == 0 { &plain } else { &with_cookie };
        socket.send(hello).expect("sent");
        let octets = socket.recv(&mut answer).expect("an answer");
        assert!(octets < hello.len(), "{octets} octets for {}", hello.len());
        // a HelloVerifyRequest, which has the record number of the hello
        assert_eq!((answer[0], answer[13], &answer[3..11]), (22, 3, &hello[3..11]));
    }
    stream.write_all(&templates_only(0)).expect("sent");
    running.until_counted(Counter::Templates, 1);
    let booked = running.finish();
    let counted = [Counter::ConnectionsAccepted, Counter::ConnectionsRefused, Counter::HandshakesFailed];
    assert_eq!(counted.map(|counter| booked[counter as usize]), [1, 0, 0]);
}

#[test]
fn half_open_sessions_are_bounded_and_given_up() {
    let files = Authority::new();
    let sessions =
        SessionLimits { handshakes_max: 3, handshake_timeout: Duration::from_secs(10), ..SessionLimits::default() };
    let mut running = Running::start(&CollectorOptions { sessions, ..options(files.options(ClientAuth::None)) });
    let connector = files.exporter(SslMethod::dtls_client(), None);
    // they bring the cookie back and then say no more
    for _ in 0..5 {
        let ssl = connector.configure().and_then(|known| known.into_ssl("localhost")).expect("a session");
        let all_but_hellos: Vec<usize> = (2..100).collect();
        let link = Datagrams::from(ANY.into(), running.address(), &all_but_hellos);
        let mut stream = SslStream::new(ssl, link).expect("a session");
        while stream.get_ref().written < 2 {
            let _ = stream.connect();
        }
    }
    running.until_problem("handshakes_over_limit", 2);
    running.until_problem("handshake_too_slow", 3);
    let mut stream = connect(&files, None, running.address()).expect("a handshake");
    stream.write_all(&templates_only(0)).expect("sent");
    running.until_counted(Counter::Templates, 1);
    running.finish();
}

#[test]
fn garbage_in_bulk_neither_ends_a_session_nor_begins_one() {
    let files = Authority::new();
    let mut running = Running::start(&options(files.options(ClientAuth::None)));
    let mut stream = connect(&files, None, running.address()).expect("a handshake");
    stream.write_all(&templates_only(0)).expect("sent");
    let hellos: Vec<_> = stream.get_ref().sent.iter().take(2).cloned().collect();
    let stranger = UdpSocket::bind(SocketAddr::from(ANY)).expect("bound");
    stranger.connect(running.address()).expect("connected");
    let mut state = 7u64;
    for number in 0..20_000usize {
        let mut datagram: Vec<u8> = match number % 4 {
            0 => (0..usize::from(random(&mut state))).map(|_| random(&mut state)).collect(),
            1 => hellos[0].clone(),
            2 => hellos[1].clone(),
            // like a record of the session
            _ => [&[23, 254, 253, 0, 1, 0, 0, 0, 0, 0, 9, 0, 40][..], &[5; 40]].concat(),
        };
        for _ in 0..3 {
            let at = usize::from(random(&mut state)) << 8 | usize::from(random(&mut state));
            let octets = datagram.len().max(1);
            if let Some(octet) = datagram.get_mut(at % octets) {
                *octet ^= random(&mut state);
            }
        }
        // from a stranger, and from the address of the session itself
        let from = if number % 2 == 0 { &stranger } else { &stream.get_ref().socket };
        from.send(&datagram).expect("sent");
        if number % 500 == 0 {
            stream.write_all(&data(number as u32, &[1])).expect("sent");
        }
    }
    running.until_counted(Counter::RecordsStored, 40);
    let booked = running.finish();
    let counted = [Counter::ConnectionsAccepted, Counter::ConnectionsFailed, Counter::KernelDrops];
    assert_eq!(counted.map(|counter| booked[counter as usize]), [1, 0, 0]);
}

#[test]
fn openssl_sends_over_dtls() {
    let Some(openssl) = weir_testkit::program("openssl") else { return };
    let files = Authority::new();
    let exporter = files.authority.sign(&Says::name("exporter"));
    files.write("exporter.pem", &exporter.certificate.to_pem().expect("PEM"));
    files.write("exporter.key", &exporter.key.private_key_to_pem_pkcs8().expect("PEM"));
    let mut running = Running::start(&options(files.options(ClientAuth::Require)));
    let mut client = Command::new(&openssl)
        .args(["s_client", "-dtls1_2", "-quiet", "-verify_return_error", "-CAfile", "ca.pem"])
        .args(["-cert", "exporter.pem", "-key", "exporter.key", "-connect"])
        .arg(running.address().to_string())
        .current_dir(&files.folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl runs");
    let mut stdin = client.stdin.take().expect("piped");
    stdin.write_all(&templates_only(0)).expect("sent");
    running.until_counted(Counter::Templates, 1);
    stdin.write_all(&data(0, &[1, 2])).expect("sent");
    running.until_counted(Counter::RecordsStored, 2);
    let _ = client.kill();
    let _ = client.wait();
    running.finish();
}
