//! The books of an archive: added up when they are sealed and merged, and read for a window alone.

use std::fs;
use std::path::Path;
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::{TimestampMillisecondType, UInt16Type};
use weir_archive::{
    ArchiveOptions, CompactionOptions, CompactionReport, ExpiryOptions, Position, Snapshot, Writer, check, compact,
    expire,
};
use weir_flow::books::balance_rows;
use weir_flow::{BooksBatch, BooksRow, Counter, Delivery, SideTables, Table};

use crate::numbered;

const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 86_400_000;
/// 2025-11-20, as `date -u -d 2025-11-20 +%s` says.
const FIRST_MS: i64 = 1_763_596_800_000;
const FOREVER: Duration = Duration::MAX;

/// A row of the books of one exporter: so many records stored, and one lost.
fn row(minute_ms: i64, exporter: u8, stored: u64) -> BooksRow {
    let mut counts = [0; Counter::COUNT];
    counts[Counter::RecordsStored as usize] = stored;
    counts[Counter::RecordsLost as usize] = 1;
    let exporter = Some(vec![192, 0, 2, exporter]);
    BooksRow { minute_ms, exporter, observation_domain: Some(7), export_version: Some(10), counts }
}

fn options() -> ArchiveOptions {
    let compaction = CompactionOptions { enabled: false, ..CompactionOptions::default() };
    ArchiveOptions { compaction, ..ArchiveOptions::default() }
}

/// Adds one tail of rows to an archive and seals it.
fn add(dir: &Path, deliveries: &[Vec<BooksRow>]) {
    let (mut writer, _) = Writer::open(dir, options()).expect("an archive");
    for rows in deliveries {
        let side_tables = SideTables { books: Some(BooksBatch::from_rows(rows)), ..SideTables::default() };
        writer.append(Delivery { flows: None, side_tables }).expect("appended");
    }
    writer.close().expect("sealed");
}

fn merge(dir: &Path, books_minutes_age_max: Duration) -> CompactionReport {
    let options = CompactionOptions { fan_in: 2, books_minutes_age_max, ..CompactionOptions::default() };
    compact(dir, &options, |merge| assert!(merge.result.is_ok(), "{merge:?}")).expect("merged")
}

/// Start, minutes covered, last octet of the exporter and stored records of every row in segments.
fn rows(snapshot: &Snapshot) -> Vec<(i64, u16, u8, u64)> {
    let mut rows = Vec::new();
    for segment in snapshot.segments(Table::ExporterBooks) {
        for batch in segment.read().expect("readable") {
            let column = |name: &str| batch.column_by_name(name).expect("a column").clone();
            let (minutes, spans) = (column("minute"), column("span_minutes"));
            let (exporters, stored) = (column("exporter"), column("records_stored"));
            for row in 0..batch.num_rows() {
                rows.push((
                    minutes.as_primitive::<TimestampMillisecondType>().value(row),
                    spans.as_primitive::<UInt16Type>().value(row),
                    exporters.as_binary::<i32>().value(row)[3],
                    stored.as_primitive::<arrow::datatypes::UInt64Type>().value(row),
                ));
            }
        }
    }
    rows
}

fn open(dir: &Path) -> Snapshot {
    Snapshot::open(dir).expect("a snapshot")
}

#[test]
fn a_sealed_minute_has_one_row_for_each_exporter() {
    let dir = tempfile::tempdir().expect("a folder");
    let second = FIRST_MS + MINUTE_MS;
    add(
        dir.path(),
        &[
            vec![row(second, 1, 1), row(FIRST_MS, 2, 2), row(FIRST_MS, 1, 4)],
            vec![row(FIRST_MS, 1, 8), row(second, 1, 16), row(FIRST_MS + DAY_MS, 1, 32)],
        ],
    );
    let snapshot = open(dir.path());
    assert_eq!(
        rows(&snapshot),
        [(FIRST_MS, 1, 1, 12), (FIRST_MS, 1, 2, 2), (second, 1, 1, 17), (FIRST_MS + DAY_MS, 1, 1, 32)]
    );
    assert_eq!(snapshot.segments(Table::ExporterBooks)[0].time_range_ms, Some((FIRST_MS, second)));
    assert_eq!(check(dir.path(), false, |_| {}).expect("checked").findings, []);
}

