//! DTLS: a client whose datagrams are changed, lost, doubled and forged on their way; answers go over the loopback
//! interface, as the server sends them.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, LazyLock};

use openssl::ssl::{ErrorCode, SslConnector, SslMethod, SslStream};
use weir_secure::{ClientAuth, ClientHello, DtlsServer, DtlsSession, SessionEnd};
use weir_wire::ipfix;

use super::{Certificates, NAME, Script, canary, check};
use crate::cost::measure;

/// Octets of a datagram of the client at most.
const DATAGRAM_OCTETS: usize = 1_200;
/// Times that the client is asked to go on with its handshake.
const STEPS_MAX: usize = 40;
const NOW_MS: i64 = 1_700_000_000_000;

static ENDS: LazyLock<Ends> = LazyLock::new(|| {
    let certificates = Certificates::new();
    let server = |auth| DtlsServer::new(&certificates.server(auth)).expect("a server");
    let socket = || {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_nonblocking(true).expect("set");
        socket
    };
    Ends {
        open: server(ClientAuth::None),
        strict: server(ClientAuth::Require),
        client: certificates.client(SslMethod::dtls_client()),
        answers: Arc::new(socket()),
        client_socket: socket(),
    }
});

struct Ends {
    /// Asks for no certificate.
    open: DtlsServer,
    /// Requires one.
    strict: DtlsServer,
    client: SslConnector,
    /// What the server answers by.
    answers: Arc<UdpSocket>,
    /// Where its answers come.
    client_socket: UdpSocket,
}

/// What came of a session.
#[derive(Default)]
struct Outcome {
    established: bool,
    received: Vec<Vec<u8>>,
    end: Option<SessionEnd>,
}

/// Reads a session to its end. Whatever is forged on the way, what comes out was sent, and nobody but the client ends a
/// session that has been established.
pub(crate) fn dtls(input: &[u8]) {
    let Some(script) = Script::parse(input) else { return };
    let ends = &*ENDS;
    while ends.client_socket.recv(&mut [0; 16]).is_ok() {}
    let server = if script.how & 2 == 0 { &ends.open } else { &ends.strict };
    let piece = (usize::from(script.how >> 3) * 37 + 1).min(DATAGRAM_OCTETS);
    let sent: Vec<&[u8]> = script.plain.chunks(piece).collect();
    let (outcome, cost) = measure(|| {
        let mut serving = Serving::new(server, &script);
        if script.how & 1 == 0 {
            serving.client(&sent);
        } else {
            // datagrams of nobody
            sent.iter().for_each(|datagram| serving.datagram(datagram));
        }
        serving.outcome
    });
    check(cost, input.len() + 4 * sent.len());
    if script.how & 1 == 0 {
        assert!(outcome.received.iter().all(|datagram| sent.contains(&datagram.as_slice())), "what comes out was sent");
        if script.changes.is_empty() {
            assert_eq!(outcome.received, sent, "all that was sent comes out");
            assert_eq!((outcome.established, outcome.end), (true, Some(SessionEnd::Closed)));
        }
    } else {
        assert!(!outcome.established, "nobody has a session without a handshake");
    }
    let is_message = |datagram: &&Vec<u8>| ipfix::message_length(datagram) == Some(datagram.len());
    canary(outcome.received.iter().filter(is_message).count());
}

/// The server's side, as a listener has it.
struct Serving<'s> {
    server: &'s DtlsServer,
    script: &'s Script<'s>,
    client: SocketAddr,
    session: Option<DtlsSession>,
    outcome: Outcome,
    /// Whether the client may end the session now.
    is_closing: bool,
    /// Datagrams that the client has sent.
    sent: u8,
    /// One that is handed on after the next.
    held_back: Option<Vec<u8>>,
}

impl<'s> Serving<'s> {
    fn new(server: &'s DtlsServer, script: &'s Script<'s>) -> Self {
        let client = ENDS.client_socket.local_addr().expect("an address");
        let (session, outcome) = (None, Outcome::default());
        Self { server, script, client, session, outcome, is_closing: false, sent: 0, held_back: None }
    }

