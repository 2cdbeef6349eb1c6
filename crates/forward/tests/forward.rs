//! Forwarding from archives that are written, sealed, killed, too small or too slow, to a store that fails as it likes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_archive::{
    ArchiveOptions, ExpiryOptions, FollowEvent, FollowOptions, FollowPosition, Follower, Snapshot, Writer, expire,
};
use weir_flow::{Column, Delivery, FlowBatch, FlowBatchBuilder};
use weir_forward::identity::row_keys;
use weir_forward::{
    ForwardCounters, ForwardCounts, ForwardDelivery, ForwardError, ForwardOptions, ForwardOutcome, ForwardStore,
    Forwarder, StateError, StoreError, StoredRows, forwarders,
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
    let last = Snapshot::open(dir.path()).expect("a snapshot").position();
    let found = forwarders(dir.path()).expect("read");
    let [own, other] = &found[..] else { panic!("two forwarders: {found:?}") };
    let state = own.state.as_ref().expect("its state");
    assert_eq!((own.name.as_str(), state.deliveries_waiting(last)), ("forward", 7));
    assert_eq!((state.counts.rows_forwarded, state.counts.deliveries_forwarded), (20 * ROWS, 20));
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

#[test]
fn what_expires_before_it_was_forwarded_is_counted() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(dir.path(), ArchiveOptions::default()).expect("an archive");
    append(&mut writer, 0..4);
    let table = Table::default();
    forward(dir.path(), table.clone()).expect("forwarded");
    append(&mut writer, 4..10);
    writer.close().expect("sealed");
    let (mut writer, _) = Writer::open(dir.path(), ArchiveOptions::default()).expect("an archive");
    append(&mut writer, 10..12);
    writer.close().expect("sealed");
    // the older of the two segments goes
    let to = |octets| ExpiryOptions { octets_max: Some(octets), low_water_percent: 100, ..ExpiryOptions::default() };
    let octets = expire(dir.path(), &to(u64::MAX), true).expect("looked").octets_before;
    assert_eq!(expire(dir.path(), &to(octets - 1), false).expect("expired").segments.len(), 1);
    let counts = forward(dir.path(), table.clone()).expect("forwarded");
    assert_eq!((counts.rows_forwarded, counts.rows_lost, counts.deliveries_lost), (6 * ROWS, 6 * ROWS, 6));
    assert!(table.numbers().into_iter().eq((0..4 * ROWS).chain(10 * ROWS..12 * ROWS)));
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
