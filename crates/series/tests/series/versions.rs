//! Stores of earlier versions are read as the programs of then read them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::TimestampMillisecondType;
use arrow::util::display::array_value_to_string;
use weir_series::{FamilyId, FamilyRows, RowSelection, SeriesStore, StatisticsWriter, StepRows, StoreOptions};

use super::killed::copy;

/// 2026-01-01, before which the expected rows have nothing.
const FROM_SECS: i64 = 1_767_225_600;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/version2")
}

/// A row as text, with these columns.
fn line(batch: &RecordBatch, row: usize, columns: &[&str]) -> String {
    let cell = |name: &&str| {
        let column = batch.column_by_name(name).expect("a column");
        match *name {
            "time" => (column.as_primitive::<TimestampMillisecondType>().value(row) / 1_000).to_string(),
            _ => array_value_to_string(column, row).expect("text"),
        }
    };
    columns.iter().map(cell).collect::<Vec<_>>().join(",")
}

/// Compares the rows with those that `weir series fetch` printed of the same store before there was the third version, with times
/// in seconds: distinct things and quantiles are among them. Quantiles that were above the largest value are that value.
fn compare(dir: &Path) {
    let store = Arc::new(SeriesStore::open(dir).expect("a store"));
    for (level, name) in [(0, "2s-total"), (0, "2s-src_addr"), (1, "10s-total"), (2, "1m-total"), (2, "1m-src_addr")] {
        let text = fs::read_to_string(fixture().join(format!("expected/{name}.csv"))).expect("the rows of then");
        let (header, wanted) = text.split_once('\n').expect("a header");
        let columns: Vec<&str> = header.split(',').collect();
        let wanted: Vec<&str> = wanted.lines().collect();
        let time = |line: &&str| line.split_once(',').and_then(|(time, _)| time.parse::<i64>().ok());
        let until_secs = wanted.iter().filter_map(time).max().expect("a time") + 1;
        let family = name.split_once('-').expect("a family").1.to_owned();
        let resolution = store.resolutions()[level];
        let families = Some(vec![family]);
        let selection = RowSelection { resolution, families, keys: None, from_secs: FROM_SECS, until_secs };
        let mut found = Vec::new();
        for batch in store.rows(&selection).expect("rows") {
            let batch = batch.expect("a batch");
            found.extend((0..batch.num_rows()).map(|row| line(&batch, row, &columns)));
        }
        found.sort_unstable();
        assert_eq!(found, wanted, "{name}");
    }
}

#[test]
fn a_store_of_the_second_version_is_read_and_gone_on_with() {
    let dir = tempfile::tempdir().expect("a folder");
    copy(&fixture(), dir.path());
    compare(dir.path());
    let store = SeriesStore::open(dir.path()).expect("a store");
    let options = StoreOptions { resolutions: store.resolutions().to_vec(), ..StoreOptions::default() };
    let (_, last) = store.extent(store.resolutions()[0]).expect("read").expect("steps");
    // the next step is in the same file as the last ones, and the one of an hour later makes it a block
    for time in [last + 2, last + 3_600] {
        let mut writer = StatisticsWriter::open(dir.path(), &options, store.families()).expect("a writer");
        let total = FamilyId(0);
        let series = writer.series(total, "total");
        let mut rows = FamilyRows::new(3);
        rows.push(series, &[1, 2, 3]);
        crate::write_step(&mut writer, time, StepRows { families: vec![(total, rows)] });
        let counts = writer.close().expect("closed");
        assert_eq!((counts.steps_damaged, counts.files_damaged, counts.octets_cut), (0, 0, 0));
        compare(dir.path());
        let store = SeriesStore::open(dir.path()).expect("a store");
        let fetched = store.fetch(total, Some(&[series]), store.resolutions()[0], time, time + 1).expect("fetched");
        let points = fetched.points(&store.families()[0], &fetched.series[0], 2);
        assert_eq!(points.map(|point| point.map(|point| point.sum)).collect::<Vec<_>>(), [Some(3)]);
    }
    assert!(dir.path().join("2s/3068100.block").exists());
}
