//! Forwarding from archives that are written, sealed, killed, too small or too slow, to a store that fails as it likes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_archive::{
    ArchiveOptions, ExpiryOptions, FollowEvent, FollowOptions, FollowPosition, Follower, Snapshot, Writer, expire,
};
use weir_flow::{Column, Delivery, FlowBatch, FlowBatchBuilder};
use weir_forward::identity::row_keys;
use weir_forward::{
    ForwardCounters, ForwardCounts, ForwardDelivery, ForwardError, ForwardGroup, ForwardOptions, ForwardOutcome,
    ForwardState, ForwardStore, ForwardThread, Forwarder, GroupArchive, InFlight, StateError, StoreError, StoredRows,
    forwarders,
};

/// 2026-03-01 00:00:00 UTC.
const BEGIN_MS: i64 = 1_772_323_200_000;
/// Flows of a delivery.
const ROWS: u64 = 50;

/// Flows with the numbers of a delivery; some are equal in everything but the number, some have elements.
fn flows(delivery: u64, begin_ms: i64) -> FlowBatch {
    let mut flows = FlowBatchBuilder::new(ROWS as usize);
    for number in delivery * ROWS..(delivery + 1) * ROWS {
        flows.begin_rows(1);
        flows.time(Column::Received).push(Some(begin_ms + (number / 7) as i64));
        flows.u64(Column::FlowId).push(Some(number));
        flows.u16(Column::DstPort).push((number % 3 > 0).then_some((number % 5) as u16));
        flows.address(Column::SrcAddr).push(Some(&[10, 0, 0, (number % 4) as u8]));
        if number % 11 == 0 {
            flows.elements().push(0, 352, &number.to_be_bytes());
            flows.elements().end_row();
        }
    }
    flows.finish()
}

fn append(writer: &mut Writer, deliveries: std::ops::Range<u64>) {
    for delivery in deliveries {
        writer.append(Delivery::from(flows(delivery, BEGIN_MS))).expect("appended");
    }
}

/// A store in memory that keeps keys, as a table would: what comes twice is there once.
#[derive(Clone, Default)]
struct Table {
    rows: Arc<Mutex<BTreeMap<i64, u64>>>,
    begun: Arc<Mutex<Vec<ForwardDelivery>>>,
    /// Calls of `ended` so far.
    turns: Arc<Mutex<u64>>,
    /// Which attempts fail, by their number.
    fails: Arc<Mutex<BTreeSet<u64>>>,
    /// Whether what fails is refused for good.
    refuses: bool,
    /// Whether nothing ends.
    is_stuck: bool,
}

impl Table {
    fn numbers(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.rows.lock().expect("rows").values().copied().collect();
        numbers.sort_unstable();
        numbers
    }
}

impl ForwardStore for Table {
    fn begin(&mut self, delivery: ForwardDelivery) {
        self.begun.lock().expect("begun").push(delivery);
    }

    /// The newest first, one at a time; a failed one is stored in part.
    fn ended(&mut self, timeout: Duration) -> Vec<ForwardOutcome> {
        let next = if self.is_stuck { None } else { self.begun.lock().expect("begun").pop() };
        let Some(delivery) = next else {
            std::thread::sleep(timeout);
            return Vec::new();
        };
        let mut turn = self.turns.lock().expect("turns");
        *turn += 1;
        let fails = self.fails.lock().expect("fails").contains(&turn);
        let numbers = delivery.flows.primitive::<arrow::datatypes::UInt64Type>(Column::FlowId).expect("numbers");
        let rows: Vec<_> = delivery.row_keys.iter().copied().zip(numbers.values().iter().copied()).collect();
        let stored = if fails { &rows[..rows.len() / 2] } else { &rows[..] };
        self.rows.lock().expect("rows").extend(stored.iter().copied());
        let result = if fails {
            let error = if self.refuses { StoreError::Refused } else { StoreError::Unavailable };
            Err(error("no".to_owned()))
        } else {
            Ok(StoredRows { stored: rows.len() as u64, refused: 0 })
        };
        vec![ForwardOutcome { position: delivery.position, result }]
    }
}

fn options() -> ForwardOptions {
    ForwardOptions {
        retry_after: Duration::from_millis(1),
        retry_after_max: Duration::from_millis(2),
        keep_interval: Duration::ZERO,
        ..ForwardOptions::default()
    }
}

