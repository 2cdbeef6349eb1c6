//! A connection to a server whose reads end in time.
//!
//! The time is kept here and not around the reads because OpenSSL reads until a record is whole: a server that sends an octet
//! now and then would hold up a handshake, or a line, for hours.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often it is looked whether the process ends, and how long a server is waited for then.
const LOOK_EVERY: Duration = Duration::from_millis(250);
const ENDING_MAX: Duration = Duration::from_secs(2);

/// A connection, and for how long its octets are waited for.
#[derive(Debug)]
pub(crate) struct TimedStream {
    socket: TcpStream,
    /// Whether the process ends.
    is_ending: Arc<AtomicBool>,
    /// Since when octets are waited for, and how long at most; without it reads are those of the socket.
    limit: Option<(Instant, Duration)>,
}

impl TimedStream {
    /// Reads from now on until so much time is over.
    pub(crate) fn new(socket: TcpStream, time_max: Duration, is_ending: &Arc<AtomicBool>) -> io::Result<Self> {
        socket.set_read_timeout(Some(LOOK_EVERY))?;
        let limit = Some((Instant::now(), time_max));
        Ok(Self { socket, is_ending: Arc::clone(is_ending), limit })
    }

    /// Reads until so much time is over since then.
    pub(crate) fn set_limit(&mut self, began: Instant, time_max: Duration) {
        self.limit = Some((began, time_max));
    }

    /// Lets reads be those of the socket.
    pub(crate) fn remove_limit(&mut self) {
        self.limit = None;
    }

    /// What it reads from.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }
}

impl Read for TimedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some((began, time_max)) = self.limit else { return self.socket.read(buffer) };
        loop {
            let time_max = if self.is_ending.load(Ordering::Relaxed) { time_max.min(ENDING_MAX) } else { time_max };
            if began.elapsed() >= time_max {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the server takes too long to answer"));
            }
            match self.socket.read(buffer) {
                Err(error) if is_no_end(&error) => {}
                read => return read,
            }
        }
    }
}

impl Write for TimedStream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.socket.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// Whether octets may come after an error.
fn is_no_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::{SocketAddr, TcpListener};
    use std::thread;

    use super::*;

    /// How long a client may take that has a tenth of a second: far less than the server takes for its record.
    pub(crate) const SOON: Duration = Duration::from_secs(30);

    /// Accepts a connection and serves it.
    pub(crate) fn server(serve: impl FnOnce(TcpStream) + Send + 'static) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || serve(listener.accept().expect("a connection").0));
        address
    }

    /// Sends the header of a record of TLS with 16 KiB (RFC 8446 section 5.1), and then an octet every few milliseconds.
    pub(crate) fn drip(stream: &mut TcpStream, content_type: u8) {
        let is_sent = stream.write_all(&[content_type, 3, 3, 0x40, 0]).is_ok();
        while is_sent && stream.write_all(&[0]).is_ok() {
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn reads_end_in_time_and_sooner_when_the_process_ends() {
        let address = server(|mut stream| drip(&mut stream, 22));
        let socket = TcpStream::connect(address).expect("a connection");
        let is_ending = Arc::<AtomicBool>::default();
        let mut stream = TimedStream::new(socket, Duration::from_millis(100), &is_ending).expect("a stream");
        let began = Instant::now();
        let error = stream.read_to_end(&mut Vec::new()).expect_err("it never ends");
        assert!(error.kind() == io::ErrorKind::TimedOut && began.elapsed() < SOON, "{error}");
        // the time of an answer is not over, and that of a process that ends is
        let earlier = Instant::now().checked_sub(ENDING_MAX).expect("a time");
        stream.set_limit(earlier, Duration::from_mins(5));
        assert_eq!(stream.read(&mut [0]).expect("an octet"), 1);
        is_ending.store(true, Ordering::Relaxed);
        assert_eq!(stream.read(&mut [0]).expect_err("it ends").kind(), io::ErrorKind::TimedOut);
    }
}
