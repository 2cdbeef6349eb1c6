//! Records against a router that looks at every packet, and the truth against what records tell.

mod naive;
mod public;

use std::collections::HashMap;

use crate::model::Service;
use crate::routers::cache::{LACK_OF_RESOURCES, Record};
use crate::routers::plan::{Key, Planner};
use crate::routers::{Router, RouterPair, RouterRecords, Truth};

fn records(pair: &RouterPair, router: Router, conversations: u64) -> Vec<Record> {
    pair.check().expect("a pair");
    let mut all = RouterRecords::new(pair, router, conversations);
    let mut out = Vec::new();
    loop {
        match all.next_records(1000) {
            [] => return out,
            records => out.extend_from_slice(records),
        }
    }
}

/// Pairs whose conversations are cut often and in every way.
fn harsh_pairs() -> Vec<RouterPair> {
    let pair = RouterPair { cache_entries_max: u32::MAX, ..RouterPair::new(11) };
    let lossy = RouterPair { loss_permille: 166, unseen_permille: 100, delay_base_ms: 0, ..pair.clone() };
    let slow = RouterPair { slow_permille: 1000, paused_permille: 1000, ..lossy.clone() };
    let short = RouterPair { active_timeout_ms: 5_000, inactive_timeout_ms: 1_000, ..lossy.clone() };
    let late = RouterPair { timer_check_ms: 7_777, timer_phases_ms: [5_000, 40_000], ..slow.clone() };
    let even = RouterPair { peak_permille: 100, delay_jitter_ms: 0, miscounted_permille: 1000, ..pair.clone() };
    vec![
        RouterPair { timer_check_ms: 1, fast_packets: 0, ..slow.clone() },
        RouterPair { inactive_timeout_ms: 18_000, fast_timeout_ms: 60_000, fast_packets: 1_000, ..slow.clone() },
        RouterPair { ipv6_permille: 500, ..short.clone() },
        pair,
        lossy,
        slow,
        short,
        late,
        even,
    ]
}

#[test]
fn a_router_that_looks_at_every_packet_exports_the_same() {
    for pair in harsh_pairs() {
        for router in [Router::First, Router::Second] {
            let mut planner = Planner::new(&pair);
            let mut expected: Vec<_> =
                (0..1_000).flat_map(|_| naive::records(&pair, router, &planner.next())).collect();
            let mut found: Vec<_> = records(&pair, router, 1_000).iter().map(naive::Line::of).collect();
            expected.sort_unstable();
            found.sort_unstable();
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(found, expected, "{router:?} of {pair:?}");
            }
            assert_eq!(found.len(), expected.len());
        }
    }
}

#[test]
fn a_full_cache_exports_what_was_opened_first() {
    let pair = RouterPair { conversations_per_second: 100, cache_entries_max: 800, ..RouterPair::new(4) };
    for router in [Router::First, Router::Second] {
        let records = records(&pair, router, 8_000);
        let early: Vec<_> = records.iter().filter(|record| record.end_reason == LACK_OF_RESOURCES).collect();
        assert!((500..4_000).contains(&early.len()), "{} of {} records", early.len(), records.len());
        let mut changes: Vec<_> =
            records.iter().flat_map(|record| [(record.start_ms, 1), (record.received_ms, -1)]).collect();
        // At the end of a millisecond the cache is not over its size.
        changes.sort_unstable();
        changes.iter().fold(0, |entries, (_, change)| {
            assert!(entries <= 800);
            entries + change
        });
        for record in early {
            let now_ms = record.received_ms;
            let present = records.iter().filter(|other| (other.start_ms..=other.received_ms).contains(&now_ms));
            assert!(present.count() > 800, "the cache was full");
            let older = records.iter().find(|other| other.start_ms < record.start_ms && other.received_ms > now_ms);
            assert!(older.is_none(), "{record:?} was exported before {older:?}");
        }
    }
}

/// What the records of one key tell.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    spans: Vec<(u64, u64)>,
    packets: u64,
    bytes: u64,
    tcp_flags: u8,
}

/// All records of a key together, which is what a joiner should make of them.
fn joined(records: &[Record]) -> HashMap<Key, Told> {
    let mut joined = HashMap::<Key, Told>::new();
    for record in records {
        let told = joined.entry(record.facts.key).or_default();
        told.spans.push((record.start_ms, record.end_ms));
        told.packets += u64::from(record.packets);
        told.bytes += record.bytes();
        told.tcp_flags |= record.tcp_flags;
    }
    for told in joined.values_mut() {
        told.spans.sort_unstable();
    }
    joined
}

