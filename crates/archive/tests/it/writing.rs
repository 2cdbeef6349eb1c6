//! What a writer promises while nothing goes wrong, and whom it refuses.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{
    ArrayRef, BinaryArray, Float32Array, RecordBatch, StringArray, TimestampMillisecondArray, UInt32Array, UInt64Array,
};
use arrow::datatypes::DataType;
use weir_archive::{ArchiveError, ArchiveOptions, Position, Snapshot, Writer};
use weir_flow::{BooksBatch, Column, Delivery, FlowBatchBuilder, SideTables, Table, TableBatch};

use crate::numbered::{batches, check, delivery, rows_up_to};

const LONG: Duration = Duration::from_mins(1);

#[test]
fn a_second_writer_is_told_who_the_first_is() {
    let dir = tempfile::tempdir().expect("a folder");
    let (first, recovery) = Writer::open(dir.path(), ArchiveOptions::default()).expect("an archive");
    assert!(recovery.created);
    match Writer::open(dir.path(), ArchiveOptions::default()) {
        Err(ArchiveError::Locked { holder, .. }) => assert_eq!(holder, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    drop(first);
    let (_second, recovery) = Writer::open(dir.path(), ArchiveOptions::default()).expect("the lock is free");
    assert!(!recovery.created);
}

#[test]
fn an_archive_can_be_removed_until_something_is_appended() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().join("archive");
    let (writer, _) = Writer::open(&folder, ArchiveOptions::default()).expect("an archive");
    fs::create_dir(folder.join("collector")).expect("a folder of another");
    fs::write(folder.join("collector").join("lock"), "").expect("written");
    writer.remove().expect("removed");
    assert!(!folder.exists());
    // what others put into it is kept, and the archive with it
    let (writer, _) = Writer::open(&folder, ArchiveOptions::default()).expect("an archive");
    fs::create_dir(folder.join("notes")).expect("a folder of another");
    fs::write(folder.join("notes").join("today"), "").expect("written");
    writer.remove().expect_err("it has files of others");
    assert!(folder.join("notes").join("today").exists());
    let (writer, recovery) = Writer::open(&folder, ArchiveOptions::default()).expect("the archive is still there");
    assert!(!recovery.created);
    fs::remove_dir_all(folder.join("notes")).expect("removed");
    writer.remove().expect("removed");
    let (mut writer, recovery) = Writer::open(&folder, ArchiveOptions::default()).expect("an archive");
    assert!(recovery.created);
    writer.append(delivery(Position::new(1))).expect("appended");
    writer.remove().expect_err("it has flows");
    let (writer, _) = Writer::open(&folder, ArchiveOptions::default()).expect("the archive is still there");
    writer.remove().expect_err("it has flows");
    assert_eq!(Snapshot::open(&folder).expect("an archive").flows(), rows_up_to(Position::new(1)));
}

const FEW_FILES: &str = "WEIR_ARCHIVE_FEW_FILES";

/// Not a test by itself: a writer in a process that has no file left when it syncs for the first time.
#[test]
fn child_syncs_without_files_left() {
    let Some(dir) = std::env::var_os(FEW_FILES) else { return };
    let options = ArchiveOptions { commit_interval: Duration::from_secs(5), ..ArchiveOptions::default() };
    let (mut writer, _) = Writer::open(std::path::Path::new(&dir), options).expect("an archive");
    writer.append(delivery(Position::new(1))).expect("appended");
    let mut files = Vec::new();
    while let Ok(file) = fs::File::open("/dev/null") {
        files.push(file);
    }
    assert_eq!(writer.durable(), Position::ZERO, "it is not synced before");
    let durable = |position: Position, writer: &Writer| {
        let began = Instant::now();
        while writer.durable() < position {
            assert!(began.elapsed() < LONG, "it is never durable");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    durable(Position::new(1), &writer);
    writer.append(delivery(Position::new(2))).expect("the tail is open");
    durable(Position::new(2), &writer);
    drop(files);
    writer.close().expect("sealed");
}

#[test]
fn a_process_without_files_left_syncs() {
    let dir = tempfile::tempdir().expect("a folder");
    let child = std::process::Command::new("sh")
        .args(["-c", "ulimit -n 40 && exec \"$0\" --exact --nocapture writing::child_syncs_without_files_left"])
        .arg(std::env::current_exe().expect("this program"))
        .env(FEW_FILES, dir.path())
        .output()
        .expect("a child");
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    assert_eq!(check(dir.path()), Position::new(2));
}

#[test]
fn other_folders_are_left_alone() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("letter"), "dear").expect("written");
    let refused = Writer::open(dir.path(), ArchiveOptions::default());
    assert!(matches!(refused, Err(ArchiveError::NotAnArchive { .. })));
    assert!(matches!(Snapshot::open(dir.path()), Err(ArchiveError::NotAnArchive { .. })));
    assert!(matches!(Snapshot::open(&dir.path().join("letter")), Err(ArchiveError::NotAnArchive { .. })));
    let message = |name: &str| Snapshot::open(&dir.path().join(name)).expect_err("no archive").to_string();
    assert!(message("").ends_with("is not a weir archive"), "{}", message(""));
    assert!(message("nowhere").ends_with("there is nothing of this name"), "{}", message("nowhere"));
    assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 1);
    let hint = |name: &str| Snapshot::open(&dir.path().join(name)).expect_err("no archive").hint().unwrap_or_default();
    let [empty, nfcapd] = ["empty", "nfcapd"].map(|name| dir.path().join(name));
    fs::create_dir(&empty).expect("a folder");
    fs::create_dir(&nfcapd).expect("a folder");
    fs::write(nfcapd.join("nfcapd.202611240000"), "flows").expect("written");
    let makers = "weir collect, weir import and weir meter make one with --archive, in a folder that is new or empty";
    assert_eq!(["", "nothing"].map(hint), [makers, makers]);
    assert!(hint("letter").starts_with("it is a file; "));
    assert!(hint("empty").starts_with("the folder is empty; weir collect, weir import and weir meter make an archive"));
    assert!(hint("nfcapd").starts_with("it has files of nfcapd: weir nfdump -R reads them"));
    fs::write(dir.path().join("weir-archive"), "weir archive, version 9\n").expect("written");
    let refused = Snapshot::open(dir.path()).expect_err("an unknown version").to_string();
    assert!(refused.contains("version 9") && refused.contains("version 2"), "{refused}");
}

