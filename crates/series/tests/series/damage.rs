//! One bit of a file is another one: what is read is right, or it is said that it cannot be read.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_series::{
    Coverage, Family, FamilyId, FamilyRows, Resolution, RowSelection, SeriesError, SeriesId, SeriesStore,
    StatisticsWriter, StepRows, StoreOptions, WriterCounts,
};

use super::killed::{self, copy, newest};

/// A multiple of a block of seconds and of the longer step.
pub(crate) const FIRST: i64 = 288 * 4_000;
/// One block, and some steps behind it.
const STEPS: i64 = 330;
/// More than the chunks and pages of a file have.
const KEYS: u32 = 600;

/// What a store was written with.
pub(crate) struct Model {
    pub(crate) first_secs: i64,
    pub(crate) steps: i64,
    pub(crate) step_secs: i64,
    pub(crate) keys: u32,
    pub(crate) value: fn(i64, u32) -> Option<u64>,
}

pub(crate) const MODEL: Model = Model { first_secs: FIRST, steps: STEPS, step_secs: 1, keys: KEYS, value };

/// Few keys in each step, and every key now and then.
fn value(time: i64, key: u32) -> Option<u64> {
    let (time, key) = (time.unsigned_abs(), u64::from(key));
    let is_there = if key < 8 { (time + key).is_multiple_of(key + 1) } else { time.is_multiple_of(50) };
    is_there.then_some(1 + time * 7 % (key + 90))
}

fn options() -> StoreOptions {
    let of = |step_secs| Resolution { step_secs, keep_secs: 1_000_000 };
    StoreOptions { resolutions: vec![of(1), of(6)], sync_interval_ms: 5, ..StoreOptions::default() }
}

fn families() -> [Family; 2] {
    let hosts = Family { coverage: Coverage::Largest, ..Family::counters("host", &["bytes"]) };
    [Family::counters("exporter", &["bytes"]), hosts]
}

impl Model {
    /// Writes steps in a session of its own.
    pub(crate) fn write(&self, dir: &Path, times: Range<i64>) -> WriterCounts {
        let mut writer = StatisticsWriter::open(dir, &options(), &families()).expect("a writer");
        for time in times {
            let mut step = StepRows::default();
            for name in ["exporter", "host"] {
                let family = writer.family(name).expect("a family");
                let mut rows = FamilyRows::new(1);
                for (key, value) in (0..self.keys).filter_map(|key| Some((key, (self.value)(time, key)?))) {
                    let series = writer.series(family, &key.to_string());
                    rows.push(series, &[value]);
                }
                step.families.push((family, rows.sorted()));
            }
            crate::write_step(&mut writer, time, step);
        }
        writer.close().expect("closed")
    }

    /// The sum of a key over a time of which everything is known.
    fn wanted(&self, family: &Family, key: u32, times: Range<i64>) -> Option<u64> {
        let values = times.filter(|time| time.rem_euclid(self.step_secs) == 0);
        let sum = values.filter_map(|time| (self.value)(time, key)).reduce(|sum, more| sum + more);
        sum.or((family.coverage == Coverage::Complete).then_some(0))
    }