fn forward(dir: &Path, store: Table) -> Result<ForwardCounts, ForwardError> {
    Forwarder::open(dir, options(), store, ForwardCounters::default())?.run(|| false, || true, Duration::from_mins(1))
}

#[test]
fn each_row_is_stored_once_whatever_fails() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(dir.path(), ArchiveOptions::default()).expect("an archive");
    append(&mut writer, 0..20);
    let table = Table::default();
    table.fails.lock().expect("fails").extend([1, 2, 5, 6, 7, 19, 30]);
    let counts = forward(dir.path(), table.clone()).expect("forwarded");
    assert_eq!((counts.rows_forwarded, counts.deliveries_forwarded), (20 * ROWS, 20));
    assert_eq!((counts.failures, counts.deliveries_waiting, counts.rows_in_flight), (6, 0, 0));
    assert!(table.numbers().into_iter().eq(0..20 * ROWS));

    // from where it was, in the same process as the writer and after it has ended
    append(&mut writer, 20..30);
    assert_eq!(forward(dir.path(), table.clone()).expect("forwarded").rows_forwarded, 30 * ROWS);
    writer.close().expect("closed");
    assert_eq!(forward(dir.path(), table.clone()).expect("forwarded").rows_forwarded, 30 * ROWS);
    assert!(table.numbers().into_iter().eq(0..30 * ROWS));
}

#[test]
fn others_read_how_far_forwarders_are() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(dir.path(), ArchiveOptions::default()).expect("an archive");
    assert!(forwarders(dir.path()).expect("read").is_empty());
    append(&mut writer, 0..20);
    forward(dir.path(), Table::default()).expect("forwarded");
    append(&mut writer, 20..27);
    writer.close().expect("closed");
    std::fs::write(dir.path().join("forward/other"), "weir forward 1\nposition 0:3\ncrc32c 00000000\n")
        .expect("written");
    let snapshot = Snapshot::open(dir.path()).expect("a snapshot");
    let last = snapshot.position();
    let found = forwarders(dir.path()).expect("read");
    let [own, other] = &found[..] else { panic!("two forwarders: {found:?}") };
    let state = own.state.as_ref().expect("its state");
    assert_eq!((own.name.as_str(), state.deliveries_waiting(last)), ("forward", 7));
    assert_eq!((state.counts.rows_forwarded, state.counts.deliveries_forwarded), (20 * ROWS, 20));
    // the last flows are the 1,000th of all, received at 142 ms, and the 1,350th, at 192 ms
    assert_eq!(state.lag_ms(&snapshot).expect("read"), Some(50));
    assert_eq!(ForwardState::default().lag_ms(&snapshot).expect("read"), None, "nothing was forwarded");
    let up_to_date = ForwardState { position: snapshot.follow_position(), ..*state };
    assert_eq!(up_to_date.lag_ms(&snapshot).expect("read"), Some(0));
    assert!(other.name == "other" && matches!(other.state, Err(StateError::Damaged { .. })), "{other:?}");
}

#[test]
fn what_is_sealed_and_merged_has_the_keys_that_it_had() {
    let dir = tempfile::tempdir().expect("a folder");
    let keys = |dir: &Path| {
        let mut follower = Follower::open(dir, FollowPosition::START, FollowOptions::default()).expect("a follower");
        let mut keys = BTreeMap::new();
        while let Some(event) = follower.try_next().expect("no failure") {
            let FollowEvent::Delivery(delivery) = event else { panic!("{event:?}") };
            let mut found = row_keys(delivery.position, &delivery.flows.expect("flows"));
            found.sort_unstable();
            keys.insert(delivery.position, found);
        }
        keys
    };
    let (mut writer, _) = Writer::open(dir.path(), ArchiveOptions::default()).expect("an archive");
    append(&mut writer, 0..30);
    let of_tail = keys(dir.path());
    assert_eq!(of_tail.len(), 30);
    writer.close().expect("sealed");
    assert_eq!(keys(dir.path()), of_tail);
    let (mut writer, _) = Writer::open(dir.path(), ArchiveOptions::default()).expect("an archive");
    append(&mut writer, 30..40);
    writer.close().expect("sealed");
    let both = keys(dir.path());
    let merging = weir_archive::CompactionOptions { fan_in: 2, settle_time: Duration::ZERO, ..Default::default() };
    let report = weir_archive::compact(dir.path(), &merging, |_| {}).expect("merged");
    assert!(report.segments_merged > 0, "{report:?}");
    assert_eq!(keys(dir.path()), both);
    assert!(of_tail.iter().all(|(position, keys)| both.get(position) == Some(keys)));
}

