//! Servers of syslog (RFC 5424) over UDP, TCP and TLS.
//!
//! Over TCP and TLS each message has its length before it (RFC 6587 section 3.4.1, RFC 5425 section 4.3). Syslog has no
//! acknowledgement: what the system has taken and the server never read is lost, so a connection that was closed is noticed before
//! the next message goes into it.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::Value;
use weir_reports::log::LoggedReport;
use weir_secure::{TlsClient, TlsClientOptions, TlsStream};

use crate::action::SyslogTls;
use crate::target::{Message, SEND_MAX, SendError, Target};
use crate::timed_stream::TimedStream;

/// Octets of a datagram; what is longer is cut (RFC 5426 section 3.2).
const DATAGRAM_MAX: usize = 8_192;
/// Facility of messages: local use 0 (RFC 5424 section 6.2.1).
const FACILITY: u8 = 16;

/// A report as a message (RFC 5424 section 6).
fn message(report: &LoggedReport) -> String {
    let severity = match report.text("severity") {
        "critical" => 2,
        "warning" => 4,
        "notice" => 5,
        _ => 6,
    };
    let evidence = report.members.as_ref().and_then(|members| members.get("evidence")?.get(0));
    let evidence = evidence.map(Value::to_string).unwrap_or_default();
    let corrected = match (report.is_withdrawal(), report.is_correction()) {
        (true, _) => "no longer so: ",
        (false, true) => "corrected: ",
        (false, false) => "",
    };
    let number = |name| report.members.as_ref().and_then(|members| members.get(name)?.as_u64()).unwrap_or(0);
    let is_incomplete = number("records_lost") > 0 || number("rows_left_out") > 0;
    let incomplete = if is_incomplete { " incomplete" } else { "" };
    let is_saturated = report.members.as_ref().and_then(|members| members.get("saturated")) == Some(&Value::Bool(true));
    let saturated = if is_saturated { " saturated" } else { "" };
    let (title, key, id) = (report.text("title"), report.text("key"), report.text("id"));
    let text = format!("{corrected}{title} {key} {evidence} id={id}{incomplete}{saturated}");
    let is_fit = |c: char| if c.is_control() { ' ' } else { c };
    let text: String = text.chars().map(is_fit).collect();
    // names are at most 32 characters of ASCII, which names of watches are
    let watch: String = report.text("watch").chars().take(32).collect();
    format!("<{}>1 {} - weir - {watch} - {text}", FACILITY * 8 + severity, report.text("window_end"))
}

fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the name has no address")
}

/// Connects to the first address of a name at which somebody answers.
fn connected(address: &str) -> io::Result<TcpStream> {
    let mut failed = no_address();
    for place in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&place, SEND_MAX) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// A server over UDP.
#[derive(Debug)]
pub(crate) struct DatagramTarget {
    address: String,
    socket: Option<UdpSocket>,
}

impl DatagramTarget {
    pub(crate) fn new(address: String) -> Self {
        Self { address, socket: None }
    }

    fn open(&self) -> io::Result<UdpSocket> {
        let place = self.address.to_socket_addrs()?.next().ok_or_else(no_address)?;
        let socket = UdpSocket::bind(if place.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
        socket.connect(place)?;
        Ok(socket)
    }
}

impl Target for DatagramTarget {
    fn takes_several(&self) -> bool {
        false
    }

    fn send(&mut self, reports: &Message<'_>, _now_ms: i64) -> Result<(), SendError> {
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => self.open()?,
        };
        for report in reports.0 {
            let message = message(report);
            let end = message.floor_char_boundary(DATAGRAM_MAX);
            socket.send(message.get(..end).unwrap_or_default().as_bytes())?;
        }
        self.socket = Some(socket);
        Ok(())
    }
}

/// A connection to a server.
#[derive(Debug)]
enum Connection {
    Plain(TcpStream),
    Tls(Box<TlsStream<TimedStream>>),
}

impl Connection {
    /// Whether the server has ended it. It sends nothing else, but for what TLS needs.
    fn is_ended(&mut self) -> io::Result<bool> {
        let set = |stream: &TcpStream, is_nonblocking| stream.set_nonblocking(is_nonblocking);
        let mut octets = [0; 64];
        let read = match self {
            Self::Plain(stream) => {
                set(stream, true)?;
                let read = stream.read(&mut octets);
                set(stream, false)?;
                read
            }
            Self::Tls(stream) => {
                set(stream.get_ref().socket(), true)?;
                let read = stream.read(&mut octets);
                set(stream.get_ref().socket(), false)?;
                read
            }
        };
        match read {
            Ok(octets) => Ok(octets == 0),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(_) => Ok(true),
        }
    }