    /// Compares whatever is known of a resolution, read in different ways, and returns the steps of which nothing is. A gap is
    /// said, but the newest step, which may be a write that was not finished.
    pub(crate) fn unknown(&self, dir: &Path, level: usize, is_said: bool) -> BTreeSet<i64> {
        let store = SeriesStore::open(dir).expect("a store");
        let (catalogue, resolution) = (store.catalogue().expect("a catalogue"), store.resolutions()[level]);
        let length = i64::from(resolution.step_secs);
        let newest = self.first_secs + (self.steps - 1) * self.step_secs;
        let until = if level == 0 { newest + self.step_secs } else { newest - newest.rem_euclid(length) };
        let mut unknown = BTreeSet::new();
        for family in store.families() {
            let (id, _) = store.family(&family.name).expect("the family");
            for asked in [None, Some(vec![0]), Some(vec![3, self.keys / 2]), Some(vec![self.keys - 1])] {
                let some = || (0..self.keys.min(8)).chain((8..self.keys).step_by(41)).collect();
                let keys: Vec<u32> = asked.clone().unwrap_or_else(some);
                let number = |key: &u32| catalogue.id(id, &key.to_string()).expect("a series");
                let numbers: Vec<SeriesId> = keys.iter().map(number).collect();
                let listed = asked.is_some().then_some(&numbers[..]);
                let fetched = store.fetch(id, listed, resolution, self.first_secs, until).expect("fetched");
                let said: BTreeSet<i64> = fetched.damaged.iter().flat_map(|damage| damage.times_secs.clone()).collect();
                let gaps = (0..fetched.known.len()).filter(|step| fetched.known[*step] == 0);
                for time in gaps.map(|step| fetched.time_secs(step)) {
                    assert!(!is_said || said.contains(&time) || time + length == until, "nothing is said of {time}");
                    unknown.insert(time);
                }
                for (key, number) in keys.into_iter().zip(numbers) {
                    let series = fetched.series.iter().find(|series| series.id == number);
                    let mut points = series.map(|series| fetched.points(family, series, 0));
                    for (step, known) in fetched.known.iter().enumerate() {
                        let time = fetched.time_secs(step);
                        let found = points.as_mut().and_then(|points| points.next().flatten()).map(|point| point.sum);
                        let wanted = self.wanted(family, key, time..time + length).filter(|_| *known > 0);
                        // a series without any value is not among those that are read
                        let wanted = wanted.filter(|sum| series.is_some() || *sum > 0);
                        assert_eq!(found, wanted, "{} {key} at {time}, {length} s", family.name);
                    }
                }
            }
        }
        unknown
    }
}

/// Runs a check for each of many bits of a file that is another one, and counts those that cost a step.
fn flip(path: &Path, mut check: impl FnMut(usize) -> BTreeSet<i64>) -> usize {
    let whole = fs::read(path).expect("a file");
    let ends = (0..40).chain(whole.len() - 40..whole.len());
    let places: BTreeSet<usize> = ends.chain((0..whole.len()).step_by(whole.len() / 80 + 1)).collect();
    let mut costly = 0;
    for at in places {
        let mut octets = whole.clone();
        octets[at] ^= 1 << (at % 8);
        fs::write(path, octets).expect("written");
        costly += usize::from(!check(at).is_empty());
    }
    fs::write(path, whole).expect("written");
    costly
}

fn block(dir: &Path, resolution: &str) -> PathBuf {
    let files = fs::read_dir(dir.join(resolution)).expect("a folder").map(|entry| entry.expect("an entry").path());
    files.filter(|path| path.extension().is_some_and(|ending| ending == "block")).max().expect("a block")
}

#[test]
fn whatever_bit_is_another_one_no_number_is_wrong() {
    let dir = tempfile::tempdir().expect("a folder");
    MODEL.write(dir.path(), FIRST..FIRST + STEPS);
    assert!(MODEL.unknown(dir.path(), 0, true).is_empty() && MODEL.unknown(dir.path(), 1, true).is_empty());
    // the steps of other files stay readable
    let behind = FIRST + 288;
    let block = block(dir.path(), "1s");
    let costly = flip(&block, |at| {
        let unknown = MODEL.unknown(dir.path(), 0, true);
        assert!(unknown.iter().all(|time| *time < behind), "octet {at} of the block");
        unknown
    });
    assert!(costly > 100, "{costly}");
    let steps = newest(dir.path(), "1s").expect("steps");
    let costly = flip(&steps, |at| {
        let unknown = MODEL.unknown(dir.path(), 0, true);
        assert!(unknown.iter().all(|time| *time >= behind), "octet {at} of the steps");
        // behind the head of the file one step is lost
        assert!(at < 16 || unknown.len() <= 1, "octet {at} cost {unknown:?}");
        unknown
    });
    assert!(costly > 100, "{costly}");
    let costly = flip(&newest(dir.path(), "6s").expect("steps"), |_| MODEL.unknown(dir.path(), 1, true));
    assert!(costly > 100, "{costly}");
    assert!(MODEL.unknown(dir.path(), 0, true).is_empty() && MODEL.unknown(dir.path(), 1, true).is_empty());
}

/// Frames of earlier versions have a checksum of everything, which is verified when they are read.
#[test]
fn steps_of_the_first_version_are_verified_too() {
    let dir = tempfile::tempdir().expect("a folder");
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/version1"), dir.path());
    let value = |time: i64, key: u32| killed::values_at(time).get(&key).map(|values| values[0]);
    let model = Model { first_secs: killed::FIRST, steps: killed::STEPS, step_secs: 2, keys: 12, value };
    assert!(model.unknown(dir.path(), 0, true).is_empty());
    let costly = flip(&newest(dir.path(), "2s").expect("steps"), |_| model.unknown(dir.path(), 0, true));
    assert!(costly > 100, "{costly}");
}

