//! The cache against a model without a wheel, an index or a table: each flow ends by the times of its packets alone.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::key::{FlowKey, KeyParts};
use crate::options::FastTimeout;

const SECOND: i64 = 1_000_000;
const FIN: u16 = 1;
const SYN: u16 = 2;
const RST: u16 = 4;
const ACK: u16 = 16;

/// What is compared of a flow.
type Facts = (u16, u64, u64, i64, i64, u64, u16, EndReason);

#[derive(Default)]
struct Collected {
    flows: Vec<Facts>,
    packets: u64,
}

impl FlowSink for Collected {
    fn flow(&mut self, _: u32, flow: &Flow, reason: EndReason, _: i64) {
        let flags = flow.tcp_flags().0 | flow.tcp_flags().1;
        let (forward, backward) = (flow.forward(), flow.backward());
        let octets = forward.octets + backward.octets;
        let key = flow.key().parts().src_port.min(flow.key().parts().dst_port);
        self.packets += flow.packets_total();
        let told = (key, forward.packets, octets, flow.first_us(), flow.last_us(), backward.packets, flags, reason);
        self.flows.push(told);
    }

    fn packet(&mut self, _: u32, _: &Flow, _: &Digest) {}
}

#[derive(Debug, Clone, Copy)]
struct Packet {
    flow: u16,
    back: bool,
    after_us: i64,
    flags: u16,
}

fn hasher() -> KeyHasher {
    KeyHasher::new(3)
}

fn digest(packet: &Packet, time_us: i64, is_biflow: bool) -> Digest {
    let parts = KeyParts { src_port: packet.flow, dst_port: 40_000, protocol: 6, ip_version: 4, ..KeyParts::default() };
    let key = FlowKey::new(&[10, 0, 0, 1], &[10, 0, 0, 2], parts);
    let key = if packet.back { key.reversed() } else { key };
    let (key, reversed) = if is_biflow { key.of_both_directions() } else { (key, false) };
    Digest {
        key,
        hash: hasher().hash(&key),
        time_us,
        octets: 100,
        packet: 0,
        tcp_flags: packet.flags,
        ttl: 64,
        tos: 0,
        icmp_code: 0,
        marks: u8::from(reversed),
    }
}

/// One flow of the model: forward and backward packets, first and last time, flags of each direction.
#[derive(Clone, Copy)]
struct Model {
    packets: [u64; 2],
    first_us: i64,
    last_us: i64,
    flags: [u16; 2],
    began_back: bool,
}

impl Model {
    fn end(&self, timeouts: &Timeouts, is_biflow: bool) -> (i64, EndReason) {
        let total = self.packets[0] + self.packets[1];
        let is_few = timeouts.fast.filter(|fast| total <= fast.packets_max);
        let mut ends = vec![
            (self.last_us + timeouts.idle_us, EndReason::Idle),
            (self.first_us + timeouts.active_us, EndReason::Active),
        ];
        ends.extend(is_few.map(|fast| (self.last_us + fast.idle_us, EndReason::Idle)));
        if self.is_closed(is_biflow) {
            ends.push((self.last_us + timeouts.closed_us, EndReason::EndOfFlow));
        }
        // at the same time the end of TCP comes before idleness, and that before the active timeout
        let rank =
            |reason| [EndReason::EndOfFlow, EndReason::Idle, EndReason::Active].iter().position(|r| *r == reason);
        ends.into_iter().min_by_key(|&(time, reason)| (time, rank(reason))).expect("two at least")
    }

    fn is_closed(&self, is_biflow: bool) -> bool {
        let [one, other] = self.flags;
        let fin = if is_biflow { one & FIN != 0 && other & FIN != 0 } else { one & FIN != 0 };
        (one | other) & RST != 0 || fin
    }

