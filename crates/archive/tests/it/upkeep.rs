//! Merging and expiring: beside readers and a writer, by the writer and by command, and killed at any moment.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use weir_archive::{
    Action, ArchiveError, ArchiveOptions, CompactionOptions, ExpiryOptions, Position, Segment, SegmentSummary,
    Snapshot, SummaryOptions, Writer, compact, expire, inventory,
};
use weir_flow::Table;

use crate::numbered::{batches, check, check_snapshot, delivery, kills, numbers, rows_up_to};
use crate::summaries::{SUMMARIES, expected as expected_minutes, minutes};

const NOTHING: fn(weir_archive::Merge<'_>) = |merge| assert!(merge.result.is_ok(), "{merge:?}");

fn merging() -> CompactionOptions {
    CompactionOptions { fan_in: 2, busy_percent: 100, settle_time: Duration::ZERO, ..CompactionOptions::default() }
}

/// Small segments, merged at once, all of them again and again.
fn options() -> ArchiveOptions {
    ArchiveOptions {
        commit_interval: Duration::from_millis(1),
        seal_interval: Duration::from_millis(20),
        segment_rows_max: 12,
        row_group_rows_max: 64,
        upkeep_interval: Duration::from_millis(1),
        compaction: merging(),
        ..ArchiveOptions::default()
    }
}

/// An archive with many small segments.
fn small_segments(dir: &Path, deliveries: u64) {
    let none = CompactionOptions { enabled: false, ..CompactionOptions::default() };
    let (mut writer, _) = Writer::open(dir, ArchiveOptions { compaction: none, ..options() }).expect("an archive");
    for number in 1..=deliveries {
        writer.append(delivery(Position::new(number))).expect("appended");
    }
    writer.close().expect("sealed");
}

fn files(dir: &Path, table: Table) -> usize {
    let days = std::fs::read_dir(dir.join(table.name())).expect("a table");
    days.map(|day| std::fs::read_dir(day.expect("a day").path()).expect("segments").count()).sum()
}

#[test]
fn segments_of_a_day_become_one() {
    let dir = tempfile::tempdir().expect("a folder");
    small_segments(dir.path(), 100);
    let before = files(dir.path(), Table::Flows);
    assert!(before > 20, "{before}");
    let done = compact(dir.path(), &merging(), NOTHING).expect("merged");
    assert_eq!(check(dir.path()), Position::new(100));
    for table in [Table::Flows, Table::ExporterBooks] {
        assert_eq!(Snapshot::open(dir.path()).expect("a snapshot").segments(table).len(), 2, "two days");
        assert_eq!(files(dir.path(), table), 2);
    }
    assert_eq!((done.failures, done.waiting_for_readers), (0, false));
    assert!(done.octets_after < done.octets_before, "{done:?}");
    let again = compact(dir.path(), &merging(), NOTHING).expect("nothing to do");
    assert_eq!(again.segments_written, 0);
    // and the writer goes on from where it was
    let (mut writer, recovery) = Writer::open(dir.path(), options()).expect("the archive opens");
    assert_eq!(recovery.position, Position::new(100));
    writer.append(delivery(Position::new(101))).expect("appended");
    writer.close().expect("sealed");
    assert_eq!(check(dir.path()), Position::new(101));
}

#[test]
fn the_rows_of_a_segment_have_their_order_again() {
    let dir = tempfile::tempdir().expect("a folder");
    small_segments(dir.path(), 60);
    compact(dir.path(), &merging(), NOTHING).expect("merged");
    let merged: Vec<_> = Snapshot::open(dir.path()).expect("a snapshot").segments(Table::Flows).to_vec();
    let whole = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(whole.path(), ArchiveOptions::default()).expect("an archive");
    for number in 1..=60 {
        writer.append(delivery(Position::new(number))).expect("appended");
    }
    writer.close().expect("sealed");
    let sealed: Vec<_> = Snapshot::open(whole.path()).expect("a snapshot").segments(Table::Flows).to_vec();
    assert_eq!(merged.len(), sealed.len());
    for (merged, sealed) in merged.iter().zip(&sealed) {
        let ids = |segment: &weir_archive::Segment| numbers(&segment.read().expect("readable"), "flow_id");
        assert_eq!(ids(merged), ids(sealed), "as if it had been sealed at once");
        assert_eq!((merged.rows, merged.time_range_ms), (sealed.rows, sealed.time_range_ms));
    }
}

#[test]
fn a_reader_finds_every_file_of_its_listing() {
    let dir = tempfile::tempdir().expect("a folder");
    small_segments(dir.path(), 100);
    let before = Snapshot::open(dir.path()).expect("a snapshot");
    let done = compact(dir.path(), &merging(), NOTHING).expect("merged");
    assert!(done.waiting_for_readers && done.files_removed == 0, "{done:?}");
    let after = Snapshot::open(dir.path()).expect("a snapshot");
    assert!(after.segments(Table::Flows).len() < before.segments(Table::Flows).len());
    let everything = ExpiryOptions { age_max: Some(Duration::ZERO), ..ExpiryOptions::default() };
    let expired = expire(dir.path(), &everything, false).expect("expired");
    assert_eq!(expired.segments.len(), 1, "{expired:?}");
    assert!(expired.waiting_for_readers);
    assert_eq!(check_snapshot(&before), Position::new(100), "read to its end after the merge and the expiry");
    drop(before);
    // what was merged goes now, and the expired after it, as soon as the second reader has gone too
    let again = expire(dir.path(), &everything, false).expect("asked");
    assert!(again.segments.is_empty() && again.waiting_for_readers, "{again:?}");
    assert_eq!(
        files(dir.path(), Table::Flows),
        1 + after.segments(Table::Flows).len() - 1,
        "those of the later reader"
    );
    let new = Snapshot::open(dir.path()).expect("a snapshot");
    assert_eq!(new.segments(Table::Flows).len(), 1, "what has expired is not seen any more");
    assert_eq!(check_snapshot(&after), Position::new(100));
    drop(after);
    expire(dir.path(), &ExpiryOptions::default(), false).expect("removed");
    assert_eq!(files(dir.path(), Table::Flows), 1);
    // the snapshot of afterwards is complete in itself
    let rows: usize = batches(&new, Table::Flows).iter().map(arrow::array::RecordBatch::num_rows).sum();
    assert_eq!(rows as u64, new.flows());
}

#[test]
fn a_file_that_vanishes_all_the_same_is_an_error() {
    let dir = tempfile::tempdir().expect("a folder");
    small_segments(dir.path(), 20);
    let snapshot = Snapshot::open(dir.path()).expect("a snapshot");
    let hasty = CompactionOptions { readers_wait_max: Duration::ZERO, ..merging() };
    compact(dir.path(), &hasty, NOTHING).expect("merged");
    let read = snapshot.segments(Table::Flows)[0].read();
    assert!(matches!(read, Err(ArchiveError::Io { action: Action::OpenSegment, .. })), "{read:?}");
}

/// Appends deliveries up to a position, without merging, and seals them.
fn append_up_to(dir: &Path, last: u64) {
    let none = CompactionOptions { enabled: false, ..CompactionOptions::default() };
    let (mut writer, recovery) =
        Writer::open(dir, ArchiveOptions { compaction: none, ..options() }).expect("an archive");
    for number in recovery.position.get() + 1..=last {
        writer.append(delivery(Position::new(number))).expect("appended");
    }
    writer.close().expect("sealed");
}

fn octets(segments: &[Segment]) -> u64 {
    segments.iter().map(|segment| segment.octets).sum()
}

#[test]
fn a_limit_by_size_is_one_whatever_a_snapshot_holds() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    append_up_to(dir, 300);
    let limit = octets(&inventory(dir).expect("listed").segments);
    let none = SummaryOptions { age_max: Duration::ZERO, octets_max: None };
    let expiry = ExpiryOptions {
        octets_max: Some(limit),
        low_water_percent: 100,
        readers_wait_min: Duration::ZERO,
        summaries: none,
        ..ExpiryOptions::default()
    };
    let held = Snapshot::open(dir).expect("a snapshot");
    let mut early = 0;
    for round in 1..=12 {
        append_up_to(dir, 300 + 10 * round);
        early += expire(dir, &expiry, false).expect("expired").files_removed_early;
        let found = inventory(dir).expect("listed");
        let live = octets(&found.segments);
        assert!(live <= limit, "round {round}: {live} of {limit}");
        assert!(found.pending_octets <= limit / 8, "round {round}: {} of {limit} wait", found.pending_octets);
    }
    let waiting = inventory(dir).expect("listed").pending;
    let flows = held.segments(Table::Flows);
    let (removed, there): (Vec<_>, Vec<_>) = flows.iter().partition(|segment| !segment.path().exists());
    assert!(removed.len() > 1 && early >= removed.len() as u64, "{early} of {}", removed.len());
    for segment in &removed {
        let error = segment.open_file().expect_err("it is gone");
        assert!(matches!(error, ArchiveError::RemovedSegment { is_merged: false, .. }), "{error:?}");
        assert!(error.to_string().ends_with("was removed before it was read: it expired"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("max_size")));
        let index = held.index_of(segment).expect_err("nor has it an index");
        assert!(matches!(index, ArchiveError::RemovedSegment { .. }), "{index:?}");
    }
    // what was removed are the oldest, and what else the snapshot has is read: what counts and what waits
    assert!(there.iter().any(|segment| waiting.contains(&segment.path())), "nothing of it waits");
    for segment in &there {
        segment.open_file().expect("it is there");
        let rows: usize = segment.read().expect("readable").iter().map(arrow::array::RecordBatch::num_rows).sum();
        assert_eq!(rows as u64, segment.rows);
    }
    let newest_removed = removed.iter().map(|segment| segment.newest_ms()).max();
    assert!(newest_removed <= there.iter().map(|segment| segment.newest_ms()).min(), "an older one waits");
    // a question of now misses nothing
    let now = Snapshot::open(dir).expect("a snapshot");
    let rows: usize = batches(&now, Table::Flows).iter().map(arrow::array::RecordBatch::num_rows).sum();
    assert_eq!(rows as u64, now.flows());
    assert_eq!(now.files_pending().0, waiting.len() as u64);
}

