//! Following an archive: every delivery once, in order, whatever happens to its file meanwhile.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::UInt64Type;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use weir_archive::{
    ArchiveError, ArchiveOptions, CompactionOptions, ExpiryOptions, ExportSelection, FollowEvent, FollowOptions,
    FollowPosition, Follower, Position, Snapshot, Writer, compact, expire,
};
use weir_flow::{Column, Delivery, FlowBatch, FlowBatchBuilder, Table};

use crate::numbered::{delivery, kills, rows_up_to};

/// No test waits so long unless something is wrong.
const LONG: Duration = Duration::from_mins(1);

fn at(epoch: u32, position: u64) -> FollowPosition {
    FollowPosition { epoch, position: Position::new(position) }
}

fn merging() -> CompactionOptions {
    CompactionOptions { fan_in: 2, busy_percent: 100, settle_time: Duration::ZERO, ..CompactionOptions::default() }
}

/// Small segments, sealed and merged at once.
fn lively() -> ArchiveOptions {
    ArchiveOptions {
        commit_interval: Duration::from_millis(1),
        seal_interval: Duration::from_millis(20),
        segment_rows_max: 40,
        row_group_rows_max: 64,
        upkeep_interval: Duration::from_millis(1),
        compaction: merging(),
        ..ArchiveOptions::default()
    }
}

/// Segments that nobody merges.
fn quiet() -> ArchiveOptions {
    let compaction = CompactionOptions { enabled: false, ..CompactionOptions::default() };
    ArchiveOptions { compaction, commit_interval: Duration::from_millis(1), segment_rows_max: 40, ..Default::default() }
}

fn often() -> FollowOptions {
    FollowOptions { poll_interval: Duration::from_millis(1), ..FollowOptions::default() }
}

/// Windows of one delivery.
fn narrow() -> FollowOptions {
    FollowOptions { window_octets_max: 1, ..often() }
}

fn numbers(flows: Option<&FlowBatch>) -> Vec<u64> {
    let values = flows.map(|flows| flows.column(Column::FlowId).expect("numbers").as_primitive::<UInt64Type>().clone());
    let mut numbers: Vec<u64> = values.iter().flat_map(|values| values.values().iter().copied()).collect();
    numbers.sort_unstable();
    numbers
}

/// What a follower of numbered deliveries has seen so far.
#[derive(Debug, Default)]
struct Seen {
    last: u64,
    deliveries: u64,
    /// Positions of which it was said that they are gone.
    gone: u64,
    rows_missing: u64,
}

impl Seen {
    fn after(last: u64) -> Self {
        Self { last, ..Self::default() }
    }

    /// Asserts that this event is the next, with all that belongs to it.
    fn add(&mut self, event: &FollowEvent) {
        match event {
            FollowEvent::Delivery(delivery) => {
                let position = delivery.position.position;
                assert_eq!(position.get(), self.last + 1, "{event:?}");
                let wanted = rows_up_to(Position::new(self.last))..rows_up_to(position);
                let found = numbers(delivery.flows.as_ref());
                assert_eq!(found.len() as u64 + delivery.rows_missing, wanted.end - wanted.start, "{event:?}");
                assert!(found.iter().all(|number| wanted.contains(number)), "{event:?}");
                assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "{event:?}");
                self.deliveries += 1;
                self.rows_missing += delivery.rows_missing;
                self.last = position.get();
            }
            FollowEvent::Gap { after, through } => {
                assert!(after.position.get() == self.last && through.position > after.position, "{event:?}");
                self.gone += through.position.get() - self.last;
                self.last = through.position.get();
            }
            other => panic!("{other:?} after {self:?}"),
        }
    }

    /// Follows up to this position.
    fn follow(&mut self, follower: &mut Follower, to: u64) {
        while self.last < to {
            let event = follower.next_timeout(LONG).expect("no failure");
            self.add(&event.unwrap_or_else(|| panic!("nothing comes after {self:?}: {follower:?}")));
        }
        assert_eq!(follower.position().position.get(), self.last);
    }
}

