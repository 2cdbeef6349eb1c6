//! What stays of flows that have expired: against sums over the flows themselves, under every fault that can be made.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::{TimestampMillisecondType, UInt64Type};
use weir_archive::{
    ArchiveError, ArchiveOptions, CompactionOptions, ExpiryOptions, ExpiryReport, Fault, Position, Rollup,
    SegmentSummary, Snapshot, SummaryOptions, Writer, check, compact, expire,
};
use weir_flow::{Column, Delivery, FlowBatchBuilder, Table};

use crate::numbered::{batches, delivery, numbers, rows_up_to};

/// Flows, packets and bytes by minute.
type Minutes = BTreeMap<i64, (u64, u64, u64)>;

/// All that may go goes, and what it amounted to stays.
pub(crate) const EVERYTHING: ExpiryOptions = ExpiryOptions {
    age_max: Some(Duration::ZERO),
    side_tables_age_max: None,
    octets_max: None,
    low_water_percent: 95,
    readers_wait_max: Duration::from_hours(1),
    pending_octets_max: None,
    readers_wait_min: Duration::ZERO,
    summaries: SUMMARIES,
};

/// Summaries for as long as there are any flows to test with.
pub(crate) const SUMMARIES: SummaryOptions =
    SummaryOptions { age_max: Duration::from_hours(200 * 365 * 24), octets_max: Some(u64::MAX) };

/// An archive of so many deliveries in segments of some 50 rows.
fn archive(dir: &Path, deliveries: u64, has_rollups: bool) {
    let options = ArchiveOptions {
        segment_rows_max: 50,
        summaries_when_sealing: has_rollups,
        compaction: CompactionOptions { enabled: false, ..CompactionOptions::default() },
        ..ArchiveOptions::default()
    };
    let (mut writer, recovery) = Writer::open(dir, options).expect("an archive");
    for number in recovery.position.get() + 1..=deliveries {
        writer.append(delivery(Position::new(number))).expect("appended");
    }
    writer.close().expect("sealed");
}

fn expired(dir: &Path, options: &ExpiryOptions) -> ExpiryReport {
    expire(dir, options, false).expect("expired")
}

fn add(minutes: &mut Minutes, minute: i64, (flows, packets, bytes): (u64, u64, u64)) {
    let sum = minutes.entry(minute).or_default();
    *sum = (sum.0 + flows, sum.1 + packets, sum.2 + bytes);
}

/// What the flows that are left amount to.
fn of_flows(snapshot: &Snapshot) -> Minutes {
    let mut minutes = Minutes::new();
    for batch in batches(snapshot, Table::Flows) {
        let number = |column: Column, row: usize| {
            batch.column_by_name(column.name()).expect("a column").as_primitive::<UInt64Type>().value(row)
        };
        let starts = batch.column_by_name("start").expect("a column").as_primitive::<TimestampMillisecondType>();
        for (row, start) in starts.values().iter().enumerate() {
            let sums = (1, number(Column::Packets, row), number(Column::Bytes, row));
            add(&mut minutes, start.div_euclid(60_000) * 60_000, sums);
        }
    }
    minutes
}

fn of_summaries(summaries: &[SegmentSummary]) -> Minutes {
    let mut minutes = Minutes::new();
    for summary in summaries {
        let rows = summary.rollup(Rollup::Minute).expect("readable").expect("sums by minute").rows;
        let keys = rows.column(0).as_primitive::<TimestampMillisecondType>();
        let [flows, packets, bytes] = [1, 2, 3].map(|column| rows.column(column).as_primitive::<UInt64Type>());
        for row in 0..rows.num_rows() {
            add(&mut minutes, keys.value(row), (flows.value(row), packets.value(row), bytes.value(row)));
        }
    }
    minutes
}

/// What there is in all: flows that are left, and what is told of those that are not.
pub(crate) fn minutes(snapshot: &Snapshot) -> Minutes {
    let mut all = of_flows(snapshot);
    let summaries = snapshot.summaries().expect("listed");
    for (minute, sums) in of_summaries(&summaries) {
        add(&mut all, minute, sums);
    }
    all
}

