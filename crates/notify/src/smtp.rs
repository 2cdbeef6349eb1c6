//! As much of SMTP (RFC 5321) as it takes to hand a message to a server that was configured: STARTTLS (RFC 3207), TLS from the
//! first octet on (RFC 8314), login (RFC 4954). A library for it would bring internationalised names along, which change how the query engine is
//! compiled.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use openssl::ssl::{SslConnector, SslMethod, SslStream};

use crate::target::SEND_MAX;
use crate::timed_stream::TimedStream;

/// Lines of a reply, and octets of one of them, at most.
const REPLY_MAX: (usize, usize) = (100, 4_096);
/// How long a server may take to answer a command, and to take a message (RFC 5321 section 4.5.3.2).
const ANSWER_MAX: Duration = Duration::from_mins(5);
const TAKING_MAX: Duration = Duration::from_mins(10);

/// Why a message was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SmtpError {
    /// The connection.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The server has the message, and did not say what it does with it.
    #[error("the server did not say whether it takes the message: {0}")]
    Unanswered(io::Error),
    /// TLS.
    #[error("no encrypted session with the server: {0}")]
    Tls(String),
    /// The server has no encryption or login.
    #[error("the server does not offer {0}")]
    Missing(&'static str),
    /// The server says no.
    #[error("the server answers {code} to {command}: {text}")]
    Reply {
        /// To what.
        command: &'static str,
        /// The number of the answer.
        code: u16,
        /// Its text.
        text: String,
    },
}

/// A connection, whatever carries it.
trait Stream: Read + Write {
    /// Reads until so much time is over since then.
    fn set_limit(&mut self, began: Instant, time_max: Duration);
}

impl Stream for TimedStream {
    fn set_limit(&mut self, began: Instant, time_max: Duration) {
        TimedStream::set_limit(self, began, time_max);
    }
}

impl Stream for SslStream<TimedStream> {
    fn set_limit(&mut self, began: Instant, time_max: Duration) {
        self.get_mut().set_limit(began, time_max);
    }
}

/// A session with a server.
pub(crate) struct SmtpSession {
    stream: BufReader<Box<dyn Stream>>,
    /// The connection that carries it.
    socket: TcpStream,
    /// What the server offers, in capitals.
    offers: Vec<String>,
}

fn connected(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for place in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&place, SEND_MAX) {
            Ok(stream) => {
                stream.set_write_timeout(Some(SEND_MAX))?;
                return Ok(stream);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Where a server is, and how it is spoken to.
pub(crate) struct SmtpServer<'a> {
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    /// How we are called.
    pub(crate) name: &'a str,
    /// The authorities whose certificates are trusted, instead of those of the system.
    pub(crate) ca: Option<&'a Path>,
    /// How long the handshake of TLS may take.
    pub(crate) handshake_max: Duration,
    /// Whether the process ends.
    pub(crate) is_ending: &'a Arc<AtomicBool>,
}

impl SmtpServer<'_> {
    /// Connects without encryption.
    pub(crate) fn plain(&self) -> Result<SmtpSession, SmtpError> {
        let socket = connected(self.host, self.port)?;
        let stream = TimedStream::new(socket.try_clone()?, ANSWER_MAX, self.is_ending)?;
        self.begin(Box::new(stream), socket)
    }

    /// Connects over TLS.
    pub(crate) fn tls(&self) -> Result<SmtpSession, SmtpError> {
        let socket = connected(self.host, self.port)?;
        self.begin(self.encrypted(&socket)?, socket)
    }

    /// Connects, and goes over to TLS before anything is said.
    pub(crate) fn starttls(&self) -> Result<SmtpSession, SmtpError> {
        let mut session = self.plain()?;
        if !session.offers("STARTTLS") {
            return Err(SmtpError::Missing("STARTTLS"));
        }
        session.command("STARTTLS", "STARTTLS", 220)?;
        if !session.stream.buffer().is_empty() {
            // somebody on the way put in what would count as encrypted
            return Err(SmtpError::Tls("there is more before it begins".to_owned()));
        }
        session.stream = BufReader::new(self.encrypted(&session.socket)?);
        session.hello(self.name)?;
        Ok(session)
    }

    /// Does the handshake with the server, which must have the name of the host.
    fn encrypted(&self, socket: &TcpStream) -> Result<Box<dyn Stream>, SmtpError> {
        let wrong = |error: &dyn std::fmt::Display| SmtpError::Tls(error.to_string());
        let mut connector = SslConnector::builder(SslMethod::tls_client()).map_err(|error| wrong(&error))?;
        if let Some(ca) = self.ca {
            let store = openssl::x509::store::X509StoreBuilder::new().map_err(|error| wrong(&error))?;
            connector.set_cert_store(store.build());
            connector
                .set_ca_file(ca)
                .map_err(|error| SmtpError::Tls(format!("cannot use the authorities {}: {error}", ca.display())))?;
        }
        let stream = TimedStream::new(socket.try_clone()?, self.handshake_max, self.is_ending)?;
        let session = connector.build().connect(self.host, stream).map_err(|error| wrong(&error))?;
        Ok(Box::new(session))
    }

    fn begin(&self, stream: Box<dyn Stream>, socket: TcpStream) -> Result<SmtpSession, SmtpError> {
        let mut session = SmtpSession { stream: BufReader::new(stream), socket, offers: Vec::new() };
        session.reply("the connection", 220, ANSWER_MAX)?;
        session.hello(self.name)?;
        Ok(session)
    }
}

