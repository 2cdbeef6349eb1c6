//! Forwarding of statistics from stores that are written, cut off and too old, to a store that fails as it likes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use proptest::prelude::*;
use weir_forward::{
    StateError, StatisticsForwardCounts, StatisticsForwardError, StatisticsForwardOptions, StatisticsForwarder,
    StatisticsStep, StatisticsStore, StoreError, StoredRows, statistics_forwarders,
};
use weir_series::{Coverage, Family, FamilyRows, Resolution, SeriesStore, StatisticsWriter, StepRows, StoreOptions};

const FIRST: i64 = 1_700_000_000 / 60 * 60;

/// Values of a step by family and key.
type Values = BTreeMap<(String, String), u64>;

/// What a store was handed, call by call, and which calls fail after it.
#[derive(Default)]
struct Recorder {
    taken: Vec<(i64, Values)>,
    fails: Vec<bool>,
    calls: usize,
}

impl StatisticsStore for Recorder {
    fn store(
        &mut self,
        step: &StatisticsStep,
        _is_stopping: &mut dyn FnMut() -> bool,
    ) -> Result<StoredRows, StoreError> {
        self.calls += 1;
        let has_failed = self.fails.get(self.calls - 1).copied().unwrap_or(false);
        // a call that fails has stored the step nevertheless, every second time
        if !has_failed || self.calls.is_multiple_of(2) {
            self.taken.push((step.time_secs, values(&step.rows)));
        }
        if has_failed {
            return Err(StoreError::Unavailable("away".to_owned()));
        }
        Ok(StoredRows { stored: step.rows.num_rows() as u64, refused: 0 })
    }
}

fn values(rows: &RecordBatch) -> Values {
    let text = |name: &str| rows.column_by_name(name).expect("a column").as_string::<i32>();
    let bytes = rows.column_by_name("bytes").expect("bytes").as_primitive::<UInt64Type>();
    let row = |row| ((text("by").value(row).to_owned(), text("key").value(row).to_owned()), bytes.value(row));
    (0..rows.num_rows()).map(row).collect()
}

fn store_options(keep_secs: u64) -> StoreOptions {
    let of = |step_secs| Resolution { step_secs, keep_secs };
    StoreOptions { resolutions: vec![of(1), of(60)], ..StoreOptions::default() }
}

/// Two families: one with every key, one with its largest.
fn families() -> [Family; 2] {
    let hosts = Family { coverage: Coverage::Largest, ..Family::counters("src_addr", &["bytes"]) };
    [Family::counters("protocol", &["bytes"]), hosts]
}

/// Writes steps of a second: which keys have a value, and how large it is, follows from the time.
fn write(dir: &Path, keep_secs: u64, seconds: impl Iterator<Item = i64>) {
    let mut writer = StatisticsWriter::open(dir, &store_options(keep_secs), &families()).expect("a writer");
    for second in seconds {
        let mut step = StepRows::default();
        for family in families() {
            let id = writer.family(&family.name).expect("a family");
            let mut rows = FamilyRows::new(1);
            for key in 0..5_u64 {
                // the first step has every key, so that each of them is zero from there on
                if second == 0 || (second as u64 + key).is_multiple_of(key + 2) {
                    let series = writer.series(id, &format!("key{key}"));
                    rows.push(series, &[second as u64 * (key + 1)]);
                }
            }
            step.families.push((id, rows.sorted()));
        }
        writer.write_step(FIRST + second, step).expect("written");
    }
    writer.close().expect("closed");
}

