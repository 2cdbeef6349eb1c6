//! The sink by itself.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::TimestampMillisecondType;
use weir_archive::Snapshot;
use weir_chain::{AnyKind, compliance};
use weir_flow::books::stored_rows;
use weir_flow::{BooksBatch, Column, FlowBatch, FlowBatchBuilder, SideTables};

use super::*;

/// The compliance test takes a reference that lives as long as the program.
const ARCHIVE: &'static dyn AnyKind = &KIND;

fn flows(count: u64, received: bool) -> RecordBatch {
    let mut builder = FlowBatchBuilder::new(count as usize);
    builder.begin_rows(count as usize);
    if received {
        builder.time(Column::Received).repeat(1_700_000_005_000, count as usize);
    }
    builder.time(Column::End).repeat(1_700_000_000_000, count as usize);
    builder.u64(Column::Bytes).extend((0..count as usize).map(|bytes| bytes as u64));
    builder.finish().record_batch().clone()
}

fn stored(folder: &std::path::Path) -> u64 {
    Snapshot::open(folder).expect("an archive").flows()
}

#[test]
fn complies() {
    for burst_rows in [1, 7, 1000] {
        let folder = tempfile::tempdir().expect("a folder");
        let parameters = format!("archive = '{}'", folder.path().display());
        let counters = compliance::sink(ARCHIVE, &parameters, &[flows(50, true), flows(20, true)], burst_rows);
        assert_eq!(stored(folder.path()), 70);
        let count = |name| counters.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        assert_eq!((count("rows_stored"), count("rows_durable")), (Some(70), Some(70)));
        assert_eq!(count("segments_sealed"), Some(1));
    }
}

#[test]
fn rows_without_reception_get_the_time_of_their_end() {
    let fit = Fit { received_now: false, drop: false };
    let flows = fit.flows(&flows(3, false)).expect("flows");
    let received = flows.primitive::<TimestampMillisecondType>(Column::Received).expect("a column");
    assert_eq!(received.values(), &[1_700_000_000_000; 3]);
    let now = Fit { received_now: true, drop: false }.flows(&self::flows(1, false)).expect("flows");
    let received = now.primitive::<TimestampMillisecondType>(Column::Received).expect("a column");
    assert!(received.value(0) > 1_700_000_000_000);
}

#[test]
fn columns_that_are_no_flows_are_an_error_or_left_out() {
    let mut rows = flows(2, true);
    let known = rows.schema();
    let fields = known.fields().iter().cloned();
    let extra = Arc::new(arrow::datatypes::Field::new("label", arrow::datatypes::DataType::UInt64, true));
    let schema = Arc::new(arrow::datatypes::Schema::new(fields.chain([extra]).collect::<Vec<_>>()));
    let columns = rows.columns().iter().cloned().chain([Arc::clone(rows.column(2))]).collect();
    rows = RecordBatch::try_new(schema, columns).expect("rows");
    let error = Fit { received_now: false, drop: false }.flows(&rows).expect_err("an error");
    assert!(error.to_string().starts_with("'label' is no column of flows"), "{error}");
    assert_eq!(Fit { received_now: false, drop: true }.flows(&rows).expect("flows").rows(), 2);
}

/// Opens a sink, lets `repair` work as soon as writing has failed once, and gives the sink rows until it has.
fn fail_and(
    folder: &std::path::Path,
    mut rows: impl FnMut() -> RecordBatch,
    repair: impl FnOnce(&ComponentContext) + Send,
) -> (ComponentContext, Result<(), ComponentError>) {
    let (Built::Sink(mut sink), context) = compliance::open(ARCHIVE, &format!("archive = '{}'", folder.display()))
    else {
        panic!("a sink")
    };
    let failures = context.counters.counter("failures");
    std::fs::rename(folder.join("tail"), folder.join("away")).expect("moved away");
    let given = thread::scope(|scope| {
        let context = &context;
        let failed = failures.clone();
        scope.spawn(move || {
            while failed.get() == 0 {
                thread::yield_now();
            }
            repair(context);
        });
        loop {
            let given = sink.take(Burst::new(rows()));
            if given.is_err() || failures.get() > 0 {
                return given;
            }
        }
    });
    let given = given.and_then(|()| sink.finish());
    (context, given)
}

fn move_back(folder: &std::path::Path) {
    std::fs::rename(folder.join("away"), folder.join("tail")).expect("moved back");
}

