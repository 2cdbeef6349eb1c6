use super::begins::BEGINS_MAX;
use super::*;
use crate::capture::sctp::packet;
use crate::capture::stream_table::{CLOSED_MAX, OCTETS_MAX, SESSIONS_MAX, UNDECIDED_MAX};

/// Flags of DATA (RFC 9260 section 3.3.1): the fragment that ends a message, the one that begins it, and both.
const E: u8 = 1;
const B: u8 = 2;
const WHOLE: u8 = 3;

/// What packets of the tests begin with: source, destination, tag.
type Path = (&'static str, &'static str, u32);

const EXPORT: Path = ("192.0.2.1:40000", "192.0.2.9:4739", 700);
/// To another port than that of IPFIX.
const OTHER: Path = ("192.0.2.1:40000", "192.0.2.9:2055", 700);
/// What the collector answers.
const BACK: Path = ("192.0.2.9:4739", "192.0.2.1:40000", 800);

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// A message of one set (RFC 7011 section 3) whose only value is this octet.
fn message(value: u8) -> Vec<u8> {
    vec![0, 10, 0, 21, 0x65, 0x53, 0xf1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 5, value]
}

/// A chunk with its padding (RFC 9260 section 3.2).
fn chunk(kind: u8, flags: u8, value: &[u8]) -> Vec<u8> {
    let [high, low] = (4 + value.len() as u16).to_be_bytes();
    let mut chunk = vec![kind, flags, high, low];
    chunk.extend(value);
    chunk.resize(chunk.len().next_multiple_of(4), 0);
    chunk
}

/// DATA of stream 0.
fn data(flags: u8, tsn: u32, payload: &[u8]) -> Vec<u8> {
    chunk(0, flags, &[&tsn.to_be_bytes()[..], &[0; 8], payload].concat())
}

/// I-DATA (RFC 8260 section 2.1).
fn interleaved(flags: u8, tsn: u32, (stream, fragment): (u8, u8), payload: &[u8]) -> Vec<u8> {
    let rest = [0, stream, 0, 0, 0, 0, 0, 5, 0, 0, 0, fragment];
    chunk(64, flags, &[&tsn.to_be_bytes()[..], &rest, payload].concat())
}

/// INIT of a sender whose packets come from further addresses, too.
fn init(initiate_tag: u32, initial_tsn: u32, addresses: &[[u8; 4]]) -> Vec<u8> {
    let mut value = [&initiate_tag.to_be_bytes()[..], &[0, 1, 0, 0, 0, 1, 0, 1], &initial_tsn.to_be_bytes()].concat();
    for address in addresses {
        value.extend([&[0_u8, 5, 0, 8][..], address].concat());
    }
    chunk(1, 0, &value)
}

/// What came of an association: the value of a message, or its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Message(u16, u8),
    End(u16),
}

use Seen::{End, Message};

struct Capture {
    associations: Associations,
    now_ms: i64,
}

impl Capture {
    fn new(port: Option<u16>) -> Self {
        Self { associations: Associations::new(ExportPort::new(port)), now_ms: 1_000 }
    }

    /// Sends a packet with these chunks, and returns what came of it.
    fn send(&mut self, (source, destination, tag): Path, chunks: &[Vec<u8>]) -> Vec<Seen> {
        self.add(address(source), address(destination), tag, &chunks.concat())
    }

    /// The same from another port to that of IPFIX.
    fn send_from(&mut self, port: u16, tag: u32, chunks: &[Vec<u8>]) -> Vec<Seen> {
        let source = SocketAddr::new(address(EXPORT.0).ip(), port);
        self.add(source, address(EXPORT.1), tag, &chunks.concat())
    }

    fn add(&mut self, source: SocketAddr, destination: SocketAddr, tag: u32, chunks: &[u8]) -> Vec<Seen> {
        let mut octets = [source.port().to_be_bytes(), destination.port().to_be_bytes()].concat();
        octets.extend(tag.to_be_bytes());
        octets.extend([0; 4]);
        octets.extend(chunks);
        let packet = packet(source.ip(), destination.ip(), &octets).expect("a header");
        let mut seen = Vec::new();
        self.associations.take(&packet, self.now_ms, &mut |event| seen.push(Seen::of(event)));
        seen
    }

    fn finish(&mut self) -> Vec<Seen> {
        let mut seen = Vec::new();
        self.associations.finish(&mut |event| seen.push(Seen::of(event)));
        seen
    }

