//! Sealing that fails: it is reported, and what is behind it does not wait for ever.

use std::fs;
use std::time::{Duration, Instant};

use weir_archive::{ArchiveOptions, Position, SealRetries, Snapshot, Writer, inventory};
use weir_flow::Table;

use crate::numbered::{check, delivery, rows_up_to};

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_mins(1), "waited in vain until {what}");
        std::thread::yield_now();
    }
}

fn options() -> ArchiveOptions {
    let seal_retries = SealRetries { interval: Duration::from_millis(5), failures_max: 3 };
    ArchiveOptions { seal_retries, ..ArchiveOptions::default() }
}

/// The folder for segments being written is a file: no tail can be sealed. All of them stay readable.
#[test]
fn sealing_that_fails_is_reported_and_nothing_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let (mut writer, _) = Writer::open(dir, options()).expect("an archive");
    fs::remove_dir(dir.join("tmp")).expect("removed");
    fs::write(dir.join("tmp"), b"a file").expect("written");
    for number in 1..=4 {
        writer.append(delivery(Position::new(number))).expect("appended");
        writer.rotate();
    }
    let mut report = None;
    wait_until("it is reported", || {
        report = report.take().or_else(|| writer.take_seal_failure());
        report.is_some()
    });
    let report = report.expect("a report");
    assert!(report.failures == 1 && report.cause.contains("tmp"), "{report:?}");
    wait_until("all are left behind", || writer.statistics().tails_skipped == 4);
    assert!(writer.statistics().seal_failures >= 12, "{:?}", writer.statistics());
    assert!(writer.take_seal_failure().is_none(), "once a minute is enough");
    assert_eq!(check(dir), Position::new(4));
    assert_eq!(inventory(dir).expect("listed").tails.iter().filter(|tail| tail.is_skipped).count(), 4);
    // once it is possible again, they are sealed by the same writer
    fs::remove_file(dir.join("tmp")).expect("removed");
    fs::create_dir(dir.join("tmp")).expect("created");
    wait_until("all are sealed", || writer.statistics().tails_sealed == 4);
    assert_eq!(writer.statistics().rows_sealed, rows_up_to(Position::new(4)));
    assert_eq!(check(dir), Position::new(4));
    writer.close().expect("closed");
}

/// One tail that cannot be sealed does not keep the others from it, in this writer nor in the next.
#[test]
fn a_tail_that_cannot_be_sealed_is_left_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let (mut writer, _) = Writer::open(dir, options()).expect("an archive");
    writer.append(delivery(Position::new(1))).expect("appended");
    // what the first tail needs a file for, for the day of its flows, is a folder
    fs::create_dir_all(dir.join("tmp/flows-0000000000000001-20412")).expect("in the way");
    writer.rotate();
    writer.append(delivery(Position::new(2))).expect("appended");
    writer.rotate();
    wait_until("the second is sealed", || writer.statistics().tails_sealed >= 1);
    let first = dir.join("tail/0000000000000001.tail");
    assert!(first.exists() && !dir.join("tail/0000000000000002.tail").exists());
    let snapshot = Snapshot::open(dir).expect("a snapshot");
    assert_eq!(snapshot.flows(), rows_up_to(Position::new(2)));
    assert!(snapshot.flows_unsealed() > 0);
    drop(snapshot);
    drop(writer);
    // the next writer clears the folder, and has another try
    fs::remove_dir_all(dir.join("tmp")).expect("removed");
    let (writer, recovery) = Writer::open(dir, options()).expect("the archive");
    assert_eq!((recovery.tails, recovery.position), (1, Position::new(2)));
    writer.close().expect("sealed");
    assert!(!first.exists());
    assert_eq!(check(dir), Position::new(2));
}

/// Each attempt would leave the segments of a whole tail otherwise, for as long as that lasts.
#[test]
fn nothing_is_written_while_what_counts_cannot_be_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let (mut writer, _) = Writer::open(dir, options()).expect("an archive");
    writer.append(delivery(Position::new(1))).expect("appended");
    let edits = fs::read_dir(dir.join("manifest")).expect("a manifest").map(|entry| entry.expect("an entry").path());
    let numbers = edits.filter(|path| path.extension().is_some_and(|end| end == "edit"));
    let number = |path: &std::path::Path| path.file_stem()?.to_str()?.parse::<u64>().ok();
    let last = numbers.filter_map(|path| number(&path)).max().expect("an edit");
    let next = dir.join(format!("manifest/{:016}.edit", last + 1));
    fs::create_dir(&next).expect("a commit that cannot be read");
    writer.rotate();
    wait_until("it was tried often", || writer.statistics().seal_failures >= 5);
    let written = [Table::Flows, Table::ExporterBooks].map(|table| dir.join(table.name()));
    let partitions = written.iter().flat_map(|table| fs::read_dir(table).into_iter().flatten());
    let files = partitions.flat_map(|partition| fs::read_dir(partition.expect("an entry").path()).expect("listed"));
    assert_eq!(files.count(), 0);
    fs::remove_dir(&next).expect("removed");
    wait_until("it is sealed", || writer.statistics().tails_sealed == 1);
    assert_eq!(check(dir), Position::new(1));
    writer.close().expect("closed");
}
