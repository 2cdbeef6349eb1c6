//! TLS over TCP (RFC 7011 section 11).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use weir_collect::{Collector, CollectorOptions, Senders, SessionLimits, Transport};
use weir_flow::Counter;
use weir_secure::{ClientAuth, TlsServerOptions};

use super::super::{data, templates_only};
use super::certificates::{Authority, Certificate, Says};
use super::{Running, listening};

fn options(tls: TlsServerOptions) -> CollectorOptions {
    CollectorOptions { tls: Some(tls), ..listening(Transport::Tls) }
}

fn messages() -> Vec<u8> {
    [templates_only(0), data(0, &[1, 2])].concat()
}

#[test]
fn both_sides_show_certificates() {
    let files = Authority::new();
    let mut running = Running::start(&options(files.options(ClientAuth::Require)));
    let exporter = files.authority.sign(&Says::name("exporter"));
    let mut stream = files.connect(running.address(), Some(&exporter)).expect("a handshake");
    for octet in messages().chunks(1) {
        stream.write_all(octet).expect("sent");
    }
    running.until_counted(Counter::RecordsStored, 2);
    stream.shutdown().expect("said goodbye");
    drop(stream);
    let booked = running.finish();
    let counted = [Counter::ConnectionsAccepted, Counter::ConnectionsFailed, Counter::HandshakesFailed];
    assert_eq!(counted.map(|counter| booked[counter as usize]), [1, 0, 0]);
}

#[test]
fn who_is_not_let_in_is_counted_by_reason() {
    let files = Authority::new();
    let tls = TlsServerOptions {
        peers: vec!["Router-1.example.net".into(), "192.0.2.1".into(), "old-router".into()],
        ..files.options(ClientAuth::Require)
    };
    let mut running = Running::start(&options(tls));
    let stranger = Certificate::authority("another authority");
    let sign = |says| Some(files.authority.sign(&says));
    let refused = [
        (None, "handshake_no_certificate"),
        (Some(stranger.sign(&Says::name("old-router"))), "handshake_certificate_untrusted"),
        (sign(Says { is_expired: true, ..Says::name("old-router") }), "handshake_certificate_expired"),
        (sign(Says::name("another-router")), "handshake_name_not_allowed"),
        // where there are DNS names, the common name is none of them
        (sign(Says { dns: &["other.example.net"], ..Says::name("old-router") }), "handshake_name_not_allowed"),
    ];
    let mut names = 0;
    for (shows, label) in &refused {
        if let Some(mut stream) = files.connect(running.address(), shows.as_ref()) {
            let _ = stream.write_all(&messages());
            assert!(!matches!(stream.read(&mut [0; 16]), Ok(1..)), "{label}");
        }
        names += u64::from(*label == "handshake_name_not_allowed");
        running.until_problem(label, names.max(1));
    }
    let allowed = [
        sign(Says { dns: &["x.example.net", "router-1.EXAMPLE.net"], ..Says::name("x") }),
        sign(Says { ip: Some("192.0.2.1"), ..Says::name("x") }),
        sign(Says::name("old-router")),
    ];
    for shows in &allowed {
        let mut stream = files.connect(running.address(), shows.as_ref()).expect("a handshake");
        stream.write_all(&messages()).expect("sent");
        stream.shutdown().expect("said goodbye");
    }
    running.until_counted(Counter::RecordsStored, 6);
    let booked = running.finish();
    assert_eq!(booked[Counter::HandshakesFailed as usize], refused.len() as u64);
    let reasons = Counter::HANDSHAKE_REASONS.map(|counter| (counter.name(), booked[counter as usize]));
    for (label, count) in reasons {
        let expected = refused.iter().filter(|(_, of)| *of == label).count();
        assert_eq!(count, expected as u64, "{label}");
    }
}

#[test]
fn certificates_of_exporters_may_be_left_out() {
    let files = Authority::new();
    let stranger = Certificate::authority("another authority").sign(&Says::name("exporter"));
    for (client_auth, refused) in [(ClientAuth::Request, 1), (ClientAuth::None, 0)] {
        let mut running = Running::start(&options(files.options(client_auth)));
        let mut stream = files.connect(running.address(), None).expect("a handshake");
        stream.write_all(&messages()).expect("sent");
        // one that is shown is checked, unless nobody asks for it
        if let Some(mut stream) = files.connect(running.address(), Some(&stranger)) {
            let _ = stream.write_all(&messages());
        }
        running.until_counted(Counter::RecordsStored, 4 - 2 * refused);
        running.until_counted(Counter::HandshakesFailed, refused);
        running.finish();
    }
}

