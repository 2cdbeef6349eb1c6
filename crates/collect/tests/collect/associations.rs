//! Exports in captures: IPFIX over SCTP from frames to flows and books, and what the doctor finds in them.

use std::net::Ipv6Addr;

use weir_collect::capture::{AssociationReport, CaptureReport};
use weir_collect::doctor::examine_capture;

use super::captured::{Capture, hosts};
use super::*;

/// Flags of DATA (RFC 9260 section 3.3.1): the fragment that ends a message, the one that begins it, and both.
pub(crate) const E: u8 = 1;
const B: u8 = 2;
const WHOLE: u8 = 3;
const INIT: u8 = 1;
const SHUTDOWN_COMPLETE: u8 = 14;
/// Verification Tag of the packets of an exporter.
const TAG: u32 = 0x5eed_0001;

/// A chunk with its padding (RFC 9260 section 3.2).
fn chunk(kind: u8, flags: u8, value: &[u8]) -> Vec<u8> {
    let mut chunk = vec![kind, flags];
    chunk.extend((4 + value.len() as u16).to_be_bytes());
    chunk.extend(value);
    chunk.resize(chunk.len().next_multiple_of(4), 0);
    chunk
}

/// DATA of a stream, without number and protocol.
pub(crate) fn data_chunk(flags: u8, tsn: u32, stream: u8, payload: &[u8]) -> Vec<u8> {
    chunk(0, flags, &[&tsn.to_be_bytes()[..], &[0, stream, 0, 0, 0, 0, 0, 0], payload].concat())
}

/// INIT: a tag, window, streams, and the first TSN.
pub(crate) fn init(initial_tsn: u32) -> Vec<u8> {
    chunk(INIT, 0, &[&[0, 0, 0, 9, 0, 1, 0, 0, 0, 2, 0, 1][..], &initial_tsn.to_be_bytes()].concat())
}

/// An SCTP packet from this port to port 4739, without checksum (RFC 9260 section 3.1).
fn sctp(port: u16, tag: u32, chunks: &[Vec<u8>]) -> Vec<u8> {
    let mut packet = [port.to_be_bytes(), 4739_u16.to_be_bytes()].concat();
    packet.extend(tag.to_be_bytes());
    packet.extend([0; 4]);
    packet.extend(chunks.concat());
    packet
}

/// An IPv4 header (RFC 791 section 3.1) with these flags and offset of a fragment, and what it carries.
fn ipv4(fragment: u16, carried: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((20 + carried.len() as u16).to_be_bytes());
    packet.extend([0, 7]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, 132, 0, 0, 192, 0, 2, 1, 192, 0, 2, 9]);
    packet.extend(carried);
    packet
}

/// Adds a packet with these chunks, which has this tag and goes from this port to port 4739.
pub(crate) fn add(capture: &mut Capture, port: u16, tag: u32, chunks: &[Vec<u8>]) {
    let packet = ipv4(0, &sctp(port, tag, chunks));
    capture.packet(&packet, packet.len());
}

/// The chunks of each packet.
type Packets = Vec<Vec<Vec<u8>>>;

/// A capture of one association whose packets have these chunks.
fn capture(packets: &[Vec<Vec<u8>>]) -> Capture {
    let mut capture = Capture::new();
    for chunks in packets {
        add(&mut capture, 40_000, TAG, chunks);
    }
    capture
}

/// Three messages, with six flows in the last two.
fn messages() -> [Vec<u8>; 3] {
    [templates_only(0), data(0, &[1, 2, 3]), data(3, &[4, 5, 6])]
}

/// What a decoder makes of the messages when they come in datagrams.
fn flows_over_udp() -> FlowBatch {
    let mut decoder = Decoder::new(Limits::default());
    for message in &messages() {
        decoder.datagram(source(40_000), RECEIVED_MS, message);
    }
    decoder.take_delivery().flows.expect("flows")
}

fn sent() -> AssociationReport {
    AssociationReport { sessions: 1, messages: 3, ..AssociationReport::default() }
}

