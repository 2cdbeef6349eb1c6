//! An archive of format 1 that was committed when format 1 was new. Every later version of the program reads it.
//!
//! `fixtures/format-1/README.md` says how it was made. These tests must not be changed to fit the program.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use weir_archive::{ArchiveOptions, CompactionOptions, Rollup, RollupTable, Segment, Snapshot, Writer, check, compact};
use weir_flow::{Column, Table};

use crate::numbered::batches;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/format-1");

const DAY_MS: i64 = 86_400_000;
/// 2026-01-01T00:00:00Z.
const FIRST_DAY_MS: i64 = 1_767_225_600_000;

/// Flows, packets and bytes.
type Sums = [u64; 3];
/// By key.
type ByKey = BTreeMap<String, Sums>;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("created");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let to = to.join(path.file_name().expect("a name"));
        if path.is_dir() { copy(&path, &to) } else { fs::copy(&path, &to).map(drop).expect("copied") }
    }
}

/// A copy of the fixture that a test may change.
pub(crate) fn fixture() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    copy(&Path::new(FIXTURE).join("archive"), folder.path());
    folder
}

/// What was written, by the program that wrote it.
struct Expected(BTreeMap<String, ByKey>);

impl Expected {
    fn read() -> Self {
        let text = fs::read_to_string(Path::new(FIXTURE).join("expected.tsv")).expect("numbers");
        let mut all: BTreeMap<String, ByKey> = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let fields: Vec<&str> = line.split('\t').collect();
            let [of, key, sums @ ..] = &fields[..] else { panic!("{line}") };
            let sums: Vec<u64> = sums.iter().map(|number| number.parse().expect("a number")).collect();
            all.entry((*of).to_owned()).or_default().insert((*key).to_owned(), sums.try_into().expect("three"));
        }
        Self(all)
    }

    fn by_key(&self, of: &str) -> &ByKey {
        &self.0[of]
    }

    fn total(&self, of: &str) -> Sums {
        self.0[of][""]
    }
}

fn add(sum: &mut Sums, other: Sums) {
    (0..3).for_each(|at| sum[at] += other[at]);
}

fn number(batch: &RecordBatch, column: &str, row: usize) -> u64 {
    batch.column_by_name(column).expect("a column").as_primitive::<UInt64Type>().value(row)
}

/// Flows, packets and bytes of every day.
fn by_day(snapshot: &Snapshot) -> BTreeMap<i64, Sums> {
    let mut days = BTreeMap::new();
    for batch in batches(snapshot, Table::Flows) {
        let received = batch.column_by_name("received").expect("a column").as_primitive::<TimestampMillisecondType>();
        for row in 0..batch.num_rows() {
            let day = (received.value(row) - FIRST_DAY_MS).div_euclid(DAY_MS) + 1;
            let sums = [1, number(&batch, "packets", row), number(&batch, "bytes", row)];
            add(days.entry(day).or_default(), sums);
        }
    }
    days
}

fn of_rollup(table: &RollupTable) -> ByKey {
    let rows = &table.rows;
    let key = |row: usize| match rows.column(0).data_type() {
        arrow::datatypes::DataType::UInt8 => rows.column(0).as_primitive::<UInt8Type>().value(row).to_string(),
        arrow::datatypes::DataType::UInt16 => rows.column(0).as_primitive::<UInt16Type>().value(row).to_string(),
        _ => rows.column(0).as_primitive::<TimestampMillisecondType>().value(row).to_string(),
    };
    let sums = |row: usize| ["flows", "packets", "bytes"].map(|name| number(rows, name, row));
    assert_eq!(table.rest, None, "all keys have a row");
    (0..rows.num_rows()).map(|row| (key(row), sums(row))).collect()
}

#[track_caller]
fn check_flows(snapshot: &Snapshot, expected: &Expected) {
    let days = by_day(snapshot);
    assert_eq!(days.keys().copied().collect::<Vec<_>>(), [2, 3, 4], "the first day has expired");
    for (day, sums) in &days {
        assert_eq!(*sums, expected.total(&format!("day {day} total")), "day {day}");
    }
    let rows: u64 = days.values().map(|sums| sums[0]).sum();
    assert_eq!(snapshot.flows(), rows);
}

#[track_caller]
fn check_side_tables(snapshot: &Snapshot, expected: &Expected) {
    // rows of the others become fewer when they are merged
    for &table in Table::ALL[1..].iter().filter(|table| !table.is_folded()) {
        assert_eq!(
            snapshot.rows(table).expect("readable"),
            expected.by_key("table")[table.name()][0],
            "{}",
            table.name()
        );
    }
    let books = batches(snapshot, Table::ExporterBooks);
    let stored = books.iter().flat_map(|batch| (0..batch.num_rows()).map(|row| number(batch, "records_stored", row)));
    assert_eq!(stored.sum::<u64>(), expected.total("records_stored")[0]);
    let options = batches(snapshot, Table::ExporterOptions);
    let intervals = options.iter().flat_map(|batch| {
        batch.column_by_name("sampling_interval").expect("a column").as_primitive::<UInt32Type>().iter().flatten()
    });
    assert_eq!(intervals.map(u64::from).sum::<u64>(), 64 * expected.by_key("table")["exporter_options"][0] / 2);
}