    fn told(&self, flow: u16, reason: EndReason) -> Facts {
        let [forward, backward] = self.packets;
        let octets = 100 * (forward + backward);
        (flow, forward, octets, self.first_us, self.last_us, backward, self.flags[0] | self.flags[1], reason)
    }
}

fn model(packets: &[Packet], timeouts: &Timeouts, is_biflow: bool) -> Vec<Facts> {
    let mut open: HashMap<(u16, bool), Model> = HashMap::new();
    let (mut told, mut now) = (Vec::new(), 0);
    for packet in packets {
        now += packet.after_us;
        let id = (packet.flow, packet.back && !is_biflow);
        if let Some(flow) = open.get(&id).copied() {
            let (end, reason) = flow.end(timeouts, is_biflow);
            let again = packet.flags & SYN != 0 && flow.is_closed(is_biflow);
            if again || now >= end {
                told.push(flow.told(packet.flow, if now >= end { reason } else { EndReason::EndOfFlow }));
                open.remove(&id);
            }
        }
        let begin = Model { packets: [0; 2], first_us: now, last_us: now, flags: [0; 2], began_back: packet.back };
        let flow = open.entry(id).or_insert(begin);
        let side = usize::from(packet.back != flow.began_back);
        flow.packets[side] += 1;
        flow.flags[side] |= packet.flags;
        flow.last_us = now;
    }
    for ((id, _), flow) in open {
        let (end, reason) = flow.end(timeouts, is_biflow);
        let is_over = end <= now || reason == EndReason::EndOfFlow;
        told.push(flow.told(id, if is_over { reason } else { EndReason::Forced }));
    }
    told.sort_unstable();
    told
}

fn metered(packets: &[Packet], timeouts: &Timeouts, is_biflow: bool, every: usize) -> (Vec<Facts>, CacheCounts) {
    let mut cache = FlowCache::new(1 << 12, *timeouts, is_biflow, hasher());
    let (mut collected, mut now, mut digests) = (Collected::default(), 0, Vec::new());
    for packet in packets {
        now += packet.after_us;
        digests.push(digest(packet, now, is_biflow));
    }
    for part in digests.chunks(every) {
        cache.take(part, &mut collected);
        cache.advance(part.last().map_or(0, |digest| digest.time_us), &mut collected);
    }
    cache.finish(now, &mut collected);
    assert_eq!(collected.packets, packets.len() as u64, "every packet is in a flow");
    collected.flows.sort_unstable();
    (collected.flows, cache.counts())
}

/// The flows of packets that may go back in time, dealt out to so many tables with one clock.
fn sharded(packets: &[Packet], timeouts: &Timeouts, every: usize, shards: u16) -> Vec<Facts> {
    let mut caches: Vec<_> = (0..shards).map(|_| FlowCache::new(1 << 12, *timeouts, true, hasher())).collect();
    let (mut collected, mut now) = (Collected::default(), 1_000 * SECOND);
    for part in packets.chunks(every) {
        for packet in part {
            now += packet.after_us;
            caches[usize::from(packet.flow % shards)].take(&[digest(packet, now, true)], &mut collected);
        }
        for cache in &mut caches {
            cache.advance(now, &mut collected);
        }
    }
    for cache in &mut caches {
        cache.finish(now, &mut collected);
    }
    assert_eq!(collected.packets, packets.len() as u64, "every packet is in a flow");
    collected.flows.sort_unstable();
    collected.flows
}