#[test]
fn minutes_stay_while_a_day_is_young_and_become_a_day_afterwards() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let minutes = || (0..100).map(|minute| FIRST_MS + minute * MINUTE_MS);
    for tail in 0..3 {
        add(dir, &[minutes().map(|minute_ms| row(minute_ms, 1, 10 + tail)).collect(), vec![row(FIRST_MS, 2, 1)]]);
    }
    assert_eq!(merge(dir, FOREVER).segments_written, 1);
    let by_minute = open(dir);
    assert_eq!(by_minute.segments(Table::ExporterBooks).len(), 1);
    assert_eq!(rows(&by_minute).len(), 101, "one row for each minute and exporter");
    assert_eq!(rows(&by_minute)[..3], [(FIRST_MS, 1, 1, 33), (FIRST_MS, 1, 2, 3), (FIRST_MS + MINUTE_MS, 1, 1, 33)]);
    let hour = |snapshot: &Snapshot| {
        let (start_ms, end_ms) = (FIRST_MS + 60 * MINUTE_MS, FIRST_MS + 80 * MINUTE_MS);
        snapshot.completeness(start_ms, end_ms).expect("readable")
    };
    let day = |snapshot: &Snapshot| snapshot.completeness(FIRST_MS, FIRST_MS + DAY_MS).expect("readable");
    assert_eq!((hour(&by_minute).stored, hour(&by_minute).lost_records), (20 * 33, 20 * 3));
    assert_eq!(hour(&by_minute).cut_days, [None; 2]);
    // the one segment of the day is rewritten, and its reader keeps it
    assert_eq!(merge(dir, Duration::ZERO).segments_written, 1);
    let by_day = open(dir);
    assert_eq!(rows(&by_day), [(FIRST_MS, 1440, 1, 3300), (FIRST_MS, 1440, 2, 3)]);
    assert_eq!(by_day.segments(Table::ExporterBooks)[0].time_range_ms, Some((FIRST_MS, FIRST_MS + DAY_MS - 1)));
    assert_eq!(rows(&by_minute).len(), 101);
    assert_eq!(day(&by_day), day(&by_minute), "of the whole day as much is known as before");
    assert_eq!((hour(&by_day).stored, hour(&by_day).cut_days), (3303, [Some(FIRST_MS / DAY_MS), None]));
    drop((by_minute, by_day));
    // nothing is left to do, and what comes late joins the day although days are to stay by minute now
    assert_eq!(merge(dir, Duration::ZERO).segments_written, 0);
    add(dir, &[vec![row(FIRST_MS + MINUTE_MS, 1, 700)]]);
    assert_eq!(merge(dir, FOREVER).segments_written, 1);
    assert_eq!(rows(&open(dir)), [(FIRST_MS, 1440, 1, 4000), (FIRST_MS, 1440, 2, 3)]);
    assert_eq!(check(dir, false, |_| {}).expect("checked").findings, []);
    assert_eq!(fs::read_dir(dir.join("exporter_books/date=2025-11-20")).expect("a day").count(), 1);
}

/// A window opens only the segments that it touches: all others can be spoiled.
#[test]
fn a_window_reads_the_books_of_its_days_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let days = 40;
    // the last minute of a day must not make the next one open it, nor that of a day that is kept as a whole
    let first_ms = FIRST_MS - days * DAY_MS;
    let day = |day: i64| [row(first_ms + day * DAY_MS, 1, 1), row(first_ms + (day + 1) * DAY_MS - MINUTE_MS, 1, 2)];
    add(dir, &[(0..days).flat_map(day).collect()]);
    for by_day in [false, true] {
        if by_day {
            assert_eq!(merge(dir, Duration::ZERO).segments_written, days as u64);
        }
        let snapshot = open(dir);
        let segments = snapshot.segments(Table::ExporterBooks);
        assert_eq!(segments.len(), days as usize);
        let whole: Vec<_> = segments.iter().map(|segment| fs::read(segment.path()).expect("octets")).collect();
        for (number, segment) in segments.iter().enumerate() {
            if number != 20 {
                fs::write(segment.path(), b"spoiled").expect("written");
            }
        }
        let (start_ms, end_ms) = (first_ms + 20 * DAY_MS, first_ms + 21 * DAY_MS);
        assert_eq!(snapshot.completeness(start_ms, end_ms).expect("the one that is whole").stored, 3);
        assert_eq!(snapshot.books(start_ms, end_ms).expect("the same").totals()[Counter::RecordsStored as usize], 3);
        assert!(snapshot.completeness(start_ms - 1, end_ms).is_err() && snapshot.books(start_ms, end_ms + 1).is_err());
        for (segment, octets) in segments.iter().zip(whole) {
            fs::write(segment.path(), octets).expect("written");
        }
    }
}

#[test]
fn the_books_balance_with_flows_that_have_expired() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let (mut writer, _) = Writer::open(dir, ArchiveOptions { segment_rows_max: 60, ..options() }).expect("an archive");
    for number in 1..=100 {
        writer.append(numbered::delivery(Position::new(number))).expect("appended");
    }
    writer.close().expect("sealed");
    let is_balanced = |expired: bool| {
        let snapshot = open(dir);
        let totals = snapshot.books(i64::MIN, i64::MAX).expect("readable").totals();
        let (rows, rows_expired) = (snapshot.flows(), snapshot.rows_expired());
        assert_eq!(rows_expired > 0, expired);
        assert_eq!(rows + rows_expired, numbered::rows_up_to(Position::new(100)));
        assert_eq!(balance_rows(&totals, rows, rows_expired), Ok(()));
    };
    is_balanced(false);
    let old = ExpiryOptions { age_max: Some(Duration::ZERO), ..ExpiryOptions::default() };
    assert!(!expire(dir, &old, false).expect("expired").segments.is_empty());
    is_balanced(true);
    merge(dir, Duration::ZERO);
    is_balanced(true);
}

/// Calls of `read` that this thread has made.
fn reads() -> Option<u64> {
    let text = fs::read_to_string("/proc/thread-self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("syscr: "))?.parse().ok()
}

/// An archive of a year has thousands of segments of books with some fifty counters, nearly all of them zero.
#[test]
fn a_segment_of_the_books_takes_few_reads() {
    let dir = tempfile::tempdir().expect("a folder");
    add(dir.path(), &[(0..600).map(|minute| row(FIRST_MS + minute * MINUTE_MS, 1, minute as u64)).collect()]);
    let snapshot = Snapshot::open(dir.path()).expect("a snapshot");
    let before = reads();
    let totals = snapshot.books(i64::MIN, i64::MAX).expect("books").totals();
    assert_eq!((totals[Counter::RecordsStored as usize], totals[Counter::RecordsLost as usize]), (599 * 300, 600));
    let Some((before, after)) = before.zip(reads()) else {
        return weir_testkit::skip("proc", "the system does not count reads");
    };
    assert!(after - before < 20, "{} reads", after - before);
}