/// Follows from a position to the end, which is this one; nothing must be gone.
fn assert_follows(dir: &Path, after: u64, to: u64, options: FollowOptions) {
    let epoch = u32::from(after > 0);
    let mut follower = Follower::open(dir, at(epoch, after), options).expect("a follower");
    let mut seen = Seen::after(after);
    seen.follow(&mut follower, to);
    assert_eq!((seen.gone, seen.rows_missing), (0, 0));
    assert_eq!(follower.try_next().expect("no failure"), None);
}

fn append(writer: &mut Writer, positions: std::ops::RangeInclusive<u64>) {
    for position in positions.map(Position::new) {
        assert_eq!(writer.append(delivery(position)).expect("appended"), position);
    }
}

#[test]
fn from_any_position_of_what_is_sealed_and_merged() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    // midnight comes within delivery 50
    let (mut writer, _) = Writer::open(dir, quiet()).expect("an archive");
    append(&mut writer, 1..=60);
    for after in [0, 1, 49, 60] {
        assert_follows(dir, after, 60, often());
    }
    writer.close().expect("sealed");
    let segments = || Snapshot::open(dir).expect("a snapshot").segments(Table::Flows).len();
    assert!(segments() > 5);
    for after in 0..=60 {
        assert_follows(dir, after, 60, often());
    }
    assert_follows(dir, 0, 60, narrow());
    let columns = Some(vec![Column::FlowId, Column::Bytes]);
    assert_follows(dir, 7, 60, FollowOptions { columns: columns.clone(), ..often() });
    compact(dir, &merging(), |_| {}).expect("merged");
    assert_eq!(segments(), 2, "two days");
    for after in 0..=60 {
        assert_follows(dir, after, 60, often());
    }
    assert_follows(dir, 3, 60, narrow());
    let mut follower = Follower::open(dir, FollowPosition::START, FollowOptions { columns, ..often() }).expect("open");
    let Some(FollowEvent::Delivery(first)) = follower.try_next().expect("no failure") else { panic!("no delivery") };
    let flows = first.flows.expect("flows");
    assert_eq!(
        flows.record_batch().schema().fields().iter().map(|field| field.name()).collect::<Vec<_>>(),
        ["bytes", "flow_id"]
    );
}

#[test]
fn what_was_appended_comes_back_as_it_was() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(dir.path(), quiet()).expect("an archive");
    append(&mut writer, 1..=60);
    let all = |after| {
        let mut follower = Follower::open(dir.path(), after, often()).expect("a follower");
        let mut flows = Vec::new();
        while let Some(event) = follower.try_next().expect("no failure") {
            let FollowEvent::Delivery(delivery) = event else { panic!("{event:?}") };
            flows.push(delivery.flows.expect("flows").to_full());
        }
        flows
    };
    let wanted: Vec<_> =
        (1..=60).map(|position| delivery(Position::new(position)).flows.expect("flows").to_full()).collect();
    assert_eq!(all(FollowPosition::START), wanted);
    writer.close().expect("sealed");
    assert_eq!(all(FollowPosition::START), wanted, "every flow has a time of its own here");
}

