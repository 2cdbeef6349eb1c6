use super::*;
use crate::capture::stream_table::{CLOSED_MAX, OCTETS_MAX, SESSIONS_MAX, UNDECIDED_MAX};

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// A message of one set (RFC 7011 section 3) whose only value is this octet.
fn message(value: u8) -> Vec<u8> {
    vec![0, 10, 0, 21, 0x65, 0x53, 0xf1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 5, value]
}

fn messages(values: std::ops::RangeInclusive<u8>) -> Vec<u8> {
    values.flat_map(message).collect()
}

/// What came of a connection: the value of a message, or its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Message(u16, u8),
    End(u16),
}

use Seen::{End, Message};

/// Connections from ports of one address to ports of another one.
struct Capture {
    connections: Connections,
    /// What segments acknowledge that do.
    acknowledged: u32,
    seen: Vec<Seen>,
}

impl Capture {
    fn new(port: Option<u16>) -> Self {
        Self { connections: Connections::new(ExportPort::new(port)), acknowledged: 0, seen: Vec::new() }
    }

    /// Sends a segment, and returns what came of it.
    fn send(&mut self, ports: (u16, u16), sequence: u32, flags: u8, payload: &[u8]) -> Vec<Seen> {
        let source = SocketAddr::new(address("192.0.2.1:0").ip(), ports.0);
        let destination = SocketAddr::new(address("192.0.2.9:0").ip(), ports.1);
        self.add(source, destination, (sequence, flags), payload)
    }

    fn add(
        &mut self,
        source: SocketAddr,
        destination: SocketAddr,
        (sequence, flags): (u32, u8),
        payload: &[u8],
    ) -> Vec<Seen> {
        let octets_sent = payload.len() as u32;
        let acknowledged = (flags & ACK != 0).then_some(self.acknowledged);
        let segment = Segment { source, destination, sequence, acknowledged, flags, octets_sent, payload };
        let seen = &mut self.seen;
        self.connections.take(&segment, 1_000, &mut |event| seen.push(Seen::of(event)));
        std::mem::take(&mut self.seen)
    }

    fn finish(&mut self) -> Vec<Seen> {
        let seen = &mut self.seen;
        self.connections.finish(&mut |event| seen.push(Seen::of(event)));
        std::mem::take(&mut self.seen)
    }

    fn report(&self) -> ConnectionReport {
        self.connections.report()
    }
}

impl Seen {
    fn of(event: ConnectionEvent<'_>) -> Self {
        match event {
            ConnectionEvent::Message { session, captured_ms, octets } => {
                assert_eq!((session.transport, captured_ms, octets.len()), (Transport::Tcp, 1_000, 21));
                Self::Message(session.source.port(), octets[20])
            }
            ConnectionEvent::End { session, .. } => Self::End(session.source.port()),
        }
    }
}

const EXPORT: (u16, u16) = (40_000, 4739);
/// To another port than that of IPFIX.
const OTHER: (u16, u16) = (40_000, 2055);

#[test]
fn a_connection_is_read_from_its_begin_to_its_end() {
    for ports in [EXPORT, OTHER] {
        let mut capture = Capture::new(None);
        let octets = messages(1..=3);
        assert_eq!(capture.send(ports, 99, SYN, b""), []);
        // what was known of an earlier connection is forgotten before the first message
        assert_eq!(capture.send(ports, 100, ACK, &octets[..30]), [End(40_000), Message(40_000, 1)]);
        assert_eq!(capture.send(ports, 160, ACK | FIN, &octets[60..]), []);
        assert_eq!(
            capture.send(ports, 130, ACK, &octets[30..60]),
            [Message(40_000, 2), Message(40_000, 3), End(40_000)]
        );
        // the last segment again, whose acknowledgement was lost
        assert_eq!(capture.send(ports, 142, ACK | FIN, &octets[42..]), []);
        assert_eq!(capture.finish(), []);
        assert_eq!(capture.report(), ConnectionReport { sessions: 1, messages: 3, ..ConnectionReport::default() });
    }
}

