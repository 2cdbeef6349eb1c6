use std::path::Path;
use std::sync::Mutex;

use arrow::array::RecordBatch;
use crossbeam_channel::unbounded;
use weir_archive::FollowPosition;
use weir_chain::StopSignal;
use weir_flow::{Column, FlowBatchBuilder};
use weir_reports::{Journal, Retention};
use weir_sql::standing::{QuerySetup, StandingEngine, StandingOptions, WindowKind, WindowSpec};

use super::*;
use crate::file::WatchFile;
use crate::flow_source::{HistoryArchive, stream};
use crate::following::FollowThread;
use crate::open_windows::OpenWindows;
use crate::panes::{PaneOptions, Panes};
use crate::shared::permits;
use crate::waiting::WaitingCounts;

fn flow(received_ms: i64) -> RecordBatch {
    let mut builder = FlowBatchBuilder::new(1);
    builder.begin_rows(1);
    builder.time(Column::Received).push(Some(received_ms));
    builder.finish().record_batch().clone()
}

/// Windows of a second.
fn panes() -> OpenWindows {
    let kind = WindowKind { size_ms: 1_000, slide_ms: 1_000, offset_ms: 0 };
    let options = PaneOptions {
        windows: vec![Some(WindowSpec { kind, time: Column::Received })],
        columns: vec![Column::Received],
        lateness_ms: 0,
        late_ms: 0,
        skew_ms: 60_000,
        rows_max: 1_000,
        empty_windows: false,
    };
    OpenWindows::Panes(Box::new(Panes::new(options).expect("a window")))
}

fn followed(closed: Sender<WaitingWindow>) -> FollowedWatch {
    FollowedWatch {
        name: "one".to_owned(),
        panes: panes(),
        columns: vec![Column::Received],
        time: Column::Received,
        asked_through_ms: None,
        after: FollowPosition::START,
        idle: Duration::from_secs(1),
        closed,
        grown: bounded(1).0,
        counters: Arc::default(),
        is_shedding: false,
        left_out: 0,
        is_ahead: false,
    }
}

/// What watches over a chain share, of which one may ask at a time.
fn shared(journal: &Path) -> (Shared, Receiver<Message>) {
    let (messages, taken) = bounded(10);
    let shared = Shared {
        archive: String::new(),
        journal: Arc::new(Mutex::new(Journal::open(journal, Retention::default()).expect("a journal"))),
        history: Arc::new(HistoryArchive::named(None)),
        is_stream: true,
        permits: permits(1),
        messages,
        joined: Arc::default(),
        is_failed: Arc::default(),
        stop: StopSignal::new(),
    };
    (shared, taken)
}

/// Three windows close, of two rows, one and one, and two of them may wait. A time has eight octets.
#[test]
fn windows_that_wait_are_counted_with_their_rows() {
    let (closed, windows) = bounded(2);
    let mut watch = followed(closed);
    let mut ended = Vec::new();
    for received_ms in [0, 500, 1_000, 2_000, 3_000] {
        watch.panes.take(&flow(received_ms), &mut ended);
    }
    watch.hand_over(ended, false);
    let counts = || watch.counters.counts(weir_notify::NotifyCounts::default());
    let waiting = |windows, rows, octets| WaitingCounts { windows, rows, octets, octets_kept: 0 };
    assert_eq!((counts().windows_closed, counts().windows_shed), (3, 1));
    assert_eq!(counts().waiting, waiting(2, 3, 24));
    watch.counters.waiting.remove(&windows.recv().expect("a window"));
    assert_eq!(counts().waiting, waiting(1, 1, 8));
}

/// A watch that is slow keeps no more rows of windows that wait than of open ones, however many windows may wait.
#[test]
fn windows_that_wait_have_no_more_rows_than_a_watch_may_keep() {
    let (closed, windows) = bounded(64);
    let mut watch = followed(closed);
    let counts = |watch: &FollowedWatch| {
        let counts = watch.counters.counts(weir_notify::NotifyCounts::default());
        (counts.windows_shed, counts.waiting.windows, counts.waiting.rows)
    };
    let hand_over = |watch: &mut FollowedWatch, second: i64, rows: usize| {
        let mut ended = Vec::new();
        (0..rows).for_each(|_| watch.panes.take(&flow(second * 1_000), &mut ended));
        watch.panes.close_through((second + 1) * 1_000, &mut ended);
        watch.hand_over(ended, false);
        counts(watch)
    };
    // of windows of a second 1,000 rows may be kept
    assert_eq!(hand_over(&mut watch, 0, 600), (0, 1, 600));
    assert_eq!(hand_over(&mut watch, 1, 400), (0, 2, 1_000));
    assert_eq!(hand_over(&mut watch, 2, 1), (1, 2, 1_000));
    watch.counters.waiting.remove(&windows.recv().expect("a window"));
    assert_eq!(hand_over(&mut watch, 3, 600), (1, 2, 1_000));
    (0..2).for_each(|_| watch.counters.waiting.remove(&windows.recv().expect("a window")));
    // one may wait, whatever it has
    assert_eq!(hand_over(&mut watch, 4, 1_000), (1, 1, 1_000));
}