#[test]
fn a_follower_in_the_process_of_the_writer() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let octets = [64 << 20, 3000, 0];
    let (mut writer, _) = Writer::open(dir, lively()).expect("an archive");
    append(&mut writer, 1..=30);
    let from = writer.follow_position();
    let mut followers: Vec<Follower> = octets
        .iter()
        .map(|octets| FollowOptions { ring_octets_max: *octets, ..often() })
        .map(|options| writer.follow(from, options).expect("a follower"))
        .chain([writer.follow(FollowPosition::START, narrow()).expect("a follower")])
        .collect();
    std::thread::scope(|scope| {
        for (number, mut follower) in followers.drain(..).enumerate() {
            scope.spawn(move || {
                let mut seen = Seen::after(if number == 3 { 0 } else { 30 });
                // one that is slow now and then, without sleeping
                for to in (31..=600).step_by(1 + number * 97).chain([600]) {
                    seen.follow(&mut follower, to);
                    std::thread::yield_now();
                }
                assert_eq!((seen.gone, seen.rows_missing), (0, 0));
                assert_eq!(follower.behind().expect("known").deliveries, 0);
            });
        }
        append(&mut writer, 31..=200);
        writer.close().expect("sealed");
        // others write to the archive afterwards, and the followers go on
        let (mut writer, _) = Writer::open(dir, lively()).expect("the archive opens");
        append(&mut writer, 201..=400);
        drop(writer);
        let (mut writer, recovery) = Writer::open(dir, lively()).expect("the archive opens");
        assert_eq!(recovery.position, Position::new(400));
        append(&mut writer, 401..=600);
        writer.close().expect("sealed");
    });
}

#[test]
fn memory_gives_what_was_appended_without_a_copy() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(dir.path(), quiet()).expect("an archive");
    let mut follower = writer.follow(FollowPosition::START, FollowOptions::default()).expect("a follower");
    assert_eq!(follower.try_next().expect("no failure"), None);
    let one = delivery(Position::new(1));
    let flows = one.flows.clone().expect("flows");
    writer.append(one).expect("appended");
    assert_eq!(follower.behind().expect("known").deliveries, 1);
    let Some(FollowEvent::Delivery(given)) = follower.try_next().expect("no failure") else { panic!("no delivery") };
    let given = given.flows.expect("flows");
    for (given, appended) in given.record_batch().columns().iter().zip(flows.record_batch().columns()) {
        assert!(given.to_data().ptr_eq(&appended.to_data()));
    }
    assert_eq!(follower.behind().expect("known").octets, Some(0));
}

#[test]
fn how_far_behind_is_known() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(dir.path(), quiet()).expect("an archive");
    append(&mut writer, 1..=5);
    let mut follower = Follower::open(dir.path(), FollowPosition::START, often()).expect("a follower");
    assert_eq!(follower.behind().expect("known").deliveries, 5);
    Seen::default().follow(&mut follower, 2);
    let behind = follower.behind().expect("known");
    assert_eq!(behind.deliveries, 3);
    assert!(behind.octets.is_some_and(|octets| octets > 3 * 64), "{behind:?}");
    Seen::after(2).follow(&mut follower, 5);
    append(&mut writer, 6..=6);
    assert_eq!(follower.behind().expect("known").deliveries, 1);
    writer.close().expect("sealed");
    assert_eq!(follower.behind().expect("known").deliveries, 1);
    Seen::after(5).follow(&mut follower, 6);
    let behind = follower.behind().expect("known");
    assert_eq!((behind.deliveries, behind.octets), (0, Some(0)));
}

const DIR: &str = "WEIR_ARCHIVE_FOLLOW_DIR";

/// Not a test by itself: the process that writes and is killed.
#[test]
fn child_writes_until_it_is_killed() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    println!("\nopening");
    let (mut writer, recovery) = Writer::open(&PathBuf::from(dir), lively()).expect("the archive opens");
    let mut position = recovery.position;
    loop {
        position = position.next();
        assert_eq!(writer.append(delivery(position)).expect("room on the disk"), position);
        println!("appended {position}");
        std::io::stdout().flush().expect("the parent reads");
    }
}

/// Lets a child write until it has said so many lines, and kills it.
fn write_and_kill(dir: &Path, lines: u64) {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "follow::child_writes_until_it_is_killed", "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let said = BufReader::new(child.stdout.take().expect("its output")).lines().map(|line| line.expect("text"));
    let mut said = said.filter(|line| line.starts_with("appended") || line.starts_with("opening"));
    let count = said.by_ref().take(lines as usize).count() as u64;
    child.kill().expect("SIGKILL");
    said.for_each(drop);
    assert_eq!(count, lines, "the child ended by itself");
    child.wait().expect("its end");
}

