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

/// What has come of a stream and is not handed on yet: less than one message, 65,534 octets at most.
#[derive(Debug, Default)]
pub struct Framing {
    unfinished: Vec<u8>,
}

impl Framing {
    /// Takes what has come. Returns the octets of all messages that are whole now, one after the other, and why there
    /// will be no more of them.
    pub fn push(&mut self, octets: &[u8]) -> (Vec<u8>, Option<FramingError>) {
        let mut held = std::mem::take(&mut self.unfinished);
        held.extend_from_slice(octets);
        let mut whole = 0;
        let problem = loop {
            let rest = held.get(whole..).unwrap_or_default();
            match next(rest) {
                Ok(Some(length)) if length <= rest.len() => whole += length,
                Ok(_) => break None,
                Err(problem) => break Some(problem),
            }
        };
        let rest = held.get(whole..).unwrap_or_default();
        if whole == 0 {
            // as much room as the message needs, however small the pieces that it comes in are
            let length = next(rest).ok().flatten().unwrap_or_default();
            held.reserve_exact(length.saturating_sub(held.len()));
            self.unfinished = held;
            return (Vec::new(), problem);
        }
        self.unfinished = rest.to_vec();
        held.truncate(whole);
        (held, problem)
    }

    /// Octets of a message that has begun.
    pub fn unfinished_octets(&self) -> usize {
        self.unfinished.len()
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