impl SmtpSession {
    fn hello(&mut self, name: &str) -> Result<(), SmtpError> {
        let offers = self.command("EHLO", &format!("EHLO {name}"), 250)?;
        self.offers = offers.into_iter().map(|line| line.to_ascii_uppercase()).collect();
        Ok(())
    }

    fn offers(&self, what: &str) -> bool {
        self.offers.iter().any(|line| line.split(' ').next() == Some(what))
    }

    /// Says who we are (RFC 4616).
    pub(crate) fn login(&mut self, user: &str, password: &str) -> Result<(), SmtpError> {
        if !self.offers("AUTH") {
            return Err(SmtpError::Missing("AUTH"));
        }
        let text = STANDARD.encode(format!("\0{user}\0{password}"));
        self.command("AUTH", &format!("AUTH PLAIN {text}"), 235).map(drop)
    }

    /// Hands a message over, whose lines end with CR LF, and ends the session.
    pub(crate) fn send(mut self, from: &str, to: &[String], message: &str) -> Result<(), SmtpError> {
        self.command("MAIL", &format!("MAIL FROM:<{from}>"), 250)?;
        for address in to {
            self.command("RCPT", &format!("RCPT TO:<{address}>"), 250)?;
        }
        self.command("DATA", "DATA", 354)?;
        // a line that begins with a dot gets another one (RFC 5321 section 4.5.2)
        let stuffed = message.replace("\r\n.", "\r\n..");
        self.write(&format!("{stuffed}\r\n."))?;
        self.reply("the message", 250, TAKING_MAX).map_err(|error| match error {
            SmtpError::Io(error) => SmtpError::Unanswered(error),
            error => error,
        })?;
        // it is taken: how the session ends does not matter
        let _ = self.write("QUIT");
        Ok(())
    }

    fn command(&mut self, command: &'static str, line: &str, expected: u16) -> Result<Vec<String>, SmtpError> {
        self.write(line)?;
        self.reply(command, expected, ANSWER_MAX)
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        let stream = self.stream.get_mut();
        stream.write_all(format!("{line}\r\n").as_bytes())?;
        stream.flush()
    }

