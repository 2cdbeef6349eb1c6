//! What a store promises beside its values.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use weir_series::{
    Family, FamilyRows, Resolution, RowSelection, SeriesError, SeriesStore, StatisticsWriter, StepRows, StoreOptions,
    StoreSize,
};

fn options(resolutions: &[(u32, u64)]) -> StoreOptions {
    let of = |&(step_secs, keep_secs)| Resolution { step_secs, keep_secs };
    StoreOptions { resolutions: resolutions.iter().map(of).collect(), ..StoreOptions::default() }
}

fn one(writer: &mut StatisticsWriter, key: &str, value: u64) -> StepRows {
    let family = writer.family("total").expect("a family");
    let id = writer.series(family, key);
    let rows = FamilyRows { ids: vec![id.0], columns: vec![vec![value]], ..FamilyRows::default() };
    StepRows { families: vec![(family, rows)] }
}

fn open(dir: &Path, resolutions: &[(u32, u64)]) -> Result<StatisticsWriter, SeriesError> {
    StatisticsWriter::open(dir, &options(resolutions), &[Family::counters("total", &["bytes"])])
}

#[test]
fn old_blocks_are_removed_and_coarser_steps_stay() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut writer = open(dir.path(), &[(1, 600), (60, 1_000_000)]).expect("a writer");
    for time in 0..5_000 {
        let step = one(&mut writer, "all", 1);
        crate::write_step(&mut writer, time, step);
    }
    let counts = writer.close().expect("closed");
    assert_eq!((counts.steps, counts.steps_consolidated), (5_000, 83));
    let store = SeriesStore::open(dir.path()).expect("a store");
    let [fine, coarse] = [store.resolutions()[0], store.resolutions()[1]];
    let (first, last) = store.extent(fine).expect("read").expect("steps");
    // looked at when a block of 288 steps begins, and the block that the limit is in stays
    assert_eq!((first, last), (14 * 288, 4_999));
    assert!(first <= 4_999 - 600 && first > 4_999 - 600 - 2 * 288);
    assert_eq!(store.extent(coarse).expect("read"), Some((0, 82 * 60)));
    assert_eq!(store.resolution_for(4_900, 4_999), fine);
    assert_eq!(store.resolution_for(100, 4_999), coarse);
    let (family, spec) = store.family("total").expect("a family");
    let fetched = store.fetch(family, None, coarse, 0, 5_000).expect("fetched");
    let sums = fetched.points(spec, &fetched.series[0], 0).flatten().map(|point| point.sum).sum::<u64>();
    assert_eq!(sums, 83 * 60);
}

/// A time that begins with a block and ends at once has no steps: the block before it is not asked for.
#[test]
fn no_time_at_all_has_no_steps() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut writer = open(dir.path(), &[(1, 100_000)]).expect("a writer");
    for time in 0..600 {
        let step = one(&mut writer, "all", 1);
        crate::write_step(&mut writer, time, step);
    }
    writer.close().expect("closed");
    let store = SeriesStore::open(dir.path()).expect("a store");
    let (family, _) = store.family("total").expect("a family");
    for (from, until) in [(288, 288), (576, 576), (300, 300), (576, 288)] {
        let fetched = store.fetch(family, None, store.resolutions()[0], from, until).expect("fetched");
        assert!(fetched.known.is_empty() && fetched.series.is_empty(), "{from} to {until}: {fetched:?}");
    }
}

