//! What a step costs: `step_speed FOLDER SERIES STEPS [STEP_SECS]` writes steps of one counter for each series into a new
//! store (60 s, 5 min and 1 h by default) and prints how long each took, then reads one series and all of a step.
//!
//! With the resolutions as they are, a year of steps is only a matter of STEPS. With `STEP_SPEED_LINES` in the environment it
//! waits for a line of its input before each step and prints the microseconds that it took, for `bench/statistics/run`.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use weir_series::{Family, FamilyRows, Resolution, SeriesId, SeriesStore, StatisticsWriter, StepRows, StoreOptions};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, series, steps] = &arguments[..3] else { panic!("usage: step_speed FOLDER SERIES STEPS") };
    let (series, steps): (u32, usize) = (series.parse().expect("series"), steps.parse().expect("steps"));
    let step_secs: u32 = arguments.get(3).map_or(60, |secs| secs.parse().expect("seconds"));
    let day = 86_400;
    let of = |step_secs, keep_secs| Resolution { step_secs, keep_secs };
    let coarser = [of(300, 400 * day), of(3_600, 2_000 * day)].into_iter().filter(|other| other.step_secs > step_secs);
    let resolutions: Vec<_> = std::iter::once(of(step_secs, 400 * day)).chain(coarser).collect();
    let options = StoreOptions { resolutions, ..StoreOptions::default() };
    let folder = Path::new(folder);
    let families = [Family::counters("host", &["bytes"])];
    let mut writer = StatisticsWriter::open(folder, &options, &families).expect("a writer");
    let family = writer.family("host").expect("the family");
    for id in 0..series {
        writer.series(family, &format!("10.{}.{}.{}", id >> 16 & 255, id >> 8 & 255, id & 255));
    }
    let first = 1_700_000_000 / 3_600 * 3_600;
    let mut state = 1_u64;
    let lines = std::env::var_os("STEP_SPEED_LINES").is_some();
    let mut taken = Vec::with_capacity(steps);
    for step in 0..steps {
        let ids: Vec<u32> = (0..series).collect();
        let values = ids.iter().map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 44) >> (state & 15)
        });
        let values = values.collect();
        let rows =
            StepRows { families: vec![(family, FamilyRows { ids, columns: vec![values], ..FamilyRows::default() })] };
        if lines {
            let _ = std::io::stdin().read_line(&mut String::new());
        }
        let begun = Instant::now();
        writer.write_step(first + step as i64 * i64::from(step_secs), rows).expect("written");
        taken.push(begun.elapsed());
        if lines {
            println!("{}", begun.elapsed().as_micros());
        }
    }
    report(&taken);
    let begun = Instant::now();
    let counts = writer.close().expect("closed");
    println!("closing took {:.1} ms; {counts:?}", ms(begun.elapsed()));
    read(folder, series, first, steps);
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn report(taken: &[Duration]) {
    let quantile = |taken: &[Duration], share: f64| {
        let mut sorted = taken.to_vec();
        sorted.sort();
        ms(sorted[((sorted.len() - 1) as f64 * share) as usize])
    };
    let tenth = (taken.len() / 10).max(1);
    for (at, part) in taken.chunks(tenth).enumerate() {
        let [median, high, most] = [0.5, 0.99, 1.0].map(|share| quantile(part, share));
        println!("steps from {:>7}: median {median:8.3} ms, 99th {high:8.3} ms, longest {most:8.3} ms", at * tenth);
    }
    let total: Duration = taken.iter().sum();
    println!("all: median {:.3} ms, mean {:.3} ms", quantile(taken, 0.5), ms(total) / taken.len() as f64);
}

fn read(folder: &Path, series: u32, first: i64, steps: usize) {
    let store = SeriesStore::open(folder).expect("a store");
    let (family, spec) = store.family("host").expect("the family");
    for &resolution in store.resolutions() {
        let step_secs = i64::from(store.resolutions()[0].step_secs);
        let (from, until) = (first, first + steps as i64 * step_secs);
        let ids = [SeriesId(series / 2)];
        let mut taken = Vec::new();
        let mut points = 0;
        for _ in 0..5 {
            let begun = Instant::now();
            let fetched = store.fetch(family, Some(&ids), resolution, from, until).expect("fetched");
            points = fetched.series.first().map_or(0, |one| fetched.points(spec, one, 0).flatten().count());
            taken.push(begun.elapsed());
        }
        taken.sort();
        println!("one series, {} s: {points} points in {:.2} ms", resolution.step_secs, ms(taken[2]));
    }
    let finest = store.resolutions()[0];
    let begun = Instant::now();
    let all = store.fetch(family, None, finest, first, first + i64::from(finest.step_secs)).expect("fetched");
    println!("one step of all {} series: {:.2} ms", black_box(all).series.len(), ms(begun.elapsed()));
}