/// What the store of series has of a resolution, step by step.
fn stored(dir: &Path, step_secs: u32) -> Vec<(i64, Values)> {
    let series = Arc::new(SeriesStore::open(dir).expect("a store"));
    let resolution = *series.resolutions().iter().find(|one| one.step_secs == step_secs).expect("the resolution");
    let mut steps: BTreeMap<i64, Values> = BTreeMap::new();
    let Some((first, last)) = series.extent(resolution).expect("read") else { return Vec::new() };
    for (id, family) in (0..).map(weir_series::FamilyId).zip(series.families()) {
        let catalogue = series.catalogue().expect("a catalogue");
        let fetched = series.fetch(id, None, resolution, first, last + 1).expect("fetched");
        for one in &fetched.series {
            for (step, point) in fetched.points(family, one, 0).enumerate() {
                let key = (family.name.clone(), catalogue.key(id, one.id).expect("a key").to_owned());
                let at = steps.entry(fetched.time_secs(step)).or_default();
                at.extend(point.map(|point| (key, point.sum)));
            }
        }
    }
    steps.into_iter().filter(|(_, values)| !values.is_empty()).collect()
}

fn options(step_secs: u32) -> StatisticsForwardOptions {
    let retry = Duration::from_millis(1);
    StatisticsForwardOptions { step_secs, retry_after: retry, retry_after_max: retry, ..Default::default() }
}

fn forward(
    dir: &Path,
    step_secs: u32,
    recorder: &mut Recorder,
) -> Result<StatisticsForwardCounts, StatisticsForwardError> {
    StatisticsForwarder::open(dir, options(step_secs), recorder)?.run(|_| false, true)
}

/// Steps without those that came again; fails when one came out of order, or again with other values.
fn each_once(taken: &[(i64, Values)]) -> Vec<(i64, Values)> {
    let mut steps: Vec<(i64, Values)> = Vec::new();
    for step in taken {
        match steps.last() {
            Some(last) if last.0 == step.0 => assert_eq!(last, step, "other values the second time"),
            Some(last) => assert!(last.0 < step.0, "{} after {}", step.0, last.0),
            None => {}
        }
        if steps.last() != Some(step) {
            steps.push(step.clone());
        }
    }
    steps
}

#[test]
fn every_step_that_does_not_change_any_more_is_handed_over_once() {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path(), 100_000, 0..700);
    for (step_secs, name) in [(1, "seconds"), (60, "minutes")] {
        let mut recorder = Recorder::default();
        let options = StatisticsForwardOptions { name: name.to_owned(), ..options(step_secs) };
        let forwarder = StatisticsForwarder::open(dir.path(), options, &mut recorder).expect("a forwarder");
        let counts = forwarder.run(|_| false, true).expect("forwarded");
        let mut wanted = stored(dir.path(), step_secs);
        if step_secs == 1 {
            // another part of the newest may come
            assert_eq!(wanted.pop().expect("a step").0, FIRST + 699);
        }
        assert_eq!(recorder.taken, wanted);
        assert_eq!((counts.steps_forwarded, counts.steps_lost, counts.failures), (wanted.len() as u64, 0, 0));
    }
}

#[test]
fn what_expired_before_it_was_forwarded_is_counted() {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path(), 600, 0..300);
    let mut recorder = Recorder::default();
    forward(dir.path(), 1, &mut recorder).expect("forwarded");
    write(dir.path(), 600, 300..5_000);
    let (oldest, _) = {
        let series = SeriesStore::open(dir.path()).expect("a store");
        series.extent(series.resolutions()[0]).expect("read").expect("steps")
    };
    let counts = forward(dir.path(), 1, &mut recorder).expect("forwarded");
    assert_eq!(counts.steps_lost, (oldest - (FIRST + 298) - 1) as u64);
    let times: Vec<i64> = recorder.taken.iter().map(|step| step.0).collect();
    assert!(times.into_iter().eq((FIRST..FIRST + 299).chain(oldest..FIRST + 4_999)));
}

