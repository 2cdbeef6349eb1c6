//! What whoever reads the batches sees.

use std::collections::BTreeMap;

use arrow::array::AsArray;
use arrow::datatypes::{TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use weir_flow::{Column, FlowBatch};

use crate::model::{ModelError, Service};
use crate::{Router, RouterPair, RouterPairError, Totals, Truth};

fn number(batch: &FlowBatch, column: Column, row: usize) -> i64 {
    let array = batch.column(column).expect("the column");
    let small = array.as_primitive_opt::<UInt8Type>().map(|values| values.value(row).into());
    let small = small.or_else(|| array.as_primitive_opt::<UInt16Type>().map(|values| values.value(row).into()));
    let small = small.or_else(|| array.as_primitive_opt::<UInt32Type>().map(|values| values.value(row).into()));
    let large = small.or_else(|| array.as_primitive_opt::<UInt64Type>().map(|values| values.value(row) as i64));
    large.unwrap_or_else(|| array.as_primitive::<TimestampMillisecondType>().value(row))
}

fn octets(batch: &FlowBatch, column: Column, row: usize) -> &[u8] {
    batch.binary(column).expect("the column").value(row)
}

/// FNV-1a over every value of every column, whatever the batches.
fn fingerprint(pair: &RouterPair, router: Router, conversations: u64, batch_rows: usize) -> (u64, Totals) {
    let mut records = pair.records(router, conversations).expect("a pair");
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    while let Some(batch) = records.next_batch(batch_rows) {
        assert!(batch.rows() <= batch_rows);
        for row in 0..batch.rows() {
            for &column in Column::ALL.iter().filter(|&&column| batch.column(column).is_some()) {
                let value = batch.binary(column).map_or_else(
                    || number(&batch, column, row).to_be_bytes().to_vec(),
                    |values| values.value(row).to_vec(),
                );
                for octet in value {
                    hash = (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3);
                }
            }
        }
    }
    (hash, records.totals())
}

fn mixed() -> RouterPair {
    RouterPair { ipv6_permille: 300, conversations_per_second: 500, cache_entries_max: 3_000, ..RouterPair::new(42) }
}

#[test]
fn the_same_seed_gives_the_same_records_on_every_machine() {
    // Pins the sequence: if this changes, so do the records of everyone who wrote down a seed.
    let pinned = [Router::First, Router::Second].map(|router| fingerprint(&mixed(), router, 10_000, 4096));
    assert_eq!(pinned, PINNED);
}

const PINNED: [(u64, Totals); 2] = [
    (2_879_002_569_529_418_874, Totals { flows: 16_360, packets: 297_161, bytes: 65_603_012 }),
    (17_075_121_644_727_620_593, Totals { flows: 16_276, packets: 296_269, bytes: 65_292_953 }),
];

#[test]
fn batches_do_not_matter_and_seeds_do() {
    for router in [Router::First, Router::Second] {
        let whole = fingerprint(&mixed(), router, 2_000, 4096);
        assert_eq!(whole, fingerprint(&mixed(), router, 2_000, 7));
        assert_eq!(whole, fingerprint(&mixed(), router, 2_000, usize::MAX));
        assert_ne!(whole.0, fingerprint(&RouterPair { seed: 43, ..mixed() }, router, 2_000, 4096).0);
    }
}

#[test]
fn records_respect_the_timers_and_come_in_the_order_of_their_export() {
    let pair = mixed();
    let (check, active) = (i64::from(pair.timer_check_ms), i64::from(pair.active_timeout_ms));
    let (inactive, fast) = (i64::from(pair.inactive_timeout_ms), i64::from(pair.fast_timeout_ms));
    for (router, phase) in [(Router::First, 0), (Router::Second, 37)] {
        let (mut reasons, mut last_received, mut starts_back, mut ends_back) = (BTreeMap::new(), i64::MIN, 0, 0);
        let mut last = (i64::MIN, i64::MIN);
        for batch in pair.records(router, 30_000).expect("a pair") {
            for row in 0..batch.rows() {
                let value = |column| number(&batch, column, row);
                let (received, start, end) = (value(Column::Received), value(Column::Start), value(Column::End));
                assert!(last_received <= received && pair.start_ms <= start && start <= end && end <= received);
                assert!(received - end < inactive + check && received - start < active + check);
                let (packets, reason) = (value(Column::Packets), value(Column::EndReason));
                let is_checked = (received - pair.start_ms) % check == phase;
                let is_right = match reason {
                    1 if received - end >= inactive => is_checked,
                    1 => is_checked && (fast..fast + check).contains(&(received - start)) && packets < 3,
                    2 => is_checked && received - start >= active,
                    5 => received - start < active + check,
                    _ => false,
                };
                assert!(is_right, "{reason} of a record {start} to {end}, exported {received}");
                *reasons.entry(reason).or_insert(0) += 1;
                starts_back += usize::from(start < last.0);
                ends_back += usize::from(end < last.1);
                (last_received, last) = (received, (start, end));
            }
        }
        assert!(reasons.keys().eq(&[1, 2, 5]) && reasons.values().all(|&count| count > 100), "{reasons:?}");
        assert!(starts_back > 1_000 && ends_back > 1_000, "sorted neither by start nor by end");
    }
}

#[test]
fn every_record_is_plausible() {
    let pair = mixed();
    let mut wide = 0;
    for router in [Router::First, Router::Second] {
        let (mut records, mut totals) = (pair.records(router, 20_000).expect("a pair"), Totals::default());
        for batch in records.by_ref() {
            for row in 0..batch.rows() {
                let value = |column| number(&batch, column, row);
                assert_eq!(octets(&batch, Column::Exporter, row), [10, 255, 0, 1 + router as u8]);
                assert_eq!((value(Column::ObservationDomain), value(Column::ExportVersion)), (1, 9));
                let length = octets(&batch, Column::SrcAddr, row).len();
                assert_eq!(octets(&batch, Column::DstAddr, row).len(), length);
                wide += usize::from(length == 16);
                let (packets, bytes) = (value(Column::Packets), value(Column::Bytes));
                let header = if length == 16 { 40 } else { 20 };
                assert!(packets >= 1 && (packets * (header - 4)..=packets * 1504).contains(&bytes));
                assert!(packets > 1 || value(Column::Start) == value(Column::End));
                let (protocol, flags) = (value(Column::Protocol), value(Column::TcpFlags));
                assert!(protocol == 6 || flags == 0);
                assert!(flags & 2 == 0 || flags & 5 == 0 || packets > 1, "opened and closed with one packet");
                let (src_port, dst_port) = (value(Column::SrcPort), value(Column::DstPort));
                assert!(matches!(protocol, 6 | 17) == (src_port >= 32_768) && dst_port <= 0x8100);
                let (in_if, out_if) = (value(Column::InIf), value(Column::OutIf));
                assert_eq!((in_if == 200, out_if == 200), (router == Router::Second, router == Router::First));
                totals.flows += 1;
                totals.packets += packets as u64;
                totals.bytes += bytes as u64;
            }
        }
        assert_eq!(records.totals(), totals);
    }
    assert!((16_000..20_000).contains(&wide), "{wide} of about 60000 records are IPv6, 30 % were asked for");
}

#[test]
fn traffic_is_shaped_as_asked() {
    let pair = RouterPair { loss_permille: 20, unseen_permille: 10, ..RouterPair::new(8) };
    let truth = pair.truth(300_000).expect("a pair");
    for records in truth.records {
        let per_conversation = records as f64 / truth.conversations as f64;
        assert!((1.3..1.6).contains(&per_conversation), "{per_conversation} records for a conversation");
    }
    let unseen_by_loss = 0.0012 * 300_000.0..0.02 * 300_000.0;
    assert!(unseen_by_loss.contains(&(truth.only_first as f64 - 3_000.0)), "{} unseen", truth.only_first);
    let lost = truth.packets_lost as f64 / truth.packets[0] as f64;
    assert!((0.02..0.04).contains(&lost), "{lost} of packets are lost, 0.03 were asked for");
    assert!(truth.packets_lost_seen_by_both < truth.packets_lost);
    let miscounted = truth.conversations_miscounted as f64 / truth.seen_by_both as f64;
    assert!((0.047..0.053).contains(&miscounted), "{miscounted} of conversations are miscounted, 0.05 were asked for");
    assert_eq!((truth.delays.min_ms(), truth.delays.max_ms()), (Some(12), Some(40)));
    let delay_ms = truth.delays.sum_ms() as f64 / truth.seen_by_both as f64;
    // The mean of the smaller one of two numbers from 0 to 28.
    let mean_ms = 12.0 + (0..29).map(|ms| f64::from(ms * (2 * (28 - ms) + 1))).sum::<f64>() / (29.0 * 29.0);
    assert!((delay_ms - mean_ms).abs() < 0.1, "{delay_ms} ms on the average, {mean_ms} were asked for");
    assert!(truth.start_differences.max_ms() > Some(1_000), "first packets are lost");
    assert!((2_000..3_300).contains(&truth.first_packets_lost), "{}", truth.first_packets_lost);
}

#[test]
fn what_is_planted_can_be_left_out() {
    let pair =
        RouterPair { loss_permille: 0, unseen_permille: 0, miscounted_permille: 0, delay_jitter_ms: 0, ..mixed() };
    let truth = pair.truth(5_000).expect("a pair");
    assert_eq!((truth.only_first, truth.packets_lost, truth.byte_difference), (0, 0, 0));
    assert_eq!(truth.packets[0], truth.packets[1]);
    assert_eq!((truth.delays.counts.clone(), &truth.delays), (BTreeMap::from([(12, 5_000)]), &truth.start_differences));
    assert_eq!(pair.truth(0).expect("a pair"), Truth::default());
    assert!(pair.records(Router::First, 0).expect("a pair").next().is_none());
}

#[test]
fn truth_is_json() {
    let mut truth = Truth { conversations: 3, seen_by_both: 2, only_first: 1, byte_difference: -8, ..Truth::default() };
    (truth.records, truth.packets, truth.bytes) = ([4, 3], [9, 7], [900, 708]);
    truth.delays.counts.extend([(12, 1), (40, 1)]);
    let expected = r#"{
  "conversations": 3,
  "seen_by_both": 2,
  "only_first": 1,
  "records": [4, 3],
  "packets": [9, 7],
  "bytes": [900, 708],
  "packets_lost": 0,
  "packets_lost_seen_by_both": 0,
  "conversations_with_loss": 0,
  "byte_difference": -8,
  "bytes_lost_seen_by_both": 0,
  "conversations_miscounted": 0,
  "delays": {"sum_ms": 52, "min_ms": 12, "max_ms": 40, "counts": {"12": 1, "40": 1}},
  "start_differences": {"sum_ms": 0, "min_ms": null, "max_ms": null, "counts": {}},
  "first_packets_lost": 0
}
"#;
    assert_eq!(truth.to_string(), expected);
}

