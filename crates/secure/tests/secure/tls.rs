//! Handshakes and sessions of TLS.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use weir_secure::{
    AcceptError, ClientAuth, ConnectError, TlsClient, TlsClientOptions, TlsServer, TlsServerOptions, TlsStream,
};
use weir_testkit::certificates::Certificate;

use super::{Authority, Says};

/// Two ends of a connection that give up after 20 seconds.
fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("bound");
    let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
    let (server, _) = listener.accept().expect("accepted");
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(Duration::from_mins(1))).expect("a timeout");
    }
    (client, server)
}

type Ends = (Result<TlsStream<TcpStream>, ConnectError>, Result<TlsStream<TcpStream>, AcceptError>);

/// Does a handshake. With TLS 1.3 a client has finished before the server has checked its certificate.
fn shake(client: &TlsClientOptions, name: &str, server: &TlsServer) -> Ends {
    let client = TlsClient::new(client).expect("a client");
    let (near, far) = connection();
    thread::scope(|scope| {
        let accepting = scope.spawn(|| server.accept(far));
        (client.connect(name, near), accepting.join().expect("no panic"))
    })
}

fn refusal(client: &TlsClientOptions, server: &TlsServer) -> Option<AcceptError> {
    shake(client, "localhost", server).1.err()
}

#[test]
fn octets_pass_both_ways_until_one_end_closes() {
    let files = Authority::new();
    files.sign("client", &Says::name("client"));
    let server = TlsServer::new(&files.server(ClientAuth::Require, &["client"])).expect("a server");
    let (near, far) = shake(&files.client(Some("client")), "localhost", &server);
    let (mut near, mut far) = (near.expect("a session"), far.expect("a session"));
    let mut buffer = [0; 5];
    near.write_all(b"hello").expect("sent");
    far.read_exact(&mut buffer).expect("received");
    assert_eq!(&buffer, b"hello");
    far.write_all(b"there").expect("sent");
    near.read_exact(&mut buffer).expect("received");
    assert_eq!(&buffer, b"there");
    near.close().expect("closed");
    near.close().expect("closed once is enough");
    assert_eq!(far.read(&mut buffer).expect("the end"), 0);
}

#[test]
fn clients_are_refused_for_a_reason() {
    let files = Authority::new();
    files.sign("good", &Says::name("router"));
    files.sign("old", &Says { is_expired: true, ..Says::name("router") });
    files.sign("another", &Says::name("another"));
    Certificate::authority("a stranger").sign(&Says::name("router")).write(files.folder.path(), "stranger");
    let server = TlsServer::new(&files.server(ClientAuth::Require, &["Router"])).expect("a server");
    for (shows, expected) in [
        (Some("good"), None),
        (None, Some(AcceptError::NoCertificate)),
        (Some("old"), Some(AcceptError::CertificateExpired)),
        (Some("stranger"), Some(AcceptError::CertificateUntrusted)),
        (Some("another"), Some(AcceptError::NameNotAdmitted)),
    ] {
        assert_eq!(refusal(&files.client(shows), &server), expected, "{shows:?}");
    }
    let server = TlsServer::new(&files.server(ClientAuth::Request, &[])).expect("a server");
    assert_eq!(refusal(&files.client(None), &server), None);
    assert_eq!(refusal(&files.client(Some("stranger")), &server), Some(AcceptError::CertificateUntrusted));
}

