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

impl StreamCounts {
    /// Adds what was found later.
    pub(super) fn add(&mut self, later: &Self) {
        self.messages += later.messages;
        self.octets_skipped += later.octets_skipped;
        self.octets_missing += later.octets_missing;
    }
}

/// Most sets that a search has in reserve: as many as octets of a message.
const SEARCH_MAX: usize = 1 << 16;

/// Octets of a stream that are not handed on yet.
#[derive(Debug, Default)]
pub(super) struct MessageFraming {
    /// Those that were read already come first: to move the others for each of them would take time.
    octets: Vec<u8>,
    /// How many of them were read.
    octets_read: usize,
    /// Whether a message begins at the first of the others.
    is_synchronized: bool,
    search: Search,
}

/// What the search for the begin of a message has found, and how much longer it may go on.
///
/// Data may look like many messages that begin one in the other, each with thousands of sets: whoever sends it has it looked
/// at again and again. So a set costs an octet of those that came, and where none is left all that is held is skipped. No
/// message costs more than it has, since a set has four octets.
#[derive(Debug, Default)]
struct Search {
    /// Octets of the message that would begin first, up to the first set that was not looked at; 0 before the first look.
    octets_walked: usize,
    /// Sets that may be looked at.
    sets_left: usize,
}

/// What the sets of a message look like, as far as they are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sets {
    /// They agree with its length.
    Fit,
    Wrong,
    /// Too much was looked at.
    Unknown,
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
        Self { is_synchronized: true, ..Self::default() }
    }

    /// Octets held: less than two messages and what came with the last octets.
    pub(super) fn octets_held(&self) -> usize {
        self.octets.len()
    }

    /// Takes the next octets, and hands on each message that is whole.
    pub(super) fn push(&mut self, octets: &[u8], counts: &mut StreamCounts, each: &mut dyn FnMut(&[u8])) {
        if octets.is_empty() {
            return;
        }
        self.search.sets_left = (self.search.sets_left + octets.len()).min(SEARCH_MAX);
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
        counts.octets_skipped += (self.octets.len() - self.octets_read) as u64;
        *self = Self::default();
    }

    fn read(&mut self, is_cut: bool, counts: &mut StreamCounts, each: &mut dyn FnMut(&[u8])) {
        let mut start = self.octets_read;
        loop {
            let rest = self.octets.get(start..).unwrap_or_default();
            let octets = match step(rest, self.is_synchronized, is_cut, &mut self.search) {
                Step::Message(length) => {
                    each(rest.get(..length).unwrap_or_default());
                    counts.messages += 1;
                    self.is_synchronized = true;
                    length
                }
                Step::Skip(octets) => {
                    counts.octets_skipped += octets as u64;
                    self.is_synchronized = false;
                    octets
                }
                Step::Wait => break,
            };
            start += octets;
            self.search.octets_walked = 0;
        }
        if start >= self.octets.len() {
            // many connections wait with nothing in hand
            self.octets = Vec::new();
            start = 0;
        } else if start > self.octets.len() / 2 {
            self.octets.drain(..start);
            start = 0;
        }
        self.octets_read = start;
    }
}

fn step(rest: &[u8], is_synchronized: bool, is_cut: bool, search: &mut Search) -> Step {
    match ipfix::message_length(rest) {
        _ if rest.is_empty() => Step::Wait,
        Some(length) if is_synchronized && length <= rest.len() => Step::Message(length),
        Some(_) if is_synchronized => {
            if is_cut {
                Step::Skip(rest.len())
            } else {
                Step::Wait
            }
        }
        Some(length) if length <= rest.len() || !is_cut => match search.look(rest, length) {
            Sets::Fit if length <= rest.len() => Step::Message(length),
            Sets::Fit => Step::Wait,
            Sets::Wrong => Step::Skip(octets_before_next(rest)),
            Sets::Unknown => Step::Skip(rest.len()),
        },
        None if !is_cut && rest.len() < 4 && ipfix::VERSION.to_be_bytes().starts_with(&rest[..rest.len().min(2)]) => {
            Step::Wait
        }
        _ => Step::Skip(octets_before_next(rest)),
    }
}

/// Octets up to the next one that a message may begin with, the first one left out.
fn octets_before_next(rest: &[u8]) -> usize {
    let first = ipfix::VERSION.to_be_bytes()[0];
    let next = rest.iter().skip(1).position(|octet| *octet == first);
    next.map_or(rest.len(), |distance| distance + 1)
}

