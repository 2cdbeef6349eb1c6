//! A process that is killed leaves half a write, and coarser steps that it has not made.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use weir_series::{FamilyRows, SeriesStore, StatisticsWriter, StepRows};

use super::model::{Values, compare, families, options};

pub(crate) const FIRST: i64 = 1_000_000;
pub(crate) const STEPS: i64 = 700;

/// Writes steps in which the values follow from the time.
fn write(writer: &mut StatisticsWriter, times: impl Iterator<Item = i64>) {
    for time in times {
        let mut step = StepRows::default();
        for name in ["exporter", "host"] {
            let family = writer.family(name).expect("a family");
            let mut rows = FamilyRows::new(2);
            for (id, value) in values_at(time) {
                let id = writer.series(family, &id.to_string());
                rows.ids.push(id.0);
                (0..2).for_each(|metric| rows.columns[metric].push(value[metric]));
            }
            step.families.push((family, rows.sorted()));
        }
        crate::write_step(writer, time, step);
    }
}

pub(crate) fn values_at(time: i64) -> BTreeMap<u32, [u64; 2]> {
    let time = time as u64;
    (0..12)
        .filter(|id| (time / 2).is_multiple_of(id + 1))
        .map(|id| (id as u32, [time * 7 % (id + 90), time % 13]))
        .collect()
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).map(drop).expect("copied");
        }
    }
}

/// The newest file of steps of a resolution.
pub(crate) fn newest(dir: &Path, resolution: &str) -> Option<PathBuf> {
    let files = fs::read_dir(dir.join(resolution)).expect("a folder").map(|entry| entry.expect("an entry").path());
    files.filter(|path| path.extension().is_some_and(|ending| ending == "steps")).max()
}

/// Compares the steps of [`STEPS`] with the values that they were written with.
pub(crate) fn compare_first(dir: &Path) {
    let times = (0..STEPS).map(|step| FIRST + step * 2);
    let values: BTreeMap<_, _> = times.map(|time| (time, values_at(time))).collect();
    compare(dir, &vec![values.clone(), values], FIRST + (STEPS - 1) * 2).expect("the values of the model");
}

pub(crate) fn cut(path: &Path, octets: u64) {
    let file = OpenOptions::new().write(true).open(path).expect("a file");
    let len = file.metadata().expect("its length").len();
    file.set_len(len.saturating_sub(octets)).expect("shortened");
}

#[test]
fn whatever_is_missing_at_the_end_of_files_the_rest_is_right() {
    let whole = tempfile::tempdir().expect("a folder");
    let mut writer = StatisticsWriter::open(whole.path(), &options(), &families()).expect("a writer");
    write(&mut writer, (0..STEPS).map(|step| FIRST + step * 2));
    writer.close().expect("closed");
    for (round, finest) in [0, 1, 23, 24, 100, 333, 334, 1_000, 4_000, 20_000].into_iter().enumerate() {
        let dir = tempfile::tempdir().expect("a folder");
        copy(whole.path(), dir.path());
        cut(&newest(dir.path(), "2s").expect("a file"), finest);
        // coarser steps are written later than finer ones, so at least as many are missing
        cut(&newest(dir.path(), "10s").expect("a file"), finest + round as u64 * 97);
        cut(&newest(dir.path(), "60s").expect("a file"), finest + round as u64 * 131);
        let store = SeriesStore::open(dir.path()).expect("a store");
        let (_, last) = store.extent(store.resolutions()[0]).expect("read").expect("steps");
        assert!(
            last >= FIRST + (STEPS - 1) * 2 - 2 * (1 + finest as i64 / 100),
            "{finest} octets cost all steps from {last} on"
        );
        let mut writer = StatisticsWriter::open(dir.path(), &options(), &families()).expect("a writer");
        assert_eq!(writer.last_secs(), Some(last));
        let now = last + 400;
        write(&mut writer, (last / 2 + 10..=now / 2).map(|step| step * 2));
        writer.close().expect("closed");
        let times = (FIRST..=last).chain(last + 20..=now).filter(|time| time % 2 == 0);
        let values: BTreeMap<_, _> = times.map(|time| (time, values_at(time))).collect();
        let values: Values = vec![values.clone(), values];
        compare(dir.path(), &values, now).expect("the values of the model");
    }
}
