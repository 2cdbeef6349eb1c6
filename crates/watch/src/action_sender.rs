//! Sends reports where actions say.
//!
//! An action reads the reports of its watch from the journal, one after the other, and keeps how far it got in a file next
//! to it. So nothing is held in memory for a receiver that is down, and after an hour, or a restart, it gets everything in
//! order. A report that was sent just before a crash is sent again; its id says so.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::net::{TcpStream, ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::WatchError;
use crate::actions::Action;
use crate::journal::{REPORTS, replace};
use crate::shared::Shared;

/// How often the journal is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long it takes until a receiver that is down is tried again: at first, and at most.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_millis(500), Duration::from_mins(1));
/// How long a receiver may take to accept a report.
const SEND_MAX: Duration = Duration::from_secs(10);
/// How long a watch that ends may go on sending; the next start sends the rest.
const ENDING_MAX: Duration = Duration::from_secs(2);
/// Octets of a datagram of syslog; what is longer is cut (RFC 5426 section 3.2).
const DATAGRAM_MAX: usize = 8_192;
/// Facility of messages to syslog: local use 0 (RFC 5424 section 6.2.1).
const FACILITY: u8 = 16;

/// Opens what reports are written to.
fn open(action: &Action) -> io::Result<Receiver> {
    match action {
        Action::File(path) => Ok(Receiver::File(OpenOptions::new().create(true).append(true).open(path)?)),
        Action::SyslogTcp(address) => {
            let place = address.to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
            let stream = TcpStream::connect_timeout(&place, SEND_MAX)?;
            stream.set_write_timeout(Some(SEND_MAX))?;
            Ok(Receiver::Tcp(stream))
        }
        Action::SyslogUdp(address) => {
            let place = address.to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
            let socket = UdpSocket::bind(if place.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
            socket.connect(place)?;
            Ok(Receiver::Udp(socket))
        }
    }
}

/// What reports are written to.
#[derive(Debug)]
enum Receiver {
    File(File),
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl Receiver {
    fn send(&mut self, line: &str, report: &Value) -> io::Result<()> {
        match self {
            Self::File(file) => file.write_all(format!("{line}\n").as_bytes()),
            Self::Tcp(stream) => {
                // a server that has closed the connection is noticed before the report is lost in it
                stream.set_nonblocking(true)?;
                let is_closed = matches!(stream.peek(&mut [0]), Ok(0));
                stream.set_nonblocking(false)?;
                if is_closed {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                let message = syslog(report);
                stream.write_all(format!("{} {message}", message.len()).as_bytes())
            }
            Self::Udp(socket) => {
                let message = syslog(report);
                let end = message.floor_char_boundary(DATAGRAM_MAX);
                socket.send(&message.as_bytes()[..end]).map(drop)
            }
        }
    }
}

/// A report as a message of syslog (RFC 5424 section 6).
fn syslog(report: &Value) -> String {
    let text = |name: &str| report.get(name).and_then(Value::as_str).unwrap_or_default();
    let severity = match text("severity") {
        "critical" => 2,
        "warning" => 4,
        "notice" => 5,
        _ => 6,
    };
    let evidence = report.get("evidence").and_then(|rows| rows.get(0)).map(Value::to_string).unwrap_or_default();
    let message = format!("{} {} {evidence} id={}", text("title"), text("key"), text("id"));
    let is_fit = |c: char| if c.is_control() { ' ' } else { c };
    let message: String = message.chars().map(is_fit).collect();
    // names are at most 32 characters of ASCII, which names of watches are
    let watch: String = text("watch").chars().take(32).collect();
    format!("<{}>1 {} - weir - {watch} - {message}", FACILITY * 8 + severity, text("window_end"))
}

/// A number of an action that stays the same when others come and go (FNV-1a).
fn number_of(action: &Action) -> u64 {
    let text = format!("{action:?}");
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, octet| (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3))
}

/// Sends the reports of a watch, in a thread of its own.
pub(crate) struct ActionSender {
    watch: String,
    action: Action,
    journal: PathBuf,
    cursor: PathBuf,
    is_ending: Arc<AtomicBool>,
    shared: Shared,
}

impl ActionSender {
    /// Begins after the reports that are in the journal when the action is new.
    pub(crate) fn start(
        watch: &str,
        action: &Action,
        folder: &Path,
        is_ending: &Arc<AtomicBool>,
        shared: &Shared,
    ) -> Result<JoinHandle<()>, WatchError> {
        let sender = Self {
            watch: watch.to_owned(),
            action: action.clone(),
            journal: folder.join(REPORTS),
            cursor: folder.join(format!("{watch}.{:016x}.sent", number_of(action))),
            is_ending: Arc::clone(is_ending),
            shared: shared.clone(),
        };
        if !sender.cursor.exists() {
            let end = std::fs::metadata(&sender.journal).map_or(0, |about| about.len());
            sender.keep(end).map_err(|source| WatchError::Journal { path: sender.cursor.clone(), source })?;
        }
        thread::Builder::new().name(format!("action-{watch}")).spawn(move || sender.run()).map_err(WatchError::Thread)
    }

    fn keep(&self, sent: u64) -> io::Result<()> {
        replace(&self.cursor, sent.to_string().as_bytes())
    }

    /// Sends until the watch ends, and then what can still be sent at once.
    fn run(&self) {
        let mut receiver = None;
        let mut retry_after = RETRY_AFTER.0;
        loop {
            let is_ending = self.is_ending.load(Ordering::Relaxed);
            match self.send_new(&mut receiver) {
                Ok(()) => {
                    retry_after = RETRY_AFTER.0;
                    self.sleep(LOOK_EVERY);
                }
                Err(error) => {
                    if retry_after == RETRY_AFTER.0 {
                        let text = format!("watch '{}': reports cannot be sent, trying again: {error}", self.watch);
                        self.shared.notice(text);
                    }
                    receiver = None;
                    self.sleep(retry_after);
                    retry_after = (retry_after * 2).min(RETRY_AFTER.1);
                }
            }
            if is_ending {
                return;
            }
        }
    }

    fn sleep(&self, length: Duration) {
        let mut left = length;
        while !left.is_zero() && !self.is_ending.load(Ordering::Relaxed) {
            let step = left.min(LOOK_EVERY);
            thread::sleep(step);
            left -= step;
        }
    }

    fn send_new(&self, receiver: &mut Option<Receiver>) -> io::Result<()> {
        let began = Instant::now();
        let text = std::fs::read_to_string(&self.cursor)?;
        let mut journal = File::open(&self.journal)?;
        let length = journal.metadata()?.len();
        let known = text.trim().parse().ok().filter(|sent: &u64| *sent <= length);
        let Some(mut sent) = known else {
            self.shared.notice(format!(
                "watch '{}': how far reports were sent is not known; it begins at the end",
                self.watch
            ));
            return self.keep(length);
        };
        journal.seek(SeekFrom::Start(sent))?;
        let mut lines = BufReader::new(journal);
        let mut line = String::new();
        // lines of other watches are passed over, and kept at the end as passed
        let mut kept = sent;
        while lines.read_line(&mut line)? > 0 && line.ends_with('\n') {
            sent += line.len() as u64;
            let report: Option<Value> = serde_json::from_str(&line).ok();
            if let Some(report) =
                report.filter(|report| report.get("watch").and_then(Value::as_str) == Some(&self.watch))
            {
                let opened = match receiver.take() {
                    Some(opened) => opened,
                    None => open(&self.action)?,
                };
                receiver.insert(opened).send(line.trim_end(), &report)?;
                self.keep(sent)?;
                kept = sent;
            }
            line.clear();
            if self.is_ending.load(Ordering::Relaxed) && began.elapsed() > ENDING_MAX {
                break;
            }
        }
        if kept < sent { self.keep(sent) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Worked out by hand after RFC 5424: local use 0 is 16, a warning 4, and 16 * 8 + 4 = 132.
    #[test]
    fn messages_are_those_of_syslog() {
        let report = json!({
            "id": "scan/2026/x", "watch": "scan", "title": "A\nscan", "severity": "warning", "key": "x",
            "window_end": "2026-01-01T00:00:10.000Z", "evidence": [{ "a": 1 }],
        });
        assert_eq!(
            syslog(&report),
            "<132>1 2026-01-01T00:00:10.000Z - weir - scan - A scan x {\"a\":1} id=scan/2026/x"
        );
    }
}