/// Runs OpenSSL's own certificate authority.
fn ca(openssl: &Path, files: &Authority, arguments: &[&str]) {
    let mut command = Command::new(openssl);
    command.args(["ca", "-config", "ca.cnf", "-keyfile", "ca.key", "-cert", "ca.pem"]).args(arguments);
    let run = command.current_dir(files.folder.path()).output().expect("openssl runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn revoked_certificates_are_refused_once_the_list_is_read() {
    let Some(openssl) = weir_testkit::program("openssl") else { return };
    let files = Authority::new();
    for name in ["good", "bad"] {
        files.sign(name, &Says::name(name));
    }
    files.write("index.txt", b"");
    files.write(
        "ca.cnf",
        b"[ca]\ndefault_ca = own\n[own]\ndatabase = index.txt\ndefault_md = sha256\ndefault_crl_days = 1\n",
    );
    ca(&openssl, &files, &["-gencrl", "-out", "crl.pem"]);
    let options =
        TlsServerOptions { revocations: Some(files.path("crl.pem")), ..files.server(ClientAuth::Require, &[]) };
    let server = TlsServer::new(&options).expect("a server");
    assert_eq!(refusal(&files.client(Some("bad")), &server), None);
    ca(&openssl, &files, &["-revoke", "bad.pem"]);
    ca(&openssl, &files, &["-gencrl", "-out", "crl.pem"]);
    assert_eq!(refusal(&files.client(Some("bad")), &server), None, "nobody has read it");
    server.reload(&options).expect("good files");
    assert_eq!(refusal(&files.client(Some("bad")), &server), Some(AcceptError::CertificateRevoked));
    assert_eq!(refusal(&files.client(Some("good")), &server), None);
    files.write("crl.pem", b"no list");
    let error = server.reload(&options).expect_err("no list").to_string();
    assert!(error.ends_with("crl.pem holds no revocation list in PEM form"), "{error}");
    assert_eq!(refusal(&files.client(Some("bad")), &server), Some(AcceptError::CertificateRevoked), "as before");
}

#[test]
fn names_of_clients_are_compared_whole() {
    let files = Authority::new();
    let server = TlsServer::new(&files.server(ClientAuth::Require, &["a.example", "192.0.2.1"])).expect("a server");
    let ip = Some("192.0.2.1");
    for (says, is_admitted) in [
        (Says::name("a.example"), true),
        (Says { dns: &["b.example", "A.Example"], ..Says::name("x") }, true),
        (Says { ip, ..Says::name("x") }, true),
        (Says { ip: Some("192.0.2.2"), ..Says::name("x") }, false),
        // where there are DNS names, the common name is none of them
        (Says { dns: &["b.example"], ..Says::name("a.example") }, false),
        (Says { dns: &["*.example"], ..Says::name("x") }, false),
    ] {
        files.sign("client", &says);
        let refused = refusal(&files.client(Some("client")), &server);
        let expected = (!is_admitted).then_some(AcceptError::NameNotAdmitted);
        assert_eq!(refused, expected, "{} {:?} {:?}", says.common_name, says.dns, says.ip);
    }
}

#[test]
fn a_server_without_the_expected_certificate_is_refused() {
    let files = Authority::new();
    Certificate::authority("a stranger").write(files.folder.path(), "stranger");
    let server = TlsServer::new(&files.server(ClientAuth::None, &[])).expect("a server");
    let stranger = TlsClientOptions { authorities: Some(files.path("stranger.pem")), identity: None };
    for (client, name) in [
        (&files.client(None), "collector.example"),
        // its common name, which does not count as it has a DNS name
        (&files.client(None), "server"),
        (&files.client(None), "127.0.0.1"),
        (&stranger, "localhost"),
        // the authorities of the system
        (&TlsClientOptions::default(), "localhost"),
    ] {
        let (near, far) = shake(client, name, &server);
        assert!(matches!(near, Err(ConnectError::Certificate { .. })), "{name}: {near:?}");
        assert!(matches!(far, Err(AcceptError::RefusedByPeer)), "{name}: {far:?}");
    }
}

#[test]
fn what_is_no_handshake_is_refused() {
    let files = Authority::new();
    let server = TlsServer::new(&files.server(ClientAuth::None, &[])).expect("a server");
    let (mut near, far) = connection();
    near.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
    assert!(matches!(server.accept(far), Err(AcceptError::NotTls)));
    let (near, far) = connection();
    drop(near);
    assert!(matches!(server.accept(far), Err(AcceptError::CutShort)));
    let (near, far) = connection();
    far.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    assert!(matches!(server.accept(far), Err(AcceptError::TooSlow)));
    drop(near);
}
