use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;

use weir_flow::{Column, Delivery, FlowBatchBuilder};

use crate::layout::Layout;
use crate::recovery::recover;
use crate::threads::Threads;
use crate::{ArchiveError, ArchiveHandle, ArchiveOptions, HandleOptions, Position, Writer};

use super::failing::FailingSyncs;
use super::*;

const LONG: Duration = Duration::from_mins(1);

fn delivery() -> Delivery {
    let mut builder = FlowBatchBuilder::new(1);
    builder.begin_rows(1);
    builder.time(Column::Received).push(Some(1));
    Delivery::from(builder.finish())
}

fn open(dir: &Path) -> Writer {
    let options = ArchiveOptions { commit_interval: Duration::ZERO, ..ArchiveOptions::default() };
    Writer::open(dir, options).expect("an archive").0
}

/// Appends until the sync has failed; returns how many flows were taken.
fn until_failed(writer: &mut Writer) -> u64 {
    let mut taken = 0;
    loop {
        match writer.append(delivery()) {
            Ok(_) => taken += 1,
            Err(error) => {
                assert!(matches!(error, ArchiveError::SyncTail { .. }) && error.may_pass(), "{error}");
                return taken;
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn flows(dir: &Path) -> u64 {
    let handle = ArchiveHandle::open(dir, &HandleOptions::default()).expect("the archive");
    handle.snapshot().expect("a snapshot").flows()
}

#[test]
fn what_a_disk_did_not_confirm_is_written_to_another_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut writer = open(dir.path());
    let failing = FailingSyncs::below(&dir.path().join("tail"));
    let taken = until_failed(&mut writer);
    assert_eq!(writer.durable(), Position::ZERO, "nothing was confirmed");
    let tail = writer.shared().layout.tail(1);
    let file = |path: &Path| fs::metadata(path).expect("the tail").ino();
    let before = file(&tail);
    drop(failing);
    let durable = writer.durability().wait_for(Position::new(taken), LONG).expect("made durable");
    assert_eq!((durable, writer.statistics().rows_durable), (Position::new(taken), taken));
    assert!(!tail.exists() || file(&tail) != before, "the pages of this file prove nothing");
    // the archive goes on
    writer.append(delivery()).expect("taken again");
    let done = writer.close().expect("closed").statistics;
    assert!(done.sync_failures > 0 && done.rows_lost == 0 && done.rows_sealed == taken + 1, "{done:?}");
    assert_eq!(flows(dir.path()), taken + 1);
}

#[test]
fn what_the_kernel_has_dropped_is_counted_and_the_rest_is_kept() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut writer = open(dir.path());
    let first = writer.append(delivery()).expect("appended");
    writer.durability().wait_for(first, LONG).expect("durable");
    let tail = writer.shared().layout.tail(1);
    let begin_lost = fs::metadata(&tail).expect("the tail").len() as usize;
    let failing = FailingSyncs::below(&dir.path().join("tail"));
    let taken = 1 + until_failed(&mut writer);
    // the second delivery reads as zeros
    let mut octets = fs::read(&tail).expect("the tail");
    octets[begin_lost..begin_lost * 2].fill(0);
    fs::write(&tail, octets).expect("changed");
    drop(failing);
    writer.durability().wait_for(Position::new(taken), LONG).expect("the rest is durable");
    let statistics = writer.statistics();
    assert_eq!((statistics.rows_lost, statistics.rows_durable), (1, taken - 1));
    let damages = writer.take_sync_damages();
    assert_eq!((damages.len(), damages[0].frames_lost), (1, 1), "{damages:?}");
    assert!(writer.take_sync_damages().is_empty(), "told once");
    writer.close().expect("closed");
    assert_eq!(flows(dir.path()), taken - 1);
}

#[test]
fn a_writer_that_ends_meanwhile_says_so_and_loses_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut writer = open(dir.path());
    let failing = FailingSyncs::below(dir.path());
    let taken = until_failed(&mut writer);
    let durability = writer.durability();
    assert!(matches!(writer.close(), Err(ArchiveError::SyncTail { .. })));
    let waited = durability.wait_for(Position::new(taken), Duration::MAX);
    assert!(matches!(waited, Err(ArchiveError::SyncTail { .. })), "{waited:?}");
    drop(failing);
    let (_writer, recovery) = Writer::open(dir.path(), ArchiveOptions::default()).expect("the archive opens");
    assert_eq!((recovery.position, recovery.rows), (Position::new(taken), taken), "the tail was not sealed");
}

/// Tails that a full disk left unconfirmed are safe once they are sealed, and nothing says otherwise from then on.
#[test]
fn what_was_not_confirmed_is_confirmed_by_its_sealing() {
    for (ending, is_left) in [(Ending::Drop, true), (Ending::Close, false)] {
        let dir = tempfile::tempdir().expect("a folder");
        let mut writer = open(dir.path());
        writer.append(delivery()).expect("appended");
        drop(writer);
        let layout = Layout::new(dir.path());
        let marker = layout.unconfirmed();
        let mut recovered = recover(&layout).expect("recovered");
        assert_eq!(recovered.tails.len(), 1);
        // as on a disk that has no room for another copy of the tail
        fs::write(&marker, "").expect("marked");
        recovered.recovery.is_unconfirmed = true;
        let shared = Arc::new(Shared::new(layout, &ArchiveOptions::default(), recovered).expect("the archive"));
        shared.end(ending);
        let mut threads = Threads::start(&shared).expect("threads");
        threads.join(&shared).expect("ended");
        assert_eq!(marker.exists(), is_left, "{ending:?}");
        assert_eq!(shared.progress().counted.tails_sealed, u64::from(!is_left), "{ending:?}");
    }
}