/// What the deliveries up to a position amount to.
pub(crate) fn expected(position: Position) -> Minutes {
    let mut minutes = Minutes::new();
    for number in 1..=position.get() {
        let flows = delivery(Position::new(number)).flows.expect("flows");
        let batch = flows.record_batch();
        let number = |name: &str, row: usize| {
            batch.column_by_name(name).expect("a column").as_primitive::<UInt64Type>().value(row)
        };
        let starts = batch.column_by_name("start").expect("a column").as_primitive::<TimestampMillisecondType>();
        for (row, start) in starts.values().iter().enumerate() {
            add(&mut minutes, start.div_euclid(60_000) * 60_000, (1, number("packets", row), number("bytes", row)));
        }
    }
    minutes
}

fn open(dir: &Path) -> Snapshot {
    Snapshot::open(dir).expect("a snapshot")
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let list = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = list(dir.join("summaries")).flat_map(list).collect();
    files.sort();
    files
}

#[test]
fn sums_stay_when_flows_go() {
    for has_rollups in [true, false] {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path();
        archive(dir, 100, has_rollups);
        let before = of_flows(&open(dir));
        let segments = open(dir).segments(Table::Flows).to_vec();
        let rollups: Vec<_> =
            segments.iter().map(|segment| segment.rollup(Rollup::SrcPort).expect("readable")).collect();
        assert_eq!(rollups.iter().all(Option::is_some), has_rollups);
        let done = expired(dir, &EVERYTHING);
        assert!(done.segments.len() > 3, "{done:?}");
        assert_eq!((done.summaries_written, done.segments_without_sums), (done.segments.len() as u64, 0));
        let snapshot = open(dir);
        let summaries = snapshot.summaries().expect("listed");
        assert_eq!(summaries.len(), done.segments.len());
        assert_eq!(minutes(&snapshot), before);
        assert_eq!(before, expected(Position::new(100)));
        let first = numbers(&batches(&snapshot, Table::Flows), "flow_id").into_iter().min().expect("flows are left");
        assert_eq!(summaries.iter().map(SegmentSummary::rows).sum::<u64>(), first);
        // as they were, table by table
        for (summary, (segment, rollup)) in summaries.iter().zip(segments.iter().zip(&rollups)) {
            assert_eq!((summary.rows(), summary.time_range_ms()), (segment.rows, segment.time_range_ms));
            let found = summary.rollup(Rollup::SrcPort).expect("readable");
            assert!(found.is_some() && (!has_rollups || found == *rollup));
        }
        assert_eq!(check(dir, false, |_| {}).expect("checked").findings, []);
        let again = expired(dir, &EVERYTHING);
        assert_eq!((again.segments.len(), again.summaries_written, again.summaries.len()), (0, 0, 0));
    }
}

/// Maintenance removes what a crash has left and others have the sums of, and never the only file that has them.
#[test]
fn a_summary_that_was_renamed_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    archive(dir, 100, true);
    assert!(expired(dir, &EVERYTHING).segments.len() > 3);
    let path = files(dir).remove(0);
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
    // a name of the same tails, with other times
    let (stem, _) = name.rsplit_once("_t").expect("times");
    let other = path.with_file_name(format!("{stem}_t0to1.rollups"));
    // beside the summary itself it is one that a crash has left
    fs::copy(&path, &other).expect("copied");
    expired(dir, &ExpiryOptions::default());
    assert!(!other.exists() && path.exists());
    fs::rename(&path, &other).expect("renamed");
    expired(dir, &ExpiryOptions::default());
    assert!(other.exists(), "it has these sums alone");
    assert!(!check(dir, false, |_| {}).expect("checked").findings.is_empty());
}

/// The state that a crash between writing summaries and removing segments leaves.
#[test]
fn nothing_counts_twice_while_flows_are_there_still() {
    let folder = tempfile::tempdir().expect("a folder");
    let [dir, copy] = ["archive", "copy"].map(|name| folder.path().join(name));
    for dir in [&dir, &copy] {
        archive(dir, 100, true);
    }
    expired(&copy, &EVERYTHING);
    for from in files(&copy) {
        let to = dir.join(from.strip_prefix(&copy).expect("in it"));
        fs::create_dir_all(to.parent().expect("a folder")).expect("created");
        fs::copy(&from, &to).expect("copied");
    }
    let all = expected(Position::new(100));
    assert!(!files(&dir).is_empty() && open(&dir).summaries().expect("listed").is_empty());
    assert_eq!(minutes(&open(&dir)), all);
    // nor when they are merged, so that no segment has the name any more, nor when the merged ones go
    compact(&dir, &CompactionOptions { fan_in: 2, ..CompactionOptions::default() }, |_| {}).expect("merged");
    assert!(open(&dir).summaries().expect("listed").is_empty());
    assert_eq!(minutes(&open(&dir)), all);
    archive(&dir, 101, true);
    expired(&dir, &EVERYTHING);
    expired(&dir, &EVERYTHING);
    assert_eq!(minutes(&open(&dir)), expected(Position::new(101)));
    assert_eq!(files(&dir).len(), 2, "one for each day, and what they cover has gone");
}

