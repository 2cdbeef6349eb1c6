//! The writer: appends as fast as it is told, with followers in its own process.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_archive::{ArchiveOptions, CompactionOptions, ExpiryOptions, FollowOptions, Recovery, Statistics, Writer};

use crate::children::say;
use crate::follower::{self, Walk};
use crate::traffic::delivery;

const DELIVERIES_PER_SECOND: u32 = 80;
/// What the archive is cut down to, for each minute that the test takes; many times what is kept of it.
const OCTETS_MAX: u64 = 16 << 20;

/// Small segments, sealed, merged and expired at once; each writer does it a little differently.
fn options(seed: u64) -> ArchiveOptions {
    // the days of these flows are long over: then all of a day is merged, or as usual
    let settle_time = if seed.is_multiple_of(3) { Duration::ZERO } else { Duration::from_hours(24 * 36_500) };
    // the longer it goes on, the larger everything is
    let minutes = crate::length().as_secs() / 60;
    let size = (minutes / 3).clamp(1, 6);
    ArchiveOptions {
        commit_interval: Duration::from_millis(5),
        seal_interval: Duration::from_millis((100 + seed % 400) * size),
        segment_rows_max: 2_000 * size as usize,
        row_group_rows_max: 1_024,
        summaries_when_sealing: seed.is_multiple_of(2),
        upkeep_interval: Duration::from_millis(20),
        compaction: CompactionOptions {
            fan_in: 2 + seed % 3,
            busy_percent: 100,
            settle_time,
            books_minutes_age_max: Duration::from_hours(24 * 36_500),
            ..CompactionOptions::default()
        },
        expiry: ExpiryOptions { octets_max: Some(OCTETS_MAX * minutes.clamp(1, 8)), ..ExpiryOptions::default() },
        ..ArchiveOptions::default()
    }
}

pub(crate) fn open(dir: &Path, seed: u64) -> (Writer, Recovery) {
    Writer::open(dir, options(seed)).expect("the archive opens")
}

/// Appends until it is killed, or now and then closes the archive by itself.
pub(crate) fn run(dir: &Path, seed: u64) {
    let (mut writer, recovery) = open(dir, seed);
    assert!(recovery.damages.is_empty() && recovery.tails_missing == 0 && !recovery.manifest_made, "{recovery:?}");
    let lasts = if seed.is_multiple_of(4) { 40 + seed % 300 } else { u64::MAX };
    let (began, ended) = (Instant::now(), AtomicBool::new(false));
    let follow = |position| writer_follow(&writer, position);
    let mut follower = follower::resume(dir, follower::NAMES[1], follow);
    std::thread::scope(|scope| {
        let walking = scope.spawn(|| {
            let mut walk = Walk::new(dir, follower::NAMES[1], seed);
            while !ended.load(Ordering::Relaxed) {
                walk.step(&mut follower);
            }
            drop(follower);
        });
        let mut position = recovery.position;
        let mut told = Statistics::default();
        for number in 0..lasts {
            position = position.next();
            assert_eq!(writer.append(delivery(position.get())).expect("room on the disk"), position);
            if number % 20 == 0 {
                let now = writer.statistics();
                tell(&told, &now);
                told = now;
            }
            assert!(writer.take_seal_failure().is_none(), "sealing failed");
            if let Some(error) = writer.take_upkeep_failure() {
                panic!("upkeep failed: {error}");
            }
            assert!(!walking.is_finished(), "the follower gave up");
            let due = began + Duration::from_secs(1) / DELIVERIES_PER_SECOND * (number + 1) as u32;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        ended.store(true, Ordering::Relaxed);
    });
    writer.close().expect("everything is sealed");
}

fn writer_follow(writer: &Writer, position: weir_archive::FollowPosition) -> weir_archive::Follower {
    // so little that it has to read files now and then
    let options = FollowOptions { ring_octets_max: 64 << 10, ..follower::options() };
    writer.follow(position, options).expect("a follower")
}

/// Says what was merged and what expired since it was said last.
fn tell(before: &Statistics, now: &Statistics) {
    say("merged", now.segments_merged - before.segments_merged);
    say("expired", now.segments_expired - before.segments_expired);
}
