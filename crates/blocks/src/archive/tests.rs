use std::fs;
use std::process::Command;

use arrow::array::{Int32Array, UInt32Array, UInt64Array};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, UInt64Type};
use weir_archive::Snapshot;
use weir_chain::compliance;
use weir_flow::{BooksBatch, BooksRow, FlowBatchBuilder, Table};

use super::*;

const ARCHIVE: &BlockKind = &KIND;
const LONG: Duration = Duration::from_mins(1);
const RECEIVED_MS: i64 = 1_763_683_300_000;

/// Flows numbered in `flow_id`, received one a second.
fn flows(numbers: std::ops::Range<u64>) -> RecordBatch {
    let rows = (numbers.end - numbers.start) as usize;
    let mut builder = FlowBatchBuilder::new(rows);
    builder.begin_rows(rows);
    let received = (0..rows).map(|row| RECEIVED_MS + (numbers.start as i64 + row as i64) * 1000);
    builder.time(Column::Received).extend(received);
    builder.u64(Column::FlowId).extend((0..rows).map(|row| numbers.start + row as u64));
    builder.finish().record_batch().clone()
}

fn parameters(dir: &Path, more: &str) -> String {
    format!("archive = '{}'\n{more}", dir.display())
}

fn open(dir: &Path, more: &str) -> (Box<dyn Sink>, BlockContext) {
    match compliance::open(ARCHIVE, &parameters(dir, more)) {
        (Built::Sink(sink), context) => (sink, context),
        _ => panic!("a sink"),
    }
}

fn counter(context: &BlockContext, name: &'static str) -> u64 {
    context.meter.counter(name).get()
}

/// All flows of an archive with all columns, in no order.
fn stored(dir: &Path) -> RecordBatch {
    let snapshot = Snapshot::open(dir).expect("a snapshot");
    let segments = snapshot.segments(Table::Flows).iter().flat_map(|segment| segment.read().expect("a segment"));
    let batches = segments.chain(snapshot.tail(Table::Flows).iter().cloned());
    let batches: Vec<_> = batches.map(|batch| FlowBatch::try_new(batch).expect("flows").to_full()).collect();
    concat_batches(&Table::Flows.schema(), &batches).expect("rows")
}

fn numbers(dir: &Path) -> Vec<u64> {
    let stored = stored(dir);
    let mut numbers = stored.column(Column::FlowId as usize).as_primitive::<UInt64Type>().values().to_vec();
    numbers.sort_unstable();
    numbers
}

fn received(dir: &Path) -> Vec<i64> {
    let stored = stored(dir);
    let received = stored.column(Column::Received as usize).as_primitive::<TimestampMillisecondType>();
    assert_eq!(received.null_count(), 0);
    let mut received = received.values().to_vec();
    received.sort_unstable();
    received
}

#[test]
fn complies() {
    for burst_rows in [7, 1000] {
        let dir = tempfile::tempdir().expect("a folder");
        let parameters = parameters(dir.path(), "segment_rows_max = 300");
        let counters = compliance::sink(ARCHIVE, &parameters, &[flows(0..500), flows(500..501)], burst_rows);
        let counter = |name| counters.iter().find(|(known, _)| *known == name).expect("a counter").1;
        assert_eq!((counter("rows_stored"), counter("rows_durable"), counter("rows_refused")), (501, 501, 0));
        let snapshot = Snapshot::open(dir.path()).expect("a snapshot");
        let segments = snapshot.segments(Table::Flows);
        assert!(snapshot.tail(Table::Flows).is_empty(), "everything is sealed");
        assert_eq!(counter("segments_sealed"), segments.len() as u64);
        assert_eq!(counter("octets_sealed"), segments.iter().map(|segment| segment.octets).sum::<u64>());
        assert_eq!(numbers(dir.path()), (0..501).collect::<Vec<_>>());
    }
}

#[test]
fn defaults_are_those_of_an_archive() {
    let table = "archive = 'somewhere'".parse().expect("TOML");
    let parameters = Parameters::new(KIND.parameters, &table, ".").expect("parameters");
    let options = ArchiveOptions::default();
    assert_eq!(parameters.duration("commit_interval_secs"), options.commit_interval);
    assert_eq!(parameters.duration("seal_interval_secs"), options.seal_interval);
    assert_eq!(parameters.integer("segment_rows_max"), options.segment_rows_max as u64);
}

