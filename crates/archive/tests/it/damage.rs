//! Tails that were cut or changed.

use std::fs;
use std::path::{Path, PathBuf};

use weir_archive::{ArchiveError, ArchiveOptions, Position, Snapshot, Writer};

use crate::numbered::{check, delivery, rows_up_to, take_back_commit};

fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir.join("tail")).expect("a folder of tails");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    paths.sort();
    paths
}

/// An archive that was left with its deliveries in a tail; tells the tail and where each frame ends.
fn archive_with_tail(dir: &Path, deliveries: u64) -> (PathBuf, Vec<u64>) {
    let (mut writer, _) = Writer::open(dir, ArchiveOptions::default()).expect("an archive");
    let mut ends = Vec::new();
    for number in 1..=deliveries {
        writer.append(delivery(Position::new(number))).expect("appended");
        ends.push(fs::metadata(&files(dir, "tail")[0]).expect("a tail").len());
    }
    (files(dir, "tail")[0].clone(), ends)
}

fn reopen(dir: &Path) -> (Writer, weir_archive::Recovery) {
    Writer::open(dir, ArchiveOptions::default()).expect("the archive opens")
}

#[test]
fn a_torn_frame_is_cut_and_counted() {
    let lengths: [fn(u64) -> u64; 9] =
        [|_| 1, |_| 10, |_| 63, |_| 64, |_| 65, |_| 100, |_| 500, |frame| frame - 64, |frame| frame - 1];
    for length in lengths {
        // a new one each time: the writer that opens it may have sealed the tail before it ends
        let dir = tempfile::tempdir().expect("a folder");
        let (tail, ends) = archive_with_tail(dir.path(), 3);
        let whole = fs::read(&tail).expect("a tail");
        let length = length(ends[2] - ends[1]);
        fs::write(&tail, &whole[..(ends[1] + length) as usize]).expect("written");
        assert_eq!(check(dir.path()), Position::new(2), "{length} octets of the last frame");
        let (writer, recovery) = reopen(dir.path());
        assert_eq!((recovery.torn_octets, recovery.position), (length, Position::new(2)));
        assert_eq!(recovery.rows, rows_up_to(Position::new(2)));
        drop(writer);
        assert_eq!(check(dir.path()), Position::new(2));
    }
}

#[test]
fn appending_goes_on_after_a_torn_frame() {
    let dir = tempfile::tempdir().expect("a folder");
    let (tail, ends) = archive_with_tail(dir.path(), 3);
    fs::OpenOptions::new().write(true).open(&tail).and_then(|file| file.set_len(ends[2] - 5)).expect("cut");
    let (mut writer, _) = reopen(dir.path());
    assert_eq!(writer.append(delivery(Position::new(3))).expect("appended"), Position::new(3));
    assert_eq!(check(dir.path()), Position::new(3));
    writer.close().expect("closed");
    assert_eq!(check(dir.path()), Position::new(3));
}

#[test]
fn a_damaged_tail_is_set_aside_and_the_frames_before_are_kept() {
    let dir = tempfile::tempdir().expect("a folder");
    let (tail, ends) = archive_with_tail(dir.path(), 5);
    let mut octets = fs::read(&tail).expect("a tail");
    octets[ends[2] as usize + 300] ^= 4;
    fs::write(&tail, &octets).expect("written");
    let error = Snapshot::open(dir.path()).expect_err("fewer rows than there are");
    let ArchiveError::DamagedTail { path, octets: damaged } = &error else { panic!("{error:?}") };
    assert_eq!((path, *damaged), (&tail, ends[4] - ends[2]));

    let (mut writer, recovery) = reopen(dir.path());
    let [damage] = &recovery.damages[..] else { panic!("one damage, not {recovery:?}") };
    assert_eq!((damage.frames_behind, damage.kept), (1, Some(Position::new(3))));
    assert_eq!(damage.rows_behind, delivery(Position::new(5)).rows() as u64);
    assert_eq!(damage.octets_lost, ends[4] - ends[2]);
    assert_eq!(fs::read(&damage.path).expect("set aside"), octets);
    assert_eq!(recovery.position, Position::new(5), "a position is never given out twice");
    assert_eq!(recovery.torn_octets, 0);
    assert_eq!(writer.append(delivery(Position::new(6))).expect("appended"), Position::new(6));
    let summary = writer.close().expect("closed");
    let rows = delivery(Position::new(6)).rows() as u64 + rows_up_to(Position::new(3));
    assert_eq!(summary.statistics.rows_sealed, rows);
    assert_eq!(files(dir.path(), "damaged"), std::slice::from_ref(&damage.path));

    let (_writer, recovery) = reopen(dir.path());
    assert_eq!((recovery.position, recovery.damages.len()), (Position::new(6), 0));
}

#[test]
fn damage_without_any_whole_frame_leaves_an_archive_that_works() {
    let dir = tempfile::tempdir().expect("a folder");
    let (tail, _) = archive_with_tail(dir.path(), 2);
    let mut octets = fs::read(&tail).expect("a tail");
    octets[20] ^= 1;
    fs::write(&tail, &octets).expect("written");
    let (writer, recovery) = reopen(dir.path());
    assert_eq!((recovery.damages.len(), recovery.rows, recovery.position), (1, 0, Position::new(2)));
    writer.close().expect("closed");
    assert_eq!(Snapshot::open(dir.path()).expect("a snapshot").rows(weir_flow::Table::Flows), 0);
}

#[test]
fn segments_of_a_tail_that_is_still_there_do_not_count() {
    let dir = tempfile::tempdir().expect("a folder");
    let (tail, _) = archive_with_tail(dir.path(), 40);
    let octets = fs::read(&tail).expect("a tail");
    let (writer, _) = reopen(dir.path());
    writer.close().expect("sealed");
    assert!(!tail.exists());
    let sealed = Snapshot::open(dir.path()).expect("a snapshot");
    assert_eq!(sealed.segments(weir_flow::Table::Flows).len(), 1, "{sealed:?}");
    // As after a crash between the commit and the removal of the tail.
    fs::write(&tail, &octets).expect("written");
    assert_eq!(check(dir.path()), Position::new(40));
    let (writer, recovery) = reopen(dir.path());
    assert_eq!((recovery.segments_uncommitted, recovery.leftovers, recovery.tails), (0, 1, 0));
    drop(writer);
    assert!(!tail.exists());
    // As after a crash just before the commit: the last one is that of the writer that opened the archive again.
    take_back_commit(dir.path());
    take_back_commit(dir.path());
    fs::write(&tail, &octets).expect("written");
    fs::write(dir.path().join("tmp/flows-0000000000000009-1"), b"half").expect("written");
    assert_eq!(check(dir.path()), Position::new(40));
    let (writer, recovery) = reopen(dir.path());
    assert_eq!((recovery.segments_uncommitted, recovery.leftovers, recovery.tails), (2, 1, 1));
    writer.close().expect("sealed again");
    assert_eq!(check(dir.path()), Position::new(40));
}
