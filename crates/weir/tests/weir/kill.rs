//! SIGKILL at random moments under load: what was in the archive stays, nothing is there twice, the books agree.

use std::path::Path;
use std::time::{Duration, Instant};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use weir_archive::Snapshot;
use weir_flow::Table;

use crate::process::{Collector, Exporter};

const KILLS: u64 = 50;

/// Everything a table holds, sealed and not.
fn rows(archive: &Path, table: Table) -> Vec<RecordBatch> {
    let snapshot = Snapshot::open(archive).expect("a snapshot");
    let sealed = snapshot.segments(table).iter().flat_map(|segment| segment.read().expect("a whole segment"));
    sealed.chain(snapshot.tail(table).iter().cloned()).collect()
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
        let collector = Collector::start(&archive, &["--commit-interval-ms", "50", "--segment-rows", "3000"]);
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
