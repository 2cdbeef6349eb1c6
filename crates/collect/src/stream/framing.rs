//! Messages out of a stream of octets (RFC 7011 section 10.4).
//!
//! The length field of each message says where the next one begins, and nothing else does: a length that cannot be, or
//! a version that is not IPFIX, is the end of what can be read. What came before it is kept.

use weir_wire::ipfix;

/// Why a stream cannot be read any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FramingError {
    /// Where a message should begin there is something else.
    WrongVersion,
    /// The length of a message is shorter than its header.
    MessageLength,
}

/// Octets of a piece in which an unfinished message is kept. A message of 65,535 octets in one piece would make the allocator
/// set half a mebibyte apart in each thread.
const PIECE_OCTETS: usize = 4096;

/// What has come of a stream and is not handed on yet: less than one message, 65,534 octets at most.
#[derive(Debug, Default)]
pub struct Framing {
    /// All but the last are full.
    pieces: Vec<Vec<u8>>,
    octets: usize,
    /// Of the message, once enough of it has come to know.
    length: Option<usize>,
}

impl Framing {
    /// Takes what has come. Returns the octets of all messages that are whole now, one after the other, and why there
    /// will be no more of them.
    pub fn push(&mut self, mut octets: &[u8]) -> (Vec<u8>, Option<FramingError>) {
        let mut whole = Vec::new();
        if self.octets > 0 {
            match self.finish(&mut octets) {
                Ok(Some(message)) => whole = message,
                Ok(None) => return (whole, None),
                Err(problem) => return (whole, Some(problem)),
            }
        }
        let mut end = 0;
        let problem = loop {
            let rest = octets.get(end..).unwrap_or_default();
            match next(rest) {
                Ok(Some(length)) if length <= rest.len() => end += length,
                Ok(length) => {
                    self.length = length;
                    break None;
                }
                Err(problem) => break Some(problem),
            }
        };
        let (messages, rest) = octets.split_at(end);
        whole.extend_from_slice(messages);
        self.keep(rest);
        (whole, problem)
    }

    /// Octets of a message that has begun.
    pub fn unfinished_octets(&self) -> usize {
        self.octets
    }

    /// Takes what the unfinished message lacks off the front. Returns it when it is whole.
    fn finish(&mut self, octets: &mut &[u8]) -> Result<Option<Vec<u8>>, FramingError> {
        while self.length.is_none() {
            let Some((first, rest)) = octets.split_at_checked(1) else { return Ok(None) };
            self.keep(first);
            *octets = rest;
            self.length = next(self.pieces.first().map_or(&[], Vec::as_slice))?;
        }
        let lacking = self.length.unwrap_or_default().saturating_sub(self.octets);
        let (more, rest) = octets.split_at(lacking.min(octets.len()));
        *octets = rest;
        if more.len() < lacking {
            self.keep(more);
            return Ok(None);
        }
        let mut message = Vec::with_capacity(self.octets + lacking);
        self.pieces.drain(..).for_each(|piece| message.extend(piece));
        message.extend_from_slice(more);
        (self.octets, self.length) = (0, None);
        Ok(Some(message))
    }

    /// Keeps the beginning of a message, or more of it.
    fn keep(&mut self, mut octets: &[u8]) {
        self.octets += octets.len();
        while !octets.is_empty() {
            match self.pieces.last_mut().filter(|piece| piece.len() < PIECE_OCTETS) {
                Some(piece) => {
                    let (more, rest) = octets.split_at(octets.len().min(PIECE_OCTETS - piece.len()));
                    piece.extend_from_slice(more);
                    octets = rest;
                }
                None => self.pieces.push(Vec::with_capacity(octets.len().min(PIECE_OCTETS))),
            }
        }
    }
}

/// The length of the message that begins here, if enough of it has come to know.
fn next(rest: &[u8]) -> Result<Option<usize>, FramingError> {
    let version = ipfix::VERSION.to_be_bytes();
    if rest.iter().zip(version).any(|(found, expected)| *found != expected) {
        return Err(FramingError::WrongVersion);
    }
    match ipfix::message_length(rest) {
        None if rest.len() >= 4 => Err(FramingError::MessageLength),
        length => Ok(length),
    }
}

/// The messages in octets that [`Framing::push`] has returned.
pub fn messages(mut octets: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (message, rest) = octets.split_at_checked(ipfix::message_length(octets)?)?;
        octets = rest;
        Some(message)
    })
}