#[test]
fn a_writer_in_another_process_is_killed_again_and_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("archive");
    drop(Writer::open(&dir, lively()).expect("an archive"));
    let done = AtomicBool::new(false);
    let last = std::thread::scope(|scope| {
        let following: Vec<_> = [often(), narrow()]
            .into_iter()
            .map(|options| {
                let (dir, done) = (&dir, &done);
                scope.spawn(move || {
                    let mut follower = Follower::open(dir, FollowPosition::START, options.clone()).expect("a follower");
                    let (mut seen, mut random) = (Seen::default(), Xoshiro256PlusPlus::seed_from_u64(3));
                    loop {
                        // before it is looked, so that nothing comes after it
                        let is_done = done.load(Ordering::Acquire);
                        while let Some(event) = follower.next_timeout(Duration::from_millis(5)).expect("no failure") {
                            seen.add(&event);
                            // it is killed too, and goes on from what it has kept
                            if random.next_u32().is_multiple_of(40) {
                                let kept = follower.position().to_string().parse().expect("a position");
                                follower = Follower::open(dir, kept, options.clone()).expect("a follower");
                            }
                        }
                        if is_done {
                            return seen;
                        }
                    }
                })
            })
            .collect();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
        for round in 0..kills(10) {
            write_and_kill(&dir, 1 + random.next_u64() % 120);
            if round % 4 == 3 {
                compact(&dir, &merging(), |_| {}).expect("merged");
            }
        }
        let (writer, recovery) = Writer::open(&dir, lively()).expect("the archive opens");
        writer.close().expect("sealed");
        compact(&dir, &merging(), |_| {}).expect("merged");
        done.store(true, Ordering::Release);
        for seen in following {
            let seen = seen.join().expect("a follower that saw all");
            assert_eq!((seen.last, seen.gone, seen.rows_missing), (recovery.position.get(), 0, 0), "{seen:?}");
        }
        recovery.position
    });
    assert!(last > Position::new(50), "{last}");
}

/// Takes the oldest segments of 60 deliveries twice; gives the last position that they had.
fn expire_twice(dir: &Path) -> u64 {
    let to = |octets| ExpiryOptions { octets_max: Some(octets), low_water_percent: 100, ..ExpiryOptions::default() };
    let mut last = 0;
    for _ in 0..2 {
        let octets = expire(dir, &to(u64::MAX), true).expect("looked").octets_before;
        let expired = expire(dir, &to(octets - 1), false).expect("expired");
        last = expired.segments.iter().map(|segment| segment.last.get()).max().expect("some expired").max(last);
    }
    assert!(last > 10 && last < 40, "{last}");
    last
}

#[test]
fn what_expired_before_it_was_read_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let (mut writer, _) = Writer::open(dir, quiet()).expect("an archive");
    append(&mut writer, 1..=60);
    writer.close().expect("sealed");
    let mut follower = Follower::open(dir, FollowPosition::START, narrow()).expect("a follower");
    let mut seen = Seen::default();
    seen.follow(&mut follower, 4);
    let last = expire_twice(dir);
    seen.follow(&mut follower, 60);
    assert_eq!((seen.last, seen.deliveries, seen.gone), (60, 4 + 60 - last, last - 4));
    // from the start, in the middle of what is gone, and after a merge of what is left
    for after in [0, 2, last - 1] {
        for _ in 0..2 {
            let epoch = u32::from(after > 0);
            let mut follower = Follower::open(dir, at(epoch, after), often()).expect("a follower");
            let mut seen = Seen::after(after);
            seen.follow(&mut follower, 60);
            assert_eq!((seen.gone, seen.rows_missing), (last - after, 0));
        }
        compact(dir, &merging(), |_| {}).expect("merged");
    }
}

