//! What a question may use: memory of the whole process, and time, whatever the question is.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_sql::{Engine, EngineError, EngineOptions, QueryControl};

use crate::rows::{small_engine, small_engine_with};

const STATEMENT: &str = "WEIR_TEST_STATEMENT";
const MEMORY_OCTETS_MAX: usize = 256 << 20;

/// Questions that want more memory than there is, and whether they can be answered all the same, on disk.
const GREEDY: &[(&str, bool)] = &[
    ("SELECT length(repeat('x', 2000000000))", false),
    ("SELECT max(length(repeat('x', v + 1000000))) FROM generate_series(1, 100000) s(v)", false),
    ("SELECT max(length(lpad('x', v + 1000000))) FROM generate_series(1, 100000) s(v)", false),
    (
        "SELECT max(length(replace(rpad('x', v, 'x'), 'x', lpad('y', v, 'y')))) FROM generate_series(1, 3000) s(v)",
        false,
    ),
    ("SELECT cardinality(generate_series(1, 1000000000))", false),
    ("SELECT count(*) FROM (SELECT unnest(generate_series(1, v * 1000)) FROM generate_series(1, 100000) s(v))", false),
    ("SELECT cardinality(array_repeat('x', 1000000000))", false),
    ("SELECT repeat('x', 1000000) AS t FROM generate_series(1, 100000)", false),
    (
        "SELECT max(length(concat(t, v))) FROM (SELECT string_agg(CAST(w AS VARCHAR), ',') AS t FROM generate_series(1, 3000000) a(w)), generate_series(1, 100000) b(v)",
        false,
    ),
    (
        "SELECT max(length(t)) FROM (SELECT t, unnest(l) FROM (SELECT string_agg(CAST(w AS VARCHAR), ',') AS t, array_agg(w) AS l FROM generate_series(1, 1000000) a(w)))",
        false,
    ),
    ("SELECT max(s) FROM (SELECT sum(v) OVER () AS s, v FROM generate_series(1, 30000000) a(v))", false),
    ("SELECT cardinality(array_agg(v)) FROM generate_series(1, 60000000) a(v)", false),
    ("SELECT count(*) FROM generate_series(1, 20000000) a(v) JOIN generate_series(1, 20000000) b(w) ON v = w", false),
    (
        "SELECT count(*) FROM (SELECT v, lpad(CAST(v AS VARCHAR), 60, 'x') AS t, count(*) FROM generate_series(1, 4000000) a(v) GROUP BY v, t)",
        true,
    ),
    (
        "SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY t) AS n FROM (SELECT lpad(CAST(v % 7777777 AS VARCHAR), 60, 'x') AS t FROM generate_series(1, 4000000) a(v)))",
        true,
    ),
];

/// The largest memory of this process so far, in octets.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

fn ask(statement: &str) {
    let (folder, spill) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let options = EngineOptions {
        threads: 2,
        memory_octets_max: MEMORY_OCTETS_MAX,
        spill_folder: Some(spill.path().to_owned()),
        ..EngineOptions::default()
    };
    let engine = small_engine_with(folder.path(), &options);
    let mut rows = 0;
    let ended = engine.sql(statement).and_then(|answer| {
        for batch in answer {
            rows += batch?.num_rows();
        }
        Ok(())
    });
    match ended {
        Ok(()) => println!("\nanswered with {rows} rows; peak {}", peak()),
        Err(error) => println!("\nrefused: {}; peak {}", error.to_string().replace('\n', " "), peak()),
    }
}