#[test]
fn what_waits_is_not_removed_before_short_questions_are_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    append_up_to(dir, 100);
    let held = Snapshot::open(dir).expect("a snapshot");
    let expiry = ExpiryOptions { octets_max: Some(1), readers_wait_min: Duration::MAX, ..ExpiryOptions::default() };
    let expired = expire(dir, &expiry, false).expect("expired");
    assert!(expired.segments.len() > 10 && expired.files_removed_early == 0, "{expired:?}");
    assert_eq!(check_snapshot(&held), Position::new(100));
    let expiry = ExpiryOptions { readers_wait_min: Duration::ZERO, ..expiry };
    assert!(expire(dir, &expiry, false).expect("removed").files_removed_early > 10);
}

#[test]
fn a_segment_that_was_merged_and_removed_says_so_and_one_that_is_lost_does_not() {
    let dir = tempfile::tempdir().expect("a folder");
    small_segments(dir.path(), 20);
    let held = Snapshot::open(dir.path()).expect("a snapshot");
    let hasty = CompactionOptions { readers_wait_max: Duration::ZERO, ..merging() };
    compact(dir.path(), &hasty, NOTHING).expect("merged");
    let error = held.segments(Table::Flows)[0].open_file().expect_err("it is gone");
    assert!(matches!(error, ArchiveError::RemovedSegment { is_merged: true, .. }), "{error:?}");
    let now = Snapshot::open(dir.path()).expect("a snapshot");
    let counting = &now.segments(Table::Flows)[0];
    std::fs::remove_file(counting.path()).expect("lost");
    let error = counting.open_file().expect_err("it is lost");
    assert!(matches!(error, ArchiveError::Io { action: Action::OpenSegment, .. }), "{error:?}");
}