#[test]
fn a_limit_by_size_drops_the_oldest_of_the_finest_steps_first() {
    let write = |dir: &Path, octets_max: Option<u64>| {
        let options = StoreOptions { octets_max, ..options(&[(1, 1_000_000), (2, 1_000_000)]) };
        let families = [Family::counters("total", &["bytes"])];
        let mut writer = StatisticsWriter::open(dir, &options, &families).expect("a writer");
        // the last one begins a block, which is when it is looked at
        for time in 0..=2_880 {
            let step = one(&mut writer, "all", 1 + time as u64 % 7);
            crate::write_step(&mut writer, time, step);
        }
        let counts = writer.close().expect("closed");
        let size = StoreSize::of(dir).expect("read").expect("a store");
        let files = |folder: &str| {
            let entries = fs::read_dir(dir.join(folder)).expect("a folder");
            entries.map(|entry| entry.expect("a file").metadata().expect("its size")).filter(fs::Metadata::is_file)
        };
        let octets = ["", "1s", "2s"].map(|folder| files(folder).map(|file| file.len()).sum::<u64>());
        assert_eq!(size.octets, octets.iter().sum::<u64>());
        assert_eq!(size.resolutions.iter().map(|of| of.octets).collect::<Vec<_>>(), octets[1..]);
        (counts.blocks_dropped, size)
    };
    let dir = tempfile::tempdir().expect("a folder");
    assert_eq!(StoreSize::of(dir.path()).expect("read"), None);
    let (dropped, all) = write(dir.path(), None);
    assert_eq!((dropped, all.resolutions[0].blocks, all.resolutions[1].blocks), (0, 11, 5));
    let dir = tempfile::tempdir().expect("a folder");
    let octets_max = all.octets - all.resolutions[0].octets / 2;
    let (dropped, size) = write(dir.path(), Some(octets_max));
    assert!(dropped > 3 && size.resolutions[0].blocks == 11 - dropped, "{dropped} of {size:?}");
    assert!(size.octets <= octets_max, "{size:?} of {octets_max}");
    let store = SeriesStore::open(dir.path()).expect("a store");
    let [fine, coarse] = [store.resolutions()[0], store.resolutions()[1]];
    assert_eq!(store.extent(fine).expect("read"), Some((dropped as i64 * 288, 2_880)));
    assert_eq!(store.extent(coarse).expect("read"), Some((0, 2_878)), "coarser steps stay");
    assert_eq!(store.resolution_for(2_800, 2_880), fine);
    assert_eq!(store.resolution_for(100, 2_880), coarse, "of which the seconds are gone");
    // what cannot be enough takes nothing but the finest steps
    let dir = tempfile::tempdir().expect("a folder");
    let (_, size) = write(dir.path(), Some(1));
    assert_eq!((size.resolutions[0].blocks, size.resolutions[1].blocks), (2, 5));
}

/// After a restart the open coarser step is made of finer ones again, however little room there is.
#[test]
fn a_limit_by_size_leaves_what_an_open_coarser_step_is_made_of() {
    let dir = tempfile::tempdir().expect("a folder");
    let options = StoreOptions { octets_max: Some(1), ..options(&[(1, 1_000_000), (1_000, 1_000_000)]) };
    let families = [Family::counters("total", &["bytes"])];
    // the first one ends behind the begin of a block, within the step from 2,000 on
    for times in [0..=2_890, 2_891..=3_010] {
        let mut writer = StatisticsWriter::open(dir.path(), &options, &families).expect("a writer");
        for time in times {
            let step = one(&mut writer, "all", 1);
            crate::write_step(&mut writer, time, step);
        }
        writer.close().expect("closed");
    }
    let store = SeriesStore::open(dir.path()).expect("a store");
    let [fine, coarse] = [store.resolutions()[0], store.resolutions()[1]];
    assert!(store.extent(fine).expect("read").is_some_and(|(first, _)| first > 0), "some are gone");
    let (family, spec) = store.family("total").expect("a family");
    let fetched = store.fetch(family, None, coarse, 2_000, 3_000).expect("fetched");
    let sums: Vec<_> = fetched.points(spec, &fetched.series[0], 0).flatten().map(|point| point.sum).collect();
    assert_eq!(sums, [1_000]);
}