/// Whole, bundled, in fragments, in another order, and sent again.
#[test]
fn flows_are_those_of_the_same_messages_over_udp() {
    let [templates, one, other] = messages();
    let whole = |tsn, message: &[u8]| data_chunk(WHOLE, tsn, 0, message);
    let parts = |tsn, message: &[u8]| -> Vec<Vec<u8>> {
        let (begin, rest) = message.split_at(11);
        let (middle, end) = rest.split_at(9);
        vec![data_chunk(B, tsn, 0, begin), data_chunk(0, tsn + 1, 0, middle), data_chunk(E, tsn + 2, 0, end)]
    };
    let each = |chunks: Vec<Vec<u8>>| -> Packets { chunks.into_iter().map(|chunk| vec![chunk]).collect() };
    let in_parts = [parts(1, &templates), parts(4, &one), parts(7, &other)].concat();
    let backwards: Vec<_> = in_parts.iter().skip(1).rev().cloned().collect();
    let twice: Vec<_> = in_parts.iter().flat_map(|chunk| [chunk.clone(), chunk.clone()]).collect();
    let ways: [(&str, Packets); 6] = [
        ("whole", each(vec![whole(1, &templates), whole(2, &one), whole(3, &other)])),
        ("bundled", vec![vec![whole(1, &templates), whole(2, &one), whole(3, &other)]]),
        ("in fragments", each(in_parts.clone())),
        ("in bundled fragments", vec![in_parts[..4].to_vec(), in_parts[4..].to_vec()]),
        ("in another order", [each(in_parts[..1].to_vec()), each(backwards)].concat()),
        ("sent again", each(twice)),
    ];
    let expected = flows_over_udp();
    for (way, packets) in ways {
        let (mut decoder, report) = capture(&packets).read();
        assert_eq!((report.associations, report.packets_sctp), (sent(), packets.len() as u64), "{way}");
        let delivery = decoder.take_delivery();
        let flows = delivery.flows.as_ref().expect("flows");
        for column in [Column::SrcAddr, Column::Exporter] {
            assert_eq!(flows.binary(column), expected.binary(column), "{way}");
        }
        let octets = |flows: &FlowBatch| flows.primitive::<UInt64Type>(Column::Bytes).cloned();
        assert_eq!(octets(flows), octets(&expected), "{way}");
        check_counts(
            &delivery,
            &[
                (Counter::Datagrams, 3),
                (Counter::StreamMessages, 3),
                (Counter::Templates, 1),
                (Counter::RecordsStored, 6),
            ],
        );
    }
}

#[test]
fn packets_come_in_fragments_and_over_ipv6() {
    let chunks =
        messages().iter().zip(1..).map(|(message, tsn)| data_chunk(WHOLE, tsn, 0, message)).collect::<Vec<_>>();
    let carried = sctp(40_000, TAG, &chunks);
    let mut capture = Capture::new();
    // 0x2000: more fragments; the offset is in units of 8 octets
    for packet in [ipv4(8, &carried[64..]), ipv4(0x2000, &carried[..64])] {
        capture.packet(&packet, packet.len());
    }
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((carried.len() as u16).to_be_bytes());
    packet.extend([132, 64]);
    packet.extend(Ipv6Addr::LOCALHOST.octets().repeat(2));
    packet.extend(&carried);
    capture.packet(&packet, packet.len());
    let (mut decoder, report) = capture.read();
    assert_eq!(report.associations, AssociationReport { sessions: 2, messages: 6, ..AssociationReport::default() });
    assert_eq!(hosts(&mut decoder), [1, 2, 3, 4, 5, 6].repeat(2));
}

/// RFC 7011 section 10.2.4.3: streams do not wait for one another, and the Templates of one hold for all.
#[test]
fn data_of_one_stream_may_precede_its_template_on_another() {
    let [templates, one, _] = messages();
    let packets = [vec![data_chunk(WHOLE, 1, 1, &one)], vec![data_chunk(WHOLE, 2, 0, &templates)]];
    let (mut decoder, report) = capture(&packets).read();
    assert_eq!((report.associations.messages, hosts(&mut decoder)), (2, vec![1, 2, 3]));
}

