//! User messages put together from their fragments (RFC 9260 section 6.9, RFC 8260 section 2.2).
//!
//! Fragments come here in the order in which they were sent, so the next one of a message is the one that the capture has, or it
//! is lost and the message with it. A stream has one unfinished message of each kind, ordered and unordered: a sender
//! begins no other before the end of it.

use std::borrow::Cow;

use crate::capture::sctp::FragmentHeader;

/// Most unfinished messages; the oldest is dropped for another.
const UNFINISHED_MAX: usize = 16;
/// Most octets of a message in fragments: as many as a message of IPFIX has.
const MESSAGE_OCTETS_MAX: usize = 65_535;

/// What was found in an association.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct AssociationCounts {
    /// Messages of IPFIX.
    pub(super) messages: u64,
    /// Octets that belong to no message of IPFIX.
    pub(super) octets_skipped: u64,
    /// Chunks that were not captured.
    pub(super) chunks_missing: u64,
}

impl AssociationCounts {
    /// Adds what was found later.
    pub(super) fn add(&mut self, later: &Self) {
        self.messages += later.messages;
        self.octets_skipped += later.octets_skipped;
        self.chunks_missing += later.chunks_missing;
    }
}

/// The user messages of an association of which fragments have come.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    /// The oldest first.
    unfinished: Vec<Unfinished>,
    octets: usize,
}

#[derive(Debug)]
struct Unfinished {
    stream: u16,
    is_unordered: bool,
    message: u32,
    /// Number of the fragment that comes next.
    next: u32,
    octets: Vec<u8>,
}

impl Fragments {
    /// Octets held.
    pub(super) fn octets_held(&self) -> usize {
        self.octets
    }

