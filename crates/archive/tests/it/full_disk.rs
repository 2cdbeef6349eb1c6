//! A disk that is full, and has room again.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use weir_archive::{
    Action, ArchiveError, ArchiveOptions, CompactionOptions, ExpiryOptions, Position, SealRetries, Snapshot, WhenFull,
    Writer, expire,
};
use weir_flow::Table;

use crate::numbered::{batches, check, delivery, numbers, rows_up_to};

/// A small file system of its own, or `None` when this process may not mount one.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(size: &str) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a folder");
        let options = format!("size={size}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(dir.path()).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(dir)),
            _ => {
                weir_testkit::skip("root", "mounting a small disk needs root");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Another program fills the disk, but for so many octets.
    fn fill_but(&self, octets: u64) {
        let ballast = self.path().join("ballast");
        let _ = fs::write(&ballast, vec![1; 4 << 20]);
        let written = fs::File::options().write(true).open(&ballast).expect("the ballast");
        written.set_len(written.metadata().expect("its length").len() - octets).expect("shorter");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

/// Appends until there is no room; tells the last position that there was room for.
fn fill(writer: &mut Writer, from: Position) -> Position {
    let mut position = from;
    loop {
        match writer.append(delivery(position.next())) {
            Ok(appended) => position = appended,
            Err(ArchiveError::Io { action: Action::AppendTail, source, .. }) => {
                assert_eq!(source.kind(), std::io::ErrorKind::StorageFull, "{source}");
                return position;
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[test]
fn a_full_disk_is_an_error_and_nothing_more() {
    let Some(disk) = SmallDisk::mount("2m") else { return };
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, vec![1; 1 << 20]).expect("room");
    let archive = disk.path().join("archive");
    let options = ArchiveOptions { commit_interval: Duration::ZERO, ..ArchiveOptions::default() };
    let (mut writer, _) = Writer::open(&archive, options).expect("an archive");
    let full = fill(&mut writer, Position::ZERO);
    assert!(full > Position::new(50), "{full}");
    assert_eq!(check(&archive), full);
    assert_eq!(fill(&mut writer, full), full, "full is full");
    let durability = writer.durability();
    assert_eq!(durability.wait_for(full, Duration::from_mins(1)).expect("synced"), full);

    let sealing = writer.close().expect_err("no room for a segment");
    let is_of_sealing =
        matches!(sealing, ArchiveError::WriteSegment { .. } | ArchiveError::Io { action: Action::CreateSegment, .. });
    assert!(is_of_sealing, "{sealing:?}");
    assert_eq!(check(&archive), full, "what cannot be sealed stays in the tail");

    // Half the ballast would do; the file system gives back what is cut.
    fs::remove_file(&ballast).expect("removed");
    let (mut writer, recovery) = Writer::open(&archive, options).expect("an archive");
    assert_eq!((recovery.position, recovery.torn_octets), (full, 0), "nothing of a frame was left");
    let mut position = full;
    for _ in 0..20 {
        position = writer.append(delivery(position.next())).expect("room again");
    }
    writer.close().expect("sealed");
    assert_eq!(check(&archive), position);
}

#[test]
fn appending_goes_on_once_there_is_room() {
    let Some(disk) = SmallDisk::mount("2m") else { return };
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, vec![1; 1 << 20]).expect("room");
    let archive = disk.path().join("archive");
    let (mut writer, _) = Writer::open(&archive, ArchiveOptions::default()).expect("an archive");
    let full = fill(&mut writer, Position::ZERO);
    fs::remove_file(&ballast).expect("removed");
    let more = fill(&mut writer, full);
    assert!(more > full, "the same writer goes on");
    assert_eq!(check(&archive), more);
}

#[test]
fn the_oldest_go_when_the_disk_is_full() {
    let Some(disk) = SmallDisk::mount("2m") else { return };
    let archive = disk.path().join("archive");
    let options = ArchiveOptions {
        segment_rows_max: 200,
        when_full: WhenFull::OldestFirst,
        upkeep_interval: Duration::from_millis(1),
        ..ArchiveOptions::default()
    };
    let (mut writer, _) = Writer::open(&archive, options).expect("an archive");
    let began = Instant::now();
    let (mut position, mut refused) = (Position::ZERO, 0u64);
    // Many times what the disk can hold; a delivery that is refused is given again, as the collector does.
    while position < Position::new(3000) {
        match writer.append(delivery(position.next())) {
            Ok(appended) => position = appended,
            Err(error) => {
                assert!(error.is_full_disk(), "{error:?}");
                assert!(began.elapsed() < Duration::from_mins(10), "no room is made: {:?}", writer.statistics());
                refused += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    let statistics = writer.close().expect("sealed").statistics;
    assert!(statistics.segments_removed_for_room > 10, "{statistics:?}, refused {refused}");
    // Of the flows the newest are left without a gap, and what is left is whole.
    let snapshot = Snapshot::open(&archive).expect("a snapshot");
    let mut found = numbers(&batches(&snapshot, Table::Flows), "flow_id");
    found.sort_unstable();
    let first = *found.first().expect("flows");
    assert!(first > 0);
    assert_eq!(found, (first..rows_up_to(Position::new(3000))).collect::<Vec<_>>());
    assert_eq!(weir_archive::check(&archive, false, |_| {}).expect("checked").findings, []);
}

#[test]
fn tails_are_among_the_newest_that_stay() {
    let Some(disk) = SmallDisk::mount("2m") else { return };
    let archive = disk.path().join("archive");
    let none = CompactionOptions { enabled: false, ..CompactionOptions::default() };
    let soon = Duration::from_millis(10);
    let options = ArchiveOptions {
        segment_rows_max: 200,
        when_full: WhenFull::OldestFirst,
        upkeep_interval: soon,
        seal_retries: SealRetries { interval: soon, ..SealRetries::default() },
        compaction: none,
        ..ArchiveOptions::default()
    };
    let append = |deliveries: std::ops::RangeInclusive<u64>| {
        let (mut writer, _) = Writer::open(&archive, options).expect("an archive");
        for number in deliveries {
            writer.append(delivery(Position::new(number))).expect("room");
        }
        writer
    };
    append(1..=100).close().expect("sealed");
    drop(append(101..=130));
    // As much as is left alone of the newest is in a tail, and there is no room for the segments that it becomes.
    disk.fill_but(16 << 10);
    let (writer, _) = Writer::open(&archive, options).expect("an archive");
    let until = Instant::now() + Duration::from_mins(1);
    while writer.statistics().tails_sealed == 0 {
        assert!(Instant::now() < until, "no room is made: {:?}", writer.statistics());
        std::thread::sleep(soon);
    }
    let statistics = writer.close().expect("sealed").statistics;
    assert!(statistics.segments_removed_for_room > 0, "{statistics:?}");
    let snapshot = Snapshot::open(&archive).expect("a snapshot");
    let mut found = numbers(&batches(&snapshot, Table::Flows), "flow_id");
    found.sort_unstable();
    let expected = *found.first().expect("flows")..rows_up_to(Position::new(130));
    assert!(expected.start <= rows_up_to(Position::new(100)), "{expected:?}");
    assert_eq!(found, expected.collect::<Vec<_>>());
}

#[test]
fn another_program_that_fills_the_disk_takes_no_summaries() {
    let Some(disk) = SmallDisk::mount("4m") else { return };
    let archive = disk.path().join("archive");
    let none = CompactionOptions { enabled: false, ..CompactionOptions::default() };
    let options = ArchiveOptions { segment_rows_max: 50, compaction: none, ..ArchiveOptions::default() };
    let (mut writer, _) = Writer::open(&archive, options).expect("an archive");
    for number in 1..=60 {
        writer.append(delivery(Position::new(number))).expect("room");
    }
    writer.close().expect("sealed");
    weir_archive::expire(&archive, &crate::summaries::EVERYTHING, false).expect("expired");
    let summaries = || Snapshot::open(&archive).expect("a snapshot").summaries().expect("listed").len();
    let before = summaries();
    assert!(before > 2);
    disk.fill_but(32 << 10);
    let soon = Duration::from_millis(10);
    // of whatever age
    let expiry = weir_archive::ExpiryOptions { summaries: crate::summaries::SUMMARIES, ..options.expiry };
    let options = ArchiveOptions { when_full: WhenFull::OldestFirst, upkeep_interval: soon, expiry, ..options };
    let (writer, _) = Writer::open(&archive, options).expect("an archive");
    let until = Instant::now() + Duration::from_mins(1);
    while writer.statistics().room_refused == 0 {
        assert!(Instant::now() < until, "no room is wanted: {:?}", writer.statistics());
        std::thread::sleep(soon);
    }
    let statistics = writer.close().expect("closed").statistics;
    assert_eq!((summaries(), statistics.summaries_expired), (before, 0), "{statistics:?}");
}

#[test]
fn merging_waits_for_room() {
    let Some(disk) = SmallDisk::mount("2m") else { return };
    let archive = disk.path().join("archive");
    let none = CompactionOptions { enabled: false, ..CompactionOptions::default() };
    let options = ArchiveOptions { segment_rows_max: 100, compaction: none, ..ArchiveOptions::default() };
    let (mut writer, _) = Writer::open(&archive, options).expect("an archive");
    for number in 1..=100 {
        writer.append(delivery(Position::new(number))).expect("room");
    }
    writer.close().expect("sealed");
    let ballast = disk.path().join("ballast");
    let _ = fs::write(&ballast, vec![1; 2 << 20]);
    let merge = || weir_archive::compact(&archive, &CompactionOptions::default(), |_| {}).expect("no failure");
    let done = merge();
    assert!(done.postponed > 0 && done.segments_written == 0, "{done:?}");
    assert_eq!(check(&archive), Position::new(100));
    fs::remove_file(&ballast).expect("removed");
    assert!(merge().segments_written > 0);
    assert_eq!(check(&archive), Position::new(100));
}

/// Small segments, left as they are.
fn unmerged() -> ArchiveOptions {
    let compaction = CompactionOptions { enabled: false, ..CompactionOptions::default() };
    ArchiveOptions { segment_rows_max: 100, compaction, ..ArchiveOptions::default() }
}

/// An archive with several segments on such a disk.
fn segments_on(disk: &SmallDisk) -> PathBuf {
    let archive = disk.path().join("archive");
    let (mut writer, _) = Writer::open(&archive, unmerged()).expect("an archive");
    for number in 1..=100 {
        writer.append(delivery(Position::new(number))).expect("room");
    }
    writer.close().expect("sealed");
    archive
}

/// Another program that takes all the room that there is.
fn take_all_room(disk: &SmallDisk) {
    let ballast = fs::File::options().create(true).append(true).open(disk.path().join("ballast"));
    let _ = ballast.expect("the ballast").write_all(&vec![1u8; 2 << 20]);
}

fn segments_expired(archive: &Path) -> usize {
    let everything = ExpiryOptions { age_max: Some(Duration::ZERO), ..ExpiryOptions::default() };
    expire(archive, &everything, false).expect("expired").segments.len()
}

#[test]
fn expiry_goes_on_without_the_room_for_commits() {
    let Some(disk) = SmallDisk::mount("2m") else { return };
    let archive = segments_on(&disk);
    fs::remove_file(archive.join("manifest/reserve")).expect("there is room for commits");
    take_all_room(&disk);
    assert!(segments_expired(&archive) > 0);
    assert!(!archive.join("reserve").exists(), "the room for the books was the last");
}

#[test]
fn opening_leaves_the_room_for_commits() {
    let Some(disk) = SmallDisk::mount("2m") else { return };
    let archive = segments_on(&disk);
    take_all_room(&disk);
    for _ in 0..3 {
        Writer::open(&archive, unmerged()).expect("the archive opens").0.close().expect("closed");
        take_all_room(&disk);
    }
    fs::remove_file(archive.join("reserve")).expect("there is room for the books");
    take_all_room(&disk);
    assert!(segments_expired(&archive) > 0);
}

/// How many segments of flows there are as files.
fn files(archive: &Path) -> usize {
    let days = fs::read_dir(archive.join("flows")).expect("a table").map(|day| day.expect("a day").path());
    days.map(|day| fs::read_dir(day).expect("a day").count()).sum()
}

#[test]
fn files_go_where_no_new_one_can_be_made() {
    for is_waited_for in [true, false] {
        let Some(disk) = SmallDisk::mount("4m,nr_inodes=200") else { return };
        let archive = segments_on(&disk);
        let before = Snapshot::open(&archive).expect("a snapshot");
        assert!(segments_expired(&archive) > 0);
        let after = Snapshot::open(&archive).expect("a snapshot");
        let pending = files(&archive);
        // a commit, whose number no lease has
        drop(Writer::open(&archive, unmerged()).expect("the archive opens"));
        let mut others = (0..200).map(|number| fs::File::create_new(disk.path().join(format!("other-{number}"))));
        assert!(others.any(|created| created.is_err()), "no file can be made");
        let wait_max = if is_waited_for { Duration::MAX } else { Duration::ZERO };
        // the first one needs what has expired
        let mut readers = vec![before, after];
        readers.drain(..usize::from(is_waited_for));
        let options = ExpiryOptions { readers_wait_max: wait_max, ..ExpiryOptions::default() };
        let expired = expire(&archive, &options, false).expect("files go");
        assert!(expired.segments.is_empty() && files(&archive) < pending, "{expired:?}");
        drop(readers);
    }
}

const DIR: &str = "WEIR_ARCHIVE_LIMIT_DIR";

/// Not a test by itself: a process whose files may not grow beyond a limit.
#[test]
fn child_meets_a_limit_of_file_size() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    let (mut writer, _) = Writer::open(&dir, ArchiveOptions::default()).expect("an archive");
    let tail_octets = || fs::metadata(dir.join("tail/0000000000000001.tail")).expect("a tail").len();
    let mut position = Position::ZERO;
    let mut whole_octets = 0;
    let error = loop {
        match writer.append(delivery(position.next())) {
            Ok(appended) => {
                position = appended;
                whole_octets = tail_octets();
            }
            Err(error) => break error,
        }
    };
    assert!(
        matches!(&error, ArchiveError::Io { action: Action::AppendTail, source, .. }
        if source.kind() == std::io::ErrorKind::FileTooLarge),
        "{error:?}"
    );
    assert!(position > Position::ZERO);
    assert_eq!(tail_octets(), whole_octets, "a piece of a frame was left");
    assert_eq!(check(&dir), position);
    // The next tail is another file.
    writer.rotate();
    position = writer.append(delivery(position.next())).expect("appended");
    assert_eq!(check(&dir), position);
    writer.close().expect("sealed");
    assert_eq!(check(&dir), position);
    println!("\nmet the limit");
}

#[test]
fn a_frame_written_in_part_is_cut_back() {
    let dir = tempfile::tempdir().expect("a folder");
    // Ignored signals stay ignored in the child, so that the limit is an error and not its end. 100 units are at most
    // 100 KiB, and no multiple of the size of a frame.
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 100; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", "full_disk::child_meets_a_limit_of_file_size", "--nocapture"])
        .env(DIR, dir.path().join("archive"))
        .output()
        .expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("met the limit"), "{text}{output:?}");
}
