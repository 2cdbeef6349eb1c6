//! Generated flows are the same every time, and plausible.

use std::collections::HashSet;

use arrow::array::AsArray;
use arrow::datatypes::{TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use weir_flow::elements::elements_of_row;
use weir_flow::{Column, FlowBatch};
use weir_generate::{ModelError, Scene, SceneKind, Service, Totals, TrafficModel};

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

/// The flows of a model by their times, hosts and counts.
fn listed(model: &TrafficModel, count: u64) -> Vec<String> {
    let mut flows = model.flows(count).expect("a model");
    let mut rows = Vec::new();
    while let Some(batch) = flows.next_batch(100) {
        for row in 0..batch.rows() {
            let columns = [
                Column::Start,
                Column::End,
                Column::SrcAddr,
                Column::DstAddr,
                Column::SrcPort,
                Column::DstPort,
                Column::Protocol,
                Column::TcpFlags,
                Column::Packets,
                Column::Bytes,
            ];
            rows.push(format!("{:?}", columns.map(|column| octets(&batch, column, row))));
        }
    }
    rows
}

/// A scene that begins a minute after the model.
fn scene(kind: SceneKind) -> Scene {
    Scene { kind, at_ms: TrafficModel::new(1).start_ms + 60_000 }
}

#[test]
fn scenes_come_on_top_of_the_same_flows() {
    let quiet = TrafficModel { flows_per_second: 10, ..TrafficModel::new(11) };
    let without = listed(&quiet, 3_000);
    // by hand from what each scene is described as; answers count
    for (kind, expected) in [
        (SceneKind::PortscanHorizontal, 1_000),
        (SceneKind::PortscanVertical, 2_000),
        (SceneKind::DdosAmplification, 18_000),
        (SceneKind::DdosSyn, 12_000),
        (SceneKind::Exfiltration, 120),
        (SceneKind::BruteForce, 200),
        (SceneKind::NewService, 18),
        (SceneKind::FirstContact, 18),
        (SceneKind::Spoofed, 60),
    ] {
        let model = TrafficModel { scenes: vec![scene(kind)], ..quiet.clone() };
        let with = listed(&model, 3_000);
        assert_eq!(with.len(), without.len() + expected, "{}", kind.name());
        let mut rest = with.iter();
        assert!(without.iter().all(|row| rest.any(|other| other == row)), "{}: flows differ", kind.name());
        assert_eq!(with, listed(&model, 3_000), "{}", kind.name());
        let mut flows = model.flows(3_000).expect("a model");
        flows.by_ref().for_each(drop);
        let planted = &flows.planted()[0];
        assert_eq!((planted.flows, planted.flows_out), (expected as u64, expected as u64), "{}", kind.name());
        assert!(planted.is_over && !planted.key.is_empty(), "{planted:?}");
    }
}

#[test]
fn silence_and_sampling_are_of_the_exporter() {
    let model = |kind| TrafficModel {
        flows_per_second: 10,
        received: true,
        scenes: vec![scene(kind)],
        ..TrafficModel::new(11)
    };
    let silent = model(SceneKind::ExporterSilent);
    let mut times = Vec::new();
    let mut flows = silent.flows(3_000).expect("a model");
    while let Some(batch) = flows.next_batch(4096) {
        times.extend((0..batch.rows()).map(|row| number(&batch, Column::Received, row) as i64 - silent.start_ms));
    }
    assert_eq!(times.len(), 3_000);
    // 600 flows in the minute before, and the others after fifteen minutes without any
    assert!(times[..600].iter().all(|time| *time <= 60_000), "{:?}", &times[..600]);
    assert!(times[600..].iter().all(|time| *time >= 960_000), "{:?}", times[600]);
    let mut intervals = [0_u32; 2];
    for batch in model(SceneKind::SamplingChanged).flows(12_000).expect("a model") {
        let column = batch.column(Column::SamplingInterval).expect("the column").as_primitive::<UInt32Type>();
        for interval in column {
            intervals[usize::from(interval.is_some())] += 1;
            assert!(interval.is_none_or(|interval| interval == 10), "{interval:?}");
        }
    }
    // ten minutes at ten flows in a second
    assert_eq!(intervals, [6_000, 6_000]);
}

#[test]
fn scenes_are_checked() {
    let model = TrafficModel { flows_per_second: 10, ..TrafficModel::new(1) };
    let early = Scene { at_ms: model.start_ms - 1, ..scene(SceneKind::Beaconing) };
    let early = TrafficModel { scenes: vec![early], ..model.clone() };
    assert!(matches!(early.flows(1), Err(ModelError::SceneEarly { scene: "beaconing", early_ms: 1 })));
    let many = TrafficModel { scenes: vec![scene(SceneKind::Spoofed); 65], ..model.clone() };
    assert!(matches!(many.flows(1), Err(ModelError::Scenes { scenes: 65, .. })));
    let numbered = TrafficModel { numbered: true, scenes: vec![scene(SceneKind::Spoofed)], ..model.clone() };
    assert!(matches!(numbered.flows(1), Err(ModelError::SceneNumbered)));
    // an hour of calls does not fit into ten minutes
    let cut = TrafficModel { scenes: vec![scene(SceneKind::Beaconing)], ..model };
    let mut flows = cut.flows(6_000).expect("a model");
    flows.by_ref().for_each(drop);
    let planted = &flows.planted()[0];
    assert!(planted.flows == 120 && planted.flows_out < 20 && !planted.is_over, "{planted:?}");
    for kind in SceneKind::ALL {
        assert_eq!(SceneKind::named(kind.name()), Some(kind));
    }
}
