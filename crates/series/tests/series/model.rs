//! The store against a model that keeps every value and computes each step anew.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_series::{
    Coverage, Family, FamilyRows, Metric, Point, Resolution, SeriesStore, StatisticsWriter, StepRows, StoreOptions,
};

/// What happens to a store.
#[derive(Debug, Clone)]
enum Event {
    /// Some time passes, in finest steps; then a step is written: for each family the series and their values.
    Step { after: u32, rows: Vec<BTreeMap<u32, [u64; 2]>> },
    /// The writer is closed and another one is opened.
    Reopen,
}

/// Every value of the finest steps, by family, time and series.
pub(crate) type Values = Vec<BTreeMap<i64, BTreeMap<u32, [u64; 2]>>>;

const RESOLUTIONS: [(u32, u64); 3] = [(2, 40_000), (10, 40_000), (60, 40_000)];

pub(crate) fn options() -> StoreOptions {
    let of = |(step_secs, keep_secs)| Resolution { step_secs, keep_secs };
    StoreOptions { resolutions: RESOLUTIONS.map(of).to_vec(), ..StoreOptions::default() }
}

pub(crate) fn families() -> Vec<Family> {
    let metrics = vec![Metric::counter("bytes"), Metric::gauge("peers")];
    let of = |name: &str, coverage| Family { name: name.to_owned(), coverage, metrics: metrics.clone() };
    vec![of("exporter", Coverage::Complete), of("host", Coverage::Largest)]
}

fn event() -> impl Strategy<Value = Event> {
    let value = prop_oneof![0_u64..100, any::<u64>().prop_map(|value| value >> 8)];
    let rows = prop::collection::btree_map(0_u32..12, [value.clone(), value], 0..6);
    let after = prop_oneof![8 => 1_u32..3, 3 => Just(0), 2 => 1_u32..400];
    let step = (after, prop::collection::vec(rows, 2)).prop_map(|(after, rows)| Event::Step { after, rows });
    prop_oneof![30 => step, 1 => Just(Event::Reopen)]
}

/// What the model says of a metric of a series in a step of any length.
fn expected(values: &Values, family: usize, id: u32, metric: usize, step: std::ops::Range<i64>) -> Option<Point> {
    let is_zero = family == 0 && metric == 0;
    let known: Vec<_> = values[family].range(step).map(|(_, rows)| rows.get(&id).map(|row| row[metric])).collect();
    let of: Vec<u64> = known.iter().filter_map(|value| value.or(is_zero.then_some(0))).collect();
    let (&min, &max, &last) = (of.iter().min()?, of.iter().max()?, of.last()?);
    Some(Point { sum: of.iter().sum(), min, max, last, count: of.len() as u32 })
}

fn run(events: &[Event]) -> Result<(), TestCaseError> {
    let dir = tempfile::tempdir().expect("a folder");
    let families = families();
    let open = || StatisticsWriter::open(dir.path(), &options(), &families).expect("a writer");
    let mut writer = open();
    let mut values: Values = vec![BTreeMap::new(); 2];
    let mut now = 1_000_000_i64;
    for event in events {
        match event {
            Event::Reopen => {
                writer.close().expect("closed");
                writer = open();
            }
            Event::Step { after, rows } => {
                now += i64::from(*after) * 2;
                let mut step = StepRows::default();
                for (family, rows) in rows.iter().enumerate() {
                    let known = values[family].entry(now).or_default();
                    for (id, row) in rows {
                        let known = known.entry(*id).or_default();
                        *known = [known[0] + row[0], known[1].max(row[1])];
                    }
                    let id = writer.family(&families[family].name).expect("a family");
                    let mut sorted = FamilyRows::new(2);
                    for (series, row) in rows {
                        let number = writer.series(id, &series.to_string());
                        sorted.ids.push(number.0);
                        (0..2).for_each(|metric| sorted.columns[metric].push(row[metric]));
                    }
                    if !rows.is_empty() {
                        step.families.push((id, sorted.sorted()));
                    }
                }
                crate::write_step(&mut writer, now, step);
            }
        }
    }
    let counts = writer.close().expect("closed");
    prop_assert_eq!((counts.failures, counts.octets_cut, counts.steps_damaged), (0, 0, 0));
    // what is not over is not written, and not over is what the last step is in
    compare(dir.path(), &values, now)
}

pub(crate) fn compare(dir: &std::path::Path, values: &Values, now: i64) -> Result<(), TestCaseError> {
    let store = SeriesStore::open(dir).expect("a store");
    let catalogue = store.catalogue().expect("a catalogue");
    let from = 1_000_000 - 120;
    for (level, resolution) in store.resolutions().iter().enumerate() {
        let length = i64::from(resolution.step_secs);
        let until = if level == 0 { now + 2 } else { now - now.rem_euclid(length) };
        for (place, family) in store.families().iter().enumerate() {
            let (id, _) = store.family(&family.name).expect("the family");
            let all = store.fetch(id, None, *resolution, from, until).expect("fetched");
            for (step, known) in all.known.iter().enumerate() {
                let time = all.time_secs(step);
                let written = values[0].range(time..time + length).count();
                prop_assert_eq!(*known as usize, written, "known of {} at {}", resolution.step_secs, time);
            }
            for key in 0..12 {
                let number = catalogue.id(id, &key.to_string());
                let one =
                    number.map(|number| store.fetch(id, Some(&[number]), *resolution, from, until).expect("fetched"));
                let series = number.and_then(|number| all.series.iter().find(|series| series.id == number));
                prop_assert_eq!(one.as_ref().and_then(|one| one.series.first()), series);
                let Some(series) = series else { continue };
                for metric in 0..2 {
                    for (step, found) in all.points(family, series, metric).enumerate() {
                        let time = all.time_secs(step);
                        let wanted = expected(values, place, key, metric, time..time + length);
                        let about = format!("{} {key} metric {metric} at {time}, {length} s", family.name);
                        prop_assert_eq!(found, wanted, "{}", about);
                    }
                }
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn every_resolution_is_what_the_model_says(events in prop::collection::vec(event(), 1..150)) {
        run(&events)?;
    }
}