#[test]
fn a_crash_repeats_deliveries_and_rows_stay_as_they_are() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(dir.path(), ArchiveOptions::default()).expect("an archive");
    append(&mut writer, 0..20);
    let table = Table::default();
    // killed when half was stored: the position is from before
    let state = dir.path().join("forward/forward");
    forward(dir.path(), Table { fails: Arc::default(), ..table.clone() }).expect("forwarded");
    let kept = std::fs::read(&state).expect("a state");
    append(&mut writer, 20..40);
    forward(dir.path(), table.clone()).expect("forwarded");
    std::fs::write(&state, kept).expect("as it was");
    writer.close().expect("sealed");
    let counts = forward(dir.path(), table.clone()).expect("forwarded");
    assert_eq!(counts.rows_forwarded, 40 * ROWS, "counts go back with the position");
    assert!(table.numbers().into_iter().eq(0..40 * ROWS));
}

/// An archive of 12 deliveries: 4 were forwarded to the table, 6 expired after that, and 2 wait.
fn with_expired(dir: &Path, table: &Table) {
    let (mut writer, _) = Writer::open(dir, ArchiveOptions::default()).expect("an archive");
    append(&mut writer, 0..4);
    forward(dir, table.clone()).expect("forwarded");
    append(&mut writer, 4..10);
    writer.close().expect("sealed");
    let (mut writer, _) = Writer::open(dir, ArchiveOptions::default()).expect("an archive");
    append(&mut writer, 10..12);
    writer.close().expect("sealed");
    expire_oldest(dir);
}

/// The older of two segments goes.
fn expire_oldest(dir: &Path) {
    let to = |octets| ExpiryOptions { octets_max: Some(octets), low_water_percent: 100, ..ExpiryOptions::default() };
    let octets = expire(dir, &to(u64::MAX), true).expect("looked").octets_before;
    assert_eq!(expire(dir, &to(octets - 1), false).expect("expired").segments.len(), 1);
}

#[test]
fn what_expires_before_it_was_forwarded_is_counted() {
    let dir = tempfile::tempdir().expect("a folder");
    let table = Table::default();
    with_expired(dir.path(), &table);
    let counts = forward(dir.path(), table.clone()).expect("forwarded");
    assert_eq!((counts.rows_forwarded, counts.rows_lost, counts.deliveries_lost), (6 * ROWS, 6 * ROWS, 6));
    assert!(table.numbers().into_iter().eq((0..4 * ROWS).chain(10 * ROWS..12 * ROWS)));
}

/// After a store was away for long the way from what is lost to the end of the archive is long, too, and a restart is likely in it.
#[test]
fn what_expired_is_counted_by_whoever_comes_to_the_end() {
    let dir = tempfile::tempdir().expect("a folder");
    let table = Table::default();
    with_expired(dir.path(), &table);
    let counters = ForwardCounters::default();
    let forwarder = Forwarder::open(dir.path(), options(), table.clone(), counters.clone()).expect("a forwarder");
    let stopped = forwarder.run(|| counters.read().deliveries_lost > 0, || false, Duration::ZERO).expect("stopped");
    assert_eq!((stopped.rows_forwarded, stopped.rows_lost, stopped.deliveries_lost), (4 * ROWS, 0, 6));
    let counts = forward(dir.path(), table.clone()).expect("forwarded");
    assert_eq!((counts.rows_forwarded, counts.rows_lost, counts.deliveries_lost), (6 * ROWS, 6 * ROWS, 6));
    // and once
    assert_eq!(forward(dir.path(), table).expect("forwarded").rows_lost, 6 * ROWS);
}

