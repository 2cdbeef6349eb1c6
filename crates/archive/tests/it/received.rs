//! When the flows of deliveries were received, wherever they are.

use std::path::Path;
use std::time::Duration;

use arrow::datatypes::TimestampMillisecondType;
use weir_archive::{ArchiveOptions, CompactionOptions, Position, Snapshot, Writer, compact};
use weir_flow::{Column, Delivery};

use crate::numbered::delivery;

/// Deliveries with flows; they go over midnight. One without follows each tenth.
const DELIVERIES: u64 = 80;

/// Appends deliveries. Returns the position of each, and when the newest flow was received up to there.
fn append(writer: &mut Writer, numbers: std::ops::RangeInclusive<u64>) -> Vec<(Position, i64)> {
    let mut known = Vec::new();
    for number in numbers {
        let made = delivery(Position::new(number));
        let times = made.flows.as_ref().and_then(|flows| flows.primitive::<TimestampMillisecondType>(Column::Received));
        let newest_ms = times.and_then(arrow::compute::max).expect("times");
        known.push((writer.append(made).expect("appended"), newest_ms));
        if number.is_multiple_of(10) {
            let books = Delivery { flows: None, ..delivery(Position::new(number)) };
            known.push((writer.append(books).expect("appended"), newest_ms));
        }
    }
    known
}

fn check(dir: &Path, known: &[(Position, i64)], when: &str) {
    let snapshot = Snapshot::open(dir).expect("a snapshot");
    for (position, newest_ms) in known {
        let found = snapshot.received_until_ms(*position).expect("read");
        assert_eq!(found, Some(*newest_ms), "{when}, {position:?}");
    }
    assert_eq!(snapshot.received_until_ms(Position::new(0)).expect("read"), None);
}

#[test]
fn deliveries_are_known_by_when_their_flows_were_received() {
    let dir = tempfile::tempdir().expect("a folder");
    let compaction = CompactionOptions { enabled: false, ..CompactionOptions::default() };
    let options = ArchiveOptions { compaction, ..ArchiveOptions::default() };
    let (mut writer, _) = Writer::open(dir.path(), options).expect("an archive");
    let mut known = append(&mut writer, 1..=DELIVERIES / 2);
    check(dir.path(), &known, "in the tail");
    writer.close().expect("sealed");
    check(dir.path(), &known, "sealed");
    let (mut writer, _) = Writer::open(dir.path(), options).expect("an archive");
    known.extend(append(&mut writer, DELIVERIES / 2 + 1..=DELIVERIES));
    check(dir.path(), &known, "sealed in part");
    writer.close().expect("sealed");
    let merging = CompactionOptions { fan_in: 2, settle_time: Duration::ZERO, ..CompactionOptions::default() };
    let report = compact(dir.path(), &merging, |_| {}).expect("merged");
    assert!(report.segments_merged > 0, "{report:?}");
    check(dir.path(), &known, "merged");
}
