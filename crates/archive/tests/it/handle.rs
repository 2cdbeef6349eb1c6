//! One handle for many snapshots: each is what a snapshot taken without it is.

use std::fs;
use std::path::Path;

use weir_archive::{
    ArchiveHandle, ArchiveOptions, CompactionOptions, HandleOptions, Position, Snapshot, Writer, compact,
};
use weir_flow::{Column, Table};

use crate::numbered::{check_snapshot, delivery, numbers};

fn options() -> ArchiveOptions {
    let compaction = CompactionOptions { enabled: false, ..CompactionOptions::default() };
    ArchiveOptions { compaction, ..ArchiveOptions::default() }
}

/// Both have the same flows, sealed or not, and everything of both can be read.
fn check_same(handle: &ArchiveHandle, dir: &Path) -> Position {
    let (one, other) = (handle.snapshot().expect("a snapshot"), Snapshot::open(dir).expect("a snapshot"));
    assert_eq!((one.position(), one.flows()), (other.position(), other.flows()));
    for segment in one.segments(Table::Flows) {
        let index = one.index_of(segment).expect("readable").expect("an index");
        assert_eq!(index.pages(), segment.index().expect("readable").expect("an index").pages());
    }
    check_snapshot(&one)
}

#[test]
fn a_handle_sees_what_was_appended_sealed_and_merged() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let (mut writer, _) = Writer::open(dir, options()).expect("an archive");
    let handle = ArchiveHandle::open(dir, &HandleOptions::default()).expect("a handle");
    assert_eq!(check_same(&handle, dir), Position::ZERO);
    let mut number = 0;
    for round in 0..6 {
        for _ in 0..5 {
            number += 1;
            writer.append(delivery(Position::new(number))).expect("appended");
            assert_eq!(check_same(&handle, dir), Position::new(number));
        }
        if round % 2 == 0 {
            writer.rotate();
        } else {
            writer.close().expect("sealed");
            compact(dir, &CompactionOptions::default(), |_| {}).expect("merged");
            assert_eq!(check_same(&handle, dir), Position::new(number));
            writer = Writer::open(dir, options()).expect("an archive").0;
        }
    }
    assert!(handle.cache_octets() > 0);
    drop(writer);
    assert_eq!(check_same(&handle, dir), Position::new(number));
}

#[test]
fn snapshots_of_a_handle_stay_what_they_were() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let (mut writer, _) = Writer::open(dir, options()).expect("an archive");
    let handle = ArchiveHandle::open(dir, &HandleOptions { cache_octets_max: 0 }).expect("a handle");
    for number in 1..=10 {
        writer.append(delivery(Position::new(number))).expect("appended");
    }
    let before = handle.snapshot().expect("a snapshot");
    for number in 11..=20 {
        writer.append(delivery(Position::new(number))).expect("appended");
    }
    writer.close().expect("sealed");
    assert_eq!(check_snapshot(&before), Position::new(10), "its tails are sealed and removed");
    assert_eq!(check_same(&handle, dir), Position::new(20));
}

/// Nothing committed, nothing appended: two snapshots, and the archive can be reopened and removed files go.
#[test]
fn a_handle_holds_up_no_removal() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    for number in 1..=4 {
        let (mut writer, _) = Writer::open(dir, options()).expect("an archive");
        writer.append(delivery(Position::new(number))).expect("appended");
        writer.close().expect("sealed");
    }
    let handle = ArchiveHandle::open(dir, &HandleOptions::default()).expect("a handle");
    drop(handle.snapshot().expect("a snapshot"));
    compact(dir, &CompactionOptions::default(), |_| {}).expect("merged");
    let days = fs::read_dir(dir.join("flows")).expect("days").flatten();
    let files: usize = days.map(|day| fs::read_dir(day.path()).expect("a day").count()).sum();
    assert_eq!(files, handle.snapshot().expect("a snapshot").segments(Table::Flows).len());
}

/// A frame says which hosts and times it has, and never that it lacks what it has.
#[test]
fn frames_say_what_they_have() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(folder.path(), options()).expect("an archive");
    for number in 1..=50 {
        writer.append(delivery(Position::new(number))).expect("appended");
    }
    let snapshot = Snapshot::open(folder.path()).expect("a snapshot");
    assert_eq!(snapshot.tail_frames().len(), 50);
    for frame in snapshot.tail_frames() {
        let digest = frame.digest().expect("a digest");
        let Some(flows) = frame.read_flows(Column::ALL).expect("readable") else { continue };
        assert_eq!(flows.num_rows(), frame.flows());
        for name in ["src_addr", "dst_addr"] {
            let Some(column) = flows.column_by_name(name) else { continue };
            let hosts = arrow::array::AsArray::as_binary::<i32>(column);
            assert!(hosts.iter().flatten().all(|host| digest.may_have_host(host)));
        }
        let only = frame.read_flows(&[Column::FlowId]).expect("readable").expect("flows");
        assert_eq!((only.num_columns(), only.column(0)), (1, flows.column_by_name("flow_id").expect("a column")));
        assert_eq!(numbers(&[only], "flow_id").len(), frame.flows());
    }
    drop(writer);
}