#[test]
fn the_first_octets_may_come_one_by_one() {
    let mut capture = Capture::new(None);
    capture.send(OTHER, 99, SYN, b"");
    let seen: Vec<Seen> = message(1)
        .iter()
        .zip(100..)
        .flat_map(|(octet, number)| capture.send(OTHER, number, ACK, std::slice::from_ref(octet)))
        .collect();
    assert_eq!(seen, [End(40_000), Message(40_000, 1)]);
}

#[test]
fn both_directions_and_addresses_of_ipv6() {
    let (one, other) = (address("[2001:db8::1]:40000"), address("[2001:db8::2]:4739"));
    let mut capture = Capture::new(None);
    assert_eq!(capture.add(one, other, (5, ACK), &message(1)), [Message(40_000, 1)]);
    assert_eq!(capture.add(other, one, (5, ACK), &message(2)), [Message(4739, 2)]);
    assert_eq!(capture.report().sessions, 2);
}

/// Nothing is forgotten of a session whose begin was not captured: an earlier capture may have it.
#[test]
fn a_capture_may_begin_in_the_middle_of_a_connection() {
    let mut capture = Capture::new(None);
    let octets = messages(1..=4);
    // within a message: only to the port of IPFIX is looked for the begin of another
    assert_eq!(capture.send(OTHER, 10, ACK, &octets[10..]), []);
    assert_eq!(
        capture.send(EXPORT, 10, ACK, &octets[10..]),
        (2..=4).map(|value| Message(40_000, value)).collect::<Vec<_>>()
    );
    assert_eq!(capture.report().octets_skipped, 11);
    // with a message, in part
    let mut capture = Capture::new(None);
    assert_eq!(capture.send(OTHER, 21, ACK, &octets[21..41]), []);
    assert_eq!(capture.send(OTHER, 41, ACK, &octets[41..63]), [Message(40_000, 2), Message(40_000, 3)]);
    assert_eq!(capture.report(), ConnectionReport { sessions: 1, messages: 2, ..ConnectionReport::default() });
}

#[test]
fn octets_before_the_first_message_are_counted_as_those_between_messages_are() {
    let mut capture = Capture::new(None);
    capture.send(EXPORT, 99, SYN, b"");
    assert_eq!(capture.send(EXPORT, 100, ACK, &[0; 30]), []);
    assert_eq!(capture.report().octets_skipped, 0, "it may be no export");
    assert_eq!(capture.send(EXPORT, 130, ACK, &message(1)), [End(40_000), Message(40_000, 1)]);
    assert_eq!(capture.send(EXPORT, 151, ACK, &[&[0; 30][..], &message(2)].concat()), [Message(40_000, 2)]);
    assert_eq!(capture.report().octets_skipped, 60);
}

#[test]
fn other_traffic_is_no_export_and_nothing_is_kept_of_it() {
    let mut capture = Capture::new(None);
    for (number, payload) in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0, 10, 0, 40, 1, 2], &[0; 100]].into_iter().enumerate()
    {
        let ports = (40_000 + number as u16, 80);
        assert_eq!(capture.send(ports, 1, SYN, b""), []);
        assert_eq!(capture.send(ports, 2, ACK, payload), []);
        assert_eq!(capture.send((80, ports.0), 2, ACK, payload), []);
        capture.send(ports, 2 + payload.len() as u32, ACK, &[7; 60]);
    }
    // a segment that begins as a message does, and goes on as none
    capture.send((50_000, 80), 2, ACK, &message(1)[..20]);
    assert_eq!(capture.connections.streams.sizes()[0], 1);
    let other = [0, 10, 0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 10, 7, 7];
    capture.send((50_001, 80), 2, ACK, &other);
    capture.send((50_001, 80), 24, ACK, &[7; 60]);
    assert_eq!(capture.connections.streams.sizes()[0], 1);
    assert_eq!((capture.finish(), capture.report()), (vec![], ConnectionReport::default()));
}