/// Begins to forward 10 deliveries to a store that fails, then appends 2 and lets the 10 expire. Two of them are on their way to
/// the store, and can still be stored; the others are lost. `then` is called when this is known, and ends when forwarding may.
fn lose_while_away(dir: &Path, table: &Table, then: impl Fn(&ForwardCounters)) -> ForwardCounts {
    table.fails.lock().expect("fails").extend(1..100_000);
    let (mut writer, _) = Writer::open(dir, ArchiveOptions::default()).expect("an archive");
    append(&mut writer, 0..10);
    writer.close().expect("sealed");
    let check = Duration::from_millis(10);
    let options = ForwardOptions { rows_in_flight_max: 2 * ROWS, loss_check_interval: check, ..options() };
    let counters = ForwardCounters::default();
    let forwarder = Forwarder::open(dir, options, table.clone(), counters.clone()).expect("a forwarder");
    let is_stopping = std::sync::atomic::AtomicBool::new(false);
    let until = |is_met: &dyn Fn(&ForwardCounts) -> bool| {
        let began = std::time::Instant::now();
        while !is_met(&counters.read()) {
            assert!(began.elapsed() < Duration::from_mins(2), "{:?}", counters.read());
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    std::thread::scope(|scope| {
        let is_stopping = &is_stopping;
        let began = std::time::Instant::now();
        // also when this thread has failed
        let is_over = move || began.elapsed() > Duration::from_mins(3);
        let stops = move || is_over() || is_stopping.load(std::sync::atomic::Ordering::Relaxed);
        let run = scope.spawn(move || forwarder.run(stops, || false, Duration::ZERO).expect("stopped"));
        until(&|counts| counts.rows_in_flight == 2 * ROWS && counts.failures > 0);
        let (mut writer, _) = Writer::open(dir, ArchiveOptions::default()).expect("an archive");
        append(&mut writer, 10..12);
        writer.close().expect("sealed");
        expire_oldest(dir);
        until(&|counts| counts.rows_lost > 0 && counts.deliveries_waiting == 4);
        let counts = counters.read();
        assert_eq!((counts.rows_forwarded, counts.rows_lost, counts.deliveries_lost), (0, 8 * ROWS, 8));
        then(&counters);
        is_stopping.store(true, std::sync::atomic::Ordering::Relaxed);
        run.join().expect("no panic")
    })
}

/// A cluster is away for days, and the limits of the spool remove what waits for it: this must be known before it is back.
#[test]
fn what_expires_while_the_store_is_away_is_counted_then() {
    let dir = tempfile::tempdir().expect("a folder");
    let table = Table::default();
    let counts = lose_while_away(dir.path(), &table, |counters| {
        let kept = || forwarders(dir.path()).expect("read").remove(0).state.expect("its state");
        let began = std::time::Instant::now();
        while kept().counts.deliveries_lost == 0 {
            assert!(began.elapsed() < Duration::from_mins(2), "{:?}", kept());
        }
        let last = Snapshot::open(dir.path()).expect("a snapshot").position();
        let state = kept();
        assert_eq!((state.position, state.deliveries_waiting(last)), (FollowPosition::START, 4));
        assert_eq!((state.counts.rows_lost, state.counts.deliveries_lost), (8 * ROWS, 8));
        // the store is back, and what is lost is not counted again
        table.fails.lock().expect("fails").clear();
        while counters.read().rows_forwarded < 4 * ROWS {
            assert!(began.elapsed() < Duration::from_mins(2), "{:?}", counters.read());
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    assert_eq!((counts.rows_forwarded, counts.rows_lost), (4 * ROWS, 8 * ROWS));
    assert_eq!((counts.deliveries_forwarded, counts.deliveries_lost, counts.deliveries_waiting), (4, 8, 0));
    assert!(table.numbers().into_iter().eq((0..2 * ROWS).chain(10 * ROWS..12 * ROWS)));
    let state = forwarders(dir.path()).expect("read").remove(0).state.expect("its state");
    assert_eq!((state.counts.deliveries_lost, state.deliveries_lost_ahead), (8, 0));
}

/// What was on its way to the store is lost, too, when the process ends before the store is back.
#[test]
fn what_expired_while_the_store_was_away_is_counted_once_over_a_restart() {
    let dir = tempfile::tempdir().expect("a folder");
    let counts = lose_while_away(dir.path(), &Table::default(), |_| {});
    assert_eq!((counts.rows_lost, counts.deliveries_lost), (8 * ROWS, 8));
    let counters = ForwardCounters::default();
    let table = Table::default();
    let forwarder = Forwarder::open(dir.path(), options(), table.clone(), counters.clone()).expect("a forwarder");
    assert_eq!((counters.read().rows_lost, counters.read().deliveries_lost), (8 * ROWS, 8), "a count never shrinks");
    let counts = forwarder.run(|| false, || true, Duration::from_mins(1)).expect("forwarded");
    assert_eq!((counts.rows_forwarded, counts.rows_lost), (2 * ROWS, 10 * ROWS));
    assert_eq!((counts.deliveries_forwarded, counts.deliveries_lost, counts.deliveries_waiting), (2, 10, 0));
    assert!(table.numbers().into_iter().eq(10 * ROWS..12 * ROWS));
}

/// Of a delivery over midnight one day has expired. As long as the store is away it comes again after each restart.
#[test]
fn flows_that_are_missing_from_a_delivery_are_counted_once_over_restarts() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(dir.path(), ArchiveOptions::default()).expect("an archive");
    // three milliseconds of seven flows each are before midnight
    writer.append(Delivery::from(flows(0, BEGIN_MS - 3))).expect("appended");
    writer.rotate();
    append(&mut writer, 1..2);
    writer.close().expect("sealed");
    expire_oldest(dir.path());
    let table = Table::default();
    table.fails.lock().expect("fails").extend(1..100_000);
    for _ in 0..3 {
        let turns = *table.turns.lock().expect("turns");
        // what a process handed over ends with it
        table.begun.lock().expect("begun").clear();
        let counters = ForwardCounters::default();
        let forwarder = Forwarder::open(dir.path(), options(), table.clone(), counters.clone()).expect("a forwarder");
        let has_failed = || *table.turns.lock().expect("turns") > turns + 2;
        let counts = forwarder.run(has_failed, || false, Duration::ZERO).expect("stopped");
        assert_eq!((counts.rows_forwarded, counts.rows_lost), (0, 21), "it is known at once");
    }
    table.fails.lock().expect("fails").clear();
    table.begun.lock().expect("begun").clear();
    for _ in 0..2 {
        let counts = forward(dir.path(), table.clone()).expect("forwarded");
        assert_eq!((counts.rows_forwarded, counts.rows_lost), (2 * ROWS - 21, 21));
    }
}

#[test]
fn a_store_that_never_answers_holds_a_bounded_number_of_rows() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(dir.path(), ArchiveOptions::default()).expect("an archive");
    append(&mut writer, 0..100);
    let limits = ForwardOptions { rows_in_flight_max: 10 * ROWS, ..options() };
    let table = Table { is_stuck: true, ..Table::default() };
    let counters = ForwardCounters::default();
    let forwarder = Forwarder::open(dir.path(), limits, table.clone(), counters.clone()).expect("a forwarder");
    let has_begun = || table.begun.lock().expect("begun").len() == 10 && counters.read().deliveries_waiting == 100;
    let counts = forwarder.run(has_begun, || false, Duration::ZERO).expect("stopped");
    assert_eq!((counts.rows_in_flight, counts.rows_forwarded), (10 * ROWS, 0));
    // nothing was acknowledged, so all of it comes again
    let table = Table::default();
    assert_eq!(forward(dir.path(), table.clone()).expect("forwarded").rows_forwarded, 100 * ROWS);
    assert!(table.numbers().into_iter().eq(0..100 * ROWS));
}

#[test]
fn an_archive_that_was_made_anew_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let archive = dir.path().join("a");
    let (mut writer, _) = Writer::open(&archive, ArchiveOptions::default()).expect("an archive");
    append(&mut writer, 0..4);
    writer.close().expect("closed");
    forward(&archive, Table::default()).expect("forwarded");
    let kept = std::fs::read(archive.join("forward/forward")).expect("a state");
    std::fs::remove_dir_all(&archive).expect("removed");
    let (writer, _) = Writer::open(&archive, ArchiveOptions::default()).expect("an archive");
    std::fs::create_dir_all(archive.join("forward")).expect("a folder");
    std::fs::write(archive.join("forward/forward"), kept).expect("the old state");
    let error = forward(&archive, Table::default()).expect_err("another archive");
    assert!(matches!(error, ForwardError::UnknownPosition { .. }), "{error}");
    drop(writer);
    let nowhere = forward(&dir.path().join("none"), Table::default()).expect_err("no archive");
    assert!(matches!(nowhere, ForwardError::Follow { .. }), "{nowhere}");
    assert!(!dir.path().join("none").exists(), "nothing is made where there is no archive");
}

/// Beside a collector, whose archive keeps what waits, a wrong password must not end forwarding until somebody restarts it.
#[test]
fn a_refusal_ends_forwarding_unless_it_is_to_go_on() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(dir.path(), ArchiveOptions::default()).expect("an archive");
    append(&mut writer, 0..5);
    let refusing = || {
        let table = Table { refuses: true, ..Table::default() };
        table.fails.lock().expect("fails").extend(1..=7);
        table
    };
    let ended = forward(dir.path(), refusing()).expect_err("it is refused");
    assert!(matches!(ended, ForwardError::Store(StoreError::Refused(_))), "{ended}");
    let goes_on = ForwardOptions { retry_refused_after: Some(Duration::from_millis(3)), ..options() };
    let table = refusing();
    let forwarder =
        Forwarder::open(dir.path(), goes_on, table.clone(), ForwardCounters::default()).expect("a forwarder");
    let counts = forwarder.run(|| false, || true, Duration::from_mins(1)).expect("forwarded");
    assert_eq!((counts.rows_forwarded, counts.failures, counts.deliveries_waiting), (5 * ROWS, 7, 0));
    assert!(table.numbers().into_iter().eq(0..5 * ROWS));
    // one that is stopped while it is refused says so
    append(&mut writer, 5..6);
    let goes_on = ForwardOptions { retry_refused_after: Some(Duration::from_mins(1)), ..options() };
    let began = std::time::Instant::now();
    let forwarder = Forwarder::open(dir.path(), goes_on, refusing(), ForwardCounters::default()).expect("a forwarder");
    let is_stopping = || began.elapsed() > Duration::from_millis(300);
    let stopped = forwarder.run(is_stopping, || false, Duration::from_millis(10)).expect_err("it was refused");
    assert!(matches!(stopped, ForwardError::Store(StoreError::Refused(_))), "{stopped}");
}

/// Whoever goes on after refusals does so while flows come; to wait for the end of them could take for ever.
#[test]
fn the_end_does_not_wait_for_a_store_that_refuses() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(dir.path(), ArchiveOptions::default()).expect("an archive");
    append(&mut writer, 0..5);
    let table = Table { refuses: true, ..Table::default() };
    table.fails.lock().expect("fails").extend(1..=100);
    let goes_on = ForwardOptions { retry_refused_after: Some(Duration::from_mins(10)), ..options() };
    let thread = ForwardThread::start(dir.path(), goes_on, table).expect("a thread");
    let began = std::time::Instant::now();
    let is_over = || began.elapsed() > Duration::from_mins(1);
    while thread.counts().failures == 0 && !is_over() {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(!thread.has_ended(), "it goes on");
    let ended = thread.end(is_over).expect_err("it is refused");
    assert!(matches!(ended, ForwardError::Store(StoreError::Refused(_))), "{ended}");
    assert!(!is_over(), "it waited to be stopped");
}

/// An archive of these deliveries in a folder of this name.
fn archive(dir: &Path, name: &str, deliveries: std::ops::Range<u64>) -> PathBuf {
    let path = dir.join(name);
    let (mut writer, _) = Writer::open(&path, ArchiveOptions::default()).expect("an archive");
    append(&mut writer, deliveries);
    writer.close().expect("closed");
    path
}

/// A group whose stores have one table.
fn group(archives: &[PathBuf], table: &Table) -> ForwardGroup<Table> {
    let table = table.clone();
    let store = move || Table { begun: Arc::default(), ..table.clone() };
    ForwardGroup::new(archives.to_vec(), options(), store).retrying_after(Duration::ZERO)
}

/// Forwards archives to their ends.
fn forward_all(archives: &[PathBuf], table: &Table) -> Vec<GroupArchive> {
    let mut group = group(archives, table);
    assert!(group.tend().is_empty());
    group.end(|| false)
}

/// Tends a group until the table has so many rows.
fn until(group: &mut ForwardGroup<Table>, table: &Table, rows: u64) {
    let began = std::time::Instant::now();
    while table.numbers().len() as u64 != rows {
        assert!(began.elapsed() < Duration::from_mins(2), "{:?}", group.archives());
        assert!(group.tend().is_empty(), "a reason is returned once");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn archives_of_a_group_fail_by_themselves() {
    let dir = tempfile::tempdir().expect("a folder");
    let [good, damaged] = [("good", 0..10), ("damaged", 10..20)].map(|(name, range)| archive(dir.path(), name, range));
    let later = dir.path().join("later");
    let state = damaged.join("forward/forward");
    std::fs::create_dir_all(damaged.join("forward")).expect("a folder");
    std::fs::write(&state, "weir forward 1\nposition 0:3\ncrc32c 00000000\n").expect("written");
    let table = Table::default();
    let mut group = group(&[later.clone(), damaged.clone(), good], &table);
    let failures = group.tend();
    let [none, spoiled] = &failures[..] else { panic!("two failures: {failures:?}") };
    assert!(none.archive == later && matches!(none.error, ForwardError::Follow { .. }), "{none:?}");
    let is_damaged = matches!(spoiled.error, ForwardError::State(StateError::Damaged { .. }));
    assert!(spoiled.archive == damaged && is_damaged, "{spoiled:?}");
    until(&mut group, &table, 10 * ROWS);
    let failed: Vec<bool> = group.archives().iter().map(|archive| archive.has_failed).collect();
    assert_eq!(failed, [true, true, false]);
    assert!(!later.exists(), "nothing is made where there is no archive");

    // what comes later, or is mended, is forwarded without beginning the others again
    let elsewhere = archive(dir.path(), "elsewhere", 20..30);
    std::fs::rename(elsewhere, &later).expect("renamed");
    until(&mut group, &table, 20 * ROWS);
    std::fs::remove_file(&state).expect("removed");
    until(&mut group, &table, 30 * ROWS);
    let ended = group.end(|| false);
    assert!(ended.iter().all(|archive| !archive.has_failed && archive.error.is_none()), "{ended:?}");
    let forwarded: Vec<u64> = ended.iter().map(|archive| archive.counts.rows_forwarded).collect();
    assert_eq!(forwarded, [10 * ROWS; 3]);
    assert!(table.numbers().into_iter().eq(0..30 * ROWS));
}

#[test]
fn a_crash_of_a_group_repeats_what_each_archive_had_on_its_way() {
    let dir = tempfile::tempdir().expect("a folder");
    let archives = [("one", 0..10), ("other", 10..30)].map(|(name, range)| archive(dir.path(), name, range));
    let table = Table::default();
    table.fails.lock().expect("fails").extend([2, 3, 11, 12, 30]);
    forward_all(&archives, &table);
    // killed when more was stored than the positions say, of the one archive and not of the other
    let state = archives[0].join("forward/forward");
    let kept = std::fs::read(&state).expect("a state");
    archive(dir.path(), "one", 30..40);
    archive(dir.path(), "other", 40..50);
    forward_all(&archives, &table);
    std::fs::write(&state, kept).expect("as it was");
    let ended = forward_all(&archives, &table);
    let forwarded: Vec<u64> = ended.iter().map(|archive| archive.counts.rows_forwarded).collect();
    assert_eq!(forwarded, [20 * ROWS, 30 * ROWS]);
    assert!(table.numbers().into_iter().eq(0..50 * ROWS));
}

#[test]
fn forwarders_share_the_limit_of_what_is_in_flight_and_none_waits_for_another() {
    let dir = tempfile::tempdir().expect("a folder");
    let archives = [("a", 0..40), ("b", 40..80), ("c", 80..120)].map(|(name, range)| archive(dir.path(), name, range));
    let in_flight = InFlight::default();
    let begun = [(); 3].map(|()| Arc::<Mutex<Vec<ForwardDelivery>>>::default());
    let is_full = || {
        assert!(in_flight.deliveries() <= 10 + 3, "{in_flight:?}");
        let have_all_begun = begun.iter().all(|begun| !begun.lock().expect("begun").is_empty());
        have_all_begun && in_flight.rows() >= 10 * ROWS
    };
    std::thread::scope(|scope| {
        for (archive, begun) in archives.iter().zip(&begun) {
            let limits = ForwardOptions { rows_in_flight_max: 10 * ROWS, ..options() };
            let table = Table { is_stuck: true, begun: Arc::clone(begun), ..Table::default() };
            let forwarder = Forwarder::open(archive, limits, table, ForwardCounters::default()).expect("a forwarder");
            let forwarder = forwarder.sharing(in_flight.clone());
            scope.spawn(|| forwarder.run(is_full, || false, Duration::ZERO).expect("stopped"));
        }
    });
    assert_eq!((in_flight.deliveries(), in_flight.rows()), (0, 0), "what has ended gives back what it had");
}
