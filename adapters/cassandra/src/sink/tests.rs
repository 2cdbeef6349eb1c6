//! The sink without a cluster: a file of a user that is not there refuses as a wrong password does.

use std::time::Instant;

use weir_archive::Snapshot;
use weir_chain::compliance;
use weir_flow::{Column, FlowBatch, FlowBatchBuilder};

use super::*;

/// Flows of a burst.
const ROWS: usize = 10;

fn flows() -> FlowBatch {
    let mut flows = FlowBatchBuilder::new(ROWS);
    flows.begin_rows(ROWS);
    // 2026-03-01 00:00:00 UTC
    flows.time(Column::Received).extend((0..ROWS).map(|row| 1_772_323_200_000 + row as i64));
    flows.u64(Column::Bytes).extend((0..ROWS).map(|row| row as u64 * 1000));
    flows.finish()
}

/// A password that somebody changes must not end a meter: what it does not see is lost.
#[test]
fn a_cluster_that_refuses_ends_no_chain_before_its_end() {
    let dir = tempfile::tempdir().expect("a folder");
    let spool = dir.path().join("spool");
    let text = format!(
        "to = 'cassandra://127.0.0.1:1/t'\nuser_file = '{}'\nspool = '{}'",
        dir.path().join("nobody").display(),
        spool.display()
    );
    let (Built::Sink(mut sink), context) = compliance::open(&KIND, &text) else { panic!("it is a sink") };
    sink.take(Burst::from(flows())).expect("taken");
    let began = Instant::now();
    let failures = context.counters.counter("forward_failures");
    while failures.get() == 0 {
        sink.tick().expect("it goes on");
        assert!(began.elapsed() < Duration::from_mins(1), "the store refuses nothing");
        std::thread::sleep(Duration::from_millis(5));
    }
    sink.tick().expect("it goes on");
    sink.take(Burst::from(flows())).expect("taken");
    let ended = sink.finish().expect_err("it was refused").chain();
    assert!(ended.starts_with("flows wait in the spool") && ended.contains("nobody"), "{ended}");
    assert_eq!(Snapshot::open(&spool).expect("an archive").flows(), 2 * ROWS as u64);
}