#[test]
fn a_port_that_is_asked_for_is_the_only_one() {
    let mut capture = Capture::new(Some(2055));
    assert_eq!(capture.send(EXPORT, 1, ACK, &message(1)), []);
    assert_eq!(capture.send(OTHER, 1, ACK, &messages(1..=2)[5..]), [Message(40_000, 2)]);
    // whatever is sent there should be exports
    capture.send((40_001, 2055), 1, SYN, b"");
    capture.send((40_001, 2055), 2, ACK, &[7; 100]);
    assert_eq!(capture.report().octets_skipped, 16 + 100);
}

#[test]
fn another_connection_with_the_same_ports_is_another_session() {
    let mut capture = Capture::new(None);
    capture.send(EXPORT, 99, SYN, b"");
    assert_eq!(capture.send(EXPORT, 100, ACK, &message(1)), [End(40_000), Message(40_000, 1)]);
    // its first segment again
    assert_eq!(capture.send(EXPORT, 99, SYN, b""), []);
    assert_eq!(capture.send(EXPORT, 121, ACK, &message(2)), [Message(40_000, 2)]);
    // the end was not captured
    assert_eq!(capture.send(EXPORT, 77, SYN, b""), [End(40_000)]);
    assert_eq!(capture.send(EXPORT, 78, ACK, &message(3)), [End(40_000), Message(40_000, 3)]);
    // the end was, and the begin was not
    assert_eq!(capture.send(EXPORT, 99, ACK | FIN, b""), [End(40_000)]);
    assert_eq!(capture.send(EXPORT, 5_000, ACK, &message(4)), [Message(40_000, 4)]);
    assert_eq!(capture.report().sessions, 3);
}

#[test]
fn a_reset_of_either_side_ends_a_connection() {
    let mut capture = Capture::new(None);
    assert_eq!(capture.send(EXPORT, 1, ACK, &messages(1..=2)[..40]), [Message(40_000, 1)]);
    // of somebody who does not know the numbers
    assert_eq!(capture.send(EXPORT, 1 << 31, RST, b""), []);
    assert_eq!(capture.send(EXPORT, 41, RST, b""), [End(40_000)]);
    assert_eq!(capture.report().octets_skipped, 19);
    assert_eq!(capture.send((40_001, 4739), 1, ACK, &message(1)), [Message(40_001, 1)]);
    let (source, destination) = (address("192.0.2.9:4739"), address("192.0.2.1:40001"));
    // what the other side resets is known by what it acknowledges
    assert_eq!(capture.add(source, destination, (1, RST), b""), []);
    capture.acknowledged = 1 << 31;
    assert_eq!(capture.add(source, destination, (1, RST | ACK), b""), []);
    capture.acknowledged = 22;
    assert_eq!(capture.add(source, destination, (1, RST | ACK), b""), [End(40_001)]);
}

/// The last segment is sent again after others, and one of somebody who does not know the numbers is the first to end.
#[test]
fn an_end_that_no_receiver_believes_ends_no_session() {
    let mut capture = Capture::new(None);
    assert_eq!(capture.send(EXPORT, 100, ACK, &messages(1..=2)), [Message(40_000, 1), Message(40_000, 2)]);
    assert_eq!(capture.send(EXPORT, 99, ACK | FIN, b""), []);
    assert_eq!(capture.send(EXPORT, 100 + (1 << 30), ACK | FIN, b""), []);
    assert_eq!(capture.send(EXPORT, 142, ACK | FIN, &message(3)), [Message(40_000, 3), End(40_000)]);
}

