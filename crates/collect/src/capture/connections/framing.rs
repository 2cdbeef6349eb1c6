//! Messages out of what was captured of a stream (RFC 7011 section 10.4), of which the begin or a part may be missing.
//!
//! The length of a message says where the next one begins. Where that is not known, a message is looked for whose sets fill
//! it to its end: version and length alone are four octets that other data has, too. What speaks against it: a message
//! with a wrong set is skipped there, which a collector that saw the connection from its begin would have read in part.

use weir_wire::ipfix;

/// What was found in a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct StreamCounts {
    /// Messages.
    pub(super) messages: u64,
    /// Octets that belong to no whole message.
    pub(super) octets_skipped: u64,
    /// Octets that were not captured.
    pub(super) octets_missing: u64,
}

/// Octets of a stream that are not handed on yet.
#[derive(Debug, Default)]
pub(super) struct MessageFraming {
    octets: Vec<u8>,
    /// Whether a message begins at the first of them.
    is_synchronized: bool,
}

/// What to do with the first octets.
enum Step {
    /// Hand on a message of so many octets.
    Message(usize),
    /// No message begins in so many octets.
    Skip(usize),
    /// More has to come first.
    Wait,
}

impl MessageFraming {
    /// For a stream whose first octets begin a message.
    pub(super) fn synchronized() -> Self {
        Self { octets: Vec::new(), is_synchronized: true }
    }

    /// Octets held: less than a message and what came with its last octets.
    pub(super) fn octets_held(&self) -> usize {
        self.octets.len()
    }

    /// Takes the next octets, and hands on each message that is whole.
    pub(super) fn push(&mut self, octets: &[u8], counts: &mut StreamCounts, each: &mut dyn FnMut(&[u8])) {
        self.octets.extend_from_slice(octets);
        self.read(false, counts, each);
    }

    /// Ends what is held: what follows is not known, or nothing does.
    pub(super) fn cut(&mut self, counts: &mut StreamCounts, each: &mut dyn FnMut(&[u8])) {
        self.read(true, counts, each);
        self.is_synchronized = false;
    }

    /// Drops what is held.
    pub(super) fn clear(&mut self, counts: &mut StreamCounts) {
        counts.octets_skipped += self.octets.len() as u64;
        *self = Self::default();
    }

    fn read(&mut self, is_cut: bool, counts: &mut StreamCounts, each: &mut dyn FnMut(&[u8])) {
        let mut start = 0;
        loop {
            let rest = self.octets.get(start..).unwrap_or_default();
            match step(rest, self.is_synchronized, is_cut) {
                Step::Message(length) => {
                    each(rest.get(..length).unwrap_or_default());
                    counts.messages += 1;
                    self.is_synchronized = true;
                    start += length;
                }
                Step::Skip(octets) => {
                    counts.octets_skipped += octets as u64;
                    self.is_synchronized = false;
                    start += octets;
                }
                Step::Wait => break,
            }
        }
        if start < self.octets.len() {
            self.octets.drain(..start);
        } else {
            // many connections wait with nothing in hand
            self.octets = Vec::new();
        }
    }
}

fn step(rest: &[u8], is_synchronized: bool, is_cut: bool) -> Step {
    match ipfix::message_length(rest) {
        _ if rest.is_empty() => Step::Wait,
        Some(length) if length <= rest.len() => {
            if is_synchronized || may_begin(rest) {
                Step::Message(length)
            } else {
                Step::Skip(1)
            }
        }
        Some(_) if is_synchronized => {
            if is_cut {
                Step::Skip(rest.len())
            } else {
                Step::Wait
            }
        }
        Some(_) if !is_cut && may_begin(rest) => Step::Wait,
        None if !is_cut && rest.len() < 4 && ipfix::VERSION.to_be_bytes().starts_with(&rest[..rest.len().min(2)]) => {
            Step::Wait
        }
        _ => {
            let first = ipfix::VERSION.to_be_bytes()[0];
            let next = rest.iter().skip(1).position(|octet| *octet == first);
            Step::Skip(next.map_or(rest.len(), |distance| distance + 1))
        }
    }
}