#[test]
fn every_row_of_format_1_is_read() {
    let folder = fixture();
    let snapshot = Snapshot::open(folder.path()).expect("a snapshot");
    let expected = Expected::read();
    check_flows(&snapshot, &expected);
    check_side_tables(&snapshot, &expected);
    assert_eq!(snapshot.rows(Table::ExporterBooks).expect("readable"), expected.by_key("table")["exporter_books"][0]);
    let segments = snapshot.segments(Table::Flows);
    assert!(segments.len() > 2 && !snapshot.tail_frames().is_empty(), "{segments:?}");
    for segment in segments {
        segment.check().expect("whole");
    }
    let elements = batches(&snapshot, Table::Flows)
        .iter()
        .any(|batch| batch.column_by_name("elements").is_some_and(|lists| !lists.as_list::<i32>().values().is_empty()));
    assert!(elements, "elements without a column are among the flows");
}

#[test]
fn rollups_and_summaries_of_format_1_are_read() {
    let folder = fixture();
    let snapshot = Snapshot::open(folder.path()).expect("a snapshot");
    let expected = Expected::read();
    let has_rollups = |segment: &&Segment| segment.rollup(Rollup::Protocol).expect("readable").is_some();
    let merged: Vec<_> = snapshot.segments(Table::Flows).iter().filter(has_rollups).collect();
    let [merged] = merged[..] else { panic!("one segment is merged, not {}", merged.len()) };
    let protocols = merged.rollup(Rollup::Protocol).expect("readable").expect("sums");
    assert_eq!(of_rollup(&protocols), *expected.by_key("day 2 protocol"));
    for (rollup, of) in [(Rollup::DstPort, "dst_port"), (Rollup::Minute, "minute")] {
        let table = merged.rollup(rollup).expect("readable").expect("sums");
        assert_eq!(of_rollup(&table), *expected.by_key(&format!("day 2 {of}")), "{of}");
    }
    let [summary] = &snapshot.summaries().expect("listed")[..] else { panic!("one summary") };
    assert_eq!((summary.rows(), summary.day_text().as_str()), (expected.total("day 1 total")[0], "2026-01-01"));
    for (rollup, of) in [(Rollup::Protocol, "protocol"), (Rollup::DstPort, "dst_port"), (Rollup::Minute, "minute")] {
        let table = summary.rollup(rollup).expect("readable").expect("sums");
        assert_eq!(of_rollup(&table), *expected.by_key(&format!("day 1 {of}")), "{of}");
    }
}

/// The index of the merged segment leads to every flow of a host, and past hosts that do not occur.
#[test]
fn the_index_of_format_1_is_read() {
    let folder = fixture();
    let snapshot = Snapshot::open(folder.path()).expect("a snapshot");
    for segment in snapshot.segments(Table::Flows) {
        let index = segment.index().expect("readable").expect("an index");
        assert_eq!(index.row_group_rows(index.row_groups() - 1).end, segment.rows);
        for batch in segment.read().expect("readable") {
            let hosts = batch.column_by_name("src_addr").expect("a column").as_binary::<i32>();
            let host = hosts.value(0);
            let pages = index.pages_of_addresses(Column::SrcAddr, host, host).expect("readable");
            assert!(!pages.is_none(), "{host:?}");
        }
        let nobody = [0; 4];
        assert!(index.pages_of_addresses(Column::SrcAddr, &nobody, &nobody).expect("readable").is_none());
    }
}

#[test]
fn a_check_finds_format_1_sound() {
    let folder = fixture();
    let checked = check(folder.path(), false, |_| {}).expect("checked");
    assert_eq!(checked.findings, []);
    assert!(checked.covered > 0, "superseded segments are among the files: {checked:?}");
    assert_eq!((checked.tails, checked.summaries), (1, 1));
}

/// A writer of today goes on from the archive, seals what was left, and nothing is lost or counted twice.
#[test]
fn a_writer_goes_on_from_format_1() {
    let folder = fixture();
    let expected = Expected::read();
    let (writer, recovery) = Writer::open(folder.path(), ArchiveOptions::default()).expect("an archive");
    assert_eq!((recovery.tails, recovery.rows), (1, expected.total("day 4 total")[0]));
    assert!(recovery.segments_uncommitted > 0, "{recovery:?}");
    writer.close().expect("sealed");
    let all = CompactionOptions { fan_in: 2, ..CompactionOptions::default() };
    compact(folder.path(), &all, |merge| assert!(merge.result.is_ok(), "{merge:?}")).expect("merged");
    let snapshot = Snapshot::open(folder.path()).expect("a snapshot");
    assert!(snapshot.tail_frames().is_empty() && snapshot.segments(Table::Flows).len() == 3);
    check_flows(&snapshot, &expected);
    check_side_tables(&snapshot, &expected);
    assert_eq!(snapshot.rows(Table::ExporterBooks).expect("readable"), 4, "one of each day");
    assert_eq!(snapshot.summaries().expect("listed").len(), 1);
    assert_eq!(check(folder.path(), false, |_| {}).expect("checked").findings, []);
}