    /// A line of the server, with its end.
    fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') && line.len() < REPLY_MAX.1 {
            match self.stream.fill_buf() {
                Ok([]) => break,
                Ok(octets) => {
                    let end = octets.iter().position(|octet| *octet == b'\n').map_or(octets.len(), |at| at + 1);
                    let end = end.min(REPLY_MAX.1 - line.len());
                    line.extend_from_slice(octets.get(..end).unwrap_or_default());
                    self.stream.consume(end);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(line)
    }

    /// The texts of the lines of a reply with the expected number.
    fn reply(&mut self, command: &'static str, expected: u16, answer_max: Duration) -> Result<Vec<String>, SmtpError> {
        let unknown = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("the server {what}"));
        let mut texts = Vec::new();
        self.stream.get_mut().set_limit(Instant::now(), answer_max);
        while texts.len() < REPLY_MAX.0 {
            let line = self.line()?;
            if line.last() != Some(&b'\n') {
                return Err(unknown("ended in the middle of an answer").into());
            }
            let line: String = String::from_utf8_lossy(&line).chars().filter(|c| !c.is_control()).collect();
            let code: Option<u16> = line.get(..3).and_then(|code| code.parse().ok());
            let (Some(code), is_last) = (code, line.get(3..4) != Some("-")) else {
                return Err(unknown("does not speak SMTP").into());
            };
            texts.push(line.get(4..).unwrap_or_default().to_owned());
            if is_last {
                let is_expected = code == expected || (expected == 250 && code == 251);
                let text = texts.join(" ");
                return if is_expected { Ok(texts) } else { Err(SmtpError::Reply { command, code, text }) };
            }
        }
        Err(unknown("answers without end").into())
    }
}

#[cfg(test)]
mod tests {
    use weir_secure::{ClientAuth, TlsServer, TlsServerOptions};
    use weir_testkit::certificates::{Certificate, Says};

    use super::*;
    use crate::timed_stream::tests::{SOON, drip, server};

    const A_MOMENT: Duration = Duration::from_millis(100);

    fn smtp<'a>(port: u16, ca: Option<&'a Path>, is_ending: &'a Arc<AtomicBool>) -> SmtpServer<'a> {
        SmtpServer { host: "localhost", port, name: "weir", ca, handshake_max: A_MOMENT, is_ending }
    }

    /// Reads a line of the client, and answers.
    fn answer(stream: &mut (impl Read + Write), text: &str) {
        let mut octet = [0];
        while stream.read_exact(&mut octet).is_ok() && octet != *b"\n" {}
        stream.write_all(text.as_bytes()).expect("it is read");
    }

    #[test]
    fn a_handshake_that_comes_octet_by_octet_has_an_end() {
        let is_ending = Arc::<AtomicBool>::default();
        let began = Instant::now();
        let address = server(|mut stream| drip(&mut stream, 22));
        let error = smtp(address.port(), None, &is_ending).tls().err().expect("no session");
        assert!(error.to_string().contains("takes too long"), "{error}");
        let address = server(|mut stream| {
            stream.write_all(b"220 ready\r\n").expect("it is read");
            answer(&mut stream, "250-mail\r\n250 STARTTLS\r\n");
            answer(&mut stream, "220 go ahead\r\n");
            drip(&mut stream, 22);
        });
        let error = smtp(address.port(), None, &is_ending).starttls().err().expect("no session");
        assert!(error.to_string().contains("takes too long"), "{error}");
        assert!(began.elapsed() < SOON);
    }

    #[test]
    fn an_encrypted_answer_that_comes_octet_by_octet_has_an_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Certificate::authority("ca");
        authority.write(folder.path(), "ca");
        authority.sign(&Says { dns: &["localhost"], ..Says::name("server") }).write(folder.path(), "server");
        let options = TlsServerOptions {
            certificate: folder.path().join("server.pem"),
            key: folder.path().join("server.key"),
            authorities: None,
            revocations: None,
            client_auth: ClientAuth::None,
            peers: Vec::new(),
        };
        let tls = TlsServer::new(&options).expect("a server");
        let address = server(move |stream| {
            let mut stream = tls.accept(stream).expect("a session");
            stream.write_all(b"220 ready\r\n").expect("it is read");
            answer(&mut stream, "250 mail\r\n");
            drip(stream.get_mut(), 23);
        });
        let (is_ending, ca) = (Arc::default(), folder.path().join("ca.pem"));
        let server = SmtpServer { handshake_max: SOON, ..smtp(address.port(), Some(&ca), &is_ending) };
        let mut session = server.tls().unwrap_or_else(|error| panic!("{error}"));
        let began = Instant::now();
        let error = session.reply("nothing", 250, A_MOMENT).expect_err("no answer").to_string();
        assert!(error.contains("takes too long") && began.elapsed() < SOON, "{error}");
    }
}