#[test]
fn a_reader_sees_flows_or_their_sums() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    archive(dir, 100, true);
    let all = expected(Position::new(100));
    let before = open(dir);
    let done = expired(dir, &EVERYTHING);
    assert!(done.waiting_for_readers);
    assert!(before.summaries().expect("listed").is_empty(), "its flows are in their places");
    assert_eq!(minutes(&before), all);
    let after = open(dir);
    assert_eq!(minutes(&after), all);
    assert_eq!(after.summaries().expect("listed").len(), done.segments.len());
    // what is appended, sealed and expires later is not in a snapshot of before
    drop(before);
    archive(dir, 300, true);
    let later = open(dir);
    expired(dir, &EVERYTHING);
    drop(later);
    expired(dir, &EVERYTHING);
    assert_eq!(minutes(&open(dir)), expected(Position::new(300)));
    assert_eq!(after.summaries().expect("listed").len(), done.segments.len());
    assert_eq!(minutes(&after), all);
}

#[test]
fn flows_that_cannot_be_summed_up_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    for number in 0..2 {
        let (mut writer, _) = Writer::open(dir, ArchiveOptions::default()).expect("an archive");
        let mut builder = FlowBatchBuilder::new(3);
        builder.begin_rows(3);
        builder.time(Column::Received).repeat(number, 3);
        writer.append(Delivery::from(builder.finish())).expect("appended");
        writer.close().expect("sealed");
    }
    let done = expired(dir, &EVERYTHING);
    assert_eq!((done.segments.len(), done.summaries_written, done.segments_without_sums), (1, 1, 1));
    let summaries = open(dir).summaries().expect("listed");
    assert_eq!((summaries[0].rows(), summaries[0].rollup(Rollup::Minute).expect("readable")), (3, None));
    assert_eq!(check(dir, false, |_| {}).expect("checked").summaries, 1);
}

#[test]
fn damaged_segments_go_and_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    archive(dir, 100, true);
    let path = open(dir).segments(Table::Flows)[0].path();
    let mut octets = fs::read(&path).expect("a segment");
    octets.iter_mut().skip(100).for_each(|octet| *octet ^= 0x40);
    fs::write(&path, octets).expect("damaged");
    let done = expired(dir, &EVERYTHING);
    assert_eq!(done.segments_without_sums, 1, "{done:?}");
    assert!(!path.exists());
    assert_eq!(open(dir).summaries().expect("listed").len(), done.segments.len());
}

#[test]
fn segments_that_cannot_be_read_go_and_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    archive(dir, 100, true);
    let path = open(dir).segments(Table::Flows)[0].path();
    // an error of the system, as a bad sector is one
    fs::remove_file(&path).expect("removed");
    std::os::unix::fs::symlink(&path, &path).expect("a link to itself");
    let done = expired(dir, &EVERYTHING);
    assert!(done.segments.len() > 3 && done.segments_without_sums == 1, "{done:?}");
    assert!(fs::symlink_metadata(&path).is_err(), "it is removed");
    let summaries = open(dir).summaries().expect("listed");
    assert_eq!(summaries.len(), done.segments.len());
    assert_eq!(summaries[0].rollup(Rollup::Minute).expect("readable"), None);
}

