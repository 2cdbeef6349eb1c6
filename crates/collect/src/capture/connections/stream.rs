//! One direction of a TCP connection put together by its sequence numbers (RFC 9293 section 3.4).
//!
//! Places are octets from the first one that is known; sequence numbers wrap after 4 GiB, places do not. What came first
//! counts: octets that come again are left out. A part that does not come is given up after a time, or when too much waits
//! for it: a capture may have missed what the receiver got.

use std::collections::BTreeMap;

use super::framing::{MessageFraming, StreamCounts};
use crate::capture::segment::Segment;

/// Most octets that wait for a part that is missing.
pub(super) const AHEAD_OCTETS_MAX: usize = 1 << 20;
/// Most pieces of them.
pub(super) const AHEAD_PIECES_MAX: usize = 4096;
/// What a piece takes in addition to its octets: its place in a tree whose nodes may be half empty, and an allocation.
const PIECE_OCTETS: usize = 112;
/// Longest time that they wait, by the times of capture, in milliseconds: by then a sender has sent again what was lost
/// (RFC 6298 section 2.4).
pub(super) const GAP_WAIT_MS: i64 = 60_000;
/// Octets before the next one that are taken for octets sent again. What seems to be further behind is ahead, and the numbers
/// have wrapped.
const BEHIND_OCTETS_MAX: u32 = 1 << 24;

/// Takes each message, and when it was captured.
pub(super) type EachMessage<'a> = dyn FnMut(i64, &[u8]) + 'a;

/// Octets that came before others that precede them.
#[derive(Debug)]
struct Piece {
    captured_ms: i64,
    octets: Vec<u8>,
}

/// A stream of octets.
#[derive(Debug)]
pub(super) struct Stream {
    /// Sequence number of the first octet.
    first: u32,
    /// Place of the next octet to be read.
    next: i64,
    /// What came of places after it, by place. None overlap.
    ahead: BTreeMap<i64, Piece>,
    ahead_octets: usize,
    /// When the oldest of them began to wait.
    gap_since_ms: i64,
    /// Place behind the last octet, once it is known.
    end: Option<i64>,
    /// When the last octet that was read was captured.
    read_ms: i64,
    framing: MessageFraming,
}

impl Stream {
    /// A stream whose first octet has this number.
    pub(super) fn new(first: u32, framing: MessageFraming) -> Self {
        Self {
            first,
            next: 0,
            ahead: BTreeMap::new(),
            ahead_octets: 0,
            gap_since_ms: 0,
            end: None,
            read_ms: 0,
            framing,
        }
    }

    /// Sequence number of the first octet.
    pub(super) fn first(&self) -> u32 {
        self.first
    }

    /// Whether nothing of it has come.
    pub(super) fn is_untouched(&self) -> bool {
        self.next == 0 && self.ahead.is_empty()
    }

    /// Octets held, with what it takes to hold them.
    pub(super) fn octets_held(&self) -> usize {
        self.ahead_octets + self.ahead.len() * PIECE_OCTETS + self.framing.octets_held()
    }

