//! IPFIX files (RFC 5655): messages one after the other.
//!
//! The length of a message says where the next one begins, so a wrong length would cost the rest of the file. The reader
//! looks for the next place where two messages follow one another instead, unless the sets of the message fill it exactly: what is
//! between is skipped and counted. A
//! file says neither who exported its messages nor when they were received: the time of export takes the place of the latter.

use std::io::{self, Read};

use weir_wire::ipfix;

/// Octets held at least, unless the file ends: a message, the one behind it, and enough to look for another.
const WINDOW_OCTETS: usize = 512 << 10;

/// What a file contained.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MessageFileReport {
    /// Messages delivered.
    pub messages: u64,
    /// Those among them that were cut off where another began, or by the end of the file.
    pub messages_damaged: u64,
    /// Octets that belong to no message.
    pub octets_skipped: u64,
    /// Octets read.
    pub octets: u64,
    /// Where in the file the message begins within which it ends.
    pub cut_short_at: Option<u64>,
}

/// A file of messages being read.
#[derive(Debug)]
pub struct MessageFile<R> {
    input: R,
    buffer: Vec<u8>,
    /// Where in the buffer reading goes on.
    start: usize,
    /// Up to where in the buffer no two messages follow one another; looking once is enough.
    barren: usize,
    ended: bool,
    report: MessageFileReport,
}

/// What to do at a place of the file.
enum Step {
    /// Deliver `octets`, and skip `skipped` behind them.
    Message { octets: usize, skipped: usize, damaged: bool },
    /// No message begins in this many octets.
    Skip(usize),
}

/// Whether a file with these first octets is one of messages.
pub fn looks_like_messages(first: &[u8]) -> bool {
    ipfix::message_length(first).is_some()
}

/// The time of export of a message, in milliseconds since the epoch.
pub fn export_ms(message: &[u8]) -> i64 {
    let secs = message.get(4..8).and_then(|octets| octets.try_into().ok()).map_or(0, u32::from_be_bytes);
    i64::from(secs) * 1000
}

impl<R: Read> MessageFile<R> {
    /// Begins to read.
    pub fn new(input: R) -> Self {
        let (buffer, report) = (Vec::new(), MessageFileReport::default());
        Self { input, buffer, start: 0, barren: 0, ended: false, report }
    }

    /// What was read so far.
    pub fn report(&self) -> MessageFileReport {
        self.report
    }

    /// The next message, or `None` at the end. One that is cut off is delivered as far as it goes.
    pub fn next_message(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            self.fill()?;
            if self.start == self.buffer.len() {
                return Ok(None);
            }
            match self.step() {
                Step::Message { octets, skipped, damaged } => {
                    let begin = self.start;
                    self.start += octets + skipped;
                    self.report.messages += 1;
                    self.report.messages_damaged += u64::from(damaged);
                    self.report.octets_skipped += skipped as u64;
                    return Ok(self.buffer.get(begin..begin + octets));
                }
                Step::Skip(octets) => {
                    self.start += octets;
                    self.report.octets_skipped += octets as u64;
                }
            }
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        if self.ended || self.buffer.len() - self.start >= WINDOW_OCTETS {
            return Ok(());
        }
        self.buffer.drain(..self.start);
        self.barren = self.barren.saturating_sub(self.start);
        self.start = 0;
        let wanted = 2 * WINDOW_OCTETS - self.buffer.len();
        let got = self.input.by_ref().take(wanted as u64).read_to_end(&mut self.buffer)?;
        self.report.octets += got as u64;
        self.ended = got < wanted;
        Ok(())
    }

    fn step(&mut self) -> Step {
        let rest = self.buffer.get(self.start..).unwrap_or_default();
        let stated = ipfix::message_length(rest);
        if let Some(octets) = stated
            && (octets == rest.len() && self.ended
                || rest.get(octets..).is_some_and(begins)
                || rest.get(..octets).is_some_and(is_whole))
        {
            return Step::Message { octets, skipped: 0, damaged: false };
        }
        // the length is wrong, or what is behind the message is none
        let next = self.find();
        let rest = self.buffer.len() - self.start;
        match (stated, next) {
            (Some(octets), Some(next)) if octets <= next => {
                Step::Message { octets, skipped: next - octets, damaged: false }
            }
            (Some(_), Some(next)) => Step::Message { octets: next, skipped: 0, damaged: true },
            (Some(octets), None) if octets <= rest => Step::Message { octets, skipped: 0, damaged: false },
            (Some(_), None) => {
                self.report.cut_short_at = Some(self.place());
                Step::Message { octets: rest, skipped: 0, damaged: true }
            }
            (None, Some(next)) => Step::Skip(next),
            // what may be the beginning of a message stays for the next look
            (None, None) if self.ended => {
                if self.is_version_alone() {
                    self.report.cut_short_at = Some(self.place());
                }
                Step::Skip(rest)
            }
            (None, None) => Step::Skip(self.barren.saturating_sub(self.start).max(1)),
        }
    }

    /// Where in the file reading goes on.
    fn place(&self) -> u64 {
        self.report.octets - (self.buffer.len() - self.start) as u64
    }

    /// Whether all that is left is the version of a message, and less than its length.
    fn is_version_alone(&self) -> bool {
        let rest = self.buffer.get(self.start..).unwrap_or_default();
        rest.len() < 4 && rest.starts_with(&ipfix::VERSION.to_be_bytes())
    }

    /// How far away the next place is where two messages follow one another, or the last one of the file.
    fn find(&mut self) -> Option<usize> {
        let from = self.barren.max(self.start + 1);
        for at in from..self.buffer.len() {
            let rest = self.buffer.get(at..)?;
            let Some(octets) = ipfix::message_length(rest).filter(|_| begins(rest)) else { continue };
            let is_followed = match rest.get(octets..) {
                Some([]) => self.ended,
                Some(behind) => behind.len() >= 4 && begins(behind),
                None => false,
            };
            if is_followed {
                return Some(at - self.start);
            }
            if !self.ended && octets + 4 > rest.len() {
                // this cannot be decided before more is read
                self.barren = at;
                return None;
            }
        }
        self.barren = self.buffer.len().saturating_sub(3).max(self.start);
        None
    }
}

/// Whether the sets of a message fill it to its end: then its length is right, whatever is behind it.
fn is_whole(message: &[u8]) -> bool {
    let mut sets = message.get(ipfix::HEADER_LEN..).unwrap_or_default();
    while let [id_high, id_low, high, low, ..] = *sets {
        let (id, length) = (u16::from_be_bytes([id_high, id_low]), usize::from(u16::from_be_bytes([high, low])));
        if id < 2 || length < 4 || length > sets.len() {
            return false;
        }
        sets = &sets[length..];
    }
    sets.is_empty() && message.len() > ipfix::HEADER_LEN
}

/// Whether a message may begin here: version, length, and the header of its first set agree.
fn begins(octets: &[u8]) -> bool {
    let Some(length) = ipfix::message_length(octets) else { return false };
    let Some(set) = octets.get(ipfix::HEADER_LEN..ipfix::HEADER_LEN + 4) else {
        return length == ipfix::HEADER_LEN || octets.len() < ipfix::HEADER_LEN + 4;
    };
    let number = |at: usize| u16::from_be_bytes([set[at], set[at + 1]]);
    // RFC 7011 section 3.3.2: 0 and 1 are not used; those up to 255 may be some day
    length == ipfix::HEADER_LEN || number(0) > 1 && (4..=length - ipfix::HEADER_LEN).contains(&usize::from(number(2)))
}