#[test]
fn a_failure_that_passes_costs_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (context, given) = fail_and(folder.path(), || flows(10, true), |_| move_back(folder.path()));
    given.expect("kept in the end");
    let counter = |name| context.counters.counter(name).get();
    assert_eq!((counter("rows_stored"), counter("rows_refused"), stored(folder.path())), (10, 0, 10));
}

#[test]
fn a_failure_that_lasts_ends_with_the_chain() {
    let folder = tempfile::tempdir().expect("a folder");
    let (context, given) = fail_and(folder.path(), || flows(10, true), |context| context.stop.set());
    let error = given.expect_err("there is no folder").chain();
    assert!(error.contains("cannot create tail"), "{error}");
    let counter = |name| context.counters.counter(name).get();
    assert_eq!((counter("rows_stored"), counter("rows_refused")), (0, 10));
    assert!(counter("failures") >= 2, "it tried once more after the stop");
}

#[test]
fn what_is_too_large_for_a_frame_is_appended_in_pieces() {
    let folder = tempfile::tempdir().expect("a folder");
    let (fit, context) = (Fit { received_now: false, drop: false }, ComponentContext::default());
    let options = ArchiveOptions { frame_octets_max: 20_000, ..ArchiveOptions::default() };
    let mut sink =
        Archive::open(folder.path().to_owned(), &options, fit, NewFolders::default(), &context).expect("an archive");
    sink.take(Burst::new(flows(20_000, true))).expect("appended");
    // one row cannot be parted
    let mut builder = FlowBatchBuilder::new(1);
    builder.begin_rows(1);
    builder.time(Column::Received).push(Some(1_700_000_005_000));
    builder.address(Column::SrcAddr).push(Some(&vec![7; 30_000]));
    sink.take(Burst::new(builder.finish().record_batch().clone())).expect("the chain goes on");
    sink.take(Burst::new(flows(3, true))).expect("appended");
    sink.finish().expect("sealed");
    let counter = |name| context.counters.counter(name).get();
    assert_eq!((counter("rows_stored"), counter("rows_refused"), stored(folder.path())), (20_003, 1, 20_003));
    assert!(Snapshot::open(folder.path()).expect("an archive").position().get() > 3);
}

/// A file system of two mebibytes.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None`, and said, where this process may not mount one.
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let options = ["-t", "tmpfs", "-o", "size=2m", "tmpfs"];
        let mounted = std::process::Command::new("mount").args(options).arg(folder.path()).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(folder));
        }
        weir_testkit::skip("root", "mounting a small disk needs root");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

#[test]
fn a_full_disk_makes_the_sink_wait_until_there_is_room() {
    let Some(disk) = SmallDisk::mount() else { return };
    let folder = &disk.0;
    let archive = folder.path().join("archive");
    std::fs::create_dir(&archive).expect("a folder");
    let ballast = folder.path().join("ballast");
    std::fs::write(&ballast, vec![1; 1 << 20]).expect("room");
    let mut given = 0;
    let (Built::Sink(mut sink), context) = compliance::open(ARCHIVE, &format!("archive = '{}'", archive.display()))
    else {
        panic!("a sink")
    };
    let failures = context.counters.counter("failures");
    thread::scope(|scope| {
        let failed = failures.clone();
        scope.spawn(move || {
            while failed.get() == 0 {
                thread::yield_now();
            }
            std::fs::remove_file(&ballast).expect("removed");
        });
        while failures.get() == 0 {
            sink.take(Burst::new(flows(1000, true))).expect("kept in the end");
            given += 1000;
        }
    });
    sink.finish().expect("sealed");
    let found = stored(&archive);
    drop(sink);
    assert_eq!((found, context.counters.counter("rows_refused").get()), (given, 0));
}

/// Flows with the lines of the books that count them.
fn accounted(count: u64) -> Burst {
    let rows = flows(count, true);
    let flows = FlowBatch::try_new(rows.clone()).expect("flows");
    let books = Some(BooksBatch::from_rows(&stored_rows(&flows)));
    Burst::with_side_tables(rows, SideTables { books, ..SideTables::default() })
}

