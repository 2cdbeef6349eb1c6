//! Sketches of coarser steps against a model that keeps every value and every peer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proptest::prelude::*;
use weir_series::{
    Coverage, DistinctSketch, Family, FamilyRows, Metric, SeriesStore, Sketch, StatisticsWriter, StepRows,
};

use super::killed::{copy, cut, newest};
use super::model::options;

const FIRST: i64 = 1_000_000;
const SHARES: [f64; 4] = [0.0, 0.5, 0.95, 1.0];
/// The stated error of a quantile.
const ERROR: f64 = 0.01;

/// What a series has in a finest step: bytes, and its peers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Value {
    bytes: u64,
    peers: BTreeSet<u16>,
}

/// Rows of a step by series.
type Rows = BTreeMap<u32, Value>;

/// What happens to a store.
#[derive(Debug, Clone)]
enum Event {
    /// Some time passes, in finest steps; then a step is written, for each family.
    Step { after: u32, rows: [Rows; 2] },
    /// The writer is closed and another one is opened.
    Reopen,
    /// So many octets at the end of each file are lost; no step that was written before is.
    Killed,
}

fn families() -> [Family; 2] {
    let metrics = vec![Metric::counter("bytes").with(Sketch::Quantiles), Metric::gauge("peers").with(Sketch::Distinct)];
    let of = |name: &str, coverage| Family { name: name.to_owned(), coverage, metrics: metrics.clone() };
    [of("exporter", Coverage::Complete), of("host", Coverage::Largest)]
}

fn rows() -> impl Strategy<Value = Rows> {
    let peers = prop_oneof![
        6 => (0_u16..200, 1_u16..12),
        1 => (0_u16..2_000, 200_u16..900),
    ];
    let bytes = prop_oneof![0_u64..100, any::<u64>().prop_map(|value| value >> 12)];
    let value =
        (bytes, peers).prop_map(|(bytes, (first, count))| Value { bytes, peers: (first..first + count).collect() });
    prop::collection::btree_map(0_u32..6, value, 0..5)
}

fn event() -> impl Strategy<Value = Event> {
    let after = prop_oneof![8 => 1_u32..3, 2 => Just(0), 1 => 1_u32..100];
    let step = (after, [rows(), rows()]).prop_map(|(after, rows)| Event::Step { after, rows });
    prop_oneof![30 => step, 1 => Just(Event::Reopen), 1 => Just(Event::Killed)]
}

fn hash(peer: u16) -> u32 {
    DistinctSketch::hash(&peer.to_be_bytes())
}

/// The model: values by family, time and series.
#[derive(Default)]
struct Model([BTreeMap<i64, Rows>; 2]);

impl Model {
    fn write(&mut self, writer: &mut StatisticsWriter, time: i64, rows: &[Rows; 2]) {
        let mut step = StepRows::default();
        for ((family, known), rows) in families().iter().zip(&mut self.0).zip(rows) {
            let known = known.entry(time).or_default();
            let id = writer.family(&family.name).expect("a family");
            let mut sorted = FamilyRows::new(2);
            for (series, value) in rows {
                let number = writer.series(id, &series.to_string());
                let sketch = DistinctSketch::of_hashes(value.peers.iter().map(|peer| hash(*peer)).collect());
                let values = [value.bytes, sketch.estimate()];
                sorted.push_sketched(number, &values, 1, sketch.encode());
                let known = known.entry(*series).or_default();
                known.bytes += value.bytes;
                known.peers.extend(&value.peers);
            }
            if !rows.is_empty() {
                step.families.push((id, sorted.sorted()));
            }
        }
        crate::write_step(writer, time, step);
    }

    /// Peers of a series in a step, when any finest step has it.
    fn distinct(&self, family: usize, id: u32, step: std::ops::Range<i64>) -> Option<u64> {
        let found: Vec<_> = self.0[family].range(step).filter_map(|(_, rows)| rows.get(&id)).collect();
        let all: BTreeSet<u16> = found.iter().flat_map(|value| value.peers.iter().copied()).collect();
        let sketch = DistinctSketch::of_hashes(all.into_iter().map(hash).collect());
        (!found.is_empty()).then(|| sketch.estimate())
    }

    /// The values of finest steps in a step, sorted; those of a complete family are zero where it is absent.
    fn values(&self, family: usize, id: u32, step: std::ops::Range<i64>) -> Vec<u64> {
        let of = |rows: &Rows| match rows.get(&id) {
            Some(value) => Some(value.bytes),
            None => (family == 0).then_some(0),
        };
        let mut values: Vec<u64> = self.0[family].range(step).filter_map(|(_, rows)| of(rows)).collect();
        values.sort_unstable();
        values
    }

