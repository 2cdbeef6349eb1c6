//! What must hold of a whole archive at any moment.

use std::path::Path;
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::UInt64Type;
use weir_archive::Snapshot;
use weir_flow::Table;

use crate::children::say;
use crate::traffic::{KEPT, ROWS};

/// Every flow is there once or has expired, and the newest are there.
pub(crate) fn check_all(snapshot: &Snapshot) {
    let newest = snapshot.position().get();
    let mut numbers = Vec::new();
    let read = snapshot.segments(Table::Flows).iter().flat_map(|segment| segment.read().expect("a segment"));
    for batch in read.chain(snapshot.tail(Table::Flows).expect("the tails")) {
        let column = batch.column_by_name("flow_id").expect("numbers");
        numbers.extend_from_slice(column.as_primitive::<UInt64Type>().values());
    }
    numbers.sort_unstable();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "a flow is there twice");
    let expired = snapshot.rows_expired() + snapshot.rows_set_aside();
    assert_eq!(numbers.len() as u64 + expired, newest * ROWS, "of {newest} deliveries, {expired} flows expired");
    let first = (newest + 1).saturating_sub(KEPT).max(1) * ROWS;
    let kept = numbers.len() - numbers.partition_point(|number| *number < first);
    assert_eq!(kept as u64, (newest + 1) * ROWS - first, "of the newest deliveries");
}

/// No file is wrong.
pub(crate) fn check_files(dir: &Path) {
    let report = weir_archive::check(dir, false, |_| {}).expect("a check");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert!(report.set_aside.is_empty(), "{:?}", report.set_aside);
}

/// Checks until it is killed.
pub(crate) fn run(dir: &Path) {
    loop {
        check_files(dir);
        say("checks", 1);
        std::thread::sleep(Duration::from_millis(200));
    }
}