#[test]
fn what_is_missing_in_the_capture_is_counted() {
    let mut capture = Capture::new(None);
    let octets = messages(1..=9);
    assert_eq!(capture.send(EXPORT, 0, ACK, &octets[..25]), [Message(40_000, 1)]);
    // the second message is missing, with parts of the third and the sixth
    assert_eq!(capture.send(EXPORT, 55, ACK, &octets[55..110]), []);
    assert_eq!(capture.send(EXPORT, 120, ACK, &octets[120..]), []);
    assert_eq!(capture.finish(), [4, 5, 7, 8, 9].map(|value| Message(40_000, value)));
    let ConnectionReport { sessions, messages, octets_missing, octets_skipped, .. } = capture.report();
    assert_eq!((sessions, messages, octets_missing), (1, 6, 30 + 10));
    // all octets are in a message, missing or skipped
    assert_eq!(6 * 21 + octets_missing + octets_skipped, 9 * 21);
}

#[test]
fn encrypted_connections_are_counted_once() {
    // a ClientHello (RFC 8446 section 4.1.2), and data
    let (hello, data) = ([22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3], [23, 3, 3, 0, 100, 7, 7, 7]);
    let mut capture = Capture::new(None);
    let tls = (40_000, 4740);
    capture.send(tls, 99, SYN, b"");
    capture.send(tls, 100, ACK, &hello);
    capture.send(tls, 111, ACK, &data);
    assert_eq!(capture.report().sessions_encrypted, 1);
    // of one that began before the capture, and one that has another port
    capture.send((40_001, 4740), 111, ACK, &data);
    capture.send((40_001, 4740), 119, ACK, &message(1));
    capture.send((40_002, 443), 111, ACK, &data);
    capture.send((40_003, 4739), 111, ACK, &hello);
    assert_eq!(capture.report(), ConnectionReport { sessions_encrypted: 3, ..ConnectionReport::default() });
    // IPFIX without TLS, to the same port
    assert_eq!(capture.send((40_004, 4740), 1, ACK, &message(1)), [Message(40_004, 1)]);
}

/// The Templates of both would be mixed up.
#[test]
fn of_two_connections_with_one_source_the_later_is_read() {
    let mut capture = Capture::new(None);
    assert_eq!(capture.send(EXPORT, 1, ACK, &message(1)), [Message(40_000, 1)]);
    assert_eq!(capture.send(OTHER, 1, ACK, &message(2)), [Message(40_000, 2)]);
    assert_eq!(capture.send(EXPORT, 22, ACK, &message(3)), []);
    assert_eq!(capture.send(OTHER, 22, ACK, &message(4)), [Message(40_000, 4)]);
    let expected = ConnectionReport { sessions: 2, sessions_given_up: 1, messages: 3, ..ConnectionReport::default() };
    assert_eq!(capture.report(), expected);
}

#[test]
fn connections_that_begin_and_send_nothing_keep_no_session_out() {
    let mut capture = Capture::new(None);
    capture.send(EXPORT, 0, ACK, &message(1));
    for port in 1..=3_000 {
        capture.send((port, 80), 1, SYN, b"");
    }
    assert_eq!(capture.connections.streams.sizes()[0], 1 + UNDECIDED_MAX);
    assert_eq!(capture.send(EXPORT, 21, ACK, &message(2)), [Message(40_000, 2)]);
}

#[test]
fn the_oldest_of_too_many_sessions_is_given_up() {
    let mut capture = Capture::new(None);
    for port in 1..=1_500 {
        assert_eq!(capture.send((port, 4739), 0, ACK, &message(1)), [Message(port, 1)]);
    }
    let Connections { streams, destinations, .. } = &capture.connections;
    assert_eq!((streams.sizes(), destinations.len()), ([SESSIONS_MAX, 0, SESSIONS_MAX, 0], SESSIONS_MAX));
    assert_eq!(capture.report().sessions_given_up, 1_500 - SESSIONS_MAX as u64);
    // it may go on
    assert_eq!(capture.send((1, 4739), 21, ACK, &message(2)), [Message(1, 2)]);
}