/// Each question has a process of its own, whose memory is looked at as a whole.
#[test]
fn no_question_takes_more_memory_than_it_may() {
    if let Ok(statement) = std::env::var(STATEMENT) {
        return ask(&statement);
    }
    let this = std::env::current_exe().expect("the test's own path");
    let mut failures = Vec::new();
    for (statement, is_answered) in GREEDY {
        let mut child = Command::new(&this);
        child.args(["--exact", "limits::no_question_takes_more_memory_than_it_may", "--nocapture"]);
        let output = child.env(STATEMENT, statement).output().expect("a child");
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().find(|line| line.contains("; peak ")).unwrap_or("no report").to_owned();
        println!("{statement}\n  {line}");
        let octets = line.rsplit(' ').next().and_then(|octets| octets.parse::<usize>().ok());
        let is_right =
            if *is_answered { line.starts_with("answered") } else { line.starts_with("refused: not enough") };
        if !is_right || octets.is_none_or(|octets| octets > MEMORY_OCTETS_MAX / 10 * 13) {
            failures.push(format!("{statement}\n  {line}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Questions that take far longer than they may: in planning, in one step of a computation, while rows are sorted and
/// grouped, while they are joined, and on the way to the first of them.
const LONG: &[&str] = &[
    "SELECT levenshtein(repeat('ab', 25000), repeat('ba', 25000))",
    "SELECT count(*) FROM generate_series(1, 100000) a(v), generate_series(1, 100000) b(w), generate_series(1, 100000) c(x) WHERE (v * w + x) % 999983 = 5",
    "SELECT max(levenshtein(lpad(CAST(v AS VARCHAR), 600, 'a'), lpad(CAST(v AS VARCHAR), 600, 'b'))) FROM generate_series(1, 1000000) s(v)",
    "SELECT v FROM generate_series(1, 2000000000) s(v) ORDER BY v % 1000003, v",
    "SELECT v, count(DISTINCT w) FROM (SELECT v % 1000003 AS v, v % 7 AS w FROM generate_series(1, 2000000000) s(v)) GROUP BY v",
    "SELECT count(*) FROM generate_series(1, 40000000) a(v) JOIN generate_series(1, 3000000) b(w) ON v % 3000 = w % 3000",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t",
];

/// The caller gets its thread back long before the question would have ended. Nothing waits for the threads of the
/// question, and nothing asks how long exactly it took: the bound is that of a question that was not ended at all.
#[test]
fn every_question_ends_at_its_time_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let spill = tempfile::tempdir().expect("a folder");
    let options = EngineOptions { threads: 2, spill_folder: Some(spill.path().to_owned()), ..EngineOptions::default() };
    for (number, statement) in LONG.iter().enumerate() {
        let engine = Arc::new(small_engine_with(folder.path(), &options));
        let control = QueryControl { time_max: Some(Duration::from_millis(300)), ..QueryControl::default() };
        let began = Instant::now();
        let error = end_of(&engine, statement, &control).expect_err("too little time");
        println!("{statement}\n  {} ms", began.elapsed().as_millis());
        assert!(matches!(error, EngineError::TimeLimit { .. }), "{statement}: {error}");
        // cancelled by another thread while it is planned or runs
        let control = QueryControl::default();
        let progress = Arc::clone(&control.progress);
        let stopper = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20 * number as u64));
            progress.stop();
        });
        let error = end_of(&engine, statement, &control).expect_err("cancelled");
        assert!(matches!(error, EngineError::Cancelled { .. }), "{statement}: {error}");
        stopper.join().expect("stopped");
        let Some(engine) = Arc::into_inner(engine) else { panic!("nobody else has it") };
        engine.close(Duration::from_millis(10));
        // files go with the threads that use them
        let until = Instant::now() + Duration::from_mins(1);
        while std::fs::read_dir(spill.path()).expect("a folder").next().is_some() {
            assert!(Instant::now() < until, "{statement}: files were left");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn end_of(engine: &Engine, statement: &str, control: &QueryControl) -> Result<(), EngineError> {
    engine.sql_on(statement, control)?.try_for_each(|batch| batch.map(drop))
}

/// Whoever limits questions is told of threads that are still busy, and can wait for them.
#[test]
fn a_closed_engine_gives_back_threads_that_are_busy() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = small_engine(folder.path());
    let control = QueryControl { time_max: Some(Duration::from_millis(50)), ..QueryControl::default() };
    assert!(end_of(&engine, LONG[0], &control).is_err());
    let busy = engine.close(Duration::ZERO).expect("it cannot have ended");
    busy.wait();
    let engine = small_engine(folder.path());
    end_of(&engine, "SELECT count(*) FROM flows", &QueryControl::default()).expect("an answer");
    assert!(engine.close(Duration::from_mins(1)).is_none(), "nothing is left of a question that was answered");
}

/// Planning takes time with the square of these, and nothing interrupts it.
#[test]
fn what_would_take_minutes_to_plan_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = small_engine(folder.path());
    // levels that would take some seconds and less than a GB if they were not refused
    let levels = |count: usize, first: &str, next: &dyn Fn(usize) -> String| {
        (1..=count)
            .fold(format!("WITH t0 AS ({first})"), |text, level| format!("{text}, t{level} AS ({})", next(level - 1)))
    };
    let doubled = |before: usize| format!("SELECT * FROM t{before} UNION ALL SELECT * FROM t{before}");
    let read_often = levels(12, "SELECT bytes FROM flows", &doubled);
    let wide = levels(8, "SELECT * FROM flows", &doubled);
    let added = levels(14, "SELECT src_port AS x FROM flows", &|before| format!("SELECT x + x AS x FROM t{before}"));
    let joined = levels(14, "SELECT src_port AS x FROM flows", &|before| {
        format!("SELECT greatest(a.x, a.x, 1) AS x FROM (SELECT DISTINCT x FROM t{before}) a, (VALUES (1)) v(one)")
    });
    for (statement, expected) in [
        (format!("SELECT {}", vec!["1"; 100_000].join(" + ")), "the statement has more than 1000 operators"),
        (
            format!("SELECT count(*) FROM flows WHERE {}", vec!["src_port = 7"; 2000].join(" OR ")),
            "write values as a list, column IN (1, 2, …)",
        ),
        (format!("{read_often} SELECT count(*) FROM t12"), "more than 4000 operators, functions and queries"),
        (format!("{wide} SELECT count(*) FROM t8"), "more than 50000 columns in all of its subqueries"),
        (format!("{added} SELECT x FROM t14 WHERE x > 0"), "name a computed column less often"),
        (format!("{joined} SELECT x FROM t14 WHERE x > 0"), "name a computed column less often"),
    ] {
        let refused =
            [engine.sql(&statement).map(drop), engine.describe_on(&statement, &[], &QueryControl::default()).map(drop)];
        for error in refused.map(|planned| planned.expect_err("too much")) {
            assert!(matches!(error, EngineError::Mistake(_)), "{error}");
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
    let listed: Vec<String> = (0..20_000).map(|port| port.to_string()).collect();
    let statement = format!("SELECT count(*) FROM flows WHERE src_port IN ({})", listed.join(", "));
    end_of(&engine, &statement, &QueryControl::default()).expect("an answer");
}

/// A question whose thread is busy does not hold up the next one to the same engine.
#[test]
fn a_busy_question_does_not_hold_up_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = small_engine(folder.path());
    let control = QueryControl { time_max: Some(Duration::from_millis(50)), ..QueryControl::default() };
    for _ in 0..3 {
        assert!(end_of(&engine, LONG[0], &control).is_err());
    }
    let answer = engine.sql("SELECT count(*) FROM flows").expect("asked");
    assert_eq!(answer.map(|batch| batch.expect("an answer").num_rows()).sum::<usize>(), 1);
}