#[test]
fn others_read_how_far_statistics_are_forwarded() {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path(), 100_000, 0..300);
    assert!(statistics_forwarders(dir.path()).expect("read").is_empty());
    forward(dir.path(), 1, &mut Recorder::default()).expect("forwarded");
    let state = dir.path().join("forward/statistics");
    let octets = std::fs::read(&state).expect("a state");
    std::fs::write(dir.path().join("forward/spoiled"), &octets[..octets.len() - 4]).expect("written");
    let state = || {
        let found = statistics_forwarders(dir.path()).expect("read");
        let [spoiled, own] = &found[..] else { panic!("two forwarders: {found:?}") };
        assert!(spoiled.name == "spoiled" && matches!(spoiled.state, Err(StateError::Damaged { .. })), "{spoiled:?}");
        assert_eq!(own.name, "statistics");
        *own.state.as_ref().expect("its state")
    };
    let lag = || {
        let series = SeriesStore::open(dir.path()).expect("a store");
        state().lag(&series).expect("read").map(|lag| (lag.steps_waiting, lag.secs))
    };
    // but for the newest step, of which another part may come
    assert_eq!((state().step_secs, state().through_secs), (1, Some(FIRST + 298)));
    assert_eq!((state().counts.steps_forwarded, lag()), (299, Some((0, 0))));
    write(dir.path(), 100_000, 300..500);
    assert_eq!(lag(), Some((200, 200)));
    forward(dir.path(), 1, &mut Recorder::default()).expect("forwarded");
    assert_eq!(lag(), Some((0, 0)));
}

/// A store that never took anything: what waits begins with the first step, not with the block that has it.
#[test]
fn what_waits_begins_with_the_first_step() {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path(), 100_000, 0..900);
    let steps = stored(dir.path(), 60).len() as u64;
    assert!((14..=15).contains(&steps), "{steps}");
    let mut away = Recorder { fails: vec![true; 1_000], ..Recorder::default() };
    let forwarder = StatisticsForwarder::open(dir.path(), options(60), &mut away).expect("a forwarder");
    let counts = forwarder.run(|counts| counts.failures > 0, true).expect("stopped");
    assert_eq!((counts.steps_forwarded, counts.steps_waiting), (0, steps));
    let found = statistics_forwarders(dir.path()).expect("read");
    let state = found[0].state.as_ref().expect("its state");
    let series = SeriesStore::open(dir.path()).expect("a store");
    let lag = state.lag(&series).expect("read").map(|lag| (lag.steps_waiting, lag.secs));
    assert_eq!(lag, Some((steps, steps * 60)));
}

/// A block whose end was cut off: its steps are counted as lost, those before it and behind it are not.
#[test]
fn a_damaged_block_stops_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path(), 100_000, 0..1_500);
    let mut wanted = stored(dir.path(), 1);
    wanted.pop();
    let files = std::fs::read_dir(dir.path().join("1s")).expect("a folder").map(|entry| entry.expect("a file").path());
    let mut blocks: Vec<_> = files.filter(|path| path.extension().is_some_and(|ending| ending == "block")).collect();
    blocks.sort();
    let damaged = &blocks[blocks.len() / 2];
    let octets = std::fs::read(damaged).expect("a block");
    std::fs::write(damaged, &octets[..octets.len() - 5]).expect("written");
    let mut recorder = Recorder::default();
    // whoever stops before the damage has not lost it, and finds it again
    for steps in [3, 6] {
        let forwarder = StatisticsForwarder::open(dir.path(), options(1), &mut recorder).expect("a forwarder");
        let counts = forwarder.run(|counts| counts.steps_forwarded >= steps, true).expect("stopped");
        assert_eq!((counts.steps_forwarded, counts.steps_lost), (steps, 0));
    }
    let counts = forward(dir.path(), 1, &mut recorder).expect("forwarded");
    assert!(counts.steps_lost > 0, "{counts:?}");
    assert_eq!(counts.steps_forwarded + counts.steps_lost, wanted.len() as u64);
    let gap = wanted.iter().position(|step| !recorder.taken.contains(step)).expect("a gap");
    wanted.drain(gap..gap + counts.steps_lost as usize);
    assert_eq!(recorder.taken, wanted);
}

