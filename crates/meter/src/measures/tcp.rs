//! What is measured of the segments of a TCP connection (RFC 9293).

use weir_flow::elements::ElementsColumn;
use weir_flow::{Column, FlowBatchBuilder};
use weir_wire::packet::Headers;

const SYN: u16 = 0x02;
const ACK: u16 = 0x10;
const FIN: u16 = 0x01;
const RST: u16 = 0x04;

/// ntop, whose elements for these measures others read too.
const NTOP: u32 = 35632;
const OUT_OF_ORDER_IN: u16 = 111;
const OUT_OF_ORDER_OUT: u16 = 112;
const CLIENT_LATENCY: u16 = 123;
const SERVER_LATENCY: u16 = 124;
/// `tcpWindowSize` of IANA.
const WINDOW: u16 = 186;

/// One direction.
#[derive(Debug, Clone, Copy, Default)]
struct Side {
    /// The sequence number after the last octet seen; `None` before the first segment.
    next: Option<u32>,
    /// Octets before `next` that were not seen: the sequence number of the first, and of the first behind them.
    gap: Option<(u32, u32)>,
    /// Segments all of whose octets were seen before.
    retransmitted: u32,
    /// Segments that came after others that follow them.
    out_of_order: u32,
    /// Window of the first segment, not scaled.
    window: Option<u16>,
}

impl Side {
    /// Whether a segment without SYN, FIN and RST is a keep-alive (RFC 9293 section 3.8.4): none or one octet that was sent
    /// before, the last. One octet that was lost and is sent again looks the same.
    fn is_keep_alive(&self, first: u32, octets: u32) -> bool {
        octets <= 1 && self.next == Some(first.wrapping_add(1))
    }

    /// Takes in a segment of these sequence numbers, not empty.
    fn segment(&mut self, first: u32, octets: u32) {
        let after = first.wrapping_add(octets);
        let Some(next) = self.next else {
            self.next = Some(after);
            return;
        };
        if is_before(first, next) {
            match self.gap {
                Some((from, to)) if !is_before(first, from) && is_before(first, to) => {
                    self.out_of_order += 1;
                    self.gap = is_before(after, to).then_some((after, to));
                }
                _ if is_before(next, after) => self.next = Some(after),
                _ => self.retransmitted += 1,
            }
        } else {
            if first != next {
                // one gap is remembered, the last
                self.gap = Some((next, first));
            }
            self.next = Some(after);
        }
    }
}

/// Whether one sequence number comes before another (RFC 9293 section 3.4).
const fn is_before(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}

/// A connection.
///
/// A segment counts as retransmitted when all of its octets were seen before, unless it is a keep-alive, and as out of
/// order when it fills a gap that later segments left. What was lost before it came by and is sent again so counts as out
/// of order: here it cannot be distinguished from a detour.
#[derive(Debug, Default)]
pub(super) struct Tcp {
    forward: Side,
    backward: Side,
    /// When the SYN that was answered, the SYN with ACK, and the ACK that ends the handshake came.
    syn_us: Option<i64>,
    answer_us: Option<i64>,
    ack_us: Option<i64>,
    /// Whether a SYN came after the answer and before that ACK.
    is_ambiguous: bool,
}

impl Tcp {
    /// Takes in a segment.
    pub(super) fn segment(&mut self, is_forward: bool, time_us: i64, headers: &Headers<'_>) {
        let Some(flags) = headers.tcp_flags else { return };
        let transport = headers.transport();
        let Some(&[_, _, _, _, a, b, c, d, _, _, _, _, _, _, high, low]) = transport.first_chunk::<16>() else {
            return;
        };
        let (sequence, window) = (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([high, low]));
        self.handshake(flags, time_us);
        let side = if is_forward { &mut self.forward } else { &mut self.backward };
        side.window.get_or_insert(window);
        // SYN and FIN take a sequence number each
        let octets = headers.payload_octets() + u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        let is_keep_alive = flags & (SYN | FIN | RST) == 0 && side.is_keep_alive(sequence, octets);
        if octets > 0 && !is_keep_alive {
            side.segment(sequence, octets);
        }
    }

    fn handshake(&mut self, flags: u16, time_us: i64) {
        match (flags & (SYN | ACK), self.syn_us, self.answer_us) {
            // one that is sent again was not answered: the wait for that is no round trip
            (SYN, _, None) => self.syn_us = Some(time_us),
            // The answer was lost, or is on its way for longer than the client waits: whether the ACK will be for that
            // or for the answer to this one cannot be known (Karn's algorithm, RFC 6298 section 3).
            (SYN, _, Some(_)) if self.ack_us.is_none() => self.is_ambiguous = true,
            (both, Some(_), None) if both == SYN | ACK => self.answer_us = Some(time_us),
            (ACK, Some(_), Some(_)) if self.ack_us.is_none() => self.ack_us = Some(time_us),
            _ => {}
        }
    }

    /// Microseconds from the SYN that was answered to the ACK that ends the handshake.
    fn round_trip_us(&self) -> Option<u32> {
        u32::try_from(self.acknowledged_us()? - self.syn_us?).ok()
    }

    /// When the ACK came that ends the handshake, if it can only be for the answer that was seen first.
    fn acknowledged_us(&self) -> Option<i64> {
        self.ack_us.filter(|_| !self.is_ambiguous)
    }

    /// Writes what has no column.
    pub(super) fn write_elements(&self, elements: &mut ElementsColumn) {
        let sides = [(&self.forward, OUT_OF_ORDER_IN), (&self.backward, OUT_OF_ORDER_OUT)];
        for (side, out_of_order) in sides.into_iter().filter(|(side, ..)| side.window.is_some()) {
            elements.push(NTOP, out_of_order, &side.out_of_order.to_be_bytes());
        }
        if let Some(window) = self.forward.window {
            elements.push(0, WINDOW, &window.to_be_bytes());
        }
        // between this observation point and the server, and between it and the client
        let latency =
            |from: Option<i64>, to: Option<i64>| Some(u32::try_from((to? - from?) / 1_000).ok()?.to_be_bytes());
        if let Some(server) = latency(self.syn_us, self.answer_us) {
            elements.push(NTOP, SERVER_LATENCY, &server);
        }
        if let Some(client) = latency(self.answer_us, self.acknowledged_us()) {
            elements.push(NTOP, CLIENT_LATENCY, &client);
        }
    }
}

/// Writes the columns of a group of flows, those that are no connections among them.
pub(super) fn write(connections: &[Option<&Tcp>], builder: &mut FlowBatchBuilder) {
    type Value = fn(&Tcp) -> Option<u32>;
    let columns: [(Column, Value); 3] = [
        (Column::TcpRtt, Tcp::round_trip_us),
        (Column::Retransmissions, |tcp| tcp.forward.window.map(|_| tcp.forward.retransmitted)),
        (Column::RetransmissionsReverse, |tcp| tcp.backward.window.map(|_| tcp.backward.retransmitted)),
    ];
    for (column, value) in columns {
        let values = || connections.iter().map(|tcp| value((*tcp)?));
        if values().any(|value| value.is_some()) {
            let target = builder.u32(column);
            values().for_each(|value| target.push(value));
        }
    }
}

#[cfg(test)]
mod tests;
