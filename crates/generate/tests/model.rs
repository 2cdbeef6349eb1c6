//! Generated flows are the same every time, and plausible.

use std::collections::HashSet;

use arrow::array::AsArray;
use arrow::datatypes::{TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use weir_flow::elements::elements_of_row;
use weir_flow::{Column, FlowBatch};
use weir_generate::{ModelError, Service, Totals, TrafficModel};

/// FNV-1a over every value of every column, whatever the batches.
fn fingerprint(model: &TrafficModel, flows: u64, batch_rows: usize) -> (u64, Totals) {
    let mut flows = model.flows(flows).expect("a model");
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut eat = |octets: &[u8]| {
        for octet in octets {
            hash = (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    while let Some(batch) = flows.next_batch(batch_rows) {
        for row in 0..batch.rows() {
            for &column in Column::ALL.iter().filter(|&&column| column != Column::Elements) {
                eat(&octets(&batch, column, row));
            }
            for element in batch.column(Column::Elements).map_or(Vec::new(), |column| elements_of_row(column, row)) {
                eat(&element.id.to_be_bytes());
                eat(element.octets);
            }
        }
    }
    (hash, flows.totals())
}

fn octets(batch: &FlowBatch, column: Column, row: usize) -> Vec<u8> {
    let Some(array) = batch.column(column) else { return Vec::new() };
    if let Some(values) = array.as_binary_opt::<i32>() {
        return values.value(row).to_vec();
    }
    number(batch, column, row).to_be_bytes().to_vec()
}

fn number(batch: &FlowBatch, column: Column, row: usize) -> u64 {
    let array = batch.column(column).expect("the column");
    let small = array.as_primitive_opt::<UInt8Type>().map(|values| values.value(row).into());
    let small = small.or_else(|| array.as_primitive_opt::<UInt16Type>().map(|values| values.value(row).into()));
    let small = small.or_else(|| array.as_primitive_opt::<UInt32Type>().map(|values| values.value(row).into()));
    let large = small.or_else(|| array.as_primitive_opt::<UInt64Type>().map(|values| values.value(row)));
    large.unwrap_or_else(|| array.as_primitive::<TimestampMillisecondType>().value(row) as u64)
}

fn mixed() -> TrafficModel {
    TrafficModel { ipv6_permille: 300, elements: true, ..TrafficModel::new(42) }
}

#[test]
fn the_same_seed_gives_the_same_flows_on_every_machine() {
    // Pins the sequence: if this changes, so do the flows of everyone who wrote down a seed.
    let (hash, totals) = fingerprint(&mixed(), 20_000, 4096);
    assert_eq!((hash, totals), (GOLDEN_HASH, Totals { flows: 20_000, packets: GOLDEN_PACKETS, bytes: GOLDEN_BYTES }));
}

const GOLDEN_HASH: u64 = 10_145_079_510_003_138_515;
const GOLDEN_PACKETS: u64 = 347_522;
const GOLDEN_BYTES: u64 = 155_413_074;

#[test]
fn batches_do_not_matter_and_seeds_do() {
    let model = mixed();
    assert_eq!(fingerprint(&model, 3_000, 4096), fingerprint(&model, 3_000, 7));
    assert_ne!(fingerprint(&model, 3_000, 4096).0, fingerprint(&TrafficModel { seed: 43, ..model }, 3_000, 4096).0);
}

#[test]
fn every_flow_is_plausible() {
    let mut flows = mixed().flows(100_000).expect("a model");
    let (mut wide, mut totals) = (0_u32, Totals::default());
    while let Some(batch) = flows.next_batch(1000) {
        for row in 0..batch.rows() {
            let value = |column| number(&batch, column, row);
            let length = octets(&batch, Column::SrcAddr, row).len();
            wide += u32::from(length == 16);
            assert_eq!(octets(&batch, Column::DstAddr, row).len(), length);
            assert_eq!(octets(&batch, Column::NextHop, row).len(), length);
            let (packets, bytes) = (value(Column::Packets), value(Column::Bytes));
            let header = if length == 16 { 40 } else { 20 };
            assert!(packets >= 1 && (packets * header..=packets * 1500).contains(&bytes), "{packets} {bytes}");
            assert!(u32::try_from(bytes).is_ok());
            let (start, end) = (value(Column::Start), value(Column::End));
            assert!(start <= end && end as i64 <= flows.clock_ms());
            assert!(packets > 1 || start == end, "one packet takes no time");
            let flags = value(Column::TcpFlags);
            assert!(value(Column::Protocol) == 6 || flags == 0);
            assert!(flags & 3 != 3 || packets > 1, "opened and closed with one packet");
            let mask = value(Column::SrcMask);
            assert!(mask >= 16 && mask as usize <= 8 * length);
            totals.flows += 1;
            totals.packets += packets;
            totals.bytes += bytes;
        }
    }
    assert_eq!(flows.totals(), totals);
    assert!((28_000..32_000).contains(&wide), "{wide} of 100000 flows are IPv6, 30 % were asked for");
    // 100000 flows at 10000 in a second
    assert_eq!(flows.clock_ms(), flows.model().start_ms + 10_000);
}

#[test]
fn traffic_is_shaped_as_asked() {
    let mut flows = TrafficModel::new(3).flows(500_000).expect("a model");
    let (mut ssh, mut ssh_server, mut hosts, mut large) = (0_u32, 0_u32, HashSet::new(), 0_u64);
    let mut counts = std::collections::HashMap::<Vec<u8>, u32>::new();
    for batch in flows.by_ref() {
        for row in 0..batch.rows() {
            let (src, dst) = (number(&batch, Column::SrcPort, row), number(&batch, Column::DstPort, row));
            ssh += u32::from(src == 22 || dst == 22);
            ssh_server += u32::from(dst == 22);
            let host = octets(&batch, Column::SrcAddr, row);
            *counts.entry(host.clone()).or_default() += 1;
            hosts.insert(host);
            let bytes = number(&batch, Column::Bytes, row);
            large += if bytes > 100_000 { bytes } else { 0 };
        }
    }
    assert!((6_000..6_500).contains(&ssh), "{ssh} of 500000 flows, 1.25 % were asked for");
    assert!((4_300..4_700).contains(&ssh_server), "{ssh_server} to servers");
    assert!(hosts.len() > 100_000, "{} sources", hosts.len());
    assert!(counts.values().max() > Some(&10_000), "some hosts are popular");
    assert!(large > flows.totals().bytes / 2, "few flows carry most of the traffic");
}

#[test]
fn numbered_flows_tell_their_number() {
    let model = TrafficModel { numbered: true, received: true, ..TrafficModel::new(9) };
    let mut next = 0;
    for batch in model.flows(10_000).expect("a model") {
        for row in 0..batch.rows() {
            assert_eq!(number(&batch, Column::Bytes, row), next);
            assert!(number(&batch, Column::Received, row) >= number(&batch, Column::End, row));
            next += 1;
        }
    }
    assert_eq!(next, 10_000);
}

/// 6 flows a second: the seventh comes a second after the first, and the 4,000th after 666.5 s, however they are cut.
#[test]
fn each_flow_is_received_by_the_clock() {
    let model = TrafficModel { received: true, flows_per_second: 6, start_ms: 1_000_000, ..TrafficModel::new(3) };
    for batch_rows in [1, 7, 4096] {
        let mut flows = model.flows(4_000).expect("a model");
        let mut received = Vec::new();
        while let Some(batch) = flows.next_batch(batch_rows) {
            for row in 0..batch.rows() {
                received.push(number(&batch, Column::Received, row));
                assert!(received.last() >= Some(&number(&batch, Column::End, row)));
            }
        }
        assert_eq!(received[..7], [0, 166, 333, 500, 666, 833, 1000].map(|ms| 1_000_000 + ms), "{batch_rows}");
        assert_eq!(received.last(), Some(&1_666_500));
    }
}

#[test]
fn models_are_checked() {
    let model = TrafficModel::new(1);
    let hosts = TrafficModel { hosts: 3, ..model.clone() };
    assert!(matches!(hosts.flows(1), Err(ModelError::Hosts { hosts: 3, .. })));
    let share = TrafficModel { ipv6_permille: 1001, ..model.clone() };
    assert!(matches!(share.flows(1), Err(ModelError::Ipv6Share { permille: 1001 })));
    let services = TrafficModel { services: Vec::new(), other_services_weight: 0, ..model.clone() };
    assert!(matches!(services.flows(1), Err(ModelError::Services { .. })));
    let clock = TrafficModel { flows_per_second: 0, ..model.clone() };
    assert!(matches!(clock.flows(1), Err(ModelError::Clock)));
    let only_ssh = vec![Service { protocol: 6, port: 22, weight: 1 }];
    let mut flows = TrafficModel { services: only_ssh, other_services_weight: 0, ..model }.flows(100).expect("a model");
    let batch = flows.next().expect("a batch");
    for row in 0..100 {
        assert!([Column::SrcPort, Column::DstPort].iter().any(|&column| number(&batch, column, row) == 22));
    }
}