/// RFC 7011 section 8.1.
#[test]
fn templates_hold_to_the_end_of_their_association() {
    let [templates, one, other] = messages();
    let mut capture = Capture::new();
    add(&mut capture, 40_000, 0, &[init(1)]);
    add(&mut capture, 40_000, TAG, &[data_chunk(WHOLE, 1, 0, &templates), data_chunk(WHOLE, 2, 0, &one)]);
    add(&mut capture, 40_000, TAG, &[chunk(SHUTDOWN_COMPLETE, 0, &[])]);
    // the same port again, with data alone, and once more with another tag
    add(&mut capture, 40_000, 0, &[init(70)]);
    add(&mut capture, 40_000, 2, &[data_chunk(WHOLE, 70, 0, &other)]);
    add(&mut capture, 40_000, 3, &[data_chunk(WHOLE, 5, 0, &other)]);
    let (mut decoder, report) = capture.read();
    assert_eq!(report.associations, AssociationReport { sessions: 3, messages: 4, ..AssociationReport::default() });
    assert_eq!(hosts(&mut decoder), [1, 2, 3]);
    // the set of the second one was dropped with it
    assert_eq!(decoder.statistics().sets_waiting, 1);
}

/// What the capture has not is lost by the sequence numbers of messages (RFC 7011 section 3.1).
#[test]
fn the_books_have_what_is_missing_in_the_capture() {
    let [templates, one, other] = messages();
    let mut lying = data_chunk(B, 2, 0, &one[..20]);
    lying[3] += 1;
    let packets = [
        vec![data_chunk(WHOLE, 1, 0, &templates)],
        // a length that is not that of the chunk, at the end of the packet
        vec![lying],
        vec![data_chunk(E, 3, 0, &one[20..]), data_chunk(WHOLE, 4, 0, &other)],
    ];
    let (mut decoder, report) = capture(&packets).read();
    let expected = AssociationReport {
        sessions: 1,
        messages: 2,
        chunks_missing: 1,
        octets_skipped: one.len() as u64 - 20,
        packets_damaged: 1,
        ..AssociationReport::default()
    };
    assert_eq!(report.associations, expected);
    check_counts(
        &decoder.take_delivery(),
        &[
            (Counter::Datagrams, 2),
            (Counter::StreamMessages, 2),
            (Counter::Templates, 1),
            (Counter::RecordsStored, 3),
            (Counter::RecordsLost, 3),
        ],
    );
}

#[test]
fn what_a_capture_cuts_short_is_counted() {
    let [templates, ..] = messages();
    let packet = ipv4(0, &sctp(40_000, TAG, &[data_chunk(WHOLE, 1, 0, &templates)]));
    let mut capture = Capture::new();
    capture.packet(&packet, packet.len() - 8);
    let (_, CaptureReport { associations, packets_sctp, frames_other, .. }) = capture.read();
    assert_eq!((associations.packets_damaged, associations.messages), (1, 0));
    assert_eq!((packets_sctp, frames_other), (1, 0));
    let (report, outcome) = examine_capture(capture.0.as_slice(), Limits::default());
    outcome.expect("read");
    let text = report.to_string();
    assert!(
        text.starts_with("none of the exports in the capture can be read\n") && text.contains("cut_short"),
        "{text}"
    );
}

/// All have one tag, too: whoever makes captures by hand has no other.
#[test]
fn a_thousand_associations_are_read_and_the_doctor_sees_each() {
    let mut capture = Capture::new();
    // of each the last message comes before the one that precedes it
    for (tsn, message) in [(10, templates_only(0)), (12, data(1, &[2])), (11, data(0, &[1]))] {
        for port in 1..=1_000 {
            add(&mut capture, port, 1, &[data_chunk(WHOLE, tsn, 0, &message)]);
        }
    }
    let (mut decoder, report) = capture.read();
    let expected = AssociationReport { sessions: 1_000, messages: 3_000, ..AssociationReport::default() };
    assert_eq!(report.associations, expected);
    assert_eq!(hosts(&mut decoder), [1, 2].repeat(1_000));
    let (report, outcome) = examine_capture(capture.0.as_slice(), Limits::default());
    outcome.expect("read");
    assert_eq!(report.exporters.len(), 1_000);
    assert!(report.exporters.iter().all(|exporter| exporter.records == 2));
}