/// Whether a message may begin here: version, length, and the sets agree as far as they are there. Of a whole message they
/// fill it to its end.
pub(super) fn may_begin(octets: &[u8]) -> bool {
    let Some(length) = ipfix::message_length(octets) else { return false };
    let mut sets = octets.get(ipfix::HEADER_LEN..length.min(octets.len())).unwrap_or_default();
    let mut left = length - ipfix::HEADER_LEN;
    if left == 0 {
        return false;
    }
    while let [id_high, id_low, high, low, ..] = *sets {
        let (id, set) = (u16::from_be_bytes([id_high, id_low]), usize::from(u16::from_be_bytes([high, low])));
        // RFC 7011 section 3.3.2: the others are not used, or reserved
        if !matches!(id, 2 | 3 | 256..) || set < 4 || set > left {
            return false;
        }
        left -= set;
        sets = sets.get(set..).unwrap_or_default();
    }
    left == 0 || octets.len() < length
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of one set with so many octets behind its header.
    fn message(octets: usize) -> Vec<u8> {
        let mut message = vec![0, 10, 0, (20 + octets) as u8, 0x65, 0x53, 0xf1, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        message.extend([1, 0, 0, (4 + octets) as u8]);
        message.resize(20 + octets, 7);
        message
    }

    /// What comes of these pieces; the stream is cut behind the last one.
    fn read(mut framing: MessageFraming, pieces: &[&[u8]]) -> (Vec<Vec<u8>>, StreamCounts) {
        let (mut messages, mut counts) = (Vec::new(), StreamCounts::default());
        for piece in pieces {
            framing.push(piece, &mut counts, &mut |message| messages.push(message.to_vec()));
        }
        framing.cut(&mut counts, &mut |message| messages.push(message.to_vec()));
        assert_eq!((framing.octets_held(), counts.messages), (0, messages.len() as u64));
        (messages, counts)
    }

    #[test]
    fn messages_begin_where_the_one_before_ends() {
        let (one, other) = (message(5), message(9));
        let stream = [one.as_slice(), &other].concat();
        for at in 0..=stream.len() {
            let (first, second) = stream.split_at(at);
            for framing in [MessageFraming::default(), MessageFraming::synchronized()] {
                let (messages, counts) = read(framing, &[first, second]);
                assert_eq!((messages, counts.octets_skipped), (vec![one.clone(), other.clone()], 0), "cut at {at}");
            }
        }
    }

    #[test]
    fn the_begin_of_a_message_is_found_behind_other_octets() {
        let whole = message(30);
        // version and length as in the middle of a message, whose sets do not fit
        let other = [&[7, 0, 0, 10, 0, 10, 0, 40][..], &[9; 20]].concat();
        let (messages, counts) = read(MessageFraming::default(), &[&other, &whole, &whole]);
        assert_eq!((messages, counts.octets_skipped), (vec![whole.clone(), whole.clone()], other.len() as u64));
        // nothing shows that this is none before the stream is cut
        let longer = [0, 10, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0x30, 0];
        let (messages, counts) = read(MessageFraming::default(), &[&longer, &whole]);
        assert_eq!((messages, counts.octets_skipped), (vec![whole], longer.len() as u64));
    }

    #[test]
    fn what_is_cut_off_is_skipped() {
        let whole = message(30);
        let (messages, counts) = read(MessageFraming::synchronized(), &[&whole, &whole[..25]]);
        assert_eq!((messages, counts.octets_skipped), (vec![whole], 25));
    }

    #[test]
    fn a_message_with_a_wrong_set_is_one_where_messages_are_known_to_begin() {
        let (mut wrong, whole) = (message(30), message(5));
        wrong[19] = 3;
        let (messages, counts) = read(MessageFraming::synchronized(), &[&wrong, &whole]);
        assert_eq!((messages.len(), counts.octets_skipped), (2, 0));
        let (messages, counts) = read(MessageFraming::default(), &[&wrong, &whole]);
        assert_eq!((messages, counts.octets_skipped), (vec![whole], wrong.len() as u64));
    }

    #[test]
    fn sets_have_to_agree_with_the_length() {
        let whole = message(12);
        assert!((20..=whole.len()).all(|length| may_begin(&whole[..length])));
        // version, length, the set's ID and its length
        for (at, octet) in [(1, 9), (3, 31), (3, 33), (16, 0), (19, 3), (19, 17), (19, 15)] {
            let mut other = whole.clone();
            other[at] = octet;
            assert!(!may_begin(&[other.as_slice(), &[0; 8]].concat()), "{octet} at {at}");
        }
    }
}
