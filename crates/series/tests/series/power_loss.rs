//! What a loss of power may leave of a store: what was synced is there, and no number is wrong.
//!
//! Sessions of a writer are recorded, and cut at any change: steps, coarser steps, blocks, the catalogue.
//! `WEIR_POWER_LOSS_STATES` asks for more states than a test run has time for.

use std::path::Path;

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use weir_series::SeriesStore;
use weir_testkit::power_loss::{Disk, Recorded, Recorder};

use super::damage::{FIRST, MODEL, Model};

/// Steps of each session. The first one has every key, and in the third one a block ends.
const SESSIONS: [i64; 4] = [60, 150, 200, 100];

/// Steps from the first one until a time, of few keys.
fn model(until_secs: i64) -> Model {
    Model { steps: until_secs - FIRST, keys: 12, ..MODEL }
}

/// What was changed, and until when steps were durable after how many changes: whatever a writer wrote that was closed.
fn record(dir: &Path) -> (Vec<Recorded>, Vec<(usize, i64)>) {
    let recorder = Recorder::start(dir);
    let (mut durable, mut next) = (Vec::new(), FIRST);
    for steps in SESSIONS {
        model(next + steps).write(dir, next..next + steps);
        next += steps;
        durable.push((recorder.recorded().len(), next));
    }
    (recorder.recorded(), durable)
}

/// What is wrong with what a loss of power has left, when all steps before a time were durable.
fn examine(dir: &Path, durable_secs: i64) -> Option<String> {
    let written: i64 = FIRST + SESSIONS.iter().sum::<i64>();
    let is_lost = |when: &str| {
        let levels = [0, 1].into_iter().flat_map(|level| model(durable_secs).unknown(dir, level, false));
        let lost: Vec<i64> = levels.collect();
        (!lost.is_empty()).then(|| format!("{when}: steps before {durable_secs} were durable, lost are {lost:?}"))
    };
    if durable_secs > FIRST {
        if let Err(error) = SeriesStore::open(dir) {
            return Some(format!("opening: {error}"));
        }
        // of what was not durable there may be anything, but no wrong number
        for level in [0, 1] {
            model(written).unknown(dir, level, false);
        }
        if let Some(lost) = is_lost("before recovery") {
            return Some(lost);
        }
    }
    // a writer that goes on turns blocks around
    model(written).write(dir, written..written + 100);
    if durable_secs > FIRST {
        model(written + 100).unknown(dir, 0, false);
        return is_lost("after recovery");
    }
    None
}

/// Examines states after a loss of power, and returns what is wrong with the first bad one.
fn search(changes: &[Recorded], durable: &[(usize, i64)], states: u64) -> Option<String> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(23);
    for state in 0..states {
        let at = random.next_u64() as usize % (changes.len() + 1);
        let mut disk = Disk::default();
        changes[..at].iter().for_each(|change| disk.apply(change));
        let durable_secs = durable.iter().rev().find(|(after, _)| *after <= at).map_or(FIRST, |(_, secs)| *secs);
        let memory = ["/dev/shm", "/tmp"].into_iter().find(|dir| Path::new(dir).is_dir()).unwrap_or(".");
        let dir = tempfile::tempdir_in(memory).expect("a folder");
        disk.crash(dir.path(), &mut || random.next_u32());
        if let Some(wrong) = examine(dir.path(), durable_secs) {
            return Some(format!("state {state}, cut after change {at}: {wrong}"));
        }
    }
    None
}

#[test]
fn what_was_durable_survives_a_loss_of_power() {
    let states = std::env::var("WEIR_POWER_LOSS_STATES").ok().map_or(60, |text| text.parse().expect("a number"));
    let dir = tempfile::tempdir().expect("a folder");
    let (changes, durable) = record(dir.path());
    assert!(changes.iter().any(|change| matches!(change, Recorded::Rename(_, to) if to.ends_with("4000.block"))));
    assert_eq!(search(&changes, &durable, states), None);
}

/// Without one of its syncs a store loses something, and the search finds it.
#[test]
fn a_sync_that_is_left_out_is_found() {
    let dir = tempfile::tempdir().expect("a folder");
    let (changes, durable) = record(dir.path());
    let kinds: [fn(&Recorded) -> bool; 2] = [
        |change| matches!(change, Recorded::Sync(path) if path.extension().is_some_and(|ending| ending == "steps")),
        |change| matches!(change, Recorded::SyncFolder(path) if path.ends_with("1s")),
    ];
    for (kind, is_left_out) in kinds.into_iter().enumerate() {
        let without: Vec<Recorded> = changes.iter().filter(|change| !is_left_out(change)).cloned().collect();
        let moved: Vec<_> = durable
            .iter()
            .map(|(at, secs)| (changes[..*at].iter().filter(|change| !is_left_out(change)).count(), *secs))
            .collect();
        assert!(search(&without, &moved, 100).is_some(), "kind {kind}");
    }
}
