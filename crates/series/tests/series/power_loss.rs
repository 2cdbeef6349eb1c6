//! What a loss of power may leave of a store: what was synced is there, and no number is wrong.
//!
//! Sessions of a writer are recorded, and cut at any change: steps, coarser steps, blocks, the catalogue.
//! `WEIR_POWER_LOSS_STATES` asks for more states than a test run has time for.

use std::path::Path;

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use weir_series::{SeriesId, SeriesStore};
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
    record_of(dir, model)
}

fn record_of(dir: &Path, model: fn(i64) -> Model) -> (Vec<Recorded>, Vec<(usize, i64)>) {
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

/// Keys of steps that have a new one each tenth step, and all that came before.
const NEW_KEYS: u32 = 50;

fn new_keys(until_secs: i64) -> Model {
    let value = |time: i64, key: u32| (time >= FIRST + 10 * i64::from(key)).then_some(1 + u64::from(key));
    Model { steps: until_secs - FIRST, keys: NEW_KEYS, value, ..MODEL }
}

/// What is wrong with what a loss of power has left of steps with new keys: a key may be gone, and a step unknown, but a key
/// that had a value in a step is not zero there.
fn examine_new_keys(dir: &Path, durable_secs: i64) -> Option<String> {
    let written: i64 = FIRST + SESSIONS.iter().sum::<i64>();
    new_keys(written).write(dir, written..written + 100);
    let store = SeriesStore::open(dir).expect("a store");
    let (id, family) = store.family("exporter").expect("the family");
    let catalogue = store.catalogue().expect("a catalogue");
    for &resolution in store.resolutions() {
        let fetched = store.fetch(id, None, resolution, FIRST, written + 100).expect("fetched");
        for key in 0..NEW_KEYS {
            let number: SeriesId = catalogue.id(id, &key.to_string()).expect("every key came again");
            let series = fetched.series.iter().find(|series| series.id == number).expect("values");
            for (step, point) in fetched.points(family, series, 0).enumerate() {
                let (time, length) = (fetched.time_secs(step), i64::from(resolution.step_secs));
                if fetched.known[step] == 0 && time + length < durable_secs {
                    return Some(format!(
                        "the step of {length} s at {time} was durable until {durable_secs}, and is lost"
                    ));
                }
                // of a step that is known in part no more is known
                if i64::from(fetched.known[step]) < length {
                    continue;
                }
                let wanted = (time..time + length).filter_map(|time| (new_keys(written).value)(time, key)).sum::<u64>();
                if point.map(|point| point.sum) != Some(wanted) {
                    return Some(format!("{key} is {point:?} in the step of {length} s at {time}, and was {wanted}"));
                }
            }
        }
    }
    None
}

/// Examines states after a loss of power, and returns what is wrong with the first bad one.
fn search(
    changes: &[Recorded],
    durable: &[(usize, i64)],
    states: u64,
    examine: fn(&Path, i64) -> Option<String>,
) -> Option<String> {
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
    assert_eq!(search(&changes, &durable, states, examine), None);
}

/// A step without the line of its key would have the key as zero, since it gets another number when it comes again.
#[test]
fn a_new_key_is_not_zero_where_its_line_was_lost() {
    let states = std::env::var("WEIR_POWER_LOSS_STATES").ok().map_or(100, |text| text.parse().expect("a number"));
    let dir = tempfile::tempdir().expect("a folder");
    let (changes, durable) = record_of(dir.path(), new_keys);
    assert_eq!(search(&changes, &durable, states, examine_new_keys), None);
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
        assert!(search(&without, &moved, 100, examine).is_some(), "kind {kind}");
    }
}
