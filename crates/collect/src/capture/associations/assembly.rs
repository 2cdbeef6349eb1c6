//! One direction of an association put together by its Transmission Sequence Numbers (RFC 9260 section 6).
//!
//! Chunks are read in the order in which they were sent, whatever stream they are of: a receiver has each stream in that order,
//! and hands on no chunk before one that precedes it in its stream. What speaks against it: a chunk that is missing holds up
//! other streams, too. It is given up after a time, or when too much waits for it: a capture may have missed what the receiver
//! got. Places are chunks from the first one that is known; numbers wrap, places do not.

use std::collections::BTreeMap;

use weir_wire::ipfix;

use super::fragments::{AssociationCounts, Fragments};
use crate::capture::connections::may_begin;
use crate::capture::sctp::{DataChunk, FragmentHeader};

/// Most octets that wait for a chunk that is missing.
const AHEAD_OCTETS_MAX: usize = 1 << 20;
/// Most chunks of them.
const AHEAD_CHUNKS_MAX: usize = 4096;
/// What a chunk takes in addition to its octets: its place in a tree whose nodes may be half empty, and an allocation.
const CHUNK_OCTETS: usize = 160;
/// Longest time that they wait, by the times of capture, in milliseconds: by then a sender has sent again what was lost
/// (RFC 9260 section 6.3.1).
const GAP_WAIT_MS: i64 = 60_000;
/// Chunks before the next one that are taken for chunks sent again, and most chunks that a sender gives up at once. What seems
/// to be further behind is ahead, and the numbers have wrapped.
pub(super) const CHUNKS_NEAR: u32 = 1 << 16;

/// Takes each message of IPFIX, and when it was captured.
pub(super) type EachMessage<'a> = dyn FnMut(i64, &[u8]) + 'a;

/// The chunks of an association.
#[derive(Debug)]
pub(super) struct Assembly {
    /// TSN of the first chunk.
    first: u32,
    /// Place of the next chunk to be read.
    next: i64,
    /// What came of places after it, by place.
    ahead: BTreeMap<i64, WaitingChunk>,
    ahead_octets: usize,
    /// When the oldest of them began to wait.
    gap_since_ms: i64,
    fragments: Fragments,
    /// Whether its user messages are known to be exports.
    is_export: bool,
}

/// A chunk that came before others that precede it.
#[derive(Debug)]
struct WaitingChunk {
    captured_ms: i64,
    header: FragmentHeader,
    payload: Vec<u8>,
}

impl Assembly {
    /// An association whose first chunk has this TSN. Unless it is known to be an export, the first user message has to show it.
    pub(super) fn new(first: u32, is_export: bool) -> Self {
        let (ahead, fragments) = (BTreeMap::new(), Fragments::default());
        Self { first, next: 0, ahead, ahead_octets: 0, gap_since_ms: 0, fragments, is_export }
    }

    /// Whether nothing of it has come.
    pub(super) fn is_untouched(&self) -> bool {
        self.next == 0 && self.ahead.is_empty()
    }

    /// Octets held, with what it takes to hold them.
    pub(super) fn octets_held(&self) -> usize {
        self.ahead_octets + self.ahead.len() * CHUNK_OCTETS + self.fragments.octets_held()
    }

    /// Takes a chunk, and hands on what is whole with it.
    pub(super) fn add(
        &mut self,
        chunk: &DataChunk<'_>,
        captured_ms: i64,
        counts: &mut AssociationCounts,
        each: &mut EachMessage<'_>,
    ) {
        let place = self.place(chunk.tsn);
        if !self.ahead.is_empty() && captured_ms - self.gap_since_ms >= GAP_WAIT_MS {
            self.give_up_gap(counts, each);
        }
        if place < self.next {
            return;
        }
        if place == self.next && self.ahead.is_empty() {
            self.read(&chunk.header, chunk.payload, captured_ms, counts, each);
        } else {
            if self.ahead.is_empty() {
                self.gap_since_ms = captured_ms;
            }
            self.keep(place, chunk, captured_ms);
            self.read_ahead(captured_ms, counts, each);
        }
        while self.ahead_octets > AHEAD_OCTETS_MAX || self.ahead.len() > AHEAD_CHUNKS_MAX {
            self.give_up_gap(counts, each);
        }
    }