/// A writer that finds the damage goes on, counts it, and makes a block without what is damaged.
#[test]
fn what_is_written_after_damage_is_right() {
    let whole = tempfile::tempdir().expect("a folder");
    MODEL.write(whole.path(), FIRST..FIRST + STEPS);
    let len = fs::read(newest(whole.path(), "1s").expect("steps")).expect("a file").len();
    let model = Model { steps: 2 * STEPS, ..MODEL };
    for at in (0..len).step_by(len / 25) {
        let dir = tempfile::tempdir().expect("a folder");
        copy(whole.path(), dir.path());
        let steps = newest(dir.path(), "1s").expect("steps");
        let mut octets = fs::read(&steps).expect("a file");
        octets[at] ^= 1 << (at % 8);
        fs::write(&steps, octets).expect("written");
        let counts = MODEL.write(dir.path(), FIRST + STEPS..FIRST + 2 * STEPS);
        let unknown = model.unknown(dir.path(), 0, false);
        let counted = counts.steps_damaged + counts.octets_cut + counts.files_damaged;
        assert_eq!(unknown.is_empty(), counted == 0, "octet {at}: {counts:?} {unknown:?}");
        let is_of_file = |time: &i64| (FIRST + 288..FIRST + STEPS).contains(time);
        assert!(unknown.iter().all(is_of_file), "octet {at} cost {unknown:?}");
    }
}

/// A frame that is damaged may be one of two parts of a step: the other one alone would be a wrong number.
#[test]
fn half_a_step_is_no_number() {
    let dir = tempfile::tempdir().expect("a folder");
    let times = [FIRST, FIRST + 1, FIRST + 1, FIRST + 2, FIRST + 3];
    let mut ends = vec![16];
    let mut writer = StatisticsWriter::open(dir.path(), &options(), &families()).expect("a writer");
    let (family, series) = (writer.family("exporter").expect("a family"), writer.series(FamilyId(0), "key"));
    for time in times {
        let mut rows = FamilyRows::new(1);
        rows.push(series, &[5]);
        crate::write_step(&mut writer, time, StepRows { families: vec![(family, rows)] });
        ends.push(fs::metadata(newest(dir.path(), "1s").expect("steps")).expect("a file").len() as usize);
    }
    writer.close().expect("closed");
    let path = newest(dir.path(), "1s").expect("steps");
    let whole = fs::read(&path).expect("a file");
    // the first octet of each frame but the last is damaged, so that its time cannot be read
    for (frame, wanted) in [
        (0, [None, Some(10), Some(5), Some(5)]),
        (1, [None, None, Some(5), Some(5)]),
        (2, [Some(5), None, None, Some(5)]),
        (3, [Some(5), Some(10), None, Some(5)]),
    ] {
        let mut octets = whole.clone();
        octets[ends[frame]] ^= 1;
        fs::write(&path, octets).expect("written");
        let store = SeriesStore::open(dir.path()).expect("a store");
        let fetched = store.fetch(family, Some(&[series]), store.resolutions()[0], FIRST, FIRST + 4).expect("fetched");
        let points = fetched.points(&store.families()[0], &fetched.series[0], 0);
        let found: Vec<_> = points.map(|point| point.map(|point| point.sum)).collect();
        assert_eq!(found, wanted, "frame {frame}");
        let said: BTreeSet<i64> = fetched.damaged.iter().flat_map(|damage| damage.times_secs.clone()).collect();
        let gaps = (FIRST..).zip(&found).filter(|(_, found)| found.is_none()).map(|(time, _)| time);
        assert!(gaps.eq(said), "frame {frame}");
    }
}