/// Takes packets in; once the flows of the first parts are said to be over, each packet of these was told. They have 100 octets,
/// and the others a million.
fn assert_over(packets: &[Packet], timeouts: &Timeouts, every: usize, first_parts: usize) {
    let mut cache = FlowCache::new(1 << 12, *timeouts, true, hasher());
    let (mut collected, mut now) = (Collected::default(), 1_000 * SECOND);
    let (mut taken, mut latest_us) = (0, i64::MIN);
    for (number, part) in packets.chunks(every).enumerate() {
        let is_first = number < first_parts;
        for packet in part {
            now += packet.after_us;
            let octets = if is_first { 100 } else { 1_000_000 };
            cache.take(&[Digest { octets, ..digest(packet, now, true) }], &mut collected);
            if is_first {
                taken += 1;
                latest_us = latest_us.max(now);
            }
        }
        cache.advance(now, &mut collected);
        if !is_first && cache.over_through_us() >= latest_us {
            let octets: u64 = collected.flows.iter().map(|told| told.2).sum();
            assert_eq!(octets % 1_000_000 / 100, taken, "part {number}");
        }
    }
}

/// Packets, some of which go back in time by a little or by a lot.
fn disordered() -> impl Strategy<Value = Vec<Packet>> {
    let back = prop_oneof![6 => Just(0), 3 => 0..2 * SECOND, 2 => 0..30 * SECOND, 1 => 0..900 * SECOND];
    let backs = prop::collection::vec(back, 400);
    (packets(), backs).prop_map(|(packets, backs)| {
        let disorder = |(packet, back): (Packet, i64)| Packet { after_us: packet.after_us - back, ..packet };
        packets.into_iter().zip(backs).map(disorder).collect()
    })
}

fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let pause = prop_oneof![
        8 => 0..SECOND / 10,
        3 => 0..20 * SECOND,
        // just at a timeout
        1 => prop_oneof![Just(2 * SECOND), Just(5 * SECOND), Just(15 * SECOND)],
        1 => 0..100 * SECOND,
        1 => 3_000 * SECOND..6_000 * SECOND,
    ];
    let flags = prop_oneof![6 => Just(ACK), 2 => Just(SYN), 1 => Just(FIN | ACK), 1 => Just(RST)];
    let packet = (0_u16..12, any::<bool>(), pause, flags);
    let packet = packet.prop_map(|(flow, back, after_us, flags)| Packet { flow, back, after_us, flags });
    prop::collection::vec(packet, 1..400)
}