    /// The sender gives up all chunks up to this one that have not come (RFC 3758 section 3.6).
    pub(super) fn forward(
        &mut self,
        tsn: u32,
        captured_ms: i64,
        counts: &mut AssociationCounts,
        each: &mut EachMessage<'_>,
    ) {
        let next = self.place(tsn) + 1;
        if next <= self.next || next - self.next > i64::from(CHUNKS_NEAR) {
            return;
        }
        while let Some((&place, _)) = self.ahead.first_key_value()
            && place < next
        {
            self.go_to(place, counts, each);
        }
        self.next = self.next.max(next);
        self.gap_since_ms = captured_ms;
        self.read_ahead(captured_ms, counts, each);
    }

    /// Hands on all that can be read without what is missing.
    pub(super) fn finish(&mut self, counts: &mut AssociationCounts, each: &mut EachMessage<'_>) {
        while !self.ahead.is_empty() {
            self.give_up_gap(counts, each);
        }
        self.fragments.clear(counts);
    }

    /// Drops what is held.
    pub(super) fn clear(&mut self, counts: &mut AssociationCounts) {
        self.fragments.clear(counts);
        if let Some((&last, _)) = self.ahead.last_key_value() {
            counts.chunks_missing += (last + 1 - self.next) as u64 - self.ahead.len() as u64;
            counts.octets_skipped += self.ahead_octets as u64;
            self.next = last + 1;
        }
        self.ahead.clear();
        self.ahead_octets = 0;
    }

    /// Place of the chunk with this TSN.
    fn place(&self, tsn: u32) -> i64 {
        let behind = self.first.wrapping_add(self.next as u32).wrapping_sub(tsn);
        if behind <= CHUNKS_NEAR { self.next - i64::from(behind) } else { self.next + i64::from(behind.wrapping_neg()) }
    }

    /// Keeps a chunk that comes later, unless it is there.
    fn keep(&mut self, place: i64, chunk: &DataChunk<'_>, captured_ms: i64) {
        self.ahead.entry(place).or_insert_with(|| {
            self.ahead_octets += chunk.payload.len();
            WaitingChunk { captured_ms, header: chunk.header, payload: chunk.payload.to_vec() }
        });
    }

    /// Reads what was ahead and is next now.
    fn read_ahead(&mut self, mut captured_ms: i64, counts: &mut AssociationCounts, each: &mut EachMessage<'_>) {
        let mut is_first = true;
        while let Some(entry) = self.ahead.first_entry() {
            if *entry.key() > self.next {
                if !is_first {
                    self.gap_since_ms = captured_ms;
                }
                break;
            }
            let chunk = entry.remove();
            self.ahead_octets -= chunk.payload.len();
            // it was received when what it waited for was
            captured_ms = captured_ms.max(chunk.captured_ms);
            self.read(&chunk.header, &chunk.payload, captured_ms, counts, each);
            is_first = false;
        }
    }

    /// Reads the next chunk.
    fn read(
        &mut self,
        header: &FragmentHeader,
        payload: &[u8],
        captured_ms: i64,
        counts: &mut AssociationCounts,
        each: &mut EachMessage<'_>,
    ) {
        self.next += 1;
        let Some(message) = self.fragments.push(header, payload, counts) else { return };
        self.is_export |= is_message(&message);
        if self.is_export {
            read_user_message(&message, captured_ms, counts, each);
        } else {
            counts.octets_skipped += message.len() as u64;
        }
    }

    /// Goes on behind the chunks that are missing first.
    fn give_up_gap(&mut self, counts: &mut AssociationCounts, each: &mut EachMessage<'_>) {
        let Some((&place, _)) = self.ahead.first_key_value() else { return };
        counts.chunks_missing += (place - self.next) as u64;
        self.go_to(place, counts, each);
    }

    /// Goes on with the first chunk that waits, which has this place.
    fn go_to(&mut self, place: i64, counts: &mut AssociationCounts, each: &mut EachMessage<'_>) {
        let captured_ms = self.ahead.get(&place).map_or(0, |chunk| chunk.captured_ms);
        self.next = place;
        self.read_ahead(captured_ms, counts, each);
    }
}

/// Whether a user message begins with a message whose sets fill it.
pub(in crate::capture) fn is_message(octets: &[u8]) -> bool {
    ipfix::message_length(octets).is_some_and(|length| length <= octets.len()) && may_begin(octets)
}

