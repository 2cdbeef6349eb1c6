//! The server end of DTLS, with OpenSSL's client over sockets of the loopback interface.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use openssl::ssl::{ErrorCode, SslConnector, SslMethod, SslStream};
use weir_secure::{AcceptError, ClientAuth, ClientHello, DtlsServer, DtlsSession, SessionEnd, TlsServerOptions};
use weir_testkit::certificates::Certificate;

use super::{Authority, Says};

const NOW_MS: i64 = 1_700_000_000_000;

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("bound");
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    socket
}

/// A UDP socket as what OpenSSL reads and writes: a datagram each.
#[derive(Debug)]
struct Datagrams(UdpSocket);

impl Read for Datagrams {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.recv(buffer)
    }
}

impl Write for Datagrams {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.send(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A server with its socket, and the one session that it has.
struct Serving {
    server: DtlsServer,
    socket: Arc<UdpSocket>,
    session: Option<DtlsSession>,
    received: Vec<Vec<u8>>,
    end: Option<SessionEnd>,
}

impl Serving {
    fn new(options: &TlsServerOptions) -> Self {
        let server = DtlsServer::new(options).expect("a server");
        Self { server, socket: Arc::new(socket()), session: None, received: Vec::new(), end: None }
    }

    fn address(&self) -> SocketAddr {
        self.socket.local_addr().expect("an address")
    }

    /// A client whose datagrams come here.
    fn client(&self, files: &Authority, shows: Option<&Certificate>) -> SslStream<Datagrams> {
        let mut connector = SslConnector::builder(SslMethod::dtls_client()).expect("a connector");
        connector.set_ca_file(files.path("ca.pem")).expect("authorities");
        if let Some(shows) = shows {
            connector.set_certificate(&shows.certificate).expect("a certificate");
            connector.set_private_key(&shows.key).expect("a key");
        }
        let ssl = connector.build().configure().and_then(|known| known.into_ssl("localhost")).expect("a session");
        let socket = socket();
        socket.connect(self.address()).expect("connected");
        SslStream::new(ssl, Datagrams(socket)).expect("a session")
    }

    fn receive(&self) -> Option<(Vec<u8>, SocketAddr)> {
        let mut buffer = [0; 2048];
        let (octets, from) = self.socket.recv_from(&mut buffer).ok()?;
        Some((buffer[..octets].to_vec(), from))
    }

    /// Handles what has come, as a server has to.
    fn pump(&mut self) {
        while let Some((datagram, from)) = self.receive() {
            if let (None, Some(hello)) = (&self.session, ClientHello::parse(&datagram)) {
                if !self.server.is_verified(from, &hello, NOW_MS) {
                    let request = self.server.verify_request(from, &hello, NOW_MS).expect("a request");
                    assert!(request.len() < datagram.len(), "{} octets for {}", request.len(), datagram.len());
                    self.socket.send_to(&request, from).expect("sent");
                    continue;
                }
                let session = self.server.begin(&self.socket, from, &hello).expect("a session");
                assert!(session.began_with(&hello) && !session.is_established());
                self.session = Some(session);
            }
            if let Some(session) = &mut self.session {
                let progress = session.receive(&datagram);
                self.received.extend(progress.datagrams);
                self.end = self.end.or(progress.end);
            }
        }
    }

    /// Does the handshake; whether the client has finished it.
    fn shake(&mut self, client: &mut SslStream<Datagrams>) -> bool {
        for _ in 0..20 {
            match client.connect() {
                Ok(()) => {
                    self.pump();
                    return true;
                }
                Err(error) if error.code() == ErrorCode::WANT_READ => self.pump(),
                Err(_) => return false,
            }
        }
        false
    }
}

#[test]
fn datagrams_arrive_until_the_client_closes() {
    let files = Authority::new();
    let exporter = files.sign("client", &Says::name("exporter"));
    let mut serving = Serving::new(&files.server(ClientAuth::Require, &["exporter"]));
    let mut client = serving.client(&files, Some(&exporter));
    assert!(serving.shake(&mut client));
    assert!(serving.session.as_ref().is_some_and(DtlsSession::is_established));
    client.write_all(b"one").expect("sent");
    client.write_all(b"two").expect("sent");
    // none of these is of the session, though they have its address
    let garbage: [&[u8]; 4] = [b"", b"garbage", &[23, 254, 253, 0, 1, 0, 0, 0, 0, 0, 9, 0, 3, 1, 2, 3], &[22; 100]];
    for garbage in garbage {
        client.get_ref().0.send(garbage).expect("sent");
    }
    client.write_all(b"three").expect("sent");
    serving.pump();
    assert_eq!(serving.received, [&b"one"[..], b"two", b"three"]);
    assert_eq!(serving.end, None);
    client.shutdown().expect("closed");
    serving.pump();
    assert_eq!(serving.end, Some(SessionEnd::Closed));
}

#[test]
fn the_client_learns_that_the_server_closes() {
    let files = Authority::new();
    let mut serving = Serving::new(&files.server(ClientAuth::None, &[]));
    let mut client = serving.client(&files, None);
    assert!(serving.shake(&mut client));
    serving.session.as_mut().expect("a session").close();
    let ended = client.ssl_read(&mut [0; 16]).expect_err("the end");
    assert_eq!(ended.code(), ErrorCode::ZERO_RETURN);
}

#[test]
fn clients_are_refused_for_a_reason() {
    let files = Authority::new();
    let stranger = Certificate::authority("a stranger").sign(&Says::name("router"));
    let another = files.sign("another", &Says::name("another"));
    for (shows, expected) in [
        (None, AcceptError::NoCertificate),
        (Some(&stranger), AcceptError::CertificateUntrusted),
        (Some(&another), AcceptError::NameNotAdmitted),
    ] {
        let mut serving = Serving::new(&files.server(ClientAuth::Require, &["router"]));
        let mut client = serving.client(&files, shows);
        serving.shake(&mut client);
        assert_eq!(serving.end, Some(SessionEnd::Refused(expected)));
        assert!(serving.received.is_empty());
    }
}

#[test]
fn a_cookie_is_of_one_address_and_of_its_time() {
    let files = Authority::new();
    let mut serving = Serving::new(&files.server(ClientAuth::None, &[]));
    let mut client = serving.client(&files, None);
    assert_eq!(client.connect().expect_err("no answer yet").code(), ErrorCode::WANT_READ);
    let (first, from) = serving.receive().expect("a hello");
    let hello = ClientHello::parse(&first).expect("a hello");
    assert!(!serving.server.is_verified(from, &hello, NOW_MS), "it has no cookie");
    let request = serving.server.verify_request(from, &hello, NOW_MS).expect("a request");
    serving.socket.send_to(&request, from).expect("sent");
    assert_eq!(client.connect().expect_err("no answer yet").code(), ErrorCode::WANT_READ);
    let second = loop {
        let (datagram, _) = serving.receive().expect("a hello");
        if datagram.len() > first.len() {
            break datagram;
        }
    };
    let hello = ClientHello::parse(&second).expect("a hello");
    assert!(serving.server.is_verified(from, &hello, NOW_MS));
    assert!(serving.server.is_verified(from, &hello, NOW_MS + 60_000));
    assert!(!serving.server.is_verified(from, &hello, NOW_MS + 120_000), "it is too old");
    let elsewhere = SocketAddr::new(from.ip(), from.port().wrapping_add(1));
    assert!(!serving.server.is_verified(elsewhere, &hello, NOW_MS), "it is of another port");
    let other = DtlsServer::new(&files.server(ClientAuth::None, &[])).expect("a server");
    assert!(!other.is_verified(from, &hello, NOW_MS), "it is of another server");
    // the session itself goes on from there
    serving.session = serving.server.begin(&serving.socket, from, &hello).ok();
    serving.session.as_mut().expect("a session").receive(&second);
    assert!(serving.shake(&mut client));
}

#[test]
fn no_cut_of_a_hello_is_read_as_one() {
    let files = Authority::new();
    let serving = Serving::new(&files.server(ClientAuth::None, &[]));
    let mut client = serving.client(&files, None);
    let _ = client.connect();
    let (hello, _) = serving.receive().expect("a hello");
    assert!(ClientHello::parse(&hello).is_some());
    for length in 0..hello.len() {
        assert!(ClientHello::parse(&hello[..length]).is_none(), "{length} octets");
    }
}
