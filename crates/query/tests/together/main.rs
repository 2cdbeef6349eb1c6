//! Everything at once: a writer that seals, merges and expires, readers, followers and checks in processes of their
//! own, any of which is killed at any moment. Every answer is compared with what the generator put in.
//!
//! `WEIR_TOGETHER_SECONDS` asks for more than the few seconds that a test run has time for.

mod checks;
mod children;
mod follower;
mod readers;
mod traffic;
mod writer;

use std::path::Path;
use std::time::{Duration, Instant};

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use weir_archive::{Position, Snapshot, Writer};

use crate::children::{Child, Role};

/// How long it goes on.
fn length() -> Duration {
    let asked = std::env::var("WEIR_TOGETHER_SECONDS").ok();
    Duration::from_secs(asked.map_or(12, |asked| asked.parse().expect("WEIR_TOGETHER_SECONDS is a number")))
}

/// What is killed: the writer most often.
const ROLES: [Role; 7] =
    [Role::Writer, Role::Reader, Role::Reader, Role::Reader, Role::Reader, Role::Follower, Role::Checker];

#[test]
fn every_answer_is_right_whatever_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = &folder.path().join("archive");
    writer::open(dir, 0).0.close().expect("an empty archive");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(17);
    let mut children: Vec<Child> =
        ROLES.into_iter().enumerate().map(|(number, role)| Child::spawn(role, dir, number as u64)).collect();
    let (began, mut kills) = (Instant::now(), 0);
    let pause_ms = (length().as_secs() * 40).clamp(1000, 6000);
    while began.elapsed() < length() {
        std::thread::sleep(Duration::from_millis(200 + random.next_u64() % pause_ms));
        // the writer more often
        let chosen = if random.next_u64().is_multiple_of(4) { 0 } else { random.next_u64() as usize % children.len() };
        for (number, child) in children.iter_mut().enumerate() {
            if number == chosen {
                child.kill();
                kills += 1;
            } else if !child.has_ended() {
                continue;
            }
            child.restart(random.next_u64());
        }
    }
    children.iter_mut().for_each(Child::kill);
    let said = children::said();
    println!("{kills} kills in {} s: {said}", began.elapsed().as_secs());
    let (writer, _): (Writer, _) = writer::open(dir, 1);
    let report = writer.close().expect("everything is sealed");
    check_end(dir, report.position);
    assert!(said.answers > 0 && said.followed > 0 && said.checks > 0, "{said}");
}

/// After all of it: what is there is whole, and the followers come to the end.
fn check_end(dir: &Path, position: Position) {
    let snapshot = Snapshot::open(dir).expect("a snapshot");
    assert_eq!(snapshot.position(), position);
    checks::check_all(&snapshot);
    checks::check_files(dir);
    for name in follower::NAMES {
        follower::follow_to(dir, name, position);
    }
}