#[test]
fn every_snapshot_beside_merging_is_the_archive_at_one_position() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(dir.path(), options()).expect("an archive");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for command in [false, false, true] {
            let (dir, done) = (dir.path(), &done);
            scope.spawn(move || {
                let mut before = Position::ZERO;
                while !done.load(Ordering::Acquire) {
                    if command {
                        compact(dir, &merging(), NOTHING).expect("merged beside the writer");
                    }
                    let position = check(dir);
                    assert!(position >= before, "{position} after {before}");
                    before = position;
                }
            });
        }
        for number in 1..=500 {
            writer.append(delivery(Position::new(number))).expect("appended");
        }
        let statistics = writer.close().expect("sealed").statistics;
        done.store(true, Ordering::Release);
        assert!(statistics.tails_sealed > 50, "{statistics:?}");
        assert_eq!((statistics.compaction_failures, statistics.upkeep_failures), (0, 0));
    });
    compact(dir.path(), &merging(), NOTHING).expect("merged");
    assert_eq!(check(dir.path()), Position::new(500));
    assert_eq!(files(dir.path(), Table::Flows), 2);
}

const DIR: &str = "WEIR_ARCHIVE_UPKEEP_DIR";
const EXPIRING: &str = "WEIR_ARCHIVE_UPKEEP_EXPIRES";
/// Tails that may wait for sealing in a child that is to be killed.
const BACKLOG_TAILS_MAX: u64 = 2;
const OCTETS_MAX: u64 = 200_000;