    /// A client does its handshake, sends datagrams and closes the session.
    fn client(&mut self, datagrams: &[&[u8]]) {
        let ssl = ENDS.client.configure().and_then(|known| known.into_ssl(NAME)).expect("a session");
        let mut client = SslStream::new(ssl, Link::default()).expect("a session");
        for _ in 0..STEPS_MAX {
            let connected = client.connect();
            let is_over = !self.pass_on(&mut client);
            match connected {
                Ok(()) => break,
                // what is lost of a handshake is sent again after a second, which is not waited for
                Err(error) if error.code() == ErrorCode::WANT_READ && !is_over => {}
                Err(_) => return,
            }
        }
        for datagram in datagrams {
            if client.write_all(datagram).is_err() {
                return;
            }
            self.pass_on(&mut client);
        }
        self.is_closing = true;
        let _ = client.shutdown();
        self.pass_on(&mut client);
    }

    /// Hands on what the client has sent; whether there was anything.
    fn pass_on(&mut self, client: &mut SslStream<Link>) -> bool {
        let sent = std::mem::take(&mut client.get_mut().outbox);
        for datagram in &sent {
            self.change(datagram);
        }
        !sent.is_empty()
    }

    /// Hands a datagram on, changed by those changes that are about it.
    fn change(&mut self, datagram: &[u8]) {
        let number = self.sent;
        self.sent = self.sent.wrapping_add(1);
        let held_back = self.held_back.take();
        let mut is_lost = false;
        let script = self.script;
        for [kind, _, at, value] in script.changes.iter().filter(|change| change[1] == number) {
            let mut forged = datagram.to_vec();
            let at = usize::from(*at) % forged.len().max(1);
            match kind % 6 {
                0 => is_lost = true,
                1 => self.datagram(datagram),
                2 => {
                    forged[at] ^= value;
                    self.datagram(&forged);
                }
                3 => self.datagram(&forged[..at]),
                4 => self.datagram(script.plain),
                _ => {
                    self.held_back = Some(datagram.to_vec());
                    is_lost = true;
                }
            }
        }
        if !is_lost {
            self.datagram(datagram);
        }
        if let Some(held_back) = held_back {
            self.datagram(&held_back);
        }
    }

    /// Takes a datagram as a listener does.
    fn datagram(&mut self, datagram: &[u8]) {
        let hello = ClientHello::parse(datagram);
        if let Some(session) = self.session.as_mut().filter(|s| hello.is_none_or(|hello| s.began_with(&hello))) {
            let progress = session.receive(datagram);
            let was_established = self.outcome.established;
            self.outcome.established |= session.is_established();
            self.outcome.received.extend(progress.datagrams);
            self.outcome.end = self.outcome.end.or(progress.end);
            assert!(
                progress.end.is_none() || !was_established || self.is_closing,
                "a session was ended by others: {:?}",
                progress.end
            );
            if progress.end.is_some() {
                self.session = None;
            }
        } else if let Some(hello) = hello {
            self.hello(&hello, datagram);
        }
    }

    fn hello(&mut self, hello: &ClientHello<'_>, datagram: &[u8]) {
        if !self.server.is_verified(self.client, hello, NOW_MS) {
            if let Some(request) = self.server.verify_request(self.client, hello, NOW_MS) {
                assert!(request.len() < datagram.len(), "{} octets for {}", request.len(), datagram.len());
                let _ = ENDS.answers.send_to(&request, self.client);
            }
            return;
        }
        assert!(!self.outcome.established, "a session was replaced by others");
        self.session = self.server.begin(&ENDS.answers, self.client, hello).ok();
        self.datagram(datagram);
    }
}

/// The network as the client sees it.
#[derive(Debug, Default)]
struct Link {
    outbox: Vec<Vec<u8>>,
}

impl Read for Link {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        ENDS.client_socket.recv(buffer)
    }
}

impl Write for Link {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.outbox.push(buffer.to_vec());
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