#[test]
fn mistakes_are_errors_that_say_what_is_wrong() {
    let dir = tempfile::tempdir().expect("a folder");
    let none = SeriesStore::open(dir.path()).expect_err("no store").to_string();
    assert_eq!(none, format!("there is no store of statistics in {}", dir.path().display()));
    let text = |resolutions: &[(u32, u64)]| open(dir.path(), resolutions).expect_err("an error").to_string();
    assert_eq!(text(&[(7, 100), (10, 100)]), "wrong resolutions: 10 s is no multiple of 7 s");
    assert_eq!(
        text(&[(5, 9), (10, 100)]),
        "wrong resolutions: steps of 5 s are kept for 9 s, and one of 10 s is made of them"
    );
    assert_eq!(text(&[]), "wrong resolutions: there must be a step, and none of 0 s");
    let mut writer = open(dir.path(), &[(5, 100)]).expect("a writer");
    assert!(matches!(open(dir.path(), &[(5, 100)]), Err(SeriesError::Locked(_))));
    let step = one(&mut writer, "all", 1);
    crate::write_step(&mut writer, 100, step.clone());
    assert!(matches!(writer.write_step(99, step), Err(SeriesError::StepInThePast { time_secs: 95, last_secs: 100 })));
    writer.close().expect("closed");
    assert_eq!(text(&[(10, 100)]), "the store has the steps 5 s, not 10 s");
    let other = StatisticsWriter::open(dir.path(), &options(&[(5, 100)]), &[Family::counters("total", &["flows"])]);
    assert_eq!(other.expect_err("an error").to_string(), "the store has a family 'total' with other metrics");
    let description = dir.path().join("store.toml");
    let newer = fs::read_to_string(&description).expect("text").replace("version = 3", "version = 9");
    fs::write(&description, newer).expect("written");
    assert!(matches!(SeriesStore::open(dir.path()), Err(SeriesError::Version { found: 9, known: 3, .. })));
}

#[test]
fn a_damaged_block_is_a_gap_that_is_said_and_damaged_steps_are_counted() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut writer = open(dir.path(), &[(1, 10_000)]).expect("a writer");
    for time in 0..400 {
        let step = one(&mut writer, "all", time as u64);
        crate::write_step(&mut writer, time, step);
    }
    writer.close().expect("closed");
    let flip = |path: &Path, at: usize| {
        let mut octets = fs::read(path).expect("a file");
        octets[at] ^= 1;
        fs::write(path, octets).expect("written");
    };
    flip(&dir.path().join("1s/0.block"), 20);
    let store = SeriesStore::open(dir.path()).expect("a store");
    let (family, spec) = store.family("total").expect("a family");
    let fetched = store.fetch(family, None, store.resolutions()[0], 0, 300).expect("fetched");
    let [damage] = &fetched.damaged[..] else { panic!("one file is damaged: {:?}", fetched.damaged) };
    assert!(damage.what.ends_with("1s/0.block is damaged: a series of it has a wrong checksum"), "{damage}");
    assert!(damage.times_secs.iter().copied().eq(0..288_i64), "{damage:?}");
    let points: Vec<_> =
        fetched.points(spec, &fetched.series[0], 0).map(|point| point.map(|point| point.sum)).collect();
    assert!(points.into_iter().eq((0..300_u64).map(|time| (time >= 288).then_some(time))));
    let steps = dir.path().join("1s/1.steps");
    let len = fs::metadata(&steps).expect("a file").len() as usize;
    flip(&steps, len - 1);
    let writer = open(dir.path(), &[(1, 10_000)]).expect("a writer");
    assert_eq!((writer.last_secs(), writer.counts().steps_damaged), (Some(398), 1));
}

#[test]
fn a_store_is_read_while_it_is_written() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut writer = open(dir.path(), &[(1, 100_000), (60, 100_000)]).expect("a writer");
    let store = SeriesStore::open(dir.path()).expect("a store");
    let (family, spec) = store.family("total").expect("a family");
    for time in 0..2_000 {
        let step = one(&mut writer, "all", 3);
        crate::write_step(&mut writer, time, step);
        if time % 37 == 0 {
            let fetched = store.fetch(family, None, store.resolutions()[0], 0, 3_000).expect("fetched");
            let values: Vec<_> = fetched.points(spec, &fetched.series[0], 0).flatten().map(|point| point.sum).collect();
            assert_eq!(values, vec![3; time as usize + 1]);
        }
    }
}

#[test]
fn series_that_are_in_no_step_are_forgotten() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut writer = open(dir.path(), &[(1, 10)]).expect("a writer");
    for time in 0..1_000 {
        let step = one(&mut writer, &format!("key {time}"), 1);
        crate::write_step(&mut writer, time, step);
    }
    assert_eq!(writer.catalogue().len(), 1_000);
    let writer_counts = writer.close().expect("closed");
    assert_eq!(writer_counts.blocks, 3);
    let mut writer = open(dir.path(), &[(1, 10)]).expect("a writer");
    assert_eq!(writer.forget_unused().expect("written"), 576);
    assert_eq!(writer.catalogue().len(), 424);
    // the number of a series that was forgotten is not given to another one
    let family = writer.family("total").expect("a family");
    assert_eq!(writer.series(family, "key 3").0, 1_000);
}

