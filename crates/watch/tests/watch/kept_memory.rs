//! What windows of all watches may keep together, and who leaves out flows when it is too much.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_flow::Column;
use weir_sql::standing::{StandingEngine, StandingOptions, WindowKind, WindowMemory, WindowRows, WindowSpec};
use weir_watch::panes::{ClosedWindow, PaneOptions, Panes};
use weir_watch::sessions::{SessionOptions, Sessions};
use weir_watch::{Message, Runner, RunnerOptions};

use crate::scene::{Flow, NEW_YEAR_MS, Random, batch, traffic, watch};

const HOUR_MS: i64 = 3_600_000;

/// Windows of this length that keep these columns.
fn options(size_ms: i64, columns: &[Column]) -> PaneOptions {
    let kind = WindowKind { size_ms, slide_ms: size_ms, offset_ms: 0 };
    PaneOptions {
        windows: vec![Some(WindowSpec { kind, time: Column::Received })],
        columns: columns.to_vec(),
        lateness_ms: 0,
        late_ms: 0,
        skew_ms: 60_000,
        rows_max: 10_000_000,
        empty_windows: false,
    }
}

fn rows(window: &ClosedWindow) -> u64 {
    window.rows.iter().flat_map(WindowRows::batches).map(|batch| batch.num_rows() as u64).sum()
}

/// Flows of an hour in parts.
fn parts(seed: u64, flows: &[Flow]) -> Vec<&[Flow]> {
    let (mut random, mut rest, mut parts) = (Random::new(seed), flows, Vec::new());
    while !rest.is_empty() {
        let (part, left) = rest.split_at(rest.len().min(1 + random.below(300) as usize));
        parts.push(part);
        rest = left;
    }
    parts
}

#[test]
fn the_watch_that_keeps_most_leaves_out_flows_and_no_other() {
    const OCTETS_MAX: u64 = 400_000;
    let flows = traffic(3, 20_000, NEW_YEAR_MS, HOUR_MS - 1);
    let memory = WindowMemory::new(OCTETS_MAX);
    let (most, little) = (memory.question(), memory.question());
    let mut greedy = Panes::new(options(HOUR_MS, &[Column::Received, Column::Start, Column::End, Column::Bytes]))
        .expect("windows")
        .within(Some(most.clone()));
    let mut modest = Panes::new(options(60_000, &[Column::Received, Column::Packets]))
        .expect("windows")
        .within(Some(little.clone()));
    let (mut of_greedy, mut of_modest, mut kept_max) = (Vec::new(), Vec::new(), 0);
    for part in parts(1, &flows) {
        let rows = batch(part);
        greedy.take(rows.record_batch(), &mut of_greedy);
        // windows that have closed are answered, and go
        let mut closed = Vec::new();
        modest.take(rows.record_batch(), &mut closed);
        of_modest.extend(closed.iter().map(|window| (window.end_ms, self::rows(window), window.rows_left_out)));
        drop(closed);
        while memory.is_exceeded() {
            assert!(most.octets() > little.octets() && greedy.give_way());
        }
        kept_max = kept_max.max(memory.octets());
    }
    assert!(kept_max <= OCTETS_MAX && kept_max > OCTETS_MAX * 9 / 10, "{kept_max}");
    greedy.advance(NEW_YEAR_MS + 2 * HOUR_MS, &mut of_greedy);
    let mut closed = Vec::new();
    modest.advance(NEW_YEAR_MS + 2 * HOUR_MS, &mut closed);
    of_modest.extend(closed.iter().map(|window| (window.end_ms, self::rows(window), window.rows_left_out)));
    // the modest one has all flows of each minute
    for (end_ms, rows, left_out) in &of_modest {
        let within = |flow: &&Flow| (end_ms - 60_000..*end_ms).contains(&flow.received_ms);
        assert_eq!((*rows, *left_out), (flows.iter().filter(within).count() as u64, 0), "the minute until {end_ms}");
    }
    assert_eq!(of_modest.iter().map(|(_, rows, _)| rows).sum::<u64>(), flows.len() as u64);
    assert_eq!(modest.counts().rows_over_memory, 0);
    // of the greedy one, what is not there was left out and counted
    let counts = greedy.counts();
    assert_eq!(of_greedy.len(), 1);
    assert_eq!(rows(&of_greedy[0]) + of_greedy[0].rows_left_out, flows.len() as u64);
    assert!(counts.rows_over_memory > 5_000 && counts.rows_over_memory == of_greedy[0].rows_left_out, "{counts:?}");
    assert_eq!(counts.rows_shed, 0);
    // a window that waits has its memory
    assert!(most.octets() > 0);
    drop((of_greedy, closed));
    assert_eq!((memory.octets(), most.octets(), little.octets()), (0, 0, 0));
}

