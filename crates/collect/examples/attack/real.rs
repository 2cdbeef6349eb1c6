//! Exporters as they should be: flows with running numbers as their octets, at a steady rate.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use openssl::ssl::{ErrorCode, SslConnector, SslMethod, SslStream};
use socket2::{Domain, Socket, Type};
use weir_secure::{TlsClient, TlsClientOptions};
use weir_wire::{FieldSpecifier, ObservationDomainId, Template, TemplateId, ipfix};

use crate::Target;

/// The transports with the addresses that their exporters send from.
pub(crate) const EXPORTERS: [(&str, Ipv4Addr); 4] = [
    ("udp", Ipv4Addr::new(127, 0, 0, 11)),
    ("tcp", Ipv4Addr::new(127, 0, 0, 12)),
    ("tls", Ipv4Addr::new(127, 0, 0, 13)),
    ("dtls", Ipv4Addr::new(127, 0, 0, 14)),
];
/// The Observation Domain of all of them.
pub(crate) const DOMAIN: u32 = 424_242;
/// Flows of a message.
const FLOWS: u64 = 20;
/// Time between two messages.
const INTERVAL: Duration = Duration::from_millis(10);
/// Messages between two in which the template comes again.
const TEMPLATE_EVERY: u64 = 20;

/// What is sent: messages of numbered flows.
struct Numbered {
    template: Template,
    next: u64,
    messages: u64,
    is_datagram: bool,
}

impl Numbered {
    fn new(is_datagram: bool) -> Self {
        let fields = [(1, 8), (2, 8), (8, 4), (12, 4)].map(|(id, length)| FieldSpecifier::iana(id, length));
        let id = TemplateId::new(256).expect("a number of templates");
        let template = Template::new(id, fields.to_vec(), 0).expect("a template");
        Self { template, next: 0, messages: 0, is_datagram }
    }

    fn message(&mut self) -> Vec<u8> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let (export_time_secs, domain) = (now.as_secs() as u32, ObservationDomainId(DOMAIN));
        let mut octets = Vec::new();
        let header = ipfix::Header { length: 0, export_time_secs, sequence: self.next as u32, domain };
        let mut message = ipfix::MessageBuilder::new(&mut octets, &header);
        if self.messages == 0 || self.is_datagram && self.messages.is_multiple_of(TEMPLATE_EVERY) {
            message.template(&self.template).expect("it fits");
        }
        for number in self.next..self.next + FLOWS {
            let write = |out: &mut Vec<u8>| {
                out.extend(number.to_be_bytes());
                out.extend(1_u64.to_be_bytes());
                out.extend([10, 99, 0, 1, 10, 99, 0, 2]);
            };
            message.record(&self.template, write).expect("it fits");
        }
        message.finish();
        (self.next, self.messages) = (self.next + FLOWS, self.messages + 1);
        octets
    }

    /// Sends until it is over; returns how many flows.
    fn send(mut self, target: &Target, mut send: impl FnMut(&[u8]) -> io::Result<()>) -> u64 {
        let began = Instant::now();
        while !target.is_over() {
            let message = self.message();
            if let Err(error) = send(&message) {
                eprintln!("a real exporter cannot send after {} flows: {error}", self.next);
                break;
            }
            let due = INTERVAL * self.messages as u32;
            std::thread::sleep(due.saturating_sub(began.elapsed()));
        }
        self.next
    }
}

pub(crate) fn connect(from: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

pub(crate) fn udp(target: &Target) -> u64 {
    let socket = UdpSocket::bind((EXPORTERS[0].1, 0)).expect("a socket");
    Numbered::new(true).send(target, |message| socket.send_to(message, target.udp).map(drop))
}

pub(crate) fn tcp(target: &Target) -> u64 {
    let mut stream = connect(EXPORTERS[1].1, target.tcp).expect("a connection");
    Numbered::new(false).send(target, |message| stream.write_all(message))
}

pub(crate) fn tls(target: &Target) -> u64 {
    let stream = connect(EXPORTERS[2].1, target.tls).expect("a connection");
    let mut stream = client(&target.authority).connect("localhost", stream).expect("a session");
    let flows = Numbered::new(false).send(target, |message| stream.write_all(message));
    let _ = stream.close();
    flows
}

/// A client that trusts the authority.
pub(crate) fn client(authority: &Path) -> TlsClient {
    let options = TlsClientOptions { authorities: Some(authority.to_owned()), identity: None };
    TlsClient::new(&options).expect("a client")
}

pub(crate) fn dtls(target: &Target) -> u64 {
    let mut stream = dtls_session(&target.authority, EXPORTERS[3].1, target.dtls).expect("a session");
    let flows = Numbered::new(true).send(target, |message| stream.write_all(message));
    let _ = stream.shutdown();
    flows
}

/// A UDP socket as what OpenSSL reads and writes: a datagram each.
#[derive(Debug)]
pub(crate) struct Datagrams(UdpSocket);

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

/// A session of DTLS from an address; `None` when the handshake does not succeed within a minute.
pub(crate) fn dtls_session(authority: &Path, from: Ipv4Addr, to: SocketAddr) -> Option<SslStream<Datagrams>> {
    let socket = UdpSocket::bind((from, 0)).ok()?;
    socket.connect(to).ok()?;
    socket.set_read_timeout(Some(Duration::from_millis(300))).ok()?;
    let mut connector = SslConnector::builder(SslMethod::dtls_client()).ok()?;
    connector.set_ca_file(authority).ok()?;
    let ssl = connector.build().configure().and_then(|known| known.into_ssl("localhost")).ok()?;
    let mut stream = SslStream::new(ssl, Datagrams(socket)).ok()?;
    for _ in 0..200 {
        match stream.connect() {
            Ok(()) => return Some(stream),
            Err(error) if error.code() == ErrorCode::WANT_READ => {}
            Err(_) => return None,
        }
    }
    None
}