#[test]
fn conversations_are_whole_when_their_records_are_joined() {
    for pair in harsh_pairs().into_iter().chain([RouterPair { cache_entries_max: 500, ..RouterPair::new(5) }]) {
        let mut routers = [Router::First, Router::Second].map(|router| joined(&records(&pair, router, 3_000)));
        let mut planner = Planner::new(&pair);
        for _ in 0..3_000 {
            let plan = planner.next();
            for (router, told) in [Router::First, Router::Second].into_iter().zip(&mut routers) {
                let packets = naive::packets(router, &plan);
                let Some((first, last)) = packets.first().zip(packets.last()) else {
                    assert_eq!(told.get(&plan.key), None);
                    continue;
                };
                let told = told.remove(&plan.key).expect("the conversation");
                assert_eq!((told.spans[0].0, told.packets), (first.time_ms, packets.len() as u64));
                assert_eq!(told.spans.last().expect("a record").1, last.time_ms);
                assert_eq!(told.bytes, packets.iter().map(|packet| packet.octets).sum::<u64>());
                assert!(told.spans.is_sorted_by(|before, after| before.1 <= after.0));
                let gap_ms = packets.windows(2).map(|pair| pair[1].time_ms - pair[0].time_ms).max();
                assert!(
                    gap_ms <= Some(RouterPair::GAP_MS_MAX)
                        && last.time_ms - first.time_ms <= RouterPair::DURATION_MS_MAX
                );
            }
        }
        assert!(routers.iter().all(HashMap::is_empty), "no key came twice, and none is unknown");
    }
}

/// The truth as far as records tell it.
fn told_truth(routers: [&[Record]; 2]) -> Truth {
    let sum = |records: &[Record], value: fn(&Record) -> u64| records.iter().map(value).sum::<u64>();
    let mut truth = Truth {
        records: routers.map(|records| records.len() as u64),
        packets: routers.map(|records| sum(records, |record| record.packets.into())),
        bytes: routers.map(|records| sum(records, Record::bytes)),
        ..Truth::default()
    };
    let [first, second] = routers.map(joined);
    truth.conversations = first.len() as u64;
    truth.packets_lost = truth.packets[0] - truth.packets[1];
    for (key, first) in first {
        let Some(second) = second.get(&key) else {
            truth.only_first += 1;
            continue;
        };
        let lost = first.packets - second.packets;
        truth.seen_by_both += 1;
        truth.packets_lost_seen_by_both += lost;
        truth.conversations_with_loss += u64::from(lost > 0);
        truth.byte_difference += first.bytes as i64 - second.bytes as i64;
        let octets = first.bytes / first.packets;
        truth.bytes_lost_seen_by_both += lost * octets;
        truth.conversations_miscounted += u64::from(second.bytes / second.packets != octets);
        *truth.start_differences.counts.entry(second.spans[0].0 - first.spans[0].0).or_default() += 1;
    }
    truth
}

#[test]
fn records_tell_the_truth() {
    let default = RouterPair { cache_entries_max: 5_000, ..RouterPair::new(6) };
    for pair in harsh_pairs().into_iter().chain([default]) {
        let [first, second] = [Router::First, Router::Second].map(|router| records(&pair, router, 8_000));
        let mut told = told_truth([&first, &second]);
        let truth = pair.truth(8_000).expect("a pair");
        // Records do not tell which delay was planted, only what came of it.
        assert!(truth.delays.min_ms() >= Some(pair.delay_base_ms.into()));
        assert!(truth.delays.max_ms() <= Some((pair.delay_base_ms + pair.delay_jitter_ms).into()));
        assert_eq!(truth.delays.counts.values().sum::<u64>(), truth.seen_by_both);
        let (mut planner, mut waits_ms, mut first_packets_lost) = (Planner::new(&pair), 0, 0);
        for plan in (0..8_000).map(|_| planner.next()) {
            if let Some(packet) = naive::packets(Router::Second, &plan).first() {
                waits_ms += packet.time_ms - plan.start_ms - u64::from(plan.delay_ms);
                first_packets_lost += u64::from(packet.number > 0);
            }
        }
        assert_eq!(truth.start_differences.sum_ms() - truth.delays.sum_ms(), waits_ms);
        (told.delays, told.first_packets_lost) = (truth.delays.clone(), first_packets_lost);
        assert_eq!(told, truth);
    }
}

#[test]
fn keys_rest_for_six_minutes_after_their_conversation() {
    // Few hosts ping each other, for two hours: popular ones would use their key again after seconds.
    let ping = Service { protocol: 1, port: 0, weight: 1 };
    let pair = RouterPair {
        hosts: 1024,
        services: vec![ping],
        other_services_weight: 0,
        conversations_per_second: 15,
        delay_base_ms: 5_000,
        delay_jitter_ms: 5_000,
        ..RouterPair::new(7)
    };
    pair.check().expect("a pair");
    let (mut planner, mut ends, mut again) = (Planner::new(&pair), HashMap::new(), 0);
    for plan in (0..110_000).map(|_| planner.next()) {
        let last = plan.schedule.packets - 1;
        for router in [Router::First, Router::Second] {
            let passage = plan.passage(router);
            if let Some(end_ms) = ends.insert((plan.key, router), passage.time_ms(last)) {
                assert!(passage.origin_ms - end_ms >= RouterPair::KEY_REST_MS);
                again += 1;
            }
        }
    }
    assert!(again > 1_000, "{again} keys came again");
}