/// Whoever has no room for flows learns what it will not get: what it had read of that already is dropped.
#[test]
fn what_expired_is_known_without_reading_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let (mut writer, _) = Writer::open(dir, quiet()).expect("an archive");
    append(&mut writer, 1..=60);
    writer.close().expect("sealed");
    let mut follower = Follower::open(dir, FollowPosition::START, FollowOptions::default()).expect("a follower");
    let mut seen = Seen::default();
    seen.follow(&mut follower, 4);
    assert_eq!(follower.try_next_loss().expect("looked"), None, "the next one is there");
    let last = expire_twice(dir);
    let loss = follower.try_next_loss().expect("looked").expect("some are gone");
    assert!(matches!(loss, FollowEvent::Gap { .. }), "{loss:?}");
    seen.add(&loss);
    assert_eq!((seen.last, seen.gone), (last, last - 4));
    assert_eq!(follower.try_next_loss().expect("looked"), None, "all that is left is there");
    let left = Snapshot::open(dir).expect("a snapshot").flows_after(Position::new(last)).expect("read");
    assert_eq!(left, rows_up_to(Position::new(60)) - rows_up_to(Position::new(last)));
    seen.follow(&mut follower, 60);
    assert_eq!((seen.deliveries, seen.gone), (4 + 60 - last, last - 4));
    assert_eq!(follower.try_next_loss().expect("looked"), None, "it is at the end");
}

#[test]
fn a_delivery_of_two_days_of_which_one_expired_says_what_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let (mut writer, _) = Writer::open(dir, ArchiveOptions { segment_rows_max: 1000, ..quiet() }).expect("an archive");
    append(&mut writer, 1..=60);
    writer.rotate();
    append(&mut writer, 61..=70);
    writer.close().expect("sealed");
    let segments = Snapshot::open(dir).expect("a snapshot").segments(Table::Flows).to_vec();
    assert_eq!(
        segments.iter().map(|one| (one.day_text(), one.last.get())).collect::<Vec<_>>(),
        [("2025-11-20".to_owned(), 60), ("2025-11-21".to_owned(), 60), ("2025-11-21".to_owned(), 70)]
    );
    let first_rows = segments[0].rows;
    let octets: u64 = weir_archive::inventory(dir).expect("listed").segments.iter().map(|segment| segment.octets).sum();
    let limit = ExpiryOptions { octets_max: Some(octets - 1), low_water_percent: 100, ..ExpiryOptions::default() };
    assert_eq!(expire(dir, &limit, false).expect("expired").segments, segments[..1]);
    for merged in [false, true] {
        if merged {
            compact(dir, &merging(), |_| {}).expect("merged");
        }
        let mut follower = Follower::open(dir, FollowPosition::START, narrow()).expect("a follower");
        let mut seen = Seen::default();
        seen.follow(&mut follower, 70);
        // 200 rows were before midnight
        assert_eq!(first_rows, 200);
        let whole = (1..100).find(|position| rows_up_to(Position::new(*position)) > 200).expect("a position") - 1;
        let cut = 200 - rows_up_to(Position::new(whole));
        assert!(cut > 0, "midnight is within a delivery");
        assert_eq!((seen.gone, seen.rows_missing), (whole, cut));
        // the other day of their tail is there
        let mut looking = Follower::open(dir, FollowPosition::START, narrow()).expect("a follower");
        while looking.try_next_loss().expect("looked").is_some() {}
        assert_eq!(looking.position().position.get(), whole);
        let snapshot = Snapshot::open(dir).expect("a snapshot");
        let left = snapshot.flows_after(Position::new(whole)).expect("read");
        assert_eq!(left, rows_up_to(Position::new(70)) - 200);
        let last = snapshot.flows_after(Position::new(65)).expect("read");
        assert_eq!(last, rows_up_to(Position::new(70)) - rows_up_to(Position::new(65)));
    }
}

/// Octets of the only tail after each delivery.
fn append_and_measure(writer: &mut Writer, tail: &Path, positions: std::ops::RangeInclusive<u64>) -> Vec<u64> {
    let mut octets = Vec::new();
    for position in positions {
        append(writer, position..=position);
        octets.push(fs::metadata(tail).expect("a tail").len());
    }
    octets
}