#[test]
fn what_a_full_disk_left_out_until_the_end_is_in_the_books() {
    let Some(disk) = SmallDisk::mount() else { return };
    let folder = &disk.0;
    let archive = folder.path().join("archive");
    let (Built::Sink(mut sink), context) = compliance::open(ARCHIVE, &format!("archive = '{}'", archive.display()))
    else {
        panic!("a sink")
    };
    let refused = context.counters.counter("rows_refused");
    // another program takes what is left
    let mut ballast = std::fs::File::create(folder.path().join("ballast")).expect("a file");
    let (first, confirmed) = with_receipt(accounted(1000));
    sink.take(first).expect("there is room");
    while std::io::Write::write_all(&mut ballast, &[1; 4096]).is_ok() {}
    context.stop.set();
    let mut given = 1000;
    while refused.get() < 5000 {
        sink.take(accounted(1000)).expect("what is left is taken, so that it can be counted");
        given += 1000;
    }
    let (last, not_kept) = with_receipt(accounted(1000));
    sink.take(last).expect("taken, to be counted");
    given += 1000;
    let error = sink.finish().expect_err("not all was written").chain();
    assert!(error.contains("cannot write to the archive"), "{error}");
    assert_eq!(confirmed.try_recv(), Ok(DeliveryOutcome::Durable { position: 1 }), "what was stored before is durable");
    assert_eq!(not_kept.try_recv(), Ok(DeliveryOutcome::NotAll));
    drop((sink, ballast));
    let snapshot = Snapshot::open(&archive).expect("an archive");
    let counts = snapshot.books(i64::MIN, i64::MAX).expect("readable").totals();
    let flows = snapshot.flows();
    drop(snapshot);
    let of = |counter: weir_flow::Counter| counts[counter as usize];
    assert_eq!(of(weir_flow::Counter::RecordsStored), given, "everything that came");
    assert_eq!(of(weir_flow::Counter::RecordsNotStored), refused.get());
    assert_eq!(weir_flow::books::balance_rows(&counts, flows, 0), Ok(()));
}

#[test]
fn a_sink_that_is_to_give_up_ends_on_a_disk_that_stays_full() {
    let Some(disk) = SmallDisk::mount() else { return };
    let folder = &disk.0;
    let archive = folder.path().join("archive");
    let options = format!("archive = '{}'\ngive_up_after = '1ms'", archive.display());
    let (Built::Sink(mut sink), context) = compliance::open(ARCHIVE, &options) else { panic!("a sink") };
    let mut taken = 0;
    let error = loop {
        match sink.take(Burst::new(flows(1000, true))) {
            Ok(()) => taken += 1000,
            Err(error) => break error.chain(),
        }
    };
    let refused = context.counters.counter("rows_refused").get();
    drop(sink);
    assert!(error.contains("cannot write to the archive") && error.contains("which took nothing for "), "{error}");
    assert!(taken > 0 && refused == 1000, "{taken} taken, {refused} refused");
}

#[test]
fn a_wait_with_an_end_is_reported_more_than_once_and_says_when_it_ends() {
    let limit = Some(Duration::from_mins(1));
    assert_eq!(warning_interval(limit), Duration::from_secs(15));
    assert_eq!(warning_interval(None), Duration::from_mins(1));
    let waited = Duration::from_secs(15);
    assert_eq!(waiting_text(waited, limit), "the archive takes nothing for 15 s, trying again until 60 s are over");
    assert_eq!(waiting_text(waited, None), "the archive takes nothing for 15 s, trying again");
}

#[test]
fn an_archive_with_a_writer_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let _writer = Writer::open(folder.path(), ArchiveOptions::default()).expect("an archive");
    let fit = Fit { received_now: false, drop: false };
    let (options, context) = (ArchiveOptions::default(), ComponentContext::default());
    let opened = Archive::open(folder.path().to_owned(), &options, fit, NewFolders::default(), &context);
    let error = opened.err().expect("one writer at a time");
    assert!(error.chain().contains(&folder.path().display().to_string()), "{}", error.chain());
}

#[test]
fn a_new_archive_that_was_not_used_is_removed_but_not_by_a_panic() {
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("archive");
    let (options, context) = (ArchiveOptions::default(), ComponentContext::default());
    let open = || {
        let fit = Fit { received_now: false, drop: false };
        Archive::open(folder.clone(), &options, fit, NewFolders::of(&folder), &context).expect("an archive")
    };
    drop(open());
    assert!(!folder.exists());
    let panicked: Result<(), _> = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _archive = open();
        panic!("a defect");
    }));
    assert!(panicked.is_err() && folder.exists());
}

/// A burst with a receipt, and what it is resolved with.
fn with_receipt(burst: Burst) -> (Burst, std::sync::mpsc::Receiver<DeliveryOutcome>) {
    let (sender, told) = std::sync::mpsc::channel();
    let receipts = vec![Receipt::new(move |kept| {
        let _ = sender.send(kept);
    })];
    let (rows, side_tables) = burst.into_parts();
    (Burst::with_side_tables(rows, SideTables { receipts, ..side_tables }), told)
}