impl Search {
    /// Whether a message of this length may begin here: the sets agree with it as far as they are there. Of a whole message
    /// they fill it to its end. Goes on behind those that were looked at before.
    fn look(&mut self, octets: &[u8], length: usize) -> Sets {
        if length <= ipfix::HEADER_LEN {
            return Sets::Wrong;
        }
        let here = octets.get(..length).unwrap_or(octets);
        let mut walked = self.octets_walked.max(ipfix::HEADER_LEN);
        while let [id_high, id_low, high, low, ..] = *here.get(walked..).unwrap_or_default() {
            if self.sets_left == 0 {
                return Sets::Unknown;
            }
            self.sets_left -= 1;
            let (id, set) = (u16::from_be_bytes([id_high, id_low]), usize::from(u16::from_be_bytes([high, low])));
            // RFC 7011 section 3.3.2: the others are not used, or reserved
            if !matches!(id, 2 | 3 | 256..) || set < 4 || set > length - walked {
                return Sets::Wrong;
            }
            walked += set;
        }
        self.octets_walked = walked;
        if walked == length || octets.len() < length { Sets::Fit } else { Sets::Wrong }
    }
}

/// Whether a message may begin here: version, length, and the sets agree as far as they are there. Of a whole message they
/// fill it to its end.
pub(in crate::capture) fn may_begin(octets: &[u8]) -> bool {
    let mut search = Search { octets_walked: 0, sets_left: octets.len() };
    ipfix::message_length(octets).is_some_and(|length| search.look(octets, length) == Sets::Fit)
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

    /// Sets of four octets behind a header, in a message of 65,535 octets.
    fn message_of_many_sets() -> Vec<u8> {
        let mut message = vec![0, 10, 0xff, 0xff];
        message.resize(16, 1);
        while message.len() < 65_528 {
            message.extend([1, 0, 0, 4]);
        }
        message.extend([1, 0, 0, 7, 9, 9, 9]);
        message
    }

    #[test]
    fn sets_are_looked_at_once_however_a_message_comes() {
        let message = message_of_many_sets();
        let (mut framing, mut counts, mut messages) = (MessageFraming::default(), StreamCounts::default(), 0);
        let mut push = |framing: &mut MessageFraming, octets: &[u8]| {
            framing.push(octets, &mut counts, &mut |_| messages += 1);
        };
        let (before, last) = message.split_at(message.len() - 1);
        for octet in before {
            push(&mut framing, &[*octet]);
        }
        // 16,379 sets, each of which costs one of the octets that came
        assert_eq!(framing.search.sets_left, before.len() - 16_379);
        // a segment that is sent again has no octets for the stream
        push(&mut framing, &[]);
        assert_eq!(framing.search.sets_left, before.len() - 16_379);
        push(&mut framing, last);
        assert_eq!(messages, 1);
    }

    #[test]
    fn a_search_ends_when_it_has_looked_at_more_than_came() {
        for length in [0xfff9_u16, 0x8000] {
            // each twelfth octet seems to begin a message, of whose sets the last one is too long
            let [high, low] = length.to_be_bytes();
            let octets = [1, 1, 1, 1, 0, 10, high, low, 1, 0, 0, 12].repeat(12_000);
            let (mut framing, mut counts, mut messages) = (MessageFraming::default(), StreamCounts::default(), 0);
            framing.push(&octets, &mut counts, &mut |_| messages += 1);
            assert_eq!((framing.octets_held(), counts.octets_skipped), (0, octets.len() as u64), "length {length}");
            framing.push(&message(30), &mut counts, &mut |_| messages += 1);
            assert_eq!(messages, 1, "what comes next is looked at");
        }
    }

    /// Each message that may begin fails where it ends, so that a few octets are skipped at a time.
    #[test]
    fn what_is_held_is_less_than_two_messages() {
        let octets = [&[0_u8, 10, 0xff, 0xff][..], &[1; 12], &[1, 0, 0xff, 0xe0]].concat().repeat(10_000);
        let (mut framing, mut counts) = (MessageFraming::default(), StreamCounts::default());
        for (piece, pushed) in octets.chunks(20).zip((20..).step_by(20)) {
            framing.push(piece, &mut counts, &mut |_| panic!("a message"));
            let held = framing.octets_held();
            assert!(held < 2 * 65_535, "{held}");
            assert_eq!(counts.octets_skipped as usize + held - framing.octets_read, pushed);
        }
        framing.clear(&mut counts);
        assert_eq!((framing.octets_held(), counts.octets_skipped), (0, octets.len() as u64));
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