#[test]
fn deliveries_that_a_crash_took_away_are_taken_back() {
    for kept in [0, 3] {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path();
        let tail = dir.join("tail/0000000000000001.tail");
        let (mut writer, _) = Writer::open(dir, quiet()).expect("an archive");
        let octets = append_and_measure(&mut writer, &tail, 1..=5);
        let mut follower = Follower::open(dir, FollowPosition::START, often()).expect("a follower");
        Seen::default().follow(&mut follower, 5);
        drop(writer);
        // the machine goes down before the last of them are on the disk, or even the name of the tail
        if kept == 0 {
            fs::remove_file(&tail).expect("removed");
        } else {
            fs::File::options().write(true).open(&tail).and_then(|file| file.set_len(octets[kept - 1])).expect("cut");
        }
        let before = follower.position();
        assert_eq!(before, at(1, 5));
        let (mut writer, recovery) = Writer::open(dir, quiet()).expect("the archive opens");
        assert_eq!((recovery.position.get(), recovery.epoch), (kept as u64, 2));
        append(&mut writer, kept as u64 + 1..=8);
        let to = at(2, kept as u64);
        let followers = [
            follower,
            Follower::open(dir, before, often()).expect("a follower"),
            writer.follow(before, often()).expect("a follower"),
        ];
        for mut follower in followers {
            let rewound = FollowEvent::Rewound { from: before, to };
            assert_eq!(follower.next_timeout(LONG).expect("no failure"), Some(rewound));
            Seen::after(kept as u64).follow(&mut follower, 8);
            assert_eq!(follower.position(), at(2, 8));
        }
        // a position of the same epoch that was not lost goes on where it was
        if kept > 0 {
            let mut follower = Follower::open(dir, at(1, 2), often()).expect("a follower");
            Seen::after(2).follow(&mut follower, 8);
        }
    }
}

#[test]
fn positions_that_the_archive_has_never_given_out_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(dir.path(), quiet()).expect("an archive");
    append(&mut writer, 1..=5);
    for unknown in [at(1, 6), at(2, 1), at(0, 1)] {
        let refused = Follower::open(dir.path(), unknown, often()).map(drop);
        assert!(matches!(refused, Err(ArchiveError::UnknownPosition { .. })), "{unknown}: {refused:?}");
        assert!(writer.follow(unknown, often()).is_err());
    }
    assert!(Follower::open(dir.path(), at(1, 5), often()).is_ok());
    assert!(Follower::open(&dir.path().join("tail"), FollowPosition::START, often()).is_err());
}

#[test]
fn a_snapshot_and_what_comes_after_it_are_all_there_is() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(dir.path(), lively()).expect("an archive");
    for to in [7, 30, 90] {
        let from = writer.follow_position().position.get() + 1;
        append(&mut writer, from..=to);
        let snapshot = Snapshot::open(dir.path()).expect("a snapshot");
        assert_eq!(snapshot.follow_position(), at(1, to));
        let mut follower = Follower::open(dir.path(), snapshot.follow_position(), often()).expect("a follower");
        append(&mut writer, to + 1..=to + 3);
        Seen::after(to).follow(&mut follower, to + 3);
    }
}

/// Deliveries of three flows each, of times by this rule of delivery and flow.
fn timed(dir: &Path, deliveries: u64, time: impl Fn(u64, u64) -> i64) {
    let (mut writer, _) = Writer::open(dir, ArchiveOptions { segment_rows_max: 30, ..quiet() }).expect("an archive");
    for position in 1..=deliveries {
        let mut builder = FlowBatchBuilder::new(3);
        builder.begin_rows(3);
        builder.time(Column::Received).extend((0..3u32).map(|row| 1_763_600_000_000 + time(position, row.into())));
        builder.u64(Column::FlowId).extend((0..3u32).map(|row| position * 3 + u64::from(row)));
        builder.u16(Column::DstPort).extend((0..3u16).map(|row| (position as u16 * 7 + row) % 5));
        writer.append(Delivery::from(builder.finish())).expect("appended");
    }
    writer.close().expect("sealed");
}