fn flows_with_receipt(count: u64) -> (Burst, std::sync::mpsc::Receiver<DeliveryOutcome>) {
    with_receipt(Burst::new(flows(count, true)))
}

#[test]
fn a_receipt_is_resolved_when_its_flows_are_durable_and_not_before() {
    let folder = tempfile::tempdir().expect("a folder");
    // nothing is synced before the end
    let options = format!("archive = '{}'\ncommit_interval = '1h'", folder.path().display());
    let (Built::Sink(mut sink), _) = compliance::open(ARCHIVE, &options) else { panic!("a sink") };
    sink.take(Burst::new(flows(3, true))).expect("taken");
    let (burst, told) = flows_with_receipt(5);
    sink.take(burst).expect("taken");
    sink.tick().expect("no error");
    assert_eq!(told.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty));
    sink.finish().expect("synced");
    assert_eq!(told.recv(), Ok(DeliveryOutcome::Durable { position: 2 }));
    drop(sink);
    assert_eq!(stored(folder.path()), 8);
    // and while it runs
    let options = format!("archive = '{}'\ncommit_interval = '1ms'", folder.path().display());
    let (Built::Sink(mut sink), _) = compliance::open(ARCHIVE, &options) else { panic!("a sink") };
    let (burst, told) = flows_with_receipt(5);
    sink.take(burst).expect("taken");
    let until = Instant::now() + Duration::from_mins(1);
    let kept = loop {
        sink.tick().expect("no error");
        match told.try_recv() {
            Ok(kept) => break kept,
            Err(_) => assert!(Instant::now() < until, "it is resolved"),
        }
        thread::yield_now();
    };
    let DeliveryOutcome::Durable { position } = kept else { panic!("{kept:?}") };
    assert!(position > 2, "{position}");
}

#[test]
fn a_receipt_of_flows_that_are_refused_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = format!("archive = '{}'", folder.path().display());
    let (Built::Sink(mut sink), _) = compliance::open(ARCHIVE, &options) else { panic!("a sink") };
    sink.finish().expect("closed");
    let (burst, told) = flows_with_receipt(5);
    assert!(sink.take(burst).is_err(), "it is closed");
    assert_eq!(told.recv(), Ok(DeliveryOutcome::NotAll));
}

#[test]
fn flows_that_cannot_be_sealed_at_the_end_are_durable_all_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = format!("archive = '{}'\ncommit_interval = '1h'", folder.path().display());
    let (Built::Sink(mut sink), context) = compliance::open(ARCHIVE, &options) else { panic!("a sink") };
    let (burst, told) = flows_with_receipt(5);
    sink.take(burst).expect("taken");
    // no segment can be written
    std::fs::remove_dir(folder.path().join("tmp")).expect("removed");
    std::fs::write(folder.path().join("tmp"), b"a file").expect("written");
    let error = sink.finish().expect_err("it is not sealed").chain();
    assert!(error.contains("cannot write to the archive"), "{error}");
    assert_eq!(told.try_recv(), Ok(DeliveryOutcome::Durable { position: 1 }));
    let counter = |name| context.counters.counter(name).get();
    assert_eq!((counter("rows_durable"), counter("rows_lost")), (5, 0));
    assert!(counter("seal_failures") > 0);
    drop(sink);
    assert_eq!(stored(folder.path()), 5);
}

#[test]
fn an_archive_that_was_not_there_and_is_not_used_is_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (above, archive) = (folder.path().join("above"), folder.path().join("above").join("archive"));
    let open = || compliance::open(ARCHIVE, &format!("archive = '{}'", archive.display())).0;
    // as when a source cannot be opened after it
    drop(open());
    assert!(!above.exists());
    // a folder of somebody else stays
    std::fs::create_dir(&above).expect("a folder");
    drop(open());
    assert!(!archive.exists() && above.exists());
    // a chain that has ended leaves its archive, also when no flow came
    let Built::Sink(mut sink) = open() else { panic!("a sink") };
    sink.finish().expect("closed");
    drop(sink);
    assert_eq!(stored(&archive), 0);
    // and an archive that was there is there
    drop(open());
    assert_eq!(stored(&archive), 0);
}

#[test]
fn an_archive_with_flows_stays_when_its_chain_breaks_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive");
    let (Built::Sink(mut sink), _) = compliance::open(ARCHIVE, &format!("archive = '{}'", archive.display())) else {
        panic!("a sink")
    };
    sink.take(Burst::new(flows(3, true))).expect("taken");
    drop(sink);
    assert_eq!(stored(&archive), 3);
}