#[test]
fn a_handshake_that_hangs_keeps_nobody_waiting() {
    let files = Authority::new();
    let sessions = SessionLimits { handshake_timeout: Duration::from_secs(10), ..SessionLimits::default() };
    let mut running = Running::start(&CollectorOptions { sessions, ..options(files.options(ClientAuth::None)) });
    let hanging: Vec<_> = (0..20).map(|_| TcpStream::connect(running.address()).expect("connected")).collect();
    let mut slow = TcpStream::connect(running.address()).expect("connected");
    slow.write_all(&[22, 3, 1, 1]).expect("sent");
    let mut stream = files.connect(running.address(), None).expect("a handshake");
    stream.write_all(&messages()).expect("sent");
    running.until_counted(Counter::RecordsStored, 2);
    assert_eq!(running.problem("handshake_too_slow"), 0);
    running.until_problem("handshake_too_slow", 21);
    drop(hanging);
    running.finish();
}

#[test]
fn half_open_handshakes_are_bounded() {
    let files = Authority::new();
    let sessions = SessionLimits { handshakes_max: 2, ..SessionLimits::default() };
    let mut running = Running::start(&CollectorOptions { sessions, ..options(files.options(ClientAuth::None)) });
    let hanging: Vec<_> = (0..5).map(|_| TcpStream::connect(running.address()).expect("connected")).collect();
    running.until_problem("handshakes_over_limit", 3);
    // the oldest of them gives way to an exporter
    let mut stream = files.connect(running.address(), None).expect("a handshake");
    stream.write_all(&messages()).expect("sent");
    running.until_counted(Counter::RecordsStored, 2);
    running.until_problem("handshakes_over_limit", 4);
    drop(hanging);
    running.until_problem("handshake_cut_short", 1);
    let told = running.collector.take_notice().expect("the first one is named");
    assert!(told.starts_with("session of 127.0.0.1:") && told.ends_with(": handshakes_over_limit"), "{told}");
    running.finish();
}

/// Connections of one source that say nothing do not keep others from their handshakes.
#[test]
fn handshakes_of_one_source_leave_room_for_others() {
    let files = Authority::new();
    let sessions = SessionLimits { handshakes_max: 4, handshakes_per_source_max: 3, ..SessionLimits::default() };
    let mut running = Running::start(&CollectorOptions { sessions, ..options(files.options(ClientAuth::None)) });
    let from_another = || {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::from(([127, 0, 0, 9], 0)).into()).expect("bound");
        socket.connect(&running.address().into()).expect("connected");
        TcpStream::from(socket)
    };
    let hanging: Vec<_> = (0..9).map(|_| from_another()).collect();
    running.until_problem("handshakes_over_limit", 6);
    let mut stream = files.connect(running.address(), None).expect("a handshake");
    stream.write_all(&messages()).expect("sent");
    running.until_counted(Counter::RecordsStored, 2);
    drop(hanging);
    running.finish();
}

/// A renewed certificate is used from the next session on, and sessions that are there go on.
#[test]
fn certificates_are_read_again_without_ending_sessions() {
    let files = Authority::new();
    let tls = files.options(ClientAuth::None);
    let options = options(tls.clone());
    let mut running = Running::start(&options);
    let mut before = files.connect(running.address(), None).expect("a handshake");
    before.write_all(&messages()).expect("sent");
    running.until_counted(Counter::RecordsStored, 2);
    let serial = |stream: &openssl::ssl::SslStream<TcpStream>| {
        let shown = stream.ssl().peer_certificate().expect("a certificate");
        shown.to_der().expect("octets")
    };
    let renewed = files.authority.sign(&Says { dns: &["localhost"], ..Says::name("renewed") });
    renewed.write(files.folder.path(), "server");
    running.collector.reload(&options).expect("good files");
    let mut after = files.connect(running.address(), None).expect("a handshake");
    assert_eq!(serial(&after), renewed.certificate.to_der().expect("octets"));
    assert_ne!(serial(&before), serial(&after));
    before.write_all(&data(2, &[3])).expect("sent");
    after.write_all(&messages()).expect("sent");
    running.until_counted(Counter::RecordsStored, 5);
    // what cannot be used changes nothing
    files.write("server.pem", b"no certificate");
    let error = running.collector.reload(&options).expect_err("a bad file");
    assert_eq!(error.to_string(), "cannot offer TLS");
    assert!(files.connect(running.address(), None).is_some());
    // but who may send does not wait for certificates
    let allowed = vec!["192.0.2.0/24".parse().expect("a network")];
    let narrowed = CollectorOptions { senders: Senders { allowed, ..Senders::default() }, ..options };
    running.collector.reload(&narrowed).expect_err("the file is still bad");
    assert!(files.connect(running.address(), None).is_none());
    running.until("a refusal", |running| running.total(Counter::ConnectionsRefused) > 0);
    running.finish();
}