/// Of rows that were aggregated before their window closed nearly as many groups may be left as there were rows: 600 of 990.
#[test]
fn what_was_aggregated_takes_room_of_windows_that_wait() {
    let text = "SELECT received, count(*) AS n FROM TUMBLE(flows, received, INTERVAL '1' SECOND) GROUP BY received";
    let engine = StandingEngine::new(&StandingOptions::default()).expect("an engine");
    let setup = QuerySetup::default();
    let plain = engine.prepare(text, &setup).expect("a statement");
    let early = engine.prepare_early(&plain, text, &setup).expect("a statement").expect("it groups rows");
    let (closed, _windows) = bounded(64);
    let mut watch = followed(closed);
    let mut ended = Vec::new();
    for received_ms in (0..600).chain(0..390).chain(1_000..1_600).chain(1_000..1_390) {
        watch.panes.take(&flow(received_ms), &mut ended);
    }
    watch.panes.close_through(2_000, &mut ended);
    assert_eq!(ended.len(), 2);
    for window in &ended {
        early.aggregate(&window.rows, Duration::from_mins(1)).expect("aggregated");
    }
    watch.hand_over(ended, false);
    let counts = watch.counters.counts(weir_notify::NotifyCounts::default());
    assert_eq!((counts.windows_shed, counts.waiting.windows, counts.waiting.rows), (1, 1, 0));
}

/// With `when_full = "wait"` a chain waits for the follower, and that for the watch: a watch that panics must end all of it.
#[test]
fn nothing_waits_for_a_watch_that_panicked() {
    let folder = tempfile::tempdir().expect("a folder");
    let (shared, _messages) = shared(folder.path());
    let (_control, controls) = unbounded();
    let (closed, windows) = bounded(1);
    let watch = followed(closed);
    let (feed, source) = stream(2, true);
    let is_failed = Arc::clone(&shared.is_failed);
    let mut following = FollowThread { source, waits: true, watches: vec![watch], controls, shared };
    let follower = thread::spawn(move || following.run());
    let worker = thread::spawn(move || {
        let _panics = PanicFlag(is_failed);
        while !windows.is_full() {
            thread::yield_now();
        }
        panic!("a defect");
    });
    // far more windows than may wait
    let taken = (0..1_000).take_while(|second| feed.send(&flow(second * 1_000))).count();
    assert!(worker.join().is_err());
    follower.join().expect("the follower does not panic");
    assert!(taken < 1_000 && !feed.send(&flow(0)), "{taken}");
}

/// The question of another watch takes long, and all are stopped while a window waits for its turn: it is not asked any more, and
/// how far the watch is stays before it, so that the next start asks.
#[test]
fn a_window_whose_turn_comes_after_the_stop_is_left_to_the_next_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let (shared, _messages) = shared(folder.path());
    let text = "query = \"SELECT count(*) AS n FROM TUMBLE(flows, received, INTERVAL '1' SECOND)\"\nzone = 'UTC'";
    let file = WatchFile::parse(text, "one", Path::new("")).expect("a watch");
    let engine = StandingEngine::new(&StandingOptions::default()).expect("an engine");
    let watch = Watch::prepare(file, &engine, "").expect("a statement");
    let (control, controls) = unbounded();
    let counters = Arc::<WatchCounters>::default();
    let worker = Worker::start(watch, Arc::clone(&counters), control, &Arc::default(), &shared).expect("a thread");
    let Ok(FollowCommand::Join(mut followed)) = controls.recv() else { panic!("it joins") };
    let counts = || counters.counts(weir_notify::NotifyCounts::default());
    let mut hand_over = |second: i64| {
        let mut ended = Vec::new();
        followed.panes.take(&flow(second * 1_000), &mut ended);
        followed.panes.close_through((second + 1) * 1_000, &mut ended);
        followed.hand_over(ended, false);
    };
    hand_over(0);
    while counts().windows_answered + counts().windows_failed == 0 {
        thread::yield_now();
    }
    let other = shared.permit(|| false).expect("it is free");
    hand_over(1);
    while counts().waiting.windows > 0 {
        thread::yield_now();
    }
    shared.stop.set();
    drop(other);
    worker.join().expect("it does not panic");
    let (closed, answered, failed) = (counts().windows_closed, counts().windows_answered, counts().windows_failed);
    assert_eq!((closed, answered, failed), (2, 1, 0));
    let state = locked(&shared.journal).state("one").expect("a state");
    assert_eq!(state.map(|state| state.window_end_ms), Some(1_000));
}
