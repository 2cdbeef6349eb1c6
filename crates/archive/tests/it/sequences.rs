//! Where sequence numbers stood: told in the delivery of the flows, and made fewer when they are sealed and merged.

use std::path::Path;

use weir_archive::{CompactionOptions, ExpiryOptions, Snapshot, check, compact, expire};
use weir_flow::sequences::{read_sequence_rows, sequence_rows};
use weir_flow::{Delivery, SequenceKey, SequenceRow, SideTables, Table};

use crate::archive_of;

/// 2026-01-02T00:00:00Z.
const DAY_MS: i64 = 1_767_312_000_000;
const HOUR_MS: i64 = 3_600_000;

/// What an exporter on this port sent in the hour before this one: numbers up to a thousand times the hour.
fn row(port: u16, hour: u32, first: Option<u32>) -> SequenceRow {
    let key =
        SequenceKey { exporter: vec![192, 0, 2, 1], exporter_port: port, observation_domain: 7, export_version: 10 };
    let received_ms = DAY_MS + i64::from(hour) * HOUR_MS;
    SequenceRow {
        key,
        received_ms,
        since_ms: received_ms - HOUR_MS,
        unit: "data records".to_owned(),
        first,
        next: hour * 1000,
        units: u64::from(u32::MAX),
        is_least: hour % 2 == 1,
        // an exporter whose clock is wrong must not change where rows are kept
        exported_ms: 5,
        uptime_ms: None,
    }
}

fn delivery(rows: &[SequenceRow]) -> Delivery {
    let side_tables = SideTables { others: sequence_rows(rows).into_iter().collect(), ..SideTables::default() };
    Delivery { side_tables, ..Delivery::default() }
}

fn sealed(dir: &Path) -> Vec<SequenceRow> {
    let snapshot = Snapshot::open(dir).expect("a snapshot");
    let segments = snapshot.segments(Table::ExporterSequences).iter();
    segments.flat_map(|segment| segment.read().expect("whole")).flat_map(|rows| read_sequence_rows(&rows)).collect()
}

fn merge(dir: &Path) {
    let options = CompactionOptions { fan_in: 2, ..CompactionOptions::default() };
    compact(dir, &options, |merge| assert!(merge.result.is_ok(), "{merge:?}")).expect("merged");
}

#[test]
fn rows_that_go_on_become_one_when_they_are_sealed_and_merged() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    archive_of(dir, delivery(&[row(1, 1, None), row(2, 1, Some(7)), row(1, 2, Some(1000)), row(2, 3, Some(1000))]));
    let [mut one, mut other] = [row(1, 2, None), row(2, 3, Some(7))];
    (one.since_ms, other.since_ms) = (row(1, 1, None).since_ms, row(2, 1, None).since_ms);
    (one.units, other.units) = (2 * u64::from(u32::MAX), 2 * u64::from(u32::MAX));
    assert_eq!(sealed(dir), [one.clone(), other.clone()]);
    archive_of(dir, delivery(&[row(1, 4, Some(2000)), row(2, 5, None)]));
    assert_eq!(sealed(dir).len(), 4);
    let last = || Snapshot::open(dir).and_then(|snapshot| snapshot.last_sequences()).expect("readable");
    let before = last();
    merge(dir);
    let whole = SequenceRow { since_ms: one.since_ms, units: 3 * u64::from(u32::MAX), ..row(1, 4, None) };
    assert_eq!(sealed(dir), [other, whole.clone(), row(2, 5, None)]);
    assert_eq!((last(), before), (vec![row(2, 5, None), whole], last()));
    assert_eq!(Snapshot::open(dir).and_then(|snapshot| snapshot.sequence_holes()).expect("readable"), []);
    assert_eq!(check(dir, false, |_| {}).expect("checked").findings, []);
}

#[test]
fn what_is_gone_is_a_hole_and_what_has_expired_is_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    for hour in [1, 2, 30, 60, 61] {
        let first = [1, 2, 30, 60].into_iter().rev().find(|before| *before < hour).map(|before| before * 1000);
        archive_of(dir, delivery(&[row(1, hour, first)]));
    }
    merge(dir);
    let holes = || Snapshot::open(dir).and_then(|snapshot| snapshot.sequence_holes()).expect("readable");
    assert_eq!(holes(), []);
    let gone = Snapshot::open(dir).expect("a snapshot").segments(Table::ExporterSequences)[1].path();
    std::fs::remove_file(gone).expect("it was there");
    check(dir, true, |_| {}).expect("repaired");
    let found = holes();
    assert_eq!((found.len(), found[0].missing, found[0].key.exporter_port), (1, 28_000, 1), "{found:?}");
    assert_eq!(found[0].between_ms, [DAY_MS + 2 * HOUR_MS, DAY_MS + 59 * HOUR_MS]);
    let age_max = Some(std::time::Duration::ZERO);
    expire(dir, &ExpiryOptions { side_tables_age_max: age_max, ..ExpiryOptions::default() }, false).expect("expired");
    assert_eq!(holes(), []);
}

/// Exporters that were silent for days before the archive ended are not gone on with.
#[test]
fn only_who_was_heard_of_late_is_gone_on_with() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    for (port, hour) in [(1, 1), (2, 50), (3, 80)] {
        archive_of(dir, delivery(&[row(port, hour, None)]));
    }
    let snapshot = Snapshot::open(dir).expect("a snapshot");
    let last = snapshot.last_sequences().expect("readable");
    assert_eq!(last.iter().map(|row| row.key.exporter_port).collect::<Vec<_>>(), [3, 2]);
}

/// A clock that was wrong for a while does not decide from where the collector goes on.
#[test]
fn days_to_come_do_not_count() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    // in the year 2100, and then as it should be
    let mut wrong = row(1, 2, None);
    wrong.received_ms += 74 * 365 * 24 * HOUR_MS;
    archive_of(dir, delivery(&[wrong]));
    archive_of(dir, delivery(&[row(1, 3, None)]));
    let last = || Snapshot::open(dir).and_then(|snapshot| snapshot.last_sequences()).expect("readable");
    assert_eq!(last(), [row(1, 3, None)]);
    // what was written last counts, whatever the clock said
    archive_of(dir, delivery(&[row(1, 1, None)]));
    assert_eq!(last(), [row(1, 1, None)]);
}
