//! What an octet of a capture may cost before anything of it is decoded: connections and associations are put together, and messages
//! are looked for in what comes of them.
//!
//! Memory has fixed limits there, and is not measured.

use weir_collect::capture::read_exports;

use super::{ROUNDS, TIMES_MAX, TRIES, costs, now, ordinary};
use crate::associations::{E, add, data_chunk, init};
use crate::captured::Capture;

const FIN: u8 = 1;
const ACK: u8 = 16;
/// Octets of a segment, which twelve and twenty divide.
const SEGMENT_OCTETS: usize = 1_380;

/// Nanoseconds that an octet of a capture takes.
fn nanoseconds(capture: &Capture) -> f64 {
    let octets = capture.0.as_slice();
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let (mut found, began) = (0, now());
        let (_, outcome) = read_exports(octets, |_| found += 1);
        let took = now().checked_sub(began).unwrap();
        outcome.expect("read");
        assert_eq!(found, 0, "a message");
        best = best.min(took.as_nanos() as f64 / octets.len() as f64);
    }
    best
}

/// A stream to the port of IPFIX, whose begin is not in the capture, in segments of so many octets; returns the number of the
/// octet behind it.
fn send(capture: &mut Capture, port: u16, first: u32, stream: &[u8], segment_octets: usize) -> u32 {
    let mut sequence = first;
    for octets in stream.chunks(segment_octets) {
        capture.segment(port, sequence, ACK, octets);
        sequence += octets.len() as u32;
    }
    sequence
}

/// Each twelfth octet seems to begin a message of this length, and what follows it seems to be its sets.
fn messages_in_messages(length: u16, octets: usize) -> Vec<u8> {
    let [high, low] = length.to_be_bytes();
    [1, 1, 1, 1, 0, 10, high, low, 1, 0, 0, 12].repeat(octets / 12)
}

/// The last of the sets of each message is too long.
fn messages_that_begin_in_one_another() -> Capture {
    let mut capture = Capture::new();
    send(&mut capture, 40_000, 0, &messages_in_messages(0xfff9, 600 * SEGMENT_OCTETS), SEGMENT_OCTETS);
    capture
}

/// The same behind what may begin a longer message, so that they are looked at when the connection ends.
fn messages_in_one_another_that_are_cut() -> Capture {
    let mut capture = Capture::new();
    let longer = [&[0_u8, 10, 0xff, 0xff][..], &[1; 12], &[1, 0, 0xff, 0xef]].concat();
    let stream = [longer, messages_in_messages(0x8000, 60_000)].concat();
    for port in 1..=20 {
        let next = send(&mut capture, port, 0, &stream, SEGMENT_OCTETS);
        capture.segment(port, next, ACK | FIN, &[]);
    }
    capture
}

/// Most of a message of the longest kind, whose sets are empty; returns the number of the octet behind it.
fn most_of_a_message(capture: &mut Capture) -> u32 {
    let stream = [&[0_u8, 10, 0xff, 0xff][..], &[1; 12], &[1, 0, 0, 4].repeat(14_000)].concat();
    send(capture, 40_000, 0, &stream, SEGMENT_OCTETS)
}

/// The rest comes octet by octet.
fn a_long_message_octet_by_octet() -> Capture {
    let mut capture = Capture::new();
    let next = most_of_a_message(&mut capture);
    send(&mut capture, 40_000, next, &[1, 0, 0, 4].repeat(2_000), 1);
    capture
}

/// Its last octet comes again and again.
fn the_last_octet_sent_again() -> Capture {
    let mut capture = Capture::new();
    let next = most_of_a_message(&mut capture);
    (0..8_000).for_each(|_| capture.segment(40_000, next - 1, ACK, &[4]));
    capture
}

/// What may begin a message each twenty octets shows that it is none where it ends.
fn messages_that_fail_one_after_the_other() -> Capture {
    let mut capture = Capture::new();
    let stream = [&[0_u8, 10, 0xff, 0xff][..], &[1; 12], &[1, 0, 0xff, 0xe0]].concat().repeat(20_000);
    let held = 3_200 * 20;
    let next = send(&mut capture, 40_000, 0, &stream[..held], SEGMENT_OCTETS);
    send(&mut capture, 40_000, next, &stream[held..], 20);
    capture
}

/// Octets that came one by one, and wait for others before them, come again in long segments.
fn octets_that_wait_sent_again() -> Capture {
    let mut capture = Capture::new();
    capture.segment(40_000, 0, ACK, &[1]);
    send(&mut capture, 40_000, 100, &[1; 4_000], 1);
    for _ in 0..200 {
        send(&mut capture, 40_000, 100, &[1; 4_000], SEGMENT_OCTETS);
    }
    capture
}

/// Ends of messages, an octet each, that wait for a chunk before them, again and again.
fn chunks_that_wait_sent_again() -> Capture {
    let mut capture = Capture::new();
    add(&mut capture, 40_000, 1, &[data_chunk(E, 1, 0, &[1])]);
    let chunks: Vec<Vec<u8>> = (100..4_100).map(|tsn| data_chunk(E, tsn, 0, &[1])).collect();
    for _ in 0..20 {
        chunks.chunks(60).for_each(|chunks| add(&mut capture, 40_000, 1, chunks));
    }
    capture
}

/// Associations by the thousand, of which each has one chunk.
fn associations_that_only_begin() -> Capture {
    let mut capture = Capture::new();
    for port in 1..=20_000 {
        add(&mut capture, port, 0, &[init(1)]);
        add(&mut capture, port, 7, &[data_chunk(E, 1, 0, &[1])]);
    }
    capture
}

#[test]
fn no_octet_of_a_capture_costs_much_more_than_others() {
    let loads = [
        ("messages that begin in one another", messages_that_begin_in_one_another()),
        ("messages in one another that are cut", messages_in_one_another_that_are_cut()),
        ("a long message octet by octet", a_long_message_octet_by_octet()),
        ("the last octet sent again", the_last_octet_sent_again()),
        ("messages that fail one after the other", messages_that_fail_one_after_the_other()),
        ("octets that wait sent again", octets_that_wait_sent_again()),
        ("chunks that wait sent again", chunks_that_wait_sent_again()),
        ("associations that only begin", associations_that_only_begin()),
    ];
    let mut failures = Vec::new();
    for (name, capture) in loads {
        let mut times = f64::MAX;
        for _ in 0..TRIES {
            if times > TIMES_MAX {
                times = times.min(nanoseconds(&capture) / costs([&ordinary()])[0].nanoseconds);
            }
        }
        println!("{name}: {times:.1} times the work");
        if times > TIMES_MAX {
            failures.push(name);
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}