    /// Takes the next chunk. Returns the user message that ends with it.
    pub(super) fn push<'a>(
        &mut self,
        header: &FragmentHeader,
        payload: &'a [u8],
        counts: &mut AssociationCounts,
    ) -> Option<Cow<'a, [u8]>> {
        let is_of = |known: &Unfinished| (known.stream, known.is_unordered) == (header.stream, header.is_unordered);
        let place = self.unfinished.iter().position(is_of);
        if header.begins {
            if let Some(place) = place {
                self.drop_at(place, counts);
            }
            if header.ends {
                return Some(Cow::Borrowed(payload));
            }
            self.begin(header, payload, counts);
            return None;
        }
        let Some(place) = place else {
            counts.octets_skipped += payload.len() as u64;
            return None;
        };
        let known = &mut self.unfinished[place];
        let is_next = (known.message, known.next) == (header.message, header.fragment);
        if !is_next || known.octets.len() + payload.len() > MESSAGE_OCTETS_MAX {
            counts.octets_skipped += payload.len() as u64;
            self.drop_at(place, counts);
            return None;
        }
        known.octets.extend_from_slice(payload);
        known.next = header.fragment.wrapping_add(1);
        self.octets += payload.len();
        if !header.ends {
            return None;
        }
        let whole = self.unfinished.remove(place).octets;
        self.octets -= whole.len();
        Some(Cow::Owned(whole))
    }

    /// Drops all that is held.
    pub(super) fn clear(&mut self, counts: &mut AssociationCounts) {
        counts.octets_skipped += self.octets as u64;
        *self = Self::default();
    }

    fn begin(&mut self, header: &FragmentHeader, payload: &[u8], counts: &mut AssociationCounts) {
        if self.unfinished.len() >= UNFINISHED_MAX {
            self.drop_at(0, counts);
        }
        self.octets += payload.len();
        self.unfinished.push(Unfinished {
            stream: header.stream,
            is_unordered: header.is_unordered,
            message: header.message,
            next: header.fragment.wrapping_add(1),
            octets: payload.to_vec(),
        });
    }

    fn drop_at(&mut self, place: usize, counts: &mut AssociationCounts) {
        let octets = self.unfinished.remove(place).octets.len();
        self.octets -= octets;
        counts.octets_skipped += octets as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Reader {
        fragments: Fragments,
        counts: AssociationCounts,
    }

    /// Begin, middle, end, and a whole message.
    const B: (bool, bool) = (true, false);
    const M: (bool, bool) = (false, false);
    const E: (bool, bool) = (false, true);
    const WHOLE: (bool, bool) = (true, true);

    impl Reader {
        fn new() -> Self {
            Self { fragments: Fragments::default(), counts: AssociationCounts::default() }
        }

        /// Takes a fragment, by its stream, its message and its number.
        fn push(&mut self, (begins, ends): (bool, bool), numbers: (u16, u32, u32), payload: &[u8]) -> Option<Vec<u8>> {
            let (stream, message, fragment) = numbers;
            let header = FragmentHeader { stream, is_unordered: false, begins, ends, message, fragment };
            self.fragments.push(&header, payload, &mut self.counts).map(Cow::into_owned)
        }
    }

    #[test]
    fn fragments_follow_one_another() {
        let mut reader = Reader::new();
        assert_eq!(reader.push(WHOLE, (0, 1, 7), b"abc"), Some(b"abc".to_vec()));
        // across the wrap of the numbers
        assert_eq!(reader.push(B, (0, 2, u32::MAX - 1), b"ab"), None);
        assert_eq!(reader.push(M, (0, 2, u32::MAX), b"c"), None);
        assert_eq!(reader.push(E, (0, 2, 0), b"de"), Some(b"abcde".to_vec()));
        assert_eq!((reader.counts, reader.fragments.octets_held()), (AssociationCounts::default(), 0));
    }

    /// RFC 8260: messages of other streams come between.
    #[test]
    fn messages_of_several_streams_are_interleaved() {
        let mut reader = Reader::new();
        reader.push(B, (0, 1, 0), b"a");
        reader.push(B, (1, 1, 0), b"x");
        assert_eq!(reader.push(WHOLE, (2, 1, 0), b"!"), Some(b"!".to_vec()));
        assert_eq!(reader.push(E, (0, 1, 1), b"b"), Some(b"ab".to_vec()));
        assert_eq!(reader.push(E, (1, 1, 1), b"y"), Some(b"xy".to_vec()));
    }

    #[test]
    fn a_message_without_one_of_its_fragments_is_skipped() {
        let mut reader = Reader::new();
        // no begin
        assert_eq!(reader.push(E, (0, 1, 4), b"a"), None);
        assert_eq!(reader.counts.octets_skipped, 1);
        // no middle
        reader.push(B, (0, 2, 5), b"ab");
        assert_eq!(reader.push(E, (0, 2, 7), b"c"), None);
        assert_eq!(reader.counts.octets_skipped, 4);
        // no end, before a message that begins, and before the rest of another one
        reader.push(B, (0, 3, 8), b"ab");
        assert_eq!(reader.push(WHOLE, (0, 4, 10), b"cd"), Some(b"cd".to_vec()));
        assert_eq!(reader.counts.octets_skipped, 6);
        reader.push(B, (0, 5, 0), b"ab");
        assert_eq!(reader.push(E, (0, 6, 1), b"c"), None);
        assert_eq!((reader.counts.octets_skipped, reader.fragments.octets_held()), (9, 0));
    }

    #[test]
    fn what_is_unfinished_is_limited() {
        let mut reader = Reader::new();
        let long = vec![7; 40_000];
        for stream in 0..1_000 {
            reader.push(B, (stream, 1, 0), &long);
            assert!(reader.fragments.octets_held() <= UNFINISHED_MAX * MESSAGE_OCTETS_MAX);
        }
        assert_eq!(reader.counts.octets_skipped, (1_000 - UNFINISHED_MAX as u64) * 40_000);
        // no message of IPFIX is longer than 65,535 octets
        reader.counts = AssociationCounts::default();
        assert_eq!(reader.push(M, (999, 1, 1), &long), None);
        assert_eq!(reader.counts.octets_skipped, 80_000);
        assert_eq!(
            reader.push(E, (998, 1, 1), &vec![7; 25_535]).map(|message| message.len()),
            Some(MESSAGE_OCTETS_MAX)
        );
        reader.fragments.clear(&mut reader.counts);
        assert_eq!(reader.counts.octets_skipped, 80_000 + 14 * 40_000);
        assert_eq!(reader.fragments.octets_held(), 0);
    }
}