/// Not a test by itself: the process that is killed, while one of its threads merges and another one does so as a
/// command would.
#[test]
fn child_merges_until_it_is_killed() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    let mut options = options();
    let expiry = ExpiryOptions {
        octets_max: Some(OCTETS_MAX),
        low_water_percent: 70,
        summaries: SUMMARIES,
        ..ExpiryOptions::default()
    };
    if std::env::var_os(EXPIRING).is_some() {
        options.expiry = expiry;
        options.compaction.segment_rows_max = 400;
    }
    println!("\nopening");
    let (mut writer, recovery) = Writer::open(&dir, options).expect("the archive opens");
    println!("position {}", recovery.position);
    let mut position = recovery.position;
    std::thread::spawn(move || {
        loop {
            compact(&dir, &options.compaction, NOTHING).expect("merged");
            expire(&dir, &options.expiry, false).expect("expired");
        }
    });
    loop {
        position = position.next();
        assert_eq!(writer.append(delivery(position)).expect("room on the disk"), position);
        // Appending is far faster than sealing: without this the child is dead before there is anything to merge.
        while writer.statistics().backlog_tails > BACKLOG_TAILS_MAX {
            std::thread::sleep(Duration::from_millis(1));
        }
        println!("durable {}", writer.durable());
        std::io::stdout().flush().expect("the parent reads");
    }
}

/// Lets the child run until it has said `lines` lines, kills it, and tells what was durable.
fn run_and_kill(dir: &Path, expiring: bool, lines: u64) -> Position {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "upkeep::child_merges_until_it_is_killed", "--nocapture"]).env(DIR, dir);
    if expiring {
        command.env(EXPIRING, "yes");
    }
    let mut child = command.stdout(Stdio::piped()).spawn().expect("a child");
    let (mut durable, mut count) = (Position::ZERO, 0);
    for line in BufReader::new(child.stdout.take().expect("its output")).lines() {
        let line = line.expect("text");
        match line.split_once(' ') {
            Some(("durable" | "position", number)) => durable = Position::new(number.parse().expect("a number")),
            _ if line != "opening" => continue,
            _ => {}
        }
        count += 1;
        if count == lines {
            child.kill().expect("SIGKILL");
        }
    }
    assert!(count >= lines, "the child ended by itself after {count} lines");
    child.wait().expect("its end");
    durable
}

