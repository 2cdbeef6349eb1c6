//! Files that are open while questions are answered: few, whatever the archive has of them.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use arrow::array::AsArray;
use arrow::datatypes::UInt64Type;
use weir_archive::{ArchiveOptions, CompactionOptions, Writer};
use weir_filter::Predicate;
use weir_flow::{Column, Delivery, FlowBatch, FlowBatchBuilder, Table};
use weir_query::{AggregateKey, Archive, FlowQuery, Order, QueryOptions, Select, Sorting, StatisticKey, TimeWindow};

use crate::summaries::NOW_MS;

const FOLDER: &str = "WEIR_TEST_FILES_ARCHIVE";
const SEGMENTS: u64 = 250;
const TAILS: u64 = 60;
/// Files that a process may have open: far fewer than there are, and so many that a few threads can work.
const FILES_MAX: u32 = 48;
const ROWS: u64 = 10;

fn flows(number: u64) -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(ROWS as usize);
    for row in 0..ROWS {
        builder.begin_rows(1);
        builder.time(Column::Received).push(Some(NOW_MS + number as i64));
        builder.time(Column::Start).push(Some(NOW_MS + number as i64));
        builder.u64(Column::Bytes).push(Some(1));
        builder.u16(Column::DstPort).push(Some(row as u16));
        builder.address(Column::SrcAddr).push(Some(&(number as u32).to_be_bytes()));
    }
    builder.finish()
}

/// An archive of many segments that nobody merges, and of tails that could not be sealed.
fn archive(folder: &Path) {
    let compaction = CompactionOptions { enabled: false, ..CompactionOptions::default() };
    let (mut writer, _) =
        Writer::open(folder, ArchiveOptions { compaction, ..ArchiveOptions::default() }).expect("an archive");
    for number in 0..SEGMENTS {
        writer.append(Delivery::from(flows(number))).expect("appended");
        writer.rotate();
    }
    let began = Instant::now();
    while writer.statistics().tails_sealed < SEGMENTS {
        assert!(began.elapsed() < Duration::from_mins(2), "{:?}", writer.statistics());
        std::thread::sleep(Duration::from_millis(5));
    }
    std::fs::remove_dir(folder.join("tmp")).expect("removed");
    std::fs::write(folder.join("tmp"), b"a file").expect("written");
    for number in SEGMENTS..SEGMENTS + TAILS {
        writer.append(Delivery::from(flows(number))).expect("appended");
        writer.rotate();
    }
}

/// Asks what has to look at every segment and tail. Does nothing unless the test below has started it.
#[test]
fn child_asks_with_few_files() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let archive = Archive::open(Path::new(&folder), QueryOptions { threads: 4, ..QueryOptions::default() });
    let archive = archive.expect("the archive");
    let snapshot = archive.snapshot();
    assert_eq!((snapshot.segments(Table::Flows).len() as u64, snapshot.tail_frames().len() as u64), (SEGMENTS, TAILS));
    let sorting = Sorting::usual(Order::Bytes);
    let key = StatisticKey::parse("srcip").expect("a key");
    let selects = [
        Select::List { columns: vec![Column::Bytes], sorting: None, limit: None },
        Select::List { columns: vec![Column::Bytes], sorting: Some(sorting), limit: None },
        Select::Aggregate {
            keys: vec![AggregateKey::Column(Column::DstPort)],
            more: Vec::new(),
            sorting: None,
            limit: None,
        },
        Select::Statistic { key, per_protocol: false, sorting, limit: None },
    ];
    for select in selects {
        let question = FlowQuery { filter: Predicate::True, window: TimeWindow::default(), select, scaled: false };
        let batches = archive.ask(&question).expect("asked").map(|batch| batch.expect("read"));
        let bytes = batches.map(|batch| {
            let bytes = batch.column_by_name("bytes").expect("bytes").as_primitive::<UInt64Type>().clone();
            bytes.values().iter().sum::<u64>()
        });
        assert_eq!(bytes.sum::<u64>(), (SEGMENTS + TAILS) * ROWS, "{:?}", question.select);
    }
}

#[test]
fn few_files_are_open_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path());
    let child = Command::new("sh")
        .args([
            "-c",
            &format!("ulimit -n {FILES_MAX} && exec \"$0\" --exact --nocapture files::child_asks_with_few_files"),
        ])
        .arg(std::env::current_exe().expect("this program"))
        .env(FOLDER, folder.path())
        .output()
        .expect("a child");
    let (text, printed) = (String::from_utf8_lossy(&child.stderr), String::from_utf8_lossy(&child.stdout));
    assert!(child.status.success(), "{text}{printed}");
}