/// Of a line of the catalogue with one bit that is another one neither a key nor a step is lost, and a writer corrects it.
#[test]
fn one_bit_of_the_catalogue_costs_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let model = Model { keys: 12, ..MODEL };
    model.write(dir.path(), FIRST..FIRST + STEPS);
    let path = dir.path().join("catalogue");
    let len = fs::read(&path).expect("a file").len();
    // a checksum, a number, an end between lines, any other place, and the end of the last line
    let end = fs::read(&path).expect("a file").iter().position(|octet| *octet == b'\n').expect("a line");
    for at in [0, 11, end, len / 2, len - 1] {
        let mut octets = fs::read(&path).expect("a file");
        octets[at] ^= 2;
        fs::write(&path, octets).expect("written");
        assert!(model.unknown(dir.path(), 0, true).is_empty(), "octet {at}");
        let counts = model.write(dir.path(), FIRST + STEPS..FIRST + STEPS);
        assert_eq!((counts.keys_repaired, counts.keys_lost, counts.octets_cut), (1, 0, 0), "octet {at}");
        let catalogue = SeriesStore::open(dir.path()).expect("a store").catalogue().expect("a catalogue");
        assert_eq!((catalogue.len(), catalogue.repaired_lines()), (24, 0), "octet {at}");
        assert!(model.unknown(dir.path(), 0, true).is_empty(), "octet {at}");
    }
}

/// A line of the catalogue with more damage costs its key, which gets another number when it comes again: it was not zero before.
#[test]
fn a_key_that_is_lost_was_not_zero() {
    let dir = tempfile::tempdir().expect("a folder");
    let model = Model { keys: 12, ..MODEL };
    model.write(dir.path(), FIRST..FIRST + STEPS);
    let path = dir.path().join("catalogue");
    let text = fs::read_to_string(&path).expect("a file");
    let is_lost = |line: &str| line.split('\t').nth(1) == Some("0") && line.ends_with("\t3");
    assert_eq!(text.lines().filter(|line| is_lost(line)).count(), 1);
    let damaged: Vec<String> = text
        .lines()
        .map(|line| if is_lost(line) { format!("zz{}\n", &line[2..]) } else { format!("{line}\n") })
        .collect();
    fs::write(&path, damaged.concat()).expect("written");
    let store = Arc::new(SeriesStore::open(dir.path()).expect("a store"));
    let (resolution, from_secs) = (store.resolutions()[0], FIRST);
    let selection = RowSelection { resolution, families: None, keys: None, from_secs, until_secs: FIRST + STEPS };
    let is_said = |rows: Result<_, SeriesError>| rows.is_err_and(|error| error.is_damage());
    assert!(
        store.rows(&selection).expect("rows").any(is_said),
        "rows of a series without a key are left out in silence"
    );
    // the key is lost once, and stays so
    for session in 0..2 {
        let from = FIRST + STEPS + 100 * session;
        let counts = model.write(dir.path(), from..from + 100);
        assert_eq!((counts.keys_lost, counts.octets_cut), (u64::from(session == 0), 0));
        let store = SeriesStore::open(dir.path()).expect("a store");
        compare_lost(&store, from + 100);
        // the other family has lost nothing, and is known as before
        let (host, _) = store.family("host").expect("the family");
        for &resolution in store.resolutions() {
            let fetched = store.fetch(host, None, resolution, FIRST, FIRST + STEPS).expect("fetched");
            assert!(fetched.damaged.is_empty(), "{:?}", fetched.damaged);
            assert!(fetched.known.iter().all(|known| *known > 0), "{:?}", fetched.known);
        }
    }
    let store = Arc::new(SeriesStore::open(dir.path()).expect("a store"));
    assert!(store.rows(&selection).expect("rows").any(is_said));
}

/// Damages the line of a key of the first family beyond repair.
fn lose(dir: &Path, key: &str) {
    let path = dir.join("catalogue");
    let text = fs::read_to_string(&path).expect("a file");
    let is_lost = |line: &&str| line.split('\t').nth(1) == Some("0") && line.rsplit('\t').next() == Some(key);
    let line = text.lines().find(is_lost).expect("a line");
    fs::write(&path, text.replace(line, &format!("zz{}", &line[2..]))).expect("written");
}