#[test]
fn times_that_say_nothing_of_deliveries() {
    const DAY_MS: i64 = 86_400_000;
    type Rule = fn(u64, u64) -> i64;
    let rules: [Rule; 4] = [
        |_, _| 7,
        |position, _| -(position as i64) * 1000,
        |position, row| (position as i64 * 7919 + row as i64 * 104_729) % 50_000,
        |position, row| position as i64 + row as i64 * DAY_MS,
    ];
    for (number, rule) in rules.into_iter().enumerate() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path();
        timed(dir, 50, rule);
        for merged in [false, true] {
            if merged {
                let done = compact(dir, &merging(), |_| {}).expect("merged");
                assert!(done.segments_written > 0);
            }
            for after in [0, 1, 23, 49] {
                let mut follower = Follower::open(dir, at(u32::from(after > 0), after), narrow()).expect("a follower");
                for position in after + 1..=50 {
                    let Some(FollowEvent::Delivery(given)) = follower.try_next().expect("no failure") else {
                        panic!("rule {number}: no delivery {position}")
                    };
                    assert_eq!((given.position, given.rows_missing), (at(1, position), 0));
                    let wanted: Vec<u64> = (0..3).map(|row| position * 3 + row).collect();
                    assert_eq!(numbers(given.flows.as_ref()), wanted, "rule {number}");
                }
                assert_eq!(follower.try_next().expect("no failure"), None);
            }
        }
    }
}

#[test]
fn deliveries_without_flows_have_their_positions() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let (mut writer, _) = Writer::open(dir, quiet()).expect("an archive");
    let has_flows = |position: u64| matches!(position, 2 | 3 | 7);
    for position in 1..=9 {
        let mut one = delivery(Position::new(position));
        one.flows = one.flows.filter(|_| has_flows(position));
        writer.append(one).expect("appended");
        // the tails 3 and 5 have no flows at all
        if matches!(position, 2 | 4 | 6 | 7) {
            writer.rotate();
        }
    }
    let check = |what: &str| {
        let mut follower = Follower::open(dir, FollowPosition::START, often()).expect("a follower");
        for position in 1..=9 {
            let event = follower.next_timeout(LONG).expect("no failure");
            let Some(FollowEvent::Delivery(given)) = event else { panic!("{what}: {event:?}") };
            assert_eq!((given.position, given.flows.is_some()), (at(1, position), has_flows(position)), "{what}");
        }
        assert_eq!(follower.try_next().expect("no failure"), None);
    };
    check("as they were appended");
    writer.close().expect("sealed");
    check("sealed");
    compact(dir, &merging(), |_| {}).expect("merged");
    check("merged");
}

#[test]
fn a_damaged_tail_is_an_error_until_it_is_set_aside() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let tail = dir.join("tail/0000000000000001.tail");
    let (mut writer, _) = Writer::open(dir, ArchiveOptions { segment_rows_max: 1000, ..quiet() }).expect("an archive");
    let octets = append_and_measure(&mut writer, &tail, 1..=6);
    drop(writer);
    let mut whole = fs::read(&tail).expect("a tail");
    whole[octets[2] as usize + 70] ^= 1;
    fs::write(&tail, whole).expect("changed");
    let mut follower = Follower::open(dir, FollowPosition::START, often()).expect("a follower");
    let mut seen = Seen::default();
    seen.follow(&mut follower, 3);
    assert_eq!(follower.try_next().expect("it may be being written"), None);
    let (mut writer, recovery) = Writer::open(dir, quiet()).expect("the archive opens");
    assert_eq!((recovery.damages.len(), recovery.position), (1, Position::new(6)));
    append(&mut writer, 7..=9);
    seen.follow(&mut follower, 9);
    assert_eq!((seen.deliveries, seen.gone), (8, 1), "whole frames behind the damage are kept");
    writer.close().expect("sealed");
    let mut again = Seen::default();
    again.follow(&mut Follower::open(dir, FollowPosition::START, often()).expect("a follower"), 9);
    assert_eq!((again.deliveries, again.gone), (8, 1), "what is lost is said once it is sealed, too");
}

