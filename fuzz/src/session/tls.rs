//! TLS in memory: both ends in one thread, and between them what changes the octets of the client.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::LazyLock;

use openssl::ssl::{ErrorCode, SslConnector, SslMethod, SslStream};
use weir_secure::{ClientAuth, TlsServer};

use super::{Certificates, NAME, Script, canary, check};
use crate::cost::measure;
use crate::framing::{Framing, messages};

static ENDS: LazyLock<Ends> = LazyLock::new(|| {
    let certificates = Certificates::new();
    let server = |auth| TlsServer::new(&certificates.server(auth)).expect("a server");
    Ends {
        open: server(ClientAuth::None),
        strict: server(ClientAuth::Require),
        client: certificates.client(SslMethod::tls_client()),
    }
});

struct Ends {
    /// Asks for no certificate.
    open: TlsServer,
    /// Requires one.
    strict: TlsServer,
    client: SslConnector,
}

/// Reads a session to its end. What comes out of it must be what the client has sent, or the beginning of it.
pub(crate) fn tls(input: &[u8]) {
    let Some(script) = Script::parse(input) else { return };
    let ends = &*ENDS;
    let server = if script.how & 2 == 0 { &ends.open } else { &ends.strict };
    let ((established, received), cost) = measure(|| serve(server, &script));
    check(cost, input.len());
    let is_raw = script.how & 1 != 0;
    assert!(!(is_raw && established), "nobody has a session without a handshake");
    if !is_raw {
        assert!(script.plain.starts_with(&received), "what comes out was sent");
        let is_plain = script.changes.is_empty() && script.how & 4 == 0;
        assert!(!is_plain || received == script.plain, "all that was sent comes out");
    }
    let (whole, _) = Framing::default().push(&received);
    canary(messages(&whole).count());
}

fn serve(server: &TlsServer, script: &Script<'_>) -> (bool, Vec<u8>) {
    let mut received = Vec::new();
    let Ok(mut stream) = server.accept(Wire::new(script)) else { return (false, received) };
    let (mut buffer, mut framing) = ([0; 1 << 14], Framing::default());
    while let Ok(octets @ 1..) = stream.read(&mut buffer) {
        received.extend_from_slice(&buffer[..octets]);
        if framing.push(&buffer[..octets]).1.is_some() && script.how & 4 != 0 {
            break;
        }
    }
    let _ = stream.close();
    (true, received)
}

/// The connection as the server sees it. When there is nothing to read, the client goes on.
struct Wire<'s> {
    script: &'s Script<'s>,
    /// `None` where the octets are nobody's.
    client: Option<SslStream<Link>>,
    is_connected: bool,
    /// Octets of what the client has to send that it has sent.
    plain_sent: usize,
    /// Octets that have come from the client, so that each change is made where it belongs.
    position: usize,
    inbox: VecDeque<u8>,
    ended: bool,
}

impl<'s> Wire<'s> {
    fn new(script: &'s Script<'s>) -> Self {
        let client = || {
            let ssl = ENDS.client.configure().and_then(|known| known.into_ssl(NAME)).expect("a session");
            SslStream::new(ssl, Link::default()).expect("a session")
        };
        Self {
            script,
            client: (script.how & 1 == 0).then(client),
            is_connected: false,
            plain_sent: 0,
            position: 0,
            inbox: VecDeque::new(),
            ended: false,
        }
    }

    /// Lets the client go on until it has sent something; false when it cannot.
    fn go_on(&mut self) -> bool {
        let Some(client) = &mut self.client else {
            self.inbox.extend(self.script.plain);
            self.ended = true;
            return !self.script.plain.is_empty();
        };
        let done = if !self.is_connected {
            match client.connect() {
                Ok(()) => {
                    self.is_connected = true;
                    false
                }
                Err(error) => error.code() != ErrorCode::WANT_READ,
            }
        } else if let Some(rest @ [_, ..]) = self.script.plain.get(self.plain_sent..) {
            let piece = (usize::from(self.script.how >> 3) * 64 + 1).min(rest.len());
            self.plain_sent += piece;
            client.write_all(&rest[..piece]).is_err()
        } else {
            let _ = client.shutdown();
            true
        };
        let sent = std::mem::take(&mut client.get_mut().outbox);
        let came = sent.len();
        let was_connected = self.is_connected;
        self.pass_on(&sent);
        self.ended |= done;
        came > 0 || was_connected && !done
    }

    /// Hands octets of the client on, changed by those changes that are about them.
    fn pass_on(&mut self, octets: &[u8]) {
        for octet in octets {
            let position = self.position;
            self.position += 1;
            let here = |change: &&[u8; 4]| usize::from(u16::from_be_bytes([change[1], change[2]])) == position;
            match self.script.changes.iter().find(here) {
                None => self.inbox.push_back(*octet),
                Some([kind, _, _, value]) => match kind % 4 {
                    0 => self.inbox.push_back(octet ^ value),
                    1 => self.inbox.extend([*octet, *value]),
                    2 => {}
                    _ => {
                        // the connection is cut
                        self.ended = true;
                        self.client = None;
                        return;
                    }
                },
            }
        }
    }
}

impl Read for Wire<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.inbox.is_empty() {
            if self.ended {
                return Ok(0);
            }
            if !self.go_on() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        self.inbox.read(buffer)
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if let Some(client) = &mut self.client {
            client.get_mut().inbox.extend(buffer);
        }
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The connection as the client sees it.
#[derive(Debug, Default)]
struct Link {
    inbox: VecDeque<u8>,
    outbox: Vec<u8>,
}

impl Read for Link {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.inbox.is_empty() { Err(io::ErrorKind::WouldBlock.into()) } else { self.inbox.read(buffer) }
    }
}

impl Write for Link {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.outbox.extend_from_slice(buffer);
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
