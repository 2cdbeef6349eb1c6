//! A router that looks at every packet and, at every check, at its timers.

use crate::routers::cache::Record;
use crate::routers::plan::{Key, Plan};
use crate::routers::{Router, RouterPair};

/// A packet as it passes a router.
pub(super) struct Packet {
    pub number: u32,
    pub time_ms: u64,
    pub octets: u64,
    tcp_flags: u8,
}

/// A record, in a form that can be sorted.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line {
    key: ([u8; 16], [u8; 16], u16, u16, u8),
    times_ms: [u64; 3],
    packets: u64,
    bytes: u64,
    tcp_flags: u8,
    end_reason: u8,
}

fn sortable(key: &Key) -> ([u8; 16], [u8; 16], u16, u16, u8) {
    (key.src, key.dst, key.src_port, key.dst_port, key.protocol)
}

impl Line {
    pub(super) fn of(record: &Record) -> Self {
        Self {
            key: sortable(&record.facts.key),
            times_ms: [record.received_ms, record.start_ms, record.end_ms],
            packets: record.packets.into(),
            bytes: record.bytes(),
            tcp_flags: record.tcp_flags,
            end_reason: record.end_reason,
        }
    }
}

/// The packets of a conversation that pass a router.
pub(super) fn packets(router: Router, plan: &Plan) -> Vec<Packet> {
    let schedule = &plan.schedule;
    let (fin_rst, syn) = (0b101, 0b10);
    let mut packets = Vec::new();
    for number in 0..schedule.packets {
        let exact_ms = f64::from(number) * f64::from(schedule.step) / 65_536.0;
        let mut packet = Packet {
            number,
            time_ms: plan.start_ms + exact_ms.floor() as u64,
            octets: plan.packet_octets.into(),
            tcp_flags: plan.tcp_flags,
        };
        if number >= schedule.pause_before {
            packet.time_ms += u64::from(schedule.pause_ms);
        }
        if number > 0 {
            packet.tcp_flags &= !syn;
        }
        if number < schedule.packets - 1 {
            packet.tcp_flags &= !fin_rst;
        }
        if router == Router::Second {
            packet.time_ms += u64::from(plan.delay_ms);
            packet.octets = packet.octets.checked_add_signed(plan.miscounted_octets.into()).expect("octets");
            let place = u64::from(plan.loss.phase) + u64::from(number) * u64::from(plan.loss.permille);
            if place % 1000 < u64::from(plan.loss.permille) {
                continue;
            }
        }
        packets.push(packet);
    }
    packets
}

/// The records of a conversation from a router whose cache is never full.
pub(super) fn records(pair: &RouterPair, router: Router, plan: &Plan) -> Vec<Line> {
    let check_ms = u64::from(pair.timer_check_ms);
    let phase_ms = u64::from(pair.timer_phases_ms[router as usize]) % check_ms;
    let packets = packets(router, plan);
    let mut waiting = packets.iter().peekable();
    let mut lines = Vec::new();
    while let Some(packet) = waiting.next() {
        let mut line = Line {
            key: sortable(&plan.key),
            times_ms: [0, packet.time_ms, packet.time_ms],
            packets: 1,
            bytes: packet.octets,
            tcp_flags: packet.tcp_flags,
            end_reason: 0,
        };
        let mut was_looked_at_fast = false;
        let mut now_ms = packet.time_ms;
        while line.end_reason == 0 {
            while let Some(packet) = waiting.next_if(|packet| packet.time_ms == now_ms) {
                line.times_ms[2] = now_ms;
                line.packets += 1;
                line.bytes += packet.octets;
                line.tcp_flags |= packet.tcp_flags;
            }
            if now_ms % check_ms == phase_ms {
                let [_, start_ms, end_ms] = line.times_ms;
                let is_due_fast = !was_looked_at_fast && now_ms - start_ms >= u64::from(pair.fast_timeout_ms);
                was_looked_at_fast |= is_due_fast;
                if now_ms - end_ms >= u64::from(pair.inactive_timeout_ms) {
                    line.end_reason = 1;
                } else if now_ms - start_ms >= u64::from(pair.active_timeout_ms) {
                    line.end_reason = 2;
                } else if is_due_fast && line.packets < u64::from(pair.fast_packets) {
                    line.end_reason = 1;
                }
                line.times_ms[0] = now_ms;
            }
            now_ms += 1;
        }
        lines.push(line);
    }
    lines
}
