//! Packets that were cut or changed: nothing panics, and no buffer is lost.

use std::path::Path;

use weir_meter::application::{Direction, Inspection, Inspector, Limits};

use crate::captures::each_packet;

/// The first payloads of a capture with their protocol and ports.
fn payloads(path: &Path) -> Vec<(u8, (u16, u16), Vec<u8>)> {
    let mut payloads = Vec::new();
    each_packet(path, |packet| {
        let headers = packet.innermost();
        if let (Some(ip), Some(ports)) = (headers.ip, headers.ports)
            && !headers.payload().is_empty()
            && payloads.len() < 20
        {
            payloads.push((ip.protocol, ports, headers.payload().to_vec()));
        }
    });
    payloads
}

/// Inspects a flow of these packets, which go this way and that.
fn inspect(inspector: &mut Inspector, protocol: u8, ports: (u16, u16), packets: &[&[u8]]) {
    let mut inspection = Inspection::new(protocol, ports.0, ports.1);
    for (number, packet) in packets.iter().enumerate() {
        let direction = if number % 3 == 2 { Direction::Reverse } else { Direction::Forward };
        inspector.inspect(&mut inspection, direction, None, packet);
    }
    let application = inspector.conclude(inspection);
    assert!(application.elements().all(|(_, _, value)| value.len() <= 1024));
}

#[test]
fn damaged_packets_are_inspected() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let folder = corpus.join("ntop+nDPI/tests/cfgs/default/pcap");
    let mut inspector = Inspector::new(Limits { buffers_max: 3 });
    let mut paths: Vec<_> = std::fs::read_dir(folder).expect("captures").flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        for (protocol, ports, payload) in payloads(&path) {
            for end in (0..payload.len().min(300)).step_by(11).chain([payload.len() / 2]) {
                inspect(&mut inspector, protocol, ports, &[&payload[..end], &payload[end..], &payload]);
            }
            // An octet of every twenty is overwritten, by turns with all and with no bits.
            for place in (0..payload.len().min(400)).step_by(20) {
                let mut damaged = payload.clone();
                damaged[place] = if place % 40 == 0 { 0xff } else { 0 };
                inspect(&mut inspector, protocol, ports, &[&damaged]);
            }
        }
    }
    assert_eq!(inspector.buffers_held(), 0);
    assert!(inspector.counts().flows > 100_000, "{:?}", inspector.counts());
    assert!(inspector.counts().malformed > 0);
}

/// A record of a `ClientHello` whose rest does not come.
fn begun_hello() -> Vec<u8> {
    [&b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03"[..], &[7; 60]].concat()
}

#[test]
fn buffers_are_limited_and_refusals_counted() {
    let hello = begun_hello();
    let mut inspector = Inspector::new(Limits { buffers_max: 2 });
    let mut inspections: Vec<_> = (0..5).map(|port| Inspection::new(6, 50_000 + port, 443)).collect();
    for inspection in &mut inspections {
        inspector.inspect(inspection, Direction::Forward, Some(1), &hello);
    }
    assert_eq!((inspector.buffers_held(), inspector.counts().buffers_refused), (2, 3));
    for inspection in inspections {
        assert_eq!(inspector.conclude(inspection).name(), Some("tls"));
    }
    assert_eq!(inspector.buffers_held(), 0);
}

/// Packets behind the last one that is looked at cannot fill the hole, and the flow may last for hours.
#[test]
fn a_hello_with_a_hole_keeps_no_buffer_when_no_more_is_looked_at() {
    let hello = begun_hello();
    let mut inspector = Inspector::new(Limits { buffers_max: 1 });
    let mut inspections: Vec<_> = (0..2).map(|port| Inspection::new(6, 50_000 + port, 443)).collect();
    for inspection in &mut inspections {
        inspector.inspect(inspection, Direction::Forward, Some(1), &hello);
        inspector.inspect(inspection, Direction::Forward, Some(200), &[7; 20]);
        // those of the other direction are not counted with it
        for _ in 0..4 {
            inspector.inspect(inspection, Direction::Reverse, Some(1), &[9; 20]);
        }
        inspector.inspect(inspection, Direction::Forward, Some(220), &[7; 20]);
        assert_eq!(inspector.buffers_held(), 1);
        inspector.inspect(inspection, Direction::Forward, Some(240), &[7; 20]);
        assert_eq!(inspector.buffers_held(), 0);
    }
    assert_eq!(inspector.counts().buffers_refused, 0);
    for inspection in inspections {
        assert_eq!(inspector.conclude(inspection).name(), Some("tls"));
    }
}

/// The same of QUIC: a client that sends its first Initial packet, which has 1182 of 1578 octets, again and again.
#[test]
fn a_hello_of_quic_keeps_no_buffer_when_no_more_is_looked_at() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let path = corpus.join("ntop+nDPI/tests/cfgs/default/pcap/quic_frags_ch_in_multiple_packets.pcapng");
    let packets = payloads(&path);
    let (protocol, (source, destination), initial) = &packets[0];
    let mut inspector = Inspector::default();
    let mut inspection = Inspection::new(*protocol, *source, *destination);
    for held in [1, 1, 1, 0] {
        inspector.inspect(&mut inspection, Direction::Forward, None, initial);
        assert_eq!(inspector.buffers_held(), held);
    }
    assert_eq!(inspector.conclude(inspection).name(), Some("quic"));
    assert_eq!(inspector.buffers_held(), 0);
}