    fn report(&self) -> AssociationReport {
        self.associations.report()
    }

    /// Undecided ones, sessions and closed ones, and the sources and further addresses that are known.
    fn sizes(&self) -> [usize; 5] {
        let Associations { associations, of_sources, of_addresses, .. } = &self.associations;
        let [_, undecided, sessions, closed] = associations.sizes();
        [undecided, sessions, closed, of_sources.len(), of_addresses.len()]
    }
}

impl Seen {
    fn of(event: ConnectionEvent<'_>) -> Self {
        match event {
            ConnectionEvent::Message { session, octets, .. } => {
                assert_eq!((session.transport, octets.len()), (Transport::Sctp, 21));
                Self::Message(session.source.port(), octets[20])
            }
            ConnectionEvent::End { session, .. } => Self::End(session.source.port()),
        }
    }
}

#[test]
fn an_association_is_read_from_its_begin_to_its_end() {
    for path in [EXPORT, OTHER] {
        let mut capture = Capture::new(None);
        assert_eq!(capture.send((path.0, path.1, 0), &[init(800, 100, &[])]), []);
        // COOKIE ECHO, and two messages behind it
        let chunks = [chunk(10, 0, b"cookie"), data(WHOLE, 100, &message(1)), data(WHOLE, 101, &message(2))];
        // what was known of an earlier association is forgotten before the first message
        assert_eq!(capture.send(path, &chunks), [End(40_000), Message(40_000, 1), Message(40_000, 2)]);
        assert_eq!(capture.send(path, &[data(WHOLE, 103, &message(4))]), []);
        assert_eq!(capture.send(path, &[data(WHOLE, 102, &message(3))]), [Message(40_000, 3), Message(40_000, 4)]);
        // SHUTDOWN COMPLETE, and what is sent again
        assert_eq!(capture.send(path, &[chunk(14, 0, &[])]), [End(40_000)]);
        assert_eq!(capture.send(path, &[data(WHOLE, 103, &message(4)), data(WHOLE, 104, &message(5))]), []);
        assert_eq!(capture.finish(), []);
        assert_eq!(capture.report(), AssociationReport { sessions: 1, messages: 4, ..AssociationReport::default() });
    }
}

#[test]
fn fragments_come_in_any_order() {
    let octets = message(1);
    let parts = [data(B, 100, &octets[..7]), data(0, 101, &octets[7..14]), data(E, 102, &octets[14..])];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut capture = Capture::new(Some(2055));
        capture.send((OTHER.0, OTHER.1, 0), &[init(800, 100, &[])]);
        let seen: Vec<Seen> = order
            .iter()
            .flat_map(|&number: &usize| {
                let part = std::slice::from_ref(&parts[number]);
                // each of them twice
                [capture.send(OTHER, part), capture.send(OTHER, part)].concat()
            })
            .collect();
        assert_eq!(seen, [End(40_000), Message(40_000, 1)], "{order:?}");
        assert_eq!(capture.report(), AssociationReport { sessions: 1, messages: 1, ..AssociationReport::default() });
    }
}

/// RFC 8260: fragments of messages of two streams by turns.
#[test]
fn messages_of_several_streams_may_be_interleaved() {
    let mut capture = Capture::new(None);
    let (one, other) = (message(1), message(2));
    capture.send(EXPORT, &[interleaved(B, 7, (0, 0), &one[..10]), interleaved(B, 8, (1, 0), &other[..10])]);
    let chunks = [interleaved(0, 9, (0, 1), &one[10..15]), interleaved(E, 10, (1, 1), &other[10..])];
    assert_eq!(capture.send(EXPORT, &chunks), [Message(40_000, 2)]);
    assert_eq!(capture.send(EXPORT, &[interleaved(E, 11, (0, 2), &one[15..])]), [Message(40_000, 1)]);
}

/// Nothing is forgotten of a session whose begin was not captured: an earlier capture may have it.
#[test]
fn a_capture_may_begin_in_the_middle_of_an_association() {
    let mut capture = Capture::new(None);
    // within a message
    assert_eq!(
        capture.send(EXPORT, &[data(E, 5, &message(1)[9..]), data(WHOLE, 6, &message(2))]),
        [Message(40_000, 2)]
    );
    let expected = AssociationReport { sessions: 1, messages: 1, octets_skipped: 12, ..AssociationReport::default() };
    assert_eq!(capture.report(), expected);
    // to another port it is one when a message begins
    let mut capture = Capture::new(None);
    assert_eq!(capture.send(OTHER, &[data(E, 5, &message(1)[9..]), data(B, 6, &message(2)[..20])]), []);
    assert_eq!(capture.send(OTHER, &[data(E, 7, &message(2)[20..])]), [Message(40_000, 2)]);
    assert_eq!(capture.report().octets_skipped, 0);
}

