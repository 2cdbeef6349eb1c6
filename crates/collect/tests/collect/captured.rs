//! Exports in captures: IPFIX over TCP from frames to flows and books, and what the doctor finds in them.

use std::net::Ipv6Addr;

use weir_collect::capture::{CaptureReport, Captured, ConnectionEvent, ConnectionReport, read_exports};
use weir_collect::doctor::examine_capture;

use super::*;

const FIN: u8 = 1;
const SYN: u8 = 2;
const ACK: u8 = 16;

/// A capture of IPv4 and IPv6 packets (link type RAW), as the pcap format has it.
pub(crate) struct Capture(pub(crate) Vec<u8>);

impl Capture {
    pub(crate) fn new() -> Self {
        let words = [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 0x0001_0000, 101];
        Self(words.iter().flat_map(|word| word.to_be_bytes()).collect())
    }

    /// Adds a packet, which is captured as far as `length`.
    pub(crate) fn packet(&mut self, packet: &[u8], length: usize) {
        for word in [EXPORT_SECS, 500_000, length as u32, packet.len() as u32] {
            self.0.extend(word.to_be_bytes());
        }
        self.0.extend(&packet[..length]);
    }

    /// Adds a segment from this port to port 4739.
    pub(crate) fn segment(&mut self, port: u16, sequence: u32, flags: u8, payload: &[u8]) {
        let packet = ipv4(0, &segment(port, sequence, flags, payload));
        self.packet(&packet, packet.len());
    }

    /// What the connections in it are decoded to.
    fn decode(&self) -> (Decoder, ConnectionReport) {
        let (decoder, report) = self.read();
        (decoder, report.connections)
    }

    /// What the connections and associations in it are decoded to.
    pub(crate) fn read(&self) -> (Decoder, CaptureReport) {
        let mut decoder = Decoder::new(Limits::default());
        let (report, outcome) = read_exports(self.0.as_slice(), |captured| match captured {
            Captured::Connection(ConnectionEvent::Message { session, captured_ms, octets }) => {
                assert_eq!(captured_ms, i64::from(EXPORT_SECS) * 1_000 + 500);
                decoder.message(session, captured_ms, octets);
            }
            Captured::Connection(ConnectionEvent::End { session, captured_ms }) => {
                decoder.end_session(session, captured_ms);
            }
            Captured::Datagram(datagram) => panic!("{datagram:?}"),
        });
        outcome.expect("read");
        (decoder, report)
    }
}

