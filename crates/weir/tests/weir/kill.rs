//! SIGKILL at random moments under load: what was in the archive stays, nothing is there twice, the books agree.

use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use weir_archive::Snapshot;
use weir_flow::Table;
use weir_wire::{FieldSpecifier, Template, TemplateId, ipfix};

use crate::process::{Collector, Exporter};

const KILLS: u64 = 50;

/// Everything a table holds, sealed and not.
fn rows(archive: &Path, table: Table) -> Vec<RecordBatch> {
    let snapshot = Snapshot::open(archive).expect("a snapshot");
    let sealed = snapshot.segments(table).iter().flat_map(|segment| segment.read().expect("a whole segment"));
    sealed.chain(snapshot.tail(table).expect("readable")).collect()
}

fn numbers(batches: &[RecordBatch], column: &str) -> Vec<u64> {
    let of =
        |batch: &RecordBatch| batch.column_by_name(column).map(|c| c.as_primitive::<UInt64Type>().values().to_vec());
    batches.iter().filter_map(of).flatten().collect()
}

/// The numbers of all flows, in order, and how many flows the books say there are.
fn audit(archive: &Path) -> (Vec<u64>, u64) {
    let mut flows = numbers(&rows(archive, Table::Flows), "bytes");
    flows.sort_unstable();
    (flows, numbers(&rows(archive, Table::ExporterBooks), "records_stored").iter().sum())
}

#[test]
fn killed_fifty_times_under_load() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive");
    let (mut seen_before, mut next) = (Vec::new(), 0);
    for round in 0..KILLS {
        // small segments, so that kills also hit rotation, sealing and the removal of tails
        let collector = Collector::start(&archive, &["--commit-interval", "50ms", "--segment-rows", "3000"]);
        let mut exporter = Exporter::new(next);
        // from no time at all to some sealed segments; the multiplier scatters the moments
        let until = Instant::now() + Duration::from_millis(round * 7919 % 400);
        let mut acknowledged = Vec::new();
        while Instant::now() < until {
            for _ in 0..20 {
                exporter.send(collector.address);
            }
            acknowledged = audit(&archive).0;
        }
        collector.kill();
        next = exporter.next();
        let (flows, booked) = audit(&archive);
        assert!(flows.windows(2).all(|pair| pair[0] < pair[1]), "round {round}: a flow is there twice");
        assert_eq!(flows.len() as u64, booked, "round {round}: flows and books differ");
        for kept in [&seen_before, &acknowledged] {
            let missing = kept.iter().find(|number| flows.binary_search(number).is_err());
            assert_eq!(missing, None, "round {round}: a flow that was there is gone");
        }
        seen_before = flows;
    }
    Collector::start(&archive, &[]).stop();
    let (flows, booked) = audit(&archive);
    assert_eq!((flows.len() as u64, &flows), (booked, &seen_before), "sealing what the kills left changed it");
    assert!(flows.len() > 10_000, "only {} flows: the load was no load", flows.len());
}

#[test]
fn what_was_acknowledged_in_order_is_all_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive");
    let collector = Collector::start(&archive, &["--segment-rows", "2000"]);
    let mut exporter = Exporter::new(0);
    for _ in 0..200 {
        exporter.send(collector.address);
    }
    collector.stop();
    let (flows, booked) = audit(&archive);
    assert_eq!((flows.len(), booked), (6000, 6000));
    assert_eq!(flows, (0..6000).collect::<Vec<_>>());
}

/// An IPFIX message with a Template, or with a flow of so many octets, or both.
fn message(with_template: bool, octets: Option<u32>) -> Vec<u8> {
    let fields = vec![FieldSpecifier::iana(8, 4), FieldSpecifier::iana(1, 4)];
    let template = Template::new(TemplateId::new(300).expect("an id"), fields, 0).expect("a template");
    let mut datagram = Vec::new();
    let mut builder = ipfix::MessageBuilder::new(&mut datagram, &ipfix::Header::default());
    if with_template {
        builder.template(&template).expect("fits");
    }
    if let Some(octets) = octets {
        let record = |out: &mut Vec<u8>| out.extend([[10, 0, 0, 1], octets.to_be_bytes()].concat());
        builder.record(&template, record).expect("fits");
    }
    builder.finish();
    datagram
}

#[test]
fn killed_between_template_and_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive");
    let exporter = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let collector = Collector::start(&archive, &[]);
    exporter.send_to(&message(true, None), collector.address).expect("sent");
    let state = archive.join("collector/exporters.state");
    let until = Instant::now() + Duration::from_mins(2);
    while !state.exists() {
        assert!(Instant::now() < until, "what exporters told is not written down");
        std::thread::sleep(Duration::from_millis(20));
    }
    collector.kill();
    let collector = Collector::start(&archive, &[]);
    exporter.send_to(&message(false, Some(7)), collector.address).expect("sent");
    collector.stop();
    assert_eq!(audit(&archive), (vec![7], 1));
    let waited = numbers(&rows(&archive, Table::ExporterBooks), "sets_waiting_in");
    assert_eq!(waited.iter().sum::<u64>(), 0, "the first datagram was decoded at once");
}

#[test]
fn data_waits_over_a_restart_until_its_template_comes() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive");
    let exporter = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let collector = Collector::start(&archive, &[]);
    for octets in 1..=3 {
        exporter.send_to(&message(false, Some(octets)), collector.address).expect("sent");
    }
    collector.stop();
    assert_eq!(audit(&archive).0, [0; 0]);
    let collector = Collector::start(&archive, &[]);
    exporter.send_to(&message(true, Some(4)), collector.address).expect("sent");
    let until = Instant::now() + Duration::from_mins(2);
    while audit(&archive).0.len() < 4 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    collector.stop();
    assert_eq!(audit(&archive), (vec![1, 2, 3, 4], 4));
}