    fn write(&mut self, octets: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.write_all(octets),
            Self::Tls(stream) => stream.write_all(octets),
        }
    }
}

/// A server over TCP or TLS.
#[derive(Debug)]
pub(crate) struct StreamTarget {
    address: String,
    tls: Option<SyslogTls>,
    /// Made when it is first needed.
    client: Option<Arc<TlsClient>>,
    connection: Option<Connection>,
    /// How long the handshake of TLS may take.
    handshake_max: Duration,
    /// Whether the process ends.
    is_ending: Arc<AtomicBool>,
}

impl StreamTarget {
    pub(crate) fn new(address: String, tls: Option<SyslogTls>) -> Self {
        let is_ending = Arc::default();
        Self { address, tls, client: None, connection: None, handshake_max: SEND_MAX, is_ending }
    }

    fn open(&mut self) -> Result<Connection, SendError> {
        let stream = connected(&self.address)?;
        stream.set_write_timeout(Some(SEND_MAX))?;
        stream.set_read_timeout(Some(SEND_MAX))?;
        let Some(tls) = &self.tls else { return Ok(Connection::Plain(stream)) };
        let client = if let Some(client) = &self.client {
            Arc::clone(client)
        } else {
            let options = TlsClientOptions { authorities: tls.ca.clone(), identity: tls.identity.clone() };
            let client = TlsClient::new(&options).map_err(|error| SendError::again(error.to_string()))?;
            Arc::clone(self.client.insert(Arc::new(client)))
        };
        let host = self.address.rsplit_once(':').map_or(self.address.as_str(), |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TimedStream::new(stream, self.handshake_max, &self.is_ending)?;
        let mut session = client.connect(host, stream).map_err(|error| {
            // files of authorities may be mended before the next try
            self.client = None;
            SendError::again(error.to_string())
        })?;
        session.get_mut().remove_limit();
        Ok(Connection::Tls(Box::new(session)))
    }
}

impl Target for StreamTarget {
    fn takes_several(&self) -> bool {
        false
    }

    fn ends_with(&mut self, is_ending: &Arc<AtomicBool>) {
        self.is_ending = Arc::clone(is_ending);
    }

    fn send(&mut self, reports: &Message<'_>, _now_ms: i64) -> Result<(), SendError> {
        let kept = match self.connection.take() {
            Some(mut connection) => Some(connection.is_ended()?).filter(|is_ended| !is_ended).map(|_| connection),
            None => None,
        };
        let mut connection = match kept {
            Some(connection) => connection,
            None => self.open()?,
        };
        for report in reports.0 {
            let message = message(report);
            connection.write(format!("{} {message}", message.len()).as_bytes())?;
        }
        self.connection = Some(connection);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use serde_json::json;

    use super::*;
    use crate::timed_stream::tests::{SOON, drip, server};

    #[test]
    fn a_handshake_that_comes_octet_by_octet_has_an_end() {
        let address = server(|mut stream| drip(&mut stream, 22)).to_string();
        let tls = SyslogTls { address: address.clone(), ca: None, identity: None };
        let mut target = StreamTarget::new(address, Some(tls));
        target.handshake_max = Duration::from_millis(100);
        let began = Instant::now();
        target.open().expect_err("no session");
        assert!(began.elapsed() < SOON);
    }

    /// Worked out by hand after RFC 5424: local use 0 is 16, a warning 4, and 16 * 8 + 4 = 132.
    #[test]
    fn messages_are_those_of_syslog() {
        let report = json!({
            "id": "scan/2026/x", "watch": "scan", "title": "A\nscan", "severity": "warning", "key": "x",
            "window_end": "2026-01-01T00:00:10.000Z", "evidence": [{ "a": 1 }],
        });
        let report = LoggedReport { end: 0, members: report.as_object().cloned(), line: Vec::new() };
        assert_eq!(
            message(&report),
            "<132>1 2026-01-01T00:00:10.000Z - weir - scan - A scan x {\"a\":1} id=scan/2026/x"
        );
        let mut members = report.members.clone().expect("members");
        members.extend([
            ("correction".to_owned(), json!(true)),
            ("rows".to_owned(), json!(0)),
            ("records_lost".to_owned(), json!(4)),
            ("saturated".to_owned(), json!(true)),
        ]);
        let withdrawn = message(&LoggedReport { members: Some(members), ..report });
        assert!(
            withdrawn.contains(" no longer so: A scan x ")
                && withdrawn.ends_with("id=scan/2026/x incomplete saturated"),
            "{withdrawn}"
        );
    }
}
