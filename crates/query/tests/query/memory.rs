//! What questions take of memory: as much as they are allowed, by the count of the system.

#![expect(clippy::print_stderr, reason = "what a test has measured")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use arrow::array::RecordBatch;
use weir_archive::{ArchiveOptions, Writer};
use weir_filter::Predicate;
use weir_flow::{Column, Delivery, FlowBatch, FlowBatchBuilder};
use weir_query::{
    AggregateKey, Archive, FlowQuery, MemoryPool, Order, Progress, QueryError, QueryOptions, Select, Sorting,
    TimeWindow,
};

use crate::naive::texts;
use crate::summaries::NOW_MS;

const BATCH_ROWS: u64 = 8192;
/// What two threads that read a tail may take besides: frames, and what the allocator keeps of them.
const FRAMES_BYTES: usize = 16 << 20;
/// Flows of as many five-tuples.
const GROUPS: u64 = 80 * BATCH_ROWS;

/// Flows of which every `repeats` have one five-tuple; one in eight is of IPv6.
fn batch(first: u64, repeats: u64) -> FlowBatch {
    let address = |number: u64| match number % 8 {
        0 => [[0x20; 8], number.to_be_bytes()].concat(),
        _ => ((number >> 24) as u32).to_be_bytes().to_vec(),
    };
    let mut builder = FlowBatchBuilder::new(BATCH_ROWS as usize);
    for row in first..first + BATCH_ROWS {
        // far apart, so that neither values nor their order are easily compressed
        let number = (row / repeats).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        builder.begin_rows(1);
        builder.time(Column::Received).push(Some(NOW_MS));
        builder.time(Column::Start).push(Some(NOW_MS + row as i64 / 100));
        builder.time(Column::End).push(Some(NOW_MS + row as i64 / 100 + 5));
        builder.u64(Column::Packets).push(Some(number >> 60));
        builder.u64(Column::Bytes).push(Some(number >> 40));
        builder.address(Column::SrcAddr).push(Some(&address(number)));
        builder.address(Column::DstAddr).push(Some(&address(number)));
        builder.u16(Column::SrcPort).push(Some(number as u16));
    }
    builder.finish()
}

fn archive(folder: &Path, flows: u64, repeats: u64) {
    let options = ArchiveOptions { segment_rows_max: 1 << 18, ..ArchiveOptions::default() };
    let (mut writer, _) = Writer::open(folder, options).expect("an archive");
    for first in (0..flows).step_by(BATCH_ROWS as usize) {
        writer.append(Delivery::from(batch(first, repeats))).expect("appended");
    }
    writer.close().expect("closed");
}

/// An archive of tails, one for each batch, none of which could be sealed.
fn tails(folder: &Path, flows: u64) {
    let (mut writer, _) = Writer::open(folder, ArchiveOptions::default()).expect("an archive");
    // the folder for segments being written is a file
    std::fs::remove_dir(folder.join("tmp")).expect("removed");
    std::fs::write(folder.join("tmp"), b"a file").expect("written");
    for first in (0..flows).step_by(BATCH_ROWS as usize) {
        writer.append(Delivery::from(batch(first, 1))).expect("appended");
        writer.rotate();
    }
}

fn select(sorting: Option<Sorting>, limit: Option<usize>) -> Select {
    Select::Aggregate { keys: AggregateKey::FIVE_TUPLE.to_vec(), more: Vec::new(), sorting, limit }
}

fn ask(folder: &Path, select: Select, options: QueryOptions) -> Result<Vec<RecordBatch>, QueryError> {
    let window = TimeWindow::default();
    let question = FlowQuery { filter: Predicate::True, window, select, scaled: false };
    Archive::open(folder, options)?.ask(&question)?.collect()
}

#[test]
fn first_groups_are_found_in_several_passes() {
    const FLOWS: u64 = 32 * BATCH_ROWS;
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path(), FLOWS, 3);
    let sorting = Some(Sorting::usual(Order::Bytes));
    let all = ask(folder.path(), select(sorting, None), QueryOptions::default()).expect("an answer");
    let expected: Vec<_> = all.iter().flat_map(texts).take(20).collect();
    let options = |limit_bytes| {
        let (memory, progress) = (MemoryPool::new(limit_bytes), Arc::new(Progress::default()));
        QueryOptions { threads: 2, memory, progress, ..QueryOptions::default() }
    };
    // the keys and counters of 87,382 groups take 2.8 MB, pages that are decoded 1.6 MB
    let little = options(4 << 20);
    let found = ask(folder.path(), select(sorting, Some(20)), little.clone()).expect("an answer");
    assert_eq!(found.iter().flat_map(texts).collect::<Vec<_>>(), expected);
    assert!(little.progress.counts().rows_done > 2 * FLOWS, "{:?}", little.progress.counts());
    assert_eq!(little.memory.used_bytes(), 0, "all is returned");
    let asked = ask(folder.path(), select(None, None), options(1 << 20));
    assert!(matches!(asked, Err(QueryError::Memory(error)) if error.limit_bytes == 1 << 20), "{asked:?}");
}