/// Hands on the messages in a user message: one as a rule, but a receiver would read several as it reads a stream. Of one that
/// says that it is longer the decoder reads what is there, and reports it.
fn read_user_message(octets: &[u8], captured_ms: i64, counts: &mut AssociationCounts, each: &mut EachMessage<'_>) {
    let mut rest = octets;
    while let Some(length) = ipfix::message_length(rest) {
        let (message, behind) = rest.split_at(length.min(rest.len()));
        each(captured_ms, message);
        counts.messages += 1;
        rest = behind;
    }
    counts.octets_skipped += rest.len() as u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message without a set (RFC 7011 section 3.1) whose Observation Domain is this number.
    fn message(value: u8) -> Vec<u8> {
        vec![0, 10, 0, 16, 0x65, 0x53, 0xf1, 0, 0, 0, 0, 0, 0, 0, 0, value]
    }

    struct Reader {
        assembly: Assembly,
        counts: AssociationCounts,
        /// When each message was captured, and its number.
        messages: Vec<(i64, u8)>,
    }

    impl Reader {
        fn new(first: u32) -> Self {
            Self { assembly: Assembly::new(first, true), counts: AssociationCounts::default(), messages: Vec::new() }
        }

        fn add(&mut self, tsn: u32, (begins, ends): (bool, bool), captured_ms: i64, payload: &[u8]) {
            let header = FragmentHeader { stream: 0, is_unordered: false, begins, ends, message: 0, fragment: tsn };
            let messages = &mut self.messages;
            self.assembly.add(
                &DataChunk { tsn, header, payload },
                captured_ms,
                &mut self.counts,
                &mut |captured_ms, message| messages.push((captured_ms, message[15])),
            );
        }

        /// Takes a message in one chunk.
        fn whole(&mut self, tsn: u32, captured_ms: i64, value: u8) {
            self.add(tsn, (true, true), captured_ms, &message(value));
        }

        fn forward(&mut self, tsn: u32, captured_ms: i64) {
            let messages = &mut self.messages;
            self.assembly.forward(tsn, captured_ms, &mut self.counts, &mut |captured_ms, message| {
                messages.push((captured_ms, message[15]));
            });
        }

        fn finish(&mut self) {
            let messages = &mut self.messages;
            self.assembly
                .finish(&mut self.counts, &mut |captured_ms, message| messages.push((captured_ms, message[15])));
        }
    }

    /// Fifty messages in three fragments each, in any order and each fragment twice, across the wrap of the numbers.
    #[test]
    fn chunks_are_read_in_the_order_of_their_numbers_and_once() {
        let first = u32::MAX - 70;
        for step in [7, 11, 59] {
            let mut reader = Reader::new(first);
            // 150 chunks; steps have no divisor in common with 150
            for number in 0_u32..150 {
                let at = number * step % 150;
                let octets = message((at / 3) as u8);
                let (flags, part) = match at % 3 {
                    0 => ((true, false), &octets[..6]),
                    1 => ((false, false), &octets[6..9]),
                    _ => ((false, true), &octets[9..]),
                };
                reader.add(first.wrapping_add(at), flags, 1, part);
                reader.add(first.wrapping_add(at), flags, 1, &[0xff; 5]);
            }
            assert!(reader.messages.iter().copied().eq((0..50).map(|value| (1, value))), "steps of {step}");
            assert_eq!(reader.counts, AssociationCounts { messages: 50, ..AssociationCounts::default() });
            assert_eq!(reader.assembly.octets_held(), 0);
        }
    }

    #[test]
    fn a_chunk_that_never_comes_costs_its_message_alone() {
        let mut reader = Reader::new(100);
        reader.whole(100, 1_000, 1);
        // the first fragment is missing, and then a whole message
        reader.add(102, (false, true), 2_000, &message(2)[8..]);
        reader.whole(103, 2_000, 3);
        reader.whole(105, 3_000, 5);
        assert_eq!(reader.messages, [(1_000, 1)]);
        reader.whole(106, 2_000 + GAP_WAIT_MS, 6);
        assert_eq!(reader.messages, [(1_000, 1), (2_000, 3)]);
        reader.finish();
        // a message keeps the time when it was captured
        assert_eq!(reader.messages[2..], [(3_000, 5), (2_000 + GAP_WAIT_MS, 6)]);
        assert_eq!(reader.counts, AssociationCounts { messages: 4, octets_skipped: 8, chunks_missing: 2 });
    }

    #[test]
    fn the_sender_may_give_up_chunks() {
        let mut reader = Reader::new(0);
        reader.whole(0, 1, 1);
        reader.add(1, (true, false), 1, &message(2)[..9]);
        reader.whole(4, 2, 5);
        // of one that has come, and of one that no sender gives up
        reader.forward(0, 3);
        reader.forward(1 << 20, 3);
        assert_eq!(reader.messages, [(1, 1)]);
        reader.forward(5, 3);
        assert_eq!(reader.messages, [(1, 1), (2, 5)]);
        reader.whole(5, 4, 7);
        reader.whole(6, 4, 8);
        assert_eq!(reader.messages, [(1, 1), (2, 5), (4, 8)]);
        assert_eq!(reader.counts, AssociationCounts { messages: 3, octets_skipped: 9, chunks_missing: 0 });
    }

    #[test]
    fn no_more_waits_than_there_may() {
        let mut reader = Reader::new(0);
        let long = vec![7; 60_000];
        for number in 0..100 {
            reader.add(1 + number, (true, true), 1, &long);
            assert!(reader.assembly.octets_held() <= AHEAD_OCTETS_MAX + 20 * CHUNK_OCTETS);
        }
        assert_eq!((reader.counts.octets_skipped, reader.counts.chunks_missing), (100 * 60_000, 1));
        // every second chunk
        let mut reader = Reader::new(0);
        (0..10_000).for_each(|number| reader.add(1 + number * 2, (true, true), 1, &[7]));
        assert_eq!(reader.assembly.ahead.len(), AHEAD_CHUNKS_MAX);
        assert!(reader.assembly.octets_held() >= AHEAD_CHUNKS_MAX * CHUNK_OCTETS);
        assert_eq!(reader.counts.chunks_missing, 10_000 - AHEAD_CHUNKS_MAX as u64);
        // what is dropped is counted
        reader.assembly.clear(&mut reader.counts);
        assert_eq!((reader.counts.chunks_missing, reader.counts.octets_skipped), (10_000, 10_000));
        reader.whole(20_000, 1, 1);
        assert_eq!((reader.messages.as_slice(), reader.assembly.octets_held()), (&[(1, 1)][..], 0));
    }

    #[test]
    fn a_user_message_may_have_several_messages_or_none() {
        let mut reader = Reader::new(0);
        reader.add(0, (true, true), 1, &[message(1), message(2), vec![7; 3]].concat());
        assert_eq!((reader.messages.as_slice(), reader.counts.octets_skipped), (&[(1, 1), (1, 2)][..], 3));
        reader.add(1, (true, true), 1, b"something else");
        assert_eq!(reader.counts.octets_skipped, 3 + 14);
        // a length within the user message, and beyond it
        let mut longer = message(3);
        longer[3] = 99;
        reader.add(2, (true, true), 2, &longer);
        assert_eq!(reader.messages[2..], [(2, 3)]);
        let mut shorter = message(4);
        shorter[3] = 15;
        reader.add(3, (true, true), 2, &shorter);
        assert_eq!((reader.messages.len(), reader.counts.octets_skipped), (3, 3 + 14 + 16));
    }

    #[test]
    fn what_is_not_known_to_be_an_export_has_to_show_it() {
        let mut reader = Reader::new(0);
        reader.assembly.is_export = false;
        reader.whole(0, 1, 1);
        // a set of five octets that fills its message
        let with_set = [&[0, 10, 0, 21][..], &message(2)[4..], &[1, 0, 0, 5, 7]].concat();
        let (mut longer, mut wrong) = (with_set.clone(), with_set.clone());
        (longer[3], wrong[19]) = (22, 4);
        reader.add(1, (true, true), 1, &longer);
        reader.add(2, (true, true), 1, &wrong);
        assert_eq!((reader.messages.as_slice(), reader.counts.octets_skipped), (&[][..], 16 + 21 + 21));
        reader.add(3, (true, true), 1, &with_set);
        reader.whole(4, 1, 3);
        assert_eq!(reader.messages, [(1, 2), (1, 3)]);
    }
}