/// A key whose line of the catalogue is damaged: its rows are missing, and the steps are forwarded, so they are not lost.
#[test]
fn a_lost_key_loses_no_step() {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path(), 100_000, 0..700);
    let mut wanted = stored(dir.path(), 1);
    wanted.pop();
    let lost = ("protocol".to_owned(), "key1".to_owned());
    assert!(wanted.iter_mut().all(|(_, values)| values.remove(&lost).is_some()));
    let path = dir.path().join("catalogue");
    let text = std::fs::read_to_string(&path).expect("a catalogue");
    let is_lost = |line: &&str| line.split('\t').nth(1) == Some("0") && line.ends_with("\tkey1");
    let line = text.lines().find(is_lost).expect("a line");
    std::fs::write(&path, text.replace(line, &format!("zz{}", &line[2..]))).expect("written");
    let mut recorder = Recorder::default();
    let counts = forward(dir.path(), 1, &mut recorder).expect("forwarded");
    assert_eq!((counts.steps_forwarded, counts.steps_lost), (wanted.len() as u64, 0));
    assert_eq!(recorder.taken, wanted);
}

#[test]
fn mistakes_are_errors_that_say_what_is_wrong() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut recorder = Recorder::default();
    let none = forward(dir.path(), 1, &mut recorder).expect_err("no store");
    assert!(none.to_string().starts_with("there is no store of statistics in"), "{none}");
    assert!(!dir.path().join("forward").exists());
    write(dir.path(), 1_000, 0..100);
    let text = |step_secs| {
        let error = forward(dir.path(), step_secs, &mut Recorder::default()).expect_err("an error");
        error.to_string()
    };
    assert_eq!(text(7), "the statistics have no steps of 7 s");
    forward(dir.path(), 1, &mut recorder).expect("forwarded");
    assert_eq!(text(60), "steps of 1 s are forwarded under the name 'statistics', not of 60 s");
    let state = dir.path().join("forward/statistics");
    let octets = std::fs::read(&state).expect("a state");
    std::fs::write(&state, &octets[..octets.len() - 4]).expect("written");
    assert!(matches!(forward(dir.path(), 1, &mut recorder), Err(StatisticsForwardError::State(_))));
}

/// A store while whose steps 4 to 6 come how far forwarding is cannot be written.
struct WithoutRoom<'a> {
    recorder: &'a mut Recorder,
    /// A folder where the file is made before it takes its place.
    in_the_way: &'a Path,
}

impl StatisticsStore for WithoutRoom<'_> {
    fn store(
        &mut self,
        step: &StatisticsStep,
        is_stopping: &mut dyn FnMut() -> bool,
    ) -> Result<StoredRows, StoreError> {
        match self.recorder.taken.len() {
            3 => std::fs::create_dir(self.in_the_way).expect("a folder"),
            6 => std::fs::remove_dir(self.in_the_way).expect("removed"),
            _ => {}
        }
        self.recorder.store(step, is_stopping)
    }
}

#[test]
fn a_position_that_cannot_be_kept_for_a_while_ends_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path(), 100_000, 0..600);
    let wanted = stored(dir.path(), 60);
    let (mut recorder, in_the_way) = (Recorder::default(), dir.path().join("forward/statistics.new"));
    let store = WithoutRoom { recorder: &mut recorder, in_the_way: &in_the_way };
    let forwarder = StatisticsForwarder::open(dir.path(), options(60), store).expect("a forwarder");
    let counts = forwarder.run(|_| false, true).expect("forwarded");
    assert_eq!((counts.steps_forwarded, counts.steps_lost), (wanted.len() as u64, 0));
    assert_eq!(recorder.taken, wanted);
    let again = forward(dir.path(), 60, &mut recorder).expect("forwarded");
    assert_eq!(again.steps_forwarded, counts.steps_forwarded, "what was kept is where it ended");
    assert_eq!(recorder.taken.len(), wanted.len(), "nothing comes again");
}