/// A table that was full of what repeats is emptied; that the hosts which come next appear once does not mean that those after
/// them do not repeat either, which would keep a row for each of their flows.
#[test]
fn a_table_that_was_emptied_goes_on_counting() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(folder.path(), ArchiveOptions::default()).expect("an archive");
    let hosts: Vec<u32> = (0..1 << 17)
        .map(|row| row / 2)
        .chain(1 << 17..(1 << 17) + 20_000)
        .chain(std::iter::repeat_n(7, 500_000))
        .collect();
    for hosts in hosts.chunks(BATCH_ROWS as usize) {
        let mut builder = FlowBatchBuilder::new(hosts.len());
        builder.begin_rows(hosts.len());
        builder.time(Column::Received).extend(vec![NOW_MS; hosts.len()].into_iter());
        builder.u64(Column::Bytes).extend(vec![1; hosts.len()].into_iter());
        builder.address(Column::SrcAddr).extend_fixed(hosts.iter().map(|host| host.to_be_bytes()));
        writer.append(Delivery::from(builder.finish())).expect("appended");
    }
    let (keys, sorting) = (vec![AggregateKey::Column(Column::SrcAddr)], Some(Sorting::usual(Order::Bytes)));
    let select = Select::Aggregate { keys, more: Vec::new(), sorting, limit: Some(1) };
    let options = QueryOptions { threads: 1, memory: MemoryPool::new(10 << 20), ..QueryOptions::default() };
    let found = ask(folder.path(), select, options.clone()).expect("an answer");
    assert!(texts(&found[0])[0].contains(&"500002".to_owned()), "{found:?}");
    let read = options.progress.counts().rows_done;
    assert!(read <= 2 * hosts.len() as u64, "{read} rows of {} were read", hosts.len());
}

/// Peak of what this process has of memory, in bytes.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

const FOLDER: &str = "WEIR_TEST_MEMORY_ARCHIVE";
const LIMIT_MB: &str = "WEIR_TEST_MEMORY_LIMIT_MB";

/// Asks for all groups and for all groups in order. Does nothing unless the test below has started it.
#[test]
fn child_asks_within_a_limit() {
    let (Ok(folder), Ok(limit_mb)) = (std::env::var(FOLDER), std::env::var(LIMIT_MB)) else { return };
    let limit_bytes = limit_mb.parse::<usize>().expect("a number") << 20;
    let keys = vec![AggregateKey::Column(Column::Protocol)];
    let trivial = Select::Aggregate { keys, more: Vec::new(), sorting: None, limit: None };
    ask(Path::new(&folder), trivial, QueryOptions::default()).expect("an answer");
    let baseline_bytes = resident_bytes();
    for sorting in [None, Some(Sorting::usual(Order::Bytes))] {
        let options = QueryOptions { threads: 2, memory: MemoryPool::new(limit_bytes), ..QueryOptions::default() };
        let window = TimeWindow::default();
        let question = FlowQuery { filter: Predicate::True, window, select: select(sorting, None), scaled: false };
        let archive = Archive::open(Path::new(&folder), options).expect("the archive");
        let rows =
            archive.ask(&question).map(|answer| answer.map(|batch| batch.expect("rows").num_rows()).sum::<usize>());
        let grown_bytes = resident_bytes() - baseline_bytes;
        let rows = match rows {
            Ok(rows) => rows.to_string(),
            Err(QueryError::Memory(error)) => error.to_string(),
            Err(error) => panic!("{error}"),
        };
        eprintln!("{limit_mb} MB, {sorting:?}: {} MB, {rows}", grown_bytes >> 20);
        assert!(grown_bytes <= limit_bytes / 10 * 13 + FRAMES_BYTES, "{grown_bytes} bytes of {limit_bytes}: {rows}");
    }
}

/// Asks in processes of their own, of which one has too little for the 655,360 groups of 70 bytes and more.
fn check_limits(folder: &Path) {
    for limit_mb in [32, 64, 128] {
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "--nocapture", "memory::child_asks_within_a_limit"])
            .env(FOLDER, folder)
            .env(LIMIT_MB, limit_mb.to_string())
            .output()
            .expect("a child");
        let (text, printed) = (String::from_utf8_lossy(&child.stderr), String::from_utf8_lossy(&child.stdout));
        assert!(child.status.success(), "{text}{printed}");
        eprint!("{text}");
        assert_eq!(text.contains("not enough memory"), limit_mb < 64, "{text}");
    }
}

#[test]
fn a_limit_of_memory_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path(), GROUPS, 1);
    check_limits(folder.path());
}

/// Tails that nobody seals are no reason to take more.
#[test]
fn a_limit_of_memory_is_kept_over_tails() {
    let folder = tempfile::tempdir().expect("a folder");
    tails(folder.path(), GROUPS);
    let archive = Archive::open(folder.path(), QueryOptions::default()).expect("the archive");
    assert_eq!((archive.snapshot().flows_unsealed(), archive.snapshot().tail_frames().len()), (GROUPS, 80));
    check_limits(folder.path());
}