#[test]
fn a_family_is_unknown_while_it_is_not_counted() {
    let dir = tempfile::tempdir().expect("a folder");
    let all = ["total", "protocol"].map(|name| Family::counters(name, &["bytes"]));
    let mut time = 1_000;
    for families in [&all[..1], &all[..], &all[1..], &all[..]] {
        let mut writer = StatisticsWriter::open(dir.path(), &options(&[(1, 10_000)]), families).expect("a writer");
        for _ in 0..3 {
            let rows = families.iter().map(|family| {
                let id = writer.family(&family.name).expect("the family");
                let key = writer.series(id, "key");
                (id, FamilyRows { ids: vec![key.0], columns: vec![vec![1]], ..FamilyRows::default() })
            });
            let mut rows: Vec<_> = rows.collect();
            // in every other step there is nothing
            rows.retain(|_| time % 2 == 0);
            crate::write_step(&mut writer, time, StepRows { families: rows });
            time += 1;
        }
        writer.close().expect("closed");
    }
    let store = SeriesStore::open(dir.path()).expect("a store");
    for (name, wanted) in [
        ("total", [Some(1), Some(0), Some(1), Some(0), Some(1), Some(0), None, None, None, Some(0), Some(1), Some(0)]),
        (
            "protocol",
            [None, None, None, Some(0), Some(1), Some(0), Some(1), Some(0), Some(1), Some(0), Some(1), Some(0)],
        ),
    ] {
        let (id, spec) = store.family(name).expect("the family");
        let fetched = store.fetch(id, None, store.resolutions()[0], 1_000, 1_012).expect("fetched");
        let points = fetched.points(spec, &fetched.series[0], 0);
        let found: Vec<_> = points.map(|point| point.map(|point| point.sum)).collect();
        assert_eq!(found, wanted, "{name}");
    }
}

/// What a coarser step has of a family is there also when it was counted at neither end of it.
#[test]
fn a_family_that_was_counted_within_a_step_has_its_values() {
    let dir = tempfile::tempdir().expect("a folder");
    let all = ["total", "protocol"].map(|name| Family::counters(name, &["bytes"]));
    for (families, times) in [(&all[..1], 1_200..1_210), (&all[..], 1_210..1_230), (&all[..1], 1_230..1_330)] {
        let steps = options(&[(1, 10_000), (60, 100_000)]);
        let mut writer = StatisticsWriter::open(dir.path(), &steps, families).expect("a writer");
        for time in times {
            let rows = families.iter().map(|family| {
                let id = writer.family(&family.name).expect("the family");
                let key = writer.series(id, "key");
                (id, FamilyRows { ids: vec![key.0], columns: vec![vec![1]], ..FamilyRows::default() })
            });
            let step = StepRows { families: rows.collect() };
            crate::write_step(&mut writer, time, step);
        }
        writer.close().expect("closed");
    }
    let store = SeriesStore::open(dir.path()).expect("a store");
    let (family, spec) = store.family("protocol").expect("the family");
    let fetched = store.fetch(family, None, store.resolutions()[1], 1_200, 1_320).expect("fetched");
    let points = fetched.points(spec, &fetched.series[0], 0);
    let found: Vec<_> = points.map(|point| point.map(|point| point.sum)).collect();
    assert_eq!(found, [Some(20), None]);
}

#[test]
fn keys_and_numbers_survive_damage_of_the_catalogue() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut writer = open(dir.path(), &[(1, 1_000), (60, 10_000)]).expect("a writer");
    for key in ["a", "b", "c"] {
        let step = one(&mut writer, key, 1);
        let next_secs = writer.last_secs().map_or(0, |last| last + 1);
        crate::write_step(&mut writer, next_secs, step);
    }
    writer.close().expect("closed");
    let path = dir.path().join("catalogue");
    let text = fs::read_to_string(&path).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    // the key of the middle line is damaged, and the last line was lost with the power
    fs::write(&path, format!("{}\n{}\n", lines[0], lines[1].replace('b', "x"))).expect("written");
    let mut writer = open(dir.path(), &[(1, 1_000), (60, 10_000)]).expect("a writer");
    let family = writer.family("total").expect("the family");
    assert_eq!(writer.series(family, "a").0, 0);
    assert_eq!(writer.series(family, "d").0, 3, "2 is in a step");
}

