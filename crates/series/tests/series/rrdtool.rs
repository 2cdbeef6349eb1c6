//! Consolidation against rrdtool: the same values, the same coarser steps.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use weir_series::{
    Coverage, Family, FamilyRows, Metric, Point, Resolution, SeriesStore, StatisticsWriter, StepRows, StoreOptions,
};
use weir_testkit::program;

const FIRST: i64 = 1_600_000_200;
const STEP: i64 = 10;
const STEPS: i64 = 2_000;
/// What rrdtool consolidates by, and what we call it.
type Fold = (&'static str, fn(&Point) -> f64);
const FOLDS: [Fold; 4] = [
    ("AVERAGE", |point| point.sum as f64 / f64::from(point.count)),
    ("MIN", |point| point.min as f64),
    ("MAX", |point| point.max as f64),
    ("LAST", |point| point.last as f64),
];

/// The value of a step; `None` when it is not known. Some gaps are longer than a coarser step.
fn value(step: i64) -> Option<u64> {
    let dice = (step as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let is_gap = dice.is_multiple_of(7) || (300..420).contains(&(step % 700));
    (!is_gap).then_some(dice % 1_000_003)
}

/// Runs rrdtool with these commands and returns what it prints.
fn rrdtool(tool: &Path, folder: &Path, commands: &str) -> String {
    let mut child = Command::new(tool)
        .arg("-")
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("rrdtool");
    let mut input = child.stdin.take().expect("its input");
    let commands = commands.to_owned();
    let writing = std::thread::spawn(move || input.write_all(commands.as_bytes()));
    let output = child.wait_with_output().expect("its output");
    writing.join().expect("a thread").expect("written");
    String::from_utf8(output.stdout).expect("text")
}

/// What rrdtool has of a resolution, by the time at which a step begins.
fn consolidated(tool: &Path, folder: &Path, fold: &str, step_secs: i64) -> BTreeMap<i64, f64> {
    let (from, until) = (FIRST - FIRST % step_secs, FIRST + STEPS * STEP);
    let text = rrdtool(tool, folder, &format!("fetch v.rrd {fold} -r {step_secs} -s {from} -e {until}\n"));
    let line = |line: &str| {
        let (time, value) = line.split_once(": ")?;
        let value: f64 = value.trim().parse().ok()?;
        Some((time.trim().parse::<i64>().ok()? - step_secs, value))
    };
    text.lines().filter_map(line).filter(|(_, value)| !value.is_nan()).collect()
}

#[test]
fn coarser_steps_are_those_of_rrdtool() {
    let Some(tool) = program("rrdtool") else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let mut commands = format!("create v.rrd --start {FIRST} --step {STEP} DS:v:GAUGE:{STEP}:U:U");
    for (fold, _) in FOLDS {
        let _ = write!(commands, " RRA:{fold}:0.999:6:1000 RRA:{fold}:0.999:60:1000");
    }
    for step in 0..STEPS {
        let time = FIRST + (step + 1) * STEP;
        let value = value(step).map_or("U".to_owned(), |value| value.to_string());
        let _ = write!(commands, "\nupdate v.rrd {time}:{value}");
    }
    rrdtool(&tool, dir.path(), &(commands + "\n"));

    let resolutions = [10, 60, 600].map(|step_secs| Resolution { step_secs, keep_secs: 1_000_000 });
    let options = StoreOptions { resolutions: resolutions.to_vec(), ..StoreOptions::default() };
    let metrics = vec![Metric::gauge("v")];
    let family = Family { name: "one".to_owned(), coverage: Coverage::Largest, metrics };
    let store = dir.path().join("store");
    let mut writer = StatisticsWriter::open(&store, &options, &[family]).expect("a writer");
    let one = writer.family("one").expect("the family");
    let id = writer.series(one, "v");
    for (step, value) in (0..STEPS).filter_map(|step| Some((step, value(step)?))) {
        let rows = FamilyRows { ids: vec![id.0], columns: vec![vec![value]], ..FamilyRows::default() };
        crate::write_step(&mut writer, FIRST + step * STEP, StepRows { families: vec![(one, rows)] });
    }
    writer.close().expect("closed");

    let store = SeriesStore::open(&store).expect("a store");
    let (_, family) = store.family("one").expect("the family");
    for resolution in [resolutions[1], resolutions[2]] {
        let step_secs = i64::from(resolution.step_secs);
        // the step that is not over is in neither
        let until = (FIRST + (STEPS - 1) * STEP) / step_secs * step_secs;
        let fetched = store.fetch(one, None, resolution, FIRST - step_secs, until).expect("fetched");
        for (fold, of) in FOLDS {
            let points = fetched.points(family, &fetched.series[0], 0).enumerate();
            let mut found: BTreeMap<_, _> =
                points.filter_map(|(step, point)| Some((fetched.time_secs(step), of(&point?)))).collect();
            // the last value of a step whose end is not known: rrdtool knows none, the store has the last that is known
            let knows_end = |time: &i64| value((time + step_secs - FIRST) / STEP - 1).is_some();
            found.retain(|time, _| fold != "LAST" || knows_end(time));
            let mut wanted = consolidated(&tool, dir.path(), fold, step_secs);
            wanted.retain(|time, _| *time < until);
            assert!(wanted.len() > 20, "{fold}: {} steps of {step_secs} s", wanted.len());
            assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>(), "{fold}");
            for (time, value) in wanted {
                let difference = (found[&time] - value).abs();
                assert!(difference <= value.abs() * 1e-9, "{fold} at {time}: {} is not {value}", found[&time]);
            }
        }
    }
}