fn refusal(pair: &RouterPair) -> RouterPairError {
    pair.records(Router::First, 1).expect_err("refused")
}

#[test]
fn pairs_are_checked() {
    let pair = RouterPair::new(1);
    let hosts = refusal(&RouterPair { hosts: 3, ..pair.clone() });
    assert!(matches!(hosts, RouterPairError::Model(ModelError::Hosts { hosts: 3, .. })));
    let loss = refusal(&RouterPair { loss_permille: 167, ..pair.clone() });
    assert_eq!(loss.to_string(), "loss_permille = 167: between 0 and 166 are possible");
    for wrong in [
        RouterPair { conversations_per_second: 0, ..pair.clone() },
        RouterPair { conversations_per_second: 20_001, ..pair.clone() },
        RouterPair { timer_check_ms: 0, ..pair.clone() },
        RouterPair { cache_entries_max: 0, ..pair.clone() },
        RouterPair { miscounted_octets: 21, ..pair.clone() },
    ] {
        assert!(matches!(refusal(&wrong), RouterPairError::OutOfRange { .. }));
        assert!(wrong.truth(1).is_err());
    }
    let ping = vec![Service { protocol: 1, port: 0, weight: 1 }];
    let pings = refusal(&RouterPair { hosts: 1024, services: ping, other_services_weight: 1, ..pair });
    assert!(matches!(pings, RouterPairError::WithoutPorts { hosts: 1024, max: 28_672, .. }), "{pings}");
}