/// Two watches that keep more than there is do not outgrow one another.
#[test]
fn watches_that_keep_as_much_as_each_other_both_leave_out_flows() {
    const OCTETS_MAX: u64 = 200_000;
    let memory = WindowMemory::new(OCTETS_MAX);
    // of different columns, so that they share no memory
    let mut both = [[Column::Start, Column::Bytes], [Column::End, Column::Packets]].map(|columns| {
        let question = memory.question();
        (Panes::new(options(HOUR_MS, &columns)).expect("windows").within(Some(question.clone())), question)
    });
    for part in parts(2, &traffic(4, 20_000, NEW_YEAR_MS, HOUR_MS - 1)) {
        let rows = batch(part);
        for (panes, _) in &mut both {
            panes.take(rows.record_batch(), &mut Vec::new());
        }
        while memory.is_exceeded() {
            let most = both.iter_mut().max_by_key(|(_, question)| question.octets()).expect("two");
            assert!(most.0.give_way());
        }
    }
    for (panes, question) in &both {
        assert!(panes.counts().rows_over_memory > 5_000, "{:?}", panes.counts());
        assert!(question.octets() > OCTETS_MAX / 3, "{}", question.octets());
    }
}

/// Sessions of hosts within a memory.
fn sessions(memory: &Arc<WindowMemory>) -> Sessions {
    let text = "SELECT src_addr, sum(bytes) AS bytes FROM SESSION(flows, received, INTERVAL '1' MINUTE, key => src_addr) \
                GROUP BY src_addr, window_start, window_end";
    let engine = StandingEngine::new(&StandingOptions::default()).expect("an engine");
    let query = engine.prepare(text, &weir_sql::standing::QuerySetup::default()).expect("a statement");
    let relation = query.windows().iter().position(Option::is_some).expect("a window");
    let options = SessionOptions {
        windows: query.windows()[relation].expect("a window"),
        relation: (relation, query.windows().len()),
        lateness_ms: 0,
        skew_ms: 60_000,
        rows_max: 1_000_000,
        sessions_max: 1_000_000,
        empty_windows: false,
    };
    let input = query.session_input().expect("a plan").expect("sessions");
    Sessions::new(input, options).within(Some(memory.question()))
}

#[test]
fn flows_of_sessions_are_left_out_when_there_is_no_memory() {
    let flows = traffic(6, 20_000, NEW_YEAR_MS, 10_000);
    let memory = WindowMemory::new(100_000);
    let mut sessions = sessions(&memory);
    let mut closed = Vec::new();
    for part in parts(3, &flows) {
        sessions.take(batch(part).record_batch(), &mut closed);
        assert!(!memory.is_exceeded());
    }
    let counts = sessions.counts();
    assert!(closed.is_empty() && counts.rows_over_memory > 1_000, "{counts:?}");
    assert_eq!(sessions.rows_kept() + counts.rows_over_memory, flows.len() as u64);
    sessions.advance(NEW_YEAR_MS + HOUR_MS, &mut closed);
    assert!(!closed.is_empty());
    assert_eq!(closed.iter().map(|window| window.rows_left_out).sum::<u64>(), counts.rows_over_memory);
    assert_eq!(closed.iter().map(rows).sum::<u64>() + counts.rows_over_memory, flows.len() as u64);
    drop((sessions, closed));
    assert_eq!(memory.octets(), 0);
}