#[test]
fn connections_that_have_ended_or_cannot_be_read_keep_no_session_out() {
    let mut capture = Capture::new(None);
    let octets = messages(1..=3);
    assert_eq!(capture.send(EXPORT, 0, ACK, &octets[..30]), [Message(40_000, 1)]);
    for port in 1..=2_000 {
        assert_eq!(capture.send((port, 4739), 0, ACK | FIN, &message(1)), [Message(port, 1), End(port)]);
        capture.send((port, 4740), 0, ACK, &[22, 3, 1, 0, 200, 1]);
    }
    let Connections { streams, destinations, .. } = &capture.connections;
    assert_eq!((streams.sizes(), destinations.len()), ([1 + CLOSED_MAX, 0, 1, CLOSED_MAX], 1));
    assert_eq!(capture.send(EXPORT, 30, ACK, &octets[30..]), [Message(40_000, 2), Message(40_000, 3)]);
    let expected =
        ConnectionReport { sessions: 2_001, sessions_encrypted: 2_000, messages: 2_003, ..ConnectionReport::default() };
    assert_eq!(capture.report(), expected);
}

/// The last segment of a session that was open for long is sent again, whose acknowledgement was lost.
#[test]
fn what_ended_last_is_known_for_longest() {
    let mut capture = Capture::new(None);
    capture.send(EXPORT, 0, ACK, &message(1));
    for port in 1..=CLOSED_MAX as u16 {
        capture.send((port, 4739), 0, ACK | FIN, &message(1));
    }
    assert_eq!(capture.send(EXPORT, 21, ACK | FIN, &message(2)), [Message(40_000, 2), End(40_000)]);
    assert_eq!(capture.send((50_000, 4739), 0, ACK | FIN, &message(1)), [Message(50_000, 1), End(50_000)]);
    assert_eq!(capture.send(EXPORT, 21, ACK | FIN, &message(2)), []);
}

/// What becomes a session is the newest one, however long ago it began.
#[test]
fn a_connection_that_sends_late_is_a_session_as_others_are() {
    let mut capture = Capture::new(None);
    for port in 1..=1_000 {
        capture.send((port, 4739), 0, SYN, b"");
    }
    for port in 2_001..=2_000 + SESSIONS_MAX as u16 {
        capture.send((port, 4739), 0, ACK, &message(1));
    }
    for port in 1..=1_000 {
        assert_eq!(capture.send((port, 4739), 1, ACK, &message(1)), [End(port), Message(port, 1)]);
        assert_eq!(capture.send((port, 4739), 22, ACK, &message(2)), [Message(port, 2)]);
    }
    let Connections { streams, destinations, .. } = &capture.connections;
    assert_eq!([streams.sizes()[2], destinations.len()], [SESSIONS_MAX; 2]);
    assert_eq!(capture.report().sessions_given_up, 1_000);
}

#[test]
fn octets_of_all_connections_are_limited() {
    let mut capture = Capture::new(None);
    let octets = vec![7; 60_000];
    for port in 1..=100 {
        capture.send((port, 4739), 0, ACK, &message(1));
        for number in 0..17 {
            capture.send((port, 4739), 1_000 + number * 60_000, ACK, &octets);
            assert!(capture.connections.streams.octets_held() <= OCTETS_MAX);
        }
    }
    let holders = capture.connections.streams.checked_holders();
    assert!(holders.len() < 70);
    assert!(capture.report().octets_skipped > 30 << 20);
    // what is not known to be an export is the first to lose its octets
    capture.send((200, 4739), 0, SYN, b"");
    for number in 0..17 {
        capture.send((200, 4739), 1_000 + number * 60_000, ACK, &octets);
    }
    assert_eq!(capture.connections.streams.checked_holders(), holders);
    // who lost them goes on
    assert_eq!(capture.send((1, 4739), 1_000 + 17 * 60_000, ACK, &message(2)), [Message(1, 2)]);
}
