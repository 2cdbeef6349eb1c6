//! A `ClientHello` in several segments tells the same as in one.

use weir_meter::application::{Details, Direction, Inspection, Inspector, TlsDetails};

use crate::captures::each_packet;

/// The `ClientHello` of a capture, in one segment.
fn client_hello(corpus: &std::path::Path) -> Vec<u8> {
    let mut hello = Vec::new();
    each_packet(&corpus.join("ntop+nDPI/tests/cfgs/default/pcap/443-curl.pcap"), |packet| {
        let payload = packet.innermost().payload();
        if hello.is_empty() && payload.starts_with(&[22, 3]) && payload.get(5) == Some(&1) {
            hello = payload.to_vec();
        }
    });
    hello
}

/// What segments of a client show that follow each other, the first of which has this sequence number.
fn told_from(first: Option<u32>, segments: &[&[u8]]) -> TlsDetails {
    let mut next = first;
    let segments = segments.iter().map(|segment| {
        let sequence = next;
        next = next.map(|next| next.wrapping_add(segment.len() as u32));
        (Direction::Forward, sequence, *segment)
    });
    inspected(segments)
}

fn inspected<'s>(segments: impl Iterator<Item = (Direction, Option<u32>, &'s [u8])>) -> TlsDetails {
    let mut inspector = Inspector::default();
    let mut inspection = Inspection::new(6, 50_000, 443);
    for (direction, sequence, segment) in segments {
        inspector.inspect(&mut inspection, direction, sequence, segment);
    }
    match inspector.conclude(inspection).details {
        Details::Tls(details) => *details,
        other => panic!("{other:?}"),
    }
}

/// Segments one behind the other, with sequence numbers that begin again at 0 within them.
fn told(segments: &[&[u8]]) -> TlsDetails {
    told_from(Some(u32::MAX - 7), segments)
}

#[test]
fn segments_are_put_together() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let hello = client_hello(&corpus);
    let whole = told(&[&hello]);
    // What nDPI says of the capture.
    assert_eq!(whole.server_name.as_deref(), Some("www.ntop.org"));
    assert_eq!(whole.ja4.as_deref(), Some("t12d6707h2_2955a3196ffa_c83f907a73d3"));
    for first in 6..hello.len() {
        let second = first.midpoint(hello.len());
        assert_eq!(told(&[&hello[..first], &hello[first..]]), whole, "{first}");
        // as in fragments of IP, which have no sequence numbers
        assert_eq!(told_from(None, &[&hello[..first], &hello[first..]]), whole, "{first}");
        assert_eq!(told(&[&hello[..first], &hello[first..second], &hello[second..]]), whole, "{first}, {second}");
    }
}

/// What came of a hello whose end never came is told, and has no fingerprint.
#[test]
fn a_hello_without_its_end_tells_what_it_has() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let hello = client_hello(&corpus);
    let details = told(&[&hello[..hello.len() - 1]]);
    assert_eq!((details.server_name.as_deref(), details.ja4), (Some("www.ntop.org"), None));
}

/// A segment that comes again behind the hello is no answer of the server.
#[test]
fn a_segment_that_comes_again_does_not_hide_the_answer() {
    // RFC 8446 sections 4.1.2 and 4.1.3, and `supported_versions` of the server (section 4.2.1)
    let client = [&b"\x16\x03\x01\0\x2d\x01\0\0\x29\x03\x03"[..], &[0; 32], b"\0\0\x02\x13\x01\x01\0"].concat();
    let server =
        [&b"\x16\x03\x03\0\x32\x02\0\0\x2e\x03\x03"[..], &[0; 32], b"\0\x13\x01\0\0\x06\0\x2b\0\x02\x03\x04"].concat();
    let (begin, end) = client.split_at(20);
    let segments = [
        (Direction::Forward, Some(1000), begin),
        (Direction::Forward, Some(1020), end),
        (Direction::Forward, Some(1020), end),
        (Direction::Reverse, Some(5000), &server[..]),
    ];
    let details = inspected(segments.into_iter());
    let versions = (details.client_version, details.server_version);
    assert_eq!((versions, details.cipher_suite), ((Some(0x0303), Some(0x0304)), Some(0x1301)));
}
