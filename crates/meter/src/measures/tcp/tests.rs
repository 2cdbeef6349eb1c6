//! Segments as they come, with what tshark says of the same ones.

use weir_wire::packet::{LinkType, dissect};

use super::*;

fn side(segments: &[(u32, u32)]) -> (u32, u32) {
    let mut side = Side::default();
    for &(first, octets) in segments {
        side.segment(first, octets);
    }
    (side.retransmitted, side.out_of_order)
}

#[test]
fn what_came_before_is_told_from_what_comes_late() {
    assert_eq!(side(&[(0, 100), (100, 100), (200, 50)]), (0, 0));
    assert_eq!(side(&[(0, 100), (0, 100), (100, 100)]), (1, 0));
    assert_eq!(side(&[(0, 100), (200, 100), (100, 100), (300, 1)]), (0, 1));
    // a gap of two, filled one after the other, and then again
    assert_eq!(side(&[(0, 100), (300, 100), (100, 100), (200, 100), (100, 100)]), (1, 2));
    // sequence numbers begin again at 0
    assert_eq!(side(&[(u32::MAX - 9, 10), (0, 10), (u32::MAX - 9, 10)]), (1, 0));
    // one that brings something new next to the old is neither
    assert_eq!(side(&[(0, 100), (50, 100), (150, 1)]), (0, 0));
}

/// Microseconds, whether it goes forward, sequence number, control bits, octets of payload.
type Segment = (i64, bool, u32, u16, u8);

fn connection(segments: &[Segment]) -> Tcp {
    let mut tcp = Tcp::default();
    for &(time_us, is_forward, sequence, flags, payload) in segments {
        let mut packet = vec![0x45, 0, 0, 40 + payload, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 4, 0, 0, 80];
        packet.extend(sequence.to_be_bytes());
        packet.extend([0, 0, 0, 0, 0x50, flags as u8, 32, 0, 0, 0, 0, 0]);
        packet.extend(vec![b'x'; usize::from(payload)]);
        tcp.segment(is_forward, time_us, dissect(LinkType::Ip, &packet).innermost());
    }
    tcp
}

/// As tshark 4 has it for the same segments.
#[test]
fn keep_alives_are_no_retransmissions() {
    let retransmitted = |segment: Segment| connection(&[(0, true, 1, ACK, 100), segment]).forward.retransmitted;
    // tcp.analysis.keep_alive
    assert_eq!(retransmitted((1, true, 100, ACK, 1)), 0);
    assert_eq!(retransmitted((1, true, 100, ACK, 0)), 0);
    // tcp.analysis.retransmission
    assert_eq!(retransmitted((1, true, 99, ACK, 1)), 1);
    assert_eq!(retransmitted((1, true, 99, ACK, 2)), 1);
    let fin = |time_us: i64| -> Segment { (time_us, true, 101, FIN | ACK, 0) };
    assert_eq!(connection(&[(0, true, 1, ACK, 100), fin(1), fin(2)]).forward.retransmitted, 1);
    assert_eq!(connection(&[(0, true, 1, ACK, 100), fin(1), (2, true, 101, RST | ACK, 1)]).forward.retransmitted, 1);
}

/// As `tcp.analysis.initial_rtt` of tshark 4; but that has a value also where the SYN is sent again after the answer,
/// where Karn's algorithm (RFC 6298 section 3) takes none.
#[test]
fn waiting_for_a_syn_to_be_sent_again_is_no_round_trip() {
    let syn = |time_us: i64| -> Segment { (time_us, true, 0, SYN, 0) };
    let answer = |time_us: i64| -> Segment { (time_us, false, 0, SYN | ACK, 0) };
    let ack = |time_us: i64| -> Segment { (time_us, true, 1, ACK, 0) };
    let lost = connection(&[syn(0), syn(1_000_000), syn(3_000_000), answer(3_050_000), ack(3_060_000)]);
    assert_eq!(lost.round_trip_us(), Some(60_000));
    // the answer is lost and given again, or it takes 1.2 s to the client and back
    for ack_us in [1_060_000, 1_200_000] {
        let again = connection(&[syn(0), answer(100), syn(1_000_000), answer(1_000_100), ack(ack_us)]);
        assert_eq!((again.round_trip_us(), again.acknowledged_us()), (None, None), "{ack_us}");
        assert_eq!((again.syn_us, again.answer_us), (Some(0), Some(100)), "for the latency of the server");
    }
    // one that comes after the handshake begins none
    let over = connection(&[syn(0), answer(50_000), ack(60_000), syn(1_000_000)]);
    assert_eq!(over.round_trip_us(), Some(60_000));
}