/// Who asks for a key that is lost gets no rows of it, and is told that it may be lost; who asks for another one is not.
#[test]
fn a_key_that_is_asked_for_may_be_lost() {
    let dir = tempfile::tempdir().expect("a folder");
    let model = Model { keys: 12, ..MODEL };
    model.write(dir.path(), FIRST..FIRST + STEPS);
    let said = |key: &str, from_secs: i64| -> bool {
        let store = Arc::new(SeriesStore::open(dir.path()).expect("a store"));
        let selection = RowSelection {
            resolution: store.resolutions()[0],
            families: Some(vec!["exporter".to_owned()]),
            keys: Some(vec![key.to_owned()]),
            from_secs,
            until_secs: FIRST + STEPS + 100,
        };
        let errors: Vec<SeriesError> = store.rows(&selection).expect("rows").filter_map(Result::err).collect();
        errors.iter().any(|error| matches!(error, SeriesError::KeysMayBeLost { keys, .. } if keys == key))
    };
    assert!(!said("3", FIRST) && !said("nothing", FIRST), "nothing is lost");
    lose(dir.path(), "3");
    assert!(said("3", FIRST) && said("nothing", FIRST));
    assert!(!said("4", FIRST), "the key is there");
    // it comes again with another number, and its steps of before are known under no name
    assert_eq!(model.write(dir.path(), FIRST + STEPS..FIRST + STEPS + 100).keys_lost, 1);
    assert!(said("3", FIRST) && said("nothing", FIRST));
    assert!(!said("4", FIRST));
    assert!(!said("3", FIRST + STEPS) && !said("nothing", FIRST + STEPS), "nothing is lost of this time");
}

/// Nothing behind the line of the largest number says that it was given. A series that has come since is none of those lost.
#[test]
fn the_last_key_that_is_lost_is_said_too() {
    let dir = tempfile::tempdir().expect("a folder");
    let model = Model { keys: 12, ..MODEL };
    model.write(dir.path(), FIRST..FIRST + STEPS);
    let path = dir.path().join("catalogue");
    let text = fs::read_to_string(&path).expect("a file");
    let of = |line: &str, place| line.split('\t').nth(place).and_then(|number| number.parse::<u32>().ok());
    let lines = text.lines().filter(|line| of(line, 1) == Some(0));
    let last = lines.max_by_key(|line| of(line, 2)).expect("a line");
    fs::write(&path, text.replace(last, &format!("zz{}", &last[2..]))).expect("written");
    let store = Arc::new(SeriesStore::open(dir.path()).expect("a store"));
    let catalogue = Arc::new(store.catalogue().expect("a catalogue"));
    assert_eq!(catalogue.damaged_lines(), 1);
    let (resolution, families) = (store.resolutions()[0], Some(vec!["exporter".to_owned()]));
    let selection =
        RowSelection { resolution, families, keys: None, from_secs: FIRST, until_secs: FIRST + STEPS + 100 };
    let check = || {
        let rows = store.rows_with(&selection, Arc::clone(&catalogue)).expect("rows");
        let errors: Vec<SeriesError> = rows.filter_map(Result::err).collect();
        assert!(!errors.is_empty(), "rows of a series without a key are left out in silence");
        let is_one = |error: &SeriesError| matches!(error, SeriesError::LostKeys { series: 1, .. });
        assert!(errors.iter().all(is_one), "{errors:?}");
    };
    check();
    // the key gets another number, and a new one comes
    let more = Model { keys: 13, ..MODEL };
    assert_eq!(more.write(dir.path(), FIRST + STEPS..FIRST + STEPS + 100).keys_lost, 1);
    check();
}

/// Compares the keys of a store that has lost some, steps until a time, with what was written.
fn compare_lost(store: &SeriesStore, until: i64) {
    let (id, family) = store.family("exporter").expect("the family");
    let catalogue = store.catalogue().expect("a catalogue");
    for &resolution in store.resolutions() {
        let length = i64::from(resolution.step_secs);
        let until = until - until.rem_euclid(length);
        let fetched = store.fetch(id, None, resolution, FIRST, until).expect("fetched");
        assert_eq!(fetched.damaged.iter().map(|damage| damage.times_secs.len()).sum::<usize>(), 1, "{fetched:?}");
        for key in 0..12 {
            let number = catalogue.id(id, &key.to_string()).expect("every key came again");
            let series = fetched.series.iter().find(|series| series.id == number).expect("values");
            let mut known = 0;
            for (step, point) in fetched.points(family, series, 0).enumerate() {
                let time = fetched.time_secs(step);
                let Some(point) = point else {
                    assert!(time < FIRST + STEPS, "{key} at {time}, {length} s");
                    continue;
                };
                let wanted = (time..time + length).filter_map(|time| value(time, key)).sum::<u64>();
                assert_eq!(point.sum, wanted, "{key} at {time}, {length} s");
                known += 1;
            }
            // the others keep their numbers, and what they had in steps before
            assert!(key != 0 || known + 1 == fetched.known.len(), "{key} of {length} s: {known}");
        }
    }
}
