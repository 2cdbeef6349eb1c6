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

fn told(segments: &[&[u8]]) -> TlsDetails {
    let mut inspector = Inspector::default();
    let mut inspection = Inspection::new(6, 50_000, 443);
    for segment in segments {
        inspector.inspect(&mut inspection, Direction::Forward, segment);
    }
    match inspector.conclude(inspection).details {
        Details::Tls(details) => *details,
        other => panic!("{other:?}"),
    }
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