#[test]
fn flows_and_books_of_a_burst_are_one_delivery() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut sink, context) = open(dir.path(), "");
    let line = BooksRow {
        minute_ms: 0,
        exporter: None,
        observation_domain: None,
        export_version: None,
        counts: [1; weir_flow::Counter::COUNT],
    };
    let books = BooksBatch::from_rows(&[line]);
    sink.take(Burst::with_books(flows(0..3), Some(books.clone()))).expect("kept");
    let nothing = RecordBatch::new_empty(Arc::new(Schema::empty()));
    sink.take(Burst::with_books(nothing, Some(books))).expect("kept");
    let snapshot = Snapshot::open(dir.path()).expect("a snapshot");
    assert_eq!(snapshot.position().get(), 2, "a frame for each burst");
    assert_eq!((snapshot.rows(Table::Flows), snapshot.rows(Table::ExporterBooks)), (3, 2));
    assert_eq!(counter(&context, "rows_stored"), 3);
}

#[test]
fn durable_rows_are_told_while_the_chain_runs() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut sink, context) = open(dir.path(), "commit_interval_secs = 0.002");
    sink.take(Burst::new(flows(0..40))).expect("kept");
    let began = Instant::now();
    while counter(&context, "rows_durable") < 40 {
        assert!(began.elapsed() < LONG, "never durable");
        sink.tick().expect("nothing fails");
    }
    assert_eq!(counter(&context, "rows_durable"), 40);
}

/// Flows with all, one or none of three times.
fn times() -> RecordBatch {
    let mut builder = FlowBatchBuilder::new(4);
    for (received, start, end) in
        [(Some(10), Some(1), Some(2)), (None, Some(3), Some(20)), (None, Some(30), None), (None, None, None)]
    {
        builder.begin_rows(1);
        builder.time(Column::Received).push(received);
        builder.time(Column::Start).push(start);
        builder.time(Column::End).push(end);
    }
    builder.finish().record_batch().clone()
}

#[test]
fn flows_without_a_time_of_reception_get_one() {
    let began_ms = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_millis() as i64;
    // of the rows that lack the column altogether, the first has an end as well
    for (choice, expected) in [("end", &[2, 10, 20, 20, 30, 30][..]), ("now", &[10])] {
        let dir = tempfile::tempdir().expect("a folder");
        let (mut sink, _) = open(dir.path(), &format!("received = '{choice}'"));
        sink.take(Burst::new(times())).expect("kept");
        sink.take(Burst::new(times().project(&[1, 2]).expect("two columns"))).expect("kept");
        sink.finish().expect("closed");
        let received = received(dir.path());
        let (early, late): (Vec<i64>, Vec<i64>) = received.iter().partition(|time| **time < began_ms);
        assert_eq!(early, expected, "{choice}");
        assert_eq!(early.len() + late.len(), 8);
    }
    let dir = tempfile::tempdir().expect("a folder");
    let (mut sink, context) = open(dir.path(), "received = 'error'");
    sink.take(Burst::new(times().slice(0, 1))).expect("it has a time");
    let error = sink.take(Burst::new(times())).expect_err("three have none").chain();
    assert!(error.starts_with("flows without a time of reception cannot be kept\nhint: "), "{error}");
    assert_eq!((counter(&context, "rows_stored"), counter(&context, "rows_refused")), (1, 4));
}

#[test]
fn columns_are_arranged_refused_or_left_out() {
    let received = times().column(0).slice(0, 1);
    let schema = Schema::new(vec![
        Field::new("bytes", DataType::UInt64, true),
        Field::new("share", DataType::UInt32, true),
        Field::new("received", received.data_type().clone(), true),
    ]);
    let columns: Vec<ArrayRef> =
        vec![Arc::new(UInt64Array::from(vec![7])), Arc::new(UInt32Array::from(vec![1])), received];
    let rows = RecordBatch::try_new(Arc::new(schema), columns).expect("rows");
    let dir = tempfile::tempdir().expect("a folder");
    let (mut sink, context) = open(dir.path(), "");
    let error = sink.take(Burst::new(rows.clone())).expect_err("a column too many").chain();
    assert_eq!(error, "column 'share' is not a column of flows\nhint: extra_columns = 'drop' leaves it out");
    assert_eq!(counter(&context, "rows_refused"), 1);
    drop(sink);
    let (mut sink, _) = open(dir.path(), "extra_columns = 'drop'");
    sink.take(Burst::new(rows)).expect("kept without it");
    let wrong = Schema::new(vec![Field::new("bytes", DataType::Int32, true)]);
    let wrong = RecordBatch::try_new(Arc::new(wrong), vec![Arc::new(Int32Array::from(vec![1]))]).expect("rows");
    let error = sink.take(Burst::new(wrong)).expect_err("a column of another type").chain();
    assert!(error.contains("column 'bytes' has type Int32, but UInt64 is needed"), "{error}");
    sink.finish().expect("closed");
    let stored = FlowBatch::try_new(stored(dir.path())).expect("flows");
    assert_eq!((stored.rows(), stored.sum(Column::Bytes)), (1, 7));
}