    fn compare(&self, dir: &Path, now: i64) -> Result<(), TestCaseError> {
        let store = SeriesStore::open(dir).expect("a store");
        let catalogue = store.catalogue().expect("a catalogue");
        for (level, resolution) in store.resolutions().iter().enumerate() {
            let length = i64::from(resolution.step_secs);
            let until = if level == 0 { now + 2 } else { now - now.rem_euclid(length) };
            for (place, family) in store.families().iter().enumerate() {
                let (id, _) = store.family(&family.name).expect("the family");
                let all = store.fetch(id, None, *resolution, FIRST - 120, until).expect("fetched");
                for series in &all.series {
                    let key: u32 = catalogue.key(id, series.id).expect("a key").parse().expect("a number");
                    let step = |at: usize| all.time_secs(at)..all.time_secs(at) + length;
                    for (at, found) in all.distinct(family, series, 1).enumerate() {
                        prop_assert_eq!(
                            found,
                            self.distinct(place, key, step(at)),
                            "peers of {} at {:?}",
                            key,
                            step(at)
                        );
                    }
                    for (at, found) in all.quantiles(family, series, 0, SHARES).enumerate() {
                        let values = self.values(place, key, step(at));
                        prop_assert_eq!(found.is_some(), !values.is_empty(), "bytes of {} at {:?}", key, step(at));
                        let (least, largest) = (values.first().copied(), values.last().copied());
                        for (found, share) in found.into_iter().flatten().zip(SHARES) {
                            let rank = (share * values.len() as f64).ceil() as usize;
                            let wanted = values[rank.saturating_sub(1)];
                            let error = found.abs_diff(wanted) as f64;
                            prop_assert!(error <= wanted as f64 * ERROR * 1.000_001 + 0.5, "{} for {}", found, wanted);
                            prop_assert!(Some(found) >= least && Some(found) <= largest, "{} of {:?}", found, values);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

fn run(events: &[Event]) -> Result<(), TestCaseError> {
    let dir = tempfile::tempdir().expect("a folder");
    let open = || StatisticsWriter::open(dir.path(), &options(), &families()).expect("a writer");
    let (mut writer, mut model, mut now) = (open(), Model::default(), FIRST);
    for event in events {
        match event {
            Event::Reopen => {
                writer.close().expect("closed");
                writer = open();
            }
            Event::Killed => {
                // coarser steps that were not made are made again, from sketches of finest steps
                writer.close().expect("closed");
                for resolution in ["10s", "60s"] {
                    if let Some(file) = newest(dir.path(), resolution) {
                        cut(&file, 40);
                    }
                }
                writer = open();
            }
            Event::Step { after, rows } => {
                now += i64::from(*after) * 2;
                model.write(&mut writer, now, rows);
            }
        }
    }
    writer.close().expect("closed");
    model.compare(dir.path(), now)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn coarser_steps_have_the_peers_and_quantiles_of_the_model(events in prop::collection::vec(event(), 1..120)) {
        run(&events)?;
    }
}

/// A store of the first version, as the program before sketches wrote it: see `killed.rs` for its values. Its newest steps are
/// steps, the others blocks.
#[test]
fn a_store_of_the_first_version_is_read_and_gets_sketches() {
    let dir = tempfile::tempdir().expect("a folder");
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/version1"), dir.path());
    super::killed::compare_first(dir.path());
    let before = SeriesStore::open(dir.path()).expect("a store");
    let (_, last) = before.extent(before.resolutions()[0]).expect("read").expect("steps");
    // the same families, now with sketches
    let mut writer = StatisticsWriter::open(dir.path(), &options(), &families()).expect("a writer");
    let mut model = Model::default();
    let rows = |time: i64| -> [Rows; 2] {
        let peers = (0..=((time / 2 % 7) as u16)).collect();
        let rows = Rows::from([(3, Value { bytes: time as u64 % 50, peers })]);
        [rows.clone(), rows]
    };
    // steps of a minute that have none of the old ones in them
    let first = last + 120 - last.rem_euclid(60);
    for time in (first..first + 1_200).step_by(2) {
        model.write(&mut writer, time, &rows(time));
    }
    writer.close().expect("closed");
    super::killed::compare_first(dir.path());
    let store = SeriesStore::open(dir.path()).expect("a store");
    let catalogue = store.catalogue().expect("a catalogue");
    let coarse = store.resolutions()[2];
    for (place, family) in store.families().iter().enumerate() {
        let (id, _) = store.family(&family.name).expect("the family");
        let series = catalogue.id(id, "3").expect("the series");
        let fetched = store.fetch(id, Some(&[series]), coarse, first - 600, first + 1_140).expect("fetched");
        let one = &fetched.series[0];
        for (at, found) in fetched.distinct(family, one, 1).enumerate() {
            let time = fetched.time_secs(at);
            assert_eq!(found, model.distinct(place, 3, time..time + 60), "{} at {time}", family.name);
        }
        // the distribution of what was written before is not known
        let known: Vec<bool> = fetched.quantiles(family, one, 0, SHARES).map(|found| found.is_some()).collect();
        let times = (0..known.len()).map(|at| fetched.time_secs(at));
        assert!(known.iter().zip(times).all(|(known, time)| *known == (time >= first)), "{known:?}");
    }
}