/// A store that works on a step until forwarding stops.
struct Slow(usize);

impl StatisticsStore for Slow {
    fn store(&mut self, _: &StatisticsStep, is_stopping: &mut dyn FnMut() -> bool) -> Result<StoredRows, StoreError> {
        self.0 += 1;
        while !is_stopping() {
            std::thread::yield_now();
        }
        Err(StoreError::Unavailable("not yet".to_owned()))
    }
}

#[test]
fn a_stop_in_the_middle_of_a_step_is_no_failure() {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path(), 100_000, 0..600);
    let (mut store, mut asked) = (Slow(0), 0);
    let forwarder = StatisticsForwarder::open(dir.path(), options(60), &mut store).expect("a forwarder");
    let is_stopping = |_: &StatisticsForwardCounts| {
        asked += 1;
        asked > 10
    };
    let counts = forwarder.run(is_stopping, true).expect("stopped");
    assert_eq!((counts.steps_forwarded, counts.failures, store.0), (0, 0, 1), "{counts:?}");
}

/// What happens to a forwarder.
#[derive(Debug, Clone)]
enum Event {
    /// So many seconds are written.
    Write(i64),
    /// So many seconds pass without a step.
    Gap(i64),
    /// It runs to the end; which of its calls of the store fail; and whether it is then killed before it could note the last
    /// step.
    Run { fails: Vec<bool>, killed: bool },
}

fn event() -> impl Strategy<Value = Event> {
    let run = (prop::collection::vec(prop::bool::weighted(0.3), 0..40), any::<bool>());
    prop_oneof![
        3 => (1_i64..400).prop_map(Event::Write),
        1 => (1_i64..900).prop_map(Event::Gap),
        3 => run.prop_map(|(fails, killed)| Event::Run { fails, killed }),
    ]
}

/// A store, and what was kept of the forwarder before the last step.
struct Watched<'a> {
    recorder: &'a mut Recorder,
    state: &'a Path,
    before: &'a mut Option<Vec<u8>>,
}

impl StatisticsStore for Watched<'_> {
    fn store(
        &mut self,
        step: &StatisticsStep,
        is_stopping: &mut dyn FnMut() -> bool,
    ) -> Result<StoredRows, StoreError> {
        *self.before = std::fs::read(self.state).ok();
        self.recorder.store(step, is_stopping)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn failures_and_kills_neither_lose_a_step_nor_bring_it_out_of_order(
        events in prop::collection::vec(event(), 1..12),
        step_secs in prop_oneof![Just(1_u32), Just(60)],
    ) {
        let dir = tempfile::tempdir().expect("a folder");
        let state = dir.path().join("forward/statistics");
        let (mut now, mut taken) = (0, Vec::new());
        write(dir.path(), 1_000_000, 0..1);
        let run = |fails: Vec<bool>, killed: bool, taken: &mut Vec<(i64, Values)>| {
            let mut recorder = Recorder { fails, ..Recorder::default() };
            let mut before = None;
            let store = Watched { recorder: &mut recorder, state: &state, before: &mut before };
            let forwarder = StatisticsForwarder::open(dir.path(), options(step_secs), store);
            forwarder.expect("a forwarder").run(|_| false, true).expect("forwarded");
            taken.append(&mut recorder.taken);
            if let Some(before) = before.filter(|_| killed) {
                std::fs::write(&state, before).expect("written");
            }
        };
        for event in events {
            match event {
                Event::Write(seconds) => {
                    write(dir.path(), 1_000_000, now + 1..=now + seconds);
                    now += seconds;
                }
                Event::Gap(seconds) => now += seconds,
                Event::Run { fails, killed } => run(fails, killed, &mut taken),
            }
        }
        run(Vec::new(), false, &mut taken);
        let mut wanted = stored(dir.path(), step_secs);
        if step_secs == 1 {
            wanted.pop();
        }
        prop_assert_eq!(each_once(&taken), wanted);
    }
}