/// The line of a key that a loss of power took: the key gets a number again, and was not zero in the step that had it.
#[test]
fn a_step_whose_key_was_lost_is_a_gap() {
    let dir = tempfile::tempdir().expect("a folder");
    let steps = [(1, 1_000), (60, 10_000)];
    let mut writer = open(dir.path(), &steps).expect("a writer");
    for (time, key) in (0..).zip(["a", "b", "c"]) {
        let step = one(&mut writer, key, 1);
        crate::write_step(&mut writer, time, step);
    }
    writer.close().expect("closed");
    let path = dir.path().join("catalogue");
    let text = fs::read_to_string(&path).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    fs::write(&path, format!("{}\n{}\n", lines[0], lines[1])).expect("written");
    let mut writer = open(dir.path(), &steps).expect("a writer");
    assert_eq!(writer.last_secs(), Some(1));
    let step = one(&mut writer, "c", 5);
    crate::write_step(&mut writer, 3, step);
    assert!(writer.close().expect("closed").octets_cut > 0);
    let store = SeriesStore::open(dir.path()).expect("a store");
    let (family, spec) = store.family("total").expect("the family");
    let number = store.catalogue().expect("a catalogue").id(family, "c").expect("a series");
    let fetched = store.fetch(family, Some(&[number]), store.resolutions()[0], 0, 4).expect("fetched");
    let points = fetched.points(spec, &fetched.series[0], 0);
    let found: Vec<_> = points.map(|point| point.map(|point| point.sum)).collect();
    assert_eq!(found, [Some(0), Some(0), None, Some(5)]);
}

/// A block that is damaged hides no other one.
#[test]
fn a_damaged_block_does_not_hide_from_when_until_when_there_are_steps() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut writer = open(dir.path(), &[(1, 1_000_000)]).expect("a writer");
    for time in 0..1_000 {
        let step = one(&mut writer, "all", 1);
        crate::write_step(&mut writer, time, step);
    }
    writer.close().expect("closed");
    let block = dir.path().join("1s/1.block");
    let octets = fs::read(&block).expect("a block");
    fs::write(&block, &octets[..octets.len() - 5]).expect("written");
    let store = SeriesStore::open(dir.path()).expect("a store");
    let (resolution, (family, spec)) = (store.resolutions()[0], store.family("total").expect("a family"));
    assert_eq!(store.extent(resolution).expect("read"), Some((0, 999)));
    let fetched = store.fetch(family, None, resolution, 700, 1_000).expect("fetched");
    assert_eq!(fetched.points(spec, &fetched.series[0], 0).flatten().count(), 300);
    let fetched = store.fetch(family, None, resolution, 0, 1_000).expect("fetched");
    assert!(fetched.damaged.iter().all(|damage| damage.what.contains("1.block is damaged")), "{:?}", fetched.damaged);
    assert_eq!(fetched.points(spec, &fetched.series[0], 0).flatten().count(), 1_000 - 288);
    let all = RowSelection { resolution, families: None, keys: None, from_secs: 0, until_secs: 1_000 };
    let (rows, damages): (Vec<_>, Vec<_>) = Arc::new(store).rows(&all).expect("rows").partition(Result::is_ok);
    assert_eq!(rows.into_iter().flatten().map(|batch| batch.num_rows()).sum::<usize>(), 1_000 - 288);
    assert_eq!(damages.len(), 1, "{damages:?}");
    let store = SeriesStore::open(dir.path()).expect("a store");
    for block in ["0.block", "2.block", "3.steps"] {
        fs::write(dir.path().join("1s").join(block), "nothing").expect("written");
    }
    assert!(store.extent(resolution).is_err() || store.extent(resolution).expect("read").is_none());
}