#[test]
fn a_failure_that_passes_costs_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut sink, context) = open(dir.path(), "");
    let (tails, away) = (dir.path().join("tail"), dir.path().join("away"));
    fs::rename(&tails, &away).expect("moved away");
    thread::scope(|scope| {
        scope.spawn(|| {
            let began = Instant::now();
            while counter(&context, "write_failures") == 0 {
                assert!(began.elapsed() < LONG, "it never failed");
                thread::yield_now();
            }
            fs::rename(&away, &tails).expect("moved back");
        });
        sink.take(Burst::new(flows(0..10))).expect("kept in the end");
    });
    sink.finish().expect("closed");
    assert_eq!((counter(&context, "rows_stored"), counter(&context, "rows_refused")), (10, 0));
    assert_eq!(numbers(dir.path()), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_failure_that_lasts_ends_with_the_chain() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut sink, context) = open(dir.path(), "");
    fs::rename(dir.path().join("tail"), dir.path().join("away")).expect("moved away");
    let error = thread::scope(|scope| {
        scope.spawn(|| {
            let began = Instant::now();
            while counter(&context, "write_failures") == 0 {
                assert!(began.elapsed() < LONG, "it never failed");
                thread::yield_now();
            }
            context.stop.set();
        });
        sink.take(Burst::new(flows(0..10))).expect_err("there is no folder")
    });
    assert!(error.chain().contains("cannot create tail"), "{}", error.chain());
    assert_eq!((counter(&context, "rows_stored"), counter(&context, "rows_refused")), (0, 10));
    assert!(counter(&context, "write_failures") >= 2, "it tried once more after the stop");
}

/// A small file system of its own; `None` when this process may not mount one.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(size: &str) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a folder");
        let options = format!("size={size}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(dir.path()).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(dir));
        }
        println!("skipped: mounting a small disk needs root");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

#[test]
fn a_full_disk_makes_the_sink_wait_until_there_is_room() {
    let Some(disk) = SmallDisk::mount("2m") else { return };
    let ballast = disk.0.path().join("ballast");
    fs::write(&ballast, vec![1; 1 << 20]).expect("room");
    let archive = disk.0.path().join("archive");
    let (mut sink, context) = open(&archive, "");
    thread::scope(|scope| {
        scope.spawn(|| {
            let began = Instant::now();
            while counter(&context, "write_failures") == 0 {
                assert!(began.elapsed() < LONG, "the disk was never full");
                thread::yield_now();
            }
            fs::remove_file(&ballast).expect("removed");
        });
        let mut next = 0;
        while counter(&context, "write_failures") == 0 {
            sink.take(Burst::new(flows(next..next + 1000))).expect("kept in the end");
            next += 1000;
        }
    });
    let rows = counter(&context, "rows_stored");
    sink.finish().expect("sealed");
    assert_eq!(counter(&context, "rows_refused"), 0);
    assert_eq!(numbers(&archive), (0..rows).collect::<Vec<_>>());
}

#[test]
fn what_a_crash_left_is_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut sink, context) = open(dir.path(), "");
    assert!(context.notes.take().is_empty());
    sink.take(Burst::new(flows(0..5))).expect("kept");
    drop(sink);
    let (sink, context) = open(dir.path(), "");
    assert_eq!(context.notes.take(), ["recovered: 1 tails with 5 flows to seal, 0 octets of an unfinished write cut"]);
    let table = parameters(dir.path(), "").parse().expect("TOML");
    let opener = configure(&Parameters::new(KIND.parameters, &table, ".").expect("parameters")).expect("configured");
    let Err(error) = opener(&BlockContext::default()) else { panic!("it is locked") };
    assert!(error.chain().contains("archive is being written by"), "{}", error.chain());
    drop(sink);
}