#[test]
fn nothing_is_lost_or_twice_after_kill_9_while_merging() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
    let (mut before, mut merged) = (Position::ZERO, 0);
    for round in 0..kills(20) {
        let dir = folder.path().join(format!("archive-{}", round / 5));
        if round % 5 == 0 {
            before = Position::ZERO;
        }
        let durable = run_and_kill(&dir, false, 1 + random.next_u64() % 120);
        if !dir.join("weir-archive").exists() {
            continue;
        }
        let found = check(&dir);
        assert!(found >= durable && found >= before, "round {round}: {durable} was durable, {found} is left");
        before = found;
        let snapshot = Snapshot::open(&dir).expect("a snapshot");
        let wide = snapshot.segments(Table::Flows).iter().filter(|segment| segment.rows > 40);
        merged += wide.count();
        if round % 4 == 3 {
            // No lock is left by the dead, neither the writer's nor that of upkeep.
            drop(snapshot);
            let (writer, recovery) = Writer::open(&dir, options()).expect("the archive opens");
            assert_eq!((recovery.position, recovery.damages.len()), (before, 0));
            writer.close().expect("sealed");
            compact(&dir, &merging(), NOTHING).expect("merged");
            assert_eq!(check(&dir), before);
            assert!(files(&dir, Table::ExporterBooks) <= 2, "what is void has gone");
        }
    }
    assert!(merged > 5, "the children merged next to nothing: {merged}");
}

#[test]
fn only_the_oldest_are_lost_after_kill_9_while_expiring() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = |round: u32| folder.path().join(format!("archive-{}", round / 4));
    let mut random = Xoshiro256PlusPlus::seed_from_u64(13);
    let (mut first_before, mut first_max, mut last) = (0, 0, dir(0));
    // a busy machine kills most children before they have come to anything
    for round in 0..10 * kills(20) {
        if round >= kills(20) && first_max > 0 {
            break;
        }
        // children append faster than they expire, and reading all of an old archive again and again takes long
        if round % 4 == 0 {
            first_before = 0;
        }
        let dir = dir(round);
        let durable = run_and_kill(&dir, true, 1 + random.next_u64() % 120);
        if !dir.join("weir-archive").exists() {
            continue;
        }
        let snapshot = Snapshot::open(&dir).expect("a snapshot");
        let mut found = numbers(&batches(&snapshot, Table::Flows), "flow_id");
        found.sort_unstable();
        let first = found.first().copied().unwrap_or_default();
        let expected: Vec<u64> = (first..rows_up_to(snapshot.position())).collect();
        assert_eq!(found, expected, "round {round}");
        assert!(snapshot.position() >= durable, "round {round}");
        // what went is summed up, once, whatever the kill came between
        let summaries = snapshot.summaries().expect("listed");
        assert_eq!(summaries.iter().map(SegmentSummary::rows).sum::<u64>(), first, "round {round}");
        assert_eq!(minutes(&snapshot), expected_minutes(snapshot.position()), "round {round}");
        assert!(first >= first_before, "round {round}: rows that had expired are back");
        first_before = first;
        first_max = first_max.max(first);
        last = dir;
    }
    assert!(first_max > 0, "nothing expired");
    let dir = last;
    let (writer, _) = Writer::open(&dir, options()).expect("the archive opens");
    writer.close().expect("sealed");
    let limit = ExpiryOptions { octets_max: Some(OCTETS_MAX), ..ExpiryOptions::default() };
    expire(&dir, &limit, false).expect("expired");
    // what summaries take that were written just now is looked at the next time
    let expired = expire(&dir, &limit, false).expect("expired");
    assert!(expired.octets_after <= OCTETS_MAX, "{} octets", expired.octets_after);
}
