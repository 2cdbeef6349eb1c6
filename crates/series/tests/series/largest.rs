//! Coarser steps of the largest keys: few keys, and exact totals.

use std::collections::BTreeMap;
use std::path::Path;

use weir_series::{
    Coverage, Family, FamilyRows, LargestKeys, Metric, Point, Resolution, SeriesStore, StatisticsWriter, StepRows,
    StoreOptions,
};

const KEYS_MAX: usize = 4;
/// A key that is small in every step, and large in the sum.
const STEADY: &str = "steady";

fn options() -> StoreOptions {
    let of = |step_secs| Resolution { step_secs, keep_secs: 1_000_000 };
    let largest = LargestKeys { keys_max: KEYS_MAX, metric: "bytes".to_owned(), other: "other".to_owned() };
    StoreOptions { resolutions: [1, 10, 60].map(of).to_vec(), largest: Some(largest), ..StoreOptions::default() }
}

fn family(coverage: Coverage) -> Family {
    let metrics = vec![Metric::counter("flows"), Metric::counter("bytes"), Metric::gauge("peers")];
    Family { name: "host".to_owned(), coverage, metrics }
}

/// Three keys in each second, of which two never come again, and now and then a sum of others.
fn rows(second: i64) -> Vec<(String, [u64; 3])> {
    let of = |key: &str, bytes: u64| (key.to_owned(), [1, bytes, 2]);
    let number = second as u64;
    let mut rows =
        vec![of(STEADY, 40), of(&format!("a{second}"), 50 + number % 7), of(&format!("b{second}"), number % 45)];
    if second % 3 == 0 {
        rows.push(("other".to_owned(), [5, 11, 0]));
    }
    rows
}

fn write(folder: &Path, coverage: Coverage, seconds: std::ops::Range<i64>) {
    let mut writer = StatisticsWriter::open(folder, &options(), &[family(coverage)]).expect("a writer");
    let id = writer.family("host").expect("the family");
    for second in seconds {
        let mut step = FamilyRows::new(3);
        for (key, values) in rows(second) {
            let series = writer.series(id, &key);
            step.push(series, &values);
        }
        crate::write_step(&mut writer, second, StepRows { families: vec![(id, step.sorted())] });
    }
    writer.forget_unused().expect("forgotten");
    writer.close().expect("closed");
}

/// For each step of a resolution the keys, with the points of flows, bytes and peers.
fn stored(folder: &Path, level: usize) -> BTreeMap<i64, BTreeMap<String, Vec<Point>>> {
    let store = SeriesStore::open(folder).expect("a store");
    let (id, spec) = store.family("host").expect("the family");
    let (catalogue, resolution) = (store.catalogue().expect("a catalogue"), store.resolutions()[level]);
    let fetched = store.fetch(id, None, resolution, 0, 200).expect("fetched");
    let mut steps: BTreeMap<i64, BTreeMap<String, Vec<Point>>> = BTreeMap::new();
    for series in &fetched.series {
        for metric in 0..3 {
            for (step, point) in fetched.points(spec, series, metric).enumerate() {
                let Some(point) = point else { continue };
                let key = catalogue.key(id, series.id).expect("a key that is not forgotten").to_owned();
                steps.entry(fetched.time_secs(step)).or_default().entry(key).or_default().push(point);
            }
        }
    }
    steps
}

#[test]
fn coarser_steps_have_their_largest_keys_and_the_sum_of_the_others() {
    let dir = tempfile::tempdir().expect("a folder");
    // the writer is opened again in the middle of a step, which is made of what was stored
    write(dir.path(), Coverage::Largest, 0..33);
    write(dir.path(), Coverage::Largest, 33..125);
    for (level, length) in [(1, 10), (2, 60)] {
        let steps = stored(dir.path(), level);
        assert_eq!(steps.len() as i64, 125 / length);
        for (begin, keys) in steps {
            assert_eq!(keys.len(), KEYS_MAX + 1, "{keys:?}");
            let known: Vec<_> = (begin..begin + length).flat_map(rows).collect();
            for (place, metric) in [(0, 0), (1, 1)] {
                let wanted: u64 = known.iter().map(|(_, values)| values[metric]).sum();
                assert_eq!(keys.values().map(|points| points[place].sum).sum::<u64>(), wanted, "{begin} {metric}");
            }
            let steady = keys[STEADY][1];
            assert_eq!((steady.sum, steady.min, steady.max, steady.count), (40 * length as u64, 40, 40, length as u32));
            let least = keys.iter().filter(|(key, _)| *key != "other").map(|(_, points)| points[1].sum).min();
            let mut of_keys: BTreeMap<&str, u64> = BTreeMap::new();
            for (key, values) in &known {
                *of_keys.entry(key).or_default() += values[1];
            }
            let larger = of_keys.iter().filter(|(key, sum)| **key != "other" && Some(**sum) > least).count();
            assert!(larger < KEYS_MAX, "{begin}: {larger} keys are larger than the least of {KEYS_MAX}");
            // in every second something was counted as another key, and of levels nothing is added up
            let [_, bytes, peers] = keys["other"][..] else { panic!("three metrics") };
            assert_eq!((bytes.count, peers.max), (length as u32, 0));
            assert!(bytes.min <= bytes.last && bytes.last <= bytes.max, "{bytes:?}");
        }
    }
}

#[test]
fn families_of_every_key_keep_every_key() {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path(), Coverage::Complete, 0..25);
    let keys = stored(dir.path(), 1);
    // steady, two of each second, and the word that is no other key than any here; of the others it is known that there was nothing
    let counted = keys[&0].values().filter(|points| points[0].sum > 0).count();
    assert_eq!((counted, keys[&0].len()), (1 + 2 * 10 + 1, 1 + 2 * 20 + 1));
}