#[test]
fn summaries_have_limits_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    archive(dir, 200, true);
    let none = SummaryOptions { age_max: Duration::ZERO, octets_max: None };
    let done = expire(dir, &ExpiryOptions { summaries: none, ..EVERYTHING }, true).expect("planned");
    assert!(done.segments.len() > 3 && files(dir).is_empty(), "a dry run writes nothing");
    expired(dir, &EVERYTHING);
    let all = open(dir).summaries().expect("listed");
    let octets: u64 = all.iter().map(SegmentSummary::octets).sum();
    let half = SummaryOptions { octets_max: Some(octets - 1), ..SUMMARIES };
    let limits = ExpiryOptions { age_max: None, summaries: half, low_water_percent: 50, ..EVERYTHING };
    let done = expired(dir, &limits);
    assert!(!done.summaries.is_empty() && done.octets_after < done.octets_before, "{done:?}");
    let left = open(dir).summaries().expect("listed");
    assert_eq!(left.len() + done.summaries.len(), all.len());
    assert!(left.iter().map(SegmentSummary::octets).sum::<u64>() <= octets / 2);
    assert_eq!(left, all[all.len() - left.len()..], "the oldest have gone");
    // an age that the older of two days has passed: they are days, and the newest flow decides
    let newest = left.last().expect("a summary").newest_ms();
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock").as_millis() as i64;
    let age = |ms: i64| SummaryOptions { age_max: Duration::from_millis((now - ms) as u64), ..SUMMARIES };
    let done = expired(dir, &ExpiryOptions { age_max: None, summaries: age(newest - 60_000), ..EVERYTHING });
    let left = open(dir).summaries().expect("listed");
    assert!(!left.is_empty() && !done.summaries.is_empty());
    assert!(left.iter().all(|summary| summary.newest_ms() >= newest - 60_000));
    // a limit of the archive is one of summaries, too: a tenth
    let archive = ExpiryOptions {
        age_max: None,
        octets_max: Some(10),
        summaries: SummaryOptions { octets_max: None, ..SUMMARIES },
        ..EVERYTHING
    };
    expired(dir, &archive);
    assert!(files(dir).is_empty());
    // and no age at all keeps none
    archive_more(dir);
    expired(dir, &ExpiryOptions { summaries: none, ..EVERYTHING });
    assert!(files(dir).is_empty());
}

fn archive_more(dir: &Path) {
    archive(dir, 260, true);
    assert!(open(dir).segments(Table::Flows).len() > 2);
}

#[test]
fn every_octet_of_a_summary_is_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    archive(dir, 60, true);
    expired(dir, &EVERYTHING);
    let summary = open(dir).summaries().expect("listed")[0].clone();
    let whole = fs::read(summary.path()).expect("a file");
    let tables: Vec<_> = Rollup::ALL.iter().map(|rollup| summary.rollup(*rollup).expect("readable")).collect();
    assert!(tables.iter().all(Option::is_some));
    let mut unreadable = 0;
    for at in 0..=whole.len() {
        let mut damaged = whole.clone();
        match damaged.get_mut(at) {
            Some(octet) => *octet ^= 1 << (at % 8),
            None => damaged.push(0),
        }
        fs::write(summary.path(), &damaged).expect("written");
        let error = summary.check().expect_err("damage is seen");
        assert!(matches!(error, ArchiveError::DamagedSummary { .. }), "octet {at}: {error:?}");
        for (rollup, table) in Rollup::ALL.iter().zip(&tables) {
            match summary.rollup(*rollup) {
                Ok(found) => assert_eq!(found, *table, "octet {at}"),
                Err(error) => unreadable += u64::from(matches!(error, ArchiveError::DamagedSummary { .. })),
            }
        }
    }
    assert!(unreadable > whole.len() as u64);
    fs::write(summary.path(), &whole[..whole.len() - 1]).expect("cut");
    assert!(matches!(summary.check(), Err(ArchiveError::DamagedSummary { .. })));
    let stranger = summary.path().with_file_name("notes.txt");
    fs::write(&stranger, "x").expect("written");
    let found = check(dir, true, |_| {}).expect("checked");
    let faults: Vec<_> = found.findings.iter().map(|finding| (&finding.path, &finding.fault)).collect();
    assert_eq!(faults.len(), 2, "{found:?}");
    assert!(faults.iter().any(|(path, fault)| **path == stranger && **fault == Fault::NoSummary));
    assert!(!summary.path().exists() && !stranger.exists(), "both are set aside");
    assert_eq!(check(dir, false, |_| {}).expect("checked").findings, []);
    assert_eq!(rows_up_to(Position::new(60)), open(dir).flows() + summary_rows(dir) + summary.rows());
}

fn summary_rows(dir: &Path) -> u64 {
    open(dir).summaries().expect("listed").iter().map(SegmentSummary::rows).sum()
}