#[test]
fn other_traffic_is_no_export_and_nothing_is_kept_of_it() {
    let mut capture = Capture::new(None);
    // of SIGTRAN, what begins as a message does, and one that is longer than its user message
    let longer = [&[0, 10, 0, 30][..], &message(1)[4..]].concat();
    for payload in [&[1, 0, 1, 1, 0, 0, 0, 8][..], &[0, 10, 0, 40, 1, 2], &longer[..]] {
        assert_eq!(capture.send(OTHER, &[data(WHOLE, 1, payload), vec![0, 3, 0, 3]]), []);
    }
    // fragments that begin as a message does, and go on as none
    capture.send(OTHER, &[data(B, 1, &longer[..20]), data(E, 3, b"x")]);
    assert_eq!(capture.sizes(), [1, 0, 0, 1, 0]);
    capture.send(OTHER, &[data(0, 2, &vec![7; 60_000]), data(WHOLE, 4, b"y")]);
    assert_eq!(capture.sizes(), [0; 5]);
    assert_eq!((capture.finish(), capture.report()), (vec![], AssociationReport::default()));
}

#[test]
fn a_port_that_is_asked_for_is_the_only_one() {
    let mut capture = Capture::new(Some(2055));
    assert_eq!(capture.send(EXPORT, &[data(WHOLE, 1, &message(1))]), []);
    // whatever is sent there should be exports
    assert_eq!(capture.send(OTHER, &[data(WHOLE, 1, b"other"), data(WHOLE, 2, &message(2))]), [Message(40_000, 2)]);
    assert_eq!(capture.report().octets_skipped, 5);
}

#[test]
fn a_length_that_cannot_be_ends_a_packet_and_is_counted() {
    let mut capture = Capture::new(None);
    let mut lying = data(WHOLE, 2, &message(2));
    lying[2..4].copy_from_slice(&400_u16.to_be_bytes());
    let chunks = [data(WHOLE, 1, &message(1)), lying, data(WHOLE, 3, &message(3))];
    assert_eq!(capture.send(EXPORT, &chunks), [Message(40_000, 1)]);
    assert_eq!(capture.report().packets_damaged, 1);
    // what is behind it has come again
    assert_eq!(capture.send(EXPORT, &[data(WHOLE, 3, &message(3))]), []);
    assert_eq!(capture.finish(), [Message(40_000, 3)]);
    assert_eq!((capture.report().messages, capture.report().chunks_missing), (2, 1));
}

#[test]
fn what_is_missing_in_the_capture_is_counted() {
    let mut capture = Capture::new(None);
    capture.send(EXPORT, &[data(WHOLE, 1, &message(1)), data(B, 2, &message(2)[..9])]);
    // of the second message the end is missing, and all of the third
    capture.now_ms += 59_000;
    assert_eq!(capture.send(EXPORT, &[data(WHOLE, 5, &message(4))]), []);
    capture.now_ms += 60_000;
    assert_eq!(capture.send(EXPORT, &[data(WHOLE, 6, &message(5))]), [Message(40_000, 4), Message(40_000, 5)]);
    let report = AssociationReport {
        sessions: 1,
        messages: 3,
        chunks_missing: 2,
        octets_skipped: 9,
        ..AssociationReport::default()
    };
    assert_eq!(capture.report(), report);
}

/// RFC 3758: FORWARD-TSN.
#[test]
fn nothing_waits_for_what_the_sender_gives_up() {
    let mut capture = Capture::new(None);
    capture.send(EXPORT, &[data(WHOLE, 1, &message(1))]);
    assert_eq!(capture.send(EXPORT, &[data(WHOLE, 4, &message(4))]), []);
    assert_eq!(capture.send(EXPORT, &[chunk(192, 0, &3_u32.to_be_bytes())]), [Message(40_000, 4)]);
    assert_eq!(capture.report().chunks_missing, 0);
}