    /// Whether its end was read.
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some_and(|end| self.next >= end)
    }

    /// Whether this number is that of an octet that was read.
    pub(super) fn is_behind(&self, sequence: u32) -> bool {
        self.place(sequence) < self.next
    }

    /// Whether this number is close to that of the next octet.
    pub(super) fn is_near(&self, sequence: u32) -> bool {
        (self.place(sequence) - self.next).unsigned_abs() <= AHEAD_OCTETS_MAX as u64
    }

    /// Takes a segment, and hands on what is whole with it.
    pub(super) fn add(
        &mut self,
        segment: &Segment<'_>,
        captured_ms: i64,
        counts: &mut StreamCounts,
        each: &mut EachMessage<'_>,
    ) {
        let place = self.place(segment.first_octet());
        let end = place + i64::from(segment.octets_sent);
        if !self.ahead.is_empty() && captured_ms - self.gap_since_ms >= GAP_WAIT_MS {
            self.give_up_gap(counts, each);
        }
        let behind = usize::try_from(self.next - place).unwrap_or(0);
        let octets = segment.payload.get(behind..).unwrap_or_default();
        let place = place.max(self.next);
        if place == self.next && self.ahead.is_empty() {
            self.read(octets, captured_ms, counts, each);
        } else {
            if self.ahead.is_empty() {
                self.gap_since_ms = captured_ms;
            }
            self.keep(place, octets, captured_ms);
            self.read_ahead(captured_ms, counts, each);
        }
        while self.ahead_octets > AHEAD_OCTETS_MAX || self.ahead.len() > AHEAD_PIECES_MAX {
            self.give_up_gap(counts, each);
        }
        // no receiver believes one that is behind, or that it has no room for, and one that is wrong must not hide the right
        // one; that of a segment behind a gap that was given up is where the octets are now
        if segment.ends() && end >= self.next && end - self.next <= AHEAD_OCTETS_MAX as i64 {
            self.end = Some(self.end.map_or(end, |known| known.max(end)));
        }
    }

    /// Hands on all that can be read without what is missing.
    pub(super) fn finish(&mut self, counts: &mut StreamCounts, each: &mut EachMessage<'_>) {
        while !self.ahead.is_empty() {
            self.give_up_gap(counts, each);
        }
        let read_ms = self.read_ms;
        self.framing.cut(counts, &mut |message| each(read_ms, message));
    }

    /// Drops what is held.
    pub(super) fn clear(&mut self, counts: &mut StreamCounts) {
        self.framing.clear(counts);
        if let Some((place, piece)) = self.ahead.pop_last() {
            let end = place + piece.octets.len() as i64;
            counts.octets_missing += (end - self.next) as u64 - self.ahead_octets as u64;
            counts.octets_skipped += self.ahead_octets as u64;
            self.next = end;
        }
        self.ahead.clear();
        self.ahead_octets = 0;
    }

    /// Place of the octet with this number.
    fn place(&self, sequence: u32) -> i64 {
        let behind = self.first.wrapping_add(self.next as u32).wrapping_sub(sequence);
        if behind <= BEHIND_OCTETS_MAX {
            self.next - i64::from(behind)
        } else {
            self.next + i64::from(behind.wrapping_neg())
        }
    }

    /// Keeps octets that come later, without those that are there.
    fn keep(&mut self, place: i64, octets: &[u8], captured_ms: i64) {
        if octets.is_empty() {
            return;
        }
        let end = place + octets.len() as i64;
        let before = self.ahead.range(..=place).next_back();
        let mut covered_to = before.map_or(place, |(begin, piece)| place.max(begin + piece.octets.len() as i64));
        let mut fresh = Vec::new();
        for (&begin, piece) in self.ahead.range(place + 1..end) {
            if covered_to < begin {
                fresh.push(covered_to..begin);
            }
            covered_to = begin + piece.octets.len() as i64;
        }
        if covered_to < end {
            fresh.push(covered_to..end);
        }
        for places in fresh {
            let octets = &octets[(places.start - place) as usize..(places.end - place) as usize];
            self.ahead_octets += octets.len();
            self.ahead.insert(places.start, Piece { captured_ms, octets: octets.to_vec() });
        }
    }

    /// Reads what was ahead and is next now.
    fn read_ahead(&mut self, mut captured_ms: i64, counts: &mut StreamCounts, each: &mut EachMessage<'_>) {
        let mut is_first = true;
        while let Some(entry) = self.ahead.first_entry() {
            if *entry.key() > self.next {
                if !is_first {
                    self.gap_since_ms = captured_ms;
                }
                break;
            }
            let piece = entry.remove();
            self.ahead_octets -= piece.octets.len();
            // it was received when what it waited for was
            captured_ms = captured_ms.max(piece.captured_ms);
            self.read(&piece.octets, captured_ms, counts, each);
            is_first = false;
        }
    }

    fn read(&mut self, octets: &[u8], captured_ms: i64, counts: &mut StreamCounts, each: &mut EachMessage<'_>) {
        self.next += octets.len() as i64;
        self.read_ms = captured_ms;
        self.framing.push(octets, counts, &mut |message| each(captured_ms, message));
    }

    /// Goes on behind the part that is missing first.
    fn give_up_gap(&mut self, counts: &mut StreamCounts, each: &mut EachMessage<'_>) {
        let Some((&place, piece)) = self.ahead.first_key_value() else { return };
        let (captured_ms, read_ms) = (piece.captured_ms, self.read_ms);
        counts.octets_missing += (place - self.next) as u64;
        self.framing.cut(counts, &mut |message| each(read_ms, message));
        self.next = place;
        self.read_ahead(captured_ms, counts, each);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    /// A message of one set with so many octets, each of which has this value.
    fn message(value: u8, octets: u16) -> Vec<u8> {
        let mut message = vec![0, 10];
        message.extend((20 + octets).to_be_bytes());
        message.extend([0x65, 0x53, 0xf1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0]);
        message.extend((4 + octets).to_be_bytes());
        message.resize(usize::from(20 + octets), value);
        message
    }

    struct Reader {
        stream: Stream,
        counts: StreamCounts,
        /// When each message was captured, and the value in it.
        messages: Vec<(i64, u8)>,
    }

    impl Reader {
        fn new(first: u32) -> Self {
            let stream = Stream::new(first, MessageFraming::synchronized());
            Self { stream, counts: StreamCounts::default(), messages: Vec::new() }
        }

        fn add(&mut self, sequence: u32, flags: u8, captured_ms: i64, payload: &[u8]) {
            let address = SocketAddr::from(([192, 0, 2, 1], 4739));
            let (source, destination, octets_sent) = (address, address, payload.len() as u32);
            let segment = Segment { source, destination, sequence, acknowledged: None, flags, octets_sent, payload };
            let messages = &mut self.messages;
            self.stream.add(&segment, captured_ms, &mut self.counts, &mut |captured_ms, message| {
                messages.push((captured_ms, message[20]));
            });
        }

        fn finish(&mut self) {
            let messages = &mut self.messages;
            self.stream.finish(&mut self.counts, &mut |captured_ms, message| messages.push((captured_ms, message[20])));
        }
    }

    /// Messages of 1 to 4, and where each begins.
    fn messages() -> (Vec<u8>, [usize; 5]) {
        let octets: Vec<u8> = (1..=4).flat_map(|value| message(value, 10 * u16::from(value))).collect();
        (octets, [0, 30, 70, 120, 180])
    }

    /// All segments of three octets in any order, each sent twice and some of them shifted, across the wrap of the numbers.
    #[test]
    fn octets_are_read_in_the_order_of_their_numbers_and_once() {
        let (octets, _) = messages();
        let first = u32::MAX - 77;
        for step in [7, 11, 59] {
            let mut reader = Reader::new(first);
            // 60 segments; steps have no divisor in common with 60
            for number in 0_usize..60 {
                let at = number * step % 60 * 3;
                let shifted = at.saturating_sub(number % 3);
                reader.add(first.wrapping_add(at as u32), 0, 1, &octets[at..at + 3]);
                reader.add(first.wrapping_add(shifted as u32), 0, 1, &octets[shifted..octets.len().min(shifted + 4)]);
            }
            assert_eq!(reader.messages, [(1, 1), (1, 2), (1, 3), (1, 4)], "steps of {step}");
            assert_eq!(reader.counts, StreamCounts { messages: 4, ..StreamCounts::default() });
            assert_eq!(reader.stream.octets_held(), 0);
        }
    }

    /// What came first counts, as it does for most receivers.
    #[test]
    fn octets_that_come_again_change_nothing() {
        let (octets, at) = messages();
        let mut reader = Reader::new(0);
        reader.add(10, 0, 1, &octets[10..at[1]]);
        reader.add(0, 0, 2, &[&octets[..10], &[0xff; 40][..]].concat()[..at[1]]);
        assert_eq!(reader.messages, [(2, 1)]);
        reader.add(0, 0, 3, &[0xff; 30]);
        assert_eq!((reader.messages.len(), reader.counts.octets_skipped), (1, 0));
    }

    #[test]
    fn a_part_that_never_comes_costs_the_messages_that_it_is_of() {
        let (octets, at) = messages();
        let mut reader = Reader::new(0);
        reader.add(0, 0, 1_000, &octets[..at[1] + 5]);
        reader.add((at[1] + 15) as u32, 0, 2_000, &octets[at[1] + 15..at[3]]);
        assert_eq!(reader.messages, [(1_000, 1)]);
        // a message that is whole keeps the time when it was captured
        reader.add(at[3] as u32, 0, 2_000 + GAP_WAIT_MS, &octets[at[3]..]);
        assert_eq!(reader.messages, [(1_000, 1), (2_000, 3), (2_000 + GAP_WAIT_MS, 4)]);
        assert_eq!(reader.counts, StreamCounts { messages: 3, octets_missing: 10, octets_skipped: 5 + 25 });
    }

    #[test]
    fn no_more_waits_than_there_may() {
        let mut reader = Reader::new(0);
        let long = message(9, 60_000);
        for number in 0..100_u32 {
            reader.add(1_000 + number * long.len() as u32, 0, 1, &long);
            assert!(reader.stream.octets_held() <= AHEAD_OCTETS_MAX + long.len());
        }
        assert_eq!((reader.messages.len(), reader.counts.octets_missing), (100, 1_000));
        // every second octet
        let mut reader = Reader::new(0);
        (0..10_000).for_each(|number| reader.add(1 + number * 2, 0, 1, &[7]));
        assert!(reader.stream.ahead.len() <= AHEAD_PIECES_MAX);
        assert!(reader.counts.octets_missing > 5_000);
        // an octet that waits alone takes more than itself
        let pieces = reader.stream.ahead.len();
        assert!(pieces > 4_000 && reader.stream.octets_held() >= pieces * PIECE_OCTETS);
    }

    #[test]
    fn the_end_is_behind_the_last_octet_whatever_comes_first() {
        let (octets, at) = messages();
        let mut reader = Reader::new(0);
        reader.add(at[3] as u32, 1, 1, &octets[at[3]..]);
        assert!(!reader.stream.is_over());
        reader.add(0, 0, 1, &octets[..at[3]]);
        assert!(reader.stream.is_over() && reader.messages.len() == 4);
        assert!(reader.stream.is_behind(179) && !reader.stream.is_behind(180));
        assert!(reader.stream.is_near(180) && !reader.stream.is_near(180 + (2 << 20)));
    }

    #[test]
    fn an_end_that_no_receiver_believes_is_none() {
        let (octets, at) = messages();
        let mut reader = Reader::new(0);
        reader.add(0, 0, 1, &octets[..at[2]]);
        // two that are behind, one that is too far ahead, and one that is as far behind as numbers are
        for number in
            [0, at[1] as u32, (at[2] + AHEAD_OCTETS_MAX + 1) as u32, (at[2] as u32).wrapping_sub(BEHIND_OCTETS_MAX)]
        {
            reader.add(number, 1, 1, b"");
            assert!(!reader.stream.is_over(), "{number}");
        }
        reader.add(at[3] as u32, 1, 1, b"");
        reader.add(at[4] as u32, 1, 1, b"");
        reader.add(at[2] as u32, 0, 1, &octets[at[2]..at[3]]);
        assert!(!reader.stream.is_over(), "the later one of two");
        reader.add(at[3] as u32, 0, 1, &octets[at[3]..]);
        assert!(reader.stream.is_over() && reader.messages.len() == 4);
    }

    #[test]
    fn what_is_dropped_is_counted() {
        let (octets, at) = messages();
        let mut reader = Reader::new(0);
        reader.add(0, 0, 1, &octets[..5]);
        reader.add(at[1] as u32, 0, 1, &octets[at[1]..at[2]]);
        reader.stream.clear(&mut reader.counts);
        assert_eq!(reader.counts, StreamCounts { messages: 0, octets_missing: 25, octets_skipped: 5 + 40 });
        reader.add(at[2] as u32, 0, 1, &octets[at[2]..at[3]]);
        assert_eq!((reader.messages.as_slice(), reader.stream.octets_held()), (&[(1, 3)][..], 0));
    }

    #[test]
    fn the_last_messages_are_read_without_what_is_missing() {
        let (octets, at) = messages();
        let mut reader = Reader::new(0);
        reader.add(at[1] as u32, 0, 5, &octets[at[1]..at[2]]);
        reader.add(at[3] as u32, 0, 6, &octets[at[3]..at[4] - 1]);
        reader.finish();
        assert_eq!(reader.messages, [(5, 2)]);
        assert_eq!(reader.counts, StreamCounts { messages: 1, octets_missing: 30 + 50, octets_skipped: 59 });
    }
}