/// Flows with sources at random have few octets, and a session each.
#[test]
fn keys_of_sessions_take_memory_too() {
    const OCTETS_MAX: u64 = 4_000_000;
    let source = |number: i64| format!("10.{}.{}.{}", number >> 16, number >> 8 & 0xff, number & 0xff);
    let flow = |number: i64| Flow::new(NEW_YEAR_MS + number / 10, &source(number), "192.0.2.1");
    let flows: Vec<Flow> = (0..20_000).map(flow).collect();
    let memory = WindowMemory::new(OCTETS_MAX);
    let (mut sessions, mut closed) = (sessions(&memory), Vec::new());
    for part in parts(8, &flows) {
        sessions.take(batch(part).record_batch(), &mut closed);
        assert!(!memory.is_exceeded());
    }
    let (counts, open) = (sessions.counts(), sessions.sessions_open() as u64);
    assert!(closed.is_empty() && counts.rows_over_memory > 5_000, "{counts:?}");
    assert_eq!((open + counts.rows_over_memory, sessions.rows_kept()), (flows.len() as u64, open));
    assert!(memory.octets() > OCTETS_MAX * 9 / 10 && open > OCTETS_MAX / 1_000, "{open} in {}", memory.octets());
    // sessions that are open go on, also where most of each delivery is of further sources
    for round in 0..40 {
        let at = |number: i64| Flow { received_ms: NEW_YEAR_MS + 3_000 + round, ..flow(number) };
        let further = (0..250).map(|number| at(30_000 + 250 * round + number));
        let part: Vec<Flow> = further.chain((0..20).map(|number| at(number % 10))).collect();
        sessions.take(batch(&part).record_batch(), &mut closed);
        assert!(closed.is_empty() && !memory.is_exceeded());
    }
    let (over_before, counts) = (counts.rows_over_memory, sessions.counts());
    assert_eq!((sessions.rows_kept(), sessions.sessions_open() as u64), (open + 800, open));
    assert_eq!(counts.rows_over_memory, over_before + 10_000);
    // and they end as they would have
    sessions.advance(NEW_YEAR_MS + HOUR_MS, &mut closed);
    assert_eq!(closed.iter().map(rows).sum::<u64>(), open + 800);
    let last_ms = closed.iter().map(|window| window.end_ms).max();
    assert_eq!(last_ms, Some(NEW_YEAR_MS + 64_000));
    assert_eq!(closed.iter().map(|window| window.rows_left_out).sum::<u64>(), counts.rows_over_memory);
    drop(closed);
    // there is memory for others then
    let mut closed = Vec::new();
    let later: Vec<Flow> = flows
        .iter()
        .take(1_000)
        .map(|flow| Flow { received_ms: flow.received_ms + 2 * HOUR_MS, ..flow.clone() })
        .collect();
    sessions.take(batch(&later).record_batch(), &mut closed);
    assert_eq!((sessions.sessions_open(), sessions.counts().rows_over_memory), (1_000, counts.rows_over_memory));
    drop((sessions, closed));
    assert_eq!(memory.octets(), 0);
}

/// A median needs the flows of its hour, for which there is no memory; counts of seconds beside it do not suffer from that.
#[test]
fn watches_that_run_share_their_memory() {
    let journal = tempfile::tempdir().expect("a folder");
    let mut options = RunnerOptions { journal: Some(journal.path().to_owned()), ..RunnerOptions::new(Path::new("")) };
    options.standing.window_octets_max = 500_000;
    let (mut runner, feed) = Runner::start_fed(&options, None, 1_000, true).expect("a runner");
    let greedy = "SELECT count(*) AS flows, median(bytes) AS middle, median(packets) AS other FROM TUMBLE(flows, received, INTERVAL '1' HOUR)";
    let modest = "SELECT count(*) AS flows FROM TUMBLE(flows, received, INTERVAL '1' SECOND)";
    runner.add(watch("greedy", greedy, "repeat_after = '0s'")).expect("a watch");
    runner.add(watch("modest", modest, "repeat_after = '0s'")).expect("a watch");
    runner.wait_joined();
    // the hour begins with the year
    let flows: Vec<Flow> =
        (0..60_000).map(|number| Flow::new(NEW_YEAR_MS + number * 10, "10.0.0.1", "192.0.2.1")).collect();
    for part in parts(5, &flows) {
        assert!(feed.send(batch(part).record_batch()));
    }
    let until = Instant::now() + Duration::from_mins(2);
    while runner.counts().iter().any(|(_, counts)| counts.panes.rows < flows.len() as u64 - 300) {
        assert!(Instant::now() < until, "{:?}", runner.counts());
        std::thread::sleep(Duration::from_millis(1));
    }
    let kept = |name: &str, runner: &Runner| {
        let counts = runner.counts().into_iter().find(|(watch, _)| watch == name).expect("a watch").1;
        counts.waiting.all().into_iter().find(|(counter, _)| *counter == "octets_kept").expect("a counter").1
    };
    assert!(kept("greedy", &runner) > 0 && kept("greedy", &runner) <= 500_000);
    drop(feed);
    let (mut answers, mut seconds) = (Vec::new(), Vec::new());
    let counts = runner.finish(|message| match message {
        Message::Report(report) => {
            let flows = report.evidence[0]["flows"].as_u64().expect("a number");
            let of = if report.watch == "greedy" { &mut answers } else { &mut seconds };
            of.push((flows, report.rows_left_out));
        }
        Message::Notice(text) => panic!("{text}"),
    });
    let over = |name: &str| {
        let counts = counts.as_ref().expect("no error").iter().find(|(watch, _)| watch == name);
        counts.expect("a watch").1.panes.rows_over_memory
    };
    // all of a hundred flows of each of 600 seconds
    assert_eq!(seconds, [(100, 0); 600]);
    assert_eq!(over("modest"), 0);
    let [(flows_kept, left_out)] = answers[..] else { panic!("{answers:?}") };
    assert_eq!(flows_kept + left_out, flows.len() as u64);
    assert!(left_out > 10_000 && over("greedy") == left_out, "{left_out}");
}
