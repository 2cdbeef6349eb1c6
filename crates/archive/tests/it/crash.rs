//! A writer killed at any moment.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use weir_archive::{ArchiveOptions, Position, Writer};

use crate::numbered::{check, delivery, kills};

const DIR: &str = "WEIR_ARCHIVE_CRASH_DIR";

/// Small segments and short intervals, so that a kill often meets a sync, a rotation or a sealing.
fn options() -> ArchiveOptions {
    ArchiveOptions {
        commit_interval: Duration::from_millis(1),
        seal_interval: Duration::from_millis(20),
        segment_rows_max: 150,
        row_group_rows_max: 64,
        ..ArchiveOptions::default()
    }
}

/// Not a test by itself: the process that is killed. Appends numbered deliveries and says how far it is durable.
#[test]
fn child_appends_until_it_is_killed() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    println!("\nopening");
    let (mut writer, recovery) = Writer::open(&PathBuf::from(dir), options()).expect("the archive opens");
    println!("position {}", recovery.position);
    println!("again {}", recovery.segments_uncommitted);
    println!("torn {}", recovery.torn_octets);
    let mut position = recovery.position;
    loop {
        position = position.next();
        assert_eq!(writer.append(delivery(position)).expect("room on the disk"), position);
        println!("durable {}", writer.durable());
        std::io::stdout().flush().expect("the parent reads");
    }
}

/// What a child said before it was killed.
#[derive(Default)]
struct Said {
    durable: Position,
    sealed_again: u64,
    torn_octets: u64,
}

/// Lets the child run until it has said `lines` lines, kills it, and tells what it said.
fn run_and_kill(dir: &Path, lines: u64) -> Said {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "crash::child_appends_until_it_is_killed", "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let mut said = Said::default();
    let mut count = 0;
    for line in BufReader::new(child.stdout.take().expect("its output")).lines() {
        let line = line.expect("text");
        let mut words = line.split(' ');
        match (words.next(), words.next().and_then(|number| number.parse().ok())) {
            (Some("durable" | "position"), Some(number)) => said.durable = Position::new(number),
            (Some("again"), Some(number)) => said.sealed_again = number,
            (Some("torn"), Some(number)) => said.torn_octets = number,
            (Some("opening"), _) => {}
            _ => continue,
        }
        count += 1;
        if count == lines {
            child.kill().expect("SIGKILL");
        }
    }
    assert!(count >= lines, "the child ended by itself after {count} lines");
    child.wait().expect("its end");
    said
}

#[test]
fn what_was_durable_survives_kill_9() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let (mut sealed_again, mut torn) = (0, 0);
    let mut before = Position::ZERO;
    let kills = kills(20);
    for round in 0..kills {
        // A new archive now and then: reading all of an old one again and again is what takes long.
        let dir = folder.path().join(format!("archive-{}", round / 10));
        if round % 10 == 0 {
            before = Position::ZERO;
        }
        // One line: killed while it opens the archive.
        let lines = 1 + random.next_u64() % 120;
        let Said { durable, sealed_again: again, torn_octets } = run_and_kill(&dir, lines);
        sealed_again += again;
        torn += torn_octets;
        if dir.join("weir-archive").exists() {
            let found = check(&dir);
            assert!(found >= durable, "round {round}: {durable} was durable, {found} is left");
            assert!(found >= before, "round {round}: {before} was there before, {found} is left");
            before = found;
        }
        if round % 5 == 4 {
            let (writer, recovery) = Writer::open(&dir, options()).expect("the archive opens");
            assert_eq!(recovery.position, before, "round {round}");
            assert!(recovery.damages.is_empty(), "round {round}: {recovery:?}");
            sealed_again += recovery.segments_uncommitted;
            torn += recovery.torn_octets;
            writer.close().expect("everything is sealed");
            assert_eq!(check(&dir), before, "round {round}");
        }
    }
    assert!(before > Position::ZERO, "the children got nowhere");
    println!("{kills} kills, {sealed_again} segments sealed again, {torn} octets cut");
}