fn timeouts() -> impl Strategy<Value = Timeouts> {
    let fast = prop::option::of((1..10 * SECOND, 1_u64..5));
    (5 * SECOND..100 * SECOND, 1..40 * SECOND, fast, 0..5 * SECOND).prop_map(|(active_us, idle_us, fast, closed_us)| {
        let fast = fast.map(|(idle_us, packets_max)| FastTimeout { idle_us, packets_max });
        Timeouts { active_us, idle_us, fast, closed_us }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn flows_are_those_of_the_model(
        packets in packets(), timeouts in timeouts(), is_biflow in any::<bool>(), every in 1_usize..50,
    ) {
        let (flows, _) = metered(&packets, &timeouts, is_biflow, every);
        prop_assert_eq!(flows, model(&packets, &timeouts, is_biflow));
    }

    #[test]
    fn packets_out_of_order_are_the_same_flows_in_any_number_of_tables(
        packets in disordered(), timeouts in timeouts(), every in 1_usize..50,
    ) {
        let one = sharded(&packets, &timeouts, every, 1);
        prop_assert_eq!(&one, &sharded(&packets, &timeouts, every, 2));
        prop_assert_eq!(&one, &sharded(&packets, &timeouts, every, 5));
    }

    #[test]
    fn what_is_said_to_be_over_was_told(
        packets in disordered(), timeouts in timeouts(), every in 1_usize..10, first_parts in 1_usize..40,
    ) {
        assert_over(&packets, &timeouts, every, first_parts);
    }
}

#[test]
fn a_flood_drives_out_itself_and_every_packet_stays_counted() {
    let mut cache = FlowCache::new(1_000, Timeouts::default(), false, hasher());
    let mut collected = Collected::default();
    let mut flood = 0_u32;
    for flow in 0..100 {
        let packet = Packet { flow, back: false, after_us: 0, flags: ACK };
        cache.take(&[digest(&packet, 0, false); 2], &mut collected);
    }
    for round in 0..1_000 {
        // a hundred flows that go on, and a thousand that come once
        for flow in 0..100 {
            let packet = Packet { flow, back: false, after_us: 0, flags: ACK };
            cache.take(&[digest(&packet, round, false)], &mut collected);
        }
        for _ in 0..1_000 {
            flood += 1;
            let parts = KeyParts { protocol: 6, ip_version: 4, ..KeyParts::default() };
            let key = FlowKey::new(&flood.to_be_bytes(), &[10, 0, 0, 2], parts);
            let packet = Packet { flow: 0, back: false, after_us: 0, flags: SYN };
            let digest = Digest { key, hash: hasher().hash(&key), ..digest(&packet, round, false) };
            cache.take(&[digest], &mut collected);
        }
        assert!(cache.len() <= 1_000);
    }
    cache.finish(1_000, &mut collected);
    assert_eq!(collected.packets, 200 + 1_000 * 1_100);
    let whole = collected.flows.iter().filter(|told| told.1 == 1_002).count();
    assert_eq!(whole, 100, "what was there is not driven out");
    let counts = cache.counts();
    assert_eq!(counts.flows_evicted + 1_000, counts.flows_begun);
    assert_eq!(counts.flows_peak, 1_000);
}

#[test]
fn a_full_table_takes_less_than_160_octets_a_flow() {
    const FLOWS: u32 = 200_000;
    let mut cache = FlowCache::new(FLOWS as usize, Timeouts::default(), true, hasher());
    let mut collected = Collected::default();
    for number in 0..FLOWS {
        let key =
            FlowKey::new(&number.to_be_bytes(), &[10, 0, 0, 2], KeyParts { ip_version: 4, ..KeyParts::default() });
        let packet = Packet { flow: 0, back: false, after_us: 0, flags: 0 };
        let digest = Digest { key, hash: hasher().hash(&key), ..digest(&packet, 0, false) };
        cache.take(&[digest], &mut collected);
        if number > 10_000 {
            assert!(cache.octets() <= cache.len() * 160, "{} flows, {} octets", cache.len(), cache.octets());
        }
    }
    assert_eq!(cache.len(), FLOWS as usize);
}

#[test]
fn a_clock_that_was_wrong_for_a_moment_keeps_nothing_for_ever() {
    let mut cache = FlowCache::new(1_000, Timeouts::default(), false, hasher());
    let mut collected = Collected::default();
    let year = 365 * 86_400 * SECOND;
    for (time_us, flow) in [(0, 1), (100 * year, 2), (SECOND, 3)] {
        let packet = Packet { flow, back: false, after_us: 0, flags: ACK };
        cache.take(&[digest(&packet, time_us, false)], &mut collected);
        cache.advance(time_us, &mut collected);
    }
    for second in 2..6_000 {
        cache.advance(second * SECOND, &mut collected);
    }
    let told: Vec<u16> = collected.flows.iter().map(|told| told.0).collect();
    assert_eq!(told, [1, 3]);
}

/// Which flow was found to be over when.
#[derive(Default)]
struct Ends(Vec<(u16, i64)>);

impl FlowSink for Ends {
    fn flow(&mut self, _: u32, flow: &Flow, _: EndReason, ended_us: i64) {
        self.0.push((flow.key().parts().src_port, ended_us));
    }

    fn packet(&mut self, _: u32, _: &Flow, _: &Digest) {}
}

/// Whatever the time of the last packet is, the flows before it were over between their own end and the latest time at which a
/// clock that goes on finds them.
#[test]
fn a_packet_of_an_absurd_time_decides_nothing_about_other_flows() {
    let timeouts = Timeouts::default();
    let begin = 1_700_000_000 * SECOND;
    let latest = |last_us: i64| last_us + timeouts.idle_us + timeouts.idle_us + FOUND_LATE_US;
    let ends = |absurd_us: i64, is_apart: bool| {
        let mut cache = FlowCache::new(1_000, timeouts, false, hasher());
        let mut ends = Ends::default();
        for (flow, time_us) in [(1, begin), (2, begin + SECOND), (3, absurd_us)] {
            if is_apart && flow == 3 {
                cache.advance(begin + SECOND, &mut ends);
            }
            let packet = Packet { flow, back: false, after_us: 0, flags: ACK };
            cache.take(&[digest(&packet, time_us, false)], &mut ends);
        }
        cache.advance(absurd_us, &mut ends);
        cache.finish(absurd_us, &mut ends);
        ends.0.sort_unstable();
        ends.0
    };
    for is_apart in [false, true] {
        let [(1, first), (2, second), (3, third)] = ends(0, is_apart)[..] else { panic!("three flows") };
        assert_eq!((first, second), (begin, begin + SECOND), "the clock went back to 1970");
        assert!((0..=latest(0)).contains(&third), "{third}");
        let expected = [(1, latest(begin)), (2, latest(begin + SECOND)), (3, i64::MAX)];
        assert_eq!(ends(i64::MAX, is_apart), expected, "the clock went on to the end of all times");
    }
    // a clock that goes on by a little is believed
    assert_eq!(ends(begin + 20 * SECOND, false)[..2], [(1, begin + 20 * SECOND), (2, begin + 20 * SECOND)]);
    assert_eq!(ends(begin + 4 * SECOND, false)[..2], [(1, begin + 4 * SECOND), (2, begin + 4 * SECOND)]);
}

/// Many more flows than a piece of a list has room for, and than are looked at in one go, all of one tick.
#[test]
fn all_flows_of_one_tick_are_told_at_once_and_their_lists_are_used_again() {
    const FLOWS: u32 = 5_000;
    let mut cache = FlowCache::new(1 << 14, Timeouts::default(), false, hasher());
    let mut collected = Collected::default();
    let mut octets = Vec::new();
    for round in 0..20_i64 {
        let now = round * 40 * SECOND;
        for number in 0..FLOWS {
            let parts = KeyParts { ip_version: 4, ..KeyParts::default() };
            let key = FlowKey::new(&number.to_be_bytes(), &[10, 0, 0, 2], parts);
            let packet = Packet { flow: 0, back: false, after_us: 0, flags: 0 };
            cache.take(&[Digest { key, hash: hasher().hash(&key), ..digest(&packet, now, false) }], &mut collected);
        }
        cache.advance(now, &mut collected);
        assert_eq!(cache.len(), FLOWS as usize);
        cache.advance(now + 20 * SECOND, &mut collected);
        assert_eq!((cache.len(), collected.flows.len()), (0, (FLOWS as usize) * (round as usize + 1)));
        octets.push(cache.octets());
    }
    assert_eq!(octets[1], octets[19], "nothing grows");
}

/// A flow that goes on is looked at when its first deadline has passed, and told when the next one has: by the clock alone,
/// not only in the end.
#[test]
fn flows_that_went_on_are_told_when_their_time_comes() {
    const FLOWS: u16 = 500;
    let timeouts = Timeouts { idle_us: 15 * SECOND, ..Timeouts::default() };
    let mut cache = FlowCache::new(1 << 12, timeouts, false, hasher());
    let mut collected = Collected::default();
    for time in [0, 10 * SECOND, 20 * SECOND] {
        for flow in 0..FLOWS {
            let packet = Packet { flow, back: false, after_us: 0, flags: ACK };
            cache.take(&[digest(&packet, time, false)], &mut collected);
        }
        cache.advance(time, &mut collected);
        cache.advance(time + 8 * SECOND, &mut collected);
        assert_eq!(collected.flows.len(), 0);
    }
    cache.advance(37 * SECOND, &mut collected);
    assert_eq!((cache.len(), collected.flows.len()), (0, usize::from(FLOWS)));
}