#[test]
fn segments_that_do_not_know_their_deliveries_give_each_row_once() {
    let folder = crate::format::fixture();
    let dir = folder.path();
    let rows = Snapshot::open(dir).expect("a snapshot").flows();
    let all = |dir: &Path| {
        let mut follower = Follower::open(dir, FollowPosition::START, narrow()).expect("a follower");
        let (mut found, mut last) = (0, Position::ZERO);
        while let Some(event) = follower.try_next().expect("no failure") {
            match event {
                FollowEvent::Delivery(given) => {
                    assert!(given.position.position > last && given.rows_missing == 0, "{given:?}");
                    found += given.flows.map_or(0, |flows| flows.rows() as u64);
                }
                FollowEvent::Gap { through, .. } => assert!(through.position > last),
                other => panic!("{other:?}"),
            }
            last = follower.position().position;
        }
        found
    };
    assert_eq!(all(dir), rows);
    drop(Writer::open(dir, quiet()).expect("an archive with a manifest now"));
    assert_eq!(all(dir), rows);
    let (writer, _) = Writer::open(dir, quiet()).expect("the archive opens");
    writer.close().expect("sealed");
    compact(dir, &merging(), |_| {}).expect("merged");
    assert_eq!(all(dir), rows);
}

#[test]
fn an_import_is_followed_like_anything_else() {
    let folders = [0; 3].map(|_| tempfile::tempdir().expect("a folder"));
    let [from, export, to] = folders.each_ref().map(tempfile::TempDir::path);
    let (mut writer, _) = Writer::open(from, quiet()).expect("an archive");
    append(&mut writer, 1..=60);
    writer.close().expect("sealed");
    weir_archive::export(from, &export.join("export"), &ExportSelection::default()).expect("exported");
    let (mut writer, _) = Writer::open(to, quiet()).expect("an archive");
    append(&mut writer, 1..=4);
    writer.close().expect("sealed");
    weir_archive::import(to, &export.join("export")).expect("imported");
    let mut follower = Follower::open(to, FollowPosition::START, often()).expect("a follower");
    Seen::default().follow(&mut follower, 4);
    for position in 5..=64 {
        let Some(FollowEvent::Delivery(given)) = follower.try_next().expect("no failure") else { panic!("{position}") };
        assert_eq!((given.position.position.get(), given.rows_missing), (position, 0));
        let before = |position| rows_up_to(Position::new(position));
        let wanted: Vec<u64> = (before(position - 5)..before(position - 4)).collect();
        assert_eq!(numbers(given.flows.as_ref()), wanted);
    }
    assert_eq!(follower.try_next().expect("no failure"), None);
}

/// While files come and go below it, from one end to the other: with expiry nothing is twice, and what is not given is
/// said.
#[test]
fn followed_while_the_oldest_expire() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let expiry = ExpiryOptions { octets_max: Some(400_000), low_water_percent: 50, ..ExpiryOptions::default() };
    let (mut writer, _) = Writer::open(dir, ArchiveOptions { expiry, ..lively() }).expect("an archive");
    std::thread::scope(|scope| {
        let slow = scope.spawn(move || {
            let mut follower = Follower::open(dir, FollowPosition::START, narrow()).expect("a follower");
            let mut seen = Seen::default();
            seen.follow(&mut follower, 800);
            seen
        });
        append(&mut writer, 1..=800);
        let seen = slow.join().expect("all seen");
        assert_eq!(seen.deliveries + seen.gone, 800, "{seen:?}");
    });
    writer.close().expect("sealed");
}