#[test]
fn another_association_with_the_same_ports_is_another_session() {
    let mut capture = Capture::new(None);
    assert_eq!(capture.send(EXPORT, &[data(WHOLE, 1, &message(1)), data(WHOLE, 3, &message(3))]), [Message(40_000, 1)]);
    // nobody ends anything with INIT, and packets with the tag of the one before go on
    assert_eq!(capture.send((EXPORT.0, EXPORT.1, 0), &[init(801, 50, &[])]), []);
    assert_eq!(capture.send(EXPORT, &[data(WHOLE, 4, &message(4))]), []);
    let restarted = (EXPORT.0, EXPORT.1, 701);
    assert_eq!(
        capture.send(restarted, &[data(WHOLE, 50, &message(9))]),
        [Message(40_000, 3), Message(40_000, 4), End(40_000), End(40_000), Message(40_000, 9)]
    );
    // late
    assert_eq!(capture.send(EXPORT, &[data(WHOLE, 2, &message(2))]), []);
    assert_eq!(capture.send(restarted, &[data(WHOLE, 51, &message(10))]), [Message(40_000, 10)]);
    assert_eq!(capture.report().sessions, 2);
}

/// RFC 9260 section 8.5.1: by the tag that the peer has chosen, or the own one with the flag T.
#[test]
fn either_side_ends_an_association() {
    const ABORT: u8 = 6;
    let (exporter, collector) = (EXPORT, BACK);
    let begun = || {
        let mut capture = Capture::new(None);
        capture.send((EXPORT.0, EXPORT.1, 0), &[init(800, 1, &[])]);
        assert_eq!(capture.send(EXPORT, &[data(WHOLE, 1, &message(1))]), [End(40_000), Message(40_000, 1)]);
        capture
    };
    for (path, flags) in [
        (exporter, 0),
        (collector, 0),
        ((exporter.0, exporter.1, collector.2), 1),
        ((collector.0, collector.1, exporter.2), 1),
    ] {
        let mut capture = begun();
        // of somebody who does not know the tags, and with the flag for the other one
        for (path, flags) in [((path.0, path.1, 9), flags), (path, 1 - flags)] {
            assert_eq!(capture.send(path, &[chunk(ABORT, flags, &[])]), [], "{path:?} {flags}");
        }
        assert_eq!(capture.send(path, &[chunk(ABORT, flags, &[])]), [End(40_000)], "{path:?} {flags}");
        assert_eq!(capture.send(EXPORT, &[data(WHOLE, 2, &message(2))]), []);
    }
    // where the begin was not captured, the tag of the other direction is not known
    let mut capture = Capture::new(None);
    capture.send(EXPORT, &[data(WHOLE, 1, &message(1))]);
    assert_eq!(capture.send(collector, &[chunk(ABORT, 0, &[])]), []);
    assert_eq!(capture.send(exporter, &[chunk(ABORT, 0, &[])]), [End(40_000)]);
}

/// RFC 9260 section 6.4.
#[test]
fn an_association_may_go_over_several_addresses() {
    let mut capture = Capture::new(None);
    capture.send((EXPORT.0, EXPORT.1, 0), &[init(800, 1, &[[198, 51, 100, 1]])]);
    capture.send(EXPORT, &[data(WHOLE, 1, &message(1))]);
    // to another address, from the one that was named, and from one that was not
    let seen = capture.send((EXPORT.0, "203.0.113.9:4739", 700), &[data(WHOLE, 2, &message(2))]);
    assert_eq!(seen, [Message(40_000, 2)]);
    let seen = capture.send(("198.51.100.1:40000", "203.0.113.9:4739", 700), &[data(WHOLE, 3, &message(3))]);
    assert_eq!(seen, [Message(40_000, 3)]);
    assert_eq!((capture.report().sessions, capture.sizes()), (1, [0, 1, 0, 1, 1]));
    capture.send(("198.51.100.2:40000", EXPORT.1, 700), &[data(WHOLE, 4, &message(4))]);
    assert_eq!(capture.report().sessions, 2);
}