#[test]
fn appended_rows_become_durable_by_themselves() {
    let dir = tempfile::tempdir().expect("a folder");
    let options = ArchiveOptions { commit_interval: Duration::from_millis(3), ..ArchiveOptions::default() };
    let (mut writer, _) = Writer::open(dir.path(), options).expect("an archive");
    let durability = writer.durability();
    for number in 1..=20 {
        let position = writer.append(delivery(Position::new(number))).expect("appended");
        assert_eq!(check(dir.path()), position, "readable before it is durable");
    }
    let position = Position::new(20);
    assert_eq!(durability.wait_for(position, LONG).expect("no failure"), position);
    assert_eq!(durability.rows_durable(), rows_up_to(position));
    let nothing_more = durability.wait_for(position.next(), Duration::ZERO).expect("no failure");
    assert_eq!((nothing_more, writer.durable()), (position, position));
    drop(writer);
    assert_eq!(durability.wait_for(position.next(), LONG).expect("no failure"), position, "the writer has ended");
}

#[test]
fn a_tail_is_sealed_when_it_is_old_enough() {
    let dir = tempfile::tempdir().expect("a folder");
    let options = ArchiveOptions { seal_interval: Duration::from_millis(5), ..ArchiveOptions::default() };
    let (mut writer, _) = Writer::open(dir.path(), options).expect("an archive");
    for number in 1..=2 {
        writer.append(delivery(Position::new(number))).expect("appended");
        let began = Instant::now();
        while writer.statistics().rows_sealed < rows_up_to(Position::new(number)) {
            assert!(began.elapsed() < LONG, "not sealed: {:?}", writer.statistics());
            std::thread::yield_now();
        }
    }
    let snapshot = Snapshot::open(dir.path()).expect("a snapshot");
    assert!(snapshot.tail_frames().is_empty());
    assert_eq!(check(dir.path()), Position::new(2));
}

#[test]
fn days_become_partitions_and_names_tell_the_rows() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(dir.path(), ArchiveOptions::default()).expect("an archive");
    for number in 1..=100 {
        writer.append(delivery(Position::new(number))).expect("appended");
    }
    let statistics = writer.close().expect("sealed").statistics;
    assert_eq!((statistics.tails_sealed, statistics.segments_sealed), (1, 4));
    let snapshot = Snapshot::open(dir.path()).expect("a snapshot");
    for table in [Table::Flows, Table::ExporterBooks] {
        let segments = snapshot.segments(table);
        let days: Vec<_> =
            segments.iter().map(|segment| segment.path().parent().expect("a folder").to_owned()).collect();
        let root = dir.path().join(table.name());
        assert_eq!(days, [root.join("date=2025-11-20"), root.join("date=2025-11-21")]);
        for segment in segments {
            assert_eq!((segment.first, segment.last), (Position::new(1), Position::new(100)));
        }
    }
    let [before, after] = snapshot.segments(Table::Flows) else { panic!("two segments") };
    assert_eq!(before.rows, 200, "one flow a second, from 200 s before midnight");
    assert_eq!(before.rows + after.rows, rows_up_to(Position::new(100)));
    let octets: u64 = Table::ALL.iter().flat_map(|&table| snapshot.segments(table)).map(|segment| segment.octets).sum();
    assert_eq!(statistics.octets_sealed, octets);
    assert_eq!(check(dir.path()), Position::new(100));
}

