//! Tails that were cut or changed.

use std::fs;
use std::path::{Path, PathBuf};

use weir_archive::{ArchiveError, ArchiveOptions, Position, Snapshot, Writer};
use weir_flow::Table;

use crate::numbered::{batches, check, delivery, numbers, rows_up_to, take_back_commit};

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

/// The numbers of all flows of an archive, and of those of some deliveries.
fn flows(dir: &Path) -> Vec<u64> {
    let mut found = numbers(&batches(&Snapshot::open(dir).expect("a snapshot"), weir_flow::Table::Flows), "flow_id");
    found.sort_unstable();
    found
}

fn flows_of(deliveries: &[u64]) -> Vec<u64> {
    let of = |number: &u64| rows_up_to(Position::new(number - 1))..rows_up_to(Position::new(*number));
    deliveries.iter().flat_map(of).collect()
}

fn reopen(dir: &Path) -> (Writer, weir_archive::Recovery) {
    Writer::open(dir, ArchiveOptions::default()).expect("the archive opens")
}

#[test]
fn a_torn_frame_is_cut_and_counted() {
    for length in [Some(1), Some(10), Some(63), Some(64), Some(65), Some(100), Some(500), None] {
        let dir = tempfile::tempdir().expect("a folder");
        let (tail, ends) = archive_with_tail(dir.path(), 3);
        let whole = fs::read(&tail).expect("a tail");
        let length = length.unwrap_or(ends[2] - ends[1] - 1);
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
fn a_damaged_tail_is_set_aside_and_its_whole_frames_are_kept() {
    let dir = tempfile::tempdir().expect("a folder");
    let (tail, ends) = archive_with_tail(dir.path(), 5);
    let mut octets = fs::read(&tail).expect("a tail");
    octets[ends[2] as usize + 300] ^= 4;
    fs::write(&tail, &octets).expect("written");
    let snapshot = Snapshot::open(dir.path()).expect("its headers are whole");
    let error = snapshot.tail(Table::Flows).expect_err("fewer rows than there are");
    let ArchiveError::DamagedTail { path, octets: damaged } = &error else { panic!("{error:?}") };
    assert_eq!((path, *damaged), (&tail, ends[3] - ends[2]));

    let (mut writer, recovery) = reopen(dir.path());
    let [damage] = &recovery.damages[..] else { panic!("one damage, not {recovery:?}") };
    assert_eq!((damage.frames_behind, damage.kept), (1, Some(Position::new(3))));
    assert_eq!(damage.rows_behind, delivery(Position::new(5)).rows() as u64);
    assert_eq!(damage.octets_lost, ends[3] - ends[2]);
    // the header of the frame is whole, and says how many flows were in it
    assert_eq!((damage.frames_lost, damage.rows_lost), (1, delivery(Position::new(4)).rows() as u64));
    assert_eq!(fs::read(&damage.path).expect("set aside"), octets);
    assert_eq!(recovery.position, Position::new(5), "a position is never given out twice");
    assert_eq!(recovery.torn_octets, 0);
    assert_eq!(writer.append(delivery(Position::new(6))).expect("appended"), Position::new(6));
    let summary = writer.close().expect("closed");
    let rows = rows_up_to(Position::new(6)) - delivery(Position::new(4)).rows() as u64;
    assert_eq!(summary.statistics.rows_sealed, rows);
    assert_eq!(flows(dir.path()), flows_of(&[1, 2, 3, 5, 6]));
    assert_eq!(files(dir.path(), "damaged"), std::slice::from_ref(&damage.path));

    let (_writer, recovery) = reopen(dir.path());
    assert_eq!((recovery.position, recovery.damages.len()), (Position::new(6), 0));
}

/// A header that cannot be read says nothing of its frame, but the positions around it say that one is missing.
#[test]
fn frames_behind_a_damaged_header_are_found_again() {
    for (damaged, left) in [(1, vec![2, 3, 4, 5]), (3, vec![1, 2, 4, 5]), (5, vec![1, 2, 3, 4])] {
        let dir = tempfile::tempdir().expect("a folder");
        let (tail, ends) = archive_with_tail(dir.path(), 5);
        let mut octets = fs::read(&tail).expect("a tail");
        let at = if damaged == 1 { 0 } else { ends[damaged - 2] as usize };
        octets[at + 17] ^= 1;
        fs::write(&tail, &octets).expect("written");
        let error = Snapshot::open(dir.path()).expect_err("fewer rows than there are");
        assert!(matches!(&error, ArchiveError::DamagedTail { path, .. } if *path == tail), "{error:?}");
        let (writer, recovery) = reopen(dir.path());
        let [damage] = &recovery.damages[..] else { panic!("one damage, not {recovery:?}") };
        // what is lost at the end is not known: no position follows it
        let known = u64::from(damaged < 5);
        assert_eq!((damage.frames_behind, damage.frames_lost), (5 - damaged as u64, known), "frame {damaged}");
        assert_eq!(damage.octets_lost, ends[damaged - 1] - at as u64);
        assert_eq!(flows(dir.path()), flows_of(&left), "frame {damaged}");
        writer.close().expect("sealed");
        assert_eq!(flows(dir.path()), flows_of(&left), "frame {damaged}");
        assert_eq!(weir_archive::check(dir.path(), false, |_| {}).expect("checked").findings, []);
    }
}

/// Several damages, and the file is damaged while its writer seals it.
#[test]
fn frames_between_damages_are_kept_while_the_writer_seals() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(dir.path(), ArchiveOptions::default()).expect("an archive");
    let mut ends = vec![0];
    for number in 1..=9 {
        writer.append(delivery(Position::new(number))).expect("appended");
        ends.push(fs::metadata(&files(dir.path(), "tail")[0]).expect("a tail").len() as usize);
    }
    let tail = files(dir.path(), "tail")[0].clone();
    let mut octets = fs::read(&tail).expect("a tail");
    for (frame, at) in [(2, 5), (5, 70), (6, 5), (9, 80)] {
        octets[ends[frame - 1] + at] ^= 8;
    }
    fs::write(&tail, &octets).expect("written");
    writer.rotate();
    writer.append(delivery(Position::new(10))).expect("appended");
    writer.close().expect("sealed");
    assert_eq!(flows(dir.path()), flows_of(&[1, 3, 4, 7, 8, 10]));
    let aside = files(dir.path(), "damaged");
    assert_eq!(aside.len(), 1);
    assert_eq!(fs::read(&aside[0]).expect("set aside"), octets);
}

/// Blocks of a file that was deleted, or another file under the name: whole frames, but not those of this tail.
#[test]
fn frames_of_another_tail_are_not_taken_for_its_own() {
    let (ours, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let (tail, ends) = archive_with_tail(ours.path(), 3);
    let (other_tail, other_ends) = archive_with_tail(other.path(), 5);
    let (whole, foreign) = (fs::read(&tail).expect("a tail"), fs::read(&other_tail).expect("a tail"));
    assert_eq!(ends[..], other_ends[..3], "frames of the same length");
    // Behind the end, where the next frame would have been, and the one after that.
    for from in [1, 2, 3] {
        fs::write(&tail, [&whole[..ends[2] as usize], &foreign[other_ends[from] as usize..]].concat())
            .expect("written");
        let opened = Snapshot::open(ours.path());
        assert!(matches!(&opened, Err(ArchiveError::DamagedTail { path, .. }) if *path == tail), "{opened:?}");
    }
    // In the middle: the frame is another one, and the one behind it counts again.
    let middle = [&whole[..ends[0] as usize], &foreign[ends[0] as usize..ends[1] as usize], &whole[ends[1] as usize..]];
    fs::write(&tail, middle.concat()).expect("written");
    let (writer, recovery) = reopen(ours.path());
    let [damage] = &recovery.damages[..] else { panic!("one damage, not {recovery:?}") };
    assert_eq!((damage.frames_behind, damage.frames_lost), (1, 1));
    assert_eq!(flows(ours.path()), flows_of(&[1, 3]));
    drop(writer);
}

/// A tail of another number, even of the same archive.
#[test]
fn another_tail_under_the_name_is_damage() {
    let dir = tempfile::tempdir().expect("a folder");
    drop(archive_with_tail(dir.path(), 3));
    let tails = files(dir.path(), "tail");
    let other = tails[0].with_file_name(format!("{:016}.tail", 2));
    fs::rename(&tails[0], &other).expect("renamed");
    fs::copy(&other, &tails[0]).expect("copied");
    let opened = Snapshot::open(dir.path());
    assert!(matches!(&opened, Err(ArchiveError::DamagedTail { path, .. }) if *path == other), "{opened:?}");
}

#[test]
fn damage_without_any_whole_frame_leaves_an_archive_that_works() {
    let dir = tempfile::tempdir().expect("a folder");
    let (tail, ends) = archive_with_tail(dir.path(), 2);
    let mut octets = fs::read(&tail).expect("a tail");
    octets[20] ^= 1;
    octets[ends[1] as usize - 70] ^= 1;
    fs::write(&tail, &octets).expect("written");
    let (writer, recovery) = reopen(dir.path());
    // Of positions that only damaged frames had nothing is known, so the epoch tells those apart that are given out now.
    assert_eq!((recovery.damages.len(), recovery.rows, recovery.position), (1, 0, Position::ZERO));
    assert_eq!(recovery.epoch, 2);
    writer.close().expect("closed");
    assert_eq!(Snapshot::open(dir.path()).expect("a snapshot").flows(), 0);
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