#[test]
fn encrypted_associations_are_counted_once() {
    // a ClientHello and data of DTLS 1.2 (RFC 6347 section 4.1)
    let (hello, application) = ([22, 254, 255, 0, 0, 0, 0], [23, 254, 253, 0, 1, 0, 0]);
    let mut capture = Capture::new(None);
    for number in 1..4 {
        let payload = if number == 1 { &hello } else { &application };
        capture.send((EXPORT.0, "192.0.2.9:4740", 700), &[data(WHOLE, number, payload)]);
    }
    capture.send_from(40_001, 7, &[data(WHOLE, 9, &application)]);
    capture.send((EXPORT.0, "192.0.2.9:443", 700), &[data(WHOLE, 1, &hello)]);
    assert_eq!(capture.report(), AssociationReport { sessions_encrypted: 2, ..AssociationReport::default() });
    assert_eq!(capture.sizes(), [0, 0, 2, 0, 0]);
}

/// The Templates of both would be mixed up.
#[test]
fn of_two_associations_with_one_source_the_later_is_read() {
    let mut capture = Capture::new(None);
    let elsewhere = (EXPORT.0, "192.0.2.10:4739", 900);
    assert_eq!(capture.send(EXPORT, &[data(WHOLE, 1, &message(1))]), [Message(40_000, 1)]);
    assert_eq!(capture.send(elsewhere, &[data(WHOLE, 1, &message(2))]), [End(40_000), Message(40_000, 2)]);
    assert_eq!(capture.send(EXPORT, &[data(WHOLE, 2, &message(3))]), []);
    assert_eq!(capture.send(elsewhere, &[data(WHOLE, 2, &message(4))]), [Message(40_000, 4)]);
    let expected = AssociationReport { sessions: 2, sessions_given_up: 1, messages: 3, ..AssociationReport::default() };
    assert_eq!(capture.report(), expected);
}

#[test]
fn the_oldest_of_too_many_associations_is_given_up() {
    let mut capture = Capture::new(None);
    for port in 1..=3_000 {
        let source = SocketAddr::new(address(EXPORT.0).ip(), port);
        let begin = init(8, 1, &[[198, 51, 100, 1]]);
        assert_eq!(capture.add(source, address(EXPORT.1), 0, &begin), []);
        assert_eq!(capture.send_from(port, 7, &[data(WHOLE, 1, &message(1))]), [End(port), Message(port, 1)]);
    }
    assert_eq!(capture.sizes(), [0, SESSIONS_MAX, 0, SESSIONS_MAX, SESSIONS_MAX]);
    assert_eq!(capture.report().sessions_given_up, 3_000 - SESSIONS_MAX as u64);
    // what ends, what only begins, and what is no export keep no session out
    for port in 5_001..=8_000 {
        let source = SocketAddr::new(address(EXPORT.0).ip(), port);
        capture.add(source, address(EXPORT.1), 0, &init(8, 1, &[]));
        capture.send_from(port, 7, &[data(WHOLE, 1, b"other")]);
        capture.add(source, address("192.0.2.9:4740"), 7, &data(WHOLE, 1, &[22, 254, 253]));
    }
    assert!(capture.associations.begins.len() <= BEGINS_MAX);
    let [undecided, sessions, closed, sources, _] = capture.sizes();
    assert!(undecided <= UNDECIDED_MAX && closed <= CLOSED_MAX && sources <= SESSIONS_MAX + UNDECIDED_MAX);
    assert_eq!(sessions, SESSIONS_MAX);
    assert_eq!(capture.send_from(3_000, 7, &[data(WHOLE, 2, &message(2))]), [Message(3_000, 2)]);
}

#[test]
fn octets_of_all_associations_are_limited() {
    let mut capture = Capture::new(None);
    let octets = vec![7; 60_000];
    for port in 1..=100 {
        capture.send_from(port, 7, &[data(WHOLE, 0, &message(1))]);
        for number in 0..17 {
            // the chunk before them never comes, nor the end of any
            capture.send_from(port, 7, &[data(B, 2 + number, &octets)]);
            assert!(capture.associations.associations.octets_held() <= OCTETS_MAX);
        }
    }
    let holders = capture.associations.associations.checked_holders();
    assert!(holders.len() < 70);
    assert!(capture.report().octets_skipped > 30 << 20);
    // what is not known to be an export is the first to lose its octets
    capture.send_from(200, 0, &[init(8, 0, &[])]);
    for number in 0..17 {
        capture.send_from(200, 7, &[data(0, 1 + number, &octets)]);
    }
    assert_eq!(capture.associations.associations.checked_holders(), holders);
    // who lost them goes on
    assert_eq!(capture.send_from(1, 7, &[data(WHOLE, 19, &message(2))]), [Message(1, 2)]);
}