#[test]
fn deliveries_that_cannot_be_kept_are_refused_whole() {
    let dir = tempfile::tempdir().expect("a folder");
    let options = ArchiveOptions { frame_octets_max: 20_000, segment_rows_max: 10_000, ..ArchiveOptions::default() };
    let (mut writer, _) = Writer::open(dir.path(), options).expect("an archive");
    let mut builder = FlowBatchBuilder::new(1);
    builder.begin_rows(1);
    builder.u64(Column::Bytes).push(Some(1));
    let without_received = Delivery::from(builder.finish());
    assert!(matches!(writer.append(without_received), Err(ArchiveError::NoReceived)));
    builder.begin_rows(2);
    builder.time(Column::Received).push(Some(1));
    builder.time(Column::Received).push(None);
    let only_one_received = Delivery::from(builder.finish());
    assert!(matches!(writer.append(only_one_received), Err(ArchiveError::NoReceived)));
    builder.begin_rows(5000);
    builder.time(Column::Received).repeat(1, 5000);
    // numbers that take all their octets
    builder.u64(Column::FlowId).extend((0..5000_u32).map(|row| u64::from(row).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let large = Delivery::from(builder.finish());
    match writer.append(large) {
        Err(ArchiveError::FrameTooLarge { octets, octets_max: 20_000 }) => assert!(octets >= 40_000),
        other => panic!("{other:?}"),
    }
    builder.begin_rows(70_000);
    builder.time(Column::Received).repeat(1, 70_000);
    let long = Delivery::from(builder.finish());
    let error = writer.append(long).expect_err("too long");
    assert!(matches!(error, ArchiveError::DeliveryTooLong { rows: 70_000, rows_max: 65_536 }), "{error:?}");
    assert!(error.is_too_large() && !error.may_pass());
    let empty = Delivery {
        flows: Some(builder.finish()),
        side_tables: SideTables { books: Some(BooksBatch::from_rows(&[])), ..SideTables::default() },
    };
    assert_eq!(writer.append(empty).expect("nothing to do"), Position::ZERO);
    assert_eq!(writer.append(delivery(Position::new(1))).expect("appended"), Position::new(1));
    assert_eq!(check(dir.path()), Position::new(1));
}

#[test]
fn a_large_tail_is_sealed_before_it_grows_larger() {
    let dir = tempfile::tempdir().expect("a folder");
    let options = ArchiveOptions { tail_octets_max: 10_000, ..ArchiveOptions::default() };
    let (mut writer, _) = Writer::open(dir.path(), options).expect("an archive");
    for number in 1..=30 {
        writer.append(delivery(Position::new(number))).expect("appended");
    }
    let sealed = writer.close().expect("sealed").statistics.tails_sealed;
    assert!((5..=30).contains(&sealed), "{sealed} tails");
    assert_eq!(check(dir.path()), Position::new(30));
}

/// Rows of a table of counters, every third value null.
fn counters(table: Table, rows: usize) -> TableBatch {
    let schema = table.schema();
    let columns = schema.fields().iter().enumerate().map(|(number, field)| -> ArrayRef {
        let value =
            move |row: usize| (number == 0 || !(row + number).is_multiple_of(3)).then_some((row * 100 + number) as u64);
        let values = (0..rows).map(value);
        match field.data_type() {
            DataType::UInt32 => Arc::new(values.map(|v| v.map(|v| v as u32)).collect::<UInt32Array>()),
            DataType::UInt64 => Arc::new(values.collect::<UInt64Array>()),
            DataType::Float32 => Arc::new(values.map(|v| v.map(|v| v as f32 / 8.0)).collect::<Float32Array>()),
            DataType::Utf8 => Arc::new(values.map(|v| v.map(|v| v.to_string())).collect::<StringArray>()),
            DataType::Binary => Arc::new(values.map(|v| v.map(u64::to_be_bytes)).collect::<BinaryArray>()),
            _ => {
                let times: TimestampMillisecondArray = values.map(|v| v.map(|v| v as i64)).collect();
                Arc::new(times.with_timezone("UTC"))
            }
        }
    });
    let batch = RecordBatch::try_new(table.schema(), columns.collect()).expect("the schema's columns");
    TableBatch::try_new(table, batch).expect("a table of its own")
}

#[test]
fn tables_of_counters_come_back_from_tails_and_segments() {
    let tables = [Table::InterfaceCounters, Table::HostCounters];
    let dir = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(dir.path(), ArchiveOptions::default()).expect("an archive");
    let side_tables = SideTables { others: tables.map(|table| counters(table, 7)).into(), ..SideTables::default() };
    writer.append(Delivery { flows: None, side_tables }).expect("appended");
    let check = |place: &str| {
        let snapshot = Snapshot::open(dir.path()).expect("a snapshot");
        for table in tables {
            let found = batches(&snapshot, table);
            assert_eq!(found.len(), 1, "{place} of {}", table.name());
            assert_eq!(found[0].columns(), counters(table, 7).record_batch().columns(), "{place} of {}", table.name());
        }
    };
    check("tail");
    writer.close().expect("sealed");
    check("segment");
}