/// A TCP header without options (RFC 9293 section 3.1), and what it carries.
fn segment(port: u16, sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut segment = [port.to_be_bytes(), 4739_u16.to_be_bytes()].concat();
    segment.extend(sequence.to_be_bytes());
    segment.extend([0, 0, 0, 1, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend(payload);
    segment
}

/// An IPv4 header (RFC 791 section 3.1) with these flags and offset of a fragment, and what it carries.
fn ipv4(fragment: u16, carried: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((20 + carried.len() as u16).to_be_bytes());
    packet.extend([0, 7]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 9]);
    packet.extend(carried);
    packet
}

pub(crate) fn hosts(decoder: &mut Decoder) -> Vec<u8> {
    let Some(flows) = decoder.take_delivery().flows else { return Vec::new() };
    flows.binary(Column::SrcAddr).expect("a column").iter().flatten().map(|address| address[3]).collect()
}

/// The same message as in a capture that tshark reads: one flow of one packet with 100 octets from 10.0.0.1 port 1234 to
/// 10.9.9.9 port 443.
#[test]
fn a_message_in_two_segments_is_a_flow() {
    let mut message = vec![0, 10, 0, 77, 0x65, 0x53, 0xf1, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    message.extend([0, 2, 0, 36, 1, 0, 0, 7, 0, 8, 0, 4, 0, 12, 0, 4, 0, 7, 0, 2, 0, 11, 0, 2]);
    message.extend([0, 4, 0, 1, 0, 2, 0, 4, 0, 1, 0, 4, 1, 0, 0, 25, 10, 0, 0, 1, 10, 9, 9, 9]);
    message.extend([4, 210, 1, 187, 6, 0, 0, 0, 1, 0, 0, 0, 100]);
    let mut capture = Capture::new();
    capture.segment(40_000, 99, SYN, &[]);
    capture.segment(40_000, 100, ACK, &message[..30]);
    capture.segment(40_000, 130, ACK, &message[30..]);
    let (mut decoder, report) = capture.decode();
    assert_eq!(report, ConnectionReport { sessions: 1, messages: 1, ..ConnectionReport::default() });
    let delivery = decoder.take_delivery();
    let flows = delivery.flows.as_ref().expect("flows");
    let address = |column| flows.binary(column).expect("a column").value(0).to_vec();
    assert_eq!(address(Column::Exporter), [192, 0, 2, 1]);
    assert_eq!((address(Column::SrcAddr), address(Column::DstAddr)), (vec![10, 0, 0, 1], vec![10, 9, 9, 9]));
    let port = |column| flows.primitive::<UInt16Type>(column).expect("a column").value(0);
    assert_eq!((port(Column::SrcPort), port(Column::DstPort)), (1234, 443));
    let number = |column| flows.primitive::<UInt64Type>(column).expect("a column").value(0);
    assert_eq!((number(Column::Packets), number(Column::Bytes)), (1, 100));
    check_counts(
        &delivery,
        &[(Counter::Datagrams, 1), (Counter::StreamMessages, 1), (Counter::Templates, 1), (Counter::RecordsStored, 1)],
    );
}

#[test]
fn segments_come_in_fragments_and_over_ipv6() {
    let stream = [templates_only(0), data(0, &[1, 2])].concat();
    let carried = segment(40_000, 5, ACK, &stream);
    let mut capture = Capture::new();
    // 0x2000: more fragments; the offset is in units of 8 octets
    for packet in [ipv4(4, &carried[32..]), ipv4(0x2000, &carried[..32])] {
        capture.packet(&packet, packet.len());
    }
    let mut packet = vec![0x60, 0, 0, 0, 0, carried.len() as u8, 6, 64];
    packet.extend(Ipv6Addr::LOCALHOST.octets().repeat(2));
    packet.extend(&carried);
    capture.packet(&packet, packet.len());
    let (mut decoder, report) = capture.decode();
    assert_eq!((report.sessions, report.messages), (2, 4));
    assert_eq!(hosts(&mut decoder), [1, 2, 1, 2]);
}

/// RFC 7011 section 8.1: Templates end with the connection.
#[test]
fn templates_hold_to_the_end_of_their_connection() {
    let mut capture = Capture::new();
    let (templates, one, other) = (templates_only(0), data(0, &[1]), data(1, &[2]));
    capture.segment(40_000, 99, SYN, &[]);
    capture.segment(40_000, 100, ACK, &templates);
    let next = 100 + templates.len() as u32;
    capture.segment(40_000, next, ACK | FIN, &one);
    // the same port again, with data alone; and a connection that is open
    capture.segment(40_000, 999, SYN, &[]);
    capture.segment(40_000, 1_000, ACK, &other);
    capture.segment(40_001, 1_000, ACK, &other);
    let (mut decoder, report) = capture.decode();
    assert_eq!((report.sessions, report.messages, report.octets_skipped), (3, 4, 0));
    assert_eq!(hosts(&mut decoder), [1]);
    assert_eq!(decoder.statistics().sets_waiting, 2);
}

/// What the capture has not is lost by the sequence numbers of messages (RFC 7011 section 3.1).
#[test]
fn the_books_have_what_is_missing_in_the_capture() {
    let mut capture = Capture::new();
    let mut sequence = 100;
    for (number, octets) in [templates_only(0), data(0, &[1, 2]), data(2, &[3, 4, 5]), data(5, &[6])].iter().enumerate()
    {
        let packet = ipv4(0, &segment(40_000, sequence, ACK, octets));
        // of the third message the last octets were not captured
        capture.packet(&packet, packet.len() - if number == 2 { 7 } else { 0 });
        sequence += octets.len() as u32;
    }
    let (mut decoder, report) = capture.decode();
    assert_eq!(
        (report.messages, report.octets_missing, report.octets_skipped),
        (3, 7, data(2, &[3, 4, 5]).len() as u64 - 7)
    );
    let delivery = decoder.take_delivery();
    check_counts(
        &delivery,
        &[
            (Counter::Datagrams, 3),
            (Counter::StreamMessages, 3),
            (Counter::Templates, 1),
            (Counter::RecordsStored, 3),
            (Counter::RecordsLost, 3),
        ],
    );
}

#[test]
fn the_doctor_sees_every_connection_and_those_that_are_encrypted() {
    let mut capture = Capture::new();
    for (port, host) in [(40_000, 1), (40_001, 2)] {
        let stream = [templates_only(0), data(0, &[host])].concat();
        capture.segment(port, 99, SYN, &[]);
        capture.segment(port, 100, ACK | FIN, &stream);
    }
    let (report, outcome) = examine_capture(capture.0.as_slice(), Limits::default());
    outcome.expect("read");
    let exporters: Vec<_> = report.exporters.iter().map(|exporter| (exporter.port, exporter.records)).collect();
    assert_eq!((exporters, report.connections_encrypted), (vec![(40_000, 1), (40_001, 1)], 0));
    // another connection from the same port, with as much in it
    let stream = [templates_only(0), data(0, &[3])].concat();
    capture.segment(40_001, 9_999, SYN, &[]);
    capture.segment(40_001, 10_000, ACK | FIN, &stream);
    let (report, _) = examine_capture(capture.0.as_slice(), Limits::default());
    let exporters: Vec<_> = report.exporters.iter().map(|exporter| (exporter.port, exporter.records)).collect();
    assert_eq!(exporters, [(40_000, 1), (40_001, 1), (40_001, 1)]);
    // a ClientHello of TLS (RFC 8446 section 5.1)
    capture.segment(40_002, 100, ACK, &[22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3]);
    let (report, _) = examine_capture(capture.0.as_slice(), Limits::default());
    let text = report.to_string();
    assert!(text.starts_with("1 connection of the capture with TLS or DTLS to a port of IPFIX: "), "{text}");
}