#[test]
fn garbage_in_bulk_is_refused_and_nothing_else_suffers() {
    let files = Authority::new();
    let mut running = Running::start(&options(files.options(ClientAuth::None)));
    let mut stream = files.connect(running.address(), None).expect("a handshake");
    stream.write_all(&templates_only(0)).expect("sent");
    let mut state = 1u64;
    for _ in 0..300 {
        let octets: Vec<u8> = (0..200).map(|_| random(&mut state)).collect();
        let mut garbage = TcpStream::connect(running.address()).expect("connected");
        // half of them look like the beginning of a record
        let head: &[u8] = if state.is_multiple_of(2) { &[22, 3, 3, 0, 190, 1] } else { &[] };
        let _ = garbage.write_all(head).and_then(|()| garbage.write_all(&octets));
    }
    running.until_counted(Counter::HandshakesFailed, 300);
    stream.write_all(&data(0, &[1, 2])).expect("sent");
    running.until_counted(Counter::RecordsStored, 2);
    running.finish();
}

/// The next octet of a small generator (xorshift).
pub(super) fn random(state: &mut u64) -> u8 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 32) as u8
}

#[test]
fn openssl_sends_over_tls() {
    let Some(openssl) = weir_testkit::program("openssl") else { return };
    let files = Authority::new();
    let mut running = Running::start(&options(files.options(ClientAuth::None)));
    for version in ["-tls1_2", "-tls1_3", "-tls1_1"] {
        let mut client = Command::new(&openssl)
            .args(["s_client", version, "-quiet", "-verify_return_error", "-CAfile", "ca.pem", "-connect"])
            .arg(running.address().to_string())
            .current_dir(&files.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl runs");
        let sent = client.stdin.take().map(|mut stdin| stdin.write_all(&messages()));
        // the one of TLS 1.1 may be gone before
        assert!(version == "-tls1_1" || sent.is_some_and(|sent| sent.is_ok()));
        match version {
            "-tls1_2" => running.until_counted(Counter::RecordsStored, 2),
            "-tls1_3" => running.until_counted(Counter::RecordsStored, 4),
            _ => running.until_counted(Counter::HandshakesFailed, 1),
        }
        let _ = client.kill();
        let _ = client.wait();
    }
    running.finish();
}

/// The error of a collector with these options, with its causes.
fn error(tls: Option<TlsServerOptions>) -> String {
    let error = Collector::start(&CollectorOptions { tls, ..listening(Transport::Tls) }).expect_err("an error");
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[test]
fn errors_of_files_name_them() {
    let files = Authority::new();
    let folder = files.folder.path().display();
    let good = files.options(ClientAuth::Require);
    let check = |tls: TlsServerOptions, expected: &str| {
        let text = error(Some(tls));
        assert!(text.starts_with(&format!("cannot offer TLS: {expected}")), "{text}");
    };
    let text = error(None);
    assert!(text.starts_with("cannot listen on tls://127.0.0.1:0 without a certificate\nhint: "), "{text}");
    let path = files.folder.path().join("absent.pem");
    let absent = format!("cannot read the certificate {folder}/absent.pem: No such file");
    check(TlsServerOptions { certificate: path.clone(), ..good.clone() }, &absent);
    check(TlsServerOptions { key: path.clone(), ..good.clone() }, &absent.replace("certificate", "private key"));
    check(TlsServerOptions { authorities: Some(path), ..good.clone() }, &absent.replace("certificate", "authorities"));
    let garbage = files.write("garbage.pem", b"no PEM at all");
    let wrong = |part: &str| format!("{folder}/garbage.pem holds no {part} in PEM form");
    check(TlsServerOptions { certificate: garbage.clone(), ..good.clone() }, &wrong("certificate"));
    check(TlsServerOptions { key: garbage.clone(), ..good.clone() }, &wrong("private key"));
    check(TlsServerOptions { authorities: Some(garbage), ..good.clone() }, &wrong("authorities"));
    let other = files.authority.sign(&Says::name("other")).key;
    let key = files.write("other.key", &other.private_key_to_pem_pkcs8().expect("PEM"));
    let mismatch = format!("the private key {folder}/other.key does not belong to the certificate {folder}/server.pem");
    check(TlsServerOptions { key, ..good.clone() }, &mismatch);
    let cipher = openssl::symm::Cipher::aes_128_cbc();
    let locked = other.private_key_to_pem_pkcs8_passphrase(cipher, b"secret").expect("PEM");
    let key = files.write("locked.key", &locked);
    let hint = format!("{folder}/locked.key holds no private key in PEM form\nhint: it has a passphrase");
    check(TlsServerOptions { key, ..good.clone() }, &hint);
    check(TlsServerOptions { authorities: None, ..good.clone() }, "certificates of clients cannot be checked");
    let names = vec!["router".to_owned()];
    let tls = TlsServerOptions { peers: names, client_auth: ClientAuth::Request, ..good };
    check(tls, "names of clients are only known when");
}
